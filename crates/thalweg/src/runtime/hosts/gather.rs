//! Gathers the reports of the hosts that report to a host, before it sends its own report up.

use crate::net::HostId;
use std::collections::BTreeMap;

/// The reports of this host and those that report to it on one step, until all have arrived.
pub(super) struct Gather<T>(BTreeMap<HostId, T>);

impl<T> Default for Gather<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Gather<T> {
    /// Adds the report of a host, in place of an earlier one. Once there are reports of `of` hosts, returns them in the order
    /// of hosts, and begins anew.
    pub(super) fn add(&mut self, from: HostId, brought: T, of: usize) -> Option<Vec<T>> {
        self.0.insert(from, brought);
        (self.0.len() >= of).then(|| std::mem::take(&mut self.0).into_values().collect())
    }

    /// Whether a host has reported since the last beginning.
    pub(super) fn has(&self, host: HostId) -> bool {
        self.0.contains_key(&host)
    }
}

/// The progress of this host and of each host that reports to it, and the least of it.
#[derive(Default)]
pub(super) struct Least<T> {
    all: Vec<T>,
    least: Option<T>,
}

impl<T: Copy + Ord> Least<T> {
    /// With these initial values.
    pub(super) fn new(all: Vec<T>) -> Self {
        let least = all.iter().copied().min();
        Self { all, least }
    }

    /// Raises the progress of one of them to this value, if it is lower. Returns the least of all if that has become greater.
    pub(super) fn raise(&mut self, at: usize, to: T) -> Option<T> {
        let one = self.all.get_mut(at)?;
        *one = to.max(*one);
        let least = self.all.iter().copied().min();
        if least <= self.least {
            return None;
        }
        self.least = least;
        least
    }

    pub(super) fn all(&self) -> &[T] {
        &self.all
    }

    pub(super) fn least(&self) -> Option<T> {
        self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_have_brought_is_in_their_order_whoever_is_last() {
        let mut gather = Gather::default();
        for step in 0..2 {
            assert_eq!(gather.add(HostId(5), 50 + step, 3), None);
            assert_eq!(gather.add(HostId(0), 7, 3), None);
            assert_eq!(gather.add(HostId(0), step, 3), None, "once more");
            assert_eq!(gather.add(HostId(2), 20 + step, 3), Some(vec![step, 20 + step, 50 + step]));
        }
    }

    #[test]
    fn the_least_is_news_once_and_never_falls() {
        let mut least = Least::new(vec![0, 0, 0]);
        assert_eq!((least.raise(0, 3), least.raise(2, 1)), (None, None));
        assert_eq!(least.raise(1, 2), Some(1));
        assert_eq!(least.raise(1, 2), None);
        assert_eq!(least.raise(2, 0), None, "it was further before");
        assert_eq!(least.raise(2, 9), Some(2));
        assert_eq!((least.all(), least.least()), (&[3, 2, 9][..], Some(2)));
        assert_eq!(least.raise(3, 9), None, "there is no such host");
    }
}
