//! The job whose checkpoints are in an object store, and how it is started, watched and killed.

use crate::server::{BUCKET, client, until};
use clap::Parser;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg::io::Text;
use thalweg::{Result, cli};

/// Set for the job: microseconds that it waits at each of some records.
pub const JOB: &str = "THALWEG_TEST_OBJECT_JOB";

const RECORDS: u64 = 24_000;
const KEYS: u64 = 12_000;

#[derive(Parser)]
struct Args {
    /// The folder of the output
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

/// A key that takes some room.
fn long(n: u64) -> String {
    format!("{n:0150}")
}

/// Counts more keys, and sorts more records, than memory has room for.
pub fn run() -> ExitCode {
    cli::run(|| -> Result<()> {
        let Args { output, engine } = Args::parse();
        let pause = std::env::var(JOB).expect("it is set").parse().expect("a number");
        let env = engine.environment()?;
        // A barrier waits for the block that is being read.
        let numbers = Text::new(output.join("in.txt")).block_bytes(500).split_bytes(10_000);
        let number = move |line: &str| {
            let n = line.parse::<u64>().expect("a number");
            if pause > 0 && n % 64 == 0 {
                std::thread::sleep(Duration::from_micros(pause));
            }
            n
        };
        let [counted, sorted] = env.lines(numbers).map(number).split();
        let counts = counted.group_by(|n| long(n % KEYS)).count().unkey();
        counts.map(|(key, count)| format!("{key} {count}")).write_lines(output.join("counts.txt"));
        sorted.map(|n| long(n * 7919 % RECORDS)).sorted().write_lines(output.join("sorted.txt"));
        env.run()
    })
}

/// Checks that each record counts once.
pub fn check_output(folder: &Path) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("the job has ended well");
    let mut counts: Vec<_> = read("counts.txt").lines().map(str::to_owned).collect();
    counts.sort();
    let expected = (0..KEYS).map(|key| format!("{} 2", long(key)));
    assert!(counts.into_iter().eq(expected), "other counts");
    assert!(read("sorted.txt").lines().eq((0..RECORDS).map(long)), "other records");
}

/// The address of a prefix of the bucket.
pub fn url(prefix: &str) -> String {
    format!("s3://{BUCKET}/{prefix}")
}

/// A job that runs.
pub struct Job {
    child: Child,
    said: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

/// A command that runs the job, with so many microseconds of pauses, at an endpoint.
pub fn command(folder: &Path, saved: &str, endpoint: &str, pause: u64) -> Command {
    let input: String = (0..RECORDS).map(|n| format!("{n}\n")).collect();
    if !folder.join("in.txt").exists() {
        fs::write(folder.join("in.txt"), input).expect("the folder is ours");
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("--output").arg(folder).args(["--checkpoint", saved]);
    command.args(["--checkpoint-interval", "50ms", "--cores", "2", "--memory", "256KiB"]);
    command.arg("--spill-dir").arg(folder.join("spill")).env(JOB, pause.to_string());
    client(&mut command, endpoint);
    command
}

impl Job {
    pub fn start(mut command: Command) -> Self {
        let started = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = started.expect("it starts");
        let said = Arc::<Mutex<String>>::default();
        let (lines, shared) = (child.stderr.take().expect("it is a pipe"), Arc::clone(&said));
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(std::result::Result::ok) {
                shared.lock().expect("no thread panics").push_str(&(line + "\n"));
            }
        });
        Self { child, said, reader }
    }

    /// What it has written to its standard error so far.
    pub fn said(&self) -> String {
        self.said.lock().expect("no thread panics").clone()
    }

    /// Waits until it has said something.
    pub fn until_it_says(&mut self, what: &str) {
        until("it does not say so", || {
            let is_over = self.child.try_wait().expect("it is our child").is_some();
            assert!(!is_over || self.said().contains(what), "it ended: {}", self.said());
            self.said().contains(what)
        });
    }

    /// Waits until something is so while it runs.
    pub fn until(&mut self, what: &str, mut so: impl FnMut() -> bool) {
        until(what, || {
            let is_over = self.child.try_wait().expect("it is our child").is_some();
            assert!(!is_over, "it ended: {}", self.said());
            so()
        });
    }

    /// Kills it with signal 9.
    pub fn kill(mut self) -> String {
        self.child.kill().expect("it runs");
        self.end().1
    }

    /// Waits until it has ended.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it is our child");
        self.reader.join().expect("it does not panic");
        let said = self.said.lock().expect("no thread panics").clone();
        (status, said)
    }
}
