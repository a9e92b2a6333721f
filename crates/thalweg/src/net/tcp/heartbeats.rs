//! Heartbeats: small frames, so that other hosts can tell silence from a lack of data. A heartbeat asks the other host for its
//! clock, unless it has not answered the last such request.

use super::Shared;
use super::frames::{Frame, Notice};
use crate::error::Result;
use crate::net::liveness::Periodic;
use crate::net::{HELD, Network};
use crate::sync::{join_other, spawn};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that sends what is held, and a heartbeat to each host to which no thread is writing or whose clock is asked for. It runs no receivers, which
/// may take long.
pub(super) struct Heartbeats {
    /// Dropped to end the thread.
    until: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeats {
    pub(super) fn start(shared: &Arc<Shared>, interval: Duration) -> Result<Self> {
        let (until, ended) = channel();
        let shared = Arc::clone(shared);
        // Not a number of ticks: they take longer where the thread gets no processor.
        let mut beats = Periodic::new(interval, shared.clock.now());
        let thread = spawn("thalweg-beat".to_owned(), move || {
            let tick = interval.min(HELD);
            while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                let is_due = beats.take(shared.clock.now()).is_some();
                for (host, peer) in &shared.peers {
                    if is_due && shared.ask_clock(peer) {
                        continue;
                    }
                    if is_due && peer.outgoing.is_idle() {
                        shared.send_to(peer, Frame::notice(Notice::Alive));
                    } else {
                        shared.release(*host);
                    }
                }
            }
        })?;
        Ok(Self { until: Some(until), thread: Some(thread) })
    }

    pub(super) fn stop(&mut self) {
        self.until = None;
        self.thread.take().into_iter().for_each(join_other);
    }
}
