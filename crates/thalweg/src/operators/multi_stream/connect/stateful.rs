//! A map with a state per key, beside the state that all keys share.

use super::keyed::InBeside;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Data, Key, Portable, Record};
use crate::error::Result;
use crate::flow::{Event, Flow, Op, Pipe, Push, guard};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::operators::keyed::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::operators::loops::Beside;
use crate::plan::{Origin, Scope, TaskContext};
use crate::state::{GroupTable, HeapEstimate};
use crate::stream::Chain;
use crate::time::Time;
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// Bytes of a table that may be used even if the budget is exhausted.
const ALWAYS: usize = 16 << 10;

impl<C, I, S, G> KeyedStream<C, InBeside<G>, Partitioned>
where
    C: Chain<Item = Beside<I, S>>,
    I: Record + ?Sized,
    S: Sync + 'static,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key> + Key>>,
{
    /// Makes one value of each value, of the state of its key, which is a clone of `init` at first, and of the
    /// shared state that it is paired with: [`stateful_map`](Self::stateful_map) for a stream that was
    /// [connected](Self::connect). The result is a stream with the same keys.
    ///
    /// The arguments of the closure are the key, the key's state, the value, and the shared state. Where not
    /// every record has a result, return an `Option`.
    ///
    /// Memory: the state of each key, for as long as the job runs. It is declared: the plan shows it.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use thalweg::Environment;
    ///
    /// // Emits by how much an account has exceeded its limit.
    /// let env = Environment::new();
    /// let limits = env.iter([("bob".to_owned(), 7u64)]);
    /// let payments = [("ann", 5), ("bob", 5), ("ann", 6), ("bob", 6)];
    /// let payments = env.iter(payments.map(|(name, amount)| (name.to_owned(), amount))).keyed();
    /// let alerts = payments
    ///     .connect_after(limits, BTreeMap::new(), |all, (name, limit)| _ = all.insert(name, limit))
    ///     .stateful_map_with(0, |name, spent, amount: u64, limits| {
    ///         *spent += amount;
    ///         let limit = limits.get(name).copied().unwrap_or(10);
    ///         (*spent > limit).then(|| *spent - limit)
    ///     })
    ///     .unkey()
    ///     .filter_map(|(name, over)| Some((name, over?)));
    /// let out = alerts.collect::<BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [("ann".to_owned(), 1), ("bob".to_owned(), 4)].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The job stops when the memory budget does not hold the keys and states, with what they own on the heap.
    #[track_caller]
    pub fn stateful_map_with<V, O, F>(
        self,
        init: V,
        f: F,
    ) -> KeyedStream<StatefulWith<C, I, S, G, V, O, F>, FirstOf, Partitioned>
    where
        V: Data + Clone + Sync,
        O: 'static,
        F: for<'a, 'k> Fn(&'k G::Key, &mut V, <G::Value as Record>::Of<'a>, &'a S) -> O
            + Send
            + Sync
            + 'static,
    {
        let origin = Origin::here("stateful_map_with");
        let (stream, InBeside(keys)) = self.into_parts();
        let with = Arc::new((init, f));
        let stream = stream.then(origin, |prev, op| StatefulWith {
            prev,
            op,
            keys,
            with,
            types: PhantomData,
        });
        KeyedStream::from_parts(stream.with_state::<V>(Scope::key::<G::Key>()), FirstOf)
    }
}

/// The chain that ends in a map with a state per key and a shared state.
pub struct StatefulWith<C, I: ?Sized, S, G, V, O, F> {
    prev: C,
    op: usize,
    keys: G,
    with: Arc<(V, F)>,
    types: PhantomData<(fn(&I), fn(&S) -> O)>,
}

impl<C, I, S, G, V, O, F> Chain for StatefulWith<C, I, S, G, V, O, F>
where
    C: Chain<Item = Beside<I, S>>,
    I: Record + ?Sized,
    S: Sync + 'static,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    V: Data + Clone + Sync,
    O: 'static,
    F: for<'a, 'k> Fn(&'k G::Key, &mut V, <G::Value as Record>::Of<'a>, &'a S) -> O
        + Send
        + Sync
        + 'static,
{
    type Item = (<G::Key as Portable>::Owned, O);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<StatefulWithPush<I, S, G, V, O, F, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        type Saved<K, V> = (<K as Portable>::Owned, V);
        let saved = cx.state::<Saved<G::Key, V>>(self.op, "table", Redistribution::ByKey);
        let mut table = GroupTable::<G::Key, V>::new();
        let mut weighed = HeapEstimate::new();
        saved.restore(|(key, state): Saved<G::Key, V>| {
            weighed.comes(&state);
            let key = key.borrow();
            table.upsert(G::Key::hash(key.probe()), key.probe(), key, || state);
            Ok(())
        })?;
        let push = StatefulWithPush {
            op: cx.op(self.op),
            keys: self.keys.clone(),
            with: Arc::clone(&self.with),
            table,
            saved,
            weighed,
            memory: cx.fixed(self.op),
            failed: false,
            emitted: 0,
            seen: 0,
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// The states of a running task.
pub struct StatefulWithPush<I: ?Sized, S, G: KeyBy<I>, V, O, F, N>
where
    I: Record,
{
    op: Op,
    keys: G,
    with: Arc<(V, F)>,
    table: GroupTable<G::Key, V>,
    saved: StateHandle,
    /// The heap bytes of the states.
    weighed: HeapEstimate<V>,
    memory: Reservation,
    failed: bool,
    emitted: u64,
    /// Keys of the previous rounds.
    seen: u64,
    next: N,
    types: PhantomData<(fn(&I), fn(&S) -> O)>,
}

impl<I, S, G, V, O, F, N> StatefulWithPush<I, S, G, V, O, F, N>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
{
    /// Whether the table may take so many bytes.
    fn may_take(&mut self, bytes: usize) -> bool {
        if bytes <= ALWAYS.max(self.memory.bytes()) || self.memory.try_resize(bytes) {
            return true;
        }
        if !self.failed {
            self.failed = true;
            let what = format!(
                "the {} keys of one of its tasks are more than the memory budget of {} bytes lets it remember, with what is \
                 remembered for them, which does not go to disk; less for each key, or coarser keys, need less",
                self.table.len(),
                self.memory.pool().limit(),
            );
            self.op.fail(self.memory.refused(what));
        }
        false
    }
}

impl<I, S, G, V, O, F, N> Pipe for StatefulWithPush<I, S, G, V, O, F, N>
where
    I: Record + ?Sized,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    V: Data + Sync,
    F: Send + Sync,
    N: Pipe,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.saved.save(event, |out| {
            if event == Event::End {
                return;
            }
            self.table.for_each(|key, state| {
                out.add_by_key(G::Key::hash(key.probe()), |bytes| {
                    key.own().encode(bytes);
                    state.encode(bytes);
                });
            });
        });
        if matches!(event, Event::Round(_)) {
            self.seen += self.table.len() as u64;
            self.table = GroupTable::new();
            self.weighed = HeapEstimate::new();
            let _ = self.memory.try_resize(0);
        }
        self.next.event(event);
    }

    fn resume(&mut self) -> Flow {
        if self.weighed.is_due(|| self.table.len()) {
            self.weighed.weigh(self.table.values().map(Data::heap_size));
        }
        // The heap bytes of long keys and of states grow independently of the slots.
        let used = self.table.bytes() + self.weighed.bytes();
        self.may_take(used);
        self.next.resume()
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.emitted);
        report.keys(op, self.seen + self.table.len() as u64);
        self.next.report(report);
    }
}

impl<I, S, G, V, O, T, F, N> Push<Beside<I, S>, T> for StatefulWithPush<I, S, G, V, O, F, N>
where
    I: Record + ?Sized,
    S: Sync + 'static,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    V: Data + Clone + Sync,
    O: 'static,
    T: Time,
    F: for<'a, 'k> Fn(&'k G::Key, &mut V, <G::Value as Record>::Of<'a>, &'a S) -> O + Send + Sync,
    N: Push<(<G::Key as Portable>::Owned, O), T>,
{
    #[inline(always)]
    fn push(&mut self, (item, state): <Beside<I, S> as Record>::Of<'_>, time: T) {
        if self.table.is_full() {
            let grown = self.table.bytes_if_grown() + self.weighed.bytes();
            if !self.may_take(grown) {
                return;
            }
        }
        self.weighed.changed();
        let Self { op, keys, with, table, emitted, next, .. } = self;
        let (init, f) = &**with;
        let made = guard(op, || {
            let key = keys.key(&item);
            let own = key.own();
            let value = table.upsert(keys.hash(&item), key.probe(), key, || init.clone());
            let made = f(own.borrow(), value, keys.value(item), state);
            (own, made)
        });
        *emitted += 1;
        next.push(made, time);
    }
}
