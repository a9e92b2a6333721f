//! The numbers of tasks of single stages, and their form as text.

use super::NotAllowed;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// The allowed forms, for messages.
pub(super) const TASKS: &str = "NAME=N, or N+N+... for one number a host, as in count=8 or count=6+2, \
                                and several of them with commas between them";

/// The numbers of tasks of single stages, where they are to be others than the engine chooses: the setting `tasks`.
///
/// A stage is identified by one of its operators, as [`Plan`](crate::plan::Plan) shows them: by the name that the program
/// gave it with [`name`](crate::Stream::name), by its kind if only one stage has an operator of that kind, or by the
/// number of the stage. Names given by the program are stable; numbers and kinds may change with the program. Stages that
/// are joined by `forward` exchanges get the number together.
///
/// When a job starts, it is refused with an error of kind [`Config`](crate::ErrorKind::Config) that names the stages there
/// are, if a name fits none of its stages or several, and if an operator of the stage needs the number of tasks that it
/// has, as after [`parallelism(1)`](crate::Stream::parallelism). For programs with several jobs a question mark behind the
/// name, as in `count?`, leaves jobs that have no such stage as they are. No number changes a result, but that of
/// operators with a state for each task, such as [`scan`](crate::Stream::scan), whose stage has several.
///
/// As text, on a command line or in a variable, `count=8,1=3` sets two stages.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::config::Config;
///
/// let mut config = Config::default();
/// config.tasks.set("squares", 3);
/// let env = Environment::with_config(config);
/// let squares = env.range(0..100).shuffle().map(|n| n * n).name("squares").sum(|n| *n).collect_one();
/// assert_eq!(env.plan().stages[1].tasks, 3);
/// env.run()?;
/// assert_eq!(squares.take()?, Some(328_350));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    counts: BTreeMap<String, TaskCount>,
    /// The seed from which the numbers of all other stages are drawn, for tests of jobs.
    seed: Option<u64>,
}

/// The number of tasks of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskCount {
    /// On all hosts together, in proportion to their cores.
    InAll(usize),
    /// On each host by its number; `None` for as many as without the setting.
    OnHosts(Vec<Option<usize>>),
}

impl TaskCounts {
    /// Sets the number of tasks of a stage on all hosts together, at least 1. It replaces an earlier setting of the same
    /// name. The tasks are spread over the hosts in proportion to their cores.
    pub fn set(&mut self, stage: impl Into<String>, tasks: usize) {
        self.counts.insert(stage.into(), TaskCount::InAll(tasks));
    }

    /// Sets the number of tasks of a stage on each host, in the order of their numbers. It replaces an earlier setting of
    /// the same name. A host may have none, except for the first, which has the first task of every stage; `None` stands
    /// for as many as the host has without the setting.
    ///
    /// ```
    /// use thalweg::config::TaskCounts;
    ///
    /// let mut counts = TaskCounts::default();
    /// counts.set_on_hosts("count", [Some(6), Some(2), None]);
    /// assert_eq!(counts.to_string(), "count=6+2+_");
    /// assert_eq!("count=6+2+_".parse(), Ok(counts));
    /// ```
    pub fn set_on_hosts(
        &mut self,
        stage: impl Into<String>,
        tasks: impl IntoIterator<Item = Option<usize>>,
    ) {
        let tasks = tasks.into_iter().collect();
        self.counts.insert(stage.into(), TaskCount::OnHosts(tasks));
    }

    /// Whether no stage is set.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.seed.is_none()
    }

    /// Draws the numbers of all stages.
    pub(crate) fn drawn_from(seed: u64) -> Self {
        Self { counts: BTreeMap::new(), seed: Some(seed) }
    }

    pub(crate) fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// The names and what they are set to, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &TaskCount)> {
        self.counts.iter().map(|(name, count)| (name.as_str(), count))
    }

    /// Sets what a stage is to have.
    #[cfg(feature = "cli")]
    pub(super) fn insert(&mut self, stage: &str, count: TaskCount) {
        self.counts.insert(stage.to_owned(), count);
    }

    /// Sets what others set and is not set here.
    #[cfg(feature = "cli")]
    pub(crate) fn fill_from(&mut self, mut others: Self) {
        others.counts.append(&mut self.counts);
        *self = others;
    }

    /// Sets what others set, over what is set.
    #[cfg(feature = "cli")]
    pub(crate) fn set_all(&mut self, others: Self) {
        self.counts.extend(others.counts);
    }
}

/// The text that [`FromStr`] reads.
impl fmt::Display for TaskCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, count)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}={count}")?;
        }
        Ok(())
    }
}

impl fmt::Display for TaskCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InAll(tasks) => tasks.fmt(f),
            Self::OnHosts(hosts) => {
                let shown = |tasks: &Option<usize>| tasks.map_or("_".to_owned(), |n| n.to_string());
                f.write_str(&hosts.iter().map(shown).collect::<Vec<_>>().join("+"))
            }
        }
    }
}

/// `NAME=N` or `NAME=N+N+…`, separated by commas; of the same name, the last counts. `_` in place of a number stands for as
/// many tasks as the host has without the setting. Names may contain commas and `=`.
///
/// ```
/// use thalweg::config::TaskCounts;
///
/// let counts: TaskCounts = "count=8,1=3+0".parse()?;
/// assert_eq!(counts.to_string(), "1=3+0,count=8");
/// assert!("count=0".parse::<TaskCounts>().is_err());
/// # Ok::<(), thalweg::config::NotAllowed>(())
/// ```
impl FromStr for TaskCounts {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Self, NotAllowed> {
        let mut counts = Self::default();
        let mut pending = String::new();
        for piece in text.split(',') {
            pending.push_str(piece);
            let set = pending.rsplit_once('=').and_then(|(name, count)| {
                let name = name.trim();
                Some((name.to_owned(), TaskCount::read(count.trim())?)).filter(|_| !name.is_empty())
            });
            match set {
                Some((name, count)) => {
                    counts.counts.insert(name, count);
                    pending.clear();
                }
                // The comma belongs to a name.
                None => pending.push(','),
            }
        }
        if pending.is_empty() { Ok(counts) } else { Err(NotAllowed(TASKS)) }
    }
}

impl TaskCount {
    /// The number that this text is, or the numbers for the hosts.
    pub(super) fn read(text: &str) -> Option<Self> {
        if let Ok(tasks) = text.parse::<NonZeroUsize>() {
            return Some(Self::InAll(tasks.get()));
        }
        let hosts: Option<Vec<_>> = text
            .split('+')
            .map(|host| match host.trim() {
                "_" => Some(None),
                number => number.parse().ok().map(Some),
            })
            .collect();
        hosts.filter(|hosts| hosts.len() > 1).map(Self::OnHosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        text.parse::<TaskCounts>().ok().map(|counts| counts.to_string())
    }

    #[test]
    fn counts_are_read_and_written_alike() {
        for text in ["a=1", "a=1,b=2", "a=1+0,b?=2", "a=_+4", "a,b=3", "a=b=3", "x y=2"] {
            assert_eq!(read(text).as_deref(), Some(text));
        }
        assert_eq!(read("b=2, a = 1").as_deref(), Some("a=1,b=2"));
        assert_eq!(read("a=1,a=2").as_deref(), Some("a=2"), "the last counts");
    }

    #[test]
    fn other_texts_are_not_allowed() {
        for text in ["", "a", "a=", "=3", "a=0", "a=-1", "a=x", "a=1+", "a=1,b", "a=1,", "a=_"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
