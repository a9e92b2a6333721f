//! Jobs that are interrupted at a barrier, and begin again with what was saved there: `check` runs every job so.

use std::convert::Infallible;
use std::io::Write as _;
use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg::check::check;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::io::{Csv, JsonLines, ReadRow, Text};
use thalweg::operators::join::{AsOf, Interval};
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{
    CountWindow, CustomWindow, Early, EventTimeWindow, GlobalWindow, LastWindow, MakeWindows,
    ProcessingTimeWindow, SessionWindow, Transaction, TransactionWindow, WindowContext,
};
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream};

#[test]
fn what_is_saved_is_restored_in_every_operator_that_saves() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let lines: String = (0..2000).map(|n| format!("{} {}\n", n % 7, file * 2000 + n)).collect();
        std::fs::write(folder.path().join(format!("{file}.txt")), lines).unwrap();
    }
    let files = || Text::new(folder.path()).split_bytes(5000).block_bytes(100);
    let parsed = |line: &str| line.split_once(' ').unwrap().1.parse::<u64>().unwrap();
    check(|env| env.lines(files()).map(parsed)).any_tasks().must_restore().equals(0..6000u64);
    check(|env| env.lines(files()).map(parsed).sum(|n| *n)).must_restore().equals([5999u64 * 3000]);
    let shares = |task: usize, tasks: usize| (task as u64..3000).step_by(tasks);
    check(|env| env.parallel_iter(shares).shuffle()).any_tasks().must_restore().equals(0..3000u64);
    let endless = |task: usize, _: usize| std::iter::repeat(task as u64);
    check(|env| env.parallel_iter(endless).limit(2000).count()).equals([2000u64]);
    check(|env| env.range(0..300_000).filter(|n| n % 1000 == 7))
        .must_restore()
        .equals((0..300u64).map(|n| n * 1000 + 7));
    check(|env| env.range(0..3000).shuffle().fold(0, |sum, n| *sum += n))
        .must_restore()
        .equals([2999u64 * 1500]);
    check(|env| env.range(0..30_000).fold_assoc(0, |sum, n| *sum += n, |sum, n| *sum += n))
        .must_restore()
        .equals([29_999u64 * 15_000]);
    check(|env| env.range(0..30_000).reduce(|a, b| a.max(b))).must_restore().equals([29_999u64]);
    check(|env| env.range(0..30_000).top(7)).must_restore().equals(29_993..30_000u64);
    check(|env| env.range(0..0).fold(7u64, |sum, n| *sum += n).merge(env.iter(0..500u64))).agrees();
    check(|env| env.iter(0..3000u64).map(|n| n % 300).unique())
        .any_tasks()
        .must_restore()
        .equals(0..300u64);
    check(|env| env.iter(0..3000u64).shuffle().limit(700).count()).equals([700u64]);
    // Several tasks combine the records of the same keys.
    let dealt = |task: usize, tasks: usize| (task as u64..3000).step_by(tasks);
    check(|env| env.parallel_iter(dealt).group_by(|n| n % 100).count())
        .any_tasks()
        .seeds(24)
        .must_restore()
        .equals((0..100u64).map(|key| (key, 30u64)));
    check(|env| env.iter(0..3000u64).group_by(|n| n % 9).max(|n| *n).unkey().map(|(_, n)| n))
        .any_tasks()
        .equals(2991..3000u64);
    check(|env| {
        let running = env.iter(0..900u64).group_by(|n| n % 3);
        running
            .stateful_map(0, |_, seen: &mut u64, n| {
                *seen += 1;
                n / 3 + 1 - *seen
            })
            .unkey()
            .map(|(_, n)| n)
    })
    .equals(std::iter::repeat_n(0u64, 900));
}

/// Reads the column of numbers.
struct Numbers;

impl ReadRow<1> for Numbers {
    type Row = u64;

    fn columns(&self) -> [&str; 1] {
        ["number"]
    }

    fn read(&self, [number]: [&str; 1]) -> Result<u64, String> {
        number.parse().map_err(|_| "no number".to_owned())
    }
}

#[test]
fn files_of_every_kind_are_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let numbers = |ending: &str| (0..3000u64).map(|n| format!("{n}{ending}")).collect::<String>();
    // Empty files, lines that end otherwise, a byte order mark, and no line feed at the end.
    std::fs::write(path("a.txt"), format!("\u{feff}{}", numbers("\r\n"))).unwrap();
    std::fs::write(path("b.txt"), "").unwrap();
    std::fs::write(path("c.txt"), numbers("\n").trim_end()).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(numbers("\n").as_bytes()).unwrap();
    std::fs::write(path("d.txt.gz"), gzip.finish().unwrap()).unwrap();
    let all = || (0..9000u64).map(|n| n / 3);
    let lines = || {
        let text = Text::new(folder.path().join("*.txt*"));
        text.split_bytes(3000).block_bytes(200)
    };
    check(|env| env.lines(lines()).map(|line| line.parse::<u64>().unwrap()))
        .any_tasks()
        .equals(all());
    check(|env| env.byte_lines(lines()).map(|line| line.len() as u64).sum(|n| *n)).agrees();
    let json = || {
        let files = JsonLines::new(folder.path().join("[cd].txt*"));
        files.split_bytes(3000)
    };
    check(|env| env.json_lines::<u64>(json())).any_tasks().equals((0..6000u64).map(|n| n / 2));
    std::fs::write(path("e.csv"), format!("number\n{}", numbers("\n"))).unwrap();
    check(|env| env.csv_rows(Csv::new(path("e.csv")).split_bytes(3000), Numbers))
        .any_tasks()
        .equals(0..3000u64);
}

#[test]
fn what_a_closure_remembers_outside_of_any_state_is_found() {
    let job = |env: &Environment| {
        let seen = AtomicU64::new(0);
        env.iter(0..5000u64).map(move |_| seen.fetch_add(1, Ordering::Relaxed))
    };
    let checked = catch_unwind(|| check(job).seeds(16).equals(0..5000u64));
    let said = *checked.expect_err("the numbers begin anew").downcast::<String>().unwrap();
    assert!(said.contains("interrupted at a barrier"), "{said}");
}

/// Checks a job that can have checkpoints.
macro_rules! restored {
    ($job:expr) => {{
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.checkpoints = Some(CheckpointConfig::new(folder.path()));
        let env = Environment::with_config(config);
        let out = $job(&env).collect::<Vec<_>>();
        env.run().expect("a job of which all is saved");
        let checked = check($job).any_tasks().must_restore().seeds(12).agrees();
        assert_eq!(out.take().unwrap().len(), checked.len());
        assert!(!checked.is_empty());
        checked
    }};
}

/// Numbers at the microseconds that they are.
fn timed(
    env: &Environment,
    numbers: Range<u64>,
) -> Stream<impl Chain<Item = u64, Time = Timestamp> + use<>> {
    let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
    env.range(numbers).assign_timestamps(at, Watermarks::monotonous())
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[test]
fn windows_of_event_time_are_restored() {
    let tumbling = || EventTimeWindow::tumbling(micros(100));
    let sliding = || EventTimeWindow::sliding(micros(250), micros(70));
    restored!(|env: &Environment| timed(env, 0..3000)
        .group_by(|n| n % 7)
        .window(tumbling())
        .count());
    restored!(|env: &Environment| timed(env, 0..3000).window_all(tumbling()).sum(|n| *n));
    // Sums are subtracted from what rolls, and maxima are not.
    restored!(|env: &Environment| timed(env, 0..3000)
        .group_by(|n| n % 7)
        .window(sliding())
        .sum(|n| *n));
    restored!(|env: &Environment| timed(env, 0..3000)
        .group_by(|n| n % 7)
        .window(sliding())
        .max(|n| *n));
    restored!(|env: &Environment| {
        let at_owners = timed(env, 0..3000).group_by(|n| format!("key {}", n % 7)).repartition();
        at_owners.window(sliding()).max(|n| *n)
    });
    restored!(|env: &Environment| {
        let lenient = sliding().allowed_lateness(micros(500));
        timed(env, 0..3000).group_by(|n| n % 7).window(lenient).max(|n| *n)
    });
    restored!(|env: &Environment| {
        let early = sliding().early(Early::every(5));
        timed(env, 0..2000).parallelism(1).group_by(|n| n % 7).window(early).sum(|n| *n)
    });
    restored!(|env: &Environment| {
        let counts = timed(env, 0..3000).group_by(|n| n % 7).window(tumbling()).count();
        counts.map(|_, pane| pane.value).window(sliding()).sum(|n| *n)
    });
    restored!(|env: &Environment| {
        let sessions = SessionWindow::new(micros(5));
        timed(env, 0..3000).filter(|n| n % 50 < 30).group_by(|n| n % 3).window(sessions).count()
    });
    restored!(|env: &Environment| {
        let sessions = SessionWindow::new(micros(5)).early(Early::every(4));
        let some = timed(env, 0..3000).parallelism(1).filter(|n| n % 50 < 30);
        some.group_by(|n| n % 3).window(sessions).sum(|n| *n)
    });
    restored!(|env: &Environment| {
        let sessions = SessionWindow::new(micros(5)).allowed_lateness(micros(9));
        timed(env, 0..3000).filter(|n| n % 50 < 30).group_by(|n| n % 3).window(sessions).count()
    });
    restored!(|env: &Environment| {
        let (windows, late) =
            timed(env, 0..3000).group_by(|n| n % 7).window(tumbling()).late_output();
        late.for_each(|_| panic!("none is late"));
        windows.count()
    });
}

#[test]
fn windows_of_the_clock_are_restored() {
    let day = || ProcessingTimeWindow::tumbling(Duration::from_secs(86_400));
    restored!(|env: &Environment| {
        let windows = env.range(0..3000).group_by(|n| n % 7).window(day()).count();
        windows
            .unkey()
            .map(|(key, pane)| (key, pane.value))
            .fold(0, |all, (key, count)| *all += key * count)
    });
    restored!(|env: &Environment| {
        let windows = timed(env, 0..3000).group_by(|n| n % 7).window(day()).count();
        windows
            .unkey()
            .map(|(key, pane)| (key, pane.value))
            .fold(0, |all, (key, count)| *all += key * count)
    });
}

#[test]
fn windows_of_arrivals_are_restored() {
    let keyed = |env: &Environment| env.iter(0..2000u64).group_by(|n| n % 7);
    restored!(|env: &Environment| keyed(env).window(CountWindow::tumbling(9)).sum(|n| *n));
    restored!(|env: &Environment| keyed(env).window(CountWindow::sliding(9, 4)).sum(|n| *n));
    restored!(|env: &Environment| keyed(env).window(CountWindow::sliding(9, 4)).max(|n| *n));
    restored!(|env: &Environment| keyed(env)
        .window(CountWindow::sliding(9, 4).keep_partial())
        .to_vec());
    restored!(|env: &Environment| {
        keyed(env).window(CountWindow::sliding(9, 4).early(Early::every(2))).sum(|n| *n)
    });
    restored!(|env: &Environment| keyed(env).window(LastWindow::new(5)).max(|n| *n));
    restored!(|env: &Environment| keyed(env).window(GlobalWindow::new()).count());
    restored!(|env: &Environment| {
        let until = TransactionWindow::new(|n: &u64| match n % 90 {
            0..7 => Transaction::Commit,
            7..9 => Transaction::Discard,
            _ => Transaction::Continue,
        });
        keyed(env).window(until).count()
    });
    restored!(|env: &Environment| {
        timed(env, 0..2000)
            .parallelism(1)
            .group_by(|n| n % 7)
            .window(CustomWindow::new(Hundreds))
            .max(|n| *n)
    });
}

/// Windows of a hundred microseconds, of which a second timer closes each third.
struct Hundreds;

impl<V: ?Sized> MakeWindows<V> for Hundreds {
    type Bounds = i64;
    type State = u64;

    fn start(&self) -> u64 {
        0
    }

    fn on_value(&self, seen: &mut u64, _: &V, at: Timestamp, cx: &mut WindowContext<'_, i64>) {
        *seen += 1;
        let hundred = at.as_micros() / 100;
        cx.add_until(hundred, Timestamp::from_micros(hundred * 100 + 100));
        if seen.is_multiple_of(10) {
            cx.add(-1);
            cx.set_timer(Timestamp::from_micros(at.as_micros() + 55));
        }
    }

    fn on_timer(&self, seen: &mut u64, _: Timestamp, cx: &mut WindowContext<'_, i64>) {
        *seen += 1;
        cx.fire(-1);
    }
}

/// Gives each number again some time later, and how many there were by then.
struct Again;

impl Process<u64, u64> for Again {
    type State = Vec<u64>;
    type Out = (u64, u64);
    type Side = Infallible;

    fn start(&self) -> Vec<u64> {
        Vec::new()
    }

    fn on_record(
        &self,
        _: &u64,
        kept: &mut Vec<u64>,
        n: u64,
        at: Timestamp,
        cx: &mut ProcessContext<'_, (u64, u64), Infallible>,
    ) {
        kept.push(n);
        cx.set_timer(Timer::EventTime(at.saturating_add(micros(200))));
        cx.set_timer(Timer::ProcessingTime(Duration::from_secs(1 << 40)));
    }

    fn on_timer(
        &self,
        _: &u64,
        kept: &mut Vec<u64>,
        timer: Timer,
        cx: &mut ProcessContext<'_, (u64, u64), Infallible>,
    ) {
        match timer {
            Timer::EventTime(at) => {
                let before =
                    kept.iter().filter(|n| **n + 200 <= at.as_micros().cast_unsigned()).count();
                cx.emit((at.as_micros().cast_unsigned(), before as u64));
            }
            // At the end.
            Timer::ProcessingTime(_) => cx.emit((0, 0)),
        }
    }
}

#[test]
fn timers_and_what_waits_in_event_time_are_restored() {
    restored!(|env: &Environment| timed(env, 0..600).group_by(|n| n % 7).process(Again));
    restored!(|env: &Environment| {
        let near = Interval::new(micros(3), micros(9));
        let left = timed(env, 0..1000).group_by(|n| n % 3);
        left.interval_left_join(timed(env, 0..1000).group_by(|n| n % 4), near, |_, a, b| {
            (*a, b.copied())
        })
    });
    // Lists that have no spare room, which those that are decoded may have.
    restored!(|env: &Environment| {
        let lists =
            |env: &Environment| timed(env, 0..600).map(|n| vec![n]).group_by(|list| list[0] % 3);
        lists(env).interval_join(lists(env), Interval::within(micros(20)), |_, a, b| (a[0], b[0]))
    });
    restored!(|env: &Environment| {
        let left = timed(env, 0..1000).group_by(|n| n % 3);
        let right = timed(env, 0..1000).filter(|n| n % 17 == 0).group_by(|n| n % 3);
        left.as_of_left_join(right, AsOf::latest(), |_, a, b| (*a, b.copied()))
    });
    restored!(|env: &Environment| {
        let left = timed(env, 0..1000).group_by(|n| n % 3);
        let right = timed(env, 0..1000).filter(|n| n % 17 == 0).group_by(|n| n % 3);
        left.as_of_join(right, AsOf::next(), |_, a, b| (*a, *b))
    });
    restored!(|env: &Environment| {
        let left = timed(env, 0..1000).group_by(|n| n % 30);
        let right = timed(env, 0..1000).group_by(|n| n % 40);
        left.window_join(right, EventTimeWindow::tumbling(micros(100)), |_, a, b| (*a, *b))
    });
    restored!(|env: &Environment| {
        let left = timed(env, 0..1000).group_by(|n| n % 3);
        let right = timed(env, 500..1500).group_by(|n| n % 3);
        left.co_group(right, EventTimeWindow::tumbling(micros(100)), |_, a, b| {
            (a.len() as u64, b.len() as u64)
        })
    });
    restored!(|env: &Environment| {
        timed(env, 0..2000).shuffle().group_by(|n| n % 3).sorted_by_time(|_| ()).stateful_map(
            0,
            |_, last: &mut u64, n| {
                assert!(n >= *last);
                *last = n;
                n
            },
        )
    });
}

#[test]
fn tables_of_joins_are_restored() {
    let left = |env: &Environment| env.range(0..2000).group_by(|n| n % 100);
    let right =
        |env: &Environment| env.range(0..150).map(|n| n * 3).shuffle().group_by(|n| n % 120);
    restored!(|env: &Environment| left(env).join(right(env)));
    restored!(|env: &Environment| left(env).left_join(right(env)));
    restored!(|env: &Environment| left(env).full_join(right(env)));
    restored!(|env: &Environment| left(env).semi_join(right(env)));
    restored!(|env: &Environment| left(env).anti_join(right(env)));
    restored!(|env: &Environment| left(env).join_with(right(env)).broadcast_right().left());
    restored!(|env: &Environment| left(env).join_with(right(env)).broadcast_left().inner());
    restored!(|env: &Environment| left(env).join_with(right(env)).build_left().right());
    restored!(|env: &Environment| left(env).join_with(right(env)).symmetric().inner());
    restored!(|env: &Environment| env.range(0..300).cross(env.range(0..20)));
    // Many rows have one key, and some of them no partner.
    restored!(|env: &Environment| {
        let rows = env.range(0..800).shuffle().group_by(|n| n % 50);
        env.range(0..300).filter(|n| n % 50 < 20).group_by(|n| n % 50).full_join(rows)
    });
    restored!(|env: &Environment| {
        let rows = env.range(0..400).shuffle().group_by(|n| n % 25);
        rows.join_with(env.range(0..900).group_by(|n| n % 40)).build_left().semi()
    });
    // The first task ends long before the others, with a table that all of them have.
    let unequal = |task: usize, tasks: usize| match (task, tasks) {
        (0, 1) => 0..3000u64,
        (0, _) => 0..10,
        (1, _) => 10..3000,
        _ => 0..0,
    };
    restored!(|env: &Environment| {
        let all = env.parallel_iter(unequal).group_by(|n| n % 100);
        all.join_with(right(env)).broadcast_right().left()
    });
    // The first task needs nothing of the table that all tasks have, since it has no key of those that follow.
    restored!(|env: &Environment| {
        let facts = env.range(0..2000).group_by(|n| n % 100).repartition();
        let named = facts.join_with(right(env)).broadcast_right().inner();
        named.join(env.range(0..1).group_by(|_| 78))
    });
    // What is looked up comes from the same source as the table, and waits beside it.
    restored!(|env: &Environment| {
        let [one, other] = env.range(0..2000).split();
        one.group_by(|n| n % 100).join(other.filter(|n| n % 9 == 0).group_by(|n| n % 120))
    });
}

#[test]
fn files_with_event_time_are_read_on() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..4u64 {
        let lines: String = (0..800).map(|n| format!("{}\n", file * 400 + n)).collect();
        if file % 2 == 0 {
            std::fs::write(folder.path().join(format!("{file}.txt")), lines).unwrap();
            continue;
        }
        let path = folder.path().join(format!("{file}.txt.gz"));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        // Longer than the beginning that is read first of each file.
        gzip.write_all(format!("{lines}{}", "\n".repeat(20_000)).as_bytes()).unwrap();
        std::fs::write(path, gzip.finish().unwrap()).unwrap();
    }
    let counts = restored!(|env: &Environment| {
        let lines = env.lines(Text::new(folder.path()).split_bytes(700).block_bytes(100));
        let numbers = lines.filter_map(|line| line.parse::<i64>().ok());
        let timed =
            numbers.assign_timestamps(|n| Timestamp::from_micros(*n), Watermarks::monotonous());
        let windows =
            timed.group_by(|n| n % 3).window(EventTimeWindow::sliding(micros(90), micros(30)));
        windows.count()
    });
    let all: u64 = counts.iter().map(|(_, pane)| pane.value).sum();
    assert_eq!(all, 3 * 4 * 800);
}

/// Numbers of which the second task has the most, and others few or none.
fn unequal(task: usize, tasks: usize) -> Range<u64> {
    match (task, tasks) {
        (0, 1) => 0..1500,
        (0, _) => 0..10,
        (1, _) => 10..1500,
        _ => 0..0,
    }
}

/// The numbers of a task, each with its place among them.
fn numbered(task: usize, tasks: usize) -> impl Iterator<Item = (u64, u64)> + Send {
    (0..).zip((task as u64..).step_by(tasks))
}

/// Counts the numbers of a task.
fn in_order(seen: &mut u64, (at, n): (u64, u64)) -> u64 {
    assert_eq!(at, *seen, "of {n}");
    *seen += 1;
    n
}

/// Remembers the last number, and passes it on if it is not less than the one before.
fn ascending(last: &mut u64, n: u64) -> u64 {
    assert!(n >= *last);
    *last = n;
    n
}

fn add(sum: &mut u64, n: u64) {
    *sum += n;
}

/// Remembers the last number, if it follows the one before.
fn follow(last: &mut u64, n: u64) {
    assert_eq!(n, *last + 1);
    *last = n;
}

fn at_most_seven(chunk: Vec<u64>) -> Vec<u64> {
    assert!((1..=7).contains(&chunk.len()));
    chunk
}

#[test]
fn states_of_tasks_are_restored() {
    restored!(|env: &Environment| env.iter(0..900u64).stateful_map(0, |seen: &mut u64, n| {
        *seen += 1;
        (n, n + 1 - *seen)
    }));
    restored!(|env: &Environment| env.iter(0..u64::MAX).scan(0, |sum, n| {
        *sum += n;
        (*sum < 90_000).then_some(*sum)
    }));
    restored!(|env: &Environment| {
        let finite = |task, tasks| numbered(task, tasks).take_while(|(_, n)| *n < 1500);
        env.parallel_iter(finite).stateful_map(0, in_order)
    });
    // Each task has enough at some time, and its iterator does not end.
    restored!(|env: &Environment| env.parallel_iter(numbered).scan(0, |seen, pair| {
        let n = in_order(seen, pair);
        (n < 700).then_some(n)
    }));
    restored!(|env: &Environment| {
        let numbered = |task, tasks| unequal(task, tasks).enumerate();
        let numbered = move |task, tasks| numbered(task, tasks).map(|(at, n)| (at as u64, n));
        env.parallel_iter(numbered).stateful_map(0, in_order)
    });
    restored!(|env: &Environment| {
        let none = env.range(0..0).scan(7u64, |_, n| Some(n));
        none.merge(env.iter(0..200u64))
    });
}

#[test]
fn open_chunks_are_restored() {
    restored!(|env: &Environment| env.range(0..3000).chunks(7).map(at_most_seven).flatten());
    restored!(|env: &Environment| env
        .parallel_iter(unequal)
        .chunks(7)
        .map(at_most_seven)
        .flatten());
    // With other tasks, chunks have the timestamp of their own records.
    restored!(|env: &Environment| {
        let chunks = timed(env, 0..900).shuffle().chunks(7).map(at_most_seven);
        let checked = chunks.map_with_timestamp(|chunk, at| {
            let latest = chunk.iter().max().map(|n| Timestamp::from_micros(n.cast_signed()));
            assert_eq!(Some(at), latest, "{chunk:?}");
            chunk
        });
        checked.flatten()
    });
    // None is late.
    let windows = restored!(|env: &Environment| {
        let records = timed(env, 0..900).shuffle().chunks(7).flatten();
        let windows = records.window_all(EventTimeWindow::tumbling(micros(100)));
        windows.count().map(|pane| pane.value).sum(|n| *n)
    });
    assert_eq!(windows, [900]);
    restored!(|env: &Environment| env.range(0..0).chunks(7).flatten().merge(env.range(0..100)));
}

/// A chunk that is open when a file has been read in part is not taken for one of the next file.
#[test]
fn chunks_of_files_with_watermarks_are_cut_at_barriers() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let lines: String = (0..300).map(|n| format!("{}\n", 1000 * file + n)).collect();
        std::fs::write(folder.path().join(format!("{file}.txt")), lines).unwrap();
    }
    let at = |chunk: &Vec<u64>| Timestamp::from_micros((chunk[0] % 1000).cast_signed());
    let windows = restored!(|env: &Environment| {
        let files = Text::new(folder.path()).split_bytes(500).block_bytes(60);
        let chunks = env.lines(files).map(|line| line.parse::<u64>().unwrap()).chunks(4);
        let records = chunks.assign_timestamps(at, Watermarks::monotonous()).flatten();
        let windows = records.window_all(EventTimeWindow::tumbling(micros(50)));
        windows.count().map(|pane| pane.value).sum(|n| *n)
    });
    assert_eq!(windows, [900]);
}

#[test]
fn generated_records_are_restored() {
    restored!(|env: &Environment| env.generate(f64::INFINITY, Some).zip(env.iter(0..2000u64)));
    restored!(|env: &Environment| env.generate(1e6, Some).zip(env.iter(0..500u64)));
    restored!(|env: &Environment| {
        let some = env.generate(1e7, |n| (n < 400).then_some(n));
        some.zip(env.iter(0..500u64))
    });
}

#[test]
fn what_waits_for_its_pair_is_restored() {
    restored!(|env: &Environment| env.iter(0..1500u64).zip(env.iter(0..1000u64).map(|n| n * 2)));
    restored!(|env: &Environment| {
        let [one, other] = env.iter(0..1500u64).split();
        one.filter(|n| n % 3 == 0).zip(other.filter(|n| n % 2 == 0).map(|n| n.to_string()))
    });
    restored!(|env: &Environment| {
        let [one, other] = env.iter(0..1500u64).split();
        one.filter(|n| *n >= 1000).zip(other).limit(300)
    });
    restored!(|env: &Environment| {
        let words = env.iter(0..700u64).flat_map_str(|n, out| out.push(&n.to_string()));
        words.zip(env.iter(0..900u64))
    });
    restored!(|env: &Environment| {
        let none = env.iter(0..0u64).zip(env.iter(0..u64::MAX));
        none.map(|(n, _)| n).merge(env.iter(0..300u64))
    });
    restored!(|env: &Environment| {
        let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
        let one = env.iter(0..900u64).assign_timestamps(at, Watermarks::monotonous());
        let other = env.iter(100..900u64).assign_timestamps(at, Watermarks::monotonous());
        let pairs = one.zip(other).group_by(|(n, _)| n % 3);
        pairs.window(EventTimeWindow::tumbling(micros(70))).count()
    });
    restored!(|env: &Environment| {
        let [numbers, others] = env.range(0..20_000).filter(|n| n % 10 == 0).split();
        numbers.zip_by_task(others.map(|n| n * n))
    });
    restored!(|env: &Environment| {
        let below = |end: u64| move |task, tasks| (task as u64..end).step_by(tasks);
        env.parallel_iter(below(800)).zip_by_task(env.parallel_iter(below(1300)).map(|n| n * 3))
    });
    restored!(|env: &Environment| {
        let [numbers, others] = env.parallel_iter(unequal).split();
        numbers.zip_by_task(others)
    });
}

#[test]
fn states_that_a_control_stream_changes_are_restored() {
    restored!(|env: &Environment| {
        let after = env.range(0..2000).connect_after(env.iter(0..300u64).shuffle(), 0, add);
        after.map(|(n, sum)| (n, *sum))
    });
    restored!(|env: &Environment| {
        let [all, records] = env.range(0..1000).split();
        records.connect_after(all, 0, add).map(|(n, sum)| (n, *sum))
    });
    restored!(|env: &Environment| {
        let words = env.parallel_iter(unequal).flat_map_str(|n, out| out.push(&n.to_string()));
        let after = words.connect_after(env.iter(0..900u64), 0, add);
        after.map(|(word, sum)| format!("{word} {sum}"))
    });
    restored!(|env: &Environment| {
        let records = env.range(0..1000);
        records.connect(env.iter(1..1500u64), 0, follow).map(|(n, last)| n.max(last / 1500))
    });
    // The records of the first task end long before those of another, and so do the control records that it gets.
    restored!(|env: &Environment| {
        let records = env.parallel_iter(unequal);
        records.connect(env.iter(1..2500u64), 0, follow).map(|(n, last)| n.max(last / 2500))
    });
    restored!(|env: &Environment| {
        let late = timed(env, 0..1000).connect_after(env.iter(0..500u64), 0, add);
        let sums = late.map(|(n, sum)| (n, *sum)).group_by(|(n, _)| n % 3);
        sums.window(EventTimeWindow::tumbling(micros(90))).max(|(_, sum)| *sum)
    });
    restored!(|env: &Environment| {
        let keyed = env.range(0..1000).group_by(|n| n % 7);
        let after = keyed.connect_after(env.iter(0..500u64), 0, add);
        after.map(|_, (n, sum)| n + sum)
    });
    restored!(|env: &Environment| {
        let [all, records] = env.range(0..1000).split();
        let after = records.group_by(|n| n % 50).connect_after(all, 0, add);
        after.stateful_map_with(0, |_, seen: &mut u64, _, sum| {
            *seen += 1;
            (*seen, *sum)
        })
    });
    restored!(|env: &Environment| {
        let keyed = env.range(0..1000).group_by(|n| n % 7).repartition();
        let beside = keyed.connect(env.iter(1..900u64), 0, follow);
        beside.stateful_map_with(0, |_, seen: &mut u64, _, _| {
            *seen += 1;
            *seen
        })
    });
    restored!(|env: &Environment| {
        let none = env.iter(0..0u64).connect_after(env.iter(0..300u64), 0, add);
        none.map(|(n, sum)| n + sum).merge(env.range(0..200))
    });
}

#[test]
fn rows_of_csv_files_are_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let rows = |file: u64, ending: &str| {
        (0..1250u64).map(|n| format!("{},\"a, {n}\"{ending}", file * 400 + n)).collect::<String>()
    };
    std::fs::write(path("a.csv"), format!("\u{feff}n,word\r\n{}", rows(0, "\r\n"))).unwrap();
    std::fs::write(path("b.csv"), format!("\n\nn,word\n{}", rows(1, "\n\n"))).unwrap();
    std::fs::write(path("c.csv"), format!("n,word\n{}", rows(2, "\n").trim_end())).unwrap();
    std::fs::write(path("d.csv"), "").unwrap();
    std::fs::write(path("e.csv"), "n,word\n").unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(format!("n,word\r\n{}", rows(3, "\r\n")).as_bytes()).unwrap();
    std::fs::write(path("f.csv.gz"), gzip.finish().unwrap()).unwrap();
    let all = || Csv::new([path("*.csv"), path("*.csv.gz")]);
    let count =
        |csv: &Csv| restored!(|env: &Environment| env.csv::<(u64, String)>(csv.clone())).len();
    assert_eq!(count(&all().has_header(true)), 5000);
    assert_eq!(count(&all().one_line_rows(true).split_bytes(9000)), 5000);
    assert_eq!(count(&Csv::new(path("a.csv"))), 1250);
    assert_eq!(count(&Csv::new(path("f.csv.gz")).one_line_rows(true)), 1250);
    // Rows that end with a carriage return alone are no lines.
    std::fs::write(path("g.text"), rows(0, "\r")).unwrap();
    std::fs::write(path("h.text"), rows(0, "\r") + &rows(3, "\n")).unwrap();
    let text = Csv::new(path("[gh].text")).without_header();
    assert_eq!(count(&text), 3750);
    assert_eq!(count(&text.clone().one_line_rows(true).split_bytes(7000)), 3750);
    // Fields with line breaks, and rows that cannot be read.
    let broken = |n: u64| {
        format!("{n},\"a\n{n}\r\n\"\r\n{}", if n.is_multiple_of(9) { "x,y\n" } else { "" })
    };
    let broken: String = (0..1000).map(broken).collect();
    std::fs::write(path("i.text"), format!("n,word\n{broken}")).unwrap();
    restored!(|env: &Environment| {
        let (rows, bad) = env.csv::<(u64, String)>(path("i.text")).dead_letters();
        rows.map(|(n, word)| format!("{n} {word}")).merge(bad.map(|bad| bad.line.to_string()))
    });
    restored!(|env: &Environment| {
        let rows = env.csv::<(u64, String)>(all().has_header(true));
        let timed = rows.assign_timestamps(
            |(n, _)| Timestamp::from_micros(n.cast_signed()),
            Watermarks::monotonous(),
        );
        let windows = timed.group_by(|(n, _)| n % 3).window(EventTimeWindow::tumbling(micros(90)));
        windows.count()
    });
}

/// Where a source goes on that has read a part of a file. One byte earlier, the last digit of a file would be one more row;
/// one byte later, the first digit of a row would be lost.
#[test]
fn rows_of_csv_files_are_read_on_at_the_very_byte() {
    // As many rows as the source reads at a time: a barrier comes where the file ends, without a line feed, and within a file.
    const ROWS: u64 = 1024;
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for file in 0..6 {
        let rows = (0..ROWS * (1 + file % 3)).map(|n| 100_000 + 10_000 * file + n);
        let text: Vec<_> = rows.clone().map(|n| n.to_string()).collect();
        std::fs::write(folder.path().join(format!("{file}.csv")), text.join("\n")).unwrap();
        expected.extend(rows);
    }
    let csv = || Csv::new(folder.path()).without_header();
    for csv in [csv(), csv().one_line_rows(true)] {
        check(|env| env.csv::<(u64,)>(csv.clone()).map(|(n,)| n))
            .seeds(24)
            .equals(expected.iter().copied());
    }
}

/// Also by jobs that are restored on other hosts.
#[test]
fn written_files_have_every_record_once() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["all", "counts"].map(|name| folder.path().join(name));
    let job = |env: &Environment| {
        let [all, counted, given] = env.range(0..3000).split();
        all.shuffle().map(|n| n.to_string()).write_lines(&paths[0]);
        let counts = counted.group_by(|n| n % 100).count().unkey();
        counts.map(|(key, count)| format!("{key} {count}")).write_lines(&paths[1]);
        given.filter(|n| n % 100 == 0)
    };
    let sorted = |lines: &mut dyn Iterator<Item = String>| {
        let mut lines: Vec<_> = lines.collect();
        lines.sort_unstable();
        lines
    };
    let expected = [
        sorted(&mut (0..3000).map(|n| n.to_string())),
        sorted(&mut (0..100).map(|key| format!("{key} 30"))),
    ];
    check(job).seeds(24).satisfies(|given| {
        for (path, expected) in paths.iter().zip(&expected) {
            let text = std::fs::read_to_string(path).unwrap();
            let found = sorted(&mut text.lines().map(str::to_owned));
            if found != *expected {
                return Err(format!("{} has {} lines, and others", path.display(), found.len()));
            }
        }
        let count = given.len();
        if count == 30 { Ok(()) } else { Err(format!("{count} records")) }
    });
}

/// Remembers the last number of each task, with its place; each follows in order.
fn in_order_of_tasks(last: &mut Vec<(u64, u64)>, (task, at, n): (usize, u64, u64)) -> u64 {
    last.resize(last.len().max(task + 1), (0, 0));
    assert!((n / 500, at + 1) > last[task]);
    last[task] = (n / 500, at + 1);
    n
}

#[test]
fn sorts_are_restored() {
    restored!(|env: &Environment| {
        let backwards = env.range(0..2000).map(|n| 2000 - n).shuffle();
        backwards.sorted().stateful_map(0, ascending)
    });
    restored!(|env: &Environment| {
        let halves = env.range(0..900).map(|n| n as f64 / 2.0);
        halves.sorted_by(|a, b| b.total_cmp(a)).map(|n| n.to_string())
    });
    // Some tasks have ended long before the last one emits what it has sorted.
    restored!(|env: &Environment| {
        env.parallel_iter(unequal)
            .sorted_by_key(|n| 5000 - n)
            .map(|n| 5000 - n)
            .stateful_map(0, ascending)
    });
    restored!(|env: &Environment| {
        let sorted = env.parallel_iter(unequal).sorted().stateful_map(0, ascending);
        sorted.merge(env.range(2000..9000).filter(|n| n % 9 == 0)).sum(|n| *n)
    });
    restored!(|env: &Environment| {
        let sorted = env.range(0..300).sorted();
        sorted.merge(env.iter(2000..4000u64))
    });
    restored!(|env: &Environment| env.parallel_iter(unequal).sorted().limit(70));
    restored!(|env: &Environment| {
        let words = env.range(0..900).flat_map_str(|n, out| out.push(&n.to_string())).sorted();
        words.zip(env.parallel_iter(unequal).sorted())
    });
    restored!(|env: &Environment| env.range(0..0).sorted().merge(env.range(0..300)));
    // Equal records of one task keep their order.
    restored!(|env: &Environment| {
        let records = |task: usize, tasks: usize| {
            numbered(task, tasks).take_while(|(_, n)| *n < 1500).map(move |(at, n)| (task, at, n))
        };
        let sorted = env.parallel_iter(records).sorted_by_key(|(_, _, n)| n / 500);
        sorted.stateful_map(Vec::new(), in_order_of_tasks)
    });
}

#[test]
fn sorted_rows_of_joins_are_restored() {
    let left = |env: &Environment| env.range(0..2000).group_by(|n| n % 100);
    let right =
        |env: &Environment| env.range(0..150).map(|n| n * 3).shuffle().group_by(|n| n % 120);
    restored!(|env: &Environment| left(env).join_with(right(env)).sort_merge().inner());
    restored!(|env: &Environment| left(env).join_with(right(env)).sort_merge().left());
    restored!(|env: &Environment| left(env).join_with(right(env)).sort_merge().full());
    restored!(|env: &Environment| left(env).join_with(right(env)).sort_merge().anti());
    restored!(|env: &Environment| {
        left(env).join_with(right(env)).broadcast_right().sort_merge().left()
    });
    restored!(|env: &Environment| {
        left(env).join_with(right(env)).broadcast_left().sort_merge().inner()
    });
    restored!(|env: &Environment| {
        let some = env.parallel_iter(unequal).group_by(|n| n % 100);
        let joined = some.join_with(right(env)).broadcast_right().sort_merge().left();
        joined.merge(left(env).join(right(env)).map(|_, (n, other)| (n, Some(other))))
    });
    restored!(|env: &Environment| {
        let joined = left(env).join_with(right(env)).sort_merge().inner();
        joined.unkey().limit(300).count()
    });
    restored!(|env: &Environment| {
        let [one, other] = env.range(0..2000).split();
        let other = other.filter(|n| n % 9 == 0).group_by(|n| n % 120);
        one.group_by(|n| n % 100).join_with(other).sort_merge().full()
    });
    restored!(|env: &Environment| {
        let none = env.range(0..0).group_by(|n| n % 100);
        none.join_with(right(env)).sort_merge().right()
    });
}
