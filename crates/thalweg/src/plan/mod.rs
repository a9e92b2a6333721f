//! Plans: a job as data, with the factories of its tasks.
//!
//! A [`Plan`] contains no Rust type: it can be printed, compared and shipped. Beside it, the builder keeps a factory
//! for each stage, which creates its tasks, and a connector for each edge, which creates its lanes; launching uses
//! all three.
//!
//! Building a plan starts no thread and opens no file.

mod branches;
mod builder;
mod conserve;
mod counts;
mod details;
mod explain;
mod fingerprint;
mod idleness;
mod launch;
mod measure;
mod overtaking;
mod saved;

pub use builder::Origin;
pub(crate) use builder::{Builder, Distribution};
pub(crate) use counts::Parallelism;
pub use details::{Detail, Details, Value};
pub use fingerprint::Fingerprint;
pub(crate) use idleness::TimeOrigins;
pub use launch::TaskContext;
pub(crate) use launch::{Launched, check, compare, launch, linked};
pub(crate) use overtaking::Overtaken;
pub(crate) use saved::CANNOT_HAVE;

use crate::config::BatchMode;
use crate::data::{HASH_VERSION, Portable, Schema};
use crate::exchange::KEY_GROUPS;
use crate::net::{HostId, Hosts, Part};
use serde::{Deserialize, Serialize};

/// The version of the format of plans. It is raised when a field or a variant is removed, renamed, or changes its
/// meaning, so that a plan of one version is never read as one of another; a new field or variant does not raise it.
pub const PLAN_VERSION: u32 = 1;

/// A job as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The version of the plan's format: [`PLAN_VERSION`].
    pub version: u32,
    /// The version of the hash by which keys find their tasks: [`HASH_VERSION`].
    pub hash_version: u32,
    /// The number of key groups into which hashes are divided; each task of a keyed stage owns a range of them.
    pub key_groups: u32,
    /// The operators, in the order in which the program added them.
    pub operators: Vec<Operator>,
    /// The stages; each runs as one piece of code.
    pub stages: Vec<Stage>,
    /// The exchanges between stages.
    pub edges: Vec<Edge>,
    /// The ways beside exchanges in which tasks affect each other.
    pub ties: Vec<Tie>,
}

/// A plan without operators, of this version.
impl Default for Plan {
    fn default() -> Self {
        Self {
            version: PLAN_VERSION,
            hash_version: HASH_VERSION,
            key_groups: KEY_GROUPS as u32,
            operators: Vec::new(),
            stages: Vec::new(),
            edges: Vec::new(),
            ties: Vec::new(),
        }
    }
}

/// One operator of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Operator {
    /// Its index in [`Plan::operators`].
    pub id: usize,
    /// What it is: `map`, `fold`, `files`, …
    pub kind: String,
    /// The name that the program gave it, or its kind.
    pub name: String,
    /// The method that the program called, as in messages: `sum` for the combiner, the exchange and the table of a
    /// sum.
    pub method: String,
    /// The place in the program where it is added, as `file:line`.
    pub place: String,
    /// Its properties: the files read, the size of a limit, …
    pub details: Details,
    /// The stage that it belongs to.
    pub stage: usize,
    /// The state that it keeps across records, if it keeps any.
    pub state: Option<State>,
    /// How many loops it is nested in.
    pub loops: u32,
}

/// The state of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// Identifies the operator from one version of a program to the next: set by
    /// [`Stream::name`](crate::Stream::name), or derived from the stateful operators before it, so that adding a
    /// `map` does not change it. Of several operators that one method adds, as the combiner and the table of a count, the others
    /// have the name with their kind: `totals/combine`. Derived ids that would be alike have a number: a job that goes on from a
    /// checkpoint finds their states by what is before and behind the operators, and its checkpoints have the ids of that one.
    pub id: String,
    /// What there is a state for.
    pub scope: Scope,
    /// The schema of the state.
    pub schema: Schema,
}

/// What there is a [`State`] for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// For each key, of this schema. The task that owns the key's group has it.
    Key(Schema),
    /// For each task.
    Task,
}

impl Scope {
    /// A state for each key of this type.
    pub(crate) fn key<K: Portable + ?Sized>() -> Self {
        Self::Key(schema_of::<K>())
    }
}

/// The schema of a kind of record.
pub(crate) fn schema_of<I: Portable + ?Sized>() -> Schema {
    <I::Owned as crate::data::Data>::schema()
}

/// Operators that are fused into one type of task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stage {
    /// Its index in [`Plan::stages`].
    pub id: usize,
    /// Its operators, first to last.
    pub operators: Vec<usize>,
    /// The number of parallel tasks.
    pub tasks: usize,
    /// Which host runs which task.
    pub placement: Placement,
    /// Whether its input ends by itself.
    pub bounded: bool,
    /// How many loops an operator added to it is nested in.
    pub loops: u32,
}

/// Which host runs which task of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Placement {
    /// Tasks are spread over the hosts in proportion to their cores, in order; a single task is on the first host.
    #[default]
    Spread,
    /// Each host has one task.
    EachHost,
    /// Each host has so many tasks, host by host in the order of the tasks.
    OnHosts(Vec<usize>),
}

/// An exchange between two stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edge {
    /// The stage that sends.
    pub from: usize,
    /// The stage that receives.
    pub to: usize,
    /// How the receiving task is chosen.
    pub strategy: Strategy,
    /// The schema of the records that cross it. On a keyed edge they are the hash of the key and the program's record;
    /// what is aggregated before it is sent crosses as hash, key and accumulator.
    pub schema: Schema,
    /// The schema of the key by which a [keyed](Strategy::Keyed) edge sends.
    pub key: Option<Schema>,
    /// Whether each record has a timestamp.
    pub timed: bool,
    /// When batches are sent.
    pub batch: BatchMode,
}

/// A way in which the tasks of operators affect each other, beside the exchanges between them: it carries no records of
/// the job's streams in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tie {
    /// Its index in [`Plan::ties`].
    pub id: usize,
    /// What it is for.
    pub kind: TieKind,
    /// The operators whose tasks it joins.
    pub operators: Vec<usize>,
}

/// What a tie is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TieKind {
    /// The tasks of a loop agree at the end of a round on its state, and on whether there is another. Its operators are
    /// the head, the tail, and those that read the state.
    Rounds,
    /// The tail of a loop hands records to its head, for the next round. Its operators are the head and the tail.
    Feedback,
    /// The tasks of a loop's head agree that the input of all of them is complete, and in a job with checkpoints on the barriers
    /// that come before the first round.
    Input,
    /// The head of a delta iteration and the tail of the same keys hand each other the solution.
    Solution,
    /// The tasks of a source share out what is to be read.
    Splits,
    /// The tasks of an operator keep close to each other in event time.
    Drift,
    /// The tasks of an operator together save the watermark generators from a checkpoint whose splits none of them has read
    /// since. Each host has its own, and hosts exchange no frames.
    Generators,
    /// The tasks of an operator share out the calls that may run at once.
    Permits,
    /// The tasks of a combiner read what it costs those behind it to receive a record. It affects speed only, so each
    /// host has its own, and hosts send each other nothing. Its operators are the combiner and the table of the results.
    Hints,
    /// The tasks of an operator write into one set of files.
    Files,
    /// The tasks of a cache keep its records for later jobs.
    Cache,
    /// The tasks of a sink make one result of what each has collected. On one host only: on several, an exchange brings all
    /// records to a task of each.
    Collected,
    /// The program that runs the job hands its tasks records, or takes them.
    Program,
}

/// How an exchange chooses the receiving task of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Strategy {
    /// The task with the same index, or the nearest if there are fewer.
    Forward,
    /// The task that owns the key group of the record's key.
    Keyed,
    /// Each task in turn.
    Shuffle,
    /// A task drawn at random.
    Random,
    /// Every task.
    Broadcast,
    /// The task that a closure returns.
    Custom,
    /// The only task.
    Gather,
}

impl Tie {
    /// The part of the job that its frames are for.
    pub(crate) fn part(&self) -> Part {
        Part::Tie(self.id)
    }
}

impl Stage {
    /// The host of each task.
    pub(crate) fn hosts(&self, hosts: &Hosts) -> Vec<HostId> {
        let tasks = 0..self.tasks;
        match &self.placement {
            Placement::Spread => tasks.map(|task| hosts.of_task(task, self.tasks)).collect(),
            Placement::EachHost => tasks.map(HostId).collect(),
            Placement::OnHosts(own) => {
                let of_host =
                    |(host, own): (usize, &usize)| std::iter::repeat_n(HostId(host), *own);
                own.iter().enumerate().flat_map(of_host).collect()
            }
        }
    }
}

impl Plan {
    /// Whether two stages that send to a third are connected without it, ignoring the direction of edges. If so,
    /// leaving the input from one of them unread may block the other.
    pub(crate) fn are_connected(&self, a: usize, b: usize, without: usize) -> bool {
        let mut reached = vec![a];
        let mut at = 0;
        while let Some(&from) = reached.get(at) {
            at += 1;
            let along = self.edges.iter().filter_map(|edge| match edge {
                edge if edge.from == from => Some(edge.to),
                edge if edge.to == from => Some(edge.from),
                _ => None,
            });
            for stage in along {
                if stage != without && !reached.contains(&stage) {
                    reached.push(stage);
                }
            }
        }
        reached.contains(&b)
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::operators::calls::Calls;
    use crate::operators::time::Watermarks;
    use crate::time::Timestamp;
    use std::time::Duration;

    /// A tie that is missing, one too many, or one that joins other operators, is in none of these lists.
    #[test]
    fn operators_whose_tasks_meet_are_tied() {
        type Job = (fn(&Environment), &'static str);
        let jobs: &[Job] = &[
            (|env| env.iter(0_u64..9).shuffle().map(|n| n + 1).for_each_parallel(drop), ""),
            (|env| env.range(0..9).for_each(drop), "Splits: range"),
            (|env| env.lines("a.txt").for_each(|_| ()), "Splits: lines"),
            (|env| env.channel::<u8>(9).1.for_each(|_| ()), "Program: channel"),
            (|env| _ = env.iter(0..9).to_channel(), "Program: to_channel"),
            (|env| _ = env.iter(0..9).collect::<Vec<_>>(), "Collected: collect"),
            (|env| _ = env.iter(0..9).collect_one(), "Collected: collect_one"),
            (|env| _ = env.iter(0..9).cache(), "Cache: cache"),
            (|env| env.iter(0..9).write_lines("a.txt"), ""),
            (|env| env.iter(0..9).write_lines_parallel("a"), "Files: write_lines_parallel"),
            (
                |env| env.iter(0_u64..9).group_by(|n| *n).count().unkey().for_each(|_| ()),
                "Hints: combine, count",
            ),
            (
                |env| env.iter(0_u64..9).map_blocking(Calls::in_flight(2), |n| n).for_each(drop),
                "Permits: map_blocking",
            ),
            (
                |env| {
                    let marks = Watermarks::monotonous().aligned(Duration::from_secs(1));
                    let at = |n: &i64| Timestamp::from_micros(*n);
                    env.iter(0_i64..9).assign_timestamps(at, marks).for_each(|_| ());
                },
                "Generators: assign_timestamps; Drift: assign_timestamps",
            ),
            (
                |env| _ = env.iter(0_u64..9).iterate(3, (), |n, _| n.map(|n| n + 1)).all_rounds(),
                "Rounds: iterate, iterate; Input: iterate; Feedback: iterate, iterate",
            ),
        ];
        for (declare, expected) in jobs {
            let env = Environment::new();
            declare(&env);
            let plan = env.plan();
            let kind = |op: &usize| &*plan.operators[*op].kind;
            let ties = plan.ties.iter().map(|tie| {
                let joined: Vec<_> = tie.operators.iter().map(kind).collect();
                format!("{:?}: {}", tie.kind, joined.join(", "))
            });
            assert_eq!(ties.collect::<Vec<_>>().join("; "), *expected, "{plan}");
        }
    }

    #[test]
    fn stages_are_connected_by_any_path() {
        let env = Environment::new();
        let [a, b] = env.range(0..9).split();
        let all = a.merge(env.range(0..9));
        let merged = all.stage;
        all.for_each(drop);
        b.for_each(drop);
        env.range(0..9).shuffle().for_each(drop);
        let plan = env.plan();
        let source = |nth: usize| {
            plan.operators.iter().filter(|op| op.kind == "range").nth(nth).unwrap().stage
        };
        assert!(plan.are_connected(source(0), source(1), usize::MAX));
        assert!(!plan.are_connected(source(0), source(1), merged));
        assert!(!plan.are_connected(source(0), source(2), usize::MAX));
    }
}
