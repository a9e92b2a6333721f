//! Sources of the rows of CSV files: as types that serde can read, and borrowed ([`rows`]).

mod header;
mod rows;
mod scan;

pub use rows::{CsvRows, ReadRow};

use super::bad_record::BadRecord;
use super::files::{BYTE_ORDER_MARK, BlockSizes, ByteBlocks, FileReader, InputFile, Split};
use super::input::{Division, Inputs, Paths};
use super::records::{Format, LineNumbers, Parser, Records, Stop, Taker};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::plan::{Details, Origin, TieKind};
use crate::stream::{Environment, Sourced, Stream};
use csv::StringRecord;
use header::{Headers, Wanted, list, reads_as_a_record, refused, without_columns};
use memchr::{memchr, memchr_iter, memrchr};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

impl Environment {
    /// The rows of CSV files as a type that serde can read: a struct whose fields are found by
    /// the names in the header, or a tuple by their order.
    ///
    /// Files are named and decompressed as in [`lines`](Self::lines). `files` is any [`Paths`], or a [`Csv`] with
    /// further options: another delimiter, no header, …. Since a quoted field may hold line breaks, the start of a
    /// row is not known without the rows before it: a file is read by one task, several files by several. If no field
    /// holds a line break, set [`Csv::one_line_rows`], and large files are divided.
    ///
    /// # Errors
    ///
    /// The job is refused at its start when an input is missing, unreadable or matches nothing.
    /// It stops at the first row that does not parse, with an error that names file and line, column and text.
    /// [`dead_letters`](Stream::dead_letters) emits such rows on a side output instead.
    ///
    /// It also stops at a header in which several columns have the name of one field, or none has, whatever the
    /// field's type: otherwise a misspelt name would turn every `Option` into `None` (for files in which columns may
    /// be missing, see [`Csv::optional_columns`]). For a tuple it stops at a header that differs from another file's,
    /// and at a first row that is more likely a record: see [`Csv::has_header`].
    ///
    /// ```
    /// use serde::Deserialize;
    /// use thalweg::{Data, Environment};
    ///
    /// #[derive(Deserialize, Data, Debug, PartialEq)]
    /// struct Trade {
    ///     symbol: String,
    ///     price: f64,
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("trades.csv");
    /// std::fs::write(&path, "symbol,price\nACME,12.5\n\"B, Sons\",3\n").unwrap();
    /// let env = Environment::new();
    /// let cheap = env.csv::<Trade>(&path).filter(|trade| trade.price < 10.0).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(cheap.take()?, [Trade { symbol: "B, Sons".into(), price: 3.0 }]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("read_csv", "scan_csv", "stream_csv"))]
    #[track_caller]
    pub fn csv<T: for<'de> Deserialize<'de> + 'static>(
        &self,
        files: impl Into<Csv>,
    ) -> Stream<Sourced<Records<CsvFormat<T>, Stop>>> {
        let Csv { paths, dialect } = files.into();
        let details = dialect.details(&paths);
        let division = match dialect.one_line_rows {
            true => Division::Ranges(dialect.split_bytes),
            false => Division::Files,
        };
        let headers = Headers::new(Wanted::by::<T>(), dialect.optional_columns);
        let format = CsvFormat { dialect, headers, types: PhantomData };
        let records = Records::new(format, Inputs::new(paths, division));
        self.source(Origin::here("csv"), details, self.tasks_of_cores(), true, records)
            .tied(TieKind::Splits)
    }
}

/// CSV files and the options for reading them, for [`Environment::csv`].
///
/// ```
/// use thalweg::{Environment, io::Csv};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("ages.txt");
/// std::fs::write(&path, "ann; 31\nbob; 29\n").unwrap();
/// let env = Environment::new();
/// let csv = Csv::new(&path).delimiter(b';').without_header().trim(true);
/// let ages = env.csv::<(String, u32)>(csv).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(ages.take()?, [("ann".to_owned(), 31), ("bob".to_owned(), 29)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Csv {
    paths: Vec<PathBuf>,
    dialect: Dialect,
}

#[derive(Clone, Copy, Debug)]
struct Dialect {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    /// The setting of the program, if any.
    has_header: Option<bool>,
    optional_columns: bool,
    flexible: bool,
    trim: bool,
    one_line_rows: bool,
    split_bytes: Option<u64>,
    max_row_bytes: usize,
}

impl Dialect {
    /// The paths, and the options that differ from the defaults.
    fn details(&self, paths: &[PathBuf]) -> Details {
        let byte = |byte: u8| char::from(byte).to_string();
        let set = |flag: bool| flag.then_some(true);
        let quote = self.quote.map_or_else(|| "none".to_owned(), byte);
        Details::of("paths", paths)
            .with_some("delimiter", (self.delimiter != b',').then(|| byte(self.delimiter)))
            .with_some("quote", (self.quote != Some(b'"')).then_some(quote))
            .with_some("escape", self.escape.map(byte))
            .with_some("header", self.has_header)
            .with_some("optional_columns", set(self.optional_columns))
            .with_some("flexible", set(self.flexible))
            .with_some("trim", set(self.trim))
    }
}

impl Csv {
    /// Options for these files, directories and globs.
    pub fn new(paths: impl Paths) -> Self {
        let dialect = Dialect {
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            has_header: None,
            optional_columns: false,
            flexible: false,
            trim: false,
            one_line_rows: false,
            split_bytes: None,
            max_row_bytes: 64 << 20,
        };
        Self { paths: paths.into_paths(), dialect }
    }

    /// Sets the delimiter between fields; the default is a comma.
    #[must_use]
    pub fn delimiter(mut self, byte: u8) -> Self {
        self.dialect.delimiter = byte;
        self
    }

    /// Sets whether the first row of each file names the columns; the default is `true`. Without names, fields are
    /// read in order.
    ///
    /// A tuple always reads fields in order. If this option is not set, and the first row can be read as such a
    /// tuple, whose types do not accept any text, the job stops: taking the row for a header would lose a record.
    #[must_use]
    pub fn has_header(mut self, has: bool) -> Self {
        self.dialect.has_header = Some(has);
        self
    }

    /// Treats the first row of each file as a record: `has_header(false)`.
    #[must_use]
    pub fn without_header(self) -> Self {
        self.has_header(false)
    }

    /// Sets whether a header may lack a field that serde can do without: an `Option`, which is `None` then, or a
    /// field with `#[serde(default)]`. The default is `false`, since a misspelt name looks the same. (In a type with
    /// `#[serde(alias)]` such fields may always be missing, since it is not known which names belong to one field.)
    ///
    /// ```
    /// use serde::Deserialize;
    /// use thalweg::{Data, Environment, io::Csv};
    ///
    /// #[derive(Deserialize, Data, Debug, PartialEq)]
    /// struct Person {
    ///     name: String,
    ///     age: Option<u32>,
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("people.csv");
    /// std::fs::write(&path, "name,years\nann,31\n").unwrap();
    /// let env = Environment::new();
    /// env.csv::<Person>(&path).for_each(drop);
    /// let error = env.run().unwrap_err();
    /// assert!(error.message().starts_with("no column for `age`; the columns are `name`, `years`"));
    ///
    /// let people = env.csv::<Person>(Csv::new(&path).optional_columns(true)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(people.take()?, [Person { name: "ann".into(), age: None }]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    pub fn optional_columns(mut self, optional: bool) -> Self {
        self.dialect.optional_columns = optional;
        self
    }

    /// Sets the quote, which encloses a field that holds delimiters, quotes (doubled) or line breaks. The default is
    /// `"`; `None` disables quoting.
    #[must_use]
    pub fn quote(mut self, byte: Option<u8>) -> Self {
        self.dialect.quote = byte;
        self
    }

    /// Sets a character that escapes a quote inside a quoted field, in addition to doubling it. The default is
    /// `None`.
    #[must_use]
    pub fn escape(mut self, byte: Option<u8>) -> Self {
        self.dialect.escape = byte;
        self
    }

    /// Sets whether rows may have more or fewer fields than the first row of their file. The default is `false`.
    #[must_use]
    pub fn flexible(mut self, flexible: bool) -> Self {
        self.dialect.flexible = flexible;
        self
    }

    /// Sets whether white space around fields and names is removed. The default is `false`.
    #[must_use]
    pub fn trim(mut self, trim: bool) -> Self {
        self.dialect.trim = trim;
        self
    }

    /// Promises that no quoted field holds a line break, so that plain files can be divided among tasks by ranges of
    /// bytes. A file that breaks the promise stops the job.
    #[must_use]
    pub fn one_line_rows(mut self, promised: bool) -> Self {
        self.dialect.one_line_rows = promised;
        self
    }

    /// Sets the bytes of a plain file that a task reads as one range, if [`one_line_rows`](Self::one_line_rows)
    /// allows it. The default follows from the amount of input, between 256 KiB and 8 MiB.
    #[must_use]
    pub fn split_bytes(mut self, bytes: u64) -> Self {
        self.dialect.split_bytes = Some(bytes.max(1));
        self
    }

    /// Sets the longest row that is accepted, in bytes; the default is 64 MiB. The limit prevents a quote that is
    /// never closed from turning the rest of a file into one field.
    #[must_use]
    pub fn max_row_bytes(mut self, bytes: usize) -> Self {
        self.dialect.max_row_bytes = bytes;
        self
    }
}

impl<P: Paths> From<P> for Csv {
    fn from(paths: P) -> Self {
        Self::new(paths)
    }
}

/// The format of CSV rows of a type.
pub struct CsvFormat<T> {
    dialect: Dialect,
    headers: Headers,
    types: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + 'static> Format for CsvFormat<T> {
    type Record = T;
    type Parser = CsvParser<T>;

    fn parser(&self, lines: &Arc<LineNumbers>) -> CsvParser<T> {
        CsvParser {
            dialect: self.dialect,
            headers: self.headers.clone(),
            lines: Arc::clone(lines),
            row: StringRecord::new(),
            current: None,
            types: PhantomData,
        }
    }
}

/// Rows parsed in one call.
const ROWS: usize = 1024;
/// Bytes read at a time.
const CHUNK: usize = 128 << 10;
/// Bytes that the CSV library parses at a time.
const PARSED: usize = 32 << 10;

/// One task's parser.
pub struct CsvParser<T> {
    dialect: Dialect,
    headers: Headers,
    lines: Arc<LineNumbers>,
    row: StringRecord,
    current: Option<Current>,
    types: PhantomData<fn() -> T>,
}

struct Current {
    reader: csv::Reader<Window>,
    file: InputFile,
    split: Split,
    header: Option<StringRecord>,
    /// The number of fields that a row must have.
    fields: usize,
}

/// The input of the CSV library's parser. It keeps the bytes of the row being parsed, which the parser does not, so
/// that an error can show a bad row as it stands in the file.
///
/// Positions count the bytes that the parser has read.
struct Window {
    input: Input,
    buffer: Vec<u8>,
    /// The position of `buffer[0]`, and the number of line feeds before it.
    base: u64,
    lines_before_base: u64,
    /// The number of bytes of `buffer` that the parser has read.
    given: usize,
    /// Bytes before this position are not needed again.
    keep: u64,
    max_row_bytes: usize,
}

enum Input {
    File(FileReader),
    /// The complete lines of a split, and the offset of the first in the file.
    Lines(Box<ByteBlocks>, Option<u64>),
}

impl Window {
    fn new(input: Input, max_row_bytes: usize) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            base: 0,
            lines_before_base: 0,
            given: 0,
            keep: 0,
            max_row_bytes,
        }
    }

    /// Reads more, and drops the bytes that are no longer needed.
    fn fill(&mut self) -> Result<()> {
        let forget = usize::try_from(self.keep - self.base).unwrap_or(usize::MAX);
        let forget = forget.min(self.buffer.len());
        self.lines_before_base += memchr_iter(b'\n', &self.buffer[..forget]).count() as u64;
        self.buffer.drain(..forget);
        self.base += forget as u64;
        self.given -= forget;
        if self.buffer.len() > self.max_row_bytes.saturating_add(PARSED) {
            let what = format!(
                "the row that begins here has more than {} bytes; is a quote never closed?",
                self.max_row_bytes
            );
            return Err(Error::new(ErrorKind::Input, what));
        }
        match &mut self.input {
            Input::File(reader) => {
                // The parser looks for a byte order mark in the first bytes that it reads and, if they are nothing
                // else, treats them as the end of the input.
                let mut bytes = usize::MAX;
                while bytes > 0 && self.buffer.len() <= self.given + BYTE_ORDER_MARK.len() {
                    let old = self.buffer.len();
                    self.buffer.resize(old + CHUNK, 0);
                    let read = reader.read(&mut self.buffer[old..]);
                    self.buffer.truncate(old + *read.as_ref().unwrap_or(&0));
                    bytes = read?;
                }
            }
            Input::Lines(blocks, first) => {
                if let Some(block) = blocks.next_block()? {
                    first.get_or_insert(block.offset);
                    self.buffer.extend_from_slice(block.bytes);
                }
            }
        }
        Ok(())
    }

    /// The range of the buffer of a row that was parsed between two positions, without the line ends around it.
    fn row(&self, from: u64, to: u64) -> Range<usize> {
        let index = |position: u64| ((position - self.base) as usize).min(self.buffer.len());
        let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let (mut from, mut to) = (index(from), index(to));
        // The parser drops the byte order mark.
        if self.base == 0 && from == 0 && self.buffer[..to].starts_with(BYTE_ORDER_MARK) {
            from = BYTE_ORDER_MARK.len();
        }
        // The parser counts the line feed after a carriage return, and empty lines, with the row that follows them.
        from += self.buffer[from..to].iter().take_while(is_end).count();
        to -= self.buffer[from..to].iter().rev().take_while(is_end).count();
        from..to
    }

    /// The number of line feeds before this index of the buffer.
    fn lines_before(&self, at: usize) -> u64 {
        self.lines_before_base + memchr_iter(b'\n', &self.buffer[..at]).count() as u64
    }

    fn consumed(&self, split: Split) -> u64 {
        match &self.input {
            // The compressed bytes of the file, to which the offsets of a split do not apply.
            Input::File(reader) if split.end == u64::MAX => reader.consumed(),
            Input::File(reader) => reader.consumed().saturating_sub(split.start).min(split.bytes()),
            Input::Lines(blocks, _) => blocks.consumed(),
        }
    }

    fn buffer_bytes(&self) -> usize {
        let lines = match &self.input {
            Input::File(_) => 0,
            Input::Lines(blocks, _) => blocks.buffer_bytes(),
        };
        self.buffer.capacity() + PARSED + lines
    }
}

impl Read for Window {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.buffer.len() {
            self.fill().map_err(io::Error::other)?;
        }
        let bytes = (self.buffer.len() - self.given).min(out.len());
        out[..bytes].copy_from_slice(&self.buffer[self.given..self.given + bytes]);
        self.given += bytes;
        Ok(bytes)
    }
}

impl Dialect {
    fn has_header(&self) -> bool {
        self.has_header.unwrap_or(true)
    }

    fn reader(&self, input: Input) -> csv::Reader<Window> {
        csv::ReaderBuilder::new()
            .delimiter(self.delimiter)
            .quoting(self.quote.is_some())
            .quote(self.quote.unwrap_or(b'"'))
            .escape(self.escape)
            // Headers, lengths and white space are handled here, where the place is known.
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(PARSED)
            .from_reader(Window::new(input, self.max_row_bytes))
    }

    /// Whether the parser gets a carriage return before a split.
    fn begins_with_return(&self, split: Split) -> bool {
        self.one_line_rows || split.start > 0
    }

    /// Reads from this byte on, which must begin a row.
    fn from(&self, file: &InputFile, at: u64) -> Result<csv::Reader<Window>> {
        Ok(self.reader(Input::File(FileReader::open_at(&file.path, file.compression, at)?)))
    }

    /// Whether a row ends inside quotes. Only the last row of a file can, and it may then contain others.
    fn is_unclosed(&self, row: &[u8]) -> bool {
        let Some(quote) = self.quote else { return false };
        let (mut at_start, mut quoted) = (true, false);
        let mut bytes = row.iter().copied();
        while let Some(byte) = bytes.next() {
            if quoted && Some(byte) == self.escape {
                bytes.next();
            } else if byte == quote && (quoted || at_start) {
                // A doubled quote closes the quotes and opens them again.
                quoted = !quoted;
                at_start = !quoted;
                continue;
            }
            at_start = !quoted && byte == self.delimiter;
        }
        quoted
    }

    /// The first row of a file, and where its line begins: empty lines may come before it.
    fn first_row(&self, file: &InputFile) -> Result<Option<(StringRecord, u64)>> {
        let mut reader = self.from(file, 0)?;
        let mut row = StringRecord::new();
        match reader.read_record(&mut row) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(fatal(error, file, 1)),
        }
        if self.trim {
            row.trim();
        }
        let window = reader.get_ref();
        let before = &window.buffer[..window.row(0, reader.position().byte()).start];
        let line = memrchr(b'\n', before).map_or(0, |at| at as u64 + 1);
        Ok(Some((row, line)))
    }

    /// The first row of the first file that has one, and the path of the file.
    fn first_header(&self, files: &[InputFile]) -> Result<Option<(PathBuf, StringRecord)>> {
        for file in files.iter().filter(|file| file.bytes > 0) {
            if let Some((row, _)) = self.first_row(file)? {
                return Ok(Some((file.path.clone(), row)));
            }
        }
        Ok(None)
    }
}

/// An error that does not concern a single row.
fn fatal(error: csv::Error, file: &InputFile, line: u64) -> Error {
    let text = error.to_string();
    let place = Place::Line(file.path.clone(), line);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => match error.downcast::<Error>() {
            Ok(error) if error.place().is_some() => error,
            Ok(error) => error.at(place),
            Err(error) => Error::io(&file.path, "read the file", error),
        },
        csv::ErrorKind::Utf8 { err, .. } => {
            let what = format!("column {} is not UTF-8", err.field() + 1);
            Error::new(ErrorKind::Input, what).at(place)
        }
        _ => Error::new(ErrorKind::Input, text).at(place),
    }
}

impl<T: DeserializeOwned + 'static> Parser for CsvParser<T> {
    type Record = T;

    fn begin(&mut self, file: &InputFile, split: Split, files: &[InputFile]) -> Result<()> {
        self.current = None;
        let Some((first, line)) = self.dialect.first_row(file)? else { return Ok(()) };
        let fields = first.len();
        let mut reader = if self.dialect.one_line_rows {
            let sizes =
                BlockSizes { block_bytes: CHUNK, max_line_bytes: self.dialect.max_row_bytes };
            let blocks = Box::new(ByteBlocks::open(file, split, sizes)?);
            self.dialect.reader(Input::Lines(blocks, None))
        } else {
            self.dialect.from(file, split.start)?
        };
        if self.dialect.begins_with_return(split) {
            // The parser drops a byte order mark at the start of its input. The file's own mark is not part of this
            // input, so any mark here belongs to a row; the carriage return keeps the parser from dropping it. The
            // parser also drops the resulting empty row, and does not count a carriage return as a line.
            reader.get_mut().buffer.push(b'\r');
        }
        let header = self.dialect.has_header().then_some(first);
        if let Some(header) = &header {
            self.headers.check(header, file, || self.dialect.first_header(files))?;
            let is_sure = self.dialect.has_header.is_some() || !self.headers.by_order();
            if !is_sure && reads_as_a_record::<T>(header) {
                let what = format!(
                    "the first row reads as a record: {}; `Csv::without_header` says that it is one, \
                     `Csv::has_header(true)` that it names the columns",
                    list(header)
                );
                return Err(refused(file, what));
            }
        }
        let has_first = match self.dialect.one_line_rows {
            true => split.has_line(file, line),
            false => split.start == 0,
        };
        if header.is_some() && has_first {
            reader.read_record(&mut self.row).map_err(|error| fatal(error, file, 1))?;
        }
        self.current = Some(Current { reader, file: file.clone(), split, header, fields });
        Ok(())
    }

    fn batch(&mut self, taker: &mut impl Taker<T>) -> Result<bool> {
        let Some(current) = &mut self.current else { return Ok(false) };
        for row in 0..ROWS {
            let from = current.reader.position().byte();
            current.reader.get_mut().keep = from;
            match current.reader.read_record(&mut self.row) {
                Ok(true) => {}
                Ok(false) => return Ok(row > 0),
                Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => {
                    if self.dialect.one_line_rows {
                        let cut = current.ends_in_line_feed()
                            && self.dialect.is_unclosed(current.bytes(from));
                        current.check_promise(&self.lines, cut, from)?;
                    }
                    taker.bad(current.bad(
                        &self.lines,
                        from,
                        describe_error(&error, current),
                    )?)?;
                    continue;
                }
                Err(error) => {
                    let line = current.line(&self.lines, from)?;
                    return Err(fatal(error, &current.file, line));
                }
            }
            if self.dialect.one_line_rows {
                // At the end of a split the rest of a broken row may not be visible; its last field then ends with
                // the line break.
                let cut = self.row.iter().next_back().is_some_and(|last| last.ends_with('\n'));
                current.check_promise(&self.lines, cut, from)?;
            }
            if current.is_last_so_far() && self.dialect.is_unclosed(current.bytes(from)) {
                let what = "a quote is never closed".to_owned();
                taker.bad(current.bad(&self.lines, from, what)?)?;
                continue;
            }
            if self.row.len() != current.fields && !self.dialect.flexible {
                let what = format!("{} fields, not {}", self.row.len(), current.fields);
                taker.bad(current.bad(&self.lines, from, what)?)?;
                continue;
            }
            if self.dialect.trim {
                self.row.trim();
            }
            match self.row.deserialize(current.header.as_ref()) {
                Ok(record) => taker.good(record),
                Err(error) => {
                    if let Some(error) = current.lacks_column(&error) {
                        return Err(error);
                    }
                    taker.bad(current.bad(
                        &self.lines,
                        from,
                        describe_error(&error, current),
                    )?)?;
                }
            }
        }
        Ok(true)
    }

    fn rest(&self) -> Option<Split> {
        let Current { file, split, .. } = self.current.as_ref()?;
        if self.dialect.one_line_rows {
            return None;
        }
        let start = self.position().ok()??;
        let end = if file.compression.is_splittable() { split.end } else { u64::MAX };
        (start < end).then_some(Split { start, end, ..*split })
    }

    fn position(&self) -> Result<Option<u64>, &'static str> {
        let Some(current) = &self.current else { return Ok(None) };
        let window = current.reader.get_ref();
        let mut parsed = current.reader.position().byte();
        if self.dialect.one_line_rows && !current.is_between_lines() {
            return Err("rows of a CSV file end with a carriage return alone, within its lines");
        }
        if self.dialect.begins_with_return(current.split) {
            parsed = parsed.saturating_sub(1);
        }
        let first = match window.input {
            Input::Lines(_, Some(first)) => first,
            Input::Lines(_, None) | Input::File(_) => current.split.start,
        };
        Ok(Some(first + parsed))
    }

    fn consumed(&self) -> u64 {
        let current = self.current.as_ref();
        current.map_or(0, |current| current.reader.get_ref().consumed(current.split))
    }

    fn buffer_bytes(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.reader.get_ref().buffer_bytes())
    }
}

impl Current {
    /// The row that was just read, which began at this position, as a bad record with this error.
    #[cold]
    fn bad(&self, lines: &LineNumbers, from: u64, error: String) -> Result<BadRecord> {
        let bytes = self.bytes(from).to_vec();
        let line = self.line(lines, from)?;
        Ok(BadRecord { path: self.file.path.clone(), line, bytes, error })
    }

    /// The error about the header, if it lacks a column for the field that serde misses in a row.
    #[cold]
    fn lacks_column(&self, error: &csv::Error) -> Option<Error> {
        let header = self.header.as_ref()?;
        let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return None };
        let csv::DeserializeErrorKind::Message(message) = err.kind() else { return None };
        let field = message.strip_prefix("missing field `")?.strip_suffix('`')?;
        let is_there = header.iter().any(|column| column == field);
        (!is_there).then(|| without_columns(&[field], header, &self.file))
    }

    /// Whether the row that was just read reaches the end of all bytes that the parser has read.
    fn is_last_so_far(&self) -> bool {
        let window = self.reader.get_ref();
        let given = window.base + window.given as u64;
        window.given == window.buffer.len() && self.reader.position().byte() == given
    }

    /// The row that was just read, as it stands in the file.
    fn bytes(&self, from: u64) -> &[u8] {
        let window = self.reader.get_ref();
        &window.buffer[window.row(from, self.reader.position().byte())]
    }

    /// The line at which that row begins, counted from 1.
    fn line(&self, lines: &LineNumbers, from: u64) -> Result<u64> {
        let window = self.reader.get_ref();
        let row = window.row(from, self.reader.position().byte());
        let first = match window.input {
            // Before the first line there is at most a byte order mark.
            Input::Lines(_, Some(first)) if self.split.start > 0 => {
                lines.at(self.split.file, &self.file, first)?
            }
            Input::File(_) if self.split.start > 0 => {
                lines.at(self.split.file, &self.file, self.split.start)?
            }
            _ => 1,
        };
        Ok(first + window.lines_before(row.start))
    }

    /// Whether the bytes parsed so far end with a line feed.
    fn ends_in_line_feed(&self) -> bool {
        let window = self.reader.get_ref();
        let end = (self.reader.position().byte() - window.base) as usize;
        window.buffer[..end.min(window.buffer.len())].ends_with(b"\n")
    }

    /// Whether no line of the bytes read is parsed in part. The parser may be between a carriage return and its line feed.
    fn is_between_lines(&self) -> bool {
        let window = self.reader.get_ref();
        let end = (self.reader.position().byte() - window.base) as usize;
        match window.buffer.get(end) {
            None | Some(b'\n') => true,
            Some(_) => end == 0 || self.ends_in_line_feed(),
        }
    }

    /// Checks that a row is one line, as promised; `cut` means that its last field holds a line break.
    fn check_promise(&self, lines: &LineNumbers, cut: bool, from: u64) -> Result<()> {
        if cut || memchr(b'\n', self.bytes(from)).is_some() {
            let what = "a quoted field holds a line break, which `one_line_rows` promised \
                        against; without that, the file is read by one task";
            let place = Place::Line(self.file.path.clone(), self.line(lines, from)?);
            return Err(Error::new(ErrorKind::Input, what).at(place));
        }
        Ok(())
    }
}

/// The error of a row, with the column's name.
fn describe_error(error: &csv::Error, current: &Current) -> String {
    let column = |field: u64| {
        let name = current.header.as_ref().and_then(|header| header.get(field as usize));
        name.map_or_else(|| format!("column {}", field + 1), |name| format!("column `{name}`"))
    };
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => match err.field() {
            Some(field) => format!("{}: {}", column(field), err.kind()),
            None => err.kind().to_string(),
        },
        csv::ErrorKind::Utf8 { err, .. } => {
            format!("{}: not UTF-8", column(err.field() as u64))
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
