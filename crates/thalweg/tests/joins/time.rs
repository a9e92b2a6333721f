//! Joins of records with timestamps.

use std::time::Duration;
use thalweg::check::check;
use thalweg::operators::join::{AsOf, Interval};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream};

fn timed(
    env: &Environment,
    records: Vec<(u8, i64)>,
) -> Stream<impl Chain<Item = (u8, i64), Time = Timestamp> + use<>> {
    env.iter(records)
        .assign_timestamps(|record| Timestamp::from_micros(record.1), Watermarks::monotonous())
}

/// Every result lies in the window of the later of its two timestamps, and none is late for it.
#[test]
fn results_have_the_later_timestamp_and_are_not_overtaken() {
    let left: Vec<_> = (0..400).map(|n| ((n % 4) as u8, n)).collect();
    let right: Vec<_> = (0..300).map(|n| ((n % 3) as u8, n * 2)).collect();
    let mut expected = std::collections::BTreeMap::<i64, u64>::new();
    for (key, at) in &left {
        for (_, other) in right.iter().filter(|other| other.0 == *key) {
            *expected.entry(at.max(other) / 100).or_default() += 1;
        }
    }
    let expected: Vec<(i64, u64)> = expected.into_iter().collect();
    macro_rules! test {
        ($($how:ident()).*) => {
            check(|env| {
                let (left, right) = (timed(env, left.clone()), timed(env, right.clone()));
                let joined = left.keyed().join_with(right.keyed())$(.$how())*.inner();
                let window = EventTimeWindow::tumbling(Duration::from_micros(100));
                let panes = joined.unkey().group_by(|_| ()).window(window).count();
                panes.unkey().map(|(_, pane)| (pane.start.as_micros() / 100, pane.value))
            })
            .seeds(4)
            .equals(expected.clone());
        };
    }
    test!();
    test!(build_left());
    test!(broadcast_right());
    test!(sort_merge());
    test!(symmetric());
}

/// What has no partner is known at the end, and not late then.
#[test]
fn a_record_without_a_match_is_not_late() {
    check(|env| {
        let left = timed(env, (0..400).map(|n| ((n % 4) as u8, n)).collect());
        let right = timed(env, (0..400).map(|n| ((n % 4 + 4) as u8, n)).collect());
        let joined = left.keyed().full_join(right.keyed());
        let window = EventTimeWindow::tumbling(Duration::from_micros(100));
        let panes = joined.unkey().group_by(|_| ()).window(window).count();
        panes.unkey().map(|(_, pane)| (pane.start.as_micros() / 100, pane.value))
    })
    .seeds(4)
    .equals((0..4i64).map(|window| (window, 200)));
}

/// Windows behind a join are emitted while its input goes on.
#[test]
fn watermarks_come_through_when_the_table_is_there() {
    let env = Environment::new();
    let ticks = env.generate(f64::INFINITY, |n| Some((1u8, n as i64)));
    let ticks =
        ticks.assign_timestamps(|tick| Timestamp::from_micros(tick.1), Watermarks::monotonous());
    let joined = ticks.keyed().left_join(timed(&env, vec![(1, 5)]).keyed());
    let window = EventTimeWindow::tumbling(Duration::from_micros(100));
    let panes = joined.unkey().group_by(|_| ()).window(window).count().unkey();
    let out = panes.limit(5).map(|(_, pane)| pane.value).to_channel();
    let job = env.start().unwrap();
    let counts: Vec<u64> = out.map(|count| count.unwrap()).collect();
    assert_eq!(counts, [100; 5]);
    job.wait().unwrap();
}

/// Keys that one stream points to meet those that the other has made, in time as by equal keys.
#[test]
fn keys_by_reference_meet_owned_ones_in_time() {
    let (words, second) = (["a", "b", "a", "c"], Duration::from_secs(1));
    check(|env| {
        let timed = || {
            let words = words.map(str::to_owned).into_iter().zip(0..);
            let at = |word: &(String, i64)| Timestamp::from_secs(word.1);
            env.iter(words.collect::<Vec<_>>()).assign_timestamps(at, Watermarks::monotonous())
        };
        let by_reference = || timed().group_by_ref(|word| word.0.as_str());
        let owned = || timed().group_by(|word| word.0.clone());
        let near = Interval::within(second);
        let near = by_reference().interval_join(owned(), near, |_, a, b| (a.1, b.1));
        let known = owned().as_of_join(by_reference(), AsOf::latest(), |_, a, b| (a.1, b.1));
        let windows = EventTimeWindow::tumbling(10 * second);
        let met = owned().window_join(by_reference(), windows, |_, a, b| (a.1, b.1));
        let met = met.map(|_, pane| pane.value);
        near.unkey().merge(known.unkey()).merge(met.unkey())
    })
    .seeds(2)
    .equals({
        let key = |at: i64| words[at as usize].to_owned();
        let alone = [0, 1, 2, 3].map(|at| (key(at), (at, at)));
        let pairs = [(0, 2), (2, 0)].map(|pair| (key(pair.0), pair));
        [&alone[..], &alone, &alone, &pairs].concat()
    });
}
