//! Latency reports beyond percentiles: the delay of an idle thread in the same run, and the latency of each second,
//! as a table and as a picture. Values only: the picture is a text in SVG.

use super::process::Round;
use super::report::Outcome;
use serde_json::Value;
use std::fmt::Write as _;

/// The delay of an idle thread of the contestant's process: the median of all rounds. Empty if it was not measured.
pub(super) fn noise_floor(peer: &str, rounds: &[Round]) -> String {
    let quantile = |name: &str| {
        let of_round = |round: &Round| round.line.get(name).and_then(Value::as_f64);
        middle(rounds.iter().filter_map(of_round).collect())
    };
    let all = ["idle_p50", "idle_p99", "idle_p999", "idle_p9999"].map(quantile);
    let [Some(p50), Some(p99), Some(p999), Some(p9999)] = all.map(|all| all.map(|s| s * 1e6))
    else {
        return String::new();
    };
    format!("  {:<20} {p50:>6.0} {p99:>9.0} {p999:>9.0} {p9999:>9.0}\n", format!("({peer}, idle)"))
}

/// The mean and the 99th percentile of each second in microseconds, the median of all rounds. Empty if they were not
/// reported.
pub(super) fn by_second(peer: &str, rounds: &[Round]) -> String {
    let mut table = String::new();
    for (name, series) in [("mean", "mean_by_second"), ("p99", "p99_by_second")] {
        let seconds = seconds(rounds, series);
        if !seconds.is_empty() {
            let all: Vec<String> = seconds.iter().map(|s| format!("{:.0}", s * 1e6)).collect();
            let _ = writeln!(table, "  {:<20} {}", format!("{peer} {name}"), all.join(" "));
        }
    }
    if table.is_empty() { table } else { format!("  us, second by second:\n{table}") }
}

/// A series: for each second the median of all rounds.
fn seconds(rounds: &[Round], name: &str) -> Vec<f64> {
    let series: Vec<&Vec<Value>> =
        rounds.iter().filter_map(|round| round.line.get(name)?.as_array()).collect();
    let longest = series.iter().map(|series| series.len()).max().unwrap_or(0);
    let at = |second: usize| {
        middle(series.iter().filter_map(|series| series.get(second)?.as_f64()).collect())
    };
    (0..longest).filter_map(at).collect()
}

fn middle(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// The colours of the lines, one for each contestant.
const COLOURS: [&str; 4] = ["#0b6e99", "#c2452d", "#5a8a2f", "#7a4fa3"];
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const MARGIN: f64 = 56.0;

/// A picture of latency over time, as SVG: for each contestant a line of means and a dashed one of the 99th
/// percentiles, on a logarithmic scale. `None` if no contestant reported seconds.
pub(super) fn plot(outcome: &Outcome) -> Option<String> {
    let mut lines = Vec::new();
    for ((peer, rounds), colour) in outcome.everyone().zip(COLOURS.iter().cycle()) {
        for (name, series) in [("mean", "mean_by_second"), ("p99", "p99_by_second")] {
            let values: Vec<f64> =
                seconds(rounds, series).iter().map(|s| (s * 1e6).max(1.0)).collect();
            if !values.is_empty() {
                lines.push((format!("{peer}, {name}"), *colour, name == "p99", values));
            }
        }
    }
    let all = || lines.iter().flat_map(|(.., values)| values.iter().copied());
    let least = all().min_by(f64::total_cmp)?.log10().floor();
    let most = all().max_by(f64::total_cmp)?.log10().ceil().max(least + 1.0);
    let longest = lines.iter().map(|(.., values)| values.len()).max()?;
    let x = |second: usize| {
        MARGIN + (WIDTH - 2.0 * MARGIN) * second as f64 / (longest.max(2) - 1) as f64
    };
    let y =
        |us: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * (us.log10() - least) / (most - least);
    let case = &outcome.case;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\" font-size=\"14\">{} {}: latency by second</text>\n",
        case.bench, case.name
    );
    for decade in least as i32..=most as i32 {
        let (us, right) = (10f64.powi(decade), WIDTH - MARGIN);
        let at = y(us);
        let _ = writeln!(
            svg,
            "<path d=\"M{MARGIN} {at:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{us} us</text>",
            MARGIN - 6.0,
            at + 4.0
        );
    }
    for second in (0..longest).step_by(longest.div_ceil(10)) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{second} s</text>",
            x(second),
            HEIGHT - MARGIN + 16.0
        );
    }
    for (place, (name, colour, dashed, values)) in lines.iter().enumerate() {
        let points: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(second, us)| format!("{:.1},{:.1}", x(second), y(*us)))
            .collect();
        let dashes = if *dashed { " stroke-dasharray=\"5 3\"" } else { "" };
        let left = MARGIN + 130.0 * place as f64;
        let (below, from) = (HEIGHT - 12.0, HEIGHT - 16.0);
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"{dashes}/>\
             <path d=\"M{left} {from}h24\" stroke=\"{colour}\" stroke-width=\"1.5\"{dashes}/>\
             <text x=\"{:.0}\" y=\"{below}\">{name}</text>",
            points.join(" "),
            left + 30.0
        );
    }
    Some(svg + "</svg>\n")
}

#[cfg(test)]
mod tests {
    use super::super::{Size, suite};
    use super::*;
    use serde_json::json;

    fn round(line: Value) -> Round {
        let digest = "a".to_owned();
        let (records, bytes) = (10.0, 80.0);
        Round { seconds: 1.0, digest, records, bytes, peak: None, p99: Some(0.5), cpu: None, line }
    }

    fn told(mean: [f64; 2]) -> Round {
        round(json!({"mean_by_second": mean, "p99_by_second": [0.1, 0.2]}))
    }

    #[test]
    fn seconds_are_the_middle_of_all_rounds() {
        let rounds = [told([1e-6, 3e-6]), told([2e-6, 4e-6]), told([9e-6, 2e-6])];
        let table = by_second("we", &rounds);
        assert!(table.contains("we mean              2 3\n"), "{table}");
        assert!(table.contains("we p99               100000 200000\n"), "{table}");
        assert_eq!(by_second("we", &[round(json!({}))]), "");
    }

    #[test]
    fn the_floor_is_told_where_there_is_one() {
        let idle =
            json!({"idle_p50": 1e-6, "idle_p99": 2e-6, "idle_p999": 3e-6, "idle_p9999": 4e-6});
        let told = noise_floor("we", &[round(idle)]);
        assert!(told.starts_with("  (we, idle)") && told.ends_with("4\n"), "{told}");
        assert_eq!(noise_floor("we", &[round(json!({}))]), "");
    }

    #[test]
    fn a_picture_has_two_lines_for_each() {
        let case = suite::cases("nexmark-latency", Size::Small, 2).unwrap().remove(0);
        let rivals = vec![(case.rivals[0].clone(), Ok(vec![told([2e-6, 3e-5])]))];
        let ours = Ok(vec![told([1e-6, 3e-6])]);
        let outcome = Outcome { ours, case, rivals, round_trip: None };
        let svg = plot(&outcome).unwrap();
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains("thalweg, mean") && svg.contains("thalweg-portable, p99"));
    }
}
