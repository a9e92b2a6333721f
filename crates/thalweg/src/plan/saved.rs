//! Which jobs can have checkpoints: those of which every operator saves what it remembers, or remembers nothing.

use super::Plan;
use crate::checkpoint::Checkpoints;
use crate::error::{Error, ErrorKind, Result};

/// The kinds of operators that remember nothing when a barrier has passed them: they see one record at a time, or send all
/// that they hold before the barrier. What they keep only to be fast counts as nothing.
const REMEMBER_NOTHING: &[&str] = &[
    "broadcast",
    "clone",
    "dead_letters",
    "filter",
    "filter_map",
    "flat_each",
    "flat_each_in_pieces",
    "flat_map",
    "flat_map_str",
    "flatten",
    "for_each",
    "for_each_parallel",
    "forward",
    "gather",
    "group_by",
    "hash",
    "inspect",
    "join_static",
    "left_join_static",
    "limit",
    "map",
    "map_memo",
    "map_memo_by",
    "map_memo_by_ref",
    "map_with_timestamp",
    "memo key",
    "merge",
    "merge_all",
    "pair",
    "parallelism",
    "partition",
    "random",
    "receive",
    "repartition",
    "repartition_by",
    "route",
    "shuffle",
    "side output",
    "side_output",
    "side_output_each",
    "sieve",
    "split",
    "try_map",
    "unkey",
    "views",
    "write_csv",
    "write_csv_parallel",
    "write_json_lines",
    "write_json_lines_parallel",
    "write_lines",
    "write_lines_parallel",
];

/// How the message begins by which a job is refused.
pub(crate) const NOT_YET: &str = "a job with checkpoints cannot have it yet";

impl Plan {
    /// Names an operator in checkpoints: as its state, if the plan declares one, else by the name that the program gave it,
    /// else by its kind and its number among those of the kind.
    pub(super) fn state_id(&self, id: usize) -> String {
        let op = &self.operators[id];
        match &op.state {
            Some(state) => state.id.clone(),
            None if op.name != op.kind => op.name.clone(),
            None => {
                let before = self.operators[..id].iter().filter(|other| other.kind == op.kind);
                format!("{}-{}", op.kind, before.count())
            }
        }
    }

    /// Checks that a job with checkpoints saves all that it remembers; its tasks are made.
    ///
    /// # Errors
    ///
    /// The first operator that remembers what it does not save.
    pub(super) fn check_saved(&self, checkpoints: &Checkpoints, hosts: usize) -> Result<()> {
        if hosts > 1 {
            let what = "a job on several hosts cannot have checkpoints yet";
            return Err(Error::new(ErrorKind::Plan, what));
        }
        let refuse = |op: &super::Operator, what: &str| {
            let what = format!("{NOT_YET}: {what}");
            Err(Error::new(ErrorKind::Plan, what).in_operator(op.label()))
        };
        for op in &self.operators {
            if op.loops > 0 {
                return refuse(op, "it is in a loop, and rounds are not saved");
            }
            let remembers = op.state.is_some() || !REMEMBER_NOTHING.contains(&&*op.kind);
            if remembers && !checkpoints.covers(op.id) {
                return refuse(op, "what it remembers is not saved");
            }
        }
        Ok(())
    }
}
