//! Computes the statistics of a job from the counts of its tasks.

use super::{Plan, Strategy};
use crate::clock::Nanos;
use crate::metrics::{
    AcrossHosts, ClockOffset, EdgeStats, Histogram, HotKey, Latency, OpCount, OperatorStats,
    Passed, Records, Report, SourceWaits, Spread, StageStats, Stats, WatermarkStats,
};
use crate::runtime::{TaskCounts, TaskTimes};
use crate::time::Timestamp;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

/// The number of hot keys reported for each operator.
const KEPT: usize = 64;
/// The least number of sampled records from which shares are computed.
const MIN_SAMPLE: u64 = 100;

/// Combines the counts of a job's tasks; `stage_of` is the stage of each task, and `clocks` are those of other hosts.
pub(super) fn measure(
    plan: &Plan,
    stage_of: &[usize],
    counted: &[TaskCounts],
    wall: Nanos,
    cores: usize,
    memory_peak: u64,
    clocks: Vec<ClockOffset>,
) -> Stats {
    let mut operators: Vec<OperatorStats> = plan
        .operators
        .iter()
        .map(|op| OperatorStats {
            id: op.id,
            name: op.name.clone(),
            kind: op.kind.clone(),
            method: op.method.clone(),
            place: op.place.clone(),
            stage: op.stage,
            ..OperatorStats::default()
        })
        .collect();
    let mut hot = vec![Sample::default(); operators.len()];
    let mut marks = vec![Vec::new(); operators.len()];
    let mut waits = vec![Vec::new(); operators.len()];
    let stages = plan.stages.iter().map(|stage| {
        let of_stage = stage_of.iter().zip(counted).filter(|(at, _)| **at == stage.id);
        let tasks: Vec<&TaskCounts> = of_stage.map(|(_, counted)| counted).collect();
        let mut heads = Vec::new();
        let (mut under_way, mut across_hosts) = (Histogram::default(), AcrossHosts::default());
        for task in &tasks {
            heads.push(pass(&stage.operators, &task.report, &mut operators));
            for (op, count) in task.report.counts() {
                let op = *op;
                if let Some(sample) = hot.get_mut(op) {
                    sample.add(count);
                }
                if let (Some(mark), Some(marks)) = (count.mark.clone(), marks.get_mut(op)) {
                    marks.push(mark);
                }
                if let (Some(task), Some(waits)) = (&count.waits, waits.get_mut(op)) {
                    waits.push(task.clone());
                }
                if let Some(spans) = &count.under_way {
                    under_way.merge(spans);
                    across_hosts.add(count.across_hosts);
                }
            }
        }
        let spent = |which: fn(&TaskTimes) -> Nanos| {
            Spread::over(tasks.iter().map(|task| Duration::from_nanos(which(&task.times))))
        };
        let mut turns = Histogram::default();
        tasks.iter().for_each(|task| turns.merge(&task.times.turn_lengths));
        let into: Vec<_> = plan.edges.iter().filter(|edge| edge.to == stage.id).collect();
        StageStats {
            id: stage.id,
            operators: stage.operators.clone(),
            inputs: into.iter().map(|edge| edge.from).collect(),
            tasks: stage.tasks,
            keyed: into.iter().any(|edge| edge.strategy == Strategy::Keyed),
            busy: spent(|times| times.busy),
            idle: spent(|times| times.idle),
            back_pressured: spent(|times| times.back_pressured),
            queued: spent(|times| times.queued),
            turns: tasks.iter().map(|task| task.times.turns).sum(),
            turn: Latency::from(&turns),
            under_way: Latency::from(&under_way),
            under_way_across_hosts: across_hosts.batches,
            under_way_uncertainty: across_hosts.uncertainty,
            records: Records::over(heads.iter().copied()),
        }
    });
    let stages = stages.collect();
    for (operator, sample) in operators.iter_mut().zip(hot) {
        operator.hot_keys = sample.top();
    }
    for (operator, marks) in operators.iter_mut().zip(marks) {
        operator.watermark = (!marks.is_empty()).then(|| WatermarkStats::of(&marks));
    }
    for (operator, waits) in operators.iter_mut().zip(waits) {
        operator.waits = (!waits.is_empty()).then(|| SourceWaits::of(&waits));
    }
    let mut passed = vec![Passed::default(); plan.edges.len()];
    for (edge, more) in counted.iter().flat_map(|task| task.report.edges()) {
        if let Some(passed) = passed.get_mut(*edge) {
            passed.add(more);
        }
    }
    let edges = plan.edges.iter().zip(passed).map(|(edge, passed)| {
        let last = plan.stages[edge.from].operators.last().copied();
        EdgeStats {
            from: edge.from,
            to: edge.to,
            operator: passed.op.or(last).unwrap_or_default(),
            sent: passed.sent.records,
            received: passed.received,
            batches: passed.sent.batches,
            bytes: passed.sent.bytes,
            closed: passed.closed,
        }
    });
    let edges = edges.collect();
    let wall = Duration::from_nanos(wall);
    Stats { wall, cores, memory_peak, operators, stages, edges, clocks, checkpoints: None }
}

/// The numbers of records that have passed an operator of a task.
pub(super) struct OperatorFlow<'a> {
    pub(super) op: usize,
    pub(super) count: &'a OpCount,
    /// Records received; `None` for a source.
    pub(super) records_in: Option<u64>,
    /// Records emitted to the next operator or stage.
    pub(super) records_out: u64,
    /// Records emitted to side outputs.
    pub(super) side_outputs: u64,
    /// Whether it is one of the heads of the stage.
    pub(super) is_head: bool,
    /// Whether it is the last operator of the stage.
    pub(super) last: bool,
}

/// For operators that count nothing.
static NO_COUNTS: LazyLock<OpCount> = LazyLock::new(OpCount::default);

impl<'a> OperatorFlow<'a> {
    /// The operators of a task, in the order in which records pass them.
    ///
    /// Operators that emit one record for each input do not count; they have received what the one before them has
    /// emitted. What an operator sends on edges is its output if it is the last of its stage; elsewhere its output
    /// goes to the next operator, and the edges are side outputs.
    pub(super) fn of(ids: &'a [usize], report: &'a Report) -> impl Iterator<Item = Self> {
        let counts: HashMap<usize, &OpCount> =
            report.counts().iter().map(|(op, count)| (*op, count)).collect();
        let (mut flow, mut among_heads) = (0, true);
        ids.iter().enumerate().map(move |(at, &op)| {
            let count = counts.get(&op).copied().unwrap_or(&NO_COUNTS);
            let last = at + 1 == ids.len();
            let receives = count.under_way.is_some();
            among_heads &= receives || count.source;
            let records_in = if count.source {
                None
            } else if receives && among_heads {
                // Several exchanges may lead into one stage: the next operator receives their sum.
                flow += count.received;
                Some(count.received)
            } else {
                Some(flow)
            };
            let sent = count.sent.map(|sent| sent.records);
            let side_outputs = sent.filter(|_| !last).unwrap_or(0);
            if count.source {
                flow += count.emitted.unwrap_or(0);
            } else if !receives {
                flow = sent.filter(|_| last).or(count.emitted).unwrap_or(flow);
            }
            let records_out = if receives { count.received } else { flow };
            Self { op, count, records_in, records_out, side_outputs, is_head: among_heads, last }
        })
    }
}

/// Adds the counts of one task to the operators', and returns the number of records that its heads received.
fn pass(ids: &[usize], report: &Report, operators: &mut [OperatorStats]) -> u64 {
    let mut head = 0;
    for OperatorFlow { op, count, records_in, records_out, side_outputs, is_head, last } in
        OperatorFlow::of(ids, report)
    {
        let Some(operator) = operators.get_mut(op) else { continue };
        if is_head {
            head += records_out;
        }
        let is_sink = last && count.sent.is_none();
        let add = |to: &mut Option<u64>, more| *to = Some(to.unwrap_or(0) + more);
        if let Some(records_in) = records_in {
            add(&mut operator.records_in, records_in);
        }
        if !is_sink || count.source {
            add(&mut operator.records_out, records_out);
        }
        operator.side_output_records += side_outputs;
        let sent = count.sent.unwrap_or_default();
        operator.batches += sent.batches + count.received_batches;
        operator.bytes += sent.bytes;
        operator.read_bytes += count.read_bytes;
        operator.spilled_bytes += count.spilled_bytes;
        operator.late_records += count.late;
        operator.late_dropped += count.late_dropped;
        operator.unpaired_records += count.unpaired;
        let open = [operator.open_until, count.open_until.map(Timestamp::as_micros)];
        operator.open_until = open.into_iter().flatten().min();
        operator.keys += count.keys;
        operator.kept_records += count.kept;
        if count.rounds.is_some() {
            operator.rounds.clone_from(&count.rounds);
        }
        operator.in_flight += count.in_flight;
        operator.remembered += count.remembered;
        operator.awaits = operator.awaits.or(count.awaits);
    }
    head
}

/// The keys that the tasks of an operator have sampled.
#[derive(Clone, Default)]
struct Sample {
    seen: HashMap<String, u64>,
    size: u64,
}

impl Sample {
    fn add(&mut self, count: &OpCount) {
        self.size += count.sampled;
        for (key, times) in &count.hot {
            *self.seen.entry(key.clone()).or_default() += times;
        }
    }

    fn top(self) -> Vec<HotKey> {
        if self.size < MIN_SAMPLE {
            return Vec::new();
        }
        let mut keys: Vec<_> = self.seen.into_iter().collect();
        keys.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        keys.truncate(KEPT);
        let share = |times: u64| (times as f64 / self.size.max(1) as f64).min(1.0);
        keys.into_iter().map(|(key, times)| HotKey::new(key, share(times))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::{Environment, config::Config};

    fn stats(cores: usize, job: impl FnOnce(&Environment)) -> Result<Stats> {
        let config = Config { cores: cores.try_into().unwrap(), ..Config::default() };
        let env = Environment::with_config(config);
        job(&env);
        env.start()?.wait()
    }

    fn passed(stats: &Stats, kind: &str) -> (Option<u64>, Option<u64>) {
        let op = stats.operators.iter().find(|op| op.kind == kind).unwrap();
        (op.records_in, op.records_out)
    }

    #[test]
    fn counts_of_operators_that_do_not_count_are_derived() -> Result<()> {
        let stats = stats(3, |env| {
            let records = env.range(0..1000).filter(|n| n % 4 == 0).map(|n| n + 1);
            let _ = records.flat_map(|n| [n, n]).shuffle().map(|n| n).count().collect_one();
        })?;
        assert_eq!(passed(&stats, "range"), (None, Some(1000)));
        assert_eq!(passed(&stats, "filter"), (Some(1000), Some(250)));
        assert_eq!(passed(&stats, "map"), (Some(250), Some(250)));
        assert_eq!(passed(&stats, "flat_map"), (Some(250), Some(500)));
        assert_eq!(passed(&stats, "shuffle"), (Some(500), Some(500)));
        assert_eq!(passed(&stats, "receive"), (Some(500), Some(500)));
        // A count in each of three tasks.
        assert_eq!(passed(&stats, "count"), (Some(500), Some(3)));
        let shuffle = stats.operators.iter().find(|op| op.kind == "shuffle").unwrap();
        let receive = stats.operators.iter().find(|op| op.kind == "receive").unwrap();
        assert!(shuffle.batches >= 3 && shuffle.bytes == 4000, "{shuffle:?}");
        assert_eq!(receive.batches, shuffle.batches);
        assert_eq!((&*stats.stages[0].inputs, &*stats.stages[1].inputs), (&[][..], &[0][..]));
        assert!(stats.stages[1].under_way.count > 0 && stats.stages[0].under_way.count == 0);
        assert!(stats.stages[..2].iter().all(|stage| stage.turns >= 3 && !stage.keyed));
        Ok(())
    }

    #[test]
    fn broadcast_multiplies() -> Result<()> {
        let stats = stats(3, |env| _ = env.iter(0..10).broadcast().count().collect_one())?;
        assert_eq!(passed(&stats, "broadcast"), (Some(10), Some(30)));
        assert_eq!(stats.stages[1].records, Records::over([10, 10, 10].into_iter()));
        Ok(())
    }

    #[test]
    fn hot_keys_and_skewed_tasks_are_found() -> Result<()> {
        let stats = stats(2, |env| {
            let keys = env.range(0..300_000).map(|n| if n % 2 == 0 { 7 } else { n });
            let _ = keys.group_by(|n| *n).fold(0u64, |count, _| *count += 1).collect::<Vec<_>>();
        })?;
        let (_, key) = stats.hot_keys(0.3).next().unwrap();
        assert!(key.key == "7" && (0.35..0.65).contains(&key.share), "{key:?}");
        let keyed = stats.stages.iter().find(|stage| stage.keyed).unwrap();
        // One task of eight has half of the records and an eighth of the rest.
        assert!((4.0..5.0).contains(&keyed.skew()), "{}", keyed.skew());
        assert!(stats.to_string().contains("hot key of "), "{stats}");
        assert!(stats.to_string().contains(" is skewed"), "{stats}");
        Ok(())
    }
}
