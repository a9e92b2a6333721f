//! Encoded events of a recipe, divided into segments, in memory and in a file.
//!
//! Every system that is compared reads these bytes. Segments are generated in parallel, and can be read in parallel,
//! since each begins with an event. This is the only module that starts threads or opens files.
//!
//! # The file
//! All numbers are little-endian. The header is: eight bytes that identify the events, the version (32 bits), the
//! events in a segment (32 bits), seed, rate, number of events (64 bits each), and the [`RowHash`] of these 40 bytes.
//! Every segment follows: its length in bytes, the `RowHash` of its bytes, the bytes.

mod file;

use crate::Recipe;
use crate::digest::RowHash;
use crate::error::DecodeError;
use std::fmt;
use std::marker::PhantomData;
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The default number of events in a segment: 13 MB for Nexmark, 4 or 9 MB for the Yahoo benchmark.
pub const SEGMENT: NonZeroU32 = NonZeroU32::new(1 << 16).unwrap();

/// How the events of a benchmark are made and encoded.
pub trait Format: Send + Sync + 'static {
    /// The first bytes of a file of these events.
    const MAGIC: [u8; 8];
    /// The benchmark, for messages.
    const NAME: &'static str;
    /// The version of the generator and the encoding: it changes if any byte of their output changes.
    const VERSION: u32;
    /// An event, borrowing from its bytes.
    type Event<'a>;

    /// Generates the events of a range of numbers, and appends their bytes.
    fn append(recipe: Recipe, numbers: Range<u64>, out: &mut Vec<u8>);

    /// Decodes one event from the front of `input`, and advances `input`, which is unchanged on an error.
    ///
    /// # Errors
    /// If the bytes do not encode an event.
    fn decode<'a>(input: &mut &'a [u8]) -> Result<Self::Event<'a>, DecodeError>;
}

/// Consecutive events as bytes, which clones share.
pub struct Segment<F> {
    first: u64,
    count: u64,
    bytes: Arc<[u8]>,
    format: PhantomData<F>,
}

impl<F: Format> Segment<F> {
    fn make(recipe: Recipe, numbers: Range<u64>, buffer: &mut Vec<u8>) -> Self {
        buffer.clear();
        F::append(recipe, numbers.clone(), buffer);
        let count = numbers.end - numbers.start;
        Self { first: numbers.start, count, bytes: buffer.as_slice().into(), format: PhantomData }
    }

    /// The number of its first event.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number of events.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The encoded events.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// The events, in order. All of them can be decoded: the bytes were generated here, or checked when they were
    /// read.
    #[inline]
    pub fn events(&self) -> Events<'_, F> {
        self.events_from(0)
    }

    /// The events from a byte on, which is where one begins: see [`Events::offset_in`].
    #[inline]
    pub fn events_from(&self, offset: usize) -> Events<'_, F> {
        Events { rest: &self.bytes[offset..], format: PhantomData }
    }
}

/// The events of a segment, returned by [`Segment::events`].
#[derive(Debug)]
pub struct Events<'a, F> {
    rest: &'a [u8],
    format: PhantomData<F>,
}

impl<F> Events<'_, F> {
    /// The byte of the segment at which the next event begins; the number of its bytes when there is none left.
    #[inline]
    pub fn offset_in(&self, segment: &Segment<F>) -> usize {
        segment.bytes.len() - self.rest.len()
    }
}

impl<'a, F: Format> Iterator for Events<'a, F> {
    type Item = F::Event<'a>;

    // Inlined: an event that is stored to memory and loaded again in larger pieces waits for the stores.
    #[inline(always)]
    fn next(&mut self) -> Option<F::Event<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        Some(F::decode(&mut self.rest).expect("a segment holds only what was made or checked"))
    }
}

impl<F> Clone for Segment<F> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), ..*self }
    }
}

impl<F> fmt::Debug for Segment<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, count, bytes, .. } = self;
        write!(f, "Segment({count} events from {first}, {} bytes)", bytes.len())
    }
}

/// The events 0 to n of a recipe, as bytes.
///
/// ```
/// use thalweg_workloads::nexmark::{Segments, recipe};
///
/// let segments = Segments::generate(recipe(3), 100_000);
/// assert_eq!(segments.segments().len(), 2);
/// assert_eq!(segments.events().count(), 100_000);
///
/// # let folder = tempfile::tempdir()?;
/// let file = folder.path().join("events");
/// segments.write(&file)?;
/// assert_eq!(Segments::read(&file)?, segments);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Segments<F> {
    recipe: Recipe,
    per_segment: NonZeroU32,
    count: u64,
    segments: Vec<Segment<F>>,
}

impl<F: Format> Segments<F> {
    /// Generates `count` events, [`SEGMENT`] in a segment, on as many threads as the machine has cores.
    pub fn generate(recipe: Recipe, count: u64) -> Self {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self::generate_in(recipe, count, SEGMENT, threads)
    }

    /// Generates `count` events, `per_segment` in a segment, on `threads` threads. Neither changes the bytes;
    /// `per_segment` changes only the borders of segments.
    pub fn generate_in(
        recipe: Recipe,
        count: u64,
        per_segment: NonZeroU32,
        threads: NonZeroUsize,
    ) -> Self {
        let pieces = pieces(count, per_segment);
        let next = AtomicU64::new(0);
        let work = || {
            let (mut made, mut buffer) = (Vec::new(), Vec::new());
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= pieces {
                    return made;
                }
                let numbers = numbers(piece, count, per_segment);
                made.push(Segment::make(recipe, numbers, &mut buffer));
            }
        };
        let threads = (threads.get() as u64).min(pieces);
        let mut segments: Vec<Segment<F>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let results = workers.into_iter().map(|worker| match worker.join() {
                Ok(made) => made,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            results.flatten().collect()
        });
        segments.sort_unstable_by_key(|segment| segment.first);
        Self { recipe, per_segment, count, segments }
    }

    /// The recipe of the events.
    pub fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// The number of events.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes.len() as u64).sum()
    }

    /// The segments, in order.
    pub fn segments(&self) -> &[Segment<F>] {
        &self.segments
    }

    /// All events, in order.
    pub fn events(&self) -> impl Iterator<Item = F::Event<'_>> {
        self.segments.iter().flat_map(Segment::events)
    }
}

impl<F> Clone for Segments<F> {
    fn clone(&self) -> Self {
        Self { segments: self.segments.clone(), ..*self }
    }
}

impl<F> PartialEq for Segments<F> {
    fn eq(&self, other: &Self) -> bool {
        self.recipe == other.recipe
            && self.count == other.count
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(|(a, b)| a.bytes == b.bytes)
    }
}

impl<F> fmt::Debug for Segments<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { recipe, count, segments, .. } = self;
        write!(f, "Segments({count} events of {recipe:?} in {} segments)", segments.len())
    }
}

/// The number of segments of `count` events.
fn pieces(count: u64, per_segment: NonZeroU32) -> u64 {
    count.div_ceil(u64::from(per_segment.get()))
}

/// The numbers of the events in segment `piece`, which is below [`pieces`].
fn numbers(piece: u64, count: u64, per_segment: NonZeroU32) -> Range<u64> {
    let first = piece * u64::from(per_segment.get());
    first..first.saturating_add(u64::from(per_segment.get())).min(count)
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = RowHash::new();
    hash.bytes(bytes);
    hash.finish()
}
