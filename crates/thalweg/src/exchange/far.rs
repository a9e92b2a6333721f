//! Lanes between tasks of different hosts.
//!
//! Such a lane has two halves: one at its sender, one at its receiver, each a [`Lane`](super::lane::Lane) that knows
//! how to reach the other. Batches are encoded in the turn of the task that sends them, and decoded in the turn of the
//! task that receives them. The half at the sender has the credit; the half at the receiver returns it.
//!
//! All lanes of an edge between two hosts share a channel. A frame says which lane it is for, or that it is for all lanes of a task
//! to that host, where they are [bundled](super::inbox). The time when batches were sent, of the few that are measured, is a
//! frame of its own before them.

use super::compression::{Compressor, decompress};
use super::inbox::Gate;
use crate::clock::Nanos;
use crate::data::{Data, DecodeError, decode_whole};
use crate::flow::{Depth, Epoch, Event};
use crate::net::{Link, Offset};
use crate::time::Timestamp;
use std::sync::Arc;

/// The sending and the receiving task of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) from: u32,
    /// [`ALL`](Self::ALL) where lanes are bundled.
    pub(super) to: u32,
}

impl Ends {
    /// All receiving tasks of the other host.
    pub(super) const ALL: u32 = u32::MAX;
}

/// The other half of a lane.
pub(super) struct Far {
    pub(super) link: Link,
    pub(super) ends: Ends,
    /// Whether this host has the sending half.
    pub(super) sends: bool,
    /// Of the half at the receiver, where lanes are bundled: the way back, and the number of the receiver among those of this host.
    pub(super) gate: Option<(Arc<Gate>, usize)>,
}

/// What one half of a lane sends the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// Batches one after the other, and the credit that they take in all.
    Batch(usize, &'a [u8]),
    /// The same, compressed.
    Compressed(usize, &'a [u8]),
    Event(Event),
    /// When the frame of batches that follows was sent, by its sender's clock.
    SentAt(Nanos),
    /// Credit that is free again.
    Returned(usize),
    /// The credit of the sender, which is not the one that the receiver assumes.
    Credit(usize),
    /// The receiver needs no more records.
    Closed,
    /// The receiver needs no more records of the round after this many rounds.
    ClosedRound(u64),
}

/// The bytes before the batches of a frame: the ends, the kind, the credit.
pub(super) const HEADER: usize = 17;
/// Where the kind of a frame is.
const KIND: usize = 8;
const BATCH: u8 = 0;
const COMPRESSED: u8 = 6;

impl Far {
    /// The other half of a lane that is not bundled, or of a bundle at its sender.
    pub(super) fn new(link: Link, ends: Ends, sends: bool) -> Self {
        Self { link, ends, sends, gate: None }
    }

    /// The other half of the lane to the receiver with this number among those of this host, where lanes are bundled.
    pub(super) fn behind(gate: &Arc<Gate>, receiver: usize) -> Self {
        let (link, ends) = (gate.link().clone(), Ends { from: Ends::ALL, to: receiver as u32 });
        Self { link, ends, sends: false, gate: Some((Arc::clone(gate), receiver)) }
    }

    /// Tells the sender that the receiver needs no more records.
    pub(super) fn close(&self) {
        match &self.gate {
            Some((gate, receiver)) => gate.close(*receiver),
            None => self.send(Frame::Closed),
        }
    }

    /// Tells the sender that the receiver needs no more records of the round after this many rounds.
    pub(super) fn close_round(&self, rounds: u64) {
        match &self.gate {
            Some((gate, receiver)) => gate.close_round(*receiver, rounds),
            None => self.send(Frame::ClosedRound(rounds)),
        }
    }

    pub(super) fn send(&self, frame: Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(self.ends, &mut bytes);
        self.link.send(bytes);
    }

    /// Sends a frame that may wait for more until the lane is [released](Self::release).
    pub(super) fn hold(&self, frame: Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(self.ends, &mut bytes);
        self.link.hold(bytes);
    }

    /// Begins a frame of batches, to be filled with one after the other.
    pub(super) fn begin(&self, capacity: usize) -> Vec<u8> {
        let mut frame = Vec::with_capacity(capacity);
        Frame::Batch(0, &[]).encode(self.ends, &mut frame);
        frame
    }

    /// Sends a frame of batches that was [begun](Self::begin). It may wait for more until the lane is
    /// [released](Self::release).
    pub(super) fn send_batches(&self, mut frame: Vec<u8>, credit: usize) {
        let mut encoded = Vec::with_capacity(HEADER - KIND - 1);
        credit.encode(&mut encoded);
        frame[KIND + 1..HEADER].copy_from_slice(&encoded);
        self.link.hold(frame);
    }

    /// Sends the frames that wait for more.
    pub(super) fn release(&self) {
        self.link.release();
    }
}

impl<'a> Frame<'a> {
    /// Whether the sending half of a lane sends it, or the receiving one.
    pub(super) fn is_of_sender(&self) -> bool {
        match self {
            Self::Batch(..)
            | Self::Compressed(..)
            | Self::Event(_)
            | Self::SentAt(_)
            | Self::Credit(_) => true,
            Self::Returned(_) | Self::Closed | Self::ClosedRound(_) => false,
        }
    }

    pub(super) fn encode(self, ends: Ends, out: &mut Vec<u8>) {
        (ends.from, ends.to).encode(out);
        match self {
            Self::Batch(credit, batch) => {
                (BATCH, credit).encode(out);
                out.extend_from_slice(batch);
            }
            Self::Compressed(credit, batch) => {
                (COMPRESSED, credit).encode(out);
                out.extend_from_slice(batch);
            }
            Self::Event(event) => {
                1u8.encode(out);
                encode_event(event, out);
            }
            Self::Returned(credit) => (2u8, credit).encode(out),
            Self::Closed => 3u8.encode(out),
            Self::ClosedRound(rounds) => (4u8, rounds).encode(out),
            Self::Credit(credit) => (5u8, credit).encode(out),
            Self::SentAt(at) => (7u8, at).encode(out),
        }
    }

    pub(super) fn decode(input: &'a [u8]) -> Result<(Ends, Self), DecodeError> {
        decode_whole(input, |input| {
            let (from, to) = Data::decode(input)?;
            let frame = match u8::decode(input)? {
                BATCH => Self::Batch(usize::decode(input)?, std::mem::take(input)),
                COMPRESSED => Self::Compressed(usize::decode(input)?, std::mem::take(input)),
                1 => Self::Event(decode_event(input)?),
                2 => Self::Returned(usize::decode(input)?),
                3 => Self::Closed,
                4 => Self::ClosedRound(u64::decode(input)?),
                5 => Self::Credit(usize::decode(input)?),
                7 => Self::SentAt(Nanos::decode(input)?),
                _ => return Err(DecodeError::invalid("a frame of a lane")),
            };
            Ok((Ends { from, to }, frame))
        })
    }
}

/// Compresses a frame of batches that was [begun](Far::begin), if that is worthwhile.
pub(super) fn compress(frame: &mut Vec<u8>, compressor: &mut Compressor) {
    let Some(compressed) = compressor.compress(&frame[HEADER..]) else { return };
    frame.truncate(HEADER);
    frame[KIND] = COMPRESSED;
    frame.extend_from_slice(compressed);
    // It may wait for long.
    frame.shrink_to_fit();
}

/// Batches for one of the receiving tasks of a host, in a frame that is for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section<'a> {
    /// The number of the task among those of the host.
    pub(super) task: u32,
    /// The credit that they take.
    pub(super) credit: usize,
    pub(super) batches: &'a [u8],
}

/// Appends a section whose batches `encode` appends.
pub(super) fn add_section(
    task: u32,
    credit: usize,
    out: &mut Vec<u8>,
    encode: impl FnOnce(&mut Vec<u8>),
) {
    (task, credit).encode(out);
    let length_at = out.len();
    0usize.encode(out);
    let start = out.len();
    encode(out);
    let mut length = Vec::with_capacity(start - length_at);
    (out.len() - start).encode(&mut length);
    out[length_at..start].copy_from_slice(&length);
}

/// The sections of a frame, up to one that is torn.
pub(super) fn sections(mut bytes: &[u8]) -> impl Iterator<Item = Result<Section<'_>, DecodeError>> {
    std::iter::from_fn(move || {
        (!bytes.is_empty()).then(|| {
            let mut rest = std::mem::take(&mut bytes);
            let (task, credit) = Data::decode(&mut rest)?;
            let length = usize::decode(&mut rest)?;
            let torn = DecodeError::invalid("the length of a section");
            let (batches, rest) = rest.split_at_checked(length).ok_or(torn)?;
            bytes = rest;
            Ok(Section { task, credit, batches })
        })
    })
}

/// Reads bytes as a frame of a host, converts the time in them, and compresses them and back.
///
/// # Panics
///
/// If they do not come back.
pub(crate) fn read_from_host(bytes: &[u8]) {
    match Frame::decode(bytes) {
        Ok((_, Frame::Compressed(_, batches))) => _ = decompress(batches),
        Ok((Ends { from, to }, Frame::SentAt(at))) => {
            let offset = Offset { nanos: at as i64, uncertainty: 0 };
            let _ = offset.since(at, u64::from(from) << 32 | u64::from(to));
        }
        Ok((Ends { to: Ends::ALL, .. }, Frame::Batch(_, batches))) => {
            let read: usize =
                sections(batches).flatten().map(|section| section.batches.len()).sum();
            assert!(read <= batches.len());
        }
        _ => {}
    }
    if let Some(compressed) = Compressor::new(0).compress(bytes) {
        assert_eq!(decompress(compressed).as_deref(), Ok(bytes));
    }
}

fn encode_event(event: Event, out: &mut Vec<u8>) {
    match event {
        Event::Watermark(at) => (0u8, at.as_micros()).encode(out),
        Event::Idle => 1u8.encode(out),
        Event::Barrier(Epoch(epoch)) => (2u8, epoch).encode(out),
        Event::Round(Depth(depth)) => (3u8, depth).encode(out),
        Event::End => 4u8.encode(out),
        // Outlets keep it: the tasks of the next stage receive records of several partitions.
        Event::Partition(_) => {}
    }
}

fn decode_event(input: &mut &[u8]) -> Result<Event, DecodeError> {
    Ok(match u8::decode(input)? {
        0 => Event::Watermark(Timestamp::from_micros(i64::decode(input)?)),
        1 => Event::Idle,
        2 => Event::Barrier(Epoch(u64::decode(input)?)),
        3 => Event::Round(Depth(u32::decode(input)?)),
        4 => Event::End,
        _ => return Err(DecodeError::invalid("an event")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_shrinks_is_compressed_behind_its_header() {
        let mut bytes = Vec::new();
        Frame::Batch(77, &[5; 1000]).encode(Ends { from: 3, to: 4 }, &mut bytes);
        let plain = bytes.clone();
        compress(&mut bytes, &mut Compressor::new(2000));
        assert_eq!(bytes, plain, "it is short");
        compress(&mut bytes, &mut Compressor::new(100));
        let Ok((ends, Frame::Compressed(77, batches))) = Frame::decode(&bytes) else {
            panic!("{bytes:?}");
        };
        assert_eq!((ends, decompress(batches)), (Ends { from: 3, to: 4 }, Ok(vec![5; 1000])));
        read_from_host(&bytes);
        read_from_host(&plain);
    }

    #[test]
    fn sections_are_read_up_to_one_that_is_torn() {
        let mut bytes = Vec::new();
        let of = [(3, &[1, 2, 3][..]), (0, &[]), (70_000, &[9; 300])];
        for (task, batches) in of {
            add_section(task, batches.len() + 1, &mut bytes, |out| out.extend_from_slice(batches));
        }
        let read: Vec<_> = sections(&bytes).map(Result::unwrap).collect();
        let section =
            |(task, batches): (u32, _)| Section { task, credit: <[u8]>::len(batches) + 1, batches };
        assert_eq!(read, of.map(section));
        for torn in 1..bytes.len() {
            let mut read = sections(&bytes[..torn]);
            let whole = read.by_ref().take_while(Result::is_ok).count();
            assert!(whole < 3 && read.next().is_none(), "nothing follows a torn one ({torn})");
        }
    }

    #[test]
    fn frames_survive_their_encoding_and_torn_ones_are_refused() {
        let ends = Ends { from: 3, to: 70_000 };
        let frames = [
            Frame::Batch(77, &[1, 2, 3]),
            Frame::Compressed(78, &[1, 2, 3]),
            Frame::Event(Event::Watermark(Timestamp::from_micros(-5))),
            Frame::Event(Event::Idle),
            Frame::Event(Event::Barrier(Epoch(9))),
            Frame::Event(Event::Round(Depth(2))),
            Frame::Event(Event::End),
            Frame::Returned(1 << 40),
            Frame::Closed,
            Frame::ClosedRound(12),
            Frame::Credit(100),
            Frame::SentAt(0),
            Frame::SentAt(Nanos::MAX),
        ];
        for frame in frames {
            let mut bytes = Vec::new();
            frame.encode(ends, &mut bytes);
            assert_eq!(Frame::decode(&bytes).unwrap(), (ends, frame));
            read_from_host(&bytes);
            if !matches!(frame, Frame::Batch(..) | Frame::Compressed(..)) {
                bytes.push(0);
                assert!(Frame::decode(&bytes).is_err());
                bytes.pop();
                bytes.pop();
                assert!(Frame::decode(&bytes).is_err());
            }
        }
        assert!(Frame::decode(&[]).is_err());
    }
}
