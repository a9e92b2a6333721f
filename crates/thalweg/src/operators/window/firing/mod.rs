//! The final windows, in the task that owns the keys: receives slices, and emits the windows that end.
//!
//! A window is emitted when the watermark has passed its end, all its keys together, in three steps. Slices that
//! it has and the window before it has not *enter* the rolling aggregates; the results of all keys are emitted
//! (`Giving`); and slices that are not in the next window *leave*. If a window is one slice, its table is emitted
//! directly.
//!
//! A record is late when all its windows have been emitted. A record may arrive for a slice that has entered but
//! that a later window contains too: it then enters with that window, as a slice of its own.
//!
//! If lateness is allowed, slices are kept after they have been emitted. What arrives for a window that has
//! emitted its result waits until the end of the batch. It is then added to the slice that was kept, and the
//! windows that have changed are emitted again for the keys that have changed.
//!
//! Where there is no memory for the slices, they are written to disk, and windows are emitted from there (see `on_disk`). What
//! late records may change stays there, and keys that are emitted before or after the end are found by an index (see
//! `index`). What is counted of each key goes to disk too (see `counts`).
//!
//! With early results (see `early`), windows that have not ended are emitted too: with the record that makes
//! them due, or between batches after a tick. A stage without early results does no work for them.

mod counts;
mod early;
mod feed;
mod index;
mod on_disk;
mod open;
mod saved;

use super::early::Early;
use super::frames::{Frames, WindowId};
use super::pane::{Pane, Timing};
use crate::clock::Nanos;
use crate::data::{Key, Portable, Record};
use crate::error::Result;
use crate::flow::{CHUNK, Event, Flow, Pipe, Push, guard, guard_key};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::stream::Chain;
use crate::time::{EventTime, Timestamp};
use early::Earlies;
use open::{Phase, Windows};
use saved::SavedWindows;
use std::marker::PhantomData;

pub use feed::{Feed, Parts, Values};

/// The chain that ends with the results of windows; `EARLY` if they have early results.
pub struct Firing<C, F, const EARLY: bool = false> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(in crate::operators::window) feed: F,
    pub(super) frames: Frames,
    pub(super) early: Option<Early>,
}

/// A result with its key.
type Row<I, F> = (<<F as Feed<I>>::Key as Portable>::Owned, Pane<<F as Feed<I>>::Output>);

impl<C, F, const EARLY: bool> Chain for Firing<C, F, EARLY>
where
    C: Chain<Time: EventTime>,
    F: Feed<C::Item>,
{
    type Item = Row<C::Item, F>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<FiringPush<C::Item, C::Time, F, N, EARLY>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let feed = self.feed.clone();
        self.prev.attach(cx, FiringPush::new(cx, self.op, feed, self.frames, self.early, next)?)
    }
}

/// Windows in a running task.
pub struct FiringPush<I: Record + ?Sized, T, F: Feed<I>, N, const EARLY: bool> {
    saved: SavedWindows,
    windows: Windows<I, F>,
    early: Earlies<F::Key, F::State>,
    phase: Phase<F::Key, F::State>,
    /// An event that waits until the windows before it are emitted.
    held: Option<Event>,
    /// The last window that has ended.
    until: Option<WindowId>,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I, T)>,
}

impl<I, T, F, N, const EARLY: bool> FiringPush<I, T, F, N, EARLY>
where
    I: Record + ?Sized,
    T: EventTime,
    F: Feed<I>,
    N: Push<Row<I, F>, T>,
{
    /// Creates the windows of a task: those of the checkpoint, if the job goes on from one.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be restored.
    pub(super) fn new(
        cx: &TaskContext<'_>,
        op: usize,
        feed: F,
        frames: Frames,
        early: Option<Early>,
        next: N,
    ) -> Result<Self> {
        let mut windows = Windows::new(cx, cx.op(op), feed, frames, EARLY);
        let may_spill = windows.on_disk.is_some();
        let (mut early, phase) = (Earlies::new(cx, early, may_spill), Phase::Taking);
        let saved = SavedWindows::new(cx, &mut windows, &mut early, EARLY)?;
        let (held, until, emitted) = (None, None, 0);
        Ok(Self { saved, windows, early, phase, held, until, emitted, next, types: PhantomData })
    }

    /// The next operator, to which results are pushed.
    pub(super) fn following(&mut self) -> &mut N {
        &mut self.next
    }

    /// Adds a record, and emits the early results that are due with it.
    fn take_early(&mut self, item: I::Of<'_>, at: Timestamp) {
        let Self { windows, early, emitted, next, .. } = self;
        let Windows { op, feed, frames, .. } = &*windows;
        let frames = *frames;
        let slice = feed.slice(&item).unwrap_or_else(|| frames.slice(at));
        let open = windows.open(slice);
        let (hash, noted) = guard(op, || {
            feed.see_key(&item, |hash, key| (hash, early.note((hash, key), slice, open)))
        });
        let has_room = match noted {
            Ok(grown) => !grown || windows.use_beside(early.bytes(), early.least()),
            Err(error) => {
                windows.fail(error);
                false
            }
        };
        if !has_room {
            early.due.clear();
            return;
        }
        windows.take(item, at);
        early.give_counted(windows, hash, |key, at, value| {
            *emitted += 1;
            let (pane, time) = early_pane::<_, T>(frames, at, value);
            next.push((key.own(), pane), time);
        });
        if self.windows.evicted {
            self.evict_counts();
        }
    }

    /// After all slices have gone to disk: moves what early results need there too.
    #[cold]
    fn evict_counts(&mut self) {
        let Self { windows, early, .. } = self;
        windows.evicted = false;
        if EARLY {
            if let Err(error) = early.counts.evict() {
                windows.fail(error);
            }
            windows.uses_less_beside(early.bytes(), early.least());
        }
    }

    /// Continues with the current phase, up to a chunk.
    fn go_on(&mut self) {
        let Self { windows, early, phase, emitted, next, .. } = self;
        let following = match phase {
            Phase::Taking => None,
            Phase::Merging(window, merging) => windows.merge(*window, merging),
            Phase::Whole(window, table, rest) => {
                let Windows { op, feed, frames, kept, weighed, .. } = windows;
                let ((start, end), time) =
                    (frames.window(*window), T::from(frames.last_of(*window)));
                let (slice, _) = frames.slices(*window);
                // What comes from disk is kept there.
                let keeps = frames.allows_lateness() && rest.is_none();
                let mut left = true;
                for _ in 0..CHUNK {
                    let one = if keeps {
                        table.for_next(|key, state| {
                            let probe = key.probe();
                            let hash = F::Key::hash(probe);
                            weighed.changed();
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
                    weighed.leaves(&state);
                    let value = guard(op, || feed.finish(state));
                    *emitted += 1;
                    next.push((key, Pane::on_time(start, end, value)), time);
                }
                let rest = if left { None } else { Some(rest.take()) };
                rest.map(|rest| match rest {
                    Some(rest) => Phase::Merging(*window, rest),
                    None => Phase::Taking,
                })
            }
            Phase::Entering(window, slice, table) => {
                let more = windows.enter_some(*slice, table);
                (!more).then(|| windows.enter(*window))
            }
            Phase::Giving(window, cursor) => {
                let Windows { op, feed, frames, rolling, live, .. } = windows;
                let ((start, end), time) =
                    (frames.window(*window), T::from(frames.last_of(*window)));
                let (first, _) = frames.slices(*window);
                let combine = |into: &mut F::State, from: F::State| feed.combine(into, from);
                let mut left = true;
                for _ in 0..CHUNK {
                    let given = rolling.see_next_mut(cursor, |key, there| {
                        if there.is_empty() {
                            return;
                        }
                        let total = guard(op, || guard_key(key, || there.total(first, &combine)));
                        let Some(total) = total else {
                            *live -= 1;
                            return;
                        };
                        let value = guard(op, || feed.finish(total));
                        *emitted += 1;
                        let pane = Pane::on_time(start, end, value);
                        next.push((key.own(), pane), time);
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
                let frames = windows.frames;
                let ((start, end), time) =
                    (frames.window(*window), T::from(frames.last_of(*window)));
                let mut left = true;
                for _ in 0..CHUNK {
                    let given = keys.for_next(|key, ()| {
                        let Some((total, count)) = windows.again(*window, key) else { return };
                        let value = guard(&windows.op, || windows.feed.finish(total));
                        *emitted += 1;
                        let pane = Pane { start, end, timing: Timing::Late(count), value };
                        next.push((key.own(), pane), time);
                    });
                    if given.is_none() {
                        left = false;
                        break;
                    }
                }
                (!left).then_some(Phase::Taking)
            }
            Phase::Early(keys) => {
                let frames = windows.frames;
                let until = *emitted + CHUNK as u64;
                let mut left = true;
                while left && *emitted < until {
                    left = keys
                        .for_next(|key, slices| {
                            early.give_changed(windows, key, &slices, |at, value| {
                                *emitted += 1;
                                let (pane, time) = early_pane::<_, T>(frames, at, value);
                                next.push((key.own(), pane), time);
                            });
                        })
                        .is_some();
                }
                (!left).then_some(Phase::Taking)
            }
            Phase::Leaving(window) => (!windows.leave_some(*window)).then_some(Phase::Taking),
        };
        if let Some(following) = following {
            // Tables of what is on disk are not kept for reuse: the next one is to have their room.
            let is_on_disk = matches!(following, Phase::Merging(..));
            let done = std::mem::replace(&mut self.phase, following);
            let done = match done {
                Phase::Early(keys) => {
                    self.early.end(keys);
                    self.windows.use_beside(self.early.bytes(), self.early.least());
                    return;
                }
                done => done,
            };
            if let Some(table) = done.into_table().filter(|_| !is_on_disk) {
                self.windows.coming.give_back(table);
            }
        }
    }
}

/// The pane of an early result. It has the timestamp of the result at the end: no watermark has passed that, and
/// a window over results contains both.
fn early_pane<V, T: EventTime>(
    frames: Frames,
    (window, number): (WindowId, u32),
    value: V,
) -> (Pane<V>, T) {
    let (start, end) = frames.window(window);
    (Pane { start, end, timing: Timing::Early(number), value }, T::from(frames.last_of(window)))
}

impl<I, T, F, N, const EARLY: bool> Push<I, T> for FiringPush<I, T, F, N, EARLY>
where
    I: Record + ?Sized,
    T: EventTime,
    F: Feed<I>,
    N: Push<Row<I, F>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        if EARLY {
            self.take_early(item, time.into());
        } else {
            self.windows.take(item, time.into());
        }
    }
}

impl<I, T, F, N, const EARLY: bool> Pipe for FiringPush<I, T, F, N, EARLY>
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
            Event::Round(_) | Event::End => Some(self.windows.frames.last()),
            Event::Idle | Event::Partition(_) | Event::Barrier(_) => self.until,
        };
        self.held = Some(event);
    }

    fn resume(&mut self) -> Flow {
        if matches!(self.phase, Phase::Taking) {
            self.windows.account();
        }
        loop {
            if self.windows.evicted {
                self.evict_counts();
            }
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            if !matches!(self.phase, Phase::Taking) {
                self.go_on();
                return Flow::Busy;
            }
            // Updates from records before an event are emitted before it.
            if let Some(phase) = self.windows.update() {
                self.phase = phase;
                continue;
            }
            let Some(event) = self.held else {
                if EARLY {
                    match self.early.begin() {
                        Ok(Some(keys)) => {
                            self.phase = Phase::Early(keys);
                            continue;
                        }
                        Ok(None) => {}
                        Err(error) => self.windows.fail(error),
                    }
                }
                return Flow::Ready;
            };
            // A job that has failed is stopped, and incomplete windows must not be emitted as results.
            let next = self.until.filter(|_| !self.windows.failed);
            if let Some(window) = next.and_then(|until| self.windows.next_window(until)) {
                self.phase = self.windows.begin(window);
                continue;
            }
            self.windows.pass(self.until, event);
            if EARLY {
                let fired = self.windows.fired.unwrap_or(WindowId::MIN);
                if let Err(error) = self.early.counts.forget_until(fired) {
                    self.windows.fail(error);
                }
            }
            if matches!(event, Event::Round(_)) {
                self.windows.restart();
                self.early.restart();
                self.until = None;
            }
            self.held = None;
            self.saved.save(event, &mut self.windows, &mut self.early);
            self.next.event(event);
        }
    }

    fn is_full(&mut self) -> bool {
        false
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let again = self.next.idle(now);
        if !EARLY {
            return again;
        }
        again.into_iter().chain(self.early.look(now)).min()
    }

    fn tick(&mut self, now: Nanos) {
        if EARLY {
            self.early.look(now);
        }
        self.next.tick(now);
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.windows.op.id();
        report.emitted(op, self.emitted);
        report.keys(op, self.windows.live.max(self.windows.coming.keys()) as u64);
        report.late(op, self.windows.late, self.windows.late);
        report.spilled(op, self.windows.spilled() + self.early.counts.spilled());
        report.open_until(
            op,
            self.windows
                .next_window(self.windows.frames.last())
                .map(|window| self.windows.frames.window(window).1),
        );
        self.next.report(report);
    }
}
