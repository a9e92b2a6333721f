//! Entries of a state as files have them: in blocks, without the bytes that are the same in all entries of a block.
//!
//! Where integers are counted, those are the high bytes of keys and of counts, and the lengths of the entries. To find them
//! must cost less than to write them, a few nanoseconds for each entry; so no other repetition is looked for. There are two
//! kinds of blocks:
//!
//! * plain: [`PLAIN`]; a length, in eight bytes; so many bytes, as they were;
//! * alike: [`ALIKE`]; the number of entries, in two bytes; the length of each with its frame, in two bytes; a mask, with a bit
//!   for each byte of an entry that is set if the byte is not the same in all of them; the first entry; and of each other one
//!   the bytes whose bits are set.
//!
//! Numbers are little-endian, and the lowest bit of a mask's first byte is that of the first byte. Entries that are long, few
//! of one length in a row, or that would hardly shrink are in plain blocks, as is what is no whole entry. An alike block saves
//! enough for the header of a plain block behind it, so all blocks together are longer than the entries by one such header at
//! most.
//!
//! Reading refuses what is not whole, and makes less than [`MOST`] times as many bytes as there are. This module knows neither
//! states nor files.

use super::snapshot::LONG;
use crate::data::DecodeError;
use crate::sync::offer_core;

/// The first byte of a block.
const PLAIN: u8 = 0;
const ALIKE: u8 = 1;
/// The bytes before those of a plain block.
const PLAIN_HEADER: usize = 1 + size_of::<u64>();
/// The bytes before the mask of an alike block.
const ALIKE_HEADER: usize = 1 + 2 * size_of::<u16>();

/// The bytes before the encoding of an entry: its key group, and a length that is not [`LONG`].
const FRAME: usize = 3;
/// The most bytes of an entry with such a length.
const LONGEST: usize = FRAME + LONG as usize - 1;
/// The most bytes of a mask.
const MASK: usize = LONGEST.div_ceil(8);

/// The fewest and the most entries of an alike block. While it is packed, the nearest cache has one of usual entries.
const FEWEST: usize = 16;
const MOST: usize = 512;
/// An alike block saves at least one byte in so many.
const WORTHWHILE: usize = 8;
/// The bytes that are compared and copied at a time.
const WORD: usize = size_of::<u64>();
/// From so many bytes on, those of a plain block are not copied.
const BORROWED: usize = 64 << 10;
/// The bytes of entries that are packed at a time, in about a millisecond at most.
const STEP: usize = 1 << 20;

/// Entries that are packed, as pieces that follow each other.
#[derive(Default)]
pub(super) struct Packed<'a> {
    bytes: Vec<u8>,
    /// The bytes of large plain blocks, each with its place in those above: what does not shrink is not in memory twice.
    borrowed: Vec<(usize, &'a [u8])>,
}

/// A place between pieces.
#[derive(Clone, Copy, Default)]
pub(super) struct Mark {
    bytes: usize,
    borrowed: usize,
}

impl<'a> Packed<'a> {
    /// None yet, in memory of earlier ones.
    pub(super) fn begin(mut memory: Vec<u8>) -> Self {
        memory.clear();
        Self { bytes: memory, borrowed: Vec::new() }
    }

    /// The memory, for later ones.
    pub(super) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// Where those are to begin that are added next.
    pub(super) fn end(&self) -> Mark {
        Mark { bytes: self.bytes.len(), borrowed: self.borrowed.len() }
    }

    /// All of them.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces_from(Mark::default())
    }

    /// Those that were added since.
    pub(super) fn pieces_from(&self, mark: Mark) -> impl Iterator<Item = &[u8]> {
        let last: (usize, &[u8]) = (self.bytes.len(), &[]);
        let borrowed = self.borrowed[mark.borrowed..].iter().copied().chain([last]);
        let mut from = mark.bytes;
        let pieces = borrowed.flat_map(move |(to, borrowed)| {
            let own = &self.bytes[from..to];
            from = to;
            [own, borrowed]
        });
        pieces.filter(|piece| !piece.is_empty())
    }

    /// Packs the entries of a task, on a thread that runs no tasks, which offers its core to others now and then.
    pub(super) fn add(&mut self, entries: &'a [u8]) {
        // From `plain` to `at`, all is to stay as it is.
        let (mut plain, mut at, mut step) = (0, 0, STEP);
        while at < entries.len() {
            if at >= step {
                offer_core();
                step = at + STEP;
            }
            let rest = &entries[at..];
            let Some(length) = short_length(rest) else {
                at += long_length(rest);
                continue;
            };
            let block = &rest[..count_alike(rest, length) * length];
            if let Some(mask) = Mask::if_worthwhile(block, length) {
                self.add_plain(&entries[plain..at]);
                self.add_alike(block, &mask);
                plain = at + block.len();
            }
            at += block.len();
        }
        self.add_plain(&entries[plain..]);
    }

    fn add_plain(&mut self, bytes: &'a [u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.push(PLAIN);
        self.bytes.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        match bytes.len() {
            BORROWED.. => self.borrowed.push((self.bytes.len(), bytes)),
            _ => self.bytes.extend_from_slice(bytes),
        }
    }

    fn add_alike(&mut self, block: &[u8], mask: &Mask) {
        let length = mask.length;
        let (first, others) = block.split_at(length);
        self.bytes.push(ALIKE);
        for number in [block.len() / length, length] {
            self.bytes.extend_from_slice(&(number as u16).to_le_bytes());
        }
        self.bytes.extend_from_slice(mask.bytes());
        self.bytes.extend_from_slice(first);
        let begin = self.bytes.len();
        let end = begin + others.len() / length * mask.kept();
        // The last words reach beyond that.
        self.bytes.resize(end + WORD, 0);
        copy_runs(others, mask, &mut self.bytes[begin..]);
        self.bytes.truncate(end);
    }
}

/// The length of the first entry with its frame; `None` if it has the long form of a length, or is not whole.
fn short_length(entries: &[u8]) -> Option<usize> {
    let short = *entries.get(FRAME - 1)?;
    let length = FRAME + usize::from(short);
    (short != LONG && length <= entries.len()).then_some(length)
}

/// The length of the first entry with its frame, which has the long form; or of what there is of it.
fn long_length(entries: &[u8]) -> usize {
    let length = entries.get(FRAME..).and_then(<[u8]>::first_chunk);
    let length = length.and_then(|length| usize::try_from(u64::from_le_bytes(*length)).ok());
    length.unwrap_or(usize::MAX).saturating_add(FRAME + WORD).min(entries.len())
}

/// How many of the first entries have this length, that of the first, as far as they go into a block.
fn count_alike(entries: &[u8], length: usize) -> usize {
    let short = entries[FRAME - 1];
    let most = entries.chunks_exact(length).take(MOST);
    most.take_while(|entry| entry[FRAME - 1] == short).count()
}

/// The first eight bytes of an entry from a place on; of a shorter entry, all that it has, and zeros.
#[inline]
fn word(entry: &[u8], at: usize) -> u64 {
    match entry.get(at..).and_then(<[u8]>::first_chunk) {
        Some(word) => u64::from_le_bytes(*word),
        None => short_word(entry),
    }
}

fn short_word(entry: &[u8]) -> u64 {
    match (entry.first_chunk(), entry.last_chunk()) {
        // They overlap, and are the same there.
        (Some(low), Some(high)) if entry.len() <= WORD => {
            let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
            u64::from(low) | (u64::from(high) << (8 * (entry.len() - size_of::<u32>())))
        }
        _ => entry.iter().take(WORD).rev().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte)),
    }
}

/// Where the word with the byte at a place is read, so that it ends with the entry at the latest.
fn start_of_word(at: usize, length: usize) -> usize {
    at.min(length.saturating_sub(WORD))
}

/// Which bytes of entries of one length are not the same in all of them.
struct Mask {
    length: usize,
    bits: [u8; MASK],
}

/// Such bytes that follow each other in an entry, at most as many as a word has.
#[derive(Clone, Copy)]
struct Run {
    /// Their place and number.
    at: usize,
    length: usize,
    /// The number of such bytes before them.
    to: usize,
    /// Where the word is read that has them, and by how many bits they are into it.
    from: usize,
    shift: u32,
}

impl Mask {
    /// That of entries of one length, if they take less as an alike block.
    fn if_worthwhile(block: &[u8], length: usize) -> Option<Self> {
        let count = block.len() / length;
        if count < FEWEST {
            return None;
        }
        let mask = Self::of(block, length);
        let others = (count - 1) * mask.kept();
        let packed = ALIKE_HEADER + mask.bytes().len() + length + others;
        (packed + PLAIN_HEADER + block.len() / WORTHWHILE <= block.len()).then_some(mask)
    }

    fn of(block: &[u8], length: usize) -> Self {
        let (first, others) = block.split_at(length);
        let mut mask = Self { length, bits: [0; MASK] };
        for at in (0..length).step_by(WORD) {
            let at = start_of_word(at, length);
            let first = word(first, at);
            let entries = others.chunks_exact(length);
            let differs = entries.fold(0_u64, |differs, entry| differs | (word(entry, at) ^ first));
            for (at, byte) in (at..).zip(differs.to_le_bytes()) {
                if byte != 0 {
                    mask.bits[at / 8] |= 1 << (at % 8);
                }
            }
        }
        mask
    }

    /// Reads the bytes of one; `None` if they have more bits set than there can be.
    fn read(bytes: &[u8], length: usize) -> Option<Self> {
        let mut bits = [0; MASK];
        bits.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let mask = Self { length, bits };
        (mask.kept() == mask.places().count()).then_some(mask)
    }

    fn bytes(&self) -> &[u8] {
        &self.bits[..self.length.div_ceil(8)]
    }

    /// How many bytes of each entry but the first are kept.
    fn kept(&self) -> usize {
        self.bits.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Their places.
    fn places(&self) -> impl Iterator<Item = usize> {
        (0..self.length).filter(move |&at| self.bits[at / 8] & (1 << (at % 8)) != 0)
    }

    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (to, at) in self.places().enumerate() {
            match runs.last_mut() {
                Some(run) if run.at + run.length == at && run.length < WORD => run.length += 1,
                _ => {
                    let from = start_of_word(at, self.length);
                    let shift = 8 * (at - from) as u32;
                    runs.push(Run { at, length: 1, to, from, shift });
                }
            }
        }
        runs
    }
}

/// Copies the bytes of entries that are kept. Behind them there is room for a word, which may be overwritten.
fn copy_runs(entries: &[u8], mask: &Mask, room: &mut [u8]) {
    let size = (mask.length, mask.kept());
    // Few runs are in registers then.
    match *mask.runs() {
        [] => {}
        [a] => copy(entries, size, [a], room),
        [a, b] => copy(entries, size, [a, b], room),
        [a, b, c] => copy(entries, size, [a, b, c], room),
        [a, b, c, d] => copy(entries, size, [a, b, c, d], room),
        ref runs => copy(entries, size, runs, room),
    }
}

/// Copies whole words: what is too much of one is overwritten by the next.
fn copy(entries: &[u8], (length, kept): (usize, usize), runs: impl AsRef<[Run]>, room: &mut [u8]) {
    let (runs, mut at) = (runs.as_ref(), 0);
    for entry in entries.chunks_exact(length) {
        let room = &mut room[at..at + kept + WORD];
        for run in runs {
            let bytes = word(entry, run.from) >> run.shift;
            room[run.to..run.to + WORD].copy_from_slice(&bytes.to_le_bytes());
        }
        at += kept;
    }
}

/// What was packed.
///
/// # Errors
///
/// If the bytes are not whole blocks, or what they make is too large for memory.
pub(super) fn unpack(packed: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let large = || DecodeError::invalid("of a length that memory has room for");
    let (mut length, mut rest) = (0_usize, packed);
    while let Some(block) = Block::next(&mut rest)? {
        length = length.checked_add(block.length()).ok_or_else(large)?;
    }
    let mut entries = Vec::new();
    entries.try_reserve_exact(length).map_err(|_| large())?;
    let mut rest = packed;
    while let Some(block) = Block::next(&mut rest)? {
        block.unpack(&mut entries);
    }
    Ok(entries)
}

/// A block that is read.
enum Block<'a> {
    Plain(&'a [u8]),
    Alike {
        count: usize,
        mask: Mask,
        first: &'a [u8],
        /// The bytes that are kept of the others.
        others: &'a [u8],
    },
}

impl<'a> Block<'a> {
    /// Reads the next one; `None` after the last.
    fn next(packed: &mut &'a [u8]) -> Result<Option<Self>, DecodeError> {
        if packed.is_empty() {
            return Ok(None);
        }
        let block = Self::read(packed);
        block.map(Some).ok_or_else(|| DecodeError::invalid("whole blocks of entries"))
    }

    fn read(packed: &mut &'a [u8]) -> Option<Self> {
        match take(packed, 1)? {
            [PLAIN] => {
                let length = u64::from_le_bytes(*take(packed, size_of::<u64>())?.first_chunk()?);
                take(packed, usize::try_from(length).ok()?).map(Self::Plain)
            }
            [ALIKE] => {
                let (count, length) = (take_number(packed)?, take_number(packed)?);
                if !(1..=MOST).contains(&count) || !(FRAME..=LONGEST).contains(&length) {
                    return None;
                }
                let mask = Mask::read(take(packed, length.div_ceil(8))?, length)?;
                let first = take(packed, length)?;
                let others = take(packed, (count - 1) * mask.kept())?;
                Some(Self::Alike { count, mask, first, others })
            }
            _ => None,
        }
    }

    /// The bytes that it makes.
    fn length(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Alike { count, first, .. } => count * first.len(),
        }
    }

    /// Appends what it makes.
    fn unpack(&self, entries: &mut Vec<u8>) {
        match self {
            Self::Plain(bytes) => entries.extend_from_slice(bytes),
            Self::Alike { count, mask, first, others } => {
                let (runs, mut rest) = (mask.runs(), *others);
                entries.extend_from_slice(first);
                for _ in 1..*count {
                    let begin = entries.len();
                    entries.extend_from_slice(first);
                    let entry = &mut entries[begin..];
                    for Run { at, length, .. } in &runs {
                        let (kept, others) = rest.split_at(*length);
                        entry[*at..*at + *length].copy_from_slice(kept);
                        rest = others;
                    }
                }
            }
        }
    }
}

fn take<'a>(from: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(taken)
}

fn take_number(from: &mut &[u8]) -> Option<usize> {
    let number = take(from, size_of::<u16>())?.first_chunk()?;
    Some(u16::from_le_bytes(*number).into())
}

#[cfg(test)]
mod tests;
