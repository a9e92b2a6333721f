//! Faults that tests plant in the protocol of checkpoints, to see that checks of jobs find them. Outside of this crate's
//! own tests there are none.

/// A fault, planted in a process whose variable `THALWEG_FAULT` has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A barrier passes an exchange when the first lane has delivered it, in front of records that belong before it.
    PassesWithTheFirstLane,
    /// A source saves its position when it has read what follows the barrier.
    SavesLate,
    /// A checkpoint of several hosts lacks the part of the last of them.
    LosesAPart,
    /// The batches that a barrier overtakes are not saved.
    ForgetsInFlight,
    /// A barrier that passes in front of results of calls does not save their records.
    ForgetsCalls,
    /// The file systems of checkpoints and of files that jobs write have no locks. It is none: jobs do without.
    HasNoLocks,
    /// There is no memory for windows, and for keys with timers, every now and then, and none for the tables of symmetric
    /// joins and of solutions. It is none: they go to disk.
    HasNoRoom,
    /// A checkpoint lacks the records that an operator has for its disk and has not written.
    LosesTheOpenBlock,
    /// A state is not saved before it changes, while its table is being saved.
    SavesWhatHasChanged,
    /// A run takes no notice of runs that have begun after it.
    LooksAtNoMarks,
    /// A run does not write down which checkpoint it goes on from.
    SaysNotWhatItBeginsWith,
}

/// Whether a fault is planted in this process.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}

#[cfg(test)]
pub(crate) fn is_planted(fault: Fault) -> bool {
    static PLANTED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var(VARIABLE).ok());
    PLANTED.as_deref().is_some_and(|name| name == format!("{fault:?}"))
}

/// The variable that names the fault.
#[cfg(test)]
const VARIABLE: &str = "THALWEG_FAULT";

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::checkpoint::CheckpointDir;
    use crate::config::{CheckpointConfig, Config};
    use crate::keyed::{Process, ProcessContext, Timer};
    use crate::operators::calls::Calls;
    use crate::operators::time::Watermarks;
    use crate::operators::window::SessionWindow;
    use crate::time::Timestamp;
    use crate::{Chain, Environment, Stream};
    use std::convert::Infallible;
    use std::future::{Future, poll_fn};
    use std::path::Path;
    use std::process::{Command, Output};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Poll;
    use std::time::{Duration, Instant};

    /// Is over when it is polled again.
    fn later() -> impl Future<Output = ()> {
        let mut is_polled = false;
        poll_fn(move |cx| {
            if std::mem::replace(&mut is_polled, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// The jobs in which faults are planted.
    const CALLS: &str = "a_job_of_calls_whose_checkpoints_are_checked";
    const COUNTS: &str = "a_job_of_counts_whose_checkpoints_are_checked";
    const FOLDS: &str = "a_job_of_folds_whose_checkpoints_are_checked";
    const RUNNING: &str = "a_job_of_running_counts_whose_checkpoints_are_checked";
    const DISTINCT: &str = "a_job_of_distinct_numbers_whose_checkpoints_are_checked";
    const SESSIONS: &str = "a_job_of_sessions_whose_checkpoints_are_checked";
    const TIMERS: &str = "a_job_of_timers_whose_checkpoints_are_checked";
    const ON_DISK: &str = "a_job_on_disk_whose_checkpoints_are_checked";

    /// Each record counts once, whatever is interrupted.
    #[test]
    fn a_job_of_calls_whose_checkpoints_are_checked() {
        let job = |env: &Environment| {
            let calls = Calls::in_flight(9).unordered().saved();
            let numbers = env.range(0..3000).shuffle().map_async(calls, async |n| {
                later().await;
                n % 7
            });
            numbers.group_by(|n| *n).count()
        };
        check(job).must_restore().seeds(16).agrees();
    }

    /// The same for records that are counted before they are sent.
    #[test]
    fn a_job_of_counts_whose_checkpoints_are_checked() {
        let job = |env: &Environment| env.range(0..3000).shuffle().group_by(|n| *n % 300).count();
        check(job).must_restore().seeds(16).agrees();
    }

    /// The same for records that are each sent.
    #[test]
    fn a_job_of_folds_whose_checkpoints_are_checked() {
        let job = |env: &Environment| {
            let numbers = env.range(0..3000).shuffle().group_by(|n| *n % 300);
            numbers.fold(0u64, |count, _| *count += 1)
        };
        check(job).must_restore().seeds(16).agrees();
    }

    /// The same for records that have a result each.
    #[test]
    fn a_job_of_running_counts_whose_checkpoints_are_checked() {
        let job = |env: &Environment| {
            let numbers = env.range(0..3000).shuffle().group_by(|n| *n % 300);
            numbers.stateful_map(0u64, |_, count, _| {
                *count += 1;
                *count
            })
        };
        check(job).must_restore().seeds(16).agrees();
    }

    /// The same for keys, of which nothing else is kept.
    #[test]
    fn a_job_of_distinct_numbers_whose_checkpoints_are_checked() {
        let job = |env: &Environment| env.range(0..3000).shuffle().map(|n| n % 1000).unique();
        check(job).must_restore().seeds(16).agrees();
    }

    /// Numbers, a microsecond one after another, but for pauses.
    fn timed(env: &Environment) -> Stream<impl Chain<Item = u64, Time = Timestamp> + use<>> {
        let time = |n: &u64| Timestamp::from_micros((n + n / 500 * 1000).cast_signed());
        let numbers = env.range(0..10_000);
        numbers.assign_timestamps(time, Watermarks::monotonous()).shuffle()
    }

    /// The same for sessions, of which one is open for each key.
    #[test]
    fn a_job_of_sessions_whose_checkpoints_are_checked() {
        let job = |env: &Environment| {
            let sessions = SessionWindow::new(Duration::from_micros(700));
            timed(env).group_by(|n| *n % 300).repartition().window(sessions).sum(|n| *n)
        };
        check(job).must_restore().seeds(16).agrees();
    }

    /// Adds up the numbers of a key, and a million for each that is as old as a timer, until the end of time.
    struct Sums;

    const LAST: Timer = Timer::EventTime(Timestamp::MAX);

    impl Process<u64, u64> for Sums {
        type State = u64;
        type Out = u64;
        type Side = Infallible;

        fn start(&self) -> u64 {
            0
        }

        fn on_record(
            &self,
            _: &u64,
            sum: &mut u64,
            n: u64,
            time: Timestamp,
            cx: &mut ProcessContext<'_, u64, Infallible>,
        ) {
            *sum += n;
            cx.set_timer(Timer::EventTime(time.saturating_add(Duration::from_micros(700))));
            cx.set_timer(LAST);
        }

        fn on_timer(
            &self,
            _: &u64,
            sum: &mut u64,
            timer: Timer,
            cx: &mut ProcessContext<'_, u64, Infallible>,
        ) {
            if timer == LAST {
                cx.emit(*sum);
            } else {
                *sum += 1_000_000;
            }
        }
    }

    /// The same for keys with timers.
    #[test]
    fn a_job_of_timers_whose_checkpoints_are_checked() {
        let job = |env: &Environment| timed(env).group_by(|n| *n % 300).process(Sums);
        check(job).must_restore().seeds(16).agrees();
    }

    /// The same of records that wait on disk.
    #[test]
    fn a_job_on_disk_whose_checkpoints_are_checked() {
        let job = |env: &Environment| {
            let texts = env.range(0..3000).shuffle().map(|n| format!("{:0300}", n % 1000));
            texts.unique()
        };
        check(job).memory(1 << 12).must_restore().seeds(16).agrees();
    }

    /// Runs a test in a process of its own.
    fn run_test(name: &str, variables: &[(&str, &str)]) -> Output {
        let mut test = Command::new(std::env::current_exe().expect("this test is a program"));
        test.args(["--exact", &format!("fault::tests::{name}"), "--nocapture"]);
        test.envs(variables.iter().copied()).env_remove("RUST_BACKTRACE");
        test.output().expect("the program starts")
    }

    #[test]
    fn every_planted_fault_is_found_with_a_run_that_repeats_it() {
        let all = [
            (Fault::PassesWithTheFirstLane, CALLS),
            (Fault::SavesLate, CALLS),
            (Fault::LosesAPart, CALLS),
            (Fault::ForgetsCalls, CALLS),
            (Fault::ForgetsInFlight, CALLS),
            (Fault::LosesTheOpenBlock, ON_DISK),
            (Fault::SavesWhatHasChanged, COUNTS),
            (Fault::SavesWhatHasChanged, FOLDS),
            (Fault::SavesWhatHasChanged, RUNNING),
            (Fault::SavesWhatHasChanged, DISTINCT),
            (Fault::SavesWhatHasChanged, SESSIONS),
            (Fault::SavesWhatHasChanged, TIMERS),
        ];
        for (fault, job) in all {
            let name = format!("{fault:?}");
            let planted = (VARIABLE, &*name);
            // Few seeds find most of them. In the end there are all series, wherever the check is.
            let mut attempts = ["8", "64"].into_iter().map(|number| {
                let seeds = ("THALWEG_CHECK_SEEDS", number);
                let series = ("THALWEG_CHECK_SERIES", number);
                (seeds, run_test(job, &[planted, seeds, series]))
            });
            let found = attempts.find(|(_, run)| !run.status.success());
            let (seeds, found) = found.unwrap_or_else(|| panic!("{name} is not found"));
            let said = String::from_utf8_lossy(&found.stderr);
            let number =
                said.split("THALWEG_CHECK=").nth(1).and_then(|rest| rest.split(' ').next());
            let number = ("THALWEG_CHECK", number.unwrap_or_else(|| panic!("{name}: {said}")));
            let again = run_test(job, &[planted, seeds, number]);
            let repeated = String::from_utf8_lossy(&again.stderr);
            assert!(!again.status.success(), "{name} is not repeated by {number:?}");
            assert!(repeated.contains(&format!("THALWEG_CHECK={} ", number.1)), "{repeated}");
            let without = run_test(job, &[seeds, number]);
            assert!(without.status.success(), "{number:?} fails without {name} too");
        }
    }

    /// Writes ten lines to a file, and ends when it is told to.
    fn ten_lines(env: &Environment, file: &Path, over: &Arc<AtomicBool>) {
        let over = Arc::clone(over);
        let numbers = (0u64..).take_while(move |n| {
            std::thread::sleep(Duration::from_millis(u64::from(*n >= 10)));
            !over.load(Ordering::Relaxed)
        });
        env.iter(numbers).filter(|n| *n < 10).map(|n| n.to_string()).write_lines(file);
    }

    /// Two runs of a job with one directory, of which the first ends by itself at its next checkpoint, or takes none before its
    /// end.
    #[test]
    fn two_runs_of_a_job() {
        for interval in [5, 1_000_000] {
            let folder = tempfile::tempdir().unwrap();
            let (dir, file) = (folder.path().join("checkpoints"), folder.path().join("ten.txt"));
            let [over, second_over] = [Arc::<AtomicBool>::default(), Arc::default()];
            let mut config = Config::default();
            let mut checkpoints = CheckpointConfig::new(&dir);
            checkpoints.interval = Duration::from_millis(interval);
            config.checkpoints = Some(checkpoints);
            let env = Environment::with_config(config);
            ten_lines(&env, &file, &over);
            let first = env.start().unwrap();
            let began = Instant::now();
            // Older ones are removed.
            let has_begun = || {
                let files = CheckpointDir::open(&dir).and_then(|checkpoints| checkpoints.list());
                let newest = files.ok().and_then(|files| Some(files.last()?.number));
                interval > 5 || newest >= Some(2)
            };
            while !has_begun() {
                assert!(began.elapsed() < Duration::from_secs(60), "there are no checkpoints");
                std::thread::sleep(Duration::from_millis(1));
            }
            let env = Environment::checked(Config::default());
            let opened = env.checkpoints_in(&dir);
            if !is_planted(Fault::HasNoLocks) {
                let error = opened.err().expect("the first has the lock").to_string();
                assert!(error.contains("another job that runs"), "{error}");
                over.store(true, Ordering::Relaxed);
                first.wait().unwrap();
                continue;
            }
            let opened = opened.unwrap();
            ten_lines(&env, &file, &second_over);
            let second = env.start_with(Some(&opened.checkpoints)).unwrap();
            if interval > 5 {
                over.store(true, Ordering::Relaxed);
            }
            while !first.is_over() {
                assert!(began.elapsed() < Duration::from_secs(60), "the first does not end");
                std::thread::sleep(Duration::from_millis(1));
            }
            let error = first.wait().unwrap_err().to_string();
            assert!(error.contains("another run of this job has begun"), "{error}");
            assert!(!file.exists(), "it publishes nothing");
            assert!(second.take_checkpoint(&opened).unwrap(), "the second goes on");
            second_over.store(true, Ordering::Relaxed);
            second.wait().unwrap();
            let lines: String = (0..10).map(|n| format!("{n}\n")).collect();
            assert_eq!(std::fs::read_to_string(file).unwrap(), lines);
        }
    }

    #[test]
    fn jobs_do_without_locks() {
        // Checkpoints have a lock in the series alone.
        let few = [("THALWEG_CHECK_SEEDS", "4"), ("THALWEG_CHECK_SERIES", "8")];
        for name in [CALLS, ON_DISK, "two_runs_of_a_job"] {
            let run = run_test(name, &[(VARIABLE, "HasNoLocks"), few[0], few[1]]);
            let said = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{name}: {said}");
        }
    }
}
