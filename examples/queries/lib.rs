//! The queries of the programs and the benchmarks, as functions from streams to streams: what the programs run,
//! and what tests hold against answers computed one event after the other.

pub mod collisions;
pub mod graphs;
pub mod learning;
pub mod nexmark;
pub mod words;
pub mod ysb;

use std::fmt::Display;
use std::time::Duration;
use thalweg::data::Record;
use thalweg::operators::window::EventTimeWindow;
use thalweg::{Chain, Environment, Result, Stream};
use thalweg_workloads::digest::{Digest, Row};
use thalweg_workloads::windows::Windows;

/// Runs a query: prints its rows, in no order, or how many they are and their digest.
///
/// # Errors
///
/// When the job fails.
pub fn run<C>(env: &Environment, rows: Stream<C>, tsv: bool) -> Result<()>
where
    C: Chain,
    for<'a> <C::Item as Record>::Of<'a>: Row + Display,
{
    if tsv {
        let line = |row: <C::Item as Record>::Of<'_>| row.to_string();
        rows.map(line).print();
        return env.run();
    }
    let all = rows.fold_assoc(Digest::default(), |all, row| all.add(&row), Digest::merge);
    let all = all.collect::<Vec<_>>();
    env.run()?;
    for digest in all.take()? {
        println!("{} rows, digest {digest}", digest.rows());
    }
    Ok(())
}

/// The windows of a query.
fn window(windows: Windows) -> EventTimeWindow {
    let span = |micros: i64| Duration::from_micros(micros.unsigned_abs());
    EventTimeWindow::sliding(span(windows.size()), span(windows.slide()))
}
