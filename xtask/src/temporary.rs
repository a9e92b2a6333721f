//! Where tests have their temporary files: in memory, where there is plenty of it.
//!
//! They write tens of thousands of small files. Most file systems on disks take longer to find a place for each, soon after
//! others were removed, than these tests take for all else.

use std::path::Path;
use std::process::Command;
use std::{env, fs};
use tempfile::TempDir;

/// A file system in memory, as Linux has it.
const IN_MEMORY: &str = "/dev/shm";
/// What must be free there, and of memory: many times what the tests of a step have ever had at once.
const ROOM: u64 = 4 << 30;

/// A folder in memory, which is removed with all that is left in it. There is none where there is too little room, and where the
/// variable `TMPDIR` says where files should be.
pub(crate) fn folder() -> Option<TempDir> {
    if env::var_os("TMPDIR").is_some() || memory()? < ROOM {
        return None;
    }
    within(IN_MEMORY.as_ref(), ROOM)
}

/// A folder in another one, if there are so many bytes free, and if programs may be run there: some tests do that.
fn within(path: &Path, room: u64) -> Option<TempDir> {
    let df = Command::new("df").args(["--output=avail", "--block-size=1"]).arg(path).output();
    let free: u64 = String::from_utf8(df.ok()?.stdout).ok()?.lines().last()?.trim().parse().ok()?;
    let folder = tempfile::Builder::new().prefix("thalweg-tests-").tempdir_in(path).ok()?;
    let program = folder.path().join("true");
    fs::copy("/bin/true", &program).ok()?;
    let runs = Command::new(&program).status().is_ok_and(|status| status.success());
    fs::remove_file(program).ok()?;
    (runs && free >= room).then_some(folder)
}

/// The bytes of memory that are available, here or to the container that this runs in.
fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10;
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    Some(available.min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_what_is_in_it() {
        let outer = tempfile::tempdir().unwrap();
        let folder = within(outer.path(), 1).unwrap();
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
        fs::write(folder.path().join("left"), "over").unwrap();
        drop(folder);
        assert!(fs::read_dir(outer.path()).unwrap().next().is_none());
    }

    #[test]
    fn there_is_none_without_room() {
        let outer = tempfile::tempdir().unwrap();
        assert!(within(outer.path(), u64::MAX).is_none());
        assert!(within(&outer.path().join("missing"), 1).is_none());
        assert!(fs::read_dir(outer.path()).unwrap().next().is_none());
    }
}
