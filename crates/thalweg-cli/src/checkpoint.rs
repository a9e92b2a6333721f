//! `thalweg checkpoint`: what is in the directory of a job's checkpoints, or in an object store.

use crate::entries::{Wanted, lines};
use anyhow::{Context as _, Result, bail};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thalweg::checkpoint::{CheckpointDir, CheckpointFile, StateSummary};

/// Look at the checkpoints of a job, copy or remove them
///
/// A program that is run with `--checkpoint DIR` keeps its two newest checkpoints there, until its job has ended well. DIR may be
/// the address of a prefix in an object store, as in s3://bucket/prefix, whose settings are read from the environment.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  thalweg checkpoint ls saved               # number, age and size of each, and whether it is whole
  thalweg checkpoint show saved             # what each operator has in the newest
  thalweg checkpoint show saved --key river # what is kept for a key, as JSON
  thalweg checkpoint verify saved           # whether each is whole; the exit status is 1 if not
  thalweg checkpoint cp saved kept          # the newest, to go back to: the job does not remove it there
  thalweg checkpoint cp s3://bucket/a kept  # the same of an object store; or into one
  thalweg checkpoint rm saved --number 17   # or --all: the job begins anew")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the checkpoints, the newest last
    Ls(Directory),
    /// Say what each operator has in a checkpoint: keys or other entries, and bytes; or show the entries
    Show {
        #[command(flatten)]
        dir: Directory,
        /// The number of the checkpoint [default: the newest]
        #[arg(long, value_name = "N")]
        number: Option<u64>,
        #[command(flatten)]
        wanted: Wanted,
    },
    /// Read every checkpoint, with what operators have on disk, and compare all digests; the exit status is 1 if one cannot be read
    Verify(Directory),
    /// Copy a checkpoint into a directory of its own (a savepoint), to go back to in place of the job that goes on
    Cp {
        #[command(flatten)]
        dir: Directory,
        /// Where to: it must have no checkpoints, and is made if it is not there
        #[arg(value_name = "TO")]
        to: PathBuf,
        /// The number of the checkpoint [default: the newest]
        #[arg(long, value_name = "N")]
        number: Option<u64>,
    },
    /// Remove checkpoints; a job that goes on without them begins anew. In an object store, a job that runs with them ends
    Rm {
        #[command(flatten)]
        dir: Directory,
        /// The number of the checkpoint
        #[arg(long, value_name = "N", conflicts_with = "all")]
        number: Option<u64>,
        /// All of them
        #[arg(long)]
        all: bool,
    },
}

#[derive(clap::Args)]
struct Directory {
    /// The directory of the job's checkpoints, or the address of an object store, as in s3://bucket/prefix
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Runs the command; returns the status of the process.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let (text, status) = match &arguments.command {
        Command::Ls(dir) => (table(dir, &list(dir)?, SystemTime::now())?, 0),
        Command::Show { dir, number, wanted } => {
            let file = chosen(dir, *number)?;
            let checkpoints = CheckpointDir::open(&dir.dir)?;
            let shown = match wanted.any() {
                true => lines(&checkpoints, file.number, wanted),
                false => checkpoints.read(file.number).map_err(Into::into).map(|states| {
                    (format!("checkpoint {}\n{}", file.number, states_table(&states)), 0)
                }),
            };
            match shown {
                Ok(shown) => shown,
                // The job has newer ones by now.
                Err(_) if number.is_none() && !is_there(dir, file.number)? => {
                    return run(arguments);
                }
                Err(error) => return Err(error),
            }
        }
        Command::Verify(dir) => verify(dir)?,
        Command::Cp { dir, to, number } => {
            let copy = copy(dir, to, *number)?;
            let size = size(copy.bytes);
            (format!("copied checkpoint {}, {size}, to {}\n", copy.number, to.display()), 0)
        }
        Command::Rm { number: None, all: false, .. } => {
            bail!(
                "which checkpoint? `--number N` removes one, and `--all` removes all of them, so that the job begins anew"
            )
        }
        Command::Rm { dir, number: None, .. } => {
            let checkpoints = CheckpointDir::open(&dir.dir)?;
            // Also what is left of those that do not count.
            if checkpoints.is_empty()? {
                list(dir)?;
            }
            (format!("removed {}\n", checkpoints.remove_all()?), 0)
        }
        Command::Rm { dir, number: Some(number), .. } => {
            let files = list(dir)?;
            if files.iter().all(|file| file.number != *number) {
                bail!("{} has no such checkpoint", dir.dir.display());
            }
            CheckpointDir::open(&dir.dir)?.remove(*number)?;
            (format!("removed 1 of {}\n", files.len()), 0)
        }
    };
    // A reader that has seen enough closes its end.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(status)
}

/// The checkpoints; an error if there is none.
fn list(Directory { dir }: &Directory) -> Result<Vec<CheckpointFile>> {
    let files = CheckpointDir::open(dir)?.list()?;
    if files.is_empty() {
        bail!("{} has no checkpoints: they are removed when the job has ended well", dir.display());
    }
    Ok(files)
}

/// Whether there is a checkpoint with this number.
fn is_there(Directory { dir }: &Directory, number: u64) -> Result<bool> {
    let files = CheckpointDir::open(dir)?.list()?;
    Ok(files.iter().any(|file| file.number == number))
}

/// How often the newest checkpoint is looked for anew, where a job removes it at that moment.
const TRIES: usize = 10;

/// Copies a checkpoint, or the newest.
fn copy(dir: &Directory, to: &Path, number: Option<u64>) -> Result<CheckpointFile> {
    let mut tries = 1;
    loop {
        let file = chosen(dir, number)?;
        match CheckpointDir::open(&dir.dir)?.copy(file.number, to) {
            // The job has newer ones by now.
            Err(_) if number.is_none() && tries < TRIES && !is_there(dir, file.number)? => {
                tries += 1
            }
            copied => return Ok(copied?),
        }
    }
}

/// The checkpoint with this number, or the newest.
fn chosen(dir: &Directory, number: Option<u64>) -> Result<CheckpointFile> {
    let mut all = list(dir)?;
    let chosen = match number {
        Some(number) => all.into_iter().find(|file| file.number == number),
        None => all.pop(),
    };
    chosen.with_context(|| format!("{} has no such checkpoint", dir.dir.display()))
}

fn verify(dir: &Directory) -> Result<(String, u8)> {
    let (mut text, mut status) = (String::new(), 0);
    for CheckpointFile { number, .. } in list(dir)? {
        match CheckpointDir::open(&dir.dir)?.verify(number) {
            Ok(states) => {
                let entries = states.iter().map(|state| state.entries).fold(0, u64::saturating_add);
                writeln!(
                    text,
                    "checkpoint {number}: whole, {entries} entries of {} states",
                    states.len()
                )?;
            }
            // The job that uses the directory has removed it.
            Err(_) if !is_there(dir, number)? => {}
            Err(error) => {
                status = 1;
                writeln!(text, "checkpoint {number}: {error}")?;
            }
        }
    }
    Ok((text, status))
}

fn table(dir: &Directory, files: &[CheckpointFile], now: SystemTime) -> Result<String> {
    let checkpoints = CheckpointDir::open(&dir.dir)?;
    let mut rows = Vec::new();
    for file in files {
        let age = file.written.and_then(|written| now.duration_since(written).ok());
        let whole = match checkpoints.read(file.number) {
            Ok(_) => "yes",
            // The job that uses the directory has removed it.
            Err(_) if !is_there(dir, file.number)? => continue,
            Err(_) => "no",
        };
        let age = age.map_or_else(|| "?".to_owned(), span);
        rows.push([file.number.to_string(), age, size(file.bytes), whole.to_owned()]);
    }
    Ok(columns(["NUMBER", "AGE", "SIZE", "WHOLE"], rows.into_iter()))
}

/// A span of time, as people read it.
fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", span.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn states_table(states: &[StateSummary]) -> String {
    let rows = states.iter().map(|state| {
        [
            state.operator.clone(),
            state.state.clone(),
            state.entries.to_string(),
            size(state.bytes),
            size(state.largest),
            state.tasks.to_string(),
            state.schema.clone(),
        ]
    });
    columns(["OPERATOR", "STATE", "ENTRIES", "SIZE", "LARGEST", "TASKS", "TYPE"], rows)
}

/// Rows under their heads. The last column may be of any width.
fn columns<const N: usize>(heads: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let all: Vec<_> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let widths: [usize; N] = std::array::from_fn(|at| {
        all.iter().map(|row| row[at].chars().count()).max().unwrap_or_default()
    });
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    all.iter().map(line).collect()
}

/// A number of bytes, as people read it.
fn size(bytes: u64) -> String {
    let mut scaled = bytes as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if scaled < 1024.0 {
            break;
        }
        (scaled, unit) = (scaled / 1024.0, larger);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{scaled:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [["a", "long"], ["longer", "b"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(["X", "Y"], rows.into_iter()), "X       Y\na       long\nlonger  b\n");
        assert_eq!(
            [0.25, 59.0, 61.0, 90_000.0].map(|seconds| span(Duration::from_secs_f64(seconds))),
            ["0.2 s", "59.0 s", "1 min 01 s", "25 h 00 min"]
        );
        assert_eq!(
            [size(0), size(1023), size(1536), size(3 << 40)],
            ["0 B", "1023 B", "1.5 KiB", "3.0 TiB"]
        );
    }
}
