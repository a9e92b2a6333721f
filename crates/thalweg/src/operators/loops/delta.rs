//! Delta iterations: loops that improve a solution in place, one value per key, and continue with the changes.
//!
//! ```text
//!   initial entries ──> head ──> body ──> tail, which offers candidates to the solution
//!                        ^                 │
//!                        └── entries that ─┘
//!                            have changed
//! ```
//!
//! The solution is in the tail, in as many parts as there are tasks that own keys. The head makes it from the
//! initial entries, hands it over before the first round, and takes it back when the loop is over.

use super::control::Needs;
use super::feedback::{Eater, FED_BACK, Feedback, Feeder, Leaving};
use super::feeding::Iterating;
use super::head::{Input, Looped};
use super::shared::Shared;
use super::solution::{Entries, Handed, Solution};
use super::stored_solution::StoredSolution;
use super::tail::Feed;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Data, Key, Record, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{CHUNK, Event, Op, Push, guard};
use crate::operators::keyed::{FirstOf, KeyBy, KeyedStream, Partitioned, Placed};
use crate::plan::{Origin, TaskContext, TieKind};
use crate::stream::{Chain, Received};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// A stream of keys and values, in the tasks that own the keys.
type Entry<C> = KeyedStream<C, FirstOf, Partitioned>;
/// The output of the loop: the solution.
type Solved<K, V, T> = Entry<Received<(K, V), T>>;
/// The chain of the initial entries, each in the task that owns its key.
type PartitionedChain<C, G, P> = <P as Placed>::PartitionedChain<C, G>;
/// The keys of that chain.
type Keys<C, G, P> = <P as Placed>::Keys<C, G>;
/// The input of the loop's head.
type Improved<C, G, P, K, V, F> = Improving<
    <PartitionedChain<C, G, P> as Chain>::Item,
    Keys<C, G, P>,
    K,
    V,
    <C as Chain>::Time,
    F,
>;
/// The feed of the loop's tail, where the body ends in `B`.
type Offered<B, H, Q, K, V, F> = Offering<
    <PartitionedChain<B, H, Q> as Chain>::Item,
    Keys<B, H, Q>,
    K,
    V,
    <B as Chain>::Time,
    F,
>;
type Make<X, L> = Box<dyn Fn(&TaskContext<'_>, usize) -> Result<(X, L)> + Send>;

/// The chain of a body that gets the entries that have changed.
pub type Changed<C, G, P, K, V, F, S> = Looped<
    PartitionedChain<C, G, P>,
    S,
    Improved<C, G, P, K, V, F>,
    Make<Improved<C, G, P, K, V, F>, Leaving<(K, V), <C as Chain>::Time>>,
>;

impl<C, G, P, K, V> KeyedStream<C, G, P>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Key = K, Value = V>,
    P: Placed,
    K: Data + Key<Owned = K> + Eq + Clone,
    V: Data + Clone,
{
    /// Improves a solution in place, one value per key, until it no longer changes: the cost of a round
    /// depends on the changes of the previous one, however many keys there are.
    ///
    /// The solution is initialised with the records of this stream, and the first round gets all of it. In each
    /// round, `body` gets the entries that have changed and makes candidates of them. For each candidate,
    /// `improve` merges it into the value of its key, and returns whether the value has changed. A key that is
    /// not yet in the solution takes the candidate as its value. The next round gets the entries that have
    /// changed, each once and with its latest value; the loop ends when there are none, or after the maximum
    /// number of rounds. Candidates of a round may arrive in any order, so `improve` must not depend on it if
    /// the solution is to be the same: minimum, maximum and union do not.
    ///
    /// The rules for `body` are those of [`replay`](crate::Stream::replay); it can also read a state that
    /// changes from round to round. Where all records go through the body in each round, see
    /// [`iterate`](crate::Stream::iterate). Many candidates for few keys are better combined at the end of the
    /// body, for example by [`min`](KeyedStream::min).
    ///
    /// Memory: keys, twice, and values are kept in memory or, beyond the budget, on disk, where each candidate for a key that
    /// is not in memory costs a read. The changes of a round wait for the next one in memory or on disk.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// // The smallest number of the numbers that each number is connected with.
    /// let env = Environment::new();
    /// let edges = env.iter([(1, 2), (2, 3), (5, 4)]).flat_map(|(a, b)| [(a, b), (b, a)]);
    /// let [nodes, edges] = edges.split();
    /// let (outcome, components) = nodes
    ///     .map(|(node, _)| (node, node))
    ///     .keyed()
    ///     .delta_iterate(
    ///         100,
    ///         (),
    ///         |smallest, other| other < std::mem::replace(smallest, other.min(*smallest)),
    ///         |changed, _| {
    ///             let next = changed.join(edges.keyed()).unkey();
    ///             next.map(|(_, (smallest, neighbour))| (neighbour, smallest)).keyed()
    ///         },
    ///     )
    ///     .all_rounds();
    /// let out = components.unkey().sorted().collect::<Vec<_>>();
    /// let rounds = outcome.map(|outcome| outcome.rounds).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4)]);
    /// assert_eq!(rounds.take()?, [3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the stream does not end, or with 0 rounds, the job is refused at its start. A single value that does not fit into
    /// memory stops the job.
    #[doc(alias = "semi_naive")]
    #[doc(alias = "iterate_delta")]
    #[track_caller]
    pub fn delta_iterate<S, F, B, H, Q>(
        self,
        rounds: u64,
        state: S,
        improve: F,
        body: impl FnOnce(Entry<Changed<C, G, P, K, V, F, S>>, &Shared<S>) -> KeyedStream<B, H, Q>,
    ) -> Iterating<PartitionedChain<B, H, Q>, S, Offered<B, H, Q, K, V, F>, Solved<K, V, C::Time>>
    where
        S: Data + Clone + Sync,
        F: Fn(&mut V, V) -> bool + Send + Sync + 'static,
        B: Chain<Item: Wire, Time = C::Time>,
        H: KeyBy<B::Item, Key = K, Value = V>,
        Q: Placed,
    {
        let origin = Origin::here("delta_iterate");
        let (initial, keys) = P::partitioned(self, origin).into_parts();
        let tasks = initial.tasks();
        let improve = Arc::new(improve);
        let feedback = Feedback::new(tasks);
        let handed: Arc<[_]> = (0..tasks).map(|_| Handed::default()).collect();
        let (edge, rest) = initial.begin_side_output::<(K, V)>(origin);

        let (improving, fed, hands) = (Arc::clone(&improve), feedback.clone(), Arc::clone(&handed));
        let make: Make<_, _> = Box::new(move |cx: &TaskContext<'_>, op| {
            let saved = cx.state::<(K, V, bool)>(op, "solution", Redistribution::ByKey);
            let stored = Box::new(StoredSolution::new(cx, op)?);
            let mut solution = Solution::new(cx.keyed(op), saved.is_on(), Some(stored));
            saved.restore(|(key, value, is_next)| solution.restore(key, value, is_next))?;
            let input = Improving {
                op: cx.op(op),
                keys: keys.clone(),
                improve: Arc::clone(&improving),
                solution,
                saved,
                complete: false,
                hands: Arc::clone(&hands),
                task: cx.task,
                feeder: fed.own_feeder(cx),
                eater: fed.eater(cx, op)?,
                leaving: None,
                written: 0,
                types: PhantomData,
            };
            Ok((input, Leaving::by(&edge, cx, op)))
        });
        let (head, control, outcome) =
            initial.looped(origin, rounds, (state, Needs::Records), make);
        let head = head.tied(TieKind::Feedback).tied(TieKind::Solution).with_fixed_tasks(FED_BACK);
        let head = KeyedStream::from_parts(head, FirstOf);
        let body = body(head, &Shared(Arc::clone(&control)));
        control.end_body();
        let (body, keys) = Q::partitioned(body, origin).into_parts();
        let body = body.with_fixed_tasks(FED_BACK);
        if body.tasks() != tasks {
            let what =
                "the keys of a delta iteration have other tasks at its end than at its beginning";
            body.refuse(Error::new(ErrorKind::Internal, what));
        }
        let feed = Box::new(move |cx: &TaskContext<'_>, op| {
            Ok(Offering {
                keys: keys.clone(),
                improve: Arc::clone(&improve),
                solution: None,
                early: Vec::new(),
                hands: Arc::clone(&handed),
                task: cx.task,
                feeder: feedback.feeder(cx, op)?,
                saved: cx.has_checkpoints(),
                types: PhantomData,
            })
        });
        let rest = KeyedStream::from_parts(rest, FirstOf);
        Iterating { body, control, feed, outcome, rest, origin }
    }
}

/// Makes the solution of the initial entries, and passes the changed entries to each round.
pub struct Improving<I: ?Sized, G, K: Data + Key, V: Data, T: Time, F> {
    op: Op,
    keys: G,
    improve: Arc<F>,
    /// The solution while it is made.
    solution: Solution<K, V>,
    /// Its entries, wherever it is.
    saved: StateHandle,
    /// Whether the solution was handed over.
    complete: bool,
    hands: Arc<[Handed<Solution<K, V>>]>,
    task: usize,
    feeder: Feeder<(K, V), T>,
    eater: Eater<(K, V), T>,
    /// The entries of the solution, once the loop is over.
    leaving: Option<Entries<K, V>>,
    /// The bytes of the solution that were written to disk when it was here last.
    written: u64,
    types: PhantomData<fn(&I)>,
}

impl<I, G, K, V, T, F> Input<I, T> for Improving<I, G, K, V, T, F>
where
    I: Record + ?Sized,
    G: KeyBy<I, Key = K, Value = V>,
    K: Data + Key<Owned = K> + Eq + Clone,
    V: Data + Clone,
    T: Time,
    F: Fn(&mut V, V) -> bool + Send + Sync + 'static,
{
    type Out = (K, V);
    type Left = Leaving<(K, V), T>;

    const AT_ONCE: bool = false;
    const AFTER_ALL: bool = true;

    #[inline(always)]
    fn take<N: Push<(K, V), T>>(&mut self, item: I::Of<'_>, _: T, _: &mut N) -> Result<()> {
        let Self { op, keys, improve, solution, .. } = self;
        guard(op, || solution.take(keys, item, &**improve))
    }

    fn complete(&mut self) -> Result<()> {
        let next = self.solution.another();
        let mut solution = std::mem::replace(&mut self.solution, next);
        solution.take_changed(|entry| self.feeder.feed(entry, T::LAST))?;
        self.feeder.close()?;
        self.hands[self.task].put(solution);
        self.complete = true;
        Ok(())
    }

    fn tend(&mut self) -> Result<()> {
        self.solution.tend()?;
        self.hands[self.task].see(|solution| solution.map_or(Ok(()), Solution::tend))
    }

    fn save(&mut self, event: Event) -> Result<()> {
        let Self { solution, saved, complete, hands, task, .. } = self;
        saved.try_save(event, |out| match *complete {
            _ if event == Event::End => Ok(()),
            false => solution.save(event, out),
            true => hands[*task].see(|solution| match solution {
                Some(solution) => solution.save(event, out),
                None => {
                    out.refuse("a round of its loop has begun");
                    Ok(())
                }
            }),
        })
    }

    fn begin(&mut self) -> Result<()> {
        self.eater.take_over()
    }

    fn give<N: Push<(K, V), T>>(&mut self, next: &mut N) -> Result<bool> {
        self.eater.show(|entry, time| next.push(entry, time))
    }

    fn leave(&mut self, left: &mut Self::Left) -> Result<bool> {
        if self.leaving.is_none() {
            self.leaving = Some(self.hands[self.task].take()?.into_entries());
        }
        let Some(entries) = &mut self.leaving else { return Ok(false) };
        entries.give(CHUNK, |entry| left.push(entry, T::LAST))
    }

    fn restart(&mut self) {
        // Where the output of the loop is closed, they have not been taken.
        let unwanted = || self.hands[self.task].try_take().map(Solution::into_entries);
        if let Some(entries) = self.leaving.take().or_else(unwanted) {
            self.solution.reuse(entries);
        }
        self.complete = false;
        self.eater.clear();
    }

    fn written(&mut self) -> u64 {
        let handed = self.hands[self.task].see(|solution| solution.map_or(0, |all| all.written()));
        let leaving = self.leaving.as_ref().map_or(0, Entries::written);
        let here = self.solution.written().max(handed).max(leaving);
        self.written = self.written.max(here);
        self.written
    }
}

/// Offers the records that leave a body to the solution.
pub struct Offering<I: ?Sized, G, K: Data + Key, V: Data, T: Time, F> {
    keys: G,
    improve: Arc<F>,
    /// Set within a round, once a record has arrived.
    solution: Option<Solution<K, V>>,
    /// Records from outside the loop, merged into its body, that have arrived before the solution was complete.
    early: Vec<(K, V)>,
    hands: Arc<[Handed<Solution<K, V>>]>,
    task: usize,
    feeder: Feeder<(K, V), T>,
    /// Whether the job has checkpoints.
    saved: bool,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, G, K, V, T, F> Offering<I, G, K, V, T, F>
where
    K: Data + Key<Owned = K> + Eq + Clone,
    V: Data + Clone,
    T: Time,
    F: Fn(&mut V, V) -> bool,
{
    /// Begins the round with the solution, which gets what has arrived early.
    fn begin(&mut self, mut solution: Solution<K, V>) -> Result<()> {
        for entry in self.early.drain(..) {
            solution.take::<(K, V), _>(&FirstOf, entry, &*self.improve)?;
        }
        self.early = Vec::new();
        self.solution = Some(solution);
        Ok(())
    }
}

impl<I, G, K, V, T, F> Feed<I, T> for Offering<I, G, K, V, T, F>
where
    I: Record + ?Sized,
    G: KeyBy<I, Key = K, Value = V>,
    K: Data + Key<Owned = K> + Eq + Clone,
    V: Data + Clone,
    T: Time,
    F: Fn(&mut V, V) -> bool + Send + Sync + 'static,
{
    type Seen = (K, V);

    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T, _: impl FnMut(&(K, V))) -> Result<()> {
        if self.solution.is_none()
            && let Some(solution) = self.hands[self.task].try_take()
        {
            self.begin(solution)?;
        }
        match &mut self.solution {
            Some(solution) => solution.take(&self.keys, item, &*self.improve),
            None => {
                self.early.push((self.keys.key(&item).clone(), self.keys.value(item)));
                Ok(())
            }
        }
    }

    fn tend(&mut self) -> Result<()> {
        self.solution.as_mut().map_or(Ok(()), Solution::tend)
    }

    fn finish(&mut self, mut see: impl FnMut(&(K, V))) -> Result<u64> {
        // Also where nothing has arrived: then none of its entries belong to the next round.
        if self.solution.is_none() && (self.saved || !self.early.is_empty()) {
            let solution = self.hands[self.task].take()?;
            self.begin(solution)?;
        }
        let Some(mut solution) = self.solution.take() else { return Ok(0) };
        solution.take_changed(|entry| {
            see(&entry);
            self.feeder.feed(entry, T::LAST)
        })?;
        self.hands[self.task].put(solution);
        self.feeder.close()
    }
}
