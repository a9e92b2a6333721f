//! How far event time has come, and who holds it back.

use super::show;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How far one task of an operator that makes watermarks has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Its last watermark; `None` before the first.
    pub(crate) at: Option<Timestamp>,
    /// How long ago that was, or the job began.
    pub(crate) still: Duration,
    /// Whether nobody waits for it: its input has ended, or it has said to be idle.
    pub(crate) excused: bool,
}

/// How far the tasks of an operator that makes watermarks have come: each is a partition of the source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WatermarkStats {
    /// The least watermark of those that others wait for, in microseconds since 1970; `None` when one
    /// of them has none, or when nobody is waited for.
    pub least: Option<i64>,
    /// The greatest of all.
    pub greatest: Option<i64>,
    /// The partition that the least is of, counted from 0; `None` when nobody is waited for.
    pub held_by: Option<usize>,
    /// How long that one has not moved.
    #[serde(with = "super::stats::seconds")]
    pub still: Duration,
}

impl WatermarkStats {
    /// Puts together what the tasks of an operator said, in their order.
    pub(crate) fn of(marks: &[Mark]) -> Self {
        let micros = |mark: &Mark| mark.at.map(Timestamp::as_micros);
        let greatest = marks.iter().filter_map(micros).max();
        let waited = marks.iter().enumerate().filter(|(_, mark)| !mark.excused);
        match waited.min_by_key(|(_, mark)| (mark.at, std::cmp::Reverse(mark.still))) {
            Some((task, mark)) => {
                Self { least: micros(mark), greatest, held_by: Some(task), still: mark.still }
            }
            None => Self { greatest, ..Self::default() },
        }
    }

    /// What holds event time back, if it has stood still for at least so long.
    pub fn holding(&self, at_least: Duration) -> Option<String> {
        let partition = self.held_by?;
        if self.still < at_least {
            return None;
        }
        let mut said = match self.least {
            Some(at) => format!("the watermark stands at {}", Timestamp::from_micros(at)),
            None => "there is no watermark yet".to_owned(),
        };
        said += &format!(
            ": partition {partition} has had nothing that moves it for {}",
            show::span(self.still)
        );
        if let (Some(least), Some(greatest)) = (self.least, self.greatest)
            && greatest > least
        {
            let behind = Timestamp::from_micros(greatest).since(Timestamp::from_micros(least));
            said +=
                &format!(", and is {} behind the one that has come furthest", show::span(behind));
        }
        Some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at: Option<i64>, seconds: u64, excused: bool) -> Mark {
        let still = Duration::from_secs(seconds);
        Mark { at: at.map(Timestamp::from_secs), still, excused }
    }

    #[test]
    fn the_partition_that_is_waited_for_is_named() {
        let ten = Duration::from_secs(10);
        let of = |marks: &[Mark]| WatermarkStats::of(marks).holding(ten);
        assert_eq!(
            of(&[mark(Some(90), 12, false), mark(Some(93), 1, false)]).as_deref(),
            Some(
                "the watermark stands at 1970-01-01T00:01:30Z: partition 0 has had nothing that moves it for \
             12.00 s, and is 3.00 s behind the one that has come furthest"
            )
        );
        assert_eq!(of(&[mark(Some(90), 9, false), mark(Some(93), 1, false)]), None);
        assert_eq!(of(&[mark(Some(90), 99, true), mark(Some(93), 1, false)]), None, "it is idle");
        assert_eq!(of(&[mark(Some(90), 99, true)]), None, "all is over");
        assert_eq!(
            of(&[mark(Some(90), 12, false), mark(None, 11, false)]).as_deref(),
            Some(
                "there is no watermark yet: partition 1 has had nothing that moves it for 11.00 s"
            )
        );
    }
}
