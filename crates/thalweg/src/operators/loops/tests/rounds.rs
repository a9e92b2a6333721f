//! Every operator that can be in a body, against itself on a fresh stream: in each round it begins anew.

use crate::check::{every, every_host};
use crate::data::View;
use crate::flow::{Pipe, Push};
use crate::operators::calls::Calls;
use crate::operators::join::{AsOf, Interval, StaticTable};
use crate::operators::keyed::{Process, ProcessContext, Timer};
use crate::operators::time::Watermarks;
use crate::operators::window::{
    CountWindow, CustomWindow, EventTimeWindow, GlobalWindow, LastWindow, MakeWindows,
    ProcessingTimeWindow, SessionWindow, Transaction, TransactionWindow, WindowContext,
};
use crate::plan::TaskContext;
use crate::stream::{Boxed, Chain, Stream};
use crate::time::{Time, Timestamp};
use crate::{Data, Environment, Result, VisitInPieces};
use std::collections::BTreeSet;
use std::convert::Infallible;

use std::path::Path;
use std::time::Duration;

/// The input and the output of a body.
type Numbers = Stream<Boxed<u64, ()>>;

struct Body {
    name: &'static str,
    make: fn(Numbers) -> Numbers,
}

macro_rules! bodies {
    ($($name:literal: |$numbers:ident| $body:expr;)*) => {
        vec![$(Body { name: $name, make: |$numbers: Numbers| $body.boxed() }),*]
    };
}

/// Bodies whose records have timestamps.
macro_rules! timed_bodies {
    ($($name:literal: |$numbers:ident| $body:expr;)*) => {
        vec![$(Body { name: $name, make: |$numbers: Numbers| untimed($body) }),*]
    };
}

/// As many as make several batches, windows and sessions, with distinct timestamps.
const INPUT: [u64; 16] = [0, 1, 2, 3, 10, 11, 12, 13, 40, 41, 42, 43, 80, 81, 200, 201];

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// The numbers in order in one task, each with its own timestamp.
fn timed(
    numbers: Stream<impl Chain<Item = u64, Time = ()>>,
) -> Stream<impl Chain<Item = u64, Time = Timestamp>> {
    let at = |n: &u64| Timestamp::from_micros(*n as i64);
    numbers.sorted().assign_timestamps(at, Watermarks::monotonous())
}

/// Records without their timestamps, so that the output of a body has the type of its input.
struct Untimed<C>(C);

impl<C: Chain<Item = u64, Time = Timestamp>> Chain for Untimed<C> {
    type Item = u64;
    type Time = ();
    type Task<N: Push<u64, ()> + 'static> = C::Task<UntimedPush<N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<u64, ()> + 'static,
    {
        self.0.attach(cx, UntimedPush(next))
    }
}

struct UntimedPush<N>(N);

impl<N: Pipe> Pipe for UntimedPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.0)
    }
}

impl<N: Push<u64, ()>> Push<u64, Timestamp> for UntimedPush<N> {
    fn push(&mut self, n: u64, _: Timestamp) {
        self.0.push(n, ());
    }
}

fn untimed(stream: Stream<impl Chain<Item = u64, Time = Timestamp>>) -> Numbers {
    let Stream { env, chain, stage } = stream;
    Stream { env, chain: Untimed(chain), stage }.boxed()
}

/// Adds a running number to its values, and emits another value when a timer fires.
struct Numbering;

impl Process<u64, u64> for Numbering {
    type State = u64;
    type Out = u64;
    type Side = u64;

    fn start(&self) -> u64 {
        0
    }

    fn on_record(
        &self,
        _: &u64,
        seen: &mut u64,
        n: u64,
        at: Timestamp,
        cx: &mut ProcessContext<'_, u64, u64>,
    ) {
        *seen += 1;
        cx.emit(n + *seen);
        cx.emit_side(n);
        cx.set_timer(Timer::EventTime(at.saturating_add(micros(5))));
    }

    fn on_timer(
        &self,
        key: &u64,
        _: &mut u64,
        timer: Timer,
        cx: &mut ProcessContext<'_, u64, u64>,
    ) {
        let Timer::EventTime(at) = timer else { return };
        cx.emit(at.as_micros() as u64 + key);
    }
}

/// Half of a number, and the rest.
struct Halves;

impl VisitInPieces<u64> for Halves {
    type Out = u64;
    type Cursor = bool;

    fn visit_piece(&self, n: &u64, second: &mut bool, emit: &mut impl FnMut(u64)) -> bool {
        emit(if *second { n - n / 2 } else { n / 2 });
        *second = !*second;
        *second
    }
}

/// Windows of three values.
struct Threes;

impl<T: Time> MakeWindows<u64, T> for Threes {
    type Bounds = u64;
    type State = u64;

    fn start(&self) -> u64 {
        0
    }

    fn on_value(&self, seen: &mut u64, _: &u64, _: T, cx: &mut WindowContext<'_, u64>) {
        cx.add(*seen / 3);
        *seen += 1;
        if seen.is_multiple_of(3) {
            cx.fire(*seen / 3 - 1);
        }
    }
}

/// A record with a view.
#[derive(Data)]
struct Named {
    name: String,
    n: u64,
}

fn one_by_one() -> Vec<Body> {
    bodies! {
        "map": |n| n.map(|n| n + 1);
        "map_volatile": |n| n.map_volatile(|n| n + 1);
        "map_memo": |n| n.map_memo(3, |n| n % 7);
        "map_memo_by": |n| n.map_memo_by(3, |n| n % 7, |n| n % 7);
        "map_memo_by_ref": |n| n.map_memo_by_ref(3, |n| n, |n| n % 7);
        "try_map": |n| n.try_map(|n| Ok::<_, Infallible>(n + 1));
        "inspect": |n| n.inspect(|_| ());
        "filter": |n| n.filter(|n| n % 3 == 0);
        "filter_map": |n| n.filter_map(|n| (n % 3 == 0).then_some(n + 1));
        "flat_map": |n| n.flat_map(|n| [n, n + 1]);
        "flatten": |n| n.map(|n| [n, n + 1]).flatten();
        "flat_map_str, flat_each": |n| {
            let words = n.flat_map_str(|n, out| out.push(&format!("{n} of {n}")));
            words.flat_each(crate::text::Words).map(|word: &str| word.len() as u64)
        };
        "flat_each_in_pieces": |n| n.flat_each_in_pieces(Halves);
        "views": |n| {
            let named = n.map(|n| Named { name: n.to_string(), n });
            named.views().map(|named: View<'_, Named>| named.name.len() as u64 + named.n)
        };
        "side_output_each": |n| {
            let words = n.flat_map_str(|n, out| out.push(&format!("{n} of {n}")));
            let (all, words) = words.side_output_each(crate::text::Words);
            all.map(|text: &str| text.len() as u64).merge(words.map(|word: &str| word.len() as u64))
        };
        "map_async": |n| n.map_async(Calls::in_flight(3), async |n| n + 1);
        "try_map_async": |n| n.try_map_async(Calls::in_flight(3), async |n| Ok::<_, Infallible>(n + 1));
        "map_blocking": |n| n.map_blocking(Calls::in_flight(2), |n| n + 1);
        "try_map_blocking": |n| n.try_map_blocking(Calls::in_flight(2), |n| Ok::<_, Infallible>(n + 1));
        "calls that fail": |n| {
            let odd = |n: u64| if n.is_multiple_of(2) { Ok(n) } else { Err("odd") };
            let (even, odds) = n.try_map_async_with_side_output(Calls::in_flight(3), move |n| async move { odd(n) });
            let (even, none) = even.try_map_blocking_with_side_output(Calls::in_flight(2), odd);
            even.merge(odds.map(|call| call.record + 1)).merge(none.map(|call| call.record))
        };
        "join_static": |n| {
            let table = StaticTable::load(|| Ok((0..100u64).map(|n| (n % 50, n)).collect()));
            let both = n.join_static(&table, |n| *n, |n, other| n + other);
            both.left_join_static(&table, |n| *n, |n, other| n + other.copied().unwrap_or(1))
        };
    }
}

fn in_sequence() -> Vec<Body> {
    bodies! {
        "scan": |n| n.sorted().scan(0, |sum, n| { *sum += n; (*sum < 100).then_some(*sum + n) });
        "stateful_map": |n| n.sorted().stateful_map(0, |sum, n| { *sum += n; *sum });
        "limit": |n| n.sorted().limit(5);
        "limit to nothing": |n| n.limit(0);
        "limit of all tasks": |n| n.map(|n| n - n % 10).unique().sorted().limit(2).limit(1);
        "limit without an end": |n| n.sorted().limit(1).flat_map(|n| n..).limit(5);
        "limit behind an exchange without an end": |n| {
            n.sorted().limit(1).flat_map(std::iter::repeat).shuffle().limit(4)
        };
        "scan behind an exchange without an end": |n| {
            let numbers = n.sorted().limit(1).flat_map(|n| n..).parallelism(1).map(|n| n + 1);
            numbers.scan(0, |seen, n| { *seen += 1; (*seen < 5).then_some(n) })
        };
        "limit behind a join without an end": |n| {
            let [a, b] = n.split();
            let many = a.sorted().limit(1).flat_map(std::iter::repeat).group_by(|_| ());
            many.join(b.sorted().limit(2).group_by(|_| ())).unkey().limit(6).map(|(_, (n, _))| n)
        };
        "windows of processing time": |n| {
            let all = n.window_all(ProcessingTimeWindow::tumbling(Duration::from_secs(1_000_000)));
            all.sum(|n| *n).map(|pane| pane.value).sum(|n| *n)
        };
        "chunks": |n| n.sorted().chunks(3).map(|chunk| chunk.iter().sum::<u64>() + chunk.len() as u64);
        "sorted": |n| n.sorted().stateful_map(0, |at, n| { *at += 1; n * *at });
        "sorted_by": |n| n.sorted_by(|a, b| b.cmp(a)).stateful_map(0, |at, n| { *at += 1; n * *at });
        "sorted_by_key": |n| {
            n.sorted_by_key(|n| (n % 3, *n)).stateful_map(0, |at, n| { *at += 1; n * *at })
        };
        "top": |n| n.top(3);
        "top_by_key": |n| n.top_by_key(3, |n| (n % 3, *n));
        "top_by": |n| n.top_by(3, |a, b| b.cmp(a));
        "bottom": |n| n.bottom(3);
        "bottom_by_key": |n| n.bottom_by_key(3, |n| (n % 3, *n));
        "bottom_by": |n| n.bottom_by(3, |a, b| b.cmp(a));
        "fold": |n| n.fold(1, |sum, n| *sum += n);
        "fold_assoc": |n| n.fold_assoc(0, |sum: &mut u64, n| *sum += n, |a, b| *a += b);
        "reduce": |n| n.reduce(|a, b| a.max(b));
        "sum": |n| n.sum(|n| *n);
        "min": |n| n.min(|n| *n);
        "max": |n| n.max(|n| *n);
        "count": |n| n.count();
        "aggregate": |n| n.aggregate(|a| (a.count(), a.sum(|n| *n))).map(|(count, sum)| count + sum);
        "min_by_key": |n| n.min_by_key(|n| (n % 3, *n));
        "max_by_key": |n| n.max_by_key(|n| (n % 3, *n));
        "min_by": |n| n.min_by(|a, b| b.cmp(a));
        "max_by": |n| n.max_by(|a, b| b.cmp(a));
        "average": |n| n.map(|n| n as f64).average(|n| *n).map(|mean| mean as u64);
        "unique": |n| n.map(|n| n / 2).unique();
        "loops": |n| {
            let (outcome, left) = n
                .iterate(3, 0, |n, _| n.map(|n| n + 1))
                .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
                .all_rounds(|sum, part| *sum += part);
            let [left, again] = left.split();
            let again = again
                .replay(2, 0, |n, sum| n.with(sum).map(|(n, sum)| n + sum))
                .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
                .until(|sum, part| { *sum += part; false });
            outcome.map(|outcome| outcome.state).merge(left).merge(again.map(|again| again.state))
        };
        "delta_iterate": |n| {
            let less = |n: &mut u64, other: u64| other < std::mem::replace(n, other.min(*n));
            let down = |(key, n): (u64, u64)| [(key / 2, n), (key / 3, n + 1)];
            let (_, solved) = n
                .group_by(|n| n % 50)
                .map(|_, n| n)
                .unkey()
                .keyed()
                .delta_iterate(9, (), less, |rows, _| rows.unkey().flat_map(down).keyed())
                .all_rounds();
            solved.unkey().map(|(key, n)| key + n)
        };
    }
}

fn from_task_to_task() -> Vec<Body> {
    bodies! {
        "shuffle": |n| n.shuffle();
        "parallelism": |n| n.parallelism(3).parallelism(1);
        "forward, random": |n| n.random(7).forward();
        "broadcast": |n| n.broadcast().unique();
        "repartition_by": |n| n.repartition_by(|n, tasks| *n as usize % tasks);
        "split, merge": |n| { let [a, b] = n.split(); a.merge(b.map(|n| n + 1)) };
        "merge_all": |n| { let [a, b, c] = n.split(); a.env.clone().merge_all([a, b, c]) };
        "route": |n| {
            let ([a, b], rest) = n.route().to(|n| n % 2 == 0).to(|n| n % 3 == 0).split();
            a.merge(b.map(|n| n + 1)).merge(rest.map(|n| n + 2))
        };
        "side_output": |n| {
            let (a, b) = n.side_output(|n, side| { side.push(n + 1); (n % 2 == 0).then_some(n) });
            a.merge(b)
        };
        "zip": |n| {
            let [a, b] = n.split();
            a.sorted().filter(|n| n % 5 != 0).zip(b.sorted().map(|n| n + 1)).map(|(a, b)| 3 * a + b)
        };
        "zip_by_task": |n| {
            let [a, b] = n.split();
            a.sorted().filter(|n| n % 5 != 0).zip_by_task(b.sorted()).map(|(a, b)| 3 * a + b)
        };
        "connect": |n| {
            let [a, b] = n.split();
            a.connect(b, 0, |sum, n| *sum += n).map(|(n, _)| n)
        };
        "connect_after": |n| {
            let [a, b] = n.split();
            a.connect_after(b, 0, |sum, n| *sum += n).map(|(n, sum)| n + sum)
        };
        "connect of keys": |n| {
            let [a, b] = n.split();
            a.group_by(|n| n % 3)
                .connect(b, 0, |sum, n| *sum += n)
                .map(|key, (n, _)| key + n)
                .unkey()
                .map(|(key, n)| key + n)
        };
        "connect_after of keys, stateful_map_with": |n| {
            let [a, b] = n.split();
            a.sorted()
                .group_by(|n| n % 3)
                .connect_after(b, 0, |sum, n| *sum += n)
                .stateful_map_with(0, |_, seen: &mut u64, n, sum: &u64| {
                    *seen += n + sum;
                    *seen
                })
                .unkey()
                .map(|(key, n)| key + n)
        };
    }
}

fn by_key() -> Vec<Body> {
    bodies! {
        "group_by, map, filter": |n| {
            let rows = n.group_by(|n| n % 3).map(|key, n| key + n).filter(|_, n| n % 2 == 0);
            rows.unkey().map(|(_, n)| n)
        };
        "repartition": |n| n.group_by(|n| n % 3).repartition().map(|key, n| key + n).unkey().map(|row| row.1);
        "stateful_map of keys": |n| {
            let seen = n.sorted().group_by(|n| n % 3).stateful_map(0, |_, seen: &mut u64, n| {
                *seen += 1;
                *seen * 7 + n
            });
            seen.unkey().map(|(key, n)| key + n)
        };
        "stateful_flat_map of keys": |n| {
            let seen = n.sorted().group_by(|n| n % 3).stateful_flat_map(0, |_, seen: &mut u64, n| {
                *seen += 1;
                (*seen % 2 == 1).then_some(*seen * 7 + n)
            });
            seen.unkey().map(|(key, n)| key + n)
        };
        "unkey of keys that are carried": |n| n.group_by(|n| n % 3).repartition().unkey().map(|(key, n)| key + n);
        "fold of keys": |n| n.group_by(|n| n % 3).fold(1, |sum, n| *sum += n).unkey().map(|row| row.1);
        "fold_assoc of keys": |n| {
            let sums = n.group_by(|n| n % 3).fold_assoc(0, |sum: &mut u64, n| *sum += n, |a, b| *a += b);
            sums.unkey().map(|row| row.1)
        };
        "reduce of keys": |n| {
            n.group_by(|n| n % 3).reduce(|a, b| a.min(b)).unkey().map(|row| row.1)
        };
        "count of keys": |n| n.group_by(|n| n % 3).count().unkey().map(|row| row.1);
        "sum of keys": |n| n.group_by(|n| n % 3).sum(|n| *n).unkey().map(|row| row.1);
        "min of keys": |n| n.group_by(|n| n % 3).min(|n| *n).unkey().map(|row| row.1);
        "max of keys": |n| n.group_by(|n| n % 3).max(|n| *n).unkey().map(|row| row.1);
        "average of keys": |n| n.group_by(|n| n % 3).average(|n| *n as f64).unkey().map(|row| row.1 as u64);
        "aggregate of keys": |n| {
            n.group_by(|n| n % 3).aggregate(|a| a.count_distinct(|n| n / 2)).unkey().map(|row| row.1)
        };
        "join": |n| {
            let [a, b] = n.split();
            a.group_by(|n| n / 2).join(b.group_by(|n| n / 2)).unkey().map(|(_, (a, b))| a * 3 + b)
        };
        "left_join": |n| {
            let [a, b] = n.split();
            let joined = a.group_by(|n| *n).left_join(b.filter(|n| n % 3 == 0).group_by(|n| *n));
            joined.unkey().map(|(_, (a, b))| a + b.unwrap_or(1))
        };
        "right_join": |n| {
            let [a, b] = n.split();
            let joined = a.filter(|n| n % 3 == 0).group_by(|n| *n).right_join(b.group_by(|n| *n));
            joined.unkey().map(|(_, (a, b))| a.unwrap_or(1) + b)
        };
        "full_join": |n| {
            let [a, b] = n.split();
            let joined = a.group_by(|n| *n).full_join(b.group_by(|n| n + 30));
            joined.unkey().map(|(_, (a, b))| a.unwrap_or(1) + b.unwrap_or(2))
        };
        "semi_join, anti_join": |n| {
            let [a, b, c, d] = n.split();
            let some = a.group_by(|n| *n).semi_join(b.group_by(|n| n + 30)).unkey().map(|row| row.1);
            let others = c.group_by(|n| *n).anti_join(d.group_by(|n| n + 30)).unkey();
            some.merge(others.map(|row| row.1 + 1))
        };
        "joins that keep the left": |n| {
            let [a, b, c, d] = n.split();
            let some = a.group_by(|n| *n).join_with(b.group_by(|n| n + 30)).build_left().full();
            let others = c.group_by(|n| *n).join_with(d.group_by(|n| n + 30)).broadcast_left().inner();
            let some = some.unkey().map(|(_, (a, b))| a.unwrap_or(1) + b.unwrap_or(2));
            some.merge(others.unkey().map(|(_, (a, b))| a + b))
        };
        "cross": |n| { let [a, b] = n.split(); a.cross(b).map(|(a, b)| (a + b) % 50).unique() };
    }
}

fn windows() -> Vec<Body> {
    timed_bodies! {
        "map_with_timestamp": |n| timed(n).map_with_timestamp(|n, at| n + at.as_micros() as u64);
        "process": |n| {
            let (numbered, side) = timed(n).group_by(|n| n % 3).process_with_side_output(Numbering);
            numbered.unkey().map(|(_, n)| n).merge(side)
        };
        "sorted_by_time": |n| {
            timed(n).group_by(|n| n % 3).sorted_by_time(|n| *n).unkey().map(|(_, n)| n)
        };
        "interval_join": |n| {
            let [a, b, c, d] = n.split();
            let [a, b, c, d] = [a, b, c, d].map(|n| timed(n).group_by(|n| n % 3));
            let near = Interval::following(Duration::ZERO, micros(9));
            let all = c.interval_left_join(d, near, |_, a, b| a + b.copied().unwrap_or(7));
            a.interval_join(b, near, |_, a, b| a + b).unkey().merge(all.unkey()).map(|row| row.1)
        };
        "as_of_join": |n| {
            let [a, b, c, d] = n.split();
            let [a, c] = [a, c].map(|n| timed(n).group_by(|n| n % 3));
            let [b, d] = [b, d].map(|n| timed(n.map(|n| n + 3)).group_by(|n| n % 3));
            let all = c.as_of_left_join(d, AsOf::next(), |_, a, b| a + b.copied().unwrap_or(7));
            let last = a.as_of_join(b, AsOf::latest(), |_, a, b| a + b);
            last.unkey().merge(all.unkey()).map(|row| row.1)
        };
        "windows of event time": |n| {
            let counts = timed(n).group_by(|n| n % 3).window(EventTimeWindow::tumbling(micros(7)));
            counts.sum(|n| *n).unkey().map(|(_, pane)| pane.value + pane.start.as_micros() as u64)
        };
        "windows that slide": |n| {
            let counts = timed(n).window_all(EventTimeWindow::sliding(micros(9), micros(3)));
            counts.max(|n| *n).map(|pane| pane.value)
        };
        "windows in order": |n| {
            let lists = timed(n).group_by(|n| n % 3).repartition();
            let lists = lists.window(CountWindow::tumbling(4).keep_partial()).fold(7, |all, n| *all = *all * 3 + n);
            lists.unkey().map(|(_, pane)| pane.value)
        };
        "late_output": |n| {
            let (counts, late) = n
                .sorted()
                .map(|n| if n % 1000 == 80 { n - 70 } else { n })
                .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous())
                .group_by(|n| n % 3)
                .window(EventTimeWindow::tumbling(micros(50)))
                .late_output();
            counts.sum(|n| *n).unkey().map(|(_, pane)| pane.value).merge(late.map(|row| row.1 + 1))
        };
        "sessions": |n| {
            let sessions = timed(n).group_by(|n| n % 3).window(SessionWindow::new(micros(8)));
            sessions.sum(|n| *n).unkey().map(|(_, pane)| pane.value)
        };
        "sessions and the late": |n| {
            let (sessions, late) =
                timed(n).group_by(|n| n % 3).window(SessionWindow::new(micros(8))).late_output();
            let sessions = sessions.sum(|n| *n).unkey().map(|(_, pane)| pane.value);
            sessions.merge(late.map(|row| row.1))
        };
        "windows of counts": |n| {
            let threes = timed(n).group_by(|n| n % 2).window(CountWindow::sliding(3, 2).keep_partial());
            threes.sum(|n| *n).unkey().map(|(_, pane)| pane.value)
        };
        "windows of the last": |n| {
            timed(n).group_by(|n| n % 2).window(LastWindow::new(3)).sum(|n| *n).unkey().map(|(_, pane)| pane.value)
        };
        "windows of everything": |n| {
            timed(n).group_by(|n| n % 2).window(GlobalWindow::new()).count().unkey().map(|(_, pane)| pane.value)
        };
        "windows of transactions": |n| {
            let closed = TransactionWindow::new(|n: &u64| match n % 4 {
                0 => Transaction::Commit,
                1 => Transaction::CommitAfter(micros(3)),
                _ => Transaction::Continue,
            });
            timed(n).group_by(|n| n % 2).window(closed).sum(|n| *n).unkey().map(|(_, pane)| pane.value)
        };
        "windows of the program's": |n| {
            let threes = timed(n).group_by(|n| n % 2).window(CustomWindow::new(Threes));
            threes.sum(|n| *n).unkey().map(|(_, pane)| pane.value)
        };
        "window_join, co_group": |n| {
            let [a, b, c, d] = n.split();
            let [a, b, c, d] = [a, b, c, d].map(|n| timed(n).group_by(|n| n % 3));
            let tens = EventTimeWindow::tumbling(micros(10));
            let pairs = a.window_join(b, tens, |_, a, b| a * 3 + b);
            let counts = c.co_group(d, tens, |_, c, d| c.len() as u64 * 10 + d.len() as u64);
            pairs.unkey().merge(counts.unkey()).map(|(_, pane)| pane.value)
        };
    }
}

/// The output of a body for each input, on streams of their own.
fn fresh(make: fn(Numbers) -> Numbers, inputs: &[Vec<u64>]) -> Result<Rounds> {
    let env = Environment::new();
    let outputs = inputs.iter().map(|input| make(numbers(&env, input)).collect::<Vec<_>>());
    let outputs: Vec<_> = outputs.collect();
    env.run()?;
    outputs.into_iter().map(|output| Ok(in_order(output.take()?))).collect()
}

fn numbers(env: &Environment, input: &[u64]) -> Numbers {
    let numbers = env.iter(input.to_vec());
    numbers.shuffle().boxed()
}

fn in_order(mut records: Vec<u64>) -> Vec<u64> {
    records.sort_unstable();
    records
}

/// The output of each round.
type Rounds = Vec<Vec<u64>>;

fn add(round: &mut Vec<u64>, n: u64) {
    round.push(n);
}

fn add_all(round: &mut Vec<u64>, more: Vec<u64>) {
    round.extend(more);
}

/// Runs a body for this many rounds, in each of which all numbers are greater by this.
fn replayed<B: Chain<Item = u64, Time = ()>>(
    n: Numbers,
    rounds: u64,
    by: u64,
    make: impl FnOnce(Numbers) -> Stream<B>,
) -> Stream<impl Chain<Item = Rounds, Time = ()>> {
    n.replay(rounds, Rounds::new(), |n, before| {
        let shift = move |(n, before): (&u64, &Rounds)| n + by * before.len() as u64;
        make(n.with(before).map(shift).boxed())
    })
    .fold(add, add_all)
    .all_rounds(|rounds, round| rounds.push(in_order(round)))
    .map(|outcome| outcome.state)
}

/// Two rounds of a loop whose body is a loop of two rounds over the body that `make` makes.
fn nested(
    n: Numbers,
    by: [u64; 2],
    make: fn(Numbers) -> Numbers,
) -> Stream<impl Chain<Item = Vec<Rounds>, Time = ()>> {
    n.replay(2, Vec::new(), |n, before| {
        let shift = move |(n, before): (&u64, &Vec<Rounds>)| n + by[0] * before.len() as u64;
        replayed(n.with(before).map(shift).boxed(), 2, by[1], make)
    })
    .fold(|part: &mut Vec<Rounds>, rounds| part.push(rounds), |part, other| part.extend(other))
    .all_rounds(|all, rounds| all.extend(rounds))
    .map(|outcome| outcome.state)
}

/// Whether `these` are a part of `those`.
fn are_some(mut these: Vec<u64>, those: &[u64]) -> bool {
    for that in those {
        if let Some(at) = these.iter().position(|this| this == that) {
            these.swap_remove(at);
        }
    }
    these.is_empty()
}

const BY: u64 = 1000;
/// How many of a body's records are requested where it is cut short.
const WANTED: usize = 2;

/// A run has every fourth body, and the next run those beside them: each body is run on one core, on three, in two of the drawn
/// orders, and on one cluster of two or three hosts.
const APART: usize = 4;
/// As many as there are runs with encoded exchanges: each body is in one of them.
const ENCODED_APART: usize = 3;

/// What a body gives.
struct Expected {
    /// In the rounds of a loop, and in those of a loop within two rounds of another one.
    whole: Rounds,
    both: [Rounds; 2],
    /// The input of each round where its output is fed back, and what is left.
    fed: Rounds,
}

/// By the body on fresh streams.
fn expected(make: fn(Numbers) -> Numbers) -> Result<Expected> {
    let shifted = |by: u64| INPUT.map(|n| n + by).to_vec();
    let mut once = fresh(make, &[0, 1, 2, 10, 11].map(|round| shifted(round * BY)))?;
    let last = once.split_off(3);
    let both = [once[..2].to_vec(), last];
    let mut fed = vec![shifted(0), once[0].clone()];
    if !fed[1].is_empty() {
        fed.extend(fresh(make, &fed[1..])?);
    }
    Ok(Expected { whole: once, both, fed })
}

/// Each body replayed, replayed and cut short in each round, fed back, and in a loop within a loop.
fn begin_anew(bodies: &[Body]) {
    let expected: Vec<Expected> = bodies
        .iter()
        .map(|Body { name, make }| expected(*make).unwrap_or_else(|e| panic!("{name}: {e}")))
        .collect();
    every_host(|env, number| {
        let all = bodies.iter().zip(&expected).enumerate();
        let apart = if env.config().encode_exchanges { ENCODED_APART } else { APART };
        for (_, (body, expected)) in all.filter(|(at, _)| (at + number).is_multiple_of(apart)) {
            begins_anew(env, body, expected)?;
        }
        Ok(())
    });
}

fn begins_anew(env: &Environment, Body { name, make }: &Body, expected: &Expected) -> Result<()> {
    let Expected { whole, both, fed } = expected;
    let numbers = || numbers(env, &INPUT);
    let replay = replayed(numbers(), 3, BY, make).collect::<Vec<_>>();
    let few = |n| make(n).limit(WANTED as u64);
    let few = replayed(numbers(), 3, BY, few).collect::<Vec<_>>();
    let inner = nested(numbers(), [10 * BY, BY], *make).collect::<Vec<_>>();
    let (outcome, left) = numbers()
        .iterate(2, Rounds::new(), |n, _| make(n.boxed()))
        .fold(|round: &mut Vec<u64>, n: &u64| round.push(*n), add_all)
        .all_rounds(|rounds: &mut Rounds, round| rounds.push(in_order(round)));
    let (outcome, left) = (outcome.collect::<Vec<_>>(), left.collect::<Vec<_>>());
    env.run()?;
    assert_eq!(replay.take()?, std::slice::from_ref(whole), "{name}");
    assert_eq!(inner.take()?, [both.to_vec()], "{name}, within two loops");
    assert_eq!(outcome.take()?[0].state, fed[1..], "{name}, fed back");
    assert_eq!(in_order(left.take()?), fed[fed.len() - 1], "{name}, left over");
    for (few, whole) in few.take()?.remove(0).into_iter().zip(whole) {
        assert_eq!(few.len(), whole.len().min(WANTED), "{name}, cut short");
        assert!(are_some(few.clone(), whole), "{name}, cut short: {few:?} of {whole:?}");
    }
    Ok(())
}

#[test]
fn operators_of_single_records() {
    begin_anew(&one_by_one());
}

#[test]
fn operators_of_the_records_of_a_task() {
    begin_anew(&in_sequence());
}

#[test]
fn operators_of_several_tasks_and_streams() {
    begin_anew(&from_task_to_task());
}

#[test]
fn operators_of_keys() {
    begin_anew(&by_key());
}

#[test]
fn operators_of_windows() {
    begin_anew(&windows());
}

/// Why some operators are in none of the bodies above.
const NOT_IN_BODIES: [(&str, &str); 5] = [
    ("cache", "a sink, which keeps what comes in all rounds"),
    ("cached", "a source"),
    ("cut", "a sink: what it is for is said where it is"),
    ("probe", "stands in tests of watermarks alone"),
    ("strict", "stands in tests of the protocol alone"),
];

/// The kinds of operators that the source names, by `Origin::here`: fails for a new one that is missing here.
#[test]
fn no_operator_is_forgotten() {
    let mut named = BTreeSet::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/operators");
    let mut folders = vec![source];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            // Tests come last, and name operators of their own.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let after = code.split("Origin::here(\"").skip(1);
            named.extend(after.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
    }
    let env = Environment::new();
    let bodies = [one_by_one(), in_sequence(), from_task_to_task(), by_key(), windows()];
    for Body { make, .. } in bodies.iter().flatten() {
        replayed(numbers(&env, &INPUT), 1, 0, make).for_each(drop);
    }
    let plan = env.plan();
    let kinds = plan.operators.iter().map(|op| op.kind.clone());
    let tested: BTreeSet<String> =
        kinds.chain(NOT_IN_BODIES.map(|(kind, _)| kind.to_owned())).collect();
    let forgotten: Vec<_> = named.difference(&tested).collect();
    assert!(named.len() > 50 && forgotten.is_empty(), "{forgotten:?}");
}

/// An infinite input of a loop ends once the first round needs no more of it.
#[test]
fn the_input_of_a_loop_ends_when_no_more_is_wanted() {
    every(|env| {
        let (_, left) = env
            .iter(0u64..)
            .shuffle()
            .iterate(3, (), |n, _| n.limit(5).map(|n| n + 1))
            .all_rounds();
        let (_, many) = env
            .iter([1u64])
            .flat_map(|n| n..)
            .iterate(2, (), |n, _| {
                n.scan(0, |seen, n| {
                    *seen += 1;
                    (*seen <= 3).then_some(n)
                })
            })
            .all_rounds();
        let (left, many) = (left.count().collect_one(), many.collect::<Vec<_>>());
        env.run()?;
        assert_eq!((left.take()?, many.take()?), (Some(5), vec![1, 2, 3]));
        Ok(())
    });
}

/// A stream from outside that a body keeps is read completely, even if a round needed none of its results.
#[test]
fn inputs_from_outside_a_loop_are_read_completely() {
    every(|env| {
        let outside = env.range(0..1000).shuffle();
        let [controls, table] = outside.split();
        let outcome = env
            .range(0..100)
            .replay(3, Rounds::new(), |numbers, rounds| {
                let wanted = |round: u64| if round == 0 { 1 } else { 100 };
                let numbers = numbers.with(rounds).map(|(n, rounds)| (*n, rounds.len() as u64));
                let joined = numbers.group_by(|(n, _)| *n).join(table.group_by(|n| n % 100));
                let joined = joined.unkey().map(|(_, (left, _))| left);
                let summed = joined.connect_after(controls, 0, |sum, n| *sum += n);
                // One task, in which the first round is cut short.
                let summed = summed.map(|((_, round), sum)| (round, *sum)).parallelism(1);
                summed.scan(0, move |seen, (round, sum)| {
                    *seen += 1;
                    (*seen <= wanted(round)).then_some(sum)
                })
            })
            .fold(add, add_all)
            .all_rounds(|rounds, round| rounds.push(round));
        let out = outcome.collect::<Vec<_>>();
        env.run()?;
        let rounds = out.take()?.remove(0).state;
        let sum: u64 = (0..1000).sum();
        assert_eq!(rounds, [vec![sum; 1], vec![sum; 100], vec![sum; 100]]);
        Ok(())
    });
}
