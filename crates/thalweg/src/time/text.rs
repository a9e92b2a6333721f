//! Parses timestamps: RFC 3339, and patterns as of `strptime`.

use super::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::Offset;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

impl Timestamp {
    /// Parses a date and time of [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339), such as
    /// `2015-07-15T02:00:02.5+02:00`. For any other form, see [`parse`](Self::parse).
    ///
    /// The offset from UTC is required. A space may stand for the `T`, seconds may be left out, and a leap second is the
    /// one before it. Of up to nine digits of a second those after the sixth are dropped; more are an error. From the year 0
    /// to 9999-12-30T22:00:00Z, what [`Display`](fmt::Display) writes is parsed as the same timestamp. Allocates
    /// nothing.
    ///
    /// # Errors
    ///
    /// Of kind [`Input`](ErrorKind::Input), with the text and what is wrong with it: under
    /// [`try_map`](crate::Stream::try_map), the job ends with it.
    ///
    /// ```
    /// use thalweg::time::Timestamp;
    ///
    /// let at = Timestamp::parse_rfc3339("1970-01-01T01:00:02.5+01:00")?;
    /// assert_eq!(at, Timestamp::from_millis(2500));
    /// assert_eq!(at.to_string().parse::<Timestamp>()?, at);
    ///
    /// let error = Timestamp::parse_rfc3339("2023-02-29T00:00:00Z").unwrap_err();
    /// assert!(error.message().starts_with("\"2023-02-29T00:00:00Z\" is no date and time of RFC 3339"));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn parse_rfc3339(text: &str) -> Result<Self> {
        let parsed: Result<jiff::Timestamp, _> = text.parse();
        parsed.map(from_jiff).map_err(|error| {
            let text = Shown(text);
            Error::new(ErrorKind::Input, format!("{text} is no date and time of RFC 3339: {error}"))
        })
    }

    /// Parses a date and time in the form that a pattern describes, as `strptime` of C and Python does. For
    /// RFC 3339 there is [`parse_rfc3339`](Self::parse_rfc3339), which is faster.
    ///
    /// | in the pattern | stands for |
    /// |---|---|
    /// | `%Y` `%m` `%d` | year, month, day: `2000`, `10`, `09` |
    /// | `%b` or `%B`, `%a` or `%A` | month and day of the week in English: `Oct` or `October`, `Tue` or `Tuesday` |
    /// | `%y`, `%j` | year of two digits from 1969 to 2068, day of the year |
    /// | `%H` `%M` `%S`, `%I` and `%p` | hour, minute, second; hour up to 12, and `AM` or `PM` |
    /// | `%.f`, `%f` | fraction of a second, with its point if there is one; without |
    /// | `%z`, `%:z` | offset from UTC: `-0700`, `-07:00` |
    /// | `%s` | seconds since 1970-01-01T00:00:00Z; `%.f` may follow where they are not before it |
    /// | `%F`, `%T`, `%D`, `%R` | `%Y-%m-%d`, `%H:%M:%S`, `%m/%d/%y`, `%H:%M` |
    /// | `%%`, a space | `%`; any number of spaces |
    ///
    /// All others are those of [`jiff::fmt::strtime`](https://docs.rs/jiff/0.2/jiff/fmt/strtime/index.html). The
    /// whole text must match. A text without an offset is in UTC, one without a time at midnight. Names of time zones
    /// (`%Q`) are an error, as they would need a database of them. The pattern is read again for each text;
    /// nothing is allocated.
    ///
    /// # Errors
    ///
    /// Of kind [`Input`](ErrorKind::Input), with the text, the pattern and what is wrong, be it with the
    /// text or with the pattern.
    ///
    /// # The log of a web server
    ///
    /// [`assign_timestamps`](crate::Stream::assign_timestamps) takes a closure that cannot fail, so parse first,
    /// where a bad line can end the job by [`try_map`](crate::Stream::try_map) or be set aside by
    /// [`side_output`](crate::Stream::side_output).
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::EventTimeWindow;
    /// use thalweg::time::Timestamp;
    /// use thalweg::{Environment, Error, ErrorKind};
    ///
    /// /// When a request came, and what its answer's status was.
    /// fn request(line: &str) -> Result<(Timestamp, u16), Error> {
    ///     let bad = || Error::new(ErrorKind::Input, format!("not of the common log format: {line}"));
    ///     let (_, rest) = line.split_once('[').ok_or_else(bad)?;
    ///     let (at, rest) = rest.split_once(']').ok_or_else(bad)?;
    ///     let status = rest.split(' ').rev().nth(1).and_then(|status| status.parse().ok());
    ///     Ok((Timestamp::parse(at, "%d/%b/%Y:%H:%M:%S %z")?, status.ok_or_else(bad)?))
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("access.log");
    /// # std::fs::write(&path, "\
    /// # 127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326
    /// # 127.0.0.1 - - [10/Oct/2000:13:55:59 -0700] \"GET /b HTTP/1.0\" 404 209
    /// # 127.0.0.1 - - [10/Oct/2000:13:56:01 -0700] \"GET /c HTTP/1.0\" 500 0
    /// # ").unwrap();
    /// let env = Environment::new();
    /// let failures = env
    ///     .lines(path)
    ///     .try_map(request)
    ///     .filter(|(_, status)| *status >= 400)
    ///     .assign_timestamps(|(at, _)| *at, Watermarks::bounded_disorder(Duration::from_secs(5)))
    ///     .group_by(|_| ())
    ///     .window(EventTimeWindow::tumbling(Duration::from_secs(60)))
    ///     .count();
    /// let out = failures.unkey().map(|((), minute)| (minute.start, minute.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// let minute = |text| Timestamp::parse_rfc3339(text);
    /// let (first, second) = (minute("2000-10-10T20:55:00Z")?, minute("2000-10-10T20:56:00Z")?);
    /// assert_eq!(out.take()?, [(first, 1), (second, 1)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "strptime")]
    pub fn parse(text: &str, pattern: &str) -> Result<Self> {
        let fail = |error: &dyn fmt::Display| {
            let (text, pattern) = (Shown(text), Shown(pattern));
            Error::new(ErrorKind::Input, format!("{text} does not match {pattern}: {error}"))
        };
        let parsed = BrokenDownTime::parse(pattern, text).map_err(|error| fail(&error))?;
        if let Some(at) = parsed.timestamp() {
            // The library passes over a fraction of these seconds.
            let nanos = parsed.subsec_nanosecond().unwrap_or(0);
            let negative =
                at.as_second() < 0 || at.as_second() == 0 && has_negative_seconds(text, pattern);
            if nanos > 0 && negative {
                return Err(fail(&"a fraction of seconds before 1970"));
            }
            let micros = u64::from(nanos.unsigned_abs() / 1000);
            return Ok(from_jiff(at).saturating_add(Duration::from_micros(micros)));
        }
        let at = if parsed.offset().is_some() {
            parsed.to_timestamp()
        } else if parsed.iana_time_zone().is_some() {
            return Err(fail(&"names of time zones are not known"));
        } else {
            parsed.to_datetime().and_then(|at| Offset::UTC.to_timestamp(at))
        };
        at.map(from_jiff).map_err(|error| fail(&error))
    }
}

/// As [`Timestamp::parse_rfc3339`].
impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse_rfc3339(text)
    }
}

/// Whether a minus sign stands where the pattern has `%s`. The library parses `-0` as 0.
fn has_negative_seconds(text: &str, pattern: &str) -> bool {
    let is_flag = |c: char| c.is_ascii_digit() || "-_^#:".contains(c);
    pattern.match_indices('%').any(|(at, _)| {
        let directive = pattern[at + 1..].trim_start_matches(is_flag);
        // `%%s` has no seconds: the prefix that ends within `%%` is no pattern.
        directive.starts_with('s')
            && BrokenDownTime::parse_prefix(&pattern[..at], text)
                .is_ok_and(|(_, parsed)| text.as_bytes().get(parsed) == Some(&b'-'))
    })
}

/// The last microsecond that is not after this. No year up to 9999 overflows.
fn from_jiff(at: jiff::Timestamp) -> Timestamp {
    let micros = i64::from(at.subsec_nanosecond().div_euclid(1000));
    Timestamp::from_micros(at.as_second() * 1_000_000 + micros)
}

/// A text as messages show it: quoted, and cut off where it is long.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 80;
        match self.0.char_indices().nth(MOST) {
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rfc(text: &str) -> Option<i64> {
        Timestamp::parse_rfc3339(text).ok().map(Timestamp::as_micros)
    }

    fn pattern(text: &str, pattern: &str) -> Option<i64> {
        Timestamp::parse(text, pattern).ok().map(Timestamp::as_micros)
    }

    #[test]
    fn rfc_3339_is_parsed() {
        assert_eq!(rfc("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(rfc("1970-01-01t00:00:01z"), Some(1_000_000));
        assert_eq!(rfc("1970-01-01 00:00:00.000001+00:00"), Some(1));
        assert_eq!(rfc("1996-12-19T16:39:57-08:00"), Some(851_042_397_000_000));
        assert_eq!(rfc("2016-12-31T23:59:60Z"), rfc("2016-12-31T23:59:59Z"));
        // What is finer than a microsecond is dropped, on either side of 1970.
        assert_eq!(rfc("1970-01-01T00:00:00.000001999Z"), Some(1));
        assert_eq!(rfc("1969-12-31T23:59:59.999999999Z"), Some(-1));
        assert_eq!(rfc("1969-12-31T23:59:58.0000001Z"), Some(-2_000_000));
        for bad in ["", "1970-01-01", "1970-01-01T00:00:00", "1970-13-01T00:00:00Z", "now"] {
            assert_eq!(rfc(bad), None, "{bad}");
        }
        assert_eq!(rfc("1970-01-01T00:00:00.123456789Z"), Some(123_456));
        assert_eq!(rfc("1970-01-01T00:00:00.1234567891Z"), None, "ten digits of a second");
        assert_eq!(rfc("1970-01-01T00:00:00Z "), None, "trailing space");
        assert_eq!(rfc("9999-12-31T23:59:59Z"), None, "beyond what every offset can show");
    }

    #[test]
    fn patterns_are_parsed() {
        let log = "%d/%b/%Y:%H:%M:%S %z";
        assert_eq!(pattern("10/Oct/2000:13:55:36 -0700", log), rfc("2000-10-10T20:55:36Z"));
        let plain = "%Y-%m-%d %H:%M:%S";
        assert_eq!(pattern("2024-02-29 12:00:00", plain), rfc("2024-02-29T12:00:00Z"));
        assert_eq!(pattern("2024-02-29", "%F"), rfc("2024-02-29T00:00:00Z"));
        assert_eq!(pattern("2023-02-29", "%F"), None);
        assert_eq!(pattern("2024-02-29 x", "%F"), None);
        assert_eq!(pattern("12/31/99, 11:59 PM", "%D, %I:%M %p"), rfc("1999-12-31T23:59:00Z"));
        assert_eq!(pattern("1.25", "%s%.f"), Some(1_250_000));
        assert_eq!(pattern("0.000001", "%s%.f"), Some(1));
        assert_eq!(pattern("-7", "%s"), Some(-7_000_000));
        // The sign of `-0` is lost, so no fraction is taken for what it is not.
        assert_eq!((pattern("-0.25", "%s%.f"), pattern("-7.5", "%s%.f")), (None, None));
        assert_eq!(
            (pattern("a-b -0.25", "a-b %-3s%.f"), pattern("%s -00.5", "%%s %s%.f")),
            (None, None)
        );
        // Another minus sign is none of theirs.
        assert_eq!(pattern("a-b 0.25 -7", "a-b %s%.f -7"), Some(250_000));
        assert_eq!(pattern("-s 0.25", "-s %s%.f"), Some(250_000));
        let fraction = "%F %T%.f";
        assert_eq!(pattern("1970-01-01 00:00:00.25", fraction), Some(250_000));
        assert_eq!(pattern("1970-01-01 00:00:00", fraction), Some(0));
    }

    #[test]
    fn errors_name_text_and_pattern() {
        let message = |text: &str, pattern: &str| {
            let error = Timestamp::parse(text, pattern).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input);
            error.message().to_owned()
        };
        let day = message("31/Feb/2024", "%d/%b/%Y");
        assert!(day.starts_with("\"31/Feb/2024\" does not match \"%d/%b/%Y\": "), "{day}");
        let zone = message("2024-01-01 Europe/Rome", "%F %Q");
        assert!(zone.ends_with("names of time zones are not known"), "{zone}");
        assert!(message("1", "%!").contains("\"%!\""));
        let long = message(&"ü".repeat(1000), "%F");
        assert!(long.len() < 400 && long.contains("ü\"…"), "{long}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_parsed_again(micros in -62_167_219_200_000_000..253_402_207_200_000_000_i64) {
            let at = Timestamp::from_micros(micros);
            prop_assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
        }
    }
}
