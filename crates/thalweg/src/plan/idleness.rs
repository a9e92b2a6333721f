//! Where the tasks that send on each edge have it from that they are idle.

use super::{Plan, Strategy};
use crate::exchange::Idleness;
use std::collections::{BTreeMap, BTreeSet};

/// What of a plan does not show in its stages and edges, and decides when tasks are idle.
#[derive(Default)]
pub(crate) struct TimeOrigins {
    stages: BTreeMap<usize, TimeOrigin>,
    /// The edges whose senders remove event time: they are idle for ever.
    timeless: BTreeSet<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeOrigin {
    /// The stage gives records their timestamps, so each of its tasks is idle by itself.
    Assigned,
    /// It may end before its input does, and says nothing from then on.
    EndsEarly,
}

impl TimeOrigins {
    /// A stage gives records their timestamps.
    pub(crate) fn assigned(&mut self, stage: usize) {
        self.stages.insert(stage, TimeOrigin::Assigned);
    }

    /// A stage may end before its input does.
    pub(crate) fn ends_early(&mut self, stage: usize) {
        self.stages.entry(stage).or_insert(TimeOrigin::EndsEarly);
    }

    /// What crosses an edge has no event time, although its records have timestamps.
    pub(crate) fn timeless(&mut self, edge: usize) {
        self.timeless.insert(edge);
    }

    /// The idleness of the senders of each edge.
    pub(super) fn idleness(&self, plan: &Plan) -> Vec<Idleness> {
        let mut of_stages: Vec<Idleness> = Vec::with_capacity(plan.stages.len());
        for stage in &plan.stages {
            of_stages.push(self.of_stage(plan, stage.id, &of_stages));
        }
        let of_edge = |(number, edge): (usize, &super::Edge)| {
            let is_timeless = self.timeless.contains(&number);
            if is_timeless { Idleness::default() } else { of_stages[edge.from].clone() }
        };
        plan.edges.iter().enumerate().map(of_edge).collect()
    }

    /// That of a stage, where `before` has those that come before it.
    fn of_stage(&self, plan: &Plan, stage: usize, before: &[Idleness]) -> Idleness {
        let is_one = plan.stages[stage].tasks == 1;
        let edges = || plan.edges.iter().enumerate().filter(|(_, edge)| edge.to == stage);
        let timed = edges().filter(|(number, edge)| edge.timed && !self.timeless.contains(number));
        let inputs: Vec<_> = timed.map(|(_, edge)| (edge.strategy, &before[edge.from])).collect();
        // Where every task hears from every other one, all hear the same.
        let all_hear_the_same = !inputs.is_empty()
            && inputs.iter().all(|(strategy, of)| *strategy != Strategy::Forward || of.together);
        let of_inputs = || inputs.iter().flat_map(|(_, of)| of.origins.iter().copied()).collect();
        let (origins, together) = match self.stages.get(&stage) {
            Some(TimeOrigin::Assigned) => (BTreeSet::from([stage]), false),
            Some(TimeOrigin::EndsEarly) => (BTreeSet::from([stage]), all_hear_the_same),
            None if inputs.is_empty() => (BTreeSet::from([stage]), false),
            None => (of_inputs(), all_hear_the_same),
        };
        Idleness { origins: origins.into_iter().collect(), together: together || is_one }
    }
}
