//! What is measured for the model: exchanges of records of several sizes in batches of several sizes, events on many lanes, and
//! rounds of a loop. From some of it the costs follow; the rest is compared with what the model predicts.

use super::super::lab::Arrangement;
use super::super::rounds::{Case, Measured};
use super::super::{Common, scaled};
use super::fit::{Fit, Row};
use super::predict::{Cluster, Costs};
use crate::bench::Spread;
use anyhow::{Context, Result};

/// Bytes of a record.
pub(super) const WIDTHS: [u32; 4] = [8, 32, 128, 512];
/// Records of a batch.
pub(super) const BATCHES: [u32; 4] = [16, 64, 256, 1024];
/// The most bytes of a batch: half the credit of a lane, so that a sender need not wait for each to be read.
const MOST_BYTES: u32 = 128 << 10;
/// Tasks on two cores: as many lanes as their square.
const TASKS: [usize; 4] = [2, 8, 32, 64];
/// Hosts, threads of each, and receiving tasks of all: the exchanges that are compared with the model.
const CHECKED: [(usize, usize, Option<usize>); 6] =
    [(2, 1, None), (3, 1, None), (4, 1, None), (2, 16, None), (2, 1, Some(64)), (2, 1, Some(1024))];
/// Bytes of the records of the checks, which no exchange for the fit has.
const CHECKED_WIDTH: u32 = 24;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Probe {
    /// Two tasks send each other records: on two hosts, or on one.
    Exchange { away: bool, width: u32, batch: u32 },
    /// Rounds of a loop that end on a lane from each of so many tasks on two cores to each of as many others: on two hosts, or
    /// on one.
    Events { away: bool, tasks: usize },
    /// Rounds of a loop without an exchange.
    Rounds { hosts: usize },
    /// So many tasks of each host send records to as many of each host, or to so many in all.
    All { hosts: usize, threads: usize, receivers: Option<usize> },
}

/// A measurement, and what the model predicts of it.
pub(super) struct Check {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) predicted: f64,
    pub(super) measured: Spread,
}

/// Everything that is measured.
pub(super) fn all() -> Vec<Probe> {
    let mut probes = Vec::new();
    for away in [true, false] {
        for width in WIDTHS {
            let fitting = BATCHES.into_iter().filter(|batch| width * batch <= MOST_BYTES);
            probes.extend(fitting.map(|batch| Probe::Exchange { away, width, batch }));
        }
        probes.extend(TASKS.map(|tasks| Probe::Events { away, tasks }));
    }
    probes.extend([1, 2, 3, 4].map(|hosts| Probe::Rounds { hosts }));
    probes.extend(CHECKED.map(|(hosts, threads, receivers)| Probe::All {
        hosts,
        threads,
        receivers,
    }));
    probes
}

/// Two hosts of one core, or one of two.
fn two_cores(away: bool) -> Arrangement {
    if away {
        Arrangement::hosts(2)
    } else {
        Arrangement { cores: 2, threads: 2, ..Arrangement::hosts(1) }
    }
}

impl Probe {
    pub(super) fn name(self) -> String {
        let place = |away| if away { "between two hosts" } else { "within a host" };
        match self {
            Self::Exchange { away, width, batch } => {
                format!("{width} bytes in batches of {batch} {}", place(away))
            }
            Self::Events { away, tasks } => {
                format!("rounds on the lanes of {tasks} tasks {}", place(away))
            }
            Self::Rounds { hosts: 1 } => "rounds on one host".to_owned(),
            Self::Rounds { hosts } => format!("rounds on {hosts} hosts"),
            Self::All { hosts, receivers: Some(receivers), .. } => {
                format!("exchange on {hosts} hosts, {receivers} receivers")
            }
            Self::All { hosts, threads: 1, .. } => format!("exchange on {hosts} hosts"),
            Self::All { hosts, threads, .. } => {
                format!("exchange on {hosts} hosts, {threads} threads on each")
            }
        }
    }

    pub(super) fn case(self, common: &Common) -> Case {
        let (on, amount, words) = match self {
            Self::Exchange { away, width, batch } => {
                let nanoseconds = if away {
                    30.0 + 0.5 * f64::from(width) + 1000.0 / f64::from(batch)
                } else {
                    5.0 + 0.1 * f64::from(width) + 60.0 / f64::from(batch)
                };
                // A tenth of a second on two cores, by guess.
                let records = scaled(common, (0.2e9 / nanoseconds) as u64, 1000);
                let line = format!(
                    "--batch adaptive:{batch} exchange --to next --records {records} --bytes {width}"
                );
                (two_cores(away), records, line)
            }
            Self::Events { away, tasks } => {
                let rounds = scaled(common, if tasks > 8 { 300 } else { 1500 }, 10);
                (two_cores(away), rounds, format!("rounds --tasks {tasks} --rounds {rounds}"))
            }
            Self::Rounds { hosts } => {
                let rounds = scaled(common, if hosts == 1 { 100_000 } else { 3000 }, 10);
                (Arrangement::hosts(hosts), rounds, format!("rounds --rounds {rounds}"))
            }
            Self::All { hosts, threads, receivers } => {
                let records = scaled(common, 8_000_000, 1000);
                let receivers = receivers.map_or(String::new(), |n| format!(" --receivers {n}"));
                let line = format!(
                    "exchange --to all --records {records} --bytes {CHECKED_WIDTH}{receivers}"
                );
                (Arrangement { threads, ..Arrangement::hosts(hosts) }, records, line)
            }
        };
        let known = match self {
            // The sum of the numbers of the records, twice.
            Self::Exchange { .. } | Self::All { .. } => {
                format!("{amount}:{:016x}", amount.wrapping_mul(amount.saturating_sub(1)))
            }
            // The sum of 0 to 63, in each round.
            Self::Events { .. } | Self::Rounds { .. } => format!("{amount}:{:016x}", 2016 * amount),
        };
        Case {
            name: self.name(),
            on,
            arguments: words.split(' ').map(str::to_owned).collect(),
            amount: amount as f64,
            question: words,
            known: Some(known),
        }
    }
}

/// Seconds of processor time of a record, or of a round, on two cores that have nothing else to do.
pub(super) fn seconds_each(measured: &Measured) -> Result<f64> {
    Ok(2.0 * measured.seconds()?.median / measured.case.amount)
}

fn terms(width: u32, batch: u32) -> [f64; 3] {
    [1.0, f64::from(width), 1.0 / f64::from(batch)]
}

/// The costs that the measurements say.
pub(super) fn costs(found: &[(Probe, Measured)]) -> Result<Costs> {
    let (mut local, mut remote, mut reader) = (Vec::new(), Vec::new(), Vec::new());
    let (mut events_local, mut events_remote) = (Vec::new(), Vec::new());
    for (probe, measured) in found {
        match *probe {
            Probe::Exchange { away, width, batch } => {
                let terms = terms(width, batch);
                let row = Row { terms, cost: seconds_each(measured)? };
                if away {
                    remote.push(row);
                    // Each of the two hosts receives half.
                    let received = measured.case.amount / 2.0;
                    let cost = measured.network_seconds()?.median / received;
                    reader.push(Row { terms, cost });
                } else {
                    local.push(row);
                }
            }
            Probe::Events { away, tasks } => {
                let tasks = tasks as f64;
                // Half of the tasks, and of the lanes, are of either core.
                let terms = [1.0, tasks / 2.0, tasks * tasks / 2.0];
                let cost = measured.seconds()?.median / measured.case.amount;
                if away { &mut events_remote } else { &mut events_local }.push(Row { terms, cost });
            }
            Probe::Rounds { .. } | Probe::All { .. } => {}
        }
    }
    let [_, _, event_local] = Fit::of(&events_local)?.coefficients;
    let [_, event_host, event_mixed] = Fit::of(&events_remote)?.coefficients;
    // Half of the lanes of two hosts are within one.
    let event_remote = (2.0 * event_mixed - event_local).max(event_local);
    let round = round_on(found, 1)?;
    let hop = ((round_on(found, 2)? - round) / 2.0).max(0.0);
    // Where nothing was read by a thread of its own, nothing limits it.
    let reader = if reader.iter().all(|row| row.cost > 0.0) {
        Fit::of(&reader)?
    } else {
        Fit { coefficients: [0.0; 3], residuals: Vec::new() }
    };
    Ok(Costs {
        local: Fit::of(&local)?,
        remote: Fit::of(&remote)?,
        reader,
        event_local,
        event_remote,
        event_host,
        round,
        hop,
    })
}

/// Seconds of a round on so many hosts.
fn round_on(found: &[(Probe, Measured)], hosts: usize) -> Result<f64> {
    let wanted = Probe::Rounds { hosts };
    let (_, measured) = found.iter().find(|(probe, _)| *probe == wanted).context("no rounds")?;
    Ok(measured.seconds()?.median / measured.case.amount)
}

/// What was measured and not used for the costs, beside predictions.
pub(super) fn checks(
    found: &[(Probe, Measured)],
    costs: &Costs,
    processors: usize,
) -> Result<Vec<Check>> {
    // Of this machine: frames between its namespaces are copied by its own processors, which the costs include.
    let here = |hosts: usize, threads: usize, receivers: usize| Cluster {
        hosts: hosts as f64,
        cores: threads as f64,
        tasks: receivers as f64 / (hosts * threads) as f64,
        width: f64::from(CHECKED_WIDTH),
        bandwidth: f64::INFINITY,
        latency: 0.0,
    };
    let mut checks = Vec::new();
    for (probe, measured) in found {
        let (unit, predicted, spread) = match *probe {
            Probe::All { hosts, threads, receivers } => {
                let cluster = here(hosts, threads, receivers.unwrap_or(hosts * threads));
                let predicted = costs.on_processors(cluster, processors as f64);
                ("million records a second", predicted / 1e6, measured.rate()?)
            }
            Probe::Rounds { hosts } if hosts > 2 => {
                let predicted = costs.predict(here(hosts, 1, hosts)).round;
                ("microseconds a round", predicted * 1e6, measured.seconds()?)
            }
            _ => continue,
        };
        let scale = |seconds_or_rate: f64| match *probe {
            Probe::Rounds { .. } => seconds_or_rate / measured.case.amount * 1e6,
            _ => seconds_or_rate / 1e6,
        };
        let Spread { median, min, max } = spread;
        let spread = Spread { median: scale(median), min: scale(min), max: scale(max) };
        checks.push(Check { name: probe.name(), unit, predicted, measured: spread });
    }
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::super::super::lab::Sample;
    use super::*;

    /// Measurements as if costs were these, in nanoseconds, of a machine of two cores.
    fn found() -> Vec<(Probe, Measured)> {
        let common =
            Common { rounds: 1, small: false, plot: None, json: None, table: None, inside: None };
        let measure = |probe: Probe| {
            let case = probe.case(&common);
            let of = |width: u32, batch: u32, costs: [f64; 3]| -> f64 {
                terms(width, batch).iter().zip(costs).map(|(term, cost)| term * cost * 1e-9).sum()
            };
            let (seconds, network) = match probe {
                Probe::Exchange { away: true, width, batch } => (
                    of(width, batch, [20.0, 0.5, 900.0]) / 2.0,
                    of(width, batch, [1.0, 0.1, 90.0]) / 2.0,
                ),
                Probe::Exchange { width, batch, .. } => {
                    (of(width, batch, [4.0, 0.1, 50.0]) / 2.0, 0.0)
                }
                Probe::Events { away, tasks } => {
                    let lanes = (tasks * tasks) as f64 / 2.0;
                    let (event, task) = if away { (300e-9, 4e-6) } else { (100e-9, 1e-6) };
                    (1e-6 + lanes * event + tasks as f64 / 2.0 * task, 0.0)
                }
                Probe::Rounds { hosts } => (1e-6 + if hosts > 1 { 20e-6 } else { 0.0 }, 0.0),
                Probe::All { .. } => (30e-9, 0.0),
            };
            let sample = Sample {
                seconds: seconds * case.amount,
                network_seconds: network * case.amount,
                answer: String::new(),
            };
            (probe, Measured { case, samples: vec![sample] })
        };
        all().into_iter().map(measure).collect()
    }

    #[test]
    fn costs_are_found_again() {
        let costs = costs(&found()).unwrap();
        let near = |found: f64, nanoseconds: f64| {
            assert!((found / nanoseconds * 1e9 - 1.0).abs() < 1e-3, "{found}: {nanoseconds}");
        };
        for (fit, known) in [
            (&costs.remote, [20.0, 0.5, 900.0]),
            (&costs.local, [4.0, 0.1, 50.0]),
            (&costs.reader, [1.0, 0.1, 90.0]),
        ] {
            fit.coefficients.into_iter().zip(known).for_each(|(found, known)| near(found, known));
        }
        near(costs.event_local, 100.0);
        near(costs.event_remote, 500.0);
        near(costs.event_host, 4000.0);
        near(costs.round, 1000.0);
        near(costs.hop, 10_000.0);
    }

    #[test]
    fn what_was_not_fitted_is_compared() {
        let found = found();
        let checks = checks(&found, &costs(&found).unwrap(), 2).unwrap();
        assert_eq!(checks.len(), 2 + CHECKED.len());
        let of = |name: &str| checks.iter().find(|check| check.name == name).unwrap();
        let rounds = of("rounds on 3 hosts");
        assert!(
            (rounds.predicted - 21.0).abs() < 0.01 && (rounds.measured.median - 21.0).abs() < 0.01
        );
        // Half stays: 6.4 ns; half leaves: 32 ns; and some for batches: 2 cores give 102 million a second.
        let two = of("exchange on 2 hosts");
        assert!((101.0..104.5).contains(&two.predicted), "{}", two.predicted);
        assert!((two.measured.median - 1e3 / 30.0).abs() < 0.01);
    }

    #[test]
    fn no_batch_exceeds_its_share_of_the_credit() {
        let largest = all().into_iter().filter_map(|probe| match probe {
            Probe::Exchange { width, batch, .. } => Some(width * batch),
            _ => None,
        });
        assert_eq!(largest.max(), Some(MOST_BYTES));
    }
}
