//! An ordered map for each key, which nearly always has one or two entries.

use crate::data::Data;
use std::collections::BTreeMap;

/// The most entries of a row.
const ROW: usize = 16;

/// An ordered map: a sorted vector without spare capacity for a few entries, and a tree for many, until it is
/// empty again.
#[derive(Data)]
pub(super) enum SmallMap<B: Ord, V> {
    Row(Vec<(B, V)>),
    Tree(BTreeMap<B, V>),
}

impl<B: Ord, V> SmallMap<B, V> {
    pub(super) fn new() -> Self {
        Self::Row(Vec::new())
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Row(row) => row.is_empty(),
            Self::Tree(tree) => tree.is_empty(),
        }
    }

    /// The bytes on the heap.
    pub(super) fn heap(&self) -> usize {
        match self {
            Self::Row(row) => row.capacity() * size_of::<(B, V)>(),
            // B-tree nodes have eleven slots, at least about half of them filled.
            Self::Tree(tree) => tree.len() * 2 * size_of::<(B, V)>(),
        }
    }

    /// The first key.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<&B> {
        match self {
            Self::Row(row) => row.first().map(|(name, _)| name),
            Self::Tree(tree) => tree.keys().next(),
        }
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, name: &B) -> Option<&mut V> {
        match self {
            Self::Row(row) => {
                let place = row.binary_search_by(|(other, _)| other.cmp(name)).ok()?;
                Some(&mut row[place].1)
            }
            Self::Tree(tree) => tree.get_mut(name),
        }
    }

    /// All entries, in the order of their keys, with values to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&B, &mut V)> {
        let (row, tree) = match self {
            Self::Row(row) => (Some(row), None),
            Self::Tree(tree) => (None, Some(tree)),
        };
        let row = row.into_iter().flatten().map(|(name, thing)| (&*name, thing));
        row.chain(tree.into_iter().flatten())
    }

    /// Inserts an entry, or replaces the value of its key.
    pub(super) fn insert(&mut self, name: B, thing: V) {
        match self {
            Self::Row(row) => match row.binary_search_by(|(other, _)| other.cmp(&name)) {
                Ok(place) => row[place].1 = thing,
                Err(place) if row.len() < ROW => {
                    if row.is_empty() {
                        row.reserve_exact(1);
                    }
                    row.insert(place, (name, thing));
                }
                Err(_) => {
                    let mut tree: BTreeMap<B, V> = std::mem::take(row).into_iter().collect();
                    tree.insert(name, thing);
                    *self = Self::Tree(tree);
                }
            },
            Self::Tree(tree) => _ = tree.insert(name, thing),
        }
    }

    pub(super) fn remove(&mut self, name: &B) -> Option<(B, V)> {
        let removed = match self {
            Self::Row(row) => {
                let place = row.binary_search_by(|(other, _)| other.cmp(name)).ok()?;
                Some(row.remove(place))
            }
            Self::Tree(tree) => tree.remove_entry(name),
        };
        self.clear_up();
        removed
    }

    pub(super) fn pop_first(&mut self) -> Option<(B, V)> {
        let popped = match self {
            Self::Row(row) if row.is_empty() => None,
            Self::Row(row) => Some(row.remove(0)),
            Self::Tree(tree) => tree.pop_first(),
        };
        self.clear_up();
        popped
    }

    /// Releases the memory of an empty map.
    fn clear_up(&mut self) {
        if self.is_empty() {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the map with a `BTreeMap`.
        #[test]
        fn things_lie_in_the_order_of_their_names(steps in prop::collection::vec((0..5u8, 0..60u8), 0..300)) {
            let (mut small_map, mut tree) = (SmallMap::new(), BTreeMap::new());
            for (number, (what, name)) in steps.into_iter().enumerate() {
                match what {
                    0 => prop_assert_eq!(small_map.remove(&name), tree.remove_entry(&name)),
                    1 => prop_assert_eq!(small_map.pop_first(), tree.pop_first()),
                    _ => {
                        small_map.insert(name, number);
                        tree.insert(name, number);
                    }
                }
                prop_assert_eq!(small_map.get_mut(&name), tree.get_mut(&name));
                prop_assert_eq!(small_map.first(), tree.keys().next());
                prop_assert!(small_map.iter_mut().eq(tree.iter_mut()));
                prop_assert_eq!(small_map.is_empty(), tree.is_empty());
            }
            while let Some(popped) = small_map.pop_first() {
                prop_assert_eq!(Some(popped), tree.pop_first());
            }
            prop_assert_eq!((small_map.heap(), tree.len()), (0, 0));
        }
    }
}
