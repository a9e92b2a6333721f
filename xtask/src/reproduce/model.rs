//! A model of larger clusters: costs are measured on one machine, and formulas make throughputs of them.
//!
//! `probes` says what is measured, `fit` finds the costs, `predict` has the formulas, `report` shows all of it.

mod fit;
mod predict;
mod probes;
mod report;

use super::lab::Lab;
use super::rounds::measure;
use super::{Common, Report};
use anyhow::Result;
use clap::Args;
use predict::Cluster;
use serde_json::{Value, json};

/// A model, fitted to measured costs, of 8, 100 and 1,000 hosts
///
/// Measures what a record, a byte of it and a batch cost on the way to another task of the same host and to another host, what an
/// event on a lane costs, and a round of a loop. Then it predicts the throughput of an exchange among all cores of a cluster, and
/// says which assumption breaks first. Measurements of two and more hosts that the costs were not fitted to are compared with what
/// the model predicts for them.
#[derive(Args)]
pub(super) struct Arguments {
    /// Numbers of hosts to predict
    #[arg(long, value_delimiter = ',', default_value = "2,8,100,1000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    hosts: Vec<u32>,

    /// Cores of each host
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: u32,

    /// Receiving tasks for each core: 4 by default for streams with keys, 1 for `shuffle`
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    keyed_tasks: u32,

    /// Bytes of a record
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    bytes: u32,

    /// Gbit/s from and to each host
    #[arg(long, default_value_t = 100.0, value_parser = positive)]
    bandwidth: f64,

    /// Microseconds from one host to another
    #[arg(long, default_value_t = 50.0, value_parser = positive)]
    latency: f64,

    /// Gigabytes of memory of each host
    #[arg(long, default_value_t = 256.0, value_parser = positive)]
    memory: f64,

    #[command(flatten)]
    pub(super) common: Common,
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "allowed is a number above 0".to_owned())
}

impl Arguments {
    /// A cluster of so many hosts.
    fn cluster(&self, hosts: u32) -> Cluster {
        Cluster {
            hosts: f64::from(hosts),
            cores: f64::from(self.cores),
            tasks: f64::from(self.keyed_tasks),
            width: f64::from(self.bytes),
            bandwidth: self.bandwidth * 1e9 / 8.0,
            latency: self.latency * 1e-6,
        }
    }
}

pub(super) fn run(arguments: &Arguments, lab: &Lab) -> Result<Report> {
    let probes = probes::all();
    let cases = probes.iter().map(|probe| probe.case(&arguments.common)).collect();
    let measured = measure(lab, cases, arguments.common.rounds)?;
    let found = probes.into_iter().zip(measured).collect::<Vec<_>>();
    let costs = probes::costs(&found)?;
    let checks = probes::checks(&found, &costs, lab.processors())?;
    let memory = arguments.memory * 1e9;
    let clusters: Vec<Cluster> =
        arguments.hosts.iter().map(|hosts| arguments.cluster(*hosts)).collect();
    let breaks = predict::breaks(&costs, arguments.cluster(1), memory);
    let table = report::text(&found, &costs, &checks, &clusters, &breaks)?;
    let probes: Vec<Value> = found.iter().map(|(_, measured)| measured.json()).collect();
    let json = json!({
        "probes": probes,
        "costs": report::costs_json(&costs),
        "predictions": clusters.iter().map(|of| report::prediction_json(&costs, *of)).collect::<Vec<_>>(),
    });
    let panels = report::panels(&costs, arguments.cluster(1));
    let title = format!(
        "Predicted: an exchange of records of {} bytes among hosts of {} cores, {} Gbit/s, {} us",
        arguments.bytes, arguments.cores, arguments.bandwidth, arguments.latency
    );
    let plot = Box::new(move |origin: &str| super::chart::draw(&title, origin, &panels));
    Ok(Report { table, json, plot })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_cluster_is_in_bytes_and_seconds() {
        let line = "model --hosts 8,9 --cores 4 --bandwidth 10 --latency 20 --bytes 100";
        let arguments = Line::try_parse_from(line.split(' ')).unwrap().arguments;
        let cluster = arguments.cluster(arguments.hosts[1]);
        assert_eq!((cluster.hosts, cluster.cores, cluster.tasks), (9.0, 4.0, 4.0));
        assert_eq!((cluster.width, cluster.bandwidth), (100.0, 1.25e9));
        assert!((cluster.latency - 20e-6).abs() < 1e-12);
        for wrong in ["--latency -1", "--bandwidth 0", "--hosts 0", "--cores x"] {
            let words = ["model"].into_iter().chain(wrong.split(' '));
            assert!(Line::try_parse_from(words).is_err(), "{wrong}");
        }
    }
}
