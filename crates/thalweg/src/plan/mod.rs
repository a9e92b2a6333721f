//! Plans: a job as data, with the factories of its tasks.
//!
//! A [`Plan`] contains no Rust type: it can be printed, compared and shipped. Beside it, the builder keeps a factory
//! for each stage, which creates its tasks, and a connector for each edge, which creates its lanes; launching uses
//! all three.
//!
//! Building a plan starts no thread and opens no file.

mod builder;
mod conserve;
mod explain;
mod launch;
mod measure;

pub(crate) use builder::Builder;
pub use builder::Origin;
pub use launch::TaskContext;
pub(crate) use launch::{Launched, check, launch, linked};

use crate::net::{HostId, Hosts};
use serde::{Deserialize, Serialize};

/// A job as data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The operators, in the order in which the program added them.
    pub operators: Vec<Operator>,
    /// The stages; each runs as one piece of code.
    pub stages: Vec<Stage>,
    /// The exchanges between stages.
    pub edges: Vec<Edge>,
    /// The ways beside exchanges in which tasks affect each other.
    pub ties: Vec<Tie>,
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
    /// Further details: the files read, the size of a limit, …
    pub detail: String,
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
    /// `map` does not change it.
    pub id: String,
    /// Whether there is a state for each key, owned by key group, rather than one for each task.
    pub keyed: bool,
    /// The schema of the state, as text.
    pub schema: String,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Placement {
    /// Tasks are spread over the hosts in proportion to their cores, in order; a single task is on the first host.
    #[default]
    Spread,
    /// Each host has one task.
    EachHost,
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
    /// When batches are sent, as text.
    pub batch: String,
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
    /// The tasks of a loop agree at the end of a round on its state, and on whether there is another.
    Rounds,
    /// The tail of a loop hands records to its head, for the next round.
    Feedback,
    /// The head of a delta iteration and the tail of the same keys hand each other the solution.
    Solution,
    /// The tasks of a source share out what is to be read.
    Splits,
    /// The tasks of an operator keep close to each other in event time.
    Drift,
    /// The tasks of an operator share out the calls that may run at once.
    Permits,
    /// The tasks of an operator share what they have found out about their input. It affects speed only.
    Hints,
    /// The tasks of an operator write into one set of files.
    Files,
    /// The tasks of a cache keep its records for later jobs.
    Cache,
    /// The program that runs the job hands its tasks records, or takes them.
    Program,
}

impl TieKind {
    /// Whether tasks of different hosts can be joined by it.
    fn spans_hosts(self) -> bool {
        matches!(self, Self::Hints | Self::Permits | Self::Files | Self::Cache | Self::Program)
    }
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

impl Stage {
    /// The host of each task.
    pub(crate) fn hosts(&self, hosts: &Hosts) -> Vec<HostId> {
        let host = |task| match self.placement {
            Placement::Spread => hosts.of_task(task, self.tasks),
            Placement::EachHost => HostId(task),
        };
        (0..self.tasks).map(host).collect()
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
    #[test]
    fn stages_are_connected_by_any_path() {
        let env = crate::Environment::new();
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
