//! Splits that are being opened. Sources may have to ask other machines for that, so it is done on a thread, which ends when the
//! task's splits are open; under a simulated clock, where nothing blocks, the task does it itself.

use super::source::{SplitContext, SplitSource, SplitWaker};
use super::waits::SplitWaits;
use crate::clock::Nanos;
use crate::error::{Error, Place, Result};
use crate::flow::{Op, WeakWaker, catch};
use crate::sync::spawn;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// A split of a task, with its reader.
pub(super) struct OpenSplit<S: SplitSource> {
    pub(super) number: u64,
    pub(super) split: S::Split,
    pub(super) reader: S::Reader,
    pub(super) waker: SplitWaker,
    /// When the reader is to be called again in any case.
    pub(super) again: Option<Nanos>,
    /// How often the reader was called, in this run of the job and before.
    pub(super) reads: u64,
    pub(super) waits: SplitWaits,
}

/// A split that is to be opened.
pub(super) struct Unopened<S: SplitSource> {
    pub(super) number: u64,
    pub(super) split: S::Split,
    pub(super) from: Option<S::Position>,
    pub(super) reads: u64,
    pub(super) context: SplitContext,
}

impl<S: SplitSource> Unopened<S> {
    /// Whether the source itself decides where it begins, each time anew until a checkpoint has its position.
    fn is_undecided(&self) -> bool {
        self.from.is_none() && !self.context.is_new()
    }

    fn open(self, source: &S) -> Result<OpenSplit<S>> {
        let Self { number, split, from, reads, context } = self;
        let waker = context.waker();
        let opened = source.open(&split, from, &context);
        let reader = opened.map_err(|error| place(error, &split))?;
        let waits = SplitWaits::default();
        Ok(OpenSplit { number, split, reader, waker, again: None, reads, waits })
    }
}

/// The splits that a task has got and that are not open yet.
pub(super) struct Opening<S: SplitSource> {
    /// Each opens the splits that the task got at a time. Whether one of them is [undecided](Unopened::is_undecided) is that of all.
    threads: VecDeque<Thread<S>>,
}

struct Thread<S: SplitSource> {
    left: usize,
    is_undecided: bool,
    opened: Receiver<Result<OpenSplit<S>>>,
}

impl<S: SplitSource> Opening<S> {
    pub(super) fn new() -> Self {
        Self { threads: VecDeque::new() }
    }

    /// Opens splits in their order, on a thread that wakes the task after each.
    pub(super) fn begin(
        &mut self,
        source: &Arc<S>,
        splits: Vec<Unopened<S>>,
        op: &Op,
        task: WeakWaker,
    ) -> Result<()> {
        let (left, is_undecided) = (splits.len(), splits.iter().any(Unopened::is_undecided));
        let (opens, opened) = channel();
        let source = Arc::clone(source);
        let open = move || {
            for split in splits {
                let result = catch(|| split.open(&source)).and_then(|opened| opened);
                let is_over = opens.send(result).is_err();
                task.wake();
                if is_over {
                    return;
                }
            }
        };
        spawn(format!("{}-splits", op.name()), open)?;
        self.threads.push_back(Thread { left, is_undecided, opened });
        Ok(())
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Whether it is not known yet where all splits begin.
    pub(super) fn is_undecided(&self) -> bool {
        self.threads.iter().any(|thread| thread.is_undecided)
    }

    /// The next split that has been opened.
    pub(super) fn next(&mut self) -> Result<Option<OpenSplit<S>>> {
        for at in 0..self.threads.len() {
            let thread = &mut self.threads[at];
            match thread.opened.try_recv() {
                Ok(opened) => {
                    thread.left -= 1;
                    if thread.left == 0 {
                        self.threads.remove(at);
                    }
                    return opened.map(Some);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
            }
        }
        Ok(None)
    }
}

/// Opens splits at once.
pub(super) fn open_now<S: SplitSource>(
    source: &S,
    splits: Vec<Unopened<S>>,
) -> Result<Vec<OpenSplit<S>>> {
    splits.into_iter().map(|split| split.open(source)).collect()
}

/// An error of a split.
pub(super) fn place(error: Error, split: &impl ToString) -> Error {
    match error.place() {
        Some(_) => error,
        None => error.at(Place::Split(split.to_string(), None)),
    }
}
