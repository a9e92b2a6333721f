//! A loser tree: finds which of several sorted sources has the least record, with one comparison a level.

use std::cmp::Ordering;

/// A loser tree over sorted sources.
///
/// The sources are the leaves `n..2n` of a binary tree with the inner nodes `1..n`. An inner node holds the source
/// that lost the comparison there; `tree[0]` holds the overall winner, whose head is the next record.
pub(crate) struct LoserTree {
    tree: Vec<usize>,
}

impl LoserTree {
    /// A tree of `count` sources. `before` returns whether the head of one source precedes that of another; it must
    /// be a total order in which exhausted sources come last.
    pub(crate) fn new(count: usize, before: impl Fn(usize, usize) -> bool) -> Self {
        let mut tree = vec![0; count];
        // The winner at each node, computed from the leaves up.
        let mut winners: Vec<usize> = (0..count).chain(0..count).collect();
        for node in (1..count).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if before(a, b) { (a, b) } else { (b, a) };
            (winners[node], tree[node]) = (winner, loser);
        }
        if count > 1 {
            tree[0] = winners[1];
        }
        Self { tree }
    }

    /// The source whose head is next; `None` if there are no sources.
    #[inline(always)]
    pub(crate) fn winner(&self) -> Option<usize> {
        self.tree.first().copied()
    }

    /// Finds the next winner, after the head of the current one has changed or it was exhausted.
    #[inline]
    pub(crate) fn replay(&mut self, before: impl Fn(usize, usize) -> bool) {
        let Some(mut winner) = self.winner() else { return };
        let mut node = (winner + self.tree.len()) / 2;
        while node > 0 {
            let other = self.tree[node];
            if before(other, winner) {
                self.tree[node] = winner;
                winner = other;
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }
}

/// Whether head `a` precedes head `b`: exhausted sources come last, and of equal heads the one of the earlier source
/// comes first.
#[inline]
pub(crate) fn precedes<T>(
    heads: &[Option<T>],
    a: usize,
    b: usize,
    compare: &impl Fn(&T, &T) -> Ordering,
) -> bool {
    match (&heads[a], &heads[b]) {
        (Some(x), Some(y)) => compare(x, y).then(a.cmp(&b)).is_lt(),
        (x, y) => x.is_some() || (y.is_none() && a < b),
    }
}
