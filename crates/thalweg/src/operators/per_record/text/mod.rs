//! Visitors for lines of text, for [`flat_each`](crate::Stream::flat_each).
//!
//! Every part is emitted by reference; there is no allocation per line or word.
//!
//! | visitor | parts of `"Don't panic,  Zoë!"` |
//! |---|---|
//! | [`Words`] | `Don` `t` `panic` `Zo` |
//! | [`LowercaseWords`] | `don` `t` `panic` `zo` |
//! | [`Whitespace`] | `Don't` `panic,` `Zoë!` |
//! | [`Split`]`(',')` | `Don't panic` `  Zoë!` |

mod find;
mod runs;
#[cfg(target_arch = "x86_64")]
mod simd;

pub(crate) use find::find64;

use super::flat_each::Visit;
use runs::each_run;

/// The maximal runs of the letters `A-Z` and `a-z`.
///
/// Searches for letters in 64 bytes at a time. All other characters separate words, letters beyond ASCII
/// included; for those see [`Whitespace`].
///
/// ```
/// use thalweg::{Visit, text::Words};
///
/// let mut words = Vec::new();
/// Words.visit("Don't panic", &mut (), &mut |word: &str| words.push(word.to_owned()));
/// assert_eq!(words, ["Don", "t", "panic"]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Words;

impl Visit<str> for Words {
    type Out = str;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, line: &str, (): &mut (), emit: &mut impl FnMut(&str)) {
        each_run(line.as_bytes(), |from, to| emit(&line[from..to]));
    }
}

/// The maximal runs of the letters `A-Z` and `a-z`, in lower case.
///
/// The line is copied and lower-cased as a whole, in scratch space of the task, which is faster than word by
/// word; the words are slices of the copy.
///
/// ```
/// use thalweg::{Visit, text::LowercaseWords};
///
/// let mut words = Vec::new();
/// let mut scratch = String::new();
/// LowercaseWords.visit("Don't PANIC", &mut scratch, &mut |word: &str| words.push(word.to_owned()));
/// assert_eq!(words, ["don", "t", "panic"]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LowercaseWords;

impl Visit<str> for LowercaseWords {
    type Out = str;
    type Scratch = String;

    #[inline(always)]
    fn visit(&self, line: &str, scratch: &mut String, emit: &mut impl FnMut(&str)) {
        scratch.clear();
        scratch.push_str(line);
        scratch.make_ascii_lowercase();
        let line = scratch.as_str();
        each_run(line.as_bytes(), |from, to| emit(&line[from..to]));
    }
}

/// The parts between white space, as Unicode defines it: [`str::split_whitespace`].
///
/// ```
/// use thalweg::{Visit, text::Whitespace};
///
/// let mut words = Vec::new();
/// Whitespace.visit(" Zoë's\tboat ", &mut (), &mut |word: &str| words.push(word.to_owned()));
/// assert_eq!(words, ["Zoë's", "boat"]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Whitespace;

impl Visit<str> for Whitespace {
    type Out = str;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, line: &str, (): &mut (), emit: &mut impl FnMut(&str)) {
        line.split_whitespace().for_each(emit);
    }
}

/// The parts between two occurrences of a character, empty parts included: [`str::split`].
///
/// Does not support quotes; for CSV there is a source of its own.
///
/// ```
/// use thalweg::{Visit, text::Split};
///
/// let mut fields = Vec::new();
/// Split('|').visit("a||b", &mut (), &mut |field: &str| fields.push(field.to_owned()));
/// assert_eq!(fields, ["a", "", "b"]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Split(pub char);

impl Visit<str> for Split {
    type Out = str;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, line: &str, (): &mut (), emit: &mut impl FnMut(&str)) {
        line.split(self.0).for_each(emit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts<V: Visit<str, Out = str>>(
        visitor: &V,
        scratch: &mut V::Scratch,
        line: &str,
    ) -> Vec<String> {
        let mut parts = Vec::new();
        visitor.visit(line, scratch, &mut |part: &str| parts.push(part.to_owned()));
        parts
    }

    fn letters(line: &str) -> Vec<String> {
        line.split(|c: char| !c.is_ascii_alphabetic())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }

    proptest! {
        // Generating such text takes minutes under miri.
        #[cfg_attr(miri, ignore)]
        #[test]
        fn words_are_runs_of_letters(lines in proptest::collection::vec("[a-cX-Zé@`\\[{ ]{0,200}", 1..4)) {
            // One scratch for all lines, as in a task.
            let mut scratch = String::new();
            for line in &lines {
                let words = letters(line);
                prop_assert_eq!(&parts(&Words, &mut (), line), &words);
                let lower: Vec<String> =
                    words.iter().map(|word| word.to_ascii_lowercase()).collect();
                prop_assert_eq!(parts(&LowercaseWords, &mut scratch, line), lower);
            }
        }
    }

    #[test]
    fn every_byte_is_classified() {
        for code in (0..=0x2ff_u32).step_by(if cfg!(miri) { 31 } else { 1 }) {
            let c = char::from_u32(code).unwrap();
            let line = format!("a{c}b");
            assert_eq!(parts(&Words, &mut (), &line), letters(&line), "{c:?}");
        }
    }

    #[test]
    fn the_others_split_as_the_standard_library_does() {
        let line = "Don't panic,  Zoë!\u{2003}x";
        assert_eq!(parts(&Whitespace, &mut (), line), ["Don't", "panic,", "Zoë!", "x"]);
        assert_eq!(parts(&Split('ë'), &mut (), line), ["Don't panic,  Zo", "!\u{2003}x"]);
        assert_eq!(parts(&Split(','), &mut (), ""), [""]);
    }
}
