//! Agreement of the hosts of a job on one value a round, such as whether a loop goes on.
//!
//! Contributors are the hosts that have a value in each round. Their values are merged up a tree, in the order of the
//! hosts, and the result goes down the same tree, and from its root to the listeners, which have no value. So with n
//! hosts a round takes 2 log2(n) messages one after the other, and no host sends or receives more than that many, except
//! for the messages to listeners.
//!
//! The tree is binomial: the host with rank `r` merges those of the ranks `r .. r + b`, where `b` is the lowest bit of
//! `r`, and its parent has the rank `r - b`.

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
    /// The hosts that get the result from this one, and contribute nothing.
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
        let me = links.hosts().me();
        let to = |rank: usize| links.to(contributors[rank], part);
        let rank = contributors.iter().position(|host| *host == me);
        let (parent, children) = match rank {
            None => (None, Vec::new()),
            Some(rank) => {
                let children = children(rank, contributors.len()).map(to).collect();
                ((rank > 0).then(|| to(parent(rank))), children)
            }
        };
        let listeners = match rank {
            Some(0) => {
                let others = listeners.iter().filter(|host| !contributors.contains(host));
                others.map(|host| links.to(*host, part)).collect()
            }
            _ => Vec::new(),
        };
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
        let child = self.children.iter().position(|link| link.to() == from);
        match (way, child) {
            (UP, Some(child)) => self.take(round, 1 + child, input.to_vec()),
            (DOWN, None) => self.pass_down(round, input),
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

/// The rank to which a rank, which is not 0, sends what it has merged.
fn parent(rank: usize) -> usize {
    rank & (rank - 1)
}

/// The ranks that send to this one what they have merged, in order.
fn children(rank: usize, count: usize) -> impl Iterator<Item = usize> {
    let reach = if rank == 0 { count } else { rank & rank.wrapping_neg() };
    let steps = std::iter::successors(Some(1), |step| Some(2 * step));
    steps
        .take_while(move |step| *step < reach)
        .map(move |step| rank + step)
        .filter(move |child| *child < count)
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

    #[test]
    fn all_hosts_get_the_contributions_merged_in_the_order_of_hosts() {
        for count in 1..=9 {
            for silent in [None, Some(0), Some(count / 2)] {
                let contributes = |host: &HostId| Some(host.0) != silent || count == 1;
                let contributors: Vec<_> = (0..count).map(HostId).filter(contributes).collect();
                let listeners: Vec<_> =
                    silent.filter(|_| count > 1).into_iter().map(HostId).collect();
                let network = Arc::new(TestNetwork::default());
                let joined: Vec<_> = (0..count)
                    .map(|host| {
                        let links =
                            network.links(HostId(host), count, &Arc::new(Signals::default()));
                        let append = Append::default();
                        Agreement::join(&links, Part::Tie(0), &contributors, &listeners, append)
                    })
                    .collect();
                // All contributions of a host may come before any of another.
                for round in 0..3u8 {
                    for host in &contributors {
                        joined[host.0].contribute(vec![round, host.0 as u8]).unwrap();
                    }
                }
                let mut seed = count as u64;
                while network.deliver(splitmix64(&mut seed) as usize) {}
                let all = |round| contributors.iter().flat_map(move |host| [round, host.0 as u8]);
                let result = |round| all(round).chain([u8::MAX]).collect();
                let expected: Vec<Vec<u8>> = (0..3).map(result).collect();
                for joined in joined {
                    assert_eq!(*lock(&joined.agree.0), expected, "{count} hosts");
                }
            }
        }
    }
}
