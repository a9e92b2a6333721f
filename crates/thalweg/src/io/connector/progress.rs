//! Reports to a source how far the tasks of this host have read it: with each checkpoint that counts, and when the job has ended
//! well.

use super::source::SplitSource;
use crate::error::Result;
use crate::flow::{Op, Publish, catch};
use crate::sync::{Mutex, lock};
use std::mem::take;
use std::sync::{Arc, PoisonError, RwLock};

/// Splits, and how far each was read.
type Positions<S> = Vec<(<S as SplitSource>::Split, <S as SplitSource>::Position)>;

pub(super) struct Progress<S: SplitSource> {
    source: Arc<S>,
    /// Of the tasks that have ended.
    ended: Mutex<Positions<S>>,
    /// Whether the end was reported. Another thread reports checkpoints, and may be late.
    is_over: RwLock<bool>,
}

impl<S: SplitSource> Progress<S> {
    pub(super) fn new(source: Arc<S>) -> Self {
        Self { source, ended: Mutex::default(), is_over: RwLock::new(false) }
    }

    /// A checkpoint counts that has these positions of the splits of a task.
    pub(super) fn commit(&self, positions: &Positions<S>) -> Result<()> {
        let is_over = self.is_over.read().unwrap_or_else(PoisonError::into_inner);
        if *is_over || positions.is_empty() {
            return Ok(());
        }
        catch(|| self.source.committed(positions))?
    }

    /// A task has ended, and all of its records count if the job ends well.
    pub(super) fn end(self: &Arc<Self>, positions: Positions<S>, op: &Op) {
        if positions.is_empty() {
            return;
        }
        let mut ended = lock(&self.ended);
        let is_first = ended.is_empty();
        ended.extend(positions);
        if is_first {
            let (progress, operator) = (Arc::clone(self), op.name());
            // It is called when all tasks have ended.
            op.signals().on_success(move || {
                Ok(Publish::Result(Box::new(move || {
                    if let Err(error) = progress.finish() {
                        let error = error.in_operator(&*operator);
                        log::warn!(target: "thalweg::connector", "the job has ended well, but: {error}");
                    }
                })))
            });
        }
    }

    fn finish(&self) -> Result<()> {
        let positions = take(&mut *lock(&self.ended));
        // Waits for the report of a checkpoint.
        let mut is_over = self.is_over.write().unwrap_or_else(PoisonError::into_inner);
        *is_over = true;
        catch(|| self.source.finished(&positions))?
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::{Emit, ReadStatus, SplitContext, SplitReader};
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// Keeps what is reported, and takes in a checkpoint's only when the test lets it.
    struct Told {
        all: Mutex<Vec<(&'static str, u64)>>,
        begun: Sender<()>,
        may_tell: Mutex<Receiver<()>>,
    }

    struct Nothing;

    impl SplitReader for Nothing {
        type Item = u64;
        type Position = u64;

        fn read(&mut self, _: &mut impl Emit<u64>) -> Result<ReadStatus> {
            Ok(ReadStatus::End)
        }

        fn position(&self) -> u64 {
            0
        }
    }

    impl SplitSource for Told {
        type Item = u64;
        type Split = u64;
        type Position = u64;
        type Reader = Nothing;

        fn describe(&self) -> String {
            "nothing".to_owned()
        }

        fn is_bounded(&self) -> bool {
            true
        }

        fn splits(&self) -> Result<Vec<u64>> {
            Ok(Vec::new())
        }

        fn open(&self, _: &u64, _: Option<u64>, _: &SplitContext) -> Result<Nothing> {
            Ok(Nothing)
        }

        fn committed(&self, positions: &[(u64, u64)]) -> Result<()> {
            self.begun.send(()).unwrap();
            lock(&self.may_tell).recv().unwrap();
            lock(&self.all).push(("committed", positions[0].1));
            Ok(())
        }

        fn finished(&self, positions: &[(u64, u64)]) -> Result<()> {
            lock(&self.all).push(("finished", positions[0].1));
            Ok(())
        }
    }

    #[test]
    fn what_a_checkpoint_has_is_told_before_the_end_or_never() {
        let ((begun, has_begun), (tell, may_tell)) = (channel(), channel());
        let source = Told { all: Mutex::default(), begun, may_tell: Mutex::new(may_tell) };
        let progress = Progress::new(Arc::new(source));
        lock(&progress.ended).push((7, 3));
        std::thread::scope(|threads| {
            threads.spawn(|| progress.commit(&vec![(7, 1)]).unwrap());
            has_begun.recv().unwrap();
            let finished = threads.spawn(|| progress.finish().unwrap());
            // Long enough for the end to be reported first, if it did not wait.
            std::thread::sleep(Duration::from_millis(20));
            assert!(!finished.is_finished());
            tell.send(()).unwrap();
        });
        progress.commit(&vec![(7, 2)]).unwrap();
        assert_eq!(*lock(&progress.source.all), [("committed", 1), ("finished", 3)]);
    }
}
