//! Tables in Markdown.

use crate::bench::Spread;

/// A table with a row of titles.
pub(super) fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let row = |cells: &mut dyn Iterator<Item = &str>| {
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut text = row(&mut titles.iter().copied());
    text += &format!("|{}\n", "---|".repeat(titles.len()));
    for cells in rows {
        text += &row(&mut cells.iter().map(String::as_str));
    }
    text
}

/// A median and its range, in a unit.
pub(super) fn spread(of: Spread, unit: f64) -> String {
    let [median, min, max] = [of.median, of.min, of.max].map(|number| short(number / unit));
    format!("{median} ({min} .. {max})")
}

/// Three digits that count, or as many as stand before the point.
pub(super) fn short(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.0095 => format!("{number:.4}"),
        small if small < 0.095 => format!("{number:.3}"),
        middle if middle < 9.95 => format!("{number:.2}"),
        middle if middle < 99.5 => format!("{number:.1}"),
        _ => grouped(number),
    }
}

/// A whole number with a comma between thousands.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let rows = [vec!["1".to_owned(), "2.5".to_owned()]];
        assert_eq!(
            table(&["hosts", "seconds"], &rows),
            "| hosts | seconds |\n|---|---|\n| 1 | 2.5 |\n"
        );
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 0.00123, 0.0213, 1.234, 17.85, 257.3, 1_234_567.0, -4096.0].map(short);
        assert_eq!(numbers, ["0", "0.0012", "0.021", "1.23", "17.9", "257", "1,234,567", "-4,096"]);
    }

    #[test]
    fn a_spread_has_its_range() {
        let of = Spread { median: 2e6, min: 1e6, max: 3.5e6 };
        assert_eq!(spread(of, 1e6), "2.00 (1.00 .. 3.50)");
    }
}
