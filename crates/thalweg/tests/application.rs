//! Programs as a person runs them: `squares`, `quiet_source` and `until_stopped` of `examples`, as child
//! processes.

mod build;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The folder of the programs.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        build::examples(&["-p", "thalweg"], &["squares", "quiet_source", "until_stopped"])
    })
}

/// A call of the program in a folder of its own, where nothing else sets anything.
struct Call {
    command: Command,
    folder: tempfile::TempDir,
}

impl Call {
    fn new(arguments: &[&str]) -> Self {
        Self::of("squares", arguments)
    }

    fn of(program: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(programs().join(program));
        command.args(arguments).current_dir(folder.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THALWEG_") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, folder }
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        self
    }

    fn run(mut self) -> Ended {
        Ended::from(self.command.output().unwrap())
    }
}

/// How a call ended.
struct Ended {
    status: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Waits for a child that must end by itself.
fn ended(mut child: Child) -> Ended {
    let limit = Instant::now() + Duration::from_secs(30);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > limit {
            child.kill().unwrap();
            panic!("the program hangs: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ended::from(child.wait_with_output().unwrap())
}

fn send(signal: &str, child: &Child) {
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[test]
fn results_alone_are_on_standard_output() {
    let ended = Call::new(&["--records", "10"]).run();
    assert_eq!((ended.status, &*ended.err), (Some(0), ""));
    assert_eq!(ended.out, "0\t0\n1\t1\n2\t4\n3\t9\n4\t16\n5\t25\n6\t36\n7\t49\n8\t64\n9\t81\n");
}

#[test]
fn numbers_of_tasks_are_set_by_the_names_in_the_plan() {
    let expected = Call::new(&[]).run().out;
    let arguments = ["--tasks", "sum=3", "--tasks", "range=5"];
    let set = Call::new(&arguments).run();
    assert_eq!((set.status, &*set.err, set.out), (Some(0), "", expected.clone()));
    let explained = Call::new(&[&arguments[..], &["--explain"]].concat()).run().out;
    for stage in ["\nstage 0: 5 tasks\n", "\nstage 1: 3 tasks\n"] {
        assert!(explained.contains(stage), "{explained}");
    }
    let file = Call::new(&["--explain"]).file("thalweg.toml", "tasks = { sum = 7 }\n").run().out;
    assert!(file.contains("\nstage 1: 7 tasks\n"), "{file}");
    let wrong = Call::new(&["--tasks", "som=3"]).run();
    assert_eq!((wrong.status, &*wrong.out), (Some(2), ""));
    let start = "error: the number of tasks `som=3` is not possible: no stage of the job has this name; there are \
                 stage 0 (range, map, ";
    assert!(wrong.err.starts_with(start), "{}", wrong.err);
    let zero = Call::new(&["--tasks", "sum=0"]).run();
    assert!(zero.err.contains("invalid value 'sum=0' for '--tasks <NAME=N>'"), "{}", zero.err);
}

/// What each of two hosts with these files of hosts prints, the first one first.
fn on_two_hosts(files: [&str; 2], arguments: &[&str]) -> [Ended; 2] {
    let address = format!("127.0.0.1:{}", thalweg::check::free_port());
    let secret = tempfile::tempdir().unwrap();
    let secret = secret.path().join("secret");
    std::fs::write(&secret, "the secret of these two processes\n").unwrap();
    set_private(&secret);
    let mut id = 0;
    let hosts = files.map(|file| {
        let text = file.replace("ADDRESS", &address);
        let number = id.to_string();
        id += 1;
        let file = ["--hosts", "hosts.toml", "--host-id", &number];
        let mut call = Call::new(&[&file[..], arguments].concat()).file("hosts.toml", &text);
        call.command.arg("--secret-file").arg(&secret);
        let child = call.command.spawn().unwrap();
        (call, child)
    });
    hosts.map(|(_folder, child)| ended(child))
}

/// Lets only this user read a file, as that of a secret.
fn set_private(file: &Path) {
    let mut allowed = Command::new("chmod");
    assert!(allowed.arg("600").arg(file).status().unwrap().success());
}

#[test]
fn hosts_have_numbers_of_tasks_in_their_file() {
    let expected = Call::new(&[]).run().out;
    let file = |more: &str| {
        format!(
            "[[hosts]]\naddress = 'ADDRESS'\ncores = 1\ntasks = {{ sum = 1 }}\n\
             [[hosts]]\naddress = 'localhost'\ncores = 1\n{more}\n"
        )
    };
    let same = file("tasks = { sum = 3, range = 0 }");
    let [first, second] = on_two_hosts([&same, &same], &[]);
    assert_eq!((first.status, &*first.err, first.out), (Some(0), "", expected));
    assert_eq!((second.status, &*second.err), (Some(0), ""));
    let [first, _] = on_two_hosts([&same, &same], &["--explain"]);
    for stage in ["\nstage 0: 1 task, 1+0 on the hosts\n", "\nstage 1: 4 tasks, 1+3 on the hosts\n"]
    {
        assert!(first.out.contains(stage), "{}", first.out);
    }
    // A flag goes over the file.
    let [first, _] = on_two_hosts([&same, &same], &["--explain", "--tasks", "sum=5"]);
    assert!(first.out.contains("\nstage 1: 5 tasks\n"), "{}", first.out);
    // Files that differ are found out before anything runs.
    let other = file("tasks = { sum = 2, range = 0 }");
    for host in on_two_hosts([&same, &other], &[]) {
        assert!(host.status != Some(0) && host.out.is_empty(), "{}", host.err);
        let differs = "stage 1: placement is {\"on_hosts\":[1,3]} on host 0, and {\"on_hosts\":[1,2]} on host 1";
        assert!(host.err.contains(differs), "{}", host.err);
    }
    // So is a name that one of them alone has wrong.
    let wrong = file("tasks = { sum = 3, rage = 0 }");
    for host in on_two_hosts([&same, &wrong], &[]) {
        assert!(host.err.contains("`rage=_+0` is not possible: no stage"), "{}", host.err);
    }
}

#[test]
fn a_mistyped_flag_ends_with_what_was_meant() {
    let ended = Call::new(&["--cors", "2"]).run();
    assert_eq!((ended.status, &*ended.out), (Some(2), ""));
    assert!(ended.err.contains("unexpected argument '--cors'"), "{}", ended.err);
    assert!(ended.err.contains("'--cores'"), "{}", ended.err);
}

#[test]
fn a_wrong_value_is_told_wherever_it_stands() {
    let flag = Call::new(&["--memory", "lots"]).run();
    assert!(flag.err.contains("invalid value 'lots' for '--memory <BYTES>'"), "{}", flag.err);
    assert!(flag.err.contains("allowed is a number of bytes"), "{}", flag.err);
    let variable = Call::new(&[]).variable("THALWEG_TURN", "zero").run();
    assert_eq!(
        variable.err,
        "error: `THALWEG_TURN` cannot be `zero`: allowed is a whole number of at least 1\n"
    );
    let file = Call::new(&[]).file("thalweg.toml", "cores = 2\nbatch = \"huge\"\n").run();
    assert!(
        file.err.starts_with("error: thalweg.toml:2: `batch` cannot be `huge`: allowed is adap"),
        "{}",
        file.err
    );
    let missing = Call::new(&["--config", "none.toml"]).run();
    assert!(missing.err.starts_with("error: none.toml: cannot read the"), "{}", missing.err);
    for ended in [flag, variable, file, missing] {
        assert_eq!((ended.status, &*ended.out), (Some(2), ""));
    }
}

#[test]
fn a_flag_goes_over_a_variable_over_a_file() {
    let cores = |call: Call| {
        let ended = call.run();
        assert_eq!((ended.status, &*ended.err), (Some(0), ""));
        let at = ended.out.find("to be run on ").unwrap();
        ended.out[at..].split_whitespace().nth(4).unwrap().parse::<usize>().unwrap()
    };
    let file = "cores = 5\nexplain = true\n";
    assert_eq!(cores(Call::new(&[]).file("thalweg.toml", file)), 5);
    let both = || Call::new(&[]).file("thalweg.toml", file).variable("THALWEG_CORES", "6");
    assert_eq!(cores(both()), 6);
    assert_eq!(cores(Call::new(&["--cores=7"]).file("thalweg.toml", file)), 7);
    let all = Call::new(&["--cores=7"]).file("thalweg.toml", file);
    assert_eq!(cores(all.variable("THALWEG_CORES", "6")), 7);
    let named = Call::new(&["--config", "mine.toml", "--explain"]);
    assert_eq!(cores(named.file("mine.toml", "cores = 3").file("thalweg.toml", file)), 3);
}

#[test]
fn explain_prints_the_plan_and_runs_nothing() {
    // A job that would take half an hour.
    let slow = ["--records", "1000000", "--waste", "5000", "--cores", "1"];
    let text = Call::new(&[&slow[..], &["--explain"]].concat()).run();
    assert_eq!((text.status, &*text.err), (Some(0), ""));
    assert!(text.out.contains("examples/squares.rs:"), "{}", text.out);
    assert!(text.out.contains("keyed by u64 ─▶ stage 1"), "{}", text.out);
    let json = Call::new(&[&slow[..], &["--explain=json"]].concat()).run();
    let plan = thalweg::plan::Plan::from_json(&json.out).unwrap();
    assert_eq!(plan.operators[0].kind, "range");
    assert!(text.out.starts_with(&plan.to_string()), "{}", text.out);
    let dot = Call::new(&[&slow[..], &["--explain=dot"]].concat()).run();
    assert_eq!(dot.out, plan.to_dot());
}

#[test]
fn explain_says_where_checkpoints_will_be() {
    let saved = Call::new(&["--explain", "--checkpoint", "saved"]).run();
    assert!(saved.out.ends_with("checkpoints in saved, one each 1.00 s\n"), "{}", saved.out);
}

#[test]
fn a_program_that_goes_on_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("saved");
    let arguments = |waste: &'static str| {
        let dir = dir.to_str().unwrap();
        [
            "--records",
            "20000",
            "--waste",
            waste,
            "--checkpoint",
            dir,
            "--checkpoint-interval",
            "5ms",
        ]
    };
    let slow = arguments("2000");
    let mut first = Call::new(&slow).command.spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(30);
    let saved = || {
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let is_checkpoint =
            |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|end| end == "state");
        entries.filter(is_checkpoint).count()
    };
    while saved() == 0 {
        assert!(Instant::now() < limit, "there are no checkpoints");
        std::thread::sleep(Duration::from_millis(5));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    // The program can be compared with the checkpoint first, which changes nothing.
    let path = dir.to_str().unwrap();
    let compared = Call::new(&["--records", "20000", "--plan-against", path]).run();
    assert_eq!((compared.status, &*compared.err), (Some(0), ""), "{}", compared.out);
    assert!(compared.out.contains("\nthe job would go on from checkpoint "), "{}", compared.out);
    let other = Call::new(&["--records", "30000", "--plan-against", path]).run();
    assert_eq!((other.status, &*other.err), (Some(1), ""), "{}", other.out);
    assert!(other.out.contains("\nthe job would be refused with checkpoint "), "{}", other.out);
    let nothing = Call::new(&["--plan-against", "nowhere"]).run();
    assert_eq!((nothing.status, &*nothing.out), (Some(1), ""));
    assert!(nothing.err.contains("nowhere"), "{}", nothing.err);
    let second = Call::new(&arguments("0")).run();
    assert_eq!(second.status, Some(0), "{}", second.err);
    assert!(second.err.starts_with("the job goes on from checkpoint "), "{}", second.err);
    assert_eq!(second.err.lines().count(), 1, "{}", second.err);
    let plain = Call::new(&["--records", "20000"]).run();
    assert_eq!((plain.out, &*plain.err), (second.out, ""));
}

#[test]
fn stats_are_on_standard_error() {
    let ended = Call::new(&["--records", "5000", "--stats"]).run();
    assert_eq!(ended.status, Some(0));
    assert_eq!(ended.out.lines().count(), 10);
    assert!(ended.err.starts_with("the job took "), "{}", ended.err);
    let row = |name: &str| {
        let line = ended.err.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {}", ended.err)).split_whitespace()
    };
    assert_eq!(row("range ").take(3).collect::<Vec<_>>(), ["range", "-", "5,000"]);
    assert_eq!(row("map ").take(3).collect::<Vec<_>>(), ["map", "5,000", "5,000"]);
    assert_eq!(row("collect ").take(3).collect::<Vec<_>>(), ["collect", "10", "-"]);

    let ended = Call::new(&["--records", "5000", "--stats=json"]).run();
    let stats: thalweg::metrics::Stats = serde_json::from_str(&ended.err).unwrap();
    assert_eq!(stats.operators[0].records_out, Some(5000));
    assert!(stats.wall > Duration::ZERO);
    assert!(stats.stages.iter().all(|stage| stage.turns > 0), "{stats:?}");
}

#[test]
fn progress_is_shown_in_lines_where_there_is_no_terminal() {
    let job = ["--records", "120000", "--waste", "20", "--cores", "2", "--turn", "1"];
    let call = [&job[..], &["--progress", "always"]].concat();
    let ended = Call::new(&call).run();
    assert_eq!(ended.status, Some(0));
    let first = ended.err.lines().next().unwrap_or_default();
    assert!(first.contains(" records read, ") && first.contains("%"), "{}", ended.err);
    assert!(first.ends_with(" s left") || first.ends_with("100%"), "{}", ended.err);
}

#[test]
fn windows_that_wait_for_a_quiet_source_say_so() {
    // It runs until the line is there, however long that takes.
    let mut child = Call::of("quiet_source", &["--stall-after", "200ms"]).command.spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let (sent, lines) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(std::result::Result::ok) {
            // The test may have failed.
            let _ = sent.send(line);
        }
    });
    let Ok(line) = lines.recv_timeout(Duration::from_secs(120)) else {
        child.kill().unwrap();
        panic!("nothing was said in two minutes");
    };
    send("INT", &child);
    let ended = ended(child);
    reader.join().unwrap();
    let rest = lines.iter().collect::<Vec<_>>().join("\n");
    // The windows that were open have their results.
    assert_eq!(ended.status, Some(0), "{line}\n{rest}");
    assert!(ended.out.starts_with("1970-01-01T00:00:00Z\t"), "{}", ended.out);

    // Records are kept where they are read until time has passed the end of their slice.
    assert!(
        line.starts_with("window_all (") && line.contains("examples/quiet_source.rs:"),
        "{line}"
    );
    let waits = "records arrive and no window has ended; the first that is open ends at \
                 1970-01-01T00:00:01Z; ";
    assert!(line.contains(waits), "{line}");
    let why = "the watermark stands at 1970-01-01T00:00:00Z: partition 0 has had nothing that moves it for ";
    let sources: Vec<&str> = line.split("; ").skip(2).collect();
    assert_eq!(sources.len(), 2, "{line}");
    assert!(sources.iter().all(|said| said.starts_with("assign_timestamps (")), "{line}");
    assert!(sources[1].contains(why) && !sources[0].contains(why), "{line}");
    // And again, as long as nothing changes.
    assert!(
        rest.lines()
            .all(|line| line.is_empty()
                || [waits, "draining: "].iter().any(|said| line.contains(said))),
        "{rest}"
    );
}

#[test]
fn nothing_is_said_of_windows_that_have_results_or_where_that_is_not_wanted() {
    for (flags, lines) in [
        // Three windows, the last of which ends with the stream, as all do where the quiet source is
        // waited for.
        (&["--idle-after", "50"][..], 3),
        (&["--stall-after", "never"], 3),
    ] {
        let call = [&["--readings", "2500"][..], flags].concat();
        let ended = Call::of("quiet_source", &call).run();
        assert_eq!((ended.status, &*ended.err), (Some(0), ""));
        assert_eq!(ended.out.lines().count(), lines, "{}", ended.out);
        assert!(ended.out.contains("1970-01-01T00:00:01Z\t1000\n"), "{}", ended.out);
    }
}

#[test]
fn late_records_that_were_dropped_are_told_at_the_end() {
    // A clock that moves by itself: the second reading of the quiet source comes a quarter of a second after its
    // window had its result.
    let call = ["--scheduler", "deterministic", "--readings", "2500", "--idle-after", "50"];
    let ended = Call::of("quiet_source", &[&call[..], &["--quiet-readings", "2"]].concat()).run();
    assert_eq!((ended.status, ended.out.lines().count()), (Some(0), 3), "{}", ended.err);
    assert!(ended.err.contains("examples/quiet_source.rs:"), "{}", ended.err);
    let lost = "): 1 late record was dropped; assign timestamps before records are shuffled, allow for more disorder there, or, for \
                windows, for lateness (`allowed_lateness`), or take late records from a stream of their own \
                (`late_output`)\n";
    assert!(ended.err.starts_with("window_all (") && ended.err.ends_with(lost), "{}", ended.err);
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
}

#[test]
fn a_signal_drains_a_job_without_an_end() {
    for (signal, name) in [("INT", "Ctrl-C"), ("TERM", "SIGTERM")] {
        for scheduler in ["work-stealing", "thread-per-task"] {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out.txt");
            let flags = ["--rate", "1e5", "--scheduler", scheduler, "--out"];
            let call = [&flags[..], &[out.to_str().unwrap()]].concat();
            let child = Call::of("until_stopped", &call).command.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(500));
            assert!(!out.exists());
            send(signal, &child);
            let ended = ended(child);
            let notice = "\ndraining: the input ends here, and what was read is worked through; ";
            assert_eq!(ended.err, format!("{notice}{name} again to cancel\n"));
            assert_eq!((ended.status, &*ended.out), (Some(0), ""));
            let text = std::fs::read_to_string(out).unwrap();
            let mut ticks: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
            ticks.sort_unstable();
            assert!(!ticks.is_empty() && ticks.iter().copied().eq(0..ticks.len() as u64));
        }
    }
}

#[test]
fn a_second_signal_cancels_a_job_that_drains() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.txt");
    // What was read would take minutes.
    let flags = ["--rate", "1e5", "--waste", "20000", "--turn", "1", "--batch", "single", "--out"];
    let call = [&flags[..], &[out.to_str().unwrap()]].concat();
    let mut child = Call::of("until_stopped", &call).command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    send("INT", &child);
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none());
    send("TERM", &child);
    let ended = ended(child);
    assert_eq!((ended.status, &*ended.out), (Some(143), ""), "{}", ended.err);
    assert!(ended.err.contains("Ctrl-C again to cancel"), "{}", ended.err);
    assert!(
        ended.err.ends_with("SIGTERM again to stop at once\nerror: ended by SIGTERM\n"),
        "{}",
        ended.err
    );
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn a_signal_cancels_the_job() {
    let signals = [("INT", 130, "interrupted by Ctrl-C"), ("TERM", 143, "ended by SIGTERM")];
    for (signal, status, why) in signals {
        for scheduler in ["work-stealing", "thread-per-task", "deterministic"] {
            let slow = ["--records", "100000000", "--waste", "20", "--scheduler", scheduler];
            let child = Call::new(&slow).command.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(500));
            send(signal, &child);
            let ended = ended(child);
            assert_eq!((ended.status, &*ended.out), (Some(status), ""), "{}", ended.err);
            assert!(ended.err.ends_with(&format!("error: {why}\n")), "{}", ended.err);
        }
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    for (first, second, status, name) in [
        ("INT", "INT", 130, "Ctrl-C"),
        ("TERM", "TERM", 143, "SIGTERM"),
        ("TERM", "INT", 130, "SIGTERM"),
    ] {
        // One batch of these takes more than an hour.
        let slow = ["--records", "100000", "--waste", "1000000"];
        let child = Call::new(&slow).command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        send(first, &child);
        // Earlier, a second SIGTERM would be the same request.
        std::thread::sleep(Duration::from_millis(1200));
        send(second, &child);
        let ended = ended(child);
        assert_eq!((ended.status, &*ended.out), (Some(status), ""), "{}", ended.err);
        assert!(ended.err.contains(&format!("{name} again to stop at once")), "{}", ended.err);
    }
}

/// The number of the checkpoint that a program goes on from, by its last line.
fn suspended_at(ended: &Ended, dir: &str) -> u64 {
    assert_eq!((ended.status, &*ended.out), (Some(143), ""), "{}", ended.err);
    let said = ended.err.lines().last().unwrap_or_default();
    let number = said.strip_prefix("suspended by SIGTERM: it goes on from checkpoint ");
    let number = number.and_then(|rest| {
        rest.strip_suffix(&format!(" of {dir} when it is started again"))?.parse().ok()
    });
    number.unwrap_or_else(|| panic!("{}", ended.err))
}

#[test]
fn a_job_with_checkpoints_is_suspended_by_sigterm_and_drained_by_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    let [out, saved] =
        ["out.txt", "saved"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let mut checkpoints = 0;
    for (run, signal) in ["TERM", "TERM", "INT"].into_iter().enumerate() {
        // No checkpoint but the last one.
        let flags = ["--rate", "1e4", "--checkpoint-interval", "1000s", "--checkpoint", &saved];
        let cores = (1 + run).to_string();
        let flags = [&flags[..], &["--cores", &cores, "--out", &out]].concat();
        let child = Call::of("until_stopped", &flags).command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        send(signal, &child);
        let ended = ended(child);
        assert_eq!(
            run > 0,
            ended.err.contains("the job goes on from checkpoint "),
            "{}",
            ended.err
        );
        if signal == "TERM" {
            let notice =
                "\nsuspending: the job ends with a last checkpoint; SIGTERM again to cancel\n";
            assert!(ended.err.contains(notice), "{}", ended.err);
            checkpoints += 1;
            assert_eq!(suspended_at(&ended, &saved), checkpoints);
            assert!(!Path::new(&out).exists());
        } else {
            assert_eq!(ended.status, Some(0), "{}", ended.err);
            assert!(ended.err.contains("\ndraining: the input ends here"), "{}", ended.err);
        }
    }
    let text = std::fs::read_to_string(out).unwrap();
    let mut ticks: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    ticks.sort_unstable();
    assert!(ticks.len() > 1000 && ticks.iter().copied().eq(0..ticks.len() as u64));
}

#[test]
fn a_job_whose_input_ends_is_suspended_by_sigterm_too() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("saved").to_str().unwrap().to_owned();
    let run = |waste: &str| {
        let flags = ["--records", "20000", "--waste", waste, "--checkpoint", &saved];
        Call::new(&[&flags[..], &["--checkpoint-interval", "50ms"]].concat())
            .command
            .spawn()
            .unwrap()
    };
    let child = run("1000");
    std::thread::sleep(Duration::from_millis(1000));
    send("TERM", &child);
    suspended_at(&ended(child), &saved);
    let expected = Call::new(&["--records", "20000"]).run().out;
    let again = ended(run("0"));
    assert_eq!((again.status, again.out), (Some(0), expected), "{}", again.err);
}

#[test]
fn a_second_signal_cancels_a_job_that_is_being_suspended() {
    let folder = tempfile::tempdir().unwrap();
    let [out, saved] =
        ["out.txt", "saved"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    // A barrier would take minutes behind what was read.
    let flags = ["--rate", "1e5", "--waste", "20000", "--turn", "1", "--batch", "single", "--out"];
    let call = [&flags[..], &[&out, "--checkpoint", &saved]].concat();
    let mut child = Call::of("until_stopped", &call).command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    send("TERM", &child);
    // At once, it is the same request.
    send("TERM", &child);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none());
    send("TERM", &child);
    let ended = ended(child);
    assert_eq!((ended.status, &*ended.out), (Some(143), ""), "{}", ended.err);
    let last = "\nstopping; SIGTERM again to stop at once\nerror: ended by SIGTERM\n";
    assert!(ended.err.ends_with(last), "{}", ended.err);
}
