//! Calls that block, on threads of their own.
//!
//! The threads of an operator serve all of its tasks. A thread is started when there is work and no idle thread
//! for it, and lives as long as the operator. A thread cannot be stopped within a call: if one is in a call
//! when the operator is dropped, the thread is detached, and ends when its call does; all others are joined.
//!
//! Under a simulated clock there are no threads: a call is made at once, in the task, and takes no time.

use super::permits::Permit;
use super::running::{Finished, Make, Run};
use crate::clock::Clock;
use crate::error::Result;
use crate::flow::{Op, Waker, catch, discard, guard};
use crate::plan::TaskContext;
use crate::runtime::Running;
use crate::sync::{Condvar, Mutex, lock, spawn};
use std::collections::VecDeque;
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

/// A unit of work for a thread; it calls its argument when the user's closure has returned.
type Work = Box<dyn FnOnce(&dyn Fn()) + Send>;

/// The threads of an operator.
pub(super) struct Pool {
    shared: Arc<Shared>,
    most: usize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when there is work, or when there will be no more.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    /// Whether each thread is in a call, which may never return.
    busy: Vec<bool>,
    closed: bool,
}

impl Pool {
    /// A pool without threads; they are started on demand.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { shared: Arc::default(), most, threads: Mutex::default() })
    }

    fn give(&self, work: Work) -> Result<()> {
        let mut threads = lock(&self.threads);
        let mut state = lock(&self.shared.state);
        state.queue.push_back(work);
        let resting = state.busy.iter().filter(|busy| !**busy).count();
        if state.queue.len() > resting && threads.len() < self.most {
            let number = state.busy.len();
            state.busy.push(false);
            let shared = Arc::clone(&self.shared);
            let thread = spawn(format!("thalweg-call-{number}"), move || live(number, &shared));
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    state.busy.pop();
                    return Err(error);
                }
            }
        }
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }
}

fn live(number: usize, shared: &Shared) {
    let mut state = lock(&shared.state);
    loop {
        if let Some(work) = state.queue.pop_front() {
            state.busy[number] = true;
            drop(state);
            // A panic of the closure is caught within; one that is caught here comes from a destructor
            // afterwards.
            let _ = catch(|| work(&|| lock(&shared.state).busy[number] = false));
            state = lock(&shared.state);
        } else if state.closed {
            return;
        } else {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.closed = true;
        // Calls that have not begun are dropped.
        let unbegun = std::mem::take(&mut state.queue);
        let busy = state.busy.clone();
        drop(state);
        self.shared.changed.notify_all();
        for (thread, busy) in lock(&self.threads).drain(..).zip(busy) {
            if !busy {
                // The thread catches the panics of its work, and has none of its own.
                let _ = thread.join();
            }
        }
        discard(unbegun);
    }
}

/// Makes the calls of a task: a closure that blocks.
pub(super) struct Threads<F, T> {
    f: Arc<F>,
    pool: Arc<Pool>,
    types: PhantomData<fn() -> T>,
}

impl<F, T> Threads<F, T> {
    pub(super) fn new(f: F, most: usize) -> Self {
        Self { f: Arc::new(f), pool: Pool::new(most), types: PhantomData }
    }
}

impl<D, O, E, F> Make<D> for Threads<F, (O, E)>
where
    D: Send + 'static,
    O: Send + 'static,
    E: Display + Send + 'static,
    F: Fn(D) -> Result<O, E> + Send + Sync + 'static,
{
    type Run = Blocking<F, O, E>;

    fn make(&self, cx: &TaskContext<'_>) -> Blocking<F, O, E> {
        let pool = match cx.clock {
            Clock::System(..) => Some(Arc::clone(&self.pool)),
            Clock::Virtual(_) => None,
        };
        let returned = Arc::new(Returned { list: Mutex::default(), task: cx.waker.clone() });
        Blocking { f: Arc::clone(&self.f), pool, running: Vec::new(), returned }
    }
}

/// The results from threads, and the task that reads them.
struct Returned<O, E> {
    list: Mutex<Vec<Return<O, E>>>,
    task: Waker,
}

/// The result of a call.
struct Return<O, E> {
    at: usize,
    call: u64,
    /// An outer error where the closure panicked.
    result: Result<Result<O, E>>,
}

/// The calls of a running task.
pub(super) struct Blocking<F, O, E> {
    f: Arc<F>,
    /// `None` where there are no threads.
    pool: Option<Arc<Pool>>,
    /// The number of the last call in each slot. An abandoned call may still return, with a number that is no
    /// longer this one.
    running: Vec<u64>,
    returned: Arc<Returned<O, E>>,
}

impl<F, O, E> Blocking<F, O, E> {
    fn next_number(&mut self, at: usize) -> u64 {
        if self.running.len() <= at {
            self.running.resize(at + 1, 0);
        }
        self.running[at] += 1;
        self.running[at]
    }
}

impl<D, O, E, F> Run<D> for Blocking<F, O, E>
where
    D: Send + 'static,
    O: Send + 'static,
    E: Display + Send + 'static,
    F: Fn(D) -> Result<O, E> + Send + Sync + 'static,
{
    type Out = O;
    type Error = E;

    fn start(&mut self, op: &Op, at: usize, item: D, permit: Permit) -> Result<()> {
        let call = self.next_number(at);
        let Some(pool) = &self.pool else {
            let result = Ok(guard(op, || (self.f)(item)));
            lock(&self.returned.list).push(Return { at, call, result });
            return Ok(());
        };
        let (f, returned) = (Arc::clone(&self.f), Arc::clone(&self.returned));
        let job = Arc::clone(op.signals());
        pool.give(Box::new(move |returns| {
            let running = Running::call(&job);
            let result = catch(|| f(item));
            drop(running);
            returns();
            // Dropped only after the call has returned: until then its thread is occupied.
            drop((permit, f));
            lock(&returned.list).push(Return { at, call, result });
            returned.task.wake();
        }))
    }

    fn finished(&mut self, op: &Op, finished: &mut Vec<Finished<O, E>>) {
        let returned = std::mem::take(&mut *lock(&self.returned.list));
        for Return { at, call, result } in returned {
            if self.running[at] != call {
                continue;
            }
            match result {
                Ok(result) => finished.push((at, result)),
                Err(panic) => op.fail(panic),
            }
        }
    }

    fn abandon(&mut self, _: &Op, at: usize) {
        self.next_number(at);
    }
}
