//! Hashes by which operators of a job are known wherever the program describes them: those of the branches that they are in.

use super::fingerprint::IGNORED;
use super::{Operator, Placement, Plan};
use crate::checkpoint::Described;
use crate::data::{hash_bytes, mix};

/// Makes the hash of what is behind an operator another one than that of the same before it.
const BEHIND: u64 = 1;

impl Plan {
    /// Its operators, as checkpoints know them.
    pub(super) fn described(&self) -> Vec<Described<'_>> {
        let described = |(id, branch)| {
            let (kind, id) = (self.numbered(id), self.state_id(id));
            Described { id, kind, branch }
        };
        self.branches().into_iter().enumerate().map(described).collect()
    }

    /// Of each operator a hash of its branch: of itself, and of the operators before and behind it that remember something or
    /// have properties or a name, the sources and the sinks. What is described elsewhere does not change it, nor does an added
    /// `map`, `filter` or exchange, or another number of tasks or hosts; but `random` has a seed, which is a property. A further
    /// output of a `split` changes what is before the `split`, and the order of inputs counts where streams meet.
    fn branches(&self) -> Vec<u64> {
        let mut senders = vec![Vec::new(); self.stages.len()];
        let mut receivers = senders.clone();
        for edge in &self.edges {
            senders[edge.to].push(edge.from);
            // Sinks have such a stage behind them only in jobs on several hosts.
            if self.stages[edge.to].placement != Placement::EachHost {
                receivers[edge.from].push(edge.to);
            }
        }
        let is_end = |op: &Operator| {
            let operators = &self.stages[op.stage].operators;
            let is_source = senders[op.stage].is_empty() && operators.first() == Some(&op.id);
            let is_sink = receivers[op.stage].is_empty() && operators.last() == Some(&op.id);
            is_source || is_sink
        };
        let own = |op: &usize| {
            let op = &self.operators[*op];
            hash_of(self.as_on_one_host(op), is_end(op))
        };
        let mut branches = vec![0; self.operators.len()];
        // Edges lead to stages that were added later.
        let mut at_end = vec![0; self.stages.len()];
        for stage in &self.stages {
            let mut before = in_order(senders[stage.id].iter().map(|from| at_end[*from]));
            for op in &stage.operators {
                branches[*op] = mix(before, hash_bytes(self.operators[*op].kind.as_bytes()));
                before = own(op).map_or(before, |own| mix(before, own));
            }
            at_end[stage.id] = before;
        }
        let mut at_begin = vec![0; self.stages.len()];
        for stage in self.stages.iter().rev() {
            let mut behind = in_any_order(receivers[stage.id].iter().map(|to| at_begin[*to]));
            for op in stage.operators.iter().rev() {
                behind = own(op).map_or(behind, |own| mix(behind, own));
                branches[*op] = mix(branches[*op], behind ^ BEHIND);
            }
            at_begin[stage.id] = behind;
        }
        branches
    }

    /// The operator that a job on one host has in the place of this one. On several, the records of some sinks are broadcast to
    /// the tasks of all hosts, in which the sink is then.
    fn as_on_one_host<'p>(&'p self, op: &'p Operator) -> &'p Operator {
        let is_last = self.stages[op.stage].operators.last() == Some(&op.id);
        if op.kind != "broadcast" || !is_last {
            return op;
        }
        let mut behind = self.edges.iter().filter(|edge| edge.from == op.stage);
        let to_hosts = behind.find(|edge| self.stages[edge.to].placement == Placement::EachHost);
        let sink = to_hosts.and_then(|edge| self.stages[edge.to].operators.last());
        sink.map_or(op, |sink| &self.operators[*sink])
    }
}

/// A hash of an operator, if it counts in a branch.
fn hash_of(op: &Operator, is_end: bool) -> Option<u64> {
    let mut details = op.details.clone();
    details.retain(|detail| !IGNORED.contains(&&*detail.name));
    let details = details.to_string();
    let counts = is_end || op.remembers() || op.name != op.kind || !details.is_empty();
    let state = op.state.as_ref().map(|state| state.schema.to_string());
    let all = [&*op.kind, &*op.name, &*details, state.as_deref().unwrap_or_default()];
    counts.then(|| hash_bytes(all.join("\0").as_bytes()))
}

/// What is merged.
fn in_order(mut branches: impl Iterator<Item = u64>) -> u64 {
    let first = branches.next().unwrap_or_default();
    branches.fold(first, mix)
}

/// What several outputs lead to: they may be described in any order.
fn in_any_order(branches: impl ExactSizeIterator<Item = u64>) -> u64 {
    match branches.len() {
        1 => branches.sum(),
        several => branches.fold(several as u64, |sum, one| sum.wrapping_add(mix(one, BEHIND))),
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::check::every;
    use crate::plan::Plan;
    use std::collections::BTreeSet;

    type Add = fn(&Environment);

    fn plan(all: &[Add]) -> Plan {
        let env = Environment::new();
        all.iter().for_each(|add| add(&env));
        env.plan()
    }

    fn branches(all: &[Add]) -> Vec<u64> {
        plan(all).branches()
    }

    /// Those of operators of a kind.
    fn of_kind(kind: &str, plan: &Plan) -> Vec<u64> {
        let of_kind = plan.operators.iter().filter(|op| op.kind == kind).map(|op| op.id);
        let branches = plan.branches();
        of_kind.map(|id| branches[id]).collect()
    }

    const ONE: Add = |env| env.range(0..9).unique().for_each(drop);

    #[test]
    fn a_branch_is_the_same_wherever_others_are_described() {
        let others: [Add; 4] = [
            |env| env.range(0..5).unique().for_each(drop),
            |env| env.range(0..9).unique().sink_name("other").for_each(drop),
            |env| env.range(0..9).unique().limit(3).for_each(drop),
            |env| env.range(0..9).unique().map(|n| n.to_string()).write_lines("others.txt"),
        ];
        let one = branches(&[ONE]);
        for (at, other) in others.into_iter().enumerate() {
            assert!(branches(&[ONE, other]).starts_with(&one), "{at}");
            let both = branches(&[other, ONE]);
            let other = both.strip_suffix(&*one).unwrap_or_else(|| panic!("{at}"));
            assert!(other.iter().all(|branch| !one.contains(branch)), "{at}");
        }
        assert_eq!(branches(&[ONE, ONE]), [&*one, &*one].concat(), "twins");
    }

    #[test]
    fn operators_that_remember_nothing_and_other_outputs_change_no_branch() {
        let mapped: Add = |env| {
            let numbers = env.range(0..9).map(|n| n + 1).shuffle().unique();
            numbers.filter(|n| n % 2 == 0).shuffle().for_each(drop);
        };
        let split: Add = |env| {
            let [other, one] = env.range(0..9).split();
            other.unique().sink_name("other").for_each(drop);
            one.unique().for_each(drop);
        };
        let random: Add = |env| env.range(0..9).random(7).unique().for_each(drop);
        let one = of_kind("unique", &plan(&[ONE]));
        assert_eq!(of_kind("unique", &plan(&[mapped])), one);
        assert_eq!(of_kind("unique", &plan(&[split]))[1..], one);
        assert_ne!(of_kind("unique", &plan(&[random])), one, "it has a seed");
        let source = |add: Add| of_kind("range", &plan(&[add]));
        assert_ne!(source(split), source(ONE), "it has two sinks");
    }

    #[test]
    fn numbers_of_tasks_and_hosts_change_no_branch() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers.txt");
        let of = |env: &Environment| {
            let unique = || env.range(0..9).unique();
            let numbers = unique().collect::<Vec<_>>();
            let count = unique().count().collect_one();
            drop(unique().to_channel());
            drop(unique().sink_name("channel").to_channel());
            unique().sink_name("file").write_lines(&path);
            let rounds = unique().replay(2, 0_u64, |numbers, _| numbers.map(|n| *n));
            let rounds = rounds.fold(|sum: &mut u64, n| *sum += n, |sum, other| *sum += other);
            rounds.all_rounds(|total, sum| *total += sum).sink_name("rounds").for_each(drop);
            let plan = env.plan();
            let kinds = ["range", "unique", "collect", "collect_one", "write_lines", "replay"];
            (kinds.map(|kind| (kind, of_kind(kind, &plan))), numbers, count)
        };
        let (expected, ..) = of(&Environment::new());
        assert_eq!(expected[1].1.iter().collect::<BTreeSet<_>>().len(), 6, "{expected:?}");
        every(|env| {
            let (found, numbers, count) = of(env);
            env.run()?;
            assert_eq!((numbers.take()?.len(), count.take()?), (9, Some(9)));
            assert_eq!(found, expected);
            Ok(())
        });
    }
}
