//! Solutions improved in place against loops written by hand.

use crate::check::{check, every};
use crate::config::Config;
use crate::operators::loops::Ended;
use crate::{Environment, ErrorKind};
use std::collections::{BTreeMap, BTreeSet};

/// Sets the value to the lesser of both, and returns whether that has changed it.
fn lesser(value: &mut u64, other: u64) -> bool {
    let better = other < *value;
    if better {
        *value = other;
    }
    better
}

/// A path, a ring, a star, self-loops, duplicate edges, and a node with only a self-loop.
fn graph() -> Vec<(u64, u64)> {
    let path = (0..40).map(|n| (n, n + 1));
    let ring = (100..110).map(|n| (n, if n == 109 { 100 } else { n + 1 }));
    let star = (201..230).map(|n| (n, 200));
    path.chain(ring).chain(star).chain([(5, 3), (5, 3), (300, 300), (1, 1)]).collect()
}

/// The least node that each node is connected to.
fn components(edges: &[(u64, u64)]) -> BTreeMap<u64, u64> {
    let mut labels: BTreeMap<u64, u64> =
        edges.iter().flat_map(|&(a, b)| [(a, a), (b, b)]).collect();
    loop {
        let before = labels.clone();
        for (a, b) in edges {
            let least = labels[a].min(labels[b]);
            labels.insert(*a, least);
            labels.insert(*b, least);
        }
        if labels == before {
            return labels;
        }
    }
}

#[test]
fn labels_go_through_a_graph() {
    check(|env| {
        let both = env.iter(graph()).shuffle().flat_map(|(a, b)| [(a, b), (b, a)]);
        let [nodes, edges] = both.split();
        let (outcome, labels) = nodes
            .map(|(node, _)| (node, node))
            .keyed()
            .delta_iterate(1000, (), lesser, |changed, _| {
                let offers = changed.join(edges.keyed()).unkey();
                offers.map(|(_, (label, neighbour))| (neighbour, label)).keyed()
            })
            .all_rounds();
        outcome.for_each(|outcome| assert_eq!(outcome.ended, Ended::NothingLeft));
        labels.unkey()
    })
    .equals(components(&graph()));
}

#[test]
fn candidates_may_be_combined_and_stay_where_they_are() {
    every(|env| {
        let both = env.iter(graph()).flat_map(|(a, b)| [(a, b), (b, a)]);
        let [nodes, edges] = both.split();
        let (outcome, labels) = nodes
            .map(|(node, _)| (node, node))
            .keyed()
            .delta_iterate(1000, 0, lesser, |changed, _| {
                let offers = changed.join(edges.keyed()).unkey();
                offers.map(|(_, (label, neighbour))| (neighbour, label)).keyed().min(|label| *label)
            })
            .fold(|changed: &mut u64, _| *changed += 1, |changed, others| *changed += others)
            .all_rounds(|all, changed| *all += changed);
        let (outcome, labels) = (outcome.collect::<Vec<_>>(), labels.collect::<BTreeMap<_, _>>());
        env.run()?;
        assert_eq!(labels.take()?, components(&graph()));
        // On the path, the last label takes as many rounds as there are edges, less the short cuts.
        let outcome = outcome.take()?.pop().unwrap();
        assert!(outcome.rounds > 35 && outcome.state > 300, "{outcome:?}");
        Ok(())
    });
}

#[test]
fn candidates_for_new_keys_are_inserted() {
    // All pairs that are connected by a path: each found once, from those of the previous round.
    let mut paths: BTreeSet<(u64, u64)> = graph().into_iter().collect();
    loop {
        let more: Vec<_> = graph()
            .into_iter()
            .flat_map(|(a, b)| {
                paths.iter().filter(move |path| path.0 == b).map(move |path| (a, path.1))
            })
            .collect();
        let before = paths.len();
        paths.extend(more);
        if paths.len() == before {
            break;
        }
    }
    check(|env| {
        let [first, edges] = env.iter(graph()).split();
        let (outcome, paths) = first
            .map(|edge| (edge, ()))
            .keyed()
            .delta_iterate(
                1000,
                (),
                |(), ()| false,
                |found, _| {
                    let ends = found.unkey().map(|((from, to), ())| (to, from)).keyed();
                    let longer = ends.join(edges.keyed()).unkey();
                    longer.map(|(_, (from, to))| ((from, to), ())).keyed()
                },
            )
            .all_rounds();
        outcome.for_each(|outcome| assert_eq!(outcome.ended, Ended::NothingLeft));
        paths.unkey().map(|(path, ())| path)
    })
    .equals(paths);
}

#[test]
fn the_state_is_that_of_the_rounds_start_and_ends_the_loop() {
    every(|env| {
        let (outcome, solution) = env
            .range(0..100)
            .map(|n| (n % 10, n))
            .keyed()
            .delta_iterate(
                50,
                0,
                |value, other| std::mem::replace(value, other) != other,
                |changed, rounds| {
                    changed
                        .unkey()
                        .with(rounds)
                        .map(|((key, _), rounds)| (key, 1000 + *rounds))
                        .keyed()
                },
            )
            .fold(
                |changed: &mut u64, (_, value)| *changed = *value,
                |changed, other| *changed = other,
            )
            .until(|rounds, _| {
                *rounds += 1;
                *rounds == 7
            });
        let (outcome, solution) =
            (outcome.collect::<Vec<_>>(), solution.collect::<BTreeMap<_, _>>());
        env.run()?;
        let outcome = outcome.take()?.pop().unwrap();
        assert_eq!((outcome.state, outcome.rounds, outcome.ended), (7, 7, Ended::Condition));
        assert_eq!(solution.take()?, (0..10).map(|key| (key, 1006)).collect());
        Ok(())
    });
}

#[test]
fn nothing_to_begin_with() {
    every(|env| {
        let (outcome, solution) = env
            .range(0..0)
            .map(|n| (n, n))
            .keyed()
            .delta_iterate(50, (), lesser, |changed, _| changed)
            .all_rounds();
        let (outcome, solution) =
            (outcome.collect::<Vec<_>>(), solution.unkey().count().collect_one());
        env.run()?;
        let outcome = outcome.take()?.pop().unwrap();
        assert_eq!((outcome.rounds, outcome.ended), (1, Ended::NothingLeft));
        assert_eq!(solution.take()?, Some(0));
        Ok(())
    });
}

#[test]
fn a_solution_within_a_loop_begins_anew() {
    every(|env| {
        // How many steps down from each number to 0, in each of three rounds, with steps of 1, 2 and 3.
        let outcome = env
            .iter([24])
            .replay(3, 0, |start, sum| {
                let start = start.with(sum).map(|(start, sum)| (*start + sum % 3, 0));
                let (outcome, steps) = start
                    .keyed()
                    .delta_iterate(1000, (), lesser, |changed, _| {
                        let down = changed.unkey().filter(|(n, _)| *n > 0);
                        down.map(|(n, steps)| (n - 1, steps + 1)).keyed()
                    })
                    .all_rounds();
                let steps = steps.unkey().map(|(_, steps)| steps);
                steps.merge(outcome.map(|outcome| 1_000_000 * outcome.rounds))
            })
            .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
            .all_rounds(|sum, part| *sum += part);
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        let mut sum = 0;
        for _ in 0..3 {
            let start = 24 + sum % 3;
            sum += (0..=start).sum::<u64>() + 1_000_000 * (start + 1);
        }
        assert_eq!(out.take()?.pop().unwrap().state, sum);
        Ok(())
    });
}

/// Keys that are new to the solution in a later round, and keys whose values change, among others.
#[cfg(not(miri))]
#[test]
fn a_solution_beyond_memory_goes_to_disk() {
    const KEYS: u64 = 12_000;
    const NEW: u64 = KEYS + 1;
    for cores in [1, 3] {
        let cores = std::num::NonZeroUsize::new(cores).unwrap();
        let keyed_tasks_per_core = std::num::NonZeroUsize::MIN;
        let config = Config { memory: 1 << 18, cores, keyed_tasks_per_core, ..Config::default() };
        let env = Environment::with_config(config);
        let (outcome, solution) = env
            .range(0..KEYS)
            .map(|n| (n, n + 1))
            .keyed()
            .delta_iterate(5, (), lesser, |changed, _| {
                let odd = changed.unkey().filter(|(n, value)| n % 2 == 1 && *value <= KEYS);
                odd.flat_map(|(n, _)| [(n, NEW), (n - 1, 0), (n + KEYS, NEW)]).keyed()
            })
            .all_rounds();
        let (outcome, solution) =
            (outcome.collect::<Vec<_>>(), solution.unkey().collect::<Vec<_>>());
        let stats = env.start().unwrap().wait().unwrap();
        let spilled = stats.operators.iter().filter(|op| op.kind == "delta_iterate");
        assert!(spilled.map(|op| op.spilled_bytes).sum::<u64>() > 0, "{stats}");
        assert_eq!(outcome.take().unwrap().pop().unwrap().ended, Ended::NothingLeft);
        let mut solution = solution.take().unwrap();
        solution.sort_unstable();
        let initial = (0..KEYS).map(|n| (n, if n % 2 == 0 { 0 } else { n + 1 }));
        let new = (0..KEYS).filter(|n| n % 2 == 1).map(|n| (n + KEYS, NEW));
        assert!(solution.into_iter().eq(initial.chain(new)), "{cores} cores");
    }
}

#[cfg(not(miri))]
#[test]
fn a_solution_on_disk_within_a_loop_begins_anew() {
    let one = std::num::NonZeroUsize::MIN;
    let config =
        Config { memory: 1 << 18, cores: one, keyed_tasks_per_core: one, ..Config::default() };
    let env = Environment::with_config(config);
    let outcome = env
        .range(0..10_000)
        .replay(3, 0, |numbers, _| {
            let (_, solution) = numbers
                .map(|n| (*n, 1))
                .keyed()
                .delta_iterate(1, (), lesser, |changed, _| changed)
                .all_rounds();
            solution.unkey().map(|(_, one)| one)
        })
        .fold(|part: &mut u64, one| *part += one, |part, other| *part += other)
        .all_rounds(|sum, part| *sum += part);
    let out = outcome.collect::<Vec<_>>();
    let stats = env.start().unwrap().wait().unwrap();
    assert_eq!(out.take().unwrap().pop().unwrap().state, 30_000);
    let spilled = stats.operators.iter().filter(|op| op.kind == "delta_iterate");
    assert!(spilled.map(|op| op.spilled_bytes).sum::<u64>() > 0, "{stats}");
}

#[test]
fn a_value_that_grows_beyond_memory_is_refused_by_name() {
    let env = Environment::with_config(Config { memory: 1 << 20, ..Config::default() });
    let longer = |text: &mut String, other: String| {
        let better = other.len() > text.len();
        if better {
            *text = other;
        }
        better
    };
    let (_, solution) = env
        .range(0..4)
        .map(|n| (n, String::from("x")))
        .keyed()
        .delta_iterate(40, (), longer, |changed, _| {
            changed.unkey().map(|(n, text)| (n, text.repeat(2))).keyed()
        })
        .all_rounds();
    solution.unkey().for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.operator().unwrap_or_default().starts_with("delta_iterate ("), "{error}");
    assert!(error.to_string().contains("the values of the solution of a single key"), "{error}");
}

#[test]
fn wrong_loops_are_refused_and_panics_named() {
    let env = Environment::new();
    let endless = env.generate(1000.0, Some).map(|n| (n, n)).keyed();
    let (_, solution) = endless.delta_iterate(5, (), lesser, |changed, _| changed).all_rounds();
    solution.unkey().for_each(drop);
    assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Plan);

    let env = Environment::new();
    let (_, solution) = env
        .range(0..10)
        .map(|n| (n % 2, n))
        .keyed()
        .delta_iterate(5, (), |_, _| panic!("odd"), |changed, _| changed)
        .all_rounds();
    solution.unkey().for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert!(error.operator().unwrap_or_default().starts_with("delta_iterate ("), "{error}");
}

#[test]
fn records_from_outside_that_come_before_the_solution_is_complete_are_offered_in_the_first_round() {
    check(|env| {
        let outside = env.range(0..500).shuffle().map(|n| (n % 10, n));
        // Its tasks have their input complete at very different times.
        let slow = env.iter(0..200u64).shuffle().shuffle().map(|n| (n % 5, n + 1000)).keyed();
        let (outcome, labels) = slow
            .delta_iterate(1000, (), lesser, |changed, _| {
                changed.unkey().map(|(key, value)| (key, value + 1)).merge(outside).keyed()
            })
            .all_rounds();
        outcome.for_each(drop);
        labels.unkey()
    })
    .any_tasks()
    .equals((0..10u64).map(|n| (n, n)));
}
