//! The programs of the workspace that steps run: the command `thalweg` and the examples.

use crate::metadata;
use crate::process::{cargo, run};
use crate::test::{FEATURES, compilers};
use anyhow::Result;
use std::path::PathBuf;

/// How programs are compiled.
#[derive(Clone, Copy)]
pub(crate) enum Build {
    /// As tests are, with what is compiled for these already: for answers. An example takes a tenth of the time to compile.
    Tested,
    /// With optimisation: for what takes long, or is measured.
    Optimised,
}

impl Build {
    /// Builds what these arguments of cargo name; returns the folder of the build, in which examples have a folder of their own.
    ///
    /// Examples must be named: without them, whose packages' tests need more features of dependencies, the engine would be
    /// built again.
    pub(crate) fn build(self, which: &[&str]) -> Result<PathBuf> {
        compilers()?;
        let (how, folder) = match self {
            Self::Tested => (FEATURES, "debug"),
            Self::Optimised => ("--release", "release"),
        };
        run(cargo(["build", "--workspace", how]).args(which))?;
        Ok(metadata::read()?.target.join(folder))
    }
}
