//! The programs that run on the hosts, their inputs, and what they should answer, which is computed here by loops over the
//! same inputs.

use super::job::Program;
use super::lab::Lab;
use crate::inputs::{Numbers, text};
use crate::rows::{published, same, sorted, visible};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The programs.
pub(super) const BUILT: [&str; 4] =
    ["wordcount", "windowed_wordcount", "connected_components", "network_jobs"];

fn write_text(lab: &Lab, name: &str, text: &[Vec<String>]) -> Result<String> {
    let lines: Vec<_> = text.iter().map(|line| line.join(" ")).collect();
    write(lab, name, &(lines.join("\n") + "\n"))
}

fn write(lab: &Lab, name: &str, text: &str) -> Result<String> {
    let path = lab.path(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}

/// A job and the rows that it should print, sorted.
pub(super) struct Known<'a> {
    pub(super) job: Program<'a>,
    rows: Vec<String>,
}

impl Known<'_> {
    pub(super) fn hosts(self, hosts: usize) -> Self {
        Self { job: self.job.hosts(hosts), ..self }
    }

    /// Fails unless this is the answer.
    pub(super) fn is(&self, answer: &str) -> Result<()> {
        same(answer.lines().map(str::to_owned).collect(), &self.rows)
    }

    /// Runs the job and checks its answer.
    pub(super) fn check(&self) -> Result<()> {
        self.is(&self.job.answer()?)
    }
}

/// Counts the words of a text.
pub(super) fn word_count(lab: &Lab, lines: u64) -> Result<Known<'_>> {
    let text = text(lines);
    let mut counts = BTreeMap::<&str, u64>::new();
    text.iter().flatten().for_each(|word| *counts.entry(word).or_default() += 1);
    let path = write_text(lab, "words.txt", &text)?;
    let rows = sorted(counts.iter().map(|(word, count)| format!("{word}\t{count}")));
    Ok(Known { job: lab.job("wordcount", &["--tsv", &path]), rows })
}

/// Counts the words of sliding windows of ten seconds, one every five; each line is a second.
pub(super) fn windows(lab: &Lab, lines: u64) -> Result<Known<'_>> {
    let text = text(lines);
    let mut words = BTreeMap::<&str, (BTreeSet<u64>, u64)>::new();
    for (second, line) in text.iter().enumerate() {
        for word in line {
            let (windows, occurrences) = words.entry(word).or_default();
            // By their last fifths.
            windows.extend([second as u64 / 5, second as u64 / 5 + 1]);
            *occurrences += 2;
        }
    }
    let path = write_text(lab, "spoken.txt", &text)?;
    let job = lab.job("windowed_wordcount", &["--tsv", "--by", "time", &path]);
    let row = |(word, (windows, occurrences)): (&&str, &(BTreeSet<u64>, u64))| {
        format!("{word}\t{}\t{occurrences}", windows.len())
    };
    Ok(Known { job, rows: sorted(words.iter().map(row)) })
}

/// Finds the connected components of a graph with long paths: a loop, in one of its forms.
pub(super) fn components<'a>(lab: &'a Lab, form: &str) -> Result<Known<'a>> {
    const NODES: u64 = 4000;
    let mut numbers = Numbers::new(2);
    let edges: Vec<_> =
        (0..NODES * 6 / 10).map(|_| (numbers.below(NODES), numbers.below(NODES))).collect();
    let mut least: BTreeMap<u64, u64> =
        edges.iter().flat_map(|(a, b)| [(*a, *a), (*b, *b)]).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (a, b) in &edges {
            let both = least[a].min(least[b]);
            for node in [a, b] {
                changed |= least.insert(*node, both) != Some(both);
            }
        }
    }
    let lines: String = edges.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    let path = write(lab, "edges.txt", &lines)?;
    let job = lab.job("connected_components", &["--tsv", "--form", form, &path]);
    Ok(Known { job, rows: sorted(least.iter().map(|(node, least)| format!("{node}\t{least}"))) })
}

/// How many readings the sessions have, and how long they last: see the program.
const READINGS: u64 = 12_000;

/// Sessions of readings, which take about three seconds and are written to a folder.
pub(super) fn sessions<'a>(lab: &'a Lab, folder: &str) -> Program<'a> {
    sessions_at_rate(lab, folder, "4000")
}

/// The same, with so many readings a second.
pub(super) fn sessions_at_rate<'a>(lab: &'a Lab, folder: &str, rate: &str) -> Program<'a> {
    let folder = lab.path(folder).display().to_string();
    let readings = READINGS.to_string();
    let arguments = ["sessions", "--readings", &readings, "--rate", rate, "--output", &folder];
    lab.job("network_jobs", &arguments)
}

/// The rows of all sessions.
fn session_rows() -> Vec<String> {
    let mut sessions = BTreeMap::<(u64, u64), (u64, u64)>::new();
    for reading in 0..READINGS {
        let (count, sum) = sessions.entry((reading % 64, reading / 1000)).or_default();
        *count += 1;
        *sum += reading;
    }
    let row = |((sensor, _), (count, sum)): (&(u64, u64), &(u64, u64))| {
        format!("{sensor}\t{count}\t{sum}")
    };
    sorted(sessions.iter().map(row))
}

/// Fails unless a folder has all sessions.
pub(super) fn sessions_are_in(folder: &Path) -> Result<()> {
    same(published(folder)?, &session_rows())
}

/// Fails unless the files of a folder are whole: those of a task have all sessions of its sensors.
pub(super) fn sessions_in_are_whole(folder: &Path) -> Result<()> {
    let rows = published(folder)?;
    let sensors: BTreeSet<_> = rows.iter().filter_map(|row| row.split('\t').next()).collect();
    let mut expected = session_rows();
    expected.retain(|row| row.split('\t').next().is_some_and(|sensor| sensors.contains(sensor)));
    same(rows.clone(), &expected)
}

/// Fails if a file of the job is published.
pub(super) fn nothing_is_in(folder: &Path) -> Result<()> {
    let files = visible(folder)?;
    ensure!(files.is_empty(), "a job that has failed has published {files:?}");
    Ok(())
}
