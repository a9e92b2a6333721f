//! The model as tables, JSON and a plot.

use super::super::chart::{Panel, Scale, Series};
use super::super::rounds::Measured;
use super::super::table::{grouped, short, spread, table};
use super::fit::Fit;
use super::predict::{BATCH, Break, Cluster, Costs, MOST, Prediction, WATERMARKS};
use super::probes::{BATCHES, Check, Probe, WIDTHS, seconds_each};
use anyhow::Result;
use serde_json::{Value, json};

/// All tables.
pub(super) fn text(
    found: &[(Probe, Measured)],
    costs: &Costs,
    checks: &[Check],
    clusters: &[Cluster],
    breaks: &[Break],
) -> Result<String> {
    let mut text = costs_table(costs);
    for (away, fit, place) in
        [(true, &costs.remote, "to another host"), (false, &costs.local, "within a host")]
    {
        text += &format!(
            "\nNanoseconds of a record {place}, measured, and how far the fit is from it:\n\n{}",
            measured_table(found, away, fit)?
        );
    }
    text += &format!("\nNot used for the fit:\n\n{}", checks_table(checks));
    text += &format!("\nPredicted:\n\n{}", predictions(costs, clusters));
    text += &format!("\nWhat breaks first:\n\n{}", breaks_table(breaks));
    Ok(text)
}

fn percent(share: f64) -> String {
    format!("{:+.0}%", share * 100.0)
}

fn costs_table(costs: &Costs) -> String {
    let titles = ["nanoseconds", "a record", "a byte", "a batch", "worst residual"];
    let row = |name: &str, fit: &Fit<3>| {
        let mut cells = vec![name.to_owned()];
        cells.extend(fit.coefficients.map(|seconds| short(seconds * 1e9)));
        cells.push(format!("{:.0}%", fit.worst() * 100.0));
        cells
    };
    let rows = [
        row("within a host", &costs.local),
        row("to another host", &costs.remote),
        row("of that, the thread that reads", &costs.reader),
    ];
    let others = [
        ("an event on a lane within a host", costs.event_local * 1e9, "ns"),
        ("an event on a lane between hosts", costs.event_remote * 1e9, "ns"),
        ("an event of a task for another host, beside its lanes", costs.event_host * 1e6, "us"),
        ("a round of a loop on one host", costs.round * 1e6, "us"),
        ("a message to another host, and the wake-up there", costs.hop * 1e6, "us"),
    ];
    let others =
        others.map(|(name, cost, unit)| vec![name.to_owned(), format!("{} {unit}", short(cost))]);
    format!("{}\n{}", table(&titles, &rows), table(&["other costs", ""], &others))
}

fn measured_table(found: &[(Probe, Measured)], away: bool, fit: &Fit<3>) -> Result<String> {
    let mut rows: Vec<Vec<String>> =
        WIDTHS.iter().map(|width| vec![format!("{width} bytes")]).collect();
    let mut residuals = fit.residuals.iter();
    for (probe, measured) in found {
        let Probe::Exchange { away: this, width, .. } = *probe else { continue };
        if this != away {
            continue;
        }
        let residual = residuals.next().map_or(String::new(), |residual| percent(*residual));
        let cell = format!("{} ({residual})", short(seconds_each(measured)? * 1e9));
        if let Some(at) = WIDTHS.iter().position(|known| *known == width) {
            rows[at].push(cell);
        }
    }
    let mut titles = vec!["records of".to_owned()];
    titles.extend(BATCHES.map(|batch| format!("batches of {batch}")));
    rows.iter_mut().for_each(|row| row.resize(titles.len(), "not measured".to_owned()));
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    Ok(table(&titles, &rows))
}

fn checks_table(checks: &[Check]) -> String {
    let row = |check: &Check| {
        let error = check.predicted / check.measured.median - 1.0;
        vec![
            check.name.clone(),
            check.unit.to_owned(),
            short(check.predicted),
            spread(check.measured, 1.0),
            percent(error),
        ]
    };
    let rows: Vec<_> = checks.iter().map(row).collect();
    table(&["", "unit", "predicted", "measured", "predicted over measured"], &rows)
}

fn predictions(costs: &Costs, clusters: &[Cluster]) -> String {
    let titles = [
        "hosts",
        "records in a batch",
        "ns of a core a record",
        "by cores",
        "by reading threads",
        "by network",
        "limited by",
        "an event on all lanes, ms of each core",
        "watermark interval for a tenth of a core, ms",
        "loop round, us",
        "connections",
        "lanes, MB",
    ];
    let rate =
        |number: f64| if number.is_finite() { grouped(number / 1e6) } else { "any".to_owned() };
    let row = |cluster: &Cluster| {
        let of = costs.predict(*cluster);
        vec![
            grouped(cluster.hosts),
            short(of.batch),
            short(of.cost * 1e9),
            rate(of.by_cores),
            rate(of.by_readers),
            rate(of.by_links),
            of.limit().name().to_owned(),
            short(of.event * 1e3),
            short((of.event * 10.0).max(WATERMARKS) * 1e3),
            short(of.round * 1e6),
            grouped(of.connections),
            short(of.lanes / 1e6),
        ]
    };
    let rows: Vec<_> = clusters.iter().map(row).collect();
    format!(
        "{}\nThroughputs are millions of records a second of the whole cluster.\n",
        table(&titles, &rows)
    )
}

fn breaks_table(breaks: &[Break]) -> String {
    let row = |of: &Break| {
        let hosts = of.hosts.map_or_else(
            || format!("not up to {}", grouped(f64::from(MOST))),
            |hosts| grouped(f64::from(hosts)),
        );
        vec![of.assumption.clone(), hosts]
    };
    let rows: Vec<_> = breaks.iter().map(row).collect();
    table(&["assumption", "does not hold from so many hosts on"], &rows)
}

pub(super) fn costs_json(costs: &Costs) -> Value {
    let fit =
        |fit: &Fit<3>| json!({ "coefficients": fit.coefficients, "residuals": fit.residuals });
    json!({
        "terms": ["seconds a record", "seconds a byte", "seconds a batch"],
        "local": fit(&costs.local),
        "remote": fit(&costs.remote),
        "reader": fit(&costs.reader),
        "event_local": costs.event_local,
        "event_remote": costs.event_remote,
        "event_host": costs.event_host,
        "round": costs.round,
        "hop": costs.hop,
    })
}

pub(super) fn prediction_json(costs: &Costs, cluster: Cluster) -> Value {
    let of = costs.predict(cluster);
    // JSON has no number for what does not limit.
    let finite = |number: f64| number.is_finite().then_some(number);
    json!({
        "hosts": cluster.hosts,
        "records_in_a_batch": of.batch,
        "seconds_a_record": of.cost,
        "by_cores": of.by_cores,
        "by_readers": finite(of.by_readers),
        "by_links": finite(of.by_links),
        "throughput": of.throughput(),
        "limit": of.limit().name(),
        "event_seconds": of.event,
        "round_seconds": of.round,
        "connections": of.connections,
        "lane_bytes": of.lanes,
    })
}

/// Throughput over hosts, and the time of events and rounds. The hosts of the cluster that is passed do not count.
pub(super) fn panels(costs: &Costs, cluster: Cluster) -> Vec<Panel> {
    let mut hosts: Vec<f64> =
        (0..=60).map(|step| (2.0 * 500f64.powf(f64::from(step) / 60.0)).round()).collect();
    hosts.dedup();
    let of = |hosts| (hosts, costs.predict(Cluster { hosts, ..cluster }));
    let all: Vec<_> = hosts.into_iter().map(of).collect();
    type Of = fn(&Prediction) -> f64;
    let line = |name: &str, colour: usize, dashed: bool, of: Of| {
        let points = all.iter().map(|(hosts, prediction)| (*hosts, of(prediction)));
        Series::computed(
            name,
            colour,
            dashed,
            points.filter(|point| point.1.is_finite() && point.1 > 0.0),
        )
    };
    let full = |(hosts, _): &(f64, Prediction)| {
        let away = 1.0 - 1.0 / hosts;
        let terms = [1.0, cluster.width, 1.0 / BATCH];
        let cost = (1.0 - away) * costs.local.cost(&terms) + away * costs.remote.cost(&terms);
        (*hosts, hosts * cluster.cores / cost)
    };
    let throughput = vec![
        Series::computed("the cores, if batches were full", 3, true, all.iter().map(full)),
        line("the cores", 0, false, |of| of.by_cores),
        line("the threads that read", 1, false, |of| of.by_readers),
        line("the network", 2, false, |of| of.by_links),
    ];
    let times = vec![
        line("an event on all lanes", 0, false, |of| of.event * 1e6),
        line("a round of a loop", 1, false, |of| of.round * 1e6),
    ];
    let panel = |y_label, series| Panel {
        x_label: "hosts".to_owned(),
        y_label,
        scale: Scale::Logarithmic,
        series,
    };
    vec![panel("records a second, as limited by", throughput), panel("microseconds", times)]
}

#[cfg(test)]
mod tests {
    use super::super::predict::breaks;
    use super::super::predict::tests::{CLUSTER, costs};
    use super::*;
    use crate::bench::Spread;

    #[test]
    fn every_cluster_is_a_row() {
        let large = Cluster { hosts: 1000.0, cores: 64.0, tasks: 4.0, ..CLUSTER };
        let table = predictions(&costs(), &[CLUSTER, large]);
        assert!(table.contains("\n| 1,000 | 1.00 |"), "{table}");
        assert!(table.contains(" | 999 | 9,830 |"), "{table}");
        assert_eq!(prediction_json(&costs(), large)["connections"], 999.0);
    }

    #[test]
    fn checks_say_how_far_off_the_model_is() {
        let measured = Spread { median: 40.0, min: 35.0, max: 50.0 };
        let check = Check { name: "rounds".to_owned(), unit: "us", predicted: 50.0, measured };
        let table = checks_table(&[check]);
        assert!(table.contains("| rounds | us | 50.0 | 40.0 (35.0 .. 50.0) | +25% |"), "{table}");
    }

    #[test]
    fn what_holds_is_said_too() {
        let few = Cluster { cores: 1.0, ..CLUSTER };
        let table = breaks_table(&breaks(&costs(), few, 256e9));
        assert!(table.contains("1,024 open files | 962 |"), "{table}");
        assert!(table.contains("not up to 10,000"), "{table}");
    }

    #[test]
    fn the_plot_has_what_limits() {
        let panels = panels(&costs(), CLUSTER);
        assert_eq!(panels[0].series.len(), 4);
        let last = |series: &Series| series.points.last().map(|point| point.0);
        assert!(panels[0].series.iter().all(|series| last(series) == Some(1000.0)));
        let svg = super::super::super::chart::draw("Predicted", "", &panels).unwrap();
        assert!(svg.contains("the threads that read"), "{svg}");
    }
}
