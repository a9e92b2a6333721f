//! Values of keys in checkpoints.

use crate::checkpoint::{Saving, StateHandle};
use crate::data::{Data, DecodeError, Key};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::key_group;

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
    handle.restore_by_group(|group, bytes| {
        let key = K::decode_slot(bytes, &mut arena)?;
        let value = V::decode(bytes)?;
        let taken = K::view(&key, &arena, |key| {
            let hash = K::hash(key.probe());
            match key_group(hash) == group {
                true => take(hash, key, value),
                // Records of the key would go to another task than the one that has its state.
                false => {
                    let what = "a key of the checkpoint has another hash in this program: the `key_hash` of its type must stay";
                    Err(Error::new(ErrorKind::Plan, what))
                }
            }
        });
        drop(key);
        K::clear_arena(&mut arena);
        Ok::<_, DecodeError>(taken)
    })
}
