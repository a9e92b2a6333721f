//! An edge: all lanes between two stages.

use super::align::Idleness;
use super::far::{Ends, Far, Frame};
use super::inbox::{Gate, Inbox};
use super::lane::Lane;
use super::outlet::{Destination, Lanes, Outlet};
use super::record_batch::RecordBatch;
use super::{BatchMode, route::Route};
use crate::clock::Clock;
use crate::data::{DecodeError, Portable};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Op, Waker};
use crate::memory::MemoryPool;
use crate::net::{HostId, Links, Part, Receive};
use crate::time::Time;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// How much of the usual credit a lane between hosts has: what it returns is under way for a while, and until the receiver
/// looks at what has arrived, the sender has nothing to do.
pub(crate) const FAR_CREDIT: usize = 2;

/// Settings that all lanes of an edge share.
#[derive(Clone, Debug)]
pub(crate) struct LaneSettings {
    pub(crate) batch: BatchMode,
    /// The bytes that a sender may have in flight on one lane within a host, of [`FAR_CREDIT`] such between hosts.
    pub(crate) credit: usize,
    /// The same as it is configured, if the memory budget is large enough for it: what other hosts assume.
    pub(crate) usual_credit: usize,
    /// Counts what is in flight.
    pub(crate) memory: MemoryPool,
    /// The bytes from which frames to other hosts are compressed, if they are.
    pub(crate) compress_from: Option<usize>,
    /// Whether batches are encoded and decoded again, as between hosts.
    pub(crate) encode: bool,
    /// Whether the lanes to and from other hosts are [bundled](super::inbox).
    pub(crate) bundled: bool,
    /// Where the senders have it from that they are idle.
    pub(crate) idleness: Idleness,
    /// Measures how long batches are in flight.
    pub(crate) clock: Clock,
}

/// The tasks of a stage: what wakes each of them, and its host. Nothing wakes a task of another host.
#[derive(Clone, Copy)]
pub(crate) struct TasksOf<'a> {
    pub(crate) wakers: &'a [Waker],
    pub(crate) hosts: &'a [HostId],
}

/// An edge of the plan. Its lanes are created at launch, when the numbers of tasks at both ends are known.
pub(crate) struct Edge<I: Portable + ?Sized, T: Time> {
    /// Its number in the plan.
    id: usize,
    lanes: Arc<OnceLock<AllLanes<I, T>>>,
}

/// A lane, shared by its sender and its receiver.
pub(crate) type SharedLane<I, T> = Arc<Lane<RecordBatch<I, T>>>;

/// The lanes of an edge that begin or end on this host.
struct AllLanes<I: Portable + ?Sized, T: Time> {
    settings: LaneSettings,
    /// The number of sending tasks on all hosts.
    senders: usize,
    /// By sender and receiver: those within this host, and unless lanes are bundled, the halves of those to and from others.
    lanes: Sorted<(u32, u32), SharedLane<I, T>>,
    bundles: Option<Bundles<I, T>>,
}

/// The lanes to and from other hosts, where they are bundled.
struct Bundles<I: Portable + ?Sized, T: Time> {
    /// The bundles of the sending tasks of this host, by sender and host.
    outgoing: Sorted<(u32, HostId), SharedLane<I, T>>,
    /// By sending host.
    inboxes: Sorted<HostId, Inbox<RecordBatch<I, T>>>,
    /// By receiving task.
    destinations: Arc<[Destination]>,
}

/// Values by key. Unlike those of a map, what finds them is not compiled again for each type of value, of which a program has one for
/// each type of record that it exchanges.
struct Sorted<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Ord + Copy, V> Sorted<K, V> {
    /// The keys must be in order.
    fn of(keys: Vec<K>, mut make: impl FnMut(K) -> V) -> Self {
        debug_assert!(keys.is_sorted());
        let mut values = Vec::with_capacity(keys.len());
        for key in &keys {
            values.push(make(*key));
        }
        Self { keys, values }
    }

    fn get(&self, key: K) -> Option<&V> {
        self.values.get(place_of(&self.keys, key)?)
    }

    /// The values of the keys from `first` to `last`, both included.
    fn range(&self, first: K, last: K) -> &[V] {
        &self.values[places_of(&self.keys, first, last)]
    }
}

fn place_of<K: Ord>(keys: &[K], key: K) -> Option<usize> {
    keys.binary_search(&key).ok()
}

fn places_of<K: Ord>(keys: &[K], first: K, last: K) -> Range<usize> {
    keys.partition_point(|key| *key < first)..keys.partition_point(|key| *key <= last)
}

/// The credit of a lane between hosts.
fn far_credit(credit: usize) -> usize {
    credit.saturating_mul(FAR_CREDIT)
}

/// The tasks of each host that has any, in order. Those of a host have successive numbers.
fn by_host(hosts: &[HostId]) -> BTreeMap<HostId, Range<usize>> {
    let mut ranges = BTreeMap::<HostId, Range<usize>>::new();
    for (task, host) in hosts.iter().enumerate() {
        ranges.entry(*host).or_insert(task..task).end = task + 1;
    }
    ranges
}

impl<I: Portable + ?Sized, T: Time> Clone for Edge<I, T> {
    fn clone(&self) -> Self {
        Self { id: self.id, lanes: Arc::clone(&self.lanes) }
    }
}

/// Makes the lanes of an edge.
struct Maker<'a> {
    edge: usize,
    settings: &'a LaneSettings,
    senders: TasksOf<'a>,
    receivers: TasksOf<'a>,
    links: &'a Links,
}

impl Maker<'_> {
    fn part(&self) -> Part {
        Part::Edge(self.edge)
    }

    fn lane<B>(&self, credit: usize, sender: Waker, receiver: Waker) -> Lane<B> {
        let mut lane = Lane::new(self.edge, credit, &self.settings.memory, sender, receiver);
        lane.idleness = self.settings.idleness.clone();
        lane
    }

    /// Half of a lane between hosts.
    fn half<B>(&self, far: Far, sender: Waker, receiver: Waker) -> Arc<Lane<B>> {
        let [credit, usual] = [self.settings.credit, self.settings.usual_credit].map(far_credit);
        Arc::new(self.lane(credit, sender, receiver).into_half(far, usual))
    }

    /// The lane between two tasks of which at least one is on this host.
    fn single<B>(&self, from: usize, to: usize) -> Arc<Lane<B>> {
        let me = self.links.hosts().me();
        let (sender, receiver) =
            (self.senders.wakers[from].clone(), self.receivers.wakers[to].clone());
        let [sends, receives] = [self.senders.hosts[from], self.receivers.hosts[to]];
        let other = if sends == me { receives } else { sends };
        if other == me {
            return Arc::new(self.lane(self.settings.credit, sender, receiver));
        }
        let ends = Ends { from: from as u32, to: to as u32 };
        let link = self.links.to(other, self.part());
        self.half(Far::new(link, ends, sends == me), sender, receiver)
    }

    /// Every pair of a sender and a receiver that are `linked` and of which at least one is on this host, in order.
    fn pairs(&self, linked: &dyn Fn(usize, usize) -> bool) -> Vec<(u32, u32)> {
        let me = self.links.hosts().me();
        let all: Vec<_> = (0..self.receivers.hosts.len()).collect();
        let here = self.here(self.receivers.hosts);
        let mut pairs = Vec::new();
        for (from, host) in self.senders.hosts.iter().enumerate() {
            let to = if *host == me { &all } else { &here };
            let to = to.iter().filter(|to| linked(from, **to));
            pairs.extend(to.map(|to| (from as u32, *to as u32)));
        }
        pairs
    }

    /// The pairs of tasks of this host, in order.
    fn pairs_within(&self) -> Vec<(u32, u32)> {
        let to = self.here(self.receivers.hosts);
        let from = self.here(self.senders.hosts).into_iter();
        from.flat_map(|from| to.iter().map(move |to| (from as u32, *to as u32))).collect()
    }

    /// The tasks of this host, of those with these hosts.
    fn here(&self, hosts: &[HostId]) -> Vec<usize> {
        let me = self.links.hosts().me();
        (0..hosts.len()).filter(|task| hosts[*task] == me).collect()
    }

    fn singles<B>(&self, pairs: Vec<(u32, u32)>) -> Sorted<(u32, u32), Arc<Lane<B>>> {
        Sorted::of(pairs, |(from, to)| self.single(from as usize, to as usize))
    }

    fn bundles<I: Portable + ?Sized, T: Time>(&self) -> Bundles<I, T> {
        let layout = self.layout();
        let outgoing = Sorted::of(layout.outgoing, |(from, host)| {
            let far =
                Far::new(self.links.to(host, self.part()), Ends { from, to: Ends::ALL }, true);
            self.half(far, self.senders.wakers[from as usize].clone(), Waker::default())
        });
        let inboxes = Sorted::of(layout.incoming, |host| {
            let tasks = &layout.senders[&host];
            let (link, to) = (self.links.to(host, self.part()), layout.own.clone());
            let usual_credit = far_credit(self.settings.usual_credit);
            let first = tasks.start as u32;
            let gate = Arc::new(Gate::new(link, first, tasks.len(), to.len(), usual_credit));
            let mut lanes = Vec::with_capacity(to.len());
            for task in to {
                let receiver = self.receivers.wakers[task].clone();
                let far = Far::behind(&gate, lanes.len());
                lanes.push(self.half(far, Waker::default(), receiver));
            }
            Inbox::new(gate, lanes, &self.settings.memory, &self.settings.idleness)
        });
        Bundles { outgoing, inboxes, destinations: layout.destinations }
    }

    /// Which bundles there are.
    fn layout(&self) -> BundleLayout {
        let me = self.links.hosts().me();
        let (senders, receivers) = (by_host(self.senders.hosts), by_host(self.receivers.hosts));
        let here = |tasks: &BTreeMap<HostId, Range<usize>>| tasks.get(&me).cloned().unwrap_or(0..0);
        let others = || receivers.iter().filter(|(host, _)| **host != me);
        let of_task = |from| others().map(move |(host, _)| (from as u32, *host));
        let outgoing = here(&senders).flat_map(of_task).collect();
        let incoming = senders.keys().copied().filter(|host| *host != me).collect();
        // First the lanes to the tasks of this host, then a bundle for each other host.
        let own = here(&receivers);
        let mut destinations = vec![Destination::default(); self.receivers.hosts.len()];
        for (at, task) in own.clone().enumerate() {
            destinations[task] = Destination { lane: at as u32, task: 0 };
        }
        for (at, (_, tasks)) in others().enumerate() {
            for (nth, task) in tasks.clone().enumerate() {
                destinations[task] =
                    Destination { lane: (own.len() + at) as u32, task: nth as u32 };
            }
        }
        BundleLayout { outgoing, incoming, senders, own, destinations: destinations.into() }
    }
}

/// The bundles of an edge, of whatever type.
struct BundleLayout {
    /// The sending task of this host and the other host of each bundle that begins here, in order.
    outgoing: Vec<(u32, HostId)>,
    /// The other hosts that send, in order.
    incoming: Vec<HostId>,
    /// The sending tasks of each host.
    senders: BTreeMap<HostId, Range<usize>>,
    /// The receiving tasks of this host.
    own: Range<usize>,
    destinations: Arc<[Destination]>,
}

impl<I: Portable + ?Sized, T: Time> Edge<I, T> {
    /// The edge with this number in the plan.
    pub(crate) fn new(id: usize) -> Self {
        Self { id, lanes: Arc::new(OnceLock::new()) }
    }

    /// Creates the lanes, one for each pair of a sender and a receiver that are `linked`, as far as one of them is on
    /// this host. If they are bundled, every sender is linked with every receiver.
    pub(crate) fn connect(
        &self,
        settings: LaneSettings,
        senders: TasksOf<'_>,
        receivers: TasksOf<'_>,
        links: &Links,
        linked: &dyn Fn(usize, usize) -> bool,
    ) {
        let maker = Maker { edge: self.id, settings: &settings, senders, receivers, links };
        let (lanes, bundles) = match settings.bundled {
            false => (maker.singles(maker.pairs(linked)), None),
            true => (maker.singles(maker.pairs_within()), Some(maker.bundles())),
        };
        // An edge belongs to one job, which is launched once.
        let _ = self.lanes.set(AllLanes { settings, senders: senders.hosts.len(), lanes, bundles });
        links.open(Part::Edge(self.id), Arc::new(self.clone()));
    }

    fn all(&self) -> &AllLanes<I, T> {
        self.lanes.get().expect("a job connects its edges before it makes its tasks")
    }

    /// The sending ends of the lanes of one task of the upstream stage.
    pub(crate) fn lanes_from(&self, task: usize, op: Op) -> Lanes<I, T> {
        let AllLanes { settings, lanes, bundles, .. } = self.all();
        let task = task as u32;
        let mut from_task = lanes.range((task, 0), (task, u32::MAX)).to_vec();
        if let Some(Bundles { outgoing, .. }) = bundles {
            let outgoing = outgoing.range((task, HostId(0)), (task, HostId(usize::MAX)));
            from_task.extend_from_slice(outgoing);
        }
        let destinations = bundles.as_ref().map(|bundles| Arc::clone(&bundles.destinations));
        Lanes::new(op, self.id, settings.clone(), from_task, destinations)
    }

    /// The outlet of one task of the upstream stage.
    pub(crate) fn outlet<R: Route<I>>(&self, task: usize, op: Op, route: R) -> Outlet<I, T, R> {
        Outlet::new(self.lanes_from(task, op), route)
    }

    /// The receiving ends of the lanes of one task of the downstream stage: one for each sending task, or if lanes are bundled,
    /// for each of this host and for each other host.
    pub(crate) fn lanes_to(&self, task: usize) -> Vec<SharedLane<I, T>> {
        let AllLanes { senders, lanes, bundles, .. } = self.all();
        let mut to_task = Vec::new();
        for from in 0..*senders as u32 {
            if let Some(lane) = lanes.get((from, task as u32)) {
                to_task.push(Arc::clone(lane));
            }
        }
        if let Some(Bundles { inboxes, destinations, .. }) = bundles {
            let own = destinations.get(task).map_or(usize::MAX, |own| own.lane as usize);
            for inbox in &inboxes.values {
                if let Some(lane) = inbox.lanes().get(own) {
                    to_task.push(Arc::clone(lane));
                }
            }
        }
        to_task
    }

    /// The receiving ends of the lanes of several edges that lead to the same stage.
    pub(crate) fn all_lanes_to(edges: &[Self], task: usize) -> Vec<SharedLane<I, T>> {
        let mut lanes = Vec::new();
        for edge in edges {
            lanes.append(&mut edge.lanes_to(task));
        }
        lanes
    }

    /// The number of bundles to other hosts.
    #[cfg(test)]
    pub(super) fn outgoing(&self) -> usize {
        self.all().bundles.as_ref().map_or(0, |bundles| bundles.outgoing.keys.len())
    }

    /// Takes a frame of a task that is not bundled, or about a bundle.
    fn take(&self, host: HostId, ends: Ends, frame: Frame<'_>) -> Result<(), DecodeError> {
        let not_its_own = || DecodeError::invalid("a lane of that host");
        let AllLanes { lanes, bundles, .. } = self.lanes.get().ok_or_else(not_its_own)?;
        let lane = match ends.to {
            Ends::ALL => {
                let bundles = bundles.as_ref().ok_or_else(not_its_own)?;
                if frame.is_of_sender() {
                    let inbox = bundles.inboxes.get(host).ok_or_else(not_its_own)?;
                    return inbox.take(ends.from, frame);
                }
                bundles.outgoing.get((ends.from, host))
            }
            to => lanes.get((ends.from, to)),
        };
        // From whom a frame for a lane may come follows from the plan.
        let may_send = |far: &&Far| far.link.to() == host && far.sends != frame.is_of_sender();
        let far = lane.and_then(|lane| lane.far()).filter(may_send);
        let (lane, far) = lane.zip(far).ok_or_else(not_its_own)?;
        lane.take_frame(far, frame);
        Ok(())
    }
}

impl<I: Portable + ?Sized, T: Time> Receive for Edge<I, T> {
    fn receive(&self, host: HostId, frame: &[u8]) -> Result<()> {
        let wrong = |what: String| {
            let what = format!("host {} has sent {what} on edge {}", host.0, self.id);
            Error::new(ErrorKind::Internal, what)
        };
        let (ends, frame) = Frame::decode(frame)
            .map_err(|error| wrong(format!("a frame that is torn ({error})")))?;
        let Ends { from, to } = ends;
        self.take(host, ends, frame).map_err(|error| {
            wrong(format!(
                "a frame for a lane that is not its own, or torn ({from} to {to}: {error})"
            ))
        })
    }
}
