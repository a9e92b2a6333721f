//! Any text given as settings, in a file or as a flag's value: it is taken or refused with its place,
//! and what is taken can be shown and read again.

#![no_main]

use clap::Parser;
use libfuzzer_sys::fuzz_target;
use thalweg::cli::EngineArgs;
use thalweg::config::{BatchMode, Scheduler};
use thalweg::{ErrorKind, Place};

/// A command line that has the engine's flags alone.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    engine: EngineArgs,
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses where the text stands, so that a seed is a file behind a letter.
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match (kind % 2, std::str::from_utf8(bytes)) {
        (0, text) => file(bytes, text.ok()),
        (_, Ok(text)) => flag(text),
        (_, Err(_)) => {}
    }
});

fn file(bytes: &[u8], text: Option<&str>) {
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-config-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    let named = ["fuzz".into(), "--config".into(), path.clone().into_os_string()];
    let read = Flags::try_parse_from(named).expect("the flags are right").engine.to_config();
    std::fs::remove_file(&path).expect("the file can be removed");
    match read {
        Ok(config) => {
            assert!(text.is_some(), "not UTF-8");
            assert!(config.memory > 0 && config.credit > 0 && config.batch.size() > 0);
            shown_again(config.batch);
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Config);
            match (error.place(), text) {
                (Some(Place::Line(at, line)), Some(text)) => {
                    let lines = text.split('\n').count() as u64;
                    assert!(*at == path && (1..=lines).contains(line), "{error}");
                }
                (place, text) => assert!(text.is_none(), "{error} at {place:?}"),
            }
        }
    }
}

/// What is a setting in one place is one in the other.
fn flag(text: &str) {
    if let Ok(scheduler) = text.parse::<Scheduler>() {
        assert_eq!(scheduler.to_string().parse(), Ok(scheduler));
    }
    if let Ok(batch) = text.parse::<BatchMode>() {
        shown_again(batch);
    }
    let set = |name: &str| Flags::try_parse_from(["fuzz".to_owned(), format!("--{name}={text}")]);
    assert_eq!(set("scheduler").is_ok(), text.parse::<Scheduler>().is_ok());
    assert_eq!(set("batch").is_ok(), text.parse::<BatchMode>().is_ok());
    for name in ["cores", "memory", "turn", "keyed-tasks", "credit", "spill-dir", "stall-after"] {
        if let Ok(flags) = set(name) {
            flags.engine.to_config().expect("what a flag accepts is a setting");
        }
    }
}

fn shown_again(batch: BatchMode) {
    assert_eq!(batch.to_string().parse(), Ok(batch));
}
