//! A job as data: operators, stages and edges, and what makes their tasks.
//!
//! A [`Plan`] names no Rust type: it can be printed, compared and shipped. A program attaches to
//! each stage a factory that makes its tasks and to each edge a connector that makes its
//! lanes; launching brings the two together.
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

use serde::{Deserialize, Serialize};

/// What a job does, as data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// Every operator, in the order in which the program named them.
    pub operators: Vec<Operator>,
    /// What runs as one piece of code.
    pub stages: Vec<Stage>,
    /// How records get from stage to stage.
    pub edges: Vec<Edge>,
}

/// One operator of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Operator {
    /// Its place in [`Plan::operators`].
    pub id: usize,
    /// What it is: `map`, `fold`, `files`, …
    pub kind: String,
    /// The name that the program gave it, or its kind.
    pub name: String,
    /// The method that the program called, which messages name: `sum` for the combiner, the exchange and the table of a
    /// sum.
    pub method: String,
    /// Where in the program it stands, as `file:line`.
    pub place: String,
    /// What else is to be known: the files read, the size of a limit, …
    pub detail: String,
    /// The stage that it belongs to.
    pub stage: usize,
    /// What it remembers across records, if it does.
    pub state: Option<State>,
    /// How many loops it is within.
    pub loops: u32,
}

/// What an operator remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// Identifies the operator from one version of a program to the next: given by
    /// [`Stream::name`](crate::Stream::name), or derived from the stateful operators before it,
    /// so that adding a `map` does not change it.
    pub id: String,
    /// Whether there is a state a key, owned by key group, rather than one a task.
    pub keyed: bool,
    /// The schema of the state, in words.
    pub schema: String,
}

/// Operators fused into one task type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stage {
    /// Its place in [`Plan::stages`].
    pub id: usize,
    /// Its operators, first to last.
    pub operators: Vec<usize>,
    /// How many tasks run it side by side.
    pub tasks: usize,
    /// Whether its input ends by itself.
    pub bounded: bool,
    /// How many loops what is added to it is within.
    pub loops: u32,
}

/// An exchange between two stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edge {
    /// The stage that sends.
    pub from: usize,
    /// The stage that receives.
    pub to: usize,
    /// Which task a record goes to.
    pub strategy: Strategy,
    /// When batches are sent, in words.
    pub batch: String,
}

/// Which task of the next stage a record goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Strategy {
    /// To the task with the same number, or the nearest there is.
    Forward,
    /// To the task that owns the key group of the record's key.
    Keyed,
    /// To each task in turn.
    Shuffle,
    /// To a task drawn at random.
    Random,
    /// To every task.
    Broadcast,
    /// To the task that a closure names.
    Custom,
    /// To the one task there is.
    Gather,
}

impl Plan {
    /// Whether two of the stages that send to a third hang together without it, by whatever way: then one
    /// that the third does not listen to for a while may hold up the other.
    pub(crate) fn hang_together(&self, a: usize, b: usize, without: usize) -> bool {
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
    fn stages_hang_together_by_any_way() {
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
        assert!(plan.hang_together(source(0), source(1), usize::MAX));
        assert!(!plan.hang_together(source(0), source(1), merged));
        assert!(!plan.hang_together(source(0), source(2), usize::MAX));
    }
}
