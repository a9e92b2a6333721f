//! Jobs without input leave their threads asleep. A program of its own, since it looks at every thread of the engine in the
//! process.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;
use thalweg::{Environment, Result};

/// How often each of the engine's threads has run, and the processor time that it has used, by the kernel's counts.
fn activity() -> BTreeMap<String, Vec<String>> {
    let mut threads = BTreeMap::new();
    for thread in fs::read_dir("/proc/self/task").unwrap() {
        let path = thread.unwrap().path();
        // A thread may have ended meanwhile.
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        let Ok(stat) = fs::read_to_string(path.join("stat")) else { continue };
        if !status.starts_with("Name:\tthalweg") {
            continue;
        }
        let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
        let (_, fields) = stat.rsplit_once(')').unwrap();
        // utime and stime.
        let times = fields.split_whitespace().skip(11).take(2);
        let counts = switches.chain(times).map(str::to_owned).collect();
        threads.insert(path.display().to_string(), counts);
    }
    threads
}

/// Waits until no thread of the engine has run for a while, and then looks for longer.
fn falls_asleep(what: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let still = |time| {
        let before = activity();
        std::thread::sleep(time);
        // A thread that has just been started has no name yet.
        !before.is_empty() && before == activity()
    };
    // A busy machine may delay a thread that is on its way to sleep.
    while !(still(Duration::from_millis(50)) && still(Duration::from_millis(300))) {
        assert!(Instant::now() < deadline, "{what}: the threads do not sleep: {:?}", activity());
    }
}

#[test]
fn threads_of_jobs_without_input_sleep() -> Result<()> {
    let env = Environment::new();
    let (sender, numbers) = env.channel::<u64>(16);
    let mut counts = numbers
        .group_by(|number| number % 8)
        .stateful_map(0_u64, |_, count, _| {
            *count += 1;
            *count
        })
        .unkey()
        .to_channel();
    let waits = env.start()?;
    falls_asleep("a channel that nothing is sent to");

    for number in 0..1000 {
        assert!(sender.send(number).is_ok());
    }
    for received in counts.by_ref().take(1000) {
        received?;
    }
    falls_asleep("a channel that nothing more is sent to");

    let other = Environment::new();
    let hourly = other.generate(1.0 / 3600.0, Some);
    let hours = hourly
        .assign_timestamps(
            |hour| Timestamp::from_millis(*hour as i64),
            Watermarks::monotonous().idle_after(Duration::from_secs(3600)),
        )
        .to_channel();
    let generates = other.start()?;
    falls_asleep("a record an hour");

    drop(sender);
    assert!(counts.next().is_none());
    waits.wait()?;
    generates.cancel();
    assert!(generates.wait().is_err());
    drop(hours);
    falls_asleep("jobs that have ended");
    Ok(())
}
