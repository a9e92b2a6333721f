//! Calls under every scheduler: their order, their bound, failures, and the events that wait for them.

use super::Calls;
use crate::check::{check, every};
use crate::config::{Config, Scheduler};
use crate::operators::time::Watermarks;
use crate::operators::window::EventTimeWindow;
use crate::time::Timestamp;
use crate::{Environment, Error, ErrorKind, Result};
use std::cell::Cell;
use std::collections::HashMap;
use std::future::{Future, pending, poll_fn, ready};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

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

/// Another thread that wakes futures, in an order of its own: of those that wait, the newest first.
#[derive(Clone)]
struct Reactor(mpsc::Sender<Arc<Slept>>);

struct Slept {
    over: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Reactor {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel::<Arc<Slept>>();
        thread::spawn(move || {
            while let Ok(first) = receiver.recv() {
                let mut all = vec![first];
                all.extend(receiver.try_iter());
                while let Some(slept) = all.pop() {
                    slept.over.store(true, Ordering::Release);
                    if let Some(waker) = slept.waker.lock().unwrap().take() {
                        waker.wake();
                    }
                }
            }
        });
        Self(sender)
    }

    /// A future that this thread completes.
    fn sleep(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut slept = None;
        let sender = self.0.clone();
        poll_fn(move |cx| {
            let slept = slept.get_or_insert_with(|| {
                let waker = Mutex::new(Some(cx.waker().clone()));
                let slept = Arc::new(Slept { over: AtomicBool::new(false), waker });
                sender.send(Arc::clone(&slept)).unwrap();
                slept
            });
            if slept.over.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
    }
}

/// The current number, and the greatest there ever was.
#[derive(Clone, Default)]
struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

struct Counted(Gauge);

impl Gauge {
    fn enter(&self) -> Counted {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        Counted(self.clone())
    }

    fn now(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn results_keep_the_order_of_their_records() {
    for most in [1, 3, 5000] {
        check(move |env| {
            env.iter(0..3000u64).map_async(Calls::in_flight(most), |n| async move {
                polls(n * 7 % 5).await;
                n * 2
            })
        })
        .ordered()
        .equals((0..3000u64).map(|n| n * 2));
    }
}

#[test]
fn another_thread_may_end_calls_in_any_order() {
    let reactor = Reactor::new();
    let job = |ordered: bool| {
        let reactor = reactor.clone();
        move |env: &Environment| {
            let reactor = reactor.clone();
            let calls = Calls::in_flight(10);
            let calls = if ordered { calls.ordered() } else { calls.unordered() };
            env.iter(0..500u64).map_async(calls, move |n| {
                let slept = reactor.sleep();
                async move {
                    slept.await;
                    n
                }
            })
        }
    };
    check(job(true)).ordered().equals(0..500u64);
    check(job(false)).equals(0..500u64);
}

/// Each partition is in the order of event time for itself, and they are far apart.
#[test]
fn results_get_the_event_time_of_their_partition() {
    let folder = tempfile::tempdir().unwrap();
    let files = [0, 1_000_000].map(|begin| {
        let path = folder.path().join(format!("{begin}.txt"));
        let lines: String = (begin..begin + 300).map(|n| format!("{n}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        path
    });
    every(|env| {
        let calls = Calls::in_flight(8).unordered();
        let numbers = env.lines(files.clone()).map(|line| line.parse::<i64>().unwrap());
        let called = numbers.map_async(calls, |n| async move {
            polls(if n % 100 == 99 { 50 } else { 0 }).await;
            n
        });
        let at = |n: &i64| Timestamp::from_micros(*n);
        let timed = called.assign_timestamps(at, Watermarks::monotonous());
        let window = EventTimeWindow::tumbling(Duration::from_micros(10));
        let counts = timed.window_all(window).count().map(|pane| pane.value);
        let sum = counts.sum(|n| *n).collect_one();
        let stats = env.start()?.wait()?;
        assert_eq!(stats.operators.iter().map(|op| op.late_records).sum::<u64>(), 0);
        assert_eq!(sum.take()?, Some(600));
        Ok(())
    });
}

#[test]
fn the_end_of_a_call_lets_later_results_by_only_out_of_order() {
    // The first call waits until the second has been emitted, which an ordered map would not allow.
    every(|env| {
        let gone = Arc::new((AtomicBool::new(false), Mutex::new(None::<Waker>)));
        let (seen, by) = (Arc::clone(&gone), Arc::clone(&gone));
        let out = env
            .iter([0, 1u64])
            .map_async(Calls::in_flight(2).unordered(), move |n| {
                let gone = Arc::clone(&gone);
                poll_fn(move |cx| {
                    if n == 0 {
                        *gone.1.lock().unwrap() = Some(cx.waker().clone());
                    }
                    let over = n == 1 || gone.0.load(Ordering::SeqCst);
                    if over { Poll::Ready(n) } else { Poll::Pending }
                })
            })
            .inspect(move |n| {
                if *n == 1 {
                    seen.0.store(true, Ordering::SeqCst);
                    by.1.lock().unwrap().take().unwrap().wake();
                }
            })
            .collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?, [1, 0]);
        Ok(())
    });
}

#[test]
fn no_more_calls_are_in_flight_than_may_be() {
    let reactor = Reactor::new();
    for most in [1, 4] {
        every(|env| {
            let (polled, blocked) = (Gauge::default(), Gauge::default());
            let (at_polled, at_blocked, sleeper) =
                (polled.clone(), blocked.clone(), reactor.clone());
            let out = env
                .range(0..300)
                .shuffle()
                .map_async(Calls::in_flight(most).unordered(), move |n| {
                    let counted = at_polled.enter();
                    let slept = sleeper.sleep();
                    async move {
                        slept.await;
                        drop(counted);
                        n
                    }
                })
                .map_blocking(Calls::in_flight(most), move |n| {
                    let _counted = at_blocked.enter();
                    thread::yield_now();
                    n
                })
                .sum(|n| *n);
            let out = out.collect::<Vec<_>>();
            env.run()?;
            assert_eq!(out.take()?, [300 * 299 / 2]);
            assert!((1..=most).contains(&polled.most()), "{} of {most}", polled.most());
            assert!((1..=most).contains(&blocked.most()), "{} of {most}", blocked.most());
            Ok(())
        });
    }
}

#[test]
fn as_many_blocking_calls_run_at_once_as_may() {
    for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
        let env = Environment::with_config(Config { scheduler, ..Config::default() });
        // Each call waits for three others.
        let together = Barrier::new(4);
        let out = env
            .iter(0..40u64)
            .map_blocking(Calls::in_flight(4), move |n| {
                together.wait();
                n
            })
            .collect::<Vec<_>>();
        env.run().unwrap();
        assert_eq!(out.take().unwrap(), (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn blocking_calls_keep_order_or_not() {
    let slow = |n: u64| {
        if n.is_multiple_of(50) {
            thread::sleep(Duration::from_millis(1));
        }
        n
    };
    check(move |env| env.iter(0..400u64).map_blocking(Calls::in_flight(3), slow))
        .ordered()
        .equals(0..400u64);
    check(move |env| {
        let calls = Calls::in_flight(3).unordered();
        env.range(0..400).shuffle().map_blocking(calls, slow).group_by(|n| n % 2).count()
    })
    .equals([(0, 200), (1, 200)]);
}

#[test]
fn a_call_that_never_wakes_takes_too_long() {
    let never = |env: &Environment| {
        let calls = Calls::in_flight(2).timeout(Duration::from_millis(3));
        env.iter(0..10u64).map_async(calls, |n| async move {
            if n == 7 {
                pending::<()>().await;
            }
            n
        })
    };
    check(never).fails_with("a call took longer than 3ms");
    let env = Environment::new();
    let _out = never(&env).count().collect_one();
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.operator().is_some_and(|op| op.starts_with("map_async (")), "{error}");
}

#[test]
fn time_runs_while_a_receiver_is_slow_too() {
    // Nothing is received from the channel, which is full long before the call times out.
    let env = Environment::with_config(Config { credit: 100, ..Config::default() });
    let calls = Calls::in_flight(2).unordered().timeout(Duration::from_millis(100));
    let out = env
        .iter(0u64..)
        .map_async(calls, |n| async move {
            if n == 0 {
                pending::<()>().await;
            }
            n
        })
        .to_channel();
    let error = env.start().unwrap().wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(out);
}

/// Fails twice for every fifth record: by an error, then by never returning.
fn moody(
    n: u64,
    tries: &Mutex<HashMap<u64, u32>>,
) -> impl Future<Output = Result<u64, &'static str>> + use<> {
    let mut tries = tries.lock().unwrap();
    let nth = tries.entry(n).or_default();
    *nth += 1;
    let nth = *nth;
    async move {
        match nth {
            1 if n.is_multiple_of(5) => Err("busy"),
            2 if n.is_multiple_of(5) => pending().await,
            _ => Ok(n * 2),
        }
    }
}

#[test]
fn calls_that_fail_are_tried_again() {
    every(|env| {
        let tries = Arc::<Mutex<HashMap<_, _>>>::default();
        let counter = Arc::clone(&tries);
        let calls = Calls::in_flight(3).timeout(Duration::from_millis(2));
        let out = env
            .iter(0..20u64)
            .try_map_async(calls.retry(3, Duration::from_micros(10)), move |n| moody(n, &counter))
            .collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?, (0..20).map(|n| n * 2).collect::<Vec<_>>());
        let tries = tries.lock().unwrap();
        assert!(
            tries.iter().all(|(n, tries)| *tries == if n % 5 == 0 { 3 } else { 1 }),
            "{tries:?}"
        );
        Ok(())
    });
}

#[test]
fn the_last_attempt_decides() {
    let moods = |attempts: u32| {
        move |env: &Environment| {
            let tries = Mutex::default();
            let calls = Calls::in_flight(3).timeout(Duration::from_millis(2));
            env.iter(0..20u64)
                .try_map_async(calls.retry(attempts, Duration::ZERO), move |n| moody(n, &tries))
        }
    };
    check(moods(1)).fails_with(": busy");
    check(moods(2)).fails_with("no success in 2 attempts: a call took longer than 2ms");
    check(moods(3)).ordered().equals((0..20u64).map(|n| n * 2));
}

#[test]
fn an_error_of_the_engines_keeps_its_kind() {
    let env = Environment::new();
    let calls = Calls::in_flight(1).retry(2, Duration::ZERO);
    let fails = env.iter(0..9u64).try_map_blocking(calls, |n| match n {
        5 => Err(Error::new(ErrorKind::Io, "torn")),
        n => Ok(n),
    });
    let _out = fails.count().collect_one();
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let text = error.to_string();
    assert!(text.starts_with("try_map_blocking ("), "{text}");
    assert!(text.ends_with("no success in 2 attempts: torn"), "{text}");
}

#[test]
fn failed_calls_go_to_the_side_output_and_the_job_goes_on() {
    every(|env| {
        let tries = Mutex::default();
        let calls = Calls::in_flight(3).timeout(Duration::from_millis(2));
        let (done, failed) = env
            .iter(0..40u64)
            .try_map_async_with_side_output(calls.retry(2, Duration::ZERO), move |n| {
                moody(n, &tries)
            });
        let calls = Calls::in_flight(2).unordered();
        let (halves, odd) =
            done.shuffle().try_map_blocking_with_side_output(calls, |n| match n % 4 {
                0 => Ok(n / 4),
                n => Err(n),
            });
        let (halves, odd) = (halves.sorted().collect::<Vec<_>>(), odd.collect::<Vec<_>>());
        let failed = failed.collect::<Vec<_>>();
        env.run()?;
        let well = (0..40).filter(|n| n % 5 != 0);
        assert_eq!(
            halves.take()?,
            well.clone().filter(|n| n % 2 == 0).map(|n| n / 2).collect::<Vec<_>>()
        );
        let mut odd: Vec<_> =
            odd.take()?.into_iter().map(|call| (call.record, call.error)).collect();
        odd.sort();
        let expected = well.filter(|n| n % 2 == 1).map(|n| (n * 2, "2".to_owned()));
        assert_eq!(odd, expected.collect::<Vec<_>>());
        let failed = failed.take()?;
        let took = "a call took longer than 2ms";
        assert_eq!(
            failed.iter().map(|call| call.record).collect::<Vec<_>>(),
            [0, 5, 10, 15, 20, 25, 30, 35]
        );
        assert!(failed.iter().all(|c| c.attempts == 2 && c.timed_out && c.error == took));
        Ok(())
    });
}

#[test]
fn panics_are_the_operators() {
    let calls = || Calls::in_flight(2);
    check(move |env| {
        env.iter(0..9i32).map_async(calls(), |n| {
            assert!(n < 5, "too much to begin");
            ready(n)
        })
    })
    .fails_with("panicked: too much to begin");
    check(move |env| {
        env.iter(0..9i32).map_async(calls(), |n| async move {
            polls(2).await;
            10 / (n - 5)
        })
    })
    .fails_with("panicked: attempt to divide by zero");
    check(move |env| env.iter(0..9i32).map_blocking(calls(), |n| 10 / (n - 5)))
        .fails_with("panicked: attempt to divide by zero");
    let env = Environment::new();
    let _out = env.iter(0..9i32).map_blocking(calls(), |n| 10 / (n - 5)).count().collect_one();
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert!(error.operator().is_some_and(|op| op.starts_with("map_blocking (")), "{error}");
}

#[test]
fn a_cancelled_job_drops_its_futures() {
    for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
        let env = Environment::with_config(Config { scheduler, ..Config::default() });
        let (gauge, (begun, begins)) = (Gauge::default(), mpsc::sync_channel(100));
        let at = gauge.clone();
        let never = env.iter(0u64..).map_async(Calls::in_flight(7), move |_| {
            let counted = at.enter();
            begun.send(()).unwrap();
            async move {
                let _counted = counted;
                pending::<u64>().await
            }
        });
        never.for_each(drop);
        let job = env.start().unwrap();
        begins.iter().take(7).for_each(drop);
        assert_eq!(gauge.now(), 7);
        job.cancel();
        assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!((gauge.now(), gauge.most()), (0, 7));
    }
}

#[test]
fn a_cancelled_job_does_not_wait_for_calls_that_block() {
    let env = Environment::new();
    let (begun, begins) = mpsc::sync_channel(100);
    let (go, goes) = mpsc::channel::<()>();
    let (goes, gauge) = (Mutex::new(goes), Gauge::default());
    let at = gauge.clone();
    let blocked = env.iter(0u64..).map_blocking(Calls::in_flight(2), move |n| {
        let _counted = at.enter();
        begun.send(()).unwrap();
        let _ = goes.lock().unwrap().recv();
        n
    });
    blocked.for_each(drop);
    let job = env.start().unwrap();
    begins.iter().take(2).for_each(drop);
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(gauge.now(), 2);
    // The threads end with their calls, and begin no others.
    drop(go);
    assert_eq!(begins.iter().count(), 0);
    assert_eq!(gauge.most(), 2);
}

#[test]
fn threads_are_gone_when_a_job_has_ended() {
    every(|env| {
        let held = Arc::new(());
        let holds = Arc::clone(&held);
        let out = env.range(0..100).shuffle().map_blocking(Calls::in_flight(3), move |n| {
            let _holds = &holds;
            n
        });
        let out = out.count().collect_one();
        env.run()?;
        assert_eq!(out.take()?.unwrap(), 100);
        assert_eq!(Arc::strong_count(&held), 1);
        Ok(())
    });
}

#[test]
fn a_closed_receiver_ends_calls_in_flight() {
    every(|env| {
        let calls = Calls::in_flight(50);
        let out = env
            .iter(0u64..)
            .map_async(calls, |n| async move {
                if n > 20 {
                    pending::<()>().await;
                }
                n
            })
            .limit(5)
            .collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?, [0, 1, 2, 3, 4]);
        Ok(())
    });
}

#[test]
fn no_record_is_late_behind_calls_that_take_their_time() {
    let reactor = Reactor::new();
    every(|env| {
        let (sleeper, records) = (reactor.clone(), 4000_u64);
        let counts = env
            .iter(0..records)
            .assign_timestamps(|n| Timestamp::from_micros(*n as i64), Watermarks::monotonous())
            .shuffle()
            .map_async(Calls::in_flight(20).unordered(), move |n| {
                let slept = (n % 7 == 0).then(|| sleeper.sleep());
                async move {
                    if let Some(slept) = slept {
                        slept.await;
                    }
                    n
                }
            })
            .map_blocking(Calls::in_flight(2), |n| n)
            .group_by(|n| n % 3)
            .window(EventTimeWindow::tumbling(Duration::from_micros(30)))
            .count()
            .unkey()
            .map(|(_, pane)| pane.value);
        let out = counts.collect::<Vec<u64>>();
        let stats = env.start()?.wait()?;
        assert_eq!(stats.operators.iter().map(|op| op.late_records).sum::<u64>(), 0);
        let counts = out.take()?;
        // Windows of ten records per key, and an incomplete one at the end.
        assert_eq!(counts.iter().sum::<u64>(), records);
        assert_eq!(counts.iter().filter(|count| **count == 10).count(), records as usize / 30 * 3);
        Ok(())
    });
}

#[test]
fn windows_go_on_while_calls_do() {
    // A window is emitted although nothing follows: the watermark has waited for its calls and no longer.
    let env = Environment::new();
    let (numbers, stream) = env.channel(100);
    let (go, goes) = mpsc::channel::<()>();
    let goes = Mutex::new(goes);
    let mut windows = stream
        .assign_timestamps(|n| Timestamp::from_secs(*n), Watermarks::monotonous())
        .map_blocking(Calls::in_flight(2).unordered(), move |n: i64| {
            if n == 3 {
                goes.lock().unwrap().recv().unwrap();
            }
            n
        })
        .group_by(|_| ())
        .window(EventTimeWindow::tumbling(Duration::from_secs(10)))
        .count()
        .unkey()
        .map(|(_, pane)| pane.value)
        .to_channel();
    let job = env.start().unwrap();
    for n in [1, 2, 3, 4, 11, 12, 21] {
        numbers.send(n).unwrap();
    }
    assert!(windows.recv_timeout(Duration::from_millis(20)).unwrap().is_none());
    go.send(()).unwrap();
    assert_eq!(windows.recv().unwrap(), Some(4));
    assert_eq!(windows.recv().unwrap(), Some(2));
    drop(numbers);
    assert_eq!(windows.recv().unwrap(), Some(1));
    assert_eq!(windows.recv().unwrap(), None);
    job.wait().unwrap();
}

#[test]
fn a_round_of_a_loop_waits_for_its_calls() {
    let reactor = Reactor::new();
    every(|env| {
        let sleeper = reactor.clone();
        let (outcome, left) = env
            .range(0..100)
            .iterate(5, 0, move |numbers, _| {
                let calls = || Calls::in_flight(8).unordered();
                numbers
                    .shuffle()
                    .map_async(calls(), move |n| {
                        let slept = sleeper.sleep();
                        async move {
                            slept.await;
                            n + 1
                        }
                    })
                    .map_blocking(calls(), |n| n + 1)
            })
            .fold(|sum: &mut u64, n| *sum += n, |sum, other| *sum += other)
            .all_rounds(|all, sum| *all += sum);
        let (out, left) = (outcome.collect::<Vec<_>>(), left.sorted().collect::<Vec<_>>());
        env.run()?;
        let outcome = out.take()?.pop().unwrap();
        let expected =
            (1..=5).map(|round| (0..100).map(|n| n + 2 * round).sum::<u64>()).sum::<u64>();
        assert_eq!((outcome.state, outcome.rounds), (expected, 5));
        assert_eq!(left.take()?, (10..110).collect::<Vec<_>>());
        Ok(())
    });
}

#[test]
fn a_barrier_waits_for_the_calls_before_it() {
    let env = Environment::new();
    let reactor = Reactor::new();
    let (begun, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (begins, ends) = (Arc::clone(&begun), Arc::clone(&done));
    env.generate(1e6, Some)
        .inspect(move |_| _ = begins.fetch_add(1, Ordering::SeqCst))
        .map_async(Calls::in_flight(4).unordered(), move |_| reactor.sleep())
        .for_each(move |()| _ = ends.fetch_add(1, Ordering::SeqCst));
    let job = env.start().unwrap();
    for _ in 0..5 {
        let begun = begun.load(Ordering::SeqCst);
        job.barrier().unwrap();
        assert!(done.load(Ordering::SeqCst) >= begun);
    }
    job.drain();
    job.wait().unwrap();
    assert_eq!(done.load(Ordering::SeqCst), begun.load(Ordering::SeqCst));
}

#[test]
fn futures_are_polled_within_what_is_around_them() {
    thread_local! {
        static WITHIN: Cell<bool> = const { Cell::new(false) };
    }
    check(|env| {
        let calls = Calls::in_flight(3).around(|poll| {
            WITHIN.set(true);
            poll();
            WITHIN.set(false);
        });
        env.iter(0..100u64).shuffle().map_async(calls, |n| async move {
            let first = WITHIN.get();
            polls(2).await;
            (n, first && WITHIN.get())
        })
    })
    .equals((0..100).map(|n| (n, true)));
    check(|env| env.iter(0..9u64).map_async(Calls::in_flight(3).around(|_| {}), ready))
        .fails_with("`around` must call its argument");
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |calls: Calls, why: &str| {
        let env = Environment::new();
        env.iter(0..9u64).map_blocking(calls, |n| n).for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Plan, why));
        assert!(error.operator().is_some_and(|op| op.starts_with("map_blocking (")));
    };
    refused(Calls::in_flight(0), "at most 0 calls in flight are none at all");
    let never = Calls::in_flight(1).timeout(Duration::ZERO);
    refused(never, "a call that may take no time always takes too long");
    let polled = Calls::in_flight(1).around(|poll| poll());
    refused(polled, "a blocking call is not polled: `around` is for asynchronous ones");
    let env = Environment::new();
    let calls = Calls::in_flight(1).retry(0, Duration::ZERO);
    env.iter(0..9u64).map_async(calls, ready).for_each(drop);
    assert_eq!(env.run().unwrap_err().message(), "0 attempts are none at all");
}

#[test]
fn calls_in_flight_are_counted() {
    let env = Environment::new();
    let (begun, begins) = mpsc::sync_channel(100);
    let never = env.iter(0..5u64).map_async(Calls::in_flight(3), move |n| {
        begun.send(()).unwrap();
        async move {
            if n > 1 {
                pending::<()>().await;
            }
        }
    });
    never.for_each(drop);
    let job = env.start().unwrap();
    begins.iter().take(5).for_each(drop);
    let stats = job.stats();
    let calls = stats.operators.iter().find(|op| op.kind == "map_async").unwrap();
    assert_eq!((calls.records_in, calls.records_out, calls.in_flight), (Some(5), Some(2), 3));
    assert!(stats.to_string().contains("3 in flight"), "{stats}");
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn tokio_drives_what_is_polled_within_it() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let tokio = builder.worker_threads(1).enable_time().build().unwrap();
    for scheduler in [Scheduler::WorkStealing, Scheduler::Deterministic { seed: 1 }] {
        let env = Environment::with_config(Config { scheduler, ..Config::default() });
        let (within, spawner) = (tokio.handle().clone(), tokio.handle().clone());
        let calls = Calls::in_flight(50).unordered().around(move |poll| {
            let _within = within.enter();
            poll();
        });
        let sum = env
            .range(0..500)
            .shuffle()
            .map_async(calls, |n| async move {
                tokio::time::sleep(Duration::from_micros(n * 13 % 700)).await;
                n
            })
            .map_async(Calls::in_flight(50), move |n| {
                let spawned = spawner.spawn(async move {
                    tokio::time::sleep(Duration::from_micros(n * 7 % 700)).await;
                    n
                });
                async move { spawned.await.expect("it does not panic") }
            })
            .sum(|n| *n);
        let sum = sum.collect::<Vec<_>>();
        env.run().unwrap();
        assert_eq!(sum.take().unwrap(), [500 * 499 / 2]);
    }
}

/// A stream that is not idle any more holds event time back while its first call is under way.
#[test]
fn results_of_a_call_that_began_after_a_pause_are_not_late() {
    for calls in [Calls::in_flight(10).unordered(), Calls::in_flight(10).ordered()] {
        let (open, waiting) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let mut config =
            Config { scheduler: Scheduler::Deterministic { seed: 1 }, ..Config::default() };
        config.cores = 1.try_into().unwrap();
        let env = Environment::with_config(config);
        let timed = |keep: fn(&u64) -> bool| {
            let watermarks = Watermarks::monotonous().idle_after(Duration::from_millis(200));
            let seconds = env.generate(1.0, |n| (n < 40).then_some(n)).filter(keep);
            seconds.assign_timestamps(|n| Timestamp::from_secs(*n as i64), watermarks)
        };
        let (is_open, waits) = (Arc::clone(&open), Arc::clone(&waiting));
        let paused = timed(|n| *n < 2 || *n >= 30).map_async(calls, move |n| {
            let (open, waiting) = (Arc::clone(&is_open), Arc::clone(&waits));
            poll_fn(move |cx| {
                if n < 30 || open.load(Ordering::SeqCst) {
                    return Poll::Ready(n);
                }
                waiting.lock().unwrap().push(cx.waker().clone());
                Poll::Pending
            })
        });
        let steady = timed(|_| true).map(move |n| {
            if n == 35 {
                open.store(true, Ordering::SeqCst);
                waiting.lock().unwrap().drain(..).for_each(Waker::wake);
            }
            n
        });
        let windows = paused.merge(steady).group_by(|_| ());
        let counts = windows.window(EventTimeWindow::tumbling(Duration::from_secs(1))).count();
        let counts = counts.unkey().map(|(_, pane)| pane.value).to_channel();
        let stats = env.start().unwrap().wait().unwrap();
        let late: u64 = stats.operators.iter().map(|op| op.late_records).sum();
        assert_eq!((counts.map(|count| count.unwrap()).sum::<u64>(), late), (40 + 12, 0));
    }
}
