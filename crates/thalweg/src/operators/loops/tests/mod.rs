//! Loops against loops written by hand.

mod bodies;
mod delta;
mod rounds;

use super::Ended;
use crate::check::{check, every};
use crate::config::Config;
use crate::{Environment, ErrorKind};

#[test]
fn a_replayed_input_is_whole_in_every_round() {
    every(|env| {
        let sums = env
            .range(0..5000)
            .replay(20, 0, |numbers, sum| numbers.with(sum).map(|(n, sum)| n ^ (sum % 1000)))
            .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
            .until(|sum, part| {
                *sum += part;
                *sum > 100_000_000
            });
        let out = sums.collect::<Vec<_>>();
        env.run()?;
        let (mut sum, mut rounds) = (0, 0);
        while sum <= 100_000_000 {
            sum += (0..5000).map(|n| n ^ (sum % 1000)).sum::<u64>();
            rounds += 1;
        }
        let outcome = out.take()?.pop().unwrap();
        assert_eq!((outcome.state, outcome.rounds, outcome.ended), (sum, rounds, Ended::Condition));
        Ok(())
    });
}

/// How often each number's Collatz sequence has a number that is not 1.
fn collatz(mut n: u64) -> u64 {
    let mut steps = 0;
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

#[test]
fn the_output_of_a_round_is_the_input_of_the_next() {
    every(|env| {
        let (outcome, left) = env
            .range(1..500)
            .map(|n| (n, n))
            .shuffle()
            .iterate(1000, 0, |pairs, _| {
                let step = |n: u64| if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
                let on = pairs.filter(|(_, n)| *n != 1).map(move |(from, n)| (from, step(n)));
                on.group_by(|(from, _)| *from)
                    .repartition()
                    .map(|_, pair| pair)
                    .unkey()
                    .map(|(_, pair)| pair)
            })
            .fold(|steps: &mut u64, _| *steps += 1, |steps, others| *steps += others)
            .all_rounds(|all, steps| *all += steps);
        let (out, left) = (outcome.collect::<Vec<_>>(), left.count().collect_one());
        env.run()?;
        let outcome = out.take()?.pop().unwrap();
        let steps: Vec<u64> = (1..500).map(collatz).collect();
        let rounds = steps.iter().max().unwrap() + 1;
        assert_eq!((outcome.state, outcome.rounds), (steps.iter().sum(), rounds));
        assert_eq!((outcome.ended, left.take()?), (Ended::NothingLeft, Some(0)));
        Ok(())
    });
}

#[test]
fn the_rest_after_the_last_round_is_emitted() {
    check(|env| {
        let (outcome, left) = env
            .range(0..3000)
            .iterate(7, (), |numbers, _| numbers.shuffle().map(|n| n + 1))
            .fold(|(): &mut (), _| {}, |(), ()| {})
            .all_rounds(|(), ()| {});
        outcome.for_each(|outcome| assert_eq!((outcome.rounds, outcome.ended), (7, Ended::Rounds)));
        left
    })
    .equals(7..3007u64);
}

#[test]
fn operators_that_wait_for_the_end_speak_in_every_round() {
    every(|env| {
        // Each round counts by the last digit, keeps the greatest counts in order, and counts once more.
        let outcome = env
            .range(0..1000)
            .replay(5, Vec::new(), |numbers, rounds| {
                let [counts, sums] =
                    numbers.with(rounds).map(|(n, rounds)| n + rounds.len() as u64).split();
                let counts = counts.group_by(|n| n % 10).count().unkey().sorted().limit(3);
                let counts = counts.map(|(key, count)| key + count);
                let sums = sums.shuffle().fold(0, |sum, n| *sum += n);
                let least = counts.map(|n| n + 1).merge(sums).unique();
                least.reduce(|a, b| a + b)
            })
            .fold(|part: &mut Vec<u64>, sum| part.push(sum), |part, other| part.extend(other))
            .all_rounds(|rounds: &mut Vec<u64>, part| rounds.extend(part));
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        let round = |round: u64| (0..1000).map(|n| n + round).sum::<u64>() + 3 * 101 + 3;
        let expected: Vec<u64> = (0..5).map(round).collect();
        assert_eq!(out.take()?.pop().unwrap().state, expected);
        Ok(())
    });
}

#[test]
fn a_stream_from_outside_comes_once() {
    every(|env| {
        let outside = env.range(0..100).shuffle();
        let outcome = env
            .range(0..10)
            .replay(4, Vec::new(), |numbers, _| {
                numbers.map(|n| *n).merge(outside).fold(0, |count: &mut u64, _| *count += 1)
            })
            .fold(|part: &mut Vec<u64>, count| part.push(count), |part, other| part.extend(other))
            .all_rounds(|rounds: &mut Vec<u64>, part| rounds.extend(part));
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?.pop().unwrap().state, [110, 10, 10, 10]);
        Ok(())
    });
}

#[test]
fn loops_within_loops_begin_anew() {
    every(|env| {
        // Sums of sums: the inner loop adds its input so many times, the outer one adds that up.
        let outcome = env
            .range(0..200)
            .replay(3, 0, |numbers, sum| {
                let numbers = numbers.with(sum).map(|(n, sum)| n + sum % 7);
                let inner = numbers
                    .replay(10, 0, |numbers, _| numbers.map(|n| *n).shuffle())
                    .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
                    .until(|sum, part| {
                        *sum += part;
                        *sum > 100_000
                    });
                inner.map(|outcome| outcome.state * outcome.rounds)
            })
            .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
            .all_rounds(|part, other| *part += other);
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        let mut sum = 0;
        for _ in 0..3 {
            let (mut inner, mut rounds) = (0, 0);
            while rounds < 10 && inner <= 100_000 {
                inner += (0..200).map(|n| n + sum % 7).sum::<u64>();
                rounds += 1;
            }
            sum += inner * rounds;
        }
        assert_eq!(out.take()?.pop().unwrap().state, sum);
        Ok(())
    });
}

#[test]
fn a_loop_fed_back_within_a_loop() {
    every(|env| {
        let outcome = env
            .range(1..50)
            .replay(3, 0, |numbers, _| {
                let (inner, left) = numbers
                    .map(|n| *n)
                    .iterate(100, 0, |numbers, _| {
                        numbers.shuffle().filter(|n| n % 2 == 0).map(|n| n / 2)
                    })
                    .fold(|halved: &mut u64, _| *halved += 1, |halved, others| *halved += others)
                    .all_rounds(|all, halved| *all += halved);
                inner.map(|inner| inner.state).merge(left.map(|n| n * 1_000_000))
            })
            .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
            .all_rounds(|part, other| *part += other);
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        let halved: u64 = (1..50_u64).map(|n| u64::from(n.trailing_zeros())).sum();
        assert_eq!(out.take()?.pop().unwrap().state, 3 * halved);
        Ok(())
    });
}

#[test]
fn amplification_goes_to_disk_and_comes_back() -> crate::Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let spill_dir = folder.path().to_owned();
    let config = Config { memory: 1 << 20, spill_dir, ..Config::default() };
    let env = Environment::with_config(config);
    let (outcome, left) = env
        .range(0..100)
        .iterate(4, 0, |numbers, _| numbers.flat_map(|n| (0..10).map(move |k| 10 * n + k)))
        .fold(|count: &mut u64, _| *count += 1, |count, others| *count += others)
        .all_rounds(|all, count| *all += count);
    let (out, sum) = (outcome.collect::<Vec<_>>(), left.reduce(|a, b| a + b).collect::<Vec<_>>());
    let stats = env.start()?.wait()?;
    assert!(stats.memory_peak <= 1 << 20, "{}", stats.memory_peak);
    assert_eq!(out.take()?.pop().unwrap().state, 1_111_000);
    assert_eq!(sum.take()?, [(0..1_000_000).sum::<u64>()]);
    Ok(())
}

#[test]
fn rounds_are_counted() -> crate::Result<()> {
    let env = Environment::new();
    let halves = |n: u64| n.is_multiple_of(2).then_some(n / 2);
    let (_, left) = env.range(1..9).iterate(100, (), |n, _| n.filter_map(halves)).all_rounds();
    let left = left.count().collect_one();
    let stats = env.start()?.wait()?;
    assert_eq!(left.take()?.unwrap(), 0);
    let rounds = stats.operators.iter().find_map(|op| op.rounds.as_ref()).unwrap();
    assert_eq!((rounds.rounds, rounds.most, rounds.round.count), (4, 100, 4));
    let out: Vec<_> = rounds.parts.iter().map(|part| (part.records_out, part.fed_back)).collect();
    assert_eq!(out, [(4, 4), (2, 2), (1, 1), (0, 0)]);
    let took: std::time::Duration = rounds.parts.iter().map(|part| part.took).sum();
    assert!(took <= stats.wall, "{took:?}");
    assert!(stats.to_string().contains("loop iterate ("), "{stats}");
    Ok(())
}

#[test]
fn an_input_beyond_the_budget_is_replayed_from_disk() -> crate::Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let spill_dir = folder.path().to_owned();
    let env = Environment::with_config(Config { memory: 1 << 20, spill_dir, ..Config::default() });
    let n = 300_000;
    let outcome = env
        .range(0..n)
        .replay(3, 0, |numbers, _| numbers.map(|n| *n))
        .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
        .all_rounds(|sum, part| *sum += part);
    let out = outcome.collect::<Vec<_>>();
    env.run()?;
    assert_eq!(out.take()?.pop().unwrap().state, 3 * (0..n).sum::<u64>());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    Ok(())
}

/// The outcome of a loop and the records that are left may be ignored; an operator without a sink may not.
#[test]
fn side_results_of_a_loop_need_no_consumer() {
    every(|env| {
        let (_, left) = env.range(0..9).iterate(3, (), |numbers, _| numbers).all_rounds();
        let left = left.count().collect_one();
        let (outcome, _) = env.range(0..9).iterate(3, (), |numbers, _| numbers).all_rounds();
        let rounds = outcome.map(|outcome| outcome.rounds).collect::<Vec<_>>();
        env.run()?;
        assert_eq!((left.take()?.unwrap(), rounds.take()?), (9, vec![3]));
        Ok(())
    });
    let env = Environment::new();
    let (outcome, left) = env.range(0..9).iterate(3, (), |numbers, _| numbers).all_rounds();
    let _ = (outcome.map(|outcome| outcome.rounds), left.count().collect_one());
    assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Plan);
}

#[test]
fn wrong_loops_are_refused_and_panics_named() {
    let env = Environment::new();
    let outcome = env.range(0..3).replay(0, 0, |n, _| n.map(|n| *n));
    outcome.fold(|_: &mut u64, _| {}, |_, _| {}).all_rounds(|_, _| {}).for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.to_string().contains("no rounds"), "{error}");

    let env = Environment::new();
    let outcome = env.generate(1000.0, Some).replay(3, 0, |n, _| n.map(|n| *n));
    outcome.fold(|_: &mut u64, _| {}, |_, _| {}).all_rounds(|_, _| {}).for_each(drop);
    assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Plan);

    let env = Environment::new();
    let outcome = env.range(0..3).replay(3, 0, |n, _| n.map(|n| *n));
    outcome.fold(|_: &mut u64, _| {}, |_, _| {}).all_rounds(|_, _| panic!("odd")).for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert!(error.operator().unwrap_or_default().starts_with("replay ("), "{error}");
}
