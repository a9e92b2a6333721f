//! A job that is cancelled publishes nothing, and one that publishes anything publishes all.

use crate::{environment, in_time};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use thalweg::check::every_on_one_host;
use thalweg::config::Scheduler;
use thalweg::{Environment, ErrorKind};

#[test]
fn all_of_several_outputs_appear_or_none() {
    in_time(|| {
        for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
            let env = environment(|config| config.scheduler = scheduler);
            let folder = tempfile::tempdir().unwrap();
            let paths = ["a.txt", "b.txt", "c.txt"].map(|name| folder.path().join(name));
            let mut ended_well = 0;
            for run in 0..150u32 {
                for path in &paths {
                    env.range(0..50).map(|n| n.to_string()).write_lines(path);
                }
                let count = env.range(0..50).shuffle().count().collect_one();
                let job = env.start().unwrap();
                // At another moment in every run, up to well behind the end.
                std::thread::sleep(Duration::from_micros(u64::from(run) * 40));
                job.cancel();
                let outcome = job.wait();
                let there: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
                match outcome {
                    Ok(_) => {
                        ended_well += 1;
                        assert_eq!(there, [true; 3], "run {run} ended well");
                        assert_eq!(count.take().unwrap().unwrap(), 50);
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
                        assert_eq!(there, [false; 3], "run {run} was cancelled");
                        assert!(count.take().is_err());
                    }
                }
                paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
                let left = std::fs::read_dir(folder.path()).unwrap().count();
                assert_eq!(left, 0, "run {run} left a file behind");
            }
            println!("{ended_well} of 150 ended well under {scheduler:?}");
        }
    });
}

/// A door that is opened once.
#[derive(Default)]
struct Door(Mutex<bool>, Condvar);

impl Door {
    fn open(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_all();
    }

    fn is_open(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self) {
        let mut open = self.0.lock().unwrap();
        while !*open {
            open = self.1.wait(open).unwrap();
        }
    }
}

static BUILDING: Door = Door(Mutex::new(false), Condvar::new());
static CANCELLED: Door = Door(Mutex::new(false), Condvar::new());

/// Is cancelled while it is built.
struct Slow;

impl<T> FromIterator<T> for Slow {
    fn from_iter<I: IntoIterator<Item = T>>(_: I) -> Self {
        BUILDING.open();
        CANCELLED.pass();
        Self
    }
}

#[test]
fn a_job_can_be_cancelled_while_its_results_are_computed() {
    in_time(|| {
        let env = Environment::new();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        env.range(0..9).map(|n| n.to_string()).write_lines(&path);
        let count = env.range(0..9).count().collect_one();
        let slow = env.range(0..9).collect::<Slow>();
        let job = env.start().unwrap();
        BUILDING.pass();
        job.cancel();
        CANCELLED.open();
        assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(!path.exists() && count.take().is_err() && slow.take().is_err());
    });
}

#[test]
fn a_file_that_cannot_get_its_name_keeps_the_others_from_theirs() {
    in_time(|| {
        // Each host would write to a folder of its own, and so describe another job.
        every_on_one_host(|env| {
            let folder = tempfile::tempdir().unwrap();
            let [first, second] = ["a.txt", "b.txt"].map(|name| folder.path().join(name));
            let in_the_way = second.clone();
            env.range(0..9).map(|n| n.to_string()).write_lines(&first);
            let obstructed = env.iter(0..9).map(move |n| {
                if n == 5 {
                    std::fs::create_dir(&in_the_way).unwrap();
                }
                n.to_string()
            });
            obstructed.write_lines(&second);
            let count = env.range(0..9).count().collect_one();
            let error = env.run().unwrap_err();
            assert!(error.to_string().contains("b.txt"), "{error}");
            assert!(error.operator().unwrap_or_default().starts_with("write_lines ("), "{error}");
            assert!(!first.exists() && count.take().is_err());
            Ok(())
        });
    });
}

#[test]
fn a_job_that_is_over_stays_as_it_ended() {
    in_time(|| {
        // It looks again and again whether the job is over, and a simulated host runs while its program waits.
        every_on_one_host(|env| {
            let count = env.range(0..9).shuffle().count().collect_one();
            let job = Arc::new(env.start()?);
            while !job.is_over() {
                job.barrier()?;
            }
            job.cancel();
            Arc::into_inner(job).unwrap().wait()?;
            assert_eq!(count.take()?.unwrap(), 9);
            Ok(())
        });
    });
}

#[test]
fn a_job_that_is_cancelled_or_fails_waits_for_an_iterator_that_blocks() {
    in_time(|| {
        for fails in [false, true] {
            let env = environment(|config| config.cores = 2.try_into().unwrap());
            let [called, door, returned] = [(); 3].map(|()| Arc::new(Door::default()));
            let own = [&called, &door, &returned].map(Arc::clone);
            let blocked = env.parallel_iter(move |task, _| {
                let [called, door, returned] = own.clone();
                std::iter::once_with(move || {
                    if task == 0 {
                        called.open();
                        door.pass();
                        returned.open();
                    }
                    task
                })
            });
            let waits = Arc::clone(&called);
            blocked.for_each_parallel(move |task| {
                waits.pass();
                assert!(!fails || task == 0, "task {task} fails");
            });
            let job = env.start().unwrap();
            called.pass();
            if !fails {
                job.cancel();
            }
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Long enough for a job to end that did not wait.
                    std::thread::sleep(Duration::from_millis(100));
                    door.open();
                });
                let kind = if fails { ErrorKind::Panic } else { ErrorKind::Cancelled };
                assert_eq!(job.wait().unwrap_err().kind(), kind);
                assert!(returned.is_open(), "it has not waited");
            });
        }
    });
}
