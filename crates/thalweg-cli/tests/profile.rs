//! The command `thalweg profile`, which becomes the program beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// A program cannot be started while it is open for writing, and a process that is started meanwhile by another test has
/// what is open here for a moment.
static WRITES: Mutex<()> = Mutex::new(());

/// Runs a copy of the command in a folder of its own.
fn thalweg(folder: &Path, arguments: &[&str]) -> Output {
    let copy = folder.join("thalweg");
    fs::copy(env!("CARGO_BIN_EXE_thalweg"), &copy).expect("the command is built");
    let mut command = Command::new(copy);
    command.arg("profile").args(arguments).env("PATH", folder).output().expect("it can be started")
}

#[test]
fn all_arguments_go_to_the_program_beside_it() {
    let _alone = WRITES.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("thalweg-profile");
    fs::write(&program, "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["run", "--brokers", "a:1", "--help", "two words", ""];
    let Output { status, stdout, .. } = thalweg(folder.path(), &arguments);
    assert_eq!(status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&stdout), "run|--brokers|a:1|--help|two words||");
}

#[test]
fn without_the_program_it_says_how_to_get_it() {
    let _alone = WRITES.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let Output { status, stderr, .. } = thalweg(folder.path(), &["run"]);
    let stderr = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(2));
    assert!(stderr.contains("cargo build --release -p thalweg-profile"), "{stderr}");
}
