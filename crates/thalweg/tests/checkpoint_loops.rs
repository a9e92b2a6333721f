//! Jobs with loops that are interrupted at a barrier, and begin again with what was saved there.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use thalweg::check::check;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::operators::loops::Ended;
use thalweg::{Chain, Environment, JobHandle, Stream};

/// Checks a job that can have checkpoints.
macro_rules! restored {
    ($job:expr) => {{
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.checkpoints = Some(CheckpointConfig::new(folder.path()));
        let env = Environment::with_config(config);
        let out = $job(&env).collect::<Vec<_>>();
        env.run().expect("a job of which all is saved");
        drop(out);
        check($job).any_tasks().must_restore().seeds(12)
    }};
}

fn add(sum: &mut u64, n: u64) {
    *sum += n;
}

/// Numbers in as many tasks as there are.
fn dealt(env: &Environment, end: u64) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
    env.parallel_iter(move |task, tasks| (task as u64..end).step_by(tasks))
}

/// What is left of a number after so many rounds of [`collatz`].
fn after(mut n: u64, rounds: u64) -> u64 {
    for _ in 0..rounds {
        n = collatz(n);
    }
    n
}

fn collatz(n: u64) -> u64 {
    if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 }
}

#[test]
fn what_is_fed_back_is_restored() {
    // All rounds take place.
    restored!(|env: &Environment| {
        let (outcome, left) = dealt(env, 300).iterate(40, (), |n, _| n.map(collatz)).all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals((0..300).map(|n| after(n, 40)));
    // More than a batch of them.
    restored!(|env: &Environment| {
        let (outcome, left) = dealt(env, 6000).iterate(3, (), |n, _| n.map(|n| n + 1)).all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals(3..6003u64);
    // None is left at some time.
    let halves = |env: &Environment| {
        let (outcome, left) = dealt(env, 400)
            .iterate(1000, 0, |numbers, _| numbers.filter(|n| n % 2 == 0 && *n > 0).map(|n| n / 2))
            .fold(|halved: &mut u64, _| *halved += 1, add)
            .all_rounds(add);
        let outcome = outcome.map(|outcome| (outcome.state, outcome.rounds));
        outcome.merge(left.map(|n| (n, n)))
    };
    let halved: u64 = (1..400u64).map(|n| u64::from(n.trailing_zeros())).sum();
    restored!(halves).equals([(halved, 9)]);
    // The condition ends it, and the state is read in the body.
    restored!(|env: &Environment| {
        let (outcome, left) = env
            .range(0..200)
            .iterate(1000, 1u64, |numbers, step| {
                numbers.shuffle().with(step).map(|(n, step)| n + *step)
            })
            .fold(|most: &mut u64, n| *most = (*most).max(*n), |most, n| *most = n.max(*most))
            .until(|step, most| {
                *step += 1;
                most > 500
            });
        let ended = outcome.map(|outcome| {
            assert_eq!(outcome.ended, Ended::Condition);
            outcome.state
        });
        ended.merge(left)
    })
    .equals((0..200u64).map(|n| n + 25 * 26 / 2).chain([26]));
    restored!(|env: &Environment| {
        let (outcome, left) = env.range(0..0).iterate(5, 7u64, |none, _| none).all_rounds();
        left.merge(outcome.map(|outcome| outcome.state + outcome.rounds))
    })
    .equals([8u64]);
    restored!(|env: &Environment| {
        let (outcome, left) = dealt(env, 100).iterate(1, (), |n, _| n.map(|n| n + 1)).all_rounds();
        outcome.map(|outcome| outcome.rounds).merge(left).sorted().fold(0, add)
    })
    .equals([5051u64]);
    // Records that own memory, and behind the loop a table.
    restored!(|env: &Environment| {
        let words = env.range(0..150).map(|n| n.to_string());
        let (outcome, left) = words.iterate(9, (), |words, _| words.map(|w| w + "x")).all_rounds();
        outcome.for_each(drop);
        left.group_by(|word| word.len()).count()
    })
    .equals([(10, 10u64), (11, 90), (12, 50)]);
}

#[test]
fn operators_of_a_body_are_restored() {
    let sums = |rounds: u64| {
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        (0..300).for_each(|n| *sums.entry(n % 30).or_default() += n);
        for _ in 1..rounds {
            let mut next = BTreeMap::new();
            sums.iter().for_each(|(key, n)| *next.entry((key + n) % 30).or_default() += n);
            sums = next;
        }
        sums
    };
    restored!(|env: &Environment| {
        let numbers = dealt(env, 300).map(|n| (n % 30, n));
        let (outcome, left) = numbers
            .iterate(12, (), |pairs, _| {
                let sums = pairs.group_by(|pair| pair.0).sum(|pair| pair.1).unkey();
                sums.map(|(key, n)| ((key + n) % 30, n))
            })
            .all_rounds();
        outcome.for_each(drop);
        left.map(|(_, n)| n)
    })
    .equals(sums(12).into_values());
    // Aggregates over all records, of which each round has one.
    restored!(|env: &Environment| {
        let (outcome, left) = dealt(env, 100)
            .iterate(20, (), |numbers, _| {
                let [some, others] = numbers.split();
                let sum = others.fold_assoc(0, add, add).map(|sum| sum % 1000);
                sum.merge(some.top(30).limit(29).map(|n| n + 1))
            })
            .all_rounds();
        outcome.for_each(drop);
        left.count()
    })
    .equals([30u64]);
    restored!(|env: &Environment| {
        let (outcome, left) = env
            .range(0..60)
            .iterate(10, (), |numbers, _| {
                numbers.sorted().scan(0, |last: &mut u64, n| {
                    assert!(*last <= n);
                    *last = n;
                    Some(n + 1)
                })
            })
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals(10..70u64);
    restored!(|env: &Environment| {
        let (outcome, left) = dealt(env, 100)
            .iterate(5, (), |numbers, _| numbers.chunks(4).flatten().map(|n| n + 1))
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals(5..105u64);
    restored!(|env: &Environment| {
        let (outcome, left) = dealt(env, 200)
            .iterate(8, (), |numbers, _| {
                let numbered =
                    numbers.group_by(|n| n % 7).stateful_map(0, |_, seen: &mut u64, n| {
                        *seen += 1;
                        assert!(*seen <= 200);
                        n
                    });
                numbered.unkey().map(|(_, n)| n).unique().map(|n| n + n % 2)
            })
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals((0..=200u64).step_by(2));
    // The two branches of a body meet.
    restored!(|env: &Environment| {
        let (outcome, left) = dealt(env, 120)
            .iterate(7, (), |numbers, _| {
                let [one, other] = numbers.split();
                let joined = one.group_by(|n| n % 40).join(other.map(|n| n / 40).group_by(|n| *n));
                joined.unkey().map(|(_, (n, _))| n).unique()
            })
            .all_rounds();
        outcome.map(|outcome| outcome.rounds).merge(left)
    })
    .agrees();
    restored!(|env: &Environment| {
        let (outcome, left) = env
            .range(0..50)
            .iterate(7, (), |numbers, _| {
                let [one, other] = numbers.split();
                one.zip(other).map(|(a, b)| a + u64::from(a != b))
            })
            .all_rounds();
        outcome.for_each(drop);
        left.count()
    })
    .equals([50u64]);
}

#[test]
fn what_comes_from_outside_a_loop_is_restored() {
    let table = |env: &Environment, end: u64| dealt(env, end).map(|n| (n, 2 * n));
    restored!(|env: &Environment| {
        let table = table(env, 50).keyed();
        let (outcome, left) = dealt(env, 90)
            .iterate(9, (), |numbers, _| {
                let found = numbers.group_by(|n| n % 60).join(table);
                found.unkey().map(|(_, (n, double))| n + double)
            })
            .all_rounds();
        outcome.map(|outcome| outcome.rounds).merge(left)
    })
    .agrees();
    for kind in 0..3 {
        restored!(move |env: &Environment| {
            let table = table(env, 45).keyed();
            let (outcome, left) = dealt(env, 90)
                .iterate(12, (), |numbers, _| {
                    let keyed = numbers.group_by(|n| n % 60);
                    match kind {
                        0 => keyed.left_join(table).unkey().map(|(_, (n, _))| n + 7).boxed(),
                        1 => keyed.anti_join(table).unkey().map(|(_, n)| n + 1).boxed(),
                        _ => keyed.semi_join(table).unkey().map(|(_, n)| n + 1).boxed(),
                    }
                })
                .all_rounds();
            outcome.map(|outcome| outcome.rounds).merge(left)
        })
        .agrees();
    }
    // Rows of the table that have met no partner in a round are results too.
    restored!(|env: &Environment| {
        let table = table(env, 20).keyed();
        let (outcome, left) = dealt(env, 30)
            .iterate(6, (), |numbers, _| {
                let all = numbers.group_by(|n| n % 40).full_join(table).unkey();
                all.map(|(key, (n, row))| n.unwrap_or(key) + row.map_or(1, |_| 3)).limit(60)
            })
            .all_rounds();
        outcome.for_each(drop);
        left.count()
    })
    .agrees();
    // Which rows have met one counts for each round anew: five of twenty have.
    restored!(|env: &Environment| {
        let table = table(env, 20).keyed();
        let (outcome, left) = dealt(env, 5)
            .iterate(25, 0u64, |numbers, _| {
                let moving = numbers.filter(|n| *n < 1000).group_by(|n| n % 20);
                moving
                    .right_join(table)
                    .unkey()
                    .map(|(key, (n, _))| n.map_or(1000 + key, |n| n + 1))
            })
            .fold(|count: &mut u64, _| *count += 1, add)
            .all_rounds(add);
        outcome.map(|outcome| outcome.state).merge(left.filter(|n| *n < 1000))
    })
    .seeds(16)
    .equals((25..30u64).chain([25 * 20]));
    restored!(|env: &Environment| {
        let [one, other] = dealt(env, 60).split();
        let (outcome, left) = one
            .iterate(5, (), |numbers, _| {
                numbers.cross(other.filter(|n| n % 20 == 0)).map(|(a, b)| a / 3 + b)
            })
            .all_rounds();
        outcome.for_each(drop);
        left.group_by(|n| *n).count()
    })
    .agrees();
    // What is merged comes in the first round only.
    restored!(|env: &Environment| {
        let more = dealt(env, 3000).map(|n| n + 1000);
        let (outcome, left) = dealt(env, 30)
            .iterate(6, (), |numbers, _| {
                numbers.merge(more).group_by(|n| *n).count().unkey().map(|(n, _)| n + 1)
            })
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals((0..30u64).chain(1000..4000).map(|n| n + 6));
    restored!(|env: &Environment| {
        let more = dealt(env, 300).map(|n| n + 1000);
        let (outcome, left) = dealt(env, 30)
            .iterate(6, (), |numbers, _| numbers.merge(more).map(|n| n + 1))
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals((0..30u64).chain(1000..1300).map(|n| n + 6));
}

#[test]
fn what_is_replayed_is_restored() {
    restored!(|env: &Environment| {
        let sums = dealt(env, 500)
            .replay(30, 1u64, |numbers, factor| {
                numbers.with(factor).map(|(n, factor)| n * factor % 1009)
            })
            .fold(add, add)
            .all_rounds(|factor, sum| *factor = sum % 997 + 1);
        sums.map(|outcome| (outcome.state, outcome.rounds))
    })
    .equals([(
        (0..30).fold(1u64, |factor, _| (0..500).map(|n| n * factor % 1009).sum::<u64>() % 997 + 1),
        30u64,
    )]);
    // The condition ends it, and the body counts by key.
    restored!(|env: &Environment| {
        let rounds = env
            .range(0..200)
            .shuffle()
            .replay(100, 0u64, |numbers, _| {
                numbers.map(|n| *n).group_by(|n| n % 9).count().unkey().map(|(_, count)| count)
            })
            .fold(add, add)
            .until(|all, count| {
                assert_eq!(count, 200);
                *all += count;
                *all >= 3000
            });
        rounds.map(|outcome| (outcome.state, outcome.rounds, outcome.ended == Ended::Condition))
    })
    .equals([(3000u64, 15u64, true)]);
    for rounds in [1, 7] {
        restored!(move |env: &Environment| {
            let none = env.range(0..0).replay(rounds, 5u64, |n, _| n.map(|n| *n));
            none.fold(add, add).all_rounds(|state, n| *state += n + 1).map(|o| (o.state, o.rounds))
        })
        .equals([(5 + rounds, rounds)]);
    }
    // The loop is over long before the job is, and its results are used.
    restored!(|env: &Environment| {
        let sums = env.range(0..10).replay(3, 0u64, |n, _| n.map(|n| *n)).fold(add, add);
        let sums = sums.all_rounds(|state, n| *state += n).map(|outcome| outcome.state);
        dealt(env, 2000).merge(sums).fold_assoc(0, add, add)
    })
    .equals([1999 * 1000 + 3 * 45u64]);
    // Two loops, of which one follows the other, and another one beside them.
    restored!(|env: &Environment| {
        let [one, other] = dealt(env, 100).split();
        let (first, left) = one.iterate(12, (), |n, _| n.map(|n| n + 1)).all_rounds();
        first.for_each(drop);
        let second = left.replay(8, 0u64, |n, _| n.map(|n| *n)).fold(add, add);
        let second = second.all_rounds(|state, n| *state = n).map(|outcome| outcome.state);
        let beside = other.replay(25, 0u64, |n, _| n.map(|n| *n)).fold(add, add);
        let beside = beside.all_rounds(|state, n| *state += n).map(|outcome| outcome.state);
        second.merge(beside)
    })
    .equals([4950 + 1200u64, 25 * 4950]);
    // Half of the tasks have no input, and end theirs before the others.
    restored!(|env: &Environment| {
        let unequal = |task: usize, tasks: usize| match (task, tasks) {
            (0, 1) => 0..900u64,
            (1, _) => 0..900,
            _ => 0..0,
        };
        let sums = env.parallel_iter(unequal).replay(20, 0u64, |n, _| n.map(|n| *n));
        sums.fold(add, add).all_rounds(|state, n| *state += n).map(|outcome| outcome.state)
    })
    .equals([20 * 899 * 450u64]);
}

/// The edges of two rings of so many nodes, in both directions.
fn rings(
    env: &Environment,
    nodes: u64,
) -> Stream<impl Chain<Item = (u64, u64), Time = ()> + use<>> {
    let edges = dealt(env, 2 * nodes).map(move |n| {
        let ring = n / nodes * nodes;
        (n, ring + (n + 1 - ring) % nodes)
    });
    edges.flat_map(|(a, b)| [(a, b), (b, a)])
}

fn less(smallest: &mut u64, other: u64) -> bool {
    other < std::mem::replace(smallest, other.min(*smallest))
}

#[test]
fn the_solution_of_a_delta_iteration_is_restored() {
    restored!(|env: &Environment| {
        let [nodes, edges] = rings(env, 40).split();
        let (outcome, components) = nodes
            .map(|(node, _)| (node, node))
            .keyed()
            .delta_iterate(100, (), less, |changed, _| {
                let next = changed.join(edges.keyed()).unkey();
                next.map(|(_, (smallest, neighbour))| (neighbour, smallest)).keyed()
            })
            .all_rounds();
        let rounds = outcome.map(|outcome| (1000, outcome.rounds));
        components.unkey().merge(rounds)
    })
    .equals((0..80).map(|n| (n, n / 40 * 40)).chain([(1000, 21)]));
    // It ends before it is complete, and behind it there is a table.
    restored!(|env: &Environment| {
        let edges = rings(env, 30).keyed();
        let (outcome, components) = dealt(env, 60)
            .map(|n| (n, n))
            .keyed()
            .delta_iterate(9, 0u64, less, |changed, _| {
                let next = changed.join(edges).unkey();
                next.map(|(_, (smallest, neighbour))| (neighbour, smallest)).keyed()
            })
            .fold(|changed: &mut u64, _| *changed += 1, add)
            .until(|all, changed| {
                *all += changed;
                *all > 200
            });
        let counts = components.unkey().map(|(_, smallest)| smallest).group_by(|n| *n).count();
        counts.unkey().merge(outcome.map(|outcome| (outcome.state, outcome.rounds)))
    })
    .agrees();
    restored!(|env: &Environment| {
        let (outcome, solution) = env
            .range(0..0)
            .group_by(|n| *n)
            .delta_iterate(9, (), less, |changed, _| changed)
            .all_rounds();
        solution.unkey().map(|(n, _)| n).merge(outcome.map(|outcome| outcome.rounds))
    })
    .equals([1u64]);
    // One entry changes in each round, and no other may be in the next.
    restored!(|env: &Environment| {
        let numbers = env.range(0..20).map(|n| (n, (0u64, if n == 0 { 60u64 } else { 0 })));
        let (outcome, solution) = numbers
            .keyed()
            .delta_iterate(
                100,
                (),
                |(visits, left): &mut (u64, u64), (_, to_go)| {
                    (*visits, *left) = (*visits + 1, to_go);
                    true
                },
                |changed, _| {
                    let moving = changed.unkey().filter(|(_, (_, left))| *left > 0);
                    moving.map(|(n, (_, left))| ((n + 1) % 20, (0, left - 1))).keyed()
                },
            )
            .all_rounds();
        let rounds = outcome.map(|outcome| (100, outcome.rounds));
        solution.unkey().map(|(n, (visits, _))| (n, visits)).merge(rounds)
    })
    .seeds(16)
    .equals((0..20u64).map(|n| (n, 3u64)).chain([(100, 61)]));
    // Keys that own memory; a task may have none that changes.
    restored!(|env: &Environment| {
        let (outcome, solution) = env
            .range(0..40)
            .map(|n| (n.to_string(), if n == 7 { 0 } else { 100 }))
            .keyed()
            .delta_iterate(60, (), less, |changed, _| {
                let next = changed.unkey().map(|(key, n)| (key.parse::<u64>().unwrap(), n));
                next.map(|(key, n)| (((key + 1) % 40).to_string(), n)).keyed()
            })
            .all_rounds();
        let rounds = outcome.map(|outcome| (String::new(), outcome.rounds));
        solution.unkey().merge(rounds)
    })
    .equals((0..40).map(|n| (n.to_string(), 0)).chain([(String::new(), 40)]));
}

#[test]
fn loops_in_loops_are_restored() {
    restored!(|env: &Environment| {
        let (outcome, left) = dealt(env, 300)
            .iterate(12, (), |numbers, _| {
                let (inner, left) = numbers.iterate(3, (), |n, _| n.map(collatz)).all_rounds();
                inner.for_each(drop);
                left
            })
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals((0..300).map(|n| after(n, 36)));
    // Each run of the inner loop begins with its initial state, and counts its own rounds.
    let mut factor = 1u64;
    for _ in 0..9 {
        let mut sum = 0u64;
        for _ in 0..4 {
            let round = (0..60u64).map(|n| (n * factor % 101 + sum) % 1009);
            sum = round.sum::<u64>() % 997;
        }
        factor = (sum + 4) % 97 + 1;
    }
    restored!(|env: &Environment| {
        let sums = dealt(env, 60).replay(9, 1u64, |numbers, factor| {
            let inner = numbers
                .with(factor)
                .map(|(n, factor)| n * factor % 101)
                .replay(4, 0u64, |n, sum| n.with(sum).map(|(n, sum)| (n + sum) % 1009))
                .fold(add, add)
                .all_rounds(|sum, part| *sum = part % 997);
            inner.map(|outcome| outcome.state + outcome.rounds)
        });
        let factors = sums.fold(add, add).all_rounds(|factor, sum| *factor = sum % 97 + 1);
        factors.map(|outcome| (outcome.state, outcome.rounds))
    })
    .equals([(factor, 9u64)]);
    // A table from outside both loops, and a solution.
    restored!(|env: &Environment| {
        let edges = rings(env, 12).keyed();
        let (outcome, left) = dealt(env, 24)
            .map(|n| (n, n))
            .iterate(5, (), |nodes, _| {
                let (deltas, least) = nodes
                    .keyed()
                    .delta_iterate(30, (), less, |changed, _| {
                        let next = changed.join(edges).unkey();
                        next.map(|(_, (smallest, neighbour))| (neighbour, smallest)).keyed()
                    })
                    .all_rounds();
                deltas.for_each(drop);
                least.unkey().map(|(n, smallest)| (n, smallest + 1))
            })
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals((0..24u64).map(|n| (n, n / 12 * 12 + 5)));
    // A table that the outer loop sends in each of its rounds, and a third loop.
    restored!(|env: &Environment| {
        let (outcome, left) = dealt(env, 40)
            .iterate(5, (), |numbers, _| {
                let [numbers, others] = numbers.split();
                let table = others.map(|n| n % 10).unique().map(|digit| (digit, 10u64)).keyed();
                let (inner, left) = numbers
                    .iterate(2, (), |n, _| {
                        let found = n.group_by(|n| n % 10).join(table).unkey();
                        let (innermost, left) = found
                            .map(|(_, (n, more))| n + more)
                            .iterate(2, (), |n, _| n.shuffle().map(|n| n + 10))
                            .all_rounds();
                        innermost.for_each(drop);
                        left
                    })
                    .all_rounds();
                inner.for_each(drop);
                left
            })
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals((0..40u64).map(|n| n + 5 * 2 * 30));
}

#[test]
fn what_comes_into_an_inner_loop_from_outside_is_restored() {
    // It arrives before the first round of the outer loop: at the head of the inner one, and in its body.
    restored!(|env: &Environment| {
        let more = dealt(env, 900).map(|n| n + 1000);
        let others = dealt(env, 40).map(|n| n + 5000);
        let (outcome, left) = dealt(env, 30)
            .iterate(4, (), |numbers, _| {
                let (inner, left) = numbers
                    .merge(more)
                    .iterate(3, (), |numbers, _| {
                        let counts = numbers.merge(others).group_by(|n| *n).count();
                        counts.unkey().map(|(n, count)| n + count)
                    })
                    .all_rounds();
                inner.for_each(drop);
                left
            })
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals((0..30u64).chain(1000..1900).chain(5000..5040).map(|n| n + 12));
    // Fifteen of the table's rows have no partner in any round.
    restored!(|env: &Environment| {
        let table = dealt(env, 20).map(|n| (n, n)).keyed();
        let counts = dealt(env, 5).replay(4, Vec::new(), |numbers, _| {
            let all = numbers
                .map(|n| *n)
                .replay(3, 0u64, |numbers, _| {
                    let all = numbers.map(|n| *n).group_by(|n| *n).right_join(table).unkey();
                    all.filter(|(_, (found, _))| found.is_none()).map(|_| 1u64)
                })
                .fold(add, add);
            all.all_rounds(add).map(|outcome| outcome.state)
        });
        let counts = counts.fold(|part: &mut Vec<u64>, n| part.push(n), |part, n| part.extend(n));
        counts.all_rounds(|all: &mut Vec<u64>, part| all.extend(part)).map(|outcome| outcome.state)
    })
    .equals([vec![45u64; 4]]);
}

/// Why a job with checkpoints is refused.
fn refusal(job: impl FnOnce(&Environment)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.checkpoints = Some(CheckpointConfig::new(folder.path()));
    let env = Environment::with_config(config);
    job(&env);
    assert!(!env.plan().without_checkpoints().is_empty());
    env.run().expect_err("it is refused").to_string()
}

#[test]
fn what_is_not_saved_in_loops_is_refused_by_name() {
    let said = refusal(|env| {
        let control = env.range(0..5);
        let sums = env.range(0..9).replay(3, (), |outer, _| {
            let inner = outer.map(|n| *n).replay(2, (), |inner, _| {
                inner.map(|n| *n).connect_after(control, 0, add).map(|(n, sum)| n + sum)
            });
            inner.fold(add, add).all_rounds(|(), _| ()).map(|outcome| outcome.rounds)
        });
        sums.fold(add, add).all_rounds(|(), _| ()).for_each(drop);
    });
    assert!(said.contains("connect_after") && said.contains("it is in a loop"), "{said}");
    let said = refusal(|env| {
        let control = env.range(0..5);
        let sums = env.range(0..9).replay(3, (), |numbers, _| {
            numbers.map(|n| *n).connect_after(control, 0, add).map(|(n, sum)| n + sum)
        });
        sums.fold(add, add).all_rounds(|(), _| ()).for_each(drop);
    });
    assert!(said.contains("connect_after") && said.contains("it is in a loop"), "{said}");
}

/// An environment with a directory for checkpoints, of which none is taken by itself.
fn with_checkpoints(folder: &Path) -> Environment {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(3).unwrap();
    let mut checkpoints = CheckpointConfig::new(folder);
    checkpoints.interval = Duration::from_secs(1 << 20);
    config.checkpoints = Some(checkpoints);
    Environment::with_config(config)
}

/// Sends barriers through a job that does not end before the flag is set.
fn barriers_pass(job: JobHandle, over: &AtomicBool) {
    let (done, passed) = mpsc::channel();
    thread::scope(|scope| {
        let job = &job;
        scope.spawn(move || {
            (0..20).for_each(|_| job.barrier().unwrap());
            done.send(()).unwrap();
        });
        let passed = passed.recv_timeout(Duration::from_secs(60));
        over.store(true, Ordering::Relaxed);
        passed.expect("barriers pass while the loop runs");
    });
    job.wait().unwrap();
}

#[test]
fn barriers_pass_while_a_loop_runs() {
    let folder = tempfile::tempdir().unwrap();
    let env = with_checkpoints(folder.path());
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let (outcome, left) = dealt(&env, 100)
        .iterate(u64::MAX, 0u64, |numbers, _| numbers.shuffle())
        .fold(|sum: &mut u64, n| *sum += n, add)
        .until(move |sum, part| {
            *sum = part;
            stop.load(Ordering::Relaxed)
        });
    outcome.for_each(|outcome| assert_eq!(outcome.state, 4950));
    left.for_each(drop);
    barriers_pass(env.start().unwrap(), &over);
}

#[test]
fn barriers_pass_while_a_loop_with_a_loop_runs() {
    let folder = tempfile::tempdir().unwrap();
    let env = with_checkpoints(folder.path());
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let (outcome, left) = dealt(&env, 100)
        .iterate(u64::MAX, 0u64, |numbers, _| {
            let (inner, left) = numbers.iterate(3, (), |numbers, _| numbers.shuffle()).all_rounds();
            inner.for_each(drop);
            left
        })
        .fold(|sum: &mut u64, n| *sum += n, add)
        .until(move |sum, part| {
            *sum = part;
            stop.load(Ordering::Relaxed)
        });
    outcome.for_each(|outcome| assert_eq!(outcome.state, 4950));
    left.for_each(drop);
    barriers_pass(env.start().unwrap(), &over);
}

/// Polls for a minute.
fn soon(is_so: impl Fn() -> bool) -> bool {
    (0..60_000).any(|_| {
        thread::sleep(Duration::from_millis(1));
        is_so()
    })
}

/// Numbers nearly all of which are in one task, most of them only once the flag is set.
fn held(
    env: &Environment,
    going_on: &Arc<AtomicBool>,
) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
    let going_on = Arc::clone(going_on);
    env.parallel_iter(move |task, _| {
        let goes_on = Arc::clone(&going_on);
        (0..if task == 1 { 400_000u64 } else { 1 }).inspect(move |n| {
            while *n == 1000 && !goes_on.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        })
    })
}

/// Requests a barrier while [`held`] numbers wait, and releases them behind it. The job must end.
fn ends_with_a_barrier(job: JobHandle, going_on: &AtomicBool) {
    thread::scope(|scope| {
        let job = &job;
        // Meanwhile the other tasks proceed as far as they can.
        thread::sleep(Duration::from_millis(100));
        scope.spawn(move || _ = job.barrier());
        thread::sleep(Duration::from_millis(20));
        going_on.store(true, Ordering::Relaxed);
        let ends = soon(|| job.is_over());
        if !ends {
            job.cancel();
        }
        assert!(ends, "the barrier holds back what the loop waits for");
    });
    job.wait().unwrap();
}

/// Heads of an inner loop whose input is complete wait for heads with input from outside, and the operators behind wait for a
/// barrier from each head. The barrier must not hold back the rest of that input.
#[test]
fn a_barrier_in_the_first_round_holds_back_no_stream_into_an_inner_loop() {
    let folder = tempfile::tempdir().unwrap();
    let env = with_checkpoints(folder.path());
    let going_on = Arc::new(AtomicBool::new(false));
    let [more, others] = held(&env, &going_on).split();
    let (outcome, left) = env
        .range(0..1)
        .iterate(1, (), |numbers, _| {
            let (inner, left) = numbers
                .merge(more)
                .iterate(1, (), |numbers, _| numbers.merge(others).shuffle())
                .all_rounds();
            inner.for_each(drop);
            left
        })
        .all_rounds();
    outcome.for_each(drop);
    let count = left.count().collect_one();
    ends_with_a_barrier(env.start().unwrap(), &going_on);
    assert_eq!(count.take().unwrap(), Some(1 + 2 * 400_002));
}

/// The operators behind a loop wait for a barrier from its heads, which are in the first round. The barrier must not hold back
/// a stream whose source also feeds a stream that the round waits for.
#[test]
fn a_barrier_in_the_first_round_holds_back_no_stream_past_the_loop() {
    let folder = tempfile::tempdir().unwrap();
    let env = with_checkpoints(folder.path());
    let [begun, going_on] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let [others, past] = held(&env, &going_on).split();
    let begins = Arc::clone(&begun);
    let (outcome, left) = env
        .range(0..10)
        .iterate(1, (), |numbers, _| {
            let given = numbers.inspect(move |_| begins.store(true, Ordering::Relaxed));
            given.merge(others).shuffle()
        })
        .all_rounds();
    outcome.for_each(drop);
    let count = left.merge(past).count().collect_one();
    let job = env.start().unwrap();
    let has_begun = soon(|| begun.load(Ordering::Relaxed));
    ends_with_a_barrier(job, &going_on);
    assert_eq!(count.take().unwrap(), Some(10 + 2 * 400_002));
    assert!(has_begun);
}

/// The same for the heads of an inner loop, which share tasks with the outer loop, and the operators behind each loop.
#[test]
fn a_barrier_in_the_first_round_holds_back_no_stream_past_a_loop_with_a_loop() {
    let folder = tempfile::tempdir().unwrap();
    let env = with_checkpoints(folder.path());
    let [begun, going_on] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let [others, more] = held(&env, &going_on).split();
    let [past, within] = more.split();
    let begins = Arc::clone(&begun);
    let (outcome, left) = env
        .range(0..10)
        .iterate(1, (), |numbers, _| {
            let (inner, left) = numbers
                .iterate(1, (), |numbers, _| {
                    let given = numbers.inspect(move |_| begins.store(true, Ordering::Relaxed));
                    given.merge(others).shuffle()
                })
                .all_rounds();
            inner.for_each(drop);
            left.merge(within)
        })
        .all_rounds();
    outcome.for_each(drop);
    let count = left.merge(past).count().collect_one();
    let job = env.start().unwrap();
    let has_begun = soon(|| begun.load(Ordering::Relaxed));
    ends_with_a_barrier(job, &going_on);
    assert_eq!(count.take().unwrap(), Some(10 + 3 * 400_002));
    assert!(has_begun);
}

/// As above, in runs that are interrupted: states saved at such a barrier must not be a checkpoint.
#[test]
fn streams_that_go_into_loops_and_past_them_are_restored() {
    restored!(|env: &Environment| {
        let [others, past] = dealt(env, 300).split();
        let (outcome, left) = dealt(env, 10)
            .iterate(3, (), |numbers, _| numbers.merge(others).shuffle())
            .all_rounds();
        outcome.for_each(drop);
        left.merge(past)
    })
    .equals((0_u64..10).chain(0..300).chain(0..300));
}

#[test]
fn barriers_pass_while_the_input_of_some_tasks_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let env = with_checkpoints(folder.path());
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let numbers = env.parallel_iter(move |task, _| {
        let stop = Arc::clone(&stop);
        // None of its numbers goes into the loop.
        let until = move |n: &u64| *n < 50 || (task == 1 && !stop.load(Ordering::Relaxed));
        (0..).map(|n: u64| if n < 50 { n } else { 50 }).take_while(until)
    });
    let sums = numbers
        .filter(|n| *n < 50)
        .replay(5, 0u64, |numbers, _| numbers.map(|n| *n).shuffle())
        .fold(add, add)
        .all_rounds(|all, sum| *all += sum);
    sums.for_each(|outcome| assert_eq!(outcome.state, 5 * 3 * 49 * 25));
    barriers_pass(env.start().unwrap(), &over);
}

#[test]
fn what_a_loop_has_on_disk_is_restored() {
    let texts = |env: &Environment| dealt(env, 2000).map(|n| format!("{n:0>200}"));
    check(|env| {
        let (outcome, left) =
            texts(env).iterate(30, (), |texts, _| texts.map(|text| text + "x")).all_rounds();
        outcome.for_each(drop);
        left.map(|text| text.len() as u64)
    })
    .any_tasks()
    .memory(200_000)
    .must_restore()
    .seeds(10)
    .equals(std::iter::repeat_n(230u64, 2000));
    check(|env| {
        let lengths = texts(env).replay(30, 0u64, |texts, _| texts.map(|text| text.len() as u64));
        lengths.fold(add, add).all_rounds(|all, sum| *all += sum).map(|outcome| outcome.state)
    })
    .any_tasks()
    .memory(200_000)
    .must_restore()
    .seeds(10)
    .equals([30 * 2000 * 200u64]);
}
