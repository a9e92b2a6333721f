//! Frames as bytes: a header of 16 bytes, then the content.
//!
//! | bytes | header |
//! |---|---|
//! | 0 to 3 | the length of the content |
//! | 4 to 11 | the number of the job, or [`NETWORK`] for a notice from one host's network to another's |
//! | 12 to 15 | the part of the job: 0 for the job, 1 + 2n for edge n, 2 + 2n for tie n; or the kind of notice |
//!
//! Integers are little-endian.

use crate::clock::Nanos;
use crate::error::{Error, ErrorKind};
use crate::memory::{InFlight, MemoryPool};
use crate::net::{Channel, LARGEST_FRAME, Part};

pub(super) const HEADER: usize = 16;
/// The most bytes of content that a frame may have.
pub(super) const LARGEST: usize = LARGEST_FRAME;
/// Stands for the number of a job in notices.
const NETWORK: u64 = u64::MAX;
/// Frames with less content are not counted: there are as many that return credit as are worth counting.
const SMALL: usize = 256;
/// The capacity that the buffer for a torn frame keeps.
const KEPT: usize = 64 << 10;

/// A frame to be sent.
pub(super) struct Frame {
    pub(super) header: [u8; HEADER],
    pub(super) content: Vec<u8>,
    /// Counts the content until it is written.
    _held: Option<InFlight>,
}

/// What the network of one host sends that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The host is there.
    Alive,
    /// A job is over on the host, which is not needed for it any more.
    Over(u64),
    /// The host closes the connection and sends nothing more.
    Goodbye,
    /// The host asks for the time, at this time on its clock.
    ClockRequest(Nanos),
    /// The time of the request, and when it arrived and was answered on the clock of the host that sends this.
    ClockAnswer { asked: Nanos, received: Nanos, answered: Nanos },
}

/// What has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrived<'a> {
    Frame(Channel, &'a [u8]),
    Notice(Notice),
}

impl Frame {
    /// A frame of a channel, whose content has at most [`LARGEST`] bytes.
    pub(super) fn new(channel: Channel, content: Vec<u8>) -> Self {
        let part = match channel.part {
            Part::Job => 0,
            Part::Edge(edge) => 1 + 2 * edge,
            Part::Tie(tie) => 2 + 2 * tie,
        };
        Self { header: header(content.len(), channel.job, part as u32), content, _held: None }
    }

    /// Counts the content in a pool, unless it is small.
    pub(super) fn counted_in(self, memory: Option<&MemoryPool>) -> Self {
        let memory = memory.filter(|_| self.content.len() >= SMALL);
        let _held = memory.map(|memory| memory.carry(self.content.len()));
        Self { _held, ..self }
    }

    /// The error of a job whose frame has so many bytes of content.
    pub(super) fn too_large(bytes: usize) -> Error {
        let what = format!(
            "{bytes} bytes are to be sent to another host at once, and {LARGEST} is the most"
        );
        Error::new(ErrorKind::Plan, what)
    }

    pub(super) fn notice(notice: Notice) -> Self {
        let (kind, content) = match notice {
            Notice::Alive => (0, Vec::new()),
            Notice::Over(job) => (1, job.to_le_bytes().to_vec()),
            Notice::Goodbye => (2, Vec::new()),
            Notice::ClockRequest(asked) => (3, asked.to_le_bytes().to_vec()),
            Notice::ClockAnswer { asked, received, answered } => {
                (4, [asked, received, answered].map(Nanos::to_le_bytes).concat())
            }
        };
        Self { header: header(content.len(), NETWORK, kind), content, _held: None }
    }

    pub(super) fn len(&self) -> usize {
        HEADER + self.content.len()
    }
}

fn header(length: usize, job: u64, part: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&(length as u32).to_le_bytes());
    header[4..12].copy_from_slice(&job.to_le_bytes());
    header[12..].copy_from_slice(&part.to_le_bytes());
    header
}

/// Cuts what is read from a connection into frames.
#[derive(Default)]
pub(super) struct FrameReader {
    /// The beginning of a frame whose rest has not arrived. It grows as bytes arrive, whatever the header claims.
    torn: Vec<u8>,
}

impl FrameReader {
    /// Calls `take` for each frame that is complete with these bytes, in order.
    ///
    /// # Errors
    ///
    /// What is wrong with the first header that no host sends. Nothing can be read from the connection after that.
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(Arrived<'_>),
    ) -> Result<(), String> {
        while !self.torn.is_empty() {
            let needed = match self.torn.first_chunk() {
                Some(header) => HEADER + length(header)?,
                None => HEADER,
            };
            let more = (needed - self.torn.len()).min(bytes.len());
            self.torn.extend_from_slice(&bytes[..more]);
            bytes = &bytes[more..];
            if self.torn.len() < needed {
                return Ok(());
            }
            if let Some((arrived, _)) = first(&self.torn)? {
                take(arrived);
                self.torn.clear();
                self.torn.shrink_to(KEPT);
            }
        }
        while let Some((arrived, rest)) = first(bytes)? {
            take(arrived);
            bytes = rest;
        }
        self.torn.extend_from_slice(bytes);
        Ok(())
    }
}

/// The length of a frame's content.
fn length(header: &[u8; HEADER]) -> Result<usize, String> {
    let [a, b, c, d, ..] = *header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > LARGEST {
        return Err(format!("it has sent the header of a frame of {length} bytes"));
    }
    Ok(length)
}

/// The first frame, if it is complete, and what follows it.
fn first(bytes: &[u8]) -> Result<Option<(Arrived<'_>, &[u8])>, String> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
    let Some((content, rest)) = rest.split_at_checked(length(header)?) else { return Ok(None) };
    let [_, _, _, _, job @ .., a, b, c, d] = *header;
    let (job, part) = (u64::from_le_bytes(job), u32::from_le_bytes([a, b, c, d]));
    let arrived = match (job, part) {
        (NETWORK, _) => Arrived::Notice(notice(part, content)?),
        (_, 0) => Arrived::Frame(Channel { job, part: Part::Job }, content),
        (_, part) => {
            let number = (part as usize - 1) / 2;
            let part = if part % 2 == 1 { Part::Edge(number) } else { Part::Tie(number) };
            Arrived::Frame(Channel { job, part }, content)
        }
    };
    Ok(Some((arrived, rest)))
}

fn notice(kind: u32, content: &[u8]) -> Result<Notice, String> {
    let (words, rest) = content.as_chunks::<8>();
    let number = |word: &[u8; 8]| u64::from_le_bytes(*word);
    match (kind, words, rest) {
        (0, [], []) => Ok(Notice::Alive),
        (1, [job], []) => Ok(Notice::Over(number(job))),
        (2, [], []) => Ok(Notice::Goodbye),
        (3, [asked], []) => Ok(Notice::ClockRequest(number(asked))),
        (4, [asked, received, answered], []) => {
            let [asked, received, answered] = [asked, received, answered].map(number);
            Ok(Notice::ClockAnswer { asked, received, answered })
        }
        _ => Err(format!("it has sent a notice of kind {kind} with {} bytes", content.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(job: u64, edge: usize) -> Channel {
        Channel { job, part: Part::Edge(edge) }
    }

    type Frames = Vec<(Channel, Vec<u8>)>;

    const OTHERS: [Notice; 5] = [
        Notice::Over(77),
        Notice::ClockRequest(u64::MAX),
        Notice::ClockAnswer { asked: 1, received: 1 << 40, answered: u64::MAX },
        Notice::ClockAnswer { asked: 0, received: 3, answered: 2 },
        Notice::Goodbye,
    ];

    /// Frames and notices of every kind, as bytes.
    fn sent() -> (Frames, Vec<u8>) {
        let frames = vec![
            (edge(0, 0), vec![1; 5]),
            (edge(1 << 40, 70_000), Vec::new()),
            (Channel { job: 3, part: Part::Tie(9) }, vec![2; 40]),
            (Channel { job: 3, part: Part::Job }, vec![3]),
        ];
        let mut bytes = Vec::new();
        let mut add = |frame: Frame| {
            bytes.extend_from_slice(&frame.header);
            bytes.extend_from_slice(&frame.content);
        };
        for (channel, content) in &frames {
            add(Frame::new(*channel, content.clone()));
            add(Frame::notice(Notice::Alive));
        }
        for notice in OTHERS {
            add(Frame::notice(notice));
        }
        (frames, bytes)
    }

    /// What a reader makes of these pieces.
    fn read<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(Frames, Vec<Notice>), String> {
        let (mut reader, mut frames, mut notices) =
            (FrameReader::default(), Vec::new(), Vec::new());
        for piece in pieces {
            reader.read(piece, |arrived| match arrived {
                Arrived::Frame(channel, content) => frames.push((channel, content.to_vec())),
                Arrived::Notice(notice) => notices.push(notice),
            })?;
        }
        Ok((frames, notices))
    }

    #[test]
    fn frames_arrive_whole_wherever_reads_tear_them() {
        let (frames, bytes) = sent();
        let alive = [Notice::Alive; 4];
        let notices = [&alive[..], &OTHERS].concat();
        let expected = (frames, notices);
        for at in 0..=bytes.len() {
            let (before, after) = bytes.split_at(at);
            assert_eq!(read([before, after]).unwrap(), expected, "torn at {at}");
        }
        for size in 1..60 {
            assert_eq!(read(bytes.chunks(size)).unwrap(), expected, "pieces of {size}");
        }
    }

    #[test]
    fn what_no_host_sends_is_refused() {
        let mut long = header(LARGEST + 1, 0, 1);
        assert!(read([&long[..]]).unwrap_err().contains("a frame of 1073741825 bytes"));
        assert!(read(long.chunks(1)).unwrap_err().contains("a frame of 1073741825 bytes"));
        long[..4].copy_from_slice(&(LARGEST as u32).to_le_bytes());
        assert_eq!(read([&long[..]]).unwrap().0.len(), 0, "the content has not arrived");
        let torn =
            [(0, 1), (1, 7), (2, 1), (3, 0), (3, 9), (3, 16), (4, 8), (4, 23), (4, 32), (5, 0)];
        for (kind, content) in torn {
            let mut bytes = header(content, NETWORK, kind).to_vec();
            bytes.resize(HEADER + content, 0);
            assert!(read([&bytes[..]]).unwrap_err().contains("a notice of kind"), "{kind}");
        }
    }

    #[test]
    fn a_header_reserves_no_memory() {
        let mut reader = FrameReader::default();
        reader.read(&header(LARGEST, 0, 1), |_| ()).unwrap();
        reader.read(&[0; 100], |_| ()).unwrap();
        assert!(reader.torn.capacity() < 1000, "{}", reader.torn.capacity());
    }
}
