//! Early results: which windows are due, and the slices that their results are combined from.
//!
//! The state of a key in an open window is in up to four places: in slices on disk, in slices that were kept when they
//! entered the rolling aggregates, in updates of those since the last batch, and in slices that have not entered. All of
//! them are looked up slice by slice. Overlapping windows are combined with two stacks, so that a result costs a
//! constant number of combinations.

use super::counts::{Changed, KeyCounts};
use super::feed::Feed;
use super::open::Windows;
use crate::clock::{Clock, Nanos};
use crate::data::{Data, Key, Record};
use crate::error::Result;
use crate::flow::{guard, guard_key};
use crate::operators::window::early::{Early, Ticks};
use crate::operators::window::frames::{SliceId, WindowId};
use crate::operators::window::rolling::Stacks;
use crate::plan::TaskContext;
use crate::state::{Drain, GroupTable};

/// The state for early results.
pub(super) struct Earlies<K: Key + ?Sized, S> {
    /// The number of records between results, or `None`.
    records: Option<u64>,
    /// The ticks of results, or `None`.
    ticks: Option<Ticks>,
    clock: Clock,
    /// Whether the tick has passed.
    come: bool,
    /// The counts of each key of an open window, and the slices that have changed since the last results.
    pub(super) counts: KeyCounts<K, Had>,
    /// Windows whose results are due, each with the number of the result.
    pub(super) due: Vec<(WindowId, u32)>,
    /// The states of a key in the slices of those windows.
    parts: Vec<(SliceId, S)>,
}

/// The counts of a key in a window.
#[derive(Clone, Copy, Default, PartialEq, Data)]
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
    /// No counts, which may go to disk or not.
    pub(super) fn new(cx: &TaskContext<'_>, early: Option<Early>, may_spill: bool) -> Self {
        Self {
            records: early.and_then(Early::records),
            ticks: early.and_then(Early::ticks),
            clock: cx.clock.clone(),
            come: false,
            counts: KeyCounts::new(cx, may_spill && early.is_some()),
            due: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Registers a record for a slice, and determines which of its open windows, from the first to the last, are
    /// due. Returns whether memory was used that is not accounted for.
    ///
    /// # Errors
    ///
    /// If counts of the key are on disk, and cannot be read.
    pub(super) fn note(
        &mut self,
        (hash, key): (u64, &K),
        slice: SliceId,
        (first, last): (WindowId, WindowId),
    ) -> Result<bool> {
        if first > last {
            return Ok(false);
        }
        let mut grown = false;
        if self.counts.any_on_disk() {
            grown = self.counts.recall((hash, key), (first, last))?;
        }
        let probe = key.probe();
        let Self { records, counts, due, .. } = self;
        let KeyCounts { windows: had, changed, heap, .. } = counts;
        let Some(records) = *records else {
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
            return Ok(grown);
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
        Ok(grown)
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
        let Self { counts, due, parts, .. } = self;
        let Some((first, _)) = due.first() else { return };
        let had = &mut counts.windows;
        had.table(*first).see_where(
            hash,
            |had| had.is_due,
            |key, _| windows.totals((hash, key), due, parts, |at, value| give(key, at, value)),
        );
        for (window, _) in due.drain(..) {
            had.table(window).see_where(hash, |had| had.is_due, |_, had| had.is_due = false);
        }
    }

    /// Called between batches: returns what has changed, if the tick has passed. What has changed on disk is returned in
    /// portions, one with each call.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn begin(&mut self) -> Result<Option<Drain<K, Vec<SliceId>>>> {
        let Some(ticks) = &mut self.ticks else { return Ok(None) };
        if !self.counts.has_changed() {
            // Changes from now on wait for the following tick.
            ticks.restart(self.clock.now());
            self.come = false;
            return Ok(None);
        }
        if !std::mem::take(&mut self.come) {
            return Ok(None);
        }
        self.come = self.counts.recall_changed()?;
        Ok(Some(std::mem::take(&mut self.counts.changed).into_drain()))
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
        let Self { counts, due, parts, .. } = self;
        let had = &mut counts.windows;
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
        let changed: Changed<K> = changed.into_table();
        (self.counts.changed, self.counts.heap) = (changed, 0);
    }

    /// The bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.counts.bytes()
    }

    /// Those that stay in memory in any case.
    pub(super) fn least(&self) -> usize {
        self.counts.bytes_of_store()
    }

    /// Drops what there is for the next round of a loop.
    pub(super) fn restart(&mut self) {
        self.counts.restart();
        self.come = false;
    }

    /// Checks whether the tick has passed; returns when to check again, if something has changed.
    pub(super) fn look(&mut self, now: Nanos) -> Option<Nanos> {
        let ticks = self.ticks.as_mut()?;
        if !self.counts.has_changed() {
            return None;
        }
        self.come |= ticks.has_come(now);
        Some(if self.come { now } else { ticks.next() })
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

    /// Collects the states of a key in the slices from `from` to `to`. Fails the job if what is on disk cannot be read.
    fn parts_of(
        &mut self,
        (hash, key): (u64, &F::Key),
        from: SliceId,
        to: SliceId,
        parts: &mut Vec<(SliceId, F::State)>,
    ) {
        let probe = key.probe();
        parts.clear();
        if self.on_disk.as_ref().is_some_and(|on_disk| !on_disk.is_empty())
            && let Err(error) = self.states_on_disk((hash, key), (from, to), parts)
        {
            parts.clear();
            return self.fail(error);
        }
        let Self { kept, behind, coming, entered_until, .. } = self;
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
