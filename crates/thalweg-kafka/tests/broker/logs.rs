//! What is logged, for tests that look for it. There is one logger in a program.

use log::{LevelFilter, Log, Metadata, Record};
use std::sync::{Arc, Mutex, Once};

type Hook = Box<dyn FnMut(&str) + Send>;

struct Logs(Mutex<Option<Hook>>);

static LOGS: Logs = Logs(Mutex::new(None));
static INSTALLED: Once = Once::new();

impl Log for Logs {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if let Some(hook) = &mut *self.0.lock().unwrap() {
            hook(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Nothing is heard any more when it is dropped.
pub struct Hearing(());

impl Drop for Hearing {
    fn drop(&mut self) {
        log::set_max_level(LevelFilter::Off);
        *LOGS.0.lock().unwrap() = None;
    }
}

/// Has this called with each line of the level, and above.
pub fn hear(level: LevelFilter, hook: impl FnMut(&str) + Send + 'static) -> Hearing {
    INSTALLED.call_once(|| log::set_logger(&LOGS).unwrap());
    *LOGS.0.lock().unwrap() = Some(Box::new(hook));
    log::set_max_level(level);
    Hearing(())
}

/// Warnings, as they come.
pub struct Warnings(Arc<Mutex<Vec<String>>>, Hearing);

pub fn warnings() -> Warnings {
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let adds = Arc::clone(&lines);
    let hearing = hear(LevelFilter::Warn, move |line| adds.lock().unwrap().push(line.to_owned()));
    Warnings(lines, hearing)
}

impl Warnings {
    /// The first one that has all of these.
    pub fn find(&self, parts: &[&str]) -> Option<String> {
        let Self(lines, _hearing) = self;
        let lines = lines.lock().unwrap();
        lines.iter().find(|line| parts.iter().all(|part| line.contains(part))).cloned()
    }
}
