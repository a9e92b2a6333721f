//! Sources that decode their records, some of which may be bad.

use super::source::SplitSource;
use crate::data::Data;
use std::sync::Arc;

/// A source that decodes its records and ends the job at a bad one, unless [`dead_letters`](crate::Stream::dead_letters) is called
/// on its stream, which gives bad records a stream of their own. See the [module](super) for sources that decode nothing.
///
/// ```
/// use std::sync::Arc;
/// use thalweg::connector::{DecodingSource, Emit, ReadStatus, SplitContext, SplitReader, SplitSource};
/// use thalweg::{Environment, Error, ErrorKind, Result};
///
/// /// Numbers in words of a text; `B` is what becomes of a word.
/// struct Numbers<B>(&'static str, fn(&str) -> Result<B>);
///
/// struct Reader<B> {
///     words: Vec<&'static str>,
///     next: usize,
///     of: fn(&str) -> Result<B>,
/// }
///
/// fn number(word: &str) -> Result<u64> {
///     word.parse().map_err(|_| Error::new(ErrorKind::Input, format!("`{word}` is no number")))
/// }
///
/// impl<B: 'static> SplitSource for Numbers<B> {
///     type Item = B;
///     type Split = u64;
///     type Position = usize;
///     type Reader = Reader<B>;
/// #   fn describe(&self) -> String {
/// #       "numbers".to_owned()
/// #   }
/// #   fn is_bounded(&self) -> bool {
/// #       true
/// #   }
/// #   fn splits(&self) -> Result<Vec<u64>> {
/// #       Ok(vec![0])
/// #   }
///
///     fn open(&self, _: &u64, from: Option<usize>, _: &SplitContext) -> Result<Reader<B>> {
///         Ok(Reader { words: self.0.split(' ').collect(), next: from.unwrap_or(0), of: self.1 })
///     }
/// }
///
/// impl<B: 'static> SplitReader for Reader<B> {
///     type Item = B;
///     type Position = usize;
///
///     fn read(&mut self, out: &mut impl Emit<B>) -> Result<ReadStatus> {
///         let Some(word) = self.words.get(self.next) else { return Ok(ReadStatus::End) };
///         out.emit((self.of)(word)?);
///         self.next += 1;
///         Ok(ReadStatus::More)
///     }
///
///     fn position(&self) -> usize {
///         self.next
///     }
/// }
///
/// impl DecodingSource for Numbers<u64> {
///     type Value = u64;
///     type Bad = String;
///     type Diverting = Numbers<std::result::Result<u64, String>>;
///
///     fn diverting(self: Arc<Self>) -> Self::Diverting {
///         Numbers(self.0, |word| Ok(number(word).map_err(|_| word.to_owned())))
///     }
/// }
///
/// let env = Environment::new();
/// let (numbers, bad) = env.read(Numbers("1 2 many 4", number)).dead_letters();
/// let (numbers, bad) = (numbers.collect::<Vec<_>>(), bad.collect::<Vec<_>>());
/// env.run()?;
/// assert_eq!((numbers.take()?, bad.take()?), (vec![1, 2, 4], vec!["many".to_owned()]));
///
/// // Without it, the job ends.
/// env.read(Numbers("1 2 many 4", number)).for_each(|_| ());
/// assert_eq!(env.run().unwrap_err().message(), "`many` is no number");
/// # Ok::<(), Error>(())
/// ```
pub trait DecodingSource: SplitSource<Item = Self::Value> {
    /// What records are decoded to.
    type Value: 'static;
    /// What the stream of bad records has of one: the record as it was read, its place and what is wrong with it.
    type Bad: Data;
    /// The same source, which emits bad records instead of ending the job.
    type Diverting: SplitSource<Item = Result<Self::Value, Self::Bad>>;

    /// Makes a source of the same splits and positions that emits bad records. Called before the job starts.
    fn diverting(self: Arc<Self>) -> Self::Diverting;
}
