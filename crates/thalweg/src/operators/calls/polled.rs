//! Calls as futures, polled by the task that they belong to.
//!
//! Each slot for a call has a waker of its own, which adds the slot to a list and wakes the task. A turn polls
//! the calls in that list and no others, so that a thousand that wait cost nothing. A future may be driven by
//! anything (a timer, a socket, another thread), as long as it calls the waker.

use super::permits::Permit;
use super::running::{Finished, Make, Run};
use crate::error::Result;
use crate::flow::{Op, Waker, guard};
use crate::plan::TaskContext;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

/// The closure that surrounds the polling of futures.
pub(super) type Around = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// Makes the calls of a task: futures that a closure returns.
pub(super) struct Futures<F, T> {
    f: Arc<F>,
    around: Option<Around>,
    types: PhantomData<fn() -> T>,
}

impl<F, T> Futures<F, T> {
    pub(super) fn new(f: F, around: Option<Around>) -> Self {
        Self { f: Arc::new(f), around, types: PhantomData }
    }
}

impl<D, O, E, Fut, F> Make<D> for Futures<F, (Fut, O, E)>
where
    D: Send + 'static,
    O: Send + 'static,
    E: Display + Send + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    F: Fn(D) -> Fut + Send + Sync + 'static,
{
    type Run = Polled<F, Fut>;

    fn make(&self, cx: &TaskContext<'_>) -> Polled<F, Fut> {
        let ready = Arc::new(Ready { list: Mutex::new(Vec::new()), task: cx.waker.clone() });
        let (f, around) = (Arc::clone(&self.f), self.around.clone());
        Polled { f, around, calls: Vec::new(), ready, turn: Vec::new() }
    }
}

/// The calls of a running task, each in a slot.
pub(super) struct Polled<F, Fut> {
    f: Arc<F>,
    around: Option<Around>,
    calls: Vec<Call<Fut>>,
    ready: Arc<Ready>,
    /// The slots that are being polled.
    turn: Vec<usize>,
}

/// A slot for a call, which is reused.
struct Call<Fut> {
    future: Pin<Box<Option<Fut>>>,
    permit: Option<Permit>,
    woken: Arc<Woken>,
    waker: std::task::Waker,
}

/// The slots to be polled, and the task that polls them.
struct Ready {
    list: Mutex<Vec<usize>>,
    task: Waker,
}

/// The waker of a slot.
struct Woken {
    at: usize,
    /// Whether the slot is in the list.
    listed: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.list() {
            self.ready.task.wake();
        }
    }
}

impl Woken {
    /// Adds the slot to the list; returns whether it was not there.
    fn list(&self) -> bool {
        let new = !self.listed.swap(true, Ordering::AcqRel);
        if new {
            lock(&self.ready.list).push(self.at);
        }
        new
    }
}

impl<Fut> Call<Fut> {
    fn new(at: usize, ready: &Arc<Ready>) -> Self {
        let ready = Arc::clone(ready);
        let woken = Arc::new(Woken { at, listed: AtomicBool::new(false), ready });
        let waker = std::task::Waker::from(Arc::clone(&woken));
        Self { future: Box::pin(None), permit: None, woken, waker }
    }

    fn end(&mut self) {
        self.future.set(None);
        self.permit = None;
    }
}

impl<D, O, E, Fut, F> Run<D> for Polled<F, Fut>
where
    D: Send + 'static,
    O: Send + 'static,
    E: Display + Send + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    F: Fn(D) -> Fut + Send + Sync + 'static,
{
    type Out = O;
    type Error = E;

    fn start(&mut self, op: &Op, at: usize, item: D, permit: Permit) -> Result<()> {
        while self.calls.len() <= at {
            self.calls.push(Call::new(self.calls.len(), &self.ready));
        }
        let future = guard(op, || (self.f)(item));
        let call = &mut self.calls[at];
        call.future.set(Some(future));
        call.permit = Some(permit);
        // The task is running, and reads the list before it parks.
        call.woken.list();
        Ok(())
    }

    fn finished(&mut self, op: &Op, finished: &mut Vec<Finished<O, E>>) {
        let Self { calls, ready, turn, around, .. } = self;
        // A future that wakes itself while it is polled is polled again in a later turn; else it would starve
        // others.
        turn.append(&mut lock(&ready.list));
        if turn.is_empty() {
            return;
        }
        let mut poll = || {
            for at in turn.drain(..) {
                let Some(call) = calls.get_mut(at) else { continue };
                // Reset before the poll, so that no wake-up during it is lost.
                call.woken.listed.swap(false, Ordering::AcqRel);
                let Some(future) = call.future.as_mut().as_pin_mut() else { continue };
                let mut context = Context::from_waker(&call.waker);
                if let Poll::Ready(result) = future.poll(&mut context) {
                    call.end();
                    finished.push((at, result));
                }
            }
        };
        guard(op, || match around {
            None => poll(),
            Some(around) => {
                let mut called = false;
                around(&mut || {
                    called = true;
                    poll();
                });
                assert!(called, "what is given to `around` must call its argument");
            }
        });
    }

    fn abandon(&mut self, op: &Op, at: usize) {
        if let Some(call) = self.calls.get_mut(at) {
            guard(op, || call.end());
        }
    }
}

#[cfg(loom)]
pub mod models {
    use super::*;
    use crate::sync::AtomicUsize;
    use loom::thread;

    /// What a task does with a slot in the list: it looks for work.
    fn poll(woken: &Woken, work: &AtomicUsize) -> usize {
        let listed = std::mem::take(&mut *lock(&woken.ready.list));
        let look = |_: usize| {
            woken.listed.swap(false, Ordering::AcqRel);
            work.swap(0, Ordering::Relaxed)
        };
        listed.into_iter().map(look).sum()
    }

    pub fn a_call_woken_during_a_poll_is_polled_again() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let ready = Arc::new(Ready { list: Mutex::new(Vec::new()), task: Waker::default() });
            let woken = Arc::new(Woken { at: 0, listed: AtomicBool::new(false), ready });
            let work = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (woken, work) = (Arc::clone(&woken), Arc::clone(&work));
                    thread::spawn(move || {
                        work.fetch_add(1, Ordering::Relaxed);
                        woken.wake_by_ref();
                    })
                })
                .collect();
            let mut done = poll(&woken, &work);
            for thread in threads {
                thread.join().unwrap();
            }
            // The task was woken after the list was written, so it looks again.
            done += poll(&woken, &work);
            assert_eq!(done, 2);
            assert!(lock(&woken.ready.list).is_empty());
        });
    }
}
