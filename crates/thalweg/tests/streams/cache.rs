//! Streams that are kept for further jobs.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;
use thalweg::check::every;
use thalweg::config::Config;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind};

fn on_cores(cores: usize) -> Environment {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(cores).unwrap();
    Environment::with_config(config)
}

fn with_memory(memory: usize) -> Environment {
    let mut config = Config::default();
    config.memory = memory;
    Environment::with_config(config)
}

#[test]
fn a_kept_stream_is_read_any_number_of_times() {
    every(|env| {
        let squares = env.range(0..5000).shuffle().map(|n| n * n).cache();
        let none = env.range(0..0).cache();
        let words = env.iter(["a b", "c"]).flat_map_str(|line, out| {
            line.split(' ').for_each(|word| out.push(word));
        });
        let words = words.cache();
        env.run()?;
        assert_eq!((squares.len()?, none.len()?, words.len()?), (5000, 0, 3));
        assert!(none.is_empty()? && !words.is_empty()?);
        for _ in 0..2 {
            let out = squares.stream(env).collect::<Vec<_>>();
            let sum = squares.by_ref(env).map(|n| *n).sum(|n| *n).collect::<Vec<_>>();
            let both = squares.stream(env).merge(squares.clone().stream(env)).count().collect_one();
            let (nothing, words) =
                (none.stream(env).count().collect_one(), words.stream(env).collect::<Vec<_>>());
            env.run()?;
            let mut out = out.take()?;
            out.sort_unstable();
            assert!(out.into_iter().eq((0..5000).map(|n| n * n)));
            assert_eq!(sum.take()?, [(0..5000u64).map(|n| n * n).sum::<u64>()]);
            assert_eq!((both.take()?.unwrap(), nothing.take()?), (10_000, Some(0)));
            assert_eq!(words.take()?, ["a", "b", "c"]);
        }
        Ok(())
    });
}

#[test]
fn the_order_of_a_task_is_kept() {
    every(|env| {
        let numbers = env.iter(0..30_000u64).cache();
        env.run()?;
        let out = numbers.stream(env).collect::<Vec<_>>();
        env.run()?;
        assert!(out.take()?.into_iter().eq(0..30_000));
        Ok(())
    });
}

#[test]
fn keys_are_where_they_belong_whatever_the_tasks() -> thalweg::Result<()> {
    for made_on in [1, 2, 3] {
        let env = on_cores(made_on);
        // One key has half of the records.
        let pairs = env.range(0..20_000).group_by(|n| if n % 2 == 0 { 0 } else { n % 499 }).cache();
        env.run()?;
        assert_eq!(pairs.len()?, 20_000);
        let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
        for n in 0..20_000 {
            *expected.entry(if n % 2 == 0 { 0 } else { n % 499 }).or_default() += 1;
        }
        for read_on in [1, 2, 3, 7] {
            let env = on_cores(read_on);
            // Not a map, which would hide a key that several tasks have.
            let counts = pairs.stream(&env).count().collect::<Vec<_>>();
            let names = env.range(0..499).map(|n| (n, n)).keyed();
            let joined = pairs.stream(&env).join(names).unkey().count().collect_one();
            let kinds = env.plan().operators;
            assert_eq!(kinds.iter().filter(|op| op.kind == "repartition").count(), 1, "the names");
            env.run()?;
            let mut counts = counts.take()?;
            counts.sort_unstable();
            assert!(counts.into_iter().eq(expected.clone()), "{made_on} {read_on}");
            assert_eq!(joined.take()?.unwrap(), 20_000);
        }
    }
    Ok(())
}

#[test]
fn a_cache_beyond_memory_is_on_disk() -> thalweg::Result<()> {
    let text = "y".repeat(40);
    let line = move |n: u64| format!("{n} {text}");
    let env = with_memory(400_000);
    let lines = env.range(0..30_000).map(line.clone()).cache();
    let stats = env.start()?.wait()?;
    let spilled: u64 = stats.operators.iter().map(|op| op.spilled_bytes).sum();
    assert!(spilled > 1_000_000, "{spilled}");
    assert!(stats.operators.iter().any(|op| op.kept_records == 30_000));
    for _ in 0..2 {
        let out = lines.stream(&env).collect::<Vec<_>>();
        let lengths =
            lines.by_ref(&env).map(|line| line.len() as u64).sum(|n| *n).collect::<Vec<_>>();
        env.run()?;
        let mut out = out.take()?;
        out.sort_unstable();
        let mut expected: Vec<String> = (0..30_000).map(&line).collect();
        expected.sort_unstable();
        assert_eq!(out, expected);
        assert_eq!(lengths.take()?, [expected.iter().map(|line| line.len() as u64).sum::<u64>()]);
    }
    Ok(())
}

#[test]
fn a_dropped_cache_frees_its_memory() -> thalweg::Result<()> {
    let env = with_memory(4 << 20);
    for _ in 0..5 {
        let numbers = env.range(0..100_000).cache();
        let stats = env.start()?.wait()?;
        assert!(stats.operators.iter().all(|op| op.spilled_bytes == 0));
        assert_eq!(numbers.len()?, 100_000);
    }
    Ok(())
}

#[test]
fn timestamps_are_kept() {
    every(|env| {
        let numbers = env
            .range(0..3000)
            .assign_timestamps(
                |n| Timestamp::from_millis(*n as i64),
                Watermarks::bounded_disorder(Duration::from_secs(60)),
            )
            .cache();
        env.run()?;
        let counts = numbers
            .stream(env)
            .group_by(|n| n % 2)
            .window(EventTimeWindow::tumbling(Duration::from_millis(100)))
            .count();
        let counts = counts.unkey().map(|(key, pane)| (key, pane.value)).collect::<Vec<_>>();
        env.run()?;
        let mut counts = counts.take()?;
        counts.sort_unstable();
        let expected: Vec<_> = (0..60).map(|n| (n / 30, 50)).collect();
        assert_eq!(counts, expected);
        Ok(())
    });
}

#[test]
fn a_cache_that_is_not_filled_cannot_be_read() -> thalweg::Result<()> {
    let refused = |env: &Environment| {
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotProduced);
        assert!(error.operator().unwrap_or_default().starts_with("cached ("), "{error}");
        assert!(error.to_string().contains("has not run to its end"), "{error}");
    };
    // Not run.
    let (env, other) = (Environment::new(), Environment::new());
    let numbers = env.range(0..10).cache();
    assert_eq!(numbers.len().unwrap_err().kind(), ErrorKind::NotProduced);
    numbers.stream(&other).for_each(drop);
    refused(&other);
    env.run()?;
    let count = numbers.stream(&other).count().collect_one();
    other.run()?;
    assert_eq!(count.take()?.unwrap(), 10);
    // In the job that fills it.
    let numbers = env.range(0..10).cache();
    numbers.by_ref(&env).map(|n| *n).for_each(drop);
    refused(&env);
    // Failed.
    let wrong = env.range(0..10).map(|n| 10 / (n - 5).min(3)).group_by(|n| n % 2).cache();
    assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Panic);
    wrong.stream(&env).unkey().for_each(drop);
    refused(&env);
    // Never complete.
    let _endless = env.generate(1e3, Some).cache();
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.operator().unwrap_or_default().starts_with("cache ("), "{error}");
    Ok(())
}
