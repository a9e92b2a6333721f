//! Records: what operators of a task pass to each other.

/// A kind of record, and the form it takes while a batch of it is processed.
///
/// Every sized `'static` type is a record that is passed by value. The unsized types `str` and `[T]` are records that
/// are passed by reference, and so cost neither an allocation nor a copy: a stream whose `Item` is `str` passes
/// `&str` to its closures.
///
/// An operator that must keep a borrowed record longer copies it: into a batch when it crosses an exchange, into a
/// table when its key is new.
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
    /// The record as a closure receives it, valid for `'a`.
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

/// A record that is passed by value: every sized `'static` type, and not [`str`] or `[T]`.
///
/// It stands in the bounds of operators that keep the record itself, so that the compiler can suggest what to do
/// about a borrowed one.
#[diagnostic::on_unimplemented(
    message = "records of `{Self}` are borrowed from their batch, and this operator would keep them",
    label = "needs records that are handed on by value",
    note = "for a key that is a part of the record, use `group_by_ref`, which copies nothing",
    note = "or own the records first: `map(str::to_owned)`"
)]
pub trait ByValue: Sized + 'static {}

impl<T: 'static> ByValue for T {}

/// A kind of record whose lifetime can be shortened, so that it can be passed together with a value that lives less
/// long. All of the engine's kinds are, and so may be any of your own whose `Of<'a>` holds only shared references and
/// owned values.
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
    /// The same record with a shorter lifetime.
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

/// A kind of record that can outlive its batch: a record that is passed by value is moved, and `str` and `[T]` are
/// copied.
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` are borrowed, and cannot be owned as they are",
    label = "needs values that can be owned",
    note = "make values of their own first; beside a state: `map(|_, (value, state)| …)`"
)]
pub trait Ownable: Record {
    /// The owned value of a record.
    type Value: 'static;

    /// Moves or copies the record.
    fn into_value(item: Self::Of<'_>) -> Self::Value;
}

#[diagnostic::do_not_recommend]
impl<T: 'static> Ownable for T {
    type Value = T;

    #[inline(always)]
    fn into_value(item: T) -> T {
        item
    }
}

#[diagnostic::do_not_recommend]
impl Ownable for str {
    type Value = String;

    #[inline(always)]
    fn into_value(item: &str) -> String {
        item.into()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Clone + 'static> Ownable for [T] {
    type Value = Vec<T>;

    #[inline(always)]
    fn into_value(item: &[T]) -> Vec<T> {
        item.into()
    }
}
