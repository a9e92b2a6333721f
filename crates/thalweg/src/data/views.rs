//! Structs with strings as records that borrow them.

use super::{Batch, Covariant, Data, DecodeError, Ownable, Portable, Record, Wire};
use std::marker::PhantomData;

/// A struct with strings, whose records can be passed as views that borrow them: see [`ViewOf`].
///
/// Implemented by `#[derive(Data)]` for structs that have a field of type `String` or `Vec<u8>`. The view is a struct with
/// the same fields, in which those are a `&str` or a `&[u8]`; all others are held by value. If those are numbers, `bool`
/// or `char`, the view is `Copy`, `Debug` and `PartialEq`. [`View`] names it.
#[diagnostic::on_unimplemented(
    message = "there is no view of `{Self}`",
    label = "not a struct with strings that derives `Data`",
    note = "`#[derive(thalweg::Data)]` makes views of structs that have a field of type `String` or `Vec<u8>`"
)]
pub trait Viewable: Data {
    /// The record with its strings borrowed.
    type View<'a>;
    /// How batches store views: by column.
    #[doc(hidden)]
    type Batch: Batch<ViewOf<Self>>;

    /// Calls a closure with a view of this record, into which the fields that are not borrowed are moved.
    fn with_view<R>(self, take: impl FnOnce(Self::View<'_>) -> R) -> R;

    /// The record of a view, with copies of what the view borrows.
    fn from_view(view: Self::View<'_>) -> Self;

    #[doc(hidden)]
    fn shorten<'short, 'long: 'short>(view: Self::View<'long>) -> Self::View<'short>;

    /// Appends the encoding of the record.
    #[doc(hidden)]
    fn encode_view(view: &Self::View<'_>, out: &mut Vec<u8>);

    /// Decodes a record, and borrows its strings from the input.
    #[doc(hidden)]
    fn decode_view<'a>(input: &mut &'a [u8]) -> Result<Self::View<'a>, DecodeError>;
}

/// The view of a `T`: a struct with the same fields, in which strings are borrowed.
///
/// Where all types are known, it also names the struct in an expression or pattern: `View::<Page> { url, visits }`.
pub type View<'a, T> = <T as Viewable>::View<'a>;

/// A kind of record: a `T` whose strings are borrowed; a closure receives its [`View`].
///
/// In an exchange such records are stored by column, the strings of a field one after the other. Nothing is allocated or
/// released for a record, neither in the task that sends it nor in the one that receives it, which is most of the cost of
/// a record with strings: three strings of 170 bytes in all cross an exchange in a tenth of the time as views. Use it where
/// records with strings are sent, and looked at rather than kept.
///
/// [`views`](crate::Stream::views) makes views of records that own their strings. A [visitor](crate::Visit) emits views
/// without making such records first. `map(T::from_view)` makes records that own their strings again, as all sinks do
/// that collect records.
///
/// ```
/// use thalweg::data::{View, ViewOf};
/// use thalweg::{Data, Environment, Visit};
///
/// #[derive(Data)]
/// struct Visits {
///     page: String,
///     seconds: u64,
/// }
///
/// /// Reads lines such as `/index 12`.
/// struct Parse;
///
/// impl Visit<str> for Parse {
///     type Out = ViewOf<Visits>;
///     type Scratch = ();
///
///     fn visit(&self, line: &str, (): &mut (), emit: &mut impl FnMut(View<'_, Visits>)) {
///         if let Some((page, seconds)) = line.split_once(' ') {
///             emit(View::<Visits> { page, seconds: seconds.parse().unwrap_or(0) });
///         }
///     }
/// }
///
/// let env = Environment::new();
/// let lines = env.iter(["/index 12", "/about 3", "/index 5"]).flat_map_str(|line, out| out.push(line));
/// let visits = lines.flat_each(Parse).shuffle();
/// let seconds = visits.group_by_ref(|visit| visit.page).sum(|visit| visit.seconds).collect::<Vec<_>>();
/// env.run()?;
/// let mut seconds = seconds.take()?;
/// seconds.sort();
/// assert_eq!(seconds, [("/about".to_owned(), 3), ("/index".to_owned(), 17)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct ViewOf<T> {
    kind: PhantomData<fn() -> T>,
    /// Makes the type unsized, so that it is not a record that is passed by value.
    _unsized: [()],
}

impl<T: Viewable> Record for ViewOf<T> {
    type Of<'a> = T::View<'a>;
}

impl<T: Viewable> Covariant for ViewOf<T> {
    #[inline(always)]
    fn shorten<'short, 'long: 'short>(view: T::View<'long>) -> T::View<'short> {
        T::shorten(view)
    }
}

impl<T: Viewable> Ownable for ViewOf<T> {
    type Value = T;

    #[inline]
    fn into_value(view: T::View<'_>) -> T {
        T::from_view(view)
    }
}

impl<T: Viewable> Portable for ViewOf<T> {
    type Batch = T::Batch;
    type Owned = T;

    #[inline]
    fn to_owned(view: T::View<'_>) -> T {
        T::from_view(view)
    }
}

impl<T: Viewable> Wire for ViewOf<T> {
    #[inline]
    fn encode(view: &T::View<'_>, out: &mut Vec<u8>) {
        T::encode_view(view, out);
    }

    #[inline]
    fn decode<'a>(input: &mut &'a [u8]) -> Result<T::View<'a>, DecodeError> {
        T::decode_view(input)
    }
}
