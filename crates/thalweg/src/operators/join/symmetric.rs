//! Symmetric inner joins of two streams, neither of which needs to end: each record is looked up in what has
//! arrived on the other side, and kept for later records of that side.
//!
//! ```text
//!   a batch ──> kept in the table of its side ──> looked up in the table of the other
//!                    │ no memory, now and for ever
//!                    v
//!               waits ──> tables are moved to records by key ──> looked up, then kept, by key
//! ```
//!
//! Records by key go to disk one key at a time (see [`symmetric_side`](super::symmetric_side)). A record that waits is looked
//! up in the records of its key on the other side, for as many results as there is room for at a time, and is kept when it
//! has no more of them. So each pair is made once, by the record that is processed second. When a side has ended, what was
//! kept for it is released.

use super::hash::Probes;
use super::inputs::Inputs;
use super::kinds::{KeepLeft, KeepRight, Kind};
use super::symmetric_side::Side;
use super::tagged::Either;
use crate::data::{Data, Key};
use crate::error::Result;
use crate::exchange::{Hashed, PairInlet};
use crate::fault::{Fault, is_planted};
use crate::flow::{Event, Flow, Op, Pipe, Push, PushTwo, guard, pump};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::stream::Chain;
use crate::time::Time;
use std::collections::VecDeque;
use std::marker::PhantomData;

/// Results that are emitted at a time for a record that waits.
const MOST: usize = 64;

/// The first chain of a stage in which the records of each side are looked up in the other.
pub struct SymmetricJoined<K: Data, L: Data, R: Data, T: Time, X> {
    pub(super) inputs: Inputs<K, L, R, T>,
    pub(super) op: usize,
    /// A kind that makes only pairs.
    pub(super) kind: PhantomData<fn() -> X>,
}

impl<K, L, R, T, X> Chain for SymmetricJoined<K, L, R, T, X>
where
    K: Data + Key<Owned = K> + Eq + Clone,
    L: Data + Clone,
    R: Data + Clone,
    T: Time,
    X: Kind<L, R>,
{
    type Item = (K, X::Out);
    type Time = T;
    type Task<N: Push<Self::Item, T> + 'static> =
        PairInlet<Hashed<(K, L)>, Hashed<(K, R)>, T, SymmetricPush<K, L, R, T, X, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, T> + 'static,
    {
        self.inputs.refuse_in_loops(cx, self.op)?;
        let mut push = SymmetricPush {
            op: cx.op(self.op),
            lefts: Side::new(cx, self.op, ("left rows", "left keys"))?,
            rights: Side::new(cx, self.op, ("right rows", "right keys"))?,
            left: Probes::new(),
            right: Probes::new(),
            ways: (Way::Kept, Way::Kept),
            ended: (false, false),
            waiting: VecDeque::new(),
            at: 0,
            failed: false,
            emitted: 0,
            next,
            kind: PhantomData,
        };
        push.restore()?;
        Ok(self.inputs.inlet(cx, push))
    }
}

/// What becomes of the records of a side that arrive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They are kept in the table of their side, and looked up in that of the other.
    Kept,
    /// They are looked up in the table of the other side, which has ended.
    LookedUp,
    /// They wait, and are processed by key: there is no memory for tables. The way of both sides then, for ever.
    Waiting,
}

/// A record of either side, with its key's hash.
type Arrival<K, L, R, T> = (u64, K, Either<L, R>, T);

/// A symmetric join in a running task.
pub struct SymmetricPush<K: Key, L: Data, R: Data, T: Time, X, N> {
    op: Op,
    /// The left records so far, in which right ones are looked up.
    lefts: Side<K, L, T>,
    rights: Side<K, R, T>,
    /// The left records of the batch that is being looked up in a table.
    left: Probes<K, L, T>,
    right: Probes<K, R, T>,
    /// What becomes of left and of right records.
    ways: (Way, Way),
    ended: (bool, bool),
    /// Records that wait, at most those of a few batches.
    waiting: VecDeque<Arrival<K, L, R, T>>,
    /// The number of the next row that makes a result with the first of them.
    at: usize,
    failed: bool,
    emitted: u64,
    next: N,
    kind: PhantomData<fn() -> X>,
}

/// Emits some of the results that a record makes with the rows of its key from `at` on; returns whether it has no more.
fn emit<K, V, O, T, N>(
    (rows, at): (&[(V, T)], &mut usize),
    time: T,
    (emitted, next): (&mut u64, &mut N),
    make: impl Fn(&V) -> Option<(K, O)>,
) -> bool
where
    K: 'static,
    O: 'static,
    T: Time,
    N: Push<(K, O), T>,
{
    for (value, of_row) in rows.iter().skip(*at).take(MOST) {
        *at += 1;
        if let Some(made) = make(value) {
            *emitted += 1;
            next.push(made, time.max(*of_row));
            if next.is_full() {
                break;
            }
        }
    }
    *at >= rows.len()
}

impl<K, L, R, T, X, N> SymmetricPush<K, L, R, T, X, N>
where
    K: Data + Key<Owned = K> + Eq + Clone,
    L: Data + Clone,
    R: Data + Clone,
    T: Time,
    X: Kind<L, R>,
    N: Push<(K, X::Out), T>,
{
    /// Begins with what is in the checkpoint, if the job goes on from one: with tables, unless one of its tasks had records by
    /// key that are now of this task.
    fn restore(&mut self) -> Result<()> {
        let mut beyond = self.lefts.has_keys() || self.rights.has_keys();
        self.lefts.restore(&mut beyond)?;
        self.rights.restore(&mut beyond)?;
        if beyond {
            self.ways = (Way::Waiting, Way::Waiting);
            while self.moves_rows() {}
        }
        self.lefts.check()?;
        self.rights.check()
    }

    fn moves_rows(&mut self) -> bool {
        let more = [self.lefts.moves_rows(), self.rights.moves_rows()];
        more.contains(&true)
    }

    /// There is no memory for a record in the table of its side, or all records wait already.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, record: Arrival<K, L, R, T>) {
        if self.failed {
            return;
        }
        if self.ways.0 != Way::Waiting && self.lefts.stays_in_memory() {
            self.failed = true;
            return self.op.fail(self.lefts.kept_in_memory());
        }
        self.ways = (Way::Waiting, Way::Waiting);
        self.waiting.push_back(record);
    }

    /// Whether tables should give way to state that has to stay in memory.
    fn gives_way(&self) -> bool {
        let is_short = self.lefts.is_over_budget() || self.rights.is_over_budget();
        // In tests there is no memory from the beginning.
        is_short || is_planted(Fault::HasNoRoom) && !self.lefts.stays_in_memory()
    }

    /// Moves what is in tables, and processes the records that wait.
    #[cold]
    #[inline(never)]
    fn resume_by_key(&mut self) -> Flow {
        if self.next.is_closed() || self.lefts.has_failed() || self.rights.has_failed() {
            self.waiting.clear();
            self.at = 0;
            return self.next.resume();
        }
        if self.moves_rows() {
            return Flow::Busy;
        }
        self.lefts.settle();
        self.rights.settle();
        let Self { op, lefts, rights, ended, waiting, at, emitted, next, .. } = self;
        let op = &*op;
        pump(next, |next| {
            let Some((hash, key, value, time)) = waiting.front() else { return false };
            let results = (&mut *emitted, next);
            let is_done = match value {
                Either::Left(left) => {
                    let rows = rights.rows_of(*hash, key);
                    emit((rows, &mut *at), *time, results, |right| {
                        guard(op, || Some((key.clone(), X::row(Some(left), Some(right))?)))
                    })
                }
                Either::Right(right) => {
                    let rows = lefts.rows_of(*hash, key);
                    emit((rows, &mut *at), *time, results, |left| {
                        guard(op, || Some((key.clone(), X::row(Some(left), Some(right))?)))
                    })
                }
            };
            if is_done {
                *at = 0;
                match waiting.pop_front() {
                    Some((hash, key, Either::Left(left), time)) if !ended.1 => {
                        lefts.keep_by_key((hash, key, left, time));
                    }
                    Some((hash, key, Either::Right(right), time)) if !ended.0 => {
                        rights.keep_by_key((hash, key, right, time));
                    }
                    _ => {}
                }
            }
            true
        })
    }
}

impl<K, L, R, T, X, N> Pipe for SymmetricPush<K, L, R, T, X, N>
where
    K: Data + Key<Owned = K> + Eq + Clone,
    L: Data + Clone,
    R: Data + Clone,
    T: Time,
    X: Kind<L, R>,
    N: Push<(K, X::Out), T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.lefts.save(event);
        self.rights.save(event);
        if self.ways.0 == Way::Waiting {
            let passes = [self.lefts.pass(event), self.rights.pass(event)];
            // A job that has failed must not pass its end on, which would look like a regular one.
            if passes.contains(&false) {
                return;
            }
        }
        self.next.event(event);
    }

    fn resume(&mut self) -> Flow {
        let Self { op, lefts, rights, left, right, emitted, next, .. } = self;
        let flow = pump(next, |next| {
            let found = match left.next::<R, KeepRight<X>>(&mut rights.table, op, None, true) {
                Some(made) => Some(made),
                None => right.next::<L, KeepLeft<X>>(&mut lefts.table, op, None, true),
            };
            match found {
                Some((made, time)) => {
                    *emitted += 1;
                    next.push(made, time);
                    true
                }
                None => false,
            }
        });
        if flow != Flow::Ready {
            return flow;
        }
        if self.ways.0 != Way::Waiting {
            if !self.gives_way() {
                return flow;
            }
            self.ways = (Way::Waiting, Way::Waiting);
        }
        self.resume_by_key()
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        let (lefts, rights) = (self.lefts.counts(), self.rights.counts());
        report.emitted(op, self.emitted);
        report.kept(op, (lefts.0 + rights.0) as u64);
        report.keys(op, (lefts.1 + rights.1) as u64);
        report.spilled(op, lefts.2 + rights.2);
        self.next.report(report);
    }
}

impl<K, L, R, T, X, N> PushTwo<Hashed<(K, L)>, Hashed<(K, R)>, T>
    for SymmetricPush<K, L, R, T, X, N>
where
    K: Data + Key<Owned = K> + Eq + Clone,
    L: Data + Clone,
    R: Data + Clone,
    T: Time,
    X: Kind<L, R>,
    N: Push<(K, X::Out), T>,
{
    #[inline(always)]
    fn push_first(&mut self, (hash, (key, value)): (u64, (K, L)), time: T) {
        // A batch is of one side, and is looked up before the next one: a record finds those that arrived
        // before it.
        let goes_on = match self.ways.0 {
            Way::Kept => self.lefts.keep(&self.op, (hash, &key, &value, time)),
            Way::LookedUp => true,
            Way::Waiting => false,
        };
        if !goes_on {
            return self.wait((hash, key, Either::Left(value), time));
        }
        self.left.push((hash, key, value, time));
    }

    #[inline(always)]
    fn push_second(&mut self, (hash, (key, value)): (u64, (K, R)), time: T) {
        let goes_on = match self.ways.1 {
            Way::Kept => self.rights.keep(&self.op, (hash, &key, &value, time)),
            Way::LookedUp => true,
            Way::Waiting => false,
        };
        if !goes_on {
            return self.wait((hash, key, Either::Right(value), time));
        }
        self.right.push((hash, key, value, time));
    }

    fn first_ended(&mut self) {
        self.ended.0 = true;
        self.rights.reset();
        if self.ways.1 == Way::Kept {
            self.ways.1 = Way::LookedUp;
        }
    }

    fn second_ended(&mut self) {
        self.ended.1 = true;
        self.lefts.reset();
        if self.ways.0 == Way::Kept {
            self.ways.0 = Way::LookedUp;
        }
    }

    fn wants_second(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::check::check;

    /// Every pair of numbers below these ends that leave the same rest.
    fn pairs(lefts: u64, rights: u64, rests: u64) -> impl Iterator<Item = (u64, u64)> {
        let all = (0..lefts).flat_map(move |left| (0..rights).map(move |right| (left, right)));
        all.filter(move |(left, right)| left % rests == right % rests)
    }

    /// Also run without memory for tables: see `support::keyed_timers`.
    #[test]
    fn each_pair_is_made_once_whichever_comes_first() {
        check(|env| {
            let left = env.range(0..900u64).shuffle().group_by(|n| n % 70);
            let right = env.range(0..300u64).shuffle().group_by(|n| n % 70);
            left.join_with(right).symmetric().inner().unkey().map(|(_, pair)| pair)
        })
        .any_tasks()
        .must_restore()
        .equals(pairs(900, 300, 70));
    }

    #[cfg(not(miri))]
    #[test]
    fn records_beyond_memory_meet_on_disk() {
        let long = |n: u64| (n, "x".repeat(600));
        check(|env| {
            let left = env.range(0..450u64).map(long).group_by(|(n, _)| n % 150);
            let right = env.range(0..300u64).map(long).group_by(|(n, _)| n % 150);
            let joined = left.join_with(right).symmetric().inner().unkey();
            joined.map(|(_, ((left, _), (right, _)))| (left, right))
        })
        .any_tasks()
        .memory(1 << 14)
        .must_restore()
        .equals(pairs(450, 300, 150));
    }
}
