//! Checks that Rust snippets are compiled: every Markdown file that has one must be among the documentation tests.

use super::File;

/// The files that make documentation tests of Markdown files: of those that need the engine, and of others.
const LISTS: [&str; 2] = ["crates/thalweg/src/snippets.rs", "crates/thalweg-kafka/src/snippets.rs"];

pub(super) fn check(markdown: &[File], rust: &[File]) -> Vec<String> {
    let lists: Vec<_> = rust.iter().filter(|file| LISTS.contains(&&*file.path)).collect();
    let untested = markdown.iter().filter_map(|file| {
        let line = 1 + file.text.lines().position(|line| is_rust_fence(line.trim()))?;
        let include = format!("include_str!(\"../../../{}\")", file.path);
        (!lists.iter().any(|list| list.text.contains(&include))).then(|| {
            let [list, _] = LISTS;
            format!("{}:{line}: this snippet is never compiled: add {include} to {list}", file.path)
        })
    });
    untested.collect()
}

/// Whether a line opens a block that documentation tests would run.
fn is_rust_fence(line: &str) -> bool {
    line.strip_prefix("```").is_some_and(|words| words.split(',').any(|word| word.trim() == "rust"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_file_with_rust_in_it_must_be_listed() {
        let list = file(LISTS[0], "#[doc = include_str!(\"../../../README.md\")]");
        let book = file("docs/book/a.md", "# A\n\n```rust,no_run\nf();\n```\n");
        let readme = file("README.md", "```rust\nf();\n```\n");
        let shell = file("CONTRIBUTING.md", "```sh\nls\n```\n\n```rustic\n```\n");
        let faults = check(&[readme, book, shell], &[list]);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("docs/book/a.md:3: "), "{faults:?}");
        assert!(faults[0].contains("include_str!(\"../../../docs/book/a.md\")"), "{faults:?}");
    }
}
