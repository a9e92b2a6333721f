//! The numbers of tasks of stages: which of them may be set from outside the program, and what follows from those that are.
//!
//! A program describes its stages with the numbers that follow from the cores. When the description is complete, the
//! numbers that are set take their place ([`settle`]): stages that are joined by forward exchanges have one number
//! together, so that a task sends to the task with its own number on its own host; a merged stream has as many tasks as its
//! widest input. What a program or an operator has fixed may not change by that.

use super::{Edge, Operator, Placement, Plan, Stage, Strategy};
use crate::config::{TaskCount, TaskCounts};
use crate::data::hash_u64;
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::KEY_GROUPS;
use crate::net::{HostId, Hosts};
use std::collections::{BTreeMap, BTreeSet};

/// The number of tasks of a stage that is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parallelism {
    /// It may be set.
    Free(usize),
    /// The program or an operator needs this number.
    Fixed(usize),
}

impl Parallelism {
    /// At least one task.
    pub(super) fn tasks(self) -> usize {
        let (Self::Free(tasks) | Self::Fixed(tasks)) = self;
        tasks.max(1)
    }
}

/// What a builder knows of the numbers of tasks beside the plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// The stages whose number is fixed, and why if it is not for the operator that they begin with.
    fixed: BTreeMap<usize, Option<Fixed>>,
    /// The stages that merge streams whose numbers may differ.
    merged: Vec<usize>,
}

/// The operator that needs a number of tasks, and why.
type Fixed = (usize, &'static str);

impl Rules {
    pub(super) fn add(&mut self, stage: usize, parallelism: Parallelism) {
        if let Parallelism::Fixed(_) = parallelism {
            self.fixed.insert(stage, None);
        }
    }

    /// Notes that an operator needs the number of tasks that its stage has.
    pub(super) fn fix(&mut self, stage: usize, operator: usize, why: &'static str) {
        self.fixed.entry(stage).or_insert(Some((operator, why)));
    }

    /// Notes whether the forward exchanges to a stage may come from another number of tasks.
    pub(super) fn set_merged(&mut self, stage: usize, merged: bool) {
        self.merged.retain(|other| *other != stage);
        if merged {
            self.merged.push(stage);
        }
    }

    /// Whether the stages at the ends of an edge have one number together. In a loop those of merged streams have too: a tail
    /// that waits for some heads alone may end a round before another head has begun it, so it must feed those alone.
    fn joins(&self, plan: &Plan, edge: &Edge) -> bool {
        edge.strategy == Strategy::Forward && !self.may_differ(plan, edge.to)
    }

    /// Whether a stage merges streams outside of all loops. A loop may begin in it.
    fn may_differ(&self, plan: &Plan, stage: usize) -> bool {
        let first = plan.stages[stage].operators.first();
        self.merged.contains(&stage) && first.is_none_or(|&first| plan.operators[first].loops == 0)
    }

    /// The groups with a stage whose number is fixed.
    fn fixed_groups(&self, groups: &[usize]) -> BTreeSet<usize> {
        self.fixed.keys().map(|stage| groups[*stage]).collect()
    }

    /// For each stage, the first of the stages that have one number together with it.
    fn groups(&self, plan: &Plan) -> Vec<usize> {
        let mut groups: Vec<usize> = (0..plan.stages.len()).collect();
        for edge in plan.edges.iter().filter(|edge| self.joins(plan, edge)) {
            join(&mut groups, edge);
        }
        // A merge of streams that keep one task each keeps it too: operators behind it may rely on that.
        for stage in (0..groups.len()).filter(|stage| self.may_differ(plan, *stage)) {
            let inputs = || {
                let edges = plan.edges.iter().filter(|edge| edge.to == stage);
                edges.filter(|edge| edge.strategy == Strategy::Forward)
            };
            let fixed = self.fixed_groups(&groups);
            let is_one = |edge: &Edge| {
                plan.stages[edge.from].tasks == 1 && fixed.contains(&groups[edge.from])
            };
            if inputs().all(is_one) {
                inputs().for_each(|edge| join(&mut groups, edge));
            }
        }
        groups
    }
}

/// Makes one group of those of the stages at the ends of an edge.
fn join(groups: &mut [usize], edge: &Edge) {
    let (one, other) = (groups[edge.from], groups[edge.to]);
    let joined = one.min(other);
    for group in groups {
        if *group == one || *group == other {
            *group = joined;
        }
    }
}

/// The number of tasks of a group of stages and where they run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tasks {
    number: usize,
    placement: Placement,
}

impl Tasks {
    fn of(stage: &Stage) -> Self {
        Self { number: stage.tasks, placement: stage.placement.clone() }
    }

    /// The stage with these tasks.
    fn in_stage(&self, stage: &Stage) -> Stage {
        Stage { tasks: self.number, placement: self.placement.clone(), ..stage.clone() }
    }
}

/// One setting.
#[derive(Clone, Copy)]
struct Set<'a> {
    name: &'a str,
    count: &'a TaskCount,
}

impl Set<'_> {
    fn text(&self) -> String {
        format!("{}={}", self.name, self.count)
    }

    fn error(&self, what: String) -> Error {
        let what = format!("the number of tasks `{}` is not possible: {what}", self.text());
        Error::new(ErrorKind::Config, what)
    }
}

/// Sets the numbers of tasks of a plan.
///
/// # Errors
///
/// Of kind [`Config`](ErrorKind::Config), if a name fits no stage or several, if a number is not possible, or if a stage
/// needs another one. The plan is unchanged then.
pub(super) fn settle(
    plan: &mut Plan,
    rules: &Rules,
    counts: &TaskCounts,
    hosts: &Hosts,
) -> Result<()> {
    let groups = rules.groups(plan);
    // By the first stage of each group.
    let mut settled: BTreeMap<usize, Tasks> = drawn(plan, rules, &groups, counts, hosts);
    let mut set_by = BTreeMap::<usize, Set<'_>>::new();
    for (name, count) in counts.iter() {
        let set = Set { name, count };
        let Some(stage) = find(plan, set)? else { continue };
        let tasks = tasks_on(&plan.stages[stage], set, hosts)?;
        let group = groups[stage];
        if let Some(earlier) = set_by.insert(group, set)
            && settled.get(&group) != Some(&tasks)
        {
            let what = format!(
                "`{}` is for the same stage, or for one that forward exchanges join to it, which has as many",
                earlier.text()
            );
            return Err(set.error(what));
        }
        for stage in plan.stages.iter().filter(|stage| groups[stage.id] == group) {
            check_fixed(plan, rules, stage, &tasks, set, hosts)?;
        }
        settled.insert(group, tasks);
    }
    widen_merged(plan, rules, &groups, &mut settled);
    for stage in &mut plan.stages {
        if let Some(tasks) = settled.get(&groups[stage.id]) {
            *stage = tasks.in_stage(stage);
        }
    }
    Ok(())
}

/// Numbers drawn for all groups of stages that have none fixed, by the first stage of each, if they are to be drawn.
fn drawn(
    plan: &Plan,
    rules: &Rules,
    groups: &[usize],
    counts: &TaskCounts,
    hosts: &Hosts,
) -> BTreeMap<usize, Tasks> {
    let Some(seed) = counts.seed() else { return BTreeMap::new() };
    let fixed = rules.fixed_groups(groups);
    let free =
        (0..plan.stages.len()).filter(|&stage| groups[stage] == stage && !fixed.contains(&stage));
    let draw = |group: usize| {
        let drawn = hash_u64(seed ^ hash_u64(group as u64)).to_le_bytes().map(usize::from);
        // A third as many as without, and a third spread over the hosts.
        let tasks = match drawn[0] % 3 {
            0 => return None,
            1 => Tasks { number: 1 + drawn[1] % 7, placement: Placement::Spread },
            _ => {
                // Only the first host has at least one.
                let own =
                    (0..hosts.count()).map(|host| usize::from(host == 0) + drawn[1 + host % 7] % 4);
                let own: Vec<usize> = own.collect();
                Tasks { number: own.iter().sum(), placement: Placement::OnHosts(own) }
            }
        };
        Some((group, tasks))
    };
    free.filter_map(draw).collect()
}

/// Gives stages that merge streams the number of the widest of their inputs, if that is set and theirs is neither set nor
/// fixed.
fn widen_merged(
    plan: &Plan,
    rules: &Rules,
    groups: &[usize],
    settled: &mut BTreeMap<usize, Tasks>,
) {
    let mut keep = rules.fixed_groups(groups);
    keep.extend(settled.keys());
    // A merged stream may be an input of another one.
    for _ in &rules.merged {
        for &stage in rules.merged.iter().filter(|stage| !keep.contains(&groups[**stage])) {
            let inputs = plan.edges.iter().filter(|edge| edge.to == stage).map(|edge| edge.from);
            let inputs: Vec<usize> = inputs.collect();
            if !inputs.iter().any(|from| settled.contains_key(&groups[*from])) {
                continue;
            }
            let tasks_of = |from: &usize| match settled.get(&groups[*from]) {
                Some(tasks) => tasks.clone(),
                None => Tasks::of(&plan.stages[*from]),
            };
            // The first of the widest, whose tasks then send to tasks on their own hosts.
            if let Some(widest) = inputs.iter().rev().map(tasks_of).max_by_key(|tasks| tasks.number)
            {
                settled.insert(groups[stage], widest);
            }
        }
    }
}

/// Fails if a stage needs other tasks than those that are set.
fn check_fixed(
    plan: &Plan,
    rules: &Rules,
    stage: &Stage,
    tasks: &Tasks,
    set: Set<'_>,
    hosts: &Hosts,
) -> Result<()> {
    let Some(fixed) = rules.fixed.get(&stage.id) else { return Ok(()) };
    if tasks.in_stage(stage).hosts(hosts) == stage.hosts(hosts) {
        return Ok(());
    }
    let first = stage.operators.first().copied();
    let operator = fixed.map(|(operator, _)| operator).or(first);
    let operator = operator.and_then(|op| plan.operators.get(op)).map(Operator::label);
    let s = if stage.tasks == 1 { "" } else { "s" };
    let (id, number) = (stage.id, stage.tasks);
    let what = match fixed {
        None => format!("stage {id} has {number} task{s} because of this operator"),
        Some((_, why)) => format!("stage {id} has {number} task{s}, and {why}"),
    };
    Err(set.error(what).in_operator(operator.unwrap_or_default()))
}

/// The tasks of a stage that is set to this.
fn tasks_on(stage: &Stage, set: Set<'_>, hosts: &Hosts) -> Result<Tasks> {
    let (number, placement) = match set.count {
        TaskCount::InAll(tasks) => (*tasks, Placement::Spread),
        TaskCount::OnHosts(on) => {
            if on.len() != hosts.count() {
                let there = hosts.count();
                let what =
                    format!("it has numbers for {} hosts, and the job runs on {there}", on.len());
                return Err(set.error(what));
            }
            let usual = stage.hosts(hosts);
            let usual = |host| usual.iter().filter(|of| **of == HostId(host)).count();
            let on = on.iter().enumerate().map(|(host, own)| own.unwrap_or_else(|| usual(host)));
            let on: Vec<usize> = on.collect();
            if on.first() == Some(&0) {
                let what =
                    "the first host runs the first task of each stage, so it has at least one";
                return Err(set.error(what.to_owned()));
            }
            let all = on.iter().fold(0_usize, |all, own| all.saturating_add(*own));
            (all, Placement::OnHosts(on))
        }
    };
    if number == 0 {
        return Err(set.error("a stage has at least one task".to_owned()));
    }
    if number as u64 > KEY_GROUPS {
        return Err(set.error(format!("a stage has at most {KEY_GROUPS} tasks")));
    }
    Ok(Tasks { number, placement })
}

/// The stage that a setting is for; `None` if there is none and need not be.
fn find(plan: &Plan, set: Set<'_>) -> Result<Option<usize>> {
    let (name, optional) = match set.name.strip_suffix('?') {
        Some(name) if !plan.operators.iter().any(|op| op.name == set.name) => (name, true),
        _ => (set.name, false),
    };
    let titled: Vec<&Operator> = plan.operators.iter().filter(|op| op.name == name).collect();
    // A name that the program gave; no two operators have the same.
    if let Some(named) = titled.iter().find(|op| op.name != op.kind) {
        return Ok(Some(named.stage));
    }
    let numbered = || name.parse().ok().filter(|stage| *stage < plan.stages.len());
    let titled: Vec<&Operator> = titled.into_iter().filter(|op| op.is_shown()).collect();
    let mut stages: Vec<usize> = titled.iter().map(|op| op.stage).collect();
    stages.dedup();
    match (stages[..].split_first(), titled.first()) {
        (None, _) => match numbered() {
            Some(stage) => Ok(Some(stage)),
            None if optional => Ok(None),
            None => {
                let what = format!(
                    "no stage of the job has this name; there are {}; for programs with several jobs, `{name}?` sets \
                     those that have it",
                    listed(plan)
                );
                Err(set.error(what))
            }
        },
        (Some((&from, [])), Some(op)) => match leads_to(plan, op) {
            Some(to) => {
                let what = format!(
                    "`{name}` leads from stage {from} to stage {to}; name another operator of one of them, or its number"
                );
                Err(set.error(what))
            }
            None => Ok(Some(from)),
        },
        _ => {
            let several = stages.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let what = format!(
                "the stages {several} have an operator `{name}`; name one by its number, or give an operator a name in \
                 the program; there are {}",
                listed(plan)
            );
            Err(set.error(what))
        }
    }
}

/// The stage to which an operator that ends another one sends, if it is an exchange.
fn leads_to(plan: &Plan, op: &Operator) -> Option<usize> {
    if plan.stages[op.stage].operators.last() != Some(&op.id) {
        return None;
    }
    let mut edges = plan.edges.iter().filter(|edge| edge.from == op.stage);
    // What receives has been added by the same call.
    let same = |other: &usize| {
        let other = &plan.operators[*other];
        other.is_received() && (&other.method, &other.place) == (&op.method, &op.place)
    };
    edges.find(|edge| plan.stages[edge.to].operators.iter().any(same)).map(|edge| edge.to)
}

/// The stages of a plan and their operators.
fn listed(plan: &Plan) -> String {
    let stage = |stage: &Stage| {
        let operators = stage.operators.iter().map(|&op| &plan.operators[op]);
        let names: Vec<&str> =
            operators.filter(|op| op.is_shown()).map(|op| op.name.as_str()).collect();
        format!("stage {} ({})", stage.id, names.join(", "))
    };
    plan.stages.iter().map(stage).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
