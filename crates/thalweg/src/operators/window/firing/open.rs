//! The window state of a task: open slices, rolling aggregates, and slices kept for later updates.

use super::counts::KeyCounts;
use super::feed::Feed;
use super::on_disk::{Merging, OnDisk, Step};
use crate::config::StateBackend;
use crate::data::{Batch, Data, Key, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::PartialBatch;
use crate::fault::{Fault, is_planted};
use crate::flow::{CHUNK, Event, Op, guard, guard_key};
use crate::memory::Reservation;
use crate::operators::window::frames::{Frames, SliceId, WindowId};
use crate::operators::window::rolling::Rolling;
use crate::operators::window::slices::Slices;
use crate::plan::TaskContext;
use crate::state::{Drain, GroupTable, HeapEstimate};
use crate::support::overflow::{ALWAYS, is_too_large, kept_in_memory, too_large};
use crate::time::Timestamp;
use std::collections::VecDeque;
use std::mem::needs_drop;

/// Windows of which more overlap stay in memory: what is on disk is read as often, from files of as many slices.
const OVERLAP: i64 = 1024;
/// The bytes that the table of each slice may always occupy.
const LEAST_TABLE: usize = 4 << 10;
/// What later slices take while a window is read back is one part in so many of the budget, at most.
const LITTLE: usize = 8;

pub(super) enum Phase<K: Key + ?Sized, S: Data> {
    /// Records are added.
    Taking,
    /// A window of one slice is being emitted, or some keys of one that is on disk, and what follows of it.
    Whole(WindowId, Drain<K, S>, Option<Box<Merging<K, S>>>),
    /// A window that is on disk is being read.
    Merging(WindowId, Box<Merging<K, S>>),
    /// A slice is entering the rolling aggregates.
    Entering(WindowId, SliceId, Drain<K, S>),
    /// The rolling aggregates are being emitted.
    Giving(WindowId, usize),
    /// Slices that the next window does not contain are leaving.
    Leaving(WindowId),
    /// Late updates of a slice that was emitted are being merged into it.
    Joining(SliceId, Drain<K, S>),
    /// A window is being emitted again, for some keys.
    Again(WindowId, Drain<K, ()>),
    /// Early results are being emitted for keys of which some slices have changed.
    Early(Drain<K, Vec<SliceId>>),
}

impl<K: Key + ?Sized, S: Data> Phase<K, S> {
    /// The table that was emitted or has entered.
    pub(super) fn into_table(self) -> Option<GroupTable<K, S>> {
        match self {
            Self::Whole(_, table, _) | Self::Entering(_, _, table) | Self::Joining(_, table) => {
                Some(table.into_table())
            }
            Self::Taking | Self::Giving(..) | Self::Leaving(_) | Self::Merging(..) => None,
            Self::Again(..) | Self::Early(_) => None,
        }
    }
}

pub(super) struct Windows<I: Record + ?Sized, F: Feed<I>> {
    pub(super) op: Op,
    pub(super) feed: F,
    pub(super) frames: Frames,
    /// Slices that have not entered, and later updates of slices that have.
    pub(super) coming: Slices<F::Key, F::State>,
    /// The slice of the last record.
    current: Option<Current>,
    /// States that have entered and are to be subtracted again, in the order of the slices, each a chunk.
    pub(super) entered: VecDeque<(SliceId, PartialBatch<F::Key, F::State>)>,
    entered_bytes: usize,
    /// The keys of the last windows, each with its aggregate over the slices that have entered.
    pub(super) rolling: GroupTable<F::Key, Rolling<F::State>>,
    /// The number of keys in `rolling` that have slices left.
    pub(super) live: usize,
    /// The last window that was emitted, or skipped as it had no record.
    pub(super) fired: Option<WindowId>,
    /// The last slice of the last window that was emitted.
    pub(super) entered_until: Option<SliceId>,
    /// The last window that accepts no more records.
    pub(super) over: Option<WindowId>,
    /// Slices for which there is no memory; `None` where they must stay there.
    pub(super) on_disk: Option<OnDisk<F::Key, F::State>>,
    /// Slices of emitted windows that still accept records.
    pub(super) kept: Slices<F::Key, F::State>,
    /// Updates of the slices in `kept` since the last batch.
    pub(super) behind: Slices<F::Key, F::State>,
    /// The keys of each window that have to be emitted again.
    changed: Slices<F::Key, (), WindowId>,
    /// The number of times that each key of a window was emitted again.
    pub(super) updates: KeyCounts<F::Key, u32>,
    /// Whether slices are kept after their windows were emitted.
    pub(super) keeps: bool,
    /// Heap memory of the states of slices.
    pub(super) weighed: HeapEstimate<F::State>,
    /// Memory of the rolling aggregates, apart from the table.
    pub(super) rolled: HeapEstimate<Rolling<F::State>>,
    /// Bytes that early results use for these windows, and those of them that stay in memory in any case.
    beside: [usize; 2],
    /// Whether all slices have gone to disk, and what early results use is to follow.
    pub(super) evicted: bool,
    /// Whether late updates have used memory that is not accounted for.
    grown: bool,
    reservation: Reservation,
    /// Whether the windows could go to disk if the state backend allowed it.
    in_memory: bool,
    pub(super) failed: bool,
    pub(super) late: u64,
}

/// The destination of the records of a slice.
#[derive(Clone, Copy)]
struct Current {
    slice: SliceId,
    from: Timestamp,
    to: Timestamp,
    way: Destination,
}

#[derive(Clone, Copy)]
enum Destination {
    /// The table at this place in `coming`.
    Table(usize),
    /// The table at this place in `behind`, for windows that have emitted results.
    Behind(usize),
    /// None: all its windows have been emitted.
    Late,
    /// None: it is in no window.
    Nowhere,
}

impl<I: Record + ?Sized, F: Feed<I>> Windows<I, F> {
    /// Creates empty windows. `early` says whether there are early results; if so, slices that several windows
    /// share must be kept.
    pub(super) fn new(cx: &TaskContext<'_>, op: Op, feed: F, frames: Frames, early: bool) -> Self {
        let may_spill = frames.overlap() <= OVERLAP;
        let in_memory = may_spill && cx.state_backend == StateBackend::Memory;
        let late = frames.allows_lateness();
        let on_disk = (may_spill && !in_memory).then(|| OnDisk::new(cx, &op, early || late));
        let updates = KeyCounts::new(cx, late && on_disk.is_some());
        let reservation = match on_disk {
            Some(_) => cx.keyed(op.id()),
            None => cx.fixed(op.id()),
        };
        Self {
            on_disk,
            keeps: late || (early && !frames.is_one_slice()),
            weighed: HeapEstimate::new(),
            rolled: HeapEstimate::new(),
            beside: [0; 2],
            evicted: false,
            grown: false,
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
            updates,
            reservation,
            in_memory,
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
        let (mut place, is_behind) = match way {
            Destination::Table(place) => (place, false),
            Destination::Behind(place) => (place, true),
            Destination::Late => {
                self.late += 1;
                return;
            }
            Destination::Nowhere => return,
        };
        let tables = if is_behind { &mut self.behind } else { &mut self.coming };
        if tables.at(place).is_some_and(|table| table.is_full()) {
            if !self.may_grow(way) {
                return;
            }
            // All tables have gone to disk, but those that are behind.
            if self.current.is_none() {
                let slice = self.feed.slice(&item);
                place = match self.turn_to(slice, at) {
                    Destination::Table(place) | Destination::Behind(place) => place,
                    Destination::Late | Destination::Nowhere => return,
                };
            }
        }
        self.weighed.changed();
        let Self { op, feed, coming, behind, .. } = self;
        let tables = if is_behind { behind } else { coming };
        if let Some(table) = tables.at(place) {
            guard(op, || feed.take(table, item));
        }
    }

    /// Switches to another slice: the given one, or that of the timestamp.
    #[inline(never)]
    fn turn_to(&mut self, slice: Option<SliceId>, at: Timestamp) -> Destination {
        let slice = slice.unwrap_or_else(|| self.frames.slice(at));
        let (first, last) = self.frames.windows(slice);
        let way = if first > last {
            Destination::Nowhere
        } else if self.over.is_some_and(|over| last <= over) {
            Destination::Late
        } else if self.keeps && self.fired.is_some_and(|fired| first <= fired) {
            Destination::Behind(self.behind.place(slice))
        } else {
            Destination::Table(self.coming.place(slice))
        };
        let (from, to) = self.frames.span(slice);
        self.current = Some(Current { slice, from, to, way });
        way
    }

    /// Reserves memory for a table that is to be doubled; fails the job if it is not available.
    #[cold]
    fn may_grow(&mut self, way: Destination) -> bool {
        let table = match way {
            Destination::Table(place) => self.coming.at(place),
            Destination::Behind(place) => self.behind.at(place),
            Destination::Late | Destination::Nowhere => None,
        };
        let grown = table.map_or(0, |table| table.bytes_if_grown());
        self.reserve(grown)
    }

    /// Sets the bytes that early results use, in all and of what stays in memory in any case, and reserves memory for them;
    /// fails the job if it is not available.
    pub(super) fn use_beside(&mut self, bytes: usize, least: usize) -> bool {
        self.beside = [bytes, least];
        self.reserve(0)
    }

    /// As [`use_beside`](Self::use_beside), when these bytes have become fewer.
    pub(super) fn uses_less_beside(&mut self, bytes: usize, least: usize) {
        self.beside = [bytes, least];
        let bytes = self.bytes();
        let _ = self.reservation.try_resize(bytes);
    }

    /// Fails the job.
    #[cold]
    pub(super) fn fail(&mut self, error: Error) {
        if !std::mem::replace(&mut self.failed, true) {
            self.op.fail(error);
        }
    }

    /// Called between two batches, while no window is being emitted: accounts for what states own.
    pub(super) fn account(&mut self) {
        let lacks_room = || {
            let planted = || {
                // Where windows overlap that have one result, when several have been emitted.
                let is_due = match self.keeps || self.frames.is_one_slice() {
                    true => (self.coming.keys() + self.kept.keys()) % 2 == 1,
                    false => self.fired.is_some_and(|fired| fired.rem_euclid(7) == 3),
                };
                is_planted(Fault::HasNoRoom) && is_due
            };
            (self.reservation.is_over_budget() && self.bytes() > self.least()) || planted()
        };
        if self.on_disk.is_some() && lacks_room() {
            self.weigh();
            self.weigh_rolled();
            // It has its room already.
            if !self.is_one_large_state() {
                self.evict();
            }
        }
        let states = self.weighed.is_due(|| self.coming.keys());
        let rolled = self.rolled.is_due(|| self.rolling.len());
        if states {
            self.weigh();
        }
        if rolled {
            self.weigh_rolled();
        }
        if states || rolled || std::mem::take(&mut self.grown) {
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
        let kept = self.kept.bytes() + self.behind.bytes() + self.updates.bytes();
        let rolling = self.entered_bytes + self.rolling.bytes() + self.rolled.bytes();
        let on_disk = self.on_disk.as_ref().map_or(0, OnDisk::memory);
        self.coming.bytes() + self.weighed.bytes() + rolling + kept + on_disk + self.beside[0]
    }

    /// Reserves memory for the current state and `grown` bytes more.
    fn reserve(&mut self, grown: usize) -> bool {
        let bytes = self.bytes() + grown;
        if !self.failed && !self.reservation.try_resize(bytes) {
            // The heap memory of states may have been overestimated.
            self.weigh();
            self.weigh_rolled();
            let bytes = self.bytes() + grown;
            if self.reservation.try_resize(bytes) {
                return true;
            }
            if self.on_disk.is_some() {
                if bytes <= self.least() {
                    return true;
                }
                if !self.is_one_large_state() {
                    self.evict();
                } else if !self.reservation.lift_limit() || !self.reservation.try_resize(bytes) {
                    self.failed = true;
                    self.op.fail(too_large(&self.reservation, 1));
                }
                return !self.failed;
            }
            self.failed = true;
            self.op.fail(self.kept_off_disk());
        }
        !self.failed
    }

    /// The error that is raised where they have no room, and must stay in memory: for the state backend, or for what they are.
    pub(super) fn kept_off_disk(&self) -> Error {
        if self.in_memory {
            return kept_in_memory(&self.reservation);
        }
        self.reservation.refused(format!(
            "the windows of one of its tasks hold {} keys in their open slices, for which the memory \
             budget of {} bytes has no room, and windows of which more than {OVERLAP} overlap do not go to disk; shorter \
             ones, a smaller state (as of a count, in place of a list), or less lateness need less",
            self.coming.keys(),
            self.reservation.pool().limit(),
        ))
    }

    /// The bytes that tables and stores may always occupy where they can go to disk: with less, they would go there all the
    /// time.
    fn least(&self) -> usize {
        let tables = (self.coming.len() + self.kept.len()) * LEAST_TABLE;
        let stores = self.on_disk.as_ref().map_or(0, OnDisk::memory);
        ALWAYS + tables + stores + self.updates.bytes_of_store() + self.beside[1]
    }

    /// Whether all there is is the state of one key, which is too large to be moved.
    fn is_one_large_state(&self) -> bool {
        let heap = self.weighed.bytes() + self.rolled.bytes();
        // What is in the rolling aggregates is kept too, if any slice is.
        let entered = if self.keeps { self.kept.keys() + self.behind.keys() } else { self.live };
        self.coming.keys() + entered == 1 && is_too_large(&self.reservation, heap)
    }

    /// Writes all slices to disk, but for updates of those that were emitted, which are merged after each batch.
    #[cold]
    #[inline(never)]
    fn evict(&mut self) {
        let written = self.write_entered().and_then(|()| self.write_until(SliceId::MAX));
        if let Err(error) = written.and_then(|()| self.updates.evict()) {
            self.fail(error);
        }
        self.coming.drop_spares();
        self.kept.drop_spares();
        self.evicted = true;
        // What may be there in any case must not keep the rest of the budget from the windows that are read back, nor from others.
        let _ = self.reservation.try_resize(self.bytes().saturating_sub(self.least()));
    }

    /// Writes the slices up to this one to disk that have not entered.
    fn write_until(&mut self, last: SliceId) -> Result<()> {
        let Some(on_disk) = &mut self.on_disk else { return Ok(()) };
        self.current = None;
        let fired = self.fired.unwrap_or(WindowId::MIN);
        while let Some((slice, table)) = self.coming.take_until(last) {
            // Later updates of a slice whose first window was emitted are in the kept slice too.
            if !(self.keeps && self.frames.windows(slice).0 <= fired) {
                on_disk.write_table(slice, table.into_drain())?;
            }
        }
        let Self { weighed, coming, behind, kept, .. } = self;
        *weighed = HeapEstimate::new();
        let states = coming.values().chain(behind.values()).chain(kept.values());
        states.for_each(|state| weighed.comes(state));
        Ok(())
    }

    /// Writes the slices to disk that have entered, or are kept.
    fn write_entered(&mut self) -> Result<()> {
        if self.keeps { self.write_kept() } else { self.write_rolling() }
    }

    /// Writes the slices to disk that are kept. What has entered is part of them.
    fn write_kept(&mut self) -> Result<()> {
        let Some(on_disk) = &mut self.on_disk else { return Ok(()) };
        while let Some((slice, table)) = self.kept.take_until(SliceId::MAX) {
            on_disk.write_table(slice, table.into_drain())?;
        }
        if !self.rolling.is_empty() {
            (self.rolling, self.rolled) = (GroupTable::new(), HeapEstimate::new());
        }
        self.entered.clear();
        (self.live, self.entered_bytes) = (0, 0);
        Ok(())
    }

    /// Writes the slices to disk that have entered, where none is kept.
    fn write_rolling(&mut self) -> Result<()> {
        let Some(on_disk) = &mut self.on_disk else { return Ok(()) };
        if self.rolling.is_empty() {
            return Ok(());
        }
        let fired = self.fired.unwrap_or(WindowId::MIN);
        let is_over = |slice| self.frames.windows(slice).1 <= fired;
        let mut written = Ok(());
        let mut write = |slice, after, key, state| {
            if !is_over(slice) && written.is_ok() {
                written = on_disk.write(slice, after, key, state);
            }
        };
        for (slice, mut batch) in self.entered.drain(..) {
            batch.drain(|part| write(slice, None, F::Key::take(part.key, part.arena), part.state));
        }
        let mut rolling = std::mem::take(&mut self.rolling).into_drain();
        while let Some((key, there)) = rolling.for_next(|key, there| (key.own(), there)) {
            there.into_slices(|slice, after, state| {
                write(slice, after, F::Key::lent(&key).own(), state);
            });
        }
        (self.live, self.entered_bytes, self.rolled) = (0, 0, HeapEstimate::new());
        written.and_then(|()| on_disk.rest())
    }

    /// The bytes that were written to disk.
    pub(super) fn spilled(&self) -> u64 {
        self.on_disk.as_ref().map_or(0, OnDisk::bytes) + self.updates.spilled()
    }

    /// The next window that has records, if it is not after `until`.
    pub(super) fn next_window(&self, until: WindowId) -> Option<WindowId> {
        let after = self.fired.map_or(WindowId::MIN, |fired| fired + 1);
        let on_disk = self.on_disk.as_ref().and_then(|on_disk| match self.fired {
            // Some are of windows that were emitted.
            Some(fired) if self.keeps => on_disk.first_from(self.frames.slices(fired + 1).0),
            _ => on_disk.first(),
        });
        let coming = self.coming.first().into_iter().chain(on_disk).min();
        let coming = coming.map(|slice| self.frames.windows(slice).0.max(after));
        let rolling = (self.live > 0).then_some(after);
        let next = coming.into_iter().chain(rolling).min()?;
        (next <= until).then_some(next)
    }

    /// Starts emitting a window.
    pub(super) fn begin(&mut self, window: WindowId) -> Phase<F::Key, F::State> {
        let slices = self.frames.slices(window);
        if self.keeps && self.frames.is_one_slice() && self.coming.first() == Some(slices.0) {
            // A copy is kept.
            let copied = self.coming.at(0).map_or(0, |table| table.bytes());
            if !self.reserve(copied) {
                return Phase::Taking;
            }
        }
        if self.on_disk.as_ref().is_some_and(|on_disk| on_disk.has_any(slices)) {
            self.write_window(slices.1);
            if self.failed {
                return Phase::Taking;
            }
            self.fired = Some(window);
            self.entered_until = Some(slices.1);
            return Phase::Merging(window, Box::new(Merging::new(slices)));
        }
        self.fired = Some(window);
        self.current = None;
        if self.frames.is_one_slice() {
            let table = self.coming.take_until(slices.1).map(|(_, table)| table);
            return Phase::Whole(window, table.unwrap_or_default().into_drain(), None);
        }
        self.enter(window)
    }

    /// Writes what is still in memory of a window that is on disk; and all else, unless it takes little of the room in which the
    /// window is read back.
    fn write_window(&mut self, last: SliceId) {
        let written = self.write_entered().and_then(|()| self.write_until(last));
        if let Err(error) = written {
            return self.fail(error);
        }
        let bytes = self.bytes();
        if bytes > self.reservation.pool().limit() / LITTLE || !self.reservation.try_resize(bytes) {
            self.evict();
        }
    }

    /// Continues with a window that is on disk; `None` if there is more to be read.
    pub(super) fn merge(
        &mut self,
        window: WindowId,
        merging: &mut Box<Merging<F::Key, F::State>>,
    ) -> Option<Phase<F::Key, F::State>> {
        let Self { op, feed, frames, on_disk, weighed, failed, .. } = self;
        let on_disk = on_disk.as_mut()?;
        let step = merging.go_on(on_disk, (op, feed), weighed).and_then(|step| {
            // Late records may still change them where they are allowed.
            if matches!(step, Step::Over) && !frames.allows_lateness() {
                on_disk.forget_where(|slice| frames.windows(slice).1 <= window)?;
            }
            Ok(step)
        });
        match step {
            Ok(Step::Read) => None,
            Ok(Step::Give(table)) => {
                let rest = std::mem::replace(merging, Box::new(Merging::new((0, 0))));
                Some(Phase::Whole(window, table, Some(rest)))
            }
            Ok(Step::Over) => Some(Phase::Taking),
            Err(error) => {
                *failed = true;
                op.fail(error);
                Some(Phase::Taking)
            }
        }
    }

    /// Continues with the next slice that enters, or with emitting the window.
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

    /// The next phase for windows that have emitted results and have changed, if there is any.
    pub(super) fn update(&mut self) -> Option<Phase<F::Key, F::State>> {
        if let Some((slice, table)) = self.behind.take_until(SliceId::MAX) {
            (self.current, self.grown) = (None, true);
            return Some(Phase::Joining(slice, table.into_drain()));
        }
        let (window, keys) = self.changed.take_until(WindowId::MAX)?;
        self.grown = true;
        Some(Phase::Again(window, keys.into_drain()))
    }

    /// Merges some of the updates of a slice that was emitted; returns whether there are more.
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

    /// Combines the states of a key in the kept slices of a window, and counts the update. Fails the job if what is on disk
    /// cannot be read.
    pub(super) fn again(&mut self, window: WindowId, key: &F::Key) -> Option<(F::State, u32)> {
        let hash = F::Key::hash(key.probe());
        let on_disk = match self.recall_late((hash, key), window) {
            Ok(on_disk) => on_disk,
            Err(error) => {
                self.fail(error);
                return None;
            }
        };
        let (from, to) = self.frames.slices(window);
        let (probe, mut total) = (key.probe(), None);
        let Self { op, feed, kept, updates, .. } = self;
        let mut add = |state: F::State| match &mut total {
            None => total = Some(state),
            Some(total) => guard(op, || guard_key(key, || feed.combine(total, state))),
        };
        let mut on_disk = on_disk.into_iter().peekable();
        kept.each_numbered(from, to, |slice, table| {
            while let Some((_, state)) = on_disk.next_if(|(other, _)| *other <= slice) {
                add(state);
            }
            if let Some(state) = table.find(hash, probe) {
                add(state.clone());
            }
        });
        on_disk.for_each(|(_, state)| add(state));
        let count = updates.windows.table(window).upsert(hash, probe, key, || 0);
        *count += 1;
        Some((total?, *count))
    }

    /// Takes the number of late results of a key back from disk, if it is there, and returns a copy of what the key has on disk
    /// in the slices of a window.
    fn recall_late(
        &mut self,
        (hash, key): (u64, &F::Key),
        window: WindowId,
    ) -> Result<Vec<(SliceId, F::State)>> {
        if self.updates.any_on_disk() {
            self.updates.recall((hash, key), (window, window))?;
        }
        let mut states = Vec::new();
        if self.on_disk.as_ref().is_some_and(|on_disk| !on_disk.is_empty()) {
            self.states_on_disk((hash, key), self.frames.slices(window), &mut states)?;
        }
        Ok(states)
    }

    /// Appends what a key has on disk in some slices, from the first to the last, in their order.
    pub(super) fn states_on_disk(
        &mut self,
        key: (u64, &F::Key),
        slices: (SliceId, SliceId),
        states: &mut Vec<(SliceId, F::State)>,
    ) -> Result<()> {
        let Self { op, feed, on_disk, .. } = self;
        let Some(on_disk) = on_disk else { return Ok(()) };
        let combine = |key: &F::Key, into: &mut F::State, from: F::State| {
            guard(op, || guard_key(key, || feed.combine(into, from)));
        };
        on_disk.states_of(key, slices, &combine, states)
    }

    /// Records that all windows up to `until` have been emitted or were empty. The event is passed on after that.
    pub(super) fn pass(&mut self, until: Option<WindowId>, event: Event) {
        self.fired = self.fired.max(until);
        self.current = None;
        if let Event::Watermark(at) = event {
            self.forget_over(at);
        }
    }

    /// Resets the state for the next round of a loop, after all windows were emitted.
    pub(super) fn restart(&mut self) {
        (self.fired, self.entered_until, self.over) = (None, None, None);
        // The keys of the last windows are still there, since no window follows.
        if self.live > 0 {
            (self.rolling, self.live) = (GroupTable::new(), 0);
        }
        while self.kept.take_until(SliceId::MAX).is_some() {}
        self.updates.restart();
        if let Some(on_disk) = &mut self.on_disk {
            on_disk.clear();
        }
    }

    /// Drops what was kept for windows that accept no more records.
    fn forget_over(&mut self, at: Timestamp) {
        self.over = self.over.max(Some(self.frames.last_over(at)));
        let Some(over) = self.over else { return };
        while self.kept.first().is_some_and(|slice| self.frames.windows(slice).1 <= over) {
            self.kept.take_until(SliceId::MAX);
        }
        let Self { frames, on_disk, updates, keeps, .. } = self;
        let forgotten = updates.forget_until(over).and_then(|()| match on_disk {
            Some(on_disk) if *keeps => {
                on_disk.forget_where(|slice| frames.windows(slice).1 <= over)
            }
            _ => Ok(()),
        });
        if let Err(error) = forgotten {
            self.fail(error);
        }
    }

    /// Adds some of a slice's keys to the rolling aggregates; returns whether there are more.
    pub(super) fn enter_some(
        &mut self,
        slice: SliceId,
        table: &mut Drain<F::Key, F::State>,
    ) -> bool {
        let Self { op, feed, rolling, live, kept, weighed, rolled, .. } = self;
        // Later updates of a slice that has entered were merged into the kept slice when they arrived.
        let keeps = self.keeps && Some(slice) > self.entered_until;
        let combine = |into: &mut F::State, from: F::State| feed.combine(into, from);
        let mut left = true;
        let mut entered = PartialBatch::default();
        for _ in 0..CHUNK {
            let one = table.for_next(|key, state| {
                weighed.leaves(&state);
                // Sums without heap memory need not be measured.
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
            self.has_entered(slice, entered);
        }
        left
    }

    /// Keeps states of a slice that are in the rolling aggregates, to be subtracted again.
    pub(super) fn has_entered(&mut self, slice: SliceId, entered: PartialBatch<F::Key, F::State>) {
        self.entered_bytes += entered.bytes();
        let at = self.entered.partition_point(|(other, _)| *other <= slice);
        self.entered.insert(at, (slice, entered));
    }

    /// After a window was emitted, subtracts some of the keys that the next one does not contain; returns
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
                    // Without this, the key would stay in all later windows, without end.
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

    /// Rebuilds the table without the keys that have no slices left, if there are many.
    pub(super) fn forget_spent(&mut self) {
        self.rolling.forget_spent(self.live, |there| !there.is_empty());
    }
}
