//! What travels on a lane, and the kinds of record that only exchanges know.

use crate::clock::Nanos;
use crate::data::{Batch, Data, DecodeError, Key, KeyColumn, Portable, Record, Wire};
use crate::time::Time;
use std::marker::PhantomData;

/// A batch of records and, in a timed stream, their timestamps.
pub(crate) struct Packet<I: Portable + ?Sized, T> {
    pub(crate) items: I::Batch,
    times: Vec<T>,
    /// When it was sent, for the few whose time under way is measured.
    pub(super) sent_at: Option<Nanos>,
}

impl<I: Portable + ?Sized, T> Default for Packet<I, T> {
    fn default() -> Self {
        Self { items: I::Batch::default(), times: Vec::new(), sent_at: None }
    }
}

impl<I: Portable + ?Sized, T: Time> Packet<I, T> {
    #[inline(always)]
    pub(crate) fn push(&mut self, item: I::Of<'_>, time: T) {
        self.items.push(item);
        self.times.push(time);
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.items.bytes() + size_of::<T>() * self.times.len()
    }

    /// Hands every record to `each`, in order, and keeps the capacity.
    #[inline(always)]
    pub(crate) fn drain(&mut self, mut each: impl FnMut(I::Of<'_>, T)) {
        let mut times = self.times.drain(..);
        self.items.drain(|item| {
            // One time was pushed with every item.
            if let Some(time) = times.next() {
                each(item, time);
            }
        });
    }
}

/// A record with the hash of its key, which was computed once, where the record came from.
///
/// It is what a keyed exchange carries: `Of<'a>` is `(u64, I::Of<'a>)`.
pub struct Hashed<I: ?Sized> {
    kind: PhantomData<fn(&I)>,
    // Makes the type unsized, and so a kind of record of its own.
    _unsized: [()],
}

impl<I: Record + ?Sized> Record for Hashed<I> {
    type Of<'a> = (u64, I::Of<'a>);
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
        self.hashes.len()
    }

    fn bytes(&self) -> usize {
        self.hashes.len() * size_of::<u64>() + self.items.bytes()
    }

    #[inline(always)]
    fn drain(&mut self, mut each: impl FnMut((u64, I::Of<'_>))) {
        let mut hashes = self.hashes.drain(..);
        self.items.drain(|item| {
            if let Some(hash) = hashes.next() {
                each((hash, item));
            }
        });
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.items.clear();
    }
}

/// What one task has aggregated for a key so far, on its way to the task that owns the key.
///
/// `Of<'a>` is `(hash, &'a K, A)`.
pub struct Partial<K: ?Sized, A> {
    kind: PhantomData<fn(&K) -> A>,
    // Makes the type unsized, and so a kind of record of its own.
    _unsized: [()],
}

impl<K: Key + ?Sized, A: 'static> Record for Partial<K, A> {
    type Of<'a> = (u64, &'a K, A);
}

impl<K: Key + ?Sized, A: Data> Portable for Partial<K, A> {
    type Batch = PartialBatch<K, A>;
    type Owned = (u64, K::Owned, A);

    fn to_owned((hash, key, aggregate): Self::Of<'_>) -> Self::Owned {
        (hash, key.own(), aggregate)
    }
}

/// A batch of [`Partial`] aggregates, a column each for hashes, keys and aggregates.
pub struct PartialBatch<K: Key + ?Sized, A> {
    hashes: Vec<u64>,
    keys: K::Column,
    aggregates: Vec<A>,
}

impl<K: Key + ?Sized, A> Default for PartialBatch<K, A> {
    fn default() -> Self {
        Self { hashes: Vec::new(), keys: K::Column::default(), aggregates: Vec::new() }
    }
}

impl<K: Key + ?Sized, A: Data> Batch<Partial<K, A>> for PartialBatch<K, A> {
    #[inline(always)]
    fn push(&mut self, (hash, key, aggregate): (u64, &K, A)) {
        self.hashes.push(hash);
        self.keys.push(key);
        self.aggregates.push(aggregate);
    }

    fn len(&self) -> usize {
        self.hashes.len()
    }

    fn bytes(&self) -> usize {
        self.hashes.len() * (size_of::<u64>() + size_of::<A>()) + self.keys.bytes()
    }

    #[inline(always)]
    fn drain(&mut self, mut each: impl FnMut((u64, &K, A))) {
        for (index, (hash, aggregate)) in
            self.hashes.drain(..).zip(self.aggregates.drain(..)).enumerate()
        {
            each((hash, self.keys.get(index), aggregate));
        }
        self.keys.clear();
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.keys.clear();
        self.aggregates.clear();
    }
}
