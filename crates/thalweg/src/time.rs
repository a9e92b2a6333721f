//! Event time: timestamps, and the unit type of streams without event time.

mod text;

use crate::data::{Data, DecodeError, Schema, encode_words, extend_words};
use std::fmt;
use std::time::Duration;

/// A point in event time: microseconds since 1970-01-01T00:00:00Z, negative before it.
///
/// # The ends of time
///
/// Every `i64` is a valid timestamp of a record, including [`MIN`](Self::MIN) and [`MAX`](Self::MAX). Three rules
/// apply to what would lie beyond these ends:
///
/// - Reported bounds, such as those of a [`Pane`](crate::operators::window::Pane), are clamped: a
///   window that reaches beyond `MAX` has `MAX` as its end. It is in the results once, like any other.
/// - A watermark never reaches `MAX`. What is due at that moment or later, be it the end of a window or of a
///   session, a [`Timer`](crate::operators::keyed::Timer) or a commit, happens at the end of the input. So a record
///   at `MAX` is never late.
/// - Sizes, gaps, distances and lateness are limited to `i64::MAX` microseconds, which are 292,471 years: a longer
///   [`Duration`] counts as that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest timestamp.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest timestamp.
    pub const MAX: Self = Self(i64::MAX);

    /// The timestamp this many microseconds after 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The timestamp this many milliseconds after 1970-01-01T00:00:00Z, saturating at the earliest and latest one.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// The timestamp this many seconds after 1970-01-01T00:00:00Z, saturating at the earliest and latest one.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The timestamp `by` later, or `None` on overflow.
    pub fn checked_add(self, by: Duration) -> Option<Self> {
        let micros = u64::try_from(by.as_micros()).ok()?;
        self.0.checked_add_unsigned(micros).map(Self)
    }

    /// The timestamp `by` later, or the latest one.
    pub fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(unsigned_micros(by)))
    }

    /// The timestamp `by` earlier, or the earliest one.
    pub fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(unsigned_micros(by)))
    }

    /// The time from `earlier` to this; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        let span = i128::from(self.0) - i128::from(earlier.0);
        // Two timestamps are less than 2^64 microseconds apart.
        Duration::from_micros(u64::try_from(span).unwrap_or(0))
    }
}

/// Encoded and hashed as its microseconds.
impl Data for Timestamp {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        i64::decode(input).map(Self)
    }

    fn encode_slice(items: &[Self], out: &mut Vec<u8>) {
        encode_words(items, out, |at| at.0.to_le_bytes());
    }

    fn extend_list(input: &mut &[u8], len: usize, to: &mut Vec<Self>) -> Result<(), DecodeError> {
        extend_words(input, len, to, |bytes| Self(i64::from_le_bytes(bytes)))
    }

    fn key_hash(&self) -> u64 {
        self.0.key_hash()
    }

    fn schema() -> Schema {
        Schema::I64
    }
}

/// The date and time in UTC, as in `2015-07-15T00:00:02.5Z`, with as many digits of a second as needed.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        let (year, month, day) = civil(seconds.div_euclid(86_400));
        let second = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        if !(0..=9999).contains(&year) {
            f.write_str(if year < 0 { "-" } else { "+" })?;
        }
        write!(f, "{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}", year.abs())?;
        if micros > 0 {
            write!(f, ".{}", format!("{micros:06}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar. Internally, years begin in March,
/// so that a leap day is the last day of a year, in cycles of 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097;
    let since = days + 719_468;
    let (cycle, day) = (since.div_euclid(CYCLE), since.rem_euclid(CYCLE));
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE - 1)) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * cycle + year + later, month, of_month)
}

/// A duration in whole microseconds, saturating at the distance between the first timestamp and the last.
fn unsigned_micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// A duration in whole microseconds, saturating at `i64::MAX`, the limit of distances in operators.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// What each record of a stream carries beside its value: `()`, or a [`Timestamp`].
pub trait Time: Data + Copy + Ord + Sync {
    /// The time of a record that results from no single record, such as a final sum.
    const LAST: Self;

    /// The timestamp, if there is one.
    fn timestamp(self) -> Option<Timestamp>;

    /// The time of a record that happened at `at`.
    fn happened(at: Timestamp) -> Self;
}

impl Time for () {
    const LAST: Self = ();

    #[inline(always)]
    fn timestamp(self) -> Option<Timestamp> {
        None
    }

    #[inline(always)]
    fn happened(_: Timestamp) -> Self {}
}

impl Time for Timestamp {
    const LAST: Self = Self::MAX;

    #[inline(always)]
    fn timestamp(self) -> Option<Timestamp> {
        Some(self)
    }

    #[inline(always)]
    fn happened(at: Timestamp) -> Self {
        at
    }
}

/// The [`Time`] of streams whose records have timestamps: [`Timestamp`] and no other.
///
/// Operators that need event time have it as a bound, so that the compiler's message says how to assign timestamps.
#[diagnostic::on_unimplemented(
    message = "this operator needs event time, and the stream has no timestamps",
    label = "needs a stream with timestamps",
    note = "say when each record happened first: \
            `assign_timestamps(|record| …, Watermarks::bounded_disorder(…))`"
)]
pub trait EventTime: Time + Into<Timestamp> + From<Timestamp> {}

impl EventTime for Timestamp {}

/// The [`Time`] of streams whose records have no timestamps: `()` and no other.
#[diagnostic::on_unimplemented(
    message = "the records of this stream have timestamps already",
    label = "needs a stream without timestamps",
    note = "assign them once, in the first of the two places"
)]
pub trait Untimed: Time {}

impl Untimed for () {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let shown = |micros| Timestamp::from_micros(micros).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(shown(1_709_164_800_500_000), "2024-02-29T00:00:00.5Z");
        assert_eq!(shown(951_868_800_000_000), "2000-03-01T00:00:00Z");
        assert_eq!(shown(-62_167_219_200_000_001), "-0001-12-31T23:59:59.999999Z");
        assert_eq!(shown(i64::MAX), "+294247-01-10T04:00:54.775807Z");
        assert_eq!(shown(i64::MIN), "-290308-12-21T19:59:05.224192Z");
        // Every day of 800 years follows the day before.
        let mut last = (1599, 12, 31);
        for day in -135_140..157_054 {
            let (year, month, of_month) = civil(day);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            assert!((1..=lengths[month as usize - 1]).contains(&of_month));
            assert!((year, month, of_month) > last && (of_month == 1 || of_month == last.2 + 1));
            last = (year, month, of_month);
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let second = Duration::from_secs(1);
        assert_eq!(Timestamp::MAX.checked_add(second), None);
        assert_eq!(Timestamp::MAX.saturating_add(second), Timestamp::MAX);
        // The distance between two timestamps in microseconds may exceed `i64::MAX`.
        let all = Duration::from_micros(u64::MAX);
        assert_eq!(Timestamp::MIN.checked_add(all), Some(Timestamp::MAX));
        assert_eq!(Timestamp::MIN.checked_add(all + Duration::from_micros(1)), None);
        assert_eq!(Timestamp::MIN.saturating_add(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.saturating_sub(all), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.saturating_sub(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::from_secs(-1).saturating_add(second), Timestamp::default());
        assert_eq!(Timestamp::from_secs(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_millis(i64::MIN), Timestamp::MIN);
        assert_eq!(Timestamp::from_secs(3).since(Timestamp::from_millis(500)).as_millis(), 2500);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
        assert_eq!(Timestamp::MAX.since(Timestamp::MIN).as_micros(), u128::from(u64::MAX));
    }
}
