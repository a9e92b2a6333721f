use super::Calls;
use crate::check::{check, every};
use crate::config::{Config, Scheduler};
use crate::operators::time::Watermarks;
use crate::operators::window::EventTimeWindow;
use crate::time::Timestamp;
use crate::{Environment, Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);

/// Waits for as many polls as it says, and wakes itself each time.
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

/// Another thread that wakes futures, in an order of its own: of those that wait, the one that came last first.
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

    /// A future that this thread ends.
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

/// How many there are at once, and the most there ever were.
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

#[test]
fn the_end_of_a_call_lets_later_results_by_only_out_of_order() {
    // The first call waits for the second to have gone on, which an ordered map would not let it.
    every(|env| {
        let gone = Arc::new((AtomicBool::new(false), Mutex::new(None::<Waker>)));
        let (seen, by) = (Arc::clone(&gone), Arc::clone(&gone));
        let out = env
            .iter([0, 1u64])
            .map_async(Calls::in_flight(2).unordered(), move |n| {
                let gone = Arc::clone(&gone);
                poll_fn(move |cx| {
                    *gone.1.lock().unwrap() = Some(cx.waker().clone());
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
            let (at_polled, at_blocked, sleeper) = (polled.clone(), blocked.clone(), reactor.clone());
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
                .sum();
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
        // Each waits for three others.
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
    let _out = never(&env).count();
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.operator().is_some_and(|op| op.starts_with("map_async (")), "{error}");
}

#[test]
fn time_runs_for_calls_that_wait_for_a_slow_receiver_too() {
    // The receiver takes nothing, and the call must still be given up.
    let env = Environment::new();
    let calls = Calls::in_flight(2).unordered().timeout(Duration::from_millis(3));
    let out = env
        .iter(0u64..)
        .map_async(calls, |n| async move {
            if n == 5000 {
                pending::<()>().await;
            }
            n
        })
        .to_channel();
    let job = env.start().unwrap();
    let mut last = 0;
    let error = loop {
        match out.recv() {
            Ok(Some(n)) => last = last.max(n),
            Ok(None) => panic!("no end"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(last < 20_000, "{last}");
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn calls_that_fail_are_tried_again() {
    every(|env| {
        let tries = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&tries);
        let calls = Calls::in_flight(3)
            .retry(3, Duration::from_micros(10))
            .timeout(Duration::from_millis(if env.is_simulated() { 1 } else { 20 }));
        let out = env
            .iter(0..20u64)
            .try_map_async(calls, move |n| {
                let nth = if n % 5 == 0 { counter.fetch_add(1, Ordering::SeqCst) } else { 9 };
                async move {
                    match nth % 3 {
                        // Of every three attempts of these, one fails by an error and one takes too long, unless
                        // those of another record come between them.
                        0 if nth < 9 => Err("busy"),
                        1 if nth < 9 => pending().await,
                        _ => Ok(n),
                    }
                }
            })
            .collect::<Vec<_>>();
        let done = env.run();
        // Whichever attempts met, none was made more than three times.
        let tries = tries.load(Ordering::SeqCst);
        match done {
            Ok(()) => assert_eq!(out.take()?, (0..20).collect::<Vec<_>>()),
            Err(error) => assert_eq!(error.message(), "no success in 3 attempts"),
        }
        assert!((4..=12).contains(&tries), "{tries}");
        Ok(())
    });
}
