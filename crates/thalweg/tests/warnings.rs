//! What a job warns of, as a library sees it: events of the facade `log`.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use thalweg::Environment;
use thalweg::check::every_on_one_host;
use thalweg::config::{BatchMode, Config};
use thalweg::metrics::Stats;
use thalweg::operators::join::{AsOf, Interval};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{
    CustomWindow, EventTimeWindow, MakeWindows, SessionWindow, WindowContext,
};
use thalweg::time::Timestamp;
use thalweg::{Chain, Stream};

/// Keeps all warnings, each with its target.
struct Kept(Mutex<Vec<(String, String)>>);

impl log::Log for Kept {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("thalweg::")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) && record.level() == log::Level::Warn {
            self.0.lock().unwrap().push((record.target().to_owned(), record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// The warnings so far, of the operators at this place in the program.
fn warnings(target: &str, place: &str) -> Vec<String> {
    let kept = listen().0.lock().unwrap();
    let here =
        |(of, said): &&(String, String)| of == target && said.contains(&format!("({place})"));
    kept.iter().filter(here).map(|(_, said)| said.clone()).collect()
}

/// Installs the logger, once.
fn listen() -> &'static Kept {
    static KEPT: OnceLock<&'static Kept> = OnceLock::new();
    KEPT.get_or_init(|| {
        let kept: &'static Kept = Box::leak(Box::new(Kept(Mutex::default())));
        log::set_logger(kept).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
        kept
    })
}

/// How many late records the operators of a job have dropped. Each that did has said so, with its count, after so many
/// warnings of jobs before.
fn dropped(stats: &Stats, before: usize) -> u64 {
    let places: BTreeSet<_> = stats.operators.iter().map(|op| &op.place).collect();
    let said: Vec<_> = places.iter().flat_map(|place| warnings("thalweg::late", place)).collect();
    let dropping: Vec<_> = stats.operators.iter().filter(|op| op.late_dropped > 0).collect();
    assert_eq!(said.len(), before + dropping.len(), "{said:?}");
    for op in dropping {
        let begins = format!("{} ({}): ", op.name, op.place);
        let last = said.iter().filter_map(|said| said.strip_prefix(&begins)).next_back();
        let last = last.unwrap_or_default().replace(',', "");
        let begins = format!("{} late records were dropped; assign timestamps", op.late_dropped);
        assert!(last.starts_with(&begins), "{last}");
    }
    stats.late_dropped()
}

const N: u64 = 20_000;

/// Every tenth record comes far too late.
fn some_late(env: &Environment) -> Stream<impl Chain<Item = u64, Time = Timestamp> + use<>> {
    let at = |n: &u64| if n % 10 == 9 { *n as i64 - 5_000 } else { *n as i64 };
    env.iter(0..N)
        .assign_timestamps(move |n| Timestamp::from_micros(at(n)), Watermarks::monotonous())
}

/// On one core, so that as many come too late as one would think.
fn env() -> Environment {
    listen();
    let mut config = Config::default();
    config.cores = 1.try_into().unwrap();
    Environment::with_config(config)
}

fn tens() -> EventTimeWindow {
    EventTimeWindow::tumbling(Duration::from_micros(10))
}

/// Windows of ten microseconds.
struct Tens;

impl MakeWindows<u64> for Tens {
    type Bounds = i64;
    type State = ();

    fn start(&self) {}

    fn on_value(&self, (): &mut (), _: &u64, at: Timestamp, cx: &mut WindowContext<'_, i64>) {
        let window = at.as_micros().div_euclid(10);
        cx.add_until(window, Timestamp::from_micros(10 * window + 10));
    }
}

#[test]
fn whoever_drops_late_records_says_so() -> thalweg::Result<()> {
    let env = env();
    let windows = some_late(&env).window_all(tens()).count();
    let windows = windows.map(|pane| pane.value).sum(|n| *n).collect::<Vec<u64>>();
    let (counted, stats) = (windows, env.start()?.wait()?);
    let lost = dropped(&stats, 0);
    assert_eq!((lost > 0, counted.take()?[0] + lost), (true, N));

    let sessions = some_late(&env).window_all(SessionWindow::new(Duration::from_micros(1))).count();
    let sessions = sessions.map(|pane| pane.value).sum(|n| *n).collect::<Vec<u64>>();
    let stats = env.start()?.wait()?;
    let lost = dropped(&stats, 0);
    assert_eq!((lost > 0, sessions.take()?[0] + lost), (true, N));

    let custom = some_late(&env).window_all(CustomWindow::new(Tens)).count();
    let custom = custom.map(|pane| pane.value).sum(|n| *n).collect::<Vec<u64>>();
    let stats = env.start()?.wait()?;
    let lost = dropped(&stats, 0);
    assert_eq!((lost > 0, custom.take()?[0] + lost), (true, N));

    let [left, right] = some_late(&env).split();
    let groups = left
        .group_by(|n| n % 7)
        .co_group(right.group_by(|n| n % 7), tens(), |_, a, b| a.len() + b.len());
    let groups =
        groups.unkey().map(|(_, pane)| pane.value as u64).sum(|n| *n).collect::<Vec<u64>>();
    let stats = env.start()?.wait()?;
    let lost = dropped(&stats, 0);
    assert_eq!((lost > 0, groups.take()?[0] + lost), (true, 2 * N));

    let nothing = some_late(&env).filter(|_| false).group_by(|n| *n);
    let near = Interval::within(Duration::from_micros(5));
    let alone = some_late(&env).group_by(|n| *n).interval_left_join(nothing, near, |_, _, _| ());
    let alone = alone.unkey().count().collect_one();
    let stats = env.start()?.wait()?;
    let lost = dropped(&stats, 0);
    assert_eq!(alone.take()?.unwrap() + lost, N);
    Ok(())
}

#[test]
fn records_on_late_outputs_and_useful_ones_are_not_counted_as_lost() -> thalweg::Result<()> {
    let env = env();
    let [first, second] = some_late(&env).split();
    let (windows, late) = first.group_by(|n| n % 3).window(tens()).late_output();
    windows.count().unkey().for_each(drop);
    let late = late.count().collect_one();
    let gap = SessionWindow::new(Duration::from_micros(1));
    let (sessions, later) = second.group_by(|n| n % 3).window(gap).late_output();
    sessions.count().unkey().for_each(drop);
    let later = later.count().collect_one();
    let stats = env.start()?.wait()?;
    assert_eq!(dropped(&stats, 0), 0);
    let counted: u64 = stats.operators.iter().map(|op| op.late_records).sum();
    assert!(counted > 0);
    assert_eq!(late.take()?.unwrap() + later.take()?.unwrap(), counted);

    // A late price is in force for the trades that are to come.
    let trades = some_late(&env).filter(|_| false).group_by(|_| ());
    let prices = some_late(&env).group_by(|_| ());
    trades.as_of_join(prices, AsOf::latest(), |_, _, _| ()).unkey().for_each(drop);
    let stats = env.start()?.wait()?;
    assert_eq!(dropped(&stats, 0), 0);
    Ok(())
}

/// However many rounds follow.
#[test]
fn a_loop_behind_it_changes_nothing() -> thalweg::Result<()> {
    let env = env();
    let rounds = some_late(&env)
        .window_all(tens())
        .count()
        .map(|pane| pane.value)
        .replay(3, 0, |counts, _| {
            let windows = counts.map(|n| *n).group_by(|_| ()).window(tens());
            windows.sum(|n| *n).unkey().map(|(_, pane)| pane.value)
        })
        .fold(|sum: &mut u64, n| *sum += n, |sum, other| *sum += other)
        .all_rounds(|sum: &mut u64, of_round| *sum += of_round);
    let rounds = rounds.collect::<Vec<_>>();
    let stats = env.start()?.wait()?;
    let lost = dropped(&stats, 0);
    assert_eq!((lost > 0, rounds.take()?.pop().unwrap().state), (true, 3 * (N - lost)));
    Ok(())
}

/// Jobs of one runtime each tell of themselves, however they run and whether they go well or not.
#[test]
fn every_job_says_so_for_itself() {
    listen();
    let jobs = std::cell::Cell::new(0);
    let job = |env: &Environment| {
        let shared = env.sharing();
        let counts = some_late(&shared).batch_mode(BatchMode::Single).window_all(tens()).count();
        let counts = counts.map(|pane| pane.value).sum(|n| *n).collect::<Vec<u64>>();
        let stats = shared.start()?.wait()?;
        let lost = dropped(&stats, jobs.get());
        jobs.set(jobs.get() + usize::from(lost > 0));
        assert_eq!(counts.take()?[0] + lost, N);
        Ok(())
    };
    // Warnings are counted, and all hosts are one process here.
    every_on_one_host(|env| {
        job(env)?;
        job(env)
    });
    assert!(jobs.get() > 0);
}

#[test]
fn windows_that_wait_are_told_of_while_the_job_runs() -> thalweg::Result<()> {
    listen();
    let mut config = Config::default();
    config.stall_after = Some(Duration::from_millis(200));
    let env = Environment::with_config(config);
    let sensor = |rate: f64, last: u64| {
        env.generate(rate, move |n| (n < last).then_some(n))
            .assign_timestamps(|n| Timestamp::from_millis(*n as i64), Watermarks::monotonous())
    };
    let both = sensor(1000.0, u64::MAX).merge(sensor(1e-6, 2));
    both.window_all(EventTimeWindow::tumbling(Duration::from_secs(1))).count().for_each(drop);
    let job = env.start()?;
    let places: Vec<_> = job.plan().operators.iter().map(|op| op.place.clone()).collect();
    let limit = Instant::now() + Duration::from_secs(120);
    let said = loop {
        let said = places.iter().flat_map(|place| warnings("thalweg::stalls", place)).next();
        if let Some(said) = said {
            break said;
        }
        assert!(Instant::now() < limit, "nothing was said in two minutes");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(said.contains("records arrive and no window has ended"), "{said}");
    job.cancel();
    assert!(job.wait().is_err());
    Ok(())
}

#[test]
fn an_iterator_that_blocks_is_told_of_while_it_blocks() -> thalweg::Result<()> {
    listen();
    let mut config = Config::default();
    config.cores = 2.try_into().unwrap();
    config.stall_after = Some(Duration::from_millis(200));
    let env = Environment::with_config(config);
    // Ends when the sender is dropped.
    let (sender, receiver) = std::sync::mpsc::channel::<u64>();
    let at = |n: &u64| Timestamp::from_millis(*n as i64);
    let blocking = env.iter(receiver).assign_timestamps(at, Watermarks::monotonous());
    let ticks = env.generate(1000.0, Some).assign_timestamps(at, Watermarks::monotonous());
    let both = blocking.merge(ticks);
    both.window_all(EventTimeWindow::tumbling(Duration::from_secs(1))).count().for_each(drop);
    let job = env.start()?;
    let place = job.plan().operators.iter().find(|op| op.kind == "iter").unwrap().place.clone();
    let limit = Instant::now() + Duration::from_secs(20);
    let said = loop {
        let said = warnings("thalweg::stalls", &place).into_iter().next();
        if said.is_some() || Instant::now() > limit {
            break said;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    drop(sender);
    job.cancel();
    assert!(job.wait().is_err());
    let said = said.expect("something is said within twenty seconds");
    assert!(said.contains("in one turn for more than 200.0 ms"), "{said}");
    Ok(())
}

#[test]
fn a_job_that_waits_for_a_held_sender_says_so() -> thalweg::Result<()> {
    listen();
    let mut config = Config::default();
    config.cores = 1.try_into().unwrap();
    config.stall_after = Some(Duration::from_millis(100));
    let env = Environment::with_config(config);
    let place = format!("{}:{}", file!(), line!() + 1);
    let (sender, numbers) = env.channel::<u64>(8);
    numbers.for_each(drop);
    let job = std::thread::spawn(move || env.run());
    let limit = Instant::now() + Duration::from_secs(60);
    let said = loop {
        let said = warnings("thalweg::stalls", &place).into_iter().next();
        if said.is_some() || Instant::now() > limit {
            break said;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    drop(sender);
    job.join().expect("`run` does not panic")?;
    let said = said.expect("something is said within a minute");
    assert!(said.starts_with("channel (") && said.contains("the last sender is dropped"), "{said}");
    assert!(said.contains("of which there is 1"), "{said}");
    Ok(())
}
