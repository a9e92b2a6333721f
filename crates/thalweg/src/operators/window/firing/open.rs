//! What a task knows of windows: slices that come, that roll, and that are kept.

use super::feed::Feed;
use crate::data::{Batch, Data, Key, Record};
use crate::error::{Error, ErrorKind};
use crate::exchange::PartialBatch;
use crate::flow::{CHUNK, Event, Op, guard, guard_key};
use crate::memory::Reservation;
use crate::operators::window::frames::{Frames, SliceId, WindowId};
use crate::operators::window::rolling::Rolling;
use crate::operators::window::slices::Slices;
use crate::plan::TaskContext;
use crate::state::{Drain, GroupTable, Weighed};
use crate::time::Timestamp;
use std::collections::VecDeque;
use std::mem::needs_drop;

pub(super) enum Phase<K: Key + ?Sized, S> {
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
    /// Windows that have not ended are given out for keys of which some slices have changed.
    Early(Drain<K, Vec<SliceId>>),
}

impl<K: Key + ?Sized, S> Phase<K, S> {
    /// The table that was given out or has entered.
    pub(super) fn into_table(self) -> Option<GroupTable<K, S>> {
        match self {
            Self::Whole(_, table) | Self::Entering(_, _, table) | Self::Joining(_, table) => {
                Some(table.into_table())
            }
            Self::Taking | Self::Giving(..) | Self::Leaving(_) => None,
            Self::Again(..) | Self::Early(_) => None,
        }
    }
}

pub(super) struct Windows<I: Record + ?Sized, F: Feed<I>> {
    pub(super) op: Op,
    pub(super) feed: F,
    pub(super) frames: Frames,
    /// Slices that have not entered, and what came for others after they had.
    pub(super) coming: Slices<F::Key, F::State>,
    /// The slice that the last record lay in.
    current: Option<Current>,
    /// What has entered and is to be subtracted again, in the order of the slices, a chunk each.
    pub(super) entered: VecDeque<(SliceId, PartialBatch<F::Key, F::State>)>,
    entered_bytes: usize,
    /// The keys of the last windows, each with what is known of it in the slices that have entered.
    pub(super) rolling: GroupTable<F::Key, Rolling<F::State>>,
    /// Keys in there that have slices left.
    pub(super) live: usize,
    /// The last window that was given out, or passed by as it had no record.
    pub(super) fired: Option<WindowId>,
    /// The last slice of the last window that was given out.
    pub(super) entered_until: Option<SliceId>,
    /// The last window that takes no more records in.
    over: Option<WindowId>,
    /// Slices that windows were given out of which still take records in.
    pub(super) kept: Slices<F::Key, F::State>,
    /// What has come for those since the last batch.
    pub(super) behind: Slices<F::Key, F::State>,
    /// The keys of each window that have to be given out again.
    changed: Slices<F::Key, (), WindowId>,
    /// How often each key of a window was.
    updates: Slices<F::Key, u32, WindowId>,
    /// Slices are kept that windows were given out of.
    keeps: bool,
    /// What states of slices own on the heap.
    pub(super) weighed: Weighed<F::State>,
    /// What is rolling has beside the table.
    rolled: Weighed<Rolling<F::State>>,
    /// Bytes that are used elsewhere for these windows.
    beside: usize,
    reservation: Reservation,
    pub(super) failed: bool,
    pub(super) late: u64,
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

impl<I: Record + ?Sized, F: Feed<I>> Windows<I, F> {
    /// `early` says whether windows have results before they end, which slices must be kept for that several
    /// windows share.
    pub(super) fn new(cx: &TaskContext<'_>, op: Op, feed: F, frames: Frames, early: bool) -> Self {
        let reservation = cx.fixed(op.id());
        Self {
            keeps: frames.allows_lateness() || (early && !frames.is_one_slice()),
            weighed: Weighed::new(),
            rolled: Weighed::new(),
            beside: 0,
            op,
            feed,
            frames,
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
            reservation,
            failed: false,
            late: 0,
        }
    }

    #[inline(always)]
    pub(super) fn take(&mut self, item: I::Of<'_>, at: Timestamp) {
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
        self.weighed.changed();
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
        } else if self.keeps && self.fired.is_some_and(|fired| first <= fired) {
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
        self.reserve(grown)
    }

    /// What is used elsewhere has become so much: asks for the memory, and fails the job when it is not there.
    pub(super) fn use_beside(&mut self, bytes: usize) -> bool {
        self.beside = bytes;
        self.reserve(0)
    }

    /// Between two batches, while no window is being emitted: accounts for what states own.
    pub(super) fn account(&mut self) {
        let states = self.weighed.is_due(|| self.coming.keys());
        let rolled = self.rolled.is_due(|| self.rolling.len());
        if states {
            self.weigh();
        }
        if rolled {
            self.weigh_rolled();
        }
        if states || rolled {
            self.reserve(0);
        }
    }

    #[cold]
    fn weigh(&mut self) {
        let Self { weighed, coming, behind, kept, .. } = self;
        let states = coming.values().chain(behind.values()).chain(kept.values());
        weighed.weigh(states.map(Data::heap_size));
    }

    #[cold]
    fn weigh_rolled(&mut self) {
        self.rolled.weigh(self.rolling.values().map(Rolling::heap));
    }

    fn bytes(&self) -> usize {
        let given = self.kept.bytes() + self.behind.bytes() + self.updates.bytes() + self.beside;
        let rolling = self.entered_bytes + self.rolling.bytes() + self.rolled.bytes();
        self.coming.bytes() + self.weighed.bytes() + rolling + given
    }

    /// Asks for memory for all that there is and for what it grows by.
    fn reserve(&mut self, grown: usize) -> bool {
        let bytes = self.bytes() + grown;
        if !self.failed && !self.reservation.try_resize(bytes) {
            // What states own may have been taken for more than it is.
            self.weigh();
            self.weigh_rolled();
            let bytes = self.bytes() + grown;
            if self.reservation.try_resize(bytes) {
                return true;
            }
            self.failed = true;
            let what = format!(
                "the windows of one of its tasks hold {} keys in their open slices, for which the memory \
                 budget of {} bytes has no room, and windows do not go to disk; shorter ones, a smaller state (as of a count, \
                 in place of a list), or less lateness need less",
                self.coming.keys(),
                self.reservation.pool().limit(),
            );
            self.op.fail(self.reservation.refused(what));
        }
        !self.failed
    }

    /// The next window that has records, up to one that has ended.
    pub(super) fn next_window(&self, until: WindowId) -> Option<WindowId> {
        let after = self.fired.map_or(WindowId::MIN, |fired| fired + 1);
        let coming = self.coming.first().map(|slice| self.frames.windows(slice).0.max(after));
        let rolling = (self.live > 0).then_some(after);
        let next = coming.into_iter().chain(rolling).min()?;
        (next <= until).then_some(next)
    }

    /// Begins to give a window out.
    pub(super) fn begin(&mut self, window: WindowId) -> Phase<F::Key, F::State> {
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
    pub(super) fn enter(&mut self, window: WindowId) -> Phase<F::Key, F::State> {
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
    pub(super) fn update(&mut self) -> Option<Phase<F::Key, F::State>> {
        if let Some((slice, table)) = self.behind.take_until(SliceId::MAX) {
            self.current = None;
            return Some(Phase::Joining(slice, table.into_drain()));
        }
        let (window, keys) = self.changed.take_until(WindowId::MAX)?;
        Some(Phase::Again(window, keys.into_drain()))
    }

    /// Some of what has come for a slice that was given out goes where it belongs; answers whether there
    /// is more.
    pub(super) fn join_some(
        &mut self,
        slice: SliceId,
        table: &mut Drain<F::Key, F::State>,
    ) -> bool {
        let (first, last) = self.frames.windows(slice);
        let first = self.over.map_or(first, |over| first.max(over + 1));
        let Self { op, feed, coming, kept, changed, fired, .. } = self;
        let fired = fired.unwrap_or(WindowId::MIN);
        let put = |tables: &mut Slices<F::Key, F::State>, key: &F::Key, state: F::State| {
            let probe = key.probe();
            let table = tables.table(slice);
            match table.find(F::Key::hash(probe), probe) {
                Some(there) => guard(op, || guard_key(key, || feed.combine(there, state))),
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
    pub(super) fn again(&mut self, window: WindowId, key: &F::Key) -> Option<(F::State, u32)> {
        let (from, to) = self.frames.slices(window);
        let (probe, mut total) = (key.probe(), None);
        let hash = F::Key::hash(probe);
        let Self { op, feed, kept, updates, .. } = self;
        kept.each_in(from, to, |table| {
            let Some(state) = table.find(hash, probe) else { return };
            match &mut total {
                None => total = Some(state.clone()),
                Some(total) => {
                    guard(op, || guard_key(key, || feed.combine(total, state.clone())));
                }
            }
        });
        let count = updates.table(window).upsert(hash, probe, key, || 0);
        *count += 1;
        Some((total?, *count))
    }

    /// All windows up to one have been given out, or had nothing to give; then the event goes on.
    pub(super) fn pass(&mut self, until: Option<WindowId>, event: Event) {
        self.fired = self.fired.max(until);
        self.current = None;
        if let Event::Watermark(at) = event {
            self.forget_over(at);
        }
    }

    /// Begins anew, for the next round of a loop: all windows have been given out.
    pub(super) fn restart(&mut self) {
        (self.fired, self.entered_until, self.over) = (None, None, None);
        // The keys of the last windows are still there, since no window follows.
        if self.live > 0 {
            (self.rolling, self.live) = (GroupTable::new(), 0);
        }
        while self.kept.take_until(SliceId::MAX).is_some() {}
        while self.updates.take_until(WindowId::MAX).is_some() {}
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
    pub(super) fn enter_some(
        &mut self,
        slice: SliceId,
        table: &mut Drain<F::Key, F::State>,
    ) -> bool {
        let Self { op, feed, rolling, live, kept, weighed, rolled, .. } = self;
        // What came for a slice after it had entered was put to what is kept when it came.
        let keeps = self.keeps && Some(slice) > self.entered_until;
        let combine = |into: &mut F::State, from: F::State| feed.combine(into, from);
        let mut left = true;
        let mut entered = PartialBatch::default();
        for _ in 0..CHUNK {
            let one = table.for_next(|key, state| {
                weighed.leaves(&state);
                // Sums that own nothing need not be weighed.
                if !F::INVERTIBLE || needs_drop::<F::State>() {
                    rolled.changed();
                }
                let probe = key.probe();
                let hash = F::Key::hash(probe);
                let mut fresh = false;
                let there = rolling.upsert(hash, probe, key, || {
                    fresh = true;
                    Rolling::new(F::INVERTIBLE)
                });
                *live += usize::from(fresh || there.is_empty());
                guard(op, || guard_key(key, || there.add(slice, state.clone(), &combine)));
                if keeps {
                    weighed.changed();
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
    pub(super) fn leave_some(&mut self, window: WindowId) -> bool {
        let stays = |slice: SliceId| self.frames.windows(slice).1 > window;
        if self.entered.front().is_none_or(|(slice, _)| stays(*slice)) {
            self.forget_spent();
            return false;
        }
        let Self { op, feed, rolling, live, failed, .. } = self;
        if let Some((_, mut leaving)) = self.entered.pop_front() {
            self.entered_bytes -= leaving.bytes();
            leaving.drain(|part| {
                let Some(known) = rolling.known(part.hash, part.probe()) else {
                    // It would stay in all windows to come, of which there would be no end.
                    if !std::mem::replace(failed, true) {
                        let what = "a key that was put into a table is not found there: it is not equal to itself";
                        op.fail(Error::new(ErrorKind::Input, what));
                    }
                    return;
                };
                *live -= guard(op, || {
                    known.guard(|there| {
                        there.subtract(|from| feed.subtract(from, &part.state));
                        usize::from(there.is_empty())
                    })
                });
            });
        }
        true
    }

    /// Makes the table anew without the keys that have no slices left, when there are many.
    pub(super) fn forget_spent(&mut self) {
        self.rolling.forget_spent(self.live, |there| !there.is_empty());
    }
}
