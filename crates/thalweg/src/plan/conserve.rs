//! Whether what the tasks of a finished job have counted agrees with itself.
//!
//! Counts are taken in few places, and what lies between is derived: an operator that hands on each record once does
//! not count. So they can be held against each other where two are taken of the same records: at both ends of an
//! edge, and at the end of a stage, which counts what the operators before it say that they have handed on.

use super::measure::Passing;
use super::{Edge, Plan, Strategy};
use crate::metrics::Passed;
use crate::runtime::TaskCounts;
use std::collections::BTreeMap;

/// Operators that count, and hand on as many records as they take.
const ONE_EACH: [&str; 4] = ["stateful_map", "stateful_map_with", "map_async", "map_blocking"];
/// Operators after which what comes before may be left undone.
const ENOUGH: [&str; 5] = ["limit", "scan", "zip", "zip_by_task", "to_channel"];

/// Says where the counts of a job that has ended well differ. Those of an edge that was closed by its receiver may,
/// and in a job that has one, or an operator that has enough, nothing is said of what lies between edges.
pub(super) fn conserved(
    plan: &Plan,
    stage_of: &[usize],
    counted: &[TaskCounts],
    blocks: bool,
) -> Result<(), String> {
    let mut edges: BTreeMap<usize, Passed> = BTreeMap::new();
    for (edge, passed) in counted.iter().flat_map(|task| task.report.edges()) {
        edges.entry(*edge).or_default().add(passed);
    }
    for (at, passed) in &edges {
        let (sent, received) = (passed.sent.records, passed.received);
        if received > sent || (received < sent && !passed.closed) {
            let Edge { from, to, .. } = &plan.edges[*at];
            return Err(format!(
                "stage {from} has sent {sent} records to stage {to}, which has received {received}"
            ));
        }
    }
    let whole = !edges.values().any(|edge| edge.closed)
        && !plan.operators.iter().any(|op| ENOUGH.contains(&op.kind.as_str()));
    for (&stage, task) in stage_of.iter().zip(counted) {
        for passing in Passing::of(&plan.stages[stage].operators, &task.report) {
            let Some(operator) = plan.operators.get(passing.op) else { continue };
            let (taken, given) = (passing.taken.unwrap_or(0), passing.given);
            if whole && ONE_EACH.contains(&operator.kind.as_str()) && taken != given {
                let label = format!("{} ({})", operator.name, operator.place);
                return Err(format!("{label} has taken {taken} records and handed on {given}"));
            }
            if !whole || !passing.last || passing.count.source {
                continue;
            }
            let ends =
                task.report.edges().iter().filter(|(edge, _)| plan.edges[*edge].from == stage);
            let ends: Vec<_> = ends.filter(|(_, passed)| passed.op == Some(passing.op)).collect();
            let shares = ends.iter().map(|(edge, passed)| match &plan.edges[*edge] {
                Edge { strategy: Strategy::Broadcast, to, .. } => {
                    passed.sent.records / plan.stages[*to].tasks.max(1) as u64
                }
                _ => passed.sent.records,
            });
            let left = match &*ends {
                // A sink of blocks counts them, and all others their rows.
                [] if blocks => taken,
                [] => passing.count.emitted.unwrap_or(taken),
                // Each way out has every record.
                _ if operator.kind == "split" => {
                    shares.clone().find(|&share| share != taken).unwrap_or(taken)
                }
                _ => shares.sum(),
            };
            if left != taken {
                let label = format!("{} ({})", operator.name, operator.place);
                return Err(format!(
                    "{label} counts {left} records, and the operators before it have handed on {taken}"
                ));
            }
        }
    }
    Ok(())
}
