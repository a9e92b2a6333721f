//! What a job on several hosts writes, hands to the programs, keeps for further jobs and counts.

use std::collections::HashMap;
use std::fs;
use std::future::poll_fn;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use thalweg::check::every_host;
use thalweg::operators::calls::Calls;
use thalweg::plan::Placement;
use thalweg::{Environment, ErrorKind, Result};

/// Runs the test on one host, and on each of several; some runs must be of several.
fn on_hosts(test: impl Fn(&Environment, usize) -> Result<()> + Sync) {
    let hosts = Mutex::new(HashMap::<usize, usize>::new());
    every_host(|env, run| {
        *hosts.lock().unwrap().entry(run).or_default() += 1;
        test(env, run)
    });
    if std::env::var_os("THALWEG_CHECK").is_none() {
        assert!(hosts.lock().unwrap().values().any(|hosts| *hosts == 3));
    }
}

/// What the hosts of each run share.
struct ByRun<T>(Mutex<HashMap<usize, Arc<T>>>);

impl<T: Default> ByRun<T> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn of(&self, run: usize) -> Arc<T> {
        Arc::clone(self.0.lock().unwrap().entry(run).or_default())
    }
}

/// Everything in a directory, hidden or not.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

#[test]
fn files_of_all_hosts_are_there_when_the_job_is_over_on_any() {
    let temp = tempfile::tempdir().unwrap();
    on_hosts(|env, run| {
        let path = |name: &str| temp.path().join(format!("{run}-{name}"));
        env.iter(0..500u64).shuffle().write_lines(path("one"));
        let written = env.iter(0..500u64).shuffle();
        written.write_lines_parallel(path("parts"));
        let tasks = env.plan().stages.iter().map(|stage| stage.tasks).max().unwrap();
        env.run()?;
        let parts: Vec<_> = (0..tasks).map(|task| format!("part-{task:05}.txt")).collect();
        assert_eq!(names(&path("parts")), parts);
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let numbers = |text: &str| text.lines().map(|line| line.parse().unwrap()).collect();
        let all: Vec<u64> =
            parts.iter().flat_map(|part| numbers(&read(&path("parts").join(part)))).collect();
        assert!(sorted(all).into_iter().eq(0..500));
        assert!(sorted::<u64>(numbers(&read(&path("one")))).into_iter().eq(0..500));
        Ok(())
    });
}

#[test]
fn a_job_that_fails_on_one_host_leaves_no_file_on_any() {
    let temp = tempfile::tempdir().unwrap();
    on_hosts(|env, run| {
        let path = |name: &str| temp.path().join(format!("{run}-{name}"));
        let numbers = env.iter(0..500i32).shuffle();
        let [some, all] = numbers.split();
        some.map(|n| 10 / (n - 400)).write_lines_parallel(path("some"));
        all.write_lines(path("all"));
        assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Panic);
        Ok(())
    });
    assert_eq!(names(temp.path()), [""; 0]);
}

#[test]
fn a_host_that_cannot_publish_keeps_all_from_publishing() {
    let temp = tempfile::tempdir().unwrap();
    on_hosts(|env, run| {
        let dir = temp.path().join(run.to_string());
        let last = env.iter(0..100u64).shuffle();
        let tasks = env.plan().stages.iter().map(|stage| stage.tasks).max().unwrap();
        let taken = dir.join(format!("part-{:05}.txt", tasks - 1));
        last.inspect(move |_| _ = fs::create_dir_all(&taken)).write_lines_parallel(&dir);
        let error = env.run().unwrap_err();
        assert!(error.to_string().contains("a directory has it"), "{error}");
        // Nothing else than that directory, or than what a slower host is about to remove.
        let shown = names(&dir).into_iter().filter(|name| !name.starts_with('.')).count();
        assert_eq!(shown, 1);
        Ok(())
    });
}

#[test]
fn all_hosts_return_the_error_of_one_that_finds_a_name_taken_at_the_last_moment() {
    let (temp, errors) = (tempfile::tempdir().unwrap(), ByRun::<Mutex<Option<String>>>::new());
    on_hosts(|env, run| {
        let dir = temp.path().join(run.to_string());
        let last = env.iter(0..100u64).shuffle();
        let tasks = env.plan().stages.iter().map(|stage| stage.tasks).max().unwrap();
        let taken = dir.join(format!("part-{:05}.txt", tasks - 1));
        // The host of that file may have looked whether it can have its name.
        let take = last.inspect(move |n| _ = (*n == 99).then(|| fs::create_dir_all(&taken)));
        take.write_lines_parallel(&dir);
        let error = env.run().unwrap_err().to_string();
        let first = errors.of(run);
        assert_eq!(*first.lock().unwrap().get_or_insert_with(|| error.clone()), error);
        Ok(())
    });
}

#[test]
fn two_sinks_of_one_path_are_refused_on_whatever_host_they_write() {
    let temp = tempfile::tempdir().unwrap();
    on_hosts(|env, run| {
        let path = |name: &str| temp.path().join(format!("{run}-{name}"));
        let refused = || {
            let error = env.run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Plan);
            assert!(error.to_string().contains("and so does"), "{error}");
        };
        for _ in 0..2 {
            env.iter(0..9u64).shuffle().write_lines_parallel(path("twice"));
        }
        refused();
        fs::create_dir_all(path("found")).unwrap();
        for dir_first in [false, true] {
            let all = env.iter(0..9u64).shuffle();
            let tasks = env.plan().stages.iter().map(|stage| stage.tasks).max().unwrap();
            let last = path("found").join(format!("part-{:05}.txt", tasks - 1));
            let [some, others] = all.split();
            if dir_first {
                some.write_lines_parallel(path("found"));
                others.write_lines(&last);
            } else {
                some.write_lines(&last);
                others.write_lines_parallel(path("found"));
            }
            refused();
        }
        Ok(())
    });
    let left: Vec<_> = names(temp.path());
    assert!(left.iter().all(|dir| dir.ends_with("-found")), "{left:?}");
    assert!(left.iter().all(|dir| names(&temp.path().join(dir)).is_empty()));
}

#[test]
fn records_of_the_first_program_reach_all_programs_in_one_order() {
    let (programs, received) = (ByRun::<AtomicUsize>::new(), ByRun::<Mutex<Option<Vec<_>>>>::new());
    on_hosts(|env, run| {
        let (numbers, stream) = env.channel(10);
        let squares = stream.shuffle().map(|(from, n): (usize, u64)| (from, n * n)).to_channel();
        let job = env.start()?;
        let own = programs.of(run).fetch_add(1, Ordering::SeqCst);
        let slow = numbers.clone();
        let sending = thread::spawn(move || (0..300).for_each(|n| numbers.send((own, n)).unwrap()));
        let reading = thread::spawn(move || {
            let (mut slow, mut all) = (Some(slow), Vec::new());
            for record in squares {
                all.push(record?);
                // The stream ends when the program that has the source drops its senders.
                slow.take_if(|_| all[0].0 == own);
            }
            Ok((slow, all))
        });
        job.wait()?;
        sending.join().unwrap();
        let (slow, read) = reading.join().unwrap()?;
        // Those of other programs may be slower.
        assert!(slow.is_none_or(|sender| sender.send((own, 0)).is_ok() && !sender.is_closed()));
        let all = received.of(run);
        assert_eq!(*all.lock().unwrap().get_or_insert_with(|| read.clone()), read);
        let from = read[0].0;
        assert!(sorted(read).into_iter().eq((0..300).map(|n| (from, n * n))));
        Ok(())
    });
}

#[test]
fn senders_of_slower_programs_outlive_a_job_that_ends_well() {
    let programs = ByRun::<AtomicUsize>::new();
    on_hosts(|env, run| {
        let own = programs.of(run).fetch_add(1, Ordering::SeqCst);
        let first = env.iter([own]).collect_one();
        env.run()?;
        let is_first = first.take()? == Some(own);
        let (numbers, stream) = env.channel(10);
        stream.for_each_parallel(drop);
        let job = env.start()?;
        let slow = (!is_first).then(|| numbers.clone());
        numbers.send(1u64).unwrap();
        drop(numbers);
        job.wait()?;
        assert!(slow.is_none_or(|sender| sender.send(2).is_ok()));
        Ok(())
    });
}

#[test]
fn a_drained_job_closes_the_senders_of_all_hosts() {
    on_hosts(|env, _| {
        let (numbers, stream) = env.channel(10);
        let mut all = stream.shuffle().to_channel();
        let job = env.start()?;
        let sending = thread::spawn(move || while numbers.send(7u64).is_ok() {});
        let control = job.control();
        let reading = thread::spawn(move || {
            let first = all.recv()?;
            control.drain();
            Ok((first, all.collect::<Result<Vec<_>>>()?))
        });
        job.wait()?;
        sending.join().unwrap();
        let (first, rest) = reading.join().unwrap()?;
        assert_eq!(first, Some(7));
        assert!(rest.into_iter().all(|n| n == 7));
        Ok(())
    });
}

#[test]
fn senders_of_all_hosts_fail_when_the_job_needs_no_more() {
    on_hosts(|env, _| {
        let (numbers, stream) = env.channel(10);
        let some = stream.shuffle().limit(3).to_channel();
        let job = env.start()?;
        let sending = thread::spawn(move || {
            while numbers.send(7u64).is_ok() {
                thread::yield_now();
            }
            assert!(numbers.is_closed());
        });
        let reading = thread::spawn(move || some.collect::<Result<Vec<_>>>());
        job.wait()?;
        sending.join().unwrap();
        assert_eq!(reading.join().unwrap()?, [7; 3]);
        Ok(())
    });
}

#[test]
fn readers_that_are_dropped_do_not_stall_those_of_other_hosts() {
    let (programs, taken) = (ByRun::<AtomicUsize>::new(), ByRun::<Mutex<Option<Vec<_>>>>::new());
    on_hosts(|env, run| {
        let all = env.iter(0..2000u64).shuffle().to_channel();
        let endless = env.iter(0u64..).shuffle().to_channel();
        let job = env.start()?;
        let first = programs.of(run).fetch_add(1, Ordering::SeqCst) == 0;
        let reading = thread::spawn(move || {
            if first {
                drop(all);
                Ok(Vec::new())
            } else {
                all.collect::<Result<Vec<_>>>()
            }
        });
        let few = thread::spawn(move || endless.take(5).collect::<Result<Vec<_>>>());
        job.wait()?;
        let (read, few) = (reading.join().unwrap()?, few.join().unwrap()?);
        assert!(first || sorted(read).into_iter().eq(0..2000));
        let all = taken.of(run);
        assert_eq!(*all.lock().unwrap().get_or_insert_with(|| few.clone()), few);
        Ok(())
    });
}

#[test]
fn the_bound_of_calls_holds_over_all_hosts() {
    #[derive(Default)]
    struct Calling {
        now: AtomicUsize,
        most: AtomicUsize,
    }
    let runs = ByRun::<[Calling; 3]>::new();
    let reached = Mutex::new([false; 3]);
    on_hosts(|env, run| {
        for (nth, limit) in [1, 2, 7].into_iter().enumerate() {
            let calling = runs.of(run);
            let calls = Calls::in_flight(limit);
            let calls = if nth == 1 { calls } else { calls.unordered() };
            let called = env.iter(0..150usize).shuffle().map_async(calls, move |n| {
                let calling = Arc::clone(&calling);
                async move {
                    let Calling { now, most } = &calling[nth];
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let mut left = 20 + n % 4;
                    poll_fn(|context| {
                        if left == 0 {
                            return Poll::Ready(());
                        }
                        left -= 1;
                        context.waker().wake_by_ref();
                        Poll::Pending
                    })
                    .await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    n
                }
            });
            let out = called.collect::<Vec<_>>();
            let spans = env.plan().stages.iter().any(|s| s.placement == Placement::EachHost);
            env.run()?;
            assert!(sorted(out.take()?).into_iter().eq(0..150));
            let most = runs.of(run)[nth].most.load(Ordering::SeqCst);
            assert!((1..=limit).contains(&most), "{most} calls, not {limit}");
            // Where records come one by one, there may never be so many to be called at once.
            reached.lock().unwrap()[nth] |= spans && most == limit;
        }
        Ok(())
    });
    if std::env::var_os("THALWEG_CHECK").is_none() {
        assert_eq!(*reached.lock().unwrap(), [true; 3], "runs on several hosts reach the bounds");
    }
}

#[test]
fn a_cache_is_read_on_the_hosts_that_filled_it() {
    on_hosts(|env, _| {
        let squares = env.iter(0..3000u64).shuffle().map(|n| n * n).cache();
        let pairs = env.iter(0..1000u64).group_by(|n| n % 10).cache();
        let none = env.iter(0..0u64).shuffle().cache();
        env.run()?;
        assert_eq!((squares.len()?, pairs.len()?, none.len()?), (3000, 1000, 0));
        for _ in 0..2 {
            let out = squares.stream(env).collect::<Vec<_>>();
            let sum = squares.by_ref(env).map(|n| *n).sum(|n| *n).collect_one();
            let counts = pairs.stream(env).count().collect::<Vec<_>>();
            let nothing = none.stream(env).count().collect_one();
            assert!(env.plan().operators.iter().all(|op| op.kind != "repartition"));
            env.run()?;
            assert!(sorted(out.take()?).into_iter().eq((0..3000).map(|n| n * n)));
            assert_eq!(sum.take()?, Some((0..3000).map(|n| n * n).sum::<u64>()));
            assert!(sorted(counts.take()?).into_iter().eq((0..10).map(|key| (key, 100))));
            assert_eq!(nothing.take()?, Some(0));
        }
        Ok(())
    });
}

#[test]
fn a_cache_of_a_job_that_fails_on_one_host_is_empty_on_all() {
    on_hosts(|env, _| {
        let failing = env.iter(0..500i32).shuffle().map(|n| 10 / (n - 400)).cache();
        assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Panic);
        assert_eq!(failing.len().unwrap_err().kind(), ErrorKind::NotProduced);
        Ok(())
    });
}

#[test]
fn every_host_gets_the_statistics_of_the_whole_job() {
    let shown = ByRun::<Mutex<Option<String>>>::new();
    on_hosts(|env, run| {
        let counts = env.iter(0..1000u64).shuffle().filter(|n| n % 2 == 0).group_by(|n| n % 7);
        counts.count().unkey().for_each(drop);
        let stats = env.start()?.wait()?;
        let filter = stats.operators.iter().find(|op| op.kind == "filter").unwrap();
        assert_eq!((filter.records_in, filter.records_out), (Some(1000), Some(500)));
        let table = stats.operators.iter().find(|op| op.kind == "count").unwrap();
        assert_eq!((table.keys, table.records_out), (7, Some(7)));
        assert!(stats.edges.iter().all(|edge| edge.sent == edge.received));
        assert!(stats.stages.iter().all(|stage| stage.turns >= stage.tasks as u64));
        let flows: Vec<_> =
            stats.operators.iter().map(|op| (op.records_in, op.records_out, op.bytes)).collect();
        let flows = format!("{flows:?} {:?} {:?}", stats.stages, stats.edges);
        let all = shown.of(run);
        assert_eq!(*all.lock().unwrap().get_or_insert_with(|| flows.clone()), flows);
        Ok(())
    });
}
