//! Jobs that are given far less memory than their state takes: either the result is right, and some of it
//! was on disk, or the job is refused by name. What they really allocate is counted by the allocator.

#![allow(unsafe_code, reason = "an allocator that counts what is allocated")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thalweg::config::{Config, HostConfig, Scheduler, Secret, StateBackend};
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{
    CountWindow, Early, EventTimeWindow, GlobalWindow, SessionWindow,
};
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, ErrorKind, Output, Stream};

/// Counts the bytes that are allocated, and the most that were at a time.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's doing; what is added counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: likewise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The memory is the whole process's, so one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const MIB: usize = 1 << 20;
/// The budget of each job.
const BUDGET: usize = 8 * MIB;
/// Records, and the bytes that each leaves in the state.
const RECORDS: u64 = 60_000;
const LONG: usize = 1000;
/// What may be allocated beside the budget: batches and their credit, blocks of spill files, lists that are moved as
/// they grow, and what comes before the state is weighed again: up to 18 MiB were seen, where all states come to 57.
const BESIDE: usize = 26 * MIB;

fn text(n: u64) -> String {
    format!("{n:0LONG$}")
}

/// How every scheduler meets little memory.
fn configs() -> Vec<Config> {
    let schedulers =
        [Scheduler::WorkStealing, Scheduler::ThreadPerTask, Scheduler::Deterministic { seed: 3 }];
    let cores = [2, 2, 1];
    let configs = schedulers.into_iter().zip(cores).map(|(scheduler, cores)| {
        let mut config = Config::default();
        config.scheduler = scheduler;
        config.cores = NonZeroUsize::new(cores).unwrap();
        config.keyed_tasks_per_core = NonZeroUsize::MIN;
        config.memory = BUDGET;
        config.credit = 64 << 10;
        config
    });
    configs.collect()
}

/// What a job must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Must {
    /// Give the right result, with something on disk.
    Spill,
    /// Be refused, in the operator whose name begins so.
    Refuse(&'static str),
}

#[track_caller]
fn run(name: &str, must: Must, expected: u64, job: impl Fn(&Environment) -> Output<Vec<u64>>) {
    let _alone = alone();
    for config in configs() {
        let scheduler = config.scheduler;
        let before = LIVE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let env = Environment::with_config(config);
        let out = job(&env);
        let ended = env.start().and_then(|job| job.wait());
        drop(env);
        let peak = PEAK.load(Ordering::Relaxed) - before;
        let what = format!("{name}, {scheduler:?}, {} MiB at most", peak / MIB);
        match (ended, must) {
            (Ok(stats), Must::Spill) => {
                assert_eq!(out.take().unwrap(), [expected], "{what}");
                let spilled: u64 = stats.operators.iter().map(|op| op.spilled_bytes).sum();
                assert!(spilled > BUDGET as u64, "{what}: {spilled} bytes on disk");
            }
            (Err(error), Must::Refuse(operator)) => {
                assert_eq!(error.kind(), ErrorKind::Memory, "{what}: {error}");
                assert!(
                    error.operator().unwrap_or_default().starts_with(operator),
                    "{what}: {error}"
                );
                // The message names the excess, the operators that hold it, and the ways out.
                let said = [" holds ", "`--memory` or `Config::memory` allows more"];
                assert!(said.iter().all(|said| error.message().contains(said)), "{what}: {error}");
                assert!(error.message().contains(" need"), "{what}: {error}");
            }
            (Ok(_), Must::Refuse(_)) => panic!("{what}: ended well"),
            (Err(error), Must::Spill) => panic!("{what}: {error}"),
        }
        assert!(peak <= BUDGET + BESIDE, "{what}");
    }
}

/// Numbers, shuffled over all tasks.
fn numbers(env: &Environment) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
    env.range(0..RECORDS)
}

fn timed(env: &Environment) -> Stream<impl Chain<Item = u64, Time = Timestamp> + use<>> {
    let seconds = |n: &u64| Timestamp::from_secs(*n as i64);
    env.iter(0..RECORDS).assign_timestamps(seconds, Watermarks::monotonous())
}

const ALL: u64 = RECORDS * LONG as u64;
const KEYS: u64 = 500;

fn bytes(texts: &[String]) -> u64 {
    texts.iter().map(|text| text.len() as u64).sum()
}

#[test]
fn states_by_key_go_to_disk() {
    run("fold", Must::Spill, ALL, |env| {
        let lists = numbers(env).group_by(|n| n % KEYS);
        let lists = lists.fold(Vec::new(), |all: &mut Vec<String>, n| all.push(text(n)));
        sum(lists.unkey().map(|(_, list)| bytes(&list)))
    });
    run("to_vec", Must::Spill, ALL, |env| {
        let lists = numbers(env).map(text).group_by(|text| text[LONG - 3..].to_owned());
        sum(lists.aggregate(|a| a.to_vec()).unkey().map(|(_, list)| bytes(&list)))
    });
    run("count_distinct", Must::Spill, RECORDS, |env| {
        let by = numbers(env).group_by(|n| n % KEYS);
        sum(by.aggregate(|a| a.count_distinct(|n| text(*n))).unkey().map(|(_, count)| count))
    });
    run("reduce", Must::Spill, ALL, |env| {
        let all = numbers(env).map(text).group_by(|text| text[LONG - 3..].to_owned());
        sum(all.reduce(|a, b| a + &b).unkey().map(|(_, all)| all.len() as u64))
    });
    run("stateful_map", Must::Spill, RECORDS / KEYS * (RECORDS / KEYS + 1) / 2 * KEYS, |env| {
        let lists = numbers(env).group_by(|n| n % KEYS);
        let lists = lists.stateful_map(Vec::new(), |_, all: &mut Vec<String>, n| {
            all.push(text(n));
            all.len() as u64
        });
        sum(lists.unkey().map(|(_, len)| len))
    });
}

/// Numbers whose stream has no end by the plan.
fn endless(env: &Environment) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
    env.generate(f64::INFINITY, |n| (n < RECORDS).then_some(n))
}

/// The sum of this many numbers of such a stream, which the plan knows to end: pairs end with the shorter stream.
fn sum_of_endless(
    env: &Environment,
    stream: Stream<impl Chain<Item = u64, Time = ()>>,
) -> Output<Vec<u64>> {
    sum(stream.zip(env.iter(0..RECORDS)).map(|(n, _)| n))
}

#[test]
fn states_by_key_go_to_disk_one_by_one() {
    run("stateful_map without an end", Must::Spill, RECORDS / 10 * 55, |env| {
        let lists = endless(env).group_by(|n| n / 10);
        let lists = lists.stateful_map(Vec::new(), |_, all: &mut Vec<String>, n| {
            all.push(text(n));
            all.len() as u64
        });
        sum_of_endless(env, lists.unkey().map(|(_, len)| len))
    });
    run("stateful_map_with", Must::Spill, RECORDS / 10 * 55, |env| {
        let by = numbers(env).group_by(|n| n / 10);
        let with = by.connect_after(env.iter([1u64]), 0, |all, n| *all += n);
        let lists = with.stateful_map_with(Vec::new(), |_, all: &mut Vec<String>, n, one| {
            all.push(text(n));
            all.len() as u64 * one
        });
        sum(lists.unkey().map(|(_, len)| len))
    });
    // The records of both sides come together, so that none ends before the other.
    run("symmetric joins", Must::Spill, ALL, |env| {
        let [left, right] = endless(env).split();
        let left = left.map(|n| (n / 10, text(n))).keyed();
        let right = right.filter(|n| n % 10 == 0).map(|n| (n / 10, ())).keyed();
        let joined = left.join_with(right).symmetric().inner().unkey();
        sum_of_endless(env, joined.map(|(_, (text, ()))| text.len() as u64))
    });
    run("the solution of delta_iterate", Must::Spill, ALL, |env| {
        let texts = numbers(env).map(|n| (n, text(n))).keyed();
        let body = texts.delta_iterate(
            3,
            (),
            |_, _| false,
            |changed, _| changed.unkey().filter(|(n, _)| n % 100 == 0).keyed(),
        );
        let (_, solution) = body.all_rounds();
        sum(solution.unkey().map(|(_, text)| text.len() as u64))
    });
    run("unique without an end", Must::Spill, ALL, |env| {
        sum_of_endless(env, endless(env).map(text).unique().map(|text| text.len() as u64))
    });
}

#[test]
fn orders_and_pairs_go_to_disk() {
    run("sorted", Must::Spill, ALL, |env| {
        sum(numbers(env).map(text).sorted().map(|text| text.len() as u64))
    });
    run("cross", Must::Spill, 2 * ALL, |env| {
        let pairs = env.iter(0..2u64).cross(numbers(env).map(text));
        sum(pairs.map(|(_, text)| text.len() as u64))
    });
}

#[test]
fn state_that_cannot_spill_is_refused_by_name() {
    run("fold of one key", Must::Refuse("fold ("), 0, |env| {
        let list = numbers(env).group_by(|_| ());
        let list = list.fold(Vec::new(), |all: &mut Vec<String>, n| all.push(text(n)));
        sum(list.unkey().map(|(_, list)| bytes(&list)))
    });
    run("stateful_map of one key without an end", Must::Refuse("stateful_map ("), 0, |env| {
        let lists = env.generate(f64::INFINITY, Some).group_by(|_| 0u64);
        let lists = lists.stateful_map(Vec::new(), |_, all: &mut Vec<String>, n| all.push(text(n)));
        lists.unkey().for_each(drop);
        sum(env.iter(0..1u64))
    });
    run("process of one key", Must::Refuse("process ("), 0, |env| {
        sum(timed(env).group_by(|_| 0u64).process(Keep).unkey().map(|(_, bytes)| bytes))
    });
    run("the state of connect_after", Must::Refuse("connect_after ("), 0, |env| {
        let all = |all: &mut Vec<String>, text: String| all.push(text);
        let with = env.iter([0u64]).connect_after(numbers(env).map(text), Vec::new(), all);
        sum(with.map(|(n, all)| n + all.len() as u64))
    });
    run("top", Must::Refuse("top ("), 0, |env| sum(numbers(env).map(text).top(50_000).map(|_| 1)));
}

#[test]
fn what_all_records_are_combined_into_is_refused_by_name() {
    run("fold", Must::Refuse("fold ("), 0, |env| {
        let list = numbers(env).fold(Vec::new(), |all: &mut Vec<String>, n| all.push(text(n)));
        sum(list.map(|list| bytes(&list)))
    });
    run("fold_assoc", Must::Refuse("fold_assoc ("), 0, |env| {
        let list = numbers(env).fold_assoc(
            Vec::new(),
            |all: &mut Vec<String>, n| all.push(text(n)),
            |all, more| all.extend(more),
        );
        sum(list.map(|list| bytes(&list)))
    });
    run("reduce", Must::Refuse("reduce ("), 0, |env| {
        sum(numbers(env).map(text).reduce(|a, b| a + &b).map(|all| all.len() as u64))
    });
    run("aggregate", Must::Refuse("aggregate ("), 0, |env| {
        let list = numbers(env).map(text).aggregate(|a| a.to_vec());
        sum(list.map(|list| bytes(&list)))
    });
    run("chunks", Must::Refuse("chunks ("), 0, |env| {
        sum(numbers(env).map(text).chunks(1 << 20).map(|chunk| bytes(&chunk)))
    });
    run("scan", Must::Refuse("scan ("), 0, |env| {
        sum(numbers(env).scan(Vec::new(), |all: &mut Vec<String>, n| {
            all.push(text(n));
            Some(all.len() as u64)
        }))
    });
}

#[test]
fn windows_go_to_disk() {
    let long = Duration::from_secs(RECORDS);
    run("tumbling windows", Must::Spill, ALL, |env| {
        let by = timed(env).group_by(|n| text(*n)[LONG - 3..].to_owned());
        let lists = by.window(EventTimeWindow::tumbling(long)).fold_assoc(
            Vec::new(),
            |all: &mut Vec<String>, n| all.push(text(n)),
            |all, more| all.extend(more),
        );
        sum(lists.unkey().map(|(_, pane)| bytes(&pane.value)))
    });
    // All but the records of the first and the last part of three are in three windows.
    run("sliding windows", Must::Spill, 3 * ALL, |env| {
        let windows = EventTimeWindow::sliding(long, long / 3);
        let by = timed(env).map(text).group_by(|text| text[LONG - 3..].to_owned());
        let lists = by.window(windows).aggregate(|a| a.to_vec());
        sum(lists.unkey().map(|(_, pane)| bytes(&pane.value)))
    });
    run("windows with late results", Must::Spill, ALL, |env| {
        let windows = EventTimeWindow::tumbling(long / 3).allowed_lateness(long);
        let by = timed(env).map(text).group_by(|text| text[LONG - 3..].to_owned());
        let lists = by.window(windows).aggregate(|a| a.to_vec());
        sum(lists.unkey().map(|(_, pane)| bytes(&pane.value)))
    });
    // Each key has a result in each of the three windows after every twenty records.
    run("windows with early results", Must::Spill, 2 * ALL, |env| {
        let windows = EventTimeWindow::tumbling(long / 3).early(Early::every(20));
        let by = timed(env).map(text).group_by(|text| text[LONG - 3..].to_owned());
        let lists = by.window(windows).aggregate(|a| a.to_vec());
        sum(lists.unkey().map(|(_, pane)| bytes(&pane.value)))
    });
    run("windows whose sums are subtracted", Must::Spill, 3 * RECORDS, |env| {
        let windows = EventTimeWindow::sliding(long, long / 3);
        let counts = timed(env).map(text).group_by(|text| text.clone()).window(windows).count();
        sum(counts.unkey().map(|(_, pane)| pane.value))
    });
}

#[test]
fn windows_are_refused_by_name() {
    let long = Duration::from_secs(RECORDS);
    run("a window of one key", Must::Refuse("window ("), 0, |env| {
        let by = timed(env).map(text).group_by(|_| ());
        let windows = EventTimeWindow::tumbling(long);
        sum(by.window(windows).aggregate(|a| a.to_vec()).unkey().map(|_| 1))
    });
    run("windows of arrivals of one key", Must::Refuse("window ("), 0, |env| {
        let by = numbers(env).map(text).group_by(|_| ());
        sum(by.window(CountWindow::tumbling(RECORDS)).to_vec().unkey().map(|_| 1))
    });
}

/// The same of ten records that follow one another.
fn ten(text: &str) -> String {
    text[LONG - 6..LONG - 1].to_owned()
}

#[test]
fn keys_with_timers_go_to_disk() {
    let long = Duration::from_secs(RECORDS);
    run("process", Must::Spill, ALL, |env| {
        sum(timed(env).group_by(|n| n / 10).process(Keep).unkey().map(|(_, bytes)| bytes))
    });
    run("sessions", Must::Spill, ALL, |env| {
        let by = timed(env).map(text).group_by(|text| ten(text));
        let lists = by.window(SessionWindow::new(long)).aggregate(|a| a.to_vec());
        sum(lists.unkey().map(|(_, pane)| bytes(&pane.value)))
    });
    run("windows of arrivals", Must::Spill, ALL, |env| {
        // The records of a key are ten thousand apart.
        let by = numbers(env).map(text).group_by(|text| text[LONG - 4..].to_owned());
        let lists = by.window(CountWindow::tumbling(RECORDS / 10_000)).to_vec();
        sum(lists.unkey().map(|(_, pane)| bytes(&pane.value)))
    });
    run("the window of all", Must::Spill, ALL, |env| {
        let by = numbers(env).map(text).group_by(|text| ten(text));
        let lists = by.window(GlobalWindow::new()).aggregate(|a| a.to_vec());
        sum(lists.unkey().map(|(_, pane)| bytes(&pane.value)))
    });
}

/// Keeps everything, and says at the end how many bytes that is.
struct Keep;

impl Process<u64, u64> for Keep {
    type State = Vec<String>;
    type Out = u64;
    type Side = Infallible;

    fn start(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_record(
        &self,
        _: &u64,
        state: &mut Vec<String>,
        n: u64,
        _: Timestamp,
        cx: &mut ProcessContext<'_, u64, Infallible>,
    ) {
        state.push(text(n));
        cx.set_timer(Timer::EventTime(Timestamp::from_secs(2 * RECORDS as i64)));
    }

    fn on_timer(
        &self,
        _: &u64,
        state: &mut Vec<String>,
        _: Timer,
        cx: &mut ProcessContext<'_, u64, Infallible>,
    ) {
        cx.emit(bytes(state));
        cx.clear();
    }
}

fn sum(stream: Stream<impl Chain<Item = u64>>) -> Output<Vec<u64>> {
    let total = stream.fold_assoc(0, |sum, n| *sum += n, |sum, n| *sum += n);
    total.collect()
}

/// The records of the jobs below.
const FEW: u64 = 12_000;

/// The key of two records.
fn of_two(n: u64) -> String {
    text(n % (FEW / 2))
}

fn few_timed(env: &Environment) -> Stream<impl Chain<Item = u64, Time = Timestamp> + use<>> {
    let seconds = |n: &u64| Timestamp::from_secs(*n as i64);
    env.iter(0..FEW).assign_timestamps(seconds, Watermarks::monotonous())
}

type Job = fn(&Environment) -> Output<Vec<u64>>;

/// Jobs whose keys have states, of some 6 MiB or more, and their results.
fn keyed_jobs() -> [(&'static str, u64, Job); 9] {
    [
        ("count", FEW, |env| {
            let counts = env.range(0..FEW).map(of_two).group_by(|text| text.clone()).count();
            sum(counts.unkey().map(|(_, count)| count))
        }),
        ("stateful_map", FEW / 2 * 3, |env| {
            let keyed = env.range(0..FEW).map(of_two).group_by(|text| text.clone());
            let numbered = keyed.stateful_map(0, |_, seen: &mut u64, _| {
                *seen += 1;
                *seen
            });
            sum(numbered.unkey().map(|(_, n)| n))
        }),
        ("stateful_map without an end", FEW / 2 * 3, |env| {
            let endless = env.generate(f64::INFINITY, |n| (n < FEW).then_some(of_two(n)));
            let numbered =
                endless.group_by(|text| text.clone()).stateful_map(0, |_, seen: &mut u64, _| {
                    *seen += 1;
                    *seen
                });
            sum_of_endless(env, numbered.unkey().map(|(_, n)| n))
        }),
        ("a symmetric join", FEW, |env| {
            let endless = env.generate(f64::INFINITY, |n| (n < FEW).then_some(n));
            let [left, right] = endless.split();
            let left = left.map(|n| (of_two(n), n)).keyed();
            let right = right.filter(|n| *n < FEW / 2).map(|n| (of_two(n), ())).keyed();
            let joined = left.join_with(right).symmetric().inner().unkey();
            sum_of_endless(env, joined.map(|_| 1))
        }),
        ("delta_iterate", FEW / 2, |env| {
            let lesser = |least: &mut u64, n: u64| n < std::mem::replace(least, n.min(*least));
            let numbers = env.range(0..FEW).map(|n| (of_two(n), n)).keyed();
            let (_, least) =
                numbers.delta_iterate(2, (), lesser, |changed, _| changed).all_rounds();
            sum(least.unkey().map(|_| 1))
        }),
        ("unique", FEW / 2, |env| sum(env.range(0..FEW).map(of_two).unique().map(|_| 1))),
        ("sessions", FEW, |env| {
            let by = few_timed(env).group_by(|n| of_two(*n));
            let counts = by.window(SessionWindow::new(Duration::from_secs(FEW))).count();
            sum(counts.unkey().map(|(_, pane)| pane.value))
        }),
        ("process", FEW * LONG as u64, |env| {
            sum(few_timed(env).group_by(|n| n / 2).process(Keep).unkey().map(|(_, bytes)| bytes))
        }),
        ("windows", FEW, |env| {
            let by = few_timed(env).group_by(|n| of_two(*n));
            let windows = EventTimeWindow::tumbling(Duration::from_secs(FEW));
            sum(by.window(windows).count().unkey().map(|(_, pane)| pane.value))
        }),
    ]
}

fn with_backend(state_backend: StateBackend, memory: usize) -> Environment {
    let mut config = configs().swap_remove(0);
    (config.state_backend, config.memory) = (state_backend, memory);
    Environment::with_config(config)
}

#[test]
fn state_backends_change_no_result() {
    let _alone = alone();
    for (name, expected, job) in keyed_jobs() {
        for backend in [StateBackend::MemoryThenDisk, StateBackend::Memory, StateBackend::Disk] {
            let env = with_backend(backend, 32 * MIB);
            let out = job(&env);
            let stats = env.start().unwrap().wait().unwrap();
            assert_eq!(out.take().unwrap(), [expected], "{name}, {backend}");
            let spilled: u64 = stats.operators.iter().map(|op| op.spilled_bytes).sum();
            match backend {
                StateBackend::Memory => assert_eq!(spilled, 0, "{name}"),
                StateBackend::Disk => assert!(spilled > 0, "{name}"),
                _ => {}
            }
        }
    }
}

/// The state is larger than the memory that keys have with the backend `disk`.
#[test]
fn a_large_state_has_room_with_each_state_backend() {
    let _alone = alone();
    let many = 4_000u64;
    for backend in [StateBackend::MemoryThenDisk, StateBackend::Memory, StateBackend::Disk] {
        let env = with_backend(backend, 32 * MIB);
        let one = env.range(0..many).group_by(|_| 0u64);
        let list = one.fold(Vec::new(), |all: &mut Vec<String>, n| all.push(text(n)));
        let len = sum(list.unkey().map(|(_, all)| all.len() as u64));
        let one = env.range(0..many).group_by(|_| 0u64);
        let longer = one.stateful_map(Vec::new(), |_, all: &mut Vec<String>, n| {
            all.push(text(n));
            1u64
        });
        let count = sum(longer.unkey().map(|(_, one)| one));
        env.run().unwrap();
        assert_eq!((len.take().unwrap(), count.take().unwrap()), (vec![many], vec![many]));
    }
}

#[test]
fn keys_that_must_stay_in_memory_are_refused_with_advice() {
    let _alone = alone();
    for (name, _, job) in keyed_jobs() {
        let env = with_backend(StateBackend::Memory, 2 * MIB);
        let _out = job(&env);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{name}: {error}");
        let advice = "`--state-backend memory-then-disk`, which is the default, moves them there";
        assert!(error.message().contains(advice), "{name}: {error}");
    }
}

/// A sort that costs little on disk, behind windows that cost more.
#[test]
fn a_sort_gives_way_to_windows() {
    let _alone = alone();
    // A hundred keys with many short sessions, whose results fill the sort; then many keys with long ones.
    let job = |env: &Environment| {
        let times = |n: &i64| Timestamp::from_secs(*n);
        let numbers = env.iter(0..400_000i64).assign_timestamps(times, Watermarks::monotonous());
        let key = |n: &i64| format!("key {:>30}", n % if *n < 200_000 { 100 } else { 10_000 });
        let gap = |n: &i64| Duration::from_secs(if *n < 200_000 { 10 } else { 100_000 });
        let sessions = numbers.group_by(key).window(SessionWindow::with_gap(gap)).count().unkey();
        let sessions = sessions.map(|(key, pane)| (key, pane.start.as_micros(), pane.value));
        sessions.sorted().filter(|_| true).count().collect_one()
    };
    for mut config in configs() {
        config.memory = 6 * MIB;
        let env = Environment::with_config(config);
        let out = job(&env);
        let stats = env.start().unwrap().wait().unwrap();
        assert_eq!(out.take().unwrap(), Some(210_000));
        let sorted = stats.operators.iter().find(|op| op.kind == "sorted").unwrap();
        assert!(sorted.spilled_bytes > 0);
    }
}

/// What each of two hosts returns that are threads of this process, connected by TCP, with these budgets.
fn on_two_hosts<T: Send>(
    memory: [usize; 2],
    program: impl Fn(&Environment) -> thalweg::Result<T> + Sync,
) -> [T; 2] {
    let first = format!("127.0.0.1:{}", thalweg::check::free_port());
    let (first, program) = (&first, &program);
    std::thread::scope(|scope| {
        let hosts = [0, 1].map(|id| {
            let mut config = Config::default();
            config.cores = NonZeroUsize::new(2).unwrap();
            config.memory = memory[id];
            let secret = Secret::new("the secret of two hosts with little memory");
            let host = HostConfig::new(id, 2, first.as_str(), secret);
            scope.spawn(move || program(&Environment::on_hosts(config, host)?))
        });
        hosts.map(|host| host.join().unwrap().unwrap())
    })
}

/// Texts of this many bytes that cross hosts.
const LARGE: usize = 4000;

#[test]
fn large_records_between_hosts_take_no_more_than_is_counted() {
    let _alone = alone();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let counted = on_two_hosts([BUDGET; 2], |env| {
        let large = env.range(0..60u64).flat_map(|_| (0..100).map(|n| format!("{n:0LARGE$}")));
        let large = large.shuffle();
        // Each task takes its time, so that all lanes fill.
        let lengths = large.map(|text: String| {
            std::thread::sleep(Duration::from_micros(200));
            text.len() as u64
        });
        let total = sum(lengths);
        let stats = env.start()?.wait()?;
        assert_eq!(total.take()?, [6000 * LARGE as u64]);
        Ok(stats.memory_peak as usize)
    });
    let real = PEAK.load(Ordering::Relaxed) - before;
    let counted_in_all: usize = counted.iter().sum();
    let what = format!("{real} bytes were held, and {counted:?} counted");
    assert!(counted_in_all > 200_000, "{what}");
    assert!(counted.iter().all(|counted| *counted < BUDGET / 4), "{what}");
    // The buffers of connections, threads, and what is decoded or encoded at a time.
    assert!(real < counted_in_all + 3 * MIB, "{what}");
}

#[test]
fn state_goes_to_disk_for_batches_of_large_records_between_hosts() {
    let _alone = alone();
    let spilled = on_two_hosts([4 * MIB, 2 * MIB], |env| {
        let lists = env.range(0..20_000u64).group_by(|n| n % KEYS);
        let lists = lists.fold(Vec::new(), |all: &mut Vec<String>, n| all.push(text(n)));
        let shuffled = lists.unkey().map(|(_, list)| list.concat()).shuffle();
        let total = sum(shuffled.map(|all: String| all.len() as u64));
        let stats = env.start()?.wait()?;
        assert_eq!(total.take()?, [20_000 * LONG as u64]);
        Ok(stats.operators.iter().map(|op| op.spilled_bytes).sum::<u64>())
    });
    assert!(spilled.iter().all(|spilled| *spilled > 0), "{spilled:?}");
}

#[test]
fn what_a_body_makes_for_a_head_on_another_host_waits_for_room() {
    let _alone = alone();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    on_two_hosts([BUDGET; 2], |env| {
        // A list has its head on the first host.
        let few = env.iter((0..4).map(|n| n.to_string()));
        let (_, left) = few
            .iterate(1, (), |texts, _| {
                texts.shuffle().flat_map(|_| (0..8000).map(|n| format!("{n:0LARGE$}")))
            })
            .all_rounds();
        let total = sum(left.map(|text: String| text.len() as u64));
        env.run()?;
        assert_eq!(total.take()?, [4 * 8000 * LARGE as u64]);
        Ok(())
    });
    let real = PEAK.load(Ordering::Relaxed) - before;
    // They are 128 MB.
    assert!(real < 2 * BUDGET + BESIDE, "{real} bytes were held");
}

#[test]
fn records_of_many_megabytes_are_fed_back_to_another_host() {
    let _alone = alone();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    on_two_hosts([64 * MIB; 2], |env| {
        let few = env.iter((0..8).map(|n| n.to_string()));
        let (_, left) = few
            .iterate(1, (), |texts, _| {
                texts.shuffle().flat_map(|_| (0..10).map(|_| "x".repeat(2 * MIB)))
            })
            .all_rounds();
        let total = sum(left.map(|text: String| text.len() as u64));
        env.run()?;
        assert_eq!(total.take()?, [80 * 2 * MIB as u64]);
        Ok(())
    });
    let real = PEAK.load(Ordering::Relaxed) - before;
    assert!(real < 140 * MIB, "{real} bytes were held");
}

/// The number of open files, or of threads, of this process.
#[cfg(target_os = "linux")]
fn entries(of: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{of}")).unwrap().count()
}

/// Jobs of several kinds one after the other, among them one that fails and one that is cancelled: some hundred thousand
/// records.
#[cfg(target_os = "linux")]
fn all_kinds(env: &Environment, host: usize) -> thalweg::Result<()> {
    const NUMBERS: u64 = 20_000;
    let texts = env.range(0..NUMBERS).shuffle().map(|n| format!("text {}", n % 1000));
    let counts = sum(texts.group_by(|text: &String| text.clone()).count().unkey().map(|(_, n)| n));
    let timed = env.range(0..NUMBERS).assign_timestamps(
        |n| Timestamp::from_millis(*n as i64),
        Watermarks::bounded_disorder(Duration::from_secs(NUMBERS)),
    );
    let windows = EventTimeWindow::sliding(Duration::from_secs(2), Duration::from_secs(1));
    let windows = timed.group_by(|n| n % 10).window(windows).count().unkey();
    let windows = sum(windows.map(|(_, pane)| pane.value));
    env.run()?;
    assert_eq!((counts.take()?, windows.take()?), (vec![NUMBERS], vec![2 * NUMBERS]));

    let (_, left) = env
        .range(0..NUMBERS)
        .iterate(4, (), |numbers, _| numbers.map(|n| n + 1).shuffle())
        .all_rounds();
    let left = sum(left.map(|_| 1));
    env.run()?;
    assert_eq!(left.take()?, [NUMBERS]);

    let refused = |n: u64| if n == NUMBERS - 1 { Err("the last number") } else { Ok(n) };
    env.range(0..NUMBERS).shuffle().try_map(refused).shuffle().for_each(drop);
    let error = env.run().unwrap_err();
    assert!(error.to_string().contains("the last number"), "{error}");

    env.iter(0u64..).shuffle().for_each(drop);
    let job = env.start()?;
    if host == 0 {
        std::thread::sleep(Duration::from_millis(5));
        job.cancel();
    }
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    Ok(())
}

/// The traffic of an hour at a thousand records a second, over connections that stay. `THALWEG_SOAK` sets how many rounds.
#[cfg(target_os = "linux")]
#[test]
fn hosts_keep_nothing_of_jobs_that_are_over() {
    let _alone = alone();
    let rounds = std::env::var("THALWEG_SOAK").map_or(24, |rounds| rounds.parse().unwrap()).max(2);
    let first = format!("127.0.0.1:{}", thalweg::check::free_port());
    let (turn, seen, failed) = (Barrier::new(3), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for id in 0..3 {
            let (first, turn, seen, failed) = (first.as_str(), &turn, &seen, &failed);
            scope.spawn(move || {
                let mut config = Config::default();
                config.cores = NonZeroUsize::MIN;
                let secret = Secret::new("the secret of hosts that stay");
                let env =
                    Environment::on_hosts(config, HostConfig::new(id, 3, first, secret)).unwrap();
                for _ in 0..rounds {
                    // A host that fails must not leave the others waiting.
                    let round = AssertUnwindSafe(|| all_kinds(&env, id));
                    match std::panic::catch_unwind(round) {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => failed.lock().unwrap().push(error.to_string()),
                        Err(_) => failed.lock().unwrap().push(format!("host {id} panics")),
                    }
                    turn.wait();
                    if !failed.lock().unwrap().is_empty() {
                        return;
                    }
                    if id == 0 {
                        // Threads that have ended are listed for a while.
                        std::thread::sleep(Duration::from_millis(100));
                        let live = LIVE.load(Ordering::Relaxed);
                        seen.lock().unwrap().push((live, entries("fd"), entries("task")));
                    }
                    turn.wait();
                }
            });
        }
    });
    assert_eq!(failed.into_inner().unwrap(), [""; 0]);
    let seen = seen.into_inner().unwrap();
    let half = seen.len() / 2;
    let most = |of: &[(usize, usize, usize)]| {
        let most = |part: fn(&(usize, usize, usize)) -> usize| of.iter().map(part).max().unwrap();
        (most(|seen| seen.0), most(|seen| seen.1), most(|seen| seen.2))
    };
    let (before, after) = (most(&seen[..half]), most(&seen[half..]));
    assert!(after.0 <= before.0 + MIB / 4, "memory, files and threads by round: {seen:?}");
    assert!(
        after.1 <= before.1 && after.2 <= before.2,
        "memory, files and threads by round: {seen:?}"
    );
}
