//! Configuration: all settings that do not change what jobs compute.
//!
//! A [`Config`] is a plain value, made in code. Settings in a file, a variable or on a command line become one
//! through `text`, which parses values, and `settings`, which knows every setting by name. Both are pure: they open
//! no file and read no environment variable. The defaults come from `machine`.

#[cfg(feature = "cli")]
mod file;
mod hosts;
#[cfg(feature = "cli")]
mod hosts_file;
mod machine;
#[cfg(feature = "cli")]
mod settings;
mod small_file;
mod tasks;
mod text;
mod tls;

#[cfg(feature = "cli")]
pub(crate) use file::read_file;
pub use hosts::{Compression, HostConfig, Secret, Transport};
#[cfg(feature = "cli")]
pub(crate) use hosts_file::split_port;
#[cfg(feature = "cli")]
pub use hosts_file::{HostsFile, ListedHost};
#[cfg(feature = "cli")]
pub(crate) use settings::{
    CONFIG_VARIABLE, Format, Given, HostSettings, Progress, SETTINGS, Setting, Settings,
    StatsFormat,
};
#[cfg(feature = "cli")]
pub(crate) use small_file::{read_secret, refused};
pub(crate) use tasks::TaskCount;
pub use tasks::TaskCounts;
pub use text::NotAllowed;
#[cfg(feature = "tls")]
pub(crate) use tls::Pem;
pub use tls::Tls;

use crate::sync::release;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// Settings of an environment.
///
/// Made in code, or, with the feature `cli`, read by `Environment::from_args` from a file, from
/// variables and from the command line. None of them changes a job's result.
///
/// ```
/// use thalweg::config::{Config, Scheduler};
///
/// let mut config = Config::default();
/// config.scheduler = Scheduler::Deterministic { seed: 7 };
/// assert!(config.cores.get() >= 1);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Threads of the work-stealing scheduler, and the number of tasks of a stage without keys. By default the number
    /// of cores that this process may use: its affinity and, in a container, the quota of processor time count.
    pub cores: NonZeroUsize,
    /// The scheduler of the tasks.
    pub scheduler: Scheduler,
    /// When exchanges send the records they have collected.
    pub batch: BatchMode,
    /// Batches that a task may process in one turn: the throughput setting of the Arcon thesis. More batches favour
    /// throughput, fewer favour latency and fairness.
    pub turn: NonZeroUsize,
    /// Tasks of a keyed stage for each core. More than one lets idle cores take over from busy
    /// ones when keys are skewed.
    pub keyed_tasks_per_core: NonZeroUsize,
    /// The numbers of tasks of single stages, where they are to be others than follow from the cores. None are set by
    /// default. All hosts must have the same.
    pub tasks: TaskCounts,
    /// Bytes that a sender may have in flight to one receiver on the same host, and twice as many to one on another host. A job
    /// uses less where the lanes of a host would take more than a quarter of the [`memory`](Self::memory).
    pub credit: usize,
    /// Whether every batch that goes from task to task is encoded and decoded on the way, as it would be between
    /// hosts. It is expensive, and serves only to test that a job's records survive it; [`check`](crate::check) has
    /// runs with it. Off by default.
    pub encode_exchanges: bool,
    /// Bytes that the tables, sorts and combiners of all jobs may hold before they spill to disk, together with the batches
    /// between tasks. By default half of
    /// the memory that this process may use: the machine's, or the limit of its container (control group) if that is
    /// less; 1 GiB if neither is known, as on systems other than Linux.
    pub memory: usize,
    /// The directory for spill files. By default the system's temporary directory.
    pub spill_dir: PathBuf,
    /// Where keys and their states are: by default in memory, and on disk what exceeds it.
    pub state_backend: StateBackend,
    /// How long windows may receive records without emitting a result before a warning says what holds event time
    /// back; `None` disables the warning. By default ten seconds. The same limit applies to a job that waits for the
    /// program, that is for the reader of [`to_channel`](crate::Stream::to_channel) or a sender of
    /// [`channel`](crate::Environment::channel), and to a single turn of a task, since an iterator or a closure may
    /// block; while such a turn lasts, nothing else of the job is reported.
    ///
    /// The warning is an event of the facade `log`, under the target `thalweg::stalls`; an application (module `cli`)
    /// prints it too. Without an application, only unbounded jobs and those with a `to_channel` are watched, and
    /// only where a logger is enabled for that target when the job starts.
    pub stall_after: Option<Duration>,
    /// Where jobs save what they remember, so that the same program goes on from there when it is run again after its
    /// process or its machine has died; `None`, the default, for jobs that begin anew.
    pub checkpoints: Option<CheckpointConfig>,
    /// Whether a job may go on from a checkpoint with states that no operator of the program has, as one that was removed: they
    /// are dropped, with a warning that names each. By default such a checkpoint is refused, since what an operator was to
    /// remember is lost where its name has changed. States that the checkpoint lacks, or has otherwise, are refused in any case.
    ///
    /// Operators without a name are found by what is before and behind them, and those that are alike in that by their number among
    /// those of their kind. So nothing is dropped where one of these is left with a state like the one that no operator takes: which
    /// of them was removed is not known. Give names
    /// ([`Stream::name`](crate::Stream::name)) before checkpoints are taken, and look at a comparison first
    /// ([`Environment::compare_with`](crate::Environment::compare_with)). Of a sink, the records that it has not published are lost.
    pub allow_dropped_state: bool,
}

/// Where the checkpoints of a program's jobs are, and how often there is one.
///
/// A checkpoint has what all operators remember at one point of the input: how far sources have read, the states of keys,
/// what sinks have written. A program that is run again with the same directory begins with the newest: each record
/// counts once in the states and in the files that the job writes. What a program does itself, as in
/// [`for_each`](crate::Stream::for_each) or in [calls](crate::operators::calls), it does again for the records since the checkpoint. The checkpoints of a job that
/// has ended well are removed. The number of cores may be another.
///
/// A job is refused by the name of the operator if it has one whose state cannot be saved yet, and so is a checkpoint that
/// is of another program (but see [`Config::allow_dropped_state`]).
///
/// ```
/// use thalweg::Environment;
/// use thalweg::config::{CheckpointConfig, Config};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let folder = dir.path();
/// let mut config = Config::default();
/// config.checkpoints = Some(CheckpointConfig::new(folder.join("checkpoints")));
/// let env = Environment::with_config(config);
/// let odd = env.range(0..1_000_000).filter(|n| n % 2 == 1);
/// odd.group_by(|n| n % 7).count().unkey().map(|pair| format!("{pair:?}")).write_lines(folder.join("odd.txt"));
/// env.run()?;
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointConfig {
    /// The directory, which is that of one job. It is made if it is not there.
    ///
    /// With the feature `object-store`, it may be the address of a prefix in an object store: `s3://bucket/prefix`,
    /// `gs://bucket/prefix` or `az://container/prefix`. Settings and keys are read from the environment, as in `AWS_REGION`,
    /// `AWS_ENDPOINT`, `GOOGLE_SERVICE_ACCOUNT` and `AZURE_STORAGE_ACCOUNT_NAME`. The store must put an object only if there is none
    /// of its name when it is asked to (`If-None-Match: *`). What operators have on disk is fetched into
    /// [`Config::spill_dir`] when a job goes on.
    pub dir: PathBuf,
    /// The time between two checkpoints, from the end of one to the beginning of the next. By default a second.
    pub interval: Duration,
    /// The time after which the barrier of a checkpoint overtakes batches that wait to be processed; these are then saved with
    /// the checkpoint. With zero it overtakes at once. By default it does not, and a checkpoint takes as long as the slowest
    /// operator needs to process all batches in front of the barrier.
    ///
    /// A program that goes on from such a checkpoint needs the same exchanges. The checkpoint is larger by the batches in
    /// flight. Barriers of savepoints overtake nothing, nor do others in event time, in loops, at operators with two inputs,
    /// behind `broadcast`, `forward` and `repartition_by`, where a graph partitions blocks of rows by key, or on the way to
    /// `aligned` watermarks.
    pub alignment_timeout: Option<Duration>,
}

impl CheckpointConfig {
    /// A checkpoint each second, in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), interval: Duration::from_secs(1), alignment_timeout: None }
    }
}

/// How the tasks of a job are scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheduler {
    /// A thread a core; each thread has a queue of tasks and steals from the others when its queue is empty. The
    /// default.
    #[default]
    WorkStealing,
    /// A thread a task: the classic model, for comparison.
    ThreadPerTask,
    /// One thread that picks the next task by a seeded generator, under a clock that advances only when no task can
    /// run: for repeatable tests.
    Deterministic {
        /// The seed of the generator that orders the tasks.
        seed: u64,
    },
}

/// Where keys and their states are: those of aggregates, folds and [`stateful_map`](crate::KeyedStream::stateful_map) by key,
/// of [`unique`](crate::Stream::unique), windows, sessions, [`process`](crate::KeyedStream::process), joins by time,
/// [`symmetric`](crate::operators::join::JoinWith::symmetric) joins and the solution of
/// [`delta_iterate`](crate::KeyedStream::delta_iterate).
///
/// Results are the same with each backend. Other data, such as records to be sorted, the tables of other joins, and caches, go
/// to disk with each backend when memory is short.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::config::{Config, StateBackend};
///
/// let mut config = Config::default();
/// config.state_backend = StateBackend::Disk;
/// let env = Environment::with_config(config);
/// let counts = env.iter(["a", "b", "a"]).map(str::to_owned).group_by(|name| name.clone()).count();
/// let out = counts.collect::<std::collections::BTreeMap<_, _>>();
/// env.run()?;
/// assert_eq!(out.take()?["a"], 2);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateBackend {
    /// In memory, and on disk what exceeds the [budget](Config::memory). The default.
    #[default]
    MemoryThenDisk,
    /// In memory alone: where keys exceed the budget, the job fails with [`ErrorKind::Memory`](crate::ErrorKind::Memory). For
    /// jobs that are useless at the speed of a disk. A job that goes on from a checkpoint with keys on disk takes them into
    /// memory if they are those of sessions, `process`, joins by time, symmetric joins, `delta_iterate`, or a stream without an
    /// end; it is refused if there are others.
    Memory,
    /// On disk, with a part in memory: up to a sixteenth of the budget for all tasks of an operator together, at least 64 KiB
    /// for each of them, and more where a single state is larger. The rest of the budget is left to other operators. Windows
    /// of which more than 1,024 overlap stay in memory.
    Disk,
}

/// When an exchange sends a batch that it is filling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BatchMode {
    /// When it is full, and at once when the task runs out of input. Full batches under load,
    /// immediate delivery when idle. The default.
    Adaptive {
        /// The records of a full batch: see [`size`](Self::size).
        size: usize,
    },
    /// Only when it is full, and at the end of the stream.
    Fixed {
        /// The records of a full batch: see [`size`](Self::size).
        size: usize,
    },
    /// When it is full, or when its first record has waited this long.
    Timed {
        /// The records of a full batch: see [`size`](Self::size).
        size: usize,
        /// How long a record may wait.
        delay: Duration,
    },
    /// After every record: the least latency for a single record, at a high cost a record.
    Single,
}

/// The most records of a batch. Another host decodes at most as many that have no bytes, such as `()`.
pub(crate) const LARGEST_BATCH: usize = 1 << 16;

impl BatchMode {
    /// The records of a full batch: from 1 to 65,536, the most that another host accepts in one; values beyond
    /// that count as the nearest.
    pub fn size(self) -> usize {
        match self {
            Self::Adaptive { size } | Self::Fixed { size } | Self::Timed { size, .. } => {
                size.clamp(1, LARGEST_BATCH)
            }
            Self::Single => 1,
        }
    }
}

impl Default for BatchMode {
    fn default() -> Self {
        Self::Adaptive { size: 1024 }
    }
}

impl Default for Config {
    fn default() -> Self {
        // An environment may be made in a closure, on a thread that is pinned to a core.
        release();
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            cores,
            scheduler: Scheduler::default(),
            batch: BatchMode::default(),
            turn: NonZeroUsize::MIN.saturating_add(15),
            keyed_tasks_per_core: NonZeroUsize::MIN.saturating_add(3),
            tasks: TaskCounts::default(),
            credit: 256 << 10,
            encode_exchanges: false,
            memory: default_memory(),
            spill_dir: std::env::temp_dir(),
            state_backend: StateBackend::default(),
            stall_after: Some(Duration::from_secs(10)),
            checkpoints: None,
            allow_dropped_state: false,
        }
    }
}

/// Half of the memory that this process may use, or 1 GiB if that is not known. Found once, as it is read from files.
fn default_memory() -> usize {
    static HALF: LazyLock<Option<u64>> = LazyLock::new(|| Some(machine::memory()? / 2));
    HALF.map_or(1 << 30, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}
