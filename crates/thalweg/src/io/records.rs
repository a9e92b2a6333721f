//! The common part of sources of parsed records: they read splits, parse them, and treat bad records as the program
//! has chosen.

use super::bad_record::BadRecord;
use super::files::{FileReader, InputFile, Split};
use super::input::{Inputs, Splits, hold};
use super::portions::Next;
use crate::clock::Nanos;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::flow::{Event, Push};
use crate::memory::Reservation;
use crate::metrics::Total;
use crate::plan::TaskContext;
use crate::stream::{Produced, Source, SourceFactory};
use crate::sync::{Mutex, lock};
use memchr::memchr_iter;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// A file format: the factory of the parsers of a source's tasks.
pub trait Format: Send + 'static {
    /// The type of a record.
    type Record: 'static;
    /// One task's parser.
    #[doc(hidden)]
    type Parser: Parser<Record = Self::Record>;

    /// A parser for one task.
    #[doc(hidden)]
    fn parser(&self, lines: &Arc<LineNumbers>) -> Self::Parser;
}

/// Parses splits, one after the other.
pub trait Parser: Send + 'static {
    /// The type of a record.
    type Record: 'static;

    /// Begins another split, of one of the source's files.
    fn begin(&mut self, file: &InputFile, split: Split, files: &[InputFile]) -> Result<()>;

    /// Parses about one batch and returns whether there may be more in this split.
    fn batch(&mut self, taker: &mut impl Taker<Self::Record>) -> Result<bool>;

    /// The rest of a split that is a whole file and cannot be cut beforehand: it starts at the next record.
    fn rest(&self) -> Option<Split> {
        None
    }

    /// The byte of the file, decompressed, before which all records of the split were parsed, and none after it; `None` where
    /// there is nothing to parse.
    ///
    /// # Errors
    ///
    /// Why another parser could not go on from where this one is.
    fn position(&self) -> Result<Option<u64>, &'static str>;

    /// How much of the split was parsed, in bytes.
    fn consumed(&self) -> u64;

    /// The memory of the parser's buffers.
    fn buffer_bytes(&self) -> usize;
}

/// Receives parsed records.
pub trait Taker<T> {
    /// Receives a record.
    fn good(&mut self, record: T);

    /// Receives a record that could not be parsed; returns an error if the job is to stop.
    fn bad(&mut self, record: BadRecord) -> Result<()>;
}

/// The job stops at a bad record.
pub struct Stop;

/// Bad records go to a side output.
pub struct Divert;

/// The factory of a source of records.
pub struct Records<F, M> {
    format: F,
    inputs: Inputs,
    lines: Arc<LineNumbers>,
    mode: PhantomData<fn() -> M>,
}

impl<F> Records<F, Stop> {
    pub(super) fn new(format: F, inputs: Inputs) -> Self {
        Self { format, inputs, lines: Arc::default(), mode: PhantomData }
    }

    /// The same source with bad records on a side output.
    pub(super) fn diverting(self) -> Records<F, Divert> {
        let Self { format, inputs, lines, .. } = self;
        Records { format, inputs, lines, mode: PhantomData }
    }
}

/// One task's share of a source of records.
pub struct RecordSource<P, M> {
    queue: Splits,
    parser: P,
    /// The split that is being parsed, and whether some of it was parsed.
    parsing: Option<(Split, bool)>,
    memory: Reservation,
    records: u64,
    done: u64,
    total: Option<Total>,
    mode: PhantomData<fn() -> M>,
}

impl<F: Format, M: 'static> Records<F, M> {
    fn source(&self, cx: &TaskContext<'_>) -> Result<RecordSource<F::Parser, M>> {
        let queue = self.inputs.open(cx)?;
        Ok(RecordSource {
            total: queue.total(),
            queue,
            parser: self.format.parser(&self.lines),
            parsing: None,
            memory: cx.memory.reserve(),
            records: 0,
            done: 0,
            mode: PhantomData,
        })
    }
}

impl<F: Format> SourceFactory for Records<F, Stop> {
    type Source = RecordSource<F::Parser, Stop>;

    fn open(&self, cx: &TaskContext<'_>) -> Result<Self::Source> {
        self.source(cx)
    }
}

impl<F: Format> SourceFactory for Records<F, Divert> {
    type Source = RecordSource<F::Parser, Divert>;

    fn open(&self, cx: &TaskContext<'_>) -> Result<Self::Source> {
        self.source(cx)
    }
}

impl<P: Parser, M> RecordSource<P, M> {
    fn step(&mut self, taker: &mut impl Taker<P::Record>) -> Result<Produced> {
        let Some((split, begun)) = self.parsing else {
            let (file, split) = match self.queue.take()? {
                Next::Piece(next) => next,
                Next::Wait => return Ok(Produced::Pending),
                Next::End => return Ok(Produced::End),
            };
            self.parser.begin(file, split, self.queue.files())?;
            self.parsing = Some((split, false));
            return Ok(self.queue.entered(split));
        };
        if let Some(rest) = self.rest_of(split).filter(|_| begun) {
            self.done += rest.bytes_before();
            self.queue.has_read(split, Some(rest.start));
            self.queue.put_back(rest);
        } else if self.parser.batch(taker)? {
            hold(&mut self.memory, self.parser.buffer_bytes())?;
            self.parsing = Some((split, true));
            return Ok(Produced::Some);
        } else {
            self.done += self.parser.consumed();
            self.queue.has_read(split, None);
        }
        self.parsing = None;
        Ok(self.queue.left())
    }

    fn save_position(&mut self, event: Event) {
        let reading = self.parsing.map_or(Ok(None), |(split, _)| {
            let position = self.parser.position()?;
            Ok(position.map(|to| (split, to)))
        });
        self.queue.save(event, reading);
    }

    /// The part of the current split that should be put back.
    fn rest_of(&self, split: Split) -> Option<Split> {
        self.queue.beginning_is_enough(split).then(|| self.parser.rest()).flatten()
    }

    fn bytes_read(&self) -> u64 {
        // Bytes that were read ahead of the records of a beginning will be read again.
        let parsed = |split| match self.rest_of(split) {
            Some(rest) => rest.bytes_before(),
            None => self.parser.consumed(),
        };
        self.done + self.parsing.map_or(0, |(split, _)| parsed(split))
    }
}

struct Stopping<'a, N> {
    next: &'a mut N,
    taken: u64,
}

impl<T: 'static, N: Push<T, ()>> Taker<T> for Stopping<'_, N> {
    #[inline(always)]
    fn good(&mut self, record: T) {
        self.taken += 1;
        self.next.push(record, ());
    }

    #[cold]
    fn bad(&mut self, record: BadRecord) -> Result<()> {
        Err(record.into_error())
    }
}

struct Diverting<'a, N> {
    next: &'a mut N,
    taken: u64,
}

impl<T: 'static, N: Push<Result<T, BadRecord>, ()>> Taker<T> for Diverting<'_, N> {
    #[inline(always)]
    fn good(&mut self, record: T) {
        self.taken += 1;
        self.next.push(Ok(record), ());
    }

    #[cold]
    fn bad(&mut self, record: BadRecord) -> Result<()> {
        self.taken += 1;
        self.next.push(Err(record), ());
        Ok(())
    }
}

impl<P: Parser> Source for RecordSource<P, Stop> {
    type Item = P::Record;
    type Time = ();

    fn produce<N: Push<P::Record, ()>>(&mut self, _: Nanos, next: &mut N) -> Result<Produced> {
        let mut taker = Stopping { next, taken: 0 };
        let produced = self.step(&mut taker);
        self.records += taker.taken;
        produced
    }

    fn save(&mut self, event: Event) {
        self.save_position(event);
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn bytes(&self) -> u64 {
        self.bytes_read()
    }

    fn total(&self) -> Option<Total> {
        self.total
    }
}

impl<P: Parser> Source for RecordSource<P, Divert> {
    type Item = Result<P::Record, BadRecord>;
    type Time = ();

    fn produce<N: Push<Self::Item, ()>>(&mut self, _: Nanos, next: &mut N) -> Result<Produced> {
        let mut taker = Diverting { next, taken: 0 };
        let produced = self.step(&mut taker);
        self.records += taker.taken;
        produced
    }

    fn save(&mut self, event: Event) {
        self.save_position(event);
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn bytes(&self) -> u64 {
        self.bytes_read()
    }

    fn total(&self) -> Option<Total> {
        self.total
    }
}

/// Finds the number of the line at which a split begins, for the message about a bad record in it.
///
/// Lines are counted in the file itself, so it does not matter which host reads the splits before.
///
/// Results are cached, so that many bad records in many splits do not read the file from its start each time.
#[derive(Default)]
pub struct LineNumbers {
    /// By file and offset: the number, counted from 1, of the line that begins there.
    known: Mutex<BTreeMap<(usize, u64), u64>>,
}

impl LineNumbers {
    /// The number of the line that begins at this byte of a plain file.
    pub(super) fn at(&self, index: usize, file: &InputFile, offset: u64) -> Result<u64> {
        let nearest = lock(&self.known)
            .range((index, 0)..=(index, offset))
            .next_back()
            .map(|(&(_, from), &line)| (from, line));
        let (from, mut line) = nearest.unwrap_or((0, 1));
        let mut reader = FileReader::open_at(&file.path, file.compression, from)?;
        let mut buffer = vec![0; 64 << 10];
        while reader.position() < offset {
            let left = usize::try_from(offset - reader.position()).unwrap_or(usize::MAX);
            let wanted = left.min(buffer.len());
            let bytes = reader.read(&mut buffer[..wanted])?;
            if bytes == 0 {
                let what = format!("the file ends here, before byte {offset}");
                let place = Place::Offset(file.path.clone(), reader.position());
                return Err(Error::new(ErrorKind::Input, what).at(place));
            }
            line += memchr_iter(b'\n', &buffer[..bytes]).count() as u64;
        }
        lock(&self.known).insert((index, offset), line);
        Ok(line)
    }
}
