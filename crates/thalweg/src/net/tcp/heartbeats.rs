//! Heartbeats: frames without content, so that other hosts can tell silence from a lack of data.

use super::Shared;
use super::frames::{Frame, Notice};
use crate::error::Result;
use crate::sync::spawn;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that sends a heartbeat, and what is held, to each host to which no thread is writing. It runs no receivers,
/// which may take long.
pub(super) struct Heartbeats {
    /// Dropped to end the thread.
    until: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeats {
    pub(super) fn start(shared: &Arc<Shared>, interval: Duration) -> Result<Self> {
        let (until, ended) = channel();
        let shared = Arc::clone(shared);
        let thread = spawn("thalweg-beat".to_owned(), move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                for peer in shared.peers.values().filter(|peer| peer.outgoing.is_idle()) {
                    shared.send_to(peer, Frame::notice(Notice::Alive));
                }
            }
        })?;
        Ok(Self { until: Some(until), thread: Some(thread) })
    }

    pub(super) fn stop(&mut self) {
        self.until = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
