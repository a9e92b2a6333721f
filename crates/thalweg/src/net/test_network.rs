//! A network in memory, for tests: frames arrive when the test says so.

use super::{Channel, HostId, Hosts, Links, Network, Receiver};
use crate::flow::Signals;
use crate::memory::MemoryPool;
use crate::sync::{Mutex, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The frames of one channel that are under way between hosts.
#[derive(Default)]
pub(crate) struct TestNetwork {
    /// Sender, receiver and content, in the order in which they were sent.
    frames: Mutex<Vec<(HostId, HostId, Vec<u8>)>>,
    receivers: Mutex<BTreeMap<HostId, Receiver>>,
    /// The hosts whose connections take less than is sent to them.
    pub(crate) behind: Mutex<BTreeSet<HostId>>,
    /// How many hosts report to one, if not the usual number.
    fan_out: Option<usize>,
    /// The hosts that are lost.
    lost: Mutex<BTreeSet<HostId>>,
    /// The pairs of hosts, sender and receiver, between which nothing arrives.
    cut: Mutex<BTreeSet<(HostId, HostId)>>,
}

/// The network as one host sees it.
struct End {
    network: Arc<TestNetwork>,
    me: HostId,
}

impl TestNetwork {
    /// A network in which at most `fan_out` hosts report to the same one.
    pub(crate) fn by_tree_of(fan_out: usize) -> Self {
        Self { fan_out: Some(fan_out), ..Self::default() }
    }

    /// The links of one of so many hosts, for a job with these signals.
    pub(crate) fn links(
        self: &Arc<Self>,
        me: HostId,
        hosts: usize,
        signals: &Arc<Signals>,
    ) -> Links {
        let end = Arc::new(End { network: Arc::clone(self), me });
        let hosts = Hosts::several(me, vec![1; hosts], end);
        let hosts = match self.fan_out {
            Some(fan_out) => hosts.fanning_out(fan_out),
            None => hosts,
        };
        Links::new(Arc::new(hosts), 0, Arc::clone(signals))
    }

    /// Delivers the first frame between the two hosts of the one with this number; returns whether there was any.
    pub(crate) fn deliver(&self, drawn: usize) -> bool {
        let mut frames = lock(&self.frames);
        let Some((from, to, _)) = frames.get(drawn % frames.len().max(1)) else { return false };
        let (from, to) = (*from, *to);
        let first = frames.iter().position(|frame| (frame.0, frame.1) == (from, to));
        let (.., frame) = frames.remove(first.unwrap_or(0));
        drop(frames);
        let receiver = lock(&self.receivers).get(&to).cloned();
        receiver.expect("every host opens the channel").take(from, &frame);
        true
    }

    /// The pairs of hosts, sender and receiver, between which frames are on their way.
    pub(crate) fn ways(&self) -> BTreeSet<(HostId, HostId)> {
        lock(&self.frames).iter().map(|(from, to, _)| (*from, *to)).collect()
    }

    /// Loses a host with all frames from and to it. Notifies the other hosts in their order.
    pub(crate) fn lose(&self, host: HostId) {
        lock(&self.lost).insert(host);
        lock(&self.frames).retain(|(from, to, _)| *from != host && *to != host);
        let others = lock(&self.receivers).clone();
        for (_, receiver) in others.into_iter().filter(|(other, _)| *other != host) {
            receiver.lost(host, "it was dropped");
        }
    }

    /// Cuts two hosts off from each other, with all frames between them. Notifies these two hosts only.
    pub(crate) fn cut(&self, one: HostId, other: HostId) {
        let ways = [(one, other), (other, one)];
        lock(&self.cut).extend(ways);
        lock(&self.frames).retain(|(from, to, _)| !ways.contains(&(*from, *to)));
        let receivers = lock(&self.receivers).clone();
        for (host, lost) in ways {
            if let Some(receiver) = receivers.get(&host) {
                receiver.lost(lost, "its connection was closed");
            }
        }
    }
}

impl Network for End {
    fn send(&self, to: HostId, _: Channel, frame: Vec<u8>) {
        let is_cut = lock(&self.network.cut).contains(&(self.me, to));
        let lost = lock(&self.network.lost);
        if !is_cut && !lost.contains(&self.me) && !lost.contains(&to) {
            lock(&self.network.frames).push((self.me, to, frame));
        }
    }

    fn is_behind(&self, to: HostId) -> bool {
        lock(&self.network.behind).contains(&to)
    }

    fn open(&self, _: Channel, receiver: Receiver) {
        lock(&self.network.receivers).insert(self.me, receiver);
    }

    fn count_in(&self, _: &MemoryPool) {}

    fn close(&self, _: u64) {}
}
