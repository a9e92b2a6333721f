//! Builds example programs for tests: cargo builds none for a test by itself.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of these examples, built in the profile of the test. `packages` says to cargo which packages have them, and with what
/// features.
pub(crate) fn examples(packages: &[&str], names: &[&str]) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet"]);
    match std::env::var("THALWEG_TEST_PACKAGES") {
        // What the test was built with, so that nothing is compiled once more with fewer features.
        Ok(all) => build.args(all.split(' ')),
        Err(_) => build.args(packages),
    };
    names.iter().for_each(|name| _ = build.args(["--example", name]));
    build.arg("--target-dir").arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        build.arg("--release");
    }
    // They describe the test. Where a build script reads one (ring's does), what it builds would be compiled again, with all that
    // depends on it, and yet again by the next cargo without them.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            build.env_remove(name);
        }
    }
    assert!(build.status().unwrap().success());
    profile.join("examples")
}
