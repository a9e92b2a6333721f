//! Queues between what fetches and what reads, without either; and what settings and codes mean.

use super::budget::{Asking, BEYOND, Budget, PAUSE};
use super::queue::{Queue, Taken, Trouble, Wants};
use super::{
    Assigned, BELIEVED_AFTER, KEPT, Plan, Verdict, WAIT, WITHOUT_MEANING, settle, verdict,
    why_waiting,
};
use crate::ahead::Room;
use crate::client::Options;
use crate::ends::End;
use crate::partition::Partition;
use crate::protocol::answer::{Answered, Diverging};
use crate::protocol::batches::{Batches, Wrong};
use crate::protocol::{FoundTopic, Leader, TopicId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg::Data as _;

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
    queue_behind(None)
}

/// The same, behind a record of this epoch.
fn queue_behind(epoch: Option<i32>) -> (Queue, Arc<AtomicUsize>) {
    let waked = Arc::<AtomicUsize>::default();
    let wakes = Arc::clone(&waked);
    let room = Room { queue: 4 * BATCH, fetch: 2 * BATCH };
    let wake = move || _ = wakes.fetch_add(1, Ordering::Relaxed);
    (Queue::new((5, epoch), (room, Arc::default()), End::default(), wake), waked)
}

fn put(queue: &Queue, from: i64, count: i64) {
    let bytes = batches(from, count);
    let answered = Answered { end: 100, length: bytes.len(), ..Answered::default() };
    queue.put((from, -1), answered, bytes);
}

/// What a request for this partition alone would ask for, if no others hold anything.
fn wanted(queue: &Queue) -> Wants {
    queue.wanted(&mut Asking::new(&Arc::default(), Instant::now()))
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
    assert_eq!(wanted(&queue), wants(5, -1, true));
    put(&queue, 5, 2);
    // The epoch is that of the last batch.
    assert_eq!(wanted(&queue), wants(7, 3, false));
    put(&queue, 7, 2);
    assert_eq!(waked.load(Ordering::Relaxed), 2);
    assert_eq!(wanted(&queue), Wants::Room);
    // What is being read takes room until the next is taken.
    assert_eq!(read(&queue, &mut batches), (7, false));
    assert_eq!(wanted(&queue), Wants::Room);
    assert_eq!(read(&queue, &mut batches), (9, true));
    assert_eq!(wanted(&queue), wants(9, 3, false));
    assert_eq!(queue.take(&mut batches), (Taken::Nothing, false));
    // Memory is used again: two buffers, and no more.
    assert_eq!([(); 3].map(|()| queue.buffer().len()), [2 * BATCH, 2 * BATCH, 0]);
}

#[test]
fn a_batch_that_is_larger_than_all_room_is_read() {
    let (queue, _) = queue();
    let mut batches = Batches::default();
    put(&queue, 5, 20);
    assert_eq!(wanted(&queue), Wants::Room);
    assert_eq!(read(&queue, &mut batches), (25, false));
    assert_eq!(queue.take(&mut batches), (Taken::Nothing, true));
    assert_eq!(wanted(&queue), wants(25, 3, false));
    // Its memory is not kept.
    assert_eq!(queue.buffer().capacity(), 0);
}

#[test]
fn answers_without_whole_batches_are_asked_for_again() {
    let (queue, waked) = queue();
    for length in [0, 30, BATCH - 1] {
        let bytes = batches(5, 1);
        queue.put((5, -1), Answered { length, ..Answered::default() }, bytes);
    }
    assert_eq!(wanted(&queue), wants(5, -1, false));
    assert_eq!(waked.load(Ordering::Relaxed), 1, "it is known that there is nothing");
    put(&queue, 5, 1);
    read(&queue, &mut Batches::default());
    // Of another request.
    put(&queue, 7, 1);
    assert_eq!(queue.take(&mut Batches::default()), (Taken::Nothing, false));
}

/// Event time waits for a partition of which it is not known whether it has records.
#[test]
fn a_reader_looks_again_when_it_is_known_or_not_whether_there_are_records() {
    let (queue, waked) = queue();
    let answer = |from, end| {
        queue.put((from, -1), Answered { end, ..Answered::default() }, Vec::new());
        (queue.is_answered(), waked.swap(0, Ordering::Relaxed))
    };
    let lost = || {
        queue.unanswered();
        (queue.is_answered(), waked.swap(0, Ordering::Relaxed))
    };
    assert_eq!(lost(), (false, 0), "as before");
    assert_eq!(answer(5, 7), (true, 0), "there are two");
    assert_eq!(answer(5, 7), (true, 0));
    put(&queue, 5, 2);
    assert_eq!(waked.swap(0, Ordering::Relaxed), 1, "they come, and there are more");
    assert_eq!(answer(7, 7), (true, 1), "there were none");
    assert_eq!(answer(7, 7), (true, 0));
    // Of a request from before.
    assert_eq!(answer(5, 8), (true, 1));
    assert_eq!(answer(7, 7), (true, 1));
    assert_eq!(lost(), (false, 1));
    assert_eq!(lost(), (false, 0));
    assert_eq!(wanted(&queue), wants(7, 3, true), "a broker is to answer at once");
    assert_eq!(answer(7, 7), (true, 1));
}

#[test]
fn trouble_comes_behind_the_records_before_it() {
    for (trouble, is_over) in [
        (Trouble::Unknown, false),
        (Trouble::OutOfRange, true),
        (Trouble::Denied, true),
        (Trouble::Wrong(Wrong::Torn), true),
        (Trouble::Code(2), true),
        (Trouble::Replica(4), true),
    ] {
        let (queue, waked) = queue();
        put(&queue, 5, 1);
        // The first request with an epoch that has no answer is repeated without.
        queue.out_of_range(3);
        assert_eq!((wanted(&queue), waked.load(Ordering::Relaxed)), (wants(6, -1, false), 1));
        match trouble {
            Trouble::Wrong(_) => {
                let answered = Answered { length: BATCH, ..Answered::default() };
                let mut torn = batches(6, 1);
                torn[16] = 9;
                queue.put((6, -1), answered, torn);
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
        assert_eq!(wanted(&queue), expected);
        // What is final stays.
        queue.fail(Trouble::Unknown);
        assert_eq!(wanted(&queue), expected);
    }
}

/// Of a broker whose log has this epoch until an offset, and a later one behind it.
fn diverges(queue: &Queue, from: i64, epoch: i32, end: i64) {
    let diverges = Some(Diverging { epoch, end });
    queue.put((from, -1), Answered { end: 100, diverges, ..Answered::default() }, Vec::new());
}

fn diverged(end: Option<i64>, epoch: i32, read: i32) -> (Taken, bool) {
    (Taken::Trouble(Trouble::Diverged { end, epoch, read }), false)
}

#[test]
fn a_log_that_was_cut_off_before_the_last_record_is_trouble() {
    // Where a job goes on from a checkpoint, before anything is read.
    let (queue, waked) = queue_behind(Some(7));
    assert_eq!(wanted(&queue), wants(5, 7, true));
    diverges(&queue, 5, 6, 4);
    assert_eq!(waked.load(Ordering::Relaxed), 1);
    let mut batches = Batches::default();
    assert_eq!(queue.take(&mut batches), diverged(Some(4), 6, 7));
    assert_eq!(wanted(&queue), Wants::Nothing);
    // And behind what was read.
    let (queue, _) = self::queue();
    put(&queue, 5, 2);
    diverges(&queue, 7, 2, 6);
    assert_eq!(read(&queue, &mut batches), (7, false));
    assert_eq!(queue.take(&mut batches), diverged(Some(6), 2, 3));
    assert_eq!(wanted(&queue), Wants::Nothing);
}

#[test]
fn a_record_of_another_epoch_than_the_one_that_was_read_is_trouble() {
    let looks_back = |epoch| {
        let (queue, _) = queue_behind(Some(epoch));
        // The log is long enough.
        diverges(&queue, 5, 2, 5);
        assert_eq!(wanted(&queue), wants(4, -1, false));
        queue
    };
    let mut batches = Batches::default();
    let queue = looks_back(7);
    // Of another request, and of one that there was no room for.
    put(&queue, 5, 1);
    let bytes = self::batches(4, 2);
    queue.put((4, 7), Answered { length: bytes.len(), ..Answered::default() }, bytes);
    queue.put((4, -1), Answered { length: 30, ..Answered::default() }, self::batches(4, 1));
    assert_eq!(queue.take(&mut batches), (Taken::Nothing, false));
    assert_eq!(wanted(&queue), wants(4, -1, false));
    put(&queue, 4, 2);
    assert_eq!(queue.take(&mut batches), diverged(None, 3, 7));
    assert_eq!(wanted(&queue), Wants::Nothing);
    // The same record, of which the broker has lost the epoch; one that was compacted; one that was deleted; and a leader of before.
    type After = fn(&Queue);
    let goes_on: [(i32, After); 4] = [
        (3, |queue| put(queue, 4, 2)),
        (7, |queue| {
            let bytes = self::batches(5, 1);
            queue.put((4, -1), Answered { length: bytes.len(), ..Answered::default() }, bytes);
        }),
        (7, |queue| queue.out_of_range(-1)),
        (7, |queue| queue.forget_epoch_behind(6)),
    ];
    for (epoch, answer) in goes_on {
        let (queue, mut batches) = (looks_back(epoch), Batches::default());
        answer(&queue);
        assert_eq!(queue.take(&mut batches), (Taken::Nothing, false));
        assert_eq!(wanted(&queue), wants(5, -1, false));
        put(&queue, 5, 1);
        assert_eq!(wanted(&queue), wants(6, 3, false));
        assert_eq!(read(&queue, &mut batches), (6, false));
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
    let mut said = Vec::new();
    for _ in 0..BELIEVED_AFTER {
        settle(&mut assigned, &found(1, 2), true);
        assert!(assigned.leader.is_none());
        said.extend(why_waiting(&assigned));
    }
    assert!(said.len() == 1 && said[0].contains("two minutes"), "{said:?}");
    settle(&mut assigned, &found(1, 2), true);
    assert!(assigned.is_led_by(1), "the cluster was restored");
}

/// A job goes on from a checkpoint, and a broker that is cut off knows less than that.
#[test]
fn leaders_from_before_a_checkpoint_are_not_believed() {
    let partition = Partition { topic: "orders".to_owned(), number: 0 };
    let id = TopicId::decode(&mut &[1; 16][..]).ok();
    assert!(id.is_some());
    let found = |node, epoch| {
        let mut found = self::found(node, epoch);
        found[0].id = id;
        found
    };
    let mut assigned = Assigned::new(&partition, id, Arc::new(queue_behind(Some(7)).0));
    settle(&mut assigned, &found(1, 6), true);
    assert!(assigned.leader.is_none());
    settle(&mut assigned, &found(2, 7), true);
    assert!(assigned.is_led_by(2));
    assert_eq!(wanted(&assigned.queue), wants(5, 7, true), "the record before is requested");
}

#[test]
fn buffers_count_with_all_of_their_memory() {
    let room = Room { queue: 4096, fetch: 1024 };
    let queue = Queue::new((5, None), (room, Arc::default()), End::default(), || ());
    let mut batches = Batches::default();
    let mut next = 5;
    while matches!(wanted(&queue), Wants::Records { .. }) {
        let bytes = self::batches(next, 1);
        let length = bytes.len();
        let mut buffer = Vec::with_capacity(1024);
        buffer.extend_from_slice(&bytes);
        queue.put((next, -1), Answered { length, ..Answered::default() }, buffer);
        next += 1;
    }
    assert_eq!(next, 9, "four of them, though what is in them is little");
    for _ in 5..9 {
        read(&queue, &mut batches);
    }
    assert_eq!(queue.take(&mut batches).0, Taken::Nothing);
    assert!(matches!(wanted(&queue), Wants::Records { from: 9, .. }));
}

/// A hundred partitions with little room, and a broker that has a batch of a mebibyte for the first one that a request names.
struct Many {
    budget: Arc<Budget>,
    /// With where the next batch begins.
    queues: Vec<(Queue, i64)>,
    turn: usize,
}

const LONG: usize = 1 << 20;

impl Many {
    fn new() -> Self {
        let budget = Arc::<Budget>::default();
        let room = Room { queue: 64 << 10, fetch: 8 << 10 };
        let queue = || Queue::new((0, None), (room, Arc::clone(&budget)), End::default(), || ());
        Self { queues: (0..100).map(|_| (queue(), 0)).collect(), budget, turn: 0 }
    }

    /// Asks once; returns whether there was something to ask for.
    fn ask(&mut self, now: Instant) -> bool {
        let mut asking = Asking::new(&self.budget, now);
        self.turn += 1;
        let len = self.queues.len();
        let all = (0..len).map(|step| (self.turn + step) % len);
        let wanted: Vec<_> = all
            .filter(|at| matches!(self.queues[*at].0.wanted(&mut asking), Wants::Records { .. }))
            .collect();
        let Some(first) = wanted.first() else { return false };
        let (queue, next) = &mut self.queues[*first];
        let bytes = batches(*next, 1);
        let length = bytes.len();
        let mut buffer = Vec::with_capacity(LONG);
        buffer.extend_from_slice(&bytes);
        queue.put((*next, -1), Answered { length, end: 1000, ..Answered::default() }, buffer);
        *next += 1;
        true
    }

    /// How many batches come, as long as there is something to ask for.
    fn ask_all(&mut self, now: Instant) -> usize {
        (0..).take_while(|_| self.ask(now)).count()
    }

    /// Reads what there is of some partitions; returns how often it was said that there is room.
    fn read(&mut self, how_many: usize) -> usize {
        let held =
            self.queues.iter().filter(|(queue, next)| wanted(queue) == Wants::Room && *next > 0);
        let read = |(queue, _): &(Queue, i64)| {
            let mut batches = Batches::default();
            let first = queue.take(&mut batches);
            let waited_for = [first, queue.take(&mut batches)].map(|(_, waited_for)| waited_for);
            usize::from(waited_for.contains(&true))
        };
        held.take(how_many).map(read).sum()
    }
}

#[test]
fn long_batches_of_many_partitions_take_no_more_than_is_reserved_for_all() {
    let mut many = Many::new();
    let now = Instant::now();
    // What is reserved, and beyond it what few partitions may have.
    let most = (100 * (64 << 10) + BEYOND) / LONG;
    // The last one begins where there is room for a part of it.
    assert_eq!(many.ask_all(now), most + 1);
    assert_eq!(many.ask_all(now + PAUSE / 2), 0);
    // As long as tasks read, nothing comes beyond it, and as much as they have read.
    for step in 1..200u32 {
        assert!(many.read(2) > 0, "the thread that fetches is waked");
        assert_eq!(many.ask_all(now + PAUSE * step), 2);
    }
}

#[test]
fn tasks_that_wait_for_other_partitions_get_them() {
    let mut many = Many::new();
    let now = Instant::now();
    let first = many.ask_all(now);
    assert!(first < 20);
    // Nothing is read: one more comes after each pause, until each partition has a batch.
    let mut at = now;
    for _ in first..100 {
        assert_eq!(many.ask_all(at), 0);
        at += PAUSE;
        assert_eq!(many.ask_all(at), 1);
    }
    at += PAUSE;
    assert_eq!(many.ask_all(at), 0);
    assert!(many.queues.iter().all(|(_, next)| *next == 1));
    let mut asking = Asking::new(&many.budget, at);
    assert!(!asking.may_ask(1, true));
    assert_eq!(asking.again(), Some(at + PAUSE), "each may have nothing by then");
    drop(asking);
    // The one for which the others wait is read, and they are not.
    assert_eq!((many.read(1), many.ask_all(at)), (1, 0));
    at += PAUSE;
    assert_eq!(many.ask_all(at), 1);
    // All is read, and there is room as at first.
    assert!(many.read(100) > 0);
    assert_eq!(many.ask_all(at), first);
}

#[test]
fn what_a_partition_held_is_free_when_it_is_gone() {
    let mut many = Many::new();
    let now = Instant::now();
    assert!(many.ask_all(now) > 0);
    many.queues.truncate(1);
    many.read(1);
    assert_eq!(many.ask_all(now), 1);
    // Held by none of the partitions, nor reserved for them.
    let budget = Arc::clone(&many.budget);
    drop(many);
    let mut asking = Asking::new(&budget, now);
    assert!(asking.may_ask(BEYOND, false));
    assert!(!asking.may_ask(1, false));
    drop(asking);
    // One batch may be longer than all.
    assert!(Asking::new(&budget, now).may_ask(BEYOND + 1, false));
}
