//! Example programs with checkpoints whose processes are killed with signal 9 at random moments, and that are started again, on
//! other numbers of processes, until they end: their output must equal that of an undisturbed run.
//!
//! A start has to go on from the newest checkpoint. Moments, victims and processes follow from a seed, but the progress of a
//! job at a moment does not, so the same seed need not fail again.

mod examples;
mod moments;
mod runs;

use crate::built::Build;
use crate::inputs::Numbers;
use crate::process::Totals;
use crate::recovery::{newest, resumed_from};
use crate::{rows, setup};
use anyhow::{Context, Result, bail, ensure};
use examples::{EXAMPLES, Example};
use moments::{Moment, Shape, Victim};
use runs::Setting;
use std::fs;
use std::ops::AddAssign;
use std::path::Path;
use std::time::Instant;

/// How often each program is killed in the tests of each change.
pub(crate) const USUAL: u64 = 3;

/// The time between checkpoints.
const INTERVAL: &str = "10ms";

/// A job that ends before this many kills is too short.
const FEW: u64 = 2;
/// The most jobs in a row that may end before they are killed: further jobs would end so too.
const PATIENCE: u64 = 20;

/// Counts of a program's jobs, starts and kills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    jobs: u64,
    /// Each job has one or more.
    starts: u64,
    kills: u64,
    /// Starts that went on from a checkpoint.
    resumed: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.starts += other.starts;
        self.kills += other.kills;
        self.resumed += other.resumed;
    }
}

impl Tally {
    /// Whether there are enough kills, and a start has gone on from a checkpoint.
    fn is_enough(&self, kills: u64) -> bool {
        self.kills >= kills && self.resumed > 0
    }

    fn said(&self) -> String {
        let Self { jobs, starts, kills, resumed } = self;
        format!(
            "{kills} kills in {jobs} jobs, {resumed} of {starts} starts went on from a checkpoint"
        )
    }
}

/// Kills each program this many times.
pub(crate) fn check(how: Build, kills: u64, seed: u64, totals: &mut Totals) -> Result<()> {
    // `setpriv` ends the launcher with this process.
    setup::debian("setpriv", "util-linux")?;
    // The package of `kill`. Shells have a `kill` of their own, so a look-up of the command would not show that it is missing.
    setup::debian("pgrep", "procps")?;
    let setting = Setting::new(how)?;
    println!(
        "the seed is {seed}: `cargo xtask long --part killed --kills {kills} --kill-seed {seed}`"
    );
    let (mut all, mut failures) = (Tally::default(), Vec::new());
    for (number, example) in (0..).zip(EXAMPLES) {
        let (start, name) = (Instant::now(), example.name);
        // Each program has moments of its own, which do not depend on those before it.
        let mut random = Numbers::new(seed.wrapping_mul(1009).wrapping_add(number));
        match example.kill_often(&setting, kills, &mut random) {
            Ok(tally) => {
                totals.passed += 1;
                all += tally;
                let seconds = start.elapsed().as_secs_f64();
                println!("{name}: ok, {} ({seconds:.1} s)", tally.said());
            }
            Err(error) => {
                totals.failed += 1;
                println!("{name}: FAILED: {error:#}");
                failures.push(format!("{name}: {error:#}"));
            }
        }
    }
    println!("all programs: {}", all.said());
    if !failures.is_empty() {
        bail!("with seed {seed}: {}", failures.join("\n"));
    }
    Ok(())
}

impl Example {
    /// Runs jobs until there are this many kills, and a start has gone on from a checkpoint.
    fn kill_often(&self, setting: &Setting, kills: u64, random: &mut Numbers) -> Result<Tally> {
        let (mut all, mut size, mut spared) = (Tally::default(), 1, 0);
        loop {
            let folder = setting.folder().join(self.name);
            fs::create_dir(&folder).context("cannot make a folder")?;
            let arguments = (self.input)(&folder, size)?;
            let expected = self.undisturbed(setting, &folder, &arguments).context("undisturbed")?;
            loop {
                let most = kills.saturating_sub(all.kills).clamp(1, 3 + random.below(5));
                let job = self
                    .job(setting, &arguments, &expected, most, random)
                    .with_context(|| format!("job {} of size {size}", all.jobs + 1))?;
                all += job;
                if all.is_enough(kills) {
                    fs::remove_dir_all(&folder).context("cannot remove a folder")?;
                    return Ok(all);
                }
                println!("{}: {} of {kills} kills so far; {}", self.name, all.kills, all.said());
                spared = if job.kills == 0 { spared + 1 } else { 0 };
                ensure!(spared < PATIENCE, "{spared} jobs in a row ended before they were killed");
                if job.kills < FEW && size < self.largest {
                    break;
                }
            }
            fs::remove_dir_all(&folder).context("cannot remove a folder")?;
            size *= 2;
        }
    }

    /// The rows of a run on one process without checkpoints, sorted.
    fn undisturbed(
        &self,
        setting: &Setting,
        folder: &Path,
        arguments: &[String],
    ) -> Result<Vec<String>> {
        let output = folder.join("undisturbed");
        let arguments = with(arguments, &[("--output", output.display().to_string().as_str())]);
        setting.start(Shape::UNDISTURBED, self.program, &arguments)?.end()?.succeeded()?;
        let rows = rows::sorted(rows::published(&output)?);
        ensure!(!rows.is_empty(), "it writes no row");
        Ok(rows)
    }

    /// Runs a job to its end, with at most this many kills, and checks its output.
    fn job(
        &self,
        setting: &Setting,
        arguments: &[String],
        expected: &[String],
        most: u64,
        random: &mut Numbers,
    ) -> Result<Tally> {
        let folder = tempfile::tempdir_in(setting.folder()).context("cannot make a folder")?;
        let (saved, output) = (folder.path().join("saved"), folder.path().join("output"));
        let arguments = with(
            arguments,
            &[
                ("--output", output.display().to_string().as_str()),
                ("--checkpoint", saved.display().to_string().as_str()),
                ("--checkpoint-interval", INTERVAL),
            ],
        );
        let mut job = Tally { jobs: 1, ..Tally::default() };
        loop {
            let before = newest(&saved)?;
            let shape = match before {
                0 => Shape::FIRST,
                _ => Shape::draw(random, self.may_shrink),
            };
            let moment = (job.kills < most).then(|| Moment::draw(random, job.starts == 0));
            let victim = Victim::draw(random);
            job.starts += 1;
            let mut launch = setting.start(shape, self.program, &arguments)?;
            let killed = match moment {
                Some(moment) => launch.kill_at(moment, victim, &saved, before)?,
                None => false,
            };
            let ended = launch.end()?;
            let after = newest(&saved)?;
            let published = !rows::visible(&output)?.is_empty();
            let start = format!("start {}, {shape:?}, {moment:?}, {victim:?}", job.starts);
            let is_resumed = is_resumed(before, &ended.said).with_context(|| start.clone())?;
            job.resumed += u64::from(is_resumed);
            let succeeded = ended.status.success();
            if !killed {
                ended.succeeded().with_context(|| start.clone())?;
            }
            if succeeded {
                ensure!(is_resumed || before == 0, "{start}: it has begun anew");
                break;
            }
            job.kills += 1;
            // Its results were published and its checkpoints removed when it was killed.
            if after == 0 && published {
                break;
            }
        }
        ensure!(newest(&saved)? == 0, "a job that has ended well leaves checkpoints");
        rows::same(rows::published(&output)?, expected)?;
        Ok(job)
    }
}

/// These arguments, and further ones with values.
fn with(arguments: &[String], more: &[(&str, &str)]) -> Vec<String> {
    let more = more.iter().flat_map(|&(flag, value)| [flag.to_owned(), value.to_owned()]);
    arguments.iter().cloned().chain(more).collect()
}

/// Whether a start has gone on from a checkpoint, by its output: it must be the newest, whose number is `before`, or 0 if there
/// was none. A start may be killed before it prints that.
fn is_resumed(before: u64, said: &str) -> Result<bool> {
    ensure!(!said.contains(" panicked at "), "a process has panicked: {said}");
    match resumed_from(said) {
        Some(number) if number == before && before > 0 => Ok(true),
        Some(number) => bail!("it goes on from checkpoint {number}, and {before} is the newest"),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_that_no_start_went_on_after_are_not_enough() {
        let tally = |kills, resumed| Tally { jobs: 1, starts: kills + 1, kills, resumed };
        assert!(tally(3, 1).is_enough(3));
        assert!(!tally(2, 2).is_enough(3));
        assert!(!tally(9, 0).is_enough(3));
        let mut all = tally(3, 1);
        all += tally(2, 2);
        assert_eq!(all, Tally { jobs: 2, starts: 7, kills: 5, resumed: 3 });
        let said = "5 kills in 2 jobs, 3 of 7 starts went on from a checkpoint";
        assert_eq!(all.said(), said);
    }

    #[test]
    fn a_start_goes_on_from_the_newest_checkpoint() {
        let said = "[0] the job goes on from checkpoint 12 of saved, 3.20 s old, 1.4 MiB\n";
        assert!(is_resumed(12, said).unwrap());
        assert!(!is_resumed(12, "").unwrap(), "it was killed before it could say so");
        assert!(!is_resumed(0, "").unwrap());
        let older = is_resumed(13, said).unwrap_err().to_string();
        assert_eq!(older, "it goes on from checkpoint 12, and 13 is the newest");
        assert!(is_resumed(0, said).is_err());
        assert!(is_resumed(0, "thread 'main' panicked at src/main.rs:1:1:\n").is_err());
    }

    #[test]
    fn arguments_are_added_with_their_values() {
        let arguments = with(&["a".to_owned()], &[("--b", "c"), ("--d", "e")]);
        assert_eq!(arguments, ["a", "--b", "c", "--d", "e"]);
    }
}
