//! The source that reads a cache.

use super::{Cached, Parts};
use crate::clock::Nanos;
use crate::data::Data;
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{KEY_GROUPS, owner};
use crate::flow::{CHUNK, Push};
use crate::metrics::Total;
use crate::operators::loops::ByRef;
use crate::plan::TaskContext;
use crate::stream::{Produced, Source, SourceFactory};
use crate::support::replay_buffer::Cursor;
use crate::time::Time;
use std::ops::Range;

/// The records that a task reads.
pub(super) enum Share<D> {
    /// The part of the task with the same number.
    Part,
    /// The records of all parts whose keys the task owns; the function returns the key's hash.
    Owned(fn(&D) -> u64),
}

impl<D> Clone for Share<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Share<D> {}

/// Makes the sources that read a cache.
pub struct Reads<D: Data, T: Time> {
    pub(super) cached: Cached<D, T>,
    pub(super) share: Share<D>,
}

impl<D: Data + Sync, T: Time> SourceFactory for Reads<D, T> {
    type Source = Read<D, T>;

    fn open(&self, cx: &TaskContext<'_>) -> Result<Read<D, T>> {
        let Parts { parts, len } = self.cached.parts()?;
        let which = match self.share {
            Share::Part => cx.task..cx.task + 1,
            Share::Owned(_) => near(cx.task, cx.tasks, parts.len()),
        };
        if parts.get(which.clone()).is_none_or(|own| own.iter().any(Option::is_none)) {
            let what = "records of the cache are on another host: what several hosts have filled is read on the same \
                        hosts, with as many tasks";
            return Err(Error::new(ErrorKind::Plan, what));
        }
        Ok(Read {
            cached: self.cached.clone(),
            share: self.share,
            task: (cx.task, cx.tasks),
            left: which,
            cursor: Cursor::start(),
            count: 0,
            // All tasks together read all records.
            total: if cx.task == 0 { *len } else { 0 },
        })
    }
}

/// The key groups that a task owns, of `tasks`.
fn groups(task: usize, tasks: usize) -> Range<u64> {
    let from = |task: usize| (task as u64 * KEY_GROUPS).div_ceil(tasks as u64);
    from(task)..from(task + 1)
}

/// The parts, of `parts`, that may have key groups of this task.
fn near(task: usize, tasks: usize, parts: usize) -> Range<usize> {
    let own = groups(task, tasks);
    let meets = |part: &usize| {
        let its = groups(*part, parts);
        its.start < own.end && own.start < its.end
    };
    let mut which = (0..parts).filter(meets);
    let first = which.next().unwrap_or(0);
    first..which.next_back().unwrap_or(first) + 1
}

/// One task's share of a cache.
pub struct Read<D: Data, T: Time> {
    cached: Cached<D, T>,
    share: Share<D>,
    /// The task's number, and the number of tasks.
    task: (usize, usize),
    /// The parts that are not read yet; the first of them is being read.
    left: Range<usize>,
    cursor: Cursor<D, T>,
    count: u64,
    total: u64,
}

impl<D: Data + Sync, T: Time> Source for Read<D, T> {
    type Item = ByRef<D>;
    type Time = T;

    fn produce<N: Push<ByRef<D>, T>>(&mut self, _: Nanos, next: &mut N) -> Result<Produced> {
        let Self { cached, share, task: (task, tasks), left, cursor, count, .. } = self;
        let part = cached.parts()?.parts.get(left.start).filter(|_| left.start < left.end);
        let Some(Some(part)) = part else { return Ok(Produced::End) };
        let any = match share {
            Share::Part => cursor.show(part, CHUNK, |record, time| {
                *count += 1;
                next.push(record, time);
            }),
            Share::Owned(hash) => cursor.show(part, CHUNK, |record, time| {
                if owner(hash(record), *tasks) == *task {
                    *count += 1;
                    next.push(record, time);
                }
            }),
        }?;
        if !any {
            left.start += 1;
            *cursor = Cursor::start();
        }
        Ok(Produced::Some)
    }

    fn records(&self) -> u64 {
        self.count
    }

    fn total(&self) -> Option<Total> {
        Some(Total::Records(self.total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_reads_the_parts_that_have_its_groups_and_no_others() {
        for tasks in [1, 2, 3, 7, 64] {
            for parts in [1, 2, 5, 7, 48] {
                for group in (0..KEY_GROUPS).step_by(13).chain([KEY_GROUPS - 1]) {
                    let (of, at) = (owner(group << 49, tasks), owner(group << 49, parts));
                    assert!(groups(of, tasks).contains(&group));
                    assert!(near(of, tasks, parts).contains(&at), "{tasks} {parts} {group}");
                }
                let reads: usize = (0..tasks).map(|task| near(task, tasks, parts).len()).sum();
                assert!(reads < tasks + parts, "{tasks} {parts}");
            }
        }
    }
}
