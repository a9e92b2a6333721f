//! Charts as SVG: panels side by side, each with lines through medians and bars for their range.

use crate::bench::Spread;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::fmt::Display;

const WIDTH: u32 = 470;
const HEIGHT: u32 = 420;
const HEAD: u32 = 54;
const COLOURS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(217, 95, 2),
    RGBColor(44, 140, 60),
    RGBColor(120, 120, 120),
    RGBColor(122, 79, 163),
    RGBColor(150, 110, 20),
];

/// A part of a chart, with axes of its own.
pub(super) struct Panel {
    pub(super) x_label: String,
    pub(super) y_label: &'static str,
    pub(super) scale: Scale,
    pub(super) series: Vec<Series>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Both axes, the vertical one from 0.
    Linear,
    /// Both axes by their logarithm.
    Logarithmic,
}

/// A line.
pub(super) struct Series {
    name: String,
    /// Which of the colours it has.
    colour: usize,
    dashed: bool,
    /// Whether its points are marked: what was measured is.
    marked: bool,
    pub(super) points: Vec<(f64, Spread)>,
}

impl Series {
    /// What was measured, in a unit.
    pub(super) fn measured(
        name: &str,
        colour: usize,
        dashed: bool,
        points: Vec<(f64, Spread)>,
        unit: f64,
    ) -> Self {
        let scale = |of: Spread| Spread {
            median: of.median / unit,
            min: of.min / unit,
            max: of.max / unit,
        };
        let points = points.into_iter().map(|(x, of)| (x, scale(of))).collect();
        Self { name: name.to_owned(), colour, dashed, marked: true, points }
    }

    /// What was computed.
    pub(super) fn computed(
        name: &str,
        colour: usize,
        dashed: bool,
        points: impl Iterator<Item = (f64, f64)>,
    ) -> Self {
        let points = points.map(|(x, y)| (x, Spread { median: y, min: y, max: y })).collect();
        Self { name: name.to_owned(), colour, dashed, marked: false, points }
    }
}

/// Draws panels below a title and a line that says where the figures come from.
pub(super) fn draw(title: &str, origin: &str, panels: &[Panel]) -> Result<String> {
    let mut text = String::new();
    let width = WIDTH * u32::try_from(panels.len())?;
    {
        let area = SVGBackend::with_string(&mut text, (width, HEAD + HEIGHT)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let (head, body) = area.split_vertically(HEAD);
        let line = |words: &str, at: i32, size: u32| {
            let style = ("sans-serif", size).into_font().color(&BLACK);
            head.draw(&Text::new(words.to_owned(), (14, at), style)).map_err(failed)
        };
        line(title, 8, 17)?;
        line(origin, 34, 10)?;
        for (panel, part) in panels.iter().zip(body.split_evenly((1, panels.len()))) {
            let (x, y) = (panel.x_range(), panel.y_range());
            match panel.scale {
                Scale::Linear => panel.draw(&part, x.0..x.1, y.0..y.1)?,
                Scale::Logarithmic => {
                    panel.draw(&part, (x.0..x.1).log_scale(), (y.0..y.1).log_scale())?;
                }
            }
        }
        area.present().map_err(failed)?;
    }
    Ok(text)
}

fn failed(cause: impl Display) -> anyhow::Error {
    anyhow!("the plot cannot be drawn: {cause}")
}

impl Panel {
    fn points(&self) -> impl Iterator<Item = &(f64, Spread)> {
        self.series.iter().flat_map(|series| &series.points)
    }

    fn x_range(&self) -> (f64, f64) {
        let least = self.points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let most = self.points().map(|point| point.0).fold(0.0, f64::max);
        match self.scale {
            _ if least > most => (0.0, 1.0),
            Scale::Linear => (least - 0.3, most + 0.3),
            Scale::Logarithmic => (least / 1.2, most * 1.2),
        }
    }

    fn y_range(&self) -> (f64, f64) {
        let least = self.points().map(|point| point.1.min).fold(f64::INFINITY, f64::min);
        let most = self.points().map(|point| point.1.max).fold(0.0, f64::max);
        match self.scale {
            _ if least > most => (0.0, 1.0),
            // The legend stands above all lines.
            Scale::Linear => (0.0, most * (1.1 + 0.07 * self.series.len() as f64)),
            Scale::Logarithmic => (least / 1.5, most * (most / least).powf(0.4) * 1.5),
        }
    }

    fn draw<X, Y>(&self, area: &DrawingArea<SVGBackend<'_>, Shift>, x: X, y: Y) -> Result<()>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(62)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(&self.x_label)
            .y_desc(self.y_label)
            .label_style(("sans-serif", 12))
            .max_light_lines(0)
            .bold_line_style(RGBColor(228, 228, 228))
            .x_label_formatter(&|number| match self.scale {
                // There is no half of a host.
                Scale::Linear if number.fract().abs() > 1e-9 => String::new(),
                _ => self.label(*number),
            })
            .y_label_formatter(&|number| self.label(*number))
            .draw()
            .map_err(failed)?;
        for series in &self.series {
            let colour = COLOURS[series.colour % COLOURS.len()];
            let style = colour.stroke_width(2);
            let medians = series.points.iter().map(|(x, of)| (*x, of.median));
            let drawn = if series.dashed {
                chart.draw_series(DashedLineSeries::new(medians, 5, 4, style))
            } else {
                chart.draw_series(LineSeries::new(medians, style))
            };
            let dashed = series.dashed;
            drawn.map_err(failed)?.label(series.name.clone()).legend(move |(x, y)| {
                // Half of a dashed line is a short one.
                PathElement::new([(x, y), (x + if dashed { 8 } else { 18 }, y)], style)
            });
            if series.marked {
                let bars = series.points.iter();
                let bars =
                    bars.map(|(x, of)| PathElement::new([(*x, of.min), (*x, of.max)], colour));
                chart.draw_series(bars).map_err(failed)?;
                let discs = series.points.iter();
                let discs = discs.map(|(x, of)| Circle::new((*x, of.median), 3, colour.filled()));
                chart.draw_series(discs).map_err(failed)?;
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font(("sans-serif", 11))
            .draw()
            .map_err(failed)
    }

    /// A number as short as an axis wants it.
    fn label(&self, number: f64) -> String {
        let digit = number / 10f64.powf(number.abs().log10().floor());
        if self.scale == Scale::Logarithmic
            && ![1.0, 2.0, 5.0].iter().any(|known| (digit - known).abs() < 0.01)
        {
            // On an axis by logarithm these would run into their neighbours.
            return String::new();
        }
        let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
        let (unit, name) = units.into_iter().find(|(unit, _)| number >= *unit).unwrap_or((1.0, ""));
        let text = format!("{:.4}", number / unit);
        format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(scale: Scale) -> Panel {
        let spread = |median: f64| Spread { median, min: median / 2.0, max: median * 2.0 };
        let points = vec![(1.0, spread(10.0)), (2.0, spread(20.0)), (4.0, spread(30.0))];
        let series = vec![
            Series::measured("found", 0, false, points, 10.0),
            Series::computed("predicted", 1, true, [(1.0, 1.0), (4.0, 4.0)].into_iter()),
        ];
        Panel { x_label: "hosts".to_owned(), y_label: "records", scale, series }
    }

    #[test]
    fn what_was_measured_is_marked() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = draw("Scaling", "on a machine", &[panel(scale), panel(scale)]).unwrap();
            assert_eq!(svg.matches("<circle").count(), 2 * 3, "{svg}");
            for said in ["Scaling", "on a machine", "found", "predicted", "hosts", "records"] {
                assert!(svg.contains(said), "{said}: {svg}");
            }
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        }
    }

    #[test]
    fn nothing_can_be_drawn() {
        let nothing = Panel { series: Vec::new(), ..panel(Scale::Linear) };
        assert!(draw("Scaling", "", &[nothing]).unwrap().contains("hosts"));
    }

    #[test]
    fn axes_have_short_numbers() {
        let linear = [0.0, 0.015, 1000.0, 2.5e6].map(|number| panel(Scale::Linear).label(number));
        assert_eq!(linear, ["0", "0.015", "1k", "2.5M"]);
        let by_logarithm = [2.0, 3.0, 5e9].map(|number| panel(Scale::Logarithmic).label(number));
        assert_eq!(by_logarithm, ["2", "", "5G"]);
    }
}
