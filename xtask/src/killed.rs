//! Example programs that are killed by signal 9 and run again by the same command: their files must have the rows of a run that
//! nothing interrupts.
//!
//! Each program is killed when it has taken a checkpoint, then at any moment. The variable `THALWEG_KILL_SEEDS` repeats that
//! with so many other moments.

mod inputs;

use crate::process::{Totals, program};
use crate::{examples, metadata, temporary};
use anyhow::{Context, Result, bail, ensure};
use inputs::Random;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A program that is killed.
struct Case {
    name: &'static str,
    example: &'static str,
    /// Files are those of [`inputs`].
    arguments: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case { name: "words", example: "wordcount", arguments: &["words"] },
    Case {
        name: "windows of occurrences",
        example: "windowed_wordcount",
        arguments: &["--partial", "lines.txt"],
    },
    Case {
        name: "windows of time",
        example: "rolling_top_words",
        arguments: &["--size", "200s", "--slide", "100s", "lines.txt"],
    },
    Case {
        name: "a join of two tables",
        example: "join",
        arguments: &["--how", "full", "--left-column", "2", "orders.tsv", "customers.tsv"],
    },
    // Events are made anew in each run: few, which take their time one by one.
    Case {
        name: "Nexmark, query 4",
        example: "nexmark",
        arguments: &["--query", "4", "--events", "700000", "--batch", "single"],
    },
    Case {
        name: "Nexmark, query 5",
        example: "nexmark",
        arguments: &["--query", "5", "--events", "700000", "--batch", "single"],
    },
    Case {
        name: "Nexmark, query 6",
        example: "nexmark",
        arguments: &["--query", "6", "--events", "700000", "--batch", "single"],
    },
    Case {
        name: "Nexmark, query 8",
        example: "nexmark",
        arguments: &["--query", "8", "--events", "1000000", "--batch", "single"],
    },
    Case {
        name: "views of advertisements",
        example: "ysb",
        arguments: &["--form", "variable", "--events", "1000000", "--batch", "single"],
    },
    Case {
        name: "views and clicks",
        example: "ysb-star",
        arguments: &["--events", "1000000", "--batch", "single"],
    },
    Case {
        name: "components by labels",
        example: "connected_components",
        arguments: &["--form", "labels", "path.txt"],
    },
    Case {
        name: "components by changes",
        example: "connected_components",
        arguments: &["--form", "delta", "path.txt"],
    },
    // In floats, the order in which ranks are added up changes the last digits.
    Case {
        name: "ranks",
        example: "pagerank",
        arguments: &["--form", "integer", "--iterations", "400", "edges.txt"],
    },
];

/// The tasks that deal with events: with more, each would have read its share before the first checkpoint.
const CORES: &str = "2";
const INTERVAL: &str = "1ms";

/// How often a program is started anew that was over too soon.
const ATTEMPTS: usize = 10;
/// How often the directory of checkpoints is looked into.
const LOOK: Duration = Duration::from_micros(300);
/// Far more than any run needs.
const LIMIT: Duration = Duration::from_secs(120);

/// What a run says that goes on.
const GOES_ON: &str = "the job goes on from checkpoint";

/// Builds the programs, and kills each.
pub(crate) fn check(totals: &mut Totals) -> Result<()> {
    examples::build()?;
    let programs = metadata::read()?.target.join("release/examples");
    let seeds = match std::env::var("THALWEG_KILL_SEEDS") {
        Ok(text) => text.parse().context("THALWEG_KILL_SEEDS is no number")?,
        Err(_) => 1,
    };
    let inputs = match temporary::folder() {
        Some(folder) => folder,
        None => tempfile::tempdir().context("there is no room for a temporary folder")?,
    };
    inputs::write(inputs.path())?;
    for case in CASES {
        let start = Instant::now();
        match case.check(&programs, inputs.path(), seeds).with_context(|| case.name) {
            Ok(kills) => {
                totals.passed += 1;
                let seconds = start.elapsed().as_secs_f64();
                println!("{}: ok, killed {kills} times ({seconds:.1} s)", case.name);
            }
            Err(error) => {
                totals.failed += 1;
                return Err(error);
            }
        }
    }
    Ok(())
}

/// When a program is killed.
#[derive(Clone, Copy)]
enum When {
    /// When there are so many more checkpoints.
    Checkpoints(u64),
    After(Duration),
    Never,
}

impl Case {
    /// The command, without checkpoints.
    fn command(&self, programs: &Path, inputs: &Path, rows: &Path) -> Command {
        let mut command = program(programs.join(self.example));
        command.current_dir(inputs).args(self.arguments).arg("--output").arg(rows);
        command.args(["--cores", CORES]).stdout(Stdio::null());
        command
    }

    /// Runs the program once to its end, and then with kills, once for each seed; returns how often it was killed.
    fn check(&self, programs: &Path, inputs: &Path, seeds: u64) -> Result<usize> {
        let folder = folder_in(inputs)?;
        let (dir, begun) = (folder.path().join("rows"), Instant::now());
        let mut command = self.command(programs, inputs, &dir);
        let output = command.output().context("the program cannot be started")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {said}", output.status);
        let (took, expected) = (begun.elapsed(), rows(&dir)?);
        ensure!(!expected.is_empty(), "it has written no row");

        let mut kills = 0;
        for seed in 0..seeds {
            let mut random = Random::new(seed);
            let mut interrupt =
                || self.interrupt(programs, inputs, &expected, took, &mut random).transpose();
            // Any attempt that fails is the last.
            let killed = (0..ATTEMPTS).find_map(|_| interrupt());
            kills += killed.with_context(|| {
                format!(
                    "it was over before it could be killed, {ATTEMPTS} times: give it more work"
                )
            })??;
        }
        Ok(kills)
    }

    /// Kills the program twice, unless it is over before, and lets it end; then looks at its rows. Returns how often it was
    /// killed; `None` if no run went on from a checkpoint, so that it says little.
    fn interrupt(
        &self,
        programs: &Path,
        inputs: &Path,
        expected: &[String],
        took: Duration,
        random: &mut Random,
    ) -> Result<Option<usize>> {
        let folder = folder_in(inputs)?;
        let path = |name: &str| folder.path().join(name);
        let mut command = self.command(programs, inputs, &path("rows"));
        command.arg("--checkpoint").arg(path("saved")).args(["--checkpoint-interval", INTERVAL]);
        let mut job =
            Job { command, rows: path("rows"), saved: path("saved"), said: path("said.txt") };
        let any_moment = took.mul_f64(random.below(1000) as f64 / 1000.0);
        let (mut kills, mut has_gone_on) = (0, false);
        for when in [When::Checkpoints(1 + random.below(2)), When::After(any_moment), When::Never] {
            let before = newest(&job.saved);
            let (is_over, said) = job.run(when)?;
            let goes_on = said.contains(GOES_ON);
            ensure!(
                !is_over || before == 0 || goes_on,
                "it began anew, and not with checkpoint {before}: {said}"
            );
            has_gone_on |= goes_on;
            if is_over {
                break;
            }
            kills += 1;
        }
        same(expected, &rows(&job.rows)?)?;
        let left = newest(&job.saved);
        ensure!(left == 0, "checkpoint {left} is left, although the job has ended well");
        Ok(has_gone_on.then_some(kills))
    }
}

/// A job, from its first run to its last.
struct Job {
    command: Command,
    rows: PathBuf,
    saved: PathBuf,
    /// What the last run has written to its standard error.
    said: PathBuf,
}

impl Job {
    /// Starts the program, and kills it at that moment; returns whether its job has ended well, and what it has said.
    fn run(&mut self, when: When) -> Result<(bool, String)> {
        let before = newest(&self.saved);
        let said = File::create(&self.said).context("there is no room for messages")?;
        let mut child =
            self.command.stderr(said).spawn().context("the program cannot be started")?;
        let begun = Instant::now();
        let (status, is_killed) = loop {
            if let Some(status) = child.try_wait()? {
                break (status, false);
            }
            let is_time = match when {
                When::Checkpoints(more) => newest(&self.saved) >= before + more,
                When::After(time) => begun.elapsed() >= time,
                When::Never => false,
            };
            let is_late = begun.elapsed() > LIMIT;
            if is_time || is_late {
                child.kill()?;
                let status = child.wait()?;
                ensure!(!is_late, "it is not over after {} s", LIMIT.as_secs());
                break (status, true);
            }
            sleep(LOOK);
        };
        let said = String::from_utf8_lossy(&fs::read(&self.said)?).into_owned();
        match status.code() {
            Some(0) => Ok((true, said)),
            None if is_killed => Ok((self.is_over(), said)),
            _ => bail!("it ended with {status}: {said}"),
        }
    }

    /// Whether the program was killed when its job had ended: its files have their names, and its checkpoints are removed.
    fn is_over(&self) -> bool {
        let is_named = |name: &str| !name.starts_with('.');
        newest(&self.saved) == 0 && names(&self.rows).iter().any(|name| is_named(name))
    }
}

/// A folder of its own for a job, beside the inputs.
fn folder_in(inputs: &Path) -> Result<tempfile::TempDir> {
    tempfile::tempdir_in(inputs).context("there is no room for a temporary folder")
}

/// The names in a directory; none if there is no directory.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The number of the newest checkpoint in a directory; 0 if there is none.
fn newest(saved: &Path) -> u64 {
    let number =
        |name: &str| name.strip_prefix("checkpoint-")?.strip_suffix(".state")?.parse().ok();
    names(saved).iter().filter_map(|name| number(name)).max().unwrap_or(0)
}

/// The lines of all files in a directory of output, sorted.
pub(crate) fn rows(dir: &Path) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for name in names(dir) {
        ensure!(!name.starts_with('.'), "a hidden file is left: {name}");
        let text = fs::read_to_string(dir.join(&name));
        let text = text.with_context(|| format!("{name} cannot be read"))?;
        rows.extend(text.lines().map(str::to_owned));
    }
    rows.sort_unstable();
    Ok(rows)
}

/// Fails unless both have the same rows, each as often. Both are sorted.
fn same(expected: &[String], found: &[String]) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let first_not_in = |some: &[String], others: &[String]| {
        some.iter().find(|row| others.binary_search(row).is_err()).cloned()
    };
    bail!(
        "{} rows of {}; missing is {:?}, and one too many {:?}",
        found.len(),
        expected.len(),
        first_not_in(expected, found),
        first_not_in(found, expected)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behaves as a job: its first run takes a checkpoint and does not end; the next one says its first argument, writes its
    /// second one, and ends. It may be killed at any moment.
    const SCRIPT: &str = r#"
        mkdir -p "$4" "$8"
        if [ ! -e "$8/checkpoint-3.state" ]; then
            : > "$8/checkpoint-3.state"
            exec sleep 100
        fi
        echo "$1" >&2
        printf "$2" > "$4/part-00000.txt"
        rm "$8/checkpoint-3.state"
    "#;

    fn interrupt(arguments: &'static [&'static str]) -> Result<Option<usize>> {
        let case = Case { name: "a script", example: "sh", arguments };
        let folder = tempfile::tempdir()?;
        let expected = ["a", "b"].map(str::to_owned);
        let (programs, took) = (Path::new("/bin"), Duration::ZERO);
        case.interrupt(programs, folder.path(), &expected, took, &mut Random::new(1))
    }

    #[test]
    fn a_program_must_go_on_and_write_each_row_once() {
        let good = &["-c", SCRIPT, "sh", "the job goes on from checkpoint 3", r"b\na\n"];
        assert!(interrupt(good).unwrap().unwrap() > 0);
        let twice = &["-c", SCRIPT, "sh", "the job goes on from checkpoint 3", r"b\na\nb\n"];
        let error = interrupt(twice).unwrap_err().to_string();
        assert!(error.starts_with("3 rows of 2; missing is None"), "{error}");
        let anew = &["-c", SCRIPT, "sh", "it begins", r"b\na\n"];
        let error = interrupt(anew).unwrap_err().to_string();
        assert!(
            error.starts_with("it began anew, and not with checkpoint 3: it begins"),
            "{error}"
        );
        let fails = &["-c", "echo why >&2; exit 3"];
        let error = interrupt(fails).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("why"), "{error}");
    }

    #[test]
    fn rows_that_differ_are_named() {
        let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
        same(&rows(&["a", "b"]), &rows(&["a", "b"])).unwrap();
        let error = same(&rows(&["a", "b"]), &rows(&["b", "c"])).unwrap_err().to_string();
        assert_eq!(error, r#"2 rows of 2; missing is Some("a"), and one too many Some("c")"#);
    }

    #[test]
    fn hidden_files_are_no_output() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("part-00001.txt"), "b\na\n").unwrap();
        fs::write(folder.path().join("part-00000.txt"), "c\n").unwrap();
        assert_eq!(rows(folder.path()).unwrap(), ["a", "b", "c"]);
        fs::write(folder.path().join(".part.thalweg-kept"), "d\n").unwrap();
        assert!(rows(folder.path()).unwrap_err().to_string().contains("a hidden file is left"));
    }
}
