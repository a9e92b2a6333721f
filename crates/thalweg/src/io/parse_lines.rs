//! A source of records that a closure parses from lines.

use super::files::BlockSizes;
use super::input::{Division, Inputs};
use super::line_records::{LineParser, ParseLine};
use super::lines::Text;
use super::records::{Format, LineNumbers, Records, Stop};
use crate::error::Result;
use crate::plan::{Details, Origin, TieKind};
use crate::stream::{Environment, Sourced, Stream};
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

impl Environment {
    /// The records that the closure parses from each line of text files, in as many tasks as there are cores: for
    /// formats without a source of their own.
    ///
    /// The closure receives a line as bytes, without its end, and returns a record, `None` for a line without a
    /// record, such as a comment, or an error. Files are named, decompressed and divided among tasks as in
    /// [`lines`](Self::lines); the option of [`Text`] for UTF-8 has no effect here. Compared with
    /// `lines(…).try_map(…)`, an error contains the line's place, and bad lines can be emitted on a side output by
    /// [`dead_letters`](Stream::dead_letters).
    ///
    /// # Errors
    ///
    /// As `lines`, and the job stops at the first line for which the closure returns an error, with file, line and
    /// text.
    ///
    /// ```
    /// use std::str;
    /// use thalweg::{Environment, Place};
    ///
    /// fn reading(line: &[u8]) -> Result<Option<f64>, String> {
    ///     let text = str::from_utf8(line).map_err(|error| error.to_string())?;
    ///     let text = text.trim();
    ///     if text.is_empty() || text.starts_with('#') {
    ///         return Ok(None);
    ///     }
    ///     text.parse().map(Some).map_err(|_| "this is no number".to_owned())
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("readings");
    /// std::fs::write(&path, "# degrees\n21.5\n\n19.5\n").unwrap();
    /// let env = Environment::new();
    /// let out = env.parse_lines(&path, reading).sum(|n| *n).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [41.0]);
    ///
    /// std::fs::write(&path, "21.5\nwarm\n").unwrap();
    /// let env = Environment::new();
    /// let _out = env.parse_lines(&path, reading).sum(|n| *n).collect::<Vec<_>>();
    /// let error = env.run().unwrap_err();
    /// assert_eq!(error.place(), Some(&Place::Line(path, 2)));
    /// assert_eq!(error.message(), "this is no number, in `warm`");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn parse_lines<T, E, F>(
        &self,
        files: impl Into<Text>,
        parse: F,
    ) -> Stream<Sourced<Lines<F, T, E>>>
    where
        T: 'static,
        E: Display + 'static,
        F: Fn(&[u8]) -> Result<Option<T>, E> + Send + Sync + 'static,
    {
        let Text { paths, sizes, split_bytes, .. } = files.into();
        let details = Details::of("paths", &*paths);
        let inputs = Inputs::new(paths, Division::Ranges(split_bytes));
        let format = ParsedLines { parse: Arc::new(parse), sizes, types: PhantomData };
        let records = Records::new(format, inputs);
        self.source(Origin::here("parse_lines"), details, self.tasks_of_cores(), true, records)
            .tied(TieKind::Splits)
    }
}

/// The source of lines that a closure parses.
type Lines<F, T, E> = Records<ParsedLines<F, T, E>, Stop>;

/// The format of lines that a closure parses.
pub struct ParsedLines<F, T, E> {
    parse: Arc<F>,
    sizes: BlockSizes,
    types: PhantomData<fn() -> (T, E)>,
}

impl<F, T, E> Format for ParsedLines<F, T, E>
where
    T: 'static,
    E: Display + 'static,
    F: Fn(&[u8]) -> Result<Option<T>, E> + Send + Sync + 'static,
{
    type Record = T;
    type Parser = LineParser<ClosureParser<F, T, E>>;

    fn parser(&self, lines: &Arc<LineNumbers>) -> Self::Parser {
        let parser = ClosureParser { parse: Arc::clone(&self.parse), types: PhantomData };
        LineParser::new(parser, self.sizes, lines)
    }
}

/// Parses a line with the closure.
pub struct ClosureParser<F, T, E> {
    parse: Arc<F>,
    types: PhantomData<fn() -> (T, E)>,
}

impl<F, T, E> ParseLine for ClosureParser<F, T, E>
where
    T: 'static,
    E: Display + 'static,
    F: Fn(&[u8]) -> Result<Option<T>, E> + Send + Sync + 'static,
{
    type Record = T;

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<Option<T>, String> {
        (self.parse)(line).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Scheduler};
    use crate::io::Text;
    use crate::{Environment, ErrorKind, Place};
    use std::fs;

    fn number(line: &[u8]) -> Result<Option<u64>, &'static str> {
        let text = std::str::from_utf8(line).map_err(|_| "not text")?;
        match text {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| "no number"),
        }
    }

    #[test]
    fn every_line_is_parsed_once_however_files_are_divided() {
        let dir = tempfile::tempdir().unwrap();
        let text: String = (0..500).map(|n| format!("{n}\n{}", "\n".repeat(n % 3))).collect();
        fs::write(dir.path().join("f"), text).unwrap();
        for (split, cores) in [(1, 1), (7, 2), (100, 3), (1 << 20, 2)] {
            let scheduler = Scheduler::Deterministic { seed: split };
            let config =
                Config { cores: cores.try_into().unwrap(), scheduler, ..Config::default() };
            let env = Environment::with_config(config);
            let files = Text::new(dir.path()).split_bytes(split);
            let out = env.parse_lines(files, number).collect::<Vec<_>>();
            env.run().unwrap();
            let mut out = out.take().unwrap();
            out.sort_unstable();
            assert!(out.into_iter().eq(0..500), "splits of {split}");
        }
    }

    #[test]
    fn a_bad_line_has_its_place_in_whatever_split_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let text: String = (0..500).map(|n| format!("{n}\n\n")).collect();
        fs::write(&path, format!("{text}\nx1\n7\n")).unwrap();
        let env = Environment::new();
        let _out = env.parse_lines(Text::new(&path).split_bytes(50), number).count().collect_one();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert_eq!(error.place(), Some(&Place::Line(path.clone(), 1002)));
        assert_eq!(error.message(), "no number, in `x1`");
        assert!(error.operator().is_some_and(|name| name.starts_with("parse_lines (")));

        let env = Environment::new();
        let (good, bad) = env.parse_lines(&path, number).dead_letters();
        let (good, bad) = (good.count().collect_one(), bad.collect::<Vec<_>>());
        env.run().unwrap();
        assert_eq!((good.take().unwrap(), bad.take().unwrap()[0].line), (Some(501), 1002));
    }

    #[test]
    fn a_closure_that_panics_stops_the_job() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "1\n2\n").unwrap();
        let env = Environment::new();
        let parse = |line: &[u8]| -> Result<Option<u64>, String> {
            assert_ne!(line, b"2", "two is too much");
            Ok(None)
        };
        let _out = env.parse_lines(&path, parse).count().collect_one();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panic);
        assert!(error.to_string().contains("two is too much"), "{error}");
    }
}
