//! `thalweg launch` with real processes. Those of `--hosts` are on this machine, behind a program in the place of ssh.

#[path = "../../thalweg/tests/build/mod.rs"]
mod build;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything here should take; a hang fails.
const LONG: Duration = Duration::from_secs(90);

/// The root of the repository, where the examples find their input.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folder of example programs of other packages.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let packages = ["-p", "thalweg-first", "-p", "thalweg-cli", "-p", "thalweg-examples"];
        let features = ["--features", "thalweg/tls"];
        let names = ["wordcount", "misbehave", "connected_components", "kmeans"];
        build::examples(&[&packages[..], &features].concat(), &names)
    })
}

/// A command without settings from outside, and a mark by which its processes are found.
fn command(program: impl AsRef<std::ffi::OsStr>) -> (Command, String) {
    static MARKS: AtomicUsize = AtomicUsize::new(0);
    let mark = format!("{}-{}", std::process::id(), MARKS.fetch_add(1, Ordering::Relaxed));
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("THALWEG_") {
            command.env_remove(name);
        }
    }
    command.current_dir(root()).env("MARK_OF_TEST", &mark).stdin(Stdio::null());
    (command, mark)
}

/// `thalweg launch` with these flags, and an example program with its arguments.
fn launch(flags: &[&str], program: &str, arguments: &[&str]) -> (Command, String) {
    let (mut command, mark) = command(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("launch").args(flags).arg("--").arg(programs().join(program)).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    (command, mark)
}

#[test]
fn the_plan_of_a_program_is_printed_and_compared() {
    let plan = |flags: &[&str]| {
        let (mut plan, _) = command(env!("CARGO_BIN_EXE_thalweg"));
        plan.arg("plan").args(flags).arg(programs().join("misbehave")).arg("slow").output().unwrap()
    };
    let printed = plan(&["--format", "json"]);
    assert!(printed.status.success());
    let json = String::from_utf8(printed.stdout).unwrap();
    assert!(json.starts_with('{') && json.contains("\"operators\""), "{json}");
    let folder = tempfile::tempdir().unwrap();
    let compared = plan(&["--against", folder.path().to_str().unwrap()]);
    let error = String::from_utf8(compared.stderr).unwrap();
    assert!(!compared.status.success() && error.contains("checkpoint"), "{error}");
}

/// The processes with a mark.
fn processes(mark: &str) -> Vec<u32> {
    let wanted = format!("MARK_OF_TEST={mark}").into_bytes();
    let all = std::fs::read_dir("/proc").unwrap();
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter(|process| {
            let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
        })
        .collect()
}

/// The process of a host, among those with a mark.
fn process_of(host: usize, mark: &str) -> Pid {
    let wanted = format!("THALWEG_HOST_ID={host}").into_bytes();
    let found = processes(mark).into_iter().find(|process| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    });
    Pid::from_raw(found.unwrap() as i32).unwrap()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The output of a command that ends by itself and leaves nothing behind.
fn output((mut command, mark): (Command, String)) -> Output {
    let child = command.spawn().unwrap();
    finish(child, &mark)
}

fn finish(child: Child, mark: &str) -> Output {
    let pid = child.id();
    let waiter = std::thread::spawn(move || child.wait_with_output().unwrap());
    until("the launcher does not end", || waiter.is_finished());
    let output = waiter.join().unwrap();
    until(&format!("processes of {pid} are left"), || processes(mark).is_empty());
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

/// Waits for lines that end like this, of as many hosts.
fn wait_for(lines: &mut impl std::io::BufRead, end: &str, hosts: usize) {
    let mut line = String::new();
    let mut seen = 0;
    while seen < hosts {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "standard error has ended");
        seen += usize::from(line.trim_end().ends_with(end));
    }
}

#[test]
fn programs_give_the_same_answer_on_any_number_of_processes() {
    for (program, arguments) in [
        ("wordcount", &["--tsv", "LICENSE-APACHE"][..]),
        ("connected_components", &["--tsv", "examples/edges.txt"]),
        ("kmeans", &["--k", "2", "examples/points.csv"]),
    ] {
        let (mut alone, _) = command(programs().join(program));
        let expected = alone.args(arguments).output().unwrap();
        assert!(expected.status.success());
        let sorted = |output: &[u8]| {
            let mut lines: Vec<_> = text(output).lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        for count in ["1", "2", "3", "5"] {
            let output = output(launch(&["--local", count], program, arguments));
            let said = text(&output.stderr);
            assert!(output.status.success(), "{program} on {count}: {said}");
            assert_eq!(sorted(&output.stdout), sorted(&expected.stdout), "{program} on {count}");
        }
    }
}

#[test]
fn the_first_host_has_the_streams_and_each_its_part_of_the_machine() {
    let (mut command, mark) = launch(&["--local", "3", "--cores", "2"], "misbehave", &["show"]);
    command.env("THALWEG_MEMORY", "1MiB");
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"to the first\n").unwrap();
    let output = finish(child, &mark);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "host 0\nSome(10000)\n");
    let said = text(&output.stderr);
    let mut lines: Vec<_> = said.lines().map(str::trim).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] 2 1048576 to the first", "[1] 2 1048576", "[2] 2 1048576"]);
}

#[test]
fn settings_of_a_file_go_over_the_share_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thalweg.toml"), "cores = 3\nmemory = '1MiB'\n").unwrap();
    for (flags, cores) in [(&["--local", "2"][..], 3), (&["--local", "2", "--cores", "4"], 4)] {
        let (mut command, mark) = launch(flags, "misbehave", &["show"]);
        command.current_dir(folder.path());
        let said = text(&output((command, mark)).stderr);
        for host in 0..2 {
            let line = format!("[{host}] {cores} 1048576");
            assert!(said.lines().any(|said| said.trim() == line), "{said}");
        }
    }
}

#[test]
fn an_explained_plan_names_the_hosts() {
    let flags = ["--explain", "LICENSE-APACHE"];
    let output = output(launch(&["--local", "2", "--cores", "1"], "wordcount", &flags));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let plan = text(&output.stdout);
    let last = "\nto be run on 2 hosts, this one with 1 core, by work-stealing, ";
    assert!(plan.contains(last), "{plan}");
}

#[test]
fn numbers_of_tasks_are_those_of_all_processes() {
    let words = |flags: &[&str]| {
        let arguments = [&["--tsv"], flags, &["LICENSE-APACHE"]].concat();
        output(launch(&["--local", "2", "--cores", "1"], "wordcount", &arguments))
    };
    let expected = words(&[]);
    for counts in ["1=1", "1=3", "1=1+4,0=2+0"] {
        let set = words(&["--tasks", counts]);
        assert!(set.status.success(), "{}", text(&set.stderr));
        assert_eq!(text(&set.stdout), text(&expected.stdout), "{counts}");
    }
    let plan = text(&words(&["--explain", "--tasks", "1=1+4"]).stdout);
    assert!(plan.contains("\nstage 1: 5 tasks, 1+4 on the hosts\n"), "{plan}");
    let refused = words(&["--tasks", "1=0+4"]);
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    assert!(said.contains("`1=0+4` is not possible: the first host runs the first task"), "{said}");
}

#[test]
fn a_host_says_that_it_waits_and_for_which_other() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (mut command, mark) = command(programs().join("wordcount"));
    command.args(["--host-id", "0", "--host-count", "2", "--connect-timeout", "6s"]);
    command.args(["--first-host", &format!("127.0.0.1:{port}"), "LICENSE-APACHE"]);
    let home = tempfile::tempdir().unwrap();
    command.env("HOME", home.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = text(&output((command, mark)).stderr);
    assert_eq!(
        said,
        "[0] waiting for the other hosts, for up to 6s (--connect-timeout)\n\
         [0] error: host 1 has not connected within 6s (`--connect-timeout`): was it started, and \
         does it know the address of this first host?\n"
    );
}

/// Makes the certificates of a host as the book says, in a folder.
fn certificates() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(root().join("docs/book/src/hosts.md")).unwrap();
    let is_recipe = |block: &&str| block.contains("openssl req");
    let recipe = page.split("```sh\n").filter_map(|rest| rest.split("```").next()).find(is_recipe);
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", recipe.expect("the page has a recipe")]).current_dir(folder.path());
    let made = shell.output().expect("there is a shell");
    assert!(made.status.success(), "{}", text(&made.stderr));
    folder
}

#[test]
fn processes_encrypt_with_certificates_as_in_the_book() {
    let folder = certificates();
    let launch = |tls: &Path| {
        let (mut command, mark) =
            launch(&["--local", "3"], "wordcount", &["--tsv", "LICENSE-APACHE"]);
        command.env("THALWEG_TLS_DIR", tls);
        output((command, mark))
    };
    let encrypted = launch(folder.path());
    assert!(encrypted.status.success(), "{}", text(&encrypted.stderr));
    let (mut alone, _) = command(programs().join("wordcount"));
    let expected = alone.args(["--tsv", "LICENSE-APACHE"]).output().unwrap();
    assert_eq!(text(&encrypted.stdout), text(&expected.stdout));

    // The key of another certificate.
    let key = folder.path().join("tls.key");
    std::fs::copy(certificates().path().join("tls.key"), &key).unwrap();
    let refused = launch(folder.path());
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    let expected = format!(
        "{}: the private key of this host does not belong to the certificate of this host",
        key.display()
    );
    assert!(said.contains(&expected), "{said}");
    let missing = text(&launch(Path::new("/no such folder")).stderr);
    let expected = "/no such folder/ca.crt: cannot read the certificate of the CA";
    assert!(missing.contains(expected), "{missing}");
}

#[test]
fn a_process_that_fails_at_the_start_ends_the_others() {
    let output = output(launch(&["--local", "3"], "misbehave", &["exit", "--at", "1"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("thalweg: host 1 ended with status 3\n"), "{said}");
    assert!(said.contains("thalweg: ending host 0, host 2\n"), "{said}");
}

#[test]
fn a_panic_on_one_host_is_the_error_of_all() {
    let output = output(launch(&["--local", "3"], "misbehave", &["panic", "--at", "2"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for host in 0..3 {
        let error = |line: &str| {
            line.starts_with(&format!("[{host}] error: ")) && line.contains("configured to panic")
        };
        assert!(said.lines().any(error), "{host}: {said}");
    }
}

#[test]
fn a_killed_process_is_named_by_the_launcher_and_by_the_others() {
    let (mut command, mark) = launch(&["--local", "3"], "misbehave", &["endless"]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut lines, "running", 3);
    kill_process(process_of(2, &mark), Signal::KILL).unwrap();
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    let output = finish(child, &mark);
    assert_eq!(output.status.code(), Some(137), "{said}");
    assert!(said.contains("thalweg: host 2 was ended by signal 9\n"), "{said}");
    for host in 0..2 {
        let lost =
            |line: &str| line.starts_with(&format!("[{host}] error: ")) && line.contains("host 2");
        assert!(said.lines().any(lost), "{host}: {said}");
    }
}

#[test]
fn a_job_that_has_failed_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().to_str().unwrap(), folder.path().join("saved"));
    let mut arguments = vec!["die", "--at", "1", "--folder", path, "--checkpoint"];
    arguments.extend([saved.to_str().unwrap(), "--checkpoint-interval", "5ms"]);
    let flags = ["--local", "2", "--restarts"];
    let run =
        |restarts| output(launch(&[&flags[..], &[restarts]].concat(), "misbehave", &arguments));
    let given_up = run("1");
    let said = text(&given_up.stderr);
    assert_eq!(given_up.status.code(), Some(134), "{said}");
    assert!(said.contains("thalweg: starting the program again in 1 s: 1 of 1\n"), "{said}");
    assert!(!folder.path().join("counts").exists());
    std::fs::write(folder.path().join("started"), "").unwrap();
    let ended = run("9");
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains("thalweg: starting the program again in 2 s: 2 of 9\n"), "{said}");
    check_counts(folder.path(), 1_000_000);
}

/// Checks the file in which numbers are counted by their remainders, of which there are as many of each.
fn check_counts(folder: &Path, of_each: u64) {
    let counts = std::fs::read_to_string(folder.join("counts")).unwrap();
    let mut counts: Vec<_> = counts.lines().map(str::to_owned).collect();
    counts.sort_unstable();
    assert_eq!(counts, [0, 1, 2].map(|key| format!("{key} {of_each}")));
}

/// Starts the slow job with checkpoints, and signals when it runs on all hosts; returns how the launcher ended, and what was said
/// from then on.
fn with_signal(
    folder: &Path,
    flags: &[&str],
    hosts: usize,
    send: impl FnOnce(&Child, &str),
) -> (Output, String) {
    let saved = folder.join("saved");
    let mut arguments = vec!["slow", "--folder", folder.to_str().unwrap(), "--checkpoint"];
    // No checkpoint but the last one.
    arguments.extend([saved.to_str().unwrap(), "--checkpoint-interval", "1000s"]);
    let (mut command, mark) = launch(flags, "misbehave", &arguments);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut lines, "running", hosts);
    std::thread::sleep(Duration::from_millis(300));
    send(&child, &mark);
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    (finish(child, &mark), said)
}

#[test]
fn a_job_with_checkpoints_is_suspended_on_all_hosts_and_goes_on_on_others() {
    let folder = tempfile::tempdir().unwrap();
    for (run, local) in ["2", "3"].into_iter().enumerate() {
        let hosts = 2 + run;
        let term = |launcher: &Child, _: &str| signal(launcher, Signal::TERM);
        let (output, said) = with_signal(folder.path(), &["--local", local], hosts, term);
        assert_eq!(output.status.code(), Some(143), "{said}");
        let onward = format!(
            " by SIGTERM: it goes on from checkpoint {} of {}",
            1 + run,
            folder.path().display()
        );
        for host in 0..hosts {
            let line = format!("[{host}] suspended{onward}");
            assert!(said.lines().any(|said| said.starts_with(&line)), "{said}");
        }
        assert!(!folder.path().join("counts").exists());
    }
    let (output, said) = with_signal(folder.path(), &["--local", "2"], 2, |_, _| ());
    assert_eq!(output.status.code(), Some(0), "{said}");
    check_counts(folder.path(), 10_000);
}

#[test]
fn a_job_that_one_host_suspends_is_started_again_on_all() {
    for host in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let term =
            |_: &Child, mark: &str| kill_process(process_of(host, mark), Signal::TERM).unwrap();
        let flags = ["--local", "2", "--restarts", "1"];
        let (output, said) = with_signal(folder.path(), &flags, 2, term);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("starting the program again in 1 s: 1 of 1"), "{said}");
        assert!(said.contains("[0] the job goes on from checkpoint 1 of "), "{said}");
        check_counts(folder.path(), 10_000);
    }
}

#[test]
fn a_signal_between_two_runs_ends_the_launch() {
    for (number, expected) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let flags = ["--local", "2", "--restarts", "5"];
        let (mut command, mark) = launch(&flags, "misbehave", &["panic", "--at", "1"]);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        // Not the first pause, which would be over soon.
        wait_for(&mut lines, "starting the program again in 2 s: 2 of 5", 1);
        signal(&child, number);
        let mut said = String::new();
        lines.read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "it starts nothing");
        assert_eq!(finish(child, &mark).status.code(), Some(expected));
    }
}

#[test]
fn what_is_wrong_with_arguments_is_wrong_again() {
    let output = output(launch(&["--local", "2", "--restarts", "3"], "misbehave", &["none"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!said.contains("again"), "{said}");
}

#[test]
fn the_first_ctrl_c_drains_and_the_second_cancels() {
    for (signals, statuses) in [
        (&[Signal::INT][..], &[0][..]),
        // Signals that come at the same time have no order, and a job may have drained before the second comes.
        (&[Signal::TERM, Signal::INT], &[0, 130, 143]),
    ] {
        let (mut command, mark) = launch(&["--local", "3"], "misbehave", &["endless"]);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        wait_for(&mut lines, "running", 3);
        for number in signals {
            signal(&child, *number);
        }
        let mut said = String::new();
        lines.read_to_string(&mut said).unwrap();
        let output = finish(child, &mark);
        let status = output.status.code().unwrap();
        assert!(statuses.contains(&status), "{status}: {said}");
    }
}

#[test]
fn the_third_signal_kills() {
    let (mut command, mark) = launch(&["--local", "2"], "misbehave", &["deaf"]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut lines, "deaf", 2);
    // Different ones: two of a kind may arrive as one.
    for number in [Signal::INT, Signal::TERM, Signal::HUP] {
        signal(&child, number);
    }
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    let output = finish(child, &mark);
    assert_eq!(output.status.code(), Some(137), "{said}");
}

#[test]
fn nothing_is_left_when_the_launcher_is_killed() {
    let (mut command, mark) = launch(&["--local", "3"], "misbehave", &["endless"]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut lines, "running", 3);
    assert_eq!(processes(&mark).len(), 4);
    child.kill().unwrap();
    finish(child, &mark);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = output(launch(&["--local", "2", "--port", &port], "wordcount", &[]));
    let said = text(&output.stderr);
    assert!(!output.status.success());
    let names = |line: &str| line.starts_with("[0] error: ") && line.contains(&port);
    assert!(said.lines().any(names), "{said}");
}

/// Makes programs in the place of ssh and scp, to which a machine is a folder: with a home, and with programs that go over
/// those of this machine. A file that this process writes itself could be open in a child of another test when it is run.
const MACHINES: &str = r#"
program() { mkdir -p "${1%/*}" && cat > "$1" && chmod 755 "$1"; }
mkdir -p like/home same/home sparc/home bare/home
program ./job <<'END'
#!/bin/sh
echo "host $THALWEG_HOST_ID of $THALWEG_HOST_COUNT"
END
program bin/ssh <<'END'
#!/bin/sh
while [ "$1" != -- ]; do shift; done
export HOME="$MACHINES/$2/home" PATH="$MACHINES/$2/bin:$PATH"
exec sh -c "$3"
END
program bin/scp <<'END'
#!/bin/sh
while [ "$1" != -- ]; do shift; done
exec cp "$2" "$MACHINES/${3%%:*}/home/${3#*:}"
END
program sparc/bin/uname <<'END'
#!/bin/sh
case "$1" in -s) echo Linux;; *) echo sparc64;; esac
END
program bare/bin/ldd <<'END'
#!/bin/sh
printf '\tlibc.so.6 => /lib/libc.so.6\n\tlibx.so.1 => not found\n'
END
"#;

#[test]
fn a_machine_that_cannot_run_the_program_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("sh").args(["-ec", MACHINES]).current_dir(folder.path()).status();
    assert!(made.unwrap().success());
    let path = std::env::var("PATH").unwrap();
    let launched = |second: &str| {
        let file = folder.path().join(format!("{second}.toml"));
        let hosts = ["like", second].map(|name| format!("[[hosts]]\naddress = '{name}'\n"));
        std::fs::write(&file, hosts.concat()).unwrap();
        let (mut launch, mark) = command(env!("CARGO_BIN_EXE_thalweg"));
        launch.env("PATH", format!("{}/bin:{path}", folder.path().display()));
        launch.env("MACHINES", folder.path()).args(["launch", "--hosts"]).arg(&file);
        launch.arg("--").arg(folder.path().join("job"));
        launch.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = output((launch, mark));
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, printed, said) = launched("same");
    assert_eq!((status, &*printed), (Some(0), "host 0 of 2\n"), "{said}");

    let uname = Command::new("uname").args(["-s", "-m"]).output().unwrap();
    let here = text(&uname.stdout).trim().to_owned();
    let other = format!(
        "thalweg: host 1 (sparc): it is Linux sparc64, and the program was built for {here}\n"
    );
    let lacks = "thalweg: host 1 (bare): job cannot run there: libx.so.1 => not found\n";
    for (second, error) in [("sparc", &*other), ("bare", lacks)] {
        let (status, printed, said) = launched(second);
        assert_eq!((status, &*printed), (Some(2), ""), "{said}");
        assert!(said.ends_with(error), "{said}");
    }
}

#[test]
fn the_launcher_says_what_is_wrong_with_its_arguments() {
    let said = |arguments: &[&str]| {
        let (mut command, _) = command(env!("CARGO_BIN_EXE_thalweg"));
        let output = command.arg("launch").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(said(&["--", "x"]).contains("--local <N>"));
    assert!(said(&["--local", "2"]).contains("PROGRAM"));
    for [flag, value] in [["--env", "X=1"], ["--directory", "/"], ["--ssh-config", "x"]] {
        let message = said(&["--local", "2", flag, value, "--", "sh"]);
        assert!(message.contains("cannot be used with"), "{flag}: {message}");
    }
    let none = said(&["--local", "2", "--", "./none"]);
    assert!(none.starts_with("thalweg: there is no program ./none: "), "{none}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts.toml");
    std::fs::write(&file, "[[hosts]]\nname = 'a'\n").unwrap();
    let message = said(&["--hosts", file.to_str().unwrap(), "--", "sh"]);
    assert!(message.contains("hosts.toml:2: unknown key `name`"), "{message}");
}
