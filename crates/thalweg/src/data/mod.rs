//! Records, the values that can leave their task, and keys.
//!
//! Three traits, each with more requirements than the one before:
//!
//! * [`Record`] is anything that an operator can pass to the next one in the same task. Every `'static` type is one;
//!   so are the borrowed [`str`] and `[T]`, whose records live no longer than the batch they were read from.
//! * [`Portable`] records can cross an exchange, because they can be stored in a batch and removed from it again.
//!   Every [`Data`] type is portable; so are `str` and `[u8]`.
//! * [`Key`] is what a portable record must implement to be grouped by.
//!
//! This layer knows nothing of tasks, threads or files.

mod batch;
mod codec;
mod drain;
mod evolve;
mod hash;
mod key;
mod labelled;
mod ordered;
mod random;
mod record;
mod schema;
mod short;
mod shown;
mod views;

#[doc(hidden)]
pub use batch::{Batch, BytesBatch, TextBatch};
pub use codec::derive_support;
pub use codec::{Data, DecodeError, Portable, Wire};
#[doc(hidden)]
pub(crate) use codec::{
    decode_whole, divide_shared, encode_words, extend_from, extend_words, of_ours,
};
pub(crate) use evolve::Migration;
pub use hash::{HASH_VERSION, hash_bytes, hash_u64, mix};
pub use key::Key;
#[doc(hidden)]
pub use key::{KeyArena, PackedKey, PackedProbe};
pub use labelled::Labelled;
#[doc(hidden)]
pub use labelled::LabelledBatch;
pub use ordered::Ordered;
#[doc(hidden)]
pub use random::splitmix64;
pub use record::{ByValue, Covariant, Ownable, Record};
pub use schema::{Evolution, Field, Schema};
pub(crate) use shown::to_json;
pub use views::{View, ViewOf, Viewable};
// The derive macro, which shares the trait's name.
pub use thalweg_derive::Data;
