//! The tree by which hosts agree: values go up the tree and are merged on the way, and the result goes down.
//!
//! Members have ranks from 0 without gaps. A member stands for a range of ranks that begins with its own: the first for all.
//! The rest of its range is cut into as many ranges of equal size as members may report to one, and the first rank of each of
//! these reports to it. So a member that merges its own value first, and then those of its reporters in order, keeps the order
//! of ranks; where there are few members, all report to the first.
//!
//! This module only computes ranks: each member derives its place from the number of members.

/// How many members report to one. A message and the wake-up of another host take some 40 us, one more message about one
/// (`docs/scaling.md`).
pub(super) const FAN_OUT: usize = 16;

/// The place of a member.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The ranks on the path from the first, which is included, to this member, which reports to the last of them.
    pub(crate) above: Vec<usize>,
    /// The ranks that report to it, in order.
    pub(crate) below: Vec<usize>,
    /// How many members it stands for, itself included.
    pub(crate) size: usize,
}

impl Place {
    /// The place of one of `count` members, of which at most `fan_out` report to the same one.
    pub(crate) fn of(rank: usize, count: usize, fan_out: usize) -> Self {
        let (mut first, mut size, mut above) = (0, count, Vec::new());
        loop {
            let ranges = cut(first + 1, size.saturating_sub(1), fan_out);
            let Some(next) = ranges.iter().rfind(|(start, _)| *start <= rank).copied() else {
                let below = ranges.into_iter().map(|(start, _)| start).collect();
                return Self { above, below, size };
            };
            above.push(first);
            (first, size) = next;
        }
    }

    /// The rank that it reports to; `None` for the first.
    pub(crate) fn parent(&self) -> Option<usize> {
        self.above.last().copied()
    }

    /// The depth of the tree of `count` members: how many messages it takes, one after the other, from the deepest member to
    /// the first.
    pub(crate) fn deepest(count: usize, fan_out: usize) -> usize {
        let (mut size, mut deep) = (count, 0);
        while size > 1 {
            // The largest of the ranges into which the others are cut.
            size = (size - 1).div_ceil(fan_out.clamp(1, size - 1));
            deep += 1;
        }
        deep
    }
}

/// Cuts `size` ranks, from `first` on, into ranges: the first rank of each, and its size.
fn cut(first: usize, size: usize, fan_out: usize) -> Vec<(usize, usize)> {
    let parts = fan_out.max(1).min(size);
    let start = |part: usize| part * size / parts;
    (0..parts).map(|part| (first + start(part), start(part + 1) - start(part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn few_members_report_to_the_first() {
        for count in 1..=FAN_OUT + 1 {
            let first = Place::of(0, count, FAN_OUT);
            assert_eq!(first.below, (1..count).collect::<Vec<_>>());
            assert_eq!((first.parent(), first.size), (None, count));
            for rank in 1..count {
                let place = Place { above: vec![0], below: Vec::new(), size: 1 };
                assert_eq!(Place::of(rank, count, FAN_OUT), place);
            }
        }
    }

    #[test]
    fn all_members_are_reached_in_the_order_of_their_ranks() {
        for fan_out in [1, 2, 3, 16] {
            for count in (1..40).chain([100, 1000]) {
                let places: Vec<_> =
                    (0..count).map(|rank| Place::of(rank, count, fan_out)).collect();
                // The ranks merged at a member: its own, then those of its reporters.
                let (mut merged, mut next) = (Vec::new(), VecDeque::from([0]));
                while let Some(rank) = next.pop_front() {
                    merged.push(rank);
                    let below = &places[rank].below;
                    below.iter().rev().for_each(|child| next.push_front(*child));
                    assert!(below.len() <= fan_out);
                    let sizes = below.iter().map(|child| places[*child].size).sum::<usize>();
                    assert_eq!(places[rank].size, 1 + sizes);
                    for child in below {
                        let above = [&places[rank].above[..], &[rank]].concat();
                        assert_eq!(places[*child].above, above, "{rank} of {count}");
                        assert_eq!(places[*child].parent(), Some(rank));
                    }
                }
                assert_eq!(merged, (0..count).collect::<Vec<_>>(), "by {fan_out}");
                let deepest = places.iter().map(|place| place.above.len()).max();
                assert_eq!(deepest, Some(Place::deepest(count, fan_out)), "{count} by {fan_out}");
            }
        }
        let deepest = |count| Place::deepest(count, FAN_OUT);
        assert_eq!([1, 2, 17, 18, 100, 1000].map(deepest), [0, 1, 1, 2, 2, 3]);
    }
}
