//! Channels whose receivers may block: each has a thread of its own, so that no other frame waits for it.

use crate::error::Result;
use crate::memory::{InFlight, MemoryPool};
use crate::net::{HostId, Receive, Receiver};
use crate::sync::spawn;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// Queues what a channel receives for the thread of the channel.
struct Queued {
    /// The only lasting handle to it: what arrives for a channel that is closed is dropped.
    _receiver: Arc<Receiver>,
    /// Dropped with the channel, which ends the thread.
    events: Sender<Event>,
    /// Counts what is queued.
    memory: Option<MemoryPool>,
}

enum Event {
    Frame(HostId, Vec<u8>, Option<InFlight>),
    Lost(HostId, String),
}

impl Receive for Queued {
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        // It fails only if the thread has ended, with its channel.
        let held = self.memory.as_ref().map(|memory| memory.carry(frame.len()));
        let _ = self.events.send(Event::Frame(from, frame.to_vec(), held));
        Ok(())
    }

    fn lost(&self, host: HostId, how: &str) {
        let _ = self.events.send(Event::Lost(host, how.to_owned()));
    }
}

/// A receiver that does not block: this one, or if it may block, one that passes on what arrives to a thread of its own, and
/// counts in the pool what waits for it.
pub(super) fn not_blocking(receiver: Receiver, memory: Option<&MemoryPool>) -> Receiver {
    if !receiver.may_block() {
        return receiver;
    }
    on_own_thread(receiver.clone(), memory.cloned()).unwrap_or_else(|error| {
        // The job ends, and learns that through this channel.
        receiver.fail(error);
        receiver
    })
}

/// Passes on what arrives to this receiver, in order, on a thread that ends when the channel is closed.
fn on_own_thread(receiver: Receiver, memory: Option<MemoryPool>) -> Result<Receiver> {
    let (events, arrived) = channel();
    let signals = Arc::clone(&receiver.signals);
    let receiver = Arc::new(receiver);
    let weak = Arc::downgrade(&receiver);
    spawn("thalweg-channel".to_owned(), move || {
        for event in arrived {
            let Some(receiver) = weak.upgrade() else { return };
            match event {
                Event::Frame(from, frame, _held) => receiver.take(from, &frame),
                Event::Lost(host, how) => receiver.lost(host, &how),
            }
        }
    })?;
    Ok(Receiver::new(Arc::new(Queued { _receiver: receiver, events, memory }), signals))
}
