//! What is counted of each key in each window, beside the states in its slices: records and early results, or late results.
//!
//! Counts are in tables in memory. Where there is no room for them, those of all keys go to a store on disk, each key with
//! its counts of all windows. So a key has its counts either in memory or on disk. They return when one of them is needed
//! ([`recall`](KeyCounts::recall)); with those that are needed at the next tick, all keys that have changed return
//! ([`recall_changed`](KeyCounts::recall_changed)).

use crate::checkpoint::{Saving, StateHandle};
use crate::data::{Data, Key};
use crate::error::Result;
use crate::operators::window::frames::{SliceId, WindowId};
use crate::operators::window::slices::Slices;
use crate::plan::TaskContext;
use crate::state::{Drain, Entry, GroupTable, Portion, SpillDir};
use crate::support::keyed_timers::Cold;
use std::mem::take;

/// The keys that are taken from a store together.
pub(super) const SOME: Portion = Portion { keys: 256, bytes: 1 << 20 };
/// Each of the up to three stores of a task has one part in so many of the budget as a cache, shared by the tasks.
const CACHE: usize = 64;
/// By this clock, keys on disk are due when their last window is over.
const OVER: usize = 0;
/// By this one, those are due at the next tick that have changed since the last.
const TICK: usize = 1;

/// The slices of each key that have changed.
pub(super) type Changed<K> = GroupTable<K, Vec<SliceId>>;

/// What a key has on disk: its counts of windows, and the slices that have changed.
type Stored<V> = (Vec<(WindowId, V)>, Vec<SliceId>);

/// The bytes of the cache of a store.
pub(super) fn cache(cx: &TaskContext<'_>) -> usize {
    (cx.memory.limit() / CACHE / cx.tasks.max(1)).clamp(64 << 10, 16 << 20)
}

/// The counts of each key. The default is no count.
pub(super) struct KeyCounts<K: Key + ?Sized, V: Data> {
    /// Those in memory.
    pub(super) windows: Slices<K, V, WindowId>,
    /// The slices of keys in memory that have changed since the last results, if results come at ticks.
    pub(super) changed: Changed<K>,
    /// The bytes of the lists in `changed`.
    pub(super) heap: usize,
    /// `None` where all stays in memory.
    on_disk: Option<Cold<K, Stored<V>>>,
    /// No later window has counts on disk.
    last: WindowId,
    /// The last window that is over.
    over: Option<WindowId>,
}

impl<K: Key + ?Sized, V: Data + Copy + Default + PartialEq> KeyCounts<K, V> {
    /// No counts, which may go to disk or not.
    pub(super) fn new(cx: &TaskContext<'_>, may_spill: bool) -> Self {
        Self {
            windows: Slices::new(),
            changed: Changed::new(),
            heap: 0,
            on_disk: may_spill.then(|| Cold::new(cx.spill.clone(), cache(cx), 2)),
            last: WindowId::MIN,
            over: None,
        }
    }

    /// Whether the counts of any key are on disk.
    #[inline(always)]
    pub(super) fn any_on_disk(&self) -> bool {
        self.on_disk.as_ref().is_some_and(|on_disk| !on_disk.is_empty())
    }

    /// Whether the slices of any key have changed.
    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty() || self.has_changed_on_disk()
    }

    fn has_changed_on_disk(&self) -> bool {
        self.on_disk.as_ref().is_some_and(|on_disk| on_disk.first_due(TICK).is_some())
    }

    /// Takes the counts of a key back from disk, unless it has some in memory, of these windows, the first and the last, or
    /// slices that have changed. Returns whether memory was used that is not accounted for.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    #[cold]
    pub(super) fn recall(
        &mut self,
        (hash, key): (u64, &K),
        (first, last): (WindowId, WindowId),
    ) -> Result<bool> {
        let probe = key.probe();
        let mut is_here = self.changed.find(hash, probe).is_some();
        self.windows.each_in(first, last, |table| is_here |= table.find(hash, probe).is_some());
        let Some(on_disk) = self.on_disk.as_mut().filter(|_| !is_here) else { return Ok(false) };
        let Some(stored) = on_disk.take(hash, key)? else { return Ok(false) };
        let grown = self.put_back(hash, key, stored);
        self.release();
        Ok(grown)
    }

    /// Takes some of the keys back from disk whose slices have changed; returns whether there are more.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub(super) fn recall_changed(&mut self) -> Result<bool> {
        let Some(on_disk) = &mut self.on_disk else { return Ok(false) };
        if on_disk.first_due(TICK).is_some() {
            for (hash, key, stored) in on_disk.take_due(TICK, i64::MAX, SOME)? {
                self.put_back(hash, K::lent(&key), stored);
            }
            self.release();
        }
        Ok(self.has_changed_on_disk())
    }

    /// Adds what a key had on disk; returns whether tables have grown.
    fn put_back(&mut self, hash: u64, key: &K, (counts, slices): Stored<V>) -> bool {
        let (probe, over, mut grown) = (key.probe(), self.over, false);
        for (window, count) in counts {
            if over.is_none_or(|over| window > over) {
                let table = self.windows.table(window);
                grown |= table.is_full();
                table.upsert(hash, probe, key, || count);
            }
        }
        if !slices.is_empty() {
            grown |= self.changed.is_full();
            self.heap += slices.capacity() * size_of::<SliceId>();
            self.changed.upsert(hash, probe, key, || slices);
        }
        grown
    }

    /// Releases the memory and the file of a store that is empty.
    fn release(&mut self) {
        if let Some(on_disk) = self.on_disk.as_mut().filter(|on_disk| on_disk.is_empty()) {
            on_disk.release();
            self.last = WindowId::MIN;
        }
    }

    /// Moves the counts of all keys to disk.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written.
    pub(super) fn evict(&mut self) -> Result<()> {
        let Self { windows, changed, on_disk: Some(on_disk), last, .. } = self else {
            return Ok(());
        };
        let mut draining: Option<(WindowId, Drain<K, V>)> = None;
        on_disk.put_all(|entry| {
            loop {
                let is_filled = draining.as_mut().and_then(|(window, table)| {
                    let window = *window;
                    table.for_next(|key, count| {
                        // It went with an earlier window.
                        if count == V::default() {
                            return false;
                        }
                        let probe = key.probe();
                        let hash = K::hash(probe);
                        let mut counts = vec![(window, count)];
                        windows.each_numbered(WindowId::MIN, WindowId::MAX, |window, table| {
                            let count = table.find(hash, probe).map(take).unwrap_or_default();
                            if count != V::default() {
                                counts.push((window, count));
                            }
                        });
                        let slices = changed.find(hash, probe).map(take).unwrap_or_default();
                        let stored: Stored<V> = (counts, slices);
                        *last = (*last).max(last_of(&stored));
                        fill(entry, hash, key, &stored);
                        true
                    })
                });
                match is_filled {
                    Some(true) => return true,
                    Some(false) => {}
                    None => match windows.take_until(WindowId::MAX) {
                        Some((window, table)) => draining = Some((window, table.into_drain())),
                        None => return false,
                    },
                }
            }
        })?;
        // Keys that have changed, and have no counts.
        let mut rest = take(changed).into_drain();
        on_disk.put_all(|entry| {
            loop {
                let is_filled = rest.for_next(|key, slices| {
                    if slices.is_empty() {
                        return false;
                    }
                    let stored: Stored<V> = (Vec::new(), slices);
                    *last = (*last).max(last_of(&stored));
                    fill(entry, K::hash(key.probe()), key, &stored);
                    true
                });
                match is_filled {
                    Some(true) => return true,
                    Some(false) => {}
                    None => return false,
                }
            }
        })?;
        self.heap = 0;
        self.windows.drop_spares();
        Ok(())
    }

    /// Drops the counts of windows up to this one, which are over.
    ///
    /// # Errors
    ///
    /// If the disk cannot be used.
    pub(super) fn forget_until(&mut self, window: WindowId) -> Result<()> {
        self.over = self.over.max(Some(window));
        while let Some((_, mut table)) = self.windows.take_until(window) {
            table.clear();
            self.windows.give_back(table);
        }
        let Some(on_disk) = self.on_disk.as_mut().filter(|on_disk| !on_disk.is_empty()) else {
            return Ok(());
        };
        if self.last <= window {
            on_disk.clear();
        } else if let Some(until) = i64::try_from(window).ok().filter(|until| *until < i64::MAX) {
            while on_disk.first_due(OVER).is_some_and(|last| last <= until) {
                on_disk.take_due(OVER, until, SOME)?;
            }
        }
        self.release();
        Ok(())
    }

    /// Drops everything, for the next round of a loop.
    pub(super) fn restart(&mut self) {
        while self.windows.take_until(WindowId::MAX).is_some() {}
        (self.changed, self.heap, self.over) = (Changed::new(), 0, None);
        if let Some(on_disk) = &mut self.on_disk {
            on_disk.clear();
        }
        self.release();
    }

    /// The bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.windows.bytes() + self.changed.bytes() + self.heap + self.bytes_of_store()
    }

    /// The bytes of memory of what is on disk.
    pub(super) fn bytes_of_store(&self) -> usize {
        self.on_disk.as_ref().map_or(0, Cold::bytes)
    }

    /// The bytes written to disk.
    pub(super) fn spilled(&self) -> u64 {
        self.on_disk.as_ref().map_or(0, Cold::written)
    }

    /// Saves what is on disk.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be used; then it is refused too.
    pub(super) fn save(&mut self, out: &mut Saving) -> Result<()> {
        let saved = self.on_disk.as_mut().map_or(Ok(()), |on_disk| on_disk.save(out));
        saved.inspect_err(|_| out.refuse("some of its counts could not be moved to disk"))
    }

    /// Begins with what is on disk in the checkpoint, if the job goes on from one, and notes from now on what checkpoints
    /// need. Nothing if all stays in memory.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be read, or the disk is full.
    pub(super) fn restore(&mut self, saved: &StateHandle, spill: &SpillDir) -> Result<()> {
        let Some(on_disk) = &mut self.on_disk else { return Ok(()) };
        if saved.is_on() {
            on_disk.begin_log(spill);
        }
        on_disk.restore(saved, spill, |stored, entry| entry.due = due_of(stored))?;
        if !on_disk.is_empty() {
            self.last = WindowId::MAX;
        }
        Ok(())
    }
}

/// Fills in the entry of a key.
fn fill<K: Key + ?Sized, V: Data>(entry: &mut Entry, hash: u64, key: &K, stored: &Stored<V>) {
    Cold::<K, Stored<V>>::fill(entry, hash, key, stored);
    entry.due = due_of(stored);
}

/// The last window of which a key has counts; no window is known to be after slices that have changed.
fn last_of<V>((counts, slices): &Stored<V>) -> WindowId {
    match counts.last() {
        Some((window, _)) if slices.is_empty() => *window,
        _ => WindowId::MAX,
    }
}

/// When a key is due, by both clocks.
fn due_of<V>(stored: &Stored<V>) -> [Option<i64>; 2] {
    let mut due = [None; 2];
    let (counts, slices) = stored;
    if slices.is_empty() {
        // The first windows are before all of these numbers, and over by the time of the first one.
        let clamped = |window: &WindowId| (*window).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        due[OVER] = counts.last().map(|(window, _)| clamped(window));
    } else {
        due[TICK] = Some(0);
    }
    due
}
