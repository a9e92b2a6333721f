//! Programs that wait for themselves: what they say, and what statistics show.

use crate::{environment, in_time};
use clap::Parser;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg::cli::EngineArgs;
use thalweg::metrics::Awaits;
use thalweg::{Environment, Result};

/// Says which program a child process is to run.
const PROGRAM: &str = "WAITING_PROGRAM";

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs a program that waits for itself, in a child process; nothing in any other.
#[test]
fn program() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    let env = Args::parse_from(["waiting", "--stall-after", "100ms"]).engine.environment().unwrap();
    let run = match &*program {
        "reader" => run_without_a_reader,
        "sender" => run_with_a_sender,
        "start" => send_before_the_start,
        other => panic!("no program {other}"),
    };
    run(&env).unwrap();
}

fn run_without_a_reader(env: &Environment) -> Result<()> {
    let numbers = env.iter(0u64..).to_channel();
    env.run()?;
    drop(numbers);
    Ok(())
}

fn run_with_a_sender(env: &Environment) -> Result<()> {
    let (sender, numbers) = env.channel::<u64>(10);
    numbers.for_each(drop);
    sender.send(1).unwrap();
    env.run()?;
    drop(sender);
    Ok(())
}

fn send_before_the_start(env: &Environment) -> Result<()> {
    let (sender, numbers) = env.channel::<u64>(10);
    numbers.for_each(drop);
    (0..100).for_each(|n| sender.send(n).unwrap());
    drop(sender);
    env.run()
}

/// The first line that a child process says on standard error which is ended then.
fn said_by(program: &str) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "waiting::program", "--nocapture"])
        .env(PROGRAM, program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (sent, said) = channel();
    let reader = std::thread::spawn(move || {
        for line in stderr.lines().map_while(std::io::Result::ok) {
            let _ = sent.send(line);
        }
    });
    let line = said.recv_timeout(Duration::from_secs(60));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    let more: Vec<String> = said.iter().filter(|other| Ok(other) == line.as_ref()).collect();
    assert!(more.is_empty(), "said twice: {more:?}");
    line.unwrap_or_else(|_| panic!("{program}: nothing was said in a minute"))
}

#[test]
fn a_job_that_nobody_reads_says_so() {
    let said = said_by("reader");
    assert!(said.starts_with("to_channel (") && said.contains("nothing has been read"), "{said}");
}

#[test]
fn a_job_that_waits_for_a_sender_says_so() {
    let said = said_by("sender");
    assert!(said.starts_with("channel (") && said.contains("nothing has been sent"), "{said}");
    assert!(said.contains("of which there is 1"), "{said}");
}

#[test]
fn a_sender_that_waits_for_a_job_that_has_not_started_says_so() {
    let said = said_by("start");
    assert!(said.starts_with("channel (") && said.contains("the job has not started"), "{said}");
}

#[test]
fn statistics_show_what_the_program_must_do() {
    in_time(|| {
        let env = environment(|config| config.credit = 1000);
        let unread = env.iter(0u64..).to_channel();
        let (sender, numbers) = env.channel::<u64>(10);
        numbers.for_each(drop);
        let job = env.start().unwrap();
        let awaits = |kind: &str| {
            let stats = job.stats();
            stats.operators.iter().find(|op| op.kind == kind).unwrap().awaits
        };
        while awaits("to_channel") != Some(Awaits::Reader)
            || awaits("channel") != Some(Awaits::Senders(1))
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop((unread, sender));
        job.wait().unwrap();
    });
}
