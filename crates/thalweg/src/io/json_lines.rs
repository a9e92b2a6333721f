//! A source of JSON values, one a line.

use super::files::BlockSizes;
use super::input::{Division, Inputs, Paths};
use super::line_records::{LineParser, ParseLine};
use super::records::{Format, LineNumbers, Records, Stop};
use crate::error::Result;
use crate::plan::{Details, Origin, TieKind};
use crate::stream::{Environment, Sourced, Stream};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

impl Environment {
    /// The values of files that hold one JSON value a line, as a type that serde can read, in as many tasks as there
    /// are cores.
    ///
    /// Files are named, decompressed and divided among tasks as in [`lines`](Self::lines). Empty lines are skipped.
    /// `files` is any [`Paths`], or a [`JsonLines`] with further options.
    ///
    /// # Errors
    ///
    /// As `lines`, and the job stops at the first line that does not parse, with its place and text.
    /// [`dead_letters`](Stream::dead_letters) emits such lines on a side output instead.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use thalweg::Environment;
    ///
    /// #[derive(Deserialize)]
    /// struct Click {
    ///     page: String,
    ///     ms: u32,
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("clicks.jsonl");
    /// std::fs::write(&path, "{\"page\":\"a\",\"ms\":3}\n{\"page\":\"b\",\"ms\":4}\n").unwrap();
    /// let env = Environment::new();
    /// let clicks = env.json_lines::<Click>(&path);
    /// let slow = clicks.filter(|click| click.ms > 3).map(|click| click.page).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(slow.take()?, ["b"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn json_lines<T: for<'de> Deserialize<'de> + 'static>(
        &self,
        files: impl Into<JsonLines>,
    ) -> Stream<Sourced<Records<JsonFormat<T>, Stop>>> {
        let JsonLines { paths, sizes, split_bytes } = files.into();
        let details = Details::of("paths", &*paths);
        let inputs = Inputs::new(paths, Division::Ranges(split_bytes));
        let records = Records::new(JsonFormat { sizes, types: PhantomData }, inputs);
        self.source(Origin::here("json_lines"), details, self.tasks_of_cores(), true, records)
            .tied(TieKind::Splits)
    }
}

/// Files of JSON lines and the options for reading them, for [`Environment::json_lines`].
#[derive(Clone, Debug)]
pub struct JsonLines {
    paths: Vec<PathBuf>,
    sizes: BlockSizes,
    split_bytes: Option<u64>,
}

impl JsonLines {
    /// Options for these files, directories and globs.
    pub fn new(paths: impl Paths) -> Self {
        Self { paths: paths.into_paths(), sizes: BlockSizes::default(), split_bytes: None }
    }

    /// Sets the longest line that is accepted, in bytes; the default is 64 MiB.
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
}

impl<P: Paths> From<P> for JsonLines {
    fn from(paths: P) -> Self {
        Self::new(paths)
    }
}

/// The format of JSON values of a type, one a line.
pub struct JsonFormat<T> {
    sizes: BlockSizes,
    types: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + 'static> Format for JsonFormat<T> {
    type Record = T;
    type Parser = LineParser<JsonLine<T>>;

    fn parser(&self, lines: &Arc<LineNumbers>) -> Self::Parser {
        LineParser::new(JsonLine(PhantomData), self.sizes, lines)
    }
}

/// Parses a line that holds a JSON value or is empty.
pub struct JsonLine<T>(PhantomData<fn() -> T>);

impl<T: DeserializeOwned + 'static> ParseLine for JsonLine<T> {
    type Record = T;

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<Option<T>, String> {
        match serde_json::from_slice(line) {
            Ok(record) => Ok(Some(record)),
            Err(_) if line.trim_ascii().is_empty() => Ok(None),
            Err(error) => Err(describe_error(&error)),
        }
    }
}

/// The text of the error with its column, and without the line, which is always the first.
fn describe_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&suffix) {
        Some(what) if error.column() > 0 => format!("{what} at column {}", error.column()),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Scheduler};
    use crate::{ErrorKind, Place};
    use proptest::prelude::*;
    use serde::Deserialize;
    use std::fs;

    #[derive(Clone, Debug, PartialEq, PartialOrd, Deserialize, crate::Data)]
    struct Item {
        id: u32,
        name: String,
    }

    fn environment(cores: usize, scheduler: Scheduler) -> Environment {
        let config = Config { cores: cores.try_into().unwrap(), scheduler, ..Config::default() };
        Environment::with_config(config)
    }

    proptest! {
        #[test]
        fn whatever_the_splits_as_serde_json_line_by_line(
            lines in prop::collection::vec(prop_oneof![
                5 => (any::<u32>(), "[a-zü\"\\\\]{0,9}").prop_map(|(id, name)| {
                    format!("{{\"id\":{id},\"name\":{}}}", serde_json::to_string(&name).unwrap())
                }),
                1 => Just(String::new()),
                1 => Just("  ".to_owned()),
                1 => Just("{\"id\":1}".to_owned()),
                1 => Just("{\"id\":".to_owned()),
            ], 0..30),
            (split, cores, seed) in (1..200u64, 1..4usize, any::<u64>()),
            crlf in any::<bool>(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("f.jsonl");
            fs::write(&path, lines.join(if crlf { "\r\n" } else { "\n" })).unwrap();

            let mut good = Vec::new();
            let mut bad = Vec::new();
            for (at, line) in lines.iter().enumerate() {
                match serde_json::from_str::<Item>(line) {
                    Ok(item) => good.push(item),
                    Err(_) if line.trim().is_empty() => {}
                    Err(_) => bad.push((at as u64 + 1, line.clone())),
                }
            }
            let env = environment(cores, Scheduler::Deterministic { seed });
            let (records, letters) =
                env.json_lines::<Item>(JsonLines::new(&path).split_bytes(split)).dead_letters();
            let records = records.collect::<Vec<_>>();
            let letters = letters.collect::<Vec<_>>();
            env.run().unwrap();
            let mut records = records.take().unwrap();
            let letters = letters.take().unwrap();
            let mut letters: Vec<_> =
                letters.iter().map(|bad| (bad.line, bad.text().into_owned())).collect();
            records.sort_by(|a, b| a.partial_cmp(b).unwrap());
            good.sort_by(|a, b| a.partial_cmp(b).unwrap());
            letters.sort();
            prop_assert_eq!(records, good);
            prop_assert_eq!(letters, bad);
        }
    }

    #[test]
    fn a_bad_line_stops_the_job_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.jsonl");
        let mut text: String =
            (0..1000).map(|id| format!("{{\"id\":{id},\"name\":\"n\"}}\n")).collect();
        text.push_str("{\"id\":true,\"name\":\"n\"}\n");
        fs::write(&path, text).unwrap();
        let env = Environment::new();
        let _count =
            env.json_lines::<Item>(JsonLines::new(&path).split_bytes(100)).count().collect_one();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert_eq!(error.place(), Some(&Place::Line(path, 1001)));
        assert!(error.operator().unwrap().starts_with("json_lines ("));
        assert_eq!(
            error.message(),
            "invalid type: boolean `true`, expected u32 at column 10, in `{\"id\":true,\"name\":\"n\"}`"
        );
    }
}
