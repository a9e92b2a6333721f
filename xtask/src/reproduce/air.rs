//! AIR's figure 10 in small: the throughput of the Yahoo streaming benchmark over tasks a node, cores a task and nodes, with and
//! without pipelining and overcommit.
//!
//! What AIR calls a task (`-n`) is a process here, with `-c` processors; a node (`-N`) is a network namespace.

use super::chart::{Panel, Scale, Series, draw};
use super::lab::{Arrangement, Lab};
use super::rounds::{Case, Measured, measure};
use super::{Common, Report, scaled, table};
use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

/// AIR's figure 10: throughput over tasks a node, cores a task and nodes, in six modes
///
/// The Yahoo streaming benchmark in processes (AIR's tasks, `-n`) with processors of their own (`-c`) on network namespaces (AIR's
/// nodes, `-N`). Its operators are joined by queues to any task (`shuffle`, AIR without pipelining), by queues to the task with the
/// same number on the same host (`forward`, AIR with pipelining), or are one stage (`fused`, as the engine does unless told
/// otherwise). With overcommit each process has more threads, and tasks of each stage, than processors.
///
/// Throughput is events divided by the time of a job that reads events from memory as fast as it can, not AIR's sustainable
/// throughput.
#[derive(Args)]
pub(super) struct Arguments {
    /// Events of a job
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    events: u64,

    /// Threads for each processor of a process that is overcommitted
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..=16))]
    overcommit: u64,

    #[command(flatten)]
    pub(super) common: Common,
}

/// One of the figure's lines.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    between: &'static str,
    overcommit: bool,
}

const fn mode(name: &'static str, between: &'static str, overcommit: bool) -> Mode {
    Mode { name, between, overcommit }
}

const MODES: [Mode; 6] = [
    mode("shuffle (AIR)", "shuffle", false),
    mode("shuffle, overcommit (AIR-O)", "shuffle", true),
    mode("forward (AIR-P)", "forward", false),
    mode("forward, overcommit (AIR-OP)", "forward", true),
    mode("fused", "fused", false),
    mode("fused, overcommit", "fused", true),
];

/// Nodes, tasks a node, and cores a task: each of AIR's three rows of plots.
const POINTS: [(usize, usize, usize); 6] =
    [(1, 1, 1), (1, 2, 1), (1, 4, 1), (1, 1, 2), (2, 1, 1), (3, 1, 1)];

fn cases(arguments: &Arguments) -> Result<Vec<Case>> {
    let events = scaled(&arguments.common, arguments.events, 1000);
    let overcommit = usize::try_from(arguments.overcommit)?;
    let mut cases = Vec::new();
    for (hosts, processes, cores) in POINTS {
        for mode in MODES {
            let threads = if mode.overcommit { cores * overcommit } else { cores };
            let events = events.to_string();
            let words = ["ysb", "--events", &events, "--between", mode.between];
            cases.push(Case {
                name: format!("N={hosts} n={processes} c={cores} {}", mode.name),
                on: Arrangement { hosts, processes, cores, threads },
                arguments: words.map(str::to_owned).to_vec(),
                amount: events.parse()?,
                question: "views".to_owned(),
                known: None,
            });
        }
    }
    Ok(cases)
}

/// Measures; the results are in the order of the points, and for each in that of the modes.
pub(super) fn run(arguments: &Arguments, lab: &Lab) -> Result<Report> {
    let all = measure(lab, cases(arguments)?, arguments.common.rounds)?;
    let json: Vec<Value> = all.iter().map(Measured::json).collect();
    let table = table_of(&all, lab.processors())?;
    let panels = panels(&all)?;
    let plot = Box::new(move |origin: &str| {
        draw("Yahoo streaming benchmark, as in AIR's figure 10", origin, &panels)
    });
    Ok(Report { table, json: Value::Array(json), plot })
}

fn table_of(all: &[Measured], processors: usize) -> Result<String> {
    let mut titles = vec!["N", "n", "c", "own processors"];
    titles.extend(MODES.map(|mode| mode.name));
    let mut rows = Vec::new();
    for ((hosts, processes, cores), of_point) in POINTS.iter().zip(all.chunks(MODES.len())) {
        let fits = of_point.first().is_some_and(|one| one.case.on.fits(processors));
        let mut row = [hosts, processes, cores].map(usize::to_string).to_vec();
        row.push(if fits { "yes" } else { "no" }.to_owned());
        for measured in of_point {
            row.push(table::spread(measured.rate()?, 1e6));
        }
        rows.push(row);
    }
    Ok(format!("Millions of events a second:\n\n{}", table::table(&titles, &rows)))
}

/// A number of the arrangement that changes along a panel, while the two others are 1.
struct Axis {
    label: &'static str,
    changes: fn(&Arrangement) -> usize,
    others: fn(&Arrangement) -> [usize; 2],
}

const AXES: [Axis; 3] = [
    Axis {
        label: "n, tasks a node (c=1, N=1)",
        changes: |on| on.processes,
        others: |on| [on.cores, on.hosts],
    },
    Axis {
        label: "c, cores a task (n=1, N=1)",
        changes: |on| on.cores,
        others: |on| [on.processes, on.hosts],
    },
    Axis {
        label: "N, nodes (n=1, c=1)",
        changes: |on| on.hosts,
        others: |on| [on.processes, on.cores],
    },
];

fn panels(all: &[Measured]) -> Result<Vec<Panel>> {
    let mut panels = Vec::new();
    for Axis { label, changes, others } in AXES {
        let mut series = Vec::new();
        for (place, mode) in MODES.into_iter().enumerate() {
            let mut points = Vec::new();
            for of_point in all.chunks(MODES.len()) {
                let measured = of_point.get(place).context("a point lacks a mode")?;
                let on = &measured.case.on;
                if others(on) == [1, 1] {
                    points.push((changes(on) as f64, measured.rate()?));
                }
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            // Two lines of a kind have one colour: with overcommit, and without.
            series.push(Series::measured(mode.name, place / 2, mode.overcommit, points, 1e6));
        }
        let y_label = "millions of events a second";
        panels.push(Panel { x_label: label.to_owned(), y_label, scale: Scale::Linear, series });
    }
    Ok(panels)
}

#[cfg(test)]
mod tests {
    use super::super::rounds::tests::measured;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn all() -> Vec<Measured> {
        let line = Line::try_parse_from(["air", "--overcommit", "3"]).unwrap();
        let cases = cases(&line.arguments).unwrap();
        cases.into_iter().map(|case| Measured { case, ..measured(1, &[2.0], "a") }).collect()
    }

    #[test]
    fn every_point_is_measured_in_every_mode() {
        let all = all();
        assert_eq!(all.len(), POINTS.len() * MODES.len());
        let threads = |at: usize| all[at].case.on.threads;
        // A process of one core, and one of two.
        assert_eq!([threads(0), threads(1), threads(18), threads(19)], [1, 3, 2, 6]);
        let table = table_of(&all, 2).unwrap();
        assert!(table.contains("| 1 | 4 | 1 | no | 2.00 (2.00 .. 2.00) |"), "{table}");
        assert!(table.contains("| 2 | 1 | 1 | yes |"), "{table}");
    }

    #[test]
    fn each_panel_changes_one_number() {
        let panels = panels(&all()).unwrap();
        let x = |panel: &Panel| -> Vec<f64> {
            panel.series[0].points.iter().map(|point| point.0).collect()
        };
        assert_eq!(
            panels.iter().map(x).collect::<Vec<_>>(),
            [vec![1.0, 2.0, 4.0], vec![1.0, 2.0], vec![1.0, 2.0, 3.0]]
        );
    }
}
