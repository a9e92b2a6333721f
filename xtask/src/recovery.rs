//! Reads what jobs with checkpoints store and print: the newest checkpoint of a folder, and the one from which a job goes on.

use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::Path;

/// The number of the newest checkpoint in a folder; 0 if there is none.
pub(crate) fn newest(folder: &Path) -> Result<u64> {
    let cannot = || format!("cannot list {}", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(0),
        Err(cause) => return Err(cause).with_context(cannot),
    };
    let mut newest = 0;
    for entry in entries {
        let name = entry.with_context(cannot)?.file_name();
        newest = newest.max(number_of(&name.to_string_lossy()).unwrap_or(0));
    }
    Ok(newest)
}

/// The number of the checkpoint in a file of this name; `None` if it is another file.
fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("checkpoint-")?.strip_suffix(".state")?.parse().ok()
}

/// The number of the checkpoint from which a job goes on, by the standard error of its program; `None` if it does not print
/// that it goes on.
pub(crate) fn resumed_from(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("the job goes on from checkpoint ")?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_checkpoint_has_the_greatest_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(newest(&path.join("missing")).unwrap(), 0);
        assert_eq!(newest(path).unwrap(), 0);
        for name in [
            "checkpoint-0000000009.state",
            "checkpoint-0000000012.state",
            "checkpoint-0000000013.state.new",
            "checkpoint-0000000014.state.unreadable",
            "part-0000000015-1.state",
            "run-16",
        ] {
            std::fs::write(path.join(name), "").unwrap();
        }
        assert_eq!(newest(path).unwrap(), 12);
    }

    #[test]
    fn a_job_says_from_which_checkpoint_it_goes_on() {
        let line = "[0] the job goes on from checkpoint 12 of /saved, 3.20 s old, 1.4 MiB\n";
        assert_eq!(resumed_from(&format!("[1] running\n{line}[0] running\n")), Some(12));
        assert_eq!(resumed_from("[0] running\n"), None);
        assert_eq!(resumed_from("the job goes on from checkpoint "), None);
        let refused = "lines: run the program of that checkpoint, or begin anew\n";
        assert_eq!(resumed_from(refused), None);
    }
}
