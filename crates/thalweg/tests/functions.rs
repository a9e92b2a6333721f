//! Functions that take and return keyed streams, written with public names alone.

use std::collections::BTreeMap;
use std::time::Duration;
use thalweg::check::{check, every};
use thalweg::prelude::*;
use thalweg::time::Time;

#[derive(Data, Clone, Debug, PartialEq)]
struct Order {
    customer: String,
    amount: u64,
}

fn order(n: u64) -> Order {
    Order { customer: format!("customer {}", n % 5), amount: n }
}

/// Pairs, as `group_by` and `keyed` make them, into what aggregates make.
fn of_pairs(
    orders: KeyedStream<impl Chain<Item = (String, Order), Time = ()>>,
) -> KeyedStream<impl Chain<Item = (String, u64), Time = ()>, FirstOf, Partitioned> {
    orders.sum(|order| order.amount)
}

/// Any keyed stream of orders by name, before or after an exchange.
fn totals(
    orders: impl Keyed<Key = str, Value = Order, Time = ()>,
) -> impl Keyed<Key = String, Value = u64, Time = ()> {
    orders.into_keyed().sum(|order| order.amount)
}

/// Any key, any value, any time; what is returned keeps the records where they are.
fn numbered<S: Keyed<Key = u64>>(stream: S) -> impl Keyed<Key = u64, Value = u64, Time = S::Time> {
    stream.into_keyed().stateful_map(0, |_, seen: &mut u64, _| {
        *seen += 1;
        *seen
    })
}

/// A key that is known by its bounds alone.
fn counted<K: Data + Eq + Clone + std::fmt::Debug>(
    stream: impl Keyed<Key = K, Time = ()>,
) -> Stream<impl Chain<Item = (K, u64), Time = ()>> {
    stream.into_keyed().count().unkey()
}

/// Any keyed stream without times at all.
fn distinct_keys<S: Keyed<Time = ()>>(stream: S) -> Stream<impl Chain<Item = u64, Time = ()>> {
    stream.into_keyed().count().unkey().map(|_| 1)
}

fn joined(
    orders: impl Keyed<Key = u64, Value = u64, Time = ()>,
    names: impl Keyed<Key = u64, Value = String, Time = ()>,
) -> KeyedStream<impl Chain<Item = (u64, (u64, String)), Time = ()>, FirstOf, Partitioned> {
    orders.into_keyed().join(names.into_keyed())
}

/// Event time; keys are brought together first, as windows of event time differ by where the records are.
fn per_second(
    values: impl Keyed<Key = u64, Value = u64, Time = Timestamp>,
) -> Stream<impl Chain<Item = (u64, u64), Time = Timestamp>> {
    let windows = EventTimeWindow::tumbling(Duration::from_secs(1));
    let together = values.into_keyed().repartition();
    together.window(windows).count().unkey().map(|(key, pane)| (key, pane.value))
}

/// Changes what flows without touching its place.
fn doubled<T: Time>(
    stream: impl Keyed<Key = u64, Value = u64, Time = T>,
) -> impl Keyed<Key = u64, Value = u64, Time = T> {
    stream.into_keyed().filter(|_, n| *n > 0).map(|_, n| 2 * n)
}

/// What is changed first may be aggregated all the same.
fn large(orders: impl Keyed<Key = str, Value = Order>) -> impl Keyed<Key = String, Value = u64> {
    orders.into_keyed().filter(|_, order| order.amount >= 50).count()
}

fn stored(env: &Environment, by_two: bool) -> KeyedStream<Boxed<(u64, u64)>> {
    match by_two {
        true => env.range(0..100).group_by(|n| n % 2).boxed(),
        false => env.range(0..100).map(|n| (n % 3, n)).keyed().filter(|_, n| n % 2 == 0).boxed(),
    }
}

fn expected_totals() -> impl Iterator<Item = (String, u64)> {
    (0..5u64).map(|key| (format!("customer {key}"), (0..100).filter(|n| n % 5 == key).sum()))
}

#[test]
fn pairs_need_no_trait() {
    check(|env| of_pairs(env.range(0..100).map(order).group_by(|o| o.customer.clone())).unkey())
        .equals(expected_totals());
}

#[test]
fn any_kind_of_key_and_place_is_taken() {
    let by_ref =
        |env: &Environment| env.range(0..100).map(order).group_by_ref(|o| o.customer.as_str());
    check(move |env| totals(by_ref(env)).into_keyed().unkey()).equals(expected_totals());
    check(move |env| totals(by_ref(env).repartition()).into_keyed().unkey())
        .equals(expected_totals());
    check(move |env| counted(env.range(0..100).group_by(|n| n % 7)))
        .equals((0..7).map(|key| (key, (0..100).filter(|n| n % 7 == key).count() as u64)));
    check(move |env| large(by_ref(env)).into_keyed().unkey())
        .equals((0..5).map(|key| (format!("customer {key}"), 10)));
    check(move |env| distinct_keys(by_ref(env))).equals([1u64; 5]);
    check(move |env| counted(stored(env, true))).equals([(0, 50), (1, 50)]);
}

#[test]
fn a_function_keeps_a_stream_partitioned() {
    every(|env| {
        let once = numbered(env.range(0..100).group_by(|n| n % 4));
        let twice = doubled(numbered(once)).into_keyed().count().collect::<BTreeMap<_, _>>();
        let kinds: Vec<_> = env.plan().operators.into_iter().map(|op| op.kind).collect();
        assert_eq!(kinds.iter().filter(|kind| *kind == "repartition").count(), 1, "{kinds:?}");
        env.run()?;
        assert_eq!(twice.take()?, (0..4).map(|key| (key, 25)).collect());
        Ok(())
    });
}

#[test]
fn functions_join_and_cut_into_windows() {
    check(|env| {
        let names = env.range(0..3).map(|n| (n, format!("name {n}"))).keyed();
        joined(env.range(0..9).group_by(|n| n % 3), names).unkey()
    })
    .equals((0..9u64).map(|n| (n % 3, (n, format!("name {}", n % 3)))));
    check(|env| {
        let at = |n: &u64| Timestamp::from_millis(100 * *n as i64);
        let timed = env.iter(0..40u64).assign_timestamps(at, Watermarks::monotonous());
        per_second(timed.group_by(|n| n % 2))
    })
    .equals((0..4).flat_map(|_| [(0, 5), (1, 5)]));
}

#[test]
fn a_stream_of_either_kind_is_stored_and_merged() {
    check(|env| stored(env, true).merge(stored(env, false)).count()).equals([
        (0u64, 50 + 17),
        (1, 50 + 16),
        (2, 17),
    ]);
}
