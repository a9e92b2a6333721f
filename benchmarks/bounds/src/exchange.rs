//! Exchange by hand: every thread makes records, sorts them into a buffer per receiver, and hands
//! full buffers over through a bounded queue. Each thread is also a receiver: it takes in what has
//! arrived whenever it has to wait for an empty buffer. Empty buffers go back where they came from.
//!
//! A pair of threads shares two queues, `full` and `empty`, each of [`DEPTH`] buffers, and
//! [`DEPTH`] buffers in all: a push therefore always succeeds, and a sender without an empty
//! buffer waits for its receiver. No cycle of waiting can arise because a waiting thread receives.
//! Large records for the thread itself are taken in on the spot; small ones go through a buffer like
//! all others, since a branch that cannot be predicted would cost more than their copy.

use std::sync::atomic::{AtomicUsize, Ordering};

use bench_protocol::workload::{NumberCheck, Record, RecordCheck, number, record};
use bench_protocol::{Answer, Request, Result};
use crossbeam_queue::ArrayQueue;

use crate::threads::{on_each, part};

/// Buffers between one sender and one receiver.
const DEPTH: usize = 8;
/// Numbers in a buffer: 8 KB.
const NUMBERS: usize = 1024;
/// Bytes in a buffer of encoded records.
const BYTES: usize = 32 * 1024;

pub(crate) fn serve_numbers(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let records: u64 = request.value("records")?;
    bench_protocol::serve(request, |stopwatch| {
        let check = stopwatch.time(|| exchange::<Numbers>(records, cores));
        let mut all = NumberCheck::default();
        check.into_iter().for_each(|part| all.merge(part));
        Ok(Answer { digest: all.digest(), records, bytes: records * 8, ..Answer::default() })
    })
}

pub(crate) fn serve_records(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let records: u64 = request.value("records")?;
    bench_protocol::serve(request, |stopwatch| {
        let check = stopwatch.time(|| exchange::<Records>(records, cores));
        let mut all = RecordCheck::default();
        check.into_iter().for_each(|part| all.merge(part));
        Ok(Answer { digest: all.digest(), records, bytes: all.bytes(), ..Answer::default() })
    })
}

/// What is exchanged, how it lies in a buffer, and what its receiver keeps of it.
trait Kind {
    type Buffer: Send;
    type Check: Default + Send;

    /// Whether records for the thread itself pass by the buffers.
    const ON_THE_SPOT: bool;

    fn buffer() -> Self::Buffer;
    /// Makes the `i`-th record, tells its receiver by a number.
    fn make(i: u64) -> (u64, Self::Made);
    type Made;
    /// Puts a record into a buffer; `true` when the next one may not fit.
    fn put(buffer: &mut Self::Buffer, record: Self::Made) -> bool;
    fn take_one(check: &mut Self::Check, record: Self::Made);
    /// Takes in a buffer's records and leaves it empty.
    fn take_all(check: &mut Self::Check, buffer: &mut Self::Buffer);
}

struct Numbers;

impl Kind for Numbers {
    type Buffer = Vec<u64>;
    type Check = NumberCheck;
    type Made = u64;
    const ON_THE_SPOT: bool = false;

    fn buffer() -> Vec<u64> {
        Vec::with_capacity(NUMBERS)
    }

    #[inline]
    fn make(i: u64) -> (u64, u64) {
        let number = number(i);
        (number, number)
    }

    #[inline]
    fn put(buffer: &mut Vec<u64>, number: u64) -> bool {
        buffer.push(number);
        buffer.len() == NUMBERS
    }

    #[inline]
    fn take_one(check: &mut NumberCheck, number: u64) {
        check.add(number);
    }

    #[inline]
    fn take_all(check: &mut NumberCheck, buffer: &mut Vec<u64>) {
        buffer.iter().for_each(|number| check.add(*number));
        buffer.clear();
    }
}

/// A record is its id, the three lengths as bytes, and the strings' bytes.
struct Records;

impl Kind for Records {
    type Buffer = Vec<u8>;
    type Check = RecordCheck;
    type Made = Record<'static>;
    const ON_THE_SPOT: bool = true;

    fn buffer() -> Vec<u8> {
        Vec::with_capacity(BYTES)
    }

    #[inline]
    fn make(i: u64) -> (u64, Record<'static>) {
        let record = record(i);
        (record.id, record)
    }

    #[inline]
    fn put(buffer: &mut Vec<u8>, record: Record<'static>) -> bool {
        buffer.extend_from_slice(&record.id.to_le_bytes());
        let texts = [record.name, record.url, record.body];
        // Each string is shorter than 128 bytes.
        buffer.extend_from_slice(&texts.map(|text| text.len() as u8));
        texts.iter().for_each(|text| buffer.extend_from_slice(text.as_bytes()));
        buffer.len() > BYTES - 256
    }

    #[inline]
    fn take_one(check: &mut RecordCheck, record: Record<'static>) {
        check.add(record);
    }

    #[inline]
    fn take_all(check: &mut RecordCheck, buffer: &mut Vec<u8>) {
        let mut rest = &buffer[..];
        while let Some((id, after)) = rest.split_first_chunk::<8>() {
            let (lengths, mut after) = after.split_first_chunk::<3>().expect("whole records");
            let mut text = |length: u8| {
                let (text, rest) = after.split_at(usize::from(length));
                after = rest;
                std::str::from_utf8(text).expect("strings as they were sent")
            };
            let [name, url, body] = lengths.map(&mut text);
            check.add(Record { id: u64::from_le_bytes(*id), name, url, body });
            rest = after;
        }
        buffer.clear();
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
        for i in part(records, own, cores) {
            let (route, record) = K::make(i);
            // The low half of the route, scaled to the number of receivers without a division.
            let to = (((route & 0xffff_ffff) * cores as u64) >> 32) as usize;
            if K::ON_THE_SPOT && to == own {
                K::take_one(&mut check, record);
            } else if K::put(&mut hands[to], record) {
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
