//! A handler that is called for the records and the timers of each key: for what no other operator expresses.

mod context;
mod running;

use super::partition::Placed;
use super::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::data::{Data, Record, Wire};
use crate::operators::side_outlet::{MaybeSideOutput, NoSideOutput, ToSideOutput};
use crate::plan::{Origin, Scope};
use crate::stream::{Chain, Received, Stream};
use crate::time::Timestamp;
use std::convert::Infallible;
use std::sync::Arc;

pub use context::{ProcessContext, Timer};
pub use running::Processing;

/// The handler of [`KeyedStream::process`](super::KeyedStream::process), which is called for each record and each
/// timer of a key.
///
/// `K` is the type of the keys and `V` that of the values: what the closure of `group_by` returns, and the stream's
/// records. What the next call needs must be kept in the state, and nowhere else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not process values of `{V}` with keys of `{K}`",
    label = "needs `impl Process<{K}, {V}>`",
    note = "implement `thalweg::operators::keyed::Process` for a type of your own, for these keys and values"
)]
pub trait Process<K: ?Sized, V: Record + ?Sized>: Send + Sync + 'static {
    /// The state of a key.
    type State: Data;
    /// What is emitted, with the key.
    type Out: Send + 'static;
    /// What is emitted to the [side output](super::KeyedStream::process_with_side_output); [`Infallible`] where there
    /// is none.
    type Side: Send + 'static;

    /// The state of a key that is new, or has been cleared.
    fn start(&self) -> Self::State;

    /// Called for a record, with its timestamp `at`. The record may be late: see [`ProcessContext::watermark`]. In a
    /// stream without timestamps, `at` is the time of day at which its batch arrived, by the engine's clock.
    fn on_record(
        &self,
        key: &K,
        state: &mut Self::State,
        value: V::Of<'_>,
        at: Timestamp,
        cx: &mut ProcessContext<'_, Self::Out, Self::Side>,
    );

    /// Called when a timer of this key fires. The timer is then no longer set.
    fn on_timer(
        &self,
        key: &K,
        state: &mut Self::State,
        timer: Timer,
        cx: &mut ProcessContext<'_, Self::Out, Self::Side>,
    );
}

/// A keyed stream of what the handler emits.
type Processed<C, G, P, H, X> = KeyedStream<
    Processing<<P as Placed>::PartitionedChain<C, G>, <P as Placed>::Keys<C, G>, H, X>,
    FirstOf,
    Partitioned,
>;

/// The records of the side output.
type SideOf<C, G, H> = <H as Process<
    <G as KeyBy<<C as Chain>::Item>>::Key,
    <G as KeyBy<<C as Chain>::Item>>::Value,
>>::Side;

impl<C, G, P> KeyedStream<C, G, P>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item>,
    P: Placed,
{
    /// Calls a handler for every record and for every timer that it has set, with the state of the key:
    /// for what no window and no other operator expresses.
    ///
    /// See [`Process`] for the handler, and [`ProcessContext`] for what it can do. Prefer [`window`](Self::window)
    /// where one fits, since it aggregates before it sends, and [`stateful_map`](Self::stateful_map) where time does
    /// not matter.
    ///
    /// Every record is sent to the task that owns its key, unless it is already there. The calls of one key follow
    /// one another. The values of a key are processed in the order in which they arrive. That is the order of their
    /// stream only where a single task sends them all, and it is not the order of their timestamps.
    ///
    /// An event-time timer fires when the watermark has reached it: no record before its time is expected, but
    /// records at the same timestamp may still arrive. A processing-time timer fires when the engine's clock has
    /// reached it. Timers of one kind fire in the order of their times; timers of different keys with the same time
    /// fire in any order.
    ///
    /// What a handler emits for a record has the record's timestamp. What it emits for an event-time timer has the
    /// timer's time, and for a processing-time timer the watermark. The timestamp is never before the watermark, so
    /// the output of a timer is not late.
    ///
    /// The stream needs no timestamps. Without them, set processing-time timers: no watermark arrives, so event-time
    /// timers fire only at the end of the input.
    ///
    /// At the end of the input, all timers that are set fire at once: first the event-time timers, including those
    /// that are set meanwhile, then the processing-time timers, of which no more can be set. A handler that sets
    /// another timer each time must stop when [`is_ended`](ProcessContext::is_ended) returns `true`. An event-time
    /// timer at [`Timestamp::MAX`] fires at the end, and never before.
    ///
    /// Costs a look-up per record, and near-constant time per timer. Memory: one state per key until it is cleared, 24
    /// bytes for the first timer of each clock, and 16 bytes for each further timer of a key. A timer that is postponed
    /// again and again costs no more than one. The memory of cleared keys is used again. The state is declared: the plan
    /// shows it.
    ///
    /// # Errors
    ///
    /// Keys beyond the memory budget go to disk, with their timers and states. The job fails when a single key, with what its
    /// state owns on the heap, exceeds the budget.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::keyed::{Process, ProcessContext, Timer};
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::time::Timestamp;
    ///
    /// /// Reports the orders that were not paid within ten seconds.
    /// struct Unpaid;
    ///
    /// /// The second, the order, and whether it was paid or placed.
    /// type Order = (i64, u32, bool);
    ///
    /// impl Process<u32, Order> for Unpaid {
    ///     /// When it was paid.
    ///     type State = Option<Timestamp>;
    ///     type Out = String;
    ///     type Side = Infallible;
    ///
    ///     fn start(&self) -> Option<Timestamp> {
    ///         None
    ///     }
    ///
    ///     fn on_record(
    ///         &self,
    ///         _: &u32,
    ///         paid: &mut Option<Timestamp>,
    ///         (_, _, is_paid): Order,
    ///         at: Timestamp,
    ///         cx: &mut ProcessContext<'_, String, Infallible>,
    ///     ) {
    ///         if is_paid {
    ///             *paid = Some(at);
    ///         } else {
    ///             cx.set_timer(Timer::EventTime(at.saturating_add(Duration::from_secs(10))));
    ///         }
    ///     }
    ///
    ///     fn on_timer(
    ///         &self,
    ///         _: &u32,
    ///         paid: &mut Option<Timestamp>,
    ///         due: Timer,
    ///         cx: &mut ProcessContext<'_, String, Infallible>,
    ///     ) {
    ///         // A payment after that time may have arrived before the watermark.
    ///         if paid.is_none_or(|at| Timer::EventTime(at) > due) {
    ///             cx.emit("unpaid".to_owned());
    ///         }
    ///         cx.clear();
    ///     }
    /// }
    ///
    /// let env = Environment::new();
    /// let orders = env.iter([(0, 1, false), (1, 2, false), (5, 1, true), (20, 2, true)]);
    /// let unpaid = orders
    ///     .assign_timestamps(|order| Timestamp::from_secs(order.0), Watermarks::monotonous())
    ///     .group_by(|order| order.1)
    ///     .process(Unpaid);
    /// let out = unpaid.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(2, "unpaid".to_owned())]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("KeyedProcessFunction", "ProcessFunction", "onTimer"))]
    #[track_caller]
    pub fn process<H>(self, handler: H) -> Processed<C, G, P, H, NoSideOutput>
    where
        H: Process<G::Key, G::Value, Side = Infallible>,
    {
        let origin = Origin::here("process");
        processed(P::partitioned(self, origin), origin, handler, NoSideOutput)
    }

    /// Like [`process`](Self::process), with a [side output](ProcessContext::emit_side) for late records, errors, or
    /// records of another kind.
    ///
    /// The side output has the same number of tasks and the same kind of time as the main output, and must end in a
    /// sink like any other stream. Its records have no key.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::keyed::{Process, ProcessContext, Timer};
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::time::Timestamp;
    ///
    /// /// Emits the values that are greater than all before them, and sends the others to the side output.
    /// struct Rising;
    ///
    /// impl Process<(), i64> for Rising {
    ///     type State = Option<i64>;
    ///     type Out = i64;
    ///     type Side = i64;
    ///
    ///     fn start(&self) -> Option<i64> {
    ///         None
    ///     }
    ///
    ///     fn on_record(
    ///         &self,
    ///         _: &(),
    ///         greatest: &mut Option<i64>,
    ///         value: i64,
    ///         _: Timestamp,
    ///         cx: &mut ProcessContext<'_, i64, i64>,
    ///     ) {
    ///         if Some(value) > *greatest {
    ///             *greatest = Some(value);
    ///             cx.emit(value);
    ///         } else {
    ///             cx.emit_side(value);
    ///         }
    ///     }
    ///
    ///     fn on_timer(&self, _: &(), _: &mut Option<i64>, _: Timer, _: &mut ProcessContext<'_, i64, i64>) {}
    /// }
    ///
    /// let env = Environment::new();
    /// let values = env.iter([3, 1, 4, 1, 5]);
    /// let timed = values.assign_timestamps(|n| Timestamp::from_secs(*n), Watermarks::monotonous());
    /// let (rising, others) = timed.group_by(|_| ()).process_with_side_output(Rising);
    /// let rising = rising.unkey().map(|(_, n)| n).collect::<Vec<_>>();
    /// let others = others.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!((rising.take()?, others.take()?), (vec![3, 4, 5], vec![1, 1]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn process_with_side_output<H>(
        self,
        handler: H,
    ) -> (
        Processed<C, G, P, H, ToSideOutput<SideOf<C, G, H>, C::Time>>,
        Stream<Received<SideOf<C, G, H>, C::Time>>,
    )
    where
        H: Process<G::Key, G::Value, Side: Data>,
    {
        let origin = Origin::here("process");
        let together = P::partitioned(self, origin);
        let (side_output, side) =
            ToSideOutput::begin(&together.stream, Origin { kind: "side output", ..origin });
        (processed(together, origin, handler, side_output), side)
    }
}

fn processed<C, G, H, X>(
    keyed: KeyedStream<C, G, Partitioned>,
    origin: Origin,
    handler: H,
    side_output: X,
) -> KeyedStream<Processing<C, G, H, X>, FirstOf, Partitioned>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item>,
    H: Process<G::Key, G::Value>,
    X: MaybeSideOutput<H::Side, C::Time>,
{
    let KeyedStream { stream, keys, .. } = keyed;
    let handler = Arc::new(handler);
    let stream =
        stream.then(origin, |prev, op| Processing { prev, op, keys, handler, side_output });
    KeyedStream::new(stream.with_state::<H::State>(Scope::key::<G::Key>()), FirstOf)
}

#[cfg(test)]
mod tests;
