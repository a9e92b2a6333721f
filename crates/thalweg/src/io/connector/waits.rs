//! What a task waits for while none of its splits has anything. Only then is anything counted here: not while records flow.

use super::source::SplitReader;
use crate::clock::{Clock, Nanos};
use crate::metrics::{SplitWait, TaskWaits, longest};
use std::time::Duration;

/// What a task has waited for.
pub(super) struct Waits {
    clock: Clock,
    /// Since when it waits, and for what.
    current: Option<(Nanos, Reason)>,
    fetching: Nanos,
    nothing_new: Nanos,
    /// Whether a reader has known its backlog.
    is_known: bool,
    /// Splits that were read to their end and were waited for.
    ended: Vec<SplitWait>,
    more_ended: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// There are records that were not fetched.
    Fetching,
    /// All that is there was read.
    NothingNew,
    /// The readers do not know.
    Unknown,
}

/// What is known of the records of one split that are not read yet.
#[derive(Default)]
pub(super) struct SplitWaits {
    /// When its reader last had nothing.
    backlog: Option<u64>,
    /// Whether the task waits for it.
    is_awaited: bool,
    fetching: Nanos,
    most_behind: u64,
}

impl SplitWaits {
    /// Its reader has nothing for now.
    pub(super) fn nothing(&mut self, reader: &impl SplitReader) {
        self.backlog = reader.backlog();
    }

    fn count(&mut self, waited: Nanos) {
        if self.is_awaited {
            self.is_awaited = false;
            self.fetching += waited;
            self.most_behind = self.most_behind.max(self.backlog.unwrap_or(0));
        }
    }
}

impl Waits {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            current: None,
            fetching: 0,
            nothing_new: 0,
            is_known: false,
            ended: Vec::new(),
            more_ended: 0,
        }
    }

    /// The task begins to wait for these splits.
    pub(super) fn begin<'a>(
        &mut self,
        now: Nanos,
        splits: impl Iterator<Item = &'a mut SplitWaits>,
    ) {
        let mut reason = None;
        for split in splits {
            split.is_awaited = split.backlog.is_some_and(|backlog| backlog > 0);
            self.is_known |= split.backlog.is_some();
            let of_split = match split.backlog {
                Some(0) => Reason::NothingNew,
                Some(_) => Reason::Fetching,
                None => Reason::Unknown,
            };
            reason = Some(match reason.unwrap_or(of_split) {
                Reason::Fetching => Reason::Fetching,
                _ if of_split == Reason::Fetching => Reason::Fetching,
                reason if reason == of_split => reason,
                _ => Reason::Unknown,
            });
        }
        self.current = reason.map(|reason| (now, reason));
    }

    /// The task looks again. Its splits are those of the beginning.
    #[inline]
    pub(super) fn end<'a>(&mut self, now: Nanos, splits: impl Iterator<Item = &'a mut SplitWaits>) {
        if let Some((since, reason)) = self.current.take() {
            let waited = now.saturating_sub(since);
            match reason {
                Reason::Fetching => {
                    self.fetching += waited;
                    splits.for_each(|split| split.count(waited));
                }
                Reason::NothingNew => self.nothing_new += waited,
                Reason::Unknown => {}
            }
        }
    }

    /// The task does not wait any more, and will not read again.
    pub(super) fn end_now<'a>(&mut self, splits: impl Iterator<Item = &'a mut SplitWaits>) {
        self.end(self.clock.now(), splits);
    }

    /// A split was read to its end.
    pub(super) fn ended(&mut self, split: &impl ToString, waits: &SplitWaits) {
        self.is_known |= waits.backlog.is_some();
        if waits.fetching > 0 {
            let fetching = Duration::from_nanos(waits.fetching);
            self.ended.push(SplitWait::new(split.to_string(), fetching, waits.most_behind));
            self.more_ended += longest(&mut self.ended);
        }
    }

    /// What the task has waited for so far, if its readers know.
    pub(super) fn report<'a, P: ToString + 'a, R: SplitReader>(
        &self,
        splits: impl Iterator<Item = (&'a P, &'a R, &'a SplitWaits)>,
    ) -> Option<TaskWaits> {
        let (mut fetching, mut nothing_new) = (self.fetching, self.nothing_new);
        let mut current = 0;
        if let Some((since, reason)) = self.current {
            let waited = self.clock.now().saturating_sub(since);
            match reason {
                Reason::Fetching => (fetching, current) = (fetching + waited, waited),
                Reason::NothingNew => nothing_new += waited,
                Reason::Unknown => {}
            }
        }
        let (mut backlog, mut is_known) = (0, self.is_known);
        let mut all = self.ended.clone();
        for (split, reader, waits) in splits {
            let behind = reader.backlog();
            is_known |= behind.is_some();
            backlog += behind.unwrap_or(0);
            let mut waits = SplitWaits { ..*waits };
            waits.count(current);
            if waits.fetching > 0 {
                let fetching = Duration::from_nanos(waits.fetching);
                all.push(SplitWait::new(split.to_string(), fetching, waits.most_behind));
            }
        }
        let more_splits = self.more_ended + longest(&mut all);
        is_known.then(|| TaskWaits {
            fetching: Duration::from_nanos(fetching),
            nothing_new: Duration::from_nanos(nothing_new),
            backlog,
            splits: all,
            more_splits,
        })
    }
}
