//! Checks that the product's dependencies have permissive licences.

use crate::metadata::Package;

/// Licences that require no more than a notice. The product is offered under MIT and Apache-2.0, and no dependency
/// may require more of its users than those do: no GPL, LGPL, AGPL or the like.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    // Of data: the text of the agreement has to go with it. A list of certificates has it, which only Android needs.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(super) fn check(packages: &[Package]) -> Vec<String> {
    let refuse = |package: &Package| {
        let licence = package.licence.as_deref();
        if licence.is_some_and(permissive) {
            return None;
        }
        Some(format!(
            "Cargo.lock: {} may be used under `{}` only: find another crate, or add the licence to \
             xtask/src/tidy/licences.rs if it asks for nothing but a notice",
            package.name,
            licence.unwrap_or("no licence it names")
        ))
    };
    packages.iter().filter_map(refuse).collect()
}

/// Whether an SPDX expression has an alternative of which every part is permissive.
fn permissive(expression: &str) -> bool {
    // Old manifests write `MIT/Apache-2.0` where they mean `OR`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest).is_some_and(|verdict| verdict && rest.is_empty())
}

/// Parses `a OR b OR c`; `None` if the words do not parse.
fn any_of(rest: &mut &[&str]) -> Option<bool> {
    let mut verdict = all_of(rest)?;
    while rest.first() == Some(&"OR") {
        *rest = &rest[1..];
        verdict |= all_of(rest)?;
    }
    Some(verdict)
}

/// Parses `a AND b AND c`, which binds closer than `OR`.
fn all_of(rest: &mut &[&str]) -> Option<bool> {
    let mut verdict = one(rest)?;
    while rest.first() == Some(&"AND") {
        *rest = &rest[1..];
        verdict &= one(rest)?;
    }
    Some(verdict)
}

/// Parses a licence, optionally with an exception, or an expression in parentheses.
fn one(rest: &mut &[&str]) -> Option<bool> {
    let (&word, after) = rest.split_first()?;
    *rest = after;
    if word == "(" {
        let verdict = any_of(rest)?;
        *rest = rest.strip_prefix(&[")"])?;
        return Some(verdict);
    }
    if let [with @ "WITH", exception, after @ ..] = *rest {
        *rest = after;
        return Some(PERMISSIVE.contains(&format!("{word} {with} {exception}").as_str()));
    }
    Some(PERMISSIVE.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "GPL-3.0-only AND MIT OR ISC",
        ] {
            assert!(permissive(good), "{good}");
        }
        for bad in [
            "GPL-3.0-only",
            "LGPL-3.0-or-later",
            "AGPL-3.0",
            "MIT AND GPL-2.0-only",
            "MIT AND (GPL-2.0-only OR LGPL-2.1-only)",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "SomethingNew",
            "MIT OR",
            "(MIT",
            "MIT Apache-2.0",
            "",
        ] {
            assert!(!permissive(bad), "{bad}");
        }
    }

    #[test]
    fn a_refused_package_is_named_with_its_licence() {
        let package = |name: &str, licence: Option<&str>| Package {
            name: name.into(),
            licence: licence.map(str::to_owned),
        };
        let faults = check(&[
            package("a 1.0.0", Some("MIT")),
            package("b 2.0.0", Some("LGPL-3.0-or-later")),
            package("c 3.0.0", None),
        ]);
        assert_eq!(faults.len(), 2);
        assert!(faults[0].contains("b 2.0.0 may be used under `LGPL-3.0-or-later`"), "{faults:?}");
        assert!(faults[1].contains("c 3.0.0 may be used under `no licence it names`"));
    }
}
