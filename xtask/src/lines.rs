//! `cargo xtask lines`: counts the lines of the papers' programs by the papers' rules, beside the papers' own
//! figures. The table is in a document, and a test compares them.

use crate::process::{program, root};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::io::Write;
use std::process::Stdio;

/// Count the lines of the papers' programs, and show them beside the papers' figures
///
/// Counted are lines that are neither blank nor comments nor imports. The table in docs/programs.md must say the
/// same: a unit test compares them.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Put the table into docs/programs.md
    #[arg(long)]
    write: bool,
}

/// The document with the table, which stands between these lines.
const DOCUMENT: &str = "docs/programs.md";
const BEGIN: &str = "<!-- `cargo xtask lines --write` makes this table. -->";
const END: &str = "<!-- The table ends. -->";

/// A program in one of its forms.
struct Row {
    task: &'static str,
    form: &'static str,
    /// The file with the `main` function: it reads arguments and input, runs the query and prints.
    program: &'static str,
    /// The parts of the query: files, and items in them.
    query: &'static [(&'static str, &'static [&'static str])],
    /// Lines in the papers: Renoir, Flink, MPI, timely dataflow, RStream. An empty text means no figure.
    papers: [&'static str; 5],
}

const GRAPHS: &str = "examples/queries/graphs/mod.rs";
const PAGERANK: &str = "examples/queries/graphs/pagerank.rs";
const COMPONENTS: &str = "examples/queries/graphs/components.rs";
const TRIANGLES: &str = "examples/queries/graphs/triangles.rs";
const CLOSURE: &str = "examples/queries/graphs/closure.rs";
const LINKS: (&str, &[&str]) =
    ("examples/queries/graphs/adjacency.rs", &["struct Links", "impl Links"]);
const SAME: [&str; 5] = [""; 5];

const ROWS: &[Row] = &[
    Row {
        task: "word count",
        form: "both",
        program: "examples/wordcount.rs",
        query: &[],
        papers: ["28", "26", "138", "93", "35"],
    },
    Row {
        task: "collisions",
        form: "",
        program: "examples/collisions.rs",
        query: &[(
            "examples/queries/collisions.rs",
            &[
                "struct Week",
                "impl Week",
                "const MONDAY",
                "fn days",
                "impl fmt::Display for Week",
                "struct Accidents",
                "struct Accident",
                "impl Record for Accidents",
                "impl Covariant for Accidents",
                "struct LethalWeeks",
                "impl Visit<Accidents> for LethalWeeks",
                "struct Boroughs",
                "impl Visit<Accidents> for Boroughs",
                "struct Factors",
                "impl Visit<Accidents> for Factors",
                "struct Tally",
                "impl Tally",
                "struct Weeks",
                "impl Weeks",
                "struct BoroughWeek",
                "fn rows",
                "fn three_questions",
            ],
        )],
        papers: ["192", "139", "503", "", ""],
    },
    Row {
        task: "k-means",
        form: "",
        program: "examples/kmeans.rs",
        query: &[(
            "examples/queries/learning.rs",
            &[
                "struct Point",
                "impl Point",
                "struct Lanes",
                "impl Lanes",
                "struct Sums",
                "impl Sums",
                "fn kmeans",
                "fn kmeans_of_pieces",
            ],
        )],
        papers: ["125", "158", "222", "", "157"],
    },
    Row {
        task: "logistic regression",
        form: "",
        program: "examples/logistic_regression.rs",
        query: &[(
            "examples/queries/learning.rs",
            &["struct Point", "struct Weights", "impl Weights", "fn logistic_regression"],
        )],
        papers: SAME,
    },
    Row {
        task: "PageRank",
        form: "state",
        program: "examples/pagerank.rs",
        query: &[(PAGERANK, &["const DAMPING", "struct Ranks", "fn ranks_in_place"])],
        papers: ["59", "125", "74", "73", ""],
    },
    Row {
        task: "PageRank",
        form: "join",
        program: "examples/pagerank.rs",
        query: &[(PAGERANK, &["trait Rank", "impl Rank for f64", "fn ranks_by_joins"])],
        papers: SAME,
    },
    Row {
        task: "PageRank",
        form: "integer",
        program: "examples/pagerank.rs",
        query: &[(PAGERANK, &["trait Rank", "impl Rank for u64", "fn ranks_by_joins"])],
        papers: SAME,
    },
    Row {
        task: "connected components",
        form: "labels",
        program: "examples/connected_components.rs",
        query: &[(COMPONENTS, &["fn components_by_labels"])],
        papers: ["70", "97", "85", "", ""],
    },
    Row {
        task: "connected components",
        form: "delta",
        program: "examples/connected_components.rs",
        query: &[(COMPONENTS, &["fn components_by_changes"])],
        papers: SAME,
    },
    Row {
        task: "triangles",
        form: "join",
        program: "examples/triangles.rs",
        query: &[(TRIANGLES, &["fn triangles_by_joins"])],
        papers: ["44", "159", "204", "", ""],
    },
    Row {
        task: "triangles",
        form: "adjacency",
        program: "examples/triangles.rs",
        query: &[
            (TRIANGLES, &["fn triangles_by_adjacency", "const LANES", "const NODES"]),
            ("examples/queries/graphs/adjacency.rs", &["fn members"]),
        ],
        papers: SAME,
    },
    Row {
        task: "transitive closure",
        form: "delta",
        program: "examples/transitive_closure.rs",
        query: &[(CLOSURE, &["fn closure_by_changes"])],
        papers: ["39", "82", "162", "", ""],
    },
    Row {
        task: "transitive closure",
        form: "adjacency",
        program: "examples/transitive_closure.rs",
        query: &[(CLOSURE, &["fn closure_by_adjacency", "const PARTS"]), LINKS],
        papers: SAME,
    },
    Row {
        task: "numbering nodes",
        form: "state, labels, adjacency",
        program: "",
        query: &[(GRAPHS, &["struct Nodes", "enum Numbers", "impl Nodes"])],
        papers: SAME,
    },
];

/// Prints the table, or writes it into the document.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let table = table()?;
    if !arguments.write {
        print!("{table}");
        return Ok(());
    }
    let path = root().join(DOCUMENT);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let (before, _, after) = parts(&text)?;
    let text = format!("{before}{BEGIN}\n\n{table}\n{END}{after}");
    std::fs::write(&path, text).with_context(|| format!("cannot write {DOCUMENT}"))
}

/// The document before the table, the table, and the document after it.
fn parts(text: &str) -> Result<(&str, &str, &str)> {
    let missing = || format!("{DOCUMENT} has no lines `{BEGIN}` and `{END}`");
    let (before, rest) = text.split_once(BEGIN).with_context(missing)?;
    let (table, after) = rest.split_once(END).with_context(missing)?;
    Ok((before, table, after))
}

/// The table, in Markdown.
fn table() -> Result<String> {
    let mut table = "\
        | task | form | query | with its program | under gzip | Renoir | Flink | MPI | timely | RStream |\n\
        |---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for Row { task, form, program, query, papers } in ROWS {
        let mut lines = Vec::new();
        for (path, items) in *query {
            let source = read(path)?;
            for name in *items {
                let found = item(&source, name).with_context(|| path.to_string())?;
                lines.extend(code(&found).into_iter().map(str::to_owned));
            }
        }
        let query = if lines.is_empty() { String::new() } else { lines.len().to_string() };
        let mut all = String::new();
        if !program.is_empty() {
            lines.extend(code(&read(program)?).into_iter().map(str::to_owned));
            all = lines.len().to_string();
        }
        let bytes = gzip(&(lines.join("\n") + "\n"))?;
        let papers = papers.join(" | ");
        table += &format!("| {task} | {form} | {query} | {all} | {bytes} | {papers} |\n");
    }
    Ok(table)
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// An item at the outermost level of a formatted source, identified by its first words, with its attributes.
fn item(source: &str, name: &str) -> Result<String> {
    let lines: Vec<&str> = source.lines().collect();
    let begins = |line: &&str| {
        let rest = line.strip_prefix("pub(super) ").or(line.strip_prefix("pub ")).unwrap_or(line);
        let rest = rest.strip_prefix(name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    let mut found = (0..lines.len()).filter(|at| begins(&lines[*at]));
    let (Some(at), None) = (found.next(), found.next()) else {
        bail!("there is no single item `{name}`");
    };
    let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).count();
    let Some(more) = lines[at..].iter().position(|line| {
        line.starts_with('}') || !line.starts_with(' ') && line.ends_with([';', '}'])
    }) else {
        bail!("item `{name}` does not end");
    };
    Ok(lines[at - attributes..=at + more].join("\n"))
}

/// The lines of a source that count: neither blank, nor comments, nor imports, nor tests.
fn code(source: &str) -> Vec<&str> {
    let source = source.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let mut lines = Vec::new();
    let mut import = false;
    for line in source.lines() {
        let text = line.trim();
        import |= line.starts_with("use ") || line.starts_with("pub use ");
        if !import && !text.is_empty() && !text.starts_with("//") {
            lines.push(line);
        }
        import &= !text.ends_with(';');
    }
    lines
}

/// The size of a text compressed by `gzip -9`.
fn gzip(text: &str) -> Result<usize> {
    let mut gzip = program("gzip")
        .args(["-9", "--no-name", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start gzip")?;
    // It reads everything before it writes, since these texts are small.
    gzip.stdin.take().context("gzip takes nothing")?.write_all(text.as_bytes())?;
    let output = gzip.wait_with_output()?;
    if !output.status.success() {
        bail!("gzip ended with {}", output.status);
    }
    Ok(output.stdout.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_table_of_the_sources() {
        let document = read(DOCUMENT).unwrap();
        let (_, found, _) = parts(&document).unwrap();
        let expected = table().unwrap();
        assert_eq!(found.trim(), expected.trim(), "`cargo xtask lines --write` mends this");
    }

    const SOURCE: &str = "\
//! A file.

use a::{
    b,
};
use c;

/// A thing.
#[derive(Clone)]
pub struct Thing(u64);

// Why.
const FEW: [u64; 2] = [
    1, 2,
];

pub fn thing() {
    // Why.

    use_it();
}

fn thing_else() {}

#[cfg(test)]
mod tests {}
";

    #[test]
    fn items_are_whole_and_alone() {
        let of = |name| item(SOURCE, name).unwrap();
        assert_eq!(of("struct Thing"), "#[derive(Clone)]\npub struct Thing(u64);");
        assert_eq!(of("const FEW"), "const FEW: [u64; 2] = [\n    1, 2,\n];");
        assert_eq!(code(&of("fn thing")), ["pub fn thing() {", "    use_it();", "}"]);
        assert_eq!(of("fn thing_else"), "fn thing_else() {}");
        assert!(item(SOURCE, "fn other").is_err() && item(SOURCE, "fn th").is_err());
    }

    #[test]
    fn comments_and_blank_lines_are_not_counted() {
        let counted = code(SOURCE);
        assert_eq!(counted.len(), 9, "{counted:?}");
        assert_eq!(counted[0], "#[derive(Clone)]");
    }
}
