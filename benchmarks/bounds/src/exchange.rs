//! Exchange by hand: every thread makes records, sorts them into a buffer per receiver, and hands
//! full buffers over through a bounded queue. Each thread is also a receiver: it takes in what has
//! arrived whenever it has to wait for an empty buffer. Empty buffers go back where they came from.
//!
//! A pair of threads shares two queues, `full` and `empty`, each of [`DEPTH`] buffers, and
//! [`DEPTH`] buffers in all: a push therefore always succeeds, and a sender without an empty
//! buffer waits for its receiver. No cycle of waiting can arise because a waiting thread receives.
//! Large records for the thread itself are taken in on the spot; small ones go through a buffer like
//! all others, since a branch that cannot be predicted would cost more than their copy. Small ones are made and sorted
//! many at a time, with vector instructions where the processor can compress a vector.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use bench_protocol::workload::{NumberCheck, Record, RecordCheck, number, record};
use bench_protocol::{Answer, Part, Request, Result, Stopwatch, serve_parts};
use crossbeam_queue::ArrayQueue;

use crate::hosts::Connections;
use crate::threads::{on_each, part};

/// Buffers between one sender and one receiver.
const DEPTH: usize = 8;
/// Places for numbers in a buffer: 8 KB.
const NUMBERS: usize = 1024;
/// Numbers that are made and sorted together.
const BLOCK: usize = 64;
/// Numbers in a vector, which is written whole.
const LANES: usize = 8;
/// Bytes in a buffer of encoded records.
const BYTES: usize = 32 * 1024;

pub(crate) fn serve_numbers(request: &Request) -> Result<()> {
    let records: u64 = request.value("records")?;
    serve::<Numbers>(request, records, |all| Answer {
        digest: all.digest(),
        records,
        bytes: records * 8,
        ..Answer::default()
    })
}

pub(crate) fn serve_records(request: &Request) -> Result<()> {
    let records: u64 = request.value("records")?;
    serve::<Records>(request, records, |all| Answer {
        digest: all.digest(),
        records,
        bytes: all.bytes(),
        ..Answer::default()
    })
}

/// On the threads of one process, or on one thread of each host.
fn serve<K: Kind>(
    request: &Request,
    records: u64,
    answer: impl Fn(K::Check) -> Answer,
) -> Result<()> {
    let all = |checks: Vec<K::Check>| {
        let mut all = K::Check::default();
        checks.into_iter().for_each(|part| all.merge(part));
        all
    };
    if request.hosts()? == 1 {
        let cores = request.cores()?;
        let round =
            |stopwatch: &mut Stopwatch| Ok(all(stopwatch.time(|| exchange::<K>(records, cores))));
        return serve_parts(request, round, answer);
    }
    let mut connections = Connections::of(request)?;
    let round =
        |stopwatch: &mut Stopwatch| Ok(all(stopwatch.time(|| connections.exchange::<K>(records))?));
    serve_parts(request, round, answer)
}

/// What is exchanged, how it lies in a buffer, and what its receiver keeps of it.
pub(crate) trait Kind {
    type Buffer: Send;
    type Check: Part + Default + Send;

    fn buffer() -> Self::Buffer;
    /// Makes records of these numbers and puts each into the buffer of its receiver, until the next one may not fit or
    /// none is left: answers whose buffer is full. The thread's `own` records may be taken in at once.
    fn make(
        numbers: &mut Range<u64>,
        buffers: &mut [Self::Buffer],
        own: usize,
        check: &mut Self::Check,
    ) -> Option<usize>;
    /// Takes in a buffer's records and leaves it empty.
    fn take_all(check: &mut Self::Check, buffer: &mut Self::Buffer);
    /// Appends a buffer's records as bytes, and leaves it empty.
    fn encode(buffer: &mut Self::Buffer, out: &mut Vec<u8>);
    /// Takes in records from bytes.
    fn take_encoded(check: &mut Self::Check, bytes: &[u8]) -> Result<()>;
}

/// The receiver of a record: the low half of its number, scaled to the number of receivers without a division.
#[inline(always)]
fn receiver(number: u64, receivers: usize) -> usize {
    (((number & 0xffff_ffff) * receivers as u64) >> 32) as usize
}

struct Numbers;

struct NumberBuffer {
    numbers: Box<[u64; NUMBERS]>,
    len: usize,
}

impl Kind for Numbers {
    type Buffer = NumberBuffer;
    type Check = NumberCheck;

    fn buffer() -> NumberBuffer {
        NumberBuffer { numbers: Box::new([0; NUMBERS]), len: 0 }
    }

    #[inline]
    fn make(
        numbers: &mut Range<u64>,
        buffers: &mut [NumberBuffer],
        _: usize,
        _: &mut NumberCheck,
    ) -> Option<usize> {
        loop {
            let full = buffers.iter().position(|buffer| buffer.len + BLOCK + LANES > NUMBERS);
            if full.is_some() || numbers.is_empty() {
                return full;
            }
            let start = numbers.start;
            if numbers.end - start >= BLOCK as u64 {
                scatter(&std::array::from_fn(|at| number(start + at as u64)), buffers);
                numbers.start += BLOCK as u64;
            } else {
                numbers.by_ref().for_each(|i| put(number(i), buffers));
            }
        }
    }

    #[inline]
    fn take_all(check: &mut NumberCheck, buffer: &mut NumberBuffer) {
        buffer.numbers[..buffer.len].iter().for_each(|number| check.add(*number));
        buffer.len = 0;
    }

    fn encode(buffer: &mut NumberBuffer, out: &mut Vec<u8>) {
        // SAFETY: numbers have no padding, and any bytes are bytes. Both hosts are on this machine.
        let bytes = unsafe { buffer.numbers[..buffer.len].align_to::<u8>().1 };
        out.extend_from_slice(bytes);
        buffer.len = 0;
    }

    fn take_encoded(check: &mut NumberCheck, bytes: &[u8]) -> Result<()> {
        bytes.as_chunks().0.iter().for_each(|number| check.add(u64::from_ne_bytes(*number)));
        Ok(())
    }
}

/// Puts a number into the buffer of its receiver, which has a place for it.
#[inline(always)]
fn put(number: u64, buffers: &mut [NumberBuffer]) {
    let buffer = &mut buffers[receiver(number, buffers.len())];
    buffer.numbers[buffer.len % NUMBERS] = number;
    buffer.len += 1;
}

/// Puts numbers into the buffers of their receivers, which have places for all of them and a vector.
#[inline]
fn scatter(block: &[u64; BLOCK], buffers: &mut [NumberBuffer]) {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    if buffers.len() <= LANES {
        return compress(block, buffers);
    }
    block.iter().for_each(|number| put(*number, buffers));
}

/// The same for few receivers: of each vector, what goes to each is moved to its front and written.
#[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
#[inline]
fn compress(block: &[u64; BLOCK], buffers: &mut [NumberBuffer]) {
    use std::arch::x86_64::*;
    let count = buffers.len() as i64;
    for numbers in block.as_chunks::<LANES>().0 {
        // SAFETY: the feature is enabled for the whole program, and a vector is read of as many numbers.
        let (numbers, receivers) = unsafe {
            let numbers = _mm512_loadu_si512(numbers.as_ptr().cast());
            // The product of the low halves, as in `receiver`.
            let scaled = _mm512_mul_epu32(numbers, _mm512_set1_epi64(count));
            (numbers, _mm512_srli_epi64::<32>(scaled))
        };
        for (to, buffer) in (0..).zip(buffers.iter_mut()) {
            let places = &mut buffer.numbers[buffer.len..][..LANES];
            // SAFETY: as above, and a vector is written to as many places.
            buffer.len += unsafe {
                let mine = _mm512_cmpeq_epi64_mask(receivers, _mm512_set1_epi64(to));
                let front = _mm512_maskz_compress_epi64(mine, numbers);
                _mm512_storeu_si512(places.as_mut_ptr().cast(), front);
                mine.count_ones() as usize
            };
        }
    }
}

/// The strings of records, one after the other, and how long they are.
struct RecordBuffer {
    /// Each string is shorter than 128 bytes.
    heads: Vec<(u64, [u8; 3])>,
    texts: String,
}

struct Records;

impl Kind for Records {
    type Buffer = RecordBuffer;
    type Check = RecordCheck;

    fn buffer() -> RecordBuffer {
        RecordBuffer { heads: Vec::with_capacity(BYTES / 64), texts: String::with_capacity(BYTES) }
    }

    #[inline]
    fn make(
        numbers: &mut Range<u64>,
        buffers: &mut [RecordBuffer],
        own: usize,
        check: &mut RecordCheck,
    ) -> Option<usize> {
        for i in numbers {
            let record @ Record { id, name, url, body } = record(i);
            let to = receiver(id, buffers.len());
            if to == own {
                check.add(record);
                continue;
            }
            let buffer = &mut buffers[to];
            let texts = [name, url, body];
            buffer.heads.push((id, texts.map(|text| text.len() as u8)));
            texts.iter().for_each(|text| buffer.texts.push_str(text));
            if buffer.texts.len() > BYTES - 256 {
                return Some(to);
            }
        }
        None
    }

    #[inline]
    fn take_all(check: &mut RecordCheck, buffer: &mut RecordBuffer) {
        let mut rest = buffer.texts.as_str();
        for (id, lengths) in buffer.heads.drain(..) {
            let mut text = |length: u8| {
                let (text, after) = rest.split_at(usize::from(length));
                rest = after;
                text
            };
            let [name, url, body] = lengths.map(&mut text);
            check.add(Record { id, name, url, body });
        }
        buffer.texts.clear();
    }

    /// The numbers of records and of the bytes of their strings, then as in the buffer.
    fn encode(buffer: &mut RecordBuffer, out: &mut Vec<u8>) {
        let sizes = [buffer.heads.len(), buffer.texts.len()];
        sizes.iter().for_each(|size| out.extend_from_slice(&(*size as u32).to_le_bytes()));
        for (id, lengths) in buffer.heads.drain(..) {
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&lengths);
        }
        out.extend_from_slice(buffer.texts.as_bytes());
        buffer.texts.clear();
    }

    fn take_encoded(check: &mut RecordCheck, mut bytes: &[u8]) -> Result<()> {
        const TORN: &str = "a piece is torn";
        while let Some((sizes, rest)) = bytes.split_first_chunk::<8>() {
            let [heads, texts] = [&sizes[..4], &sizes[4..]]
                .map(|size| size.iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte)));
            let (heads, rest) = rest.split_at_checked(heads * 11).ok_or(TORN)?;
            let (texts, rest) = rest.split_at_checked(texts).ok_or(TORN)?;
            bytes = rest;
            let mut texts = std::str::from_utf8(texts)?;
            for &[a, b, c, d, e, f, g, h, name, url, body] in heads.as_chunks().0 {
                let mut text = |length: u8| {
                    let (text, after) = texts.split_at_checked(usize::from(length))?;
                    texts = after;
                    Some(text)
                };
                let all = (text(name), text(url), text(body));
                let (Some(name), Some(url), Some(body)) = all else { return Err(TORN.into()) };
                let id = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                check.add(Record { id, name, url, body });
            }
        }
        Ok(())
    }
}

/// The queues from one sender to one receiver.
struct Channel<B> {
    full: ArrayQueue<B>,
    empty: ArrayQueue<B>,
}

fn exchange<K: Kind>(records: u64, cores: usize) -> Vec<K::Check> {
    let channel = || {
        let channel = Channel { full: ArrayQueue::new(DEPTH), empty: ArrayQueue::new(DEPTH) };
        // One more buffer is in the sender's hand.
        for _ in 0..DEPTH - 1 {
            assert!(channel.empty.push(K::buffer()).is_ok());
        }
        channel
    };
    // channels[sender][receiver]
    let channels: Vec<Vec<Channel<K::Buffer>>> =
        (0..cores).map(|_| (0..cores).map(|_| channel()).collect()).collect();
    let senders = AtomicUsize::new(cores);

    on_each(cores, |own| {
        let mut check = K::Check::default();
        let receive = |check: &mut K::Check| {
            let mut any = false;
            for channel in channels.iter().map(|to| &to[own]) {
                while let Some(mut buffer) = channel.full.pop() {
                    K::take_all(check, &mut buffer);
                    assert!(channel.empty.push(buffer).is_ok(), "as many places as buffers");
                    any = true;
                }
            }
            any
        };
        let mut hands: Vec<K::Buffer> = (0..cores).map(|_| K::buffer()).collect();
        let mut numbers = part(records, own, cores);
        while let Some(to) = K::make(&mut numbers, &mut hands, own, &mut check) {
            if to == own {
                K::take_all(&mut check, &mut hands[own]);
                continue;
            }
            let channel = &channels[own][to];
            let mut spins = 0;
            let empty = loop {
                if let Some(empty) = channel.empty.pop() {
                    break empty;
                }
                if !receive(&mut check) {
                    wait(&mut spins);
                }
            };
            let full = std::mem::replace(&mut hands[to], empty);
            assert!(channel.full.push(full).is_ok(), "as many places as buffers");
        }
        for (to, hand) in hands.into_iter().enumerate() {
            assert!(channels[own][to].full.push(hand).is_ok(), "as many places as buffers");
        }
        senders.fetch_sub(1, Ordering::Release);
        let mut spins = 0;
        loop {
            // A thread that sees that all senders are done sees all they have sent.
            let done = senders.load(Ordering::Acquire) == 0;
            if !receive(&mut check) {
                if done {
                    return check;
                }
                wait(&mut spins);
            }
        }
    })
}

/// Waits a little: spinning first, then giving the core away.
fn wait(spins: &mut u32) {
    *spins += 1;
    if spins.is_multiple_of(64) { std::thread::yield_now() } else { std::hint::spin_loop() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_arrives_once() {
        for cores in 1..4 {
            let mut expected = NumberCheck::default();
            (0..100_000).for_each(|i| expected.add(number(i)));
            let mut found = NumberCheck::default();
            exchange::<Numbers>(100_000, cores).into_iter().for_each(|part| found.merge(part));
            assert_eq!(found, expected);

            let mut expected = RecordCheck::default();
            (0..10_000).for_each(|i| expected.add(record(i)));
            let mut found = RecordCheck::default();
            exchange::<Records>(10_000, cores).into_iter().for_each(|part| found.merge(part));
            assert_eq!(found, expected);
        }
    }
}
