//! Calls of what is outside, and channels into the program, in jobs that go on from checkpoints.

use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};
use thalweg::check::check;
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::operators::calls::Calls;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream};

/// Waits for `left` polls, and wakes itself each time.
async fn polls(mut left: u64) {
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Takes some longer than others.
async fn doubled(n: u64) -> u64 {
    polls(n * 7 % 23).await;
    2 * n
}

/// Checks a job, of which some runs must begin with a checkpoint.
macro_rules! restored {
    ($job:expr) => {
        check($job).any_tasks().must_restore().seeds(12)
    };
}

/// Numbers at the microseconds that they are.
fn timed(
    env: &Environment,
    numbers: Range<u64>,
) -> Stream<impl Chain<Item = u64, Time = Timestamp> + use<>> {
    let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
    env.range(numbers).assign_timestamps(at, Watermarks::monotonous())
}

#[test]
fn calls_that_are_not_saved_hold_barriers_back() {
    let all = || (0..600u64).map(|n| 2 * n);
    restored!(|env: &Environment| env.iter(0..600u64).map_async(Calls::in_flight(5), doubled))
        .ordered()
        .equals(all());
    restored!(|env: &Environment| {
        let calls = Calls::in_flight(5).unordered();
        env.range(0..600).shuffle().map_async(calls, doubled)
    })
    .equals(all());
    restored!(|env: &Environment| {
        let calls = Calls::in_flight(3).unordered();
        env.range(0..600).shuffle().map_blocking(calls, |n| 2 * n)
    })
    .equals(all());
}

/// A task whose watermarks wait for other tasks while calls in front of them hold a barrier back must not say that the barrier has
/// left it: on another host, the barrier may come before the order to send it.
#[test]
fn barriers_in_front_of_watermarks_that_wait_are_not_taken_for_passed() {
    let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
    // Not for one without records: what it would get may be behind what waits.
    let aligned = || {
        let near = Watermarks::monotonous().aligned(Duration::from_micros(6));
        near.idle_after(Duration::from_millis(1))
    };
    check(|env| {
        let dealt = |task: usize, tasks: usize| (task as u64..200).step_by(tasks);
        let called = env.parallel_iter(dealt).shuffle().map_async(Calls::in_flight(3), doubled);
        called.assign_timestamps(at, aligned())
    })
    .any_tasks()
    .must_restore()
    .seeds(48)
    .equals((0..200u64).map(|n| 2 * n));
}

#[test]
fn saved_calls_are_made_again() {
    let all = || (0..600u64).map(|n| 2 * n);
    for most in [1, 4, 300] {
        restored!(move |env: &Environment| {
            env.iter(0..600u64).map_async(Calls::in_flight(most).saved(), doubled)
        })
        .ordered()
        .equals(all());
        restored!(move |env: &Environment| {
            let calls = Calls::in_flight(most).unordered().saved();
            env.range(0..600).shuffle().map_async(calls, doubled)
        })
        .equals(all());
    }
    restored!(|env: &Environment| {
        env.range(0..600).shuffle().map_async(Calls::in_flight(6).saved(), doubled)
    })
    .equals(all());
    restored!(|env: &Environment| {
        let calls = Calls::in_flight(2).saved();
        env.iter(0..600u64).map_blocking(calls, |n| 2 * n)
    })
    .ordered()
    .equals(all());
    // The records of a task keep their order.
    restored!(|env: &Environment| {
        let numbers = env.iter(0..600u64).group_by(|n| n % 5).repartition().unkey();
        let calls = Calls::in_flight(9).saved();
        let called = numbers.map_async(calls, async |(key, n)| {
            polls(n * 7 % 23).await;
            (key, n)
        });
        let in_order = called.keyed().stateful_map(0, |_, next: &mut u64, n| {
            assert_eq!(n / 5, *next);
            *next += 1;
            n
        });
        in_order.unkey().map(|(_, n)| n)
    })
    .equals(0..600u64);
}

#[test]
fn failures_and_retries_are_those_of_a_job_that_was_not_interrupted() {
    fn is_bad(n: u64) -> bool {
        n.is_multiple_of(7)
    }
    restored!(|env: &Environment| {
        let calls = Calls::in_flight(4).unordered().retry(2, Duration::from_micros(20));
        let (good, bad) =
            env.range(0..500).shuffle().try_map_async_with_side_output(calls, async |n| {
                polls(n % 9).await;
                if is_bad(n) { Err(format!("{n} is bad")) } else { Ok(2 * n) }
            });
        let bad = bad.map(|call| {
            assert_eq!((call.attempts, call.timed_out), (2, false));
            assert_eq!(call.error, format!("{} is bad", call.record));
            10_000 + call.record
        });
        good.merge(bad)
    })
    .equals((0..500).map(|n| if is_bad(n) { 10_000 + n } else { 2 * n }));
    // In order; and some calls take too long.
    restored!(|env: &Environment| {
        let calls = Calls::in_flight(5).timeout(Duration::from_micros(50));
        let (good, bad) = env.iter(0..300u64).try_map_async_with_side_output(calls, async |n| {
            if is_bad(n) {
                pending::<()>().await;
            }
            polls(n % 9).await;
            Ok::<_, String>(n)
        });
        let bad = bad.map(|call| {
            assert!(call.timed_out);
            call.record
        });
        good.stateful_map(0, |last: &mut u64, n| {
            assert!(*last <= n);
            *last = n;
            n
        })
        .merge(bad)
    })
    .equals(0..300u64);
    restored!(|env: &Environment| {
        let calls = Calls::in_flight(3).unordered();
        let (good, bad) =
            env.range(0..400).shuffle().try_map_blocking_with_side_output(calls, move |n| {
                if is_bad(n) { Err("bad") } else { Ok(n) }
            });
        good.merge(bad.map(|call| call.record))
    })
    .equals(0..400u64);
    // Each fails at first; so does one that is made again.
    restored!(|env: &Environment| {
        let tries = Arc::<Mutex<HashMap<u64, u32>>>::default();
        let calls = Calls::in_flight(4).saved().retry(3, Duration::from_micros(10));
        env.iter(0..300u64).try_map_async(calls, move |n| {
            let nth = *tries.lock().unwrap().entry(n).and_modify(|nth| *nth += 1).or_insert(1);
            async move {
                polls(n % 5).await;
                if nth % 3 == 0 { Ok(n) } else { Err("not yet") }
            }
        })
    })
    .ordered()
    .equals(0..300u64);
}

#[test]
fn no_record_is_late_behind_calls_that_are_made_again() {
    let windows = |unordered: bool, is_saved: bool| {
        move |env: &Environment| {
            let calls = Calls::in_flight(7);
            let calls = if unordered { calls.unordered() } else { calls };
            let times = timed(env, 0..900);
            let called = match is_saved {
                true => times.map_async(calls.saved(), doubled).boxed(),
                false => times.map_async(calls, doubled).boxed(),
            };
            let (counts, late) = called
                .group_by(|n| n / 2 % 3)
                .window(EventTimeWindow::tumbling(Duration::from_micros(30)))
                .late_output();
            late.for_each(|_| panic!("none is late"));
            counts.count().unkey().map(|(key, pane)| (key, pane.value))
        }
    };
    let all = || (0..90u64).map(|n| (n % 3, 10u64));
    for unordered in [false, true] {
        for is_saved in [false, true] {
            restored!(windows(unordered, is_saved)).equals(all());
        }
    }
    // Behind an exchange, and shuffled.
    restored!(|env: &Environment| {
        let calls = Calls::in_flight(7).unordered().saved();
        let called = timed(env, 0..900).shuffle().map_async(calls, doubled);
        let sums = called.window_all(EventTimeWindow::tumbling(Duration::from_micros(90)));
        sums.count().map(|pane| pane.value)
    })
    .equals(std::iter::repeat_n(90u64, 10));
    // Timestamps are assigned behind the calls.
    restored!(|env: &Environment| {
        let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
        let calls = Calls::in_flight(7).saved();
        let called = env.range(0..900).map_async(calls, doubled);
        let timed = called.assign_timestamps(at, Watermarks::monotonous());
        let (counts, late) = timed
            .group_by(|n| n % 3)
            .window(EventTimeWindow::tumbling(Duration::from_micros(60)))
            .late_output();
        late.for_each(|_| panic!("none is late"));
        counts.count().unkey().map(|(key, pane)| (key, pane.value))
    })
    .equals((0..90u64).map(|n| (n % 3, 10u64)));
}

#[test]
fn lines_of_files_with_event_time_are_called_for() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let lines: String = (0..300).map(|n| format!("{}\n", file * 300 + n)).collect();
        std::fs::write(folder.path().join(format!("{file}.txt")), lines).unwrap();
    }
    let files = || {
        let text = thalweg::io::Text::new(folder.path());
        text.split_bytes(400).block_bytes(50)
    };
    restored!(|env: &Environment| {
        let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
        let numbers = env.lines(files()).map(|line| line.parse::<u64>().unwrap());
        let called = numbers.map_async(Calls::in_flight(7).saved(), async |n| {
            polls(n * 7 % 23).await;
            n
        });
        let timed = called.assign_timestamps(at, Watermarks::monotonous());
        let windows = timed.window_all(EventTimeWindow::tumbling(Duration::from_micros(90)));
        windows.count().map(|pane| pane.value)
    })
    .equals(std::iter::repeat_n(90u64, 10));
}

#[test]
fn calls_in_the_body_of_a_loop_have_ended_between_its_rounds() {
    for is_saved in [false, true] {
        restored!(move |env: &Environment| {
            let (outcome, left) = env
                .range(0..60)
                .iterate(5, (), move |numbers, _| {
                    let calls = Calls::in_flight(4).unordered();
                    let plus_one = async |n: u64| {
                        polls(n % 7).await;
                        n + 1
                    };
                    let numbers = numbers.shuffle();
                    let called = match is_saved {
                        true => numbers.map_async(calls.saved(), plus_one).boxed(),
                        false => numbers.map_async(calls, plus_one).boxed(),
                    };
                    called.map_blocking(Calls::in_flight(2), |n| n + 1)
                })
                .all_rounds();
            outcome.for_each(drop);
            left
        })
        .equals(10..70u64);
    }
}

/// An environment with a checkpoint each millisecond, in this directory.
fn environment(dir: &Path) -> Environment {
    let mut checkpoints = CheckpointConfig::new(dir);
    checkpoints.interval = Duration::from_millis(1);
    let mut config = Config::default();
    config.checkpoints = Some(checkpoints);
    config.credit = 2000;
    Environment::with_config(config)
}

/// Waits until something is so.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never so");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The number of the newest checkpoint.
fn newest(dir: &Path) -> u64 {
    let all = CheckpointDir::open(dir).unwrap().list().unwrap();
    all.last().map_or(0, |file| file.number)
}

/// A copy of the checkpoints of an interrupted job: as one process has one job in a directory, and another one begins again.
fn next_process(dir: &Path, name: &str) -> PathBuf {
    let copy = dir.with_file_name(name);
    std::fs::create_dir(&copy).unwrap();
    for file in CheckpointDir::open(dir).unwrap().list().unwrap() {
        std::fs::copy(&file.path, copy.join(file.path.file_name().unwrap())).unwrap();
    }
    copy
}

/// More than wait for their call.
const RECORDS: u64 = 20_000;

/// A job with a call that does not return before the gate is open, which counts the calls for that record.
fn gated(
    env: &Environment,
    is_saved: bool,
    open: &Arc<AtomicBool>,
) -> (Arc<AtomicUsize>, thalweg::Output<Vec<u64>>) {
    let made = Arc::<AtomicUsize>::default();
    let (count, gate) = (Arc::clone(&made), Arc::clone(open));
    let call = move |n: u64| {
        if n == 3 {
            count.fetch_add(1, Ordering::SeqCst);
        }
        let gate = Arc::clone(&gate);
        poll_fn(move |cx| {
            let is_open = n != 3 || gate.load(Ordering::SeqCst);
            if is_open {
                return Poll::Ready(n);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    };
    let calls = Calls::in_flight(8);
    let numbers = env.iter(0..RECORDS);
    let called = match is_saved {
        true => numbers.map_async(calls.saved(), call).boxed(),
        false => numbers.map_async(calls, call).boxed(),
    };
    (made, called.collect::<Vec<_>>())
}

#[test]
fn a_barrier_passes_while_a_saved_call_is_in_flight_and_the_call_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("first");
    let open = Arc::<AtomicBool>::default();
    let env = environment(&dir);
    let (made, _out) = gated(&env, true, &open);
    let job = env.start().unwrap();
    wait_until(|| made.load(Ordering::SeqCst) == 1);
    // The barrier of the last of these was sent when the call had begun.
    let before = newest(&dir);
    wait_until(|| newest(&dir) > before + 2);
    job.cancel();
    job.wait().expect_err("it is cancelled");
    assert_eq!(made.load(Ordering::SeqCst), 1);

    let env = environment(&next_process(&dir, "second"));
    open.store(true, Ordering::SeqCst);
    let (made, out) = gated(&env, true, &open);
    env.run().unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 1);
    assert_eq!(out.take().unwrap(), (0..RECORDS).collect::<Vec<_>>());
}

#[test]
fn a_barrier_waits_for_a_call_that_is_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("first");
    let open = Arc::<AtomicBool>::default();
    let env = environment(&dir);
    let (made, out) = gated(&env, false, &open);
    let job = env.start().unwrap();
    wait_until(|| made.load(Ordering::SeqCst) == 1);
    std::thread::sleep(Duration::from_millis(100));
    let before = newest(&dir);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(newest(&dir), before);
    open.store(true, Ordering::SeqCst);
    job.wait().unwrap();
    assert_eq!(out.take().unwrap(), (0..RECORDS).collect::<Vec<_>>());
}

#[test]
fn the_last_checkpoint_of_a_suspended_job_waits_for_all_calls() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("first");
    let (open, shut) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let env = environment(&dir);
    let (made, _out) = gated(&env, true, &open);
    let job = env.start().unwrap();
    wait_until(|| made.load(Ordering::SeqCst) == 1);
    job.suspend().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!job.is_over());
    open.store(true, Ordering::SeqCst);
    let error = job.wait().unwrap_err();
    assert_eq!(error.kind(), thalweg::ErrorKind::Suspended);

    let env = environment(&next_process(&dir, "second"));
    // The call is not made again, so nothing waits.
    let (made, out) = gated(&env, true, &shut);
    env.run().unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 0);
    assert_eq!(out.take().unwrap(), (0..RECORDS).collect::<Vec<_>>());
}

/// Why a job is not restored, whose calls were in flight, with another number of tasks.
fn at_other_tasks(
    calls: impl Fn() -> Calls<thalweg::operators::calls::Saved>,
) -> Result<usize, thalweg::Error> {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("first");
    let job = |env: &Environment, tasks: usize, open: bool| {
        let made = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&made);
        let numbers = env.range(0..u64::MAX).shuffle().parallelism(tasks);
        let called = numbers.map_async(calls(), move |n| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                if !open {
                    pending::<()>().await;
                }
                n
            }
        });
        (made, called.name("calls").limit(40).count().collect_one())
    };
    let env = environment(&dir);
    let (made, _out) = job(&env, 2, false);
    let running = env.start()?;
    wait_until(|| made.load(Ordering::SeqCst) == 6);
    let before = newest(&dir);
    wait_until(|| newest(&dir) > before + 2);
    running.cancel();
    running.wait().expect_err("it is cancelled");

    let env = environment(&next_process(&dir, "second"));
    let (_, out) = job(&env, 3, true);
    env.run()?;
    out.take().map(|count| count.unwrap() as usize)
}

#[test]
fn order_is_kept_with_as_many_tasks_only() {
    let calls = || Calls::in_flight(6).saved();
    assert_eq!(at_other_tasks(|| calls().unordered()).unwrap(), 40);
    let error = at_other_tasks(calls).unwrap_err();
    assert_eq!(error.kind(), thalweg::ErrorKind::Config);
    assert!(error.message().contains("there must be as many, and there are 3"), "{error}");
    assert!(error.operator().is_some_and(|op| op.starts_with("calls (")), "{error}");
}

#[test]
fn the_program_receives_again_what_it_had_not_processed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("first");
    let env = environment(&dir);
    let mut numbers = env.iter(0..u64::MAX).to_channel();
    let job = env.start().unwrap();
    // It reads some, and no checkpoint has what it has not read.
    for n in 0..100 {
        assert_eq!(numbers.recv().unwrap(), Some(n));
    }
    std::thread::sleep(Duration::from_millis(100));
    let before = newest(&dir);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(newest(&dir), before);
    let mut read = 100;
    while newest(&dir) <= before + 2 {
        for _ in 0..100 {
            assert_eq!(numbers.recv().unwrap(), Some(read));
            read += 1;
        }
    }
    job.cancel();
    job.wait().expect_err("it is cancelled");
    drop(numbers);

    let env = environment(&next_process(&dir, "second"));
    let mut numbers = env.iter(0..u64::MAX).to_channel();
    let job = env.start().unwrap();
    let first = numbers.recv().unwrap().unwrap();
    assert!(0 < first && first <= read, "{first} of {read}");
    for n in first + 1..first + 100_000 {
        assert_eq!(numbers.recv().unwrap(), Some(n));
    }
    drop(numbers);
    job.wait().unwrap();
}

#[test]
fn a_job_with_checkpoints_ends_when_the_program_asks_for_more_than_the_last_record() {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(folder.path());
    let mut numbers = env.range(0..1000).to_channel();
    let job = env.start().unwrap();
    let sum: u64 = (0..1000).map(|_| numbers.recv().unwrap().unwrap()).sum();
    assert_eq!(sum, 999 * 500);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!job.is_over());
    assert_eq!(numbers.recv().unwrap(), None);
    job.wait().unwrap();
}
