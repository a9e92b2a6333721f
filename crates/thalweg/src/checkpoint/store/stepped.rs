//! Histories of two runs of a job with one folder, whose requests are interleaved, delayed and fail as drawn from a seed.
//!
//! **What must hold**, where there is no lock:
//!
//! 1. *One line.* A checkpoint is published when [`Store::write`] returns well, or a run begins with it: then what it prepared
//!    is committed. Of two published checkpoints, one goes on from the other, whichever runs have written them.
//! 2. *The later run counts.* What a run begins to write, or to publish at its end, when another one has made its mark, fails.
//! 3. *Whole.* As long as a published checkpoint has its name, it can be read with its parts and files of spilled records, and
//!    is what one run has written.
//! 4. *Nothing is lost.* A run that begins goes on from what was published last, or from what goes on from there.
//! 5. *It goes on.* Once nothing fails any more, the next run publishes.

use super::*;
use crate::checkpoint::Shape;
use crate::checkpoint::folder::{Faulty, Memory};
use crate::checkpoint::snapshot::{Entries, StateId};
use crate::data::{Schema, hash_u64};
use crate::sync::{Condvar, join_all};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;

/// The runs that are made at the same time.
const RUNS: usize = 2;
/// How many checkpoints a run tries to write.
const TRIES: u64 = 5;
/// How many histories are tried at least.
const HISTORIES: u64 = 3000;

/// Whose turn it is to make a request.
#[derive(Default)]
struct Turns {
    state: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    seed: u64,
    steps: u64,
    whose: usize,
    asleep: [u64; RUNS],
    over: [bool; RUNS],
}

impl Turn {
    /// The next one: often the same, so that a run gets far while the other one waits.
    fn pass(&mut self) {
        self.steps += 1;
        self.asleep.iter_mut().for_each(|steps| *steps = steps.saturating_sub(1));
        let drawn = hash_u64(self.seed ^ self.steps) as usize;
        let other = (self.whose + 1) % RUNS;
        let is_ready = |run: usize| !self.over[run] && self.asleep[run] == 0;
        let is_kept = is_ready(self.whose) && !drawn.is_multiple_of(4);
        let least = (0..RUNS).filter(|run| !self.over[*run]).min_by_key(|run| self.asleep[*run]);
        self.whose = match least {
            Some(_) if is_kept => self.whose,
            Some(_) if is_ready(other) => other,
            Some(least) => least,
            None => self.whose,
        };
    }
}

impl Turns {
    fn step(&self, run: usize, delay: u64) {
        let mut turn = lock(&self.state);
        turn.asleep[run] = delay;
        turn.pass();
        self.changed.notify_all();
        drop(turn);
        self.wait(run);
    }

    fn wait(&self, run: usize) {
        let mut turn = lock(&self.state);
        while turn.whose != run {
            turn = self.changed.wait(turn).unwrap();
        }
    }

    fn leave(&self, run: usize) {
        let mut turn = lock(&self.state);
        turn.over[run] = true;
        turn.pass();
        self.changed.notify_all();
    }
}

/// What a run has tried to write.
struct Tried {
    run: usize,
    /// The number of the one that it goes on from, in this list.
    parent: Option<usize>,
    number: u64,
    /// All of it, with its parts.
    snapshot: Snapshot,
    files: Vec<(String, u64)>,
    is_published: bool,
}

/// One history.
struct History {
    memory: Arc<dyn Folder>,
    seed: u64,
    turns: Turns,
    tried: Mutex<Vec<Tried>>,
    /// The number of runs that have begun.
    begun: AtomicU64,
}

fn id(name: &str) -> StateId {
    StateId { operator: "count".to_owned(), name: name.to_owned() }
}

/// What one host saves: a number that no other snapshot has, and files of spilled records.
fn saved(number: u64, files: &[(String, u64)]) -> Snapshot {
    let shape = || Shape { entries: Schema::U64, operator: String::new(), by_key: false };
    let mut entries = Entries::default();
    entries.add(0, |out| number.encode(out));
    let files = files.iter().map(|(name, bytes)| FileEntry::of(name, *bytes)).collect();
    let mut snapshot = Snapshot::default();
    snapshot.add(&id("table"), &shape(), entries, Vec::new());
    snapshot.add(&id("spilled"), &shape(), Entries::default(), files);
    snapshot
}

/// The bytes of a file of spilled records.
fn content(name: &str, from: u64, to: u64) -> Vec<u8> {
    (from..to).map(|at| hash_u64(hash_bytes(name.as_bytes()) ^ at) as u8).collect()
}

impl History {
    fn new(seed: u64) -> Self {
        let turns = Turns::default();
        let seed = hash_u64(seed);
        (lock(&turns.state).seed, lock(&turns.state).whose) = (seed, seed as usize % RUNS);
        let (memory, tried) = (Arc::new(Memory::default()), Mutex::default());
        Self { memory, seed, turns, tried, begun: AtomicU64::new(0) }
    }

    /// Makes the runs at the same time, and then one more, of whose requests none fails. Returns how many checkpoints were
    /// published, and whether both runs have.
    fn play(self) -> (u64, u64) {
        let history = Arc::new(self);
        let play = |run: usize| {
            let history = Arc::clone(&history);
            let body = move || {
                history.turns.wait(run);
                let played = catch_unwind(AssertUnwindSafe(|| history.make_runs(run)));
                history.turns.leave(run);
                played.unwrap_or_else(|panic| resume_unwind(panic));
            };
            Box::new(body) as Box<dyn FnOnce() + Send>
        };
        let played = join_all((0..RUNS).map(play).collect());
        played.into_iter().for_each(|run| run.unwrap_or_else(|panic| resume_unwind(panic)));
        history.check_whole();
        let memory = Arc::clone(&history.memory);
        let (store, begun) = history.begin(&memory).expect("nothing fails any more");
        let tried = lock(&history.tried);
        for (at, published) in tried.iter().enumerate().filter(|(_, tried)| tried.is_published) {
            let number = published.number;
            assert!(is_line(&tried, begun, at), "checkpoint {number} was published, and is lost");
        }
        drop(tried);
        history.take((RUNS, &memory), &store, begun, 1);
        history.check_whole();
        let tried = lock(&history.tried);
        assert!(tried.last().unwrap().is_published, "it does not go on");
        let by = |run: usize| {
            tried.iter().filter(|tried| tried.is_published && tried.run == run).count() as u64
        };
        (by(0) + by(1), u64::from(by(0) > 0 && by(1) > 0))
    }

    /// A run, which is made again where it could not begin.
    fn make_runs(self: &Arc<Self>, run: usize) {
        let drawn = hash_u64(self.seed + run as u64);
        // None of some runs fail, those of others often do.
        let rate = [0, 4, 16, 48][drawn as usize % 4];
        // Often one of them has published before the other begins.
        self.turns.step(run, (drawn >> 32) % 150);
        let history = Arc::clone(self);
        let faulty = Faulty::around(Arc::clone(&self.memory), drawn, rate, 40)
            .delayed(move |steps| history.turns.step(run, steps));
        let folder = Arc::new(faulty) as Arc<dyn Folder>;
        for _ in 0..4 {
            if let Ok((store, begun)) = self.begin(&folder) {
                return self.take((run, &folder), &store, begun, TRIES);
            }
        }
    }

    /// Begins a run; returns the checkpoint that it goes on from.
    fn begin(&self, folder: &Arc<dyn Folder>) -> Result<(Store, Option<usize>)> {
        let store = Store::open_first(folder)?;
        let begun = store.newest()?.map(|stored| {
            let tried = lock(&self.tried);
            let is_it = |tried: &Tried| tried.snapshot == stored.snapshot;
            tried.iter().position(is_it).expect("what it begins with was written by a run")
        });
        // What it has prepared is committed then.
        begun.into_iter().for_each(|begun| self.publish(begun));
        Ok((store, begun))
    }

    /// Takes checkpoints, as jobs do, and ends.
    fn take(
        &self,
        (run, folder): (usize, &Arc<dyn Folder>),
        store: &Store,
        begun: Option<usize>,
        tries: u64,
    ) {
        let (mut parent, mut number, mut files) = (begun, 0, Vec::new());
        if let Some(begun) = begun {
            let tried = &lock(&self.tried)[begun];
            (number, files) = (tried.number, tried.files.clone());
        }
        number = store.number_after(number);
        let own = format!("spilled-{}-0.records", self.begun.fetch_add(1, Ordering::Relaxed));
        let (mut copied, mut has_begun) = (0, false);
        let other = Store::join(folder);
        if other.check_proof(&store.proof().unwrap()).is_err() {
            return;
        }
        for _ in 0..tries {
            number += 1;
            let grown = copied + 10;
            let added = content(&own, copied, grown);
            if folder.append(&own, copied, &mut has_begun, &mut &*added).is_err() {
                continue;
            }
            copied = grown;
            files.retain(|(name, _)| *name != own);
            if files.len() > 2 {
                files.remove(0);
            }
            files.push((own.clone(), copied));
            let unique = lock(&self.tried).len() as u64;
            let (first, second) = (saved(2 * unique, &files), saved(2 * unique + 1, &[]));
            let mut snapshot = first.clone();
            snapshot.append(second.clone());
            let files = files.clone();
            let is_published = false;
            lock(&self.tried).push(Tried { run, parent, number, snapshot, files, is_published });
            // A job does not go back, whether or not the checkpoint counts.
            parent = Some(unique as usize);
            let Ok(part) = other.write_part(HostId(1), &second) else { continue };
            let is_over = self.is_superseded(store);
            match store.write(number, &first, vec![part.clone()]) {
                Ok(()) => {
                    assert!(!is_over, "checkpoint {number} is published by a superseded run");
                    self.publish(unique as usize);
                }
                Err(error) if error.kind() == ErrorKind::Config => return,
                Err(_) if store.lacks(number) => store.remove_parts(vec![part]),
                Err(_) => {}
            }
        }
        let is_over = self.is_superseded(store);
        assert!(store.may_publish().is_err() || !is_over, "a superseded run publishes at its end");
    }

    /// Whether another run has made its mark.
    fn is_superseded(&self, store: &Store) -> bool {
        store.mark.as_ref().unwrap().look(&*self.memory).unwrap().is_some()
    }

    fn publish(&self, at: usize) {
        let mut tried = lock(&self.tried);
        tried[at].is_published = true;
        let others = tried.iter().enumerate().filter(|(_, tried)| tried.is_published);
        for (other, published) in others {
            let numbers = (published.number, tried[at].number);
            let is_line = is_line(&tried, Some(at), other) || is_line(&tried, Some(other), at);
            assert!(is_line, "two runs have published: checkpoints {numbers:?} are of two lines");
        }
        drop(tried);
        self.check_whole();
    }

    /// Checks all published checkpoints that are there.
    fn check_whole(&self) {
        let tried = lock(&self.tried);
        for published in tried.iter().filter(|tried| tried.is_published) {
            let Tried { number, snapshot, files, .. } = published;
            let name = Store::name_of(*number);
            if self.memory.look_at(&name).unwrap().is_none() {
                continue;
            }
            match Store::read_file(&*self.memory, &name) {
                Ok(found) => assert!(found == *snapshot, "checkpoint {number} is another"),
                Err(error) => panic!("checkpoint {number} was published: {error}"),
            }
            for (name, bytes) in files {
                let found = self.memory.read(name).unwrap();
                assert!(found.starts_with(&content(name, 0, *bytes)), "{name} is another");
            }
        }
    }
}

/// Whether the first goes on from the second, or is it.
fn is_line(tried: &[Tried], first: Option<usize>, second: usize) -> bool {
    std::iter::successors(first, |at| tried[*at].parent).any(|at| at == second)
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().expect("a whole number"))
}

#[test]
fn runs_with_one_folder_publish_one_line_of_checkpoints_whatever_fails() {
    let histories = variable("THALWEG_CHECK_SEEDS").unwrap_or_default().max(HISTORIES);
    let only = variable("THALWEG_CHECK");
    let from = variable("THALWEG_CHECK_FROM").unwrap_or_default();
    let (mut published, mut of_two) = (0, 0);
    for seed in only.map_or(from..from + histories, |only| only..only + 1) {
        let history = History::new(seed);
        let tried = catch_unwind(AssertUnwindSafe(|| history.play()));
        let counted = tried.unwrap_or_else(|panic| {
            eprintln!("THALWEG_CHECK={seed} makes this history alone");
            resume_unwind(panic)
        });
        published += counted.0;
        of_two += counted.1;
    }
    let are_many = published > histories && of_two > histories / 8;
    assert!(only.is_some() || are_many, "{published} were published, in {of_two} by both runs");
}

/// The test finds it, with a history that repeats it.
#[test]
fn a_run_that_looks_at_no_marks_is_found() {
    let name = "runs_with_one_folder_publish_one_line_of_checkpoints_whatever_fails";
    let run = |variables: &[(&str, &str)]| {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", &format!("checkpoint::store::stepped::{name}"), "--nocapture"]);
        test.envs(variables.iter().copied()).output().unwrap()
    };
    let planted = ("THALWEG_FAULT", "LooksAtNoMarks");
    let found = run(&[planted]);
    let said = String::from_utf8_lossy(&found.stderr);
    assert!(!found.status.success(), "it is not found");
    let seed = said.split("THALWEG_CHECK=").nth(1).and_then(|rest| rest.split(' ').next());
    let only = ("THALWEG_CHECK", seed.unwrap_or_else(|| panic!("{said}")));
    assert!(!run(&[planted, only]).status.success(), "{only:?} does not repeat it");
    assert!(run(&[only]).status.success(), "{only:?} fails without it too");
}
