//! Parsing of settings from text.
//!
//! The same forms are valid in a file, in a variable and on the command line.

use super::{BatchMode, Compression, Scheduler, StateBackend};
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

/// The error for a text that is not allowed; it lists the allowed forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAllowed(pub(super) &'static str);

impl fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "allowed is {}", self.0)
    }
}

impl std::error::Error for NotAllowed {}

#[cfg(feature = "cli")]
pub(super) const WHOLE: &str = "a whole number of at least 1";
#[cfg(feature = "cli")]
pub(super) const BYTES: &str =
    "a number of bytes of at least 1, alone or with a unit: KB, MB, GB, TB or KiB, MiB, GiB, TiB";
pub(super) const SCHEDULER: &str = "work-stealing, thread-per-task, or deterministic[:SEED]";
pub(super) const STATE_BACKEND: &str = "memory-then-disk, memory, or disk";
pub(super) const COMPRESSION: &str = "none or lz4";
pub(super) const BATCH: &str =
    "adaptive[:RECORDS], fixed:RECORDS, timed:RECORDS:DELAY (as in timed:1024:2ms), or single";

/// `work-stealing`, `thread-per-task`, `deterministic` or `deterministic:SEED`.
///
/// ```
/// use thalweg::config::Scheduler;
///
/// assert_eq!("deterministic:7".parse(), Ok(Scheduler::Deterministic { seed: 7 }));
/// assert!("round-robin".parse::<Scheduler>().is_err());
/// ```
impl FromStr for Scheduler {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Self, NotAllowed> {
        match text {
            "work-stealing" => Ok(Self::WorkStealing),
            "thread-per-task" => Ok(Self::ThreadPerTask),
            "deterministic" => Ok(Self::Deterministic { seed: 0 }),
            _ => text
                .strip_prefix("deterministic:")
                .and_then(|seed| seed.parse().ok())
                .map(|seed| Self::Deterministic { seed })
                .ok_or(NotAllowed(SCHEDULER)),
        }
    }
}

/// The text that [`FromStr`] reads.
impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkStealing => f.write_str("work-stealing"),
            Self::ThreadPerTask => f.write_str("thread-per-task"),
            Self::Deterministic { seed } => write!(f, "deterministic:{seed}"),
        }
    }
}

/// `memory-then-disk`, `memory` or `disk`.
impl FromStr for StateBackend {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Self, NotAllowed> {
        match text {
            "memory-then-disk" => Ok(Self::MemoryThenDisk),
            "memory" => Ok(Self::Memory),
            "disk" => Ok(Self::Disk),
            _ => Err(NotAllowed(STATE_BACKEND)),
        }
    }
}

/// The text that [`FromStr`] reads.
impl fmt::Display for StateBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MemoryThenDisk => "memory-then-disk",
            Self::Memory => "memory",
            Self::Disk => "disk",
        })
    }
}

/// `none` or `lz4`.
impl FromStr for Compression {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Self, NotAllowed> {
        match text {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            _ => Err(NotAllowed(COMPRESSION)),
        }
    }
}

/// The text that [`FromStr`] reads.
impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        })
    }
}

/// `adaptive`, `adaptive:RECORDS`, `fixed:RECORDS`, `timed:RECORDS:DELAY` or `single`.
///
/// ```
/// use std::time::Duration;
/// use thalweg::config::BatchMode;
///
/// let timed = BatchMode::Timed { size: 512, delay: Duration::from_millis(2) };
/// assert_eq!("timed:512:2ms".parse(), Ok(timed));
/// assert!("fixed".parse::<BatchMode>().is_err());
/// ```
impl FromStr for BatchMode {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Self, NotAllowed> {
        let read = || {
            let mut parts = text.split(':');
            let mode = match (parts.next()?, parts.next(), parts.next()) {
                ("adaptive", None, None) => Self::default(),
                ("adaptive", Some(size), None) => Self::Adaptive { size: whole(size)?.get() },
                ("fixed", Some(size), None) => Self::Fixed { size: whole(size)?.get() },
                ("timed", Some(size), Some(delay)) => {
                    Self::Timed { size: whole(size)?.get(), delay: span(delay)? }
                }
                ("single", None, None) => Self::Single,
                _ => return None,
            };
            parts.next().is_none().then_some(mode)
        };
        read().ok_or(NotAllowed(BATCH))
    }
}

/// The text that [`FromStr`] reads.
impl fmt::Display for BatchMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive { size } => write!(f, "adaptive:{size}"),
            Self::Fixed { size } => write!(f, "fixed:{size}"),
            Self::Timed { size, delay } => {
                // In the largest unit that gives a whole number.
                let (number, unit) = match delay.as_nanos() {
                    n if n.is_multiple_of(1_000_000_000) => (n / 1_000_000_000, "s"),
                    n if n.is_multiple_of(1_000_000) => (n / 1_000_000, "ms"),
                    n if n.is_multiple_of(1000) => (n / 1000, "us"),
                    n => (n, "ns"),
                };
                write!(f, "timed:{size}:{number}{unit}")
            }
            Self::Single => f.write_str("single"),
        }
    }
}

/// A whole number of at least 1; underscores may group its digits.
pub(super) fn whole(text: &str) -> Option<NonZeroUsize> {
    digits(text)?.parse().ok()
}

fn digits(text: &str) -> Option<String> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '_');
    plain.then(|| text.replace('_', ""))
}

/// Splits a number from its unit.
fn with_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// A number of bytes of at least 1, with or without a unit.
#[cfg(any(test, feature = "cli"))]
pub(super) fn bytes(text: &str) -> Option<usize> {
    let (number, unit) = with_unit(text);
    let factor: usize = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    whole(number)?.get().checked_mul(factor)
}

/// A duration with its unit.
pub(super) fn span(text: &str) -> Option<Duration> {
    let (number, unit) = with_unit(text);
    let number: u64 = digits(number)?.parse().ok()?;
    match unit {
        "ns" => Some(Duration::from_nanos(number)),
        "us" | "µs" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_settings_parse_to_the_same_settings() {
        let batches = [
            BatchMode::Single,
            BatchMode::Fixed { size: 3 },
            BatchMode::default(),
            BatchMode::Timed { size: 9, delay: Duration::from_micros(1500) },
            BatchMode::Timed { size: 9, delay: Duration::from_micros(15) },
            BatchMode::Timed { size: 9, delay: Duration::from_secs(2) },
            BatchMode::Timed { size: 9, delay: Duration::ZERO },
        ];
        for batch in batches {
            assert_eq!(batch.to_string().parse(), Ok(batch));
        }
        for scheduler in [
            Scheduler::WorkStealing,
            Scheduler::ThreadPerTask,
            Scheduler::Deterministic { seed: u64::MAX },
        ] {
            assert_eq!(scheduler.to_string().parse(), Ok(scheduler));
        }
    }

    #[test]
    fn state_backends_have_names() {
        for backend in [StateBackend::MemoryThenDisk, StateBackend::Memory, StateBackend::Disk] {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        assert_eq!("rocksdb".parse::<StateBackend>(), Err(NotAllowed(STATE_BACKEND)));
    }

    #[test]
    fn compressions_have_names() {
        for compression in [Compression::None, Compression::Lz4] {
            assert_eq!(compression.to_string().parse(), Ok(compression));
        }
        assert_eq!("LZ4".parse::<Compression>(), Err(NotAllowed(COMPRESSION)));
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("512MiB"), Some(512 << 20));
        assert_eq!(bytes("512 MiB"), Some(512 << 20));
        assert_eq!(bytes("1_000"), Some(1000));
        assert_eq!(bytes("2kB"), Some(2000));
        for wrong in ["", "0", "0GiB", "-1", "1.5GiB", "512M", "MiB", "99999999999TiB", "1 2"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn batches_have_forms() {
        assert_eq!("adaptive".parse(), Ok(BatchMode::Adaptive { size: 1024 }));
        assert_eq!("adaptive:64".parse(), Ok(BatchMode::Adaptive { size: 64 }));
        for wrong in
            ["", "fixed", "fixed:0", "fixed:a", "single:1", "timed:4", "timed:4:2", "timed:4:2ms:1"]
        {
            assert_eq!(wrong.parse::<BatchMode>(), Err(NotAllowed(BATCH)), "{wrong}");
        }
    }

    #[test]
    fn schedulers_have_names() {
        assert_eq!("deterministic".parse(), Ok(Scheduler::Deterministic { seed: 0 }));
        for wrong in ["", "Work-Stealing", "deterministic:", "deterministic:-1", "threads"] {
            assert_eq!(wrong.parse::<Scheduler>(), Err(NotAllowed(SCHEDULER)), "{wrong}");
        }
    }
}
