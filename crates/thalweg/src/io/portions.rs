//! The work of a source, shared by the hosts of a job.
//!
//! All of it is on the first host, whose tasks take pieces of it directly. Another host requests a portion of it, and
//! its tasks take pieces of that; it requests the next portion when it has half of one left, so that its tasks do not
//! wait for the answer. The size of a portion is proportional to what is left and to the tasks of the host. When
//! little is left, a host gets only what its waiting tasks can begin with at once, so that the hosts finish at about
//! the same time, however fast each of them is.
//!
//! The first host answers a request at once, whatever its own tasks do, so a task never waits for long.

use crate::data::{Data, DecodeError, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Waker;
use crate::net::{HostId, Link, Receive};
use crate::plan::{TaskContext, TieKind};
use crate::sync::{Mutex, lock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The work of a source.
pub(super) trait Work: Send + Sync + 'static {
    /// What a task takes at a time, or cuts what it takes from.
    type Piece: Data;
    /// What another host needs to know before its first piece.
    type Preamble: Data;

    /// The size of a piece, in the units in which the work is measured.
    fn size(piece: &Self::Piece) -> u64;

    /// What another host needs to know. Called on the first host.
    fn preamble(&self) -> Self::Preamble;

    /// Removes a portion for a host; also returns whether nothing is left after it. Called on the first host.
    fn grant(&self, to: HostId, share: Share) -> (Vec<Self::Piece>, bool);

    /// Checks what has arrived, and returns the pieces that tasks take by [`Shared::take`]. Called on the other
    /// hosts, with the preamble the first time.
    fn accept(
        &self,
        preamble: Option<Self::Preamble>,
        pieces: Vec<Self::Piece>,
    ) -> Result<Vec<Self::Piece>, DecodeError>;
}

/// What determines the size of a host's portion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The tasks of the source on the host, and on all hosts.
    own: u64,
    all: u64,
    /// The tasks of the host that wait for a piece.
    waiting: u64,
}

/// A portion is this part of what is left, times the host's share of the tasks.
const PART: u64 = 4;

impl Share {
    /// The size of a portion if so much is left: a multiple of the least piece for each waiting task, or more, but at
    /// most `most` for each task of the host.
    pub(super) fn of(self, left: u64, least: u64, most: u64) -> u64 {
        let share = u128::from(left) * u128::from(self.own) / u128::from(self.all * PART);
        let share = u64::try_from(share).unwrap_or(u64::MAX).min(most.saturating_mul(self.own));
        let ahead = if share < least { 0 } else { share };
        ahead.max(self.waiting.saturating_mul(least)).min(left)
    }
}

/// What a task finds when it looks for work.
pub(super) enum Next<T> {
    Piece(T),
    /// Nothing for now; the task is woken when it should look again.
    Wait,
    /// Nothing is left.
    End,
}

/// The work of a source, as one host sees it.
pub(super) struct Shared<W: Work> {
    pub(super) work: W,
    operator: Arc<str>,
    /// The host of each task of the source.
    tasks: Vec<HostId>,
    is_first: bool,
    /// From the first host to all others, or from another to the first.
    links: Vec<Link>,
    /// What the first host has granted this one.
    granted: Mutex<Granted<W::Piece>>,
}

struct Granted<P> {
    pieces: VecDeque<P>,
    /// The size of the last portion.
    last: u64,
    /// A first request was sent.
    begun: bool,
    /// A request was sent and not answered.
    requested: bool,
    /// Little is left: a request is granted for waiting tasks only.
    scarce: bool,
    /// Nothing is left on the first host.
    over: bool,
    /// The tasks that wait.
    waiting: BTreeMap<usize, Waker>,
}

impl<W: Work> Shared<W> {
    /// The work of the source that a task is created for. Made for the first of its tasks on each host; what is in
    /// `work` counts on the first host only.
    pub(super) fn new(cx: &TaskContext<'_>, work: W) -> Result<Arc<Self>> {
        let op = cx.first_operator().unwrap_or_default();
        let part = cx.tie(TieKind::Splits, op)?.part();
        let is_first = cx.links.hosts().me() == HostId::FIRST;
        let links = if is_first {
            cx.links.to_others(part)
        } else {
            vec![cx.links.to(HostId::FIRST, part)]
        };
        let granted = Granted {
            pieces: VecDeque::new(),
            last: 0,
            begun: false,
            requested: false,
            scarce: false,
            over: false,
            waiting: BTreeMap::new(),
        };
        let shared = Arc::new(Self {
            work,
            operator: cx.op(op).name(),
            tasks: cx.hosts.to_vec(),
            is_first,
            links,
            granted: Mutex::new(granted),
        });
        cx.links.open(part, Arc::clone(&shared) as _);
        Ok(shared)
    }

    /// Whether this host has the work.
    pub(super) fn is_first(&self) -> bool {
        self.is_first
    }

    /// On another host than the first: removes a piece, or a part of one, from what was granted.
    pub(super) fn take<T>(
        &self,
        task: usize,
        waker: &Waker,
        cut: impl FnOnce(&mut VecDeque<W::Piece>) -> Option<T>,
    ) -> Next<T> {
        let mut granted = lock(&self.granted);
        let piece = cut(&mut granted.pieces);
        if piece.is_none() && !granted.over {
            granted.waiting.insert(task, waker.clone());
        }
        let left: u64 = granted.pieces.iter().map(W::size).sum();
        let waiting = granted.waiting.len() as u64;
        let is_low = waiting > 0 || !granted.scarce && left < granted.last.div_ceil(2);
        let requests = is_low && !granted.requested && !granted.over;
        granted.requested |= requests;
        let is_new = requests && !std::mem::replace(&mut granted.begun, true);
        let over = granted.over;
        drop(granted);
        if requests {
            let mut frame = Vec::new();
            (is_new, waiting).encode(&mut frame);
            self.links.iter().for_each(|link| link.send(frame.clone()));
        }
        match piece {
            Some(piece) => Next::Piece(piece),
            None if over => Next::End,
            None => Next::Wait,
        }
    }

    /// On the first host: answers a request.
    fn requested(&self, from: HostId, input: &mut &[u8]) -> Result<(), DecodeError> {
        let (is_new, waiting) = <(bool, u64)>::decode(input)?;
        let own = self.tasks.iter().filter(|host| **host == from).count() as u64;
        let link = self.links.iter().find(|link| link.to() == from).filter(|_| own > 0);
        let link = link.ok_or_else(|| DecodeError::invalid("of a host with tasks of it"))?;
        let share = Share { own, all: self.tasks.len() as u64, waiting: waiting.min(own) };
        let (pieces, over) = self.work.grant(from, share);
        let mut frame = Vec::new();
        (is_new.then(|| self.work.preamble()), pieces, over).encode(&mut frame);
        link.send(frame);
        Ok(())
    }

    /// On another host: takes an answer.
    fn answered(&self, input: &mut &[u8]) -> Result<(), DecodeError> {
        let (preamble, pieces, over) = <(Option<W::Preamble>, Vec<W::Piece>, bool)>::decode(input)?;
        let pieces = self.work.accept(preamble, pieces)?;
        let mut granted = lock(&self.granted);
        granted.last = pieces.iter().map(W::size).sum();
        granted.scarce |= granted.last == 0;
        granted.requested = false;
        granted.over |= over;
        granted.pieces.extend(pieces);
        let waiting = std::mem::take(&mut granted.waiting);
        drop(granted);
        waiting.values().for_each(Waker::wake);
        Ok(())
    }
}

impl<W: Work> Receive for Shared<W> {
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        let take = |input: &mut &[u8]| match self.is_first {
            true => self.requested(from, input),
            false => self.answered(input),
        };
        decode_whole(frame, take).map_err(|error| {
            let what = if self.is_first { "request for" } else { "grant of" };
            let what = format!("host {} has sent what is no {what} work: {error}", from.0);
            Error::new(ErrorKind::Internal, what).in_operator(&*self.operator)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(own: u64, all: u64, waiting: u64) -> Share {
        Share { own, all, waiting }
    }

    #[test]
    fn portions_shrink_with_what_is_left() {
        assert_eq!(share(2, 4, 0).of(u64::MAX, 10, u64::MAX), u64::MAX / 8);
        assert_eq!(share(2, 4, 0).of(u64::MAX, 10, 100), 200, "at most so much a task");
        assert_eq!(share(1, 4, 0).of(1600, 10, 1000), 100);
        assert_eq!(share(3, 4, 0).of(1600, 10, 1000), 300, "in proportion to tasks");
        assert_eq!(share(1, 4, 0).of(159, 10, 1000), 0, "less than a piece is left alone");
        assert_eq!(share(2, 4, 2).of(60, 10, 1000), 20, "unless tasks wait");
        assert_eq!(share(2, 4, 2).of(5, 10, 1000), 5);
        assert_eq!(share(2, 4, 2).of(0, 10, 1000), 0);
    }
}
