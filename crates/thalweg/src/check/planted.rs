//! Operators with faults that checks must find: one that keeps a field outside of the handle of its state, and one that shares an
//! `Arc` between tasks of different hosts.

use super::check;
use super::tests::complaint;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::error::Result;
use crate::flow::{Event, Pipe, Push};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Environment, Stream};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Emits the sum of all numbers so far, and their count.
struct Totals<C> {
    prev: C,
    op: usize,
    /// Whether the count is a field of its own, which is not saved: a fault.
    forgets: bool,
}

struct TotalsPush<N> {
    saved: StateHandle,
    sum: u64,
    count: u64,
    forgets: bool,
    next: N,
}

impl<C: Chain<Item = u64>> Chain for Totals<C> {
    type Item = (u64, u64);
    type Time = C::Time;
    type Task<N: Push<(u64, u64), C::Time> + 'static> = C::Task<TotalsPush<N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<(u64, u64), C::Time> + 'static,
    {
        let saved = cx.state::<(u64, u64)>(self.op, "totals", Redistribution::First);
        let (mut sum, mut count) = (0, 0);
        saved.restore(|totals: (u64, u64)| {
            (sum, count) = totals;
            Ok(())
        })?;
        let forgets = self.forgets;
        self.prev.attach(cx, TotalsPush { saved, sum, count, forgets, next })
    }
}

impl<N: Pipe> Pipe for TotalsPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        let count = if self.forgets { 0 } else { self.count };
        self.saved.save(event, |out| out.add(&(self.sum, count)));
        self.next.event(event);
    }
}

impl<T: Time, N: Push<(u64, u64), T>> Push<u64, T> for TotalsPush<N> {
    fn push(&mut self, number: u64, time: T) {
        self.sum += number;
        self.count += 1;
        self.next.push((self.sum, self.count), time);
    }
}

fn totals(env: &Environment, forgets: bool) -> Stream<impl Chain<Item = (u64, u64)> + use<>> {
    // As an operator that saves what it remembers.
    env.iter(0..5000u64).then(Origin::here("scan"), |prev, op| Totals { prev, op, forgets })
}

#[test]
fn an_operator_that_keeps_a_field_outside_of_its_handle_is_found() {
    let expected = || (0..5000u64).map(|n| (n * (n + 1) / 2, n + 1));
    check(|env| totals(env, false)).must_restore().equals(expected());
    let said = complaint(|| check(|env| totals(env, true)).equals(expected()));
    assert!(said.contains("interrupted at a barrier"), "{said}");
}

#[test]
fn an_arc_that_tasks_of_different_hosts_would_share_is_found() {
    // As if all tasks were in one process: each record is emitted by the first task that sees it.
    let first = |env: &Environment| {
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let digits = env.range(0..300).map(|n| n % 10).shuffle();
        digits.filter(move |n| lock(&seen).insert(*n))
    };
    let said = complaint(|| check(first).equals(0..10u64));
    assert!(said.contains("as on hosts of"), "{said}");
    assert!(said.contains("not the 10 expected"), "{said}");
}
