//! Which states of a checkpoint operators without names take.
//!
//! Their ids are kinds with numbers, which depend on what other branches the program has, and in which order. So a checkpoint has
//! a hash of each operator's branch: of what is before and behind it, as far as the plan says. A job that goes on finds each
//! branch that the checkpoint and the program have equally often, and its operators keep the ids that they had, in later
//! checkpoints too. Twins, which are alike in all of that, are paired in their order.
//!
//! All others, as where a branch has changed, are found by their numbers: an operator has the id of the one to which the last run
//! gave the same number. That is not the number in the id, once ids were kept. It is no answer where that operator's branch is
//! in the program too: then the operator is new, and a job that lacks its state is refused.

use super::Checkpoints;
use crate::data::Data;
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

/// What a checkpoint has of an operator, beside its id.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub(crate) struct SavedBranch {
    /// The hash of its branch.
    pub(super) branch: u64,
    /// The id that it would have had where no checkpoint said otherwise.
    pub(super) derived: String,
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

    /// Those of operators in a job that goes on from a checkpoint that has these, by id.
    fn find(operators: &[Described<'_>], saved: &BTreeMap<String, SavedBranch>) -> Self {
        let found = by_branch(operators, saved);
        let of_program: BTreeSet<u64> = operators.iter().map(|op| op.branch).collect();
        let by_number: BTreeMap<&str, (&String, u64)> =
            saved.iter().map(|(id, of)| (&*of.derived, (id, of.branch))).collect();
        // What the last run described in its place, unless that is a branch which the program has elsewhere.
        let in_place_of = |op: &Described<'_>| match by_number.get(&*op.id) {
            Some((id, branch)) => {
                let may_be_its = *branch == op.branch || !of_program.contains(branch);
                may_be_its.then(|| (*id).clone())
            }
            None => (!saved.contains_key(&op.id)).then(|| op.id.clone()),
        };
        let mut taken: BTreeSet<String> = saved.keys().cloned().collect();
        taken.extend(operators.iter().map(|op| op.id.clone()));
        let is_found = found.iter().map(Option::is_some).collect();
        let id = |(op, found): (&Described<'_>, Option<String>)| {
            if op.kind.is_none() {
                return op.id.clone();
            }
            found.or_else(|| in_place_of(op)).unwrap_or_else(|| {
                // Another operator has had it.
                let mut others = (2_u64..).map(|nth| format!("{}-{nth}", op.id));
                let id = others.find(|id| !taken.contains(id)).unwrap_or_default();
                taken.insert(id.clone());
                id
            })
        };
        let ids = operators.iter().zip(found).map(id).collect();
        Self { ids, is_found }
    }

    /// The operators that go on with what the checkpoint has under another id than theirs, each in a line.
    fn moved(
        &self,
        operators: &[Described<'_>],
        saved: &BTreeMap<String, SavedBranch>,
    ) -> Vec<String> {
        let line = |((op, id), is_found): ((&Described<'_>, &String), &bool)| {
            let by = if *is_found { "branch" } else { "number in the last run" };
            let is_moved = *id != op.id && saved.contains_key(id);
            is_moved.then(|| format!("`{}` goes on as `{id}`, found by its {by}", op.id))
        };
        operators.iter().zip(&self.ids).zip(&self.is_found).filter_map(line).collect()
    }
}

/// Of each operator without a name the id that its branch has in a checkpoint, if both have the branch equally often. Those of
/// twins are paired in the order in which they were described.
fn by_branch(
    operators: &[Described<'_>],
    saved: &BTreeMap<String, SavedBranch>,
) -> Vec<Option<String>> {
    let mut saved_in = BTreeMap::<u64, Vec<(&String, &String)>>::new();
    for (id, SavedBranch { branch, derived }) in saved {
        saved_in.entry(*branch).or_default().push((derived, id));
    }
    let mut alike = BTreeMap::<u64, Vec<usize>>::new();
    for (at, op) in operators.iter().enumerate() {
        alike.entry(op.branch).or_default().push(at);
    }
    let mut found = vec![None; operators.len()];
    for (branch, mut twins) in alike {
        let Some(ids) = saved_in.get_mut(&branch).filter(|ids| ids.len() == twins.len()) else {
            continue;
        };
        ids.sort_by_cached_key(|(derived, _)| numbers_of(derived));
        twins.sort_by_cached_key(|at| numbers_of(&operators[*at].id));
        for (at, (_, id)) in twins.into_iter().zip(ids) {
            let is_numbered = |kind: &str| id.strip_prefix(kind).is_some_and(is_number);
            if operators[at].kind.is_some_and(is_numbered) {
                found[at] = Some((*id).clone());
            }
        }
    }
    found
}

/// The numbers at the end of an id: `count-0-10` comes behind `count-0-9`.
fn numbers_of(id: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> = id.rsplit('-').map_while(|number| number.parse().ok()).collect();
    numbers.reverse();
    numbers
}

impl Checkpoints {
    /// Finds the ids of a plan's operators. Called before their tasks are made.
    pub(crate) fn identify(&self, operators: &[Described<'_>]) -> OperatorIds {
        let branches =
            operators.iter().map(|op| SavedBranch { branch: op.branch, derived: op.id.clone() });
        *lock(&self.branches) = branches.collect();
        let restored = lock(&self.restored);
        let Some(snapshot) = &*restored else {
            return OperatorIds::find(operators, &BTreeMap::new());
        };
        let ids = OperatorIds::find(operators, snapshot.branches());
        *lock(&self.moved) = ids.moved(operators, snapshot.branches());
        ids
    }

    /// The operators that go on under other ids than their own, each in a line.
    pub(crate) fn moved(&self) -> Vec<String> {
        lock(&self.moved).clone()
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
        let saved: Vec<_> = saved.iter().map(|(id, branch)| (*id, *branch, *id)).collect();
        found_again(operators, &saved)
    }

    /// The same where operators of the checkpoint have kept their ids, and would have had others.
    fn found_again(operators: &[(&str, u64)], saved: &[(&str, u64, &str)]) -> Vec<String> {
        let described = |(id, branch): &(&str, u64)| {
            let kind = Some("count").filter(|kind| id.starts_with(kind));
            Described { id: (*id).to_owned(), kind, branch: *branch }
        };
        let described: Vec<_> = operators.iter().map(described).collect();
        let of = |(id, branch, derived): &(&str, u64, &str)| {
            ((*id).to_owned(), SavedBranch { branch: *branch, derived: (*derived).to_owned() })
        };
        OperatorIds::find(&described, &saved.iter().map(of).collect()).ids
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

    #[test]
    fn twins_are_paired_in_their_order() {
        let saved = [("count-0", 7), ("count-0-2", 7), ("count-0-9", 8), ("count-0-10", 8)];
        let swapped = [("count-0", 8), ("count-0-2", 8), ("count-0-3", 7), ("count-0-4", 7)];
        let expected = ["count-0-9", "count-0-10", "count-0", "count-0-2"];
        assert_eq!(found(&swapped, &saved), expected);
        assert_eq!(found(&swapped[..2], &saved), expected[..2], "the others are gone");
    }

    #[test]
    fn a_number_is_not_taken_from_a_branch_that_is_elsewhere() {
        // Of one kind of twins there are more than before, so that they are not paired.
        let saved = [("count-0", 7), ("count-0-2", 7), ("count-0-3", 8)];
        let more = [("count-0", 8), ("count-0-2", 8), ("count-0-3", 7), ("count-0-4", 7)];
        let expected = ["count-0-5", "count-0-2-2", "count-0", "count-0-2"];
        assert_eq!(found(&more, &saved), expected);
        // Nor where these are not paired either.
        let more = [("count-0", 8), ("count-0-2", 7)];
        assert_eq!(found(&more, &saved[..2]), ["count-0-3", "count-0-2"]);
    }

    #[test]
    fn numbers_are_those_of_the_last_run() {
        let swapped = [("count-0", 7, "count-0-2"), ("count-0-2", 8, "count-0")];
        let changed = [("count-0", 3), ("count-0-2", 4)];
        assert_eq!(found_again(&changed, &swapped), ["count-0-2", "count-0"]);
        let first_is_gone = [("count-0-2", 8, "count-0")];
        assert_eq!(found_again(&changed[..1], &first_is_gone), ["count-0-2"]);
        // What is new beside it has not been there under another id.
        assert_eq!(found_again(&changed, &first_is_gone), ["count-0-2", "count-0-2-2"]);
    }

    #[test]
    fn what_goes_on_under_another_id_is_said() {
        let op = |id: &str, branch| Described { id: id.to_owned(), kind: Some("count"), branch };
        let saved = |(id, branch, derived): (&str, u64, &str)| {
            (id.to_owned(), SavedBranch { branch, derived: derived.to_owned() })
        };
        let operators = [("count-0", 8), ("count-0-2", 3), ("count-0-3", 9), ("count-0-4", 1)];
        let operators = operators.map(|(id, branch)| op(id, branch));
        let [first, second] = [("count-0", 6, "count-0-2"), ("count-0-2", 8, "count-0")];
        let entries = [first, second, ("count-0-3", 9, "count-0-3")];
        let saved: BTreeMap<_, _> = entries.map(saved).into();
        assert_eq!(
            OperatorIds::find(&operators, &saved).moved(&operators, &saved),
            [
                "`count-0` goes on as `count-0-2`, found by its branch",
                "`count-0-2` goes on as `count-0`, found by its number in the last run",
            ]
        );
    }
}
