//! The rules for every Rust file: it is short, and begins with its purpose.

use super::File;

/// The most lines of a file that is still easy to survey. A longer one should be two files.
const MOST_LINES: usize = 900;

pub(super) fn check(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = file.text.lines().count();
    if lines > MOST_LINES {
        faults.push(format!(
            "{}: {lines} lines, and {MOST_LINES} are the most: split it by what its parts are for \
             (long tests go into a `tests.rs` beside it)",
            file.path
        ));
    }
    if !file.text.starts_with("//!") {
        faults.push(format!(
            "{}:1: a file begins with `//!` and says what it is for, what it may touch and what it \
             must never do",
            file.path
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        check(&File { path: "a.rs".into(), text: text.into() })
    }

    #[test]
    fn a_short_file_that_says_what_it_is_passes() {
        assert!(faults("//! A thing.\n\nfn f() {}\n").is_empty());
        assert!(faults(&format!("//! A thing.\n{}", "\n".repeat(MOST_LINES - 1))).is_empty());
    }

    #[test]
    fn long_and_nameless_files_are_named() {
        let long = faults(&format!("//! A thing.\n{}", "\n".repeat(MOST_LINES)));
        assert!(long.len() == 1 && long[0].starts_with("a.rs: 901 lines"), "{long:?}");
        let nameless = faults("// A comment.\n//! Too late.\n");
        assert!(nameless.len() == 1 && nameless[0].starts_with("a.rs:1: "), "{nameless:?}");
    }
}
