//! Connections that are not authentic yet, of hosts and of others, and which of them is dropped where there are too many.

use crate::clock::Nanos;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A connection that was accepted and is not authentic yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stranger {
    pub(super) token: usize,
    pub(super) address: IpAddr,
    /// Whether its greeting has arrived. A host sends it at once.
    pub(super) greeted: bool,
    pub(super) began: Nanos,
}

/// The connection to be dropped: one without a greeting before one with it; of these, one from the address with the most
/// connections, so that no address displaces the hosts at others that are as far; of these, the oldest.
pub(super) fn expendable(strangers: &[Stranger]) -> Option<usize> {
    let mut at_address = BTreeMap::<IpAddr, usize>::new();
    for stranger in strangers {
        *at_address.entry(stranger.address).or_default() += 1;
    }
    let rank = |stranger: &&Stranger| {
        (stranger.greeted, Reverse(at_address[&stranger.address]), stranger.began, stranger.token)
    };
    strangers.iter().min_by_key(rank).map(|stranger| stranger.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_half_way_outlasts_strangers() {
        // Token and time of the beginning, last byte of the address, whether it has greeted.
        let drop = |strangers: &[(usize, u8, bool)]| {
            let stranger = |&(token, address, greeted): &(usize, u8, bool)| Stranger {
                token,
                address: [10, 0, 0, address].into(),
                greeted,
                began: token as Nanos,
            };
            expendable(&strangers.iter().map(stranger).collect::<Vec<_>>())
        };
        assert_eq!(drop(&[]), None);
        assert_eq!(drop(&[(1, 7, true), (2, 7, false), (3, 7, false)]), Some(2), "silent");
        assert_eq!(drop(&[(1, 7, true), (2, 8, true), (3, 8, true)]), Some(2), "of many");
        assert_eq!(drop(&[(1, 7, false), (2, 8, true), (3, 8, true)]), Some(1), "silent first");
        assert_eq!(drop(&[(3, 7, true), (2, 7, true), (4, 7, true)]), Some(2), "oldest");
    }
}
