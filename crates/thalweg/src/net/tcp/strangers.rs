//! Connections that are not authentic yet, of hosts and of others, and which of them is dropped where there are too many.

use crate::clock::Nanos;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What the other side of a connection has shown of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Silent,
    /// Its greeting has arrived, which a host sends at once. Anybody can send one.
    Greeted,
    /// It has a certificate that is accepted, where hosts have certificates.
    Certified,
}

/// A connection that was accepted and is not authentic yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stranger {
    pub(super) token: usize,
    pub(super) address: IpAddr,
    pub(super) standing: Standing,
    pub(super) began: Nanos,
}

/// The connection to be dropped: one that has shown less of itself before one that has shown more; of these, one from the address with the most
/// connections, so that no address displaces the hosts at others that are as far; of these, the oldest.
pub(super) fn expendable(strangers: &[Stranger]) -> Option<usize> {
    let mut at_address = BTreeMap::<IpAddr, usize>::new();
    for stranger in strangers {
        *at_address.entry(stranger.address).or_default() += 1;
    }
    let rank = |stranger: &&Stranger| {
        (stranger.standing, Reverse(at_address[&stranger.address]), stranger.began, stranger.token)
    };
    strangers.iter().min_by_key(rank).map(|stranger| stranger.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_half_way_outlasts_strangers() {
        use Standing::{Certified, Greeted, Silent};
        // Token and time of the beginning, last byte of the address, what it has shown.
        let drop = |strangers: &[(usize, u8, Standing)]| {
            let stranger = |&(token, address, standing): &(usize, u8, Standing)| Stranger {
                token,
                address: [10, 0, 0, address].into(),
                standing,
                began: token as Nanos,
            };
            expendable(&strangers.iter().map(stranger).collect::<Vec<_>>())
        };
        assert_eq!(drop(&[]), None);
        assert_eq!(drop(&[(1, 7, Greeted), (2, 7, Silent), (3, 7, Silent)]), Some(2), "silent");
        assert_eq!(drop(&[(1, 7, Greeted), (2, 8, Greeted), (3, 8, Greeted)]), Some(2), "of many");
        assert_eq!(
            drop(&[(1, 7, Silent), (2, 8, Greeted), (3, 8, Greeted)]),
            Some(1),
            "silent first"
        );
        assert_eq!(drop(&[(3, 7, Greeted), (2, 7, Greeted), (4, 7, Greeted)]), Some(2), "oldest");
        // Anybody at the address of a host may repeat a greeting.
        let many = [(1, 7, Certified), (2, 7, Greeted), (3, 7, Greeted), (4, 8, Certified)];
        assert_eq!(drop(&many), Some(2), "certified");
    }
}
