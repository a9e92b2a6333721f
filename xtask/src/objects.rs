//! Checkpoints in an object store: a server that speaks S3 over HTTP is installed by pip, and holds all in its memory.

use crate::hosts::service::{Service, free_ports, until};
use crate::process::{Totals, cargo, program, root, run_tests};
use crate::test::FEATURES;
use crate::{metadata, setup};
use anyhow::{Context, Result, bail};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const PINS: &str = "xtask/objects/requirements.txt";
const BUCKET: &str = "checkpoints";

/// The tests of killed jobs, by parts of their names, that do not look into the files of a directory.
const KILLED: [&str; 8] = [
    "a_job_that_is_killed_goes_on",
    "a_job_goes_on_when_one_of_its_hosts_was_killed",
    "a_job_that_spills_goes_on",
    "hosts_go_on_with_what_each_of_them_has_on_disk",
    "a_job_that_is_suspended",
    "any_host_suspends_the_job",
    "between_the_names_of_two_files",
    "a_job_that_has_ended_well_may_be_run_again",
];

/// Those that kill them dozens of times: minutes, as the server takes long for each object.
const OFTEN_KILLED: &str = "may_be_killed_at_any_moment";

/// Runs the tests that start servers of their own, and those of killed jobs with their checkpoints in a bucket.
pub(crate) fn check(totals: &mut Totals) -> Result<()> {
    let server = server()?;
    let mut tests = cargo(["test", "--workspace", FEATURES, "--test", "objects"]);
    run_tests(tests.env("THALWEG_TEST_OBJECT_SERVER", &server), totals)?;
    kill(&server, &KILLED, totals)
}

/// Runs all tests of killed jobs with their checkpoints in a bucket.
pub(crate) fn long(totals: &mut Totals) -> Result<()> {
    let all: Vec<_> = KILLED.into_iter().chain([OFTEN_KILLED]).collect();
    kill(&server()?, &all, totals)
}

/// Installs the server.
fn server() -> Result<PathBuf> {
    // It ends servers with the test.
    setup::debian("setpriv", "util-linux")?;
    let environment = metadata::read()?.target.join("objects");
    setup::python(&environment, &root().join(PINS))?;
    Ok(environment.join("bin/moto_server"))
}

/// Runs tests of killed jobs, by parts of their names, with their checkpoints in a bucket of a server.
fn kill(server: &Path, names: &[&str], totals: &mut Totals) -> Result<()> {
    let [port] = free_ports()?;
    let mut command = program(server);
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    let _server = Service::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    until("the object store does not answer", || make_bucket(port).is_ok())?;
    let mut tests = cargo(["test", "--workspace", FEATURES, "--test", "killed", "--"]);
    tests.args(names).env("THALWEG_TEST_OBJECTS", format!("s3://{BUCKET}"));
    for (name, value) in [
        ("AWS_ENDPOINT", &*format!("http://127.0.0.1:{port}")),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ] {
        tests.env(name, value);
    }
    run_tests(&mut tests, totals)
}

fn make_bucket(port: u16) -> Result<()> {
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let head = "Host: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close";
    write!(server, "PUT /{BUCKET} HTTP/1.1\r\n{head}\r\n\r\n")?;
    let mut answer = String::new();
    server.read_to_string(&mut answer).context("it does not answer")?;
    match answer.starts_with("HTTP/1.1 200") {
        true => Ok(()),
        false => bail!("{answer}"),
    }
}
