//! Requests for savepoints, from threads of the program to the one that takes checkpoints.

use crate::checkpoint::CheckpointFile;
use crate::error::Result;
use crate::sync::{Mutex, lock};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

/// The requests of a job that are not answered yet.
pub(super) struct Savepoints(Mutex<State>);

enum State {
    Open(Vec<Request>),
    /// No checkpoints are taken: not yet, or not any more.
    Closed,
}

/// A request for a copy of the next checkpoint.
pub(super) struct Request {
    pub(super) to: PathBuf,
    answer: Sender<Result<CheckpointFile>>,
}

impl Default for Savepoints {
    fn default() -> Self {
        Self(Mutex::new(State::Closed))
    }
}

impl Savepoints {
    /// From now on, requests are answered.
    pub(super) fn open(&self) {
        *lock(&self.0) = State::Open(Vec::new());
    }

    /// Requests a copy in a directory. The answer does not come if there are no checkpoints any more.
    pub(super) fn request(&self, to: &Path) -> Receiver<Result<CheckpointFile>> {
        let (answer, answered) = channel();
        if let State::Open(requests) = &mut *lock(&self.0) {
            requests.push(Request { to: to.to_owned(), answer });
        }
        answered
    }

    /// Takes the requests, which are to be answered.
    pub(super) fn take(&self) -> Vec<Request> {
        match &mut *lock(&self.0) {
            State::Open(requests) => std::mem::take(requests),
            State::Closed => Vec::new(),
        }
    }

    /// There are no further checkpoints: nothing is answered any more.
    pub(super) fn close(&self) {
        *lock(&self.0) = State::Closed;
    }
}

impl Request {
    pub(super) fn answer(self, answer: Result<CheckpointFile>) {
        // The program may not wait for it any more.
        let _ = self.answer.send(answer);
    }
}
