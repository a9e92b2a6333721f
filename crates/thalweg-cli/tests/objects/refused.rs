//! Jobs that cannot use the object store that they are given.

use crate::Test;
use crate::job::{Job, command, url};
use crate::server::{Server, client};
use std::process::Command;

pub const TESTS: &[Test] = &[
    ("a_bucket_that_is_not_there_is_an_error_at_the_start", no_bucket),
    ("keys_that_the_store_refuses_are_an_error_at_the_start", no_access),
    ("a_store_that_does_not_answer_is_an_error_at_the_start", no_answer),
    ("an_address_that_is_none_is_an_error_at_the_start", no_address),
];

/// How a job ends that is given this address at this endpoint.
fn refused(saved: &str, endpoint: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (status, said) = Job::start(command(folder.path(), saved, endpoint, 0)).end();
    assert!(!status.success() && said.contains(saved), "{said}");
    assert!(!folder.path().join("counts.txt").exists());
    let mut ls = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    client(&mut ls, endpoint);
    let ls = ls.args(["checkpoint", "ls", saved]).output().expect("it is built");
    let listed = String::from_utf8_lossy(&ls.stderr).into_owned();
    assert!(!ls.status.success() && listed.contains(saved), "{listed}");
    said
}

fn no_bucket(server: &Server) {
    let said = refused("s3://no-such-bucket/a", &server.endpoint());
    assert!(said.contains("NoSuchBucket"), "{said}");
}

fn no_access(server: &Server) {
    let strict = Server::start(&server.program, true);
    let said = refused(&url("a"), &strict.endpoint());
    assert!(said.contains("InvalidAccessKeyId"), "{said}");
}

fn no_answer(_: &Server) {
    // A port that is free may be taken in the meantime; this one is reserved, and unused.
    let said = refused(&url("a"), "http://127.0.0.1:1");
    assert!(said.contains("127.0.0.1:1"), "{said}");
}

fn no_address(server: &Server) {
    let said = refused("ftp://checkpoints/a", &server.endpoint());
    assert!(said.contains("s3://BUCKET/PREFIX"), "{said}");
}
