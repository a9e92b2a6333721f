//! Operators that keep a state for each key and emit for each record at once.
//!
//! Where the memory budget does not allow the table of keys to grow and the input ends, records of other keys are
//! written to disk (see [`overflow`](crate::support::overflow)), with their timestamps, and processed part by part after the end. Where
//! the states themselves keep growing, all states are written to disk, and all later records too. Event time stands still behind the
//! operator as long as anything is there.
//!
//! On a stream without an end, no record can wait. Instead, keys go to disk with their states, and return with their next
//! records: they are keys of [keyed timers](crate::support::keyed_timers) that are never due.

use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Data, Key, Portable, Record, Wire};
use crate::error::{Error, Result};
use crate::exchange::Hashed;
use crate::flow::{Event, Flow, Op, Pipe, Push, guard, pump};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::state::{GroupTable, HeapEstimate};
use crate::stream::Chain;
use crate::support::evict::{Evicted, UNACCOUNTED, begin_save, evict, restore, restore_all};
use crate::support::gradual_save::GradualSave;
use crate::support::keyed_timers::{KeyedTimers, Remembered};
use crate::support::overflow::{Overflow, PartReader};
use crate::support::passed_time::PassedTime;
use crate::time::{Time, Timestamp};
use std::borrow::Borrow;
use std::marker::PhantomData;

/// What the operator does with a record.
pub trait Step<I: Record + ?Sized>: Clone + Send + 'static {
    /// The key that a state belongs to.
    #[doc(hidden)]
    type Key: Key<Owned: Borrow<Self::Key>> + ?Sized;
    /// The state of a key.
    #[doc(hidden)]
    type State: Data;
    /// What is emitted.
    type Out: Record + ?Sized;

    /// The hash of the record's key.
    #[doc(hidden)]
    fn hash(&self, item: &I::Of<'_>) -> u64;

    /// Calls a closure with the record's key and its hash.
    #[doc(hidden)]
    fn with_key<R>(
        &self,
        item: &I::Of<'_>,
        see: impl FnOnce(u64, <Self::Key as Key>::Probe<'_>) -> R,
    ) -> R;

    /// Updates the table with the record; returns what is emitted for it, if anything.
    #[doc(hidden)]
    fn take<'a>(
        &self,
        table: &mut GroupTable<Self::Key, Self::State>,
        item: I::Of<'a>,
    ) -> Option<<Self::Out as Record>::Of<'a>>;

    /// As [`take`](Self::take), on a stream without an end. Also returns `None` if there is no room for the key, neither in
    /// memory nor on disk; the job has then failed.
    #[doc(hidden)]
    fn take_endless<'a>(
        &self,
        keys: &mut EndlessKeys<Self::Key, Self::State>,
        item: I::Of<'a>,
    ) -> Option<<Self::Out as Record>::Of<'a>>;
}

/// The keys of a stream without an end, with their states.
pub type EndlessKeys<K, S> = KeyedTimers<K, Remembered<S>>;

/// The chain that ends in an operator with a state per key. All records of a key must reach the same task.
pub struct Remembering<C, X> {
    pub(super) prev: C,
    pub(super) op: usize,
    /// Whether the input ends, so that records for which there is no room can be processed after the end.
    pub(super) bounded: bool,
    pub(super) step: X,
}

/// The name of the states in checkpoints.
const TABLE: &str = "table";
/// For messages: what is kept for the keys of a stream without an end, and what would need less memory.
const WORDS: (&str, &str) = (
    "the states",
    "smaller states, or finer keys, need less, and so do windows and `process`, which forget keys",
);

impl<C, X> Chain for Remembering<C, X>
where
    C: Chain<Item: Wire>,
    X: Step<C::Item>,
{
    type Item = X::Out;
    type Time = C::Time;
    type Task<N: Push<X::Out, C::Time> + 'static> =
        C::Task<RememberingPush<C::Item, X, C::Time, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<X::Out, C::Time> + 'static,
    {
        let mut core = Core {
            op: cx.op(self.op),
            step: self.step.clone(),
            table: GroupTable::new(),
            weighed: HeapEstimate::new(),
            overflow: Overflow::of_no_table(cx),
            endless: None,
            saving: None,
            failed: false,
            emitted: 0,
            keys: 0,
        };
        let mut state = StateHandle::none();
        if self.bounded {
            core.overflow = Overflow::new(cx, self.op);
            state = cx.state::<SavedState<C::Item, X>>(self.op, TABLE, Redistribution::ByKey);
            let Core { table, weighed, overflow, .. } = &mut core;
            restore_all(&state, table, weighed, overflow)?;
        } else {
            core.endless = Some(KeyedTimers::without_time(cx, self.op, TABLE, WORDS)?);
        }
        self.prev.attach(
            cx,
            RememberingPush {
                core,
                state,
                phase: Phase::Taking,
                held: Event::End,
                passed: PassedTime::default(),
                next,
                time: PhantomData,
            },
        )
    }
}

/// An operator with a state per key, in a running task.
pub struct RememberingPush<I: Wire + ?Sized, X: Step<I>, T, N> {
    core: Core<I, X>,
    state: StateHandle,
    phase: Phase<I, X>,
    /// The event that is held back until everything before it has been emitted.
    held: Event,
    passed: PassedTime,
    next: N,
    time: PhantomData<fn(T)>,
}

enum Phase<I: Wire + ?Sized, X: Step<I>> {
    /// Records arrive.
    Taking,
    /// The input has ended; a part is read back from disk.
    Reading(PartReader<Hashed<I>, EvictedState<I, X>>),
    /// The job has failed, and the held event is never passed on.
    Over,
}

struct Core<I: Wire + ?Sized, X: Step<I>> {
    op: Op,
    step: X,
    table: GroupTable<X::Key, X::State>,
    /// What the states own on the heap.
    weighed: HeapEstimate<X::State>,
    /// Holds the records whose keys are not in the table and have no room there, each with the bits of its time.
    overflow: Overflow<Hashed<I>, EvictedState<I, X>>,
    /// All keys, if the input has no end; then the table is empty, and the overflow is frozen.
    endless: Option<EndlessKeys<X::Key, X::State>>,
    /// What is still to be saved of the table as it was at a barrier.
    saving: Option<GradualSave>,
    failed: bool,
    emitted: u64,
    /// The number of keys in the parts that are done.
    keys: u64,
}

/// The state of a key, on disk.
type EvictedState<I, X> = Evicted<<X as Step<I>>::Key, <X as Step<I>>::State>;

/// A key with its state, in a checkpoint.
type SavedState<I, X> = (<<X as Step<I>>::Key as Portable>::Owned, <X as Step<I>>::State);

/// A time as it is written to disk; nothing in a stream without event time.
fn bits_of<T: Time>(time: T) -> u64 {
    time.timestamp().map_or(0, |at| at.as_micros().cast_unsigned())
}

fn time_of<T: Time>(bits: u64) -> T {
    T::happened(Timestamp::from_micros(bits.cast_signed()))
}

impl<I: Wire + ?Sized, X: Step<I>> Core<I, X> {
    /// Processes a record, or writes it to disk when its key has no room in the table.
    #[inline(always)]
    fn take<T: Time, N: Push<X::Out, T>>(&mut self, item: I::Of<'_>, time: T, next: &mut N) {
        let out = 'out: {
            if self.overflow.is_frozen() || self.table.is_full() {
                // Checked here, to keep it off the path of a table that has room.
                if let Some(keys) = &mut self.endless {
                    let step = &self.step;
                    break 'out guard(&self.op, || step.take_endless(keys, item));
                }
                if !self.has_room_for(&item) {
                    self.set_aside(item, time);
                    return;
                }
            }
            if self.saving.is_some() {
                self.save_before(&item);
            }
            self.weighed.changed();
            guard(&self.op, || self.step.take(&mut self.table, item))
        };
        // The only call, as the operators behind are compiled into it.
        if let Some(out) = out {
            self.emitted += 1;
            next.push(out, time);
        }
    }

    /// Whether the record's key is in the table, or the table may grow.
    #[inline(never)]
    fn has_room_for(&mut self, item: &I::Of<'_>) -> bool {
        let Self { op, step, table, weighed, overflow, .. } = self;
        overflow.may_grow(table.bytes_if_grown() + weighed.bytes())
            || guard(op, || step.with_key(item, |hash, probe| table.find(hash, probe).is_some()))
    }

    /// Saves the state of a record's key before it changes, if it is still to be saved.
    #[cold]
    #[inline(never)]
    fn save_before(&mut self, item: &I::Of<'_>) {
        let Self { op, step, table, saving, .. } = self;
        let Some(saving) = saving else { return };
        guard(op, || step.with_key(item, |hash, probe| saving.before_change(table, hash, probe)));
    }

    #[cold]
    #[inline(never)]
    fn set_aside<T: Time>(&mut self, item: I::Of<'_>, time: T) {
        if self.failed {
            return;
        }
        let hash = guard(&self.op, || self.step.hash(&item));
        if let Err(error) = self.overflow.write(hash, &(bits_of(time), item)) {
            self.fail(error);
        }
    }

    /// Accounts for the memory of the keys and the states.
    fn account(&mut self) {
        if let Some(keys) = &mut self.endless {
            return keys.settle();
        }
        if self.weighed.is_due(|| self.table.len()) {
            self.weighed.weigh(self.table.values().map(Data::heap_size));
        }
        if !self.failed && self.overflow.account(self.table.bytes() + self.weighed.bytes()) {
            self.evict();
        }
    }

    /// Writes all states to disk.
    #[cold]
    #[inline(never)]
    fn evict(&mut self) {
        if self.overflow.is_hopeless(self.table.len(), self.weighed.bytes()) {
            let what = format!(
                "what is remembered for {} keys, one or as many as share all bits of their hash, is more than the \
                 memory budget of {} bytes has room for; smaller states, or finer keys, need less",
                self.table.len(),
                self.overflow.limit(),
            );
            return self.fail(self.overflow.refused(what));
        }
        self.save_rest();
        self.weighed = HeapEstimate::new();
        let table = std::mem::take(&mut self.table).into_drain();
        if let Err(error) = evict(table, &mut self.overflow) {
            self.fail(error);
        }
    }

    /// Saves the table at this barrier: at once if it is small, else in parts, while records change it.
    fn begin_save(&mut self, state: &StateHandle, barrier: Event) {
        self.save_rest();
        // Records without room are dropped since.
        if self.failed {
            let why = "some of its records could not be moved to disk";
            return state.save(barrier, |out| out.refuse(why));
        }
        match begin_save(state, barrier, &self.table, &mut self.overflow) {
            Ok(saving) => self.saving = saving,
            Err(error) => self.fail(error),
        }
    }

    /// Saves the rest of the table at once.
    fn save_rest(&mut self) {
        GradualSave::save_rest(&mut self.saving, &self.table);
    }

    fn fail(&mut self, error: Error) {
        self.failed = true;
        self.op.fail(error);
    }
}

impl<I, X, T, N> RememberingPush<I, X, T, N>
where
    I: Wire + ?Sized,
    X: Step<I>,
    T: Time,
    N: Push<X::Out, T>,
{
    /// The input, or a part of it, has been processed: continues with the next part.
    fn next_part(&mut self) {
        self.core.keys += self.core.table.len() as u64;
        self.core.table = GroupTable::new();
        self.core.weighed = HeapEstimate::new();
        if let Err(error) = self.core.overflow.set_aside() {
            self.core.fail(error);
        }
        self.phase = match self.core.overflow.next_part() {
            // A job that has failed must not pass the event on, which would look like a regular end.
            _ if self.core.failed => Phase::Over,
            Some(reader) => Phase::Reading(reader),
            None => {
                self.passed.pass(self.held);
                self.next.event(self.held);
                Phase::Taking
            }
        };
    }
}

impl<I, X, T, N> Pipe for RememberingPush<I, X, T, N>
where
    I: Wire + ?Sized,
    X: Step<I>,
    T: Time,
    N: Push<X::Out, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if let Some(keys) = &mut self.core.endless {
            if keys.pass(event) {
                self.next.event(event);
            }
            return;
        }
        match event {
            Event::Round(_) | Event::End => {
                self.core.save_rest();
                // No record needs it any more.
                self.state.save(event, |_| ());
                self.held = event;
                self.next_part();
            }
            // What is on disk comes with its own time.
            Event::Watermark(_) | Event::Idle if self.core.overflow.holds_any() => {
                if let Some(resumes) = self.passed.hold(event) {
                    self.next.event(resumes);
                }
            }
            other => {
                if let Event::Barrier(_) = other {
                    self.core.begin_save(&self.state, other);
                }
                self.passed.pass(other);
                self.next.event(other);
            }
        }
    }

    fn save_part(&mut self) -> bool {
        let Core { endless, saving, table, .. } = &mut self.core;
        let saves = match endless {
            Some(keys) => keys.save_part(),
            None => GradualSave::save_part(saving, table),
        };
        self.next.save_part() || saves
    }

    fn resume(&mut self) -> Flow {
        let Self { core, phase, next, .. } = self;
        core.account();
        let Phase::Reading(reader) = phase else { return next.resume() };
        let mut accounted = core.weighed.bytes();
        let (op, step) = (core.op.clone(), core.step.clone());
        let flow = pump(next, |next| {
            let read = match reader.states.next(|state| state.0, |state| state) {
                Ok(Some(state)) => {
                    let Core { table, weighed, overflow, .. } = &mut *core;
                    let restored = restore(state, table, weighed, overflow).map(Some);
                    if core.weighed.bytes() >= accounted + UNACCOUNTED {
                        core.account();
                        accounted = core.weighed.bytes();
                    }
                    restored
                }
                Ok(None) => reader.records.next(
                    |(_, item)| guard(&op, || step.hash(item)),
                    |(bits, item)| core.take(item, time_of::<T>(bits), next),
                ),
                Err(error) => Err(error),
            };
            match read {
                Ok(read) => read.is_some() && !core.failed,
                Err(error) => {
                    core.fail(error);
                    false
                }
            }
        });
        if flow == Flow::Ready {
            self.next_part();
            return Flow::Busy;
        }
        flow
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.core.op.id();
        report.emitted(op, self.core.emitted);
        let endless = self.core.endless.as_ref();
        let (live, spilled) = endless.map_or((0, 0), |keys| (keys.live(), keys.spilled()));
        report.keys(op, self.core.keys + (self.core.table.len() + live) as u64);
        report.spilled(op, self.core.overflow.bytes() + spilled);
        self.next.report(report);
    }
}

impl<I, X, T, N> Push<I, T> for RememberingPush<I, X, T, N>
where
    I: Wire + ?Sized,
    X: Step<I>,
    T: Time,
    N: Push<X::Out, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.core.take(item, time, &mut self.next);
    }

    #[inline(always)]
    fn prefetch(&self, hash: u64) {
        match &self.core.endless {
            None => self.core.table.prefetch_slot(hash),
            Some(keys) => keys.prefetch(hash),
        }
    }
}
