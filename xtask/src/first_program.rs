//! Tests what the README says first, as a newcomer would: runs its first command, the only program here that is compiled with
//! optimisation, and without the features that are off by default; and copies its first program into an empty crate, with the README's lines for `Cargo.toml`, and runs it.

use crate::metadata;
use crate::process::{cargo, program, root};
use anyhow::{Context, Result, bail};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The path of the engine in the README: a clone beside the new crate.
const BESIDE: &str = "../thalweg/crates/thalweg";

/// Runs the command; creates the crate, runs it, and checks its output.
pub(crate) fn check() -> Result<()> {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let words = first_command(&readme)?;
    println!("$ cargo {}", words.join(" "));
    let output = cargo(&words).output().context("cannot start cargo")?;
    if !output.status.success() || output.stdout.trim_ascii().is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "the README's first command printed nothing, or ended with {}\n{said}",
            output.status
        );
    }
    let target = metadata::read()?.target;
    let name = words.last().context("the README's first command names no program")?;
    has_no_tls(&target.join("release/examples").join(name))?;
    let folder = target.join("first-program");
    let (manifest, program) = package(&readme, &root().join("crates/thalweg"))?;
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/main.rs"), program)?;
    // The tested versions, which are downloaded already.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut command = cargo(["run", "--offline"]);
    command.current_dir(&folder).env("CARGO_TARGET_DIR", &target);
    // As in the workspace's own profile, unless it is overridden, so that dependencies are not built twice.
    if std::env::var_os("CARGO_PROFILE_DEV_DEBUG").is_none() {
        command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    }
    let output = command.output().context("cannot start cargo")?;
    let (printed, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("the README's first program ended with {}\n{said}", output.status);
    }
    print!("{printed}");
    if printed.trim().is_empty() {
        bail!("the README's first program printed nothing");
    }
    Ok(())
}

/// A host that was built without the feature `tls` says so if it has certificates.
fn has_no_tls(example: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("there is no room for a temporary folder")?;
    for name in ["ca.crt", "tls.crt", "tls.key"] {
        let path = folder.path().join(name);
        fs::write(&path, "")?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    let mut command = program(example);
    command.args(["--host-id", "1", "--host-count", "2", "--first-host", "127.0.0.1"]);
    let output = command.arg("--tls-dir").arg(folder.path()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !said.contains("it needs the feature `tls`") {
        bail!("{} has certificates: {}: {said}", example.display(), output.status);
    }
    Ok(())
}

/// The README's first command, which is one of cargo, without its comment.
fn first_command(readme: &str) -> Result<Vec<&str>> {
    let line = block(readme, "sh").and_then(|lines| lines.lines().next()).unwrap_or_default();
    let command = line.split_once('#').map_or(line, |(command, _)| command);
    let words = command
        .trim()
        .strip_prefix("cargo ")
        .context("the README begins with no command of cargo (```sh)")?;
    Ok(words.split_whitespace().collect())
}

/// The manifest and the program of a crate according to the README, with the engine at `engine`.
fn package<'a>(readme: &'a str, engine: &Path) -> Result<(String, &'a str)> {
    let dependencies =
        block(readme, "toml").context("the README has no lines for Cargo.toml (```toml)")?;
    if !dependencies.contains(BESIDE) {
        bail!("the README's lines for Cargo.toml do not name {BESIDE}");
    }
    let dependencies = dependencies.replace(BESIDE, &engine.to_string_lossy());
    let program = block(readme, "rust").context("the README has no program (```rust)")?;
    let package = "[package]\nname = \"first-program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    // A workspace of its own, since the folder lies within another one.
    Ok((format!("{package}\n{dependencies}\n[workspace]\n"), program))
}

/// The first block of code in a language.
fn block<'a>(markdown: &'a str, language: &str) -> Option<&'a str> {
    let (_, rest) = markdown.split_once(&format!("\n```{language}\n"))?;
    rest.find("\n```").map(|end| &rest[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_by_their_language() {
        let text = "# A\n\n```sh\nls\n```\n\n```toml\n[a]\nb = 1\n```\n\n```toml\n[c]\n```\n";
        assert_eq!(block(text, "toml"), Some("[a]\nb = 1\n"));
        assert_eq!(block(text, "rust"), None);
    }

    #[test]
    fn the_first_command_has_no_comment() {
        let readme = "\n```sh\ncargo run --release   # that\ncargo xtask test\n```\n";
        assert_eq!(first_command(readme).unwrap(), ["run", "--release"]);
        assert!(first_command("\n```sh\nls\n```\n").is_err());
    }

    #[test]
    fn the_crate_is_what_the_readme_says() {
        let readme = "\n```toml\n[dependencies]\nthalweg = { path = \"../thalweg/crates/thalweg\" }\n```\n\
                      \n```rust\nfn main() {}\n```\n";
        let (manifest, program) = package(readme, Path::new("/engine")).unwrap();
        assert!(manifest.contains("\nthalweg = { path = \"/engine\" }\n"), "{manifest}");
        assert_eq!(program, "fn main() {}\n");
        let elsewhere = readme.replace("../thalweg", "../other");
        assert!(package(&elsewhere, Path::new("/engine")).is_err());
    }
}
