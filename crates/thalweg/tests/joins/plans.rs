//! What joins look like in plans and statistics, and what they refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg::operators::join::{AsOf, Interval};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::plan::Strategy;
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind};

fn strategies(env: &Environment) -> Vec<Strategy> {
    env.plan().edges.iter().map(|edge| edge.strategy).collect()
}

#[test]
fn partitioned_streams_are_not_sent_again() {
    let env = Environment::new();
    let side = || env.range(0..100).group_by(|n| n % 10).repartition();
    let _ = side().join(side()).join(side()).unkey().count().collect_one();
    use Strategy::{Forward, Keyed};
    let all = strategies(&env);
    // Three partitions; each of two joins leaves both its sides where they are.
    assert_eq!(all.iter().filter(|way| **way == Keyed).count(), 3, "{all:?}");
    assert_eq!(all.iter().filter(|way| **way == Forward).count(), 4, "{all:?}");
    env.run().unwrap();
}

/// Joins by time and by windows leave what is in the tasks of its keys there, too.
#[test]
fn partitioned_streams_join_in_time_without_an_exchange() {
    use Strategy::{Forward, Keyed};
    let second = Duration::from_secs(1);
    let timed = |env: &Environment| {
        let all = Watermarks::monotonous();
        let numbers = env.range(0..100).assign_timestamps(|n| Timestamp::from_secs(*n as i64), all);
        numbers.group_by(|n| n % 10).repartition()
    };
    // Each record is sent once, by the partition or by the join; so many sides stay where they are.
    let met = |env: &Environment, stay: usize| {
        let all = strategies(env);
        assert_eq!(all.iter().filter(|way| **way == Keyed).count(), 2, "{all:?}");
        assert_eq!(all.iter().filter(|way| **way == Forward).count(), stay, "{all:?}");
        env.run().unwrap();
    };

    let env = Environment::new();
    let (left, right) = (timed(&env), timed(&env));
    let windows = EventTimeWindow::tumbling(20 * second);
    let pairs = left.window_join(right, windows, |_, a, b| a + b).unkey().count().collect_one();
    met(&env, 2);
    // Ten keys, five windows, two records a side.
    assert_eq!(pairs.take().unwrap(), Some(200));

    let (left, right) = (timed(&env), timed(&env));
    let groups =
        left.co_group(right, windows, |_, a, b| a.len() + b.len()).unkey().count().collect_one();
    met(&env, 2);
    assert_eq!(groups.take().unwrap(), Some(50));

    let (left, right) = (timed(&env), timed(&env));
    let near = Interval::within(10 * second);
    let pairs = left.interval_join(right, near, |_, a, b| a + b).unkey().count().collect_one();
    met(&env, 2);
    // Each record meets itself, the one before and the one after.
    assert_eq!(pairs.take().unwrap(), Some(280));

    let (left, right) = (timed(&env), timed(&env));
    let pairs =
        left.as_of_join(right, AsOf::latest(), |_, a, b| a + b).unkey().count().collect_one();
    met(&env, 2);
    assert_eq!(pairs.take().unwrap(), Some(100));

    // Only the side that is elsewhere is sent.
    let (left, right) = (timed(&env), env.range(0..100));
    let right = right.assign_timestamps(|_| Timestamp::MIN, Watermarks::monotonous());
    let right = right.group_by(|n| n % 10);
    let pairs =
        left.as_of_join(right, AsOf::latest(), |_, a, b| a + b).unkey().count().collect_one();
    met(&env, 1);
    assert_eq!(pairs.take().unwrap(), Some(100));
}

#[test]
fn a_side_goes_only_where_it_must() {
    use Strategy::{Broadcast, Forward, Keyed};
    let env = Environment::new();
    let numbers = || env.range(0..100).group_by(|n| n % 10);
    let _ = numbers().join(numbers()).unkey().count().collect_one();
    assert_eq!(strategies(&env)[..2], [Keyed, Keyed]);
    env.run().unwrap();
    let _ = numbers().join_with(numbers()).broadcast_left().inner().unkey().count().collect_one();
    assert_eq!(strategies(&env)[..2], [Broadcast, Forward]);
    env.run().unwrap();
    let _ = numbers().join_with(numbers()).broadcast_right().left().unkey().count().collect_one();
    assert_eq!(strategies(&env)[..2], [Forward, Broadcast]);
    let plan = env.plan().to_string();
    assert!(plan.contains("left, table of the right side"), "{plan}");
    env.run().unwrap();
}

#[test]
fn unbounded_inputs_are_refused_by_name() {
    let ticks = |env: &Environment| env.generate(1000.0, Some).group_by(|n| n % 10);
    let some = |env: &Environment| env.range(0..10).group_by(|n| *n);
    let refused = |job: &dyn Fn(&Environment), means: &str| {
        let env = Environment::new();
        job(&env);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.to_string().contains(means), "{error}");
        assert!(error.operator().unwrap().contains("join ("), "{error}");
    };
    refused(&|env| ticks(env).join(ticks(env)).unkey().for_each(drop), "symmetric()");
    refused(&|env| ticks(env).join(ticks(env)).unkey().for_each(drop), "interval_join");
    refused(&|env| ticks(env).left_join(ticks(env)).unkey().for_each(drop), "window_join");
    refused(&|env| some(env).join(ticks(env)).unkey().for_each(drop), "build_left()");
    refused(&|env| ticks(env).right_join(some(env)).unkey().for_each(drop), "no partner");
    refused(
        &|env| ticks(env).join_with(some(env)).sort_merge().inner().unkey().for_each(drop),
        "the left one does not",
    );
    refused(
        &|env| some(env).join_with(ticks(env)).build_left().anti().unkey().for_each(drop),
        "an end",
    );
    let env = Environment::new();
    some(&env).join(some(&Environment::new())).unkey().for_each(drop);
    assert!(env.run().unwrap_err().to_string().contains("different environments"));
}

#[test]
fn a_stream_without_end_is_looked_up_as_it_comes() {
    let env = Environment::new();
    let ticks = env.generate(f64::INFINITY, Some).group_by(|n| n % 10);
    let names = env.iter([(3, "three"), (5, "five")].map(|(n, name)| (n, name.to_owned())));
    let out = ticks.join(names.keyed()).unkey().limit(50).to_channel();
    let job = env.start().unwrap();
    assert_eq!(out.count(), 50);
    job.wait().unwrap();
}

#[test]
fn streams_without_end_meet_and_what_is_kept_is_counted() {
    let env = Environment::new();
    let side = || env.generate(f64::INFINITY, Some).group_by(|n| n % 10);
    let joined = side().join_with(side()).symmetric().inner();
    joined.unkey().limit(500).for_each(drop);
    let stats = env.start().unwrap().wait().unwrap();
    let join = stats.operators.iter().find(|op| op.kind == "join").unwrap();
    assert!(join.kept_records > 0, "{join:?}");
    assert!(stats.to_string().contains("keeps "), "{stats}");
}

#[test]
fn a_table_without_records_ends_what_it_was_for() {
    let env = Environment::new();
    let ticks = env.generate(f64::INFINITY, Some).group_by(|n| n % 10);
    let none = env.iter([0u64; 0]).group_by(|n| *n);
    ticks.join(none).unkey().for_each(|_| panic!("a partner"));
    env.run().unwrap();
}

#[test]
fn a_limit_ends_both_sides() {
    let env = Environment::new();
    let [left, right] = env.range(0..100_000).split();
    let pairs = left.group_by(|n| n % 10).join(right.group_by(|n| n % 10));
    let out = pairs.unkey().limit(10).count().collect_one();
    let merged = env.range(0..1000).group_by(|_| ());
    let merged = merged.join_with(env.range(0..1000).group_by(|_| ())).sort_merge().inner();
    let few = merged.unkey().limit(10).count().collect_one();
    env.run().unwrap();
    assert_eq!((out.take().unwrap().unwrap(), few.take().unwrap().unwrap()), (10, 10));
}

#[test]
fn a_panic_names_the_join() {
    #[derive(thalweg::Data, Debug)]
    struct Fragile(u32);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(self.0 != 7, "seven");
            Self(self.0)
        }
    }
    let env = Environment::new();
    let left = env.iter(0..10u32).map(|n| (n, n)).keyed();
    let right = env.iter(0..10u32).map(|n| (n, Fragile(n))).keyed();
    left.join(right).unkey().for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert!(error.operator().unwrap().starts_with("join ("), "{error}");
    assert!(error.to_string().contains("seven"), "{error}");
}

/// The left stream waits in its lanes for the right one, or beside the table: the barrier comes through.
#[test]
fn a_barrier_comes_through_while_a_side_waits() {
    const RECORDS: u64 = 200_000;
    for diamond in [false, true] {
        let env = Environment::new();
        let read = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&read);
        let slow = env.iter(0..RECORDS).map(move |n| {
            if n % 1024 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            counted.fetch_add(1, Ordering::Relaxed);
            n
        });
        let (left, right) = if diamond {
            let [left, right] = slow.split();
            (left.boxed(), right.boxed())
        } else {
            (env.iter(0..RECORDS).boxed(), slow.boxed())
        };
        let out = left.group_by(|n| *n).join(right.group_by(|n| *n)).unkey().count().collect_one();
        let job = env.start().unwrap();
        job.barrier().unwrap();
        job.barrier().unwrap();
        assert!(read.load(Ordering::Relaxed) < RECORDS, "{diamond}");
        job.wait().unwrap();
        assert_eq!(out.take().unwrap().unwrap(), RECORDS);
    }
}

/// What comes from outside a loop comes once, and its table is there in every round.
#[test]
fn a_table_from_outside_stays_for_all_rounds_of_a_loop() {
    thalweg::check::every(|env| {
        let five = env.range(0..5).map(|n| (n, n)).keyed();
        let rounds = env
            .range(0..10)
            .shuffle()
            .replay(4, 0u64, |numbers, state| {
                let numbers = numbers.with(state).map(|(n, _)| (*n, *n));
                // Of five there is no partner, and of as many there is one.
                let joined = numbers.keyed().left_join(five).unkey();
                joined.map(|(_, (_, partner))| if partner.is_some() { 1 } else { 100 })
            })
            .fold(|sum: &mut u64, n| *sum += n, |sum, other| *sum += other)
            .all_rounds(|state, sum| *state += sum);
        let out = rounds.collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?.pop().unwrap().state, 4 * 505);
        Ok(())
    });
}

#[test]
fn joins_that_keep_nothing_are_refused_in_loops() {
    let env = Environment::new();
    let five = env.range(0..5).map(|n| (n, n)).keyed();
    let rounds = env
        .range(0..10)
        .replay(4, 0u64, |numbers, state| {
            let numbers = numbers.with(state).map(|(n, _)| (*n, *n)).keyed();
            numbers.join_with(five).sort_merge().inner().unkey().map(|(n, _)| n)
        })
        .fold(|sum: &mut u64, n| *sum += n, |sum, other| *sum += other)
        .all_rounds(|state, sum| *state += sum);
    rounds.for_each(drop);
    let error = env.run().unwrap_err();
    assert!(error.to_string().contains("within a loop"), "{error}");
}
