//! Records beside what a control stream says.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::check::{check, every};
use thalweg::config::Config;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind};

fn add(all: &mut BTreeSet<u64>, n: u64) {
    all.insert(n);
}

fn with_memory(memory: usize) -> Environment {
    let mut config = Config::default();
    config.memory = memory;
    Environment::with_config(config)
}

#[test]
fn the_control_stream_reaches_every_task_first() {
    let kept = |n: &u64| !(0..50).any(|i| 7 * i == *n);
    check(|env| {
        let out = env.iter((0..50u64).map(|i| 7 * i)).shuffle();
        env.range(0..2000)
            .shuffle()
            .connect_after(out, BTreeSet::new(), add)
            .filter_map(|(n, out)| (out.len() == 50 && !out.contains(&n)).then_some(n))
    })
    .equals((0..2000u64).filter(kept));
    // Texts, with a control stream of texts, and either stream empty.
    let texts = |records: u64, controls: u64| {
        check(move |env| {
            let words =
                |n: u64| env.range(0..n).flat_map_str(|n, out| out.push(&format!("w{}", n % 10)));
            let all = |all: &mut Vec<String>, word: &str| all.push(word.to_owned());
            words(records)
                .connect_after(words(controls), Vec::new(), all)
                .map(|(word, all)| (word.to_owned(), all.len() as u64))
        })
        .seeds(3)
        .equals((0..records).map(|n| (format!("w{}", n % 10), controls)));
    };
    texts(500, 30);
    texts(500, 0);
    texts(0, 30);
}

/// A record meets what has come of the control stream before it, in its order, and nothing else.
#[test]
fn as_they_arrive_a_record_sees_a_prefix() {
    check(|env| {
        let steps = env.iter(1..=500u64);
        let follow = |last: &mut u64, step: u64| {
            assert_eq!(step, *last + 1);
            *last = step;
        };
        env.iter(0..2000u64).connect(steps, 0, follow).map(|(n, last)| (n, *last))
    })
    .satisfies(|seen| {
        let in_order = seen.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        match in_order && seen.len() == 2000 && seen.iter().all(|(_, last)| *last <= 500) {
            true => Ok(()),
            false => Err(format!("{seen:?}")),
        }
    });
}

#[test]
fn connect_ends_with_the_records_not_the_control_stream() {
    every(|env| {
        let endless = env.iter(0u64..);
        let few = env.range(0..3000).connect(endless, 0, |last, n| *last = n).map(|(n, _)| n);
        let few = few.count().collect_one();
        let ended = env.iter(0..10u64);
        let many = env.iter(0u64..).connect(ended, 0, |sum, n| *sum += n).map(|(n, _)| n);
        let many = many.limit(5000).count().collect_one();
        let [a, b] = env.iter(0u64..).split();
        let own = a.connect(b, 0, |last, n| *last = n).map(|(n, last)| n.abs_diff(*last));
        let own = own.limit(5000).count().collect_one();
        env.run()?;
        assert_eq!(
            (few.take()?.unwrap(), many.take()?.unwrap(), own.take()?.unwrap()),
            (3000, 5000, 5000)
        );
        Ok(())
    });
}

#[test]
fn a_quiet_control_stream_holds_back_no_time() -> thalweg::Result<()> {
    let env = Environment::new();
    let quiet = env.generate(100.0, Some).filter(|_| false);
    let timed = env
        .generate(1e6, Some)
        .assign_timestamps(|n| Timestamp::from_millis(*n as i64), Watermarks::monotonous());
    let counts = timed
        .connect(quiet, 1, |by, n| *by = n)
        .map(|(n, by)| n * by)
        .group_by(|_| ())
        .window(EventTimeWindow::tumbling(Duration::from_millis(100)))
        .count();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    let counts = counts.unkey().map(|(_, pane)| pane.value).limit(20);
    counts.for_each(move |count| into.lock().unwrap().push(count));
    env.run()?;
    assert_eq!(*seen.lock().unwrap(), [100; 20]);
    Ok(())
}

/// What the control stream says is known only when all records have been read.
#[test]
fn a_stream_meets_what_was_computed_of_itself() {
    let job = |env: &Environment| {
        let [numbers, all] = env.range(0..40_000).split();
        let greatest = all.reduce(u64::max);
        numbers.connect_after(greatest, 0, |to, n| *to = n).map(|(n, to)| to - n)
    };
    check(job).seeds(3).equals(0..40_000u64);
    check(job).seeds(3).memory(300_000).equals(0..40_000u64);
    // Their timestamps wait with them, and so does what would make them late.
    check(|env| {
        let numbers = env
            .iter(0..3000i64)
            .assign_timestamps(|n| Timestamp::from_millis(*n), Watermarks::monotonous());
        let [numbers, all] = numbers.split();
        let count = all.map(|_| 1i64).reduce(|a, b| a + b);
        numbers
            .connect_after(count, 0, |to, n| *to = n)
            .map(|(n, all)| (n, *all))
            .group_by(|_| ())
            .window(EventTimeWindow::tumbling(Duration::from_millis(100)))
            .max(|seen| *seen)
            .unkey()
            .map(|(_, pane)| pane.value)
    })
    .equals((1..=30i64).map(|hundreds| (100 * hundreds - 1, 3000)));
}

#[test]
fn waiting_records_go_to_disk_when_memory_is_short() -> thalweg::Result<()> {
    let env = with_memory(1 << 20);
    let text = "x".repeat(90);
    let [lines, all] = env.range(0..40_000).map(move |n| format!("{n} {text}")).split();
    let all = all.map(|_| 1u64).reduce(|a, b| a + b);
    let known = lines.connect_after(all, 0, |to, n| *to = n).filter(|(_, all)| **all == 40_000);
    let count = known.map(|(line, _)| line.len()).count().collect_one();
    let stats = env.start()?.wait()?;
    assert_eq!(count.take()?.unwrap(), 40_000);
    let spilled: u64 = stats.operators.iter().map(|op| op.spilled_bytes).sum();
    assert!(spilled > 1 << 20, "{spilled}");
    Ok(())
}

#[test]
fn keys_remember_beside_what_all_share() {
    // One key has most of the records.
    let key = |n: u64| if n.is_multiple_of(10) { n % 97 } else { 1000 };
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    let expected: Vec<(u64, (u64, u64))> = (0..5000u64)
        .map(|n| {
            let sum = sums.entry(key(n)).or_default();
            *sum += n * 3;
            (key(n), (n, *sum))
        })
        .collect();
    check(|env| {
        let factors = env.iter([1u64, 2, 3]);
        env.iter(0..5000u64)
            .group_by(move |n| key(*n))
            .connect_after(factors, 0, |by, factor| *by = factor)
            .stateful_map_with(0, |_, sum: &mut u64, n, by| {
                *sum += n * by;
                (n, *sum)
            })
    })
    .equals(expected);
    check(|env| {
        let pairs = env.range(0..3000).map(|n| (format!("key {}", n % 11), n)).keyed();
        let names = env.iter([("key 3".to_owned(), 10u64)]);
        let named = pairs
            .connect_after(names, BTreeMap::new(), |all, (name, by)| _ = all.insert(name, by))
            .map(|name, (n, all)| n * all.get(name).copied().unwrap_or(1))
            .filter(|_, n| n % 2 == 0);
        named.sum(|n| *n)
    })
    .equals((0..11u64).map(|key| {
        let by = if key == 3 { 10 } else { 1 };
        let sum = (0..3000).filter(|n| n % 11 == key).map(|n| n * by).filter(|n| n % 2 == 0).sum();
        (format!("key {key}"), sum)
    }));
}

#[test]
fn partitioned_streams_are_not_sent() {
    every(|env| {
        let pairs = env.range(0..1000).group_by(|n| n % 10).repartition();
        let counts = pairs
            .connect_after(env.iter([5u64]), 0, |least, n| *least = n)
            .filter_map(|key, (n, least)| (key >= least).then_some(n))
            .count()
            .collect::<BTreeMap<_, _>>();
        let exchanges = env.plan().operators.iter().filter(|op| op.kind == "repartition").count();
        assert_eq!(exchanges, 1);
        env.run()?;
        assert_eq!(counts.take()?, (5..10u64).map(|key| (key, 100)).collect());
        Ok(())
    });
}

#[test]
fn more_keys_than_memory_holds_go_to_disk() -> thalweg::Result<()> {
    let mut config = Config::default();
    (config.cores, config.keyed_tasks_per_core) = (NonZeroUsize::MIN, NonZeroUsize::MIN);
    config.memory = 200_000;
    let env = Environment::with_config(config);
    let keys = 8_000;
    let sums = env
        .range(0..2 * keys)
        .group_by(move |n| n % keys)
        .connect_after(env.iter([3u64]), 0, |by, n| *by = n)
        .stateful_map_with(0, |_, sum: &mut u64, n, by| {
            *sum += n * by;
            *sum
        });
    let sums = sums.unkey().collect::<Vec<_>>();
    let stats = env.start()?.wait()?;
    let with = stats.operators.iter().find(|op| op.kind == "stateful_map_with");
    assert!(with.is_some_and(|op| op.spilled_bytes > 0), "{stats}");
    let mut sums = sums.take()?;
    sums.sort_unstable();
    let expected = (0..keys).flat_map(|key| [(key, 3 * key), (key, 3 * (2 * key + keys))]);
    assert!(sums.into_iter().eq(expected));
    Ok(())
}

#[test]
fn in_a_loop_the_state_stays_or_begins_anew() {
    check(|env| {
        let outside = env.iter([10u64]);
        let (outcome, left) = env
            .range(0..100)
            .iterate(5, (), |numbers, _| {
                let [numbers, own] = numbers.split();
                let by = numbers.connect_after(outside, 0, |by, n| *by += n);
                let more = by.map(|(n, by)| n + by);
                // What is in the body says something else in each round: 100 records, or 200 if any were kept.
                let count = own.map(|_| 1u64).reduce(|a, b| a + b);
                more.connect_after(count, 0, |all, n| *all += n).map(|(n, all)| n + all)
            })
            .fold(|(): &mut (), _| {}, |(), ()| {})
            .all_rounds(|(), ()| {});
        outcome.for_each(drop);
        left
    })
    .equals((0..100u64).map(|n| n + 5 * 110));
}

#[test]
fn barriers_come_through() {
    every(|env| {
        let controls = env.generate(1e5, Some);
        let numbers = env.iter(0u64..).connect(controls, 0, |last, n| *last = n);
        numbers.map(|(n, last)| n + last).shuffle().for_each(drop);
        let [a, b] = env.iter(0u64..).limit(20_000).split();
        let all = b.reduce(u64::max);
        a.connect_after(all, 0, |to, n| *to = n).map(|(n, to)| to - n).for_each(drop);
        let job = env.start()?;
        (0..3).try_for_each(|_| job.barrier())?;
        job.drain();
        job.wait()?;
        Ok(())
    });
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    let env = Environment::new();
    let endless = env.generate(1e3, Some);
    env.range(0..9).connect_after(endless, 0, |a, b| *a = b).map(|(n, _)| n).for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.operator().unwrap_or_default().starts_with("connect_after ("), "{error}");
    let other = Environment::new();
    env.range(0..9).connect(other.range(0..9), 0, |a, b| *a = b).map(|(n, _)| n).for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.to_string().contains("different environments"), "{error}");
}
