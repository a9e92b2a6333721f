//! The `collisions` bench: weeks, and the rows of its three answers, for contestants that have no others.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::digest::Digest;

/// The columns that the questions are about: date, borough, killed, and five factors.
pub const COLUMNS: [&str; 8] = [
    "CRASH DATE",
    "BOROUGH",
    "NUMBER OF PERSONS KILLED",
    "CONTRIBUTING FACTOR VEHICLE 1",
    "CONTRIBUTING FACTOR VEHICLE 2",
    "CONTRIBUTING FACTOR VEHICLE 3",
    "CONTRIBUTING FACTOR VEHICLE 4",
    "CONTRIBUTING FACTOR VEHICLE 5",
];

/// How many accidents a file has: its lines, without the header.
///
/// # Errors
/// When it cannot be read.
pub fn accidents(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut lines = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(lines - 1),
            read => lines += buffer[..read].iter().filter(|&&byte| byte == b'\n').count() as u64,
        }
    }
}

/// The number of the week of a date like `12/31/2020`, from the one that begins on the first of January of
/// the year 1.
#[inline]
pub fn week(date: &[u8]) -> Option<i32> {
    let number = |range: std::ops::Range<usize>| {
        let digits = date.get(range)?.iter();
        digits.copied().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i32::from(digit - b'0'))
        })
    };
    let (month, day, year) = (number(0..2)?, number(3..5)?, number(6..10)?);
    ((1..=12).contains(&month) && date.len() == 10)
        .then(|| (days(year, month, day) - 1).div_euclid(7))
}

/// The days of the calendar up to this one, from the first of January of the year 1.
fn days(year: i32, month: i32, day: i32) -> i32 {
    const BEFORE: [i32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let past = year - 1;
    let leap_day = i32::from(leap && month > 2);
    365 * past + past / 4 - past / 100 + past / 400 + BEFORE[month as usize - 1] + leap_day + day
}

/// The Monday of a week as `2012-07-02`.
pub fn monday(week: i32) -> String {
    let monday = 7 * week + 1;
    let mut year = 1 + monday / 366;
    while days(year + 1, 1, 1) <= monday {
        year += 1;
    }
    let month = (1..12).find(|month| days(year, month + 1, 1) > monday).unwrap_or(12);
    format!("{year:04}-{month:02}-{:02}", monday - days(year, month, 1) + 1)
}

/// The three answers, row by row.
#[derive(Debug, Default)]
pub struct Answers {
    /// Of all rows.
    pub digest: Digest,
}

impl Answers {
    /// How many lethal accidents there were in a week that begins with this Monday.
    pub fn week(&mut self, monday: &str, lethal: u64) {
        self.digest.add(format!("1 {monday}").as_bytes(), lethal);
    }

    /// How many accidents there were with a factor, and the share of the lethal ones.
    pub fn factor(&mut self, factor: &str, accidents: u64, share: f64) {
        self.digest.add(format!("2 {factor}").as_bytes(), accidents);
        self.digest.add(format!("2 {factor} share").as_bytes(), billionths(share));
    }

    /// How many accidents there were in a borough in a week, and the borough's mean of lethal ones a week.
    pub fn borough(&mut self, borough: &str, monday: &str, accidents: u64, mean: f64) {
        self.digest.add(format!("3 {borough} {monday}").as_bytes(), accidents);
        self.digest.add(format!("3 {borough} {monday} mean").as_bytes(), billionths(mean));
    }
}

/// What is left of a fraction that was computed in one way or another.
fn billionths(value: f64) -> u64 {
    (value * 1e9 + 0.5).floor() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_begin_on_mondays() {
        for (date, first) in [
            ("07/01/2012", "2012-06-25"),
            ("07/02/2012", "2012-07-02"),
            ("02/29/2016", "2016-02-29"),
            ("03/06/2016", "2016-02-29"),
            ("01/01/2023", "2022-12-26"),
            ("12/31/9999", "9999-12-27"),
        ] {
            assert_eq!(week(date.as_bytes()).map(monday).as_deref(), Some(first), "{date}");
        }
        assert!([&b""[..], b"1/1/2012", b"13/01/2012"].iter().all(|date| week(date).is_none()));
    }
}
