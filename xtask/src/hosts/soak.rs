//! One long job on two processes, with windows, much traffic between hosts, and a checkpoint every 200 ms: what a process has
//! once it is warm, which is in the first third of the time, is what it has at the end.

use super::said_by;
use crate::process::program;
use anyhow::{Context, Result, anyhow, ensure};
use std::path::Path;

const HOSTS: usize = 2;

/// What a process has: resident memory in KiB, open files, threads, and files in the folder of the job.
type Used = [u64; 4];
const WHAT: [&str; 4] =
    ["KiB of memory", "open files", "threads", "files in the folder of the job"];

/// How much more there may be at the end. Of a checkpoint that leaves a file or a thread, hundreds would be there.
fn tolerated(warm: u64) -> Used {
    let memory_of_allocators = warm / 4 + 4096;
    let (files_of_one_checkpoint, thread_about_to_end) = (4, 1);
    [memory_of_allocators, files_of_one_checkpoint, thread_about_to_end, files_of_one_checkpoint]
}

/// Runs the job for so many seconds.
pub(super) fn check(examples: &Path, launcher: &Path, seconds: u64) -> Result<()> {
    let folder = tempfile::tempdir().context("there is no room for a temporary folder")?;
    let (saved, spilled) = (folder.path().join("saved"), folder.path().join("spilled"));
    std::fs::create_dir(&spilled).context("cannot make a folder")?;
    // A hang ends with a message.
    let mut command = program("timeout");
    command.arg((2 * seconds + 60).to_string()).arg(launcher).env("THALWEG_SPILL_DIR", &spilled);
    command.args(["launch", "--local", &HOSTS.to_string(), "--cores", "1", "--"]);
    command.arg(examples.join("network_jobs")).arg("--checkpoint").arg(&saved);
    command.args(["--checkpoint-interval", "200ms", "soak", "--seconds", &seconds.to_string()]);
    let said = said_by(command.arg("--folder").arg(folder.path()))?;
    for host in 0..HOSTS {
        let lines = || {
            let begin = format!("[{host}] ");
            said.lines().filter_map(move |line| line.strip_prefix(&begin).map(str::to_owned))
        };
        let used = lines().filter_map(|line| line.strip_prefix("used ").map(read));
        let used = used.collect::<Result<Vec<_>>>().context("a line of what is used")?;
        does_not_grow(&used).with_context(|| format!("host {host}"))?;
        let taken = lines().find_map(|line| line.strip_prefix("checkpoints ")?.parse::<u64>().ok());
        let taken = taken.with_context(|| format!("host {host} does not come to its end"))?;
        ensure!(host > 0 || taken >= seconds, "only {taken} checkpoints in {seconds} s");
    }
    Ok(())
}

fn read(line: &str) -> Result<Used> {
    let numbers = line.split(' ').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>()?;
    <[u64; 4]>::try_from(numbers).map_err(|numbers| anyhow!("not four numbers: {numbers:?}"))
}

/// Fails if there is more at the end than once the process was warm.
fn does_not_grow(used: &[Used]) -> Result<()> {
    let count = used.len();
    ensure!(count >= 20, "only {count} looks");
    let most = |of: usize, used: &[Used]| used.iter().map(|used| used[of]).max().unwrap_or(0);
    let (warm, end) = (&used[..count / 3], &used[count - count.div_ceil(5)..]);
    for (of, what) in WHAT.into_iter().enumerate() {
        let (warm, end) = (most(of, warm), most(of, end));
        println!("{what}: {warm} when warm, {end} at the end");
        let grown = end > warm + tolerated(warm)[of];
        ensure!(!grown, "{end} {what} at the end, and {warm} when warm: {used:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_of_each_kind_is_found() {
        let steady: Vec<Used> = (0..60).map(|n| [40_000 + n % 7 * 100, 20 + n % 2, 9, 6]).collect();
        does_not_grow(&steady).unwrap();
        for (of, each) in [1000, 1, 1, 1].into_iter().enumerate() {
            let mut growing = steady.clone();
            growing.iter_mut().zip(0..).for_each(|(used, n)| used[of] += each * n);
            let error = does_not_grow(&growing).unwrap_err().to_string();
            assert!(error.contains(WHAT[of]), "{error}");
        }
        assert!(does_not_grow(&steady[..9]).is_err(), "too few to say");
    }

    #[test]
    fn lines_have_four_numbers() {
        assert_eq!(read("40000 20 9 6").unwrap(), [40_000, 20, 9, 6]);
        assert!(read("40000 20 9").is_err() && read("40000 20 9 x").is_err());
    }
}
