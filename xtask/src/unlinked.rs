//! Finds types that a public signature names and that have no page of documentation, so that rustdoc cannot link them.
//!
//! The compiler's lint `unnameable_types` also finds them, among four times as many that only hidden items of
//! `Chain` name: what a task is made of.

use crate::{metadata, process, tidy};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Not meant to be named: the private bound of a sealed trait.
const SEALED: &str = "Sealed";

/// A page of documentation: the name of its item, and its text.
struct Page {
    path: PathBuf,
    item: String,
    html: String,
}

/// Reads the engine's documentation, which must be up to date, and fails if a signature names a type without a page.
pub(crate) fn check() -> Result<()> {
    let folder = metadata::read()?.target.join("doc/thalweg");
    let pages = read(&folder)?;
    let documented: BTreeSet<_> = pages.iter().map(|page| page.item.as_str()).collect();
    let sources = tidy::sources(process::root(), &["crates/thalweg/src"], "rs")?;
    let declared: BTreeSet<_> = sources.iter().flat_map(|file| declared(&file.text)).collect();
    let mut faults = BTreeSet::new();
    let mut signatures = 0;
    for page in &pages {
        for signature in signatures_in(&page.html) {
            signatures += 1;
            let unlinked = without_links(signature);
            for name in words(&unlinked) {
                let variant = format!("id=\"variant.{name}\"");
                if declared.contains(name)
                    && !documented.contains(name)
                    && name != SEALED
                    && !page.html.contains(&variant)
                {
                    faults.insert(format!("{}: `{name}` has no page", page.path.display()));
                }
            }
        }
    }
    for fault in &faults {
        println!("{fault}");
    }
    match (faults.is_empty(), signatures) {
        (true, 0) => bail!("no signature found in {}: its form has changed", folder.display()),
        (true, _) => Ok(()),
        (false, _) => bail!("export these types, in `chains` if nobody need name them"),
    }
}

/// Reads the pages of all items. Pages of items that are no more may still be in the folder.
fn read(folder: &Path) -> Result<Vec<Page>> {
    let text = |path: &Path| fs::read_to_string(path).with_context(|| path.display().to_string());
    let index = text(&folder.join("all.html"))?;
    let pages = index.split("href=\"").skip(1).filter_map(|rest| {
        let link = rest.split_once('"')?.0;
        let name = link.rsplit('/').next()?;
        let [_, item, "html"] = name.split('.').collect::<Vec<_>>()[..] else { return None };
        Some((folder.join(link), item.to_owned()))
    });
    pages
        .filter(|(path, _)| path.exists())
        .map(|(path, item)| Ok(Page { html: text(&path)?, path, item }))
        .collect()
}

/// The public types that a file declares.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (kind, name) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let is_type = matches!(kind, "struct" | "enum" | "trait" | "type");
        words(name).next().filter(|name| is_type && name.starts_with(char::is_uppercase))
    })
}

/// The signatures of a page: the declaration of its item, and those of methods and implementations.
fn signatures_in(html: &str) -> impl Iterator<Item = &str> {
    let forms = [
        ("<pre class=\"rust item-decl\">", "</pre>"),
        ("<h3 class=\"code-header\">", "</h3>"),
        ("<h4 class=\"code-header\">", "</h4>"),
    ];
    forms.into_iter().flat_map(move |(begin, end)| {
        html.split(begin).skip(1).filter_map(move |rest| Some(rest.split_once(end)?.0))
    })
}

/// What is left of a signature without links, comments and tags.
fn without_links(signature: &str) -> String {
    let mut text = String::new();
    for (at, part) in signature.split("<a ").enumerate() {
        let rest =
            if at == 0 { part } else { part.split_once("</a>").map_or("", |(_, rest)| rest) };
        for (at, part) in rest.split("<span class=\"comment\">").enumerate() {
            let code =
                if at == 0 { part } else { part.split_once("</span>").map_or("", |(_, c)| c) };
            for (at, part) in code.split('<').enumerate() {
                let shown =
                    if at == 0 { part } else { part.split_once('>').map_or("", |(_, s)| s) };
                text.push_str(shown);
                text.push(' ');
            }
        }
    }
    text
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_link_are_found() {
        let html = "<h4 class=\"code-header\">pub fn <a href=\"#m\" class=\"fn\">map</a>() -&gt; \
                    <a class=\"struct\" href=\"s.html\">Stream</a>&lt;Mapped&lt;C&gt;&gt;</h4>";
        let [signature] = signatures_in(html).collect::<Vec<_>>()[..] else { panic!() };
        let unlinked = without_links(signature);
        let names: Vec<_> = words(&unlinked).collect();
        assert!(names.contains(&"Mapped"), "{names:?}");
        assert!(!names.contains(&"Stream") && !names.contains(&"map"), "{names:?}");
    }

    #[test]
    fn declarations_are_found() {
        let text = "pub struct Mapped<C> {\n    pub(crate) struct Hidden;\npub fn f() {}\n  pub trait Feed: Send {";
        assert_eq!(declared(text).collect::<Vec<_>>(), ["Mapped", "Feed"]);
    }
}
