//! The jobs: each runs on every rank, and returns what it has got there as text.

use std::collections::BTreeMap;
use std::process::{Command, exit};
use std::time::Duration;
use thalweg::prelude::*;
use thalweg::{Error, Result};

/// Runs a job by its name, as rank `rank`.
pub(super) fn run(name: &str, env: &Environment, rank: usize) -> Result<String> {
    match name {
        "words" => words(env),
        "windows" => windows(env),
        "loops" => loops(env),
        "large" => large(env),
        "many" => many(env),
        "fails" => fails(env, rank, || panic!("no record is good enough")),
        "differs" => differs(env, rank),
        "lingers" => {
            // Longer than a host that leaves waits where another one is lost.
            std::thread::sleep(Duration::from_secs(if rank == 0 { 8 } else { 0 }));
            Ok("has left".to_owned())
        }
        "leaves" if rank == 1 => Ok("has left".to_owned()),
        "leaves" => waits(env),
        "is killed" => fails(env, rank, || signal("KILL")),
        "is stopped" => fails(env, rank, || signal("STOP")),
        "exits" => fails(env, rank, || exit(7)),
        "idle" => idle(env),
        _ => Ok(format!("there is no job {name}")),
    }
}

/// The text whose words are counted.
pub(super) const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../LICENSE-APACHE");

/// Words and their numbers, in order.
pub(super) fn counted(words: impl IntoIterator<Item = (String, u64)>) -> String {
    let words: BTreeMap<_, _> = words.into_iter().collect();
    words.iter().map(|(word, count)| format!("{word} {count}\n")).collect()
}

fn words(env: &Environment) -> Result<String> {
    let lines = env.lines(TEXT);
    let words =
        lines.flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let counts = words.group_by(String::clone).count().unkey().collect::<Vec<_>>();
    env.run()?;
    Ok(counted(counts.take()?))
}

/// Counts in windows of a second, a record a millisecond, by the last digit.
fn windows(env: &Environment) -> Result<String> {
    let records = env
        .iter(0..10_000i64)
        .assign_timestamps(|n| Timestamp::from_millis(*n), Watermarks::monotonous());
    let counts = records
        .group_by(|n| n % 10)
        .window(EventTimeWindow::tumbling(Duration::from_secs(1)))
        .count()
        .unkey()
        .map(|(_, window)| window.value)
        .collect::<Vec<_>>();
    env.run()?;
    let counts = counts.take()?;
    let equal = counts.iter().all(|count| *count == 100);
    Ok(format!("{} windows of 100: {equal}", counts.len()))
}

/// Halves numbers until they are odd, and counts how often.
fn loops(env: &Environment) -> Result<String> {
    let (outcome, odd) = env
        .range(1..100_000)
        .shuffle()
        .iterate(1000, 0, |numbers, _| numbers.filter(|n| n % 2 == 0).map(|n| n / 2).shuffle())
        .fold(|halved: &mut u64, _| *halved += 1, |halved, others| *halved += others)
        .all_rounds(|all, halved| *all += halved);
    let (outcome, odd) = (outcome.collect::<Vec<_>>(), odd.count().collect_one());
    env.run()?;
    let outcome = outcome.take()?.pop().map(|outcome| (outcome.state, outcome.rounds));
    Ok(format!("{outcome:?}, {:?}", odd.take()?))
}

/// Records of many megabytes, and many small ones beside them.
fn large(env: &Environment) -> Result<String> {
    let sizes = env.iter([20_000_000usize, 1, 3_000_000, 0, 700_000, 100]);
    let texts = sizes.shuffle().map(|size| (size, "x".repeat(size)));
    let right = texts.shuffle().filter(|(size, text)| text.len() == *size).count().collect_one();
    let small = env.range(0..3_000_000u64).shuffle().sum(|n| *n).collect_one();
    env.run()?;
    Ok(format!("{:?} {:?}", right.take()?, small.take()?))
}

/// Jobs one after the other, and side by side.
fn many(env: &Environment) -> Result<String> {
    let count = |env: &Environment, n: u64| {
        let count = env.range(0..n).shuffle().count().collect_one();
        env.run()?;
        count.take()
    };
    let mut all = Vec::new();
    for n in 0..200 {
        all.push(count(env, n)? == Some(n));
    }
    let shared: Vec<_> = (0..4).map(|_| env.sharing()).collect();
    std::thread::scope(|scope| {
        let run = |env: &Environment| (0..50).map(|n| Ok(count(env, n)? == Some(n))).collect();
        let threads: Vec<_> = shared.iter().map(|env| scope.spawn(move || run(env))).collect();
        for thread in threads {
            let right: Result<Vec<bool>> = thread.join().unwrap_or_else(|_| Ok(vec![false]));
            all.extend(right?);
        }
        Ok::<_, Error>(())
    })?;
    Ok(format!("{} jobs: {}", all.len(), all.iter().all(|right| *right)))
}

/// A job without end, in which something happens to rank 1 after a while.
fn fails(env: &Environment, rank: usize, happens: fn()) -> Result<String> {
    let numbers = env.parallel_iter(move |_, _| (0u64..).map(move |n| (rank, n)));
    numbers.shuffle().for_each_parallel(move |(_, n)| {
        if rank == 1 && n == 5_000 {
            happens()
        }
    });
    env.run()?;
    Ok("a job without end has ended".to_owned())
}

/// The ranks describe different jobs.
fn differs(env: &Environment, rank: usize) -> Result<String> {
    match rank {
        0 => env.range(0..9).for_each(drop),
        _ => env.range(0..9).shuffle().for_each(drop),
    }
    env.run()?;
    Ok(String::new())
}

fn waits(env: &Environment) -> Result<String> {
    env.generate(1.0, Some).shuffle().for_each(drop);
    env.run()?;
    Ok("a job without end has ended".to_owned())
}

/// The share of a core that this process uses while its job has no input: whether it is a small one.
fn idle(env: &Environment) -> Result<String> {
    let (sender, numbers) = env.channel::<u64>(16);
    numbers.shuffle().for_each(drop);
    let job = env.start()?;
    std::thread::sleep(Duration::from_millis(500));
    let before = ticks();
    std::thread::sleep(Duration::from_secs(3));
    let used = ticks() - before;
    drop(sender);
    job.wait()?;
    // Of 300.
    Ok(if used < 60 { "sleeps".to_owned() } else { format!("{used} ticks of 300 in use") })
}

/// The processor time of this process, in hundredths of a second.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let times = fields.split_whitespace().skip(11).take(2);
    times.filter_map(|time| time.parse::<u64>().ok()).sum()
}

/// Sends this process a signal.
fn signal(name: &str) {
    let sent = Command::new("kill").args(["-s", name, &std::process::id().to_string()]).status();
    assert!(sent.is_ok_and(|sent| sent.success()), "no signal was sent");
    // One that stops a process may come late.
    std::thread::sleep(Duration::from_secs(1));
}
