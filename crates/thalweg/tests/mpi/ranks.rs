//! The tests, and what runs as a rank.

use super::jobs;
use clap::Parser;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};
use thalweg::cli::EngineArgs;

/// One of the ranks.
#[derive(Parser)]
struct Args {
    job: String,
    /// The folder for what every rank has got
    folder: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn main() -> ExitCode {
    // The test runner's own arguments are the names of tests.
    match std::env::var_os(AS_RANK) {
        Some(_) => thalweg::cli::run(rank),
        None => drive(),
    }
}

/// Set for ranks.
const AS_RANK: &str = "MPI_TEST_RANK";

fn rank() -> thalweg::Result<()> {
    let args = Args::parse();
    let rank = std::env::var("OMPI_COMM_WORLD_RANK").ok();
    let rank = rank.and_then(|rank| rank.parse().ok()).unwrap_or(0);
    let ended = args.engine.environment().and_then(|env| {
        let ended = jobs::run(&args.job, &env, rank);
        // Before the rank leaves: the launcher may end the others as soon as one has failed.
        note(&args.folder, rank, &ended);
        ended
    });
    note(&args.folder, rank, &ended);
    ended.map(drop)
}

/// Writes down what a rank has got.
fn note(folder: &Path, rank: usize, ended: &thalweg::Result<String>) {
    let text = match ended {
        Ok(got) => got.clone(),
        Err(error) => format!("{:?}: {error}", error.kind()),
    };
    fs::write(folder.join(rank.to_string()), text).expect("the folder is there");
}

/// How a job has ended.
struct Ended {
    status: Option<i32>,
    stderr: String,
    /// What each rank has got.
    ranks: BTreeMap<usize, String>,
    after: Duration,
}

/// Runs a command that starts ranks with a folder for what they get.
fn ended(command: &mut Command, folder: &Path) -> Ended {
    let begun = Instant::now();
    let Output { status, stderr, .. } =
        command.output().expect("`timeout` is part of every system");
    let ranks = fs::read_dir(folder).expect("the folder is there").map(|file| {
        let path = file.expect("the folder can be read").path();
        let rank = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        (rank.expect("a rank"), fs::read_to_string(path).expect("a file of text"))
    });
    // One that the launcher has ended while it wrote has got nothing.
    let ranks = ranks.filter(|(_, got): &(usize, String)| !got.is_empty()).collect();
    let status = status.code();
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    Ended { status, stderr, ranks, after: begun.elapsed() }
}

/// A command with these words, which is killed when it does not end.
fn command(words: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60"]).args(words).env(AS_RANK, "");
    // Open MPI refuses root otherwise, which containers run as. There, a process may not read another's memory.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("THALWEG_") {
            command.env_remove(name);
        }
    }
    command
}

/// The words that start this program by Open MPI, on so many ranks.
const MPIRUN: [&str; 4] = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"];

/// Runs a job on ranks.
fn on_ranks(ranks: usize, job: &str, flags: &[&str]) -> Ended {
    let this = this();
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let mut command = command(&MPIRUN);
    command.args(["-n", &ranks.to_string(), &this, job]).arg(folder.path());
    ended(command.args(["--transport", "mpi", "--cores", "2"]).args(flags), folder.path())
}

/// The path of this program.
fn this() -> String {
    let this = std::env::current_exe().expect("this program has a path");
    this.to_str().expect("the path is text").to_owned()
}

impl Ended {
    /// All ranks end well, with the same result.
    fn well(&self, ranks: usize, result: &str) -> Result<(), String> {
        self.expect(self.status == Some(0), "another status")?;
        self.all(ranks, |got| got == result)
    }

    /// All ranks get the same error, and the launcher fails.
    fn ill(&self, ranks: usize, error: &str) -> Result<(), String> {
        self.expect(self.status.is_some_and(|status| status != 0), "another status")?;
        self.all(ranks, |got| got.contains(error))?;
        let first = self.ranks.first_key_value().map(|(_, got)| got);
        self.expect(self.ranks.values().all(|got| Some(got) == first), "different errors")
    }

    fn all(&self, ranks: usize, right: impl Fn(&str) -> bool) -> Result<(), String> {
        self.expect(self.ranks.len() == ranks, "another number of ranks")?;
        self.expect(self.ranks.values().all(|got| right(got)), "something else")
    }

    fn expect(&self, holds: bool, what: &str) -> Result<(), String> {
        let Self { status, stderr, ranks, after } = self;
        let got = || format!("{what}: status {status:?} after {after:?}, {ranks:#?}\n{stderr}");
        if holds { Ok(()) } else { Err(got()) }
    }
}

type Test = (&'static str, fn() -> Result<(), String>);

const TESTS: &[Test] = &[
    ("word_count", || {
        let text = fs::read_to_string(jobs::TEXT).map_err(|error| error.to_string())?;
        let mut counts = BTreeMap::new();
        text.split_whitespace().for_each(|word| *counts.entry(word.to_owned()).or_default() += 1);
        let counted = jobs::counted(counts);
        for ranks in [2, 3, 5] {
            on_ranks(ranks, "words", &[]).well(ranks, &counted)?;
        }
        Ok(())
    }),
    ("windows", || on_ranks(3, "windows", &[]).well(3, "100 windows of 100: true")),
    ("a_loop", || {
        let halved: u64 = (1..100_000u64).map(|n| u64::from(n.trailing_zeros())).sum();
        on_ranks(3, "loops", &[]).well(3, &format!("Some(({halved}, 17)), Some(0)"))
    }),
    ("large_records", || {
        let sum = 3_000_000u64 * 2_999_999 / 2;
        on_ranks(3, "large", &[]).well(3, &format!("Some(6) Some({sum})"))
    }),
    ("little_credit", || {
        let sum = 3_000_000u64 * 2_999_999 / 2;
        on_ranks(2, "large", &["--credit", "4KiB"]).well(2, &format!("Some(6) Some({sum})"))
    }),
    ("jobs_after_and_beside_each_other", || on_ranks(3, "many", &[]).well(3, "400 jobs: true")),
    ("one_rank_alone", || on_ranks(1, "windows", &[]).well(1, "100 windows of 100: true")),
    ("a_closure_panics", || on_ranks(3, "fails", &[]).ill(3, "no record is good enough")),
    ("different_jobs", || {
        on_ranks(3, "differs", &[]).ill(3, "hosts 0 and 1 have described different jobs")
    }),
    ("a_rank_leaves", || {
        let ended = on_ranks(3, "leaves", &[]);
        ended.expect(ended.status == Some(1), "another status")?;
        ended.all(3, |got| {
            got == "has left" || got.contains("host 1 is lost") && got.contains("it has left")
        })
    }),
    // It waits for the other, which takes no part any more, and neither takes the other one for lost.
    ("a_rank_leaves_long_before_another", || {
        on_ranks(2, "lingers", &["--lost-after", "300ms"]).well(2, "has left")
    }),
    ("a_rank_is_killed", || {
        let ended = on_ranks(3, "is killed", &[]);
        ended.expect(ended.status == Some(137), "another status")?;
        ended.expect(ended.stderr.contains("signal 9 (Killed)"), "another message")
    }),
    ("a_rank_exits", || {
        let ended = on_ranks(3, "exits", &[]);
        ended.expect(ended.status == Some(7), "another status")
    }),
    ("a_rank_is_stopped", || {
        let ended = on_ranks(3, "is stopped", &["--lost-after", "1s"]);
        ended.expect(ended.status.is_some_and(|status| status != 0), "another status")?;
        let lost =
            |got: &str| got.contains("is lost") && got.contains("nothing arrived from it for");
        ended.all(ended.ranks.len().max(2), lost)?;
        // The launcher lets the one that is stopped go on before it ends it, and it may take another for lost then.
        let others = || ended.ranks.iter().filter(|(rank, _)| **rank != 1);
        let right =
            others().count() == 2 && others().all(|(_, got)| got.contains("host 1 is lost"));
        ended.expect(right, "something else")
    }),
    ("an_idle_job_leaves_the_cores", || on_ranks(2, "idle", &[]).well(2, "sleeps")),
    ("a_plan_is_explained", || {
        let ended = on_ranks(2, "words", &["--explain"]);
        ended.expect(ended.status == Some(0) && ended.ranks.is_empty(), "something else")
    }),
    ("different_credit", || {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (this, path) = (this(), folder.path().display().to_string());
        let mut command = command(&MPIRUN);
        let rank = [this.as_str(), "words", path.as_str(), "--transport", "mpi", "--credit"];
        command.args(["-n", "2"]).args(rank).args(["8KiB", ":", "-n", "1"]).args(rank).arg("9KiB");
        let ended = ended(&mut command, folder.path());
        // The launcher ends the others as soon as one has ended.
        ended.ill(ended.ranks.len().clamp(1, 3), "hosts have to be configured with the same credit")
    }),
    ("nothing_has_started_the_ranks", || {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = command(&[&this(), "words"]);
        command.arg(folder.path()).args(["--transport", "mpi"]);
        let ended = ended(&mut command, folder.path());
        ended.expect(ended.status == Some(2), "another status")?;
        ended.all(1, |got| got.contains("run `mpirun -n N` before the program"))
    }),
    ("another_launcher", || {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = command(&["mpirun.mpich", "-n", "2", &this(), "words"]);
        command.arg(folder.path()).args(["--transport", "mpi"]);
        let ended = ended(&mut command, folder.path());
        ended.expect(ended.status.is_some_and(|status| status != 0), "another status")?;
        ended.expect(ended.stderr.contains("may belong to another MPI library"), "another message")
    }),
];

fn drive() -> ExitCode {
    let names: Vec<_> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in TESTS {
        if !names.is_empty() && !names.iter().any(|part| name.contains(part)) {
            continue;
        }
        let begun = Instant::now();
        match test() {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok ({:.1} s)", begun.elapsed().as_secs_f64());
            }
            Err(why) => {
                failed += 1;
                println!("test {name} ... FAILED\n{why}");
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(u8::from(failed > 0))
}
