//! Standard error of many hosts, line by line: each line begins with the number of its host.

use std::io::{BufRead, BufReader, Read, Write};

/// The longest line that is printed as one; longer ones are cut, so that no host can fill the memory.
const LONGEST: u64 = 64 << 10;

/// Prints a line of the launcher itself.
pub(crate) fn say(what: &str) {
    // The status still reports what happened if standard error is closed.
    let _ = std::io::stderr().write_all(format!("thalweg: {what}\n").as_bytes());
}

/// Copies lines to standard error until the input ends.
pub(crate) fn pass_on(host: usize, input: impl Read) {
    copy(host, input, |line| {
        // The host goes on if its output has no reader.
        let _ = std::io::stderr().write_all(line);
    });
}

/// Calls `print` for each line with its prefix. A host that writes the prefix itself has it once.
fn copy(host: usize, input: impl Read, mut print: impl FnMut(&[u8])) {
    let prefix = format!("[{host}] ").into_bytes();
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(&prefix);
        // A host whose pipe breaks has ended.
        match input.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let written = &line[prefix.len()..];
        print(if written.starts_with(&prefix) { written } else { &line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(text: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        copy(2, text, |line| lines.push(String::from_utf8_lossy(line).into_owned()));
        lines
    }

    #[test]
    fn each_line_has_the_prefix_once() {
        assert_eq!(
            copied(b"a\n\n[2] b\n[1] c\nd"),
            ["[2] a\n", "[2] \n", "[2] b\n", "[2] [1] c\n", "[2] d\n"]
        );
        assert!(copied(b"").is_empty());
    }

    #[test]
    fn long_lines_are_cut() {
        let lines = copied(&vec![b'x'; 3 * LONGEST as usize / 2]);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].len(), LONGEST as usize + 5);
    }
}
