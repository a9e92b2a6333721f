//! Formatting of numbers for people.

use std::time::Duration;

/// A count, with digits in groups of three.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of bytes, in the unit that leaves one to four digits before the decimal point.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = number as f64;
    let mut shown = None;
    for unit in UNITS {
        if scaled < 1023.95 {
            break;
        }
        scaled /= 1024.0;
        shown = Some(unit);
    }
    shown.map_or_else(|| format!("{number} B"), |unit| format!("{scaled:.1} {unit}"))
}

/// A duration, with about three digits; in minutes and hours if it is long.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match span.as_nanos() {
        0..1_000 => format!("{} ns", span.as_nanos()),
        1_000..1_000_000 => format!("{:.1} us", span.as_secs_f64() * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", span.as_secs_f64() * 1e3),
        _ if seconds < 60 => format!("{:.2} s", span.as_secs_f64()),
        _ if seconds < 3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A share from 0 to 1, in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1024, 1_048_575].map(bytes), ["0 B", "1023 B", "1.0 KiB", "1.0 MiB"]);
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        let spans = [999, 1_500, 2_000_000, 1_250_000_000, 61_000_000_000, 3_660_000_000_000];
        let shown = spans.map(|nanos| span(Duration::from_nanos(nanos)));
        assert_eq!(shown, ["999 ns", "1.5 us", "2.0 ms", "1.25 s", "1 min 01 s", "1 h 01 min"]);
        assert_eq!(percent(0.126), "13%");
    }
}
