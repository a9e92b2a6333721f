//! The engine's part of a command line.
#![expect(clippy::disallowed_methods, reason = "settings are a small file, read before any job")]

use super::application::Attended;
use super::hosts::{self, Lines, announce_waiting};
use super::interrupt;
use crate::config::{
    CONFIG_VARIABLE, Config, Given, HostsFile, Progress, Setting, Settings, read_file,
};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::Environment;
use clap::{Args, Parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The engine's flags, to be flattened into a program's own arguments (the program depends on `clap` with its feature
/// `derive`).
///
/// ```
/// use clap::Parser;
/// use thalweg::cli::EngineArgs;
///
/// /// Counts squares.
/// #[derive(Parser)]
/// struct Args {
///     /// How many to count
///     #[arg(long, default_value_t = 10)]
///     records: u64,
///     #[command(flatten)]
///     engine: EngineArgs,
/// }
///
/// let args = Args::parse_from(["squares", "--cores", "2", "--progress", "never"]);
/// let env = args.engine.environment()?;
/// let out = env.range(0..args.records).map(|n| n * n).count().collect_one();
/// env.run()?;
/// assert_eq!(out.take()?, Some(10));
/// assert_eq!(env.config().cores.get(), 2);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Args, Clone, Debug, Default)]
// Overrides the program's description, which clap would take from the comment of this type.
#[command(next_help_heading = "Engine", about = None::<&str>, long_about = None::<&str>)]
pub struct EngineArgs {
    /// Take settings from this TOML file, whose keys are the names of these flags
    ///
    /// [env: THALWEG_CONFIG] [default: thalweg.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Run on this many cores
    ///
    /// [env: THALWEG_CORES] [default: all that the process may use]
    #[arg(long, value_name = "N", value_parser = allowed("cores"))]
    cores: Option<String>,

    /// Scheduler of the tasks: work-stealing (a thread a core), thread-per-task, or
    /// deterministic[:SEED] (one thread, a repeatable order, for tests)
    ///
    /// [env: THALWEG_SCHEDULER] [default: work-stealing]
    #[arg(long, value_name = "SCHEDULER", value_parser = allowed("scheduler"))]
    scheduler: Option<String>,

    /// When exchanges send what they collect: adaptive[:RECORDS] (when full or out of input),
    /// fixed:RECORDS (when full), timed:RECORDS:DELAY (when full or this old, as in
    /// timed:1024:2ms), or single (every record at once)
    ///
    /// [env: THALWEG_BATCH] [default: adaptive:1024]
    #[arg(long, value_name = "MODE", value_parser = allowed("batch"))]
    batch: Option<String>,

    /// Bytes that tables, sorts and combiners may hold before they spill to disk, as in 512MiB
    ///
    /// [env: THALWEG_MEMORY] [default: half of what the machine or container has]
    #[arg(long, value_name = "BYTES", value_parser = allowed("memory"))]
    memory: Option<String>,

    /// Batches that a task may take before it makes room for others: more for throughput, fewer
    /// for latency
    ///
    /// [env: THALWEG_TURN] [default: 16]
    #[arg(long, value_name = "N", value_parser = allowed("turn"))]
    turn: Option<String>,

    /// Tasks of a keyed stage for each core: more of them even out skewed keys
    ///
    /// [env: THALWEG_KEYED_TASKS] [default: 4]
    #[arg(long, value_name = "N", value_parser = allowed("keyed-tasks"))]
    keyed_tasks: Option<String>,

    /// Tasks of one stage, named as --explain shows it: by an operator's name, by its kind if one
    /// stage alone has it, or by the stage's number; N in all, or N+N+... with one number a host.
    /// May be repeated
    ///
    /// [env: THALWEG_TASKS] [default: what follows from the cores]
    #[arg(long, value_name = "NAME=N", value_parser = allowed("tasks"))]
    tasks: Vec<String>,

    /// Bytes that a sender may have in flight to one receiver
    ///
    /// [env: THALWEG_CREDIT] [default: 256KiB]
    #[arg(long, value_name = "BYTES", value_parser = allowed("credit"))]
    credit: Option<String>,

    /// Where operators write what exceeds their memory
    ///
    /// [env: THALWEG_SPILL_DIR] [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR", value_parser = allowed("spill-dir"))]
    spill_dir: Option<String>,

    /// Where keys and their states are: memory-then-disk, memory (the job fails where they exceed
    /// it), or disk (with a small part in memory)
    ///
    /// [env: THALWEG_STATE_BACKEND] [default: memory-then-disk]
    #[arg(long, value_name = "WHERE", value_parser = allowed("state-backend"))]
    state_backend: Option<String>,

    /// Print the plan of the first job and do not run it: text, dot (for Graphviz), json, or off
    ///
    /// [env: THALWEG_EXPLAIN] [default: off; text when no format is given]
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "text", value_parser = allowed("explain"))]
    explain: Option<String>,

    /// Print to standard error, when a job is over, what each operator did and which one set the
    /// pace: text, json, or off
    ///
    /// [env: THALWEG_STATS] [default: off; text when no format is given]
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "text", value_parser = allowed("stats"))]
    stats: Option<String>,

    /// Show on standard error how far a job is: auto (if that is a terminal and the input ends),
    /// always, or never
    ///
    /// [env: THALWEG_PROGRESS] [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = allowed("progress"))]
    progress: Option<String>,

    /// Warn on standard error when windows that receive records emit no result for this long, as in
    /// 10s, or never; and when a job waits for the program or a task blocks
    ///
    /// [env: THALWEG_STALL_AFTER] [default: 10s]
    #[arg(long, value_name = "SPAN", value_parser = allowed("stall-after"))]
    stall_after: Option<String>,

    /// Save in this directory what jobs remember, and go on from there if the process was interrupted:
    /// run the same command again. With the feature `object-store` also under an address, as in
    /// s3://bucket/prefix
    ///
    /// [env: THALWEG_CHECKPOINT] [default: none]
    #[arg(long, value_name = "DIR", value_parser = allowed("checkpoint"))]
    checkpoint: Option<String>,

    /// Compare the first job with the newest checkpoint in this directory, and do not run it: which states
    /// it would go on with, and which it would miss. The exit status is 1 if it would be refused
    ///
    /// [env: THALWEG_PLAN_AGAINST] [default: none]
    #[arg(long, value_name = "DIR", value_parser = allowed("plan-against"))]
    plan_against: Option<String>,

    /// The time between two checkpoints, as in 1s or 200ms
    ///
    /// [env: THALWEG_CHECKPOINT_INTERVAL] [default: 1s]
    #[arg(long, value_name = "SPAN", value_parser = allowed("checkpoint-interval"))]
    checkpoint_interval: Option<String>,

    /// Let the barrier of a checkpoint overtake records that wait for slow operators after this time, as in
    /// 10s or 0s, or never; the checkpoint then contains these records
    ///
    /// [env: THALWEG_CHECKPOINT_ALIGNMENT_TIMEOUT] [default: never]
    #[arg(long, value_name = "SPAN", value_parser = allowed("checkpoint-alignment-timeout"))]
    checkpoint_alignment_timeout: Option<String>,

    /// Go on from a checkpoint also without the states that no operator of the program has: they are
    /// dropped. Otherwise such a checkpoint is refused
    ///
    /// [env: THALWEG_ALLOW_DROPPED_STATE] [default: false; true when no value is given]
    #[arg(long, value_name = "WHETHER", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = allowed("allow-dropped-state"))]
    allow_dropped_state: Option<String>,

    /// Run on the hosts that this TOML file lists, of which this process is one
    ///
    /// [env: THALWEG_HOSTS] [default: one host, or those of SLURM, MPI or Kubernetes]
    #[arg(long, value_name = "FILE", help_heading = HOSTS, value_parser = allowed("hosts"))]
    hosts: Option<String>,

    /// The number of this host, from 0
    ///
    /// [env: THALWEG_HOST_ID] [default: what SLURM, MPI or Kubernetes says]
    #[arg(long, value_name = "N", help_heading = HOSTS, value_parser = allowed("host-id"))]
    host_id: Option<String>,

    /// Run on this many hosts; 1 also within SLURM or MPI
    ///
    /// [env: THALWEG_HOST_COUNT] [default: what the file of hosts, SLURM or MPI says]
    #[arg(long, value_name = "N", help_heading = HOSTS, value_parser = allowed("host-count"))]
    host_count: Option<String>,

    /// What carries data between hosts: tcp, or mpi (programs with that feature, started by mpirun)
    ///
    /// [env: THALWEG_TRANSPORT] [default: tcp]
    #[arg(long, value_name = "NAME", help_heading = HOSTS, value_parser = allowed("transport"))]
    transport: Option<String>,

    /// Where the first host, number 0, is reached by the others; the same on all of them
    ///
    /// [env: THALWEG_FIRST_HOST] [default: what the file of hosts or SLURM says; port 4711]
    #[arg(long, value_name = "NAME[:PORT]", help_heading = HOSTS, value_parser = allowed("first-host"))]
    first_host: Option<String>,

    /// Where this host accepts connections of the others
    ///
    /// [env: THALWEG_LISTEN] [default: loopback if the first host is there; else at the first
    /// host's address, or at all of this machine's]
    #[arg(long, value_name = "NAME[:PORT]", help_heading = HOSTS, value_parser = allowed("listen"))]
    listen: Option<String>,

    /// The file that contains the secret of the hosts, by which they know each other
    ///
    /// [env: THALWEG_SECRET_FILE] [default: ~/.thalweg/secret, made when it is needed]
    #[arg(long, value_name = "FILE", help_heading = HOSTS, value_parser = allowed("secret-file"))]
    secret_file: Option<String>,

    /// The folder with this host's certificate `tls.crt`, its key `tls.key`, and the CA `ca.crt` of all
    /// hosts, to encrypt connections (TLS)
    ///
    /// [env: THALWEG_TLS_DIR] [default: connections are not encrypted]
    #[arg(long, value_name = "DIR", help_heading = HOSTS, value_parser = allowed("tls-dir"))]
    tls_dir: Option<String>,

    /// How long hosts wait for each other at the start, as in 120s
    ///
    /// [env: THALWEG_CONNECT_TIMEOUT] [default: 60s]
    #[arg(long, value_name = "SPAN", help_heading = HOSTS, value_parser = allowed("connect-timeout"))]
    connect_timeout: Option<String>,

    /// After how long without a sign of life a host is lost, which ends the job on all of them
    ///
    /// [env: THALWEG_LOST_AFTER] [default: 10s]
    #[arg(long, value_name = "SPAN", help_heading = HOSTS, value_parser = allowed("lost-after"))]
    lost_after: Option<String>,

    /// How batches are compressed between hosts, the same on all: none or lz4
    ///
    /// [env: THALWEG_COMPRESSION] [default: none]
    #[arg(long, value_name = "HOW", help_heading = HOSTS, value_parser = allowed("compression"))]
    compression: Option<String>,
}

/// The heading of the flags that say which hosts there are.
const HOSTS: &str = "Hosts";

/// Parses a value that the setting allows; the same rules apply in a file and on a command line.
fn allowed(name: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync {
    move |text| match Setting::named(name) {
        Some(setting) if setting.check(text) => Ok(text.to_owned()),
        Some(setting) => Err(format!("allowed is {}", setting.allowed)),
        None => Err(format!("there is no setting `{name}`")),
    }
}

/// What the process reads beside its command line: variables and files.
struct Outside {
    /// The variables whose values are text.
    variables: Vec<(String, String)>,
    read: fn(&Path) -> std::io::Result<String>,
}

/// The file of settings that is read if no other is named.
const USUAL_FILE: &str = "thalweg.toml";

impl EngineArgs {
    /// An environment with these settings, in application mode (see the [module](super)).
    ///
    /// Its jobs run on several hosts if the settings say so, or the variables of the launcher that has started the
    /// process together with others: SLURM, Open MPI, MPICH, or `thalweg launch`. Then this blocks until all hosts are
    /// connected, as [`Environment::on_hosts`] does. A program makes one such environment at a time, and others from it
    /// by [`Environment::sharing`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`]: a file that cannot be read or is wrong, a variable that is wrong,
    /// with the place, what was found, and what is allowed. On several hosts, as [`Environment::on_hosts`].
    pub fn environment(&self) -> Result<Environment> {
        self.environment_with(|_| {})
    }

    /// Like [`environment`](Self::environment), but the program may change the settings last, for example to fix
    /// those that it compares.
    ///
    /// # Errors
    ///
    /// As [`environment`](Self::environment).
    ///
    /// ```
    /// use thalweg::{cli::EngineArgs, config::BatchMode};
    ///
    /// let env = EngineArgs::default().environment_with(|config| config.batch = BatchMode::Single)?;
    /// assert_eq!(env.config().batch, BatchMode::Single);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn environment_with(&self, change: impl FnOnce(&mut Config)) -> Result<Environment> {
        let outside = Outside::process()?;
        let mut settings = self.settings(&outside)?;
        let file = Self::hosts_file(&settings, &outside)?;
        let hosts = hosts::find(&mut settings, file.as_ref(), &outside.variables)?;
        if let Some(file) = &file {
            settings.config.tasks.fill_from(file.task_counts());
        }
        change(&mut settings.config);
        interrupt::install()?;
        if let Some(host) = &hosts {
            Lines::begin_with(host.id);
            if host.id != 0 {
                hosts::silence_output()?;
                (settings.progress, settings.stats) = (Progress::Never, None);
            }
        }
        let config = settings.config.clone();
        let attended = Attended::new(settings, hosts.as_ref().map(|host| host.count));
        let waiting = hosts.as_ref().map(|host| announce_waiting(host.connect_timeout));
        let waiting = waiting.transpose()?;
        let environment = Environment::for_application(config, hosts.as_ref(), Arc::new(attended));
        drop(waiting);
        environment
    }

    /// The file of hosts, if these settings name one.
    fn hosts_file(settings: &Settings, outside: &Outside) -> Result<Option<HostsFile>> {
        let Some(path) = &settings.hosts.file else { return Ok(None) };
        let text = (outside.read)(path).map_err(|cause| {
            let error = Error::new(ErrorKind::Config, "cannot read the file of hosts");
            error.at(crate::Place::File(path.clone())).caused_by(cause)
        })?;
        HostsFile::parse(path, &text).map(Some)
    }

    /// The settings alone, for a program without application mode, or one that makes an environment by
    /// [`Environment::with_config`] after a change.
    ///
    /// # Errors
    ///
    /// As [`environment`](Self::environment).
    pub fn to_config(&self) -> Result<Config> {
        Ok(self.settings(&Outside::process()?)?.config)
    }

    fn settings(&self, outside: &Outside) -> Result<Settings> {
        let mut settings = Settings::default();
        if let Some((path, text)) = self.file(outside)? {
            read_file(&mut settings, &path, &text)?;
        }
        settings.set_from_variables(outside.variables.iter().cloned())?;
        let tasks = self.tasks.iter().map(|text| ("tasks", Some(text.as_str())));
        for (name, text) in self.given().into_iter().chain(tasks) {
            if let (Some(setting), Some(text)) = (Setting::named(name), text) {
                settings.set(setting, text, Given::Flag)?;
            }
        }
        settings.check()?;
        Ok(settings)
    }

    /// The flags and their values.
    fn given(&self) -> [(&'static str, Option<&str>); 29] {
        [
            ("cores", self.cores.as_deref()),
            ("scheduler", self.scheduler.as_deref()),
            ("batch", self.batch.as_deref()),
            ("memory", self.memory.as_deref()),
            ("turn", self.turn.as_deref()),
            ("keyed-tasks", self.keyed_tasks.as_deref()),
            ("credit", self.credit.as_deref()),
            ("spill-dir", self.spill_dir.as_deref()),
            ("state-backend", self.state_backend.as_deref()),
            ("explain", self.explain.as_deref()),
            ("stats", self.stats.as_deref()),
            ("progress", self.progress.as_deref()),
            ("stall-after", self.stall_after.as_deref()),
            ("checkpoint", self.checkpoint.as_deref()),
            ("plan-against", self.plan_against.as_deref()),
            ("checkpoint-interval", self.checkpoint_interval.as_deref()),
            ("checkpoint-alignment-timeout", self.checkpoint_alignment_timeout.as_deref()),
            ("allow-dropped-state", self.allow_dropped_state.as_deref()),
            ("hosts", self.hosts.as_deref()),
            ("host-id", self.host_id.as_deref()),
            ("host-count", self.host_count.as_deref()),
            ("transport", self.transport.as_deref()),
            ("first-host", self.first_host.as_deref()),
            ("listen", self.listen.as_deref()),
            ("secret-file", self.secret_file.as_deref()),
            ("tls-dir", self.tls_dir.as_deref()),
            ("connect-timeout", self.connect_timeout.as_deref()),
            ("lost-after", self.lost_after.as_deref()),
            ("compression", self.compression.as_deref()),
        ]
    }

    /// The file of settings and its text. A file that was named must exist.
    fn file(&self, outside: &Outside) -> Result<Option<(PathBuf, String)>> {
        let variable = outside.variables.iter().find(|(name, _)| name == CONFIG_VARIABLE);
        let variable = variable.map(|(_, path)| path).filter(|path| !path.is_empty());
        let (path, named_by) = match (&self.config, variable) {
            (Some(path), _) => (path.clone(), Some("--config")),
            (None, Some(path)) => (PathBuf::from(path), Some(CONFIG_VARIABLE)),
            (None, None) => (PathBuf::from(USUAL_FILE), None),
        };
        match (outside.read)(&path) {
            Ok(text) => Ok(Some((path, text))),
            Err(cause) if named_by.is_none() && cause.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(cause) => {
                let named = named_by.map_or_else(String::new, |by| format!(" named by {by}"));
                let what = format!("cannot read the settings{named}");
                let error = Error::new(ErrorKind::Config, what);
                Err(error.at(crate::Place::File(path)).caused_by(cause))
            }
        }
    }
}

impl Outside {
    fn process() -> Result<Self> {
        let text = |value: OsString| value.into_string();
        let mut variables = Vec::new();
        for (name, value) in std::env::vars_os() {
            let Ok(name) = text(name) else { continue };
            match text(value) {
                Ok(value) => variables.push((name, value)),
                Err(value) if Self::is_ours(&name) => {
                    let what = format!("`{name}` cannot be {value:?}: it is not UTF-8");
                    return Err(Error::new(ErrorKind::Config, what));
                }
                Err(_) => {}
            }
        }
        Ok(Self { variables, read: |path| std::fs::read_to_string(path) })
    }

    fn is_ours(name: &str) -> bool {
        let mut known = crate::config::SETTINGS.iter();
        name == CONFIG_VARIABLE || known.any(|setting| setting.variable() == name)
    }
}

/// The first flags to try, shown in the help.
const FIRST_STEPS: &str = "\
To begin with:
  --explain                   what the job does, stage by stage, without running it
  --stats                     how long it took, and which operator sets the pace
  --memory 1GiB --cores 2     leave room for others
  --scheduler deterministic   the same order of everything in each run
Settings come from thalweg.toml, from variables named THALWEG_... and from these flags, each over the one before.";

/// A command line that consists of the engine's flags alone.
#[derive(Parser)]
#[command(disable_version_flag = true, about = None::<&str>, long_about = None::<&str>)]
#[command(after_help = FIRST_STEPS)]
struct Alone {
    #[command(flatten)]
    engine: EngineArgs,
}

impl Environment {
    /// An environment set up by the command line of a program without arguments of its own, in application mode (see
    /// [`cli`](crate::cli)). A program that has arguments flattens [`EngineArgs`] into them.
    ///
    /// `--help` prints the flags, and an unknown flag prints an error; both end the process.
    ///
    /// # Errors
    ///
    /// As [`EngineArgs::environment`].
    ///
    /// ```no_run
    /// let env = thalweg::Environment::from_args()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn from_args() -> Result<Self> {
        Alone::parse().engine.environment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BatchMode, Progress, SETTINGS, Scheduler, StateBackend, StatsFormat};
    use clap::CommandFactory as _;

    fn outside(variables: &[(&str, &str)]) -> Outside {
        let owned = variables.iter().map(|(name, text)| ((*name).into(), (*text).into()));
        let read = |path: &Path| match path.to_str() {
            Some("thalweg.toml") => Ok("cores = 2\nturn = 2\ncredit = 2\n".to_owned()),
            Some("other.toml") => Ok("cores = 5\n".to_owned()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        Outside { variables: owned.collect(), read }
    }

    fn settings(flags: &[&str], variables: &[(&str, &str)]) -> Result<Settings> {
        let line = std::iter::once(&"job").chain(flags);
        Alone::try_parse_from(line).unwrap().engine.settings(&outside(variables))
    }

    #[test]
    fn flags_go_over_variables_over_the_file_over_defaults() {
        let variables =
            [("THALWEG_CORES", "3"), ("THALWEG_TURN", "3"), ("THALWEG_TASKS", "a=1,b=1")];
        let settings = settings(&["--cores", "4", "--tasks", "b=2"], &variables).unwrap();
        let config = &settings.config;
        assert_eq!((config.cores.get(), config.turn.get(), config.credit), (4, 3, 2));
        assert_eq!(config.batch, BatchMode::default());
        assert_eq!(config.tasks.to_string(), "a=1,b=2", "each name by itself");
    }

    #[test]
    fn an_interval_needs_a_directory_of_checkpoints() {
        let (flag, variable) =
            (["--checkpoint-interval", "1s"], [("THALWEG_CHECKPOINT_INTERVAL", "1s")]);
        for (given, name) in [
            (settings(&flag, &[]), "`--checkpoint-interval`"),
            (settings(&[], &variable), "`THALWEG_CHECKPOINT_INTERVAL`"),
        ] {
            let error = given.expect_err("it has no effect");
            assert_eq!(error.kind(), ErrorKind::Config);
            let said = error.to_string();
            assert!(said.starts_with(name) && said.contains("--checkpoint DIR"), "{said}");
        }
        let timeout = settings(&["--checkpoint-alignment-timeout", "0s"], &[]);
        let said = timeout.expect_err("it has no effect either").to_string();
        assert!(said.starts_with("`--checkpoint-alignment-timeout`"), "{said}");
        assert!(settings(&["--checkpoint", "saved"], &variable).is_ok());
        assert!(settings(&flag, &[("THALWEG_CHECKPOINT", "saved")]).is_ok());
    }

    #[test]
    fn the_file_is_named_by_the_flag_then_by_the_variable() {
        let variable = [("THALWEG_CONFIG", "other.toml")];
        assert_eq!(settings(&[], &variable).unwrap().config.cores.get(), 5);
        let flags = ["--config", "thalweg.toml"];
        assert_eq!(settings(&flags, &variable).unwrap().config.cores.get(), 2);
        let error = settings(&["--config", "none.toml"], &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let message = "none.toml: cannot read the settings named by --config: ";
        assert!(error.to_string().starts_with(message), "{error}");
    }

    #[test]
    fn flags_take_what_files_take() {
        let flags = [
            "--scheduler=deterministic:9",
            "--batch",
            "timed:8:1ms",
            "--memory=1GiB",
            "--keyed-tasks=2",
            "--tasks=count=8",
            "--tasks",
            "1=3+1,count=9",
            "--credit=1MiB",
            "--spill-dir=/big",
            "--state-backend=memory",
            "--stats",
            "--progress=always",
            "--allow-dropped-state",
        ];
        let settings = settings(&flags, &[]).unwrap();
        assert!(settings.config.allow_dropped_state);
        assert_eq!(settings.config.scheduler, Scheduler::Deterministic { seed: 9 });
        assert_eq!((settings.config.memory, settings.config.credit), (1 << 30, 1 << 20));
        assert_eq!(settings.config.keyed_tasks_per_core.get(), 2);
        assert_eq!(settings.config.tasks.to_string(), "1=3+1,count=9");
        assert_eq!(settings.config.spill_dir, Path::new("/big"));
        assert_eq!(settings.config.state_backend, StateBackend::Memory);
        assert_eq!((settings.stats, settings.explain), (Some(StatsFormat::Text), None));
        assert_eq!(settings.progress, Progress::Always);
    }

    #[test]
    fn a_wrong_flag_is_told_with_its_value_and_what_is_allowed() {
        for (flags, message) in [
            (&["--cores", "all"][..], "invalid value 'all' for '--cores <N>': allowed is a whole"),
            (&["--stats=xml"], "for '--stats[=<FORMAT>]': allowed is text, json, or off"),
            (&["--core", "2"], "a similar argument exists: '--cores'"),
        ] {
            let error = Alone::try_parse_from(std::iter::once(&"job").chain(flags)).err().unwrap();
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    /// Counts squares.
    #[derive(Parser)]
    struct Described {
        #[command(flatten)]
        _engine: EngineArgs,
    }

    #[derive(Parser)]
    struct Bare {
        #[command(flatten)]
        _engine: EngineArgs,
    }

    #[test]
    fn a_program_is_described_by_its_own_words_alone() {
        let helps = |mut command: clap::Command| {
            [command.render_help().to_string(), command.render_long_help().to_string()]
        };
        for help in helps(Described::command()) {
            assert!(help.starts_with("Counts squares\n\nUsage:"), "{help}");
        }
        for help in [helps(Bare::command()), helps(Alone::command())].concat() {
            assert!(help.starts_with("Usage:"), "{help}");
        }
    }

    #[test]
    fn help_names_flags_that_there_are() {
        let flags = FIRST_STEPS.lines().filter_map(|line| line.strip_prefix("  --"));
        for flag in flags {
            let words = format!("--{flag}");
            let words = words.split("  ").next().unwrap_or_default().split_whitespace();
            let parsed = Alone::try_parse_from(std::iter::once("job").chain(words));
            assert!(parsed.is_ok(), "{flag}");
        }
        // The short help has a line or two a flag, the long one how else each is set.
        let [short, long] = [Alone::command().render_help(), Alone::command().render_long_help()];
        assert!(!short.to_string().contains("[env: "), "{short}");
        assert!(long.to_string().contains("[env: "), "{long}");
        for help in [short, long] {
            assert!(help.to_string().contains(FIRST_STEPS), "{help}");
        }
    }

    #[test]
    fn help_teaches_every_setting() {
        let help = Alone::command().render_long_help().to_string();
        assert!(help.contains("\nEngine:\n"), "{help}");
        for setting in SETTINGS {
            assert!(help.contains(&format!("--{}", setting.name)), "{}: {help}", setting.name);
            let variable = format!("[env: {}] [default: ", setting.variable());
            let one_line = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(one_line.contains(&variable), "{variable}: {help}");
        }
    }
}
