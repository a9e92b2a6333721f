//! A map with a state per key, beside the state that all keys share.

use super::keyed::InBeside;
use crate::data::{Data, Key, Portable, Record};
use crate::error::Result;
use crate::flow::{Event, Flow, Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::operators::keyed::{FirstOf, KeyBy, KeyedStream, Partitioned};
use crate::operators::loops::Beside;
use crate::plan::{Origin, Scope, TaskContext};
use crate::stream::Chain;
use crate::support::keyed_timers::{KeyedTimers, Remembered};
use crate::time::Time;
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// For messages: what is kept, and what would need less memory.
const WORDS: (&str, &str) =
    ("the states", "smaller states, as of a count in place of a list, or finer keys, need less");

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
    /// Memory: the state of each key, for as long as the job runs. It is declared: the plan shows it. Beyond the memory budget,
    /// keys go to disk with their states, and return with their next records.
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
    /// A single key whose state is larger than a quarter of the memory budget may fail the job.
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
        let states = KeyedTimers::without_time(cx, self.op, "table", WORDS)?;
        let push = StatefulWithPush {
            op: cx.op(self.op),
            keys: self.keys.clone(),
            with: Arc::clone(&self.with),
            states,
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
    V: Data,
{
    op: Op,
    keys: G,
    with: Arc<(V, F)>,
    states: KeyedTimers<G::Key, Remembered<V>>,
    emitted: u64,
    /// Keys of the previous rounds.
    seen: u64,
    next: N,
    types: PhantomData<(fn(&I), fn(&S) -> O)>,
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
        if matches!(event, Event::Round(_)) {
            self.seen += self.states.live() as u64;
        }
        if self.states.pass(event) {
            self.next.event(event);
        }
    }

    fn resume(&mut self) -> Flow {
        self.states.settle();
        self.next.resume()
    }

    fn save_part(&mut self) -> bool {
        let saves = self.states.save_part();
        self.next.save_part() || saves
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.emitted);
        report.keys(op, self.seen + self.states.live() as u64);
        report.spilled(op, self.states.spilled());
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
        let Self { op, keys, with, states, emitted, next, .. } = self;
        let (init, f) = &**with;
        let made = guard(op, || {
            let (hash, key) = (keys.hash(&item), keys.key(&item));
            let own = key.own();
            let mut visit = states.visit(hash, key, || Remembered(init.clone()))?;
            let made = f(own.borrow(), &mut visit.state().0, keys.value(item), state);
            visit.leave(hash);
            Some((own, made))
        });
        if let Some(made) = made {
            *emitted += 1;
            next.push(made, time);
        }
    }
}
