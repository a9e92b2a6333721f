//! Tables of the states of the keys, one for each slice or window.

use super::frames::SliceId;
use crate::data::Key;
use crate::state::GroupTable;
use std::collections::VecDeque;

/// One table for every slice that has records, in the order of the slices. Other numbers may take the place of
/// slices.
pub(super) struct Slices<K: Key + ?Sized, S, I = SliceId> {
    /// A table that is [taken out](Self::take) leaves a gap, so that the others keep their places.
    tables: VecDeque<(I, Option<GroupTable<K, S>>)>,
    /// Emptied tables for reuse: a table that has grown need not grow again.
    spare: Vec<GroupTable<K, S>>,
}

/// The number of emptied tables that are kept.
const SPARES: usize = 4;

impl<K: Key + ?Sized, S, I: Copy + Ord> Slices<K, S, I> {
    pub(super) fn new() -> Self {
        Self { tables: VecDeque::new(), spare: Vec::new() }
    }

    /// The place of a slice's table, which is created if there is none. Tables before it keep theirs.
    pub(super) fn place(&mut self, slice: I) -> usize {
        let at = self.tables.partition_point(|(other, _)| *other < slice);
        if self.tables.get(at).is_none_or(|(other, _)| *other != slice) {
            let table = self.spare.pop().unwrap_or_default();
            self.tables.insert(at, (slice, Some(table)));
        }
        at
    }

    /// The table of a slice, created if there is none.
    #[inline]
    pub(super) fn table(&mut self, slice: I) -> &mut GroupTable<K, S> {
        let at = self.place(slice);
        self.tables[at].1.get_or_insert_default()
    }

    /// The table at a place.
    #[inline(always)]
    pub(super) fn at(&mut self, place: usize) -> Option<&mut GroupTable<K, S>> {
        self.tables.get_mut(place)?.1.as_mut()
    }

    /// Takes the table of a slice out, created if there is none; its place is kept.
    pub(super) fn take(&mut self, slice: I) -> GroupTable<K, S> {
        let at = self.place(slice);
        self.tables[at].1.take().unwrap_or_default()
    }

    /// Puts a table back that was taken out.
    pub(super) fn put_back(&mut self, slice: I, table: GroupTable<K, S>) {
        let at = self.tables.partition_point(|(other, _)| *other < slice);
        match self.tables.get_mut(at) {
            Some((other, place)) if *other == slice => *place = Some(table),
            _ => self.tables.insert(at, (slice, Some(table))),
        }
    }

    /// The first slice.
    pub(super) fn first(&self) -> Option<I> {
        self.tables.front().map(|(slice, _)| *slice)
    }

    /// Calls a closure with the tables of the slices from `from` to `to`.
    pub(super) fn each_in(&mut self, from: I, to: I, each: impl FnMut(&mut GroupTable<K, S>)) {
        let first = self.tables.partition_point(|(slice, _)| *slice < from);
        let tables = self.tables.range_mut(first..);
        tables
            .take_while(|(slice, _)| *slice <= to)
            .filter_map(|(_, table)| table.as_mut())
            .for_each(each);
    }

    /// Like `each_in`, with the slices.
    pub(super) fn each_numbered(
        &mut self,
        from: I,
        to: I,
        mut each: impl FnMut(I, &mut GroupTable<K, S>),
    ) {
        let first = self.tables.partition_point(|(slice, _)| *slice < from);
        let tables = self.tables.range_mut(first..);
        tables
            .take_while(|(slice, _)| *slice <= to)
            .filter_map(|(slice, table)| Some((*slice, table.as_mut()?)))
            .for_each(|(slice, table)| each(slice, table));
    }

    /// Calls a closure with all tables, in the order of their slices.
    pub(super) fn each(&self, mut each: impl FnMut(I, &GroupTable<K, S>)) {
        let tables =
            self.tables.iter().filter_map(|(slice, table)| Some((*slice, table.as_ref()?)));
        tables.for_each(|(slice, table)| each(slice, table));
    }

    /// Removes the first table if its slice is this one or an earlier one.
    pub(super) fn take_until(&mut self, slice: I) -> Option<(I, GroupTable<K, S>)> {
        if self.first()? > slice {
            return None;
        }
        let (slice, table) = self.tables.pop_front()?;
        Some((slice, table?))
    }

    /// The number of tables.
    pub(super) fn len(&self) -> usize {
        self.tables.len()
    }

    /// Keeps a table without keys for reuse.
    pub(super) fn give_back(&mut self, table: GroupTable<K, S>) {
        if self.spare.len() < SPARES {
            self.spare.push(table);
        }
    }

    /// Drops the emptied tables.
    pub(super) fn drop_spares(&mut self) {
        self.spare.clear();
    }

    /// The bytes of all tables.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.tables.iter().filter_map(|(_, table)| table.as_ref());
        tables.chain(&self.spare).map(GroupTable::bytes).sum()
    }

    /// The states in all tables.
    pub(super) fn values(&self) -> impl Iterator<Item = &S> {
        self.tables.iter().filter_map(|(_, table)| table.as_ref()).flat_map(GroupTable::values)
    }

    /// The number of keys in all tables; a key counts once for each slice that it is in.
    pub(super) fn keys(&self) -> usize {
        self.tables.iter().filter_map(|(_, table)| table.as_ref()).map(|table| table.len()).sum()
    }
}
