//! What connectors and the engine log as warnings, on standard error, where the program has no logger of its own: a job that waits for
//! a broker would say nothing otherwise.

use super::hosts::Lines;
use log::{LevelFilter, Log, Metadata, Record, set_logger, set_max_level};

/// The parts of the engine whose warnings are lines of a program already.
const SAID: [&str; 3] = ["thalweg::stalls", "thalweg::checkpoints", "thalweg::late"];
/// What connectors log under: the engine, crates beside it, and the client of Kafka.
const TARGETS: [&str; 2] = ["thalweg", "librdkafka"];

/// Prints warnings as lines.
struct Printed;

fn is_printed(target: &str) -> bool {
    TARGETS.iter().any(|of| target.starts_with(of)) && !SAID.contains(&target)
}

impl Log for Printed {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= LevelFilter::Warn && is_printed(metadata.target())
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            Lines::print(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Has warnings printed, unless the program has a logger.
pub(super) fn print_warnings() {
    if set_logger(&Printed).is_ok() {
        set_max_level(LevelFilter::Warn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_the_engine_and_its_connectors_are_printed_once() {
        for target in ["thalweg_kafka::fetch", "librdkafka", "thalweg::connector"] {
            assert!(is_printed(target), "{target}");
        }
        for target in ["thalweg::checkpoints", "hyper::client", "rustls"] {
            assert!(!is_printed(target), "{target}");
        }
    }
}
