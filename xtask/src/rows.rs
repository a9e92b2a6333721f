//! The rows that a job has written into a folder, and their comparison with the expected rows: in any order, but each the
//! expected number of times.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

/// Fails unless the found rows, in any order, are `rows`, which must be sorted.
pub(crate) fn same(mut found: Vec<String>, rows: &[String]) -> Result<()> {
    found.sort_unstable();
    if found == rows {
        return Ok(());
    }
    let (missing, unexpected) = (beyond(rows, &found), beyond(&found, rows));
    bail!(
        "another answer, of {} rows where {} should be: {}, and {}",
        found.len(),
        rows.len(),
        counted(&missing, "missing"),
        counted(&unexpected, "unexpected")
    )
}

/// The rows of the first of two sorted lists that the second does not have, or has fewer times.
fn beyond<'a>(rows: &'a [String], others: &[String]) -> Vec<&'a str> {
    let (mut beyond, mut others) = (Vec::new(), others.iter().peekable());
    for row in rows {
        while others.next_if(|other| *other < row).is_some() {}
        if others.next_if_eq(&row).is_none() {
            beyond.push(row.as_str());
        }
    }
    beyond
}

/// The number of rows that are `how`, and the first of them.
fn counted(rows: &[&str], how: &str) -> String {
    match rows {
        [] => format!("none is {how}"),
        [one] => format!("one is {how}, \"{one}\""),
        [first, ..] => format!("{} are {how}, \"{first}\" the first", rows.len()),
    }
}

pub(crate) fn sorted(rows: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_unstable();
    rows
}

/// The lines of the published files of a folder.
pub(crate) fn published(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in visible(folder)? {
        let text = fs::read_to_string(folder.join(file)).context("a part cannot be read")?;
        found.extend(text.lines().map(str::to_owned));
    }
    Ok(found)
}

/// The files of a folder that are published; none if there is no such folder.
pub(crate) fn visible(folder: &Path) -> Result<Vec<String>> {
    let mut names = names(folder)?;
    names.retain(|name| !name.starts_with('.'));
    Ok(names)
}

/// The names in a folder; none if there is no such folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).context("the output cannot be read")? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&str]) -> Vec<String> {
        rows.iter().map(|&row| row.to_owned()).collect()
    }

    #[test]
    fn rows_are_compared_in_any_order_and_as_often_as_they_are_there() {
        let expected = sorted(rows(&["b", "a", "c", "b"]));
        same(rows(&["b", "c", "b", "a"]), &expected).unwrap();
        let error = |found: &[&str]| same(rows(found), &expected).unwrap_err().to_string();
        let lost = error(&["a", "b", "c"]);
        assert!(lost.contains("of 3 rows where 4 should be: one is missing, \"b\""), "{lost}");
        assert!(lost.ends_with("none is unexpected"), "{lost}");
        let twice = error(&["a", "b", "b", "c", "c"]);
        assert!(twice.ends_with("none is missing, and one is unexpected, \"c\""), "{twice}");
        let other = error(&["x", "y", "b", "b"]);
        let said = "2 are missing, \"a\" the first, and 2 are unexpected, \"x\" the first";
        assert!(other.ends_with(said), "{other}");
    }

    #[test]
    fn hidden_files_are_not_published() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(published(&path.join("missing")).unwrap(), [""; 0]);
        for (name, text) in [("part-0", "a\nb\n"), ("part-1", "c\n"), (".part-2", "d\n")] {
            fs::write(path.join(name), text).unwrap();
        }
        assert_eq!(sorted(published(path).unwrap()), ["a", "b", "c"]);
        assert_eq!(sorted(visible(path).unwrap()), ["part-0", "part-1"]);
    }
}
