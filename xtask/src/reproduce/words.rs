//! Word count over hosts of one core each: Renoir's weak scaling, where each host has as much text, and RStream's strong
//! scaling, where the text is the same.

use super::chart::{Panel, Scale, Series, draw};
use super::lab::{Arrangement, HOSTS, Lab};
use super::rounds::{Case, Measured, measure};
use super::{Common, Report, scaled, table, text_file};
use crate::bench::Spread;
use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Renoir's weak scaling of word count: the same text for each host
///
/// Processes of one core each, up to `--hosts`. The text of N hosts is N files with the same content, so that the answer is
/// N times that of one host. Beyond as many hosts as the machine has processors they share them, so that time grows with N
/// at best.
#[derive(Args)]
pub(super) struct Arguments {
    /// The most hosts
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=HOSTS as u64))]
    hosts: u64,

    /// Megabytes of text: for each host (renoir), or for all (rstream)
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1024))]
    megabytes: u64,

    #[command(flatten)]
    pub(super) common: Common,
}

/// How the text grows with the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaling {
    Weak,
    Strong,
}

/// The different words of the text.
const VOCABULARY: f64 = 50_000.0;

/// Writes a text in which the frequencies of words fall with their rank, nearly as Zipf says.
pub(super) fn write_text(path: &Path, bytes: u64) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(cannot)?);
    let words: Vec<String> = (1..=VOCABULARY as u32).map(word).collect();
    let (mut random, mut written, mut in_line) = (1u64, 0, 0);
    while written < bytes {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let uniform = (random >> 11) as f64 / (1u64 << 53) as f64;
        // The logarithm of the rank is uniform: the frequency of a rank is proportional to its reciprocal.
        let rank = VOCABULARY.powf(uniform) as usize - 1;
        let text = words.get(rank).context("a rank beyond the vocabulary")?;
        in_line += 1;
        let end = if in_line % 12 == 0 { "\n" } else { " " };
        write!(file, "{text}{end}").with_context(cannot)?;
        written += (text.len() + 1) as u64;
    }
    writeln!(file).with_context(cannot)?;
    file.flush().with_context(cannot)
}

/// The word of a rank: different ones for different ranks, the frequent ones short.
fn word(rank: u32) -> String {
    let (mut rest, mut word) = (rank, String::new());
    while rest > 0 {
        word.push(char::from(b'a' + (rest % 26) as u8));
        rest /= 26;
    }
    word
}

fn cases(arguments: &Arguments, scaling: Scaling, lab: &Lab) -> Result<Vec<Case>> {
    let bytes = scaled(&arguments.common, arguments.megabytes * 1_000_000, 100_000);
    let text = text_file(lab, bytes)?;
    let mut cases = Vec::new();
    for hosts in 1..=usize::try_from(arguments.hosts)? {
        let copies = if scaling == Scaling::Weak { hosts } else { 1 };
        let mut words = vec!["words".to_owned(), "--copies".to_owned(), copies.to_string()];
        for copy in 0..copies {
            let path = lab.path(&format!("part-{copy}.txt"));
            if !path.exists() {
                std::fs::hard_link(&text, &path).context("cannot link the text")?;
            }
            words.push(path.display().to_string());
        }
        cases.push(Case {
            name: format!("{hosts} hosts"),
            on: Arrangement::hosts(hosts),
            arguments: words,
            amount: bytes as f64 * copies as f64,
            question: "words".to_owned(),
            known: None,
        });
    }
    Ok(cases)
}

pub(super) fn run(arguments: &Arguments, scaling: Scaling, lab: &Lab) -> Result<Report> {
    let all = measure(lab, cases(arguments, scaling, lab)?, arguments.common.rounds)?;
    let json: Vec<Value> = all.iter().map(Measured::json).collect();
    let table = table_of(&all, lab.processors())?;
    let panels = panels(&all, scaling, lab.processors())?;
    let title = match scaling {
        Scaling::Weak => "Word count, weak scaling: the same text for each host",
        Scaling::Strong => "Word count, strong scaling: the same text for all hosts",
    };
    let plot = Box::new(move |origin: &str| draw(title, origin, &panels));
    Ok(Report { table, json: Value::Array(json), plot })
}

/// For each round, the throughput over that of one host in the same round.
fn speedup(all: &[Measured], measured: &Measured) -> Result<Spread> {
    let first = all.first().context("nothing was measured")?;
    let rate = |of: &Measured, seconds: f64| of.case.amount / seconds;
    let pairs = measured.samples.iter().zip(&first.samples);
    let ratios =
        pairs.map(|(sample, one)| rate(measured, sample.seconds) / rate(first, one.seconds));
    Spread::of(ratios).context("a case has no rounds")
}

fn table_of(all: &[Measured], processors: usize) -> Result<String> {
    let titles =
        ["hosts", "own processors", "seconds", "MB a second", "throughput over one host's"];
    let mut rows = Vec::new();
    for measured in all {
        let fits = measured.case.on.fits(processors);
        rows.push(vec![
            measured.case.on.hosts.to_string(),
            if fits { "yes" } else { "no" }.to_owned(),
            table::spread(measured.seconds()?, 1.0),
            table::spread(measured.rate()?, 1e6),
            table::spread(speedup(all, measured)?, 1.0),
        ]);
    }
    Ok(table::table(&titles, &rows))
}

fn panels(all: &[Measured], scaling: Scaling, processors: usize) -> Result<Vec<Panel>> {
    let first = all.first().context("nothing was measured")?.seconds()?.median;
    let hosts = |measured: &Measured| measured.case.on.hosts;
    let speedup_at = |hosts: usize| hosts.min(processors) as f64;
    let ideal_seconds = |hosts: usize| match scaling {
        Scaling::Weak => first * hosts as f64 / speedup_at(hosts),
        Scaling::Strong => first / speedup_at(hosts),
    };
    let (mut seconds, mut speedups) = (Vec::new(), Vec::new());
    for measured in all {
        seconds.push((hosts(measured) as f64, measured.seconds()?));
        speedups.push((hosts(measured) as f64, speedup(all, measured)?));
    }
    let ideal = |of: &dyn Fn(usize) -> f64| {
        let points = all.iter().map(|measured| (hosts(measured) as f64, of(hosts(measured))));
        Series::computed(&format!("as good as {processors} processors can be"), 3, true, points)
    };
    let panel = |y_label, series| Panel {
        x_label: "hosts of one core".to_owned(),
        y_label,
        scale: Scale::Linear,
        series,
    };
    Ok(vec![
        panel(
            "seconds",
            vec![Series::measured("measured", 0, false, seconds, 1.0), ideal(&ideal_seconds)],
        ),
        panel(
            "throughput over that of one host",
            vec![Series::measured("measured", 0, false, speedups, 1.0), ideal(&speedup_at)],
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::rounds::tests::measured;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn frequent_words_are_few_and_all_texts_are_alike() {
        let folder = tempfile::tempdir().unwrap();
        let texts = ["a", "b"].map(|name| {
            let path = folder.path().join(name);
            write_text(&path, 200_000).unwrap();
            std::fs::read_to_string(path).unwrap()
        });
        assert_eq!(texts[0], texts[1]);
        assert!((200_000..200_020).contains(&texts[0].len()));
        let mut counts = BTreeMap::<&str, u32>::new();
        texts[0].split_whitespace().for_each(|word| *counts.entry(word).or_default() += 1);
        // The first word is one in log(vocabulary) / log(2), and there are thousands of others.
        let all: u32 = counts.values().sum();
        assert!(counts.len() > 5000 && counts["b"] > all / 30, "{}", counts.len());
    }

    #[test]
    fn words_differ() {
        let words: std::collections::BTreeSet<_> = (1..=5000).map(word).collect();
        assert_eq!(words.len(), 5000);
    }

    #[test]
    fn throughput_is_compared_within_a_round() {
        let all = [measured(1, &[4.0, 6.0], "a"), measured(2, &[2.0, 4.0], "a")];
        let two = speedup(&all, &all[1]).unwrap();
        assert_eq!((two.median, two.min, two.max), (1.75, 1.5, 2.0));
        let table = table_of(&all, 1).unwrap();
        assert!(table.contains("| 2 | no | 3.00 (2.00 .. 4.00) |"), "{table}");
        let panels = panels(&all, Scaling::Strong, 2).unwrap();
        let ideal = &panels[0].series[1].points;
        assert_eq!(ideal.iter().map(|point| point.1.median).collect::<Vec<_>>(), [5.0, 2.5]);
    }
}
