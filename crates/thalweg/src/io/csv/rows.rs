//! A source of CSV rows whose fields are borrowed from the file's blocks.

use super::header::{refused, unambiguous, without_columns};
use super::scan::{RowScan, Shape};
use super::{CHUNK, Csv, Dialect};
use crate::clock::Nanos;
use crate::data::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Event, Push};
use crate::io::bad_record::BadRecord;
use crate::io::files::{BlockSizes, ByteBlocks, InputFile, Split};
use crate::io::input::{Division, Inputs, Splits, hold};
use crate::io::portions::Next;
use crate::io::records::LineNumbers;
use crate::memory::Reservation;
use crate::metrics::Total;
use crate::plan::{Origin, TaskContext, TieKind};
use crate::stream::{Environment, Produced, Source, SourceFactory, Sourced, Stream};
use memchr::memchr_iter;
use std::sync::Arc;

/// Reads some columns of the rows of a CSV file, for [`Environment::csv_rows`].
///
/// ```
/// use thalweg::Environment;
/// use thalweg::data::Labelled;
/// use thalweg::io::ReadRow;
///
/// /// A name and an age.
/// struct Ages;
///
/// impl ReadRow<2> for Ages {
///     type Row = Labelled<u32>;
///
///     fn columns(&self) -> [&str; 2] {
///         ["name", "age"]
///     }
///
///     fn read<'a>(&self, [name, age]: [&'a str; 2]) -> Result<(&'a str, u32), String> {
///         let age = age.parse().map_err(|error| format!("column `age`: {error}"))?;
///         Ok((name, age))
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("people.csv");
/// std::fs::write(&path, "age,town,name\n31,Ulm,\"Doe, Ann\"\n29,Bern,Bob\n").unwrap();
/// let env = Environment::new();
/// let people = env.csv_rows(&path, Ages).map(|(name, age)| format!("{name} {age}")).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(people.take()?, ["Doe, Ann 31", "Bob 29"]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub trait ReadRow<const N: usize>: Send + Sync + 'static {
    /// The kind of record that is read: an owned type, or one that borrows from the row.
    type Row: Record + ?Sized;

    /// The names of the columns to read, as in the header.
    fn columns(&self) -> [&str; N];

    /// Converts the fields of these columns, in order, into a record.
    ///
    /// # Errors
    ///
    /// Describes what is wrong with the fields. The engine adds the file, the line and the row's text.
    fn read<'a>(
        &self,
        fields: [&'a str; N],
    ) -> std::result::Result<<Self::Row as Record>::Of<'a>, String>;
}

impl Environment {
    /// Some columns of the rows of CSV files, borrowed from the buffer that they were read into.
    ///
    /// [`csv`](Self::csv) supports types that serde can read; this source is for large files with many columns of
    /// which few are needed: it skips the others, 64 bytes at a time, and allocates nothing for a row. The columns
    /// are found by the names in the header. Files are divided among tasks, so no field may hold a line break
    /// ([`Csv::one_line_rows`] is implied). Empty lines are not rows. If rows may be short ([`Csv::flexible`]),
    /// missing fields are empty.
    ///
    /// # Errors
    ///
    /// The job is refused at its start when an input is missing, unreadable or matches nothing. It stops when a
    /// header lacks a column or has it twice, and at the first row that is malformed or that `read` refuses; the
    /// message names file, line and text. There are no dead letters: to keep bad rows, let `read` return them as
    /// records of another kind.
    ///
    /// See [`ReadRow`] for an example.
    #[track_caller]
    pub fn csv_rows<R: ReadRow<N>, const N: usize>(
        &self,
        files: impl Into<Csv>,
        read: R,
    ) -> Stream<Sourced<CsvRows<R, N>>> {
        let Csv { paths, dialect } = files.into();
        let columns = read.columns().iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let details = dialect.details(&paths).with("columns", columns);
        let inputs = Inputs::new(paths, Division::Ranges(dialect.split_bytes));
        let factory = CsvRows { inputs, dialect, read: Arc::new(read), lines: Arc::default() };
        self.source(Origin::here("csv_rows"), details, self.tasks_of_cores(), true, factory)
            .tied(TieKind::Splits)
    }
}

/// The factory of a source of rows.
pub struct CsvRows<R, const N: usize> {
    inputs: Inputs,
    dialect: Dialect,
    read: Arc<R>,
    lines: Arc<LineNumbers>,
}

impl<R: ReadRow<N>, const N: usize> SourceFactory for CsvRows<R, N> {
    type Source = RowSource<R, N>;

    fn open(&self, cx: &TaskContext<'_>) -> Result<RowSource<R, N>> {
        let Dialect { delimiter, quote, escape, .. } = self.dialect;
        if !self.dialect.has_header() {
            let what =
                "columns are found by the names in the header, and it was said that there is none";
            return Err(Error::new(ErrorKind::Config, what));
        }
        if ![Some(delimiter), quote, escape].iter().flatten().all(u8::is_ascii) {
            let what = "a delimiter, quote or escape beyond ASCII would be a part of a character";
            return Err(Error::new(ErrorKind::Config, what));
        }
        let queue = self.inputs.open(cx)?;
        Ok(RowSource {
            total: queue.total(),
            queue,
            rows: Rows {
                dialect: self.dialect,
                read: Arc::clone(&self.read),
                scan: RowScan::new(&self.dialect),
                lines: Arc::clone(&self.lines),
                layout: None,
                records: 0,
            },
            blocks: None,
            reading: None,
            memory: cx.memory.reserve(),
            done: 0,
        })
    }
}

/// One task's reader.
pub struct RowSource<R, const N: usize> {
    queue: Splits,
    rows: Rows<R, N>,
    /// Reused from split to split, for its buffer.
    blocks: Option<ByteBlocks>,
    /// The split that `blocks` reads, if any, and whether its header is still to come.
    reading: Option<(InputFile, Split, bool)>,
    memory: Reservation,
    /// The bytes of the splits that are done.
    done: u64,
    total: Option<Total>,
}

/// Parses rows from blocks of lines.
struct Rows<R, const N: usize> {
    dialect: Dialect,
    read: Arc<R>,
    scan: RowScan,
    lines: Arc<LineNumbers>,
    layout: Option<Layout<N>>,
    records: u64,
}

/// What the header of a file says.
#[derive(Clone, Copy)]
struct Layout<const N: usize> {
    /// The number of the file.
    file: usize,
    /// Where the wanted columns are.
    places: [usize; N],
    /// How many columns there are.
    columns: usize,
    /// Where the header's line begins.
    line: u64,
}

impl<R: ReadRow<N>, const N: usize> RowSource<R, N> {
    /// Begins the next split, if there is one.
    fn begin(&mut self) -> Result<Produced> {
        let (file, split) = match self.queue.take()? {
            Next::Piece(next) => next,
            Next::Wait => return Ok(Produced::Pending),
            Next::End => return Ok(Produced::End),
        };
        self.rows.begin(file, split)?;
        let max_line_bytes = self.rows.dialect.max_row_bytes.min(u32::MAX as usize);
        match &mut self.blocks {
            Some(blocks) => blocks.reopen(file, split)?,
            None => {
                hold(&mut self.memory, 2 * CHUNK)?;
                let sizes = BlockSizes { block_bytes: 2 * CHUNK, max_line_bytes };
                self.blocks = Some(ByteBlocks::open(file, split, sizes)?);
            }
        }
        let header = self.rows.layout.is_some_and(|layout| split.has_line(file, layout.line));
        self.reading = Some((file.clone(), split, header));
        Ok(self.queue.entered(split))
    }
}

impl<R: ReadRow<N>, const N: usize> Source for RowSource<R, N> {
    type Item = R::Row;
    type Time = ();

    fn produce<P: Push<R::Row, ()>>(&mut self, _: Nanos, next: &mut P) -> Result<Produced> {
        let (Some(blocks), Some((file, split, header))) = (&mut self.blocks, &mut self.reading)
        else {
            return self.begin();
        };
        let Some(block) = blocks.next_block()? else {
            self.done += blocks.consumed();
            self.queue.has_read(*split, None);
            self.reading = None;
            return Ok(self.queue.left());
        };
        self.rows.block(file, *split, (block.offset, block.bytes), header, next)?;
        hold(&mut self.memory, blocks.buffer_bytes())?;
        Ok(Produced::Some)
    }

    fn save(&mut self, event: Event) {
        let reading = self.blocks.as_ref().zip(self.reading.as_ref());
        let reading = reading.map(|(blocks, (_, split, _))| (*split, blocks.position()));
        self.queue.save(event, Ok(reading));
    }

    fn records(&self) -> u64 {
        self.rows.records
    }

    fn bytes(&self) -> u64 {
        let current = self.blocks.as_ref().filter(|_| self.reading.is_some());
        self.done + current.map_or(0, ByteBlocks::consumed)
    }

    fn total(&self) -> Option<Total> {
        self.total
    }
}

impl<R: ReadRow<N>, const N: usize> Rows<R, N> {
    /// Reads the header of a split's file. A file without a header has no rows.
    fn begin(&mut self, file: &InputFile, split: Split) -> Result<()> {
        if self.layout.is_some_and(|layout| layout.file == split.file) {
            return Ok(());
        }
        self.layout = None;
        let Some((header, line)) = self.dialect.first_row(file)? else { return Ok(()) };
        if header.iter().any(|name| name.contains('\n')) {
            return Err(refused(file, "the header has a line break within quotes".to_owned()));
        }
        let wanted = self.read.columns();
        unambiguous(&header, file, |name| wanted.contains(&name))?;
        let mut places = [0; N];
        for (place, name) in places.iter_mut().zip(wanted) {
            match header.iter().position(|column| column == name) {
                Some(found) => *place = found,
                None => return Err(without_columns(&[name], &header, file)),
            }
        }
        self.layout = Some(Layout { file: split.file, places, columns: header.len(), line });
        Ok(())
    }

    /// Pushes the rows of a block, whose offset in the file is known.
    fn block<P: Push<R::Row, ()>>(
        &mut self,
        file: &InputFile,
        split: Split,
        (offset, bytes): (u64, &[u8]),
        header: &mut bool,
        next: &mut P,
    ) -> Result<()> {
        let (text, rest) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, &[][..]),
            // The rows before the one that is not UTF-8 are good.
            Err(error) => {
                let good = &bytes[..error.valid_up_to()];
                let good = good.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
                (std::str::from_utf8(&bytes[..good]).unwrap_or_default(), &bytes[good..])
            }
        };
        let bad = |rows: &Self, at: usize, error: String| -> Result<()> {
            let line = rows.lines.at(split.file, file, offset)?;
            let line = line + memchr_iter(b'\n', &bytes[..at]).count() as u64;
            let row = bytes[at..].split(|&byte| byte == b'\n').next().unwrap_or_default();
            let bytes = row.strip_suffix(b"\r").unwrap_or(row).to_vec();
            Err(BadRecord { path: file.path.clone(), line, bytes, error }.into_error())
        };
        let Some(Layout { places, columns, .. }) = self.layout else { return Ok(()) };
        let mut at = 0;
        while at < text.len() {
            let row = &text[at..];
            let (length, shape) = self.scan.row(row);
            let from = at;
            at += length + 1;
            if matches!(&row.as_bytes()[..length], b"" | b"\r") || std::mem::take(header) {
                continue;
            }
            if shape == Shape::Open {
                let what = "a quote is not closed in its line (a field that holds a line break can be \
                            read by `csv`, not by `csv_rows`)";
                return bad(self, from, what.to_owned());
            }
            if self.scan.fields() != columns && !self.dialect.flexible {
                return bad(self, from, format!("{} fields, not {columns}", self.scan.fields()));
            }
            let field = |place: usize| {
                let field = self.scan.field(row, place);
                if self.dialect.trim { field.trim() } else { field }
            };
            match self.read.read(places.map(field)) {
                Ok(item) => next.push(item, ()),
                Err(what) => return bad(self, from, what),
            }
            self.records += 1;
        }
        if !rest.is_empty() {
            return bad(self, bytes.len() - rest.len(), "not UTF-8".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::cases;
    use crate::config::{Config, Scheduler};
    use crate::data::Labelled;
    use crate::error::Place;
    use proptest::prelude::*;
    use std::fs;
    use std::path::PathBuf;

    /// Reads the last column and a number.
    struct Amounts;

    impl ReadRow<2> for Amounts {
        type Row = Labelled<i32>;

        fn columns(&self) -> [&str; 2] {
            ["name", "amount"]
        }

        fn read<'a>(
            &self,
            [name, amount]: [&'a str; 2],
        ) -> std::result::Result<(&'a str, i32), String> {
            Ok((name, amount.parse().map_err(|_| format!("`{amount}` is no amount"))?))
        }
    }

    type Rows = Vec<(String, i32)>;

    fn read(env: &Environment, csv: Csv) -> Result<Rows> {
        let rows = env.csv_rows(csv, Amounts).map(|(name, n)| (name.to_owned(), n));
        let rows = rows.collect::<Vec<_>>();
        env.run()?;
        let mut rows = rows.take()?;
        rows.sort();
        Ok(rows)
    }

    fn file(content: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.csv");
        fs::write(&path, content).unwrap();
        (dir, path)
    }

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn the_rows_that_serde_reads(
            rows in prop::collection::vec(("[a-cü\",]{0,40}", any::<i32>()), 0..25),
            end in prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n")],
            (split, cores) in (1..200u64, 1..4usize), seed in any::<u64>(),
        ) {
            let quoted = |name: &str| match name.contains(['"', ',']) {
                true => format!("\"{}\"", name.replace('"', "\"\"")),
                false => name.to_owned(),
            };
            let rows: Vec<_> = rows.iter().map(|(name, n)| format!("{n},\"x,y\",{}", quoted(name))).collect();
            let (_dir, path) = file(format!("\u{feff}amount,other,name{end}{}", rows.join(end)));
            let scheduler = Scheduler::Deterministic { seed };
            let config = Config { cores: cores.try_into().unwrap(), scheduler, ..Config::default() };
            let env = Environment::with_config(config);
            let csv = Csv::new(&path).split_bytes(split);
            let read = read(&env, csv.clone()).unwrap();
            let by_serde = env.csv::<(i32, String, String)>(csv.one_line_rows(true)).map(|(n, _, name)| (name, n));
            let by_serde = by_serde.collect::<Vec<_>>();
            env.run().unwrap();
            let mut by_serde = by_serde.take().unwrap();
            by_serde.sort();
            prop_assert_eq!(read, by_serde);
        }
    }

    #[test]
    fn empty_lines_before_the_header_are_no_rows() {
        for before in ["", "\n", "\n\r\n\n\n\n\n", "\u{feff}\n\n\n\n\n\n\n", "\r\r\r\r\r\r\r"] {
            let (_dir, path) = file(format!("{before}amount,name\n\n12,x\n"));
            for split in [1, 2, 3, 5, 100] {
                let csv = Csv::new(&path).split_bytes(split);
                let found = read(&Environment::new(), csv).unwrap();
                assert_eq!(found, [("x".to_owned(), 12)], "{before:?}, {split}");
            }
        }
    }

    fn failure(content: impl AsRef<[u8]>) -> (Option<u64>, String) {
        let (dir, plain) = file(content.as_ref());
        let failed = |path: &PathBuf| {
            let error = read(&Environment::new(), Csv::new(path).split_bytes(20)).unwrap_err();
            assert!(error.operator().unwrap().starts_with("csv_rows ("), "{error}");
            let line = match error.place() {
                Some(Place::Line(_, line)) => Some(*line),
                _ => None,
            };
            (line, error.message().to_owned())
        };
        let packed = dir.path().join("f.csv.gz");
        let mut out = flate2::write::GzEncoder::new(
            fs::File::create(&packed).unwrap(),
            flate2::Compression::fast(),
        );
        std::io::Write::write_all(&mut out, content.as_ref()).unwrap();
        out.finish().unwrap();
        let (plain, packed) = (failed(&plain), failed(&packed));
        assert_eq!(plain, packed);
        plain
    }

    #[test]
    fn errors_name_their_place() {
        let good = "name,amount\r\n".to_owned() + &"somebody,12\r\n".repeat(9);
        let bad = |row: &str| failure(format!("{good}{row}"));
        assert_eq!(bad("x,1y\r\n"), (Some(11), "`1y` is no amount, in `x,1y`".to_owned()));
        assert_eq!(bad("x,1,2"), (Some(11), "3 fields, not 2, in `x,1,2`".to_owned()));
        let (line, what) = bad("x,1\n\"y\nz\",2\n");
        assert!(
            line == Some(12) && what.starts_with("a quote is not closed in its line"),
            "{what}"
        );
        let not_text = [good.as_bytes(), b"x,1\n\xff,2\nz,1\n"].concat();
        assert_eq!(failure(not_text), (Some(12), "not UTF-8, in `\u{fffd},2`".to_owned()));
        let (line, what) = failure("name,cost\nx,1\n");
        assert_eq!(
            (line, &*what),
            (Some(1), "no column for `amount`; the columns are `name`, `cost`")
        );
    }

    #[test]
    fn a_wanted_column_stands_once_in_each_header() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.csv"), "name,x,amount,x\nann,,1,\n").unwrap();
        fs::write(dir.path().join("b.csv"), "amount,name\n2,bob\n").unwrap();
        let rows = read(&Environment::new(), Csv::new(dir.path())).unwrap();
        assert_eq!(rows, [("ann".to_owned(), 1), ("bob".to_owned(), 2)]);
        fs::write(dir.path().join("c.csv"), "amount,name,amount\n2,bob,3\n").unwrap();
        let error = read(&Environment::new(), Csv::new(dir.path())).unwrap_err();
        assert_eq!(error.place(), Some(&Place::Line(dir.path().join("c.csv"), 1)));
        assert_eq!(error.message(), "columns 1 and 3 are both named `amount`");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (_dir, path) = file("name,amount\nx,1\n");
        for csv in [Csv::new(&path).has_header(false), Csv::new(&path).quote(Some(0xe4))] {
            assert_eq!(read(&Environment::new(), csv).unwrap_err().kind(), ErrorKind::Config);
        }
    }

    #[test]
    fn dialects_and_short_rows() {
        let (_dir, path) = file("amount; name\n1 ; 'a;''b' \n2\n\n3;'c;d'\n");
        let csv = Csv::new(&path).delimiter(b';').quote(Some(b'\'')).trim(true).flexible(true);
        // A blank before a quote makes the quote part of the text.
        let rows = read(&Environment::new(), csv).unwrap();
        let rows: Vec<_> = rows.iter().map(|(name, n)| (&**name, *n)).collect();
        assert_eq!(rows, [("", 2), ("'a", 1), ("c;d", 3)]);
        for content in ["", "\n", "name,amount", "name,amount\n"] {
            let (_dir, path) = file(content);
            assert_eq!(read(&Environment::new(), Csv::new(&path)).unwrap(), []);
        }
    }
}
