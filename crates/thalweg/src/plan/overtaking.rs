//! Where barriers may overtake the batches on their way between two stages.

use super::{Edge, Placement, Plan, Strategy, Tie, TieKind};
use crate::data::Schema;

/// How batches that a barrier has overtaken find their tasks in another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overtaken {
    /// Each record goes to the owner of its key.
    ByKey,
    /// Any task may process them. They go to the task at the same place among all as the one that they were sent to.
    ByTask,
}

impl Plan {
    /// Whether barriers may overtake the batches on their way to the tasks of a stage, and how these find their tasks in
    /// another run. `None` where barriers are aligned:
    ///
    /// - In event time, since watermarks are between the batches, and all tasks behind an exchange must have emitted the same
    ///   windows at a barrier.
    /// - Where tasks wait for each other to keep close in event time: a task that a barrier has passed waits, perhaps for a
    ///   task that needs batches in front of the barrier.
    /// - In loops, which barriers pass between two rounds.
    /// - Where it matters which task gets a record, and no hash of a key determines it: each task of a broadcast gets all
    ///   records, and the next run may have another number of tasks. A block of rows by key has the hash of one row, and its
    ///   rows have the same owner only with the same number of tasks.
    /// - In front of a sink into one file, which has no exchange in front of it if there is one task.
    pub(crate) fn overtaken(&self, stage: usize) -> Option<Overtaken> {
        let is_in_loop = |stage: usize| self.stages[stage].loops > 0;
        let is_in_stage = |op: &usize| self.operators[*op].stage == stage;
        let drifts =
            |tie: &Tie| tie.kind == TieKind::Drift && tie.operators.iter().any(is_in_stage);
        if self.ties.iter().any(drifts) {
            return None;
        }
        let mut overtaken = None;
        for edge in self.edges.iter().filter(|edge| edge.to == stage) {
            if edge.timed || is_in_loop(edge.from) || is_in_loop(edge.to) || self.may_lack(edge) {
                return None;
            }
            let of_edge = match edge.strategy {
                Strategy::Keyed if has_blocks(edge) => return None,
                Strategy::Keyed => Overtaken::ByKey,
                Strategy::Shuffle | Strategy::Random | Strategy::Gather => Overtaken::ByTask,
                Strategy::Forward | Strategy::Broadcast | Strategy::Custom => return None,
            };
            if overtaken.is_some_and(|other| other != of_edge) {
                return None;
            }
            overtaken = Some(of_edge);
        }
        overtaken
    }

    /// Whether the edge is no exchange where the job has one core, or one host.
    fn may_lack(&self, edge: &Edge) -> bool {
        let to = &self.stages[edge.to];
        let writes =
            || to.operators.iter().any(|op| self.operators[*op].kind.starts_with("write_"));
        to.placement == Placement::EachHost || (edge.strategy == Strategy::Gather && writes())
    }

    /// Describes the exchanges that lead to a stage: the number of each, which does not depend on the number of hosts and
    /// cores, and the operators in front of it. Batches in flight fit only the same exchanges, as the same operators have
    /// processed them. For blocks of rows the description has the columns, too, which are not part of their type.
    pub(super) fn exchanges_to(&self, stage: usize) -> String {
        let numbered = self.edges.iter().filter(|edge| !self.may_lack(edge)).enumerate();
        let described = numbered.filter(|(_, edge)| edge.to == stage).map(|(number, edge)| {
            let before = self.stages[edge.from].operators.iter();
            let kinds: Vec<_> = before.map(|op| &*self.operators[*op].kind).collect();
            let of = if has_blocks(edge) { format!(" of {}", edge.schema) } else { String::new() };
            format!("exchange {number}{of} behind {}", kinds.join(", "))
        });
        described.collect::<Vec<_>>().join("; ")
    }
}

/// Whether blocks of rows cross an edge, alone or with something else.
fn has_blocks(edge: &Edge) -> bool {
    let block = |schema: &Schema| matches!(schema, Schema::Columns(_));
    edge.schema.replaced(&|schema| block(schema).then_some(Schema::Bool)) != edge.schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::dynamic::{Graph, col};
    use crate::operators::time::Watermarks;
    use crate::time::Timestamp;
    use std::time::Duration;

    /// The result for each stage with inputs, in order.
    fn overtaken(describe: impl FnOnce(&Environment)) -> Vec<Option<Overtaken>> {
        let env = Environment::new();
        describe(&env);
        let plan = env.plan();
        let stages = 0..plan.stages.len();
        let has_inputs = |stage: &usize| plan.edges.iter().any(|edge| edge.to == *stage);
        stages.filter(has_inputs).map(|stage| plan.overtaken(stage)).collect()
    }

    #[test]
    fn barriers_overtake_what_any_task_or_the_owner_of_a_key_may_process() {
        use Overtaken::{ByKey, ByTask};
        let shuffled = overtaken(|env| env.range(0..9).shuffle().for_each_parallel(drop));
        assert_eq!(shuffled, [Some(ByTask)]);
        let keyed = overtaken(|env| {
            env.range(0..9).random(1).group_by(|n| *n).count().unkey().for_each_parallel(drop);
        });
        assert_eq!(keyed, [Some(ByTask), Some(ByKey)]);
    }

    #[test]
    fn an_exchange_is_known_by_its_number_and_what_is_in_front_of_it() {
        let env = Environment::new();
        let shuffled = env.range(0..9).map(|n| n + 1).shuffle();
        let (first, second) = (shuffled.stage, shuffled.map(|n| n + 1).shuffle());
        let last = second.stage;
        second.for_each_parallel(drop);
        let plan = env.plan();
        assert_eq!(plan.exchanges_to(first), "exchange 0 behind range, map, shuffle");
        assert_eq!(plan.exchanges_to(last), "exchange 1 behind receive, map, shuffle");
    }

    #[test]
    fn blocks_of_rows_are_known_by_their_columns_and_go_to_no_owner_of_a_key() {
        let of = |graph: Graph| {
            let env = Environment::new();
            let _attached = graph.named("end").attach(&env).unwrap();
            let plan = env.plan();
            let edge = plan.edges.first().unwrap();
            (plan.overtaken(edge.to), plan.exchanges_to(edge.to))
        };
        let numbers = |column: &str| Graph::new().range(0, 9).select([(column, col("n"))]);
        assert_eq!(of(numbers("m").partition(["m"]).collect()).0, None);
        let [(by_task, first), (_, other)] =
            ["a", "b"].map(|name| of(numbers(name).shuffle().collect()));
        assert_eq!(by_task, Some(Overtaken::ByTask));
        assert_ne!(first, other);
    }

    #[test]
    fn elsewhere_barriers_are_aligned() {
        let broadcast = overtaken(|env| env.range(0..9).broadcast().for_each_parallel(drop));
        assert_eq!(broadcast, [None]);
        let chosen = overtaken(|env| {
            env.range(0..9).repartition_by(|n, tasks| *n as usize % tasks).for_each_parallel(drop);
        });
        assert_eq!(chosen, [None]);
        let forward = overtaken(|env| env.range(0..9).forward().for_each_parallel(drop));
        assert_eq!(forward, [None]);
        let written = overtaken(|env| env.lines("a.txt").parallelism(2).write_lines("b.txt"));
        assert_eq!(written, [Some(Overtaken::ByTask), None]);
        let timed = overtaken(|env| {
            let at = |n: &u64| Timestamp::from_micros(*n as i64);
            let numbers = env.range(0..9).assign_timestamps(at, Watermarks::monotonous());
            numbers.shuffle().for_each_parallel(drop);
        });
        assert_eq!(timed, [None]);
        let close = overtaken(|env| {
            let at = |n: &u64| Timestamp::from_micros(*n as i64);
            let close = Watermarks::monotonous().aligned(Duration::from_secs(1));
            env.range(0..9).shuffle().assign_timestamps(at, close).for_each_parallel(drop);
        });
        assert_eq!(close, [None]);
        let looped = overtaken(|env| {
            let again = env.range(0..9).shuffle().iterate(3, (), |n, _| n.shuffle());
            _ = again.all_rounds();
        });
        assert!(looped.iter().all(Option::is_none), "{looped:?}");
    }
}
