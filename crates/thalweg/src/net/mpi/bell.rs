//! Wakes the network's thread.

use crate::sync::{Condvar, Mutex, lock};
use std::time::Duration;

/// A bell for one thread that waits.
#[derive(Default)]
pub(super) struct Bell {
    state: Mutex<State>,
    rings: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The thread does not wait.
    #[default]
    Awake,
    Waiting,
    /// The thread does not wait the next time, or not any longer.
    Rung,
}

impl Bell {
    /// Wakes the thread, or keeps it from waiting the next time.
    pub(super) fn ring(&self) {
        let before = std::mem::replace(&mut *lock(&self.state), State::Rung);
        if before == State::Waiting {
            self.rings.notify_one();
        }
    }

    /// Waits until the bell is rung, or for so long.
    pub(super) fn wait(&self, at_most: Duration) {
        let mut state = lock(&self.state);
        if *state == State::Awake {
            *state = State::Waiting;
            let waited =
                self.rings.wait_timeout_while(state, at_most, |state| *state == State::Waiting);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        *state = State::Awake;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn no_ring_is_lost() {
        let (bell, hour) = (Bell::default(), Duration::from_secs(3600));
        bell.ring();
        bell.wait(hour);
        bell.wait(Duration::ZERO);
        let (rung, heard) = channel();
        let each = 1000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..each {
                    let _ = rung.send(number);
                    bell.ring();
                }
            });
            let mut last = None;
            while last != Some(each - 1) {
                bell.wait(hour);
                last = heard.try_iter().last().or(last);
            }
        });
    }
}
