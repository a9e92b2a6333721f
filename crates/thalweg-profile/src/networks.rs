//! The study's comparison of two networks: all parts of the latency over sizes of records, on a narrow and a wide link.

use crate::args::{Common, Network, NetworksArgs};
use crate::figures::RATE;
use crate::report::{Measured, PartSummaries, Progress, Report};
use crate::run::{Cluster, Point, measure};
use crate::spans::Summary;
use thalweg::{Error, ErrorKind, Result};

/// The parts that the table has, with the 50th and the 98th percentile of each, and the last two columns.
const PARTS: [&str; 5] = ["reading", "from the log", "processing", "writing", "whole"];

/// Compares the networks.
///
/// # Errors
///
/// When something cannot be measured, or an answer depends on the network.
pub(crate) fn command(args: &NetworksArgs) -> Result<()> {
    let NetworksArgs { workload, scale, sizes, common } = args;
    let (workload, rate) = (*workload, RATE * scale);
    common.check(workload, rate)?;
    let mut report = Report::begin(None, common)?;
    report.compares_networks = true;
    let cluster = Cluster::of(common, Network::Narrow)?;
    let mut is_first = true;
    for (size, engine) in
        sizes.iter().flat_map(|size| common.engines.iter().map(move |engine| (size, engine)))
    {
        for network in Network::BOTH {
            let point = Point { engine: *engine, workload, rate, size: *size, network };
            if std::mem::take(&mut is_first) {
                cluster.warm_up(&point, common)?;
                Progress::new(&point, common).say(&head(&point, common))?;
            }
            cluster.set_network(network, common)?;
            let progress = Progress::new(&point, common);
            let measured = measure(&point, common, &cluster, &progress)?;
            progress.say(&row(&measured))?;
            report.add(measured, common)?;
        }
        if let [.., narrow, wide] = &report.runs[..] {
            Progress::hidden().say(&ratios(narrow, wide))?;
            check_answers(narrow, wide)?;
        }
    }
    Ok(())
}

/// The parts of the table.
fn parts(all: &PartSummaries) -> [Option<Summary>; PARTS.len()] {
    [all.reading, all.from_log, all.processing, all.writing, all.whole]
}

fn head(point: &Point, common: &Common) -> String {
    let [narrow, wide] =
        Network::BOTH.map(|network| network.bits(common.network_scale).unwrap_or_default() / 1e6);
    let mut text = format!(
        "{}, {:.0} records/s, over a narrow link of {narrow:.0} and a wide one of {wide:.0} Mbit/s: p50 and p98 in ms\n{:>6}  {:<12}{:<7}",
        point.workload.name(),
        point.rate,
        "bytes",
        "",
        "",
    );
    PARTS.iter().for_each(|part| text += &format!("{part:>18}"));
    text
}

fn row(measured: &Measured) -> String {
    let Measured { engine, size, network, kept_up, .. } = measured;
    let mut text = format!("{size:>6}  {engine:<12}{network:<7}");
    for part in parts(&measured.all) {
        text += &match part {
            Some(Summary { p50, p98, .. }) => format!("{p50:>9.3}{p98:>9.3}"),
            None => format!("{:>18}", "-"),
        };
    }
    if !kept_up {
        text += "  did not keep up";
    }
    text
}

/// How many times as long everything takes on the narrow network.
fn ratios(narrow: &Measured, wide: &Measured) -> String {
    let mut text = format!("{:>6}  {:<12}{:<7}", "", "", "ratio");
    for (narrow, wide) in parts(&narrow.all).into_iter().zip(parts(&wide.all)) {
        text += &match (narrow, wide) {
            (Some(narrow), Some(wide)) => {
                format!("{:>9.2}{:>9.2}", narrow.p50 / wide.p50, narrow.p98 / wide.p98)
            }
            _ => format!("{:>18}", "-"),
        };
    }
    text
}

/// Checks that the results are the same on both networks.
fn check_answers(narrow: &Measured, wide: &Measured) -> Result<()> {
    if narrow.answer == wide.answer {
        return Ok(());
    }
    let what = format!(
        "{} answers {:?} over the narrow link and {:?} over the wide one",
        narrow.engine, narrow.answer, wide.answer
    );
    Err(Error::new(ErrorKind::Internal, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Engine;
    use crate::report::tests::measured;

    #[test]
    fn rows_have_the_parts_that_there_are_and_their_ratios() {
        let [narrow, wide] = [100, 40].map(|micros| measured(Engine::Thalweg, 1e3, micros, true));
        assert_eq!(ratios(&narrow, &wide).matches(" 2.50").count(), 2 * PARTS.len());
        let consumer = measured(Engine::Consumer, 1e3, 100, false);
        let text = row(&consumer);
        assert!(text.matches(" - ").count() == 2 && text.ends_with("did not keep up"), "{text}");
        assert_eq!(ratios(&consumer, &wide).matches(" 2.50").count(), 6);
        let length = |text: String| text.lines().last().map(str::len);
        assert_eq!(length(row(&narrow)), length(ratios(&narrow, &wide)));
    }

    #[test]
    fn answers_must_not_depend_on_the_network() {
        let [mut narrow, wide] = [0; 2].map(|_| measured(Engine::Thalweg, 1e3, 100, true));
        assert!(check_answers(&narrow, &wide).is_ok());
        narrow.answer = Some("1".to_owned());
        let error = check_answers(&narrow, &wide).unwrap_err().to_string();
        assert!(error.contains("thalweg answers"), "{error}");
    }
}
