//! Which states of a checkpoint operators without names take.
//!
//! Their ids are kinds with numbers, which depend on what other branches the program has, and in which order. So a checkpoint has
//! a hash of each operator's branch: of what is before and behind it, as far as the plan says. A job that goes on finds each
//! branch of which both the checkpoint and the program have one, and its operators keep the ids that they had, in later
//! checkpoints too. All others are found by their ids: twins, which are alike in all of that, and branches that have changed.

use super::Checkpoints;
use crate::sync::lock;
use std::collections::{BTreeMap, BTreeSet};

/// An operator of a plan.
pub(crate) struct Described<'p> {
    /// Its id, where no checkpoint says otherwise.
    pub(crate) id: String,
    /// Its kind, if the id has a number in place of a name.
    pub(crate) kind: Option<&'p str>,
    /// A hash of its branch.
    pub(crate) branch: u64,
}

/// The ids of a plan's operators in checkpoints.
#[derive(Default)]
pub(crate) struct OperatorIds {
    ids: Vec<String>,
    /// Whether the operator is known to have had this id, though it has no name.
    is_found: Vec<bool>,
}

impl OperatorIds {
    /// The id of an operator, by its number in the plan.
    pub(crate) fn of(&self, op: usize) -> &str {
        self.ids.get(op).map_or("", String::as_str)
    }

    /// Whether an operator without a name has been found by its branch.
    pub(crate) fn is_found(&self, op: usize) -> bool {
        self.is_found.get(op).is_some_and(|is_found| *is_found)
    }

    /// Those of operators in a job that goes on from a checkpoint in which operators have these branches, by id.
    fn find(operators: &[Described<'_>], saved: &BTreeMap<String, u64>) -> Self {
        let mut saved_in = BTreeMap::<u64, Vec<&String>>::new();
        for (id, branch) in saved {
            saved_in.entry(*branch).or_default().push(id);
        }
        let mut alike = BTreeMap::<u64, usize>::new();
        for op in operators {
            *alike.entry(op.branch).or_default() += 1;
        }
        let found = |op: &Described<'_>| match saved_in.get(&op.branch).map(Vec::as_slice) {
            Some([id]) if alike.get(&op.branch) == Some(&1) => {
                let is_numbered = id.strip_prefix(op.kind?).is_some_and(is_number);
                is_numbered.then(|| (*id).clone())
            }
            _ => None,
        };
        let found: Vec<Option<String>> = operators.iter().map(found).collect();
        let mut taken: BTreeSet<&str> = found.iter().flatten().map(String::as_str).collect();
        let lost = |(op, found): &(&Described<'_>, &Option<String>)| {
            op.kind.is_some() && found.is_none() && taken.contains(&*op.id)
        };
        let lost: Vec<bool> = operators.iter().zip(&found).map(|pair| lost(&pair)).collect();
        taken.extend(operators.iter().map(|op| &*op.id).chain(saved.keys().map(String::as_str)));
        let mut taken: BTreeSet<String> = taken.into_iter().map(str::to_owned).collect();
        let is_found = found.iter().map(Option::is_some).collect();
        let id = |((op, found), is_lost): ((&Described<'_>, Option<String>), bool)| match found {
            Some(id) => id,
            // Another operator has had it.
            None if is_lost => {
                let mut others = (2_u64..).map(|nth| format!("{}-{nth}", op.id));
                let id = others.find(|id| !taken.contains(id)).unwrap_or_default();
                taken.insert(id.clone());
                id
            }
            None => op.id.clone(),
        };
        let ids = operators.iter().zip(found).zip(lost).map(id).collect();
        Self { ids, is_found }
    }
}

impl Checkpoints {
    /// Finds the ids of a plan's operators. Called before their tasks are made.
    pub(crate) fn identify(&self, operators: &[Described<'_>]) -> OperatorIds {
        *lock(&self.branches) = operators.iter().map(|op| op.branch).collect();
        let restored = lock(&self.restored);
        match &*restored {
            Some(snapshot) => OperatorIds::find(operators, snapshot.branches()),
            None => OperatorIds::find(operators, &BTreeMap::new()),
        }
    }
}

/// Whether this follows a kind in the id of an operator without a name, as in `count-0` and its twin `count-0-2`.
pub(super) fn is_number(rest: &str) -> bool {
    rest.starts_with('-') && rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids of operators, each of which has an id and a branch.
    fn found(operators: &[(&str, u64)], saved: &[(&str, u64)]) -> Vec<String> {
        let described = |(id, branch): &(&str, u64)| {
            let kind = Some("count").filter(|kind| id.starts_with(kind));
            Described { id: (*id).to_owned(), kind, branch: *branch }
        };
        let described: Vec<_> = operators.iter().map(described).collect();
        let saved = saved.iter().map(|(id, branch)| ((*id).to_owned(), *branch)).collect();
        OperatorIds::find(&described, &saved).ids
    }

    #[test]
    fn operators_keep_the_ids_of_their_branches() {
        let saved = [("count-0", 7), ("count-0-2", 8)];
        assert_eq!(found(&[("count-0", 8), ("count-0-2", 7)], &saved), ["count-0-2", "count-0"]);
        assert_eq!(found(&[("count-0", 8)], &saved), ["count-0-2"]);
        // One that is new gets an id that no other has or has had.
        let all = [("count-0", 9), ("count-0-2", 7), ("count-0-3", 8)];
        assert_eq!(found(&all, &saved), ["count-0-4", "count-0", "count-0-2"]);
    }

    #[test]
    fn all_others_are_found_by_their_ids() {
        let two = [("count-0", 7), ("count-0-2", 7)];
        assert_eq!(found(&two, &two), ["count-0", "count-0-2"], "twins");
        assert_eq!(found(&two, &two[1..]), ["count-0", "count-0-2"], "one of them is new");
        assert_eq!(found(&two[..1], &two), ["count-0"], "one of them is gone");
        assert_eq!(found(&two, &[]), ["count-0", "count-0-2"], "a checkpoint that says nothing");
        let changed = [("count-0", 3), ("count-0-2", 8)];
        assert_eq!(found(&changed, &[("count-0", 7), ("count-0-2", 8)]), ["count-0", "count-0-2"]);
        // Names are not given up, nor taken.
        assert_eq!(found(&[("totals", 7)], &[("count-0", 7)]), ["totals"]);
        assert_eq!(found(&[("count-0", 7)], &[("totals", 7)]), ["count-0"]);
    }
}
