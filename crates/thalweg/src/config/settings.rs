//! The settings that can be set from outside the program, by name.
//!
//! A setting has one name, in kebab case: its key in a file and its flag. In capitals, with underscores and the
//! prefix `THALWEG_`, it is the setting's variable. The defaults, the file, the variables and the flags are applied
//! in this order, each over the ones before.

use super::tasks::TASKS;
use super::text::{BATCH, BYTES, COMPRESSION, SCHEDULER, STATE_BACKEND, WHOLE, bytes, span, whole};
use super::{
    BatchMode, CheckpointConfig, Compression, Config, Scheduler, StateBackend, TaskCounts,
    Transport,
};
use crate::error::{Error, ErrorKind, Place, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration of a job, and what is shown of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// Show the plan instead of running the job.
    pub(crate) explain: Option<Format>,
    /// Compare the job with the newest checkpoint in this directory instead of running it.
    pub(crate) plan_against: Option<PathBuf>,
    /// Show the statistics when a job is over.
    pub(crate) stats: Option<StatsFormat>,
    pub(crate) progress: Progress,
    pub(crate) hosts: HostSettings,
    /// Whether the number of cores was set; otherwise what starts the process may determine it.
    pub(crate) cores_are_set: bool,
    /// The same of the memory.
    pub(crate) memory_is_set: bool,
    /// The time between checkpoints, if it was set.
    checkpoint_interval: Option<Duration>,
    /// The time after which barriers overtake batches, if it was set.
    alignment_timeout: Option<Duration>,
    /// The last setting that has no effect without a directory for checkpoints, and where it was set.
    needs_checkpoints: Option<(String, Option<Place>)>,
}

/// What is set of the hosts of the program's jobs; a launcher's variables may say the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostSettings {
    /// The file that lists the hosts.
    pub(crate) file: Option<PathBuf>,
    pub(crate) id: Option<usize>,
    pub(crate) count: Option<usize>,
    pub(crate) transport: Transport,
    /// The first host, as `name` or `name:port`.
    pub(crate) first: Option<String>,
    pub(crate) listen: Option<String>,
    pub(crate) secret_file: Option<PathBuf>,
    /// The folder of the certificates.
    pub(crate) tls_dir: Option<PathBuf>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) lost_after: Option<Duration>,
    pub(crate) compression: Option<Compression>,
}

/// How a plan is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Dot,
    Json,
}

/// How statistics are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsFormat {
    Text,
    Json,
}

/// When the progress of a job is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    #[default]
    Auto,
    Always,
    Never,
}

/// One setting.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// The allowed values, as text.
    pub(crate) allowed: &'static str,
    /// Applies a text, or returns `None` if it is not allowed.
    set: fn(&mut Settings, &str) -> Option<()>,
}

/// Where a text was set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    File(&'a Path, u64),
    Variable,
    Flag,
}

/// All settings, in the order in which help and messages list them.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "cores",
        allowed: WHOLE,
        set: |to, text| {
            to.config.cores = whole(text)?;
            to.cores_are_set = true;
            Some(())
        },
    },
    Setting {
        name: "scheduler",
        allowed: SCHEDULER,
        set: |to, text| text.parse::<Scheduler>().ok().map(|s| to.config.scheduler = s),
    },
    Setting {
        name: "batch",
        allowed: BATCH,
        set: |to, text| text.parse::<BatchMode>().ok().map(|mode| to.config.batch = mode),
    },
    Setting {
        name: "memory",
        allowed: BYTES,
        set: |to, text| {
            to.config.memory = bytes(text)?;
            to.memory_is_set = true;
            Some(())
        },
    },
    Setting {
        name: "turn",
        allowed: WHOLE,
        set: |to, text| whole(text).map(|n| to.config.turn = n),
    },
    Setting {
        name: "keyed-tasks",
        allowed: WHOLE,
        set: |to, text| whole(text).map(|n| to.config.keyed_tasks_per_core = n),
    },
    Setting {
        name: "tasks",
        allowed: TASKS,
        set: |to, text| text.parse::<TaskCounts>().ok().map(|set| to.config.tasks.set_all(set)),
    },
    Setting {
        name: "credit",
        allowed: BYTES,
        set: |to, text| bytes(text).map(|n| to.config.credit = n),
    },
    Setting {
        name: "spill-dir",
        allowed: "the path of a folder",
        set: |to, text| (!text.is_empty()).then(|| to.config.spill_dir = text.into()),
    },
    Setting {
        name: "state-backend",
        allowed: STATE_BACKEND,
        set: |to, text| text.parse::<StateBackend>().ok().map(|set| to.config.state_backend = set),
    },
    Setting {
        name: "explain",
        allowed: "text, dot, json, or off",
        set: |to, text| {
            to.explain = match text {
                "text" | "true" => Some(Format::Text),
                "dot" => Some(Format::Dot),
                "json" => Some(Format::Json),
                "off" | "false" => None,
                _ => return None,
            };
            Some(())
        },
    },
    Setting {
        name: "stats",
        allowed: "text, json, or off",
        set: |to, text| {
            to.stats = match text {
                "text" | "true" => Some(StatsFormat::Text),
                "json" => Some(StatsFormat::Json),
                "off" | "false" => None,
                _ => return None,
            };
            Some(())
        },
    },
    Setting {
        name: "progress",
        allowed: "auto, always, or never",
        set: |to, text| {
            to.progress = match text {
                "auto" => Progress::Auto,
                "always" | "true" => Progress::Always,
                "never" | "false" => Progress::Never,
                _ => return None,
            };
            Some(())
        },
    },
    Setting {
        name: "stall-after",
        allowed: "a span of time above 0, as in 10s or 500ms, or never",
        set: |to, text| {
            let span = match text {
                "never" | "false" => None,
                _ => Some(positive(text)?),
            };
            to.config.stall_after = span;
            Some(())
        },
    },
    Setting {
        name: "checkpoint",
        allowed: "the path of a directory, or the address of an object store",
        set: |to, text| {
            let mut checkpoints = CheckpointConfig::new((!text.is_empty()).then_some(text)?);
            checkpoints.interval = to.checkpoint_interval.unwrap_or(checkpoints.interval);
            checkpoints.alignment_timeout = to.alignment_timeout;
            to.config.checkpoints = Some(checkpoints);
            Some(())
        },
    },
    Setting {
        name: "plan-against",
        allowed: "the path of a directory, or the address of an object store",
        set: |to, text| {
            to.plan_against = Some((!text.is_empty()).then(|| text.into())?);
            Some(())
        },
    },
    Setting {
        name: INTERVAL,
        allowed: "a span of time above 0, as in 1s or 200ms",
        set: |to, text| {
            let interval = positive(text)?;
            to.checkpoint_interval = Some(interval);
            if let Some(checkpoints) = &mut to.config.checkpoints {
                checkpoints.interval = interval;
            }
            Some(())
        },
    },
    Setting {
        name: ALIGNMENT_TIMEOUT,
        allowed: "a span of time, as in 10s or 0s, or never",
        set: |to, text| {
            let timeout = match text {
                "never" | "false" => None,
                _ => Some(span(text)?),
            };
            to.alignment_timeout = timeout;
            if let Some(checkpoints) = &mut to.config.checkpoints {
                checkpoints.alignment_timeout = timeout;
            }
            Some(())
        },
    },
    Setting {
        name: "allow-dropped-state",
        allowed: "true or false",
        set: |to, text| text.parse().ok().map(|may| to.config.allow_dropped_state = may),
    },
    Setting {
        name: "hosts",
        allowed: "the path of a file",
        set: |to, text| (!text.is_empty()).then(|| to.hosts.file = Some(text.into())),
    },
    Setting {
        name: "host-id",
        allowed: "a whole number from 0",
        set: |to, text| text.parse().ok().map(|id| to.hosts.id = Some(id)),
    },
    Setting {
        name: "host-count",
        allowed: WHOLE,
        set: |to, text| whole(text).map(|count| to.hosts.count = Some(count.get())),
    },
    Setting {
        name: "transport",
        allowed: "tcp or mpi",
        set: |to, text| {
            to.hosts.transport = match text {
                "tcp" => Transport::Tcp,
                "mpi" => Transport::Mpi,
                _ => return None,
            };
            Some(())
        },
    },
    Setting {
        name: "first-host",
        allowed: "a name or an IP address, and a port if it is not the usual one, as in node1:4711",
        set: |to, text| (!text.is_empty()).then(|| to.hosts.first = Some(text.to_owned())),
    },
    Setting {
        name: "listen",
        allowed: "a name or an IP address, and a port, as in 0.0.0.0:4711",
        set: |to, text| (!text.is_empty()).then(|| to.hosts.listen = Some(text.to_owned())),
    },
    Setting {
        name: "secret-file",
        allowed: "the path of a file",
        set: |to, text| (!text.is_empty()).then(|| to.hosts.secret_file = Some(text.into())),
    },
    Setting {
        name: "tls-dir",
        allowed: "the path of a folder",
        set: |to, text| (!text.is_empty()).then(|| to.hosts.tls_dir = Some(text.into())),
    },
    Setting {
        name: "connect-timeout",
        allowed: SPAN,
        set: |to, text| positive(text).map(|span| to.hosts.connect_timeout = Some(span)),
    },
    Setting {
        name: "lost-after",
        allowed: SPAN,
        set: |to, text| positive(text).map(|span| to.hosts.lost_after = Some(span)),
    },
    Setting {
        name: "compression",
        allowed: COMPRESSION,
        set: |to, text| text.parse().ok().map(|how| to.hosts.compression = Some(how)),
    },
];

/// The settings that need another one.
const INTERVAL: &str = "checkpoint-interval";
const ALIGNMENT_TIMEOUT: &str = "checkpoint-alignment-timeout";

/// What [`positive`] takes.
const SPAN: &str = "a span of time above 0, as in 10s or 500ms";

fn positive(text: &str) -> Option<Duration> {
    span(text).filter(|span| !span.is_zero())
}

/// The prefix of all variables.
const PREFIX: &str = "THALWEG_";

/// The variable that names the file of settings; it is no setting itself.
pub(crate) const CONFIG_VARIABLE: &str = "THALWEG_CONFIG";

impl Setting {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    pub(crate) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.replace('-', "_").to_uppercase())
    }

    /// The error message for a text that is not allowed.
    pub(super) fn refusal(&self, name: &str, text: &str) -> String {
        format!("`{name}` cannot be `{text}`: allowed is {}", self.allowed)
    }

    /// Whether connections would not be protected without it: an empty variable is a mistake then, as of a script in which
    /// another one is not set.
    fn protects(&self) -> bool {
        self.name == "tls-dir"
    }

    /// Whether this text is allowed.
    pub(crate) fn check(&self, text: &str) -> bool {
        (self.set)(&mut Settings::default(), text).is_some()
    }
}

impl Settings {
    /// Applies one setting, replacing its earlier value; of `tasks`, that of the same stages.
    pub(crate) fn set(&mut self, setting: &Setting, text: &str, given: Given<'_>) -> Result<()> {
        if [INTERVAL, ALIGNMENT_TIMEOUT].contains(&setting.name) {
            self.needs_checkpoints = Some((given.name_of(setting), given.place()));
        }
        (setting.set)(self, text)
            .ok_or_else(|| given.error(setting.refusal(&given.name_of(setting), text)))
    }

    /// Checks that no setting lacks another one, when all are applied.
    ///
    /// # Errors
    ///
    /// The setting that has no effect.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.needs_checkpoints {
            Some((name, place)) if self.config.checkpoints.is_none() => {
                let what = format!(
                    "`{name}` has no effect without a directory for checkpoints: set `--checkpoint DIR` (or \
                     `THALWEG_CHECKPOINT`, or `checkpoint` in the file of settings) too"
                );
                let error = Error::new(ErrorKind::Config, what);
                Err(place.iter().cloned().fold(error, Error::at))
            }
            _ => Ok(()),
        }
    }

    /// Applies the variables of a process. Empty ones count as not set, but for [those](Setting::protects) that protect
    /// something. An unknown one is an error if it looks like a
    /// misspelt setting; otherwise it belongs to another program.
    pub(crate) fn set_from_variables(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<()> {
        let known: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
        for (name, text) in variables {
            if !name.starts_with(PREFIX) || name == CONFIG_VARIABLE {
                continue;
            }
            let at = known.iter().position(|known| *known == name);
            let setting = at.and_then(|at| SETTINGS.get(at));
            if text.is_empty() && !setting.is_some_and(Setting::protects) {
                continue;
            }
            if let Some(setting) = setting {
                self.set(setting, &text, Given::Variable)?;
                continue;
            }
            let all = known.iter().map(String::as_str).chain([CONFIG_VARIABLE]);
            if let Some(meant) = most_like(&name, all) {
                let what = format!("unknown variable `{name}`; did you mean `{meant}`?");
                return Err(Given::Variable.error(what));
            }
        }
        Ok(())
    }
}

impl Given<'_> {
    /// What the setting is called here.
    fn name_of(self, setting: &Setting) -> String {
        match self {
            Given::File(..) => setting.name.to_owned(),
            Given::Variable => setting.variable(),
            Given::Flag => format!("--{}", setting.name),
        }
    }

    /// An error about a text that was set here.
    pub(crate) fn error(self, what: String) -> Error {
        let error = Error::new(ErrorKind::Config, what);
        self.place().into_iter().fold(error, Error::at)
    }

    fn place(self) -> Option<Place> {
        match self {
            Given::File(path, line) => Some(Place::Line(path.to_owned(), line)),
            Given::Variable | Given::Flag => None,
        }
    }
}

/// The entry of `known` that was probably meant, if `name` is a misspelling.
pub(super) fn most_like<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .filter(|(slips, _)| *slips <= 2)
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(given: &[(&str, &str)]) -> Result<Settings> {
        let mut settings = Settings::default();
        let owned = given.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        settings.set_from_variables(owned)?;
        Ok(settings)
    }

    #[test]
    fn variables_are_applied() {
        let given = [
            ("THALWEG_CORES", "3"),
            ("THALWEG_SCHEDULER", "deterministic:5"),
            ("THALWEG_BATCH", "fixed:10"),
            ("THALWEG_MEMORY", "1GiB"),
            ("THALWEG_TURN", "2"),
            ("THALWEG_KEYED_TASKS", "6"),
            ("THALWEG_TASKS", "count=8,1=3+1"),
            ("THALWEG_CREDIT", "1KiB"),
            ("THALWEG_SPILL_DIR", "/big"),
            ("THALWEG_STATE_BACKEND", "disk"),
            ("THALWEG_EXPLAIN", "dot"),
            ("THALWEG_STATS", "true"),
            ("THALWEG_PROGRESS", "never"),
            ("THALWEG_STALL_AFTER", "1500ms"),
            ("THALWEG_CHECKPOINT", "/saved"),
            ("THALWEG_PLAN_AGAINST", "/compared"),
            ("THALWEG_CHECKPOINT_INTERVAL", "200ms"),
            ("THALWEG_CHECKPOINT_ALIGNMENT_TIMEOUT", "30s"),
            ("THALWEG_ALLOW_DROPPED_STATE", "true"),
            ("THALWEG_HOSTS", "hosts.toml"),
            ("THALWEG_HOST_ID", "0"),
            ("THALWEG_HOST_COUNT", "3"),
            ("THALWEG_TRANSPORT", "mpi"),
            ("THALWEG_FIRST_HOST", "node1:4711"),
            ("THALWEG_LISTEN", "0.0.0.0:4711"),
            ("THALWEG_SECRET_FILE", "/etc/secret"),
            ("THALWEG_TLS_DIR", "/etc/tls"),
            ("THALWEG_CONNECT_TIMEOUT", "120s"),
            ("THALWEG_LOST_AFTER", "1s"),
            ("THALWEG_COMPRESSION", "lz4"),
        ];
        assert_eq!(given.len(), SETTINGS.len(), "every setting is tried here");
        let settings = variables(&given).unwrap();
        let config = &settings.config;
        assert_eq!(config.cores.get(), 3);
        assert_eq!(config.scheduler, Scheduler::Deterministic { seed: 5 });
        assert_eq!(config.batch, BatchMode::Fixed { size: 10 });
        assert_eq!(config.memory, 1 << 30);
        assert_eq!((config.turn.get(), config.keyed_tasks_per_core.get()), (2, 6));
        assert_eq!(config.tasks.to_string(), "1=3+1,count=8");
        assert_eq!((config.credit, &*config.spill_dir), (1024, Path::new("/big")));
        assert_eq!(config.state_backend, StateBackend::Disk);
        assert_eq!(settings.explain, Some(Format::Dot));
        assert_eq!(settings.plan_against.as_deref(), Some(Path::new("/compared")));
        assert_eq!(settings.stats, Some(StatsFormat::Text));
        assert_eq!(settings.progress, Progress::Never);
        assert_eq!(config.stall_after, Some(Duration::from_millis(1500)));
        let checkpoints = config.checkpoints.as_ref().unwrap();
        let interval = Duration::from_millis(200);
        assert_eq!((&*checkpoints.dir, checkpoints.interval), (Path::new("/saved"), interval));
        assert_eq!(checkpoints.alignment_timeout, Some(Duration::from_secs(30)));
        assert!(config.allow_dropped_state);
        let hosts = &settings.hosts;
        assert_eq!((hosts.id, hosts.count), (Some(0), Some(3)));
        assert_eq!(hosts.file.as_deref(), Some(Path::new("hosts.toml")));
        assert_eq!(hosts.transport, Transport::Mpi);
        assert_eq!(hosts.first.as_deref(), Some("node1:4711"));
        assert_eq!(hosts.listen.as_deref(), Some("0.0.0.0:4711"));
        assert_eq!(hosts.secret_file.as_deref(), Some(Path::new("/etc/secret")));
        assert_eq!(hosts.tls_dir.as_deref(), Some(Path::new("/etc/tls")));
        assert_eq!(hosts.connect_timeout, Some(Duration::from_secs(120)));
        assert_eq!(hosts.lost_after, Some(Duration::from_secs(1)));
        assert_eq!(hosts.compression, Some(Compression::Lz4));
        let never = variables(&[("THALWEG_STALL_AFTER", "never")]).unwrap();
        assert_eq!(never.config.stall_after, None);
        assert!(variables(&[("THALWEG_STALL_AFTER", "0s")]).is_err());
        let timeout = |text| {
            let timeout = ("THALWEG_CHECKPOINT_ALIGNMENT_TIMEOUT", text);
            let settings = variables(&[timeout, ("THALWEG_CHECKPOINT", "/saved")]).unwrap();
            settings.config.checkpoints.unwrap().alignment_timeout
        };
        assert_eq!([timeout("0s"), timeout("never")], [Some(Duration::ZERO), None]);
    }

    #[test]
    fn a_wrong_variable_is_named_with_its_value_and_what_is_allowed() {
        let error = variables(&[("THALWEG_KEYED_TASKS", "many")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(
            error.to_string(),
            "`THALWEG_KEYED_TASKS` cannot be `many`: allowed is a whole number of at least 1"
        );
    }

    #[test]
    fn a_slip_of_the_pen_is_found_and_other_programs_are_left_alone() {
        let error = variables(&[("THALWEG_CORE", "2")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown variable `THALWEG_CORE`; did you mean `THALWEG_CORES`?"
        );
        for theirs in ["THALWEG_DASHBOARD_PORT", "CORES", "PATH"] {
            assert!(variables(&[(theirs, "2")]).is_ok(), "{theirs}");
        }
        assert!(variables(&[("THALWEG_CORES", "")]).is_ok(), "empty is not set");
        assert_eq!(
            variables(&[("THALWEG_TLS_DIR", "")]).unwrap_err().message(),
            "`THALWEG_TLS_DIR` cannot be ``: allowed is the path of a folder"
        );
        assert!(variables(&[("THALWEG_CONFIG", "a.toml")]).is_ok());
    }

    #[test]
    fn a_higher_layer_turns_off_what_a_lower_one_turned_on() {
        let mut settings = variables(&[("THALWEG_STATS", "json")]).unwrap();
        let stats = Setting::named("stats").unwrap();
        settings.set(stats, "off", Given::Flag).unwrap();
        assert_eq!(settings.stats, None);
    }
}
