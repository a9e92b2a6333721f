//! Installs what the steps need beyond the Rust toolchain and Debian's base.
//!
//! Before it uses them, a step that needs a program calls [`debian`], one that needs a component of the toolchain
//! calls [`component`], and one that needs Python packages calls [`python`]. What is installed already is never
//! changed.

use crate::process::{program, run};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes sure that the program `name` exists, by installing the Debian package that contains it.
pub(crate) fn debian(name: &str, package: &str) -> Result<()> {
    debian_where(name, package, || exists(name))
}

/// Makes sure that something is there, by installing the Debian package that contains it.
pub(crate) fn debian_where(name: &str, package: &str, is_there: impl Fn() -> bool) -> Result<()> {
    if is_there() {
        return Ok(());
    }
    // Steps that run beside each other may need packages at the same time, which apt refuses. Where the lock cannot be had, it says so.
    let lock = std::env::temp_dir().join("thalweg-setup.lock");
    let _held = std::fs::File::create(&lock).and_then(|file| file.lock().map(|()| file));
    if is_there() {
        return Ok(());
    }
    println!("`{name}` is missing: installing Debian's {package}");
    let root = succeeds(program("sh").args(["-c", "test \"$(id -u)\" = 0"]));
    let apt = |arguments: &[&str]| {
        // `sudo -n` never asks for a password: if one is needed it fails, and the error says so.
        let mut command = if root { program("apt-get") } else { program("sudo") };
        if !root {
            command.args(["-n", "apt-get"]);
        }
        run(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "-qq"])
        .and_then(|()| apt(&["install", "-y", "-qq", "--no-install-recommends", package]))
        .with_context(|| format!("`{name}` is needed: install {package} and run this again"))?;
    if !is_there() {
        bail!("{package} is installed, and yet `{name}` is not there");
    }
    Ok(())
}

/// Makes sure that a toolchain has a component; the error gives the reason if it cannot be installed.
pub(crate) fn component(toolchain: &str, component: &str) -> Result<()> {
    let list = program("rustup")
        .args(["component", "list", "--installed", "--toolchain", toolchain])
        .output()
        .context("rustup cannot be run, and without it no component can be added")?;
    let installed = String::from_utf8_lossy(&list.stdout);
    // Components are listed with their target: `miri-x86_64-unknown-linux-gnu`.
    if list.status.success() && installed.lines().any(|line| line.starts_with(component)) {
        return Ok(());
    }
    let with_toolchain = if list.status.success() {
        vec!["component", "add", component, "--toolchain", toolchain]
    } else {
        vec!["toolchain", "install", toolchain, "--profile", "minimal", "--component", component]
    };
    // A firewall may drop packets rather than refuse them, so the wait is limited.
    let added = program("timeout").arg("300").arg("rustup").args(&with_toolchain).output()?;
    if !added.status.success() {
        let said = String::from_utf8_lossy(&added.stderr);
        let why = said.lines().rev().find(|line| !line.trim().is_empty());
        let why = why.unwrap_or("no answer within five minutes").trim();
        bail!("`rustup {}` failed: {why}", with_toolchain.join(" "));
    }
    Ok(())
}

/// Makes sure that a virtual environment of Python has the packages of a file of pinned versions; returns its
/// interpreter's path.
pub(crate) fn python(environment: &Path, pins: &Path) -> Result<PathBuf> {
    let python = environment.join("bin/python");
    let wanted =
        std::fs::read_to_string(pins).with_context(|| format!("cannot read {}", pins.display()))?;
    // Written last, so that an interrupted installation is repeated.
    let stamp = environment.join("installed");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    run(program("python3").args(["-m", "venv", "--clear"]).arg(environment))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(program(&python).args(pip).arg(pins))?;
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(python)
}

fn exists(name: &str) -> bool {
    succeeds(program("sh").args(["-c", "command -v \"$0\"", name]))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_nothing_is_installed() {
        debian("sh", "no-such-package").unwrap();
        assert!(!exists("no-such-program-anywhere"));
    }

    #[test]
    fn a_component_that_cannot_be_had_says_why() {
        let error = component("-no-toolchain-", "miri").unwrap_err().to_string();
        assert!(error.contains("rustup"), "{error}");
    }
}
