//! A job that is drained, and fails when its results are committed.

use super::{Log, Table, Topic, number, on, with_checkpoints};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::Environment;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;

type Positions = Arc<Mutex<BTreeMap<String, u64>>>;

/// Waits until this is so, and fails if it never is.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}

#[test]
fn a_drained_job_whose_commits_fail_reads_nothing_more_when_it_is_run_again() {
    for cores in [2, 3] {
        let folder = tempfile::tempdir().unwrap();
        let dirs = ["first", "second", "third"].map(|name| folder.path().join(name));
        let (log, table) = (Log::with_partitions(6), Table::default());
        let others = Log::with_partitions(1);
        (0..1000u64).for_each(|n| others.append(0, n.to_string()));
        (0..3000u64).for_each(|n| log.append(n as usize % 6, n.to_string()));
        let (seen, committed) = (Arc::new(AtomicUsize::new(0)), Positions::default());
        let (limited, cut) = (Arc::new(AtomicUsize::new(0)), Positions::default());
        // Its counts are those of all that was read, and the input has no end.
        let job = |env: &Environment| {
            let (seen, committed) = (Arc::clone(&seen), Arc::clone(&committed));
            let topic = Topic { bounded: false, committed, ..Topic::of(&log) };
            let numbers = env.read(topic).map(number).inspect(move |_| {
                seen.fetch_add(1, Ordering::Relaxed);
            });
            // A window that is open until the end.
            let counts = numbers
                .assign_timestamps(|_| Timestamp::from_micros(0), Watermarks::monotonous())
                .group_by(|n| n % 10)
                .window(EventTimeWindow::tumbling(Duration::from_secs(1)))
                .count();
            counts.unkey().map(|(digit, pane)| 10 * pane.value + digit).write(table.clone());
            // Of another source, not all that was read counts.
            let (counted, committed) = (Arc::clone(&limited), Arc::clone(&cut));
            let topic = Topic { bounded: false, committed, ..Topic::of(&others) };
            let numbers = env.read(topic).map(number).inspect(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            numbers.limit(5).for_each(drop);
        };
        let env = with_checkpoints(&dirs[0], cores);
        job(&env);
        let running = env.start().unwrap();
        until("not all is read", || seen.load(Ordering::Relaxed) == 3000);
        until("too little is read", || limited.load(Ordering::Relaxed) >= 5);
        // One task has committed its counts, the other one has not.
        table.commits_until_failure.store(2, Ordering::Relaxed);
        running.drain();
        running.wait().unwrap_err();
        assert!((1..10).contains(&table.rows().len()), "{:?}", table.rows());
        (0..100).for_each(|n: u64| log.append(0, n.to_string()));
        // What fails once more is done by the third run.
        for (run, cores) in [(1, 5 - cores), (2, cores)] {
            std::fs::rename(&dirs[run - 1], &dirs[run]).unwrap();
            committed.lock().unwrap().clear();
            cut.lock().unwrap().clear();
            if run == 2 {
                // What was read in part is gone.
                log.0.lock().unwrap().clear();
            }
            let env = with_checkpoints(&dirs[run], cores);
            job(&env);
            table.commits_until_failure.store(2 - run, Ordering::Relaxed);
            let ended = env.start().and_then(|running| {
                until("it reads on", || running.is_over());
                running.wait()
            });
            assert_eq!(ended.is_ok(), run == 2, "{:?}", ended.err());
        }
        assert_eq!(seen.load(Ordering::Relaxed), 3000);
        assert_eq!(committed.lock().unwrap().values().sum::<u64>(), 3000);
        assert!(cut.lock().unwrap().is_empty(), "what a limit has cut is not told");
        assert_eq!(table.rows(), (3000..3010).collect::<Vec<_>>());
    }
}

#[test]
fn a_source_is_told_how_far_a_drained_job_has_read() {
    for (cores, has_enough) in [(1, false), (3, false), (1, true)] {
        let log = Log::with_partitions(3);
        (0..3000u64).for_each(|n| log.append(n as usize % 3, n.to_string()));
        let (seen, committed) = (Arc::new(AtomicUsize::new(0)), Positions::default());
        let topic = Topic { bounded: false, committed: Arc::clone(&committed), ..Topic::of(&log) };
        let env = Environment::with_config(on(cores));
        let counted = Arc::clone(&seen);
        let numbers = env.read(topic).map(number).inspect(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        match has_enough {
            true => numbers.limit(10).for_each(drop),
            false => numbers.for_each(drop),
        }
        let running = env.start().unwrap();
        until("too little is read", || {
            seen.load(Ordering::Relaxed) >= if has_enough { 10 } else { 3000 }
        });
        if !has_enough {
            assert!(committed.lock().unwrap().is_empty(), "there are no checkpoints");
        }
        until("it does not end", || {
            running.drain();
            running.is_over()
        });
        running.wait().unwrap();
        let expected = if has_enough { vec![] } else { vec![1000; 3] };
        assert_eq!(committed.lock().unwrap().values().copied().collect::<Vec<_>>(), expected);
    }
}
