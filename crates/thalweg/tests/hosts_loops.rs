//! Loops over several hosts in one process, which share nothing but encoded messages.

use std::collections::BTreeMap;
use thalweg::check::{check, every_host};
use thalweg::data::{Data, DecodeError, Schema};
use thalweg::operators::loops::Ended;
use thalweg::{Chain, Environment, Stream};

/// Numbers from one source, in tasks of all hosts.
fn numbers(env: &Environment, count: u64) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
    env.iter(0..count).shuffle()
}

/// Numbers that look random.
fn drawn(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed), |n| Some(n.wrapping_mul(6364136223846793005).wrapping_add(1)))
        .map(|n| n >> 33)
}

#[test]
fn every_host_changes_its_state_by_what_all_have_folded() {
    // Two means, of numbers with fractions.
    let points: Vec<f64> =
        drawn(7).take(200).map(|n| (n % 1000) as f64 / 7.0 + (n % 2) as f64 * 500.0).collect();
    let nearest =
        |x: f64, means: &[f64; 2]| usize::from((x - means[1]).abs() < (x - means[0]).abs());
    let mut means = [1.0, 2.0];
    for _ in 0..9 {
        let mut sums = [(0.0, 0.0); 2];
        for x in &points {
            let sum = &mut sums[nearest(*x, &means)];
            *sum = (sum.0 + x, sum.1 + 1.0);
        }
        means = sums.map(|(sum, count)| sum / count);
    }
    let rounded = |mean: f64| (mean * 1e6).round() as i64;
    check(|env| {
        env.iter(points.clone())
            .shuffle()
            .replay(9, [1.0, 2.0], |points, means| {
                points.with(means).map(move |(x, means)| (nearest(*x, means), *x))
            })
            .fold(
                |sums: &mut [(f64, f64); 2], (at, x)| sums[at] = (sums[at].0 + x, sums[at].1 + 1.0),
                |sums, other| {
                    (0..2).for_each(|at| {
                        sums[at] = (sums[at].0 + other[at].0, sums[at].1 + other[at].1);
                    });
                },
            )
            .all_rounds(|means, sums| *means = sums.map(|(sum, count)| sum / count))
            .map(move |outcome| (outcome.state.map(rounded).to_vec(), outcome.rounds))
    })
    .equals([(means.map(rounded).to_vec(), 9)]);
}

#[test]
fn partial_states_are_merged_in_the_order_of_the_hosts() {
    // Source and tails have a task a core, so parts are in the order of the tasks on all hosts. A job that goes on from a
    // checkpoint may have others from then on: twice at most.
    check(|env| {
        env.iter(0..40u64)
            .shuffle()
            .replay(9, Vec::new(), |numbers, _| numbers.map(|n| *n))
            .fold(
                |part: &mut Vec<Vec<u64>>, n| match part.last_mut() {
                    Some(own) => own.push(n),
                    None => part.push(vec![n]),
                },
                |part, other| part.extend(other),
            )
            .all_rounds(|rounds: &mut Vec<Vec<Vec<u64>>>, part| rounds.push(part))
            .map(|outcome| outcome.state)
    })
    .satisfies(|outcomes| {
        let [rounds] = &outcomes[..] else { return Err(format!("{outcomes:?}")) };
        let is_whole = |round: &Vec<Vec<u64>>| {
            let mut all: Vec<u64> = round.iter().flatten().copied().collect();
            all.sort_unstable();
            all == (0..40).collect::<Vec<_>>()
        };
        let changes = rounds.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let is_right = rounds.len() == 9 && changes <= 2 && rounds.iter().all(is_whole);
        if is_right { Ok(()) } else { Err(format!("{rounds:?}")) }
    });
}

/// Steps of the Collatz sequence.
fn step(n: u64) -> u64 {
    if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 }
}

fn steps(mut n: u64) -> u64 {
    let mut steps = 0;
    while n != 1 {
        n = step(n);
        steps += 1;
    }
    steps
}

/// The expected state and rounds of `collatz` up to a number.
fn all_steps(until: u64) -> (u64, u64) {
    let steps: Vec<u64> = (1..until).map(steps).collect();
    (steps.iter().sum(), steps.iter().max().map_or(0, |most| most + 1))
}

/// Heads in tasks of all hosts, and in one; tails in tasks of all hosts, and in one.
#[test]
fn records_are_fed_back_to_heads_wherever_they_are() {
    for (heads, tails) in [(false, false), (false, true), (true, false), (true, true)] {
        let (sum, rounds) = all_steps(60);
        let spread = move |numbers: Stream<thalweg::Boxed<u64>>, one: bool| match one {
            true => numbers.parallelism(1).boxed(),
            false => numbers.shuffle().boxed(),
        };
        check(|env| {
            let numbers = spread(env.iter(1..60u64).boxed(), heads);
            let (outcome, left) = numbers
                .iterate(1000, 0, |numbers, _| {
                    spread(numbers.filter(|n| *n != 1).map(step).boxed(), tails)
                })
                .fold(|steps: &mut u64, _| *steps += 1, |steps, others| *steps += others)
                .all_rounds(|all, steps| *all += steps);
            left.for_each(|_| panic!("nothing is left"));
            outcome.map(|outcome| (outcome.state, outcome.rounds, outcome.ended))
        })
        .equals([(sum, rounds, Ended::NothingLeft)]);
    }
}

#[test]
fn each_round_gets_what_the_last_one_fed_back() {
    // A record knows its round, and there are more of them than fit into a batch.
    for one_head in [false, true] {
        check(|env| {
            let numbers = env.iter((0..9000u64).map(|_| 0));
            let numbers = match one_head {
                true => numbers.boxed(),
                false => numbers.shuffle().boxed(),
            };
            let (outcome, left) = numbers
                .iterate(5, 0, |rounds, state| {
                    let rounds = rounds.with(state).map(|(of_record, state)| {
                        assert_eq!(of_record, *state);
                        of_record
                    });
                    rounds.shuffle().with(state).map(|(of_record, state)| {
                        assert_eq!(of_record, *state, "after the exchange");
                        of_record + 1
                    })
                })
                .fold(|(): &mut (), _| {}, |(), ()| {})
                .all_rounds(|round, ()| *round += 1);
            outcome.for_each(drop);
            left.group_by(|round| *round).count()
        })
        .equals([(5, 9000)]);
    }
}

#[test]
fn what_is_left_after_the_last_round_is_emitted() {
    check(|env| {
        let (outcome, left) =
            env.iter(0..3000u64).iterate(7, (), |n, _| n.shuffle().map(|n| n + 1)).all_rounds();
        outcome.for_each(|outcome| assert_eq!((outcome.rounds, outcome.ended), (7, Ended::Rounds)));
        left
    })
    .equals(7..3007u64);
}

#[test]
fn records_of_other_hosts_for_which_there_is_no_memory_wait_on_disk() {
    check(|env| {
        let (outcome, left) = env
            .iter(0..50u64)
            .iterate(2, (), |n, _| {
                let more = n.flat_map(|n| (0..20).map(move |m| n / 20 + m));
                more.shuffle().map(|n| n + 1)
            })
            .all_rounds();
        outcome.for_each(drop);
        left.fold((0, 0), |(count, sum): &mut (u64, u64), n| {
            *count += 1;
            *sum += n;
        })
    })
    .memory(20_000)
    .seeds(4)
    .agrees();
}

#[test]
fn delta_iterations_find_components() {
    let (nodes, edges) = (300u32, 250);
    let mut ends = drawn(11).map(|n| (n % u64::from(nodes)) as u32);
    let edges: Vec<(u32, u32)> =
        (0..edges).filter_map(|_| Some((ends.next()?, ends.next()?))).collect();
    let mut parents: Vec<u32> = (0..nodes).collect();
    let find = |parents: &[u32], mut node: u32| {
        while parents[node as usize] != node {
            node = parents[node as usize];
        }
        node
    };
    for &(a, b) in &edges {
        let (a, b) = (find(&parents, a), find(&parents, b));
        parents[a.max(b) as usize] = a.min(b);
    }
    let expected: Vec<(u32, u32)> = (0..nodes).map(|node| (node, find(&parents, node))).collect();
    for rounds in [None, Some(1)] {
        let job = |env: &Environment| {
            let both = edges.clone().into_iter().flat_map(|(a, b)| [(a, b), (b, a)]);
            let edges = env.iter(both).shuffle();
            let nodes = env.iter((0..nodes).map(|node| (node, node))).shuffle();
            let (outcome, components) = nodes
                .keyed()
                .delta_iterate(
                    rounds.unwrap_or(1000),
                    0u64,
                    |least, other| other < std::mem::replace(least, other.min(*least)),
                    |changed, _| {
                        let reached = changed.join(edges.keyed()).unkey();
                        reached.map(|(_, (least, neighbour))| (neighbour, least)).keyed()
                    },
                )
                .fold(|changed: &mut u64, _| *changed += 1, |changed, others| *changed += others)
                .all_rounds(|all, changed| *all += changed);
            let ended = if rounds.is_some() { Ended::Rounds } else { Ended::NothingLeft };
            outcome.for_each(move |outcome| assert_eq!(outcome.ended, ended));
            components
        };
        match rounds {
            None => check(job).equals(expected.clone()),
            Some(_) => assert_eq!(check(job).agrees().len(), 300),
        }
    }
}

#[test]
fn loops_within_loops_begin_anew() {
    // The inner loop adds its input up until it has enough, and the outer one adds up what that says.
    let mut expected = 0u64;
    for _ in 0..3 {
        let of_round: u64 = (0..200).map(|n| n + expected % 7).sum();
        let mut rounds = 0;
        while rounds * of_round <= 100_000 {
            rounds += 1;
        }
        expected += rounds * of_round * rounds;
    }
    check(|env| {
        numbers(env, 200)
            .replay(3, 0, |numbers, sum| {
                let numbers = numbers.with(sum).map(|(n, sum)| n + sum % 7);
                let inner = numbers
                    .replay(10, 0, |numbers, inner| {
                        let numbers = numbers.map(|n| *n).shuffle();
                        // The outer state is that of the outer round, and the inner one that of the inner.
                        numbers.with(sum).map(|(n, _)| n).with(inner).map(|(n, _)| n)
                    })
                    .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
                    .until(|sum, part| {
                        *sum += part;
                        *sum > 100_000
                    });
                inner.map(|outcome| outcome.state * outcome.rounds)
            })
            .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
            .all_rounds(|sum, part| *sum += part)
            .map(|outcome| outcome.state)
    })
    .equals([expected]);
}

#[test]
fn inner_loops_feed_back_and_improve_in_each_outer_round() {
    // In each outer round: numbers are halved until they are odd, then the least per last digit is found.
    let job = |env: &Environment| {
        let (outcome, left) = numbers(env, 60)
            .iterate(4, Vec::new(), |numbers, _| {
                let (halving, odd) = numbers
                    .iterate(20, (), |n, _| {
                        n.map(|n| if n > 0 && n % 2 == 0 { n / 2 } else { n }).shuffle()
                    })
                    .all_rounds();
                halving.for_each(drop);
                let (deltas, least) = odd
                    .map(|n| (n % 10, n))
                    .keyed()
                    .delta_iterate(
                        30,
                        (),
                        |least, other| other < std::mem::replace(least, other.min(*least)),
                        |changed, _| changed.unkey().map(|(key, n)| ((key + 1) % 10, n)).keyed(),
                    )
                    .all_rounds();
                deltas.for_each(drop);
                least.unkey().map(|(key, n)| 3 * n + key + 1)
            })
            .fold(|part: &mut Vec<u64>, n| part.push(*n), |part, other| part.extend(other))
            .all_rounds(|rounds: &mut Vec<Vec<u64>>, mut part| {
                part.sort_unstable();
                rounds.push(part);
            });
        left.for_each(drop);
        outcome.map(|outcome| outcome.state)
    };
    let mut numbers: Vec<u64> = (0..60).collect();
    let mut rounds = Vec::new();
    for _ in 0..4 {
        for n in &mut numbers {
            while *n > 0 && *n % 2 == 0 {
                *n /= 2;
            }
        }
        let least = numbers.iter().copied().min().unwrap_or(0);
        let digits: BTreeMap<u64, u64> = (0..10).map(|key| (key, least)).collect();
        // Every digit gets the least number of all, since it is passed from each to the next.
        numbers = digits.into_iter().map(|(key, n)| 3 * n + key + 1).collect();
        numbers.sort_unstable();
        rounds.push(numbers.clone());
    }
    check(job).equals([rounds]);
}

#[test]
fn bodies_may_take_no_more_than_they_need() {
    check(|env| {
        numbers(env, 500)
            .replay(6, 0, |numbers, state| {
                let numbers = numbers.with(state).map(|(n, state)| n + state);
                numbers.shuffle().limit(3).shuffle().map(|_| 1)
            })
            .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
            .all_rounds(|sum, part| *sum += part)
            .map(|outcome| outcome.state)
    })
    .equals([18u64]);
}

#[test]
fn streams_from_outside_come_once() {
    check(|env| {
        let outside = numbers(env, 100);
        numbers(env, 10)
            .replay(4, Vec::new(), |numbers, _| {
                numbers.map(|n| *n).merge(outside).fold(0, |count: &mut u64, _| *count += 1)
            })
            .fold(|part: &mut Vec<u64>, count| part.push(count), |part, other| part.extend(other))
            .all_rounds(|rounds: &mut Vec<u64>, part| rounds.extend(part))
            .map(|outcome| outcome.state)
    })
    .equals([vec![110u64, 10, 10, 10]]);
}

/// Numbers that are all in the last task, so that heads of other hosts wait for one.
fn in_one_task(env: &Environment, end: u64) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
    env.parallel_iter(move |task, tasks| 0..if task + 1 == tasks { end } else { 0 })
}

/// Heads of an inner loop whose input is complete wait for a head of another host, and the operators behind them for a barrier
/// that this head has let through.
#[test]
fn streams_into_inner_loops_are_held_back_by_heads_of_no_host() {
    check(|env| {
        let [more, others] = in_one_task(env, 200).split();
        let (outcome, left) = numbers(env, 10)
            .iterate(2, (), |numbers, _| {
                let (inner, left) = numbers
                    .merge(more)
                    .iterate(2, (), |numbers, _| numbers.merge(others).shuffle())
                    .all_rounds();
                inner.for_each(drop);
                left
            })
            .all_rounds();
        outcome.for_each(drop);
        left
    })
    .equals((0_u64..10).chain(0..200).chain(0..200));
}

/// The operators behind a loop wait for barriers from the heads of all hosts, and the first round for a stream with the same
/// source as the stream that they hold back meanwhile.
#[test]
fn streams_past_loops_are_held_back_by_heads_of_no_host() {
    check(|env| {
        let [others, past] = in_one_task(env, 200).split();
        let (outcome, left) = numbers(env, 10)
            .iterate(2, (), |numbers, _| numbers.merge(others).shuffle())
            .all_rounds();
        outcome.for_each(drop);
        left.merge(past)
    })
    .equals((0_u64..10).chain(0..200).chain(0..200));
}

/// As above, in loops with loops, and with barriers whenever the job runs.
#[test]
fn barriers_in_the_first_round_hold_back_no_stream_on_any_host() {
    every_host(|env, _| {
        let [more, others] = in_one_task(env, 300).split();
        let [others, past] = others.split();
        let (outcome, left) = numbers(env, 10)
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
        let count = left.merge(past).count().collect_one();
        let job = env.start()?;
        (0..20).try_for_each(|_| job.barrier())?;
        job.wait()?;
        assert_eq!(count.take()?, Some(10 + 3 * 300));
        Ok(())
    });
}

#[test]
fn loops_end_by_their_condition() {
    check(|env| {
        let (outcome, left) = numbers(env, 30)
            .iterate(100, 0, |numbers, _| numbers.map(|n| n + 1).shuffle())
            .fold(
                |part: &mut u64, n| *part = (*n).max(*part),
                |part, other| *part = other.max(*part),
            )
            .until(|state, greatest| {
                *state = greatest;
                greatest >= 40
            });
        outcome.for_each(|outcome| {
            assert_eq!((outcome.rounds, outcome.state, outcome.ended), (11, 40, Ended::Condition));
        });
        left
    })
    .equals(11..41u64);
}

#[test]
fn empty_inputs_end_after_a_round() {
    check(|env| {
        let (outcome, left) = numbers(env, 0).iterate(9, (), |n, _| n.shuffle()).all_rounds();
        left.for_each(drop);
        outcome.map(|outcome| (outcome.rounds, outcome.ended))
    })
    .equals([(1, Ended::NothingLeft)]);
}

#[test]
fn a_closure_that_panics_on_one_host_ends_the_job_on_all() {
    let job = |env: &Environment, fails: &'static str| {
        let check = move |here: &str, n: u64| assert!(here != fails || n != 77, "{fails} fails");
        numbers(env, 100)
            .replay(5, 0, move |numbers, _| {
                numbers.map(|n| *n).shuffle().inspect(move |n| check("the body", *n))
            })
            .fold(
                move |part: &mut u64, n| {
                    check("the fold", n);
                    *part += 1;
                },
                |part, other| *part += other,
            )
            .until(move |rounds, _| {
                *rounds += 1;
                check("the end of a round", 75 + *rounds);
                false
            })
    };
    for fails in ["the body", "the fold", "the end of a round"] {
        check(|env| job(env, fails).map(|outcome| outcome.rounds))
            .fails_with(&format!("{fails} fails"));
    }
    check(|env| {
        let least = |least: &mut u64, other: u64| {
            assert!(other != 77, "improving fails");
            other < std::mem::replace(least, other.min(*least))
        };
        let (outcome, solution) = numbers(env, 100)
            .map(|n| (n % 7, n))
            .keyed()
            .delta_iterate(9, (), least, |changed, _| changed)
            .all_rounds();
        outcome.for_each(drop);
        solution
    })
    .fails_with("improving fails");
}

/// Cannot be decoded.
#[derive(Clone, Debug, Default)]
struct Torn;

impl Data for Torn {
    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(_: &mut &[u8]) -> Result<Self, DecodeError> {
        panic!("torn")
    }

    fn key_hash(&self) -> u64 {
        0
    }

    fn schema() -> Schema {
        Schema::U64
    }
}

#[test]
fn a_partial_state_whose_decoding_panics_fails_the_loop_by_name() {
    every_host(|env, _| {
        numbers(env, 9)
            .replay(2, 0, |numbers, _| numbers.map(|n| *n).shuffle())
            .fold(|_: &mut Torn, _| {}, |_, _| {})
            .all_rounds(|rounds, _| *rounds += 1)
            .for_each(drop);
        // On one host, partial states are not encoded.
        if let Err(error) = env.run() {
            let operator = error.operator().unwrap_or_default();
            assert!(operator.starts_with("replay ("), "{error}");
            assert_eq!(error.message(), "panicked: torn");
        }
        Ok(())
    });
}
