//! Inner joins of two streams of which neither need end: each record is looked up in what came on the other
//! side, and kept for what is still to come there.

use super::hash::{Kept, Probes};
use super::inputs::Inputs;
use super::kinds::{KeepLeft, KeepRight, Kind};
use crate::data::Data;
use crate::error::Result;
use crate::exchange::{Hashed, PairInlet};
use crate::flow::{Flow, Op, Pipe, Push, PushTwo, guard, pump};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::stream::Chain;
use crate::time::Time;
use std::marker::PhantomData;

/// The beginning of a stage in which each of two sides is looked up in the other.
pub struct SymmetricJoined<K: Data, L: Data, R: Data, T: Time, X> {
    pub(super) inputs: Inputs<K, L, R, T>,
    pub(super) op: usize,
    /// One that gives out pairs alone.
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
        let push = SymmetricPush {
            op: cx.op(self.op),
            lefts: Kept::new(cx.fixed(self.op)),
            rights: Kept::new(cx.fixed(self.op)),
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

/// A symmetric join in a running task.
pub struct SymmetricPush<K, L, R, T, X, N> {
    op: Op,
    /// What came on the left, for the right to be looked up in.
    lefts: Kept<K, L, T>,
    rights: Kept<K, R, T>,
    /// The batch that is looked up, of one side or the other.
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
        // Batches are of one side, and looked up before the next: who comes later finds who came before.
        if !self.ended.1 {
            if !self.lefts.has_room() {
                return self.run_out();
            }
            let (key, value) = guard(&self.op, || (key.clone(), value.clone()));
            self.lefts.rows.insert(hash, key, (value, time));
        }
        self.left.push((hash, key, value, time));
    }

    #[inline(always)]
    fn push_second(&mut self, (hash, (key, value)): (u64, (K, R)), time: T) {
        if !self.ended.0 {
            if !self.rights.has_room() {
                return self.run_out();
            }
            let (key, value) = guard(&self.op, || (key.clone(), value.clone()));
            self.rights.rows.insert(hash, key, (value, time));
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
