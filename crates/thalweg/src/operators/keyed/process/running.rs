//! The task that owns the keys: calls the handler, keeps its states and timers.
//!
//! A timer knows its key by hash and number, so that neither is a key copied nor does a table that grows
//! have to tell the timers. The key knows its timers: one that is deleted is passed over when its time
//! comes, and so are those of a key that is gone. Where such ones are many, all are gone through and
//! struck out at once.

use super::aside::{Exit, Leave};
use super::context::{Clocked, Due, ProcessContext, Set};
use super::{Process, Timer};
use crate::clock::{Clock, Nanos};
use crate::data::{Data, Key, Portable, Record};
use crate::error::Result;
use crate::flow::{CHUNK, Event, Flow, Forked, Op, Pipe, Push, guard};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::operators::keyed::KeyBy;
use crate::plan::TaskContext;
use crate::state::{GroupTable, Timers, Weighed};
use crate::stream::Chain;
use crate::time::{EventTime, Timestamp};
use std::marker::PhantomData;
use std::sync::Arc;

/// The chain that ends in what a handler emits. All records of a key must come to one task.
pub struct Processing<C, G, H, X> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) keys: G,
    pub(super) handler: Arc<H>,
    pub(super) aside: X,
}

impl<C, G, H, X> Chain for Processing<C, G, H, X>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    H: Process<G::Key, G::Value>,
    X: Leave<H::Side>,
{
    type Item = (<G::Key as Portable>::Owned, H::Out);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<ProcessingPush<C::Item, C::Time, G, H, X::Exit, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let keys = Keys {
            op: cx.op(self.op),
            handler: Arc::clone(&self.handler),
            clock: cx.clock.clone(),
            table: GroupTable::new(),
            numbers: 0,
            live: 0,
            heap: 0,
            weighed: Weighed::new(),
            event: Clockwork::new(),
            processing: Clockwork::new(),
            out: Vec::new(),
            aside: Vec::new(),
            fresh: Vec::new(),
            watermark: None,
            ended: false,
            reservation: cx.fixed(self.op),
            failed: false,
            emitted: 0,
        };
        let push = ProcessingPush {
            keys,
            by: self.keys.clone(),
            held: None,
            due: None,
            ends: Forked((next, self.aside.exit(cx, self.op))),
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// A key, as its timers know it: its hash and its number.
type Alarm = (u64, u64);

/// The timers of one clock.
struct Clockwork {
    timers: Timers<Alarm>,
    /// How many of them are set; the others are to be passed over.
    set: usize,
}

impl Clockwork {
    fn new() -> Self {
        Self { timers: Timers::new(), set: 0 }
    }

    fn has_many_spent(&self) -> bool {
        self.timers.len() > 2 * self.set + SPENT
    }
}

/// What is kept of a key.
struct Kept<S> {
    number: u64,
    state: Option<S>,
    /// In order.
    timers: Vec<Set>,
    /// How many of them are not deleted, of each clock.
    set: [usize; 2],
}

impl<S> Kept<S> {
    /// Whether nothing would be lost with it.
    fn is_spent(&self) -> bool {
        self.state.is_none() && self.set == [0; 2]
    }

    fn heap(&self) -> usize {
        self.timers.capacity() * size_of::<Set>()
    }

    /// Takes out a timer whose time has come; answers whether it is to be heeded.
    fn take_timer(&mut self, due: Due) -> bool {
        let Ok(at) = self.timers.binary_search_by_key(&due, |set| set.due) else { return false };
        let set = self.timers.remove(at);
        if self.timers.is_empty() {
            self.timers = Vec::new();
        }
        self.set[due.clock as usize] -= usize::from(!set.deleted);
        !set.deleted
    }
}

/// Keys or timers that are spent and may stay among those that are not, beyond as many as those.
const SPENT: usize = 1024;

/// The keys of a running task, apart from where records come from and go.
struct Keys<K, V, H>
where
    K: Key + ?Sized,
    V: Record + ?Sized,
    H: Process<K, V>,
{
    op: Op,
    handler: Arc<H>,
    clock: Clock,
    table: GroupTable<K, Kept<H::State>>,
    /// Keys that were new so far.
    numbers: u64,
    /// Keys that are not spent.
    live: usize,
    /// The bytes of the keys' lists of timers.
    heap: usize,
    /// What their states own on the heap.
    weighed: Weighed<H::State>,
    event: Clockwork,
    processing: Clockwork,
    /// What the handler has emitted, and the timers that it has set, during a call.
    out: Vec<(H::Out, Timestamp)>,
    aside: Vec<(H::Side, Timestamp)>,
    fresh: Vec<Due>,
    watermark: Option<Timestamp>,
    ended: bool,
    reservation: Reservation,
    failed: bool,
    emitted: u64,
}

impl<K, V, H> Keys<K, V, H>
where
    K: Key + ?Sized,
    V: Record + ?Sized,
    H: Process<K, V>,
{
    /// Forgets every key, for the next round of a loop.
    fn restart(&mut self) {
        self.table = GroupTable::new();
        (self.event, self.processing) = (Clockwork::new(), Clockwork::new());
        (self.live, self.heap) = (0, 0);
        self.weighed = Weighed::new();
        (self.watermark, self.ended) = (None, false);
    }

    /// The number of a key, which is brought into the table if it is new and there is room.
    #[inline(always)]
    fn number(&mut self, hash: u64, key: &K) -> Option<u64> {
        let probe = key.probe();
        if let Some(kept) = self.table.find(hash, probe) {
            return Some(kept.number);
        }
        self.add(hash, key)
    }

    #[inline(never)]
    fn add(&mut self, hash: u64, key: &K) -> Option<u64> {
        if self.table.is_full() {
            let grown = self.table.bytes_if_grown() - self.table.bytes();
            if !self.reserve(self.bytes() + grown) {
                return None;
            }
        }
        let number = self.numbers;
        self.numbers += 1;
        let kept = || Kept { number, state: None, timers: Vec::new(), set: [0; 2] };
        self.table.upsert(hash, key.probe(), key, kept);
        Some(number)
    }

    /// Calls the handler for a key, and does what it asks for. With a timer, only if it is still set.
    #[inline(always)]
    fn call<T, N, X>(
        &mut self,
        (hash, number): Alarm,
        due: Option<Due>,
        at: Timestamp,
        (next, exit): (&mut N, &mut X),
        call: impl FnOnce(&H, &K, &mut H::State, &mut ProcessContext<'_, H::Out, H::Side>),
    ) where
        T: EventTime,
        N: Push<(<K as Portable>::Owned, H::Out), T>,
        X: Exit<H::Side>,
    {
        let Self { op, handler, clock, table, live, heap, event, processing, .. } = self;
        let Self { out, aside, fresh, watermark, ended, emitted, weighed, .. } = self;
        table.see_where(
            hash,
            |kept| kept.number == number,
            |key, kept| {
                let (was_spent, heap_before, set_before) = (kept.is_spent(), kept.heap(), kept.set);
                let heeded = due.is_none_or(|due| kept.take_timer(due));
                if heeded {
                    let Kept { state, timers, set, .. } = kept;
                    let mut cx = ProcessContext {
                        out,
                        aside,
                        timers,
                        set,
                        fresh,
                        cleared: false,
                        at,
                        watermark: *watermark,
                        ended: *ended,
                        clock,
                    };
                    guard(op, || {
                        let state = state.get_or_insert_with(|| handler.start());
                        call(handler, key, state, &mut cx);
                    });
                    weighed.changed();
                    if cx.cleared {
                        if let Some(state) = &*state {
                            weighed.leaves(state);
                        }
                        guard(op, || *state = None);
                    }
                    *emitted += out.len() as u64;
                    out.drain(..)
                        .for_each(|(record, at)| next.push((key.own(), record), T::from(at)));
                    aside.drain(..).for_each(|(record, at)| exit.push_aside(record, at));
                }
                event.set = event.set - set_before[0] + kept.set[0];
                processing.set = processing.set - set_before[1] + kept.set[1];
                *heap = *heap - heap_before + kept.heap();
                *live = *live + usize::from(was_spent) - usize::from(kept.is_spent());
            },
        );
        if !self.fresh.is_empty() {
            self.set_timers((hash, number));
        }
    }

    /// Sets the timers that the handler has asked for.
    #[inline(never)]
    fn set_timers(&mut self, alarm: Alarm) {
        for at in 0..self.fresh.len() {
            let due = self.fresh[at];
            let timers = match due.clock {
                Clocked::Event => &self.event.timers,
                Clocked::Processing => &self.processing.timers,
            };
            if timers.is_full() {
                let grown = timers.bytes_if_grown() - timers.bytes();
                self.reserve(self.bytes() + grown);
            }
            let timers = match due.clock {
                Clocked::Event => &mut self.event.timers,
                Clocked::Processing => &mut self.processing.timers,
            };
            timers.add(due.at, alarm);
        }
        self.fresh.clear();
    }

    fn bytes(&self) -> usize {
        let timers = self.event.timers.bytes() + self.processing.timers.bytes() + self.heap;
        self.table.bytes() + timers + self.weighed.bytes()
    }

    /// Asks for memory, and fails the job when it is not there.
    #[cold]
    fn reserve(&mut self, bytes: usize) -> bool {
        if !self.failed && bytes > self.reservation.bytes() && !self.reservation.try_resize(bytes) {
            // What states own may have been taken for more than it is.
            let estimate = self.weighed.bytes();
            self.weigh();
            if self.reservation.try_resize(bytes - estimate + self.weighed.bytes()) {
                return true;
            }
            self.failed = true;
            let what = format!(
                "the {} keys of one of its tasks, their states and their {} timers are more than the memory budget of \
                 {} bytes lets it remember, and they do not go to disk; `clear` forgets a key, in a timer for instance",
                self.live,
                self.event.set + self.processing.set,
                self.reservation.pool().limit(),
            );
            self.op.fail(self.reservation.refused(what));
        }
        !self.failed
    }

    #[cold]
    fn weigh(&mut self) {
        let states = self.table.values().filter_map(|kept| kept.state.as_ref());
        self.weighed.weigh(states.map(Data::heap_size));
    }

    /// Drops what is spent, when there is much of it, and accounts for what there is.
    fn tidy(&mut self) {
        let Self { table, live, heap, event, processing, .. } = self;
        for (clock, work) in [(Clocked::Event, event), (Clocked::Processing, processing)] {
            if work.has_many_spent() {
                work.timers.retain(|at, (hash, number)| {
                    let due = Due { clock, at };
                    let still_set = table.see_where(
                        *hash,
                        |kept| kept.number == *number,
                        |_, kept| {
                            let found = kept.timers.binary_search_by_key(&due, |set| set.due);
                            let Ok(at) = found else { return false };
                            let deleted = kept.timers[at].deleted;
                            if deleted {
                                kept.timers.remove(at);
                            }
                            !deleted
                        },
                    );
                    still_set.unwrap_or(false)
                });
            }
        }
        table.forget_spent(*live, |kept| {
            let spent = kept.is_spent();
            *heap -= if spent { kept.heap() } else { 0 };
            !spent
        });
        if self.weighed.is_due(|| self.table.len()) {
            self.weigh();
        }
        let (bytes, held) = (self.bytes(), self.reservation.bytes());
        if bytes > held {
            self.reserve(bytes);
        } else if held - bytes > held / 4 {
            let _ = self.reservation.try_resize(bytes);
        }
    }
}

/// A handler in a running task.
pub struct ProcessingPush<I, T, G, H, X, N>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    H: Process<G::Key, G::Value>,
{
    keys: Keys<G::Key, G::Value, H>,
    by: G,
    /// An event that waits until the timers before it have come.
    held: Option<Event>,
    /// Timers of event time up to this are to come.
    due: Option<i64>,
    /// Where records go, and where those that are emitted aside.
    ends: Forked<(N, X)>,
    types: PhantomData<fn(&I, T)>,
}

impl<I, T, G, H, X, N> ProcessingPush<I, T, G, H, X, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    H: Process<G::Key, G::Value>,
    X: Exit<H::Side>,
    N: Push<(<G::Key as Portable>::Owned, H::Out), T>,
{
    /// Lets some timers come; answers whether there may be more, or what follows has something to do with what
    /// they gave.
    fn heed_some(&mut self) -> bool {
        // A job that has failed is stopped, and what it holds must not look like results. What nobody
        // wants may be endless.
        if self.keys.failed || self.is_closed() {
            return false;
        }
        for done in 0..CHUNK {
            if !self.heed_one() {
                return done > 0;
            }
            if self.ends.is_full() {
                return true;
            }
        }
        true
    }

    /// Lets the next timer come, if there is one.
    fn heed_one(&mut self) -> bool {
        let Self { keys, due, ends, .. } = self;
        let (next, aside) = &mut ends.0;
        let popped = due.and_then(|due| keys.event.timers.pop(due));
        let (alarm, timer) = match popped {
            Some((at, alarm)) => (alarm, Due { clock: Clocked::Event, at }),
            None => {
                let now = if keys.ended && due.is_some() {
                    i64::MAX
                } else if keys.processing.timers.is_empty() {
                    return false;
                } else {
                    i64::try_from(keys.clock.now()).unwrap_or(i64::MAX)
                };
                let Some((at, alarm)) = keys.processing.timers.pop(now) else { return false };
                (alarm, Due { clock: Clocked::Processing, at })
            }
        };
        let known = keys.watermark.unwrap_or(Timestamp::MIN);
        let at = match timer.clock {
            Clocked::Event => known.max(Timestamp::from_micros(timer.at)),
            Clocked::Processing => known,
        };
        keys.call(alarm, Some(timer), at, (next, aside), |handler, key, state, cx| {
            handler.on_timer(key, state, Timer::from(timer), cx);
        });
        true
    }

    /// When the next timer of processing time may come.
    fn wakes_at(&self) -> Option<Nanos> {
        let next = self.keys.processing.timers.not_before()?;
        Some(Nanos::try_from(next).unwrap_or(0))
    }
}

impl<I, T, G, H, X, N> Push<I, T> for ProcessingPush<I, T, G, H, X, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    H: Process<G::Key, G::Value>,
    X: Exit<H::Side>,
    N: Push<(<G::Key as Portable>::Owned, H::Out), T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let Self { keys, by, ends, .. } = self;
        let (next, aside) = &mut ends.0;
        let (hash, key) = guard(&keys.op, || (by.hash(&item), by.key(&item)));
        let Some(number) = keys.number(hash, key) else { return };
        let at = time.into();
        keys.call((hash, number), None, at, (next, aside), |handler, key, state, cx| {
            handler.on_record(key, state, by.value(item), at, cx);
        });
    }
}

impl<I, T, G, H, X, N> Pipe for ProcessingPush<I, T, G, H, X, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    H: Process<G::Key, G::Value>,
    X: Exit<H::Side>,
    N: Push<(<G::Key as Portable>::Owned, H::Out), T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.ends)
    }

    fn event(&mut self, event: Event) {
        self.due = match event {
            Event::Watermark(at) => Some(at.as_micros()),
            Event::Round(_) | Event::End => Some(i64::MAX),
            Event::Idle | Event::Partition(_) | Event::Barrier(_) => None,
        };
        self.keys.ended |= event.completes();
        self.held = Some(event);
    }

    fn resume(&mut self) -> Flow {
        loop {
            match self.ends.resume() {
                Flow::Ready => {}
                other => return other,
            }
            if self.heed_some() {
                return Flow::Busy;
            }
            self.keys.tidy();
            let Some(event) = self.held.take() else { return Flow::Ready };
            match event {
                Event::Watermark(at) => {
                    self.keys.watermark = self.keys.watermark.max(Some(at));
                }
                Event::Round(_) => self.keys.restart(),
                Event::Idle | Event::Partition(_) | Event::Barrier(_) | Event::End => {}
            }
            self.due = None;
            self.ends.event(event);
        }
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let next = [self.ends.idle(now), self.wakes_at()];
        next.into_iter().flatten().min()
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.keys.op.id();
        report.emitted(op, self.keys.emitted);
        report.keys(op, self.keys.live as u64);
        self.ends.report(report);
    }
}
