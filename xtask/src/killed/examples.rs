//! The example programs that are killed, and their inputs, which are long enough for many checkpoints.
//!
//! How long a job takes depends on the machine. So inputs have a size, which is doubled as long as jobs end before they were
//! killed twice.

use crate::inputs::{Numbers, text};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A program that is killed.
pub(super) struct Example {
    /// The name of the program and its query.
    pub(super) name: &'static str,
    pub(super) program: &'static str,
    /// Writes the input of a size, which is 1 at first, into a folder; returns the arguments.
    pub(super) input: fn(&Path, u64) -> Result<Vec<String>>,
    /// The largest size.
    pub(super) largest: u64,
    /// Whether a job may go on with fewer tasks than it began with: not if each task reads records in event time by itself.
    pub(super) may_shrink: bool,
}

pub(super) const EXAMPLES: &[Example] = &[
    Example {
        name: "wordcount",
        program: "wordcount",
        input: |folder, size| Ok(vec![texts(folder, 40 * size)?]),
        largest: 128,
        may_shrink: true,
    },
    Example {
        name: "windows",
        program: "windowed_wordcount",
        input: |folder, size| Ok(vec![texts(folder, 16 * size)?]),
        largest: 128,
        may_shrink: true,
    },
    Example {
        name: "join",
        program: "join",
        input: |folder, size| Ok(tables(folder, 15 * size)?.into()),
        largest: 32,
        may_shrink: true,
    },
    Example {
        name: "components",
        program: "connected_components",
        input: |folder, size| Ok(with_flags(&["--form", "delta"], path(folder, 2500 * size)?)),
        largest: 16,
        may_shrink: true,
    },
    Example {
        name: "pagerank",
        program: "pagerank",
        input: |folder, size| {
            let rounds = (40 * size).to_string();
            let flags = ["--form", "integer", "--iterations", &rounds];
            Ok(with_flags(&flags, graph(folder)?))
        },
        largest: 16,
        may_shrink: true,
    },
    Example {
        name: "nexmark-q4",
        program: "nexmark",
        input: |_, size| Ok(nexmark("4", size)),
        largest: 8,
        may_shrink: false,
    },
    Example {
        name: "nexmark-q5",
        program: "nexmark",
        input: |_, size| Ok(nexmark("5", size)),
        largest: 8,
        may_shrink: false,
    },
    Example {
        name: "nexmark-q8",
        program: "nexmark",
        input: |_, size| Ok(nexmark("8", size)),
        largest: 8,
        may_shrink: false,
    },
];

/// These flags, and an input.
fn with_flags(flags: &[&str], input: String) -> Vec<String> {
    flags.iter().map(|&flag| flag.to_owned()).chain([input]).collect()
}

/// The arguments of a query of Nexmark, whose events each process generates at its start.
fn nexmark(query: &str, size: u64) -> Vec<String> {
    let events = (1_000_000 * size).to_string();
    ["--query", query, "--events", &events].map(str::to_owned).into()
}

fn write(folder: &Path, name: &str, text: &str) -> Result<String> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}

/// A folder with one text under this many names, as hard links to one file.
fn copies(folder: &Path, name: &str, text: &str, count: u64) -> Result<String> {
    let folder = folder.join(name);
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let first = write(&folder, "0", text)?;
    for copy in 1..count {
        let link = folder.join(copy.to_string());
        fs::hard_link(&first, &link).with_context(|| format!("cannot write {}", link.display()))?;
    }
    Ok(folder.display().to_string())
}

/// This many texts of a megabyte.
fn texts(folder: &Path, count: u64) -> Result<String> {
    let lines: Vec<_> = text(30_000).iter().map(|line| line.join(" ")).collect();
    copies(folder, "texts", &(lines.join("\n") + "\n"), count)
}

/// The largest key of the tables.
const KEYS: u64 = 1_000_000;

/// A table of this many files of 60,000 rows each, and one of 20,000 rows: a few percent of the rows have a partner.
fn tables(folder: &Path, count: u64) -> Result<[String; 2]> {
    let mut numbers = Numbers::new(3);
    let mut table = |rows| {
        (0..rows).fold(String::new(), |mut text, row| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}\trow {row}", numbers.below(KEYS));
            text
        })
    };
    let (left, right) = (table(60_000), table(20_000));
    Ok([copies(folder, "left", &left, count)?, write(folder, "right", &right)?])
}

/// A path of this many nodes, whose least is at one end, so that a loop needs as many rounds.
fn path(folder: &Path, nodes: u64) -> Result<String> {
    // A prime number: each node has another name.
    let name = |node: u64| node * 7919 % 1_000_003;
    let mut edges = String::new();
    for node in 1..nodes {
        writeln!(edges, "{} {}", name(node - 1), name(node))?;
    }
    write(folder, "path", &edges)
}

/// A graph of 100,000 edges between 20,000 nodes.
fn graph(folder: &Path) -> Result<String> {
    let mut numbers = Numbers::new(4);
    let mut edges = String::new();
    for _ in 0..100_000 {
        writeln!(edges, "{} {}", numbers.below(20_000), numbers.below(20_000))?;
    }
    write(folder, "graph", &edges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_text_has_as_many_names_as_it_is_long() {
        let folder = tempfile::tempdir().unwrap();
        let copies = copies(folder.path(), "texts", "a b\n", 5).unwrap();
        let files: Vec<_> =
            fs::read_dir(copies).unwrap().map(|file| file.unwrap().path()).collect();
        assert_eq!(files.len(), 5);
        assert!(files.iter().all(|file| fs::read_to_string(file).unwrap() == "a b\n"));
    }

    #[test]
    fn the_nodes_of_a_path_have_names_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let edges = fs::read_to_string(path(folder.path(), 2000).unwrap()).unwrap();
        let nodes: BTreeSet<_> = edges.split_whitespace().collect();
        assert_eq!((edges.lines().count(), nodes.len()), (1999, 2000));
        assert!(edges.starts_with("0 7919\n"), "the least is at one end");
    }

    #[test]
    fn some_rows_have_partners() {
        let folder = tempfile::tempdir().unwrap();
        let [left, right] = tables(folder.path(), 1).unwrap();
        let keys = |path: &Path| -> BTreeSet<String> {
            let text = fs::read_to_string(path).unwrap();
            text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
        };
        let (left, right) = (keys(&Path::new(&left).join("0")), keys(Path::new(&right)));
        assert!(left.intersection(&right).count() > 100);
    }

    #[test]
    fn names_are_those_of_one_example_each() {
        let names: BTreeSet<_> = EXAMPLES.iter().map(|example| example.name).collect();
        assert_eq!(names.len(), EXAMPLES.len());
    }
}
