//! Aggregates a task's own records before they are sent, as long as that pays.
//!
//! A small table that stays in the core's cache collects aggregates; when it is full it is sent on
//! and begun anew. Whether that pays depends on the keys, on what an update costs and on what
//! sending costs, none of which is known beforehand, so it is measured: the table's receiver says
//! what taking a record in costs it, this side times its own updates and its own sending, and knows
//! how many records became one. Combining goes on while
//!
//! ```text
//!   update + (partials / records) * (send + receive)  <  send + receive
//! ```
//!
//! and is left off otherwise; after some time a table is filled again to see whether the keys have
//! changed.

use super::cost::{Cost, Meter};
use super::{Combine, KeyBy};
use crate::clock::Clock;
use crate::data::{Key, KeyColumn, Record};
use crate::error::Result;
use crate::exchange::Partial;
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, guard};
use crate::metrics::{HotKeys, Report};
use crate::plan::TaskContext;
use crate::state::{Drain, GroupTable};
use crate::stream::Chain;
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// The chain that ends in partial aggregates.
pub struct Combiner<C, G, A> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) keys: G,
    pub(super) aggregate: Arc<A>,
    /// What taking a partial aggregate in costs the receivers.
    pub(super) receive: Cost,
}

impl<C, G, A> Chain for Combiner<C, G, A>
where
    C: Chain,
    G: KeyBy<C::Item>,
    A: Combine<G::Value>,
{
    type Item = Partial<G::Key, A::State>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<CombinePush<C::Item, C::Time, G, A, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let push = CombinePush {
            op: cx.op(self.op),
            keys: self.keys.clone(),
            aggregate: Arc::clone(&self.aggregate),
            table: GroupTable::new(),
            full: None,
            held: None,
            choice: Choice::new(self.receive.clone()),
            alone: Default::default(),
            hot: HotKeys::default(),
            emitted: 0,
            clock: cx.clock.clone(),
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// Bytes that the table may occupy: what stays in a core's second-level cache beside the rest.
const TABLE: usize = 1 << 20;
/// Records sent uncombined to learn what that costs.
const TRIAL: u64 = 1 << 16;
/// Records sent uncombined before a table is filled again to see whether the keys have changed;
/// doubled every time they have not.
const FIRST_PATIENCE: u64 = 1 << 20;
const LAST_PATIENCE: u64 = 1 << 26;

/// A combiner in a running task.
pub struct CombinePush<I, T, G, A, N>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    A: Combine<G::Value>,
{
    op: Op,
    keys: G,
    aggregate: Arc<A>,
    table: GroupTable<G::Key, A::State>,
    /// A table being sent on.
    full: Option<Drain<G::Key, A::State>>,
    /// An event that waits until all is sent on.
    held: Option<Event>,
    choice: Choice,
    /// Room for one key.
    alone: <G::Key as Key>::Column,
    hot: HotKeys,
    emitted: u64,
    clock: Clock,
    next: N,
    types: PhantomData<fn(&I, T)>,
}

/// Whether to combine, and what is known about it.
struct Choice {
    combining: bool,
    /// Records since the mode was entered or the table was begun.
    records: u64,
    /// Records to send uncombined before the next decision.
    left: u64,
    patience: u64,
    /// The share of records that became partial aggregates when a table was last filled.
    kept: f64,
    /// Whether this is a trial to learn what sending uncombined costs.
    trial: bool,
    combined: Meter,
    uncombined: Meter,
    send: Meter,
    receive: Cost,
}

impl Choice {
    fn new(receive: Cost) -> Self {
        Self {
            combining: true,
            records: 0,
            left: 0,
            patience: FIRST_PATIENCE,
            kept: 0.0,
            trial: false,
            combined: Meter::default(),
            uncombined: Meter::default(),
            send: Meter::default(),
            receive,
        }
    }

    /// A table has been filled by `records` records of `keys` keys.
    fn filled(&mut self, keys: usize) {
        self.kept = keys as f64 / self.records.max(1) as f64;
        self.records = 0;
        if self.kept <= 0.125 {
            return; // Seven records in eight vanish: nothing that could be sent costs less.
        }
        if self.uncombined.per_record().is_none() {
            self.combining = false;
            self.trial = true;
            self.left = TRIAL;
        } else {
            self.decide();
        }
    }

    /// As many records were sent uncombined as was decided.
    fn passed(&mut self) {
        if self.trial {
            self.trial = false;
            self.decide();
        } else {
            self.combining = true;
            self.records = 0;
        }
    }

    fn decide(&mut self) {
        let send = self.send.per_record().unwrap_or(0.0);
        let receive = self.receive.get().unwrap_or(send);
        let combined = self.combined.per_record().unwrap_or(0.0) + self.kept * (send + receive);
        let uncombined = self.uncombined.per_record().unwrap_or(0.0) + receive;
        // Without costs, under a clock that stands still, the share alone decides.
        self.combining = if uncombined > 0.0 { combined < uncombined } else { self.kept < 0.5 };
        self.records = 0;
        if self.combining {
            self.patience = FIRST_PATIENCE;
        } else {
            self.left = self.patience;
            self.patience = (self.patience * 2).min(LAST_PATIENCE);
        }
    }

    fn meter(&mut self) -> &mut Meter {
        if self.combining { &mut self.combined } else { &mut self.uncombined }
    }
}

impl<I, T, G, A, N> CombinePush<I, T, G, A, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    A: Combine<G::Value>,
    N: Push<Partial<G::Key, A::State>, T>,
{
    /// The table is full: sets it aside to be sent on, and begins another.
    #[cold]
    #[inline(never)]
    fn set_aside(&mut self) {
        // Two tables in one batch are rare; the first must go, whatever the receivers' credit.
        self.send_on(usize::MAX);
        self.choice.filled(self.table.len());
        self.full = Some(std::mem::take(&mut self.table).into_drain());
    }

    /// Sends up to `most` partial aggregates of the table set aside; answers whether any is left.
    fn send_on(&mut self, most: usize) -> bool {
        let Some(full) = &mut self.full else { return false };
        for _ in 0..most {
            let next = &mut self.next;
            let sent = full.for_next(|key, state| {
                next.push((G::Key::hash(key.probe()), key, state), T::LAST);
            });
            if sent.is_none() {
                if let Some(empty) = self.full.take()
                    && self.table.is_empty()
                {
                    self.table = empty.into_table();
                }
                return false;
            }
            self.emitted += 1;
        }
        true
    }
}

impl<I, T, G, A, N> Push<I, T> for CombinePush<I, T, G, A, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    A: Combine<G::Value>,
    N: Push<Partial<G::Key, A::State>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        let Self { op, keys, aggregate, table, choice, alone, hot, next, emitted, .. } = self;
        choice.records += 1;
        if choice.combining {
            guard(op, || {
                let key = keys.key(&item);
                let hash = keys.hash(&item);
                hot.see(hash, || format!("{key:?}"));
                let state = table.upsert(hash, key.probe(), key, || aggregate.start());
                aggregate.update(state, keys.value(item));
            });
            if table.is_full() && table.bytes_if_grown() > TABLE {
                self.set_aside();
            }
        } else {
            let (hash, state) = guard(op, || {
                let key = keys.key(&item);
                let hash = keys.hash(&item);
                hot.see(hash, || format!("{key:?}"));
                // The value may be the record that the key is borrowed from.
                alone.push(key);
                let mut state = aggregate.start();
                aggregate.update(&mut state, keys.value(item));
                (hash, state)
            });
            *emitted += 1;
            next.push((hash, alone.get(0), state), T::LAST);
            alone.clear();
            choice.left -= 1;
            if choice.left == 0 {
                choice.passed();
            }
        }
    }
}

impl<I, T, G, A, N> Pipe for CombinePush<I, T, G, A, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    A: Combine<G::Value>,
    N: Push<Partial<G::Key, A::State>, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    /// What is combined belongs before every event.
    fn event(&mut self, event: Event) {
        self.held = Some(event);
    }

    fn resume(&mut self) -> Flow {
        let now = self.clock.now();
        let records = self.choice.records;
        self.choice.meter().stop(now, records);
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            let (began, before) = (self.clock.now(), self.emitted);
            if self.send_on(CHUNK) {
                let (took, sent) = (self.clock.now() - began, self.emitted - before);
                self.choice.send.add(took, sent);
                return Flow::Busy;
            }
            let Some(event) = self.held else { break };
            if self.table.is_empty() {
                self.held = None;
                self.next.event(event);
            } else {
                self.full = Some(std::mem::take(&mut self.table).into_drain());
            }
        }
        let (now, records) = (self.clock.now(), self.choice.records);
        self.choice.meter().start(now, records);
        Flow::Ready
    }

    fn is_full(&mut self) -> bool {
        self.next.is_full()
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        report.hot(self.op.id(), &self.hot);
        self.next.report(report);
    }
}
