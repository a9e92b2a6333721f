//! The engine's layers point one way: a module uses its own layer and those below, never those above. So each can be
//! read, tested and changed without the layers above it.

use super::File;
use super::source::{self, Names};
use std::collections::HashMap;

/// The layers of `crates/thalweg/src`, from the top down. They are defined only here.
///
/// A row may use itself and the rows under it. The longest entry that is a prefix of a path applies: `io::files` is
/// at the bottom although the rest of `io` is at the top, since any layer may have to read a file, but only through
/// that module.
const LAYERS: &[&[&str]] = &[
    // Application mode and tests of whole jobs.
    &["check", "cli"],
    // The API of programs.
    &["dynamic", "io", "operators", "stream"],
    // Building blocks of operators.
    &["operators::aggregates", "support"],
    // The job as data.
    &["plan"],
    // The runtime of a plan.
    &["checkpoint", "runtime"],
    // Storage and transport of batches and state.
    &["exchange", "net", "state"],
    // The contract between the operators of one task.
    &["flow"],
    // Values, and access to the outside. Nothing here depends on tasks.
    &[
        "clock",
        "config",
        "data",
        "error",
        "fault",
        "hints",
        "io::files",
        "memory",
        "metrics",
        "sync",
        "time",
    ],
];

/// The prelude re-exports items of all layers. A module that uses it therefore depends on the topmost layer.
const PRELUDE: &str = "prelude";

/// Checks the files of the engine, whose paths are relative to `folder`.
pub(super) fn check(folder: &str, files: &[File]) -> Vec<String> {
    let read: Vec<(&File, Vec<String>, Names)> = files
        .iter()
        .map(|file| {
            let module = source::module_of(&file.path);
            let names = source::names(&file.text, &module);
            (file, module, names)
        })
        .collect();
    let shown = shown_at_root(&read);
    let tests: Vec<_> = read.iter().flat_map(|(_, _, names)| &names.test_modules).collect();

    let mut faults = Vec::new();
    for (file, module, names) in &read {
        let free = module.is_empty()
            || module[0] == PRELUDE
            || tests.iter().any(|test| module.starts_with(test));
        if free {
            continue;
        }
        let Some((row, entry)) = layer(module) else {
            faults.push(format!(
                "{folder}/{}:1: module `{}` is in no layer: add it to the table in \
                 xtask/src/tidy/layers.rs",
                file.path,
                module.join("::")
            ));
            continue;
        };
        for reference in &names.references {
            let path = resolve(&reference.path, &shown);
            let Some((above, _)) = layer(&path).filter(|&(target, _)| target < row) else {
                continue;
            };
            faults.push(format!(
                "{folder}/{}:{}: `{entry}` (layer {}: {}) uses `{}`, which lies above it (layer \
                 {}: {}). Layers point down only: move down what both need, or have it passed in \
                 from above.",
                file.path,
                reference.line,
                row + 1,
                LAYERS[row].join(", "),
                path.join("::"),
                above + 1,
                LAYERS[above].join(", "),
            ));
        }
    }
    faults
}

/// The names that `lib.rs` re-exports at the crate's root, and their modules.
fn shown_at_root(files: &[(&File, Vec<String>, Names)]) -> HashMap<String, Vec<String>> {
    let root = files.iter().find(|(_, module, _)| module.is_empty());
    let references = root.map_or(&[][..], |(_, _, names)| &names.references);
    references.iter().map(|shown| (shown.name.clone(), shown.path.clone())).collect()
}

/// Resolves a name that `lib.rs` re-exports to its module: `Error` to `error::Error`.
fn resolve(path: &[String], shown: &HashMap<String, Vec<String>>) -> Vec<String> {
    match path.split_first() {
        Some((first, rest)) if shown.contains_key(first) => [&shown[first], rest].concat(),
        _ => path.to_vec(),
    }
}

/// The row of the table that a path belongs to, and the entry that matches.
fn layer(path: &[String]) -> Option<(usize, &'static str)> {
    if path.first().is_some_and(|first| first == PRELUDE) {
        return Some((0, PRELUDE));
    }
    let rows = LAYERS.iter().enumerate();
    let entries = rows.flat_map(|(row, entries)| entries.iter().map(move |&entry| (row, entry)));
    entries
        .filter(|(_, entry)| {
            let mut names = path.iter();
            entry.split("::").all(|part| names.next().is_some_and(|name| name == part))
        })
        .max_by_key(|(_, entry)| entry.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The violations in a crate of these files.
    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        check("src", &files.iter().map(file).collect::<Vec<_>>())
    }

    /// The places of the violations.
    fn places(files: &[(&str, &str)]) -> Vec<String> {
        let place = |fault: String| fault.split(": ").next().unwrap_or_default().to_owned();
        faults(files).into_iter().map(place).collect()
    }

    #[test]
    fn down_and_sideways_is_allowed() {
        let files = [
            ("lib.rs", "pub mod stream; pub use stream::Stream;"),
            ("stream/mod.rs", "use crate::{plan::Plan, runtime, flow::Push, operators::map};"),
            (
                "operators/map.rs",
                "use crate::stream::Stream; use super::filter; use crate::Stream;",
            ),
            ("exchange/lane.rs", "use crate::{net, state, data::Key}; use super::credit::Credit;"),
            ("state/table.rs", "use crate::io::files::open; use std::io; use crate::exchange;"),
        ];
        assert_eq!(faults(&files), [""; 0]);
    }

    #[test]
    fn up_is_a_fault_at_its_line() {
        let files = [
            ("exchange/lane.rs", "use crate::data;\nuse crate::{net, runtime::Task};"),
            ("data/mod.rs", "fn f() {\n\n super::flow::g() }"),
            ("flow.rs", "use crate::state::Table;"),
        ];
        assert_eq!(
            places(&files),
            ["src/exchange/lane.rs:2", "src/data/mod.rs:3", "src/flow.rs:1"]
        );
        let message = &faults(&files)[0];
        assert!(message.contains("`exchange` (layer 6: exchange, net, state)"), "{message}");
        assert!(message.contains("`runtime::Task`, which lies above it (layer 5: "), "{message}");
    }

    #[test]
    fn the_door_to_files_lies_at_the_bottom() {
        let files = [
            ("io/files/split.rs", "use crate::error::Error; use super::super::csv::Row;"),
            ("io/csv.rs", "use super::files; use crate::io::files::open;"),
            ("memory.rs", "use crate::io::files; use crate::io::csv;"),
        ];
        assert_eq!(places(&files), ["src/io/files/split.rs:1", "src/memory.rs:1"]);
    }

    #[test]
    fn names_shown_at_the_root_are_followed() {
        let files = [
            ("lib.rs", "pub use error::Error; pub use stream::Stream as S; pub use self::plan::*;"),
            ("data.rs", "use crate::Error; use crate::S;"),
            ("time.rs", "use crate::prelude::*;"),
            ("prelude.rs", "pub use crate::stream::Stream;"),
        ];
        assert_eq!(places(&files), ["src/data.rs:1", "src/time.rs:1"]);
    }

    #[test]
    fn tests_are_free_wherever_they_lie() {
        let files = [
            ("data/mod.rs", "#[cfg(test)] mod tests; #[cfg(test)] mod more { use crate::check; }"),
            ("data/tests.rs", "use crate::stream::Stream;"),
            ("data/tests/deep.rs", "use crate::stream::Stream;"),
        ];
        assert_eq!(faults(&files), [""; 0]);
    }

    #[test]
    fn a_module_without_a_layer_is_a_fault() {
        let message = &faults(&[("util/mod.rs", ""), ("io/files.rs", "")])[..];
        assert!(message.len() == 1 && message[0].contains("`util` is in no layer"), "{message:?}");
    }
}
