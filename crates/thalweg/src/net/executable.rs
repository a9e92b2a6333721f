//! The digest of this process's executable: it finds hosts that run different builds, not forgery.

use crate::data::{hash_bytes, mix};
use crate::error::Result;
use crate::io::files::{Compression, FileReader};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The digest of the executable that this process runs.
pub(super) fn digest() -> Result<u64> {
    static DIGEST: OnceLock<u64> = OnceLock::new();
    if let Some(digest) = DIGEST.get() {
        return Ok(*digest);
    }
    let digest = of_file(&path()?)?;
    Ok(*DIGEST.get_or_init(|| digest))
}

fn path() -> Result<PathBuf> {
    // The file that was started, also if another one has its name by now.
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe().map_err(|cause| {
        let what = "cannot find the executable of this process, which hosts compare";
        crate::Error::new(crate::ErrorKind::Io, what).caused_by(cause)
    })
}

fn of_file(path: &Path) -> Result<u64> {
    let mut file = FileReader::open(path, Compression::None)?;
    let mut block = vec![0; 1 << 20];
    let mut digest = 0;
    loop {
        let mut filled = 0;
        // Blocks begin at the same offsets everywhere, whatever a call reads.
        while filled < block.len() {
            match file.read(&mut block[filled..])? {
                0 => break,
                bytes => filled += bytes,
            }
        }
        if filled == 0 {
            return Ok(digest);
        }
        digest = mix(digest, hash_bytes(&block[..filled]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads a file")]
    fn any_byte_of_a_file_changes_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job");
        let digest = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            of_file(&path).unwrap()
        };
        let mut bytes = vec![7; (1 << 20) + 100];
        let mut seen = vec![digest(&bytes)];
        assert_eq!(digest(&bytes), seen[0]);
        for at in [0, 1 << 19, (1 << 20) - 1, 1 << 20, (1 << 20) + 99] {
            bytes[at] += 1;
            seen.push(digest(&bytes));
        }
        seen.push(digest(&bytes[..1 << 20]));
        seen.push(digest(&[]));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
        assert_eq!(super::digest().unwrap(), super::digest().unwrap());
    }
}
