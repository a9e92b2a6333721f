//! Feedback between hosts: from the tails of a host without heads, to heads of other hosts.
//!
//! A tail feeds a head of its own host if there is one, so most loops never come here. Else it sends batches, encoded,
//! to the host of a head, and when the last tail of its host has ended a round, that host sends a marker to each host
//! that it feeds. A head begins a round once there is a decision, and the markers of all hosts that feed its own.
//!
//! The tails of another host wait while more than a window is on its way, or waits for a disk. Batches that fit into the memory
//! budget are acknowledged when they arrive. The others are so when the head's task has written them to disk, since what takes
//! frames must not block. That task writes first in each of its turns, also while its own output is blocked, and is woken for it: so
//! tails wait for its next turn, and never for what it waits for, and no body can deadlock.
//!
//! A host that has ended a round may send records of the next one before a head of another has begun it. It cannot be
//! ahead by more, because the end of that round waits for the head. So what has come is kept apart by whether the number
//! of its round is even or odd. A checkpoint has what has come for the head's next round, which is complete when the head sends
//! the barrier. Before the first round, whose records are the loop's input, it has nothing from here.

use super::hosts::{Tied, hosts_of};
use crate::data::{Data, DecodeError, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Waker;
use crate::memory::{Claim, InFlight, MemoryPool, Reservation};
use crate::net::{HostId, Link, Receive};
use crate::plan::{TaskContext, TieKind};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The hosts of the tails and of the heads of a loop, each in the order of the tasks.
struct Layout {
    tails: Vec<HostId>,
    heads: Vec<HostId>,
}

/// The tasks on a host.
fn of_host(hosts: &[HostId], host: HostId) -> Range<usize> {
    hosts.partition_point(|other| *other < host)..hosts.partition_point(|other| *other <= host)
}

impl Layout {
    /// The head that a tail feeds: those of its own host in turn, if there are any.
    fn head_of(&self, tail: usize) -> usize {
        let host = self.tails[tail];
        let own = of_host(&self.heads, host);
        match own.len() {
            0 => tail % self.heads.len().max(1),
            heads => own.start + (tail - of_host(&self.tails, host).start) % heads,
        }
    }

    /// The hosts that the tails of a host feed, other than itself.
    fn fed_by(&self, host: HostId) -> BTreeSet<HostId> {
        let heads = of_host(&self.tails, host).map(|tail| self.heads[self.head_of(tail)]);
        heads.filter(|fed| *fed != host).collect()
    }

    /// The hosts whose tails feed heads of this host, other than itself.
    fn feeders_of(&self, host: HostId) -> BTreeSet<HostId> {
        let hosts = BTreeSet::from_iter(self.tails.iter().copied());
        hosts.into_iter().filter(|from| self.fed_by(*from).contains(&host)).collect()
    }
}

/// One host's part in the feedback of a loop on several hosts.
pub(super) struct FeedbackHosts {
    layout: Layout,
    /// Where records of other hosts arrive, if there are any.
    pub(super) inbox: Option<Arc<Inbox>>,
    /// How records reach other hosts, if they do.
    outbox: Option<Arc<Outbox>>,
}

impl FeedbackHosts {
    /// The part of this host. `op` is the head or the tail of the loop.
    pub(super) fn of(cx: &TaskContext<'_>, op: usize) -> Result<Self> {
        let tied = Tied::of(cx, TieKind::Feedback, op)?;
        let layout = Layout { tails: hosts_of(cx, tied.tail), heads: hosts_of(cx, tied.head) };
        let me = cx.links.hosts().me();
        let (from, to) = (layout.feeders_of(me), layout.fed_by(me));
        let inbox = (!from.is_empty()).then(|| {
            let heads = of_host(&layout.heads, me);
            let inbox = Arc::new(Inbox {
                label: cx.op(tied.head).name(),
                memory: cx.memory.clone(),
                links: from.iter().map(|host| (*host, cx.links.to(*host, tied.part()))).collect(),
                ended: Mutex::new(from.into_iter().map(|host| (host, 0)).collect()),
                first: heads.start,
                heads: heads.map(|_| Slot::default()).collect(),
            });
            cx.links.open(tied.part(), Arc::clone(&inbox) as _);
            inbox
        });
        let outbox = (!to.is_empty()).then(|| {
            let links = to.into_iter().map(|host| (host, cx.links.to(host, tied.part()))).collect();
            let outbox = Arc::new(Outbox {
                label: cx.op(tied.tail).name(),
                links,
                tails: of_host(&layout.tails, me).len() as u64,
                closed: AtomicU64::new(0),
                most: cx.memory.credit(WINDOW, 1),
                window: Mutex::default(),
            });
            cx.links.open(tied.part(), Arc::clone(&outbox) as _);
            outbox
        });
        Ok(Self { layout, inbox, outbox })
    }

    /// The head that a tail feeds, and the way there if it is on another host.
    pub(super) fn of_tail(&self, tail: usize) -> (usize, Option<RemoteHead>) {
        let head = self.layout.head_of(tail);
        let host = self.layout.heads[head];
        let outbox = self.outbox.as_ref().filter(|outbox| outbox.links.contains_key(&host));
        (head, outbox.map(|outbox| RemoteHead { outbox: Arc::clone(outbox), host, head }))
    }
}

const ENDED: u8 = 0;
const BATCH: u8 = 1;
/// To a host of tails: so many bytes of batches have arrived.
const ARRIVED: u8 = 2;

/// The bytes that a host may have on their way, or less if the memory budget is small.
const WINDOW: usize = 4 << 20;

/// The hosts that the tails of this one feed. A host of it has no heads, and so no inbox.
struct Outbox {
    /// The name of the loop's tail, for messages.
    label: Arc<str>,
    links: BTreeMap<HostId, Link>,
    /// The tails of this host.
    tails: u64,
    /// How often one of them has ended a round.
    closed: AtomicU64,
    /// The bytes that may be on their way.
    most: usize,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    /// The bytes of batches on their way.
    used: usize,
    /// The tails that wait.
    waiting: Vec<Waker>,
}

impl Receive for Outbox {
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        let arrived = decode_whole(frame, |input| match u8::decode(input)? {
            ARRIVED => usize::decode(input),
            _ => Err(DecodeError::invalid("what has arrived")),
        });
        let arrived = arrived.map_err(|error| {
            let what = format!("what host {} acknowledges cannot be decoded: {error}", from.0);
            Error::new(ErrorKind::Internal, what).in_operator(&*self.label)
        })?;
        let mut window = lock(&self.window);
        window.used = window.used.saturating_sub(arrived);
        if window.used <= self.most / 2 {
            let woken = std::mem::take(&mut window.waiting);
            drop(window);
            woken.iter().for_each(Waker::wake);
        }
        Ok(())
    }
}

/// The way from a tail to a head of another host.
pub(super) struct RemoteHead {
    outbox: Arc<Outbox>,
    host: HostId,
    head: usize,
}

impl RemoteHead {
    /// Sends a batch, which `encode` appends to the frame. `bytes` is about how long it is.
    pub(super) fn send(&self, bytes: usize, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut frame = Vec::with_capacity(bytes + 16);
        (BATCH, self.head).encode(&mut frame);
        encode(&mut frame);
        if let Some(link) = self.outbox.links.get(&self.host) {
            lock(&self.outbox.window).used += frame.len();
            link.send(frame);
        }
    }

    /// Whether so much is on its way that the tail has to wait. If so, its task will be woken.
    pub(super) fn must_wait(&self, tail: &Waker) -> bool {
        let mut window = lock(&self.outbox.window);
        let waits = window.used > self.outbox.most;
        if waits {
            window.waiting.push(tail.clone());
        }
        waits
    }

    /// Whether more is on its way than the window allows.
    pub(super) fn is_full(&self) -> bool {
        lock(&self.outbox.window).used > self.outbox.most
    }

    /// The tail has ended a round. With the last one of this host, a marker is sent to the hosts that it feeds.
    pub(super) fn close(&self) {
        let closed = self.outbox.closed.fetch_add(1, Ordering::AcqRel) + 1;
        if closed.is_multiple_of(self.outbox.tails) {
            self.outbox.links.values().for_each(|link| link.send(vec![ENDED]));
        }
    }
}

/// What other hosts feed back to the heads of this one.
pub(super) struct Inbox {
    /// The name of the loop's head, for messages.
    label: Arc<str>,
    memory: MemoryPool,
    /// To the hosts that feed this one.
    links: BTreeMap<HostId, Link>,
    /// How many rounds have ended on each host that feeds this one.
    ended: Mutex<BTreeMap<HostId, u64>>,
    /// The number of the first head of this host.
    first: usize,
    heads: Vec<Slot>,
}

/// What has come for a head.
#[derive(Default)]
struct Slot {
    waker: OnceLock<Waker>,
    /// By whether the number of the round is odd.
    received: Mutex<[Received; 2]>,
    /// Whether there are batches without memory.
    excess: AtomicBool,
}

/// Encoded batches of a round.
#[derive(Default)]
pub(super) struct Received {
    pub(super) batches: Vec<(Vec<u8>, Reservation)>,
    /// Those for which there was no memory to reserve, until the task of the head has written them to disk.
    pub(super) excess: Vec<Excess>,
}

/// A batch for which there is no memory. Its tail learns that it has arrived when this is dropped, so that no more than a
/// window of them waits for a slow disk, or for the task of the head.
pub(super) struct Excess {
    pub(super) batch: Vec<u8>,
    _held: InFlight,
    _receipt: Option<Receipt>,
}

/// Says that a batch has arrived, when it is dropped.
struct Receipt {
    link: Link,
    bytes: usize,
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let mut arrived = Vec::new();
        (ARRIVED, self.bytes).encode(&mut arrived);
        self.link.send(arrived);
    }
}

impl Inbox {
    /// Sets what is woken when something has come for a head.
    pub(super) fn add_head(&self, head: usize, waker: Waker) {
        if let Some(slot) = self.heads.get(head - self.first) {
            let _ = slot.waker.set(waker);
        }
    }

    /// Whether all of a round has come, of those counted from 1.
    pub(super) fn has_all_of(&self, round: u64) -> bool {
        lock(&self.ended).values().all(|ended| *ended >= round)
    }

    /// Takes what has come of a round.
    pub(super) fn take(&self, head: usize, round: u64) -> Received {
        let received = &mut *lock(&self.heads[head - self.first].received);
        std::mem::take(&mut received[round as usize % 2])
    }

    /// Passes the batches of a round that have come to `each`, but for those on disk. `each` encodes them under the lock, so
    /// what arrives for this head waits for it.
    pub(super) fn see(&self, head: usize, round: u64, mut each: impl FnMut(&[u8])) {
        let received = &lock(&self.heads[head - self.first].received)[round as usize % 2];
        received.batches.iter().for_each(|(batch, _)| each(batch));
        received.excess.iter().for_each(|excess| each(&excess.batch));
    }

    /// Takes the batches for which there is no memory, by whether the number of the round is odd.
    pub(super) fn take_excess(&self, head: usize) -> Option<[Vec<Excess>; 2]> {
        let slot = &self.heads[head - self.first];
        if !slot.excess.swap(false, Ordering::AcqRel) {
            return None;
        }
        let [even, odd] = &mut *lock(&slot.received);
        Some([std::mem::take(&mut even.excess), std::mem::take(&mut odd.excess)])
    }

    fn batch(
        &self,
        round: u64,
        head: usize,
        batch: &[u8],
        receipt: Option<Receipt>,
    ) -> Result<(), DecodeError> {
        let slot = head.checked_sub(self.first).and_then(|head| self.heads.get(head));
        let slot = slot.ok_or_else(|| DecodeError::invalid("a head of this host"))?;
        let mut reservation = self.memory.unnamed(Claim::Modest);
        let fits = reservation.try_resize(batch.len());
        let received = &mut lock(&slot.received)[round as usize % 2];
        if fits {
            received.batches.push((batch.to_vec(), reservation));
            return Ok(());
        }
        let _held = self.memory.carry(batch.len());
        received.excess.push(Excess { batch: batch.to_vec(), _held, _receipt: receipt });
        slot.excess.store(true, Ordering::Release);
        slot.waker.get().inspect(|waker| waker.wake());
        Ok(())
    }

    fn take_frame(&self, from: HostId, frame: &[u8]) -> Result<(), DecodeError> {
        let mut ended = lock(&self.ended);
        let rounds = ended.get_mut(&from);
        let rounds =
            rounds.ok_or_else(|| DecodeError::invalid("from a host that feeds this one"))?;
        let input = &mut &*frame;
        match u8::decode(input)? {
            ENDED if input.is_empty() => {
                *rounds += 1;
                drop(ended);
                let wakers = self.heads.iter().filter_map(|slot| slot.waker.get());
                wakers.for_each(Waker::wake);
                Ok(())
            }
            BATCH => {
                let round = *rounds + 1;
                drop(ended);
                let link = self.links.get(&from).cloned();
                let receipt = link.map(|link| Receipt { link, bytes: frame.len() });
                self.batch(round, usize::decode(input)?, input, receipt)
            }
            _ => Err(DecodeError::invalid("a batch, or the end of a round")),
        }
    }
}

impl Receive for Inbox {
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        self.take_frame(from, frame).map_err(|error| {
            let what = format!("what host {} feeds back cannot be decoded: {error}", from.0);
            Error::new(ErrorKind::Internal, what).in_operator(&*self.label)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Wake;
    use crate::net::{Part, TestNetwork};
    use crate::sync::AtomicUsize;

    fn layout(tails: &[usize], heads: &[usize]) -> Layout {
        let hosts = |of: &[usize]| of.iter().copied().map(HostId).collect();
        Layout { tails: hosts(tails), heads: hosts(heads) }
    }

    #[test]
    fn tails_feed_heads_of_their_own_host_first() {
        let heads = |layout: &Layout| {
            (0..layout.tails.len()).map(|tail| layout.head_of(tail)).collect::<Vec<_>>()
        };
        assert_eq!(heads(&layout(&[0; 5], &[0; 2])), [0, 1, 0, 1, 0]);
        assert_eq!(heads(&layout(&[0, 0, 1, 2], &[0, 0, 1, 2])), [0, 1, 2, 3]);
        assert_eq!(heads(&layout(&[0, 0, 1, 1, 1], &[0, 1, 1])), [0, 0, 1, 2, 1]);
        let uneven = layout(&[0, 1, 1, 2, 2], &[0, 2]);
        assert_eq!(heads(&uneven), [0, 1, 0, 1, 1]);
        assert_eq!(Vec::from_iter(uneven.fed_by(HostId(1))), [HostId(0), HostId(2)]);
        assert_eq!(Vec::from_iter(uneven.feeders_of(HostId(2))), [HostId(1)]);
        assert!(uneven.fed_by(HostId(2)).is_empty() && uneven.feeders_of(HostId(1)).is_empty());
    }

    #[test]
    fn rounds_of_a_host_are_kept_apart_and_bad_frames_refused() {
        let pool = MemoryPool::new(1000);
        let inbox = Inbox {
            label: "iterate".into(),
            memory: pool.clone(),
            links: BTreeMap::new(),
            ended: Mutex::new([(HostId(1), 0), (HostId(2), 0)].into()),
            first: 4,
            heads: vec![Slot::default(), Slot::default()],
        };
        let send = |from, frame: &[u8]| inbox.receive(HostId(from), frame);
        let batch = |head: usize, bytes: &[u8]| {
            let mut frame = Vec::new();
            (BATCH, head).encode(&mut frame);
            frame.extend_from_slice(bytes);
            frame
        };
        send(1, &batch(5, &[1; 60])).unwrap();
        send(1, &[ENDED]).unwrap();
        assert!(!inbox.has_all_of(1));
        send(1, &batch(5, &[2; 1001])).unwrap();
        send(2, &batch(5, &[3; 30])).unwrap();
        send(2, &[ENDED]).unwrap();
        assert!(inbox.has_all_of(1) && !inbox.has_all_of(2));
        // There was no memory for the second batch, which is of the second round.
        let [even, odd] = inbox.take_excess(5).unwrap();
        assert_eq!((even[0].batch.clone(), even.len(), odd.len()), (vec![2; 1001], 1, 0));
        assert_eq!(pool.in_flight(), 1001);
        drop(even);
        assert_eq!(pool.in_flight(), 0);
        assert!(inbox.take_excess(5).is_none() && inbox.take_excess(4).is_none());
        let first = inbox.take(5, 1);
        let batches: Vec<_> = first.batches.iter().map(|(bytes, _)| bytes[0]).collect();
        assert_eq!(batches, [1, 3]);
        drop(first);
        assert_eq!(pool.used(), 0);
        for (from, frame) in [(0, vec![ENDED]), (1, vec![]), (1, vec![ENDED, 0]), (1, vec![7])] {
            let error = send(from, &frame).unwrap_err();
            assert!(error.to_string().contains(&format!("host {from}")), "{error}");
            assert_eq!(error.operator(), Some("iterate"));
        }
        assert!(send(1, &batch(3, &[])).is_err() && send(1, &batch(6, &[])).is_err());
    }

    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn tails_wait_while_more_than_a_window_is_on_its_way() {
        let (network, part) = (Arc::new(TestNetwork::default()), Part::Tie(0));
        let links = [0, 1].map(|me| network.links(HostId(me), 2, &Arc::default()));
        let inbox = Arc::new(Inbox {
            label: "iterate".into(),
            memory: MemoryPool::new(1000),
            links: [(HostId(1), links[0].to(HostId(1), part))].into(),
            ended: Mutex::new([(HostId(1), 0)].into()),
            first: 0,
            heads: vec![Slot::default()],
        });
        links[0].open(part, Arc::clone(&inbox) as _);
        let outbox = Arc::new(Outbox {
            label: "all_rounds".into(),
            links: [(HostId(0), links[1].to(HostId(0), part))].into(),
            tails: 1,
            closed: AtomicU64::new(0),
            most: 200,
            window: Mutex::default(),
        });
        links[1].open(part, Arc::clone(&outbox) as _);
        let (woken, tail) = (Arc::new(Woken(AtomicUsize::new(0))), Waker::default());
        tail.set(Arc::clone(&woken) as _);
        let head = RemoteHead { outbox: Arc::clone(&outbox), host: HostId(0), head: 0 };
        let send = || head.send(100, |frame| frame.resize(100, 0));
        send();
        send();
        assert!(!head.must_wait(&tail));
        send();
        assert!(head.must_wait(&tail));
        // Three batches, then what says that they have arrived.
        (0..4).for_each(|_| assert!(network.deliver(0)));
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "half of the window is not free yet");
        while network.deliver(0) {}
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(!head.must_wait(&tail));
        assert_eq!(inbox.take(0, 1).batches.len(), 3);
        // What there is no memory for has not arrived before it is on disk.
        let mut all = inbox.memory.reserve();
        assert!(all.try_resize(1000));
        (0..3).for_each(|_| send());
        assert!(head.must_wait(&tail));
        while network.deliver(0) {}
        assert!(head.must_wait(&tail));
        drop(inbox.take_excess(0));
        while network.deliver(0) {}
        assert!(!head.must_wait(&tail));
        let error = outbox.receive(HostId(0), &[BATCH]).unwrap_err();
        assert_eq!(error.operator(), Some("all_rounds"));
    }
}
