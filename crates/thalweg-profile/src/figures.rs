//! The measurements of a study of Flink and Kafka (Javed, Lu and Panda, BDCAT 2017), figure by figure.

use crate::args::{Engine, FigureArgs, Workload};
use crate::report::{Measured, Progress, Report};
use crate::run::{Cluster, Point, measure};
use crate::spans::Summary;
use thalweg::{Error, ErrorKind, Result};

/// The study's rates, in records a second, of 200 bytes.
const RATES: [f64; 5] = [20e3, 40e3, 80e3, 160e3, 320e3];
/// Its sizes, in bytes, at one rate.
pub(crate) const SIZES: [usize; 6] = [200, 400, 800, 1600, 3200, 6400];
pub(crate) const RATE: f64 = 160e3;

/// What a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Whole,
    Reading,
    Processing,
}

/// What a figure is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    pub(crate) of: Of,
    workload: Workload,
    /// Whether it is over rates, or else over sizes.
    pub(crate) is_over_rates: bool,
}

impl Recipe {
    /// Of the figure with this number in the study; `None` if it has no latency.
    pub(crate) fn of(number: u8) -> Option<Self> {
        let (of, workload) = match number {
            3 | 4 => (Of::Whole, Workload::Rebalance),
            5 => (Of::Reading, Workload::Rebalance),
            6 => (Of::Processing, Workload::Wordcount),
            7 => (Of::Processing, Workload::Rebalance),
            _ => return None,
        };
        Some(Self { of, workload, is_over_rates: number == 3 })
    }

    /// Rates and sizes, at a share of the study's rates.
    fn points(self, scale: f64) -> Vec<(f64, usize)> {
        match self.is_over_rates {
            true => RATES.iter().map(|rate| (rate * scale, SIZES[0])).collect(),
            false => SIZES.iter().map(|size| (RATE * scale, *size)).collect(),
        }
    }

    pub(crate) fn title(self) -> String {
        let of = match self.of {
            Of::Whole => "the whole latency",
            Of::Reading => "reading",
            Of::Processing => "processing",
        };
        format!("{of} of {}", self.workload.name())
    }

    /// What it shows of a measurement.
    pub(crate) fn part(self, measured: &Measured) -> Option<Summary> {
        match self.of {
            Of::Whole => measured.all.whole,
            Of::Reading => measured.all.reading,
            Of::Processing => measured.all.processing,
        }
    }
}

/// Measures a figure.
///
/// # Errors
///
/// When something cannot be measured.
pub(crate) fn command(args: &FigureArgs) -> Result<()> {
    let common = &args.common;
    let Some(recipe) = Recipe::of(args.number) else {
        return Err(Error::new(ErrorKind::Config, "there is no such figure"));
    };
    if recipe.of == Of::Processing && common.engines.contains(&Engine::Consumer) {
        let what = "a plain consumer reads and does nothing else: it is no part of figures 6 and 7";
        return Err(Error::new(ErrorKind::Config, what));
    }
    let points = recipe.points(args.scale);
    points.iter().try_for_each(|(rate, _)| common.check(recipe.workload, *rate))?;
    let mut report = Report::begin(Some(args.number), common)?;
    let cluster = Cluster::of(common, args.network)?;
    let mut head =
        format!("{}, in ms\n{:>10} {:>6}  {:<12}", recipe.title(), "records/s", "bytes", "");
    Summary::SHOWN.iter().for_each(|name| head += &format!("{name:>10}"));
    let mut is_first = true;
    for (rate, size) in points {
        for engine in &common.engines {
            let point = Point {
                engine: *engine,
                workload: recipe.workload,
                rate,
                size,
                network: args.network,
            };
            if std::mem::take(&mut is_first) {
                cluster.warm_up(&point, common)?;
                Progress::new(&point, common).say(&head)?;
            }
            let progress = Progress::new(&point, common);
            let measured = measure(&point, common, &cluster, &progress)?;
            progress.say(&row(recipe, &measured))?;
            if common.each_second {
                progress.say(&measured.table_of_seconds())?;
            }
            report.add(measured, common)?;
        }
    }
    Ok(())
}

fn row(recipe: Recipe, measured: &Measured) -> String {
    let Measured { engine, rate, size, kept_up, .. } = measured;
    let mut text = format!("{rate:>10.0} {size:>6}  {engine:<12}");
    match recipe.part(measured) {
        Some(part) => part.shown().iter().for_each(|number| text += &format!("{number:>10.3}")),
        None => text += "  nothing",
    }
    if !kept_up {
        text += "  did not keep up";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::measured;

    #[test]
    fn figures_have_the_study_s_points() {
        let at = |number, scale| Recipe::of(number).map(|recipe| recipe.points(scale));
        assert_eq!(at(3, 1.0).unwrap()[4], (320e3, 200));
        assert_eq!(at(4, 0.5).unwrap()[5], (80e3, 6400));
        assert_eq!(at(2, 1.0), None);
        let all: Vec<_> = (3..=7).filter_map(Recipe::of).map(Recipe::title).collect();
        assert_eq!(
            all[2..],
            ["reading of rebalance", "processing of wordcount", "processing of rebalance"]
        );
    }

    #[test]
    fn rows_have_what_the_figure_is_of() {
        let mut one = measured(Engine::Thalweg, 2e4, 100, false);
        one.all.processing = Some(Summary { p98: 7.125, ..Summary::default() });
        let text = row(Recipe::of(7).unwrap(), &one);
        assert!(text.contains(" 7.125") && text.ends_with("did not keep up"), "{text}");
        assert!(!row(Recipe::of(5).unwrap(), &one).contains(" 7.125"));
    }
}
