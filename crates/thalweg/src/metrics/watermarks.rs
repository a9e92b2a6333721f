//! The progress of event time, and what holds it back.

use super::show;
use crate::data::Data;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The progress of event time in one task of an operator that generates watermarks.
#[derive(Clone, Debug, Data)]
pub(crate) struct Mark {
    /// Its last watermark; `None` before the first.
    pub(crate) at: Option<Timestamp>,
    /// The time since then, or since the job began.
    pub(crate) still: Duration,
    /// Whether it holds back no other task: its input has ended, or it is idle.
    pub(crate) excused: bool,
    /// Of the splits that it reads, the one that holds it back.
    pub(crate) split: Option<String>,
}

/// The progress of event time in the tasks of an operator that generates watermarks. A task of a connector may read several
/// splits; the partitions of files are its tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WatermarkStats {
    /// The least watermark of the partitions that have not ended and are not idle, in microseconds since 1970; `None`
    /// when one of them has no watermark, or when there are none.
    pub least: Option<i64>,
    /// The greatest watermark of all partitions.
    pub greatest: Option<i64>,
    /// The task with the least watermark, counted from 0; `None` when all have ended or are idle.
    pub held_by: Option<usize>,
    /// The split of a connector that holds back the watermark of that task, such as `orders/3`, if it reads splits.
    #[serde(default)]
    pub split: Option<String>,
    /// The time since the watermark of that task last advanced.
    #[serde(with = "super::stats::seconds")]
    pub still: Duration,
}

impl WatermarkStats {
    /// Combines the marks of an operator's tasks, in their order.
    pub(crate) fn of(marks: &[Mark]) -> Self {
        let micros = |mark: &Mark| mark.at.map(Timestamp::as_micros);
        let greatest = marks.iter().filter_map(micros).max();
        let waited = marks.iter().enumerate().filter(|(_, mark)| !mark.excused);
        match waited.min_by_key(|(_, mark)| (mark.at, std::cmp::Reverse(mark.still))) {
            Some((task, mark)) => {
                let (held_by, split) = (Some(task), mark.split.clone());
                Self { least: micros(mark), greatest, held_by, split, still: mark.still }
            }
            None => Self { greatest, ..Self::default() },
        }
    }

    /// What holds event time back, if it has not advanced for at least this long.
    pub fn holding(&self, at_least: Duration) -> Option<String> {
        let task = self.held_by?;
        let partition = self.split.clone().unwrap_or_else(|| task.to_string());
        if self.still < at_least {
            return None;
        }
        let mut text = match self.least {
            Some(at) => format!("the watermark stands at {}", Timestamp::from_micros(at)),
            None => "there is no watermark yet".to_owned(),
        };
        text += &format!(
            ": partition {partition} has had nothing that moves it for {}",
            show::span(self.still)
        );
        if let (Some(least), Some(greatest)) = (self.least, self.greatest)
            && greatest > least
        {
            let behind = Timestamp::from_micros(greatest).since(Timestamp::from_micros(least));
            text +=
                &format!(", and is {} behind the one that has come furthest", show::span(behind));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at: Option<i64>, seconds: u64, excused: bool) -> Mark {
        let still = Duration::from_secs(seconds);
        Mark { at: at.map(Timestamp::from_secs), still, excused, split: None }
    }

    #[test]
    fn the_partition_that_holds_time_back_is_named() {
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
        assert_eq!(
            of(&[mark(Some(90), 99, true), mark(Some(93), 1, false)]),
            None,
            "the partition is idle"
        );
        assert_eq!(of(&[mark(Some(90), 99, true)]), None, "all have ended");
        assert_eq!(
            of(&[mark(Some(90), 12, false), mark(None, 11, false)]).as_deref(),
            Some(
                "there is no watermark yet: partition 1 has had nothing that moves it for 11.00 s"
            )
        );
        let split = Some("orders/7".to_owned());
        assert_eq!(
            of(&[mark(Some(90), 12, false), Mark { split, ..mark(None, 11, false) }]).as_deref(),
            Some(
                "there is no watermark yet: partition orders/7 has had nothing that moves it for 11.00 s"
            )
        );
    }
}
