//! The entries of a checkpoint's states, as lines of JSON.

use anyhow::Result;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use thalweg::checkpoint::{CheckpointDir, StateEntry};

/// Which entries are wanted.
#[derive(clap::Args)]
pub(crate) struct Wanted {
    /// Show the entries of this operator's states, or of one as OPERATOR/STATE, as lines of JSON
    #[arg(long, value_name = "OPERATOR")]
    state: Option<String>,
    /// Show what is kept for this key, of all operators or of the one of `--state`; the exit status is 1 if there is nothing
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// How many entries are shown at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

impl Wanted {
    /// Whether entries are wanted at all.
    pub(crate) fn any(&self) -> bool {
        self.state.is_some() || self.key.is_some()
    }

    fn is_of(&self, entry: &StateEntry) -> bool {
        let StateEntry { operator, state, .. } = entry;
        let is_state =
            |wanted: &String| wanted == operator || *wanted == format!("{operator}/{state}");
        self.state.as_ref().is_none_or(is_state)
            && self.key.as_ref().is_none_or(|key| entry.has_key(key))
    }
}

/// The wanted entries of a checkpoint, and the status of the process.
pub(crate) fn lines(dir: &CheckpointDir, number: u64, wanted: &Wanted) -> Result<(String, u8)> {
    let (mut lines, mut shown) = (String::new(), 0);
    let mut operators = Vec::new();
    dir.entries(number, |entry| {
        if operators.last() != Some(&entry.operator) {
            operators.push(entry.operator.clone());
        }
        if !wanted.is_of(&entry) {
            return ControlFlow::Continue(());
        }
        if shown == wanted.limit {
            let _ = writeln!(lines, "… and more: `--limit` shows them");
            return ControlFlow::Break(());
        }
        shown += 1;
        let _ = writeln!(lines, "{entry}");
        ControlFlow::Continue(())
    })?;
    if !lines.is_empty() {
        return Ok((lines, 0));
    }
    let of = operators.join(", ");
    Ok((format!("checkpoint {number} has no such entry; it has entries of {of}\n"), 1))
}
