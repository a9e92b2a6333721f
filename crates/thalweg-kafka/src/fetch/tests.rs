//! Queues between what fetches and what reads, without either; and what settings and codes mean.

use super::queue::{Queue, Taken, Trouble, Wants};
use super::{
    Assigned, BELIEVED_AFTER, KEPT, Plan, Verdict, WAIT, WITHOUT_MEANING, settle, verdict,
};
use crate::ahead::Room;
use crate::client::Options;
use crate::ends::End;
use crate::partition::Partition;
use crate::protocol::answer::Answered;
use crate::protocol::batches::{Batches, Wrong};
use crate::protocol::{FoundTopic, Leader};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The length of a batch without records.
const BATCH: usize = 61;

/// Batches of one offset each, without records.
fn batches(first: i64, count: i64) -> Vec<u8> {
    let batch = |offset: i64| {
        let mut batch = vec![0; BATCH];
        batch[..8].copy_from_slice(&offset.to_be_bytes());
        batch[8..12].copy_from_slice(&(BATCH as i32 - 12).to_be_bytes());
        batch[12..16].copy_from_slice(&3i32.to_be_bytes());
        batch[16] = 2;
        let sum = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&sum.to_be_bytes());
        batch
    };
    (first..first + count).flat_map(batch).collect()
}

/// A queue from offset 5 on, with room for four batches of which two come at a time, and how often its reader was waked.
fn queue() -> (Queue, Arc<AtomicUsize>) {
    let waked = Arc::<AtomicUsize>::default();
    let wakes = Arc::clone(&waked);
    let room = Room { queue: 4 * BATCH, fetch: 2 * BATCH };
    let wake = move || _ = wakes.fetch_add(1, Ordering::Relaxed);
    (Queue::new(5, room, End::default(), wake), waked)
}

fn put(queue: &Queue, from: i64, count: i64) {
    let bytes = batches(from, count);
    let answered = Answered { end: 100, length: bytes.len(), ..Answered::default() };
    queue.put(from, answered, bytes);
}

fn wants(from: i64, epoch: i32, is_first: bool) -> Wants {
    Wants::Records { from, epoch, is_first }
}

/// Reads what there is; returns the offset behind it, and whether the thread that fetches waits for the room.
fn read(queue: &Queue, batches: &mut Batches) -> (i64, bool) {
    let (taken, is_waited_for) = queue.take(batches);
    assert_eq!(taken, Taken::Records);
    let mut next = 0;
    assert_eq!(batches.open(&mut next), Ok(false));
    (next, is_waited_for)
}

#[test]
fn records_are_asked_for_while_there_is_room() {
    let (queue, waked) = queue();
    let mut batches = Batches::default();
    assert_eq!(queue.take(&mut batches), (Taken::Nothing, false));
    assert_eq!(queue.wanted(), wants(5, -1, true));
    put(&queue, 5, 2);
    // The epoch is that of the last batch.
    assert_eq!(queue.wanted(), wants(7, 3, false));
    put(&queue, 7, 2);
    assert_eq!(waked.load(Ordering::Relaxed), 2);
    assert_eq!(queue.wanted(), Wants::Room);
    // What is being read takes room until the next is taken.
    assert_eq!(read(&queue, &mut batches), (7, false));
    assert_eq!(queue.wanted(), Wants::Room);
    assert_eq!(read(&queue, &mut batches), (9, true));
    assert_eq!(queue.wanted(), wants(9, 3, false));
    assert_eq!(queue.take(&mut batches), (Taken::Nothing, false));
    // Memory is used again: two buffers, and no more.
    assert_eq!([(); 3].map(|()| queue.buffer().len()), [2 * BATCH, 2 * BATCH, 0]);
}

#[test]
fn a_batch_that_is_larger_than_all_room_is_read() {
    let (queue, _) = queue();
    let mut batches = Batches::default();
    put(&queue, 5, 20);
    assert_eq!(queue.wanted(), Wants::Room);
    assert_eq!(read(&queue, &mut batches), (25, false));
    assert_eq!(queue.take(&mut batches), (Taken::Nothing, true));
    assert_eq!(queue.wanted(), wants(25, 3, false));
    // Its memory is not kept.
    assert_eq!(queue.buffer().capacity(), 0);
}

#[test]
fn answers_without_whole_batches_are_asked_for_again() {
    let (queue, waked) = queue();
    for length in [0, 30, BATCH - 1] {
        let bytes = batches(5, 1);
        queue.put(5, Answered { length, ..Answered::default() }, bytes);
    }
    assert_eq!(queue.wanted(), wants(5, -1, false));
    assert_eq!(waked.load(Ordering::Relaxed), 0);
    // A log that goes on with another epoch, and has the record before: brokers may have lost what they knew of epochs.
    put(&queue, 5, 1);
    queue.put(6, Answered { diverges_at: Some(6), ..Answered::default() }, Vec::new());
    assert_eq!(queue.wanted(), wants(6, -1, false));
    read(&queue, &mut Batches::default());
    // Of another request.
    put(&queue, 7, 1);
    assert_eq!(queue.take(&mut Batches::default()), (Taken::Nothing, false));
}

#[test]
fn trouble_comes_behind_the_records_before_it() {
    for (trouble, is_over) in [
        (Trouble::Unknown, false),
        (Trouble::OutOfRange, true),
        (Trouble::Denied, true),
        (Trouble::Diverged(3), true),
        (Trouble::Wrong(Wrong::Torn), true),
        (Trouble::Code(2), true),
        (Trouble::Replica(4), true),
    ] {
        let (queue, waked) = queue();
        put(&queue, 5, 1);
        // The first request with an epoch that has no answer is repeated without.
        queue.out_of_range(3);
        assert_eq!((queue.wanted(), waked.load(Ordering::Relaxed)), (wants(6, -1, false), 1));
        match trouble {
            Trouble::Diverged(_) => {
                let answered = Answered { diverges_at: Some(3), ..Answered::default() };
                queue.put(6, answered, Vec::new());
            }
            Trouble::Wrong(_) => {
                let answered = Answered { length: BATCH, ..Answered::default() };
                let mut torn = batches(6, 1);
                torn[16] = 9;
                queue.put(6, answered, torn);
            }
            Trouble::OutOfRange => queue.out_of_range(-1),
            other => queue.fail(other),
        }
        assert_eq!(waked.load(Ordering::Relaxed), 2);
        let mut batches = Batches::default();
        assert_eq!(read(&queue, &mut batches), (6, false));
        assert_eq!(queue.take(&mut batches), (Taken::Trouble(trouble), false));
        assert_eq!(queue.take(&mut batches), (Taken::Nothing, false), "it is said once");
        let expected = if is_over { Wants::Nothing } else { wants(6, -1, false) };
        assert_eq!(queue.wanted(), expected);
        // What is final stays.
        queue.fail(Trouble::Unknown);
        assert_eq!(queue.wanted(), expected);
    }
}

fn plan(set: &[(&str, &str)]) -> thalweg::Result<Plan> {
    let mut options = Options::default();
    set.iter().for_each(|(name, value)| options.set((*name).to_owned(), (*value).to_owned()));
    Plan::new(&options.over("localhost:9092", &[], &[]).unwrap(), &options, None)
}

#[test]
fn settings_are_kept_to_or_librdkafka_fetches() {
    for name in KEPT.iter().chain(&WITHOUT_MEANING) {
        plan(&[(*name, "1")]).unwrap();
    }
    for name in ["client.rack", "socket.keepalive.enable", "fetch.no.such", "check.crcs"] {
        let error = plan(&[(name, "1")]).err().expect("it is not known");
        assert!(error.message().contains(name), "{error}");
    }
    let kerberos = [("security.protocol", "sasl_plaintext"), ("sasl.mechanism", "GSSAPI")];
    let error = plan(&kerberos).err().expect("it is not known");
    assert!(error.message().contains("by librdkafka alone"), "{error}");
    let limits = plan(&[]).unwrap().limits;
    assert_eq!((limits.wait, limits.least, limits.are_committed), (WAIT, 1, true));
    let limits = [
        ("fetch.wait.max.ms", "300000"),
        ("fetch.min.bytes", "7"),
        ("isolation.level", "READ_UNCOMMITTED"),
    ];
    let limits = plan(&limits).unwrap().limits;
    let wait = Duration::from_secs(5);
    assert_eq!((limits.wait, limits.least, limits.are_committed), (wait, 7, false));
}

#[test]
fn codes_end_by_themselves_or_end_the_job() {
    for code in [-1, 5, 6, 9, 56, 74, 75, 78, 103] {
        assert!(matches!(verdict(code), Verdict::FindLeader(None)), "{code}");
    }
    for code in [3, 100] {
        assert!(matches!(verdict(code), Verdict::FindLeader(Some(Trouble::Unknown))), "{code}");
    }
    assert!(matches!(verdict(0), Verdict::Answered));
    assert!(matches!(verdict(1), Verdict::Over(Trouble::OutOfRange)));
    assert!(matches!(verdict(29), Verdict::Over(Trouble::Denied)));
    // CORRUPT_MESSAGE, and what no version has by now.
    for code in [2, 1_000] {
        assert!(matches!(verdict(code), Verdict::Over(Trouble::Code(is)) if is == code));
    }
}

fn found(node: i32, epoch: i32) -> Vec<FoundTopic> {
    let leaders = [(0, Leader { node, epoch })].into_iter().collect();
    vec![FoundTopic { name: "orders".to_owned(), id: None, code: 0, leaders }]
}

#[test]
fn leaders_of_earlier_epochs_are_believed_once_all_brokers_say_so() {
    let partition = Partition { topic: "orders".to_owned(), number: 0 };
    let mut assigned = Assigned::new(&partition, None, Arc::new(queue().0));
    settle(&mut assigned, &found(-1, 5), true);
    assert_eq!((assigned.leader.is_none(), assigned.leaderless), (true, 1));
    settle(&mut assigned, &found(2, 5), true);
    assert!(assigned.is_led_by(2) && assigned.leaderless == 0);
    assigned.forget_leader();
    // One that is cut off still leads, as it says.
    settle(&mut assigned, &found(1, 4), true);
    assert!(assigned.leader.is_none());
    settle(&mut assigned, &found(3, 6), true);
    assert!(assigned.is_led_by(3));
    assigned.forget_leader();
    put(&assigned.queue, 5, 1);
    for _ in 0..BELIEVED_AFTER {
        settle(&mut assigned, &found(1, 2), true);
        assert!(assigned.leader.is_none());
    }
    settle(&mut assigned, &found(1, 2), true);
    assert!(assigned.is_led_by(1), "the cluster was restored");
}

#[test]
fn buffers_count_with_all_of_their_memory() {
    let queue = Queue::new(5, Room { queue: 4096, fetch: 1024 }, End::default(), || ());
    let mut batches = Batches::default();
    let mut next = 5;
    while matches!(queue.wanted(), Wants::Records { .. }) {
        let bytes = self::batches(next, 1);
        let length = bytes.len();
        let mut buffer = Vec::with_capacity(1024);
        buffer.extend_from_slice(&bytes);
        queue.put(next, Answered { length, ..Answered::default() }, buffer);
        next += 1;
    }
    assert_eq!(next, 9, "four of them, though what is in them is little");
    for _ in 5..9 {
        read(&queue, &mut batches);
    }
    assert_eq!(queue.take(&mut batches).0, Taken::Nothing);
    assert!(matches!(queue.wanted(), Wants::Records { from: 9, .. }));
}
