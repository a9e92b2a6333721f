//! Values of keys in checkpoints.

use crate::checkpoint::{Saving, StateHandle};
use crate::data::{Data, DecodeError, Key};
use crate::error::Result;

/// Saves a value of a key, of which `write` appends the encoding.
pub(crate) fn save_key<K: Key + ?Sized>(
    key: &K,
    out: &mut Saving,
    write: impl FnOnce(&mut Vec<u8>),
) {
    out.add_by_key(K::hash(key.probe()), |bytes| {
        key.own().encode(bytes);
        write(bytes);
    });
}

/// Calls `take` with each key of this task, its hash and its value. The entries must be of type `(K::Owned, V)`.
///
/// # Errors
///
/// If the checkpoint cannot be read; those of `take`.
pub(crate) fn restore_keys<K: Key + ?Sized, V: Data>(
    handle: &StateHandle,
    mut take: impl FnMut(u64, &K, V) -> Result<()>,
) -> Result<()> {
    let mut arena = K::Arena::default();
    handle.restore_encoded(|bytes| {
        let key = K::decode_slot(bytes, &mut arena)?;
        let value = V::decode(bytes)?;
        let taken = K::view(&key, &arena, |key| take(K::hash(key.probe()), key, value));
        drop(key);
        K::clear_arena(&mut arena);
        Ok::<_, DecodeError>(taken)
    })
}
