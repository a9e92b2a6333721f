//! The queries of the programs and the benchmarks, as functions from streams to streams: what the programs run,
//! and what tests hold against answers computed one event after the other.

pub mod collisions;
pub mod graphs;
pub mod learning;
pub mod nexmark;
pub mod words;
pub mod ysb;

use std::time::Duration;
use thalweg::operators::window::EventTimeWindow;
use thalweg_workloads::windows::Windows;

/// The windows of a query.
fn window(windows: Windows) -> EventTimeWindow {
    let span = |micros: i64| Duration::from_micros(micros.unsigned_abs());
    EventTimeWindow::sliding(span(windows.size()), span(windows.slide()))
}
