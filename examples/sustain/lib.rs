//! Which rate of events a program sustains: it is run at one rate after the other, its events due on a
//! schedule whether it keeps up or not, until the greatest rate is found at which the latency of its
//! results does not grow.
//!
//! - [`search`]: which rate is tried next. Pure.
//! - [`judge`]: whether one was sustained, from the latencies seen. Pure.
//! - `probe`: runs a program at one rate; `programs` has the programs, `tape` their events, `gather` takes
//!   their results' latencies.
//! - `report` and `plot`: what is printed, written and drawn.

mod args;
mod gather;
pub mod judge;
mod plot;
mod probe;
mod programs;
mod report;
pub mod search;
mod tape;

pub use args::Args;

use probe::{Plan, probe};
use report::{Report, Shown};
use search::Search;
use thalweg::Result;
use thalweg_examples::refuse_checkpoints;

/// Searches, and reports.
///
/// # Errors
///
/// When the arguments do not fit together, the program fails, or what was found cannot be written.
pub fn run(args: Args) -> Result<()> {
    refuse_checkpoints(&args.engine.to_config()?)?;
    let plan = Plan::new(&args)?;
    let mut search = Search::new(args.from, args.least..=args.most, args.precision);
    let mut report = Report::new(&args, &plan);
    let shown = Shown::new(&args, &plan);
    shown.begin()?;
    while let Some(rate) = search.next() {
        let left = search.left();
        let seen = probe(&args, &plan, rate, |done| shown.progress(rate, done, left))?;
        search.tell(rate, seen.judgement.is_sustainable());
        shown.row(&seen)?;
        report.probes.push(seen);
    }
    (report.sustainable, report.at_least) = (search.found(), !search.is_bounded());
    shown.end(&report)?;
    report.write(&args)
}
