//! Operators within loops: each begins anew in every round.

use crate::Environment;
use crate::check::{every, every_on_one_host};
use crate::config::Config;
use crate::operators::loops::Ended;
use crate::operators::time::Watermarks;
use crate::operators::window::{CountWindow, EventTimeWindow, SessionWindow};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// Windows of event time are emitted at the end of the round.
#[test]
fn windows_of_event_time() {
    every(|env| {
        let micros = Duration::from_micros;
        let outcome = env
            .range(0..1000)
            .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous())
            .replay(4, 0, |numbers, round| {
                let numbers = numbers.with(round).map(|(n, round)| n + round);
                let [tumbling, sessions] = numbers.split();
                let tumbling =
                    tumbling.group_by(|n| n % 3).window(EventTimeWindow::tumbling(micros(100)));
                let sessions = sessions.group_by(|n| n % 3).window(SessionWindow::new(micros(50)));
                let tumbling = tumbling.sum(|n| *n).unkey().map(|(_, pane)| (1, pane.value));
                tumbling.merge(sessions.count().unkey().map(|(_, pane)| (1_000_000, pane.value)))
            })
            .fold(
                |part: &mut (u64, u64), (weight, value)| {
                    *part = (part.0 + 1, part.1 + weight * value)
                },
                |part, other| *part = (part.0 + other.0, part.1 + other.1),
            )
            .until(|round, (panes, total)| {
                // Thirty windows and three sessions; the sum of all numbers, and their count.
                let expected = (0..1000).map(|n| n + *round).sum::<u64>() + 1000 * 1_000_000;
                assert_eq!((panes, total), (33, expected));
                *round += 1;
                false
            });
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?.pop().unwrap().state, 4);
        Ok(())
    });
}

/// Records that do not fill a window in a round are not carried into the next.
#[test]
fn windows_of_counts() {
    every(|env| {
        let outcome = env
            .iter(0..10)
            .replay(5, Vec::new(), |numbers, _| {
                let pairs = numbers.map(|n| *n).group_by(|_| ()).window(CountWindow::tumbling(4));
                pairs.sum(|n| *n).unkey().map(|(_, pane)| pane.value)
            })
            .fold(|part: &mut Vec<u64>, sum| part.push(sum), |part, other| part.extend(other))
            .all_rounds(|rounds: &mut Vec<Vec<u64>>, sums| rounds.push(sums));
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        let rounds = out.take()?.pop().unwrap().state;
        assert!(rounds.iter().all(|sums| *sums == rounds[0]), "{rounds:?}");
        assert_eq!((rounds.len(), rounds[0].len()), (5, 2));
        Ok(())
    });
}

/// Both sides come from within the loop, and the table is built in every round.
#[test]
fn joins_of_what_the_loop_gives() {
    every(|env| {
        let outcome = env
            .range(0..300)
            .replay(4, 1, |numbers, round| {
                let [some, others] = numbers.with(round).map(|(n, round)| n * round).split();
                let joined = some.group_by(|n| *n).join(others.group_by(|n| n + 30)).unkey();
                joined.map(|(_, (a, b))| a + b)
            })
            .fold(
                |part: &mut (u64, u64), n| *part = (part.0 + 1, part.1 + n),
                |part, other| *part = (part.0 + other.0, part.1 + other.1),
            )
            .until(|round, found| {
                let numbers = || (0..300).map(|n| n * *round);
                let pairs = numbers()
                    .flat_map(|b| numbers().filter(move |a| *a == b + 30).map(move |a| a + b));
                let expected = (pairs.clone().count() as u64, pairs.sum());
                assert_eq!(found, expected);
                *round += 1;
                false
            });
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?.pop().unwrap().state, 5);
        Ok(())
    });
}

/// A row of a table from outside the loops that has no partner is a result of each round of the join's own loop, and is not
/// emitted again at rounds of the outer loop or at the end.
#[test]
fn rows_without_a_partner_are_emitted_in_each_round_alone() {
    every_on_one_host(|env| {
        let table = env.range(0..20).map(|n| (n, n)).keyed();
        let emitted = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&emitted);
        let outcome = env
            .range(0..5)
            .replay(2, Vec::new(), |numbers, _| {
                let counts = numbers
                    .map(|n| *n)
                    .replay(3, 0_u64, |numbers, _| {
                        let all = numbers.map(|n| *n).group_by(|n| *n).right_join(table).unkey();
                        all.inspect(move |_| _ = counting.fetch_add(1, Ordering::Relaxed))
                    })
                    .fold(|count: &mut u64, _| *count += 1, |count, other| *count += other)
                    .all_rounds(|all, count| *all += count);
                counts.map(|outcome| outcome.state)
            })
            .fold(|part: &mut Vec<u64>, n| part.push(n), |part, other| part.extend(other))
            .all_rounds(|all: &mut Vec<u64>, part| all.extend(part));
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?.pop().unwrap().state, [60, 60]);
        assert_eq!(emitted.load(Ordering::Relaxed), 2 * 3 * 20);
        Ok(())
    });
}

/// Ten records made of each, sent through exchanges with little credit and through a single task, and fed back.
#[test]
fn bodies_that_amplify_never_deadlock() {
    every(|env| {
        let (outcome, left) = env
            .range(0..5)
            .iterate(3, 0, |numbers, _| {
                let many = numbers.shuffle().flat_map(|n| (0..10).map(move |k| 10 * n + k));
                let [some, others] = many.split();
                let some =
                    some.filter(|n| n % 2 == 0).group_by(|_| 7).repartition().map(|_, n| n).unkey();
                let others =
                    others.filter(|n| n % 2 == 1).broadcast().stateful_map(0_u64, |_, n| n);
                some.map(|(_, n)| n).merge(others.unique())
            })
            .fold(|count: &mut u64, _| *count += 1, |count, others| *count += others)
            .all_rounds(|all, count| *all += count);
        let (out, sum) =
            (outcome.collect::<Vec<_>>(), left.reduce(|a, b| a + b).collect::<Vec<_>>());
        env.run()?;
        let outcome = out.take()?.pop().unwrap();
        assert_eq!((outcome.state, outcome.ended), (5 * 1110, Ended::Rounds));
        assert_eq!(sum.take()?, [(0..5000).sum::<u64>()]);
        Ok(())
    });
}

/// The state of one round does not survive into the next.
#[test]
fn operators_that_remember() -> crate::Result<()> {
    let config = Config { cores: 2.try_into().unwrap(), ..Config::default() };
    let env = Environment::with_config(config);
    let outcome = env
        .range(0..1000)
        .replay(3, 0, |numbers, _| {
            let [some, others] = numbers.map(|n| *n).split();
            let seen = some.group_by(|n| n % 5).stateful_map(0, |_, seen: &mut u64, _| {
                *seen += 1;
                *seen
            });
            let first = others.map(|n| n % 5).unique().sorted().limit(3);
            seen.max(|n| *n).unkey().map(|(_, most)| most).merge(first)
        })
        .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
        .until(|round, sum| {
            *round += 1;
            assert_eq!(sum, 5 * 200 + 3);
            false
        });
    let out = outcome.collect::<Vec<_>>();
    env.run()?;
    assert_eq!(out.take()?.pop().unwrap().state, 3);
    Ok(())
}
