//! What reads bytes from outside, for fuzzing: each door calls the code that readers of files and connections call.

use crate::data::{DecodeError, Schema, to_json};
use crate::{checkpoint, exchange, net};

/// Reads bytes as if a host had sent them, torn after so many of them: fails if it matters where. Compresses them too: fails if
/// they do not come back.
pub fn read_from_host(bytes: &[u8], torn_at: usize) {
    net::read_from_host(bytes, torn_at);
    exchange::read_from_host(bytes);
}

/// The bytes of a checkpoint's file with the digests that fit what is in it.
pub fn sealed_checkpoint(bytes: &[u8]) -> Vec<u8> {
    checkpoint::sealed(bytes)
}

/// Migrates the entry of a state from one type to another.
///
/// # Errors
///
/// Why it cannot be.
pub fn migrated(types: (&Schema, &Schema), by_key: bool, entry: &[u8]) -> Result<Vec<u8>, String> {
    checkpoint::migrate_entry(types, by_key, entry)
}

/// The entry of a state as JSON, as the command line shows it.
///
/// # Errors
///
/// If the bytes are not one value of the type.
pub fn shown(schema: &Schema, mut entry: &[u8]) -> Result<String, DecodeError> {
    let value = to_json(schema, &mut entry)?;
    match entry.is_empty() {
        true => Ok(value.to_string()),
        false => Err(DecodeError::invalid("read to their end")),
    }
}
