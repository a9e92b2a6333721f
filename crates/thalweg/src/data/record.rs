//! What one task hands from operator to operator.

/// A kind of record, and the form it takes while a batch of it is being worked through.
///
/// Every sized `'static` type is a record that is handed on by value. The unsized types `str` and
/// `[T]` are records that are handed on by reference, and so cost neither an allocation nor a copy:
/// a stream whose `Item` is `str` gives its closures `&str`.
///
/// An operator that must keep a borrowed record longer copies it, into a batch when it crosses an
/// exchange, into a table when its key is new.
///
/// ```
/// use thalweg::data::Record;
///
/// fn length(line: <str as Record>::Of<'_>) -> usize {
///     line.len()
/// }
/// assert_eq!(length("thalweg"), 7);
/// ```
pub trait Record: 'static {
    /// The record as a closure sees it, valid for `'a`.
    type Of<'a>;
}

impl<T: 'static> Record for T {
    type Of<'a> = T;
}

impl Record for str {
    type Of<'a> = &'a str;
}

impl<T: 'static> Record for [T] {
    type Of<'a> = &'a [T];
}

/// A record that is handed on by value: every sized `'static` type, and not [`str`] or `[T]`.
///
/// It stands in the bounds of operators that keep the record itself, so that the compiler can say
/// what to do about one that is borrowed.
#[diagnostic::on_unimplemented(
    message = "records of `{Self}` are borrowed from their batch, and this operator would keep them",
    label = "needs records that are handed on by value",
    note = "for a key that is a part of the record, use `group_by_ref`, which copies nothing",
    note = "or own the records first: `map(str::to_owned)`"
)]
pub trait ByValue: Sized + 'static {}

impl<T: 'static> ByValue for T {}

/// A kind of record that may be handed on together with what lives shorter than it: all that the engine has, and any
/// of your own whose `Of<'a>` holds nothing but shared references and owned values.
///
/// ```
/// use thalweg::data::{Covariant, Record};
///
/// struct Pairs {
///     _unsized: [()],
/// }
///
/// impl Record for Pairs {
///     type Of<'a> = (&'a str, u32);
/// }
///
/// impl Covariant for Pairs {
///     fn shorten<'short, 'long: 'short>(item: (&'long str, u32)) -> (&'short str, u32) {
///         item
///     }
/// }
/// assert_eq!(Pairs::shorten(("a", 1)), ("a", 1));
/// ```
pub trait Covariant: Record {
    /// The same record, for a shorter time.
    fn shorten<'short, 'long: 'short>(item: Self::Of<'long>) -> Self::Of<'short>;
}

impl<T: 'static> Covariant for T {
    #[inline(always)]
    fn shorten<'short, 'long: 'short>(item: T) -> T {
        item
    }
}

impl Covariant for str {
    #[inline(always)]
    fn shorten<'short, 'long: 'short>(item: &'long str) -> &'short str {
        item
    }
}

impl<T: 'static> Covariant for [T] {
    #[inline(always)]
    fn shorten<'short, 'long: 'short>(item: &'long [T]) -> &'short [T] {
        item
    }
}
