//! The records that a task keeps for its transactions, within the memory of the job.

use crate::outgoing::Outgoing;
use std::sync::Arc;
use thalweg::Data;
use thalweg::data::{DecodeError, Schema};
use thalweg::memory::Reservation;

/// The records of a transaction. Clones share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records(Arc<Vec<u8>>);

impl Records {
    pub(crate) fn none() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Whether no one else has them any more.
    fn are_done_with(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Data for Records {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self(Arc::new(Data::decode(input)?)))
    }

    fn key_hash(&self) -> u64 {
        self.0.key_hash()
    }

    fn heap_size(&self) -> usize {
        self.0.len()
    }

    fn schema() -> Schema {
        <Vec<u8> as Data>::schema()
    }
}

/// The records of a task that are not committed.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Since the last barrier.
    records: Vec<u8>,
    /// Of transactions that are to be committed, in which their memory is used.
    lent: Vec<Records>,
    /// How many bytes a transaction should have at most.
    room: usize,
    memory: Reservation,
}

impl Kept {
    /// A transaction should not have more bytes than a sixteenth of `most`: smaller ones are written faster, and what is in front of a
    /// barrier needs room. Nor than the task's share of an eighth of the memory.
    pub(crate) fn new(memory: Reservation, tasks: usize, most: usize) -> Self {
        let share = memory.pool().limit() / 8 / tasks.max(1);
        let room = share.max(4 << 20).min(most / 16).max(1);
        Self { records: Vec::new(), lent: Vec::new(), room, memory }
    }

    pub(crate) fn add(&mut self, record: &Outgoing) {
        record.save(&mut self.records);
    }

    /// Bytes since the last barrier.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the job should not go on without a checkpoint.
    pub(crate) fn are_enough(&mut self) -> bool {
        // The transaction before this one may be written while this one is filled, and no further one.
        if self.records.len() >= self.room || self.busy() > 2 * self.room {
            return true;
        }
        let all = self.all();
        if all == self.memory.bytes() || self.memory.try_resize(all) {
            return false;
        }
        self.lent.retain(|lent| !lent.are_done_with());
        if self.records.is_empty() {
            self.records = Vec::new();
        }
        let needed = self.all();
        needed > 0 && !self.memory.try_resize(needed)
    }

    /// The bytes of all transactions that are not committed.
    fn busy(&self) -> usize {
        let busy = self.lent.iter().filter(|lent| !lent.are_done_with());
        busy.map(|lent| lent.0.len()).sum()
    }

    /// Those since the last barrier, for a transaction.
    pub(crate) fn take(&mut self) -> Records {
        // Memory that was written before costs less than that which is new. The next one is likely to be about as large.
        self.give_back();
        let free = self.lent.iter().position(Records::are_done_with);
        let free =
            free.map(|at| self.lent.swap_remove(at)).and_then(|free| Arc::into_inner(free.0));
        let mut next =
            free.unwrap_or_else(|| Vec::with_capacity(self.records.len().min(self.room)));
        next.clear();
        let records = Records(Arc::new(std::mem::replace(&mut self.records, next)));
        self.lent.push(records.clone());
        records
    }

    /// Gives back the memory of transactions that were committed, but for that of one of usual size.
    pub(crate) fn give_back(&mut self) {
        let mut spares = 1;
        self.lent.retain(|lent| {
            let is_spare = lent.capacity() <= 2 * self.room && spares > 0;
            let stays = !lent.are_done_with() || is_spare;
            spares -= usize::from(lent.are_done_with() && stays);
            stays
        });
        let all = self.all();
        if all < self.memory.bytes() {
            // Less is never refused.
            let _ = self.memory.try_resize(all);
        }
    }

    /// The memory that is held.
    fn all(&self) -> usize {
        self.lent.iter().map(Records::capacity).sum::<usize>() + self.records.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg::memory::MemoryPool;

    fn record(bytes: usize) -> Outgoing {
        let mut record = Outgoing::default();
        record.payload(vec![b'x'; bytes]);
        record
    }

    fn filled(kept: &mut Kept) -> usize {
        let (record, mut count) = (record(1000), 0);
        while !kept.are_enough() {
            kept.add(&record);
            count += 1;
        }
        count
    }

    #[test]
    fn a_transaction_is_filled_while_the_one_before_is_written_and_no_further_one() {
        let pool = MemoryPool::new(1 << 30);
        let mut kept = Kept::new(pool.reserve(), 1, 16 << 20);
        assert_eq!(kept.room, 1 << 20);
        assert!((900..1100).contains(&filled(&mut kept)));
        let first = kept.take();
        assert!(filled(&mut kept) > 900);
        let second = kept.take();
        assert!(pool.used() > 2 << 20);
        let third = filled(&mut kept);
        drop(kept.take());
        let fourth = filled(&mut kept);
        assert!(third + fourth < 1100, "{third}, {fourth}: what is not committed is kept");
        drop((first, second));
        assert!(filled(&mut kept) > 900);
        drop(kept);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn what_was_committed_gives_its_memory_back() {
        let pool = MemoryPool::new(1 << 30);
        let mut kept = Kept::new(pool.reserve(), 1, 16 << 20);
        filled(&mut kept);
        let first = kept.take();
        let (memory, capacity) = (first.bytes().as_ptr(), first.capacity());
        filled(&mut kept);
        drop(first);
        let second = kept.take();
        assert_eq!((kept.records.as_ptr(), kept.records.capacity()), (memory, capacity));
        assert!(kept.records.is_empty() && second.bytes().as_ptr() != memory);
    }

    #[test]
    fn a_burst_is_written_and_its_memory_given_back() {
        let pool = MemoryPool::new(1 << 30);
        let mut kept = Kept::new(pool.reserve(), 1, 16 << 20);
        // Between two looks.
        (0..10_000).for_each(|_| kept.add(&record(1000)));
        assert!(kept.are_enough());
        drop(kept.take());
        assert!(!kept.are_enough() && filled(&mut kept) > 900);
        drop(kept.take());
        kept.give_back();
        assert!(pool.used() <= 3 << 20, "{}", pool.used());

        // More than there is.
        let pool = MemoryPool::new(600 << 10);
        let mut kept = Kept::new(pool.reserve(), 1, 16 << 20);
        (0..1000).for_each(|_| kept.add(&record(1000)));
        assert!(kept.are_enough());
        drop(kept.take());
        assert!(!kept.are_enough(), "nothing is left that a checkpoint could write");
    }

    #[test]
    fn what_is_kept_is_within_the_memory_of_the_job() {
        let pool = MemoryPool::new(8 << 20);
        let mut kept = Kept::new(pool.reserve(), 1, 16 << 30);
        let mut other = pool.reserve();
        assert!(other.try_resize((8 << 20) - (600 << 10)));
        let first = filled(&mut kept);
        assert!((1..700).contains(&first) && pool.used() <= 8 << 20, "{first}");
        let records = kept.take();
        assert!(kept.are_enough(), "until that is committed");
        drop(records);
        assert!(filled(&mut kept) > 0);
    }
}
