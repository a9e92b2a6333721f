//! Symmetric inner joins of two streams, neither of which needs to end: each record is looked up in what has
//! arrived on the other side, and kept for later records of that side.

use super::hash::{BuildTable, Probes, SavedRows};
use super::inputs::Inputs;
use super::kinds::{KeepLeft, KeepRight, Kind};
use crate::data::Data;
use crate::error::Result;
use crate::exchange::{Hashed, PairInlet};
use crate::flow::{Event, Flow, Op, Pipe, Push, PushTwo, guard, pump};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::stream::Chain;
use crate::time::Time;
use std::marker::PhantomData;

/// The first chain of a stage in which the records of each side are looked up in the other.
pub struct SymmetricJoined<K: Data, L: Data, R: Data, T: Time, X> {
    pub(super) inputs: Inputs<K, L, R, T>,
    pub(super) op: usize,
    /// A kind that makes only pairs.
    pub(super) kind: PhantomData<fn() -> X>,
}

impl<K, L, R, T, X> Chain for SymmetricJoined<K, L, R, T, X>
where
    K: Data + Eq + Clone,
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
        let saved = (
            SavedRows::new(cx, self.op, "left rows", self.inputs.everywhere().0),
            SavedRows::new(cx, self.op, "right rows", self.inputs.everywhere().1),
        );
        let mut lefts = BuildTable::new(cx.fixed(self.op));
        let mut rights = BuildTable::new(cx.fixed(self.op));
        saved.0.restore(|row, _| lefts.add(row))?;
        saved.1.restore(|row, _| rights.add(row))?;
        let push = SymmetricPush {
            op: cx.op(self.op),
            saved,
            lefts,
            rights,
            left: Probes::new(),
            right: Probes::new(),
            ended: (false, false),
            failed: false,
            emitted: 0,
            next,
            kind: PhantomData,
        };
        Ok(self.inputs.inlet(cx, push))
    }
}

/// Keeps a copy of a record for later records of the other side; returns whether there was room.
#[inline(always)]
fn keep<K, V, T>(
    op: &Op,
    kept: &mut BuildTable<K, V, T>,
    (hash, key, value, time): (u64, &K, &V, T),
) -> bool
where
    K: Data + Eq + Clone,
    V: Data + Clone,
    T: Time,
{
    if !kept.has_room() {
        return false;
    }
    let (key, value) = guard(op, || (key.clone(), value.clone()));
    kept.rows.insert(hash, key, (value, time));
    true
}

/// A symmetric join in a running task.
pub struct SymmetricPush<K, L, R, T, X, N> {
    op: Op,
    /// The left and the right records so far, in checkpoints.
    saved: (SavedRows<K, L, T>, SavedRows<K, R, T>),
    /// The left records so far, in which right ones are looked up.
    lefts: BuildTable<K, L, T>,
    rights: BuildTable<K, R, T>,
    /// The left records of the batch that is being looked up.
    left: Probes<K, L, T>,
    right: Probes<K, R, T>,
    ended: (bool, bool),
    failed: bool,
    emitted: u64,
    next: N,
    kind: PhantomData<fn() -> X>,
}

impl<K, L, R, T, X, N> SymmetricPush<K, L, R, T, X, N>
where
    K: Data + Eq + Clone,
    L: Data + Clone,
    R: Data + Clone,
    T: Time,
{
    #[cold]
    fn run_out(&mut self) {
        if std::mem::replace(&mut self.failed, true) {
            return;
        }
        let what = format!(
            "the {} records of the left stream and {} of the right one that one of its tasks keeps are all \
             that the memory budget of {} bytes has room for; a join that forgets, such as `window_join` or \
             `interval_join`, keeps those of a while",
            self.lefts.rows.len(),
            self.rights.rows.len(),
            self.lefts.limit(),
        );
        self.op.fail(self.lefts.refused(what));
    }
}

impl<K, L, R, T, X, N> Pipe for SymmetricPush<K, L, R, T, X, N>
where
    K: Data + Eq + Clone,
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
        self.saved.0.save(event, |out| self.lefts.save(out, &[]));
        self.saved.1.save(event, |out| self.rights.save(out, &[]));
        self.next.event(event);
    }

    fn resume(&mut self) -> Flow {
        let Self { op, lefts, rights, left, right, emitted, next, .. } = self;
        pump(next, |next| {
            let found = match left.next::<R, KeepRight<X>>(rights, op, None, true) {
                Some(made) => Some(made),
                None => right.next::<L, KeepLeft<X>>(lefts, op, None, true),
            };
            match found {
                Some((made, time)) => {
                    *emitted += 1;
                    next.push(made, time);
                    true
                }
                None => false,
            }
        })
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.emitted);
        report.kept(op, (self.lefts.rows.len() + self.rights.rows.len()) as u64);
        self.next.report(report);
    }
}

impl<K, L, R, T, X, N> PushTwo<Hashed<(K, L)>, Hashed<(K, R)>, T>
    for SymmetricPush<K, L, R, T, X, N>
where
    K: Data + Eq + Clone,
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
        if !self.ended.1 && !keep(&self.op, &mut self.lefts, (hash, &key, &value, time)) {
            return self.run_out();
        }
        self.left.push((hash, key, value, time));
    }

    #[inline(always)]
    fn push_second(&mut self, (hash, (key, value)): (u64, (K, R)), time: T) {
        if !self.ended.0 && !keep(&self.op, &mut self.rights, (hash, &key, &value, time)) {
            return self.run_out();
        }
        self.right.push((hash, key, value, time));
    }

    fn first_ended(&mut self) {
        self.ended.0 = true;
        self.rights.reset();
    }

    fn second_ended(&mut self) {
        self.ended.1 = true;
        self.lefts.reset();
    }

    fn wants_second(&self) -> bool {
        true
    }
}
