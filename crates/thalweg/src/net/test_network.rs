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
    /// How many hosts report to one, if not as many as usual.
    fan_out: Option<usize>,
}

/// The network as one host sees it.
struct End {
    network: Arc<TestNetwork>,
    me: HostId,
}

impl TestNetwork {
    /// One of whose hosts at most so many report to the same.
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
}

impl Network for End {
    fn send(&self, to: HostId, _: Channel, frame: Vec<u8>) {
        lock(&self.network.frames).push((self.me, to, frame));
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
