//! A consistency check of the counts of a finished job.
//!
//! Records are counted in few places, and the counts between are derived: an operator that emits one record for each
//! input does not count. The same records are counted twice at the two ends of an edge, and at the end of a stage,
//! whose count must follow from the counts of the operators before it. These pairs are compared.

use super::measure::OperatorFlow;
use super::{Edge, Placement, Plan, Strategy};
use crate::metrics::Passed;
use crate::runtime::TaskCounts;
use std::collections::BTreeMap;

/// Operators that count and must emit one record for each input.
const ONE_EACH: [&str; 4] = ["stateful_map", "stateful_map_with", "map_async", "map_blocking"];
/// Operators that may leave input of the operators before them unprocessed.
const ENOUGH: [&str; 5] = ["limit", "scan", "zip", "zip_by_task", "to_channel"];

/// Describes where the counts of a job that has succeeded differ. The two ends of an edge may differ if its receiver
/// closed it; in a job with such an edge, or with one of the operators in `ENOUGH`, only the edges are checked.
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
        for flow in OperatorFlow::of(&plan.stages[stage].operators, &task.report) {
            let Some(operator) = plan.operators.get(flow.op) else { continue };
            let (records_in, records_out) = (flow.records_in.unwrap_or(0), flow.records_out);
            let to_emit = records_in + flow.count.began_with;
            if whole && ONE_EACH.contains(&operator.kind.as_str()) && to_emit != records_out {
                let label = format!("{} ({})", operator.name, operator.place);
                return Err(format!(
                    "{label} has received {records_in} records and emitted {records_out}"
                ));
            }
            if !whole || !flow.last || flow.count.source {
                continue;
            }
            let ends =
                task.report.edges().iter().filter(|(edge, _)| plan.edges[*edge].from == stage);
            let ends: Vec<_> = ends.filter(|(_, passed)| passed.op == Some(flow.op)).collect();
            let shares = ends.iter().map(|(edge, passed)| match &plan.edges[*edge] {
                Edge { strategy: Strategy::Broadcast, to, .. } => {
                    passed.sent.records / plan.stages[*to].tasks.max(1) as u64
                }
                _ => passed.sent.records,
            });
            let to_each_host = ends.iter().all(|(edge, _)| {
                plan.stages[plan.edges[*edge].to].placement == Placement::EachHost
            });
            let left = match &*ends {
                // A sink of blocks counts blocks, and sends them to each host if there are several; everything else
                // counts their rows.
                _ if blocks && to_each_host => records_in,
                [] => flow.count.emitted.unwrap_or(records_in),
                // Every branch receives every record.
                _ if operator.kind == "split" => {
                    shares.clone().find(|&share| share != records_in).unwrap_or(records_in)
                }
                _ => shares.sum(),
            };
            if left != records_in {
                let label = format!("{} ({})", operator.name, operator.place);
                return Err(format!(
                    "{label} counts {left} records, but the operators before it emitted {records_in}"
                ));
            }
        }
    }
    Ok(())
}
