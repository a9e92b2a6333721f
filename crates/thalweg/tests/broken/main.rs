//! Deliberately broken programs, and the message that each must give.
//!
//! Every program is run as a process of its own, in a folder with the files it asks for. It must end
//! by itself, with a status that is not zero, with the message in `messages/NAME.txt`, and without
//! leaving anything in its folder that looks like a result. With `THALWEG_BLESS=1` the messages are
//! written anew: look at what changed.

mod bounds;
mod closures;
mod input;
mod output;
mod settings;
mod streams;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A program with a mistake in it.
struct Broken {
    name: &'static str,
    program: fn() -> thalweg::Result<()>,
    /// The files that it finds, by name.
    files: &'static [(&'static str, &'static [u8])],
    /// What it is called with.
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// The status it ends with.
    status: i32,
    /// The signal that it gets once it runs, `INT` as from Ctrl-C.
    signal: Option<&'static str>,
    /// Whether its folder `disk` is a disk of 64 KiB.
    small_disk: bool,
    /// Whether its standard output takes nothing.
    deaf: bool,
}

impl Broken {
    const fn new(name: &'static str, program: fn() -> thalweg::Result<()>) -> Self {
        let (files, arguments, variables): (&[_], &[_], &[_]) = (&[], &[], &[]);
        let (signal, small_disk, deaf) = (None, false, false);
        Self { name, program, files, arguments, variables, status: 1, signal, small_disk, deaf }
    }

    const fn files(mut self, files: &'static [(&'static str, &'static [u8])]) -> Self {
        self.files = files;
        self
    }

    const fn arguments(mut self, arguments: &'static [&'static str]) -> Self {
        self.arguments = arguments;
        self
    }

    const fn variables(mut self, variables: &'static [(&'static str, &'static str)]) -> Self {
        self.variables = variables;
        self
    }

    const fn status(mut self, status: i32) -> Self {
        self.status = status;
        self
    }

    const fn signal(mut self, signal: &'static str) -> Self {
        self.signal = Some(signal);
        self
    }

    const fn small_disk(mut self) -> Self {
        self.small_disk = true;
        self
    }

    const fn deaf(mut self) -> Self {
        self.deaf = true;
        self
    }
}

/// Says which program a child process is to run.
const PROGRAM: &str = "BROKEN_PROGRAM";
/// Longer than any of them needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let groups = [bounds::ALL, closures::ALL, input::ALL, output::ALL, settings::ALL, streams::ALL];
    let all: Vec<&Broken> = groups.into_iter().flatten().collect();
    if let Ok(name) = std::env::var(PROGRAM) {
        let broken = all.iter().find(|broken| broken.name == name).expect("a known program");
        return thalweg::cli::run(broken.program);
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let chosen =
        all.iter().filter(|broken| wanted.as_ref().is_none_or(|w| broken.name.contains(w)));
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for broken in chosen {
        match check(broken) {
            Ok(Outcome::NotRun(why)) => {
                ignored += 1;
                println!("test {} ... ignored, {why}", broken.name);
            }
            Ok(Outcome::AsExpected) => {
                passed += 1;
                println!("test {} ... ok", broken.name);
            }
            Err(fault) => {
                failed += 1;
                println!("test {} ... FAILED\n{fault}", broken.name);
            }
        }
    }
    let unused = unused_messages(&all);
    for path in &unused {
        println!("no program gives {}", path.display());
    }
    failed += unused.len();
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn messages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken/messages")
}

fn unused_messages(all: &[&Broken]) -> Vec<PathBuf> {
    let files = std::fs::read_dir(messages()).expect("the folder of messages");
    let paths = files.map(|file| file.expect("a file").path());
    paths
        .filter(|path| {
            !all.iter().any(|broken| path.file_stem().is_some_and(|stem| stem == broken.name))
        })
        .collect()
}

enum Outcome {
    AsExpected,
    /// What the machine does not allow.
    NotRun(&'static str),
}

/// A message without what it says of batches on their way between tasks, whose bytes differ from run to run.
fn without_in_flight(message: &str) -> String {
    match message.split_once(", what is on its way between tasks holds ") {
        Some((before, after)) => {
            let amount = after.find([',', ';']).unwrap_or(after.len());
            format!("{before}{}", &after[amount..])
        }
        None => message.to_owned(),
    }
}

/// A small disk, mounted as long as this is there.
struct Disk(PathBuf);

impl Disk {
    fn mount(path: PathBuf) -> Option<Self> {
        std::fs::create_dir(&path).ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&path);
        mount
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
            .then_some(Self(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn check(broken: &Broken) -> Result<Outcome, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let disk = broken.small_disk.then(|| Disk::mount(folder.path().join("disk")));
    if let Some(None) = disk {
        return Ok(Outcome::NotRun("only root can mount a small disk"));
    }
    for (name, bytes) in broken.files {
        let path = folder.path().join(name);
        let parent = path.parent().expect("a file is in a folder");
        std::fs::create_dir_all(parent).map_err(|error| error.to_string())?;
        std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
    }
    let before = everything_in(folder.path());
    let (status, said) = run(broken, folder.path())?;
    if status != Some(broken.status) {
        return Err(format!("ended with {status:?}, not {}; said:\n{said}", broken.status));
    }
    let after = everything_in(folder.path());
    if before != after {
        return Err(format!("left behind {:?}", after.difference(&before).collect::<Vec<_>>()));
    }
    // What the panic hook prints comes before.
    let message = said.find("error: ").map_or("", |at| &said[at..]);
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let this = this.file_name().map(|name| name.to_string_lossy().into_owned());
    let message = message.replace(&this.unwrap_or_default(), "PROGRAM");
    let message = without_in_flight(&message);
    let path = messages().join(broken.name).with_extension("txt");
    if std::env::var_os("THALWEG_BLESS").is_some() {
        return match std::fs::write(&path, message) {
            Ok(()) => Ok(Outcome::AsExpected),
            Err(error) => Err(error.to_string()),
        };
    }
    let expected = std::fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}\nit says:\n{message}", path.display()))?;
    if message != expected {
        return Err(format!("says:\n{message}\nnot:\n{expected}\nand all of it is:\n{said}"));
    }
    Ok(Outcome::AsExpected)
}

fn run(broken: &Broken, folder: &Path) -> Result<(Option<i32>, String), String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.args(broken.arguments).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("THALWEG_") {
            command.env_remove(name);
        }
    }
    command.env(PROGRAM, broken.name).envs(broken.variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if broken.deaf {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        command.stdout(full.map_err(|error| error.to_string())?);
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    if let Some(signal) = broken.signal {
        std::thread::sleep(Duration::from_millis(500));
        let pid = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        if !sent.is_ok_and(|status| status.success()) {
            return Err("cannot signal it".to_owned());
        }
    }
    let status = wait(&mut child)?;
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    Ok((status, String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn wait(child: &mut Child) -> Result<Option<i32>, String> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status.code());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    Err("did not end".to_owned())
}

/// The names of all files and folders below.
fn everything_in(folder: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder that can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path.clone());
            }
            all.insert(path);
        }
    }
    all
}
