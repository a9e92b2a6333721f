//! Words over sliding windows, as in the RStream paper: by count, by time, and the most frequent ones.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{CountPane, CountWindow, EventTimeWindow, Pane};
use thalweg::time::Timestamp;
use thalweg::{Chain, Data, Error, ErrorKind, Place, Result, Stream, Visit, text};

/// A line of text, and when it was said.
pub type Line = (Timestamp, String);

/// The lines of files, one file after the other, as if read aloud: so many lines a second, from 1970 on.
///
/// Text says nothing of time, so the line's number does: the same files have the same windows in every
/// run. Of a folder, its files are read in the order of their names.
pub fn paced(files: Vec<PathBuf>, lines_a_second: f64) -> impl Iterator<Item = Result<Line>> {
    let lines = files.into_iter().flat_map(|path| match lines_below(&path) {
        Ok(lines) => lines,
        Err(error) => Box::new(std::iter::once(Err(error))),
    });
    (0u64..).zip(lines).map(move |(number, line)| {
        let at = (number as f64 * 1e6 / lines_a_second) as i64;
        line.map(|line| (Timestamp::from_micros(at), line))
    })
}

type Lines = Box<dyn Iterator<Item = Result<String>> + Send>;

fn lines_below(path: &Path) -> Result<Lines> {
    let failed = |cause, path: &Path| {
        let at = Place::File(path.to_owned());
        Error::new(ErrorKind::Io, "cannot be read").at(at).caused_by(cause)
    };
    if path.is_dir() {
        let entries = path.read_dir().map_err(|cause| failed(cause, path))?;
        let entries = entries.map(|entry| entry.map(|entry| entry.path()));
        let entries = entries.collect::<std::io::Result<Vec<_>>>();
        let mut files = entries.map_err(|cause| failed(cause, path))?;
        files.sort();
        let all = files.into_iter().map(|path| lines_below(&path));
        return Ok(Box::new(all.collect::<Result<Vec<_>>>()?.into_iter().flatten()));
    }
    let file = File::open(path).map_err(|cause| failed(cause, path))?;
    let path = path.to_owned();
    let lines = BufReader::new(file).lines();
    Ok(Box::new(lines.map(move |line| line.map_err(|cause| failed(cause, &path)))))
}

/// The words of lines in lower case, each at its line's time. The lines of a task are in the order of
/// their times.
pub fn words<C: Chain<Item = Line, Time = ()>>(
    lines: Stream<C>,
) -> Stream<impl Chain<Item = str, Time = Timestamp> + use<C>> {
    lines.assign_timestamps(|(at, _)| *at, Watermarks::monotonous()).flat_each(WordsOf)
}

/// The words of a line, which has its time beside it.
struct WordsOf;

impl Visit<Line> for WordsOf {
    type Out = str;
    type Scratch = String;

    #[inline(always)]
    fn visit(&self, (_, line): Line, scratch: &mut String, emit: &mut impl FnMut(&str)) {
        text::LowercaseWords.visit(&line, scratch, emit);
    }
}

/// Each word's occurrences in windows of them: as soon as there are `size`, and every `slide` from there.
pub fn by_count<C: Chain<Item = str>>(
    words: Stream<C>,
    windows: CountWindow,
) -> Stream<impl Chain<Item = (String, CountPane<u64>), Time = C::Time> + use<C>> {
    words.group_by_ref(|word| *word).window(windows).count().unkey()
}

/// Each word's occurrences in windows of time.
pub fn by_time<C: Chain<Item = str, Time = Timestamp>>(
    words: Stream<C>,
    windows: EventTimeWindow,
) -> Stream<impl Chain<Item = (String, Pane<u64>), Time = Timestamp> + use<C>> {
    words.group_by_ref(|word| *word).window(windows).count().unkey()
}

/// One of the most frequent words of a window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Data)]
pub struct TopWord {
    /// When the window begins.
    pub start: Timestamp,
    /// Its place, counted from 1.
    pub rank: u64,
    /// The word.
    pub word: String,
    /// How often it occurs in the window.
    pub count: u64,
}

/// The fields with tabs between them, the start in seconds.
impl fmt::Display for TopWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, rank, word, count } = self;
        write!(f, "{}\t{rank}\t{word}\t{count}", start.as_micros() as f64 / 1e6)
    }
}

/// The `most` most frequent words of each window, of equally frequent ones the first in the alphabet.
pub fn rolling_top<C: Chain<Item = str, Time = Timestamp>>(
    words: Stream<C>,
    size: Duration,
    slide: Duration,
    most: usize,
) -> Stream<impl Chain<Item = TopWord, Time = Timestamp> + use<C>> {
    by_time(words, EventTimeWindow::sliding(size, slide))
        // The counts of a window all have its last timestamp, and windows end a slide apart.
        .window_all(EventTimeWindow::tumbling(slide))
        // The greatest count first, and then the least word.
        .aggregate(|a| {
            a.bottom_by(most, |(word, window), (other, second)| {
                second.value.cmp(&window.value).then_with(|| word.cmp(other))
            })
        })
        .flat_map(|top| {
            (1..).zip(top.value).map(|(rank, (word, window))| TopWord {
                start: window.start,
                rank,
                word,
                count: window.value,
            })
        })
}
