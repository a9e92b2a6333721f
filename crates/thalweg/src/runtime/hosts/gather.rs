//! What a host of a job gathers of those that report to it, before it reports to another one itself.

use crate::net::HostId;
use std::collections::BTreeMap;

/// What this host and those that report to it have brought to one step, until all have.
pub(super) struct Gather<T>(BTreeMap<HostId, T>);

impl<T> Default for Gather<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Gather<T> {
    /// Adds what a host has brought, which takes the place of what it has brought before. Returns what all have brought, in
    /// their order, if these are so many, and begins anew then.
    pub(super) fn add(&mut self, from: HostId, brought: T, of: usize) -> Option<Vec<T>> {
        self.0.insert(from, brought);
        (self.0.len() >= of).then(|| std::mem::take(&mut self.0).into_values().collect())
    }

    /// Whether a host has brought anything since it has begun.
    pub(super) fn has(&self, host: HostId) -> bool {
        self.0.contains_key(&host)
    }
}

/// How far this host and each of those that report to it have come, and the least of it.
#[derive(Default)]
pub(super) struct Least<T> {
    all: Vec<T>,
    least: Option<T>,
}

impl<T: Copy + Ord> Least<T> {
    /// All of them at their beginnings.
    pub(super) fn new(all: Vec<T>) -> Self {
        let least = all.iter().copied().min();
        Self { all, least }
    }

    /// One of them has come this far, or further before. Returns the least of all if it is greater than ever before.
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
