//! The progress of a job, as a bar on a terminal or as lines.

use crate::clock::Clock;
use crate::config::Progress;
use crate::error::Result;
use crate::metrics::{CheckpointStats, OpCount, Total, show};
use crate::plan::Plan;
use crate::runtime::TaskCounts;
use crate::stream::RunningJob;
use crate::sync::spawn;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The interval between two updates of a terminal: short enough to show movement, long enough to cost next to
/// nothing.
const DRAW: Duration = Duration::from_millis(200);
/// The time before progress is first shown; a shorter job shows nothing.
const FIRST: Duration = Duration::from_millis(500);
/// The interval between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(2);
/// The number of steps of the bar.
const STEPS: u64 = 1000;

/// The progress of a job, shown until this is dropped.
pub(super) struct Shown {
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Shown {
    /// Shows the progress of a job if the setting wants it.
    pub(super) fn start(job: &Arc<RunningJob>, when: Progress) -> Result<Option<Self>> {
        let terminal = std::io::stderr().is_terminal();
        let prints = std::io::stdout().is_terminal();
        if !wanted(when, &job.launched().plan, terminal, prints) {
            return Ok(None);
        }
        let (stop, stopped) = channel();
        let job = Arc::downgrade(job);
        let thread = spawn("thalweg-progress".to_owned(), move || {
            let mut surface = if terminal { Surface::bar() } else { Surface::Lines };
            let clock = Clock::system();
            let began = clock.now();
            let mut pause = surface.first();
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = surface.pause();
                let Some((read, checkpoints)) = look(&job) else { break };
                let after = Duration::from_nanos(clock.now() - began);
                surface.show(&read, line(&read, checkpoints.as_ref(), after));
            }
            surface.clear();
        })?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only draws; a panic there does not fail a job that has succeeded.
            let _ = thread.join();
        }
    }
}

/// Whether to show progress. By default, only if standard error is a terminal, the job is bounded, and it does not
/// print its records to the same terminal.
fn wanted(when: Progress, plan: &Plan, terminal: bool, prints_to_terminal: bool) -> bool {
    match when {
        Progress::Never => false,
        Progress::Always => true,
        Progress::Auto => {
            let prints = plan.operators.iter().any(|op| op.kind.starts_with("print"));
            terminal
                && plan.stages.iter().all(|stage| stage.bounded)
                && !(prints && prints_to_terminal)
        }
    }
}

/// What the sources of a job have read, and its checkpoints if it has some; `None` if the job is over.
fn look(job: &Weak<RunningJob>) -> Option<(Read, Option<CheckpointStats>)> {
    let running = job.upgrade()?;
    let job = &running.launched().job;
    (!job.is_over()).then(|| (Read::of(&job.counted()), running.checkpoint_stats()))
}

/// The line after the job has run for this long.
fn line(read: &Read, checkpoints: Option<&CheckpointStats>, after: Duration) -> String {
    let line = read.line(after);
    match checkpoints {
        Some(checkpoints) => format!("{line}, {}", checkpoints.in_short()),
        None => line,
    }
}

/// Where progress is shown.
enum Surface {
    Bar(ProgressBar),
    Lines,
}

impl Surface {
    fn bar() -> Self {
        let target = ProgressDrawTarget::stderr();
        Self::Bar(ProgressBar::with_draw_target(Some(STEPS), target))
    }

    fn first(&self) -> Duration {
        match self {
            Self::Bar(_) => FIRST,
            Self::Lines => LINE,
        }
    }

    fn pause(&self) -> Duration {
        match self {
            Self::Bar(_) => DRAW,
            Self::Lines => LINE,
        }
    }

    fn show(&mut self, read: &Read, line: String) {
        match self {
            Self::Lines => _ = writeln!(std::io::stderr(), "{line}"),
            Self::Bar(bar) => {
                let template =
                    if read.share.is_some() { "{bar:30} {msg}" } else { "{spinner} {msg}" };
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
                }
                bar.set_position((read.share.unwrap_or(0.0) * STEPS as f64) as u64);
                bar.set_message(line);
                bar.tick();
            }
        }
    }

    fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// What the sources of a job have read so far.
#[derive(Clone, Debug, Default, PartialEq)]
struct Read {
    records: u64,
    bytes: u64,
    /// The share of the input that has been read, if every source knows its total; the share of the rounds of a loop
    /// once it goes on.
    share: Option<f64>,
    /// The running loops: the round, counted from 1, and the greatest number of rounds.
    rounds: Vec<[u64; 2]>,
}

impl Read {
    fn of(tasks: &[TaskCounts]) -> Self {
        let mut sources: BTreeMap<usize, Vec<&OpCount>> = BTreeMap::new();
        for (op, count) in tasks.iter().flat_map(|task| task.report.counts()) {
            if count.source {
                sources.entry(*op).or_default().push(count);
            }
        }
        let counts = || sources.values().flatten();
        let counted = tasks.iter().flat_map(|task| task.report.counts());
        let loops = counted.filter_map(|(_, count)| count.rounds.as_ref());
        let loops = loops.filter(|rounds| rounds.rounds > 0);
        let rounds: Vec<_> =
            loops.map(|rounds| [rounds.most.min(rounds.of_run + 1), rounds.most]).collect();
        let of_loop = rounds.first().map(|[round, most]| (round - 1) as f64 / *most as f64);
        // Sources with different units have equal weight.
        let shares: Option<Vec<f64>> = sources.values().map(|tasks| share(tasks)).collect();
        let shares = shares.filter(|shares| !shares.is_empty());
        let of_sources = shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64);
        Self {
            records: counts().filter_map(|count| count.emitted).sum(),
            bytes: counts().map(|count| count.read_bytes).sum(),
            share: of_loop.or(of_sources),
            rounds,
        }
    }

    /// The line after the job has run for this long.
    fn line(&self, after: Duration) -> String {
        let seconds = after.as_secs_f64().max(1e-9);
        let mut line = format!("{} records read", show::count(self.records));
        if !self.rounds.is_empty() {
            // The input is read; the number of rounds to come is not known.
            for [round, most] in &self.rounds {
                let [round, most] = [*round, *most].map(show::count);
                line += &format!(", round {round} of at most {most}");
            }
            return line;
        }
        let rate = |number: u64| (number as f64 / seconds) as u64;
        line += &if self.bytes > 0 {
            format!(", {}, {}/s", show::bytes(self.bytes), show::bytes(rate(self.bytes)))
        } else {
            format!(", {}/s", show::count(rate(self.records)))
        };
        if let Some(share) = self.share {
            line += &format!(", {}", show::percent(share));
            if share > 0.0 && share < 1.0 {
                let left = Duration::from_secs_f64((seconds * (1.0 - share) / share).min(1e9));
                // Seconds alone: tenths would flicker.
                let left = Duration::from_secs(left.as_secs() + 1);
                let left = if left.as_secs() < 60 {
                    format!("{} s", left.as_secs())
                } else {
                    show::span(left)
                };
                line += &format!(", {left} left");
            }
        }
        line
    }
}

/// The share of a source's input that its tasks have read.
fn share(tasks: &[&OpCount]) -> Option<f64> {
    let (mut read, mut all) = (0, 0);
    for count in tasks {
        let (got, total) = match count.total? {
            Total::Records(total) => (count.emitted.unwrap_or(0), total),
            Total::Bytes(total) => (count.read_bytes, total),
        };
        read += got;
        all += total;
    }
    Some(if all == 0 { 1.0 } else { (read as f64 / all as f64).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::metrics::{Report, RoundLog};

    fn task(reads: &[(usize, u64, u64, Option<Total>)]) -> TaskCounts {
        let mut report = Report::default();
        for &(op, records, bytes, total) in reads {
            report.read(op, records, bytes, total);
        }
        TaskCounts { report, ..TaskCounts::default() }
    }

    #[test]
    fn the_share_is_that_of_all_tasks() {
        let all = Some(Total::Records(1000));
        let none = Some(Total::Records(0));
        let read = Read::of(&[task(&[(0, 100, 0, all)]), task(&[(0, 150, 0, none)])]);
        assert_eq!(read, Read { records: 250, bytes: 0, share: Some(0.25), rounds: vec![] });
        // A second source, which is at its end and counts bytes.
        let files = task(&[(3, 7, 50, Some(Total::Bytes(50)))]);
        let read = Read::of(&[task(&[(0, 500, 0, all)]), files]);
        assert_eq!(read, Read { records: 507, bytes: 50, share: Some(0.75), rounds: vec![] });
    }

    #[test]
    fn one_source_that_does_not_know_leaves_the_share_open() {
        let read =
            Read::of(&[task(&[(0, 5, 0, Some(Total::Records(10)))]), task(&[(1, 5, 0, None)])]);
        assert_eq!((read.records, read.share), (10, None));
        assert_eq!(Read::of(&[]).share, None);
    }

    #[test]
    fn rounds_are_told_once_one_has_ended() {
        let mut log = RoundLog::default();
        let mut rounds = |ended| {
            let mut report = Report::default();
            report.read(0, 7, 0, Some(Total::Records(7)));
            (0..ended).for_each(|now| log.end_round(now, 0, 0));
            report.rounds(1, log.stats(10));
            Read::of(&[TaskCounts { report, ..TaskCounts::default() }])
        };
        assert_eq!((rounds(0).share, rounds(0).rounds), (Some(1.0), vec![]));
        let read = rounds(3);
        assert_eq!(read.share, Some(0.3));
        assert_eq!(read.line(Duration::from_secs(1)), "7 records read, round 4 of at most 10");
        assert_eq!(rounds(7).rounds, [[10, 10]]);
    }

    #[test]
    fn lines() {
        let line = |records, bytes, share, seconds| {
            Read { records, bytes, share, rounds: vec![] }.line(Duration::from_secs(seconds))
        };
        assert_eq!(line(12_000, 0, None, 2), "12,000 records read, 6,000/s");
        assert_eq!(
            line(12_000, 4 << 20, Some(0.25), 2),
            "12,000 records read, 4.0 MiB, 2.0 MiB/s, 25%, 7 s left"
        );
        assert_eq!(line(5, 0, Some(1.0), 1), "5 records read, 5/s, 100%");
        assert!(line(5, 0, Some(0.01), 10).ends_with("1%, 16 min 31 s left"));
        let read = Read { records: 9, ..Read::default() };
        let with = super::line(&read, Some(&CheckpointStats::default()), Duration::from_secs(1));
        assert_eq!(with, "9 records read, 9/s, no checkpoint yet");
    }

    #[test]
    fn progress_is_shown_where_a_person_sees_it() {
        let env = Environment::new();
        let _ = env.iter(0..3).count().collect_one();
        let plan = env.plan();
        assert!(wanted(Progress::Auto, &plan, true, true));
        assert!(!wanted(Progress::Auto, &plan, false, true));
        assert!(!wanted(Progress::Never, &plan, true, true));
        assert!(wanted(Progress::Always, &plan, false, false));
        let mut endless = plan.clone();
        endless.stages[0].bounded = false;
        assert!(!wanted(Progress::Auto, &endless, true, false));
        let mut printing = plan;
        printing.operators[1].kind = "print".into();
        assert!(!wanted(Progress::Auto, &printing, true, true));
        assert!(wanted(Progress::Auto, &printing, true, false));
    }
}
