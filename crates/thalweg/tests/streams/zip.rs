//! Pairs against what iterators give.

use proptest::prelude::*;
use thalweg::check::{check, every};
use thalweg::config::{Config, Scheduler};
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind};

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn pairs_are_those_of_iterators(a in 0..4000u64, b in 0..4000u64) {
        let (a, b) = if a % 5 == 0 { (0, b) } else if b % 5 == 0 { (a, 0) } else { (a, b) };
        check(|env| env.iter(0..a).zip(env.iter(0..b).map(|n| 2 * n)))
            .seeds(4)
            .ordered()
            .equals((0..a).zip((0..b).map(|n| 2 * n)));
    }
}

#[test]
fn the_shorter_ends_the_longer() {
    every(|env| {
        let left = env.iter(0u64..).zip(env.iter(0..1000u64)).count().collect_one();
        let right = env.iter(0..1000u64).zip(env.iter(0u64..)).count().collect_one();
        let none = env.iter(0u64..).zip(env.iter(0..0u64)).count().collect_one();
        let few = env.iter(0u64..).zip(env.iter(0u64..)).limit(77).count().collect_one();
        env.run()?;
        assert_eq!(
            (
                left.take()?.unwrap(),
                right.take()?.unwrap(),
                none.take()?.unwrap(),
                few.take()?.unwrap()
            ),
            (1000, 1000, 0, 77)
        );
        Ok(())
    });
}

#[test]
fn a_stream_without_an_end_ends_with_its_partner() -> thalweg::Result<()> {
    let env = Environment::new();
    let endless = env.generate(f64::INFINITY, Some);
    let pairs = endless.zip(env.iter(0..5000u64)).collect::<Vec<_>>();
    env.run()?;
    assert!(pairs.take()?.into_iter().eq((0..5000).map(|n| (n, n))));
    let env = Environment::new();
    let (a, b) = (env.generate(1e6, Some), env.generate(1e6, Some));
    let _out = a.zip(b).collect::<Vec<_>>();
    assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Plan);
    Ok(())
}

/// Of several tasks, every record is paired once, and there are as many pairs as the shorter has records.
#[test]
fn streams_of_several_tasks_are_paired_as_a_whole() {
    check(|env| env.range(0..3000).shuffle().zip(env.range(0..5000).shuffle())).satisfies(
        |pairs| {
            let (mut left, mut right): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
            left.sort_unstable();
            right.sort_unstable();
            right.dedup();
            match left.iter().copied().eq(0..3000) && right.len() == 3000 {
                true => Ok(()),
                false => Err(format!("{} and {}", left.len(), right.len())),
            }
        },
    );
}

#[test]
fn unpaired_records_are_counted() -> thalweg::Result<()> {
    for seed in 0..5 {
        let mut config = Config::default();
        config.scheduler = Scheduler::Deterministic { seed };
        let env = Environment::with_config(config);
        let [all, some] = env.iter(0..10_000u64).split();
        let pairs = all.zip(some.filter(|n| n % 2 == 0)).count().collect_one();
        let stats = env.start()?.wait()?;
        assert_eq!(pairs.take()?.unwrap(), 5000);
        let counted: u64 = stats.operators.iter().map(|op| op.unpaired_records).sum();
        assert!((1..=5000).contains(&counted), "{counted}");
    }
    Ok(())
}

/// A fork whose branches meet again, one of them far ahead: neither may wait for the other.
#[test]
fn branches_of_one_stream_do_not_wait_for_each_other() {
    let job = |env: &Environment| {
        let [first, second] = env.iter(0..60_000u64).split();
        // Says nothing before it has seen everything.
        let sorted = first.map(|n| 59_999 - n).sorted();
        sorted.zip(second)
    };
    check(job).seeds(3).ordered().equals((0..60_000u64).map(|n| (n, n)));
    // Within a budget that holds a fraction of what is ahead.
    check(job).seeds(3).memory(400_000).ordered().equals((0..60_000u64).map(|n| (n, n)));
    check(|env| {
        let [a, b, c] = env.iter(0..5000u64).split();
        let few = a.filter(|n| n % 100 == 0);
        few.zip(b).zip(c.shuffle().sorted()).map(|((a, b), c)| (a, (b, c)))
    })
    .equals((0..50u64).map(|n| (100 * n, (n, n))));
}

#[test]
fn one_that_is_ahead_waits_and_is_not_held() -> thalweg::Result<()> {
    // An eighth of it holds a batch, and not the fifty megabytes of all records.
    let mut config = Config::default();
    config.memory = 8 << 20;
    let env = Environment::with_config(config);
    let text = "x".repeat(500);
    let long = env.iter(0..100_000u64).map(move |n| (n, text.clone()));
    let slow = env.generate(200_000.0, |n| (n < 20_000).then_some(n));
    let wrong = slow.zip(long).filter(|(n, (m, _))| n != m).count().collect_one();
    let stats = env.start()?.wait()?;
    assert_eq!(wrong.take()?.unwrap(), 0);
    assert!(stats.operators.iter().all(|op| op.spilled_bytes == 0));
    Ok(())
}

#[test]
fn tasks_are_paired_with_tasks() {
    check(|env| {
        let [a, b] = env.range(0..8000).split();
        a.zip_by_task(b.map(|n| 3 * n))
    })
    .equals((0..8000u64).map(|n| (n, 3 * n)));
    let env = Environment::new();
    env.iter(0..9).zip_by_task(env.iter(0..9).parallelism(2)).for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.to_string().contains("one stream has 1 and the other 2"), "{error}");
    let other = Environment::new();
    env.iter(0..9).zip(other.iter(0..9)).for_each(drop);
    assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Plan);
}

#[test]
fn texts_and_timestamps_go_along() {
    check(|env| {
        let words = |of: &'static str| {
            env.iter([of]).flat_map_str(|line, out| {
                line.split(' ').for_each(|word| out.push(word));
            })
        };
        words("a b c").zip(words("x y z w"))
    })
    .ordered()
    .equals([("a", "x"), ("b", "y"), ("c", "z")].map(|(a, b)| (a.to_owned(), b.to_owned())));
    check(|env| {
        let timed = |by: i64| {
            env.iter(0..3000i64).assign_timestamps(
                move |n| Timestamp::from_micros(n * by),
                Watermarks::monotonous(),
            )
        };
        let pairs = timed(2).zip(timed(3));
        pairs.map_with_timestamp(|(a, _), at| (a, at.as_micros()))
    })
    .ordered()
    .equals((0..3000i64).map(|n| (n, 3 * n)));
}

#[test]
fn barriers_come_through_whichever_is_ahead() {
    every(|env| {
        let pairs = env.iter(0u64..).zip(env.generate(1e5, Some)).zip(env.iter(0u64..).shuffle());
        pairs.for_each(drop);
        let job = env.start()?;
        (0..3).try_for_each(|_| job.barrier())?;
        job.drain();
        job.wait()?;
        Ok(())
    });
}

#[test]
fn rounds_of_a_loop_are_paired_by_themselves() {
    check(|env| {
        let (outcome, left) = env
            .iter(0..1000u64)
            .iterate(4, (), |numbers, _| {
                let [a, b] = numbers.split();
                // Half of them each round, with partners from the front.
                a.filter(|n| n % 2 == 0).sorted().zip(b.sorted()).map(|(even, any)| even / 2 + any)
            })
            .fold(|(): &mut (), _| {}, |(), ()| {})
            .all_rounds(|(), ()| {});
        outcome.for_each(drop);
        left
    })
    .equals({
        let mut all: Vec<u64> = (0..1000).collect();
        for _ in 0..4 {
            all.sort_unstable();
            let evens: Vec<u64> = all.iter().copied().filter(|n| n % 2 == 0).collect();
            all = evens.iter().zip(&all).map(|(even, any)| even / 2 + any).collect();
        }
        all
    });
}
