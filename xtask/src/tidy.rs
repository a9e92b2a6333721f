//! `cargo xtask tidy`: rules of the project that the compiler does not check, in well under a second.

mod files;
mod layers;
mod licences;
mod links;
mod snippets;
mod source;

use crate::{metadata, process};
use anyhow::{Result, bail};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};

/// Check the rules of the house: layers, size of files, licences, tested snippets, links
///
/// * Modules of the engine use what lies in their own layer or below (the table stands in
///   xtask/src/tidy/layers.rs).
/// * No Rust file has more than 900 lines, and each begins by saying what it is for.
/// * Everything the product is built from may be used under permissive terms.
/// * Every Markdown file with Rust in it is compiled and run by the documentation tests.
/// * Links between Markdown files lead somewhere, and every page of the book is in its table of contents.
#[derive(Args)]
pub(crate) struct Arguments {}

/// The command line.
pub(crate) fn run(_: &Arguments) -> Result<()> {
    check()
}

/// Runs every check, prints all violations, and fails if there are any.
pub(crate) fn check() -> Result<()> {
    let root = process::root();
    let mut faults = Vec::new();
    let rust = sources(root, &["crates", "examples", "fuzz", "xtask"], "rs")?;
    for file in &rust {
        faults.extend(files::check(file));
    }
    let engine: Vec<_> = rust.iter().filter_map(|file| file.below("crates/thalweg/src")).collect();
    faults.extend(layers::check("crates/thalweg/src", &engine));
    faults.extend(licences::check(&metadata::read()?.packages));
    let mut markdown = sources(root, &["docs", "crates", "examples"], "md")?;
    markdown.extend(top_level_markdown(root)?);
    faults.extend(snippets::check(&markdown, &rust));
    faults.extend(links::check(root, &markdown));
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => {
            println!("{} Rust files and {} Markdown files are tidy", rust.len(), markdown.len());
            Ok(())
        }
        1 => bail!("1 rule of the house is broken"),
        count => bail!("{count} rules of the house are broken"),
    }
}

/// The modules under `folder` that allow unsafe code, as paths that select their tests.
pub(crate) fn unsafe_modules(folder: &str) -> Result<Vec<String>> {
    let files = sources(process::root(), &[folder], "rs")?;
    let modules = files.iter().filter(|file| allows_unsafe(&file.text));
    Ok(modules
        .filter_map(|file| Some(source::module_of(&file.below(folder)?.path).join("::")))
        .collect())
}

fn allows_unsafe(text: &str) -> bool {
    let tokens = source::tokens(text);
    tokens.windows(3).any(|three| {
        ["allow", "expect"].contains(&three[0].text)
            && three[1].text == "("
            && three[2].text == "unsafe_code"
    })
}

/// A text file and its path from some root, with `/` between folders.
pub(crate) struct File {
    path: String,
    pub(crate) text: String,
}

impl File {
    /// The file as seen from `folder`, if it lies in it.
    fn below(&self, folder: &str) -> Option<File> {
        let path = self.path.strip_prefix(folder)?.strip_prefix('/')?;
        Some(File { path: path.to_owned(), text: self.text.clone() })
    }
}

/// All files with an extension in some folders of `root`, in the order of their paths.
pub(crate) fn sources(root: &Path, folders: &[&str], extension: &str) -> Result<Vec<File>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        // A folder that does not exist yet has no violations.
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(read(root, &path)?);
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn top_level_markdown(root: &Path) -> Result<Vec<File>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(read(root, &path)?);
        }
    }
    Ok(found)
}

fn read(root: &Path, path: &Path) -> Result<File> {
    let relative = path.strip_prefix(root)?.components();
    let names: Vec<_> = relative.map(|name| name.as_os_str().to_string_lossy()).collect();
    Ok(File { path: names.join("/"), text: fs::read_to_string(path)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_for_unsafe_code_is_seen_in_code_alone() {
        assert!(allows_unsafe("#![allow(unsafe_code)]"));
        assert!(allows_unsafe("#[expect(unsafe_code, reason = \"…\")] fn f() {}"));
        assert!(!allows_unsafe("// #![allow(unsafe_code)]\n//! `allow(unsafe_code)`\nfn f() {}"));
    }

    #[test]
    fn files_are_seen_from_a_folder() {
        let file = File { path: "a/b/c.rs".into(), text: String::new() };
        assert_eq!(file.below("a/b").unwrap().path, "c.rs");
        assert!(file.below("a/bb").is_none());
        assert!(file.below("a/b/c").is_none());
    }

    #[test]
    fn this_repository_can_be_read() {
        let files = sources(process::root(), &["xtask/src", "no/such/folder"], "rs").unwrap();
        assert!(files.iter().any(|file| file.path == "xtask/src/tidy/layers.rs"));
        assert!(files.is_sorted_by_key(|file| file.path.clone()));
    }
}
