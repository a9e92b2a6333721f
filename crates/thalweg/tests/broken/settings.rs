//! Settings with mistakes in them, wherever they are made.

use super::Broken;
use thalweg::{Environment, Result};

pub(super) const ALL: &[Broken] = &[
    Broken::new("flag-is-mistyped", program).arguments(&["--schedular", "threads"]).status(2),
    Broken::new("value-is-mistyped", program).arguments(&["--scheduler", "stealing!"]).status(2),
    Broken::new("no-cores", program).arguments(&["--cores", "0"]).status(2),
    Broken::new("variable-is-mistyped", program).variables(&[("THALWEG_CORES", "two")]).status(2),
    Broken::new("key-of-the-file-is-mistyped", program)
        .files(&[("thalweg.toml", b"cores = 2\nbach = \"single\"\n")])
        .arguments(&["--config", "thalweg.toml"])
        .status(2),
    Broken::new("file-of-settings-is-missing", program)
        .arguments(&["--config", "nowhere.toml"])
        .status(2),
];

fn program() -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..10).for_each(|_| ());
    env.run()
}
