//! The settings in a TOML file.

use super::TaskCount;
use super::settings::{Given, SETTINGS, Setting, Settings, most_like};
use crate::error::Result;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Applies the settings in a file's text; `path` is for messages alone.
///
/// # Errors
///
/// Of kind [`Config`](crate::ErrorKind::Config), with the file and the line: text that is not
/// TOML, a key that is no setting, a value that is not allowed.
pub(crate) fn read_file(settings: &mut Settings, path: &Path, text: &str) -> Result<()> {
    let source = Source { path, text };
    let table = source.parse()?;
    for (key, value) in in_order(table.get_ref()) {
        let at = source.given(key.span());
        let key = key.get_ref().as_ref();
        let Some(setting) = Setting::named(key) else { return Err(at.error(unknown(key))) };
        match value.get_ref() {
            DeValue::String(text) => settings.set(setting, text, at)?,
            DeValue::Integer(number) if number.radix() == 10 => {
                settings.set(setting, number.as_str(), at)?;
            }
            DeValue::Boolean(yes) => settings.set(setting, &yes.to_string(), at)?,
            DeValue::Table(counts) if key == "tasks" => {
                for (stage, count) in in_order(counts) {
                    let (name, at) = (stage.get_ref().as_ref(), source.given(stage.span()));
                    let written = source.written(count);
                    let count = TaskCount::read(&written);
                    let count = count.filter(|_| !name.is_empty()).ok_or_else(|| {
                        let what = "a number of at least 1, or one for each host as in \"6+2\"";
                        at.error(format!(
                            "`tasks` of `{name}` cannot be `{written}`: allowed is {what}"
                        ))
                    })?;
                    settings.config.tasks.insert(name, count);
                }
            }
            // The text of a list might be an allowed value, such as a path; a list is not allowed.
            _ => {
                let written = text.get(value.span()).unwrap_or_default();
                return Err(at.error(setting.refusal(key, written)));
            }
        }
    }
    Ok(())
}

/// A file in TOML, of which messages name the lines.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl<'a> Source<'a> {
    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|error| {
            let at = self.given(error.span().unwrap_or(0..0));
            at.error(format!("not TOML: {}", error.message()))
        })
    }

    /// The text of a value, without its quotes if it has any.
    pub(super) fn written(&self, value: &Spanned<DeValue<'a>>) -> String {
        match value.get_ref() {
            DeValue::String(text) => text.clone().into_owned(),
            _ => self.text.get(value.span()).unwrap_or_default().to_owned(),
        }
    }

    /// The place of what is in this range of bytes.
    pub(super) fn given(&self, span: Range<usize>) -> Given<'a> {
        let upto = self.text.get(..span.start).unwrap_or(self.text);
        Given::File(self.path, 1 + upto.bytes().filter(|&byte| byte == b'\n').count() as u64)
    }
}

/// The entries of a table by place, so that the first mistake in the file is reported.
pub(super) fn in_order<'a, 't>(
    table: &'t DeTable<'a>,
) -> Vec<(&'t Spanned<DeString<'a>>, &'t Spanned<DeValue<'a>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn unknown(key: &str) -> String {
    let known = SETTINGS.iter().map(|setting| setting.name);
    match most_like(&key.replace('_', "-"), known.clone()) {
        Some(meant) => format!("unknown setting `{key}`; did you mean `{meant}`?"),
        None => {
            let all = known.collect::<Vec<_>>().join(", ");
            format!("unknown setting `{key}`; the settings are {all}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BatchMode, Scheduler, StateBackend};
    use crate::error::ErrorKind;

    fn read(text: &str) -> Result<Settings> {
        let mut settings = Settings::default();
        read_file(&mut settings, Path::new("job.toml"), text)?;
        Ok(settings)
    }

    #[test]
    fn settings_are_strings_numbers_or_booleans() {
        let text = "# how we run\ncores = 3\nscheduler = \"thread-per-task\"\nstats = true\n\
                    memory = 1_000_000\nbatch = 'timed:10:5us'\n\
                    state-backend = 'memory'\n";
        let settings = read(text).unwrap();
        assert_eq!(settings.config.cores.get(), 3);
        assert_eq!(settings.config.scheduler, Scheduler::ThreadPerTask);
        assert_eq!(settings.config.memory, 1_000_000);
        assert_eq!(settings.config.state_backend, StateBackend::Memory);
        let delay = std::time::Duration::from_micros(5);
        assert_eq!(settings.config.batch, BatchMode::Timed { size: 10, delay });
        assert!(settings.stats.is_some());
        assert!(read("").is_ok());
        let counts = read("tasks = { count = 8, 'a=b' = '3+1' }\n").unwrap().config.tasks;
        assert_eq!(counts.to_string(), "a=b=3+1,count=8");
        assert_eq!(read("tasks.count = 8\n").unwrap().config.tasks.to_string(), "count=8");
        assert_eq!(read("tasks = 'count=8'\n").unwrap().config.tasks.to_string(), "count=8");
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let message = |text: &str| {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            error.to_string()
        };
        assert_eq!(
            message("turn = 3\n\ncores = \"all\"\n"),
            "job.toml:3: `cores` cannot be `all`: allowed is a whole number of at least 1"
        );
        assert_eq!(
            message("[tasks]\n1 = 2\ncount = 0\n"),
            "job.toml:3: `tasks` of `count` cannot be `0`: allowed is a number of at least 1, or one for each host as in \
             \"6+2\""
        );
        assert!(
            message("tasks = 3\n")
                .starts_with("job.toml:1: `tasks` cannot be `3`: allowed is NAME=N")
        );
        assert_eq!(
            message("keyed_tasks = 3\n"),
            "job.toml:1: unknown setting `keyed_tasks`; did you mean `keyed-tasks`?"
        );
        assert!(
            message("\nprocesses = 3\n")
                .starts_with("job.toml:2: unknown setting `processes`; the")
        );
        assert_eq!(
            message("cores = 2\nspill-dir = [\"/a\"]\n"),
            "job.toml:2: `spill-dir` cannot be `[\"/a\"]`: allowed is the path of a folder"
        );
        assert_eq!(
            message("cores = -1\n"),
            "job.toml:1: `cores` cannot be `-1`: allowed is a whole number of at least 1"
        );
        assert!(message("cores = 1\ncores = 2\n").starts_with("job.toml:2: not TOML: "));
        assert!(message("cores = 1\nturn =\n").starts_with("job.toml:2: not TOML: "));
    }
}
