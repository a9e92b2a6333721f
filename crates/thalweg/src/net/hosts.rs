//! The hosts of a job, and which of them runs which task.

use super::Network;
use super::tree::FAN_OUT;
use crate::memory::MemoryPool;
use std::sync::Arc;

/// The number of a host, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostId(pub(crate) usize);

impl HostId {
    /// The host that has the first task of each stage, and with it the work of sources, permits and the end of a job.
    pub(crate) const FIRST: Self = Self(0);
}

/// The hosts on which the jobs of an environment run, as one of them sees it.
pub(crate) struct Hosts {
    me: HostId,
    /// The cores of each host.
    cores: Vec<usize>,
    /// `None` if there is one host only.
    network: Option<Arc<dyn Network>>,
    /// The bytes from which frames of batches are compressed, if they are.
    compress_from: Option<usize>,
    /// The most lanes of an edge that are kept apart.
    lanes_apart: usize,
    /// How many hosts report to one where they agree.
    fan_out: usize,
}

/// Beyond so many pairs of tasks, the lanes of an edge between hosts are bundled: as many as two hosts of 16 cores have, with four
/// receiving tasks a core.
const LANES_APART: usize = 1 << 12;

impl Hosts {
    /// The only host.
    pub(crate) fn one(cores: usize) -> Self {
        Self {
            me: HostId::FIRST,
            cores: vec![cores.max(1)],
            network: None,
            compress_from: None,
            lanes_apart: LANES_APART,
            fan_out: FAN_OUT,
        }
    }

    /// One of several hosts.
    pub(crate) fn several(me: HostId, cores: Vec<usize>, network: Arc<dyn Network>) -> Self {
        let cores = cores.into_iter().map(|cores| cores.max(1)).collect();
        Self { me, cores, network: Some(network), ..Self::one(1) }
    }

    /// The same hosts, which compress frames of batches from so many bytes on. All of them do it alike.
    pub(crate) fn compressing(self, from: Option<usize>) -> Self {
        Self { compress_from: from, ..self }
    }

    /// The same hosts, which bundle the lanes of an edge between hosts if there are more in all. All of them do it alike.
    pub(crate) fn bundling(self, lanes_apart: usize) -> Self {
        Self { lanes_apart, ..self }
    }

    /// The same hosts, at most `fan_out` of which report to the same one. All hosts must use the same number.
    pub(crate) fn fanning_out(self, fan_out: usize) -> Self {
        Self { fan_out, ..self }
    }

    /// How many hosts report to one where they agree.
    pub(crate) fn fan_out(&self) -> usize {
        self.fan_out
    }

    /// Whether an edge with so many pairs of tasks has its lanes between hosts bundled.
    pub(crate) fn bundles(&self, lanes: usize) -> bool {
        self.network.is_some() && lanes > self.lanes_apart
    }

    /// The bytes from which frames of batches are compressed, if they are.
    pub(crate) fn compress_from(&self) -> Option<usize> {
        self.compress_from
    }

    /// This host.
    pub(crate) fn me(&self) -> HostId {
        self.me
    }

    pub(crate) fn count(&self) -> usize {
        self.cores.len()
    }

    /// All hosts but this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = HostId> + use<> {
        let me = self.me;
        (0..self.count()).map(HostId).filter(move |host| *host != me)
    }

    /// The cores of all hosts together.
    pub(crate) fn all_cores(&self) -> usize {
        self.cores.iter().sum()
    }

    /// Waits until the system has taken what was sent to other hosts, for a few seconds at most.
    pub(crate) fn flush(&self) {
        if let Some(network) = &self.network {
            network.flush();
        }
    }

    /// Counts the frames that wait on this host in a pool, from now on.
    pub(crate) fn count_in(&self, memory: &MemoryPool) {
        if let Some(network) = &self.network {
            network.count_in(memory);
        }
    }

    /// Leaves the other hosts, before the process ends without dropping its environments.
    #[cfg_attr(not(feature = "cli"), allow(dead_code))]
    pub(crate) fn leave(&self) {
        if let Some(network) = &self.network {
            network.leave();
        }
    }

    pub(super) fn network(&self) -> Option<&Arc<dyn Network>> {
        self.network.as_ref()
    }

    /// The host of a task of a stage whose tasks are spread over all cores: host by host in the order of the tasks,
    /// in proportion to the hosts' cores. So tasks with the same number, of stages with as many tasks, are on the
    /// same host, and the first is on host 0.
    pub(crate) fn of_task(&self, task: usize, tasks: usize) -> HostId {
        let core = task * self.all_cores() / tasks.max(1);
        let mut end = 0;
        let host = self.cores.iter().position(|cores| {
            end += cores;
            core < end
        });
        HostId(host.unwrap_or(self.count() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(cores: &[usize], tasks: usize) -> Vec<usize> {
        let hosts = Hosts { cores: cores.to_vec(), ..Hosts::one(1) };
        (0..tasks).map(|task| hosts.of_task(task, tasks).0).collect()
    }

    #[test]
    fn tasks_are_spread_in_proportion_to_cores() {
        assert_eq!(spread(&[2, 1], 3), [0, 0, 1]);
        assert_eq!(spread(&[2, 1], 6), [0, 0, 0, 0, 1, 1]);
        assert_eq!(spread(&[1, 3], 8), [0, 0, 1, 1, 1, 1, 1, 1]);
        assert_eq!(spread(&[1, 2, 1], 4), [0, 1, 1, 2]);
    }

    #[test]
    fn a_single_task_is_on_the_first_host() {
        assert_eq!(spread(&[1, 1, 1], 1), [0]);
        assert_eq!(spread(&[1, 3], 2), [0, 1]);
        assert_eq!(spread(&[4], 3), [0, 0, 0]);
    }
}
