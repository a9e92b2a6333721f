//! Programs that do not compile, and what the compiler must say about each.
//!
//! Every file in `cases` is a program that a newcomer to the engine could write. Its lines that
//! begin with `//~` are the essential parts of the compiler's message, in order; the first is part
//! of the very first line, since what is said first is what is read. Whatever else the compiler
//! says, such as line numbers and lists of other types, may change with its version.
//!
//! The library is the one that cargo builds for a program without tests; each case costs a call of
//! the compiler that ends before code is generated.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

fn main() -> ExitCode {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let library = match library() {
        Ok(library) => library,
        Err(fault) => {
            println!("the library cannot be had: {fault}");
            return ExitCode::FAILURE;
        }
    };
    let name =
        |case: &Path| case.file_stem().expect("a file has a name").to_string_lossy().into_owned();
    let mut cases = cases();
    cases.retain(|case| wanted.as_ref().is_none_or(|wanted| name(case).contains(wanted)));
    let (mut passed, mut failed) = (0, 0);
    // The compiler uses one core for a case.
    let (next, results) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (cases, library, next, result) = (&cases, &library, &next, results.0.clone());
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let _ = result.send((case, check(case, library)));
                }
            });
        }
        drop(results.0);
        for (case, result) in results.1 {
            match result {
                Ok(()) => {
                    passed += 1;
                    println!("test {} ... ok", name(case));
                }
                Err(fault) => {
                    failed += 1;
                    println!("test {} ... FAILED\n{fault}", name(case));
                }
            }
        }
    });
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/misfit/cases")
}

fn cases() -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder()).expect("the folder of cases");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    paths
}

/// The engine's metadata, as the compiler reads it. Cargo alone knows which of the files in its
/// folder is up to date, so it is asked.
fn library() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--package", "thalweg", "--lib", "--message-format", "json"]);
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = build.output().map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let files = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "thalweg")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    let metadata = files
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|file| file.extension().is_some_and(|extension| extension == "rmeta"));
    metadata.ok_or_else(|| format!("cargo names no metadata:\n{messages}"))
}

fn check(case: &Path, library: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(case).map_err(|error| error.to_string())?;
    let mut expected = text.lines().filter_map(|line| line.strip_prefix("//~")).map(str::trim);
    let said = compile(case, library)?;
    let Some(first) = expected.next() else {
        return Err(format!("expects nothing: it has no line that begins with `//~`\n{said}"));
    };
    let mut lines = said.lines();
    if !lines.next().is_some_and(|line| line.contains(first)) {
        return Err(format!("does not begin with\n    {first}\nbut says\n{said}"));
    }
    for part in expected {
        if !lines.any(|line| line.contains(part)) {
            return Err(format!("lacks, or has at another place,\n    {part}\nand says\n{said}"));
        }
    }
    Ok(())
}

/// What the compiler says about a program that must not compile.
fn compile(case: &Path, library: &Path) -> Result<String, String> {
    let outputs = tempfile::tempdir().map_err(|error| error.to_string())?;
    let dependencies = library.parent().ok_or("the library is in no folder")?;
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    compiler.args(["--edition", "2024", "--emit", "metadata", "--color", "never"]);
    compiler.args(["--cap-lints", "allow", "--out-dir"]).arg(outputs.path());
    compiler.arg("--extern").arg(with_path("thalweg=", library));
    compiler.arg("-L").arg(with_path("dependency=", dependencies));
    compiler.current_dir(folder()).args(case.file_name());
    let output = compiler.output().map_err(|error| format!("rustc cannot be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(1) => Ok(said),
        Some(0) => Err("compiles".to_owned()),
        other => Err(format!("the compiler ended with {other:?}:\n{said}")),
    }
}

fn with_path(option: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(option);
    argument.push(path);
    argument
}
