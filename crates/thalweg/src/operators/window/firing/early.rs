//! Early results: which windows are due, and the slices that their results are combined from.
//!
//! The state of a key in an open window is in three places: in slices that were kept when they entered the
//! rolling aggregates, in updates of those since the last batch, and in slices that have not entered. All of
//! them are looked up slice by slice. Overlapping windows are combined with two stacks, so that a result costs a
//! constant number of combinations.

use super::feed::Feed;
use super::open::Windows;
use crate::clock::{Clock, Nanos};
use crate::data::{Data, Key, Record};
use crate::flow::{guard, guard_key};
use crate::operators::window::early::{Early, Ticks};
use crate::operators::window::frames::{SliceId, WindowId};
use crate::operators::window::rolling::Stacks;
use crate::operators::window::slices::Slices;
use crate::plan::TaskContext;
use crate::state::{Drain, GroupTable};

/// The slices of each key that have changed.
pub(super) type Changed<K> = GroupTable<K, Vec<SliceId>>;

/// The state for early results.
pub(super) struct Earlies<K: Key + ?Sized, S> {
    /// The number of records between results, or `None`.
    records: Option<u64>,
    /// The ticks of results, or `None`.
    ticks: Option<Ticks>,
    clock: Clock,
    /// Whether the tick has passed.
    come: bool,
    /// The counts of each key of an open window.
    pub(super) had: Slices<K, Had, WindowId>,
    /// The slices that have changed since the last results.
    pub(super) changed: Changed<K>,
    /// The bytes of the lists in `changed`.
    pub(super) heap: usize,
    /// Windows whose results are due, each with the number of the result.
    pub(super) due: Vec<(WindowId, u32)>,
    /// The states of a key in the slices of those windows.
    parts: Vec<(SliceId, S)>,
}

/// The counts of a key in a window.
#[derive(Clone, Copy, Default, Data)]
pub(super) struct Had {
    /// Records, if results depend on their number.
    records: u64,
    results: u32,
    /// Whether another result is due now.
    is_due: bool,
}

impl Had {
    /// Returns the number of the next result.
    fn another(&mut self) -> u32 {
        self.results = self.results.saturating_add(1);
        self.results
    }
}

impl<K: Key + ?Sized, S: Clone> Earlies<K, S> {
    pub(super) fn new(cx: &TaskContext<'_>, early: Option<Early>) -> Self {
        Self {
            records: early.and_then(Early::records),
            ticks: early.and_then(Early::ticks),
            clock: cx.clock.clone(),
            come: false,
            had: Slices::new(),
            changed: Changed::new(),
            heap: 0,
            due: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Registers a record for a slice, and determines which of its open windows, from the first to the last, are
    /// due. Returns whether memory was used that is not accounted for.
    pub(super) fn note(
        &mut self,
        (hash, key): (u64, &K),
        slice: SliceId,
        (first, last): (WindowId, WindowId),
    ) -> bool {
        let probe = key.probe();
        let Self { records, had, changed, heap, due, .. } = self;
        let mut grown = false;
        let Some(records) = *records else {
            if first > last {
                return false;
            }
            grown |= changed.is_full();
            let slices = changed.upsert(hash, probe, key, Vec::new);
            // Nearly always it is the slice that came last.
            if slices.last().is_none_or(|last| *last < slice) {
                let before = slices.capacity();
                slices.push(slice);
                *heap += (slices.capacity() - before) * size_of::<SliceId>();
            } else if let Err(place) = slices.binary_search(&slice) {
                let before = slices.capacity();
                slices.insert(place, slice);
                *heap += (slices.capacity() - before) * size_of::<SliceId>();
            }
            return grown;
        };
        for window in first..=last {
            let table = had.table(window);
            grown |= table.is_full();
            let had = table.upsert(hash, probe, key, Had::default);
            had.records += 1;
            if had.records.is_multiple_of(records) {
                due.push((window, had.another()));
                had.is_due = true;
            }
        }
        grown
    }

    /// Emits the results that are due by the number of records, for the key with this hash, of which a record
    /// has just been added.
    pub(super) fn give_counted<I, F>(
        &mut self,
        windows: &mut Windows<I, F>,
        hash: u64,
        mut give: impl FnMut(&K, (WindowId, u32), F::Output),
    ) where
        I: Record + ?Sized,
        F: Feed<I, Key = K, State = S>,
    {
        let Self { had, due, parts, .. } = self;
        let Some((first, _)) = due.first() else { return };
        had.table(*first).see_where(
            hash,
            |had| had.is_due,
            |key, _| windows.totals((hash, key), due, parts, |at, value| give(key, at, value)),
        );
        for (window, _) in due.drain(..) {
            had.table(window).see_where(hash, |had| had.is_due, |_, had| had.is_due = false);
        }
    }

    /// Called between batches: returns what has changed, if the tick has passed.
    pub(super) fn begin(&mut self) -> Option<Drain<K, Vec<SliceId>>> {
        let ticks = self.ticks.as_mut()?;
        if self.changed.is_empty() {
            // Changes from now on wait for the following tick.
            ticks.restart(self.clock.now());
            self.come = false;
            return None;
        }
        let come = std::mem::take(&mut self.come);
        come.then(|| std::mem::take(&mut self.changed).into_drain())
    }

    /// Emits the results of a key whose slices have changed.
    pub(super) fn give_changed<I, F>(
        &mut self,
        windows: &mut Windows<I, F>,
        key: &K,
        slices: &[SliceId],
        mut give: impl FnMut((WindowId, u32), F::Output),
    ) where
        I: Record + ?Sized,
        F: Feed<I, Key = K, State = S>,
    {
        let Self { had, due, parts, .. } = self;
        let probe = key.probe();
        let hash = K::hash(probe);
        due.clear();
        for slice in slices {
            let (first, last) = windows.open(*slice);
            let behind = due.last().map_or(WindowId::MIN, |(window, _)| window + 1);
            for window in first.max(behind)..=last {
                let had = had.table(window).upsert(hash, probe, key, Had::default);
                due.push((window, had.another()));
            }
        }
        windows.totals((hash, key), due, parts, &mut give);
        due.clear();
    }

    /// Resets the table after all due results were emitted.
    pub(super) fn end(&mut self, changed: Drain<K, Vec<SliceId>>) {
        self.changed = changed.into_table();
        self.heap = 0;
    }

    /// Drops the counts of windows up to `window`, which have ended and have no more early results.
    pub(super) fn forget_until(&mut self, window: WindowId) {
        while let Some((_, mut table)) = self.had.take_until(window) {
            table.clear();
            self.had.give_back(table);
        }
    }

    /// Checks whether the tick has passed; returns when to check again, if something has changed.
    pub(super) fn look(&mut self, now: Nanos) -> Option<Nanos> {
        let ticks = self.ticks.as_mut()?;
        if self.changed.is_empty() {
            return None;
        }
        self.come |= ticks.has_come(now);
        Some(if self.come { now } else { ticks.next() })
    }

    pub(super) fn bytes(&self) -> usize {
        self.had.bytes() + self.changed.bytes() + self.heap
    }
}

impl<I: Record + ?Sized, F: Feed<I>> Windows<I, F> {
    /// The first and the last window of a slice that have not been emitted. If there are none, the first is
    /// greater than the last.
    pub(super) fn open(&self, slice: SliceId) -> (WindowId, WindowId) {
        let (first, last) = self.frames.windows(slice);
        match self.fired {
            Some(fired) if fired >= last => (WindowId::MAX, WindowId::MIN),
            Some(fired) => (first.max(fired + 1), last),
            None => (first, last),
        }
    }

    /// Emits the results of a key in the windows `of`, which have not been emitted and are in order.
    fn totals(
        &mut self,
        (hash, key): (u64, &F::Key),
        of: &[(WindowId, u32)],
        parts: &mut Vec<(SliceId, F::State)>,
        mut give: impl FnMut((WindowId, u32), F::Output),
    ) {
        let (Some((first, _)), Some((last, _))) = (of.first(), of.last()) else { return };
        let (from, to) = (self.frames.slices(*first).0, self.frames.slices(*last).1);
        self.parts_of((hash, key), from, to, parts);
        let Self { op, feed, frames, .. } = self;
        let combine = |into: &mut F::State, from: F::State| feed.combine(into, from);
        let mut parts = parts.drain(..).peekable();
        if of.len() == 1 {
            let value = guard(op, || {
                let total = parts.map(|(_, state)| state).reduce(|mut total, state| {
                    guard_key(key, || feed.combine(&mut total, state));
                    total
                });
                total.map(|total| feed.finish(total))
            });
            if let Some(value) = value {
                give(of[0], value);
            }
            return;
        }
        let mut stacks = Stacks::new();
        for at in of {
            let (from, to) = frames.slices(at.0);
            let value = guard(op, || {
                let total = guard_key(key, || {
                    while let Some((slice, state)) = parts.next_if(|(slice, _)| *slice <= to) {
                        stacks.add(slice, state, &combine);
                    }
                    stacks.forget_before(from, &combine);
                    stacks.total(&combine)
                });
                total.map(|total| feed.finish(total))
            });
            if let Some(value) = value {
                give(*at, value);
            }
        }
    }

    /// Collects the states of a key in the slices from `from` to `to`.
    fn parts_of(
        &mut self,
        (hash, key): (u64, &F::Key),
        from: SliceId,
        to: SliceId,
        parts: &mut Vec<(SliceId, F::State)>,
    ) {
        let probe = key.probe();
        let Self { kept, behind, coming, entered_until, .. } = self;
        parts.clear();
        let mut see = |slice, table: &mut GroupTable<F::Key, F::State>| {
            if let Some(state) = table.find(hash, probe) {
                parts.push((slice, state.clone()));
            }
        };
        let mut coming_from = from;
        if let Some(entered) = *entered_until {
            kept.each_numbered(from, to.min(entered), &mut see);
            // Updates of a slice that has entered are in the kept slice too.
            coming_from = from.max(entered.saturating_add(1));
        }
        coming.each_numbered(coming_from, to, &mut see);
        behind.each_numbered(from, to, &mut see);
        parts.sort_by_key(|(slice, _)| *slice);
    }
}
