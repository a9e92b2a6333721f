//! The task that owns the keys: takes slices in, and gives out the windows that end.
//!
//! A window is given out when the watermark has passed its end, all keys of it in a row, in three steps:
//! slices that it has more than the window before it *enter* what is rolling, every key's result is
//! *given*, and slices that the next window has no more *leave*. Where a window is one slice, its table is
//! given out as it is.
//!
//! A record is late when all windows that it is in have been given out. It may come for a slice that has
//! entered, when a later window has it too: then it enters with the next window, as a slice of its own.
//!
//! Where lateness is allowed, slices are kept when they have been given out. What comes for a window that
//! has had its result waits until the batch is through; then it is put to the slice that was kept, and
//! the windows that have changed are given out again, for the keys that have.

use super::frames::{Frames, SliceId, WindowId};
use super::pane::{Pane, Timing};
use super::rolling::Rolling;
use super::slices::Slices;
use super::slicing::SlicePart;
use crate::data::{Batch, Key, Portable, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Part, PartialBatch};
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, guard};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::operators::keyed::{Combine, KeyBy};
use crate::plan::TaskContext;
use crate::state::{Drain, GroupTable};
use crate::stream::Chain;
use crate::time::{EventTime, Timestamp};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

/// How what comes in is taken into the table of its slice.
pub trait Feed<I: Record + ?Sized>: Clone + Send + 'static {
    /// The kind of key.
    type Key: Key + ?Sized;
    /// What is remembered for a key in a slice.
    type State: crate::Data + Clone;
    /// What comes out.
    type Output: crate::Data;

    /// The slice, if it is not that of the timestamp.
    fn slice(&self, item: &I::Of<'_>) -> Option<i64>;

    /// Takes it into the table.
    fn take(&self, table: &mut GroupTable<Self::Key, Self::State>, item: I::Of<'_>);

    /// Puts what is known of a slice to what is known of another.
    fn combine(&self, into: &mut Self::State, from: Self::State);

    /// Whether what was known of a slice can be taken away again.
    const INVERTIBLE: bool;

    /// Takes away what was known of a slice, where that can be done.
    fn subtract(&self, from: &mut Self::State, what: &Self::State);

    /// The result.
    fn finish(&self, state: Self::State) -> Self::Output;
}

/// Records themselves come in.
pub struct Values<A, G> {
    pub(super) aggregate: Arc<A>,
    pub(super) keys: G,
}

impl<A, G: Clone> Clone for Values<A, G> {
    fn clone(&self) -> Self {
        Self { aggregate: Arc::clone(&self.aggregate), keys: self.keys.clone() }
    }
}

impl<I, A, G> Feed<I> for Values<A, G>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    A: Combine<G::Value, State: Clone>,
{
    type Key = G::Key;
    type State = A::State;
    type Output = A::Output;

    #[inline(always)]
    fn slice(&self, _: &I::Of<'_>) -> Option<i64> {
        None
    }

    #[inline(always)]
    fn take(&self, table: &mut GroupTable<G::Key, A::State>, item: I::Of<'_>) {
        let (hash, key) = (self.keys.hash(&item), self.keys.key(&item));
        let state = table.upsert(hash, key.probe(), key, || self.aggregate.start());
        self.aggregate.update(state, self.keys.value(item));
    }

    fn combine(&self, into: &mut A::State, from: A::State) {
        self.aggregate.combine(into, from);
    }

    const INVERTIBLE: bool = A::INVERSE.is_some();

    fn subtract(&self, from: &mut A::State, what: &A::State) {
        if let Some(inverse) = A::INVERSE {
            inverse(&self.aggregate, from, what);
        }
    }

    fn finish(&self, state: A::State) -> A::Output {
        self.aggregate.finish(state)
    }
}

/// What other tasks know of slices comes in.
pub struct Parts<A, K: ?Sized, V: ?Sized> {
    aggregate: Arc<A>,
    types: PhantomData<fn(&K, &V)>,
}

impl<A, K: ?Sized, V: ?Sized> Parts<A, K, V> {
    pub(super) fn new(aggregate: Arc<A>) -> Self {
        Self { aggregate, types: PhantomData }
    }
}

impl<A, K: ?Sized, V: ?Sized> Clone for Parts<A, K, V> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.aggregate))
    }
}

impl<K, V, A> Feed<SlicePart<K, A::State>> for Parts<A, K, V>
where
    K: Key + ?Sized,
    V: Record + ?Sized,
    A: Combine<V, State: Clone>,
{
    type Key = K;
    type State = A::State;
    type Output = A::Output;

    #[inline(always)]
    fn slice(&self, part: &Part<'_, K, (i64, A::State)>) -> Option<i64> {
        Some(part.state.0)
    }

    #[inline(always)]
    fn take(&self, table: &mut GroupTable<K, A::State>, part: Part<'_, K, (i64, A::State)>) {
        match table.find(part.hash, part.probe()) {
            Some(state) => self.aggregate.combine(state, part.state.1),
            None => table.insert_slot(part.hash, part.key, part.arena, part.state.1),
        }
    }

    fn combine(&self, into: &mut A::State, from: A::State) {
        self.aggregate.combine(into, from);
    }

    const INVERTIBLE: bool = A::INVERSE.is_some();

    fn subtract(&self, from: &mut A::State, what: &A::State) {
        if let Some(inverse) = A::INVERSE {
            inverse(&self.aggregate, from, what);
        }
    }

    fn finish(&self, state: A::State) -> A::Output {
        self.aggregate.finish(state)
    }
}

/// The chain that ends in the results of windows.
pub struct Firing<C, F> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) feed: F,
    pub(super) frames: Frames,
}

/// A result with its key.
type Row<I, F> = (<<F as Feed<I>>::Key as Portable>::Owned, Pane<<F as Feed<I>>::Output>);

impl<C, F> Chain for Firing<C, F>
where
    C: Chain<Time: EventTime>,
    F: Feed<C::Item>,
{
    type Item = Row<C::Item, F>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> = C::Task<FiringPush<C::Item, C::Time, F, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let windows = Windows {
            op: cx.op(self.op),
            feed: self.feed.clone(),
            frames: self.frames,
            coming: Slices::new(),
            current: None,
            entered: VecDeque::new(),
            entered_bytes: 0,
            rolling: GroupTable::new(),
            live: 0,
            fired: None,
            entered_until: None,
            over: None,
            kept: Slices::new(),
            behind: Slices::new(),
            changed: Slices::new(),
            updates: Slices::new(),
            reservation: cx.memory.reserve(),
            failed: false,
            late: 0,
        };
        let (phase, types) = (Phase::Taking, PhantomData);
        let push = FiringPush { windows, phase, held: None, until: None, emitted: 0, next, types };
        self.prev.attach(cx, push)
    }
}

/// Windows in a running task.
pub struct FiringPush<I: Record + ?Sized, T, F: Feed<I>, N> {
    windows: Windows<I, F>,
    phase: Phase<F::Key, F::State>,
    /// An event that waits until the windows before it are given out.
    held: Option<Event>,
    /// The last window that has ended.
    until: Option<WindowId>,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I, T)>,
}

enum Phase<K: Key + ?Sized, S> {
    /// Records come in.
    Taking,
    /// A window of one slice is given out.
    Whole(WindowId, Drain<K, S>),
    /// A slice enters.
    Entering(WindowId, SliceId, Drain<K, S>),
    /// What is rolling is given out.
    Giving(WindowId, usize),
    /// What the next window does not have leaves.
    Leaving(WindowId),
    /// What came for a slice that was given out goes where it belongs.
    Joining(SliceId, Drain<K, S>),
    /// A window is given out again, for some keys.
    Again(WindowId, Drain<K, ()>),
}

impl<K: Key + ?Sized, S> Phase<K, S> {
    /// The table that was given out or has entered.
    fn into_table(self) -> Option<GroupTable<K, S>> {
        match self {
            Self::Whole(_, table) | Self::Entering(_, _, table) | Self::Joining(_, table) => {
                Some(table.into_table())
            }
            Self::Taking | Self::Giving(..) | Self::Leaving(_) | Self::Again(..) => None,
        }
    }
}

struct Windows<I: Record + ?Sized, F: Feed<I>> {
    op: Op,
    feed: F,
    frames: Frames,
    /// Slices that have not entered, and what came for others after they had.
    coming: Slices<F::Key, F::State>,
    /// The slice that the last record lay in.
    current: Option<Current>,
    /// What has entered and is to be subtracted again, in the order of the slices, a chunk each.
    entered: VecDeque<(SliceId, PartialBatch<F::Key, F::State>)>,
    entered_bytes: usize,
    /// The keys of the last windows, each with what is known of it in the slices that have entered.
    rolling: GroupTable<F::Key, Rolling<F::State>>,
    /// Keys in there that have slices left.
    live: usize,
    /// The last window that was given out, or passed by as it had no record.
    fired: Option<WindowId>,
    /// The last slice of the last window that was given out.
    entered_until: Option<SliceId>,
    /// The last window that takes no more records in.
    over: Option<WindowId>,
    /// Slices that windows were given out of which still take records in.
    kept: Slices<F::Key, F::State>,
    /// What has come for those since the last batch.
    behind: Slices<F::Key, F::State>,
    /// The keys of each window that have to be given out again.
    changed: Slices<F::Key, ()>,
    /// How often each key of a window was.
    updates: Slices<F::Key, u32>,
    reservation: Reservation,
    failed: bool,
    late: u64,
}

/// Where the records of a slice go.
#[derive(Clone, Copy)]
struct Current {
    slice: SliceId,
    from: Timestamp,
    to: Timestamp,
    way: Way,
}

#[derive(Clone, Copy)]
enum Way {
    /// Into the table at this place.
    Table(usize),
    /// Into the table at this place of those for windows that have had their results.
    Behind(usize),
    /// All its windows have been given out.
    Late,
    /// It is in no window.
    Nowhere,
}

/// Keys without slices that may stay among those that have some, beyond as many as those.
const SPENT: usize = 1024;

impl<I: Record + ?Sized, F: Feed<I>> Windows<I, F> {
    #[inline(always)]
    fn take(&mut self, item: I::Of<'_>, at: Timestamp) {
        let known = self.current.filter(|current| match self.feed.slice(&item) {
            Some(slice) => slice == current.slice,
            None => current.from <= at && at < current.to,
        });
        let way = match known {
            Some(current) => current.way,
            None => self.turn_to(self.feed.slice(&item), at),
        };
        let (tables, place) = match way {
            Way::Table(place) => (&mut self.coming, place),
            Way::Behind(place) => (&mut self.behind, place),
            Way::Late => {
                self.late += 1;
                return;
            }
            Way::Nowhere => return,
        };
        let full = tables.at(place).is_some_and(|table| table.is_full());
        if full && !self.may_grow(way) {
            return;
        }
        let Self { op, feed, coming, behind, .. } = self;
        let tables = if matches!(way, Way::Behind(_)) { behind } else { coming };
        if let Some(table) = tables.at(place) {
            guard(op, || feed.take(table, item));
        }
    }

    /// Goes to another slice: the given one, or that of the timestamp.
    #[inline(never)]
    fn turn_to(&mut self, slice: Option<SliceId>, at: Timestamp) -> Way {
        let slice = slice.unwrap_or_else(|| self.frames.slice(at));
        let (first, last) = self.frames.windows(slice);
        let way = if first > last {
            Way::Nowhere
        } else if self.over.is_some_and(|over| last <= over) {
            Way::Late
        } else if self.frames.allows_lateness() && self.fired.is_some_and(|fired| first <= fired) {
            Way::Behind(self.behind.place(slice))
        } else {
            Way::Table(self.coming.place(slice))
        };
        let (from, to) = self.frames.span(slice);
        self.current = Some(Current { slice, from, to, way });
        way
    }

    /// Asks for the memory of a table that is to be doubled, and fails the job when it is not there.
    #[cold]
    fn may_grow(&mut self, way: Way) -> bool {
        let table = match way {
            Way::Table(place) => self.coming.at(place),
            Way::Behind(place) => self.behind.at(place),
            Way::Late | Way::Nowhere => None,
        };
        let grown = table.map_or(0, |table| table.bytes_if_grown());
        let given = self.kept.bytes() + self.behind.bytes() + self.updates.bytes();
        let bytes = self.coming.bytes() + self.entered_bytes + self.rolling.bytes() + given + grown;
        if !self.failed && !self.reservation.try_resize(bytes) {
            self.failed = true;
            let what = format!(
                "the windows of one of its tasks hold {} keys in their open slices, for which the memory \
                 budget of {} bytes has no room",
                self.coming.keys(),
                self.reservation.pool().limit(),
            );
            self.op.fail(Error::new(ErrorKind::Memory, what));
        }
        !self.failed
    }

    /// The next window that has records, up to one that has ended.
    fn next_window(&self, until: WindowId) -> Option<WindowId> {
        let after = self.fired.map_or(WindowId::MIN, |fired| fired.saturating_add(1));
        let coming = self.coming.first().map(|slice| self.frames.windows(slice).0.max(after));
        let rolling = (self.live > 0).then_some(after);
        let next = coming.into_iter().chain(rolling).min()?;
        (next <= until).then_some(next)
    }

    /// Begins to give a window out.
    fn begin(&mut self, window: WindowId) -> Phase<F::Key, F::State> {
        self.fired = Some(window);
        self.current = None;
        if self.frames.is_one_slice() {
            let (_, slice) = self.frames.slices(window);
            let table = self.coming.take_until(slice).map(|(_, table)| table);
            return Phase::Whole(window, table.unwrap_or_default().into_drain());
        }
        self.enter(window)
    }

    /// The next slice of a window enters, or the window is given out.
    fn enter(&mut self, window: WindowId) -> Phase<F::Key, F::State> {
        let (_, last) = self.frames.slices(window);
        match self.coming.take_until(last) {
            Some((slice, table)) => Phase::Entering(window, slice, table.into_drain()),
            None => {
                self.entered_until = Some(last);
                Phase::Giving(window, 0)
            }
        }
    }

    /// The next piece of work for windows that have had results and have changed, if there is any.
    fn update(&mut self) -> Option<Phase<F::Key, F::State>> {
        if let Some((slice, table)) = self.behind.take_until(SliceId::MAX) {
            self.current = None;
            return Some(Phase::Joining(slice, table.into_drain()));
        }
        let (window, keys) = self.changed.take_until(WindowId::MAX)?;
        Some(Phase::Again(window, keys.into_drain()))
    }

    /// Some of what has come for a slice that was given out goes where it belongs; answers whether there
    /// is more.
    fn join_some(&mut self, slice: SliceId, table: &mut Drain<F::Key, F::State>) -> bool {
        let (first, last) = self.frames.windows(slice);
        let first = self.over.map_or(first, |over| first.max(over.saturating_add(1)));
        let Self { op, feed, coming, kept, changed, fired, .. } = self;
        let fired = fired.unwrap_or(WindowId::MIN);
        let put = |tables: &mut Slices<F::Key, F::State>, key: &F::Key, state: F::State| {
            let probe = key.probe();
            let table = tables.table(slice);
            match table.find(F::Key::hash(probe), probe) {
                Some(there) => guard(op, || feed.combine(there, state)),
                None => drop(table.upsert(F::Key::hash(probe), probe, key, || state)),
            }
        };
        for _ in 0..CHUNK {
            let joined = table.for_next(|key, state| {
                if last > fired {
                    put(coming, key, state.clone());
                }
                put(kept, key, state);
                for window in first..=last.min(fired) {
                    let probe = key.probe();
                    changed.table(window).upsert(F::Key::hash(probe), probe, key, || ());
                }
            });
            if joined.is_none() {
                return false;
            }
        }
        true
    }

    /// What a key has in the slices of a window that are kept.
    fn again(&mut self, window: WindowId, key: &F::Key) -> Option<(F::State, u32)> {
        let (from, to) = self.frames.slices(window);
        let (probe, mut total) = (key.probe(), None);
        let hash = F::Key::hash(probe);
        let Self { op, feed, kept, updates, .. } = self;
        kept.each_in(from, to, |table| {
            let Some(state) = table.find(hash, probe) else { return };
            match &mut total {
                None => total = Some(state.clone()),
                Some(total) => guard(op, || feed.combine(total, state.clone())),
            }
        });
        let count = updates.table(window).upsert(hash, probe, key, || 0);
        *count += 1;
        Some((total?, *count))
    }

    /// Forgets what was kept for windows that take no more records in.
    fn forget_over(&mut self, at: Timestamp) {
        self.over = self.over.max(Some(self.frames.last_over(at)));
        let Some(over) = self.over else { return };
        while self.kept.first().is_some_and(|slice| self.frames.windows(slice).1 <= over) {
            self.kept.take_until(SliceId::MAX);
        }
        while self.updates.take_until(over).is_some() {}
    }

    /// Some of a slice's keys enter; answers whether there are more.
    fn enter_some(&mut self, slice: SliceId, table: &mut Drain<F::Key, F::State>) -> bool {
        let Self { op, feed, rolling, live, kept, frames, .. } = self;
        // What came for a slice after it had entered was put to what is kept when it came.
        let keeps = frames.allows_lateness() && Some(slice) > self.entered_until;
        let combine = |into: &mut F::State, from: F::State| feed.combine(into, from);
        let mut left = true;
        let mut entered = PartialBatch::default();
        for _ in 0..CHUNK {
            let one = table.for_next(|key, state| {
                let probe = key.probe();
                let hash = F::Key::hash(probe);
                let mut fresh = false;
                let there = rolling.upsert(hash, probe, key, || {
                    fresh = true;
                    Rolling::new(F::INVERTIBLE)
                });
                *live += usize::from(fresh || there.is_empty());
                guard(op, || there.add(slice, state.clone(), &combine));
                if keeps {
                    kept.table(slice).upsert(hash, probe, key, || state.clone());
                }
                if F::INVERTIBLE {
                    let key = entered.store(key, probe);
                    entered.push_slot(hash, key, state);
                }
            });
            if one.is_none() {
                left = false;
                break;
            }
        }
        if !entered.is_empty() {
            self.entered_bytes += entered.bytes();
            let at = self.entered.partition_point(|(other, _)| *other <= slice);
            self.entered.insert(at, (slice, entered));
        }
        left
    }

    /// A window was given out: some of the keys leave that the one after it does not have; answers
    /// whether there are more.
    fn leave_some(&mut self, window: WindowId) -> bool {
        let (first, _) = self.frames.slices(window.saturating_add(1));
        if self.entered.front().is_none_or(|(slice, _)| *slice >= first) {
            self.forget_spent();
            return false;
        }
        let Self { op, feed, rolling, live, .. } = self;
        if let Some((_, mut leaving)) = self.entered.pop_front() {
            self.entered_bytes -= leaving.bytes();
            leaving.drain(|part| {
                if let Some(there) = rolling.find(part.hash, part.probe()) {
                    guard(op, || there.subtract(|from| feed.subtract(from, &part.state)));
                    *live -= usize::from(there.is_empty());
                }
            });
        }
        true
    }

    /// Makes the table anew without the keys that have no slices left, when there are many.
    fn forget_spent(&mut self) {
        if self.rolling.len() <= 2 * self.live + SPENT {
            return;
        }
        let mut all = std::mem::take(&mut self.rolling).into_drain();
        let rolling = &mut self.rolling;
        while all
            .slot_for_next(|key, arena, there| {
                if !there.is_empty() {
                    let hash = F::Key::slot_hash(&key, arena);
                    rolling.insert_slot(hash, key, arena, there);
                }
            })
            .is_some()
        {}
    }
}

impl<I, T, F, N> FiringPush<I, T, F, N>
where
    I: Record + ?Sized,
    T: EventTime,
    F: Feed<I>,
    N: Push<Row<I, F>, T>,
{
    /// Goes on with the window that is being given out, up to a chunk.
    fn go_on(&mut self) {
        let Self { windows, phase, emitted, next, .. } = self;
        let following = match phase {
            Phase::Taking => None,
            Phase::Whole(window, table) => {
                let Windows { op, feed, frames, kept, .. } = windows;
                let (start, end) = frames.window(*window);
                let (slice, _) = frames.slices(*window);
                let mut left = true;
                for _ in 0..CHUNK {
                    let one = if frames.allows_lateness() {
                        table.for_next(|key, state| {
                            let probe = key.probe();
                            let hash = F::Key::hash(probe);
                            kept.table(slice).upsert(hash, probe, key, || state.clone());
                            (key.own(), state)
                        })
                    } else {
                        table.next()
                    };
                    let Some((key, state)) = one else {
                        left = false;
                        break;
                    };
                    let value = guard(op, || feed.finish(state));
                    *emitted += 1;
                    next.push((key, Pane::on_time(start, end, value)), T::from(last_of(end)));
                }
                (!left).then_some(Phase::Taking)
            }
            Phase::Entering(window, slice, table) => {
                let more = windows.enter_some(*slice, table);
                (!more).then(|| windows.enter(*window))
            }
            Phase::Giving(window, cursor) => {
                let Windows { op, feed, frames, rolling, live, .. } = windows;
                let (start, end) = frames.window(*window);
                let (first, _) = frames.slices(*window);
                let combine = |into: &mut F::State, from: F::State| feed.combine(into, from);
                let mut left = true;
                for _ in 0..CHUNK {
                    let given = rolling.see_next_mut(cursor, |key, there| {
                        if there.is_empty() {
                            return;
                        }
                        let total = guard(op, || there.total(first, &combine));
                        let Some(total) = total else {
                            *live -= 1;
                            return;
                        };
                        let value = guard(op, || feed.finish(total));
                        *emitted += 1;
                        let pane = Pane::on_time(start, end, value);
                        next.push((key.own(), pane), T::from(last_of(end)));
                    });
                    if given.is_none() {
                        left = false;
                        break;
                    }
                }
                (!left).then_some(Phase::Leaving(*window))
            }
            Phase::Joining(slice, table) => {
                (!windows.join_some(*slice, table)).then_some(Phase::Taking)
            }
            Phase::Again(window, keys) => {
                let (start, end) = windows.frames.window(*window);
                let mut left = true;
                for _ in 0..CHUNK {
                    let given = keys.for_next(|key, ()| {
                        let Some((total, count)) = windows.again(*window, key) else { return };
                        let value = guard(&windows.op, || windows.feed.finish(total));
                        *emitted += 1;
                        let pane = Pane { start, end, timing: Timing::Late(count), value };
                        next.push((key.own(), pane), T::from(last_of(end)));
                    });
                    if given.is_none() {
                        left = false;
                        break;
                    }
                }
                (!left).then_some(Phase::Taking)
            }
            Phase::Leaving(window) => (!windows.leave_some(*window)).then_some(Phase::Taking),
        };
        if let Some(following) = following {
            let done = std::mem::replace(&mut self.phase, following);
            if let Some(table) = done.into_table() {
                self.windows.coming.give_back(table);
            }
        }
    }
}

/// The last timestamp before another one.
fn last_of(end: Timestamp) -> Timestamp {
    Timestamp::from_micros(end.as_micros().saturating_sub(1))
}

impl<I, T, F, N> Push<I, T> for FiringPush<I, T, F, N>
where
    I: Record + ?Sized,
    T: EventTime,
    F: Feed<I>,
    N: Push<Row<I, F>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.windows.take(item, time.into());
    }
}

impl<I, T, F, N> Pipe for FiringPush<I, T, F, N>
where
    I: Record + ?Sized,
    T: EventTime,
    F: Feed<I>,
    N: Push<Row<I, F>, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.until = match event {
            Event::Watermark(at) => Some(self.windows.frames.last_ended(at)),
            Event::End => Some(WindowId::MAX),
            Event::Idle | Event::Barrier(_) => self.until,
        };
        self.held = Some(event);
    }

    fn resume(&mut self) -> Flow {
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            if !matches!(self.phase, Phase::Taking) {
                self.go_on();
                return Flow::Busy;
            }
            // What came before an event goes before it.
            if let Some(phase) = self.windows.update() {
                self.phase = phase;
                continue;
            }
            let Some(event) = self.held else { return Flow::Ready };
            // A job that has failed is stopped, and what it holds must not look like results.
            let next = self.until.filter(|_| !self.windows.failed);
            if let Some(window) = next.and_then(|until| self.windows.next_window(until)) {
                self.phase = self.windows.begin(window);
                continue;
            }
            self.windows.fired = self.windows.fired.max(self.until);
            if let Event::Watermark(at) = event {
                self.windows.forget_over(at);
            }
            self.windows.current = None;
            self.held = None;
            self.next.event(event);
        }
    }

    fn is_full(&mut self) -> bool {
        false
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.windows.op.id();
        report.emitted(op, self.emitted);
        report.keys(op, self.windows.live.max(self.windows.coming.keys()) as u64);
        report.late(op, self.windows.late);
        report.open_until(
            op,
            self.windows
                .next_window(WindowId::MAX)
                .map(|window| self.windows.frames.window(window).1),
        );
        self.next.report(report);
    }
}
