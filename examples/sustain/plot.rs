//! Latency against rate, drawn.

use crate::probe::Probe;
use crate::report::{Report, count};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Display;
use thalweg::{Error, ErrorKind, Result};

const SIZE: (u32, u32) = (800, 500);
const MEDIAN: RGBColor = RGBColor(31, 119, 180);
const TAIL: RGBColor = RGBColor(217, 95, 2);
const FOUND: RGBColor = RGBColor(44, 140, 60);

/// A drawing of what a search found, as SVG: the 50th and 99th percentile of latency over rate, both by their
/// logarithm; discs where a rate was sustained, crosses where not, and a line where the search ended.
pub(crate) fn draw(report: &Report) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        on(&area, report).map_err(failed)?;
        area.present().map_err(failed)?;
    }
    Ok(text)
}

fn failed(cause: impl Display) -> Error {
    Error::new(ErrorKind::Internal, format!("the plot cannot be drawn: {cause}"))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn on(
    area: &Area<'_>,
    report: &Report,
) -> std::result::Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>>
{
    area.fill(&WHITE)?;
    let mut probes: Vec<&Probe> = report.probes.iter().collect();
    probes.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let points = |which: usize| -> Vec<(f64, f64, bool)> {
        let point = |probe: &&Probe| {
            let micros = (probe.percentiles_ms?[which] * 1e3).max(1.0);
            Some((probe.rate, micros, probe.judgement.is_sustainable()))
        };
        probes.iter().filter_map(point).collect()
    };
    let series = [("p50", MEDIAN, points(0)), ("p99", TAIL, points(1))];
    let latencies = || series.iter().flat_map(|(_, _, points)| points.iter().map(|point| point.1));
    let rates = around(probes.iter().map(|probe| probe.rate));
    let (least, most) = around(latencies());
    // The legend stands above all marks.
    let heights = (least, most * (most / least).powf(0.4));
    let is_empty = latencies().next().is_none();

    let form = report.form.map(|form| format!(", {form} events")).unwrap_or_default();
    let title = format!(
        "{}{form}: latency of results, windows of {} s",
        report.program, report.window_seconds
    );
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d((rates.0..rates.1).log_scale(), (heights.0..heights.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("events a second")
        .y_desc("latency")
        .label_style(("sans-serif", 13))
        .max_light_lines(0)
        .bold_line_style(RGBColor(228, 228, 228))
        .x_labels(14)
        .y_labels(10)
        .x_label_formatter(&|rate| short(*rate))
        .y_label_formatter(&|micros| span(*micros))
        .draw()?;
    if let Some(rate) = report.sustainable {
        let line = [(rate, heights.0), (rate, heights.1)];
        let style = FOUND.stroke_width(2);
        let at_least = if report.at_least { "at least " } else { "" };
        chart
            .draw_series(LineSeries::new(line, style))?
            .label(format!("sustainable: {at_least}{} events/s", count(rate)))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    for (name, colour, points) in series {
        chart
            .draw_series(LineSeries::new(
                points.iter().map(|&(x, y, _)| (x, y)),
                colour.stroke_width(1),
            ))?
            .label(name)
            .legend(move |(x, y)| Circle::new((x + 9, y), 4, colour.filled()));
        let (yes, no): (Vec<_>, Vec<_>) = points.into_iter().partition(|&(_, _, yes)| yes);
        let at = |(x, y, _): (f64, f64, bool)| (x, y);
        chart
            .draw_series(yes.into_iter().map(|point| Circle::new(at(point), 4, colour.filled())))?;
        chart.draw_series(
            no.into_iter().map(|point| Cross::new(at(point), 5, colour.stroke_width(2))),
        )?;
    }
    chart
        .draw_series(std::iter::empty::<Cross<(f64, f64), i32>>())?
        .label("not sustained")
        .legend(|(x, y)| Cross::new((x + 9, y), 5, BLACK.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 13))
        .draw()?;
    if is_empty {
        let centre = TextStyle::from(("sans-serif", 16)).pos(Pos::new(HPos::Center, VPos::Center));
        area.draw(&Text::new("no rate had any result", (400, 250), centre))?;
    }
    Ok(())
}

/// A range with room for all numbers, and for something to be seen between.
fn around(numbers: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = numbers.clone().fold(f64::INFINITY, f64::min);
    let most = numbers.fold(0.0, f64::max);
    if least > most {
        return (1.0, 10.0);
    }
    (least / 1.6, most * 1.6)
}

/// A rate as short as an axis wants it.
fn short(rate: f64) -> String {
    // On an axis by logarithm these would run into their neighbours.
    if let 7 | 9 = (rate / 10f64.powf(rate.log10().floor())).round() as u8 {
        return String::new();
    }
    shorter(rate, [(1e9, "G"), (1e6, "M"), (1e3, "k")], "")
}

/// A span in microseconds, likewise.
fn span(micros: f64) -> String {
    shorter(micros, [(1e9, "000 s"), (1e6, " s"), (1e3, " ms")], " us")
}

fn shorter(number: f64, units: [(f64, &str); 3], least: &str) -> String {
    let (unit, name) = units.into_iter().find(|(unit, _)| number >= *unit).unwrap_or((1.0, least));
    let text = format!("{:.3}", number / unit);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;

    fn report(latencies: &[(f64, Option<f64>)]) -> Report {
        let probes = latencies.iter().map(|&(rate, slope)| {
            let windows: Vec<_> =
                (0..10).map(|n| slope.map(|slope| 2.0 + slope * f64::from(n))).collect();
            Probe {
                rate,
                timed_results: 10,
                percentiles_ms: slope.map(|slope| [2.0 + 5.0 * slope, 4.0 + 10.0 * slope, 99.0]),
                judgement: judge(&windows, 1.0),
                windows_ms: windows,
                given_up: slope.is_none(),
            }
        });
        Report {
            program: "ysb".to_owned(),
            form: Some("fixed"),
            window_seconds: 1.0,
            windows: 10,
            seed: 1,
            probes: probes.collect(),
            sustainable: Some(2e6),
            at_least: false,
        }
    }

    #[test]
    fn every_rate_with_results_has_its_mark() {
        let svg =
            draw(&report(&[(1e6, Some(0.0)), (2e6, Some(0.0)), (4e6, Some(300.0)), (8e6, None)]))
                .unwrap();
        // Two percentiles of two rates, and two in the legend.
        assert_eq!(svg.matches("<circle").count(), 2 * 2 + 2, "{svg}");
        for said in
            ["ysb, fixed events", "sustainable: 2,000,000 events/s", "not sustained", "p99", "4M"]
        {
            assert!(svg.contains(said), "{said}: {svg}");
        }
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn nothing_can_be_drawn() {
        let mut nothing = report(&[(1e6, None)]);
        nothing.sustainable = None;
        assert!(draw(&nothing).unwrap().contains("no rate had any result"));
    }

    #[test]
    fn axes_have_short_numbers() {
        let short = [3.0, 1500.0, 2e6, 9e6, 7e7, 1e9].map(short);
        assert_eq!(short, ["3", "1.5k", "2M", "", "", "1G"]);
        let spans = [3.0, 1500.0, 2e6, 1e9].map(span);
        assert_eq!(spans, ["3 us", "1.5 ms", "2 s", "1000 s"]);
    }
}
