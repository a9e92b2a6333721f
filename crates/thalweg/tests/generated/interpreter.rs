//! What a job should give: its steps one after the other on a `Vec`, with nothing of the engine's.

use crate::description::{Computed, Input, Job, Join, Row, Step};
use std::collections::{BTreeMap, BTreeSet};

/// What a job gives: its records, and those of its side outputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) main: Vec<Row>,
    pub(crate) sides: Vec<Vec<Row>>,
}

pub(crate) fn interpret(job: &Job) -> Given {
    let mut given = Given { main: job.input.rows(), sides: Vec::new() };
    for step in &job.steps {
        let rows = std::mem::take(&mut given.main);
        given.main = apply(step, rows, &mut given.sides);
    }
    given
}

/// A number that stands for any values, whatever their order.
pub(crate) fn mixed(sum: i64, value: i64) -> i64 {
    sum.wrapping_add(value.wrapping_mul(value ^ 0x5555))
}

/// A number that further sums do not overflow with.
pub(crate) fn small(number: i64) -> i64 {
    number % 1_000_003
}

fn by<K: Ord>(rows: Vec<Row>, key: impl Fn(&Row) -> K) -> BTreeMap<K, Vec<Row>> {
    let mut groups: BTreeMap<K, Vec<Row>> = BTreeMap::new();
    rows.into_iter().for_each(|row| groups.entry(key(&row)).or_default().push(row));
    groups
}

fn compute(how: Computed, rows: &[Row]) -> i64 {
    let values = || rows.iter().map(|row| row.value);
    match how {
        Computed::Count => rows.len() as i64,
        Computed::Sum => values().sum(),
        Computed::Min => values().min().unwrap_or_default(),
        Computed::Max | Computed::Reduce => values().max().unwrap_or_default(),
        Computed::Fold | Computed::FoldAssoc => small(values().fold(0, mixed)),
        Computed::Quantiles => {
            let mut values: Vec<i64> = values().collect();
            values.sort_unstable();
            let last = values.len() - 1;
            quantiles([values[last / 4], values[last / 2], values[last]])
        }
        Computed::Several => {
            let different: BTreeSet<_> = rows.iter().map(|row| &row.text).collect();
            several(rows.len() as u64, values().min().unwrap_or_default(), different.len() as u64)
        }
    }
}

/// Three results as one.
pub(crate) fn several(count: u64, min: i64, different: u64) -> i64 {
    count as i64 * 1_000_003 + min * 31 + different as i64
}

/// The lower quartile, the median and the maximum as one.
pub(crate) fn quantiles([quarter, half, most]: [i64; 3]) -> i64 {
    quarter * 7 + half * 31 + most
}

/// What a step makes of rows; its side output is added to `sides`.
pub(crate) fn apply(step: &Step, mut rows: Vec<Row>, sides: &mut Vec<Vec<Row>>) -> Vec<Row> {
    use Step::*;
    match step {
        Shuffle | Random(_) | Forward | PartitionBy | Parallelism(_) | Chunks(_) | Scattered
        | Sorted | Cache => rows,
        Add(by) => each(rows, |row| row.value += by),
        Memo(_) | Async(_) | Blocking(_) => each(rows, |row| row.value = row.value / 2 + 1),
        KeepMultiples(of) => kept(rows, |row| row.value % of == 0),
        KeyedFilter(of) => kept(rows, |row| row.key % of == 0),
        KeyedFilterMap(of) => {
            each(kept(rows, |row| row.value.unsigned_abs() % of == 0), |row| row.value += 1)
        }
        KeyedFlatMap(times) | KeyedFlatten(times) => {
            let copies = |row: Row| {
                (0..*times as i64).map(move |n| Row { value: row.value + n, ..row.clone() })
            };
            rows.into_iter().flat_map(copies).collect()
        }
        Repeat(times) => {
            let copies =
                |row: Row| (0..*times).map(move |n| Row { key: row.key ^ n, ..row.clone() });
            rows.into_iter().flat_map(copies).collect()
        }
        Rekey(keys) => each(rows, |row| row.key = row.value.unsigned_abs() % keys),
        Static(keys) => {
            each(rows, |row| row.value += if row.key < *keys { row.key as i64 * 10 } else { -1 })
        }
        SortedLimit(n) => {
            rows.sort();
            rows.truncate(*n as usize);
            rows
        }
        Top(n) => {
            rows.sort_by(|a, b| b.cmp(a));
            rows.truncate(*n);
            rows
        }
        Unique => rows.into_iter().collect::<BTreeSet<_>>().into_iter().collect(),
        Fold | FoldAssoc => vec![Row::new(0, compute(Computed::Fold, &rows), 0)],
        Reduce => {
            let text = || rows.iter().map(|row| row.text.clone());
            let both =
                |key, value| Row { key, value, at: 0, text: text().max().unwrap_or_default() };
            let sum = rows.iter().map(|row| row.value).sum();
            rows.iter().map(|row| row.key).max().map(|key| both(key, sum)).into_iter().collect()
        }
        Aggregate if rows.is_empty() => Vec::new(),
        Aggregate => vec![Row::new(0, compute(Computed::Several, &rows), 0)],
        Max => rows.into_iter().max().into_iter().collect(),
        Min => rows.into_iter().min().into_iter().collect(),
        ByKey(how) | GlobalWindow(how) => {
            let groups = by(rows, |row| row.key).into_iter();
            groups.map(|(key, rows)| Row::new(key, compute(*how, &rows), 0)).collect()
        }
        KeyedUnique => by(rows, |row| row.key).into_keys().map(|key| Row::new(key, 0, 0)).collect(),
        Numbered => {
            let groups = by(rows, |row| row.key).into_iter();
            let numbers = |(key, rows): (u64, Vec<Row>)| {
                (1..=rows.len() as i64).map(move |n| Row::new(key, n, 0))
            };
            groups.flat_map(numbers).collect()
        }
        NumberedEven => {
            let groups = by(rows, |row| row.key).into_iter();
            let numbers = |(key, rows): (u64, Vec<Row>)| {
                let even = (1..=rows.len() as i64).filter(|n| n % 2 == 0);
                even.flat_map(move |n| [Row::new(key, n, 0), Row::new(key, -n, 0)])
            };
            groups.flat_map(numbers).collect()
        }
        CountWindow(size, slide, partial) => count_windows(rows, *size, *slide, *partial),
        Diamond(plus) => {
            let other = rows.iter().map(|row| Row { value: row.value + plus, ..row.clone() });
            other.collect::<Vec<_>>().into_iter().chain(rows).collect()
        }
        // Out of it in several streams, and together again.
        Routed(_) => rows,
        SideOutput(of) => each(rows, |row| row.value -= i64::from(row.value % of == 0)),
        SideSink(of) => {
            let (side, rows): (Vec<_>, Vec<_>) =
                rows.into_iter().partition(|row| row.value % of == 0);
            sides.push(side);
            rows
        }
        ConnectAfter(other) => {
            let sum = compute(Computed::Fold, &other.rows());
            each(rows, |row| row.value += sum)
        }
        Merge(other) | KeyedMerge(other) => rows.into_iter().chain(other.rows()).collect(),
        Cross(other) => {
            let pairs = |row: Row| other.rows().into_iter().map(move |b| pair(&row, &b));
            rows.into_iter().flat_map(pairs).collect()
        }
        Join(how, other) => join(*how, rows, other),
        Replay(rounds) => {
            let mut state = 0i64;
            for _ in 0..*rounds {
                state =
                    rows.iter().fold(0i64, |sum, row| mixed(sum, row.value.wrapping_add(state)));
            }
            vec![Row::new(*rounds, small(state), 0)]
        }
        ReplayGrouped(rounds) => {
            let mut state = 0i64;
            for _ in 0..*rounds {
                let groups = by(rows.clone(), |row| (row.value.wrapping_add(state) as u64) % 5);
                let counts = groups.into_iter().map(|(key, rows)| key as i64 * rows.len() as i64);
                state = counts.fold(state, mixed);
            }
            vec![Row::new(*rounds, small(state), 0)]
        }
        Iterate(rounds) => {
            let mut left = rows;
            let mut sum = 0i64;
            for _ in 0..*rounds {
                left.retain(|row| row.value % 2 == 0 && row.value != 0);
                left.iter_mut().for_each(|row| row.value /= 2);
                sum = left.iter().fold(sum, |sum, row| mixed(sum, row.value));
                if left.is_empty() {
                    break;
                }
            }
            left.push(Row::new(0, small(sum), 0));
            left
        }
        Delta(rounds) => delta(rows, *rounds),
        Tumbling(how, size, offset) => windows(rows, *how, *size, *size, *offset, |row| row.key),
        Sliding(how, size, slide) => windows(rows, *how, *size, *slide, 0, |row| row.key),
        AllTumbling(how, size) => windows(rows, *how, *size, *size, 0, |_| 0),
        Session(how, gap) => sessions(rows, *how, *gap),
        IntervalJoin(before, after, other) => {
            let others = by(other.rows(), |row| row.key);
            let near = |row: Row| {
                let (from, to) = (row.at - before, row.at + after);
                let all = others.get(&row.key).into_iter().flatten();
                all.filter(move |b| (from..=to).contains(&b.at))
                    .map(|b| pair(&row, b))
                    .collect::<Vec<_>>()
            };
            rows.into_iter().flat_map(near).collect()
        }
        AsOf(other) => {
            let others = by(other.rows(), |row| row.key);
            let latest = |row: Row| {
                let all = others.get(&row.key).into_iter().flatten();
                let at = all.map(|b| b.at).filter(|at| *at <= row.at).max();
                Row { value: row.value + at.map_or(-1, |at| at % 1000), ..row }
            };
            rows.into_iter().map(latest).collect()
        }
        WindowJoin(size, other) => {
            let key = |row: &Row| (row.key, row.at.div_euclid(*size));
            let others = by(other.rows(), key);
            let matches = |row: Row| {
                let all = others.get(&key(&row)).into_iter().flatten();
                all.map(|b| pair(&row, b)).collect::<Vec<_>>()
            };
            rows.into_iter().flat_map(matches).collect()
        }
        CoGroup(size, other) => {
            let key = |row: &Row| (row.key, row.at.div_euclid(*size));
            let (left, right) = (by(rows, key), by(other.rows(), key));
            let keys: BTreeSet<_> = left.keys().chain(right.keys()).copied().collect();
            let len = |of: &BTreeMap<_, Vec<Row>>, key| of.get(&key).map_or(0, Vec::len) as i64;
            let row =
                |key: (u64, i64)| Row::new(key.0, len(&left, key) * 1000 + len(&right, key), 0);
            keys.into_iter().map(row).collect()
        }
    }
}

/// What joins make of two rows.
pub(crate) fn pair(a: &Row, b: &Row) -> Row {
    let text = format!("{}|{}", a.text, b.text);
    Row { key: a.key, value: a.value.wrapping_mul(31).wrapping_add(b.value), at: 0, text }
}

fn each(mut rows: Vec<Row>, change: impl Fn(&mut Row)) -> Vec<Row> {
    rows.iter_mut().for_each(change);
    rows
}

fn kept(mut rows: Vec<Row>, keep: impl Fn(&Row) -> bool) -> Vec<Row> {
    rows.retain(keep);
    rows
}

fn count_windows(rows: Vec<Row>, size: u64, slide: u64, partial: bool) -> Vec<Row> {
    let mut all = Vec::new();
    for (key, rows) in by(rows, |row| row.key) {
        let len = rows.len() as u64;
        for first in (0..len).step_by(slide as usize) {
            let count = size.min(len - first);
            if count == size || partial {
                all.push(Row::new(key, count as i64, 0));
            }
        }
    }
    all
}

fn join(how: Join, rows: Vec<Row>, other: &Input) -> Vec<Row> {
    let alone = |row: &Row| pair(row, &Row::new(0, -7, 0));
    let mut rights = by(other.rows(), |row| row.key);
    let lefts = by(rows, |row| row.key);
    let mut all = Vec::new();
    for (key, lefts) in lefts {
        let rights = rights.remove(&key).unwrap_or_default();
        let unmatched = match how {
            Join::Semi | Join::Anti => {
                if rights.is_empty() == (how == Join::Anti) {
                    all.extend(lefts);
                }
                continue;
            }
            Join::Left | Join::Full | Join::BroadcastRight => rights.is_empty(),
            _ => false,
        };
        for left in lefts {
            all.extend(unmatched.then(|| alone(&left)));
            all.extend(rights.iter().map(|right| pair(&left, right)));
        }
    }
    if matches!(how, Join::Right | Join::Full | Join::BroadcastLeft) {
        let lonely = |right: &Row| pair(&Row::new(right.key, -9, 0), right);
        all.extend(rights.into_values().flatten().map(|right| lonely(&right)));
    }
    all
}

/// The least value of each key that it can be reached from, by steps from a key to half of it.
fn delta(rows: Vec<Row>, rounds: u64) -> Vec<Row> {
    let mut solution: BTreeMap<u64, i64> = BTreeMap::new();
    for row in rows {
        let least = solution.entry(row.key).or_insert(row.value);
        *least = row.value.min(*least);
    }
    let mut changed: BTreeSet<u64> = solution.keys().copied().collect();
    for _ in 0..rounds {
        let from: Vec<_> = changed.iter().map(|key| (key / 2, solution[key])).collect();
        changed.clear();
        for (key, value) in from {
            let least = solution.entry(key).or_insert(i64::MAX);
            if value < *least {
                *least = value;
                changed.insert(key);
            }
        }
        if changed.is_empty() {
            break;
        }
    }
    solution.into_iter().map(|(key, value)| Row::new(key, value, 0)).collect()
}

/// The result of a window: its own timestamp is the last one within it.
fn pane(key: u64, value: i64, end: i64) -> Row {
    Row::new(key, value, end - 1)
}

fn windows(
    rows: Vec<Row>,
    how: Computed,
    size: i64,
    slide: i64,
    offset: i64,
    key: impl Fn(&Row) -> u64,
) -> Vec<Row> {
    let mut all: BTreeMap<(u64, i64), Vec<Row>> = BTreeMap::new();
    for row in rows {
        let last = (row.at - offset).div_euclid(slide) * slide + offset;
        let mut start = last;
        while start + size > row.at {
            all.entry((key(&row), start)).or_default().push(row.clone());
            start -= slide;
        }
    }
    all.into_iter()
        .map(|((key, start), rows)| pane(key, compute(how, &rows), start + size))
        .collect()
}

fn sessions(rows: Vec<Row>, how: Computed, gap: i64) -> Vec<Row> {
    let mut all = Vec::new();
    for (key, mut rows) in by(rows, |row| row.key) {
        rows.sort_by_key(|row| row.at);
        let sessions = rows.chunk_by(|a, b| b.at - a.at <= gap);
        all.extend(sessions.map(|rows| {
            let last = rows.last().map_or(0, |row| row.at);
            pane(key, compute(how, rows), last + gap + 1)
        }));
    }
    all
}
