//! Outages of simulated hosts and of the ways between them, and how hosts find out.
//!
//! A host that is stopped does nothing for a while, as a process does after SIGSTOP. Nothing arrives there meanwhile, nor on a way
//! that is cut: what was sent waits until that is over. Hosts send signs of life and give up one of which nothing has arrived for
//! [`LOST_AFTER`], by the rules of real networks ([`Periodic`], [`silence`]). A host closes the connection to one that it gives up.
//! The other one sees that, unless the way there is cut, and gives up this one too.
//!
//! Here are only values: the cluster begins outages, lets time pass, and acts on what hosts have found.

use super::cluster::STEP;
use crate::clock::Nanos;
use crate::net::{HostId, Periodic, silence};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// For how long nothing may arrive from a host before it is given up, in steps.
pub(crate) const LOST_AFTER: u64 = 400;
/// How a host is lost that was dropped.
pub(super) const DROPPED: &str = "it was dropped";
/// How others give up a host.
const SILENT: &str = "nothing arrived from it for too long";
const CLOSED: &str = "its connection was closed";

/// What happens to simulated hosts, or between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    /// These hosts are dropped with all of their tasks, as if their machines had died.
    Lost(Vec<HostId>),
    /// A host does nothing for so many steps.
    Stopped(HostId, u64),
    /// Nothing arrives on these ways, each from a host to another one, for so many steps.
    Cut(Vec<(HostId, HostId)>, u64),
}

impl Display for Outage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let numbers = |hosts: &[HostId]| hosts.iter().map(|host| host.0).collect::<Vec<_>>();
        match self {
            Self::Lost(hosts) => write!(f, "hosts {:?} are lost", numbers(hosts)),
            Self::Stopped(host, steps) => write!(f, "host {} is stopped for {steps} steps", host.0),
            Self::Cut(ways, steps) => {
                for (from, to) in ways {
                    write!(f, "nothing arrives from host {} at host {}, ", from.0, to.0)?;
                }
                match *steps {
                    u64::MAX => write!(f, "for ever"),
                    steps => write!(f, "for {steps} steps"),
                }
            }
        }
    }
}

/// The outages of a cluster that have begun.
#[derive(Default)]
pub(super) struct Outages {
    /// The time since the cluster began. Clocks of hosts may be set.
    now: Nanos,
    /// Until when a host is stopped, and a way is cut.
    stopped: BTreeMap<HostId, Nanos>,
    cut: BTreeMap<(HostId, HostId), Nanos>,
    /// The hosts that each host has given up, and how. One that was dropped has given up itself.
    lost: BTreeMap<(HostId, HostId), &'static str>,
    /// By host, from the first outage on.
    pulses: Vec<Pulse>,
}

/// When a host sends signs of life, and what it knows of those of others.
struct Pulse {
    beats: Periodic,
    looks: Periodic,
    /// When something has arrived last from each host.
    arrived: Vec<Nanos>,
}

impl Outages {
    /// Begins an outage among so many hosts; at the first one, all have heard from each other.
    pub(super) fn begin(&mut self, outage: &Outage, hosts: usize) {
        let now = self.now;
        if self.pulses.is_empty() {
            let every = Duration::from_nanos(LOST_AFTER * STEP / 4);
            let pulse = |_| Pulse {
                beats: Periodic::new(every, now),
                looks: Periodic::new(every, now),
                arrived: vec![now; hosts],
            };
            self.pulses = (0..hosts).map(pulse).collect();
        }
        let until = |steps: u64| now.saturating_add(steps.saturating_mul(STEP));
        match outage {
            Outage::Lost(lost) => {
                for host in lost {
                    (0..hosts).for_each(|other| self.lose(HostId(other), *host, DROPPED));
                }
            }
            Outage::Stopped(host, steps) => _ = self.stopped.insert(*host, until(*steps)),
            Outage::Cut(ways, steps) => {
                self.cut.extend(ways.iter().map(|way| (*way, until(*steps))));
            }
        }
    }

    /// Time passes. Returns which host has found which one to be gone, and how.
    pub(super) fn pass(&mut self, span: Nanos) -> Vec<(HostId, HostId, &'static str)> {
        self.now = self.now.saturating_add(span);
        let (now, hosts) = (self.now, self.pulses.len());
        self.stopped.retain(|_, until| *until > now);
        self.cut.retain(|_, until| *until > now);
        for from in 0..hosts {
            if !self.is_up(HostId(from)) || self.pulses[from].beats.take(now).is_none() {
                continue;
            }
            for to in 0..hosts {
                if !self.is_cut(HostId(from), HostId(to)) {
                    self.pulses[to].arrived[from] = now;
                }
            }
        }
        let mut found = Vec::new();
        for host in 0..hosts {
            if !self.is_up(HostId(host)) {
                continue;
            }
            let late = self.pulses[host].looks.take(now);
            for other in 0..hosts {
                let (me, peer) = (HostId(host), HostId(other));
                if me == peer || self.has_lost(me, peer) {
                    continue;
                }
                let arrived = &mut self.pulses[host].arrived[other];
                let silent = late.map(|late| silence(arrived, late, now));
                if self.is_closed(me, peer) {
                    found.push((me, peer, CLOSED));
                } else if silent.is_some_and(|silent| silent >= LOST_AFTER * STEP) {
                    found.push((me, peer, SILENT));
                }
            }
        }
        found
    }

    /// After what time hosts may find something, or an outage is over, for which they may wait.
    pub(super) fn next(&self) -> Option<Nanos> {
        let ends = self.stopped.values().chain(self.cut.values());
        let ends = ends.copied().filter(|until| *until < Nanos::MAX);
        let looks = (0..self.pulses.len()).filter_map(|host| {
            let others = (0..self.pulses.len()).filter(|other| *other != host);
            let next = others.filter_map(|other| self.next_look(HostId(host), HostId(other)));
            next.min()
        });
        ends.chain(looks).min().map(|at| at.saturating_sub(self.now))
    }

    /// When a host may give up another one.
    fn next_look(&self, me: HostId, peer: HostId) -> Option<Nanos> {
        if !self.is_up(me) || self.has_lost(me, peer) {
            return None;
        }
        let is_silent = self.stopped.contains_key(&peer) || self.is_cut(peer, me);
        match self.is_closed(me, peer) {
            true => Some(self.now),
            false => is_silent.then(|| self.pulses[me.0].looks.next()),
        }
    }

    /// A host gives up another one.
    pub(super) fn lose(&mut self, host: HostId, lost: HostId, how: &'static str) {
        self.lost.entry((host, lost)).or_insert(how);
    }

    /// The hosts that a host has given up, and how.
    pub(super) fn lost_to(&self, host: HostId) -> Vec<(HostId, &'static str)> {
        let own = self.lost.iter().filter(|((by, _), _)| *by == host);
        own.map(|((_, lost), how)| (*lost, *how)).collect()
    }

    /// Whether what a host sends to another one may arrive at some time.
    pub(super) fn are_connected(&self, from: HostId, to: HostId) -> bool {
        let ends = [(from, from), (to, to), (from, to), (to, from)];
        self.lost.is_empty() || !ends.iter().any(|pair| self.lost.contains_key(pair))
    }

    /// Whether what was sent may arrive now.
    pub(super) fn is_open(&self, from: HostId, to: HostId) -> bool {
        !self.is_cut(from, to) && !self.is_stopped(to)
    }

    pub(super) fn is_stopped(&self, host: HostId) -> bool {
        self.stopped.contains_key(&host)
    }

    /// The hosts that are stopped.
    pub(super) fn stopped(&self) -> Vec<HostId> {
        self.stopped.keys().copied().collect()
    }

    fn is_cut(&self, from: HostId, to: HostId) -> bool {
        self.cut.contains_key(&(from, to))
    }

    fn has_lost(&self, host: HostId, other: HostId) -> bool {
        self.lost.contains_key(&(host, other))
    }

    /// Whether a host does what it should.
    fn is_up(&self, host: HostId) -> bool {
        !self.is_stopped(host) && !self.has_lost(host, host)
    }

    /// Whether a host sees that another one has closed their connection.
    fn is_closed(&self, me: HostId, peer: HostId) -> bool {
        self.has_lost(peer, me) && !self.is_cut(peer, me)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: HostId = HostId(0);
    const SECOND: HostId = HostId(1);
    const THIRD: HostId = HostId(2);

    /// Which host gives up which, and after how many steps at most, when something happens to three hosts. A step takes so many
    /// times its usual time, as where all hosts wait for a timer.
    fn found(outage: &Outage, times: u64) -> Vec<(HostId, HostId, u64)> {
        let mut outages = Outages::default();
        assert!(outages.pass(17 * STEP).is_empty());
        assert_eq!(outages.next(), None);
        outages.begin(outage, 3);
        let mut found = Vec::new();
        for step in 0..6000 {
            for (host, lost, how) in outages.pass(times * STEP) {
                outages.lose(host, lost, how);
                found.push((host, lost, step * times));
            }
        }
        assert_eq!(outages.next(), None, "nothing is left to be found");
        found
    }

    fn pairs(found: &[(HostId, HostId, u64)]) -> Vec<(HostId, HostId)> {
        found.iter().map(|(host, lost, _)| (*host, *lost)).collect()
    }

    #[test]
    fn both_ends_of_a_cut_give_up_each_other() {
        let both = vec![(FIRST, THIRD), (THIRD, FIRST)];
        let cut = found(&Outage::Cut(both.clone(), u64::MAX), 1);
        assert_eq!(pairs(&cut), both);
        let in_time = LOST_AFTER - LOST_AFTER / 4..=LOST_AFTER + LOST_AFTER / 4;
        assert!(cut.iter().all(|(_, _, after)| in_time.contains(after)), "{cut:?}");
        // One hears nothing, and the other sees that the connection is closed.
        let cut = found(&Outage::Cut(vec![(SECOND, THIRD)], u64::MAX), 1);
        assert_eq!(pairs(&cut), [(THIRD, SECOND), (SECOND, THIRD)]);
        assert_eq!(cut[1].2, cut[0].2 + 1);
        // One that is over before is a delay.
        assert!(found(&Outage::Cut(both, LOST_AFTER / 2), 1).is_empty());
    }

    #[test]
    fn a_host_that_comes_back_late_finds_that_it_was_given_up() {
        assert!(found(&Outage::Stopped(SECOND, LOST_AFTER / 2), 1).is_empty());
        let stopped = found(&Outage::Stopped(SECOND, 5 * LOST_AFTER), 1);
        let expected = [(FIRST, SECOND), (THIRD, SECOND), (SECOND, FIRST), (SECOND, THIRD)];
        assert_eq!(pairs(&stopped), expected);
        assert!(stopped[1].2 <= LOST_AFTER + LOST_AFTER / 4, "{stopped:?}");
        assert!(stopped[2].2 >= 5 * LOST_AFTER - 1, "{stopped:?}");
    }

    #[test]
    fn a_leap_in_time_loses_no_host() {
        let stopped = Outage::Stopped(SECOND, LOST_AFTER / 2);
        assert!(found(&stopped, 100 * LOST_AFTER).is_empty());
    }

    #[test]
    fn hosts_that_are_dropped_are_lost_at_once() {
        let mut outages = Outages::default();
        outages.begin(&Outage::Lost(vec![FIRST, THIRD]), 3);
        assert_eq!(outages.lost_to(SECOND), [(FIRST, DROPPED), (THIRD, DROPPED)]);
        assert_eq!(outages.lost_to(FIRST), outages.lost_to(SECOND));
        assert!(!outages.are_connected(SECOND, FIRST) && !outages.are_connected(FIRST, THIRD));
        assert_eq!(outages.next(), None);
        assert!(outages.pass(10 * LOST_AFTER * STEP).is_empty());
    }
}
