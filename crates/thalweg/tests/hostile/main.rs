//! Operators under attack: closures and types that panic or lie, extreme values, little memory, jobs that
//! are cancelled.
//!
//! Whatever is done to a job, it ends well with the right result, or with an error that names an operator. It
//! never hangs, and `run` never unwinds; a neighbour in the same pool ends well, and the pool runs another job
//! afterwards.
//!
//! A case is an operator (`plain`, `keyed`, `windows`, `several`), what is done to it (`hostilities`), and a
//! scheduler. The test makes some hundred of them, which a seed chooses from all there are. The variable
//! `THALWEG_HOSTILE` changes that: `all` makes all, a number is another seed, and a text makes the cases whose
//! name contains it, as in `THALWEG_HOSTILE='sorted / clone panics'`.

mod hostilities;
mod job;
mod keyed;
mod plain;
mod records;
mod several;
mod windows;

use hostilities::{CALM, HOSTILITIES, Hostility, Meddling};
use job::{Job, Operator};
use records::{Mood, SPRUNG};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;
use thalweg::config::{Config, Scheduler};
use thalweg::{Environment, Error, ErrorKind, JobHandle};

/// Cases that fail, as parts of their names, each with the reason. Of each, cases are made until one fails; when
/// none does any more, the test fails.
const KNOWN: &[(&str, &str)] = &[];
/// What cases may say that fail, each with the reason. When none says so any more, the test fails.
const KNOWN_FAULTS: &[(&str, &str)] = &[];
/// Cases of an entry in `KNOWN` that are made to find one that fails.
const KNOWN_CASES: usize = 40;

/// Cases that are made when nothing else is said.
const CASES: usize = 3000;
/// How long a case may take, on a machine that does other things too.
const LIMIT: Duration = Duration::from_secs(20);

fn operators() -> impl Iterator<Item = &'static Operator> {
    [plain::OPERATORS, keyed::OPERATORS, windows::OPERATORS, several::OPERATORS]
        .into_iter()
        .flatten()
}

#[derive(Clone)]
struct Case {
    operator: &'static Operator,
    hostility: &'static Hostility,
    scheduler: Scheduler,
}

impl Case {
    fn all() -> Vec<Self> {
        let schedulers = [
            Scheduler::WorkStealing,
            Scheduler::ThreadPerTask,
            Scheduler::Deterministic { seed: 3 },
        ];
        let with = |operator| {
            let hostilities = HOSTILITIES.iter();
            hostilities.flat_map(move |hostility| {
                schedulers.map(|scheduler| Self { operator, hostility, scheduler })
            })
        };
        operators().flat_map(with).collect()
    }

    fn name(&self) -> String {
        let scheduler = match self.scheduler {
            Scheduler::WorkStealing => "stealing",
            Scheduler::ThreadPerTask => "threads",
            _ => "deterministic",
        };
        format!("{} / {} / {scheduler}", self.operator.name, self.hostility.name)
    }

    fn drawn(&self, seed: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        (seed, self.name()).hash(&mut hasher);
        hasher.finish()
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        config.scheduler = self.scheduler;
        // One thread shows best that it has not died.
        config.cores = NonZeroUsize::new(1 + (self.drawn(0) % 3) as usize).unwrap_or(config.cores);
        (self.hostility.set)(&mut config);
        config
    }

    fn known(&self) -> Option<&'static str> {
        let name = self.name();
        KNOWN.iter().find(|(part, _)| name.contains(part)).map(|(part, _)| *part)
    }
}

/// The case that runs, for the message of a process that is aborted.
static RUNNING: Mutex<String> = Mutex::new(String::new());

/// Panics are part of the game, except the one that ends the process.
fn quiet() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        let main = std::thread::current().name() == Some("hostile_programs_end");
        if main || text.contains("destructor") || text.contains("cannot unwind") {
            let case = RUNNING.lock().map(|case| case.clone()).unwrap_or_default();
            eprintln!("{panic}\nin the case `{case}`");
        }
    }));
}

#[test]
fn hostile_programs_end() {
    let (cases, are_drawn) = chosen();
    quiet();
    let mut references = References::default();
    let mut failed = Vec::new();
    // Cases of each that were made, and whether one has failed.
    let mut known: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    let mut faults: BTreeSet<&str> = KNOWN_FAULTS.iter().map(|(said, _)| *said).collect();
    let all = cases.len();
    for (at, case) in cases.iter().enumerate() {
        if at % 2000 == 1999 {
            eprintln!("{at} of {all} hostile programs");
        }
        let part = case.known().filter(|_| are_drawn);
        let (made, fails) = part.map_or((0, false), |part| *known.entry(part).or_default());
        if fails || made == KNOWN_CASES {
            continue;
        }
        let ended = outcome(case, &mut references);
        if let Some(part) = part {
            known.insert(part, (made + 1, ended.is_err()));
            continue;
        }
        let Err(what) = ended else { continue };
        let fault = KNOWN_FAULTS.iter().find(|(said, _)| what.contains(said));
        match fault.filter(|_| are_drawn) {
            Some((said, _)) => drop(faults.remove(said)),
            None => {
                eprintln!("{}: {what}", case.name());
                failed.push(format!("{}: {what}", case.name()));
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(failed.is_empty(), "{} of {all} cases failed:\n{}", failed.len(), failed.join("\n"));
    for (part, (made, fails)) in known {
        assert!(fails, "{made} cases of `{part}` end well: take it out of `KNOWN`");
    }
    assert!(!are_drawn || faults.is_empty(), "none says any more, of `KNOWN_FAULTS`: {faults:?}");
}

/// The cases that are to be made, in the order in which they are drawn, and whether they are all or a sample.
fn chosen() -> (Vec<Case>, bool) {
    let wanted = std::env::var("THALWEG_HOSTILE").unwrap_or_default();
    let mut cases = Case::all();
    let seed = if wanted.is_empty() { Some(0) } else { wanted.parse().ok() };
    cases.sort_by_cached_key(|case| case.drawn(seed.unwrap_or_default()));
    if seed.is_some() {
        cases.truncate(CASES);
    } else if wanted != "all" {
        cases.retain(|case| case.name().contains(&wanted));
        assert!(!cases.is_empty(), "no case's name contains `{wanted}`");
        return (cases, false);
    }
    (cases, true)
}

/// The digests of what operators give where nothing is wrong, by operator and hostility.
type References = HashMap<(&'static str, &'static str), Option<u64>>;

/// What is wrong with how a case ends.
fn outcome(case: &Case, references: &mut References) -> Result<(), String> {
    let Case { operator, hostility, .. } = *case;
    let reference = (operator.exact && hostility.is_comparable()).then(|| {
        *references.entry((operator.name, hostility.name)).or_insert_with(|| {
            let mut config = Config::default();
            config.scheduler = Scheduler::Deterministic { seed: 0 };
            config.cores = NonZeroUsize::MIN;
            in_time(case, config).ok().and_then(|ended| ended.result)
        })
    });
    in_time(case, case.config())?.judge(case, reference.flatten())
}

/// How a job ended that did.
struct Ended {
    outcome: Result<(), Error>,
    /// The digest of its result, if it has one.
    result: Option<u64>,
    /// Whether something went wrong on the way.
    sprung: bool,
}

impl Ended {
    fn judge(&self, case: &Case, reference: Option<u64>) -> Result<(), String> {
        let hostility = case.hostility;
        match &self.outcome {
            Ok(()) if self.sprung => {
                Err("ended well, although its result cannot be right".to_owned())
            }
            Ok(()) if reference.is_some() && reference != self.result => {
                Err("gave another result than it should".to_owned())
            }
            Ok(()) => Ok(()),
            Err(error) if hostility.harmless => Err(format!("failed: {error}")),
            // A type that cannot read what it has written looks like that.
            Err(_) if hostility.mood == Mood::DecodeFails => Ok(()),
            Err(error) if error.kind() == ErrorKind::Internal => Err(format!("broke: {error}")),
            Err(error) if error.kind() == ErrorKind::Cancelled => match hostility.meddling {
                Meddling::Cancel(_) => Ok(()),
                _ => Err(format!("cancelled itself: {error}")),
            },
            Err(error) => match error.operator() {
                None => Err(format!("failed without naming an operator: {error}")),
                Some(operators) if operators.split(", ").all(is_called) => Ok(()),
                Some(_) => Err(format!("names what the program has not called: {error}")),
            },
        }
    }
}

/// Whether an operator's name in a message is that of a method, with a place in this program.
fn is_called(operator: &str) -> bool {
    static METHODS: OnceLock<BTreeSet<String>> = OnceLock::new();
    let methods = METHODS.get_or_init(methods);
    operator
        .split_once(" (")
        .is_some_and(|(name, place)| methods.contains(name) && place.contains("tests/hostile/"))
}

/// Runs a case on a thread of its own, which is left behind if it hangs.
fn in_time(case: &Case, config: Config) -> Result<Ended, String> {
    *RUNNING.lock().expect("no test panics with it") = case.name();
    SPRUNG.store(false, SeqCst);
    let (done, result) = mpsc::channel();
    let case = case.clone();
    std::thread::spawn(move || {
        let ended = catch_unwind(AssertUnwindSafe(|| run(&case, config)));
        let ended = ended.unwrap_or_else(|payload| {
            // Its drop may panic too.
            std::mem::forget(payload);
            Err("unwound".to_owned())
        });
        _ = done.send(ended);
    });
    result.recv_timeout(LIMIT).unwrap_or_else(|_| Err("did not end".to_owned()))
}

fn run(case: &Case, config: Config) -> Result<Ended, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let env = Environment::with_config(config);
    let near = env.sharing();
    let numbers = near.range(0..3000).shuffle().filter(|n| n % 3 == 0).count().collect_one();
    let neighbour =
        near.start().map_err(|error| format!("the neighbour did not start: {error}"))?;
    let ended = run_hostile(case, &env, dir.path())?;
    neighbour.wait().map_err(|error| format!("the neighbour failed: {error}"))?;
    if !numbers.take().is_ok_and(|count| count == Some(1000)) {
        return Err("the neighbour gave something else".to_owned());
    }
    // As many tasks as there are threads, or more.
    let next = env.sharing();
    let count = next.range(0..1000).shuffle().count().collect_one();
    next.run().map_err(|error| format!("the next job failed: {error}"))?;
    if !count.take().is_ok_and(|count| count == Some(1000)) {
        return Err("the next job gave something else".to_owned());
    }
    Ok(ended)
}

fn run_hostile(case: &Case, env: &Environment, dir: &Path) -> Result<Ended, String> {
    let Case { operator, hostility, .. } = case;
    let source = |env: &Environment| hostility.source(env);
    let job_env = env.sharing();
    let job = Job {
        env: &job_env,
        dir,
        span: hostility.span,
        sink: hostility.sink,
        source: &source,
        ends: RefCell::default(),
    };
    (operator.build)(&job, source(&job_env));
    let ends = job.ends.into_inner();
    let outcome = match unwinding("starting it", || job_env.start())? {
        Ok(handle) => wait(hostility, handle)?,
        Err(error) => Err(error),
    };
    let sprung = SPRUNG.load(SeqCst);
    let results: Result<Vec<u64>, Error> = ends.into_iter().map(|end| end()).collect();
    let result =
        results.ok().map(|all| all.into_iter().fold(0, |all: u64, one| all.rotate_left(7) ^ one));
    if outcome.is_ok() && result.is_none() && hostility.meddling != Meddling::Forget {
        return Err("ended well without a result".to_owned());
    }
    Ok(Ended { outcome, result, sprung })
}

/// Does to the running job what is to be done to it, and waits for its end.
fn wait(hostility: &Hostility, handle: JobHandle) -> Result<Result<(), Error>, String> {
    match hostility.meddling {
        Meddling::None => {}
        Meddling::Cancel(micros) => {
            std::thread::sleep(Duration::from_micros(micros));
            handle.cancel();
        }
        Meddling::Drain(micros) => {
            std::thread::sleep(Duration::from_micros(micros));
            handle.drain();
        }
        Meddling::Forget => {
            drop(handle);
            return Ok(Ok(()));
        }
    }
    unwinding("waiting for it", || handle.wait()).map(|ended| ended.map(drop))
}

fn unwinding<R>(doing: &str, f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        std::mem::forget(payload);
        format!("{doing} unwound")
    })
}

/// Kinds of operators that the table does not have, and why.
const TESTED_APART: &[(&str, &str)] = &[
    ("print", "writes to standard output"),
    ("read", "sources of other crates, in `connector`"),
    ("write", "sinks of other crates, in `connector`"),
    ("cached", "reads what another job has kept: in the jobs that are generated"),
    ("generate", "a source that does not end"),
    ("channel", "a source: in the jobs that are generated"),
    ("parallel_iter", "a source: one of the hostilities"),
    ("range", "a source: in the jobs that are generated"),
    ("lines", "a source: in the jobs that are generated"),
    ("byte_lines", "a source: in the jobs that are generated"),
    ("parse_lines", "a source: in the jobs that are generated"),
    ("csv", "a source: in the jobs that are generated"),
    ("csv_rows", "a source: in the jobs that are generated"),
    ("json_lines", "a source: in the jobs that are generated"),
    ("dead_letters", "a source's second stream: among the fuzz targets"),
];

/// The kinds of operators that the engine's source names: `Origin::here("kind")`.
fn kinds_in(folder: &Path, kinds: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" {
                kinds_in(&path, kinds);
            }
            continue;
        }
        if !name.ends_with(".rs") || ["tests.rs", "protocol.rs"].contains(&&*name) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        // Tests have operators of their own.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let named = code.split("Origin::here(\"").skip(1);
        kinds.extend(named.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
}

/// The methods that add operators.
fn methods() -> BTreeSet<String> {
    let mut methods = BTreeSet::from(["window", "window_all"].map(String::from));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for folder in ["operators", "io"] {
        kinds_in(&source.join(folder), &mut methods);
    }
    methods
}

#[test]
fn every_operator_is_attacked() {
    let env = Environment::new();
    let dir = tempfile::tempdir().unwrap();
    let mut attacked: BTreeSet<String> = BTreeSet::new();
    for operator in operators() {
        let env = env.sharing();
        let source = |env: &Environment| CALM.source(env);
        let job = Job {
            env: &env,
            dir: dir.path(),
            span: CALM.span,
            sink: CALM.sink,
            source: &source,
            ends: RefCell::default(),
        };
        (operator.build)(&job, source(&env));
        let operators = env.plan().operators;
        attacked
            .extend(operators.into_iter().flat_map(|operator| [operator.kind, operator.method]));
    }
    let mut kinds = methods();
    assert!(kinds.len() > 80, "{kinds:?}");
    kinds.retain(|kind| !attacked.contains(kind));
    for (kind, _) in TESTED_APART {
        assert!(kinds.remove(*kind), "`{kind}` is in the table, or no operator");
    }
    assert!(kinds.is_empty(), "operators that `OPERATORS` has not: {kinds:?}");
}
