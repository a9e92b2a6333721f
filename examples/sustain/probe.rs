//! Runs a program at one rate, and judges it.

use crate::args::Args;
use crate::gather::{Gather, Watched};
use crate::judge::{Judgement, judge};
use crate::programs::{Events, Job, Program};
use crate::tape::Schedule;
use serde::Serialize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use thalweg::{Error, ErrorKind, Result};
use thalweg_workloads::windows::Windows;

/// How many windows a program may be behind before its run is given up.
const PATIENCE: u32 = 5;
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// From this rate on a sample of a program's many results has some of every window.
const SAMPLED_FROM: f64 = 1e6;

/// What is the same for all rates.
pub(crate) struct Plan {
    pub(crate) watched: Watched,
    windows: Windows,
    events: Events,
}

impl Plan {
    /// Settles what the arguments ask for, and makes the events.
    ///
    /// # Errors
    ///
    /// When they do not fit together.
    pub(crate) fn new(args: &Args) -> Result<Self> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        if args.program == Program::Q4 {
            return wrong(
                "q4 has no sustainable rate: its averages are given at the end of the stream, so that no \
                 result can be late; q6 has the same join and gives results all the time"
                    .to_owned(),
            );
        }
        if args.least > args.most {
            return wrong("--least is greater than --most".to_owned());
        }
        let overlap = args.program.overlap();
        let step = args.window / overlap;
        if step < Duration::from_millis(10) {
            return wrong(
                "--window is too short: windows must be 10 ms apart, those of q5 50 ms long"
                    .to_owned(),
            );
        }
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        // A window that began before the events did is not whole.
        let watched = Watched {
            step,
            warm: overlap as usize,
            windows: args.windows,
            sampled: args.program.has_many_results(),
        };
        let windows = Windows::sliding(micros(args.window), micros(step));
        Ok(Self { watched, windows, events: Events::record(args) })
    }

    /// How long events are due at a rate: after the last window that is looked at a little more, so that
    /// its end comes with the events and not with that of the stream.
    pub(crate) fn length(&self) -> Duration {
        let Watched { step, warm, windows, .. } = self.watched;
        let more = (step / 10).min(Duration::from_secs(1));
        step.saturating_mul((warm + windows) as u32) + more
    }
}

/// What was seen at a rate.
#[derive(Debug, Serialize)]
pub(crate) struct Probe {
    /// Events a second.
    pub(crate) rate: f64,
    /// How many results were timed.
    pub(crate) timed_results: u64,
    /// The 50th, 99th and 100th percentile of their latencies.
    pub(crate) percentiles_ms: Option<[f64; 3]>,
    /// The mean latency of each window's results.
    pub(crate) windows_ms: Vec<Option<f64>>,
    /// Whether the program was so far behind that the run was given up.
    pub(crate) given_up: bool,
    #[serde(flatten)]
    pub(crate) judgement: Judgement,
}

/// Runs the program at a rate. Calls the closure now and then with the share of the time that has passed.
pub(crate) fn probe(args: &Args, plan: &Plan, rate: f64, progress: impl Fn(f64)) -> Result<Probe> {
    let length = plan.length();
    let schedule = Arc::new(Schedule::new(rate, length));
    let sampled = plan.watched.sampled && rate >= SAMPLED_FROM;
    let watched = Watched { sampled, ..plan.watched };
    let gather = Arc::new(Gather::new(watched, Arc::clone(&schedule)));
    let env = args.engine.environment()?;
    let job = Job {
        env: &env,
        schedule: &schedule,
        gather: &gather,
        windows: plan.windows,
        seed: args.seed,
    };
    job.describe(args.program, &plan.events)?;
    let running = env.start()?;
    let mut given_up = false;
    while !running.is_over() {
        thread::sleep(LOOK);
        let elapsed = schedule.elapsed();
        progress((elapsed.as_secs_f64() / length.as_secs_f64()).min(1.0));
        if is_behind(&plan.watched, elapsed, length, gather.latest()) {
            given_up = true;
            running.cancel();
            break;
        }
    }
    match running.wait() {
        Err(error) if !(given_up && error.kind() == ErrorKind::Cancelled) => return Err(error),
        _ => {}
    }
    let latencies = gather.latencies();
    Ok(Probe {
        rate,
        timed_results: latencies.timed,
        percentiles_ms: latencies.percentiles,
        judgement: judge(&latencies.windows, plan.watched.step.as_secs_f64()),
        windows_ms: latencies.windows,
        given_up,
    })
}

/// Whether a program whose results have come as far as `latest` is too far behind. What can be ahead of it:
/// the window that is open, and those before the first result.
fn is_behind(watched: &Watched, elapsed: Duration, length: Duration, latest: Duration) -> bool {
    let Watched { step, warm, .. } = *watched;
    let first = step.saturating_mul(warm as u32);
    let open = latest.max(first) + step;
    // Not sooner than a system that pauses for a second would.
    let patience = step.saturating_mul(PATIENCE).max(Duration::from_secs(1));
    elapsed.min(length).saturating_sub(open) > patience || elapsed.saturating_sub(length) > patience
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_falls_behind_is_given_up() {
        let seconds = Duration::from_secs;
        let watched = Watched { step: seconds(10), warm: 1, windows: 30, sampled: false };
        let behind =
            |elapsed, latest| is_behind(&watched, seconds(elapsed), seconds(311), seconds(latest));
        assert!(!behind(70, 0), "the first results may be five windows late");
        assert!(behind(71, 0));
        assert!(!behind(300, 290) && !behind(300, 240));
        assert!(behind(300, 239));
        assert!(!behind(350, 300), "the last windows have as much time");
        assert!(behind(362, 310));
        let short = Watched { step: Duration::from_millis(10), ..watched };
        assert!(!is_behind(&short, Duration::from_millis(500), seconds(2), Duration::ZERO));
    }
}
