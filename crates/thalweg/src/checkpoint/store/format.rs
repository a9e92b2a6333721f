//! What is in the file of a checkpoint, or of a part of one.
//!
//! A file begins with what it is and in which version, and with what its reader must agree with: the version of the hash,
//! and the number of key groups. Then come the length of the rest, the length of its head and the head's digest, a hash that
//! finds what was altered by accident; the head, in which are the digests of what follows; and the entries of all states,
//! [packed](crate::checkpoint::packed).

use super::Part;
use crate::checkpoint::Snapshot;
use crate::checkpoint::packed::Packed;
use crate::data::{Data, HASH_VERSION, hash_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::KEY_GROUPS;

/// How a file begins.
pub(super) const MAGIC: &[u8; 8] = b"thalweg\0";
/// The version of the format of files.
const VERSION: u32 = 9;
/// Those before, whose entries are not packed. In the first of them, operators have no branches; it is read as the second.
const BEFORE: [u32; 2] = [7, 8];
const HEADER: usize = MAGIC.len() + 3 * size_of::<u32>() + 3 * size_of::<u64>();

/// How a file begins with this head, where so many bytes follow; and the digest of the head.
pub(super) fn header(head: &[u8], length: usize) -> (Vec<u8>, u64) {
    let digest = hash_bytes(head);
    let mut header = MAGIC.to_vec();
    for number in [VERSION, HASH_VERSION, KEY_GROUPS as u32] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    for number in [length as u64, head.len() as u64, digest] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    (header, digest)
}

/// The bytes of a file with the digests that fit what is in it, so that fuzzing gets behind them.
pub(crate) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut content = bytes.get(HEADER..).unwrap_or_default();
    let whole = content;
    let read = Vec::<Part>::decode(&mut content)
        .and_then(|parts| Ok((parts, Snapshot::decode_if(content, true, |_, _| true)?)));
    let (mut head, mut entries) = (Vec::new(), Vec::new());
    match &read {
        Ok((parts, snapshot)) => {
            parts.encode(&mut head);
            let mut packed = Packed::default();
            head.extend_from_slice(&snapshot.pack(&mut packed));
            packed.pieces().for_each(|piece| entries.extend_from_slice(piece));
        }
        Err(_) => head.extend_from_slice(whole),
    }
    let (header, _) = header(&head, head.len() + entries.len());
    [header, head, entries].concat()
}

/// Reads the bytes of a file.
pub(super) fn parse(bytes: &[u8]) -> Result<(Snapshot, Vec<Part>, u64)> {
    let bad = |what: String| Error::new(ErrorKind::Input, what);
    let torn = || bad("the checkpoint is incomplete".to_owned());
    let (header, content) = bytes.split_at_checked(HEADER).ok_or_else(torn)?;
    let (magic, header) = header.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(bad("this is no checkpoint".to_owned()));
    }
    let mut header = header;
    let mut word = || -> Result<u32> {
        let (word, rest) = header.split_first_chunk::<4>().ok_or_else(torn)?;
        header = rest;
        Ok(u32::from_le_bytes(*word))
    };
    let (version, hash, groups) = (word()?, word()?, word()?);
    let is_before = BEFORE.contains(&version);
    let version = if is_before { VERSION } else { version };
    for (what, theirs, ours) in [
        ("a checkpoint of format", version, VERSION),
        ("its keys have hashes of version", hash, HASH_VERSION),
        ("the number of its key groups is", groups, KEY_GROUPS as u32),
    ] {
        if theirs != ours {
            let what = format!("{what} {theirs}, and this program has {ours}");
            return Err(Error::new(ErrorKind::Plan, what));
        }
    }
    let mut word = || -> Result<u64> {
        let (word, rest) = header.split_first_chunk::<8>().ok_or_else(torn)?;
        header = rest;
        Ok(u64::from_le_bytes(*word))
    };
    let (length, head, digest) = (word()?, word()?, word()?);
    if length != content.len() as u64 {
        return Err(torn());
    }
    let head = usize::try_from(head).ok().and_then(|head| content.get(..head));
    if head.is_none_or(|head| hash_bytes(head) != digest) {
        return Err(bad("the checkpoint was altered: its digest is another".to_owned()));
    }
    let mut content = content;
    let read = Vec::<Part>::decode(&mut content).and_then(|parts| {
        let parts = parts.into_iter().map(Part::checked).collect::<Result<Vec<_>, _>>()?;
        let snapshot = match is_before {
            true => Snapshot::decode_unpacked(content)?,
            false => Snapshot::decode(content)?,
        };
        Ok((snapshot, parts))
    });
    let (snapshot, parts) =
        read.map_err(|error| bad(format!("the checkpoint cannot be read: {error}")))?;
    Ok((snapshot, parts, digest))
}
