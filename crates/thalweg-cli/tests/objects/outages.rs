//! Servers that cannot be reached for a time, and answers that are lost.

use crate::Test;
use crate::job::{Job, check_output, command, url};
use crate::server::{Proxy, Server};
use std::thread::sleep;
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("a_short_outage_is_not_noticed_and_a_long_one_is_reported", outages),
    ("names_are_created_once_although_answers_are_lost", lost_answers),
];

/// How a warning about a checkpoint that could not be taken ends.
const AGAIN: &str = "the job goes on, and tries again";

fn outages(server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let (folder, prefix) = (folder.path(), "outages");
    let proxy = Proxy::start(server);
    let mut job = Job::start(command(folder, &url(prefix), &proxy.endpoint(), 500_000));
    job.until("there is no checkpoint", || server.taken(prefix) > 2);
    proxy.set_down(true);
    sleep(Duration::from_secs(2));
    let before = server.newest(prefix);
    proxy.set_down(false);
    job.until("there is no checkpoint after the outage", || server.newest(prefix) > before + 1);
    assert!(!job.said().contains(AGAIN), "{}", job.said());
    // Longer than requests are repeated.
    proxy.set_down(true);
    job.until_it_says(AGAIN);
    assert!(job.said().contains(&url(prefix)), "{}", job.said());
    let before = server.newest(prefix);
    proxy.set_down(false);
    job.until_it_says("checkpoints are taken again");
    job.until("there is no checkpoint after the outage", || server.newest(prefix) > before + 1);
    let said = job.kill();
    assert_eq!(said.matches(AGAIN).count(), 1, "{said}");
    let (status, said) = Job::start(command(folder, &url(prefix), &server.endpoint(), 0)).end();
    assert!(status.success() && said.contains("goes on from checkpoint"), "{said}");
    check_output(folder);
    assert_eq!(server.newest(prefix), 0, "a job that has ended well leaves no checkpoints");
}

fn lost_answers(server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let (folder, prefix) = (folder.path(), "lost");
    let proxy = Proxy::start(server);
    proxy.lose_answers();
    let start = |pause| Job::start(command(folder, &url(prefix), &proxy.endpoint(), pause));
    let mut job = start(500_000);
    job.until("there are no checkpoints", || server.taken(prefix) > 6);
    let said = job.kill();
    assert!(proxy.lost() > 2, "{} answers were lost, which tests little", proxy.lost());
    assert!(!said.contains(AGAIN), "{said}");
    let (status, said) = start(0).end();
    assert!(status.success() && said.contains("goes on from checkpoint"), "{said}");
    check_output(folder);
    let left = server.keys(prefix);
    assert!(left.iter().all(|key| key.contains("/run-")), "{left:?}");
}
