//! What sources waited for while they had nothing to read: for records that are there to be fetched, or for new ones.

use super::show;
use super::stats::Spread;
use crate::data::Data;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::time::Duration;

/// The most splits that are listed.
const LISTED: usize = 8;
/// The most splits that are mentioned in text.
const NAMED: usize = 3;

/// What one task of a source has waited for.
#[derive(Clone, Debug, Default, PartialEq, Data)]
pub struct TaskWaits {
    pub(crate) fetching: Duration,
    pub(crate) nothing_new: Duration,
    /// Records that are known to be there and are not read yet.
    pub(crate) backlog: u64,
    /// The splits that it has waited for the longest.
    pub(crate) splits: Vec<SplitWait>,
    /// How many others there are.
    pub(crate) more_splits: usize,
}

/// What the tasks of a source waited for while they had nothing to read, as far as the source's
/// [readers](crate::connector::SplitReader::backlog) know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SourceWaits {
    /// Time in which a task had nothing to read although records were there: they had not been fetched yet. Over the tasks that
    /// read splits.
    pub fetching: Spread,
    /// Time in which a task had read all that was there in all of its splits.
    pub nothing_new: Spread,
    /// The number of records that are known to be there and are not read yet.
    pub backlog: u64,
    /// The splits whose records the tasks waited for, longest first; at most 8.
    pub splits: Vec<SplitWait>,
    /// The number of other splits whose records they waited for.
    pub more_splits: usize,
}

/// How long the task that reads a split had nothing to read, while records of this split were there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Data)]
#[non_exhaustive]
pub struct SplitWait {
    /// The split, as in messages: `orders/3`.
    pub split: String,
    /// How long. Several splits may be waited for at the same time.
    #[serde(with = "super::stats::seconds")]
    pub fetching: Duration,
    /// The most records that were there meanwhile and had not been fetched.
    pub most_behind: u64,
}

impl SplitWait {
    pub(crate) fn new(split: String, fetching: Duration, most_behind: u64) -> Self {
        Self { split, fetching, most_behind }
    }
}

/// Leaves the splits that were waited for the longest; returns how many there are besides.
pub(crate) fn longest(splits: &mut Vec<SplitWait>) -> usize {
    splits.retain(|split| !split.fetching.is_zero());
    splits.sort_by(|a, b| (Reverse(a.fetching), &a.split).cmp(&(Reverse(b.fetching), &b.split)));
    let more = splits.len().saturating_sub(LISTED);
    splits.truncate(LISTED);
    more
}

impl SourceWaits {
    /// Combines what the tasks of a source have waited for.
    pub(crate) fn of(tasks: &[TaskWaits]) -> Self {
        let mut splits: Vec<_> = tasks.iter().flat_map(|task| task.splits.clone()).collect();
        let more = longest(&mut splits);
        Self {
            fetching: Spread::over(tasks.iter().map(|task| task.fetching)),
            nothing_new: Spread::over(tasks.iter().map(|task| task.nothing_new)),
            backlog: tasks.iter().map(|task| task.backlog).sum(),
            splits,
            more_splits: more + tasks.iter().map(|task| task.more_splits).sum::<usize>(),
        }
    }

    /// The splits whose records were waited for, in words: `orders/1 (at most 8,000 records behind) and 4 more`.
    pub(super) fn fetched(&self) -> String {
        let name = |split: &SplitWait| {
            let (name, behind) = (&split.split, show::count(split.most_behind));
            let records = if split.most_behind == 1 { "record" } else { "records" };
            format!("{name} (at most {behind} {records} behind)")
        };
        let mut parts: Vec<_> = self.splits.iter().take(NAMED).map(name).collect();
        let more = self.splits.len().saturating_sub(NAMED) + self.more_splits;
        if more > 0 {
            parts.push(format!("{more} more"));
        }
        match parts.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => "its splits".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(name: &str, millis: u64, behind: u64) -> SplitWait {
        SplitWait::new(name.to_owned(), Duration::from_millis(millis), behind)
    }

    #[test]
    fn splits_of_all_tasks_are_named_longest_first() {
        let task = |millis, splits| TaskWaits {
            fetching: Duration::from_millis(millis),
            backlog: 7,
            splits,
            ..TaskWaits::default()
        };
        let tasks = [
            task(10, vec![split("orders/1", 10, 8000), split("orders/0", 0, 3)]),
            task(30, vec![split("orders/3", 30, 1)]),
        ];
        let waits = SourceWaits::of(&tasks);
        assert_eq!((waits.backlog, waits.splits.len(), waits.more_splits), (14, 2, 0));
        assert_eq!(waits.fetching.mean, Duration::from_millis(20));
        let said = "orders/3 (at most 1 record behind) and orders/1 (at most 8,000 records behind)";
        assert_eq!(waits.fetched(), said);
    }

    #[test]
    fn of_many_splits_a_few_are_named() {
        let mut splits = (1..=20).map(|n| split(&format!("a/{n}"), n, n)).collect::<Vec<_>>();
        let more_splits = longest(&mut splits);
        let waits = SourceWaits { splits, more_splits, ..SourceWaits::default() };
        assert_eq!((waits.splits.len(), waits.more_splits), (8, 12));
        let said = waits.fetched();
        assert!(said.starts_with("a/20 (at most 20 records behind), a/19 "), "{said}");
        assert!(said.ends_with(" and 17 more"), "{said}");
    }
}
