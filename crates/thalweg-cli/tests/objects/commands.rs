//! `thalweg checkpoint`, `--plan-against` and `thalweg launch` with addresses in place of directories.

use crate::Test;
use crate::job::{JOB, Job, check_output, command, url};
use crate::server::{Server, client};
use std::path::Path;
use std::process::{Command, Output};

pub const TESTS: &[Test] = &[
    ("checkpoints_are_looked_at_copied_and_removed", looked_at),
    ("a_job_that_runs_ends_when_its_checkpoints_are_removed", removed_while_it_runs),
    ("several_hosts_share_a_prefix", several_hosts),
];

fn thalweg(server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    client(&mut command, &server.endpoint());
    command.arg("checkpoint").args(arguments).output().expect("it is built")
}

/// What a command has said that has succeeded.
fn said(server: &Server, arguments: &[&str]) -> String {
    let output = thalweg(server, arguments);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {said}{errors}");
    said
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Kills a job that has checkpoints with spilled records under a prefix.
fn interrupt(server: &Server, folder: &Path, prefix: &str) {
    let mut job = Job::start(command(folder, &url(prefix), &server.endpoint(), 100_000));
    let has_spilled = || server.keys(prefix).iter().any(|key| key.contains("/spilled-"));
    job.until("there are no checkpoints", || server.taken(prefix) > 3 && has_spilled());
    let newest = server.newest(prefix);
    job.until("there is no further checkpoint", || server.newest(prefix) > newest + 1);
    job.kill();
}

fn looked_at(server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let (folder, prefix) = (folder.path(), "looked-at");
    let saved = &url(prefix);
    let none = thalweg(server, &["ls", saved]);
    assert!(text(&none.stderr).contains("has no checkpoints"), "{}", text(&none.stderr));
    interrupt(server, folder, prefix);
    let newest = server.newest(prefix).to_string();
    let listed = said(server, &["ls", saved]);
    assert!(listed.lines().last().is_some_and(|line| line.starts_with(&newest)), "{listed}");
    assert!(listed.lines().skip(1).all(|line| line.ends_with("yes")), "{listed}");
    let shown = said(server, &["show", saved]);
    assert!(shown.starts_with(&format!("checkpoint {newest}\n")), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("sorted")), "{shown}");
    // It may have been killed before it had removed the third.
    let all = listed.lines().skip(1).count();
    assert!((2..=3).contains(&all), "{listed}");
    assert_eq!(said(server, &["verify", saved]).matches("whole").count(), all);

    // What a program would do with it.
    let mut compared = command(folder, "unused", &server.endpoint(), 0);
    let compared = compared.args(["--plan-against", saved]).output().expect("it runs");
    let table = text(&compared.stdout) + &text(&compared.stderr);
    assert!(compared.status.success() && table.contains("reused"), "{table}");

    // To another prefix, from there to a directory, and back.
    let (kept, dir, again) = (&url("kept"), folder.join("kept"), &url("kept-again"));
    let dir = dir.to_str().unwrap();
    // In a store, a copy has the first number of the run that it counts as.
    let number = "1000000001";
    let states = shown.split_once('\n').unwrap().1;
    for (from, to) in [(&**saved, &**kept), (kept, dir), (dir, again)] {
        let copied = said(server, &["cp", from, to]);
        assert!(copied.starts_with(&format!("copied checkpoint {number}, ")), "{copied}");
        assert_eq!(said(server, &["verify", to]).matches("whole").count(), 1);
        assert_eq!(said(server, &["show", to]), format!("checkpoint {number}\n{states}"));
    }
    let taken = thalweg(server, &["cp", saved, kept]);
    assert!(text(&taken.stderr).contains("a copy needs one of its own"));

    // What is altered is found, and what is missing.
    let spilled = server.keys("kept").into_iter().find(|key| key.contains("/spilled-")).unwrap();
    server.put(&spilled, &[0; 1000]);
    let torn = thalweg(server, &["verify", kept]);
    assert_eq!(torn.status.code(), Some(1));
    assert!(text(&torn.stdout).contains("is incomplete"), "{}", text(&torn.stdout));
    let length = spilled.rsplit('/').next().and_then(|name| name.split_once('-')).unwrap();
    let [start, end] = [length.0, length.1].map(|number| number.parse::<usize>().unwrap());
    server.put(&spilled, &vec![0; end - start]);
    let altered = thalweg(server, &["verify", kept]);
    assert_eq!(altered.status.code(), Some(1));
    assert!(text(&altered.stdout).contains("was damaged"), "{}", text(&altered.stdout));
    server.delete(&spilled);
    assert!(text(&thalweg(server, &["verify", kept]).stdout).contains(": "));

    // A copy is as good, and a job goes on with it.
    assert_eq!(said(server, &["rm", saved, "--all"]), format!("removed {all}\n"));
    let left = server.keys(prefix);
    assert!(left.iter().all(|key| key.contains("/run-")), "{left:?}");
    let (status, errors) = Job::start(command(folder, again, &server.endpoint(), 0)).end();
    assert!(status.success(), "{errors}");
    assert!(errors.contains(&format!("goes on from checkpoint {number} of {again}")), "{errors}");
    check_output(folder);
}

fn removed_while_it_runs(server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let prefix = "removed";
    let mut job = Job::start(command(folder.path(), &url(prefix), &server.endpoint(), 500_000));
    job.until("there are no checkpoints", || server.taken(prefix) > 1);
    said(server, &["rm", &url(prefix), "--all"]);
    let (status, errors) = job.end();
    assert!(!status.success(), "{errors}");
    assert!(errors.contains("another run of this job has begun"), "{errors}");
}

fn several_hosts(server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let (folder, prefix) = (folder.path(), "hosts");
    let launched = |pause: u64| {
        let job = command(folder, &url(prefix), &server.endpoint(), pause);
        let mut launch = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        launch.args(["launch", "--local", "2", "--"]).arg(job.get_program()).args(job.get_args());
        client(&mut launch, &server.endpoint());
        launch.env(JOB, pause.to_string());
        Job::start(launch)
    };
    let mut job = launched(100_000);
    let parts = || server.keys(prefix).iter().filter(|key| key.contains("/part-")).count();
    job.until("there are no parts", || server.taken(prefix) > 3 && parts() > 1);
    job.kill();
    // Hosts end when their launcher is killed; one may take a moment, and ends when the next run begins.
    let (status, errors) = launched(0).end();
    assert!(status.success() && errors.contains("goes on from checkpoint"), "{errors}");
    check_output(folder);
    let left = server.keys(prefix);
    assert!(left.iter().all(|key| key.contains("/run-")), "{left:?}");
}
