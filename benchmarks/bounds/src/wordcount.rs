//! Word count by hand: `[A-Za-z]+`, lower-cased.
//!
//! Threads take blocks of the file from a shared counter and read them with `pread` into a buffer
//! that stays in cache. A block is turned into a bit per byte (letter or not), the bits into the
//! positions where words begin and end, and each word of up to 16 letters into two 64-bit numbers
//! that are its key: lower-cased by one `or`, cut to length by one `and`, and never zero, since no
//! letter is. Words are looked up in batches in an open table, with the cache lines
//! prefetched. Longer words, which are rare, go through a map of the standard library.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use bench_protocol::digest::Digest;
use bench_protocol::{Answer, Request, Result};

use crate::threads::on_each;

/// Bytes a thread takes at a time; buffer and positions stay in the second-level cache.
const BLOCK: usize = 128 * 1024;
/// Bytes after the block's end that may be read by wide loads.
const PAD: usize = 64;
/// Words looked up together.
const BATCH: usize = 64;
/// The longest word that is its own key.
const SHORT: usize = 16;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let path = request.data()?;
    bench_protocol::serve(request, |stopwatch| {
        let (rows, words, bytes) = stopwatch.time(|| -> Result<_> {
            let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let bytes = file.metadata()?.len();
            let (rows, words) = count(&file, bytes, cores, BLOCK)?;
            Ok((rows, words, bytes))
        })?;
        let mut digest = Digest::default();
        rows.iter().for_each(|(word, count)| digest.add(word.as_bytes(), *count));
        Ok(Answer { digest, records: words, bytes, ..Answer::default() })
    })
}

/// Counts the words of a file: the rows, and how many words there were in all.
fn count(file: &File, bytes: u64, cores: usize, block: usize) -> Result<(Vec<(String, u64)>, u64)> {
    let next = AtomicU64::new(0);
    let counters = on_each(cores, |_| -> std::io::Result<Counter> {
        let mut counter = Counter::new();
        let mut reader = Blocks::new(block);
        loop {
            let start = next.fetch_add(block as u64, Ordering::Relaxed);
            if start >= bytes {
                counter.look_up();
                return Ok(counter);
            }
            let range = reader.read(file, start, bytes)?;
            counter.count_block(&reader.buffer, range);
        }
    });
    let mut counters = counters.into_iter();
    let mut all = counters.next().ok_or("at least one thread")??;
    for counter in counters {
        all.absorb(counter?);
    }
    Ok((all.rows(), all.words))
}

/// Reads blocks such that each word belongs to the block in which it begins.
struct Blocks {
    block: usize,
    buffer: Vec<u8>,
}

impl Blocks {
    fn new(block: usize) -> Self {
        Self { block, buffer: Vec::new() }
    }

    /// Reads the block at `start` and whatever is left of its last word. Returns where in the
    /// buffer the block's words are; the byte before and the byte after are no letters of theirs.
    fn read(
        &mut self,
        file: &File,
        start: u64,
        total: u64,
    ) -> std::io::Result<std::ops::Range<usize>> {
        // The byte before the block says whether its first letters are another block's word.
        let before = usize::from(start > 0);
        let wanted = before + self.block.min((total - start) as usize);
        self.buffer.resize(wanted + PAD, 0);
        file.read_exact_at(&mut self.buffer[..wanted], start - before as u64)?;
        let mut from = before;
        if before == 1 && self.buffer[0].is_ascii_alphabetic() {
            while from < wanted && self.buffer[from].is_ascii_alphabetic() {
                from += 1;
            }
            if from == wanted {
                // All of it belongs to a word that began before.
                return Ok(from..from);
            }
        }
        let mut to = wanted;
        let mut at = start - before as u64 + wanted as u64;
        while at < total && self.buffer[to - 1].is_ascii_alphabetic() {
            let more = PAD.min((total - at) as usize);
            self.buffer.resize(to + more + PAD, 0);
            file.read_exact_at(&mut self.buffer[to..to + more], at)?;
            let letters =
                self.buffer[to..to + more].iter().take_while(|b| b.is_ascii_alphabetic()).count();
            to += letters;
            at += letters as u64;
            if letters < more {
                break;
            }
        }
        self.buffer.truncate(to);
        self.buffer.resize(to + PAD, 0);
        Ok(from..to)
    }
}

/// A bit for each of 64 bytes: whether it is a letter.
#[inline]
fn letters(bytes: &[u8; 64]) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
    {
        use std::arch::x86_64::*;
        // SAFETY: the feature is enabled for the whole program, and 64 bytes are read of 64.
        unsafe {
            let bytes = _mm512_loadu_si512(bytes.as_ptr().cast());
            let lower = _mm512_or_si512(bytes, _mm512_set1_epi8(0x20));
            let offset = _mm512_sub_epi8(lower, _mm512_set1_epi8(b'a' as i8));
            _mm512_cmplt_epu8_mask(offset, _mm512_set1_epi8(26))
        }
    }
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2", not(target_feature = "avx512bw")))]
    {
        use std::arch::x86_64::*;
        let half = |bytes: *const u8| {
            // SAFETY: the feature is enabled for the whole program, and both calls stay within the
            // 64 bytes.
            unsafe {
                let bytes = _mm256_loadu_si256(bytes.cast());
                let lower = _mm256_or_si256(bytes, _mm256_set1_epi8(0x20));
                let offset = _mm256_sub_epi8(lower, _mm256_set1_epi8(b'a' as i8));
                let within = _mm256_min_epu8(offset, _mm256_set1_epi8(25));
                _mm256_movemask_epi8(_mm256_cmpeq_epi8(offset, within)) as u32
            }
        };
        let bytes = bytes.as_ptr();
        // SAFETY: the upper half of 64 bytes begins at 32.
        u64::from(half(bytes)) | u64::from(half(unsafe { bytes.add(32) })) << 32
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
    {
        let mut bits = 0;
        for (index, byte) in bytes.iter().enumerate() {
            bits |= u64::from((byte | 0x20).wrapping_sub(b'a') < 26) << index;
        }
        bits
    }
}

/// A word's key: its letters, lower-cased, filled up with zeros.
type Key = (u64, u64);

#[inline]
fn hash((low, high): Key) -> u64 {
    let product =
        u128::from(low ^ 0x9e37_79b9_7f4a_7c15) * u128::from(high ^ 0xd1b5_4a32_d192_ed03);
    (product >> 64) as u64 ^ product as u64
}

/// The masks that cut sixteen bytes to a length.
const CUTS: [Key; SHORT + 1] = {
    let mut cuts = [(0, 0); SHORT + 1];
    let mut length = 0;
    while length <= SHORT {
        let bits = length * 8;
        cuts[length] = match bits {
            0..64 => ((1 << bits) - 1, 0),
            64..128 => (u64::MAX, (1 << (bits - 64)) - 1),
            _ => (u64::MAX, u64::MAX),
        };
        length += 1;
    }
    cuts
};

#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
struct Slot {
    key: Key,
    /// Zero in a free slot.
    count: u64,
}

/// One thread's counts.
struct Counter {
    slots: Vec<Slot>,
    used: usize,
    long: HashMap<Vec<u8>, u64>,
    words: u64,
    /// Words that wait to be looked up, with their hashes.
    batch: [(Key, u64); BATCH],
    waiting: usize,
    /// Where words begin and end in the block, in turn.
    edges: Vec<u32>,
}

impl Counter {
    fn new() -> Self {
        Self {
            slots: vec![Slot::default(); 1 << 14],
            used: 0,
            long: HashMap::new(),
            words: 0,
            batch: [((0, 0), 0); BATCH],
            waiting: 0,
            edges: Vec::new(),
        }
    }

    /// Counts the words of `range`, of which the byte before and the byte after are no letters.
    fn count_block(&mut self, buffer: &[u8], range: std::ops::Range<usize>) {
        let mut edges = std::mem::take(&mut self.edges);
        find_edges(&buffer[range.start..], range.len(), &mut edges);
        self.words += edges.len() as u64 / 2;
        for pair in edges.as_chunks::<2>().0 {
            let (start, end) = (range.start + pair[0] as usize, range.start + pair[1] as usize);
            let length = end - start;
            if length <= SHORT {
                debug_assert!(start + SHORT <= buffer.len());
                // SAFETY: a word begins before the block's end, and PAD bytes follow that.
                let letters = unsafe { buffer.as_ptr().add(start).cast::<[u8; SHORT]>().read() };
                let letters = u128::from_le_bytes(letters);
                const LOWER: u64 = 0x2020_2020_2020_2020;
                let (low, high) = CUTS[length];
                let key = ((letters as u64 | LOWER) & low, ((letters >> 64) as u64 | LOWER) & high);
                self.push(key);
            } else {
                self.add_long(&buffer[start..end]);
            }
        }
        self.edges = edges;
    }

    #[inline]
    fn push(&mut self, key: Key) {
        let hash = hash(key);
        self.batch[self.waiting] = (key, hash);
        self.waiting += 1;
        prefetch(&self.slots[hash as usize & (self.slots.len() - 1)]);
        if self.waiting == BATCH {
            self.look_up();
        }
    }

    fn look_up(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for index in 0..waiting {
            let (key, hash) = self.batch[index];
            self.add(key, hash, 1);
        }
    }

    #[inline]
    fn add(&mut self, key: Key, hash: u64, count: u64) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.key == key {
                slot.count += count;
                return;
            }
            if slot.count == 0 {
                *slot = Slot { key, count };
                self.used += 1;
                if self.used * 2 > self.slots.len() {
                    self.grow();
                }
                return;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Slot::default(); self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, larger);
        self.used = 0;
        for slot in old.into_iter().filter(|slot| slot.count > 0) {
            self.add(slot.key, hash(slot.key), slot.count);
        }
    }

    #[cold]
    fn add_long(&mut self, word: &[u8]) {
        let mut lower = [0; 64];
        match lower.get_mut(..word.len()) {
            Some(lower) => {
                lower.copy_from_slice(word);
                lower.make_ascii_lowercase();
                match self.long.get_mut(&*lower) {
                    Some(count) => *count += 1,
                    None => drop(self.long.insert(lower.to_vec(), 1)),
                }
            }
            None => *self.long.entry(word.to_ascii_lowercase()).or_default() += 1,
        }
    }

    fn absorb(&mut self, other: Self) {
        self.words += other.words;
        for slot in other.slots.iter().filter(|slot| slot.count > 0) {
            self.add(slot.key, hash(slot.key), slot.count);
        }
        for (word, count) in other.long {
            *self.long.entry(word).or_default() += count;
        }
    }

    fn rows(&mut self) -> Vec<(String, u64)> {
        let mut rows = Vec::with_capacity(self.used + self.long.len());
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            let bytes = (u128::from(slot.key.1) << 64 | u128::from(slot.key.0)).to_le_bytes();
            let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(SHORT);
            rows.push((String::from_utf8_lossy(&bytes[..length]).into_owned(), slot.count));
        }
        for (word, count) in self.long.drain() {
            rows.push((String::from_utf8_lossy(&word).into_owned(), count));
        }
        rows
    }
}

/// Writes where words begin and end in the first `length` bytes, in turn. The bytes after `length`
/// (at least 64 of them) count as no letters.
fn find_edges(bytes: &[u8], length: usize, edges: &mut Vec<u32>) {
    edges.clear();
    // No more edges than bytes, one for a word that the end cuts, and room for the eight that are
    // written at a time.
    edges.reserve(length + 1 + 8 + 64);
    let out = edges.as_mut_ptr();
    let mut count = 0;
    let mut carry = 0;
    let mut base = 0;
    loop {
        let mut bits = if base < length {
            letters(bytes[base..].first_chunk().expect("64 bytes after the end"))
        } else {
            0
        };
        let rest = length.saturating_sub(base);
        if rest < 64 {
            bits &= (1u64 << rest) - 1;
        }
        // A bit wherever a letter follows no letter, or the other way round.
        let mut changes = bits ^ (bits << 1 | carry);
        carry = bits >> 63;
        let found = changes.count_ones() as usize;
        let mut written = 0;
        while written < found {
            // Eight at a time without asking: what is too much is overwritten.
            for _ in 0..8 {
                // SAFETY: `count + found` edges are at most `length + 1`, and up to seven
                // more are written, for which there is room.
                unsafe { out.add(count + written).write(base as u32 + changes.trailing_zeros()) };
                changes &= changes.wrapping_sub(1);
                written += 1;
            }
        }
        count += found;
        base += 64;
        if base > length {
            break;
        }
    }
    // SAFETY: the first `count` were written.
    unsafe { edges.set_len(count) };
}

/// Asks for a cache line in advance.
#[inline]
fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect on the program's state.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write;

    use super::*;

    /// The obvious word count.
    fn oracle(text: &[u8]) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for word in text.split(|b| !b.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
            let word = String::from_utf8(word.to_ascii_lowercase()).unwrap();
            *counts.entry(word).or_default() += 1;
        }
        counts
    }

    fn check(name: &str, text: &[u8]) {
        let path = std::env::temp_dir().join(format!("wordcount-{name}-{}", std::process::id()));
        File::create(&path).unwrap().write_all(text).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let expected = oracle(text);
        for block in [1, 3, 64, 100, BLOCK] {
            for cores in 1..4 {
                let (rows, words) = count(&file, text.len() as u64, cores, block).unwrap();
                assert_eq!(rows.len(), expected.len());
                assert_eq!(rows.into_iter().collect::<BTreeMap<_, _>>(), expected);
                assert_eq!(words, expected.values().sum::<u64>());
            }
        }
    }

    #[test]
    fn equals_the_obvious_one() {
        check("empty", b"");
        check("none", b"12 34 \xe2\x80\x94\n");
        check("one", b"Word");
        let long = "x".repeat(300) + " " + &"Y".repeat(17) + " sixteenletterswo";
        check("long", long.as_bytes());
        let mut state = 1u64;
        let text: Vec<u8> = (0..20_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b"abcABCxyzZ@[`{ \n,.\xc3\xa9"[(state >> 33) as usize % 20]
            })
            .collect();
        check("random", &text);
    }
}
