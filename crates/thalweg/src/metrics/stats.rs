//! The statistics of a job, as data: records that passed each operator, and where the time went.

use super::{CheckpointStats, ClockOffset, LoopStats, SourceWaits, WatermarkStats, show};
use crate::data::Data;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The statistics of a job, so far or in all.
///
/// Returned by [`JobHandle::wait`](crate::JobHandle::wait) and [`JobHandle::stats`](crate::JobHandle::stats).
/// [`Display`](fmt::Display) prints a table; serde writes and reads it, with durations as seconds.
///
/// Counting is always on. It costs a few additions a batch, a reading of the clock a turn, and one more for one batch
/// in seventeen.
///
/// ```
/// use thalweg::Environment;
///
/// let env = Environment::new();
/// let out = env.iter(0..1000).filter(|n| n % 2 == 0).count().collect_one();
/// let stats = env.start()?.wait()?;
/// let filter = stats.operators.iter().find(|op| op.kind == "filter").unwrap();
/// assert_eq!((filter.records_in, filter.records_out), (Some(1000), Some(500)));
/// assert_eq!(out.take()?, Some(500));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// From the start of the job to the end of its last task, or to now.
    #[serde(with = "seconds")]
    pub wall: Duration,
    /// The number of cores that the job's tasks are spread over.
    pub cores: usize,
    /// The most bytes that the runtime's jobs had at one time, reserved for state or in flight between tasks, on this host.
    pub memory_peak: u64,
    /// Every operator of the plan, in its order.
    pub operators: Vec<OperatorStats>,
    /// Every stage of the plan, in its order.
    pub stages: Vec<StageStats>,
    /// Every edge of the plan, in its order.
    #[serde(default)]
    pub edges: Vec<EdgeStats>,
    /// On several hosts, how far the clock of each other host is ahead of the first one's, as that has estimated when the job
    /// ended; while the job runs, of this host's. Only those that are known: none over MPI.
    #[serde(default)]
    pub clocks: Vec<ClockOffset>,
    /// The checkpoints of the job, if it has some: how old that is from which it would go on if it died.
    #[serde(default)]
    pub checkpoints: Option<CheckpointStats>,
}

/// The counts of an operator, over all of its tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OperatorStats {
    /// Its index in the plan.
    pub id: usize,
    /// Its name in the plan.
    pub name: String,
    /// Its kind, as in the plan.
    pub kind: String,
    /// The method that the program called, as in messages.
    #[serde(default)]
    pub method: String,
    /// The place in the program where it is added.
    pub place: String,
    /// The stage it belongs to.
    pub stage: usize,
    /// Records received; `None` for a source.
    pub records_in: Option<u64>,
    /// Records emitted, without those for side outputs; `None` for a sink.
    pub records_out: Option<u64>,
    /// Records emitted to side outputs, late outputs and dead letters.
    #[serde(default)]
    pub side_output_records: u64,
    /// Batches sent or received, at either end of an exchange.
    pub batches: u64,
    /// Bytes sent on an exchange.
    pub bytes: u64,
    /// Bytes read from outside.
    pub read_bytes: u64,
    /// Bytes spilled to disk.
    pub spilled_bytes: u64,
    /// Records that came after all windows that they were in had been emitted, or behind the watermark of a join. Those of a key and
    /// a window that a task has aggregated before it sends them count as one: they can be late together where the task was
    /// idle before.
    pub late_records: u64,
    /// Late records that were dropped. The other late ones went to a `late_output`, or were used nevertheless, such
    /// as the latest record of the second stream of an as-of join.
    pub late_dropped: u64,
    /// Records dropped because the other stream had no record to pair them with.
    pub unpaired_records: u64,
    /// The progress of event time, if this operator generates watermarks.
    pub watermark: Option<WatermarkStats>,
    /// The earliest end of a window that has records and no result yet, in microseconds since 1970.
    pub open_until: Option<i64>,
    /// Distinct keys in its state.
    pub keys: u64,
    /// Records kept because they may still be needed, where nothing else bounds their number.
    pub kept_records: u64,
    /// Statistics of its rounds, if it is a loop.
    pub rounds: Option<LoopStats>,
    /// Records that wait for a call or whose call is in progress.
    pub in_flight: u64,
    /// Records of a memoised map whose result was found; the others were computed.
    pub remembered: u64,
    /// What it needs from the program to continue, if anything.
    pub awaits: Option<Awaits>,
    /// What it has waited for while it had nothing to read, if it is a source that knows.
    #[serde(default)]
    pub waits: Option<SourceWaits>,
    /// The most frequent keys, from a sample, most frequent first: at most 64, and none if the sample is too small.
    pub hot_keys: Vec<HotKey>,
}

/// What an operator needs from the program to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Data)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Awaits {
    /// A reader of what [`to_channel`](crate::Stream::to_channel) returned: more is queued than the credit allows.
    Reader,
    /// A record in a [`channel`](crate::Environment::channel), or the drop of its last sender; with the number of
    /// senders.
    Senders(usize),
}

/// The counts of an edge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EdgeStats {
    /// The stage that sends.
    pub from: usize,
    /// The stage that receives.
    pub to: usize,
    /// The index of the operator that sends.
    pub operator: usize,
    /// Records sent.
    pub sent: u64,
    /// Records received. In a finished job, they equal those sent, unless the edge was [closed](Self::closed).
    pub received: u64,
    /// Batches sent.
    pub batches: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Whether the receiver closed it, for example after a [`limit`](crate::Stream::limit).
    pub closed: bool,
}

/// A frequent key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HotKey {
    /// The key, as its `Debug` shows it.
    pub key: String,
    /// The share of all records that have this key, from 0 to 1, estimated from a sample.
    pub share: f64,
}

/// How the tasks of a stage spent their time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageStats {
    /// Its index in the plan.
    pub id: usize,
    /// The indices of its operators.
    pub operators: Vec<usize>,
    /// The stages that send to it.
    pub inputs: Vec<usize>,
    /// How many tasks it has.
    pub tasks: usize,
    /// Whether its records are routed by key.
    pub keyed: bool,
    /// Time spent in turns.
    pub busy: Spread,
    /// Time spent waiting for input.
    pub idle: Spread,
    /// Time spent waiting for receivers to keep up.
    pub back_pressured: Spread,
    /// Time spent ready to run, waiting for a thread.
    pub queued: Spread,
    /// Turns taken, over all tasks.
    pub turns: u64,
    /// How long turns took.
    pub turn: Latency,
    /// How long batches were in flight, from when they were sent to when a task of this stage took them, from a sample of one
    /// in seventeen; empty for a stage that begins with a source. A sample from another host is converted by the estimated
    /// [offset](Stats::clocks) of that host's clock, and left out if there is no estimate, as over MPI. A time that would then
    /// be negative counts as 0.
    pub under_way: Latency,
    /// How many of the measurements in [`under_way`](Self::under_way) are of batches from other hosts.
    #[serde(default)]
    pub under_way_across_hosts: u64,
    /// The most by which one of these may be wrong, because the clocks of hosts are compared by messages that take time
    /// themselves. The other measurements are exact.
    #[serde(default, with = "seconds")]
    pub under_way_uncertainty: Duration,
    /// Records received by the head of each task.
    pub records: Records,
}

/// The spread of a duration over the tasks of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spread {
    /// The least of all tasks.
    #[serde(with = "seconds")]
    pub min: Duration,
    /// The greatest of all tasks.
    #[serde(with = "seconds")]
    pub max: Duration,
    /// The mean of all tasks.
    #[serde(with = "seconds")]
    pub mean: Duration,
}

/// The distribution of a duration that was measured many times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Data)]
#[non_exhaustive]
pub struct Latency {
    /// The number of measurements.
    pub count: u64,
    /// The median.
    #[serde(with = "seconds")]
    pub p50: Duration,
    /// The 90th percentile.
    #[serde(with = "seconds")]
    pub p90: Duration,
    /// The 99th percentile.
    #[serde(with = "seconds")]
    pub p99: Duration,
    /// The maximum.
    #[serde(with = "seconds")]
    pub max: Duration,
}

/// The spread of a number of records over the tasks of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Records {
    /// The least of all tasks.
    pub min: u64,
    /// The greatest of all tasks.
    pub max: u64,
    /// The mean of all tasks.
    pub mean: f64,
}

/// The bottleneck of a job: the stage that limited its throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limit {
    /// Its index in the plan.
    pub stage: usize,
    /// The names of its operators, which run as one piece of code.
    pub operators: String,
    /// Its load: the share of the time, from 0 to 1, in which it was busy on the cores that it could use.
    pub share: f64,
    /// The evidence, in a sentence.
    pub why: String,
}

pub(super) mod seconds {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub(in crate::metrics) fn serialize<S: Serializer>(
        span: &Duration,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_f64(span.as_secs_f64())
    }

    pub(in crate::metrics) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl Spread {
    pub(crate) fn over(spans: impl Iterator<Item = Duration> + Clone) -> Self {
        let tasks = u32::try_from(spans.clone().count()).unwrap_or(u32::MAX).max(1);
        Self {
            min: spans.clone().min().unwrap_or_default(),
            max: spans.clone().max().unwrap_or_default(),
            mean: spans.sum::<Duration>() / tasks,
        }
    }
}

impl HotKey {
    pub(crate) fn new(key: String, share: f64) -> Self {
        Self { key, share }
    }
}

impl Records {
    pub(crate) fn over(counts: impl Iterator<Item = u64> + Clone) -> Self {
        let tasks = counts.clone().count().max(1);
        Self {
            min: counts.clone().min().unwrap_or_default(),
            max: counts.clone().max().unwrap_or_default(),
            mean: counts.sum::<u64>() as f64 / tasks as f64,
        }
    }
}

impl From<&super::Histogram> for Latency {
    fn from(spans: &super::Histogram) -> Self {
        Self {
            count: spans.count(),
            p50: spans.quantile(0.5),
            p90: spans.quantile(0.9),
            p99: spans.quantile(0.99),
            max: spans.max(),
        }
    }
}

impl StageStats {
    /// The records of the task with the most, divided by the mean: 1 if all tasks have the same number, the number of
    /// tasks if one has all.
    pub fn skew(&self) -> f64 {
        if self.records.mean > 0.0 { self.records.max as f64 / self.records.mean } else { 1.0 }
    }

    fn is_skewed(&self) -> bool {
        self.keyed && self.records.max >= MANY && self.skew() >= SKEWED
    }

    /// The share of the time in which the stage was busy: on all cores that it has tasks for, or on one core for its
    /// busiest task, whichever is more.
    fn load(&self, wall: Duration, cores: usize) -> f64 {
        let total = self.busy.mean.as_secs_f64() * self.tasks as f64;
        let usable = self.tasks.min(cores).max(1) as f64;
        let most = self.busy.max.as_secs_f64();
        share(f64::max(total / usable, most), wall)
    }
}

fn share(seconds: f64, of: Duration) -> f64 {
    if of.is_zero() { 0.0 } else { (seconds / of.as_secs_f64()).clamp(0.0, 1.0) }
}

/// A stage with a lower load is not a bottleneck.
const LEAST_LOAD: f64 = 0.3;
/// The least share of the time at which waiting is mentioned.
const TELLING: f64 = 0.2;
/// The least share of the time for which a source had nothing to give that is mentioned, unless it waited for a fetch.
const MOSTLY: f64 = 0.5;
/// A watermark that has not advanced for this long is mentioned.
const STILL: Duration = Duration::from_secs(10);
/// A key with this share of the records is hot,
const HOT: f64 = 0.05;
/// if that is also this many times the mean share.
const UNEVEN: f64 = 2.0;
/// The most hot keys that are mentioned.
const LISTED: usize = 8;
/// The most clocks of other hosts that are mentioned.
const CLOCKS: usize = 8;
/// A task that received fewer records is not reported as skewed.
const MANY: u64 = 1000;
/// A stage is skewed if its task with the most records has this many times the mean.
const SKEWED: f64 = 1.5;

/// The bottleneck of the job: the stage with the highest load. The explanation mentions stages before it that waited
/// for it, and stages after it that waited for input.
///
/// `None` when no stage had a high load: then the job waited for its input, or for something outside. The operators
/// of a stage are one piece of code and cannot be told apart; a [`forward`](crate::Stream::forward) between them puts
/// them into different stages.
pub fn limiting_operator(stats: &Stats) -> Option<Limit> {
    let load = |stage: &StageStats| stage.load(stats.wall, stats.cores);
    let busiest = stats.stages.iter().max_by(|a, b| load(a).total_cmp(&load(b)))?;
    let share_busy = load(busiest);
    if share_busy < LEAST_LOAD {
        return None;
    }
    let mut why = format!("its {} busy {}", tasks_were(busiest.tasks), show::percent(share_busy));
    why += " of the time that it could use";
    if busiest.tasks > 1
        && busiest.busy.max.as_secs_f64() > SKEWED * busiest.busy.mean.as_secs_f64()
    {
        let most = show::percent(share(busiest.busy.max.as_secs_f64(), stats.wall));
        let mean = show::percent(share(busiest.busy.mean.as_secs_f64(), stats.wall));
        why += &format!(", one of them {most} and the mean one {mean}");
    }
    let before = stats.reach(busiest.id, |here, other| here.inputs.contains(&other.id));
    let after = stats.reach(busiest.id, |here, other| other.inputs.contains(&here.id));
    let most_of = |stages: &[usize], spent: fn(&StageStats) -> Duration| {
        let spans = stages.iter().filter_map(|&id| stats.stages.get(id));
        spans.map(|stage| share(spent(stage).as_secs_f64(), stats.wall)).fold(0.0, f64::max)
    };
    let pressed = most_of(&before, |stage| stage.back_pressured.mean);
    if pressed >= TELLING {
        why += &format!("; what sends to it was held back {}", show::percent(pressed));
    }
    let waited = most_of(&after, |stage| stage.idle.mean);
    if waited >= TELLING {
        why += &format!("; what receives from it waited for input {}", show::percent(waited));
    }
    let operators = stats.names_in(busiest);
    Some(Limit { stage: busiest.id, operators, share: share_busy, why })
}

fn tasks_were(tasks: usize) -> String {
    if tasks == 1 { "one task was".to_owned() } else { format!("{tasks} tasks were") }
}

impl Stats {
    /// The number of records dropped because they were late, by all operators together;
    /// [`operators`](Self::operators) has the number of each.
    ///
    /// A job that has dropped any causes a warning for each such operator when it has been [waited
    /// for](crate::JobHandle::wait): an event of the facade `log` under the target `thalweg::late`, and a line on
    /// standard error if an application (module `cli`) runs the job.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::config::BatchMode;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::EventTimeWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// // A minute's worth of records, one of them twenty seconds late.
    /// let seconds = (0..60_000).map(|at| if at == 50_000 { at - 20_000 } else { at });
    /// let counts = env
    ///     .iter(seconds)
    ///     .assign_timestamps(|at| Timestamp::from_millis(*at), Watermarks::monotonous())
    ///     .window_all(EventTimeWindow::tumbling(Duration::from_secs(10)))
    ///     .count();
    /// let counts = counts.map(|window| window.value).sum(|n| *n).collect::<Vec<u64>>();
    /// let stats = env.start()?.wait()?;
    /// assert_eq!((stats.late_dropped(), counts.take()?), (1, vec![59_999]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn late_dropped(&self) -> u64 {
        self.operators.iter().map(|op| op.late_dropped).sum()
    }

    /// The keys that have at least this share of an operator's records, with the operator.
    pub fn hot_keys(&self, share: f64) -> impl Iterator<Item = (&OperatorStats, &HotKey)> {
        let keys =
            self.operators.iter().flat_map(|op| op.hot_keys.iter().map(move |key| (op, key)));
        keys.filter(move |(_, key)| key.share >= share)
    }

    /// The stages that can be reached from a stage along `linked` stages.
    fn reach(&self, from: usize, linked: impl Fn(&StageStats, &StageStats) -> bool) -> Vec<usize> {
        let mut reached = vec![from];
        let mut at = 0;
        while let Some(here) = reached.get(at).and_then(|&id| self.stages.get(id)) {
            for other in &self.stages {
                if linked(here, other) && !reached.contains(&other.id) {
                    reached.push(other.id);
                }
            }
            at += 1;
        }
        reached.split_off(1)
    }

    /// What the source waited for that had nothing to read for the greatest share of the time, in a sentence without a stop, if it
    /// was not held back for longer; and whether it waited for a fetch, which goes before having read all there is.
    fn source_that_waits(&self) -> Option<(bool, String)> {
        let sources = self.stages.iter().filter(|stage| stage.inputs.is_empty());
        let said = sources.filter_map(|stage| {
            let source = self.operators_in(stage).next()?;
            let label = source.label();
            let of_wall = |span: Duration| share(span.as_secs_f64(), self.wall);
            let waits = source.waits.as_ref();
            let [fetching, nothing_new] = waits
                .map(|waits| [waits.fetching.mean, waits.nothing_new.mean])
                .unwrap_or_default();
            // A task that runs has not counted the wait that it is in as idle yet.
            let idle = stage.idle.mean.max(fetching + nothing_new);
            if idle <= stage.back_pressured.mean {
                return None;
            }
            let percent = |span| show::percent(of_wall(span));
            let is_fetch = fetching >= nothing_new && of_wall(fetching) >= TELLING;
            let text = match waits {
                Some(waits) if is_fetch => {
                    let splits = waits.fetched();
                    format!(
                        "{label} waited for the fetch of {splits} for {} of the time",
                        percent(fetching)
                    )
                }
                _ if of_wall(idle) < MOSTLY => return None,
                Some(_) if of_wall(nothing_new) >= MOSTLY => {
                    format!(
                        "{label} had read all that was there for {} of the time",
                        percent(nothing_new)
                    )
                }
                _ => format!("{label} had nothing to give for {} of the time", percent(idle)),
            };
            Some(((is_fetch, if is_fetch { fetching } else { idle }), text))
        });
        said.max_by_key(|(waited, _)| *waited).map(|((is_fetch, _), text)| (is_fetch, text))
    }

    fn operators_in<'a>(
        &'a self,
        stage: &'a StageStats,
    ) -> impl Iterator<Item = &'a OperatorStats> {
        stage.operators.iter().filter_map(|&id| self.operators.get(id))
    }

    fn names_in(&self, stage: &StageStats) -> String {
        let shown = self.operators_in(stage).filter(|op| op.kind != "receive");
        shown.map(|op| op.name.as_str()).collect::<Vec<_>>().join(" → ")
    }
}

/// The table that `--stats` prints.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wall = show::span(self.wall);
        write!(f, "the job took {wall} on {} core", self.cores)?;
        write!(f, "{}", if self.cores == 1 { "" } else { "s" })?;
        match self.memory_peak {
            0 => writeln!(f)?,
            peak => writeln!(f, "; it held {} at most", show::bytes(peak))?,
        }
        if let Some(checkpoints) = &self.checkpoints {
            writeln!(f, "{checkpoints}")?;
        }
        let names = self.operators.iter().map(|op| op.name.chars().count()).max().unwrap_or(0);
        let names = names.max("operator".len());
        for stage in &self.stages {
            writeln!(f)?;
            self.write_stage(f, stage)?;
            writeln!(f, "  {:names$}  {:>14}  {:>14}", "operator", "records in", "records out")?;
            for op in self.operators_in(stage) {
                let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), show::count);
                let (taken, given) = (number(op.records_in), number(op.records_out));
                let notes = op.notes();
                let line = format!("  {:names$}  {taken:>14}  {given:>14}  {notes}", op.name);
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        for op in &self.operators {
            if let Some(rounds) = &op.rounds {
                write!(f, "\nloop {} ({}): {rounds}", op.name, op.place)?;
            }
        }
        writeln!(f)?;
        self.write_findings(f)
    }
}

impl Stats {
    fn write_stage(&self, f: &mut fmt::Formatter<'_>, stage: &StageStats) -> fmt::Result {
        let tasks = stage.tasks;
        write!(f, "stage {}, {tasks} task{}:", stage.id, if tasks == 1 { "" } else { "s" })?;
        let part = |spread: &Spread| {
            let of = |span: Duration| show::percent(share(span.as_secs_f64(), self.wall));
            let (min, mean, max) = (of(spread.min), of(spread.mean), of(spread.max));
            if min == max { mean } else { format!("{mean} ({min} to {max})") }
        };
        writeln!(
            f,
            " busy {}, idle {}, back-pressured {}, queued {}",
            part(&stage.busy),
            part(&stage.idle),
            part(&stage.back_pressured),
            part(&stage.queued)
        )?;
        let turn = &stage.turn;
        write!(f, "  {} turns", show::count(stage.turns))?;
        write!(f, ", p50 {}, p99 {}", show::span(turn.p50), show::span(turn.p99))?;
        writeln!(f, ", longest {}", show::span(turn.max))?;
        if stage.under_way.count > 0 {
            let Latency { p50, p99, .. } = stage.under_way;
            let (p50, p99) = (show::span(p50), show::span(p99));
            write!(f, "  batches under way to it: p50 {p50}, p99 {p99}")?;
            if stage.under_way_across_hosts > 0 {
                let of = |count| show::count(count);
                let (across, all) = (of(stage.under_way_across_hosts), of(stage.under_way.count));
                let uncertainty = show::span(stage.under_way_uncertainty);
                write!(f, "; {across} of {all} measured between hosts, ± {uncertainty}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn write_findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match limiting_operator(self) {
            Some(Limit { stage, operators, why, .. }) => {
                writeln!(f, "stage {stage} ({operators}) limited the job: {why}")?;
                if let Some((true, said)) = self.source_that_waits() {
                    writeln!(f, "{said}")?;
                }
            }
            None => {
                write!(
                    f,
                    "no operator limited the job: its tasks mostly waited for what they read"
                )?;
                match self.source_that_waits() {
                    Some((_, said)) => writeln!(f, "; {said}")?,
                    None => writeln!(f)?,
                }
            }
        }
        for op in &self.operators {
            if let Some(holding) = op.watermark.as_ref().and_then(|mark| mark.holding(STILL)) {
                writeln!(f, "{} ({}): {holding}", op.name, op.place)?;
            }
        }
        let hot =
            self.hot_keys(HOT).filter(|(op, key)| key.share * op.hot_keys.len() as f64 >= UNEVEN);
        for (op, key) in hot.take(LISTED) {
            let (share, name) = (show::percent(key.share), &op.name);
            writeln!(f, "hot key of {name}: {} has {share} of the records", key.key)?;
        }
        for stage in self.stages.iter().filter(|stage| stage.is_skewed()) {
            let (id, names, skew) = (stage.id, self.names_in(stage), stage.skew());
            writeln!(
                f,
                "stage {id} ({names}) is skewed: its fullest task got {skew:.1} times the mean"
            )?;
        }
        self.write_clocks(f)
    }

    /// Writes the clocks of hosts if times between hosts were measured: of many hosts, those that are furthest off.
    fn write_clocks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stages.iter().all(|stage| stage.under_way_across_hosts == 0) {
            return Ok(());
        }
        let mut clocks: Vec<_> = self.clocks.iter().collect();
        clocks.sort_by_key(|clock| std::cmp::Reverse(clock.nanos.unsigned_abs()));
        let more = clocks.len().saturating_sub(CLOCKS);
        clocks.truncate(CLOCKS);
        clocks.sort_by_key(|clock| clock.host);
        for clock in clocks {
            writeln!(f, "{clock}")?;
        }
        if more > 0 {
            writeln!(f, "clock offsets to {more} other hosts are less")?;
        }
        Ok(())
    }
}

impl OperatorStats {
    /// The method that the program called, or the name that it gave the operator, and the place, for messages.
    pub(super) fn label(&self) -> String {
        let name = if self.name == self.kind { &self.method } else { &self.name };
        format!("{name} ({})", self.place)
    }

    fn notes(&self) -> String {
        let mut notes = Vec::new();
        if self.read_bytes > 0 {
            notes.push(format!("read {}", show::bytes(self.read_bytes)));
        }
        if self.bytes > 0 {
            let (bytes, batches) = (show::bytes(self.bytes), show::count(self.batches));
            notes.push(format!("sent {bytes} in {batches} batches"));
        }
        if self.side_output_records > 0 {
            notes.push(format!("{} to side outputs", show::count(self.side_output_records)));
        }
        if self.keys > 0 {
            notes.push(format!("{} keys", show::count(self.keys)));
        }
        if self.kept_records > 0 {
            notes.push(format!("keeps {} records", show::count(self.kept_records)));
        }
        if self.in_flight > 0 {
            notes.push(format!("{} in flight", show::count(self.in_flight)));
        }
        if self.remembered > 0 {
            notes.push(format!("{} remembered", show::count(self.remembered)));
        }
        if let Some(waits) = self.waits.as_ref().filter(|waits| waits.backlog > 0) {
            notes.push(format!("{} not read yet", show::count(waits.backlog)));
        }
        if self.spilled_bytes > 0 {
            notes.push(format!("spilled {}", show::bytes(self.spilled_bytes)));
        }
        if self.late_records > 0 {
            notes.push(format!("{} late", show::count(self.late_records)));
        }
        if self.late_dropped > 0 {
            notes.push(format!("{} dropped", show::count(self.late_dropped)));
        }
        if self.unpaired_records > 0 {
            notes.push(format!("{} without a partner", show::count(self.unpaired_records)));
        }
        notes.join(", ")
    }
}

#[cfg(test)]
mod tests;
