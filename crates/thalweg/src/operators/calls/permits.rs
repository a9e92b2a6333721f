//! Permits: how many calls of an operator may run at once, over all of its tasks.
//!
//! A permit is free, or held, or promised to a task that waits; no other task can take a promised one. A permit
//! that is returned is promised to the task that has waited longest. So no task can starve the others, however
//! busy it is.
//!
//! Of several hosts, the first has all permits at the beginning, and lends them (`bank.rs`). Each host shares what it was
//! lent among its tasks as above.

use super::bank::{Bank, Order};
use crate::data::{Data, DecodeError, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Waker;
use crate::net::{HostId, Link, Links, Part, Receive};
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::sync::Arc;

/// The permits of an operator, on this host.
pub(super) struct Permits {
    most: usize,
    state: Mutex<State>,
}

struct State {
    /// The free permits; no task waits while there are any.
    left: usize,
    /// The tasks that wait, each once.
    waiting: VecDeque<(usize, Waker)>,
    /// The tasks to which a permit is promised, each once.
    promised: Vec<usize>,
    /// `None` on a job's only host.
    lender: Option<Lender>,
}

/// The host that lends permits, as another or itself sees it.
struct Lender {
    first: First,
    /// Whether permits were requested of it, and it has not lent any since.
    asked: bool,
    /// The number of permits to be returned as soon as they are free, even if tasks wait.
    recalled: usize,
    /// Whether to return permits that are idle.
    returns_idle: bool,
}

enum First {
    /// This host; with the ways to the others, by host.
    Here(Bank, Vec<Link>),
    There(Link),
}

/// What a host sends the one that lends.
#[derive(Clone, Copy)]
enum Request {
    Ask,
    TakeBack(usize),
}

/// Allows one call to run until it is dropped.
pub(super) struct Permit(Arc<Permits>);

/// A task's access to the permits.
pub(super) struct Desk {
    permits: Arc<Permits>,
    task: usize,
    waker: Waker,
}

impl Permits {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let state =
            State { left: most, waiting: VecDeque::new(), promised: Vec::new(), lender: None };
        Arc::new(Self { most, state: Mutex::new(state) })
    }

    /// Shares them with the other hosts of the job, if there are any. Called for each task, before any runs.
    pub(super) fn join(self: &Arc<Self>, links: &Links, part: Part) {
        let hosts = links.hosts().count();
        let mut state = lock(&self.state);
        if hosts == 1 || state.lender.is_some() {
            return;
        }
        let first = match links.hosts().me() {
            HostId::FIRST => First::Here(Bank::new(self.most, hosts), links.to_others(part)),
            _ => First::There(links.to(HostId::FIRST, part)),
        };
        state.left = 0;
        state.lender = Some(Lender { first, asked: false, recalled: 0, returns_idle: false });
        drop(state);
        links.open(part, Arc::clone(self) as _);
    }

    /// The access of a task, whose waker is called when it is promised a permit.
    pub(super) fn desk(self: &Arc<Self>, task: usize, waker: Waker) -> Desk {
        Desk { permits: Arc::clone(self), task, waker }
    }

    /// Changes the state, and wakes tasks that have been promised a permit. Frames are sent under the lock, so that they
    /// arrive in the order of the changes.
    fn change<R>(&self, change: impl FnOnce(&mut State, &mut Vec<Waker>) -> R) -> R {
        let mut wake = Vec::new();
        let changed = change(&mut lock(&self.state), &mut wake);
        wake.iter().for_each(Waker::wake);
        changed
    }

    fn give_back(&self) {
        self.change(State::give_back);
    }
}

impl State {
    fn give_back(&mut self, wake: &mut Vec<Waker>) {
        if let Some(lender) = &mut self.lender
            && lender.recalled > 0
        {
            lender.recalled -= 1;
            self.request(Request::TakeBack(1), wake);
            return;
        }
        self.supply(1, wake);
        self.return_idle(wake);
    }

    /// Promises permits to the tasks that wait; those that are left are idle.
    fn supply(&mut self, permits: usize, wake: &mut Vec<Waker>) {
        let promised = permits.min(self.waiting.len());
        for (task, waker) in self.waiting.drain(..promised) {
            self.promised.push(task);
            wake.push(waker);
        }
        self.left += permits - promised;
    }

    fn return_idle(&mut self, wake: &mut Vec<Waker>) {
        if let Some(lender) = &mut self.lender
            && lender.returns_idle
            && self.left > 0
        {
            let idle = std::mem::take(&mut self.left);
            lender.recalled = lender.recalled.saturating_sub(idle);
            self.request(Request::TakeBack(idle), wake);
        }
    }

    /// Asks for permits, if tasks wait.
    fn ask(&mut self, wake: &mut Vec<Waker>) {
        if let Some(lender) = &mut self.lender
            && !self.waiting.is_empty()
            && !std::mem::replace(&mut lender.asked, true)
        {
            self.request(Request::Ask, wake);
        }
    }

    /// Sends a request to the host that lends.
    fn request(&mut self, request: Request, wake: &mut Vec<Waker>) {
        match &self.lender {
            Some(Lender { first: First::There(link), .. }) => link.send(request.encoded()),
            // It has lent itself what it takes back.
            Some(_) => _ = self.serve(HostId::FIRST, request, wake),
            None => {}
        }
    }

    /// On the host that lends: takes a request. `None` if the host cannot have sent it.
    fn serve(&mut self, from: HostId, request: Request, wake: &mut Vec<Waker>) -> Option<()> {
        let Some(Lender { first: First::Here(bank, others), .. }) = &mut self.lender else {
            return None;
        };
        let orders = match request {
            Request::Ask => bank.ask(from.0),
            Request::TakeBack(permits) => bank.take_back(from.0, permits)?,
        };
        // Its own last, since they may lead to further ones.
        for (host, order) in &orders {
            if let Some(link) = others.iter().find(|link| link.to().0 == *host) {
                link.send(order.encoded());
            }
        }
        let own = orders.into_iter().filter(|(host, _)| *host == HostId::FIRST.0);
        own.for_each(|(_, order)| self.obey(order, wake));
        Some(())
    }

    /// Follows an order of the host that lends.
    fn obey(&mut self, order: Order, wake: &mut Vec<Waker>) {
        let Some(lender) = &mut self.lender else { return };
        match order {
            Order::Lend(permits, others_wait) => {
                lender.asked = false;
                lender.returns_idle = others_wait;
                self.supply(permits, wake);
                self.ask(wake);
            }
            Order::Return(recalled) => {
                lender.recalled += recalled;
                lender.returns_idle = true;
            }
        }
        self.return_idle(wake);
    }
}

impl Receive for Permits {
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        let understood = self.change(|state, wake| match &state.lender {
            Some(Lender { first: First::Here(..), .. }) => {
                let request = decode_whole(frame, Request::decode).ok()?;
                state.serve(from, request, wake)
            }
            Some(_) if from == HostId::FIRST => {
                state.obey(decode_whole(frame, Order::decode).ok()?, wake);
                Some(())
            }
            _ => None,
        });
        understood.ok_or_else(|| {
            let what = format!("host {} has sent what is no message about permits", from.0);
            Error::new(ErrorKind::Internal, what)
        })
    }
}

impl Request {
    fn encoded(self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Ask => 0u8.encode(&mut out),
            Self::TakeBack(permits) => (1u8, permits).encode(&mut out),
        }
        out
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Ask),
            1 => Ok(Self::TakeBack(usize::decode(input)?)),
            _ => Err(DecodeError::invalid("a request for permits")),
        }
    }
}

impl Order {
    fn encoded(self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Lend(permits, others_wait) => (2u8, permits, others_wait).encode(&mut out),
            Self::Return(permits) => (3u8, permits).encode(&mut out),
        }
        out
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            2 => Ok(Self::Lend(usize::decode(input)?, bool::decode(input)?)),
            3 => Ok(Self::Return(usize::decode(input)?)),
            _ => Err(DecodeError::invalid("an order of the host that lends permits")),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl Desk {
    /// Takes a permit, if there is one. Otherwise the task is queued, and is woken when a permit is promised to
    /// it.
    pub(super) fn take(&self) -> Option<Permit> {
        let taken = self.permits.change(|state, wake| {
            if let Some(at) = state.promised.iter().position(|task| *task == self.task) {
                state.promised.swap_remove(at);
                return true;
            }
            if state.left == 0 {
                if state.waiting.iter().all(|(task, _)| *task != self.task) {
                    state.waiting.push_back((self.task, self.waker.clone()));
                }
                state.ask(wake);
                return false;
            }
            state.left -= 1;
            true
        });
        taken.then(|| Permit(Arc::clone(&self.permits)))
    }

    /// Withdraws the task from the queue, and returns a permit that was promised to it.
    pub(super) fn leave(&self) {
        self.permits.change(|state, wake| {
            state.waiting.retain(|(task, _)| *task != self.task);
            if let Some(at) = state.promised.iter().position(|task| *task == self.task) {
                state.promised.swap_remove(at);
                state.give_back(wake);
            }
        });
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::splitmix64;
    use crate::flow::Signals;
    use crate::net::TestNetwork;

    #[test]
    fn whoever_waits_longest_is_next() {
        let permits = Permits::new(2);
        let desks = [0, 1, 2].map(|task| permits.desk(task, Waker::default()));
        let (first, second) = (desks[0].take().unwrap(), desks[0].take().unwrap());
        assert!(desks[1].take().is_none() && desks[2].take().is_none());
        drop(first);
        // It is promised to task 1, and no other task can take it.
        assert!(desks[0].take().is_none() && desks[2].take().is_none());
        let first = desks[1].take().unwrap();
        drop((first, second));
        let (a, b) = (desks[2].take().unwrap(), desks[0].take().unwrap());
        assert!(desks[1].take().is_none());
        drop((a, b));
        assert!(desks[1].take().is_some());
    }

    #[test]
    fn the_bound_holds_over_hosts_and_every_task_gets_on() {
        for seed in 0..300u64 {
            let mut state = seed;
            let mut draw = |below: usize| splitmix64(&mut state) as usize % below;
            let (hosts, most) = (2 + draw(2), 1 + draw(9));
            let (network, signals) =
                (Arc::new(TestNetwork::default()), Arc::new(Signals::default()));
            let permits: Vec<_> = (0..hosts)
                .map(|host| {
                    let links = network.links(HostId(host), hosts, &signals);
                    let permits = Permits::new(most);
                    permits.join(&links, Part::Tie(0));
                    permits
                })
                .collect();
            let desks: Vec<_> =
                (0..2 * hosts).map(|task| permits[task / 2].desk(task, Waker::default())).collect();
            let (mut held, mut taken) = (Vec::new(), vec![0; desks.len()]);
            // Each step: a task wants a permit, one is given back, or a frame arrives.
            let mut step = |held: &mut Vec<Permit>, only: Option<usize>| {
                match draw(4) {
                    0 | 1 => {
                        let task = only.unwrap_or_else(|| draw(desks.len()));
                        if let Some(permit) = desks[task].take() {
                            held.push(permit);
                            taken[task] += 1;
                        }
                    }
                    2 if !held.is_empty() => drop(held.swap_remove(draw(held.len()))),
                    _ => _ = network.deliver(draw(1000)),
                }
                assert!(held.len() <= most, "seed {seed}");
            };
            (0..4000).for_each(|_| step(&mut held, None));
            assert!(taken.iter().all(|taken| *taken > 5), "seed {seed}: {taken:?}");
            // When no other task wants any, one task gets all of them.
            desks.iter().for_each(Desk::leave);
            let last = seed as usize % desks.len();
            held.clear();
            for _ in 0..200 * most {
                while network.deliver(0) {}
                held.extend(desks[last].take());
            }
            assert_eq!(held.len(), most, "seed {seed}");
            assert!(signals.take_failure().is_none());
        }
    }

    #[test]
    fn a_task_that_goes_leaves_what_it_was_promised() {
        let permits = Permits::new(1);
        let [gone, stays] = [0, 1].map(|task| permits.desk(task, Waker::default()));
        let taken = stays.take().unwrap();
        assert!(gone.take().is_none() && stays.take().is_none());
        drop(taken);
        drop(gone);
        assert!(stays.take().is_some());
    }
}
