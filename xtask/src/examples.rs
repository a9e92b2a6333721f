//! Example programs: all are built and run, and their answers are checked.

use crate::built::Build;
use crate::metadata;
use crate::process::{program, root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// One run of an example.
struct Run {
    example: &'static str,
    arguments: &'static [&'static str],
    /// Lines that its standard output must contain; if there are none, it must print something.
    expects: &'static [&'static str],
}

/// Every example at least once, each small enough to take seconds.
///
/// The words are those of a text that never changes; `tr`, `sort` and `uniq` give the same counts.
const RUNS: &[Run] = &[
    Run { example: "wordcount", arguments: &[], expects: &[] },
    Run {
        example: "wordcount",
        arguments: &["--tsv", "LICENSE-APACHE"],
        expects: &["the\t100", "or\t69", "of\t67"],
    },
    Run {
        example: "wordcount",
        arguments: &["--tsv", "--form", "assoc", "LICENSE-APACHE"],
        expects: &["the\t100", "or\t69", "of\t67"],
    },
    Run { example: "windowed_wordcount", arguments: &[], expects: &[] },
    Run {
        example: "windowed_wordcount",
        arguments: &["--tsv", "LICENSE-APACHE"],
        expects: &["the\t19\t190", "or\t12\t120", "of\t12\t120"],
    },
    Run {
        example: "windowed_wordcount",
        arguments: &["--tsv", "--partial", "LICENSE-APACHE"],
        expects: &["the\t20\t195", "or\t14\t133"],
    },
    Run {
        example: "windowed_wordcount",
        arguments: &["--tsv", "--by", "time", "LICENSE-APACHE"],
        expects: &["the\t41\t200", "or\t36\t138", "of\t39\t134"],
    },
    Run { example: "rolling_top_words", arguments: &[], expects: &[] },
    Run {
        example: "rolling_top_words",
        arguments: &["--tsv", "LICENSE-APACHE"],
        expects: &["-40\t1\tthe\t9", "-20\t2\tor\t13", "0\t1\tthe\t30"],
    },
    Run {
        example: "kmeans",
        arguments: &["--k", "2", "examples/points.csv"],
        expects: &["2 rounds (Condition)", "1.3333333333333333\t2", "10\t11"],
    },
    Run {
        example: "logistic_regression",
        arguments: &["--tsv", "--iterations", "1", "--rate", "1", "examples/labelled.csv"],
        expects: &["bias\t0"],
    },
    Run {
        example: "pagerank",
        arguments: &["--iterations", "50", "examples/edges.txt"],
        expects: &["8 nodes; those of the highest rank:", "40\t0.125"],
    },
    Run {
        example: "pagerank",
        arguments: &["--tsv", "--form", "integer", "examples/edges.txt"],
        expects: &["7\t0.125", "40\t0.125"],
    },
    Run {
        example: "connected_components",
        arguments: &["examples/edges.txt"],
        expects: &["8 nodes in 3 components; the largest, and their sizes:", "1\t4", "7\t1"],
    },
    Run {
        example: "connected_components",
        arguments: &["--tsv", "--form", "delta", "examples/edges.txt"],
        expects: &["4\t1", "60\t40"],
    },
    Run {
        example: "transitive_closure",
        arguments: &["examples/edges.txt"],
        expects: &["26 pairs"],
    },
    Run {
        example: "transitive_closure",
        arguments: &["--tsv", "--form", "delta", "examples/edges.txt"],
        expects: &["1\t1", "7\t7", "60\t50"],
    },
    Run {
        example: "triangles",
        arguments: &["--form", "join", "examples/edges.txt"],
        expects: &["3 triangles"],
    },
    Run { example: "triangles", arguments: &["--tsv", "examples/edges.txt"], expects: &["3"] },
    Run {
        example: "collisions",
        arguments: &["--tsv", "examples/collisions.csv"],
        expects: &[
            "1\t2012-07-09\t1",
            "2\tUnspecified\t4\t0.25",
            "2\tObstructed, Limited\t1\t0",
            "3\tBRONX\t2012-07-02\t2\t1",
        ],
    },
    Run { example: "collisions", arguments: &["examples/collisions.csv"], expects: &[] },
    Run {
        example: "join",
        arguments: &[
            "--tsv",
            "--how",
            "full",
            "examples/orders.tsv",
            "examples/customers.tsv",
            "--left-column",
            "2",
        ],
        expects: &["7\t1\tale\tann", "9\t3\tcider\t\\N", "8\t\\N\tbob"],
    },
    Run {
        example: "join",
        arguments: &[
            "--how",
            "semi",
            "--by",
            "sort-merge",
            "examples/orders.tsv",
            "examples/customers.tsv",
            "--left-column",
            "2",
        ],
        expects: &["2 rows"],
    },
    Run { example: "squares", arguments: &[], expects: &[] },
    // It runs until a signal: the tests of applications run it to its end.
    Run {
        example: "until_stopped",
        arguments: &["--help"],
        expects: &["Numbers the ticks of a clock into a file until Ctrl-C"],
    },
    Run {
        example: "quiet_source",
        arguments: &["--readings", "1500", "--idle-after", "100"],
        expects: &["1970-01-01T00:00:01Z\t500"],
    },
    Run {
        example: "collatz",
        arguments: &["--tsv", "--limit", "1000000"],
        expects: &["837799\t524"],
    },
    Run {
        example: "fusion",
        arguments: &["--tsv", "--maps", "10", "--records", "1000"],
        expects: &[
            "none\t8388238008",
            "task\t8388238008",
            "invocation\t8388238008",
            "instruction\t8388238008",
        ],
    },
    Run { example: "fusion", arguments: &["--records", "100000"], expects: &[] },
    Run {
        example: "skew",
        arguments: &["--tsv", "--items", "3000", "--iterations", "100", "--cores", "2"],
        expects: &[
            "even\t100\tthread-per-task\t2\t3000\t20226.908",
            "skewed\t100\twork-stealing\t8\t3000\t20226.908",
            "thesis-skewed\t100\twork-stealing\t2\t3000\t20226.908",
        ],
    },
    Run { example: "skew", arguments: &["--items", "20000"], expects: &[] },
    Run {
        example: "latency",
        arguments: &["--light", "100", "--heavy", "200000", "--sizes", "16,1024"],
        expects: &[],
    },
    Run { example: "nexmark", arguments: &["--query", "0", "--events", "50000"], expects: &[] },
    Run { example: "nexmark", arguments: &["--query", "6", "--events", "50000"], expects: &[] },
    Run {
        example: "nexmark",
        arguments: &["--tsv", "--query", "4", "--events", "400000"],
        expects: &["10\t38519961", "12\t38077634"],
    },
    Run {
        example: "nexmark",
        arguments: &["--tsv", "--query", "5", "--events", "400000"],
        expects: &["1436918392000000\t1200\t821"],
    },
    Run {
        example: "ysb",
        arguments: &["--tsv", "--events", "200000"],
        expects: &["1436918400000000\t1\t700"],
    },
    Run {
        example: "ysb",
        arguments: &["--tsv", "--events", "200000", "--form", "variable"],
        expects: &["1436918400000000\t1\t700"],
    },
    Run {
        example: "ysb-star",
        arguments: &["--tsv", "--events", "200000"],
        expects: &["1436918400000000\t0\t646\t673\t0.959881"],
    },
    Run {
        example: "ysb-star",
        arguments: &["--tsv", "--events", "200000", "--form", "variable"],
        expects: &["1436918400000000\t0\t646\t673\t0.959881"],
    },
    Run {
        example: "swa",
        arguments: &["--tsv", "--events", "200000"],
        expects: &["1436918400000000\t200000"],
    },
    Run {
        example: "swa",
        arguments: &["--tsv", "--events", "200000", "--form", "variable"],
        expects: &["1436918400000000\t200000"],
    },
    Run {
        example: "sustain",
        arguments: &[
            "q5",
            "--window",
            "100ms",
            "--windows",
            "10",
            "--from",
            "50k",
            "--most",
            "100k",
            "--recorded",
            "50000",
        ],
        expects: &["      events/s         p50         p99         slope  sustainable"],
    },
    // The tests of launches run it on several hosts.
    Run { example: "misbehave", arguments: &["show"], expects: &["host 0", "Some(10000)"] },
    // The tests on bad networks run it on several hosts.
    Run {
        example: "network_jobs",
        arguments: &["--help"],
        expects: &["Counts and sums the readings of sensors."],
    },
    // `cargo xtask reproduce` measures it on several hosts, and checks its answers.
    Run {
        example: "scaling",
        arguments: &["--jobs", "1", "ysb", "--events", "100000"],
        expects: &[],
    },
    Run { example: "graph", arguments: &[], expects: &["word\tcount"] },
    Run {
        example: "graph",
        arguments: &["--tsv", "examples/graphs/licence.json"],
        expects: &["15\t4\tappropriateness\trepresentatives"],
    },
    Run {
        example: "graph",
        arguments: &["examples/graphs/two.json"],
        expects: &["all of them", "1", "the first"],
    },
    Run {
        example: "graph",
        arguments: &["examples/graphs/written.json"],
        expects: &["This graph collects no rows; what it writes is written."],
    },
];

/// The limit of a run in seconds: far more than any needs, so that a hang ends with the name of the example.
const LIMIT_SECONDS: &str = "300";

/// Builds every example; returns the folder of the build.
pub(crate) fn build() -> Result<PathBuf> {
    // At once, since the last steps of building one program have the machine for themselves.
    Build::Tested.build(&["--exclude", "xtask", "--bins", "--examples"])
}

/// Builds and runs every example.
pub(crate) fn check() -> Result<()> {
    let metadata = metadata::read()?;
    match_up(&metadata.examples, RUNS.iter().map(|run| run.example))?;
    let folder = build()?.join("examples");
    // `graphs/written.json` writes there, whatever the build's target directory.
    std::fs::create_dir_all(root().join("target"))?;
    RUNS.iter().try_for_each(|run| run.check(&folder))
}

/// The runs of programs that look at one process, or that start others of their own.
const ONE_PROCESS: [&str; 5] = ["fusion", "latency", "misbehave", "skew", "sustain"];

/// Runs every example with a known answer on this many processes; what they should print is the same.
pub(crate) fn check_launched(folder: &Path, launcher: &Path, count: &str) -> Result<()> {
    let known = RUNS.iter().filter(|run| !run.expects.is_empty());
    for run in known.filter(|run| !ONE_PROCESS.contains(&run.example)) {
        let mut command = program("timeout");
        command.arg(LIMIT_SECONDS).arg(launcher).args(["launch", "--local", count, "--"]);
        run.check_by(command.arg(folder.join(run.example)))?;
    }
    Ok(())
}

/// Checks that every example is run, and that every run has its example.
fn match_up<'a>(examples: &[String], runs: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
    if let Some(example) = examples.iter().find(|&example| !runs.clone().any(|run| run == example))
    {
        bail!("example `{example}` is never run: add it to RUNS in xtask/src/examples.rs");
    }
    if let Some(run) = runs.clone().find(|run| !examples.iter().any(|example| example == run)) {
        bail!("RUNS in xtask/src/examples.rs names `{run}`, and there is no such example");
    }
    Ok(())
}

impl Run {
    fn check(&self, folder: &Path) -> Result<()> {
        self.check_by(program("timeout").arg(LIMIT_SECONDS).arg(folder.join(self.example)))
    }

    /// Runs the example by a command that lacks its arguments.
    fn check_by(&self, command: &mut Command) -> Result<()> {
        let title = [&[self.example], self.arguments].concat().join(" ");
        let start = Instant::now();
        let output = command
            .args(self.arguments)
            .output()
            .with_context(|| format!("cannot start {title}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {}
            Some(124) => bail!("{title}: not done after {LIMIT_SECONDS} s\n{said}"),
            _ => bail!("{title}: ended with {}\n{said}", output.status),
        }
        let answer = String::from_utf8_lossy(&output.stdout);
        self.judge(&answer).with_context(|| format!("{title} in {}", root().display()))?;
        println!("{title}: ran in {:.2} s", start.elapsed().as_secs_f64());
        Ok(())
    }

    fn judge(&self, answer: &str) -> Result<()> {
        if answer.trim().is_empty() {
            bail!("it printed nothing");
        }
        match self.expects.iter().find(|&&line| !answer.lines().any(|found| found == line)) {
            Some(line) => bail!("its output has no line `{}`", line.escape_debug()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_and_runs_must_match() {
        let examples = ["a".to_owned(), "b".to_owned()];
        match_up(&examples, ["a", "b", "a"].into_iter()).unwrap();
        let unrun = match_up(&examples, ["a"].into_iter()).unwrap_err();
        assert!(unrun.to_string().starts_with("example `b` is never run"));
        let unknown = match_up(&examples, ["a", "b", "c"].into_iter()).unwrap_err();
        assert!(unknown.to_string().contains("names `c`"));
    }

    #[test]
    fn answers_are_judged_by_whole_lines() {
        let run = Run { example: "x", arguments: &[], expects: &["b\t1"] };
        run.judge("a\t2\nb\t1\n").unwrap();
        assert_eq!(
            run.judge("bb\t1\nb\t12\n").unwrap_err().to_string(),
            r"its output has no line `b\t1`"
        );
        assert!(run.judge(" \n").is_err());
    }

    #[test]
    fn an_example_that_fails_is_reported_with_what_it_said() {
        let run = Run { example: "sh", arguments: &["-c", "echo why >&2; exit 3"], expects: &[] };
        let error = run.check(Path::new("/bin")).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("why"), "{error}");
    }
}
