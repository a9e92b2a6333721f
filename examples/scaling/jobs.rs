//! The jobs. Each returns an answer that is the same however many hosts and tasks there are.

use super::super::{Between, Job, To};
use std::path::PathBuf;
use thalweg::data::Record;
use thalweg::{Chain, Environment, Error, ErrorKind, Result, Stream, text};
use thalweg_examples::queries::ysb::{campaigns_of, count_views, events, views};
use thalweg_workloads::digest::{Digest, Row, RowHash};
use thalweg_workloads::ysb::oracle::YSB;
use thalweg_workloads::ysb::{Campaigns, FixedSegments, recipe};

/// What the events are drawn from.
const SEED: u64 = 42;
/// The lower bits of a record's first word say which task it is for.
const RECEIVER_BITS: u32 = 16;

type Run = Box<dyn Fn(&Environment) -> Result<String>>;

/// Makes what a job needs, and returns the job.
pub(crate) fn prepare(job: &Job) -> Run {
    match *job {
        Job::Ysb { events, between } => {
            let segments = FixedSegments::generate(recipe(SEED), events);
            let campaigns = Campaigns::new(SEED);
            Box::new(move |env| ysb(env, &segments, &campaigns, between))
        }
        Job::Words { ref files, copies } => {
            let files = files.clone();
            Box::new(move |env| words(env, &files, copies))
        }
        Job::Exchange { records, bytes, to, receivers } => Box::new(move |env| match bytes {
            8 => exchange::<1>(env, records, to, receivers),
            24 => exchange::<3>(env, records, to, receivers),
            32 => exchange::<4>(env, records, to, receivers),
            128 => exchange::<16>(env, records, to, receivers),
            512 => exchange::<64>(env, records, to, receivers),
            _ => Err(wrong(format!("a record has 8, 24, 32, 128 or 512 bytes, not {bytes}"))),
        }),
        Job::Rounds { rounds, tasks } => Box::new(move |env| run_rounds(env, rounds, tasks)),
    }
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::Config, what)
}

/// The windows of the benchmark. What comes between two of its operators is an exchange, or nothing.
fn ysb(
    env: &Environment,
    segments: &FixedSegments,
    campaigns: &Campaigns,
    between: Between,
) -> Result<String> {
    let all = events(env, segments);
    match between {
        Between::Fused => digest(env, count_views(campaigns_of(views(all), campaigns), YSB)),
        Between::Forward => {
            let views = views(all.forward()).forward();
            digest(env, count_views(campaigns_of(views, campaigns).forward(), YSB))
        }
        Between::Shuffle => {
            let views = views(all.shuffle()).shuffle();
            digest(env, count_views(campaigns_of(views, campaigns).shuffle(), YSB))
        }
    }
}

/// Runs a job; returns the digest of its rows, in whatever order they come.
fn digest<C>(env: &Environment, rows: Stream<C>) -> Result<String>
where
    C: Chain,
    for<'a> <C::Item as Record>::Of<'a>: Row,
{
    let all = rows.fold_assoc(Digest::default(), |all, row| all.add(&row), Digest::merge);
    let all = all.collect::<Vec<_>>();
    env.run()?;
    let mut merged = Digest::default();
    all.take()?.into_iter().for_each(|part| merged.merge(part));
    Ok(merged.to_string())
}

/// How often a word occurs.
struct Count<'a> {
    word: &'a str,
    count: u64,
}

impl Row for Count<'_> {
    fn feed(&self, hash: &mut RowHash) {
        hash.bytes(self.word.as_bytes());
        hash.word(self.count);
    }
}

fn words(env: &Environment, files: &[PathBuf], copies: u64) -> Result<String> {
    let words = env.lines(files.to_vec()).flat_each(text::LowercaseWords);
    let counts = words.group_by_ref(|word| *word).count().unkey();
    let counts = counts.try_map(move |(word, count)| match count.checked_rem(copies) {
        Some(0) => Ok((word, count / copies)),
        _ => Err(wrong(format!("\"{word}\" occurs {count} times in {copies} copies"))),
    });
    let all = counts.fold_assoc(
        Digest::default(),
        |all, (word, count)| all.add(&Count { word: &word, count }),
        Digest::merge,
    );
    let all = all.collect_one();
    env.run()?;
    Ok(all.take()?.unwrap_or_default().to_string())
}

/// Sends records of some words, all alike: the number of the record, and the task that receives it. The answer is how many
/// there are, and the sum of the numbers in the first and the last words.
pub(crate) fn exchange<const WORDS: usize>(
    env: &Environment,
    records: u64,
    to: To,
    receivers: Option<usize>,
) -> Result<String> {
    let made = env.parallel_iter(move |task, tasks| {
        let next = move |of: usize| if of + 1 == tasks { 0 } else { of + 1 };
        let mut receiver = next(task);
        (task as u64..records).step_by(tasks).map(move |number| {
            if to == To::All {
                receiver = next(receiver);
            }
            [number << RECEIVER_BITS | receiver as u64; WORDS]
        })
    });
    match receivers {
        Some(receivers) => sum(env, made.parallelism(receivers)),
        None => {
            let receiver = |record: &[u64; WORDS]| record[0] & ((1 << RECEIVER_BITS) - 1);
            sum(env, made.repartition_by(move |record, _| receiver(record) as usize))
        }
    }
}

fn sum<C, const WORDS: usize>(env: &Environment, received: Stream<C>) -> Result<String>
where
    C: Chain<Item = [u64; WORDS]>,
{
    let sums = received.fold_assoc(
        (0u64, 0u64),
        |(count, sum), record| {
            *count += 1;
            let [first, last] = [record[0], record[WORDS - 1]].map(|word| word >> RECEIVER_BITS);
            *sum = sum.wrapping_add(first).wrapping_add(last);
        },
        |(count, sum), (other_count, other_sum)| {
            *count += other_count;
            *sum = sum.wrapping_add(other_sum);
        },
    );
    let sums = sums.collect_one();
    env.run()?;
    let (count, sum) = sums.take()?.unwrap_or_default();
    Ok(format!("{count}:{sum:016x}"))
}

pub(crate) fn run_rounds(env: &Environment, rounds: u64, tasks: Option<usize>) -> Result<String> {
    let outcome = env
        .range(0..64)
        .replay(rounds, 0u64, |numbers, _| {
            let numbers = numbers.map(|number| *number);
            match tasks {
                Some(tasks) => numbers.parallelism(tasks).parallelism(tasks).boxed(),
                None => numbers.boxed(),
            }
        })
        .fold(|sum: &mut u64, number| *sum += number, |sum, other| *sum += other)
        .all_rounds(|all: &mut u64, sum| *all += sum)
        .collect::<Vec<_>>();
    env.run()?;
    let all = outcome.take()?.into_iter().map(|outcome| outcome.state);
    Ok(format!("{rounds}:{:016x}", all.sum::<u64>()))
}
