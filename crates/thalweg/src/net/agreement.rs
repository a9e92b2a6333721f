//! Agreement of the hosts of a job on one value a round, such as whether a loop goes on.
//!
//! Contributors are the hosts that have a value in each round. Their values are merged up a [tree](super::tree), in the order
//! of the hosts, and the result goes down the same tree. Listeners have no value, and get the result. They follow the
//! contributors in the ranks of the tree, so that the first contributor is its root, and a host whose range has only listeners
//! sends nothing. No host sends or receives more messages in a round than its place in the tree has neighbours.

use super::tree::Place;
use super::{HostId, Link, Links, Part, Receive};
use crate::data::{Data, DecodeError};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Mutex, lock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is merged, and what is done with the result.
pub(crate) trait Agree: Send + Sync {
    /// Whether it runs closures of the program, which may take long.
    const MAY_BLOCK: bool;

    /// Merges the contributions of later hosts into those of earlier ones.
    fn merge(&self, earlier: Vec<u8>, later: &[u8]) -> Result<Vec<u8>>;

    /// Makes the result of a round of all merged contributions: called on one host, the first contributor, before any
    /// host takes the result.
    fn conclude(&self, merged: Vec<u8>) -> Result<Vec<u8>> {
        Ok(merged)
    }

    /// Takes the result of a round. Called once a round, in their order.
    fn agreed(&self, result: &[u8]) -> Result<()>;
}

/// One host's part in an agreement.
pub(crate) struct Agreement<A> {
    agree: A,
    /// What it is about.
    part: Part,
    parent: Option<Link>,
    /// The hosts whose contributions are merged into this one's, in order.
    children: Vec<Link>,
    /// The hosts that get the result from this one, and contribute nothing; nor do the hosts below them.
    listeners: Vec<Link>,
    rounds: Mutex<Rounds>,
}

#[derive(Default)]
struct Rounds {
    /// The contributions that have not been merged, by round; this host's own is the first.
    waiting: BTreeMap<u64, Vec<Option<Vec<u8>>>>,
    /// How many rounds this host has contributed to.
    contributed: u64,
}

const UP: u8 = 0;
const DOWN: u8 = 1;

impl<A: Agree + 'static> Agreement<A> {
    /// Joins the agreement of a part of a job. `contributors` are the hosts that contribute to every round,
    /// in order; there is at least one. Of the other hosts, `listeners` get the results. All of these have to join.
    pub(crate) fn join(
        links: &Links,
        part: Part,
        contributors: &[HostId],
        listeners: &[HostId],
        agree: A,
    ) -> Arc<Self> {
        let only_listen = listeners.iter().filter(|host| !contributors.contains(host));
        let members: Vec<_> = contributors.iter().chain(only_listen).copied().collect();
        let to = |rank: usize| links.to(members[rank], part);
        let rank = members.iter().position(|host| *host == links.hosts().me());
        let (mut parent, mut children, mut listeners) = (None, Vec::new(), Vec::new());
        if let Some(rank) = rank {
            let place = Place::of(rank, members.len(), links.hosts().fan_out());
            parent = place.parent().map(to);
            for rank in place.below {
                let has_value = rank < contributors.len();
                let below = if has_value { &mut children } else { &mut listeners };
                below.push(to(rank));
            }
        }
        let rounds = Mutex::default();
        let joined = Arc::new(Self { agree, part, parent, children, listeners, rounds });
        links.open(part, Arc::clone(&joined) as _);
        joined
    }

    /// Contributes to the next round.
    pub(crate) fn contribute(&self, value: Vec<u8>) -> Result<()> {
        let mut rounds = lock(&self.rounds);
        let round = rounds.contributed;
        rounds.contributed += 1;
        drop(rounds);
        self.take(round, 0, value)
    }

    /// Takes the contribution of this host (0) or of a child (from 1).
    fn take(&self, round: u64, from: usize, value: Vec<u8>) -> Result<()> {
        let mut rounds = lock(&self.rounds);
        let all = rounds.waiting.entry(round).or_default();
        all.resize(1 + self.children.len(), None);
        all[from] = Some(value);
        if all.iter().any(Option::is_none) {
            return Ok(());
        }
        let all = rounds.waiting.remove(&round).unwrap_or_default();
        drop(rounds);
        let mut all = all.into_iter().flatten();
        let own = all.next().unwrap_or_default();
        let merged = all.try_fold(own, |merged, next| self.agree.merge(merged, &next))?;
        match &self.parent {
            Some(parent) => {
                parent.send(frame(UP, round, &merged));
                Ok(())
            }
            None => self.pass_down(round, &self.agree.conclude(merged)?),
        }
    }

    fn pass_down(&self, round: u64, result: &[u8]) -> Result<()> {
        for link in self.children.iter().chain(&self.listeners) {
            link.send(frame(DOWN, round, result));
        }
        self.agree.agreed(result)
    }
}

impl<A: Agree + 'static> Receive for Agreement<A> {
    fn may_block(&self) -> bool {
        A::MAY_BLOCK
    }

    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        let wrong = |what: String| {
            let (from, part) = (from.0, self.part);
            let what = format!("host {from} has sent {what} where hosts agree on {part:?}");
            Error::new(ErrorKind::Internal, what)
        };
        let input = &mut &*frame;
        let read =
            |input: &mut &[u8]| Ok::<_, DecodeError>((u8::decode(input)?, u64::decode(input)?));
        let (way, round) = read(input).map_err(|error| wrong(format!("a torn frame ({error})")))?;
        let is_from = |link: &Link| link.to() == from;
        match (way, self.children.iter().position(is_from)) {
            (UP, Some(child)) => self.take(round, 1 + child, input.to_vec()),
            (DOWN, None) if self.parent.as_ref().is_some_and(is_from) => {
                self.pass_down(round, input)
            }
            _ => Err(wrong("a frame against the direction of the tree".to_owned())),
        }
    }
}

fn frame(way: u8, round: u64, value: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(16 + value.len());
    (way, round).encode(&mut frame);
    frame.extend_from_slice(value);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::splitmix64;
    use crate::flow::Signals;
    use crate::net::TestNetwork;

    /// Appends later contributions to earlier ones, marks the result, and keeps the results.
    #[derive(Default)]
    struct Append(Mutex<Vec<Vec<u8>>>);

    impl Agree for Append {
        const MAY_BLOCK: bool = false;

        fn merge(&self, mut earlier: Vec<u8>, later: &[u8]) -> Result<Vec<u8>> {
            earlier.extend_from_slice(later);
            Ok(earlier)
        }

        fn conclude(&self, mut merged: Vec<u8>) -> Result<Vec<u8>> {
            merged.push(u8::MAX);
            Ok(merged)
        }

        fn agreed(&self, result: &[u8]) -> Result<()> {
            lock(&self.0).push(result.to_vec());
            Ok(())
        }
    }

    /// Runs three agreements, in which some of the hosts contribute. Frames are delivered in an order that depends on the
    /// number of hosts.
    fn agree(count: usize, contributors: &[HostId], fan_out: usize) {
        let network = Arc::new(TestNetwork::by_tree_of(fan_out));
        let listeners: Vec<_> = (0..count).map(HostId).collect();
        let joined: Vec<_> = (0..count)
            .map(|host| {
                let links = network.links(HostId(host), count, &Arc::new(Signals::default()));
                let append = Append::default();
                Agreement::join(&links, Part::Tie(0), contributors, &listeners, append)
            })
            .collect();
        // All contributions of a host may come before any of another.
        for round in 0..3u8 {
            for host in contributors {
                joined[host.0].contribute(vec![round, host.0 as u8]).unwrap();
            }
        }
        let mut seed = count as u64;
        while network.deliver(splitmix64(&mut seed) as usize) {}
        let all = |round| contributors.iter().flat_map(move |host| [round, host.0 as u8]);
        let result = |round| all(round).chain([u8::MAX]).collect();
        let expected: Vec<Vec<u8>> = (0..3).map(result).collect();
        for joined in joined {
            let links = joined.children.len() + joined.listeners.len();
            assert!(links <= fan_out, "{count} hosts by {fan_out}");
            assert_eq!(*lock(&joined.agree.0), expected, "{count} hosts by {fan_out}");
        }
    }

    #[test]
    fn all_hosts_get_the_contributions_merged_in_the_order_of_hosts() {
        for fan_out in [1, 2, 3, 16] {
            for count in 1..=9 {
                for silent in [None, Some(0), Some(count / 2)] {
                    let contributes = |host: &HostId| Some(host.0) != silent || count == 1;
                    let contributors: Vec<_> = (0..count).map(HostId).filter(contributes).collect();
                    agree(count, &contributors, fan_out);
                }
                // Most hosts have no value, as in a loop with few tasks.
                agree(count, &[HostId(count - 1)], fan_out);
                agree(count, &(0..count.div_ceil(3)).map(HostId).collect::<Vec<_>>(), fan_out);
            }
        }
    }

    #[test]
    fn what_comes_from_no_neighbour_in_the_tree_is_refused() {
        let network = Arc::new(TestNetwork::by_tree_of(2));
        let hosts: Vec<_> = (0..5).map(HostId).collect();
        // Host 1 stands for 1 and 2, host 3 for 3 and 4.
        let links = network.links(HostId(1), 5, &Arc::new(Signals::default()));
        let joined = Agreement::join(&links, Part::Tie(0), &hosts[..3], &hosts, Append::default());
        joined.receive(HostId(2), &frame(UP, 0, &[2])).unwrap();
        joined.receive(HostId(0), &frame(DOWN, 0, &[7])).unwrap();
        assert_eq!(*lock(&joined.agree.0), [[7]]);
        for (from, way) in [(2, DOWN), (0, UP), (3, UP), (3, DOWN)] {
            let error = joined.receive(HostId(from), &frame(way, 1, &[8])).unwrap_err();
            assert!(error.message().contains("against the direction"), "{error}");
        }
        assert_eq!(*lock(&joined.agree.0), [[7]]);
    }
}
