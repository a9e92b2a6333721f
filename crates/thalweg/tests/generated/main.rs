//! Jobs drawn from seeds, held against an interpreter of the same description that knows no engine.
//!
//! A seed gives a job (`description`): sources, operators, windows, joins, loops, sinks, and the settings that
//! it is run with. The engine runs it (`engine`), the interpreter computes on a `Vec` what must come out
//! (`interpreter`), and both must be equal as multisets. What differs is shrunk: operators are left out and
//! data halved as long as it still does.
//!
//! `THALWEG_GENERATED_JOBS` says how many jobs there are, and `THALWEG_GENERATED_SEED` the seed of the first:
//! with a number of 1, the job of a seed alone. Of `THALWEG_GENERATED_CHECKED` jobs one is also run in all ways that
//! `thalweg::check` does: on simulated hosts, and interrupted at barriers.

mod description;
mod draw;
mod engine;
mod interpreter;

use description::{Input, Job, Kind, Row, Sink, Step};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;
use thalweg::ErrorKind;
use thalweg::config::Config;

/// Jobs when nothing else is said.
const JOBS: u64 = 400;
/// Of so many jobs, one is also run in all ways that a check does, when nothing else is said.
const CHECKED: u64 = 8;
/// How long one may take, on a machine that does other things too.
const LIMIT: Duration = Duration::from_secs(120);
/// Runs of a smaller job that might still differ.
const TRIES: usize = 3;

#[test]
fn jobs_agree_with_the_interpreter() {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, and no number")),
        Err(_) => default,
    };
    let first = number("THALWEG_GENERATED_SEED", 0);
    let jobs = number("THALWEG_GENERATED_JOBS", JOBS);
    let checked = number("THALWEG_GENERATED_CHECKED", CHECKED);
    let mut failed = Vec::new();
    for seed in first..first.saturating_add(jobs) {
        let job = Job::draw(seed);
        // What is handed back must end.
        if seed.is_multiple_of(checked)
            && !has_channel(&job)
            && let Err(what) = bounded(&job, in_all_ways)
        {
            failed.push(format!("THALWEG_GENERATED_SEED={seed}, checked: {what}\n{job:?}"));
        }
        if let Err(what) = hold(&job) {
            eprintln!("seed {seed}: {what}");
            let (small, what) = shrink(job, what);
            eprintln!("shrunk: {what}\n{small:?}\n");
            failed.push(format!("THALWEG_GENERATED_SEED={seed}: {what}\n{small:?}"));
        }
        if (seed - first) % 1000 == 999 {
            eprintln!("{} of {jobs} jobs", seed - first + 1);
        }
    }
    assert!(failed.is_empty(), "{} of {jobs} jobs differ:\n{}", failed.len(), failed.join("\n\n"));
}

/// Runs a job, and says how its result differs from what it must be.
fn hold(job: &Job) -> Result<(), String> {
    bounded(job, compare)
}

fn bounded(job: &Job, compare: fn(&Job) -> Result<(), String>) -> Result<(), String> {
    let (done, result) = mpsc::channel();
    let to_run = job.clone();
    std::thread::spawn(move || {
        let held = catch_unwind(AssertUnwindSafe(|| compare(&to_run)));
        _ = done.send(held.unwrap_or_else(|_| Err("panicked".to_owned())));
    });
    result.recv_timeout(LIMIT).unwrap_or_else(|_| Err("did not end".to_owned()))
}

fn compare(job: &Job) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let given = match engine::run(job, dir.path()) {
        Ok(given) => given,
        // Not everything goes to disk where memory is short.
        Err(error) if error.kind() == ErrorKind::Memory && is_short(&job.config) => return Ok(()),
        Err(error) => return Err(format!("failed: {error}")),
    };
    let mut expected = interpreter::interpret(job);
    if job.sink == Sink::Count {
        expected.main = vec![Row::new(0, 0, 0); expected.main.len()];
    }
    differ(given.main, expected.main)?;
    for (given, expected) in given.sides.into_iter().zip(expected.sides) {
        differ(given, expected).map_err(|what| format!("in a side output: {what}"))?;
    }
    Ok(())
}

/// Compares what a job gives in all ways in which a check runs it, also where it is interrupted and goes on from what
/// it has saved.
fn in_all_ways(job: &Job) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    differ(engine::checked(job, dir.path()), interpreter::interpret(job).main)
}

fn has_channel(job: &Job) -> bool {
    let mut steps = job.steps.clone();
    let mut inputs = steps.iter_mut().filter_map(Step::input);
    job.input.kind == Kind::Channel || inputs.any(|input| input.kind == Kind::Channel)
}

fn is_short(config: &Config) -> bool {
    config.memory < Config::default().memory
}

/// How two multisets differ.
fn differ(mut given: Vec<Row>, mut expected: Vec<Row>) -> Result<(), String> {
    given.sort();
    expected.sort();
    if given == expected {
        return Ok(());
    }
    let lengths = format!("gave {} rows instead of {}", given.len(), expected.len());
    let at = (0..).find(|&at| given.get(at) != expected.get(at)).unwrap_or_default();
    Err(format!("{lengths}; row {at} is {:?} instead of {:?}", given.get(at), expected.get(at)))
}

/// Makes a job smaller as long as it fails, and says how it fails then.
fn shrink(mut job: Job, mut what: String) -> (Job, String) {
    // A job that hangs is left as it is: each try would take the whole time.
    'smaller: while !what.contains("did not end") {
        for candidate in smaller(&job) {
            let fails = (0..TRIES).find_map(|_| hold(&candidate).err());
            if let Some(fails) = fails {
                (job, what) = (candidate, fails);
                continue 'smaller;
            }
        }
        break;
    }
    (job, what)
}

fn smaller(job: &Job) -> Vec<Job> {
    let mut all = Vec::new();
    for at in 0..job.steps.len() {
        let mut candidate = job.clone();
        candidate.steps.remove(at);
        all.push(candidate);
    }
    for input in smaller_inputs(&job.input) {
        all.push(Job { input, ..job.clone() });
    }
    for at in 0..job.steps.len() {
        let mut candidate = job.clone();
        let Some(input) = candidate.steps[at].input().cloned() else { continue };
        for input in smaller_inputs(&input) {
            if let Some(place) = candidate.steps[at].input() {
                *place = input;
            }
            all.push(candidate.clone());
        }
    }
    if job.sink != Sink::Collect && job.input.kind != Kind::Channel {
        all.push(Job { sink: Sink::Collect, ..job.clone() });
    }
    let usual = Config::default();
    let mut plainer = |change: &dyn Fn(&mut Config)| {
        let mut candidate = job.clone();
        change(&mut candidate.config);
        if format!("{:?}", candidate.config) != format!("{:?}", job.config) {
            all.push(candidate);
        }
    };
    plainer(&|config| config.batch = usual.batch);
    plainer(&|config| config.credit = usual.credit);
    plainer(&|config| config.memory = usual.memory);
    plainer(&|config| config.state_backend = usual.state_backend);
    plainer(&|config| config.turn = usual.turn);
    plainer(&|config| config.encode_exchanges = false);
    plainer(&|config| config.cores = std::num::NonZeroUsize::MIN);
    all
}

fn smaller_inputs(input: &Input) -> Vec<Input> {
    let mut all = Vec::new();
    for at in 0..input.parts.len() {
        let change = |to: Vec<Vec<Row>>| {
            let mut parts = input.parts.clone();
            parts.splice(at..=at, to);
            Input { parts, ..input.clone() }
        };
        if input.parts.len() > 1 {
            all.push(change(Vec::new()));
        }
        let part = &input.parts[at];
        let (front, back) = part.split_at(part.len() / 2);
        if !part.is_empty() {
            all.push(change(vec![front.to_vec()]));
            all.push(change(vec![part[..part.len() - 1].to_vec()]));
            if input.kind != Kind::Range {
                all.push(change(vec![back.to_vec()]));
                all.push(change(vec![part[1..].to_vec()]));
            }
        }
    }
    all.retain(|other| {
        other.rows().len() < input.rows().len() || other.parts.len() < input.parts.len()
    });
    all
}

impl Step {
    /// The second input of a step that has one.
    fn input(&mut self) -> Option<&mut Input> {
        match self {
            Self::ConnectAfter(input)
            | Self::Merge(input)
            | Self::Cross(input)
            | Self::Join(_, input)
            | Self::IntervalJoin(_, _, input)
            | Self::AsOf(input)
            | Self::WindowJoin(_, input)
            | Self::CoGroup(_, input) => Some(input),
            _ => None,
        }
    }
}
