//! Application mode: what the program does around its jobs when it is run from a shell.
#![expect(
    clippy::disallowed_methods,
    reason = "the part of the crate that speaks for a whole program"
)]

use super::hosts::Lines;
use super::progress::Shown;
use super::{interrupt, logging};
use crate::checkpoint::PlanComparison;
use crate::config::{CheckpointConfig, Config, Format, Settings, StatsFormat};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Stats, show};
use crate::net::Hosts;
use crate::plan::{Operator, Plan};
use crate::stream::{Application, Attendance, RunningJob};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

/// The application mode of these settings.
pub(super) struct Attended {
    settings: Settings,
    /// The number of hosts, if there are several.
    hosts: Option<usize>,
}

impl Attended {
    pub(super) fn new(settings: Settings, hosts: Option<usize>) -> Self {
        Self { settings, hosts }
    }
}

impl Application for Attended {
    fn starting(&self, plan: &Plan, config: &Config, hosts: &Hosts) -> Result<()> {
        if let Some(format) = self.settings.explain {
            let mut out = std::io::stdout();
            let written = out.write_all(explained(plan, config, self.hosts, format).as_bytes());
            if let Err(cause) = written.and_then(|()| out.flush()) {
                return Err(Error::new(ErrorKind::Io, "cannot print the plan").caused_by(cause));
            }
            hosts.leave();
            std::process::exit(0);
        }
        logging::print_warnings();
        interrupt::check()
    }

    fn started(&self, job: &Arc<RunningJob>) -> Result<Box<dyn Attendance>> {
        interrupt::watch(job);
        let shown = Shown::start(job, self.settings.progress)?;
        Ok(Box::new(Attending { stats: self.settings.stats, shown }))
    }

    fn compares_with(&self) -> Option<&Path> {
        self.settings.plan_against.as_deref()
    }

    fn compared(&self, comparison: &PlanComparison, dir: &Path) -> Error {
        let mut out = std::io::stdout();
        let shown =
            writeln!(out, "checkpoint {} of {}\n\n{comparison}", comparison.number, dir.display());
        match shown.and_then(|()| out.flush()) {
            Ok(()) => std::process::exit(if comparison.goes_on() { 0 } else { 1 }),
            Err(cause) => Error::new(ErrorKind::Io, "cannot print the comparison").caused_by(cause),
        }
    }

    fn warn(&self, what: &str) {
        Lines::print(what);
    }

    fn tell(&self, what: &str) {
        Lines::print(what);
    }
}

/// The plan in the requested format; the text also says what the job would run on.
fn explained(plan: &Plan, config: &Config, hosts: Option<usize>, format: Format) -> String {
    match format {
        Format::Text => {
            let Config { cores, scheduler, batch, .. } = config;
            let memory = show::bytes(config.memory as u64);
            let s = if cores.get() == 1 { "" } else { "s" };
            let place = match hosts {
                Some(hosts) => format!("{hosts} hosts, this one with {cores} core{s},"),
                None => format!("{cores} core{s}"),
            };
            format!(
                "{plan}\nto be run on {place} by {scheduler}, batches {batch}, with {memory} of \
                 memory; fingerprint {}\n{}",
                plan.fingerprint(),
                checkpoints(plan, config, hosts.is_some())
            )
        }
        Format::Dot => plan.to_dot(),
        Format::Json => plan.to_json() + "\n",
    }
}

/// Whether the job can have the checkpoints that are configured, and what keeps it from them; nothing if none are.
fn checkpoints(plan: &Plan, config: &Config, several_hosts: bool) -> String {
    let Some(CheckpointConfig { dir, interval, .. }) = &config.checkpoints else {
        return String::new();
    };
    let without = plan.without_checkpoints();
    let is_other = |op: &&Operator| !without.iter().any(|other| other.id == op.id);
    let in_loops =
        plan.operators.iter().filter(|op| several_hosts && op.loops > 0).filter(is_other);
    let without: Vec<_> = without.iter().copied().chain(in_loops).map(Operator::label).collect();
    match without.is_empty() {
        true => format!("checkpoints in {}, one each {}\n", dir.display(), show::span(*interval)),
        false => format!(
            "it would be refused: these operators cannot have checkpoints yet: {}\n",
            without.join(", ")
        ),
    }
}

struct Attending {
    stats: Option<StatsFormat>,
    shown: Option<Shown>,
}

impl Attendance for Attending {
    fn ended(self: Box<Self>, stats: &Stats) {
        // First, so that the two do not write to the terminal at the same time.
        drop(self.shown);
        let text = match self.stats {
            None => return,
            Some(StatsFormat::Text) => stats.to_string(),
            // Everything in the statistics has a form in JSON.
            Some(StatsFormat::Json) => serde_json::to_string(stats).unwrap_or_default() + "\n",
        };
        // The job itself is done; a failure to print its statistics does not undo it.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;

    #[test]
    fn what_keeps_a_job_from_having_checkpoints_is_said() {
        let env = Environment::new();
        env.channel::<u64>(9).1.for_each(drop);
        let mut config = Config::default();
        assert_eq!(checkpoints(&env.plan(), &config, false), "");
        config.checkpoints = Some(CheckpointConfig::new("saved"));
        let said = checkpoints(&env.plan(), &config, false);
        let begins = "it would be refused: these operators cannot have checkpoints yet: channel (";
        assert!(said.starts_with(begins), "{said}");
    }
}
