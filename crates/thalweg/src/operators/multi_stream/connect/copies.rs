//! Which task saves a state that is the same in all tasks.
//!
//! Every task gets every control record up to a barrier, so at the barrier one state stands for all of them. One task of each
//! host saves it: the first that the barrier passes. The records of the others need not have ended for that, and may have: a
//! task that has ended gets no control records any more, and its state is older than the barrier.
//!
//! When all tasks of a host have ended, the last of them has saved its state. Then nothing follows on this host.

use crate::flow::{Epoch, Event};
use crate::sync::{Mutex, lock};

/// Shared by the tasks of an operator on a host, each of which has a copy of a state.
#[derive(Default)]
pub(super) struct Copies(Mutex<Progress>);

#[derive(Default)]
struct Progress {
    /// The tasks that have not ended.
    running: usize,
    /// The newest barrier at which a task has saved the state.
    saved: Epoch,
}

impl Copies {
    /// There is one more task.
    pub(super) fn add_task(&self) {
        lock(&self.0).running += 1;
    }

    /// Whether the task that this event is about to leave saves its copy. To be called once for each barrier and end.
    pub(super) fn are_saved_by_this(&self, event: Event) -> bool {
        let mut progress = lock(&self.0);
        match event {
            // A task passes barriers in order, so one that is older than the newest was saved too.
            Event::Barrier(epoch) => {
                let is_first = epoch > progress.saved;
                progress.saved = progress.saved.max(epoch);
                is_first
            }
            Event::End => {
                progress.running = progress.running.saturating_sub(1);
                progress.running == 0
            }
            Event::Watermark(_) | Event::Idle | Event::Partition(_) | Event::Round(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_saves_at_each_barrier_and_the_last_at_its_end() {
        let copies = Copies::default();
        (0..3).for_each(|_| copies.add_task());
        let saves = |event| copies.are_saved_by_this(event);
        assert_eq!(
            [1, 1, 1].map(|epoch| saves(Event::Barrier(Epoch(epoch)))),
            [true, false, false]
        );
        assert_eq!([2, 3, 2].map(|epoch| saves(Event::Barrier(Epoch(epoch)))), [true, true, false]);
        assert!(!saves(Event::End), "two go on");
        assert_eq!([4, 4].map(|epoch| saves(Event::Barrier(Epoch(epoch)))), [true, false]);
        assert_eq!([(); 2].map(|()| saves(Event::End)), [false, true]);
    }
}
