//! A source of the lines of files.

use super::files::{BlockSizes, ByteBlocks, InputFile, LineBlocks, Split, Utf8};
use super::input::{Division, Inputs, Paths, Splits, hold};
use super::portions::Next;
use crate::clock::Nanos;
use crate::data::Record;
use crate::error::Result;
use crate::flow::{Event, Push};
use crate::memory::Reservation;
use crate::metrics::Total;
use crate::plan::{Details, Origin, TaskContext, TieKind};
use crate::stream::{Chain, Environment, Produced, Source, SourceFactory, Stream};
use std::marker::PhantomData;
use std::path::PathBuf;

impl Environment {
    /// The lines of text files, without their line ends, in as many tasks as there are cores.
    ///
    /// `files` names files, directories and globs (see [`Paths`]), or is a [`Text`] with further options. Files
    /// ending in `.gz` and `.zst` are decompressed. Plain files are read in ranges, which the tasks take from a
    /// queue, so one large file keeps every core busy; a compressed file is read by one task. Every line is read
    /// exactly once. Lines of one range are in order, ranges are not. On several hosts, the first lists the files, and
    /// all must find them under the same paths.
    ///
    /// The records are borrowed: each is a slice of the buffer that it was read into, and costs neither an allocation
    /// nor a copy. Text is checked for UTF-8 a block at a time; for lines that need not be text use
    /// [`byte_lines`](Self::byte_lines).
    ///
    /// # Errors
    ///
    /// The job is refused at its start when an input is missing, unreadable or matches nothing; on several hosts it starts,
    /// and fails on all of them. It stops when bytes are not UTF-8 (unless [`Text::utf8`] says otherwise), a line is too
    /// long, or a compressed file is corrupt; the message names file and offset.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("poem.txt");
    /// std::fs::write(&path, "the line\nof fastest flow\r\nalong a river bed").unwrap();
    /// let env = Environment::new();
    /// let words = env.lines(&path).map(|line| line.split(' ').count()).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(words.take()?, [2, 3, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("readTextFile", "stream_file", "TextFileSource"))]
    #[track_caller]
    pub fn lines<F: Into<Text>>(
        &self,
        files: F,
    ) -> Stream<impl Chain<Item = str, Time = ()> + use<F>> {
        self.blocks::<LineBlocks>(Origin::here("lines"), files.into())
    }

    /// The lines of files as bytes, without their line ends; otherwise as [`lines`](Self::lines).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("log");
    /// std::fs::write(&path, b"fine\n\xff\xfe\n").unwrap();
    /// let env = Environment::new();
    /// let lengths = env.byte_lines(&path).map(|line| line.len()).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(lengths.take()?, [4, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn byte_lines<F: Into<Text>>(
        &self,
        files: F,
    ) -> Stream<impl Chain<Item = [u8], Time = ()> + use<F>> {
        self.blocks::<ByteBlocks>(Origin::here("byte_lines"), files.into())
    }

    fn blocks<B: Blocks>(
        &self,
        origin: Origin,
        text: Text,
    ) -> Stream<impl Chain<Item = B::Item, Time = ()> + use<B>> {
        let Text { paths, utf8, sizes, split_bytes } = text;
        let details = Details::of("paths", &*paths)
            .with_some("utf8", (utf8 == Utf8::Replace).then_some("replace"));
        let inputs = Inputs::new(paths, Division::Ranges(split_bytes));
        let factory = TextFiles { inputs, utf8, sizes, blocks: PhantomData::<fn() -> B> };
        self.source(origin, details, self.tasks_of_cores(), true, factory).tied(TieKind::Splits)
    }
}

/// Text files and the options for reading them, for [`Environment::lines`].
///
/// ```
/// use thalweg::{Environment, io::{Text, files::Utf8}};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("latin1.txt");
/// std::fs::write(&path, b"na\xefve").unwrap();
/// let env = Environment::new();
/// let lines = env.lines(Text::new(&path).utf8(Utf8::Replace)).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(lines.take()?, ["na\u{fffd}ve"]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Text {
    pub(super) paths: Vec<PathBuf>,
    utf8: Utf8,
    pub(super) sizes: BlockSizes,
    pub(super) split_bytes: Option<u64>,
}

impl Text {
    /// Options for these files, directories and globs.
    pub fn new(paths: impl Paths) -> Self {
        Self {
            paths: paths.into_paths(),
            utf8: Utf8::default(),
            sizes: BlockSizes::default(),
            split_bytes: None,
        }
    }

    /// Sets how bytes that are not UTF-8 are treated; by default they stop the job.
    #[must_use]
    pub fn utf8(mut self, utf8: Utf8) -> Self {
        self.utf8 = utf8;
        self
    }

    /// Sets the longest line that is accepted, in bytes; the default is 64 MiB. Lines of up to a block (256 KiB) are
    /// always accepted.
    #[must_use]
    pub fn max_line_bytes(mut self, bytes: usize) -> Self {
        self.sizes.max_line_bytes = bytes;
        self
    }

    /// Sets the bytes of a plain file that a task reads as one range. The default follows from the amount of input,
    /// between 256 KiB and 8 MiB.
    #[must_use]
    pub fn split_bytes(mut self, bytes: u64) -> Self {
        self.split_bytes = Some(bytes.max(1));
        self
    }

    /// Sets the bytes read at a time, and so the memory that each task needs; the default is 256 KiB.
    #[must_use]
    pub fn block_bytes(mut self, bytes: usize) -> Self {
        self.sizes.block_bytes = bytes.max(1);
        self
    }
}

impl<P: Paths> From<P> for Text {
    fn from(paths: P) -> Self {
        Self::new(paths)
    }
}

/// A reader of blocks of lines: of text or of bytes.
trait Blocks: Sized + Send + 'static {
    type Item: Record + ?Sized;

    fn open(file: &InputFile, split: Split, sizes: BlockSizes, utf8: Utf8) -> Result<Self>;

    fn reopen(&mut self, file: &InputFile, split: Split) -> Result<()>;

    /// Pushes the lines of a block and returns their number, or `None` at the end of the split.
    fn push_block<N: Push<Self::Item, ()>>(&mut self, next: &mut N) -> Result<Option<u64>>;

    fn consumed(&self) -> u64;

    fn position(&self) -> u64;

    fn buffer_bytes(&self) -> usize;
}

macro_rules! blocks {
    ($type:ident, $item:ty, $open:expr) => {
        impl Blocks for $type {
            type Item = $item;

            fn open(file: &InputFile, split: Split, sizes: BlockSizes, utf8: Utf8) -> Result<Self> {
                $open(file, split, sizes, utf8)
            }

            fn reopen(&mut self, file: &InputFile, split: Split) -> Result<()> {
                $type::reopen(self, file, split)
            }

            fn push_block<N: Push<$item, ()>>(&mut self, next: &mut N) -> Result<Option<u64>> {
                let Some(block) = self.next_block()? else { return Ok(None) };
                let mut lines = 0;
                for line in block.lines() {
                    lines += 1;
                    next.push(line, ());
                }
                Ok(Some(lines))
            }

            fn consumed(&self) -> u64 {
                $type::consumed(self)
            }

            fn position(&self) -> u64 {
                $type::position(self)
            }

            fn buffer_bytes(&self) -> usize {
                $type::buffer_bytes(self)
            }
        }
    };
}

blocks!(LineBlocks, str, LineBlocks::open);
blocks!(ByteBlocks, [u8], |file, split, sizes, _| ByteBlocks::open(file, split, sizes));

struct TextFiles<B> {
    inputs: Inputs,
    utf8: Utf8,
    sizes: BlockSizes,
    blocks: PhantomData<fn() -> B>,
}

/// One task's reader.
struct LineSource<B> {
    queue: Splits,
    utf8: Utf8,
    sizes: BlockSizes,
    /// Reused from split to split, for its buffer.
    blocks: Option<B>,
    /// The split of which `blocks` may have more.
    reading: Option<Split>,
    memory: Reservation,
    records: u64,
    /// The bytes of the splits that are done.
    done: u64,
    total: Option<Total>,
}

impl<B: Blocks> SourceFactory for TextFiles<B> {
    type Source = LineSource<B>;

    fn open(&self, cx: &TaskContext<'_>) -> Result<LineSource<B>> {
        let queue = self.inputs.open(cx)?;
        Ok(LineSource {
            total: queue.total(),
            queue,
            utf8: self.utf8,
            sizes: self.sizes,
            blocks: None,
            reading: None,
            memory: cx.memory.reserve(),
            records: 0,
            done: 0,
        })
    }
}

impl<B: Blocks> LineSource<B> {
    /// Begins the next split, if there is one.
    fn begin(&mut self) -> Result<Produced> {
        let (file, split) = match self.queue.take()? {
            Next::Piece(next) => next,
            Next::Wait => return Ok(Produced::Pending),
            Next::End => return Ok(Produced::End),
        };
        match &mut self.blocks {
            Some(blocks) => blocks.reopen(file, split)?,
            None => {
                hold(&mut self.memory, self.sizes.block_bytes)?;
                self.blocks = Some(B::open(file, split, self.sizes, self.utf8)?);
            }
        }
        self.reading = Some(split);
        Ok(self.queue.entered(split))
    }
}

impl<B: Blocks> Source for LineSource<B> {
    type Item = B::Item;
    type Time = ();

    fn produce<N: Push<B::Item, ()>>(&mut self, _: Nanos, next: &mut N) -> Result<Produced> {
        let (Some(blocks), Some(split)) = (&mut self.blocks, self.reading) else {
            return self.begin();
        };
        let pushed = blocks.push_block(next)?;
        hold(&mut self.memory, blocks.buffer_bytes())?;
        match pushed {
            Some(lines) => {
                self.records += lines;
                Ok(Produced::Some)
            }
            None => {
                self.done += blocks.consumed();
                self.reading = None;
                self.queue.has_read(split, None);
                Ok(self.queue.left())
            }
        }
    }

    fn save(&mut self, event: Event) {
        let reading = self.blocks.as_ref().zip(self.reading);
        self.queue.save(event, Ok(reading.map(|(blocks, split)| (split, blocks.position()))));
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn bytes(&self) -> u64 {
        let current =
            self.blocks.as_ref().filter(|_| self.reading.is_some()).map_or(0, Blocks::consumed);
        self.done + current
    }

    fn total(&self) -> Option<Total> {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Scheduler};
    use crate::{ErrorKind, Place};
    use proptest::prelude::*;
    use std::fs;

    fn environment(cores: usize, scheduler: Scheduler) -> Environment {
        let config = Config { cores: cores.try_into().unwrap(), scheduler, ..Config::default() };
        Environment::with_config(config)
    }

    proptest! {
        #[test]
        fn every_line_once_however_the_files_are_divided(
            files in prop::collection::vec("[a-cü\r\n]{0,60}", 1..4),
            (split, block, cores) in (1..40u64, 1..40usize, 1..4usize),
            seed in any::<u64>(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut expected = Vec::new();
            for (number, text) in files.iter().enumerate() {
                fs::write(dir.path().join(number.to_string()), text).unwrap();
                // `str::lines` keeps a lone carriage return at the end, as this source does.
                expected.extend(text.lines().map(str::to_owned));
            }
            let env = environment(cores, Scheduler::Deterministic { seed });
            let text = || Text::new(dir.path()).split_bytes(split).block_bytes(block);
            let lines = env.lines(text()).collect::<Vec<String>>();
            let bytes = env.byte_lines(text()).collect::<Vec<Vec<u8>>>();
            env.run().unwrap();
            let mut lines = lines.take().unwrap();
            let mut bytes = bytes.take().unwrap();
            if cores > 1 {
                lines.sort();
                bytes.sort();
                expected.sort();
            }
            prop_assert_eq!(&lines, &expected);
            prop_assert!(bytes.iter().map(Vec::as_slice).eq(expected.iter().map(|l| l.as_bytes())));
        }
    }

    #[test]
    fn borrowed_lines_cross_an_exchange() {
        let dir = tempfile::tempdir().unwrap();
        let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        fs::write(dir.path().join("f"), &text).unwrap();
        for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
            let env = environment(2, scheduler);
            let files = Text::new(dir.path()).split_bytes(5000).block_bytes(1000);
            let out = env.lines(files).shuffle().collect::<Vec<_>>();
            env.run().unwrap();
            let mut lines = out.take().unwrap();
            lines.sort_by_key(|line| line[5..].parse::<u32>().unwrap());
            assert!(lines.iter().map(String::as_str).eq(text.lines()));
        }
    }

    fn failure(text: impl Into<Text>) -> crate::Error {
        let env = Environment::new();
        let _count = env.lines(text).count().collect_one();
        env.run().unwrap_err()
    }

    #[test]
    fn each_failure_names_the_operator_and_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.txt");
        let error = failure(&missing);
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.operator().unwrap().starts_with("lines ("), "{error}");
        assert_eq!(error.place(), Some(&Place::File(missing)));

        let error = failure(dir.path());
        assert!(error.to_string().contains("the directory has no file"), "{error}");
        assert!(error.operator().unwrap().starts_with("lines ("), "{error}");

        let bad = dir.path().join("bad.txt");
        fs::write(&bad, b"fine\nna\xefve\n").unwrap();
        let error = failure(&bad);
        assert_eq!(error.kind(), ErrorKind::Input);
        assert_eq!(error.place(), Some(&Place::Offset(bad, 7)));
        assert!(error.operator().unwrap().starts_with("lines ("), "{error}");

        let long = dir.path().join("long.txt");
        fs::write(&long, "x".repeat(1000)).unwrap();
        let error = failure(Text::new(&long).block_bytes(10).max_line_bytes(100));
        assert_eq!(error.place(), Some(&Place::Offset(long, 0)));
    }

    #[test]
    fn buffers_come_from_the_memory_budget() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "text").unwrap();
        let config = Config { memory: 1000, ..Config::default() };
        let env = Environment::with_config(config);
        let _count = env.lines(dir.path()).count().collect_one();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
    }
}
