//! Drawings of what was measured, as SVG.

use crate::figures::Recipe;
use crate::report::{Measured, Report};
use crate::spans::{Percentile, Summary};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::fmt::Display;
use thalweg::{Error, ErrorKind, Result};

const WIDTH: u32 = 820;
const HEIGHT: u32 = 460;
const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(217, 95, 2),
    RGBColor(44, 140, 60),
    RGBColor(90, 60, 150),
    RGBColor(120, 180, 220),
    RGBColor(160, 30, 60),
    RGBColor(130, 130, 130),
    RGBColor(150, 120, 30),
];

type Drawn<T> = std::result::Result<
    T,
    DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>,
>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A line of a chart. Points that were not kept up with are crosses.
struct Line {
    name: String,
    colour: RGBColor,
    width: u32,
    points: Vec<(f64, f64, bool)>,
}

struct Chart {
    title: String,
    x: &'static str,
    is_log: bool,
    lines: Vec<Line>,
}

/// A figure over rates or sizes, a comparison of networks, or else, for each measurement, latency over its seconds.
pub(crate) fn draw(report: &Report) -> Result<String> {
    let charts = match report.figure.and_then(Recipe::of) {
        Some(recipe) => vec![figure(recipe, report)],
        None if report.compares_networks => networks(report),
        None => report.runs.iter().map(|run| seconds(run, &report.percentiles)).collect(),
    };
    let mut text = String::new();
    {
        let size = (WIDTH, HEIGHT * charts.len().max(1) as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        all_on(&area, &charts).map_err(failed)?;
        area.present().map_err(failed)?;
    }
    Ok(text)
}

fn failed(cause: impl Display) -> Error {
    Error::new(ErrorKind::Internal, format!("the plot cannot be drawn: {cause}"))
}

/// A line for each percentile that is drawn.
fn lines_of(
    name: &str,
    colour: RGBColor,
    points: &[(f64, Option<Summary>, bool)],
    percentiles: &[Percentile],
) -> Vec<Line> {
    let line = |(at, percentile): (usize, &Percentile)| Line {
        name: format!("{name}, {}", percentile.name()),
        colour,
        width: 1 + at as u32,
        points: points
            .iter()
            .filter_map(|(x, y, kept)| Some((*x, y.as_ref()?.at(*percentile), *kept)))
            .collect(),
    };
    percentiles.iter().enumerate().rev().map(line).collect()
}

fn figure(recipe: Recipe, report: &Report) -> Chart {
    let mut engines: Vec<&str> = Vec::new();
    for run in &report.runs {
        if !engines.contains(&run.engine) {
            engines.push(run.engine);
        }
    }
    let lines = engines.iter().zip(COLOURS.iter().cycle()).flat_map(|(engine, colour)| {
        let runs = report.runs.iter().filter(|run| run.engine == *engine);
        let x = |run: &Measured| if recipe.is_over_rates { run.rate } else { run.size as f64 };
        let points: Vec<_> = runs.map(|run| (x(run), recipe.part(run), run.kept_up)).collect();
        lines_of(engine, *colour, &points, &report.percentiles)
    });
    let first = report.runs.first();
    let (x, what) = match recipe.is_over_rates {
        true => ("records a second", format!("{} bytes", first.map_or(0, |run| run.size))),
        false => {
            ("bytes of a record", format!("{:.0} records/s", first.map_or(0.0, |run| run.rate)))
        }
    };
    Chart { title: format!("{}, {what}", recipe.title()), x, is_log: true, lines: lines.collect() }
}

/// Reading and the whole over sizes on both networks, and percentiles of the whole of the largest records.
fn networks(report: &Report) -> Vec<Chart> {
    let name = |run: &Measured| format!("{}, {}", run.engine, run.network);
    let mut names: Vec<_> = Vec::new();
    for run in &report.runs {
        if !names.contains(&name(run)) {
            names.push(name(run));
        }
    }
    let coloured = || names.iter().zip(COLOURS.iter().cycle());
    let runs = |named: &str| {
        let named = named.to_owned();
        report.runs.iter().filter(move |run| name(run) == named)
    };
    // A plain consumer has no whole.
    let whole = |run: &Measured| run.all.whole.filter(|_| run.all.processing.is_some());
    let over_sizes = |what: &str, part: &dyn Fn(&Measured) -> Option<Summary>| {
        let lines = coloured().flat_map(|(named, colour)| {
            let points: Vec<_> =
                runs(named).map(|run| (run.size as f64, part(run), run.kept_up)).collect();
            lines_of(named, *colour, &points, &report.percentiles)
        });
        let title = format!("{what}, over a narrow and a wide link");
        Chart { title, x: "bytes of a record", is_log: true, lines: lines.collect() }
    };
    let largest = report.runs.iter().map(|run| run.size).max().unwrap_or(0);
    let percentiles = coloured().filter_map(|(named, colour)| {
        let run = runs(named).find(|run| run.size == largest)?;
        let numbers = whole(run)?.percentiles();
        let points = numbers.map(|(percentile, millis)| (percentile, millis, run.kept_up)).to_vec();
        Some(Line { name: named.clone(), colour: *colour, width: 2, points })
    });
    let percentiles = Chart {
        title: format!("the whole latency of records of {largest} bytes"),
        x: "percentile",
        is_log: false,
        lines: percentiles.collect(),
    };
    vec![
        over_sizes("reading", &|run| run.all.reading),
        over_sizes("the whole latency", &whole),
        percentiles,
    ]
}

fn seconds(run: &Measured, percentiles: &[Percentile]) -> Chart {
    let parts = |at: usize| {
        let seconds = run.seconds.iter().enumerate();
        seconds.map(move |(second, parts)| (second as f64, parts.main()[at].1, run.kept_up))
    };
    let names = run.all.main();
    let lines = names.iter().zip(COLOURS).enumerate().filter(|(_, ((_, all), _))| all.is_some());
    let lines = lines.flat_map(|(at, ((name, _), colour))| {
        lines_of(name, colour, &parts(at).collect::<Vec<_>>(), percentiles)
    });
    let title = format!(
        "{} on {}, {:.0} records/s of {} bytes",
        run.workload, run.engine, run.rate, run.size
    );
    Chart { title, x: "second", is_log: false, lines: lines.collect() }
}

fn all_on(area: &Area<'_>, charts: &[Chart]) -> Drawn<()> {
    area.fill(&WHITE)?;
    let parts = area.split_evenly((charts.len().max(1), 1));
    parts.iter().zip(charts).try_for_each(|(area, chart)| on(area, chart))
}

/// A range with room for all numbers, and for something to be seen between.
fn around(numbers: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = numbers.clone().fold(f64::INFINITY, f64::min);
    let most = numbers.fold(0.0, f64::max);
    if least > most { (1.0, 10.0) } else { (least.max(0.001) / 1.4, most.max(0.001) * 1.4) }
}

fn on(area: &Area<'_>, chart: &Chart) -> Drawn<()> {
    let points = || chart.lines.iter().flat_map(|line| line.points.iter());
    let (least, most) = around(points().map(|point| point.1));
    // The legend stands above all lines.
    let heights = (least, most * (most / least).powf(0.5).max(2.0));
    let builder = |area| {
        let mut builder = ChartBuilder::on(area);
        builder.caption(&chart.title, ("sans-serif", 17)).margin(12);
        builder.x_label_area_size(42).y_label_area_size(64);
        builder
    };
    // The two kinds of axes are types of their own.
    macro_rules! draw {
        ($xs:expr) => {{
            let mut context =
                builder(area).build_cartesian_2d($xs, (heights.0..heights.1).log_scale())?;
            let mut mesh = context.configure_mesh();
            mesh.x_desc(chart.x).y_desc("ms").label_style(("sans-serif", 13)).max_light_lines(0);
            mesh.bold_line_style(RGBColor(228, 228, 228)).x_labels(10).y_labels(10);
            mesh.x_label_formatter(&|x| place(*x, chart.is_log))
                .y_label_formatter(&|y| short(*y))
                .draw()?;
            for Line { name, colour, width, points } in &chart.lines {
                let style = colour.stroke_width(*width);
                let line = points.iter().map(|(x, y, _)| (*x, *y));
                context
                    .draw_series(LineSeries::new(line, style))?
                    .label(name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
                let (kept, queued): (Vec<_>, Vec<_>) = points.iter().partition(|point| point.2);
                let discs = kept.iter().map(|(x, y, _)| Circle::new((*x, *y), 3, colour.filled()));
                context.draw_series(discs)?;
                let crosses = queued.iter().map(|(x, y, _)| Cross::new((*x, *y), 5, style));
                context.draw_series(crosses)?;
            }
            context
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.85))
                .border_style(RGBColor(200, 200, 200))
                .label_font(("sans-serif", 12))
                .draw()?;
        }};
    }
    let xs = points().map(|point| point.0);
    if chart.is_log {
        let (from, to) = around(xs);
        draw!((from..to).log_scale());
    } else {
        let to = xs.fold(1.0, f64::max);
        draw!(0.0..to);
    }
    Ok(())
}

/// A place on the axis below, if it is to be named: whole numbers, without those that run into their neighbours.
fn place(x: f64, is_log: bool) -> String {
    let digit = (x / 10f64.powf(x.max(1.0).log10().floor())).round();
    match (x - x.round()).abs() > 0.01 || is_log && [7.0, 9.0].contains(&digit) {
        true => String::new(),
        false => format!("{x:.0}"),
    }
}

/// A number of milliseconds as short as an axis wants it.
fn short(millis: f64) -> String {
    let text = format!("{millis:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Engine;
    use crate::report::tests::{self as reports, measured};

    fn report(figure: Option<u8>, runs: Vec<Measured>) -> String {
        draw(&reports::report(figure, runs)).unwrap()
    }

    #[test]
    fn a_figure_has_two_lines_for_each_engine() {
        let runs = vec![
            measured(Engine::Thalweg, 1e4, 50, true),
            measured(Engine::Consumer, 1e4, 20, true),
            measured(Engine::Thalweg, 2e4, 90, false),
            measured(Engine::Consumer, 2e4, 30, true),
        ];
        let svg = report(Some(3), runs);
        for said in ["thalweg, p98", "consumer, p50", "records a second", "rebalance"] {
            assert!(svg.contains(said), "{said}: {svg}");
        }
        // Three points of each percentile were kept up with.
        assert_eq!(svg.matches("<circle").count(), 2 * 3, "{svg}");
    }

    #[test]
    fn measurements_are_drawn_by_second_one_below_the_other() {
        let runs = vec![
            measured(Engine::Thalweg, 1e4, 50, true),
            measured(Engine::Consumer, 1e4, 20, true),
        ];
        let svg = report(None, runs);
        assert!(svg.contains(&format!("height=\"{}\"", 2 * HEIGHT)), "{svg}");
        // Four parts and two, of which each has two lines of three points.
        assert_eq!(svg.matches("<circle").count(), (4 + 2) * 2 * 3);
        assert!(svg.contains("second") && svg.contains("writing, p50"));
    }

    #[test]
    fn networks_are_compared_by_size_and_by_percentile() {
        let on = |engine, network, size| Measured {
            network,
            size,
            ..measured(engine, 1e3, if network == "narrow" { 90 } else { 40 }, true)
        };
        let mut runs = Vec::new();
        for size in [200, 6400] {
            for engine in [Engine::Consumer, Engine::Thalweg] {
                runs.extend(["narrow", "wide"].map(|network| on(engine, network, size)));
            }
        }
        let report = Report { compares_networks: true, ..reports::report(None, runs) };
        let svg = draw(&report).unwrap();
        for said in ["thalweg, narrow, p98", "consumer, wide, p50", "percentile", "6400 bytes"] {
            assert!(svg.contains(said), "{said}: {svg}");
        }
        // Reading of two sizes by both engines; the whole, also over six percentiles, by one.
        assert_eq!(svg.matches("<circle").count(), 2 * 2 * (2 * 2 + 2) + 2 * 6);
    }

    #[test]
    fn nothing_can_be_drawn() {
        assert!(report(None, Vec::new()).starts_with("<svg"));
        assert!(report(Some(4), Vec::new()).contains("bytes of a record"));
    }

    #[test]
    fn axes_have_short_numbers() {
        assert_eq!([0.0, 0.5, 2.0].map(|x| place(x, false)), ["0", "", "2"]);
        assert_eq!([6e3, 7e3, 8e3, 9e4].map(|x| place(x, true)), ["6000", "", "8000", ""]);
        assert_eq!([0.05, 1.0, 250.0].map(short), ["0.05", "1", "250"]);
    }
}
