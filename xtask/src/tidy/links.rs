//! Checks links between the Markdown files of the repository: each leads to an existing file and, if it names one, to
//! an existing heading. Links to the web are not followed. Every page of the book is in its table of contents.

use super::File;
use std::collections::BTreeSet;
use std::path::Path;

/// The table of contents of the book.
const SUMMARY: &str = "docs/book/src/SUMMARY.md";

pub(super) fn check(root: &Path, markdown: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut listed = BTreeSet::new();
    for file in markdown {
        for (line, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = resolve(&file.path, path);
            if file.path == SUMMARY {
                listed.insert(path.clone());
            }
            let text = markdown.iter().find(|other| other.path == path).map(|other| &other.text);
            if text.is_none() && !root.join(&path).exists() {
                faults.push(format!("{}:{line}: there is no `{path}` to link to", file.path));
            } else if !heading.is_empty()
                && text.is_some_and(|text| !anchors(text).contains(heading))
            {
                faults.push(format!("{}:{line}: `{path}` has no heading #{heading}", file.path));
            }
        }
    }
    let folder = SUMMARY.trim_end_matches("SUMMARY.md");
    for file in markdown.iter().filter(|file| file.path.starts_with(folder)) {
        if file.path != SUMMARY && !listed.contains(&file.path) {
            faults.push(format!("{}: add this page to {SUMMARY}", file.path));
        }
    }
    faults
}

/// The target of a link, as a path from the repository's root.
fn resolve(from: &str, target: &str) -> String {
    if target.is_empty() {
        return from.to_owned();
    }
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => _ = parts.pop(),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The lines outside of fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

/// The targets of inline links and pictures, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Text between backticks is code; the text of a link may contain some.
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("](") {
            let end = after.find(')').unwrap_or(after.len());
            if line[..line.len() - after.len()].matches('`').count() % 2 == 0
                && before.contains('[')
            {
                found.push((number, after[..end].split(' ').next().unwrap_or_default()));
            }
            rest = &after[end..];
        }
    }
    found
}

/// The anchors that GitHub and mdBook generate from the headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    fn faults(files: &[File]) -> Vec<String> {
        check(Path::new("/no/such/root"), files)
    }

    #[test]
    fn a_link_leads_to_a_file_and_a_heading() {
        let to = file("docs/b.md", "# What `it` is, and why\n\n```sh\n# no heading\n```\n");
        let good = "[b](docs/b.md) [`b`](docs/b.md#what-it-is-and-why) [web](https://a.b/c) [top](#a)\n# A\n";
        assert!(faults(&[file("a.md", good), to]).is_empty());
        let to = file("docs/b.md", "```sh\n# no heading\n```\n[up](../a.md)");
        let bad =
            "`[code](x.md)`\n![none](docs/c.svg) [b](docs/b.md#no-heading)\n```text\n[d](d)\n```\n";
        let found = faults(&[file("a.md", bad), to]);
        assert_eq!(
            found,
            [
                "a.md:2: there is no `docs/c.svg` to link to",
                "a.md:2: `docs/b.md` has no heading #no-heading"
            ]
        );
    }

    #[test]
    fn a_page_of_the_book_is_in_its_table_of_contents() {
        let page = |name: &str| file(&format!("docs/book/src/{name}.md"), "# A page\n");
        let summary = file(SUMMARY, "- [A](a.md)\n");
        let found = faults(&[summary, page("a"), page("b")]);
        assert_eq!(found, ["docs/book/src/b.md: add this page to docs/book/src/SUMMARY.md"]);
    }
}
