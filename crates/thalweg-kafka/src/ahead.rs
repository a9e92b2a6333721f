//! What the client of a source may fetch ahead of its readers: a share of the job's memory. Pure, but for the reservation.

use crate::client::Options;
use thalweg::Result;
use thalweg::memory::{MemoryPool, Reservation};

/// The partitions of a source share one part in so many of the memory that is free when it begins: a later source gets less.
const PART: usize = 8;
/// The least that a partition needs, and the most that it gets: about the client's defaults.
const LEAST: usize = 64 << 10;
const MOST: usize = 128 << 20;
/// What the client needs for a record beside its bytes.
const RECORD: usize = 512;

const QUEUE: &str = "queued.max.messages.kbytes";
const RECORDS: &str = "queued.min.messages";
const FETCH: &str = "fetch.message.max.bytes";
/// The same as [`FETCH`].
const FETCH_TOO: &str = "max.partition.fetch.bytes";

/// The most that a queue holds where librdkafka does not fetch, unless more is set.
const MOST_ROOM: usize = 16 << 20;

/// The bytes that may be held of a partition, and those that are fetched at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) queue: usize,
    pub(crate) fetch: usize,
}

/// What the client may hold of each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// The kilobytes in its queue, and the records, of which either stops it from asking for more.
    queue: usize,
    records: usize,
    /// The bytes that it asks for at a time.
    fetch: usize,
}

impl Ahead {
    /// Where so many partitions share what is left of a job's memory.
    pub(crate) fn within(pool: &MemoryPool, partitions: usize) -> Self {
        Self::of(pool.limit().saturating_sub(pool.used()), partitions)
    }

    /// Whether the user has set how much is fetched, so that a partition is to have that or nothing.
    pub(crate) fn is_set(options: &Options) -> bool {
        [QUEUE, FETCH, FETCH_TOO].iter().any(|name| options.get(name).is_some())
    }

    fn of(memory: usize, partitions: usize) -> Self {
        let share = (memory / PART / partitions.max(1)).clamp(LEAST, MOST);
        Self {
            queue: share / 2 / 1024,
            records: share / 8 * 3 / RECORD,
            fetch: (share / 8).min(1 << 20),
        }
    }

    /// With what the user has set instead. What is no number is refused by the client.
    pub(crate) fn or_set(self, options: &Options) -> Self {
        let set = |name: &str| options.get(name)?.parse().ok();
        Self {
            queue: set(QUEUE).unwrap_or(self.queue),
            records: set(RECORDS).unwrap_or(self.records),
            fetch: set(FETCH).or_else(|| set(FETCH_TOO)).unwrap_or(self.fetch),
        }
    }

    /// The client's settings, but for those that the user has set.
    pub(crate) fn settings(&self, options: &Options) -> Vec<(&'static str, String)> {
        let all = [(QUEUE, self.queue), (RECORDS, self.records), (FETCH, self.fetch)];
        let is_free = |name| {
            options.get(name).is_none() && (name != FETCH || options.get(FETCH_TOO).is_none())
        };
        let free = all.into_iter().filter(|(name, _)| is_free(name));
        free.map(|(name, value)| (name, value.to_string())).collect()
    }

    /// The bytes that this comes to.
    fn bytes(&self) -> usize {
        let queue = self.queue.saturating_mul(1024);
        queue.saturating_add(self.records.saturating_mul(RECORD)).saturating_add(self.fetch)
    }

    /// What may be held of a partition where librdkafka does not fetch, and no record takes memory by itself: less than this, so that
    /// either fits into a share.
    pub(crate) fn room(&self, options: &Options) -> Room {
        let most = if options.get(QUEUE).is_some() { usize::MAX } else { MOST_ROOM };
        Room { queue: self.queue.saturating_mul(1024).min(most), fetch: self.fetch }
    }

    /// Reserves it for a partition.
    ///
    /// # Errors
    ///
    /// If the job has not as much memory left.
    pub(crate) fn reserve(&self, memory: &mut Reservation) -> Result<()> {
        reserve(self.bytes(), memory)
    }
}

impl Room {
    /// Reserves it, with two buffers that are kept to be used again; or less, if it may be less, where others have taken their part
    /// since the memory was shared. Returns what it got.
    ///
    /// # Errors
    ///
    /// If the job has not even the least left.
    pub(crate) fn reserve(self, may_be_less: bool, memory: &mut Reservation) -> Result<Self> {
        let mut room = self;
        let least = Ahead::of(0, 0).room(&Options::default());
        while may_be_less && room.queue > least.queue && !memory.try_resize(room.bytes()) {
            let halved = |bytes: usize, least: usize| (bytes / 2).max(least.min(bytes));
            room.queue = halved(room.queue, least.queue);
            room.fetch = halved(room.fetch, least.fetch);
        }
        reserve(room.bytes(), memory)?;
        Ok(room)
    }

    fn bytes(&self) -> usize {
        self.queue.saturating_add(self.fetch.saturating_mul(2))
    }
}

fn reserve(bytes: usize, memory: &mut Reservation) -> Result<()> {
    if memory.try_resize(bytes) {
        return Ok(());
    }
    let what = format!(
        "no memory is left for what is fetched ahead of a partition, {} KiB; fewer partitions, or less of `{QUEUE}`, `{RECORDS}` \
         and `{FETCH}`, need less",
        bytes.div_ceil(1024)
    );
    Err(memory.refused(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg::ErrorKind;
    use thalweg::memory::MemoryPool;

    #[test]
    fn partitions_share_an_eighth_of_the_memory() {
        for (memory, partitions) in [(8 << 20, 4), (1 << 30, 100), (1 << 30, 1), (4 << 30, 7)] {
            let ahead = Ahead::of(memory, partitions);
            let all = ahead.bytes() * partitions;
            assert!(all <= memory / 8 && all > memory / 8 - memory / 64, "{ahead:?}: {all}");
        }
        assert_eq!(Ahead::of(0, 0), Ahead { queue: 32, records: 48, fetch: 8 << 10 });
        assert_eq!(Ahead::of(0, 0).bytes(), LEAST);
        let most = Ahead { queue: 64 << 10, records: 98_304, fetch: 1 << 20 };
        assert_eq!(Ahead::of(usize::MAX, 3), most);
    }

    #[test]
    fn rooms_are_within_the_share() {
        let mut options = Options::default();
        for memory in [0, 8 << 20, 1 << 30, usize::MAX] {
            let ahead = Ahead::of(memory, 3);
            let room = ahead.room(&options);
            assert!(room.fetch <= room.queue && room.queue <= MOST_ROOM, "{room:?}");
            let pool = MemoryPool::new(ahead.bytes());
            assert_eq!(room.reserve(false, &mut pool.reserve()).unwrap(), room);
        }
        // More than by default, as it is set.
        options.set(QUEUE.to_owned(), "65536".to_owned());
        let set = Ahead::of(1 << 20, 1).or_set(&options).room(&options);
        assert_eq!(set.queue, 64 << 20);
        let pool = MemoryPool::new(1 << 20);
        let error = set.reserve(false, &mut pool.reserve()).unwrap_err();
        assert!(error.message().contains(QUEUE), "{error}");
    }

    #[test]
    fn a_partition_that_is_added_gets_what_is_left() {
        let room = Ahead::of(1 << 30, 1).room(&Options::default());
        let least = Ahead::of(0, 0).room(&Options::default());
        for left in [least.bytes(), 1 << 20, room.bytes() - 1, room.bytes()] {
            let pool = MemoryPool::new(left);
            let mut memory = pool.reserve();
            let got = room.reserve(true, &mut memory).unwrap();
            assert!(got.queue >= least.queue && got.fetch >= least.fetch && got.fetch <= got.queue);
            assert!(pool.used() == got.bytes() && got.bytes() > left / 4, "{got:?} of {left}");
        }
        let pool = MemoryPool::new(least.bytes() - 1);
        let error = room.reserve(true, &mut pool.reserve()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory);
    }

    /// So many that an eighth of all memory for each would be more than there is.
    #[test]
    fn sources_share_the_memory_that_is_free() {
        for (sources, partitions) in [(11, 16), (40, 16), (100, 1)] {
            let pool = MemoryPool::new(1 << 30);
            let options = Options::default();
            let mut reserved = Vec::new();
            for source in 0..sources {
                let ahead = Ahead::within(&pool, partitions);
                for _ in 0..partitions {
                    let mut memory = pool.reserve();
                    // One of them is fetched by librdkafka.
                    match source {
                        3 => ahead.reserve(&mut memory).unwrap(),
                        _ => _ = ahead.room(&options).reserve(false, &mut memory).unwrap(),
                    }
                    reserved.push(memory);
                }
                // The first ones have an eighth, and all of them leave something.
                let used = pool.used();
                assert!(source > 0 || partitions == 1 || used > (1 << 30) / 11, "{used}");
                assert!(source > 10 || used < (1 << 30) / 4 * 3, "{used} behind {source}");
            }
        }
    }

    #[test]
    fn what_is_set_is_reserved_and_left_as_it_is() {
        let mut options = Options::default();
        let ahead = Ahead::of(1 << 20, 1);
        assert_eq!(ahead.settings(&options).len(), 3);
        options.set(QUEUE.to_owned(), "2048".to_owned());
        options.set(FETCH_TOO.to_owned(), "1000".to_owned());
        let set = ahead.or_set(&options);
        assert_eq!((set.queue, set.records, set.fetch), (2048, ahead.records, 1000));
        assert_eq!(set.settings(&options), [(RECORDS, ahead.records.to_string())]);
        let pool = MemoryPool::new(1 << 20);
        let mut memory = pool.reserve();
        let error = set.reserve(&mut memory).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.message().contains(QUEUE) && memory.bytes() == 0, "{error}");
        ahead.reserve(&mut memory).unwrap();
        assert_eq!(pool.used(), ahead.bytes());
    }
}
