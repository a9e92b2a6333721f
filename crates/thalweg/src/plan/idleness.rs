//! Where the tasks of each stage have it from that they are idle.

use super::{Plan, Strategy};
use crate::exchange::Idleness;
use std::collections::BTreeMap;

/// How a stage has event time, if not from its input.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeOrigin {
    /// It gives records their timestamps, so each of its tasks is idle by itself.
    Assigned,
    /// It has none, so its tasks are idle for ever.
    Left,
}

/// The idleness of each stage; `of_stages` are those that do not have event time from their input.
pub(super) fn idleness(plan: &Plan, of_stages: &BTreeMap<usize, TimeOrigin>) -> Vec<Idleness> {
    let mut all: Vec<Idleness> = Vec::with_capacity(plan.stages.len());
    for stage in &plan.stages {
        let is_one = stage.tasks == 1;
        let timed = || plan.edges.iter().filter(|edge| edge.to == stage.id && edge.timed);
        all.push(match of_stages.get(&stage.id) {
            Some(TimeOrigin::Left) => Idleness::default(),
            None if timed().next().is_some() => {
                let mut origins = Vec::new();
                for edge in timed() {
                    debug_assert!(edge.from < stage.id, "stages are in the order of their edges");
                    origins.extend_from_slice(&all[edge.from].origins);
                }
                origins.sort_unstable();
                origins.dedup();
                // Where every task hears from every other one, all hear the same.
                let mut inputs = timed();
                let same = inputs
                    .all(|edge| edge.strategy != Strategy::Forward || all[edge.from].together);
                Idleness { origins: origins.into(), together: is_one || same }
            }
            Some(TimeOrigin::Assigned) | None => {
                Idleness { origins: [stage.id].into(), together: is_one }
            }
        });
    }
    all
}
