//! Which topics are read.

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::metadata::Metadata;
use regex_lite::Regex;
use std::fmt;
use thalweg::{Error, ErrorKind, Result};

/// The topics that a source reads.
#[derive(Clone, Debug)]
pub struct Topics(Chosen);

#[derive(Clone, Debug)]
enum Chosen {
    Named(Vec<String>),
    Matching(String),
}

impl Topics {
    /// All topics whose whole names match a regular expression, also those that are created while the job runs, but none
    /// of those that Kafka keeps for itself, whose names begin with `__`.
    pub fn matching(pattern: impl Into<String>) -> Self {
        Self(Chosen::Matching(pattern.into()))
    }

    /// Whether topics come and go by themselves.
    pub(crate) fn is_pattern(&self) -> bool {
        matches!(self.0, Chosen::Matching(_))
    }

    /// The single topic to ask brokers about; `None` for all.
    pub(crate) fn single(&self) -> Option<&str> {
        match &self.0 {
            Chosen::Named(names) => match names.as_slice() {
                [name] => Some(name),
                _ => None,
            },
            Chosen::Matching(_) => None,
        }
    }

    /// Those of the cluster's topics that are read, each with its number of partitions.
    ///
    /// # Errors
    ///
    /// If the pattern is none, or a named topic is not there: `missing` says why.
    pub(crate) fn of(
        &self,
        metadata: &Metadata,
        missing: impl Fn(&str) -> Error,
    ) -> Result<Vec<(String, i32)>> {
        let there = metadata.topics().iter().filter(|topic| topic.error().is_none());
        let there = there.map(|topic| (topic.name().to_owned(), topic.partitions().len() as i32));
        match &self.0 {
            Chosen::Named(names) => {
                let there: Vec<_> = there.filter(|(_, partitions)| *partitions > 0).collect();
                let of = |name: &String| there.iter().find(|(topic, _)| topic == name).cloned();
                names.iter().map(|name| of(name).ok_or_else(|| missing(name))).collect()
            }
            Chosen::Matching(pattern) => {
                let matches = matching(pattern)?;
                Ok(there.filter(|(name, _)| matches(name)).collect())
            }
        }
    }

    /// Those that are read, but of which the brokers cannot say for now what they have, each with the reason.
    ///
    /// # Errors
    ///
    /// If the pattern is none.
    pub(crate) fn in_trouble(&self, metadata: &Metadata) -> Result<Vec<(String, Code)>> {
        let failed = metadata.topics().iter().filter_map(|topic| {
            let code = topic.error().map(Code::from)?;
            ends_by_itself(code).then(|| (topic.name().to_owned(), code))
        });
        match &self.0 {
            Chosen::Named(names) => Ok(failed.filter(|(name, _)| names.contains(name)).collect()),
            Chosen::Matching(pattern) => {
                let matches = matching(pattern)?;
                Ok(failed.filter(|(name, _)| matches(name)).collect())
            }
        }
    }
}

/// Whether a pattern matches a name.
fn matching(pattern: &str) -> Result<impl Fn(&str) -> bool> {
    let whole = Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
        let what = format!("`{pattern}` is no pattern of topics");
        Error::new(ErrorKind::Config, what).caused_by(error)
    })?;
    Ok(move |name: &str| !name.starts_with("__") && whole.is_match(name))
}

/// Whether a topic with this error may be there. All but these pass, as that it has no leader.
fn ends_by_itself(code: Code) -> bool {
    !matches!(
        code,
        Code::UnknownTopic
            | Code::UnknownTopicOrPartition
            | Code::InvalidTopic
            | Code::TopicAuthorizationFailed
    )
}

impl fmt::Display for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Chosen::Named(names) if names.len() == 1 => write!(f, "topic {}", names[0]),
            Chosen::Named(names) => write!(f, "topics {}", names.join(", ")),
            Chosen::Matching(pattern) => write!(f, "topics /{pattern}/"),
        }
    }
}

impl From<&str> for Topics {
    fn from(name: &str) -> Self {
        Self::from([name])
    }
}

impl From<String> for Topics {
    fn from(name: String) -> Self {
        vec![name].into()
    }
}

impl<const N: usize> From<[&str; N]> for Topics {
    fn from(names: [&str; N]) -> Self {
        names.map(str::to_owned).to_vec().into()
    }
}

impl From<Vec<String>> for Topics {
    fn from(mut names: Vec<String>) -> Self {
        names.sort();
        names.dedup();
        Self(Chosen::Named(names))
    }
}
