//! How the word counts of the peers split text, and the map that those written by hand count in.
//!
//! Words are runs of letters in lower case (with the engine's own visitor, so that all contestants have its vector
//! instructions), or what a closure of the standard library splits.

use bench_protocol::digest::Digest;
use bench_protocol::{Answer, Request, Result};
use rustc_hash::FxHashMap;
use thalweg::Visit;
use thalweg::text::{LowercaseWords, Words};

/// Counts by word, with a fast hash.
pub type Counts = FxHashMap<String, u64>;

/// Counts one occurrence of a word, of which only a new one is copied.
#[inline]
pub fn count(counts: &mut Counts, word: &str) {
    match counts.get_mut(word) {
        Some(count) => *count += 1,
        None => drop(counts.insert(word.to_owned(), 1)),
    }
}

/// Adds counts to others.
pub fn merge(all: &mut Counts, mut other: Counts) {
    if other.len() > all.len() {
        std::mem::swap(all, &mut other);
    }
    // Both maps hash alike: without room for all, the keys of one would crowd one end of the other.
    all.reserve(other.len());
    for (word, count) in other {
        *all.entry(word).or_default() += count;
    }
}

/// A way to split text into words.
pub trait Split: Copy + Send + Sync + 'static {
    /// Calls `each` with every word of some lines. `scratch` is space for a copy.
    fn each(self, lines: &str, scratch: &mut String, each: &mut impl FnMut(&str));

    /// Calls `each` with every word of a line that may be changed.
    #[inline(always)]
    fn each_in_place(self, line: String, each: &mut impl FnMut(&str)) {
        self.each(&line, &mut String::new(), each);
    }
}

/// Runs of `[A-Za-z]`, lower-cased.
#[derive(Clone, Copy, Debug)]
pub struct Letters;

impl Split for Letters {
    #[inline(always)]
    fn each(self, lines: &str, scratch: &mut String, each: &mut impl FnMut(&str)) {
        LowercaseWords.visit(lines, scratch, each);
    }

    #[inline(always)]
    fn each_in_place(self, mut line: String, each: &mut impl FnMut(&str)) {
        line.make_ascii_lowercase();
        Words.visit(&line, &mut (), each);
    }
}

/// What is between white space of ASCII, as it is.
#[derive(Clone, Copy, Debug)]
pub struct Whitespace;

impl Split for Whitespace {
    #[inline(always)]
    fn each(self, lines: &str, _: &mut String, each: &mut impl FnMut(&str)) {
        lines.split_ascii_whitespace().for_each(each);
    }
}

/// Runs of letters and digits of Unicode, as they are.
#[derive(Clone, Copy, Debug)]
pub struct Alphanumeric;

impl Split for Alphanumeric {
    #[inline(always)]
    fn each(self, lines: &str, _: &mut String, each: &mut impl FnMut(&str)) {
        let words = lines.split(|c: char| !c.is_alphanumeric());
        words.filter(|word| !word.is_empty()).for_each(each);
    }
}

/// The words of one line, each copied.
#[inline]
pub fn owned(split: impl Split, line: String) -> Vec<String> {
    let mut words = Vec::new();
    split.each_in_place(line, &mut |word| words.push(word.to_owned()));
    words
}

/// Where a piece of about `size` bytes that begins at `from` ends: behind a line, or with the text.
pub fn line_end(text: &[u8], from: usize, size: usize) -> usize {
    let rest = text.get(from + size..).unwrap_or_default();
    let line = rest.iter().position(|byte| *byte == b'\n');
    line.map_or(text.len(), |line| from + size + line + 1)
}

/// What is done with the [`Split`] that a request names: a closure cannot be generic.
pub trait WithSplit {
    /// Does it.
    ///
    /// # Errors
    /// The work's own.
    fn run(self, split: impl Split) -> Result<()>;
}

/// Runs work with the way to split of `--words letters|whitespace|alphanumeric`, by default letters.
///
/// # Errors
/// When there is no such way, and the work's own.
pub fn with_split(request: &Request, work: impl WithSplit) -> Result<()> {
    match request.get("words").unwrap_or("letters") {
        "letters" => work.run(Letters),
        "whitespace" => work.run(Whitespace),
        "alphanumeric" => work.run(Alphanumeric),
        other => {
            Err(format!("there are no words {other:?}: letters, whitespace, alphanumeric").into())
        }
    }
}

/// A round's report.
pub fn answer<'a>(rows: impl Iterator<Item = (&'a str, u64)>, bytes: u64) -> Answer {
    let (mut digest, mut records) = (Digest::default(), 0);
    for (word, count) in rows {
        digest.add(word.as_bytes(), count);
        records += count;
    }
    Answer { digest, records, bytes, ..Answer::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_splits_as_it_says() {
        fn check<const N: usize>(split: impl Split, expected: [&str; N]) {
            let line = "Don't panic, Zoë 42\tis_here";
            let mut words = Vec::new();
            split.each(line, &mut String::new(), &mut |word| words.push(word.to_owned()));
            assert_eq!(words, expected);
            assert_eq!(owned(split, line.to_owned()), expected);
        }
        check(Letters, ["don", "t", "panic", "zo", "is", "here"]);
        check(Whitespace, ["Don't", "panic,", "Zoë", "42", "is_here"]);
        check(Alphanumeric, ["Don", "t", "panic", "Zoë", "42", "is", "here"]);
    }

    #[test]
    fn pieces_end_with_lines() {
        let text = b"one\ntwo\nthree";
        assert_eq!(line_end(text, 0, 1), 4);
        assert_eq!(line_end(text, 4, 3), 8);
        assert_eq!(line_end(text, 8, 1), text.len());
        assert_eq!(line_end(text, 8, 100), text.len());
    }

    #[test]
    fn merged_counts_are_sums() {
        let counts = |words: &[&str]| {
            let mut counts = Counts::default();
            words.iter().for_each(|word| count(&mut counts, word));
            counts
        };
        let mut all = counts(&["a"]);
        merge(&mut all, counts(&["b", "a", "c", "b"]));
        assert_eq!(all, counts(&["a", "a", "b", "b", "c"]));
    }
}
