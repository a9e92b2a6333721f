//! What an operator of the table builds its job from, and what its streams end in.

use crate::records::{Bomb, Record, spring};
use std::cell::RefCell;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;
use thalweg::operators::time::Watermarks;
use thalweg::time::{Time, Timestamp};
use thalweg::{Boxed, Chain, Environment, Result, Stream};

/// The stream that an operator gets. Boxed, so that each operator is compiled for one chain.
pub(crate) type Records = Stream<Boxed<Record>>;

/// An operator with what is needed to run it: a line of the table.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    /// Whether the result is the same on any number of tasks and in any order.
    pub(crate) exact: bool,
    pub(crate) build: fn(&Job<'_>, Records),
}

/// Lines of the table: a name, `exact` or `loose`, and what is built of a job and a stream.
macro_rules! operators {
    ($($name:literal $how:ident |$job:ident, $records:ident| $build:expr;)*) => {
        pub(crate) const OPERATORS: &[crate::job::Operator] = &[$(crate::job::Operator {
            name: $name,
            exact: crate::job::is_exact(stringify!($how)),
            build: |$job, $records| {
                let _ = $build;
            },
        }),*];
    };
}
pub(crate) use operators;

pub(crate) const fn is_exact(how: &str) -> bool {
    match how.as_bytes() {
        b"exact" => true,
        b"loose" => false,
        _ => panic!("an operator is `exact` or `loose`"),
    }
}

/// What the streams of a job end in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    Collect,
    /// A collection that panics while it is built.
    PanickingCollection,
    /// A channel whose reader is gone at the start.
    DroppedReceiver,
}

/// What is known of a job's result when it is over: the sum of the digests of all its records.
type End = Box<dyn FnOnce() -> Result<u64> + Send>;

pub(crate) struct Job<'a> {
    pub(crate) env: &'a Environment,
    /// A folder of its own.
    pub(crate) dir: &'a Path,
    /// The size of windows, gaps and intervals.
    pub(crate) span: Duration,
    pub(crate) sink: Sink,
    /// Makes another stream of the same records.
    pub(crate) source: &'a dyn Fn(&Environment) -> Records,
    pub(crate) ends: RefCell<Vec<End>>,
}

impl Job<'_> {
    /// Another stream of the same records.
    pub(crate) fn records(&self) -> Records {
        (self.source)(self.env)
    }

    /// Ends a stream in the job's sink.
    pub(crate) fn end<R: Debug + 'static, C: Chain<Item = R>>(&self, stream: Stream<C>) {
        self.finish(stream.map(|record: R| digest(&record)).boxed());
    }

    fn finish<T: Time>(&self, digests: Stream<Boxed<u64, T>>) {
        let end: End = match self.sink {
            Sink::Collect => {
                let all = digests.collect::<Vec<u64>>();
                Box::new(move || Ok(all.take()?.into_iter().fold(0, u64::wrapping_add)))
            }
            Sink::PanickingCollection => {
                let all = digests.collect::<Panicking>();
                Box::new(move || all.take().map(|_| 0))
            }
            Sink::DroppedReceiver => {
                drop(digests.to_channel());
                Box::new(|| Ok(0))
            }
        };
        self.ends.borrow_mut().push(end);
    }
}

/// The records with their times, in order where their times are.
pub(crate) fn timed(records: Records) -> Stream<Boxed<Record, Timestamp>> {
    let find = |record: &Record| Timestamp::from_micros(record.at);
    records.assign_timestamps(find, Watermarks::bounded_disorder(Duration::from_secs(1))).boxed()
}

fn digest(record: &impl Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{record:?}").hash(&mut hasher);
    hasher.finish()
}

/// A collection that cannot be built.
struct Panicking;

impl FromIterator<u64> for Panicking {
    fn from_iter<I: IntoIterator<Item = u64>>(all: I) -> Self {
        let taken = all.into_iter().take(3).count();
        if taken > 0 {
            spring("collection");
        }
        Self
    }
}

/// An iterator that lies about how much is left, or panics, in one of its methods.
pub(crate) struct Hostile<I> {
    pub(crate) records: I,
    pub(crate) hint: Option<(usize, Option<usize>)>,
    /// Records before `next` panics.
    pub(crate) left: usize,
    pub(crate) _bomb: Option<Bomb>,
}

impl<I: Iterator> Iterator for Hostile<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => spring("next"),
        }
        self.records.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.hint.unwrap_or_else(|| self.records.size_hint())
    }
}
