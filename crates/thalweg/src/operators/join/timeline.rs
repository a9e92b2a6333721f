//! Records in the order of their times, for one key and one side of a join.
//!
//! They are in one deque as long as each is inserted near one of its ends: nearly all are, since records arrive
//! more or less in order and are removed from the front. Where an insertion would move many others, as when a
//! partition of a source is far behind the others, the deque becomes a tree, until it is empty again.

use crate::data::{Data, DecodeError, Schema};
use std::collections::{BTreeMap, VecDeque};
use std::mem::needs_drop;
use std::ops::ControlFlow;

/// The most records that are moved to make room for one.
const MOVED: usize = 256;

/// Records by time; those of the same time in the order of arrival.
pub struct Timeline<V> {
    records: Records<V>,
    /// What the records own on the heap.
    owned: usize,
}

#[derive(Data)]
enum Records<V> {
    Row(VecDeque<(i64, V)>),
    /// By time and number; with the next number.
    Tree(BTreeMap<(i64, u64), V>, u64),
}

/// As its records: what they own depends on how they were made.
impl<V: Data> Data for Timeline<V> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.records.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let records = Records::<V>::decode(input)?;
        let owned = match &records {
            Records::Row(row) => row.iter().map(|(_, value)| owned(value)).sum(),
            Records::Tree(tree, _) => tree.values().map(owned).sum(),
        };
        Ok(Self { records, owned })
    }

    fn key_hash(&self) -> u64 {
        self.records.key_hash()
    }

    fn schema() -> Schema {
        Records::<V>::schema()
    }
}

/// The progress of a visit. Valid as long as no record is added or removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor(Option<(i64, u64)>);

impl Cursor {
    /// Whether a record was visited.
    pub(super) fn has_moved(self) -> bool {
        self.0.is_some()
    }
}

impl<V: Data> Timeline<V> {
    pub(super) fn new() -> Self {
        Self { records: Records::Row(VecDeque::new()), owned: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.records {
            Records::Row(row) => row.is_empty(),
            Records::Tree(tree, _) => tree.is_empty(),
        }
    }

    /// The heap bytes: of the container, and of the records.
    pub(super) fn heap(&self) -> usize {
        let held = match &self.records {
            Records::Row(row) => row.capacity() * size_of::<(i64, V)>(),
            // Nodes of eleven slots, which are at least half full.
            Records::Tree(tree, _) => tree.len() * 2 * size_of::<((i64, u64), V)>(),
        };
        held + self.owned
    }

    /// The time of the first record.
    pub(super) fn first(&self) -> Option<i64> {
        match &self.records {
            Records::Row(row) => row.front().map(|(at, _)| *at),
            Records::Tree(tree, _) => tree.keys().next().map(|(at, _)| *at),
        }
    }

    /// The time of the record after the first.
    pub(super) fn second(&self) -> Option<i64> {
        match &self.records {
            Records::Row(row) => row.get(1).map(|(at, _)| *at),
            Records::Tree(tree, _) => tree.keys().nth(1).map(|(at, _)| *at),
        }
    }

    /// Adds a record, behind those of the same time.
    #[inline(always)]
    pub(super) fn add(&mut self, at: i64, value: V) {
        self.owned += owned(&value);
        match &mut self.records {
            Records::Row(row) if row.back().is_none_or(|(last, _)| *last <= at) => {
                row.push_back((at, value));
            }
            _ => self.add_before_others(at, value),
        }
    }

    #[inline(never)]
    fn add_before_others(&mut self, at: i64, value: V) {
        match &mut self.records {
            Records::Row(row) => {
                let place = row.partition_point(|(other, _)| *other <= at);
                if place.min(row.len() - place) <= MOVED {
                    row.insert(place, (at, value));
                    return;
                }
                let numbered = (0..).zip(std::mem::take(row));
                let mut tree: BTreeMap<_, _> =
                    numbered.map(|(number, (at, value))| ((at, number), value)).collect();
                let next = tree.len() as u64;
                tree.insert((at, next), value);
                self.records = Records::Tree(tree, next + 1);
            }
            Records::Tree(tree, next) => {
                tree.insert((at, *next), value);
                *next += 1;
            }
        }
    }

    /// Adds a record in place of one of the same time, if there is one.
    pub(super) fn put(&mut self, at: i64, value: V) {
        let same = match &mut self.records {
            Records::Row(row) => {
                let place = row.partition_point(|(other, _)| *other < at);
                row.get_mut(place).filter(|(other, _)| *other == at).map(|(_, value)| value)
            }
            Records::Tree(tree, _) => {
                tree.range_mut((at, 0)..=(at, u64::MAX)).next().map(|(_, value)| value)
            }
        };
        match same {
            Some(same) => {
                self.owned = self.owned + owned(&value) - owned(same);
                *same = value;
            }
            None => self.add(at, value),
        }
    }

    /// The last record at this time or before it.
    pub(super) fn latest(&self, at: i64) -> Option<(i64, &V)> {
        match &self.records {
            Records::Row(row) => {
                let end = row.partition_point(|(other, _)| *other <= at);
                row.get(end.checked_sub(1)?).map(|(at, value)| (*at, value))
            }
            Records::Tree(tree, _) => {
                tree.range(..=(at, u64::MAX)).next_back().map(|((at, _), value)| (*at, value))
            }
        }
    }

    /// The first record at this time or after it.
    pub(super) fn earliest(&self, at: i64) -> Option<(i64, &V)> {
        match &self.records {
            Records::Row(row) => {
                let place = row.partition_point(|(other, _)| *other < at);
                row.get(place).map(|(at, value)| (*at, value))
            }
            Records::Tree(tree, _) => {
                tree.range((at, 0)..).next().map(|((at, _), value)| (*at, value))
            }
        }
    }

    /// Visits the records from one time to another, both included, or those behind the cursor, until `each`
    /// breaks, and moves the cursor behind the last one visited. Returns whether all were visited.
    #[inline]
    pub(super) fn visit(
        &mut self,
        (from, to): (i64, i64),
        cursor: &mut Cursor,
        mut each: impl FnMut(i64, &mut V) -> ControlFlow<()>,
    ) -> bool {
        match &mut self.records {
            Records::Row(row) => {
                let begin = match cursor.0 {
                    Some((_, done)) => done as usize,
                    None => row.partition_point(|(at, _)| *at < from),
                };
                for (place, (at, value)) in (begin as u64..).zip(row.range_mut(begin..)) {
                    if *at > to {
                        break;
                    }
                    if each(*at, value).is_break() {
                        cursor.0 = Some((*at, place + 1));
                        return false;
                    }
                }
            }
            Records::Tree(tree, _) => {
                let begin = cursor.0.map_or((from, 0), |(at, number)| (at, number + 1));
                if begin.0 > to {
                    return true;
                }
                for ((at, number), value) in tree.range_mut(begin..=(to, u64::MAX)) {
                    if each(*at, value).is_break() {
                        cursor.0 = Some((*at, *number));
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Removes the first record, if it is not after this time.
    pub(super) fn pop(&mut self, until: i64) -> Option<(i64, V)> {
        let popped = match &mut self.records {
            Records::Row(row) => {
                row.front().filter(|(at, _)| *at <= until)?;
                row.pop_front()
            }
            Records::Tree(tree, _) => {
                let first = tree.first_entry().filter(|entry| entry.key().0 <= until)?;
                let ((at, _), value) = first.remove_entry();
                Some((at, value))
            }
        };
        let (at, value) = popped?;
        self.owned -= owned(&value);
        self.shrink();
        Some((at, value))
    }

    /// Releases the memory of a deque that is nearly empty, and of a tree that is empty.
    #[inline]
    fn shrink(&mut self) {
        match &mut self.records {
            Records::Row(row) if row.is_empty() => *row = VecDeque::new(),
            Records::Row(row) if row.capacity() > 64 && row.len() < row.capacity() / 8 => {
                row.shrink_to(row.capacity() / 4);
            }
            Records::Tree(tree, _) if tree.is_empty() => {
                self.records = Records::Row(VecDeque::new());
            }
            _ => {}
        }
    }
}

/// The heap bytes that a record owns.
#[inline(always)]
fn owned<V: Data>(value: &V) -> usize {
    if needs_drop::<V>() { value.heap_size() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Add(i64),
        Put(i64),
        Pop(i64),
        Visit(i64, i64, usize),
        Latest(i64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            10 => (0..500i64).prop_map(Step::Add),
            3 => (0..500i64).prop_map(Step::Put),
            6 => (0..300i64).prop_map(Step::Pop),
            2 => (0..500i64, 0..200i64, 1..9usize).prop_map(|(a, b, n)| Step::Visit(a, a + b, n)),
            2 => (-5..500i64).prop_map(Step::Latest),
        ];
        prop::collection::vec(step, 0..300)
    }

    proptest! {
        /// Against a list that is sorted again each time, as a deque and as a tree.
        #[test]
        fn records_lie_in_the_order_of_their_times(many in any::<bool>(), steps in steps()) {
            let mut line = Timeline::new();
            let mut list: Vec<(i64, String)> = Vec::new();
            if many {
                // Enough records that an insertion in the middle makes a tree.
                for at in (0..400).chain(1000..1400) {
                    line.add(at, at.to_string());
                    list.push((at, at.to_string()));
                }
                line.add(700, "middle".to_owned());
                list.push((700, "middle".to_owned()));
                prop_assert!(matches!(line.records, Records::Tree(..)));
            }
            for (number, step) in steps.into_iter().enumerate() {
                list.sort_by_key(|(at, _)| *at);
                let value = format!("{number:>number$}");
                match step {
                    Step::Add(at) => {
                        line.add(at, value.clone());
                        list.push((at, value));
                    }
                    // Used alone, `put` keeps one record per time.
                    Step::Put(at) => {
                        let of_time = list.iter().filter(|(other, _)| *other == at).count();
                        if of_time <= 1 {
                            line.put(at, value.clone());
                            list.retain(|(other, _)| *other != at);
                            list.push((at, value));
                        }
                    }
                    Step::Pop(until) => {
                        let first = list.first().filter(|(at, _)| *at <= until).cloned();
                        prop_assert_eq!(line.pop(until), first.clone());
                        if first.is_some() {
                            list.remove(0);
                        }
                    }
                    Step::Visit(from, to, at_a_time) => {
                        let (mut cursor, mut found) = (Cursor::default(), Vec::new());
                        loop {
                            let mut left = at_a_time;
                            let all = line.visit((from, to), &mut cursor, |at, value| {
                                found.push((at, value.clone()));
                                left -= 1;
                                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                            });
                            if all {
                                break;
                            }
                        }
                        let within = |(at, _): &&(i64, String)| (from..=to).contains(at);
                        let expected: Vec<_> = list.iter().filter(within).cloned().collect();
                        prop_assert_eq!(found, expected);
                    }
                    Step::Latest(at) => {
                        let expected = list.iter().rfind(|(other, _)| *other <= at);
                        let expected = expected.map(|(at, value)| (*at, value));
                        prop_assert_eq!(line.latest(at), expected);
                        let expected = list.iter().find(|(other, _)| *other >= at);
                        let expected = expected.map(|(at, value)| (*at, value));
                        prop_assert_eq!(line.earliest(at), expected);
                    }
                }
                list.sort_by_key(|(at, _)| *at);
                prop_assert_eq!(line.first(), list.first().map(|(at, _)| *at));
                prop_assert_eq!(line.second(), list.get(1).map(|(at, _)| *at));
                prop_assert_eq!(line.is_empty(), list.is_empty());
            }
            while line.pop(i64::MAX).is_some() {}
            prop_assert_eq!(line.heap(), 0);
        }
    }

    #[test]
    fn the_memory_of_many_is_given_back() {
        let mut line = Timeline::new();
        (0..100_000).for_each(|at| line.add(at, at));
        assert!(line.heap() >= 1_600_000);
        while line.pop(99_990).is_some() {}
        assert!(line.heap() <= 64 * 16, "{}", line.heap());
        assert_eq!(line.latest(i64::MAX), Some((99_999, &99_999)));
    }
}
