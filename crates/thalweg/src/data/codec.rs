//! The encoding of values that cross to another task, another process, or a disk.

use super::hash::{hash_bytes, hash_u64, mix};
use super::schema::{Evolution, Field, Schema};
use super::{Batch, BytesBatch, Record, TextBatch};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::sync::Arc;
use std::time::Duration;

/// An owned value that can cross an exchange, be kept as state, and be written to disk.
///
/// Derive it: `#[derive(Data)]` supports structs and enums whose fields are `Data`. The encoding is canonical: equal
/// values encode to equal bytes, integers little-endian at their own width, lengths as LEB128, enum variants by index
/// as LEB128. Maps and sets are encoded in the order of their encoded keys. Floats are encoded bit by bit, so that
/// decoding restores them exactly. They are the one exception: `0.0` and `-0.0` are equal and have different
/// encodings (but the same hash).
///
/// `usize` and `isize` are encoded as 64 bits, so that hosts of different widths agree.
///
/// A state that is in a checkpoint outlives the program that has saved it. Where the next version of a program has another type,
/// `#[data(alias = "name")]` on a field, a variant or a type gives the name that it had, and `#[data(default)]` or
/// `#[data(default = expression)]` on a field the value for those that were saved without it. The book's page on checkpoints lists
/// what may change so, and what is refused.
///
/// Decoding never panics and never allocates more than a small multiple of its input, whatever the input. To
/// guarantee this, it refuses values nested more than 256 deep (a list of boxes of lists ...), and lists of more than
/// 65,536 elements that take no bytes.
///
/// ```
/// use thalweg::Data;
///
/// #[derive(Data, PartialEq, Debug)]
/// enum Event {
///     Click { page: String },
///     Tick(u16),
/// }
///
/// let mut bytes = Vec::new();
/// Event::Tick(258).encode(&mut bytes);
/// assert_eq!(bytes, [1, 2, 1]);
/// assert_eq!(Event::decode(&mut bytes.as_slice())?, Event::Tick(258));
/// # Ok::<(), thalweg::data::DecodeError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross an exchange or be kept as state",
    label = "this type does not implement `Data`",
    note = "for a type of your own, add `#[derive(thalweg::Data)]`",
    note = "of borrowed text make a `String` with `to_owned`, or hand it on with `flat_map_str` or \
            `flat_each`, which copy nothing",
    note = "of records by reference (`ByRef`) or beside a state (`Beside`), make records of their own by `map` first"
)]
pub trait Data: Sized + Send + 'static {
    /// Appends the canonical encoding of `self`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes one value from the front of `input`, and advances `input` past it.
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError>;

    /// The hash that routes equal values to the same task: versioned ([`super::HASH_VERSION`]), over the value's
    /// structure, and independent of `std::hash::Hash`, which may change.
    fn key_hash(&self) -> u64;

    /// The structure of the encoding.
    fn schema() -> Schema;

    /// The bytes that this value owns on the heap, in addition to `size_of::<Self>()`; an estimate is enough.
    ///
    /// What is in an [`Arc`](std::sync::Arc) counts for each holder, and for the one state of a task, as that of `scan`, in equal
    /// parts for each: tasks may share it.
    fn heap_size(&self) -> usize {
        0
    }

    /// Converts an integer of at most 64 bits into a word that no other value of its type has; `None` for other types.
    /// A table of few keys finds such keys without their hash.
    #[doc(hidden)]
    const WORD: Option<fn(&Self) -> u64> = None;

    // These make a list of bytes a byte string, and a list of integers a copy, without specialisation.

    /// Encodes the elements of a list, without its length.
    #[doc(hidden)]
    fn encode_slice(items: &[Self], out: &mut Vec<u8>) {
        for item in items {
            item.encode(out);
        }
    }

    /// Decodes `len` elements and appends them; if there is an error, perhaps only some of them.
    #[doc(hidden)]
    fn extend_list(input: &mut &[u8], len: usize, to: &mut Vec<Self>) -> Result<(), DecodeError> {
        extend_each(input, len, to)
    }

    /// Decodes `len` elements.
    #[doc(hidden)]
    fn decode_list(input: &mut &[u8], len: usize) -> Result<Vec<Self>, DecodeError> {
        let mut all = Vec::new();
        Self::extend_list(input, len, &mut all)?;
        Ok(all)
    }

    /// Hashes a list that is stored in two pieces.
    #[doc(hidden)]
    fn hash_list(front: &[Self], back: &[Self]) -> u64 {
        let start = hash_u64((front.len() + back.len()) as u64);
        front.iter().chain(back).fold(start, |hash, item| mix(hash, item.key_hash()))
    }

    /// The schema of a list of such values.
    #[doc(hidden)]
    fn list_schema() -> Schema {
        Schema::List(Box::new(Self::schema()))
    }
}

/// A record that can cross an exchange: there is a [`Batch`] for it.
///
/// Implemented for every [`Data`] type, and for `str` and `[u8]`.
#[diagnostic::on_unimplemented(
    message = "records of `{Self}` cannot cross an exchange or be collected",
    label = "this operator needs records that can leave their task",
    note = "for a type of your own, add `#[derive(thalweg::Data)]`",
    note = "of records beside a state (`Beside`), make records of their own by `map` first"
)]
pub trait Portable: Record {
    /// How batches store such records.
    #[doc(hidden)]
    type Batch: Batch<Self>;
    /// The owned value of a record, once it leaves its batch.
    type Owned: Data;

    /// Turns a record into its owned value.
    fn to_owned(item: Self::Of<'_>) -> Self::Owned;
}

/// A portable record with an encoding of its own, that can be written to disk one by one.
pub trait Wire: Portable {
    /// Appends the canonical encoding of one record.
    fn encode(item: &Self::Of<'_>, out: &mut Vec<u8>);

    /// Decodes one record from the front of `input`, borrowing from it where the record can.
    fn decode<'a>(input: &mut &'a [u8]) -> Result<Self::Of<'a>, DecodeError>;
}

impl<T: Data> Portable for T {
    type Batch = Vec<T>;
    type Owned = T;

    #[inline]
    fn to_owned(item: T) -> T {
        item
    }
}

impl<T: Data> Wire for T {
    #[inline]
    fn encode(item: &T, out: &mut Vec<u8>) {
        Data::encode(item, out);
    }

    #[inline]
    fn decode(input: &mut &[u8]) -> Result<T, DecodeError> {
        <T as Data>::decode(input)
    }
}

impl Portable for str {
    type Batch = TextBatch;
    type Owned = String;

    #[inline]
    fn to_owned(item: &str) -> String {
        item.into()
    }
}

impl Wire for str {
    #[inline]
    fn encode(item: &&str, out: &mut Vec<u8>) {
        encode_bytes(item.as_bytes(), out);
    }

    #[inline]
    fn decode<'a>(input: &mut &'a [u8]) -> Result<&'a str, DecodeError> {
        decode_str(input)
    }
}

impl Portable for [u8] {
    type Batch = BytesBatch;
    type Owned = Vec<u8>;

    #[inline]
    fn to_owned(item: &[u8]) -> Vec<u8> {
        item.into()
    }
}

impl Wire for [u8] {
    #[inline]
    fn encode(item: &&[u8], out: &mut Vec<u8>) {
        encode_bytes(item, out);
    }

    #[inline]
    fn decode<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
        decode_bytes(input)
    }
}

/// The reason why bytes are not the encoding of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(Reason);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Ended { needed: usize, left: usize },
    Invalid(&'static str),
    Variant { name: &'static str, index: u64 },
    Deep,
}

impl DecodeError {
    /// The input ended before the value did.
    #[cold]
    pub fn ended(needed: usize, left: usize) -> Self {
        Self(Reason::Ended { needed, left })
    }

    /// The bytes are not a value of the type; `what` completes "the bytes are not".
    #[cold]
    pub fn invalid(what: &'static str) -> Self {
        Self(Reason::Invalid(what))
    }

    /// The enum `name` has no variant of this index.
    #[cold]
    pub fn variant(name: &'static str, index: u64) -> Self {
        Self(Reason::Variant { name, index })
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Ended { needed, left } => {
                write!(f, "the bytes end too early: {needed} are needed, {left} are left")
            }
            Reason::Invalid(what) => write!(f, "the bytes are not {what}"),
            Reason::Variant { name, index } => write!(f, "{name} has no variant {index}"),
            Reason::Deep => write!(f, "the value is nested more than {MAX_DEPTH} deep"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Decodes a value by `read`, which must read all of the bytes.
pub(crate) fn decode_whole<'a, T>(
    mut bytes: &'a [u8],
    read: impl FnOnce(&mut &'a [u8]) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let value = read(&mut bytes)?;
    if bytes.is_empty() { Ok(value) } else { Err(DecodeError::invalid("read to their end")) }
}

/// Functions that the code generated by `#[derive(Data)]` calls. Not for use by hand.
pub mod derive_support {
    use super::*;
    pub use super::{Data, DecodeError, read_varint, write_varint};
    pub use crate::data::schema::{Evolution, Field, Schema};
    use std::any::TypeId;

    pub use crate::data::hash::{hash_u64, mix};
    pub use crate::data::{Batch, Portable, Record, ViewOf, Viewable, Wire};

    /// Builds a type's schema, or refers to the type by its name if its schema is being built already.
    pub fn named_schema<T: 'static>(name: &str, build: impl FnOnce() -> Schema) -> Schema {
        thread_local!(static OPEN: RefCell<Vec<TypeId>> = const { RefCell::new(Vec::new()) });
        struct Close;
        impl Drop for Close {
            fn drop(&mut self) {
                OPEN.with_borrow_mut(|open| open.pop());
            }
        }
        let id = TypeId::of::<T>();
        if OPEN.with_borrow(|open| open.contains(&id)) {
            return Schema::Recursive(name.into());
        }
        OPEN.with_borrow_mut(|open| open.push(id));
        let _close = Close;
        build()
    }
}

/// How deeply values may nest when they are decoded: malicious input must not exhaust the stack.
const MAX_DEPTH: u32 = 256;

/// How many elements a list may have that take no bytes: the length of the input does not limit them.
pub(super) const MAX_EMPTY: usize = 1 << 16;

/// One level of nesting, left when dropped.
pub(super) struct Level;

thread_local!(static DEPTH: Cell<u32> = const { Cell::new(0) });

impl Level {
    pub(super) fn enter() -> Result<Self, DecodeError> {
        let depth = DEPTH.get();
        if depth == MAX_DEPTH {
            return Err(DecodeError(Reason::Deep));
        }
        DEPTH.set(depth + 1);
        Ok(Self)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Appends a number as LEB128: seven bits a byte, the lowest first.
#[inline]
pub fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Decodes a LEB128 number from the front of the input; refuses all but its shortest form.
#[inline]
pub fn read_varint(input: &mut &[u8]) -> Result<u64, DecodeError> {
    match input.split_first() {
        Some((&byte, rest)) if byte < 0x80 => {
            *input = rest;
            Ok(u64::from(byte))
        }
        _ => read_long_varint(input),
    }
}

fn read_long_varint(input: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut value = 0;
    for (at, &byte) in input.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if at == 9 && byte > 1 {
            return Err(DecodeError::invalid("a length or index below 2^64"));
        }
        value |= bits << (7 * at);
        if byte < 0x80 {
            if byte == 0 && at > 0 {
                return Err(DecodeError::invalid("a length or index in its shortest form"));
            }
            *input = &input[at + 1..];
            return Ok(value);
        }
    }
    Err(DecodeError::ended(input.len() + 1, input.len()))
}

#[inline]
pub(super) fn read_len(input: &mut &[u8]) -> Result<usize, DecodeError> {
    usize::try_from(read_varint(input)?)
        .map_err(|_| DecodeError::invalid("a length that this machine can address"))
}

#[inline]
pub(super) fn take<'a>(input: &mut &'a [u8], len: usize) -> Result<&'a [u8], DecodeError> {
    let Some((taken, rest)) = input.split_at_checked(len) else {
        return Err(DecodeError::ended(len, input.len()));
    };
    *input = rest;
    Ok(taken)
}

#[inline]
fn take_array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    let Some((taken, rest)) = input.split_first_chunk() else {
        return Err(DecodeError::ended(N, input.len()));
    };
    *input = rest;
    Ok(*taken)
}

#[inline]
pub(super) fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[inline]
fn decode_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let len = read_len(input)?;
    take(input, len)
}

#[inline]
fn decode_str<'a>(input: &mut &'a [u8]) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(decode_bytes(input)?).map_err(|_| DecodeError::invalid("UTF-8"))
}

/// Decodes a list one element at a time: the default.
fn extend_each<T: Data>(input: &mut &[u8], len: usize, to: &mut Vec<T>) -> Result<(), DecodeError> {
    // Only types that own heap memory can contain themselves.
    let _level = if needs_drop::<T>() { Some(Level::enter()?) } else { None };
    // Exactly, since a list in a state stays as long as its key.
    let first = first_capacity::<T>(input, len);
    if to.is_empty() {
        to.reserve_exact(first)
    } else {
        to.reserve(first)
    }
    for at in 0..len {
        let before = input.len();
        to.push(T::decode(input)?);
        check_progress(before, input.len(), at)?;
    }
    Ok(())
}

/// Decodes a list from the front of `input`, and appends its elements to a vector, whose memory is used again; if there is an
/// error, perhaps only some of them.
#[inline]
pub(crate) fn extend_from<T: Data>(input: &mut &[u8], to: &mut Vec<T>) -> Result<(), DecodeError> {
    let len = read_len(input)?;
    T::extend_list(input, len, to)
}

/// Encodes the elements of a list, of `WIDTH` bytes each.
pub(crate) fn encode_words<T, const WIDTH: usize>(
    items: &[T],
    out: &mut Vec<u8>,
    to_bytes: impl Fn(&T) -> [u8; WIDTH],
) {
    out.reserve(items.len() * WIDTH);
    // By way of the stack, which costs less than filling the vector with zeros before.
    for items in items.chunks(64) {
        let mut all = [[0; WIDTH]; 64];
        for (bytes, item) in all.iter_mut().zip(items) {
            *bytes = to_bytes(item);
        }
        out.extend_from_slice(all[..items.len()].as_flattened());
    }
}

/// Decodes `len` elements of `WIDTH` bytes each and appends them.
pub(crate) fn extend_words<T, const WIDTH: usize>(
    input: &mut &[u8],
    len: usize,
    to: &mut Vec<T>,
    from_bytes: impl Fn([u8; WIDTH]) -> T,
) -> Result<(), DecodeError> {
    let bytes = take(input, len.saturating_mul(WIDTH))?;
    let (values, _) = bytes.as_chunks::<WIDTH>();
    to.extend(values.iter().map(|value| from_bytes(*value)));
    Ok(())
}

/// The capacity to allocate at once for `len` elements that the input claims to hold.
fn first_capacity<T>(input: &[u8], len: usize) -> usize {
    len.min(4 * input.len() / size_of::<T>().max(1) + 1)
}

fn check_progress(before: usize, after: usize, at: usize) -> Result<(), DecodeError> {
    if before == after && at >= MAX_EMPTY && !OURS.get() { Err(too_many_empty()) } else { Ok(()) }
}

thread_local!(static OURS: Cell<bool> = const { Cell::new(false) });

/// Decodes bytes that the engine has encoded, and that nobody has altered: lists may have any number of elements that take no
/// bytes.
pub(crate) fn of_ours<R>(decode: impl FnOnce() -> R) -> R {
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            OURS.set(self.0);
        }
    }

    let _before = Before(OURS.replace(true));
    decode()
}

#[cold]
fn too_many_empty() -> DecodeError {
    DecodeError::invalid("a list of at most 2^16 elements without bytes")
}

/// The bytes that elements own on the heap; constant time when they cannot own any.
#[inline]
pub(super) fn list_heap<'a, T: Data>(items: impl IntoIterator<Item = &'a T>) -> usize {
    if needs_drop::<T>() { items.into_iter().map(T::heap_size).sum() } else { 0 }
}

thread_local!(static DIVIDES: Cell<bool> = const { Cell::new(false) });

/// Measures a value, of which what is shared counts in equal parts for each holder. Not to be used where a part is measured again when
/// it is removed: by then it may have other holders.
pub(crate) fn divide_shared(measure: impl FnOnce() -> usize) -> usize {
    struct Restored(bool);

    impl Drop for Restored {
        fn drop(&mut self) {
            DIVIDES.set(self.0);
        }
    }

    let _restored = Restored(DIVIDES.replace(true));
    measure()
}

/// What counts for this holder of a shared value of so many bytes: all of it, unless [shared values are divided](divide_shared).
fn shared<T: ?Sized>(value: &Arc<T>, bytes: usize) -> usize {
    if DIVIDES.get() { bytes / Arc::strong_count(value).max(1) } else { bytes }
}

mod values;

#[cfg(test)]
mod tests;
