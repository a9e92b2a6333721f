//! What statistics say of the checkpoints of a job.

use super::show;
use super::stats::seconds;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The checkpoints of a job: from which one it would go on if it died now, and how old that is.
///
/// The age of the newest is the figure by which to see whether a job is well: all that came since then would have to be done again.
/// It grows while checkpoints fail, or their barriers do not pass; usually it is at most the interval and the time that one takes.
///
/// [`Display`](fmt::Display) shows it in a line, as `--stats` does.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::config::{CheckpointConfig, Config};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let folder = dir.path();
/// let mut config = Config::default();
/// config.checkpoints = Some(CheckpointConfig::new(folder.join("saved")));
/// let env = Environment::with_config(config);
/// env.generate(1e5, Some).map(|n| n.to_string()).write_lines(folder.join("numbers.txt"));
/// let job = env.start()?;
/// job.savepoint(folder.join("before-the-upgrade"))?.expect("it runs");
/// let checkpoints = job.stats().checkpoints.expect("it has some");
/// assert!(checkpoints.newest.is_some() && checkpoints.failure.is_none());
/// job.cancel();
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// The newest one that the job could go on from: of this run, or that with which this run began. `None` as long as there is
    /// none.
    pub newest: Option<NewestCheckpoint>,
    /// How many were taken in this run, without the last one, when all tasks have ended.
    pub taken: u64,
    /// How many attempts have failed in this run.
    pub failed: u64,
    /// Why the last attempt has failed, if it has, which may be one for a savepoint or to suspend the job. Unless that ends the job, it
    /// goes on, and the next attempt follows.
    pub failure: Option<String>,
}

/// The newest checkpoint that a job could go on from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewestCheckpoint {
    /// Its number.
    pub number: u64,
    /// How long ago its barrier was sent; of the one that this run began with, how long ago that had passed.
    #[serde(with = "seconds")]
    pub age: Duration,
    /// The length of its file, which the first host has written: without the parts of other hosts, and without copies of what
    /// operators have on disk.
    pub bytes: u64,
    /// How long it took, from when its barrier was sent until it counted; `None` for the one that this run began with.
    #[serde(default, with = "optional_seconds")]
    pub took: Option<Duration>,
}

mod optional_seconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(|span| span.as_secs_f64()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(from)?;
        seconds.map(Duration::try_from_secs_f64).transpose().map_err(D::Error::custom)
    }
}

impl CheckpointStats {
    /// In a few words, in whole seconds, which change seldom enough to be read.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn in_short(&self) -> String {
        let mut text = match &self.newest {
            None => "no checkpoint yet".to_owned(),
            Some(NewestCheckpoint { age, .. }) if age.as_secs() < 60 => {
                format!("checkpoint {} s old", age.as_secs())
            }
            Some(NewestCheckpoint { age, .. }) => {
                format!("checkpoint {} old", show::span(Duration::from_secs(age.as_secs())))
            }
        };
        if self.failure.is_some() {
            text += " (the last attempt failed)";
        }
        text
    }
}

impl fmt::Display for CheckpointStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.newest {
            None => write!(f, "no checkpoint yet")?,
            Some(NewestCheckpoint { number, age, bytes, took }) => {
                let (age, bytes) = (show::span(*age), show::bytes(*bytes));
                write!(f, "checkpoint {number} is the newest: {age} old, {bytes}")?;
                match took {
                    Some(took) => write!(f, ", taken in {}", show::span(*took))?,
                    None => write!(f, ", of an earlier run")?,
                }
            }
        }
        let counts = [(self.taken, "taken"), (self.failed, "failed")];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {} {what}", show::count(count))?;
        }
        match &self.failure {
            Some(why) => write!(f, "; the last attempt failed: {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_the_newest_and_the_last_failure_are_said() {
        let none = CheckpointStats::default();
        assert_eq!(
            (&*none.to_string(), &*none.in_short()),
            ("no checkpoint yet", "no checkpoint yet")
        );
        let newest = |age, took| {
            let age = Duration::from_millis(age);
            Some(NewestCheckpoint { number: 12, age, bytes: 3 << 20, took })
        };
        let begun = CheckpointStats { newest: newest(61_500, None), ..none };
        let said = "checkpoint 12 is the newest: 1 min 01 s old, 3.0 MiB, of an earlier run";
        assert_eq!((&*begun.to_string(), &*begun.in_short()), (said, "checkpoint 1 min 01 s old"));
        let took = Some(Duration::from_millis(45));
        let why = Some("the disk is full".to_owned());
        let newest = newest(2900, took);
        let failing = CheckpointStats { newest, taken: 1200, failed: 2, failure: why };
        assert_eq!(
            failing.to_string(),
            "checkpoint 12 is the newest: 2.90 s old, 3.0 MiB, taken in 45.0 ms; 1,200 taken; 2 failed; the last attempt failed: \
             the disk is full"
        );
        assert_eq!(failing.in_short(), "checkpoint 2 s old (the last attempt failed)");
        let json = serde_json::to_string(&failing).unwrap();
        assert!(json.contains(r#""number":12,"age":2.9,"#), "{json}");
        assert_eq!(serde_json::from_str::<CheckpointStats>(&json).unwrap(), failing);
    }
}
