//! A job built from its description, with the engine's own operators, and what it gives.

use crate::description::{Computed, Input, Job, Join, Kind, Row, Sink, Step};
use crate::interpreter::{Given, mixed, pair, quantiles, several, small};
use flate2::{Compression, write::GzEncoder};
use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::check::check;
use thalweg::io::{Csv, JsonLines, ReadRow, Text};
use thalweg::operators::calls::Calls;
use thalweg::operators::join::{AsOf, Interval, StaticTable};
use thalweg::operators::keyed::ByRef;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{CountWindow, EventTimeWindow, GlobalWindow, SessionWindow};
use thalweg::time::{Time, Timestamp};
use thalweg::{Boxed, Environment, Error, ErrorKind, KeyedStream, Output, Result, Stream};

type Rows<T = ()> = Stream<Boxed<Row, T>>;
type Keyed<T> = KeyedStream<Boxed<Row, T>, ByRef<fn(&Row) -> &u64, u64>>;

fn keyed<T: Time>(rows: Rows<T>) -> Keyed<T> {
    let key: fn(&Row) -> &u64 = |row| &row.key;
    rows.group_by_ref(key)
}

/// A time that a side output of a job is brought to.
trait Timing: Time {
    fn assigned(rows: Rows) -> Rows<Self>;

    fn step(cx: &Cx<'_>, step: &Step, rows: Rows<Self>) -> Result<Rows<Self>>;
}

impl Timing for () {
    fn assigned(rows: Rows) -> Rows {
        rows
    }

    fn step(cx: &Cx<'_>, step: &Step, rows: Rows) -> Result<Rows> {
        cx.step(step, rows)
    }
}

impl Timing for Timestamp {
    fn assigned(rows: Rows) -> Rows<Self> {
        let find = |row: &Row| Timestamp::from_micros(row.at);
        rows.assign_timestamps(find, Watermarks::monotonous()).boxed()
    }

    fn step(cx: &Cx<'_>, step: &Step, rows: Rows<Self>) -> Result<Rows<Self>> {
        match cx.timed_step(step, rows) {
            Ok(rows) => Ok(rows),
            Err(rows) => cx.step(step, *rows),
        }
    }
}

/// Computes something of the values of each key or window. `$rows` is a macro that makes rows of the results and of
/// a number for each.
macro_rules! computed {
    ($of:expr, $how:expr, $rows:ident) => {
        match $how {
            Computed::Count => $rows!($of.count(), |n| n as i64),
            Computed::Sum => $rows!($of.sum(|row: &Row| row.value), |sum| sum),
            Computed::Min => $rows!($of.min(|row: &Row| row.value), |least| least),
            Computed::Max => $rows!($of.max(|row: &Row| row.value), |greatest| greatest),
            Computed::Fold | Computed::FoldAssoc => {
                let fold = |sum: &mut i64, row: Row| *sum = mixed(*sum, row.value);
                let add = |sum: &mut i64, part: i64| *sum = sum.wrapping_add(part);
                $rows!($of.fold_assoc(0, fold, add), |sum| small(sum))
            }
            Computed::Reduce => {
                let greater = |a: Row, b: Row| if a.value < b.value { b } else { a };
                $rows!($of.reduce(greater), |row| row.value)
            }
            Computed::Quantiles => {
                let shares = [0.25, 0.5, 1.0];
                $rows!($of.aggregate(|a| a.quantiles(|row| row.value, shares)), |found| quantiles(
                    found
                ))
            }
            Computed::Several => {
                $rows!($of.aggregate(several_of!()), |(n, min, texts)| several(n, min, texts))
            }
        }
    };
}

/// The rows of the results of keys.
macro_rules! of_keys {
    ($results:expr, |$result:pat_param| $number:expr) => {
        $results.unkey().map(|(key, $result)| Row::new(key, $number, 0)).boxed()
    };
}

/// The rows of the results of windows without an end.
macro_rules! of_global_windows {
    ($results:expr, |$result:pat_param| $number:expr) => {
        of_keys!($results.map(|_, pane| pane.value), |$result| $number)
    };
}

/// The rows of the results of windows, with the last timestamp of each.
macro_rules! of_windows {
    ($results:expr, |$result:pat_param| $number:expr) => {
        $results
            .unkey()
            .map(|(key, pane)| {
                let $result = pane.value;
                Row::new(key, $number, pane.end.as_micros() - 1)
            })
            .boxed()
    };
}

/// Count, minimum, and number of different texts.
macro_rules! several_of {
    () => {
        |a| (a.count(), a.min(|row| row.value), a.count_distinct(|row| row.text.clone()))
    };
}

/// What a job is built with.
struct Cx<'a> {
    env: &'a Environment,
    dir: &'a Path,
    /// How many inputs are files so far.
    files: Cell<usize>,
    /// What the side outputs that end in sinks of their own give.
    sides: Mutex<Vec<Output<Vec<Row>>>>,
}

/// Runs a job, and gives what it gave.
pub(crate) fn run(job: &Job, dir: &Path) -> Result<Given> {
    let env = Environment::with_config(job.config.clone());
    let cx = Cx { env: &env, dir, files: Cell::new(0), sides: Mutex::default() };
    if job.timed { cx.finish::<Timestamp>(job) } else { cx.finish::<()>(job) }
}

/// Runs a job in all ways that a check does, interrupted at barriers among them, and gives its rows.
pub(crate) fn checked(job: &Job, dir: &Path) -> Vec<Row> {
    if job.timed { checked_as::<Timestamp>(job, dir) } else { checked_as::<()>(job, dir) }
}

fn checked_as<T: Timing>(job: &Job, dir: &Path) -> Vec<Row> {
    let build = |env: &Environment| {
        let cx = Cx { env, dir, files: Cell::new(0), sides: Mutex::default() };
        cx.rows::<T>(job).expect("it is one that can be built")
    };
    // Its files are written when it is built first.
    drop(build(&Environment::new()));
    check(build).agrees()
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}

impl Cx<'_> {
    fn rows<T: Timing>(&self, job: &Job) -> Result<Rows<T>> {
        let rows = T::assigned(self.source(&job.input));
        job.steps.iter().try_fold(rows, |rows, step| T::step(self, step, rows))
    }

    fn finish<T: Timing>(&self, job: &Job) -> Result<Given> {
        let main = self.end(self.rows::<T>(job)?, job.sink)?;
        let sides = std::mem::take(&mut *self.sides.lock().expect("nothing panics with it"));
        Ok(Given { main, sides: sides.into_iter().map(Output::take).collect::<Result<_>>()? })
    }

    fn end<T: Time>(&self, rows: Rows<T>, sink: Sink) -> Result<Vec<Row>> {
        let path = self.dir.join("out");
        match sink {
            Sink::Collect => {
                let all = rows.collect::<Vec<_>>();
                self.env.run()?;
                return all.take();
            }
            Sink::Count => {
                let count = rows.count().collect_one();
                self.env.run()?;
                // What they hold is not known any more.
                return Ok(vec![Row::new(0, 0, 0); count.take()?.unwrap() as usize]);
            }
            Sink::Channel => {
                let all = rows.to_channel();
                let reader = std::thread::spawn(move || all.collect::<Result<Vec<_>>>());
                self.env.run()?;
                return reader.join().expect("it does not panic");
            }
            Sink::ForEach => {
                let all = Arc::new(Mutex::new(Vec::new()));
                let to = Arc::clone(&all);
                rows.for_each_parallel(move |row| to.lock().expect("no panic").push(row));
                self.env.run()?;
                let all = std::mem::take(&mut *all.lock().expect("no panic"));
                return Ok(all);
            }
            Sink::Lines => rows.map(|row| line(&row)).write_lines(&path),
            Sink::LinesParallel => rows.map(|row| line(&row)).write_lines_parallel(&path),
            Sink::Csv => rows.write_csv(&path),
            Sink::CsvParallel => rows.write_csv_parallel(&path),
            Sink::JsonLines => rows.write_json_lines(&path),
            Sink::JsonLinesParallel => rows.write_json_lines_parallel(&path),
        }
        self.env.run()?;
        written(&path, sink)
    }

    fn source(&self, input: &Input) -> Rows {
        let env = self.env;
        let Input { kind, parts, split, .. } = input;
        if kind.is_file() {
            return self.file_source(input);
        }
        match kind {
            Kind::ParallelIter => {
                let parts = parts.clone();
                let make = move |task: usize, tasks: usize| {
                    let own = parts.iter().skip(task).step_by(tasks);
                    let mut own: Vec<Row> = own.flatten().cloned().collect();
                    own.sort_by_key(|row| row.at);
                    own
                };
                env.parallel_iter(make).boxed()
            }
            Kind::Range => env.range(0..input.rows().len() as u64).map(Row::nth).boxed(),
            Kind::Channel => {
                let (sender, rows) = env.channel(split.unwrap_or(7) as usize);
                let all = input.rows();
                std::thread::spawn(move || {
                    for row in all {
                        if sender.send(row).is_err() {
                            break;
                        }
                    }
                });
                rows.boxed()
            }
            _ => env.iter(input.rows()).boxed(),
        }
    }

    fn file_source(&self, input: &Input) -> Rows {
        let env = self.env;
        let split = input.split.unwrap_or(1 << 20);
        let files = files(&self.dir.join(self.files.get().to_string()), input);
        self.files.set(self.files.get() + 1);
        let text = || Text::new(&files).split_bytes(split);
        match input.kind {
            Kind::ByteLines => env.byte_lines(text()).map(parsed).boxed(),
            Kind::ParseLines => {
                env.parse_lines(text(), |line| Ok::<_, String>(Some(parsed(line)))).boxed()
            }
            Kind::Csv => {
                let csv =
                    Csv::new(&files).split_bytes(split).one_line_rows(split.is_multiple_of(3));
                env.csv::<Row>(csv).boxed()
            }
            Kind::CsvRows => env.csv_rows(Csv::new(&files).split_bytes(split), Columns).boxed(),
            Kind::JsonLines => {
                env.json_lines::<Row>(JsonLines::new(&files).split_bytes(split)).boxed()
            }
            _ => env.lines(text()).map(|line| parsed(line.as_bytes())).boxed(),
        }
    }

    fn other<T: Timing>(&self, input: &Input) -> Rows<T> {
        T::assigned(self.source(input))
    }

    fn step<T: Timing>(&self, step: &Step, rows: Rows<T>) -> Result<Rows<T>> {
        let other = |input: &Input| self.other::<T>(input);
        Ok(match step.clone() {
            Step::Add(by) => rows.map(move |row| Row { value: row.value + by, ..row }).boxed(),
            Step::KeepMultiples(of) => rows.filter(move |row| row.value % of == 0).boxed(),
            Step::Repeat(times) => rows
                .flat_map(move |row| {
                    (0..times).map(move |n| Row { key: row.key ^ n, ..row.clone() })
                })
                .boxed(),
            Step::Rekey(keys) => {
                rows.map(move |row| Row { key: row.value.unsigned_abs() % keys, ..row }).boxed()
            }
            Step::Shuffle => rows.shuffle().boxed(),
            Step::Random(seed) => rows.random(seed).boxed(),
            Step::Forward => rows.forward().boxed(),
            Step::PartitionBy => rows.repartition_by(|row, tasks| row.key as usize % tasks).boxed(),
            Step::Parallelism(tasks) => rows.parallelism(tasks).boxed(),
            Step::Chunks(size) => rows.chunks(size).flatten().boxed(),
            Step::Memo(most) => rows.map_memo(most, halved).boxed(),
            Step::Async(most) => {
                rows.map_async(Calls::in_flight(most), |row| async move { halved(row) }).boxed()
            }
            Step::Blocking(most) => {
                rows.map_blocking(Calls::in_flight(most).unordered(), halved).boxed()
            }
            Step::Static(keys) => {
                let table = StaticTable::new((0..keys).map(|key| (key, key as i64 * 10)));
                let make = |row: &Row, by: Option<&i64>| Row {
                    value: row.value + by.copied().unwrap_or(-1),
                    ..row.clone()
                };
                rows.left_join_static(&table, |row| row.key, make).boxed()
            }
            Step::Scattered => {
                keyed(rows).repartition().map(|_, row| row).unkey().map(|(_, row)| row).boxed()
            }
            Step::Sorted => rows.sorted().boxed(),
            Step::SortedLimit(n) => rows.sorted().limit(n).boxed(),
            Step::Top(n) => rows.top(n).boxed(),
            Step::Unique => rows.unique().boxed(),
            Step::Fold => rows
                .fold(0, |sum: &mut i64, row| *sum = mixed(*sum, row.value))
                .map(|sum| Row::new(0, small(sum), 0))
                .boxed(),
            Step::FoldAssoc => rows
                .fold_assoc(
                    0,
                    |sum: &mut i64, row| *sum = mixed(*sum, row.value),
                    |sum, part| *sum = sum.wrapping_add(part),
                )
                .map(|sum| Row::new(0, small(sum), 0))
                .boxed(),
            Step::Reduce => rows
                .map(|row| Row { at: 0, ..row })
                .reduce(|a, b| Row {
                    key: a.key.max(b.key),
                    value: a.value + b.value,
                    at: 0,
                    text: a.text.max(b.text),
                })
                .boxed(),
            Step::Aggregate => rows
                .aggregate(several_of!())
                .map(|(n, min, texts)| Row::new(0, several(n, min, texts), 0))
                .boxed(),
            Step::Max => rows.max_by(Row::cmp).boxed(),
            Step::Min => rows.min_by(Row::cmp).boxed(),
            Step::ByKey(how) => by_key(rows, how),
            Step::KeyedFilter(of) => keyed(rows)
                .filter(move |key, _| key % of == 0)
                .map(|_, row| row)
                .unkey()
                .map(|(_, row)| row)
                .boxed(),
            Step::KeyedFilterMap(of) => keyed(rows)
                .filter_map(move |_, row| {
                    let is_multiple = row.value.unsigned_abs() % of == 0;
                    is_multiple.then(|| Row { value: row.value + 1, ..row })
                })
                .unkey()
                .map(|(_, row)| row)
                .boxed(),
            Step::KeyedFlatMap(times) => keyed(rows)
                .flat_map(move |_, row| {
                    (0..times as i64).map(move |n| Row { value: row.value + n, ..row.clone() })
                })
                .unkey()
                .map(|(_, row)| row)
                .boxed(),
            Step::KeyedFlatten(times) => keyed(rows)
                .map(move |_, row| {
                    let copy = |n| Row { value: row.value + n, ..row.clone() };
                    (0..times as i64).map(copy).collect::<Vec<_>>()
                })
                .flatten()
                .unkey()
                .map(|(_, row)| row)
                .boxed(),
            Step::KeyedMerge(input) => {
                keyed(rows).merge(keyed(other(&input))).unkey().map(|(_, row)| row).boxed()
            }
            Step::KeyedUnique => keyed(rows)
                .map(|_, _| ())
                .unkey()
                .unique()
                .map(|(key, ())| Row::new(key, 0, 0))
                .boxed(),
            Step::Numbered => keyed(rows)
                .stateful_map(0, |_, n: &mut i64, _| {
                    *n += 1;
                    *n
                })
                .unkey()
                .map(row)
                .boxed(),
            Step::NumberedEven => keyed(rows)
                .stateful_flat_map(0, |_, n: &mut i64, _| {
                    *n += 1;
                    if *n % 2 == 0 { vec![*n, -*n] } else { Vec::new() }
                })
                .unkey()
                .map(row)
                .boxed(),
            Step::CountWindow(size, slide, partial) => {
                let mut window = CountWindow::sliding(size, slide);
                if partial {
                    window = window.keep_partial();
                }
                let counts = keyed(rows).window(window).count();
                counts.unkey().map(|(key, pane)| Row::new(key, pane.value as i64, 0)).boxed()
            }
            Step::GlobalWindow(how) => {
                let window = keyed(rows).map(|_, row| row).window(GlobalWindow::new());
                computed!(window, how, of_global_windows)
            }
            Step::Diamond(plus) => {
                let [one, two] = rows.split();
                one.map(move |row| Row { value: row.value + plus, ..row }).merge(two).boxed()
            }
            Step::Routed(of) => {
                let ([some], rest) = rows.route().to(move |row| row.value % of == 0).split();
                self.env.merge_all([some.boxed(), rest.boxed()]).boxed()
            }
            Step::SideOutput(of) => {
                let (main, side) = rows.side_output(move |row, side| {
                    if row.value % of != 0 {
                        return Some(row);
                    }
                    side.push(row);
                    None
                });
                main.merge(side.map(|row| Row { value: row.value - 1, ..row })).boxed()
            }
            Step::SideSink(of) => {
                let (main, side) = rows.side_output(move |row, side| {
                    if row.value % of != 0 {
                        return Some(row);
                    }
                    side.push(row);
                    None
                });
                let side = side.collect();
                self.sides.lock().expect("nothing panics with it").push(side);
                main.boxed()
            }
            Step::ConnectAfter(input) => rows
                .connect_after(self.source(&input), 0, |sum: &mut i64, row| {
                    *sum = mixed(*sum, row.value);
                })
                .map(|(row, sum)| Row { value: row.value + small(*sum), ..row })
                .boxed(),
            Step::Merge(input) => rows.merge(other(&input)).boxed(),
            Step::Cross(input) => rows.cross(other(&input)).map(|(a, b)| pair(&a, &b)).boxed(),
            Step::Join(how, input) => join(rows, how, other(&input)),
            Step::Replay(rounds) => rows
                .replay(rounds, 0i64, |rows, state| {
                    rows.with(state).map(|(row, state)| row.value.wrapping_add(*state))
                })
                .fold(
                    |sum: &mut i64, n| *sum = mixed(*sum, n),
                    |sum, part| *sum = sum.wrapping_add(part),
                )
                .all_rounds(|state, sum| *state = sum)
                .map(|outcome| Row::new(outcome.rounds, small(outcome.state), 0))
                .boxed(),
            Step::ReplayGrouped(rounds) => rows
                .replay(rounds, 0i64, |rows, state| {
                    let keys = rows
                        .with(state)
                        .map(|(row, state)| row.value.wrapping_add(*state) as u64 % 5);
                    keys.group_by(|key| *key).count().unkey().map(|(key, n)| key as i64 * n as i64)
                })
                .fold(
                    |sum: &mut i64, n| *sum = mixed(*sum, n),
                    |sum, part| *sum = sum.wrapping_add(part),
                )
                .all_rounds(|state, sum| *state = state.wrapping_add(sum))
                .map(|outcome| Row::new(outcome.rounds, small(outcome.state), 0))
                .boxed(),
            Step::Iterate(rounds) => {
                let (outcome, left) = rows
                    .iterate(rounds, 0i64, |rows, _| {
                        rows.filter(|row| row.value % 2 == 0 && row.value != 0)
                            .map(|row| Row { value: row.value / 2, ..row })
                    })
                    .fold(
                        |sum: &mut i64, row| *sum = mixed(*sum, row.value),
                        |sum, part| *sum = sum.wrapping_add(part),
                    )
                    .all_rounds(|state, sum| *state = state.wrapping_add(sum));
                left.merge(outcome.map(|outcome| Row::new(0, small(outcome.state), 0))).boxed()
            }
            Step::Delta(rounds) => {
                let less = |least: &mut i64, n: i64| n < std::mem::replace(least, n.min(*least));
                let (outcome, solution) = keyed(rows)
                    .min(|row: &Row| row.value)
                    .delta_iterate(rounds, (), less, |changed, _| {
                        changed.unkey().map(|(key, value)| (key / 2, value)).keyed()
                    })
                    .all_rounds();
                outcome.for_each(drop);
                solution.unkey().map(row).boxed()
            }
            Step::Cache => {
                let cached = rows.cache();
                self.env.run()?;
                cached.stream(self.env).boxed()
            }
            Step::Tumbling(..)
            | Step::Sliding(..)
            | Step::Session(..)
            | Step::AllTumbling(..)
            | Step::IntervalJoin(..)
            | Step::AsOf(_)
            | Step::WindowJoin(..)
            | Step::CoGroup(..) => {
                return Err(Error::new(ErrorKind::Plan, "a step of time without time"));
            }
        })
    }

    /// The steps that need time; gives the rows back where this is none.
    fn timed_step(
        &self,
        step: &Step,
        rows: Rows<Timestamp>,
    ) -> std::result::Result<Rows<Timestamp>, Box<Rows<Timestamp>>> {
        let other = |input: &Input| keyed(self.other::<Timestamp>(input));
        Ok(match step {
            Step::Tumbling(how, size, offset) => {
                let window = EventTimeWindow::tumbling(micros(*size)).offset(micros(*offset));
                computed!(keyed(rows).window(window), *how, of_windows)
            }
            Step::Sliding(how, size, slide) => {
                let window = EventTimeWindow::sliding(micros(*size), micros(*slide));
                computed!(keyed(rows).window(window), *how, of_windows)
            }
            Step::Session(how, gap) => {
                computed!(keyed(rows).window(SessionWindow::new(micros(*gap))), *how, of_windows)
            }
            Step::AllTumbling(how, size) => {
                let one = rows.map(|row| Row { key: 0, ..row }).boxed();
                computed!(
                    keyed(one).window(EventTimeWindow::tumbling(micros(*size))),
                    *how,
                    of_windows
                )
            }
            Step::IntervalJoin(before, after, input) => keyed(rows)
                .interval_join(
                    other(input),
                    Interval::new(micros(*before), micros(*after)),
                    |_, a, b| pair(a, b),
                )
                .unkey()
                .map(|(_, row)| row)
                .boxed(),
            Step::AsOf(input) => keyed(rows)
                .as_of_left_join(other(input), AsOf::latest(), |_, a, b| Row {
                    value: a.value + b.map_or(-1, |b| b.at % 1000),
                    ..a.clone()
                })
                .unkey()
                .map(|(_, row)| row)
                .boxed(),
            Step::WindowJoin(size, input) => keyed(rows)
                .window_join(other(input), EventTimeWindow::tumbling(micros(*size)), |_, a, b| {
                    pair(a, b)
                })
                .unkey()
                .map(|(_, pane)| pane.value)
                .boxed(),
            Step::CoGroup(size, input) => keyed(rows)
                .co_group(other(input), EventTimeWindow::tumbling(micros(*size)), |_, a, b| {
                    a.len() as i64 * 1000 + b.len() as i64
                })
                .unkey()
                .map(|(key, pane)| Row::new(key, pane.value, 0))
                .boxed(),
            _ => return Err(Box::new(rows)),
        })
    }
}

fn row((key, value): (u64, i64)) -> Row {
    Row::new(key, value, 0)
}

fn halved(row: Row) -> Row {
    Row { value: row.value / 2 + 1, ..row }
}

fn by_key<T: Time>(rows: Rows<T>, how: Computed) -> Rows<T> {
    let keyed = keyed(rows);
    if how == Computed::Fold {
        let fold = |sum: &mut i64, row: Row| *sum = mixed(*sum, row.value);
        return of_keys!(keyed.fold(0, fold), |sum| small(sum));
    }
    computed!(keyed, how, of_keys)
}

fn join<T: Time>(rows: Rows<T>, how: Join, other: Rows<T>) -> Rows<T> {
    let (left, right) = (keyed(rows), keyed(other));
    let both = |(_, (a, b)): (u64, (Row, Row))| pair(&a, &b);
    let lefts =
        |(_, (a, b)): (u64, (Row, Option<Row>))| pair(&a, &b.unwrap_or_else(|| Row::new(0, -7, 0)));
    let rights = |(key, (a, b)): (u64, (Option<Row>, Row))| {
        pair(&a.unwrap_or_else(|| Row::new(key, -9, 0)), &b)
    };
    match how {
        Join::Inner => left.join(right).unkey().map(both).boxed(),
        Join::Left => left.left_join(right).unkey().map(lefts).boxed(),
        Join::Right => left.right_join(right).unkey().map(rights).boxed(),
        Join::Full => left
            .full_join(right)
            .unkey()
            .map(|(key, (a, b))| {
                let b = b.unwrap_or_else(|| Row::new(0, -7, 0));
                pair(&a.unwrap_or_else(|| Row::new(key, -9, 0)), &b)
            })
            .boxed(),
        Join::Semi => left.semi_join(right).unkey().map(|(_, row)| row).boxed(),
        Join::Anti => left.anti_join(right).unkey().map(|(_, row)| row).boxed(),
        Join::BroadcastRight => {
            left.join_with(right).broadcast_right().left().unkey().map(lefts).boxed()
        }
        Join::BroadcastLeft => {
            left.join_with(right).broadcast_left().right().unkey().map(rights).boxed()
        }
        Join::BuildLeft => left.join_with(right).build_left().inner().unkey().map(both).boxed(),
        Join::Symmetric => left.join_with(right).symmetric().inner().unkey().map(both).boxed(),
        Join::SortMerge => left.join_with(right).sort_merge().inner().unkey().map(both).boxed(),
    }
}

/// A row as a line, and back.
fn line(Row { key, value, at, text }: &Row) -> String {
    format!("{key},{value},{at},{text}")
}

fn parsed(line: &[u8]) -> Row {
    let line = std::str::from_utf8(line).expect("lines are text");
    let mut fields = line.splitn(4, ',');
    let mut field = || fields.next().expect("a row has four fields");
    let (key, value, at, text) = (field(), field(), field(), field());
    let wrong = "they are numbers";
    Row {
        key: key.parse().expect(wrong),
        value: value.parse().expect(wrong),
        at: at.parse().expect(wrong),
        text: text.to_owned(),
    }
}

/// Reads rows by their columns, in another order than the file has them.
struct Columns;

impl ReadRow<4> for Columns {
    type Row = Row;

    fn columns(&self) -> [&str; 4] {
        ["text", "at", "key", "value"]
    }

    fn read(&self, [text, at, key, value]: [&str; 4]) -> std::result::Result<Row, String> {
        let wrong = |error: std::num::ParseIntError| error.to_string();
        Ok(Row {
            key: key.parse().map_err(wrong)?,
            value: value.parse().map_err(wrong)?,
            at: at.parse().map_err(wrong)?,
            text: text.to_owned(),
        })
    }
}

/// Writes the files of an input, into a folder that no other input of the job has.
fn files(dir: &Path, input: &Input) -> Vec<PathBuf> {
    let writes = "the folder for temporary files can be written to";
    // They are there if the job was built before.
    let are_there = std::fs::create_dir(dir).is_err();
    let write = |(number, rows): (usize, &Vec<Row>)| {
        let mut bytes = Vec::new();
        match input.kind {
            Kind::Csv | Kind::CsvRows => {
                let mut writer =
                    csv::WriterBuilder::new().has_headers(false).from_writer(&mut bytes);
                writer.write_record(["key", "value", "at", "text"]).expect("memory takes it");
                rows.iter().for_each(|row| writer.serialize(row).expect("memory takes it"));
                drop(writer);
            }
            Kind::JsonLines => {
                for row in rows {
                    let json = serde_json::to_string(row).expect("a row is JSON");
                    writeln!(bytes, "{json}").expect("memory takes it");
                }
            }
            _ => rows.iter().for_each(|row| writeln!(bytes, "{}", line(row)).expect("memory")),
        }
        let mut name = format!("part-{number:03}.log");
        if input.gzip {
            name += ".gz";
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&bytes).expect("memory takes it");
            bytes = encoder.finish().expect("memory takes it");
        }
        let path = dir.join(name);
        if !are_there {
            std::fs::write(&path, bytes).expect(writes);
        }
        path
    };
    input.parts.iter().enumerate().map(write).collect()
}

/// Reads what a job has written, by other means than the engine's.
fn written(path: &Path, sink: Sink) -> Result<Vec<Row>> {
    let wrong =
        |what: &dyn std::fmt::Display| Error::new(ErrorKind::Input, format!("wrote: {what}"));
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| wrong(&error))?;
        files = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    }
    let mut rows = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| wrong(&error))?;
        match sink {
            Sink::Csv | Sink::CsvParallel => {
                for row in csv::Reader::from_reader(text.as_bytes()).deserialize() {
                    rows.push(row.map_err(|error| wrong(&error))?);
                }
            }
            Sink::JsonLines | Sink::JsonLinesParallel => {
                for line in text.lines() {
                    rows.push(serde_json::from_str(line).map_err(|error| wrong(&error))?);
                }
            }
            _ => rows.extend(text.lines().map(|line| parsed(line.as_bytes()))),
        }
    }
    Ok(rows)
}
