//! What lanes carry: batches of records with timestamps, and the kinds of record that occur in exchanges only.

use super::route::owner;
use crate::clock::Nanos;
use crate::data::{
    Batch, Covariant, Data, DecodeError, Key, Portable, Record, Wire, decode_whole, extend_from,
};
use crate::hints::prefetch_push;
use crate::time::Time;
use std::marker::PhantomData;
use std::mem::needs_drop;

/// A batch of records and, in a timed stream, their timestamps.
pub(crate) struct RecordBatch<I: Portable + ?Sized, T> {
    pub(crate) items: I::Batch,
    times: Vec<T>,
    /// When it was sent by a task of this host; set only in the batches whose time in flight is measured.
    pub(super) sent_at: Option<Nanos>,
}

impl<I: Portable + ?Sized, T> Default for RecordBatch<I, T> {
    fn default() -> Self {
        Self { items: I::Batch::default(), times: Vec::new(), sent_at: None }
    }
}

impl<I: Portable + ?Sized, T: Time> RecordBatch<I, T> {
    #[inline(always)]
    pub(crate) fn push(&mut self, item: I::Of<'_>, time: T) {
        self.items.push(item);
        self.times.push(time);
    }

    /// The number of records as `Batch::len` counts them: a block of rows counts each row.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.items.bytes() + size_of::<T>() * self.times.len()
    }

    /// Encodes and decodes all records, as if they came from another host.
    #[cold]
    pub(super) fn recode(&mut self, bytes: &mut Vec<u8>) -> Result<(), DecodeError> {
        bytes.clear();
        self.encode(bytes);
        self.clear();
        self.decode(bytes)
    }

    /// Drops all records.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.times.clear();
    }

    /// Appends the encoding of all records.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.items.encode_all(out);
        Data::encode(&self.times, out);
    }

    /// Appends the records that were encoded.
    pub(crate) fn decode(&mut self, input: &[u8]) -> Result<(), DecodeError> {
        decode_whole(input, |input| self.decode_next(input))
    }

    /// Appends the records of one batch at the front of `input`, and advances `input` past it.
    pub(super) fn decode_next(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        self.items.decode_all(input)?;
        extend_from(input, &mut self.times)
    }

    /// The records whose keys the task with this number owns, of `tasks` tasks. All records must carry the hashes of their
    /// keys.
    pub(super) fn owned_by(mut self, task: usize, tasks: usize) -> Result<Self, DecodeError> {
        let mut hashes = Vec::with_capacity(self.times.len());
        self.items.each_hash(|hash| hashes.push(hash));
        if hashes.len() != self.times.len() {
            return Err(DecodeError::invalid("records with the hashes of their keys"));
        }
        let (mut owned, mut hashes) = (Self::default(), hashes.into_iter());
        self.drain(|item, time| {
            if hashes.next().is_some_and(|hash| owner(hash, tasks) == task) {
                owned.push(item, time);
            }
        });
        Ok(owned)
    }

    /// Passes every record to `each`, in order, and keeps the capacity.
    #[inline(always)]
    pub(crate) fn drain(&mut self, mut each: impl FnMut(I::Of<'_>, T)) {
        let mut times = self.times.iter();
        self.items.drain(|item| each(item, *times.next().unwrap_or_else(|| unequal())));
        self.times.clear();
    }
}

/// A batch from another host may have been encoded so; here, each record is pushed with its time and hash. Not a
/// condition in the loop that drains: a record would be moved to memory and back before it is used.
#[cold]
#[inline(never)]
fn unequal() -> ! {
    panic!("a batch has fewer times or hashes than records")
}

/// A record with the hash of its key, computed once by the task that sends it.
///
/// Keyed exchanges carry it: `Of<'a>` is `(u64, I::Of<'a>)`.
pub struct Hashed<I: ?Sized> {
    kind: PhantomData<fn(&I)>,
    // Makes the type unsized, so that it does not overlap with the sized types that implement `Record`.
    _unsized: [()],
}

impl<I: Record + ?Sized> Record for Hashed<I> {
    type Of<'a> = (u64, I::Of<'a>);
}

impl<I: Covariant + ?Sized> Covariant for Hashed<I> {
    #[inline(always)]
    fn shorten<'short, 'long: 'short>((hash, item): (u64, I::Of<'long>)) -> (u64, I::Of<'short>) {
        (hash, I::shorten(item))
    }
}

impl<I: Portable + ?Sized> Portable for Hashed<I> {
    type Batch = HashedBatch<I>;
    type Owned = (u64, I::Owned);

    fn to_owned((hash, item): Self::Of<'_>) -> Self::Owned {
        (hash, I::to_owned(item))
    }
}

impl<I: Wire + ?Sized> Wire for Hashed<I> {
    fn encode((hash, item): &Self::Of<'_>, out: &mut Vec<u8>) {
        Data::encode(hash, out);
        I::encode(item, out);
    }

    fn decode<'a>(input: &mut &'a [u8]) -> Result<Self::Of<'a>, DecodeError> {
        Ok((<u64 as Data>::decode(input)?, I::decode(input)?))
    }
}

/// A batch of [`Hashed`] records.
pub struct HashedBatch<I: Portable + ?Sized> {
    hashes: Vec<u64>,
    items: I::Batch,
}

impl<I: Portable + ?Sized> Default for HashedBatch<I> {
    fn default() -> Self {
        Self { hashes: Vec::new(), items: I::Batch::default() }
    }
}

impl<I: Portable + ?Sized> Batch<Hashed<I>> for HashedBatch<I> {
    #[inline(always)]
    fn push(&mut self, (hash, item): (u64, I::Of<'_>)) {
        self.hashes.push(hash);
        self.items.push(item);
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    #[inline(always)]
    fn last_heap(&self) -> usize {
        self.items.last_heap()
    }

    fn bytes(&self) -> usize {
        self.hashes.len() * size_of::<u64>() + self.items.bytes()
    }

    #[inline(always)]
    fn prefetch_push(&self) {
        self.items.prefetch_push();
    }

    #[inline(always)]
    fn each_hash(&self, each: impl FnMut(u64)) {
        self.hashes.iter().copied().for_each(each);
    }

    #[inline(always)]
    fn drain(&mut self, mut each: impl FnMut((u64, I::Of<'_>))) {
        let mut hashes = self.hashes.iter();
        self.items.drain(|item| each((*hashes.next().unwrap_or_else(|| unequal()), item)));
        self.hashes.clear();
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.items.clear();
    }

    fn encode_all(&self, out: &mut Vec<u8>) {
        self.hashes.encode_all(out);
        self.items.encode_all(out);
    }

    fn decode_all(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        self.hashes.decode_all(input)?;
        self.items.decode_all(input)
    }
}

/// The partial aggregate of a key from one task, on its way to the task that owns the key.
///
/// `Of<'a>` is a [`PartialEntry`].
pub struct Partial<K: ?Sized, A> {
    kind: PhantomData<fn(&K) -> A>,
    // Makes the type unsized, so that it does not overlap with the sized types that implement `Record`.
    _unsized: [()],
}

/// A [`Partial`] aggregate as it is pushed: with its key in the form that tables store, so that it moves from one
/// table to another without hashing or packing the key again.
pub struct PartialEntry<'a, K: Key + ?Sized, A> {
    /// The hash of the key.
    pub hash: u64,
    /// The key.
    pub key: K::Slot,
    /// The bytes of the key, if it is long.
    pub arena: &'a K::Arena,
    /// The accumulator.
    pub state: A,
}

impl<K: Key + ?Sized, A> PartialEntry<'_, K, A> {
    /// The key in the form in which keys are compared.
    #[inline(always)]
    pub(crate) fn probe(&self) -> K::Probe<'_> {
        K::slot_probe(&self.key, self.arena)
    }
}

impl<K: Key + ?Sized, A: 'static> Record for Partial<K, A> {
    type Of<'a> = PartialEntry<'a, K, A>;
}

impl<K: Key + ?Sized, A: Data> Portable for Partial<K, A> {
    type Batch = PartialBatch<K, A>;
    type Owned = (u64, K::Owned, A);

    fn to_owned(entry: PartialEntry<'_, K, A>) -> Self::Owned {
        (entry.hash, K::take(entry.key, entry.arena), entry.state)
    }
}

/// A batch of [`Partial`] aggregates, with an arena for its long keys.
pub struct PartialBatch<K: Key + ?Sized, A> {
    rows: Vec<Row<K, A>>,
    arena: K::Arena,
}

/// The number of entries between one that is passed on and the one that comes soon.
const AHEAD: usize = 8;

struct Row<K: Key + ?Sized, A> {
    hash: u64,
    key: K::Slot,
    state: A,
}

impl<K: Key + ?Sized, A> PartialBatch<K, A> {
    /// Copies a key into the form that [`push_slot`](Self::push_slot) takes.
    #[inline(always)]
    pub(crate) fn store(&mut self, key: &K, probe: K::Probe<'_>) -> K::Slot {
        key.store(probe, &mut self.arena)
    }

    /// Appends an entry whose key was stored in this batch.
    #[inline(always)]
    pub(crate) fn push_slot(&mut self, hash: u64, key: K::Slot, state: A) {
        self.rows.push(Row { hash, key, state });
    }

    /// Passes an entry on whose key was stored in this batch, which has no others.
    #[inline(always)]
    pub(crate) fn pass(
        &mut self,
        hash: u64,
        key: K::Slot,
        state: A,
        next: impl FnOnce(PartialEntry<'_, K, A>),
    ) {
        next(PartialEntry { hash, key, arena: &self.arena, state });
        K::clear_arena(&mut self.arena);
    }

    /// The number of entries.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The hashes of the keys, in the order of the entries.
    #[inline(always)]
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().map(|row| row.hash)
    }

    /// The states, in the order of the entries.
    pub(crate) fn states(&self) -> impl Iterator<Item = &A> {
        self.rows.iter().map(|row| &row.state)
    }

    /// The bytes of all entries, apart from what the states own on the heap.
    #[inline(always)]
    pub(crate) fn footprint(&self) -> usize {
        self.rows.len() * size_of::<Row<K, A>>() + K::arena_bytes(&self.arena)
    }

    /// The same with the room for further entries.
    pub(crate) fn occupied(&self) -> usize {
        self.rows.capacity() * size_of::<Row<K, A>>() + K::arena_bytes(&self.arena)
    }

    /// Passes every entry to `each`, in order, and before that the hash of an entry that comes soon to `soon`. Keeps the
    /// capacity.
    #[inline(always)]
    pub(crate) fn drain_ahead<C>(
        &mut self,
        cx: &mut C,
        soon: impl Fn(&C, u64),
        mut each: impl FnMut(&mut C, PartialEntry<'_, K, A>),
    ) {
        let Self { rows, arena } = self;
        let mut rows = rows.drain(..);
        while let Some(Row { hash, key, state }) = rows.next() {
            if let Some(later) = rows.as_slice().get(AHEAD) {
                soon(cx, later.hash);
            }
            each(cx, PartialEntry { hash, key, arena, state });
        }
        drop(rows);
        K::clear_arena(arena);
    }

    /// Calls `each` with every key and its state.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&K, &A)) {
        for Row { key, state, .. } in &self.rows {
            K::view(key, &self.arena, |key| each(key, state));
        }
    }

    /// The hash of the first key, and the key as `Debug` shows it.
    pub(crate) fn first(&self) -> Option<(u64, String)> {
        let row = self.rows.first()?;
        Some((row.hash, K::view(&row.key, &self.arena, |key| format!("{key:?}"))))
    }
}

impl<K: Key + ?Sized, A> Default for PartialBatch<K, A> {
    fn default() -> Self {
        Self { rows: Vec::new(), arena: K::Arena::default() }
    }
}

impl<K: Key + ?Sized, A: Data> Batch<Partial<K, A>> for PartialBatch<K, A> {
    #[inline(always)]
    fn push(&mut self, entry: PartialEntry<'_, K, A>) {
        let key = K::move_slot(entry.key, entry.arena, &mut self.arena);
        self.rows.push(Row { hash: entry.hash, key, state: entry.state });
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline(always)]
    fn last_heap(&self) -> usize {
        match needs_drop::<A>() {
            true => self.rows.last().map_or(0, |row| row.state.heap_size()),
            false => 0,
        }
    }

    fn bytes(&self) -> usize {
        let states = match needs_drop::<A>() {
            true => self.rows.iter().map(|row| row.state.heap_size()).sum(),
            false => 0,
        };
        self.footprint() + states
    }

    #[inline(always)]
    fn prefetch_push(&self) {
        prefetch_push(&self.rows);
    }

    #[inline(always)]
    fn each_hash(&self, each: impl FnMut(u64)) {
        self.hashes().for_each(each);
    }

    #[inline(always)]
    fn drain(&mut self, mut each: impl FnMut(PartialEntry<'_, K, A>)) {
        let Self { rows, arena } = self;
        for Row { hash, key, state } in rows.drain(..) {
            each(PartialEntry { hash, key, arena, state });
        }
        K::clear_arena(arena);
    }

    fn clear(&mut self) {
        self.rows.clear();
        K::clear_arena(&mut self.arena);
    }

    fn encode_all(&self, out: &mut Vec<u8>) {
        Data::encode(&self.rows.len(), out);
        for Row { hash, key, state } in &self.rows {
            Data::encode(hash, out);
            K::encode_slot(key, &self.arena, out);
            Data::encode(state, out);
        }
    }

    fn decode_all(&mut self, input: &mut &[u8]) -> Result<(), DecodeError> {
        for _ in 0..<usize as Data>::decode(input)? {
            let hash = Data::decode(input)?;
            let key = K::decode_slot(input, &mut self.arena)?;
            self.rows.push(Row { hash, key, state: Data::decode(input)? });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_keyed_records_carry_hashes() {
        let seen = |each: &dyn Fn(&mut Vec<u64>)| {
            let mut all = Vec::new();
            each(&mut all);
            all
        };
        let mut hashed = HashedBatch::<str>::default();
        let mut parts = PartialBatch::<u64, u8>::default();
        for hash in [7, 5, 7] {
            hashed.push((hash, "text"));
            parts.push_slot(hash, 3, 1);
        }
        assert_eq!(seen(&|all| hashed.each_hash(|hash| all.push(hash))), [7, 5, 7]);
        assert_eq!(seen(&|all| Batch::each_hash(&parts, |hash| all.push(hash))), [7, 5, 7]);
        assert_eq!(seen(&|all| vec![7_u64].each_hash(|hash| all.push(hash))), [0; 0]);
    }
}
