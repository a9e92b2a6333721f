//! A policy that removes the numbers of each key when they are due.

mod saving;

use super::super::*;
use super::*;
use crate::data::{Data, DecodeError, Schema};
use crate::error::ErrorKind;
use crate::flow::{Depth, Op, Signals};
use crate::memory::{Claim, MemoryPool};
use std::sync::Arc;

/// Numbers that are each due at their own time, by either clock.
#[derive(Clone, Default, Data)]
struct Numbers([Vec<i64>; 2]);

impl TimedState for Numbers {
    type Clocks = BothClocks;
    type Owned = ();

    fn due(&self, clock: TimerClock) -> Option<i64> {
        self.0[clock as usize].iter().min().copied()
    }

    fn is_spent(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    fn heap(&self) -> usize {
        self.0.iter().map(|numbers| numbers.capacity() * size_of::<i64>()).sum()
    }
}

/// The end of the stage.
struct Last;

impl Pipe for Last {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }
}

/// Removes the least number of a key when it is due.
struct Taking {
    taken: Vec<(i64, u32)>,
    /// The keys that have ended.
    ended: Vec<u32>,
    next: Last,
}

impl TimerPolicy for Taking {
    type Key = u32;
    type State = Numbers;
    type Next = Last;

    const ENDS: bool = true;

    fn next(&mut self) -> &mut Last {
        &mut self.next
    }

    fn wake(&mut self, key: &u32, all: &mut Numbers, firing: Firing, _: &mut HeapEstimate<()>) {
        let all = &mut all.0[firing.clock as usize];
        let least = (0..all.len()).min_by_key(|at| all[*at]).unwrap();
        assert!(all[least] <= firing.at && firing.at <= firing.until);
        self.taken.push((all.swap_remove(least), *key));
    }

    fn end(&mut self, key: &u32, all: &mut Numbers, _: Option<Timestamp>) -> bool {
        all.0 = Default::default();
        self.ended.push(*key);
        false
    }

    fn report(&mut self, _: &KeysOf<Self>, _: &mut Report) {}
}

impl Takes<(u32, TimerClock, i64), ()> for Taking {
    fn take(
        &mut self,
        keys: &mut KeysOf<Self>,
        (key, clock, number): (u32, TimerClock, i64),
        (): (),
    ) {
        change(keys, key, |all| all.0[clock as usize].push(number));
    }
}

fn change(keys: &mut KeysOf<Taking>, key: u32, change: impl FnOnce(&mut Numbers)) -> bool {
    let hash = key.key_hash();
    let Some(mut visit) = keys.visit(hash, &key, Numbers::default) else { return false };
    change(visit.state());
    visit.leave(hash);
    true
}

fn keys_of<K: Key + ?Sized, S: TimedState>(
    memory: usize,
    spill: SpillDir,
    clock: &Clock,
) -> KeyedTimers<K, S> {
    keys_in(&MemoryPool::new(memory), spill, clock)
}

fn keys_in<K: Key + ?Sized, S: TimedState>(
    pool: &MemoryPool,
    spill: SpillDir,
    clock: &Clock,
) -> KeyedTimers<K, S> {
    let op = op();
    let budget = Budget::new(pool.reserve(), pool.unnamed(Claim::Spillable), 1);
    KeyedTimers::of(op, budget, spill, clock.clone(), ("the numbers", "fewer need less"))
}

fn op() -> Op {
    Op::new(0, "test".into(), Depth(0), Arc::new(Signals::default()))
}

/// Keys of an operator that is tested, with as much memory as they need.
pub(crate) fn keys_in_memory<K: Key + ?Sized, S: TimedState>() -> (Op, KeyedTimers<K, S>) {
    (op(), keys_of(usize::MAX >> 1, spill_dir(), &Clock::simulated()))
}

fn spill_dir() -> SpillDir {
    SpillDir::new(std::env::temp_dir(), "keys")
}

fn operator(memory: usize) -> (TimerPush<Taking>, Clock) {
    let clock = Clock::simulated();
    let keys = keys_of(memory, spill_dir(), &clock);
    (TimerPush::new(keys, Taking { taken: Vec::new(), ended: Vec::new(), next: Last }), clock)
}

fn add(operator: &mut TimerPush<Taking>, key: u32, number: i64) -> bool {
    change(&mut operator.keys, key, |all| all.0[0].push(number))
}

/// The numbers that are removed when an event arrives, if any, and by the clock.
fn fire(operator: &mut TimerPush<Taking>, event: Option<Event>) -> Vec<(i64, u32)> {
    event.into_iter().for_each(|event| operator.event(event));
    while operator.resume() == Flow::Busy {}
    std::mem::take(&mut operator.policy.taken)
}

fn until(operator: &mut TimerPush<Taking>, at: i64) -> Vec<(i64, u32)> {
    fire(operator, Some(Event::Watermark(Timestamp::from_micros(at))))
}

#[test]
fn keys_are_woken_when_they_are_due_and_not_before() {
    let (mut keys, _) = operator(1 << 20);
    for (key, number) in [(1, 50), (2, 20), (1, 30), (1, 30), (2, 90), (3, 5), (1, 10)] {
        assert!(add(&mut keys, key, number));
    }
    assert_eq!(until(&mut keys, 4), []);
    assert_eq!(until(&mut keys, 29), [(5, 3), (10, 1), (20, 2)]);
    assert_eq!(keys.keys.live(), 2);
    // Some numbers that are overdue when they arrive.
    assert!(add(&mut keys, 3, 7) && add(&mut keys, 1, 8));
    assert_eq!(until(&mut keys, 29), [(7, 3), (8, 1)]);
    assert_eq!(until(&mut keys, 60), [(30, 1), (30, 1), (50, 1)]);
    assert_eq!(keys.keys.first_due(TimerClock::Event), Some(90));
    // The last moment fires at the end of the input.
    assert!(add(&mut keys, 3, i64::MAX));
    assert_eq!(fire(&mut keys, Some(Event::End)), [(90, 2), (i64::MAX, 3)]);
    assert_eq!((keys.keys.live(), keys.keys.first_due(TimerClock::Event)), (0, None));
}

#[test]
fn a_postponed_timer_fires_in_its_turn() {
    let (mut keys, _) = operator(1 << 20);
    add(&mut keys, 1, 10);
    add(&mut keys, 2, 20);
    change(&mut keys.keys, 1, |all| all.0[0] = vec![30]);
    assert_eq!(until(&mut keys, 40), [(20, 2), (30, 1)]);
}

#[test]
fn the_clocks_do_not_wait_for_each_other() {
    let (mut keys, clock) = operator(1 << 20);
    for (key, by, number) in [
        (1, TimerClock::Event, 10),
        (1, TimerClock::Processing, 100),
        (2, TimerClock::Processing, 50),
    ] {
        keys.push((key, by, number), ());
    }
    assert_eq!(until(&mut keys, 10), [(10, 1)]);
    assert!(keys.idle(0).is_some_and(|at| at <= 50));
    clock.advance_to(60);
    assert_eq!(fire(&mut keys, None), [(50, 2)]);
    // A round ends: all numbers fire, and nothing is left for the next round.
    keys.push((3, TimerClock::Event, 1000), ());
    assert_eq!(fire(&mut keys, Some(Event::Round(Depth(0)))), [(1000, 3), (100, 1)]);
    assert_eq!((keys.keys.table.len(), keys.idle(0)), (0, None));
    assert_eq!(keys.keys.watermark(), None);
    keys.push((1, TimerClock::Processing, 200), ());
    clock.advance_to(199);
    assert_eq!(fire(&mut keys, None), []);
    clock.advance_to(200);
    assert_eq!(fire(&mut keys, None), [(200, 1)]);
}

#[test]
fn a_spent_key_is_dropped_and_its_memory_freed() {
    let (mut keys, _) = operator(64 << 20);
    for round in 0..20 {
        for key in 0..5000 {
            assert!(add(&mut keys, round * 5000 + key, i64::from(round)));
        }
        assert_eq!(until(&mut keys, i64::from(round)).len(), 5000);
    }
    keys.resume();
    assert_eq!((keys.keys.live(), keys.keys.table.len()), (0, 0));
    assert_eq!(keys.keys.accounts.heap, 0);
    let held = keys.keys.accounts.budget.bytes();
    assert!(held < 1 << 20, "{held}");
}

#[test]
fn a_timer_of_a_key_that_was_dropped_finds_no_other() {
    let (mut keys, _) = operator(64 << 20);
    for key in 0..5000 {
        add(&mut keys, key, 10);
        add(&mut keys, key, 5);
    }
    assert_eq!(until(&mut keys, 5).len(), 5000);
    for key in 0..5000 {
        assert!(change(&mut keys.keys, key, |all| all.0[0].clear()));
    }
    keys.resume();
    assert_eq!((keys.keys.live(), keys.keys.table.len()), (0, 0));
    add(&mut keys, 7, 40);
    assert_eq!(until(&mut keys, 39), []);
    assert_eq!(until(&mut keys, 40), [(40, 7)]);
}

/// A key that is due far ahead, and again and again before that.
#[test]
fn superseded_timers_are_not_kept() {
    let (mut keys, _) = operator(1 << 20);
    add(&mut keys, 1, i64::MAX);
    for at in 0..100_000 {
        add(&mut keys, 1, at);
        assert_eq!(until(&mut keys, at), [(at, 1)]);
    }
    let timers = keys.keys.accounts.wheels[0].timers.len();
    assert!(timers <= SUPERSEDED + 3, "{timers}");
    assert_eq!(fire(&mut keys, Some(Event::End)), [(i64::MAX, 1)]);
}

/// A state of which a quarter fits into memory.
#[test]
fn a_single_state_without_room_fails_the_job() {
    let (mut keys, _) = operator(400_000);
    for _ in 0..200 {
        add(&mut keys, 1, 0);
    }
    assert!(!keys.keys.has_failed());
    change(&mut keys.keys, 1, |all| all.0[0].resize(200_000, 0));
    keys.resume();
    assert!(keys.keys.has_failed());
    let failure = keys.keys.accounts.failure.take().unwrap();
    assert_eq!(failure.kind(), ErrorKind::Memory);
    assert!(failure.message().contains("the numbers of a single key"), "{failure}");
    // After that, nothing is emitted that looks like a result.
    assert_eq!(until(&mut keys, 0), []);
}

#[cfg(not(miri))]
mod on_disk {
    use super::*;

    /// Numbers that look like chance.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = crate::data::hash_u64(self.0);
            self.0 % end
        }
    }

    #[test]
    fn keys_are_woken_as_if_all_were_in_memory() {
        let (mut all, all_clock) = operator(64 << 20);
        let (mut few, few_clock) = operator(200_000);
        let (mut chance, mut now) = (Chance(7), 0);
        let mut most = 0;
        for step in 0..2400 {
            let key = chance.below(900) as u32;
            let by = [TimerClock::Event, TimerClock::Processing][usize::from(chance.below(4) == 0)];
            // Those by the processing clock are odd.
            let is_odd = i64::from(by == TimerClock::Processing);
            let number = 2 * (now + chance.below(400) as i64) + is_odd;
            all.push((key, by, number), ());
            few.push((key, by, number), ());
            if step % 150 == 149 {
                now += 50;
                for clock in [&all_clock, &few_clock] {
                    clock.advance_to(2 * now as u64);
                }
                let fired = [&mut all, &mut few].map(|keys| {
                    let taken = until(keys, 2 * now);
                    let is_odd = |(at, _): &(i64, u32)| at % 2 == 1;
                    let (odd, even) = taken.into_iter().partition::<Vec<_>, _>(is_odd);
                    [odd, even].map(|mut taken| {
                        assert!(taken.is_sorted_by_key(|(at, _)| *at), "{taken:?}");
                        taken.sort_unstable();
                        taken
                    })
                });
                assert_eq!(fired[0], fired[1]);
                assert_eq!(few.keys.live(), all.keys.live());
                for clock in [TimerClock::Event, TimerClock::Processing] {
                    assert_eq!(few.keys.first_due(clock), all.keys.first_due(clock));
                }
                most = most.max(few.keys.cold.len());
            }
        }
        assert!(most > 150 && few.keys.spilled() > 0, "{most} keys on disk");
        let fired = [&mut all, &mut few].map(|keys| {
            let mut taken = fire(keys, Some(Event::End));
            taken.sort_unstable();
            taken
        });
        assert!(!fired[0].is_empty());
        assert_eq!(fired[0], fired[1]);
        assert_eq!((few.keys.live(), few.keys.cold.len()), (0, 0));
    }

    #[test]
    fn half_of_many_keys_goes_at_a_time_and_each_in_its_turn() {
        let (mut keys, _) = operator(64 << 20);
        const ALL: u32 = 20_000;
        for key in 0..ALL {
            assert!(add(&mut keys, key, i64::from(key)));
        }
        let all = ALL as usize;
        let mut before = 0;
        for round in 0..3 {
            assert!(keys.keys.evict());
            let (on_disk, left) = (keys.keys.cold.len(), keys.keys.table.len());
            assert_eq!((on_disk + left, keys.keys.live()), (all, all), "round {round}");
            let half = (all - before) / 2;
            let gone = on_disk - before;
            assert!(gone > half * 3 / 4 && gone < half * 5 / 4, "{gone} of {half}");
            before = on_disk;
        }
        let fired = until(&mut keys, i64::from(ALL));
        assert!(fired.into_iter().eq((0..ALL).map(|key| (i64::from(key), key))));
    }

    #[test]
    fn the_memory_of_the_store_is_given_back() {
        let (mut keys, _) = operator(1 << 20);
        const LATE: i64 = 1 << 40;
        for key in 0..8000 {
            // A few keys are due much later.
            let due = if key % 200 == 0 { LATE } else { i64::from(key) };
            assert!(add(&mut keys, key, due));
        }
        keys.resume();
        assert!(keys.keys.cold.bytes() > 0 && keys.keys.cold.len() > PORTION);
        let before = keys.keys.accounts.budget.bytes();
        assert_eq!(until(&mut keys, LATE - 1).len(), 7960);
        keys.resume();
        assert_eq!((keys.keys.live(), keys.keys.cold.len(), keys.keys.cold.bytes()), (40, 0, 0));
        let held = keys.keys.accounts.budget.bytes();
        assert!(held < before / 2, "{held} of {before}");
        assert_eq!(until(&mut keys, LATE).len(), 40);
        // The store is opened again when it is needed.
        for key in 0..8000 {
            assert!(add(&mut keys, key, LATE + 1));
        }
        assert!(!keys.keys.cold.is_empty());
        assert_eq!(until(&mut keys, LATE + 1).len(), 8000);
        keys.resume();
        assert_eq!((keys.keys.live(), keys.keys.cold.bytes()), (0, 0));
    }

    #[test]
    fn few_keys_stay_on_disk_while_others_have_their_memory() {
        let (pool, clock) = (MemoryPool::new(8 << 20), Clock::simulated());
        let mut others = pool.reserve();
        assert!(others.try_resize((8 << 20) - (100 << 10)));
        let keys = keys_in(&pool, spill_dir(), &clock);
        let policy = Taking { taken: Vec::new(), ended: Vec::new(), next: Last };
        let mut keys = TimerPush::new(keys, policy);
        for key in 0..100 {
            assert!(change(&mut keys.keys, key, |all| all.0[0] = vec![1 << 40; 500]));
        }
        keys.resume();
        let on_disk = keys.keys.cold.len();
        assert!(on_disk > 0 && on_disk <= PORTION);
        let written = keys.keys.spilled();
        for _ in 0..50 {
            keys.resume();
            assert_eq!(keys.keys.cold.len(), on_disk);
        }
        assert_eq!(keys.keys.spilled(), written);
        // They return when there is room.
        assert!(others.try_resize(0));
        keys.resume();
        assert_eq!((keys.keys.cold.len(), keys.keys.live()), (0, 100));
    }

    #[test]
    fn a_round_of_a_loop_forgets_what_is_on_disk() {
        let (mut keys, _) = operator(100_000);
        for round in 0..2 {
            for key in 0..1500 {
                assert!(add(&mut keys, key, i64::from(key)));
            }
            assert!(keys.keys.cold.len() > 200 && keys.keys.live() == 1500, "round {round}");
            let fired = fire(&mut keys, Some(Event::Round(Depth(0))));
            assert!(fired.into_iter().eq((0..1500).map(|key| (i64::from(key), key))));
            assert_eq!((keys.keys.live(), keys.keys.watermark()), (0, None));
        }
    }

    /// A state that is never due.
    #[derive(Default, Data)]
    struct Kept(Vec<u8>);

    impl TimedState for Kept {
        type Clocks = NoClock;
        type Owned = Vec<u8>;

        fn due(&self, _: TimerClock) -> Option<i64> {
            None
        }

        fn is_spent(&self) -> bool {
            self.0.is_empty()
        }

        fn heap(&self) -> usize {
            0
        }

        fn owned(&self) -> usize {
            self.0.capacity()
        }
    }

    /// Has the keys and their bytes at the end.
    struct Ending(Vec<(String, Vec<u8>)>, Last);

    impl TimerPolicy for Ending {
        type Key = str;
        type State = Kept;
        type Next = Last;

        const ENDS: bool = true;

        fn next(&mut self) -> &mut Last {
            &mut self.1
        }

        fn wake(&mut self, _: &str, _: &mut Kept, _: Firing, _: &mut HeapEstimate<Vec<u8>>) {}

        fn end(&mut self, key: &str, state: &mut Kept, _: Option<Timestamp>) -> bool {
            self.0.push((key.to_owned(), state.0.clone()));
            false
        }

        fn report(&mut self, _: &KeysOf<Self>, _: &mut Report) {}
    }

    fn append(keys: &mut KeyedTimers<str, Kept>, n: u32, byte: u8) -> bool {
        let text = format!("the key with the number {n}");
        let key = text.as_str();
        let hash = str::hash(key.probe());
        let Some(mut visit) = keys.visit(hash, key, Kept::default) else { return false };
        visit.state().0.extend([byte; 40]);
        visit.leave(hash);
        true
    }

    #[test]
    fn every_key_ends_once_wherever_it_is() {
        let keys = keys_of(200_000, spill_dir(), &Clock::simulated());
        let mut all = TimerPush::new(keys, Ending(Vec::new(), Last));
        for byte in 0..3 {
            for n in 0..1500 {
                assert!(append(&mut all.keys, n, byte));
                if n.is_multiple_of(100) {
                    all.resume();
                }
            }
        }
        assert!(all.keys.cold.len() > 500 && all.keys.live() == 1500);
        all.event(Event::End);
        while all.resume() == Flow::Busy {}
        let mut ended = std::mem::take(&mut all.policy.0);
        ended.sort_unstable();
        let mut expected: Vec<_> = (0..1500)
            .map(|n| (format!("the key with the number {n}"), [[0; 40], [1; 40], [2; 40]].concat()))
            .collect();
        expected.sort_unstable();
        assert!(ended == expected, "{} keys have ended", ended.len());
        assert!(all.keys.cold.is_empty() && !all.keys.has_failed());
    }

    #[test]
    fn keys_give_way_to_state_that_has_to_stay() {
        let pool = MemoryPool::new(1 << 20);
        let op = Op::new(0, "test".into(), Depth(0), Arc::new(Signals::default()));
        let budget = Budget::new(pool.reserve(), pool.unnamed(Claim::Spillable), 4);
        let words = ("the numbers", "fewer need less");
        let keys = KeyedTimers::of(op, budget, spill_dir(), Clock::simulated(), words);
        let mut keys =
            TimerPush::new(keys, Taking { taken: Vec::new(), ended: Vec::new(), next: Last });
        for key in 0..2000 {
            assert!(add(&mut keys, key, 0));
        }
        keys.resume();
        let held = keys.keys.accounts.budget.bytes();
        assert!(held > 300_000 && keys.keys.cold.is_empty(), "{held}");
        let mut solution = pool.reserve();
        assert!(solution.try_resize(900_000));
        keys.resume();
        assert!(!keys.keys.accounts.budget.is_over() && !keys.keys.cold.is_empty());
        assert!(pool.used() <= 1 << 20 && !keys.keys.has_failed());
        assert_eq!(until(&mut keys, 0).len(), 2000);
    }

    #[test]
    fn a_disk_that_cannot_be_used_fails_the_job() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "no folder").unwrap();
        let keys = keys_of(60_000, SpillDir::new(&file, "keys"), &Clock::simulated());
        let mut keys =
            TimerPush::new(keys, Taking { taken: Vec::new(), ended: Vec::new(), next: Last });
        assert!(!(0..5000).all(|key| add(&mut keys, key, 0)));
        let failure = keys.keys.accounts.failure.take().unwrap();
        assert_eq!(failure.kind(), ErrorKind::Io, "{failure}");
        assert!(failure.to_string().contains("file"), "{failure}");
        assert_eq!(until(&mut keys, 0), []);
    }

    /// A state that cannot be read back.
    struct Unreadable;

    impl Data for Unreadable {
        fn encode(&self, _: &mut Vec<u8>) {}

        fn decode(_: &mut &[u8]) -> Result<Self, DecodeError> {
            Err(DecodeError::invalid("a state"))
        }

        fn key_hash(&self) -> u64 {
            0
        }

        fn schema() -> Schema {
            u64::schema()
        }
    }

    /// A new state in place of one that is on disk would give wrong results until the job stops.
    #[test]
    fn no_key_is_visited_after_one_that_could_not_be_read() {
        let mut keys: KeyedTimers<u32, Remembered<Unreadable>> =
            keys_of(1 << 20, spill_dir(), &Clock::simulated());
        let visit = |keys: &mut KeyedTimers<u32, Remembered<Unreadable>>, key: u32| {
            let hash = key.key_hash();
            let visit = keys.visit(hash, &key, || Remembered(Unreadable));
            visit.map(|visit| visit.leave(hash)).is_some()
        };
        assert!((0..10).all(|key| visit(&mut keys, key)));
        assert!(keys.evict() && !keys.cold.is_empty() && !keys.has_failed());
        let visited = (0..10).filter(|key| visit(&mut keys, *key)).count();
        assert!(keys.has_failed() && visited < 10, "{visited}");
        assert!(!(0..10).any(|key| visit(&mut keys, key)));
    }

    #[test]
    fn keys_are_looked_up_on_disk_leave_once_and_are_forgotten() {
        let mut keys: KeyedTimers<u32, Remembered<u64>> =
            keys_of(1 << 20, spill_dir(), &Clock::simulated());
        let value = |key: u32| u64::from(key) + 1;
        for key in 0..500_u32 {
            let hash = key.key_hash();
            keys.visit(hash, &key, || Remembered(value(key))).unwrap().leave(hash);
        }
        assert!(keys.evict() && !keys.cold.is_empty());
        for key in (0..1000_u32).rev() {
            let found = keys.look_up(key.key_hash(), &key).map(|state| state.0);
            assert_eq!(found, (key < 500).then(|| value(key)));
        }
        assert!(keys.cold.is_empty() && keys.live() == 500);
        assert!(keys.evict() && !keys.cold.is_empty());
        let mut left = Vec::new();
        while let Some(entry) = keys.next_at_end(|key, state| (*key, state.0)) {
            left.push(entry);
        }
        left.sort_unstable();
        assert!(left.into_iter().eq((0..500).map(|key| (key, value(key)))));
        keys.forget_all();
        assert!(keys.live() == 0 && keys.cold.bytes() == 0 && !keys.has_failed());
    }

    /// Tests of operators, where keys go to disk every now and then.
    #[test]
    fn operators_do_the_same_with_keys_on_disk() {
        let tests = [
            "operators::window::session::tests::results_have_the_timestamp_of_their_end",
            "operators::window::session::tests::a_late_record_opens_a_session_again",
            "operators::keyed::process::tests::timers_are_deleted_and_keys_cleared",
            "operators::window::arrival::tests::the_last_answer_counts",
            "operators::window::custom::tests::windows_become_one_where_the_aggregate_combines",
            "operators::join::tests::a_late_record_is_in_force_afterwards",
            "operators::join::symmetric::tests::each_pair_is_made_once_whichever_comes_first",
            "operators::loops::tests::delta::labels_go_through_a_graph",
            "fault::tests::a_job_of_sessions_whose_checkpoints_are_checked",
            "fault::tests::a_job_of_timers_whose_checkpoints_are_checked",
        ];
        let ran = std::process::Command::new(std::env::current_exe().unwrap())
            .env("THALWEG_FAULT", "HasNoRoom")
            .arg("--exact")
            .args(tests)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        assert!(said.contains(&format!("{} passed", tests.len())), "{said}");
    }
}

#[test]
fn keys_spent_by_a_timer_leave_the_table_at_once() {
    let (mut keys, _) = operator(1 << 20);
    for key in 0..100 {
        assert!(add(&mut keys, key, i64::from(key)));
        assert!(add(&mut keys, key, i64::from(key + key % 2 * 1000)));
    }
    let fired = until(&mut keys, 99);
    assert_eq!(fired.len(), 150);
    assert_eq!((keys.keys.table.len(), keys.keys.live()), (50, 50));
    assert_eq!(until(&mut keys, 2000).len(), 50);
    let Accounts { wheels, heap, live, .. } = &keys.keys.accounts;
    assert_eq!((wheels[0].armed, wheels[0].timers.len(), *heap, *live), (0, 0, 0, 0));
    assert_eq!(keys.keys.table.len(), 0);
}

mod in_any_order {
    use super::*;
    use crate::flow::Epoch;
    use crate::support::gradual_save::tests::{handle_with, saved};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A number that is due at its own time.
    #[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Data)]
    struct Number(Option<i64>);

    impl TimedState for Number {
        type Clocks = EventCalendar;
        type Owned = ();

        fn due(&self, _: TimerClock) -> Option<i64> {
            self.0
        }

        fn is_spent(&self) -> bool {
            self.0.is_none()
        }

        fn heap(&self) -> usize {
            0
        }
    }

    struct Removing {
        removed: Vec<(u64, i64)>,
        next: Last,
    }

    impl TimerPolicy for Removing {
        type Key = u64;
        type State = Number;
        type Next = Last;

        fn next(&mut self) -> &mut Last {
            &mut self.next
        }

        fn wake(
            &mut self,
            key: &u64,
            number: &mut Number,
            firing: Firing,
            _: &mut HeapEstimate<()>,
        ) {
            let due = number.0.take().expect("it is due");
            assert!(due <= firing.at && firing.at == firing.until);
            self.removed.push((*key, due));
        }

        fn report(&mut self, _: &KeysOf<Self>, _: &mut Report) {}
    }

    struct Keys(TimerPush<Removing>);

    impl Keys {
        fn new() -> Self {
            Self::within(64 << 20)
        }

        fn within(memory: usize) -> Self {
            let keys = keys_of(memory, spill_dir(), &Clock::simulated());
            Self(TimerPush::new(keys, Removing { removed: Vec::new(), next: Last }))
        }

        fn set(&mut self, key: u64, due: Option<i64>) {
            let hash = key.key_hash();
            let mut visit = self.0.keys.visit(hash, &key, Number::default).expect("room");
            visit.state().0 = due;
            visit.leave(hash);
        }

        fn fire(&mut self, event: Event) -> Vec<(u64, i64)> {
            self.0.event(event);
            while self.0.resume() == Flow::Busy {}
            let mut removed = std::mem::take(&mut self.0.policy.removed);
            removed.sort_unstable();
            removed
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Sets the numbers of so many keys from one on, so far ahead.
        Set(u64, u64, i64),
        Clear(u64, u64),
        Go(i64),
        /// A barrier; the table is saved by one part after each step.
        Save,
        Round,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let (key, count) = (|| 0..6_000u64, || prop_oneof![1..4u64, 1..3_000u64]);
        let step = prop_oneof![
            6 => (key(), count(), 0..100_000_000i64).prop_map(|(key, count, by)| Step::Set(key, count, by)),
            1 => (key(), count()).prop_map(|(key, count)| Step::Clear(key, count)),
            4 => prop_oneof![0..1_000i64, 0..100_000_000i64].prop_map(Step::Go),
            2 => Just(Step::Save),
            1 => Just(Step::Round),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn keys_are_woken_once_all_of_their_time_has_passed(steps in steps()) {
            agrees_with_a_model(Keys::new(), steps)?;
        }
    }

    #[cfg(not(miri))]
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3))]

        #[test]
        fn so_are_keys_on_disk(mut steps in steps()) {
            steps.truncate(8);
            steps.insert(0, Step::Set(0, 6_000, 1_000_000));
            agrees_with_a_model(Keys::within(120_000), steps)?;
        }
    }

    fn agrees_with_a_model(mut keys: Keys, steps: Vec<Step>) -> Result<(), TestCaseError> {
        let (mut model, mut now) = (BTreeMap::new(), 0);
        let (saves, handle) = handle_with::<(u64, Number)>(None);
        keys.0.keys.saved.table = handle;
        let (mut barriers, mut at_barrier) = (0, None);
        for step in steps {
            match step {
                Step::Set(first, count, by) => {
                    for key in first..first + count {
                        // Not all at the same time.
                        let due = now + by + (key % 97) as i64 * 10_000;
                        keys.set(key, Some(due));
                        model.insert(key, due);
                    }
                }
                Step::Clear(first, count) => {
                    for key in first..first + count {
                        keys.set(key, None);
                        model.remove(&key);
                    }
                }
                Step::Go(by) => {
                    now += by;
                    let due: Vec<_> = model.extract_if(.., |_, due| *due <= now).collect();
                    let at = Timestamp::from_micros(now);
                    prop_assert_eq!(keys.fire(Event::Watermark(at)), due);
                }
                Step::Save => {
                    barriers += 1;
                    // What is on disk is saved in files.
                    at_barrier = keys.0.keys.cold.is_empty().then(|| model.clone());
                    keys.fire(Event::Barrier(Epoch(barriers)));
                }
                Step::Round => {
                    let all: Vec<_> = std::mem::take(&mut model).into_iter().collect();
                    prop_assert_eq!(keys.fire(Event::Round(Depth(0))), all);
                    now = 0;
                }
            }
            let is_saved = !keys.0.save_part();
            if let Some(model) = at_barrier.take_if(|_| is_saved) {
                let model = model.into_iter().map(|(key, due)| (key, Number(Some(due))));
                prop_assert!(saved::<(u64, Number)>(&saves, Epoch(barriers)).into_iter().eq(model));
            }
            prop_assert_eq!(keys.0.keys.live(), model.len());
            let first = model.values().min().copied();
            prop_assert_eq!(keys.0.keys.first_due(TimerClock::Event), first);
        }
        let all: Vec<_> = model.into_iter().collect();
        prop_assert_eq!(keys.fire(Event::End), all);
        Ok(())
    }

    #[test]
    fn spent_keys_make_room_where_memory_is_short() {
        // Room for 1024 slots, and not for twice as many.
        let mut keys = Keys::within(70_000);
        let all = 768;
        for key in 0..all {
            keys.set(key, Some(if key < 368 { 1 } else { 1_000 }));
        }
        assert_eq!(keys.fire(Event::Watermark(Timestamp::from_micros(1))).len(), 368);
        for key in all..all + 300 {
            keys.set(key, Some(1_000));
        }
        assert!(!keys.0.keys.has_failed());
        assert_eq!(keys.0.keys.table.slots(), 1024);
        assert_eq!(keys.fire(Event::End).len(), 700);
    }

    #[test]
    fn the_table_does_not_grow_with_keys_that_are_spent() {
        let mut keys = Keys::new();
        for round in 0..200 {
            for key in 0..1_000 {
                keys.set(round * 1_000 + key, Some(round as i64));
            }
            let at = Timestamp::from_micros(round as i64);
            assert_eq!(keys.fire(Event::Watermark(at)).len(), 1_000);
        }
        assert_eq!(keys.0.keys.live(), 0);
        assert!(keys.0.keys.table.slots() <= 1 << 13, "{}", keys.0.keys.table.slots());
        // A table that was large becomes small.
        for key in 0..100_000 {
            keys.set(key, Some(1_000));
        }
        assert_eq!(keys.fire(Event::Watermark(Timestamp::from_micros(1_000))).len(), 100_000);
        keys.0.resume();
        assert!(keys.0.keys.table.slots() <= 1 << 15, "{}", keys.0.keys.table.slots());
        assert!(keys.0.keys.accounts.budget.bytes() < 4 << 20);
    }
}
