//! A job as data: what it reads, what it does, where it ends, and how it is run; drawn from a seed.

use crate::draw::Draw;
use crate::interpreter::apply;
use serde::{Deserialize, Serialize};
use std::fmt;
use thalweg::Data;
use thalweg::config::{BatchMode, Config, Scheduler, StateBackend};

/// The one type of record. Its order is total, and `at` is its timestamp where it has one.
#[derive(Data, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) key: u64,
    pub(crate) value: i64,
    /// Microseconds.
    pub(crate) at: i64,
    pub(crate) text: String,
}

impl Row {
    pub(crate) fn new(key: u64, value: i64, at: i64) -> Self {
        Self { key, value, at, text: String::new() }
    }

    /// What a range makes of a number.
    pub(crate) fn nth(n: u64) -> Self {
        Self::new(n % 7, n as i64, n as i64 * 1000)
    }
}

/// How rows come into a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Iter,
    ParallelIter,
    Range,
    Lines,
    ByteLines,
    ParseLines,
    Csv,
    CsvRows,
    JsonLines,
    Channel,
}

/// A source and its rows: those of each file, or of each part of something else.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) kind: Kind,
    pub(crate) parts: Vec<Vec<Row>>,
    /// Bytes of a file that a task takes at a time.
    pub(crate) split: Option<u64>,
    pub(crate) gzip: bool,
}

impl Kind {
    pub(crate) fn is_file(self) -> bool {
        use Kind::{ByteLines, Csv, CsvRows, JsonLines, Lines, ParseLines};
        matches!(self, Lines | ByteLines | ParseLines | Csv | CsvRows | JsonLines)
    }
}

impl Input {
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.parts.concat()
    }
}

/// What is computed of the rows of a key or a window, as its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Computed {
    Count,
    Sum,
    Min,
    Max,
    Fold,
    FoldAssoc,
    Reduce,
    Quantiles,
    /// Count, minimum, and number of different values, all at once.
    Several,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    Inner,
    Left,
    Right,
    Full,
    Semi,
    Anti,
    BroadcastRight,
    BroadcastLeft,
    BuildLeft,
    Symmetric,
    SortMerge,
}

/// One operator, or a few that belong together.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Add(i64),
    KeepMultiples(i64),
    Repeat(u64),
    Rekey(u64),
    Shuffle,
    Random(u64),
    Forward,
    PartitionBy,
    Parallelism(usize),
    Chunks(usize),
    Memo(usize),
    Async(usize),
    Blocking(usize),
    Static(u64),
    Scattered,
    Sorted,
    SortedLimit(u64),
    Top(usize),
    Unique,
    Fold,
    FoldAssoc,
    Reduce,
    Aggregate,
    Max,
    Min,
    ByKey(Computed),
    KeyedFilter(u64),
    KeyedFilterMap(u64),
    KeyedFlatMap(u64),
    KeyedFlatten(u64),
    KeyedMerge(Input),
    KeyedUnique,
    Numbered,
    NumberedEven,
    CountWindow(u64, u64, bool),
    GlobalWindow(Computed),
    Diamond(i64),
    Routed(i64),
    SideOutput(i64),
    SideSink(i64),
    ConnectAfter(Input),
    Merge(Input),
    Cross(Input),
    Join(Join, Input),
    Replay(u64),
    ReplayGrouped(u64),
    Iterate(u64),
    Delta(u64),
    Cache,
    Tumbling(Computed, i64, i64),
    Sliding(Computed, i64, i64),
    Session(Computed, i64),
    AllTumbling(Computed, i64),
    IntervalJoin(i64, i64, Input),
    AsOf(Input),
    WindowJoin(i64, Input),
    CoGroup(i64, Input),
}

/// Where a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    Collect,
    Count,
    Channel,
    ForEach,
    Lines,
    LinesParallel,
    Csv,
    CsvParallel,
    JsonLines,
    JsonLinesParallel,
}

#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) input: Input,
    pub(crate) timed: bool,
    pub(crate) steps: Vec<Step>,
    pub(crate) sink: Sink,
    pub(crate) config: Config,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { cores, scheduler, batch, turn, credit, memory, state_backend, .. } =
            &self.config;
        let encoded = self.config.encode_exchanges;
        writeln!(f, "input: {:?}", self.input)?;
        writeln!(f, "timed: {}", self.timed)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  .{step:?}"))?;
        writeln!(f, "sink: {:?}", self.sink)?;
        write!(
            f,
            "{cores} cores, {scheduler:?}, {batch:?}, turn {turn}, credit {credit}, memory {memory}, \
             keys in {state_backend}, encoded {encoded}"
        )
    }
}

/// The most rows that a step may give.
const ROWS: usize = 20_000;

const SECOND: i64 = 1_000_000;

impl Input {
    /// Rows in order of time within each part, and at most so many.
    fn draw(draw: &mut Draw, most: u64, timed: bool, bounded: bool) -> Self {
        use Kind::{
            ByteLines, Channel, Csv, CsvRows, Iter, JsonLines, Lines, ParallelIter, ParseLines,
            Range,
        };
        let kinds = [
            Iter,
            ParallelIter,
            Range,
            Lines,
            ByteLines,
            ParseLines,
            Csv,
            CsvRows,
            JsonLines,
            Channel,
        ];
        let kind = if bounded { draw.one(&kinds[..9]) } else { draw.one(&kinds) };
        let len = if draw.chance(4) { draw.below(5) } else { draw.below(most) };
        if kind == Range {
            let parts = vec![(0..len).map(Row::nth).collect()];
            return Self { kind, parts, split: None, gzip: false };
        }
        let keys = draw.one(&[1, 2, 7, 50, 100_000]);
        let values = draw.one(&[2, 20, 1_000_000]);
        let step = draw.one(&[0, 1, SECOND / 10, SECOND, 40 * SECOND]);
        // Ties are common where the step is small.
        let start = draw.one(&[0, -30 * SECOND, 1_700_000_000 * SECOND]);
        let of_one = timed && kind != ParallelIter && !kind.is_file();
        let files = if of_one { 1 } else { draw.one(&[1, 1, 2, 3, 5]) };
        // Parts follow one another in time, or overlap.
        let overlap = draw.chance(2);
        let mut at = start;
        let mut parts = Vec::new();
        for _ in 0..files {
            if overlap {
                at = start;
            }
            let len = if files == 1 { len } else { draw.below(len + 1) };
            let mut part = Vec::new();
            for _ in 0..len {
                at += draw.below(2 * step as u64 + 1) as i64;
                let text = draw.one(&["", "a", "b,c", "d \"e\" f", "é—x", "  g "]).to_owned();
                let value = draw.below(values) as i64 - values as i64 / 2;
                part.push(Row { key: draw.below(keys), value, at, text });
            }
            parts.push(part);
        }
        let split = draw.chance(2).then(|| draw.one(&[30, 100, 1000, 10_000]));
        Self { kind, parts, split, gzip: draw.chance(4) }
    }
}

impl Computed {
    fn draw(draw: &mut Draw) -> Self {
        if draw.chance(9) { Self::Fold } else { Self::draw_in_parts(draw) }
    }

    /// One that can be computed in parts, as windows of event time do.
    fn draw_in_parts(draw: &mut Draw) -> Self {
        use Computed::{Count, FoldAssoc, Max, Min, Quantiles, Reduce, Several, Sum};
        draw.one(&[Count, Sum, Min, Max, FoldAssoc, Reduce, Quantiles, Several])
    }
}

impl Job {
    pub(crate) fn draw(seed: u64) -> Self {
        let draw = &mut Draw::new(seed);
        let timed = draw.chance(2);
        let most = draw.one(&[20, 300, 300, 3000]);
        let input = Input::draw(draw, most, timed, false);
        let bounded = input.kind != Kind::Channel;
        // Whether timestamps are those of the rows, and watermarks hold.
        let mut on_time = timed;
        let mut steps = Vec::new();
        let mut rows = input.rows();
        for _ in 0..draw.below(6) {
            let step = Step::draw(draw, timed, on_time, bounded, most);
            let given = apply(&step, rows.clone(), &mut Vec::new());
            if given.len() > ROWS {
                continue;
            }
            rows = given;
            on_time &= step.keeps_time();
            steps.push(step);
        }
        use Sink::*;
        let sinks = [
            Collect,
            Collect,
            Count,
            Lines,
            LinesParallel,
            Csv,
            CsvParallel,
            JsonLines,
            JsonLinesParallel,
            ForEach,
            Channel,
        ];
        let sink = draw.one(if bounded { &sinks } else { &sinks[9..] });
        Self { input, timed, steps, sink, config: config(draw) }
    }
}

impl Step {
    /// A step that is allowed where it stands, and whose result is the same in any order.
    fn draw(draw: &mut Draw, timed: bool, on_time: bool, bounded: bool, most: u64) -> Self {
        let other = |draw: &mut Draw, most: u64| Input::draw(draw, most, timed, true);
        let size = |draw: &mut Draw| draw.one(&[1, SECOND / 3, SECOND, 60 * SECOND]);
        if on_time && bounded && draw.chance(3) {
            return match draw.below(9) {
                0 | 1 => {
                    let size = size(draw);
                    Self::Tumbling(
                        Computed::draw_in_parts(draw),
                        size,
                        draw.below(5) as i64 * size / 5,
                    )
                }
                2 | 3 => {
                    let size = size(draw).max(6);
                    let slide = draw.one(&[size, size / 2, size / 3, size * 2]);
                    Self::Sliding(Computed::draw_in_parts(draw), size, slide)
                }
                4 => Self::Session(Computed::draw_in_parts(draw), size(draw)),
                5 => Self::AllTumbling(Computed::draw_in_parts(draw), size(draw)),
                6 => Self::IntervalJoin(size(draw), size(draw), other(draw, 60)),
                7 => Self::AsOf(other(draw, 300)),
                8 if draw.chance(2) => Self::WindowJoin(size(draw), other(draw, 60)),
                _ => Self::CoGroup(size(draw), other(draw, 300)),
            };
        }
        let simple = 23;
        match draw.below(if bounded { 58 } else { simple }) {
            0 => Self::Add(draw.below(100) as i64 - 50),
            1 => Self::KeepMultiples(1 + draw.below(4) as i64),
            2 => Self::Repeat(draw.below(4)),
            3 => Self::Rekey(1 + draw.below(20)),
            4 => Self::Shuffle,
            5 => Self::Random(draw.below(1000)),
            6 => Self::Forward,
            7 => Self::PartitionBy,
            8 | 9 => Self::Parallelism(1 + draw.below(6) as usize),
            10 => Self::Scattered,
            11 => Self::Memo(1 + draw.below(30) as usize),
            12 => Self::Async(1 + draw.below(9) as usize),
            13 => Self::Blocking(1 + draw.below(4) as usize),
            14 => Self::Static(draw.below(10)),
            15 => Self::KeyedFilter(1 + draw.below(4)),
            16 => Self::Numbered,
            17 => Self::Diamond(draw.below(5) as i64),
            18 => Self::SideOutput(1 + draw.below(4) as i64),
            19 => Self::KeyedFilterMap(1 + draw.below(4)),
            20 => Self::KeyedFlatMap(draw.below(4)),
            21 => Self::KeyedFlatten(draw.below(4)),
            22 => Self::NumberedEven,
            23 => Self::Chunks(1 + draw.below(10) as usize),
            24 => Self::Sorted,
            25 => Self::SortedLimit(draw.below(2 * most)),
            26 => Self::Top(draw.below(50) as usize),
            27 | 28 => Self::Unique,
            29 => Self::Fold,
            30 => Self::FoldAssoc,
            31 => Self::Reduce,
            32 => Self::Aggregate,
            33 => Self::Max,
            34 => Self::Min,
            35..=38 => Self::ByKey(Computed::draw(draw)),
            39 => Self::KeyedUnique,
            40 => Self::Routed(1 + draw.below(4) as i64),
            41 => Self::SideSink(1 + draw.below(4) as i64),
            42 => {
                let size = 1 + draw.below(9);
                Self::CountWindow(size, 1 + draw.below(2 * size), draw.chance(2))
            }
            43 => Self::GlobalWindow(Computed::draw_in_parts(draw)),
            44 => Self::ConnectAfter(other(draw, 300)),
            45 | 46 => Self::Merge(other(draw, most)),
            47 => Self::KeyedMerge(other(draw, most)),
            48 => Self::Cross(other(draw, 12)),
            49..=52 => {
                use Join::*;
                let kinds = [
                    Inner,
                    Left,
                    Right,
                    Full,
                    Semi,
                    Anti,
                    BroadcastRight,
                    BroadcastLeft,
                    BuildLeft,
                    Symmetric,
                    SortMerge,
                ];
                Self::Join(draw.one(&kinds), other(draw, 40))
            }
            53 => Self::Replay(1 + draw.below(4)),
            54 => Self::ReplayGrouped(1 + draw.below(4)),
            55 => Self::Iterate(1 + draw.below(6)),
            56 => Self::Delta(1 + draw.below(20)),
            _ => Self::Cache,
        }
    }

    /// Whether rows have their own timestamps behind it, and none comes after its watermark.
    fn keeps_time(&self) -> bool {
        use Step::*;
        matches!(
            self,
            Add(_)
                | KeepMultiples(_)
                | Repeat(_)
                | Rekey(_)
                | Shuffle
                | Random(_)
                | Forward
                | PartitionBy
                | Parallelism(_)
                | Memo(_)
                | Async(_)
                | Blocking(_)
                | Static(_)
                | Scattered
                | KeyedFilter(_)
                | KeyedFilterMap(_)
                | KeyedFlatMap(_)
                | KeyedFlatten(_)
                | KeyedMerge(_)
                | Diamond(_)
                | SideOutput(_)
                | Routed(_)
                | SideSink(_)
                | Merge(_)
                | Tumbling(..)
                | Sliding(..)
                | Session(..)
                | AllTumbling(..)
        )
    }
}

fn config(draw: &mut Draw) -> Config {
    let mut config = Config::default();
    let deterministic = Scheduler::Deterministic { seed: draw.below(1000) };
    config.scheduler =
        draw.one(&[Scheduler::WorkStealing, Scheduler::ThreadPerTask, deterministic]);
    config.cores = draw.one(&[1, 2, 3, 4, 7]).try_into().unwrap_or(config.cores);
    let size = 1 + draw.below(40) as usize;
    let usual = BatchMode::default();
    config.batch = draw.one(&[usual, usual, BatchMode::Fixed { size }, BatchMode::Single]);
    config.turn = draw.one(&[16, 16, 1, 3]).try_into().unwrap_or(config.turn);
    config.keyed_tasks_per_core = draw.one(&[4, 1, 2]).try_into().unwrap_or(config.turn);
    config.credit = draw.one(&[config.credit, 1, 100, 2000]);
    config.memory = draw.one(&[config.memory, config.memory, 1 << 20]);
    config.encode_exchanges = draw.chance(4);
    config.state_backend = draw.one(&[config.state_backend, StateBackend::Disk]);
    config
}
