//! Which jobs can have checkpoints: those of which every operator saves what it remembers, or remembers nothing.

use super::{Operator, Plan};
use crate::checkpoint::Checkpoints;
use crate::error::{Error, ErrorKind, Result};

/// The kinds of operators that remember nothing when a barrier has passed them: they see one record at a time, or send all
/// that they hold before the barrier. What they keep only to be fast counts as nothing. Calls either are all made before the barrier,
/// or their records are saved; sinks into the program let it pass when the program has received what was before it.
const REMEMBER_NOTHING: &[&str] = &[
    "broadcast",
    "clone",
    "collect on each host",
    "dead_letters",
    "explode",
    "failed calls",
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
    "group",
    "group_by",
    "hash",
    "inputs",
    "inspect",
    "join_static",
    "left_join_static",
    "limit",
    "map",
    "map_async",
    "map_blocking",
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
    "print",
    "random",
    "receive",
    "receive control",
    "repartition",
    "repartition_by",
    "route",
    "select",
    "shuffle",
    "side output",
    "side_output",
    "side_output_each",
    "sieve",
    "sort",
    "split",
    "to_channel",
    "top",
    "try_map",
    "try_map_async",
    "try_map_blocking",
    "unkey",
    "views",
    "with",
    "write_csv",
    "write_csv_parallel",
    "write_json_lines",
    "write_json_lines_parallel",
    "write_lines",
    "write_lines_parallel",
];

/// The kinds of operators that save what they remember. Whether an operator does is known when its
/// tasks are made; plans tell it from these.
const SAVED: &[&str] = &[
    "aggregate",
    "anti_join",
    "as_of_join",
    "as_of_left_join",
    "assign_timestamps",
    "average",
    "bottom",
    "bottom_by",
    "bottom_by_key",
    "byte_lines",
    "chunks",
    "co_group",
    "collect",
    "collect_one",
    "combine",
    "connect",
    "connect_after",
    "count",
    "cross",
    "csv",
    "csv_rows",
    "delta_iterate",
    "fold",
    "fold_assoc",
    "full_join",
    "generate",
    "interval_join",
    "interval_left_join",
    "iter",
    "iterate",
    "join",
    "json_lines",
    "late_output",
    "left_join",
    "limit",
    "lines",
    "max",
    "max_by",
    "max_by_key",
    "min",
    "min_by",
    "min_by_key",
    "pack",
    "parallel_iter",
    "parse_lines",
    "process",
    "range",
    "read",
    "reduce",
    "replay",
    "right_join",
    "rows",
    "scan",
    "semi_join",
    "slice",
    "sorted",
    "sorted_by",
    "sorted_by_key",
    "sorted_by_time",
    "stateful_flat_map",
    "stateful_map",
    "stateful_map_with",
    "sum",
    "top",
    "top_by",
    "top_by_key",
    "unique",
    "window",
    "window_all",
    "window_join",
    "write",
    "zip",
    "zip_by_task",
];

/// The kinds of those that do so in the body of a loop too: what they have saved between two rounds is what the next one begins
/// with.
const SAVED_IN_LOOPS: &[&str] = &[
    "aggregate",
    "anti_join",
    "average",
    "bottom",
    "bottom_by",
    "bottom_by_key",
    "chunks",
    "combine",
    "count",
    "cross",
    "delta_iterate",
    "fold",
    "fold_assoc",
    "full_join",
    "iterate",
    "join",
    "left_join",
    "limit",
    "max",
    "max_by",
    "max_by_key",
    "min",
    "min_by",
    "min_by_key",
    "reduce",
    "replay",
    "right_join",
    "scan",
    "semi_join",
    "sorted",
    "sorted_by",
    "sorted_by_key",
    "stateful_flat_map",
    "stateful_map",
    "sum",
    "top",
    "top_by",
    "top_by_key",
    "unique",
    "zip",
    "zip_by_task",
];

/// Why no job with checkpoints fills or reads a cache: when the program is run again, its jobs do not have the records that
/// earlier ones kept.
const GONE_WITH_THE_PROCESS: &str = "a cache is gone with the process, and what a checkpoint has would not fit one that is filled again; write the records to \
     files for the jobs that read them, or run the jobs that fill the cache and read it in environments without checkpoints";

/// The kinds that no job with checkpoints will have, and why.
const NEVER: [(&str, &str); 4] = [
    ("cache", GONE_WITH_THE_PROCESS),
    ("cached", GONE_WITH_THE_PROCESS),
    (
        "channel",
        "its records come from the program, which cannot send those again that were read since the last checkpoint; use a source \
         that can, such as `iter`, `generate`, or one of files",
    ),
    (
        "map_volatile",
        "what its closure remembers is not declared, and cannot be saved; use `scan` or `stateful_map`, whose state is",
    ),
];

/// How the message begins by which a job is refused.
pub(crate) const CANNOT_HAVE: &str = "a job with checkpoints cannot have it";

impl Plan {
    /// The operators that keep the job from having [checkpoints](crate::config::Config::checkpoints), as far as the plan
    /// says: a job that is refused at its start names the first of them.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (_numbers, stream) = env.channel::<u64>(100);
    /// stream.for_each(drop);
    /// let plan = env.plan();
    /// assert_eq!(plan.without_checkpoints()[0].kind, "channel");
    /// ```
    pub fn without_checkpoints(&self) -> Vec<&Operator> {
        let is_saved = |op: &Operator| SAVED.contains(&&*op.kind);
        let keeps =
            |op: &&Operator| op.why_not_in_loop().is_some() || (op.remembers() && !is_saved(op));
        self.operators.iter().filter(keeps).collect()
    }

    /// Names an operator in checkpoints, where none says that its [branch](Self::described) has had another id: as a part of one
    /// with a name, if it is one, else as its state, if the plan declares one, else by the name that the program gave it, else by
    /// its kind and its number among those of the kind.
    pub(super) fn state_id(&self, id: usize) -> String {
        let op = &self.operators[id];
        if let Some(id) = self.part_id(id) {
            return id;
        }
        match &op.state {
            Some(state) => state.id.clone(),
            None if op.name != op.kind => op.name.clone(),
            None => {
                let before = self.operators[..id].iter().filter(|other| other.kind == op.kind);
                format!("{}-{}", op.kind, before.count())
            }
        }
    }

    /// The kind of an operator that checkpoints know by its kind and a number.
    pub(super) fn numbered(&self, id: usize) -> Option<&str> {
        let op = &self.operators[id];
        let has_name = op.name != op.kind || self.part_id(id).is_some();
        (!has_name).then_some(&*op.kind)
    }

    /// Names an operator that is a part of one with a name: by that name and its own kind, as in `totals/combine`, so that its
    /// state is found again when other operators of the kind are added or removed.
    pub(super) fn part_id(&self, id: usize) -> Option<String> {
        let (op, whole) = (&self.operators[id], self.whole_of(id)?);
        let is_part = |other: &usize| self.whole_of(*other).is_some_and(|of| of.id == whole.id);
        let before = (0..id).rev().take_while(is_part);
        let first = format!("{}/{}", whole.name, op.kind);
        match before.filter(|other| self.operators[*other].kind == op.kind).count() {
            0 => Some(first),
            before => Some(format!("{first}-{}", before + 1)),
        }
    }

    /// The operator with a name that the same call of a method has added behind this one, which has none.
    fn whole_of(&self, id: usize) -> Option<&Operator> {
        let part = &self.operators[id];
        let is_same_call = |op: &&Operator| (&op.method, &op.place) == (&part.method, &part.place);
        let mut added_behind = self.operators[id + 1..].iter().take_while(is_same_call);
        let whole = added_behind.find(|op| op.name != op.kind)?;
        // One call of a method may follow another at the same place, as in a loop of the program: each ends with such an operator.
        // What it was given may differ, as in a function of the program that is called twice.
        let phase = |op: &Operator| op.details.get("phase").cloned();
        let ends_a_call = |op: &Operator| op.kind == whole.kind && phase(op) == phase(whole);
        let is_of_another_call = self.operators[id..whole.id].iter().any(ends_a_call);
        (part.name == part.kind && !is_of_another_call).then_some(whole)
    }

    /// Checks that a job with checkpoints saves all that it remembers; its tasks are made, on this host those of the stages
    /// that have some here.
    ///
    /// # Errors
    ///
    /// The first operator that remembers what it does not save.
    pub(super) fn check_saved(
        &self,
        checkpoints: &Checkpoints,
        is_here: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let refuse = |op: &Operator, what: &str| {
            let what = match NEVER.iter().find(|(kind, _)| *kind == op.kind) {
                Some((_, why)) => format!("{CANNOT_HAVE}: {why}"),
                None => format!("{CANNOT_HAVE} yet: {what}"),
            };
            Err(Error::new(ErrorKind::Plan, what).in_operator(op.label()))
        };
        for op in &self.operators {
            if let Some(why) = op.why_not_in_loop() {
                return refuse(op, why);
            }
            let covers = || checkpoints.covers(op.id) || checkpoints.lacks_states();
            if op.remembers() && is_here(op.stage) && !covers() {
                return refuse(op, "what it remembers is not saved");
            }
        }
        Ok(())
    }
}

impl Operator {
    /// Why it keeps a job from having checkpoints, if that is the loop it is in.
    fn why_not_in_loop(&self) -> Option<&'static str> {
        let is_saved =
            self.loops == 0 || !self.remembers() || SAVED_IN_LOOPS.contains(&&*self.kind);
        (!is_saved).then_some("it is in a loop, and what it remembers there is not saved")
    }

    /// Whether it remembers something when a barrier has passed it.
    pub(super) fn remembers(&self) -> bool {
        self.state.is_some() || !REMEMBER_NOTHING.contains(&&*self.kind)
    }
}
