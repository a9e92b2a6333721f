//! `cargo xtask data`: generates the benchmarks' input files by the seeded generators of `benchmarks/datagen`, and
//! keeps them in `data/`.

use crate::bench::{self, Build, Size};
use crate::process::{program, root};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::Stdio;

/// Make the benchmarks' input files
///
/// They lie in data/, which git ignores. A file that is there already is kept. `cargo xtask bench`
/// makes what it needs by itself.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How much: `small` is enough for minutes of benchmarks, `full` for hours
    #[arg(long, value_enum, default_value_t)]
    size: Size,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for path in ensure(&bench::datasets(arguments.size))? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Finds or generates the files of some datasets, named as `bench-datagen` names them, and returns their paths in the
/// same order.
pub(crate) fn ensure(datasets: &[String]) -> Result<Vec<PathBuf>> {
    if datasets.is_empty() {
        return Ok(Vec::new());
    }
    bench::build("bench-datagen", Build::Native)?;
    let output = program(bench::binary("bench-datagen", Build::Native))
        .arg(root().join("data"))
        .args(datasets)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the generators")?;
    if !output.status.success() {
        bail!("the generators ended with {}", output.status);
    }
    let paths: Vec<PathBuf> =
        String::from_utf8(output.stdout)?.lines().map(PathBuf::from).collect();
    if paths.len() != datasets.len() {
        bail!("the generators made {} files of {}", paths.len(), datasets.len());
    }
    Ok(paths)
}
