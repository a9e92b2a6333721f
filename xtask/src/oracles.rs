//! Compares example programs with libraries that share no code with them: networkx, scikit-learn and others in
//! Python.
//!
//! Each file in `xtask/oracles` except `oracle.py` is the oracle of one program, and has its name. To add one, add
//! the file, and its requirements to `requirements.txt` there; nothing changes here.

use crate::built::Build;
use crate::process::{Totals, program, root, run_tests};
use crate::{metadata, setup};
use anyhow::{Context, Result, bail};

/// The folder of the oracles.
const FOLDER: &str = "xtask/oracles";
/// The module that they share.
const SHARED: &str = "oracle";

/// Runs the oracle of every program that has one.
pub(crate) fn check(totals: &mut Totals) -> Result<()> {
    let metadata = metadata::read()?;
    let programs = programs()?;
    for name in &programs {
        if !metadata.examples.contains(name) {
            bail!("{FOLDER}/{name}.py is the oracle of no example program");
        }
    }
    let environment = metadata.target.join("oracles");
    let python = setup::python(&environment, &root().join(FOLDER).join("requirements.txt"))?;
    let which: Vec<_> = programs.iter().flat_map(|name| ["--example", name]).collect();
    let folder = Build::Tested.build(&which)?.join("examples");
    for name in &programs {
        let mut oracle = program(&python);
        oracle.arg(root().join(FOLDER).join(format!("{name}.py"))).arg(&folder);
        // Leaves no compiled files beside the sources.
        run_tests(oracle.env("PYTHONDONTWRITEBYTECODE", "1"), totals)?;
    }
    Ok(())
}

/// The programs that have an oracle, sorted.
fn programs() -> Result<Vec<String>> {
    let folder = root().join(FOLDER);
    let files = std::fs::read_dir(&folder).with_context(|| format!("cannot read {FOLDER}"))?;
    let mut names = Vec::new();
    for file in files {
        let path = file?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).filter(|name| *name != SHARED);
        if let (Some(name), true) = (name, path.extension().is_some_and(|end| end == "py")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_oracles_share_is_no_oracle() {
        let programs = programs().unwrap();
        assert!(programs.iter().any(|name| name == "pagerank"), "{programs:?}");
        assert!(!programs.iter().any(|name| name == SHARED), "{programs:?}");
    }
}
