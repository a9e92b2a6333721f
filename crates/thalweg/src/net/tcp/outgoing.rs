//! The frames that wait to be written to a connection, and which thread writes them.
//!
//! A sender writes its frame itself if there is no other writer, together with the frames that other senders add
//! meanwhile: so a frame needs no other thread on light load, and many frames take one system call on heavy load. The
//! network's thread continues where the connection takes no more, and where a sender has written for long enough.
//! Frames that are held stay in the queue until there are [`WORTH_WRITING`] bytes of them, another frame is sent, or they are
//! released: a system call costs as much as copying some ten kilobytes.
//!
//! | writer | entered by | left by |
//! |---|---|---|
//! | none | a writer that has found the queue empty | a sender, which becomes the writer |
//! | active | a sender or the network's thread | the writer |
//! | retry | the network's thread, as the connection accepts bytes while a writer is active | the writer, which tries again before it leaves |
//! | network thread | a writer to which the connection takes no more, or which has written enough | the network's thread, which becomes the writer |

use super::frames::{Frame, HEADER};
use crate::sync::{Mutex, MutexGuard, lock};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

/// The bytes that a writer writes before it leaves the rest to the network's thread.
const ENOUGH: usize = 1 << 20;
/// The bytes of frames that are not held any more.
const WORTH_WRITING: usize = 128 << 10;
/// The frames that are written by one system call.
const AT_ONCE: usize = 32;

/// The frames that wait to be written to a connection.
#[derive(Default)]
pub(super) struct Outgoing(Mutex<State>);

#[derive(Default)]
struct State {
    queue: VecDeque<Frame>,
    /// The bytes of the first frame that are written.
    written: usize,
    /// The bytes of held frames that were queued since the last writer left.
    held: usize,
    /// An empty queue, whose memory is used again.
    spare: VecDeque<Frame>,
    writer: Writer,
    /// Nothing is sent any more.
    closed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writer {
    #[default]
    None,
    Active,
    Retry,
    NetworkThread,
}

/// Which thread writes the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Rest {
    /// There is none, or it is taken care of.
    None,
    /// The network's thread, now.
    Network,
}

impl Outgoing {
    /// Sends a frame; never waits.
    pub(super) fn send(&self, frame: Frame, to: &mut impl Write) -> Rest {
        let mut state = lock(&self.0);
        if state.closed {
            return Rest::None;
        }
        state.queue.push_back(frame);
        self.begin(state, to)
    }

    /// Sends a frame that may wait for more; never waits.
    pub(super) fn hold(&self, frame: Frame, to: &mut impl Write) -> Rest {
        let mut state = lock(&self.0);
        if state.closed {
            return Rest::None;
        }
        state.held += frame.len();
        state.queue.push_back(frame);
        if state.held < WORTH_WRITING { Rest::None } else { self.begin(state, to) }
    }

    /// Sends the frames that wait for more.
    pub(super) fn release(&self, to: &mut impl Write) -> Rest {
        let state = lock(&self.0);
        if state.queue.is_empty() { Rest::None } else { self.begin(state, to) }
    }

    /// Writes the queue, unless there is a writer.
    fn begin<'a>(&'a self, mut state: MutexGuard<'a, State>, to: &mut impl Write) -> Rest {
        if state.writer != Writer::None {
            return Rest::None;
        }
        state.writer = Writer::Active;
        self.write(state, to)
    }

    /// Called by the network's thread: the connection accepts bytes again, or a writer has left the rest to it.
    pub(super) fn go_on(&self, to: &mut impl Write) -> Rest {
        let mut state = lock(&self.0);
        match state.writer {
            // What is queued waits for more.
            Writer::None => return Rest::None,
            Writer::Active | Writer::Retry => {
                state.writer = Writer::Retry;
                return Rest::None;
            }
            Writer::NetworkThread => state.writer = Writer::Active,
        }
        self.write(state, to)
    }

    /// Drops what is queued, and all that is sent from now on.
    pub(super) fn close(&self) {
        lock(&self.0).close();
    }

    /// Whether the connection has not taken all that is to be written.
    pub(super) fn is_behind(&self) -> bool {
        lock(&self.0).writer == Writer::NetworkThread
    }

    /// Whether everything is written but what is held.
    pub(super) fn is_idle(&self) -> bool {
        let state = lock(&self.0);
        match state.writer {
            Writer::None => true,
            Writer::NetworkThread => state.queue.is_empty(),
            Writer::Active | Writer::Retry => false,
        }
    }

    /// Writes the queue. The caller has become the writer.
    fn write<'a>(&'a self, mut state: MutexGuard<'a, State>, to: &mut impl Write) -> Rest {
        let mut left = ENOUGH;
        let mut frames = std::mem::take(&mut state.spare);
        let (writer, rest) = loop {
            if state.queue.is_empty() {
                break (Writer::None, Rest::None);
            }
            if left == 0 {
                break (Writer::NetworkThread, Rest::Network);
            }
            std::mem::swap(&mut frames, &mut state.queue);
            let mut written = std::mem::take(&mut state.written);
            drop(state);
            let wrote = write(&mut frames, &mut written, &mut left, to);
            state = lock(&self.0);
            if state.closed {
                frames.clear();
                break (Writer::None, Rest::None);
            }
            while let Some(frame) = frames.pop_back() {
                state.queue.push_front(frame);
            }
            state.written = written;
            match wrote {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if state.writer != Writer::Retry {
                        break (Writer::NetworkThread, Rest::None);
                    }
                    state.writer = Writer::Active;
                }
                // The thread that reads from the connection finds that it is broken, after the last frame that has arrived.
                Err(_) => state.close(),
            }
        };
        state.writer = writer;
        state.held = 0;
        state.spare = frames;
        rest
    }
}

impl State {
    fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
        self.written = 0;
    }
}

/// Writes frames, of the first of which so many bytes are written already, until they are all written, so many bytes are
/// left to be written, or writing fails.
fn write(
    frames: &mut VecDeque<Frame>,
    written: &mut usize,
    left: &mut usize,
    to: &mut impl Write,
) -> io::Result<()> {
    while !frames.is_empty() && *left > 0 {
        let mut slices = [IoSlice::new(&[]); 2 * AT_ONCE];
        let mut skip = *written;
        for (frame, slices) in frames.iter().zip(slices.chunks_exact_mut(2)) {
            let header = &frame.header[skip.min(HEADER)..];
            let content = &frame.content[skip.saturating_sub(HEADER)..];
            slices[0] = IoSlice::new(header);
            slices[1] = IoSlice::new(content);
            skip = 0;
        }
        let filled = 2 * frames.len().min(AT_ONCE);
        match to.write_vectored(&slices[..filled]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => {
                *left = left.saturating_sub(bytes);
                *written += bytes;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        while let Some(first) = frames.front().map(Frame::len).filter(|first| first <= written) {
            *written -= first;
            frames.pop_front();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::frames::{Arrived, FrameReader};
    use crate::net::{Channel, Part};
    use std::sync::Arc;

    /// Takes so many bytes at once, and none after so many calls until it is reset.
    struct Narrow {
        bytes: Vec<u8>,
        at_once: usize,
        calls: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            if self.calls == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.calls -= 1;
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            let taken = all.len().min(self.at_once);
            self.bytes.extend_from_slice(&all[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn frame(job: u64, bytes: usize) -> Frame {
        Frame::new(Channel { job, part: Part::Edge(1) }, vec![job as u8; bytes])
    }

    /// The jobs of the frames that were written.
    fn jobs(bytes: &[u8]) -> Vec<u64> {
        let mut jobs = Vec::new();
        let take = |arrived: Arrived<'_>| {
            let Arrived::Frame(channel, content) = arrived else { panic!("{arrived:?}") };
            assert!(content.iter().all(|byte| *byte == channel.job as u8));
            jobs.push(channel.job);
        };
        FrameReader::default().read(bytes, take).unwrap();
        jobs
    }

    #[test]
    fn frames_are_written_in_order_however_little_the_connection_takes() {
        for at_once in [1, 3, 15, 16, 17, 50, 1000] {
            let mut to = Narrow { bytes: Vec::new(), at_once, calls: usize::MAX };
            let outgoing = Outgoing::default();
            for job in 0..100 {
                // It stops taking now and then, and the network's thread goes on later.
                to.calls = if job % 7 == 3 { 2 } else { usize::MAX };
                assert_eq!(outgoing.send(frame(job, job as usize % 40), &mut to), Rest::None);
                if job % 11 == 0 {
                    to.calls = usize::MAX;
                    assert_eq!(outgoing.go_on(&mut to), Rest::None);
                }
            }
            to.calls = usize::MAX;
            assert_eq!(outgoing.go_on(&mut to), Rest::None);
            assert!(outgoing.is_idle());
            assert_eq!(jobs(&to.bytes), (0..100).collect::<Vec<_>>(), "{at_once} bytes at once");
        }
    }

    #[test]
    fn held_frames_wait_for_more() {
        let mut to = Narrow { bytes: Vec::new(), at_once: usize::MAX, calls: usize::MAX };
        let outgoing = Outgoing::default();
        for job in 0..3 {
            assert_eq!(outgoing.hold(frame(job, 10), &mut to), Rest::None);
        }
        // The connection accepts bytes all the time, which is no reason to write.
        assert_eq!(outgoing.go_on(&mut to), Rest::None);
        assert!(to.bytes.is_empty());
        assert_eq!(outgoing.release(&mut to), Rest::None);
        assert_eq!(jobs(&to.bytes), [0, 1, 2]);
        assert!(outgoing.is_idle());
        // Another frame takes them along, and so does one that makes them worth writing.
        assert_eq!(outgoing.hold(frame(3, 10), &mut to), Rest::None);
        assert_eq!(outgoing.send(frame(4, 0), &mut to), Rest::None);
        assert_eq!(jobs(&to.bytes), [0, 1, 2, 3, 4]);
        assert_eq!(outgoing.hold(frame(5, 10), &mut to), Rest::None);
        assert_eq!(outgoing.hold(frame(6, WORTH_WRITING), &mut to), Rest::None);
        assert_eq!(jobs(&to.bytes), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(outgoing.release(&mut to), Rest::None);
    }

    #[test]
    fn a_sender_leaves_the_rest_to_the_network_when_it_has_written_enough() {
        let mut to = Narrow { bytes: Vec::new(), at_once: usize::MAX, calls: 0 };
        let outgoing = Outgoing::default();
        for job in 0..3 {
            assert_eq!(outgoing.send(frame(job, ENOUGH), &mut to), Rest::None);
        }
        (to.at_once, to.calls) = (ENOUGH / 2, usize::MAX);
        let mut rounds = 1;
        while outgoing.go_on(&mut to) == Rest::Network {
            rounds += 1;
            // No sender writes meanwhile.
            let before = to.bytes.len();
            assert_eq!(outgoing.send(frame(9, 0), &mut to), Rest::None);
            assert_eq!(to.bytes.len(), before);
        }
        assert!(rounds > 2 && outgoing.is_idle(), "{rounds}");
        assert_eq!(jobs(&to.bytes)[..3], [0, 1, 2]);
    }

    #[test]
    fn a_closed_connection_keeps_nothing() {
        let mut to = Narrow { bytes: Vec::new(), at_once: 10, calls: 1 };
        let outgoing = Outgoing::default();
        assert_eq!(outgoing.send(frame(1, 100), &mut to), Rest::None);
        assert!(!outgoing.is_idle());
        outgoing.close();
        to.calls = usize::MAX;
        assert_eq!(outgoing.send(frame(2, 100), &mut to), Rest::None);
        assert_eq!(outgoing.go_on(&mut to), Rest::None);
        assert_eq!((outgoing.is_idle(), to.bytes.len()), (true, 10));
    }

    /// A connection that breaks once, when it has taken so many bytes.
    struct Breaking {
        bytes: Vec<u8>,
        breaks_at: usize,
    }

    impl Write for Breaking {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.bytes.len() == self.breaks_at {
                self.breaks_at = usize::MAX;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let taken = bytes.len().min(self.breaks_at - self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_broken_connection_has_taken_is_not_sent_again() {
        for breaks_at in 0..60 {
            let mut to = Breaking { bytes: Vec::new(), breaks_at };
            let outgoing = Outgoing::default();
            for job in 0..5 {
                assert_eq!(outgoing.send(frame(job, 10), &mut to), Rest::None);
                assert_eq!(outgoing.go_on(&mut to), Rest::None);
            }
            // The rest, as if the connection took it after all, would be frames that have arrived, or a frame torn in two.
            assert_eq!(to.bytes.len(), breaks_at, "{:?}", jobs(&to.bytes));
        }
    }

    /// A connection that several threads write to.
    struct Shared(Arc<Mutex<Narrow>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).write(bytes)
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            lock(&self.0).write_vectored(slices)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn frames_of_several_threads_are_not_mixed_and_none_is_left() {
        let narrow = Narrow { bytes: Vec::new(), at_once: 33, calls: usize::MAX };
        let connection = Arc::new(Mutex::new(narrow));
        let outgoing = Outgoing::default();
        let each = if cfg!(miri) { 20 } else { 2000 };
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let (outgoing, mut to) = (&outgoing, Shared(Arc::clone(&connection)));
                scope.spawn(move || {
                    for number in 0..each {
                        let _ = outgoing.send(frame(3 * number + thread, 20), &mut to);
                        if number % 50 == 0 {
                            // The connection is full for a while.
                            lock(&to.0).calls = 1;
                        }
                    }
                });
            }
            let (outgoing, mut to) = (&outgoing, Shared(Arc::clone(&connection)));
            scope.spawn(move || {
                for _ in 0..each {
                    lock(&to.0).calls = usize::MAX;
                    let _ = outgoing.go_on(&mut to);
                    std::thread::yield_now();
                }
            });
        });
        lock(&connection).calls = usize::MAX;
        while outgoing.go_on(&mut Shared(Arc::clone(&connection))) == Rest::Network {}
        assert!(outgoing.is_idle());
        let jobs = jobs(&lock(&connection).bytes);
        assert_eq!(jobs.len() as u64, 3 * each);
        for thread in 0..3 {
            let own = jobs.iter().filter(|job| *job % 3 == thread);
            assert!(own.is_sorted(), "frames of a thread are in order");
        }
    }
}
