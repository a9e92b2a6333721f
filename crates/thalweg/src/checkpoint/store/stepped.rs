//! Histories of runs of a job with one folder, whose requests are interleaved, delayed and fail as drawn from a seed.
//!
//! **What must hold**, where there is no lock:
//!
//! 1. *One line.* A checkpoint is published when [`Store::write`] returns well, or a run begins with it: then what it prepared
//!    is committed. Of two published checkpoints, one goes on from the other, whichever runs have written them.
//! 2. *The later run counts.* What a run begins to write, or to publish at its end, when another one has made its mark, fails.
//! 3. *Whole.* As long as a checkpoint that counts has its name, and was published, it can be read with its parts and files of spilled
//!    records, and is what one run has written.
//! 4. *Nothing is lost.* A run that begins goes on from what was published last, or from what goes on from there. What sinks have
//!    prepared and the run does not know, it throws away: so no later run begins with that.
//! 5. *It ends once.* When the job has ended well, the next run begins anew, and with nothing that an earlier one has written.
//! 6. *It goes on.* Once nothing fails any more, the next run publishes, and has removed what others have left.

use super::*;
use crate::check::seeds;
use crate::checkpoint::Shape;
use crate::checkpoint::folder::{Faulty, Memory};
use crate::checkpoint::snapshot::{Entries, StateId};
use crate::data::{Schema, hash_bytes, hash_u64};
use crate::sync::{Condvar, join_all};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;

/// The runs that are made at the same time.
const RUNS: usize = 4;
/// How many checkpoints a run tries to write at most.
const TRIES: u64 = 5;
/// How many histories are tried, unless there are more seeds: see [`seeds`].
const HISTORIES: u64 = 800;

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
        let is_ready = |run: usize| !self.over[run] && self.asleep[run] == 0;
        let is_kept = is_ready(self.whose) && !drawn.is_multiple_of(4);
        let least = (0..RUNS).filter(|run| !self.over[*run]).min_by_key(|run| self.asleep[*run]);
        let ready: Vec<_> = (0..RUNS).filter(|run| is_ready(*run)).collect();
        self.whose = match (least, ready.len()) {
            (Some(_), _) if is_kept => self.whose,
            (Some(least), 0) => least,
            (Some(_), ready_runs) => ready[(drawn >> 8) % ready_runs],
            (None, _) => self.whose,
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
    /// What sinks have prepared up to it was thrown away.
    is_swept: bool,
    /// How often the job had begun anew before.
    job: u64,
}

/// What a run has begun with.
struct Begun {
    store: Store,
    at: Option<usize>,
    job: u64,
    /// What its other host goes on from.
    point: RestorePoint,
}

/// One history.
struct History {
    memory: Arc<dyn Folder>,
    seed: u64,
    turns: Turns,
    tried: Mutex<Vec<Tried>>,
    /// Those with which runs have ended well.
    ended: Mutex<Vec<usize>>,
    /// How often the job has begun anew after that.
    jobs: AtomicU64,
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
        let (memory, tried, ended) =
            (Arc::new(Memory::default()), Mutex::default(), Mutex::default());
        let (jobs, begun) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { memory, seed, turns, tried, ended, jobs, begun }
    }

    /// Makes the runs at the same time, and then one more, of whose requests none fails. Returns how many checkpoints were
    /// published, and whether more than one run has.
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
        let begun = history.begin(&memory).expect("nothing fails any more");
        let tried = lock(&history.tried);
        for number in Store::all_numbers(&names(&*memory).unwrap()) {
            let at = tried.iter().position(|tried| tried.number == number).expect("a run wrote it");
            assert!(is_line(&tried, begun.at, at), "checkpoint {number} was late, and is left");
        }
        drop(tried);
        history.take((RUNS, &memory), &begun, 1, false);
        history.check_whole();
        let tried = lock(&history.tried);
        assert!(tried.last().unwrap().is_published, "it does not go on");
        let published: Vec<_> = tried.iter().filter(|tried| tried.is_published).collect();
        let runs: BTreeSet<_> = published.iter().map(|tried| tried.run).collect();
        (published.len() as u64 - 1, u64::from(runs.len() > 2))
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
            if let Ok(begun) = self.begin(&folder) {
                // It is killed after some, or ends well.
                let (tries, ends) = ((drawn >> 8) % (TRIES + 1), (drawn >> 16).is_multiple_of(3));
                return self.take((run, &folder), &begun, tries, ends);
            }
        }
    }

    /// Begins a run, with what sinks do.
    fn begin(&self, folder: &Arc<dyn Folder>) -> Result<Begun> {
        let store = Store::open_first(folder)?;
        let found = store.begin()?;
        let point = store.restore_point(found.as_ref()).unwrap();
        let mut tried = lock(&self.tried);
        let at = found.map(|stored| {
            let is_it = |tried: &Tried| tried.snapshot == stored.snapshot;
            tried.iter().position(is_it).expect("what it begins with was written by a run")
        });
        let mut job = self.jobs.load(Ordering::Relaxed);
        let before = store.number_after(0);
        let ended = lock(&self.ended);
        let goes_on_from = |other: usize| match at {
            Some(at) => is_line(&tried, Some(at), other),
            None => ended.iter().any(|end| is_line(&tried, Some(*end), other)),
        };
        // What later runs do, if this one was held up, is theirs.
        let is_before = |tried: &Tried| tried.number <= before;
        for (other, tried) in tried.iter().enumerate().filter(|(_, tried)| is_before(tried)) {
            let is_known = !tried.is_published || tried.job != job || goes_on_from(other);
            assert!(is_known, "checkpoint {} was published, and is lost", tried.number);
        }
        let line = std::iter::successors(at, |at| tried[*at].parent);
        for Tried { number, is_published, is_swept, .. } in line.map(|at| &tried[at]) {
            assert!(*is_published || !is_swept, "what {number} has prepared was thrown away");
        }
        let is_superseded = self.is_superseded(&store);
        let is_anew =
            at.is_none() && !is_superseded && tried.iter().any(|t| t.is_published && t.job == job);
        let is_ended = at.is_some_and(|at| tried[at].job != job);
        assert!(is_superseded || !is_ended, "a job that has ended goes on");
        let swept = |other: &usize| at.is_none_or(|at| !is_line(&tried, Some(at), *other));
        let swept: Vec<_> =
            (0..tried.len()).filter(swept).filter(|other| is_before(&tried[*other])).collect();
        drop(ended);
        swept.into_iter().for_each(|other| tried[other].is_swept = true);
        drop(tried);
        if is_anew {
            job = self.jobs.fetch_add(1, Ordering::Relaxed) + 1;
        }
        // What it has prepared is committed then.
        at.into_iter().filter(|_| !is_ended).for_each(|at| self.publish(at));
        Ok(Begun { store, at, job, point })
    }

    /// Takes checkpoints, as jobs do, and ends.
    fn take(
        &self,
        (run, folder): (usize, &Arc<dyn Folder>),
        Begun { store, at, job, point }: &Begun,
        tries: u64,
        ends: bool,
    ) {
        let (mut parent, mut files, job) = (*at, Vec::new(), *job);
        if let Some(begun) = at {
            files = lock(&self.tried)[*begun].files.clone();
        }
        let mut number = store.number_after(0);
        let own = format!("spilled-{}-0.records", self.begun.fetch_add(1, Ordering::Relaxed));
        let (mut copied, mut has_begun) = (0, false);
        let other = Store::join(folder);
        // Requests fail.
        let mut restored = (0..10).map(|_| other.restore(point));
        let Some(restored) = restored.find_map(Result::ok) else { return };
        let begun = at.map(|at| lock(&self.tried)[at].snapshot.clone());
        assert!(restored == begun, "another host goes on from another checkpoint");
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
            let (is_published, is_swept) = (false, false);
            let tried = Tried { run, parent, number, snapshot, files, is_published, is_swept, job };
            lock(&self.tried).push(tried);
            // A job does not go back, whether or not the checkpoint counts.
            parent = Some(unique as usize);
            let Ok(part) = other.write_part(HostId(1), &second) else { continue };
            let is_over = self.is_superseded(store);
            match store.write(number, &first, vec![part.clone()]) {
                Ok(_) => {
                    assert!(!is_over, "checkpoint {number} is published by a superseded run");
                    self.publish(unique as usize);
                }
                Err(error) if error.kind() == ErrorKind::Config => return,
                Err(_) if store.lacks(number) => store.remove_parts(vec![part]),
                Err(_) => {}
            }
        }
        let is_over = self.is_superseded(store);
        let may_publish = store.may_publish().is_ok();
        assert!(!may_publish || !is_over, "a superseded run publishes at its end");
        let last =
            parent.filter(|last| ends && may_publish && lock(&self.tried)[*last].is_published);
        if let Some(last) = last {
            // A later run goes on from it.
            if !self.is_superseded(store) {
                lock(&self.ended).push(last);
            }
            // Where it fails, the next run may go on from the last one.
            let _ = store.clear();
        }
    }

    /// Whether another run has made its mark.
    fn is_superseded(&self, store: &Store) -> bool {
        store.mark.as_ref().unwrap().look(&*self.memory).unwrap().is_some()
    }

    fn publish(&self, at: usize) {
        let mut tried = lock(&self.tried);
        let job = tried[at].job;
        if job != self.jobs.load(Ordering::Relaxed) {
            // It was held up between its last look and its answer.
            assert!(
                tried[at].is_published,
                "a run of an earlier job publishes what no other has seen"
            );
            return;
        }
        tried[at].is_published = true;
        let of_job = |tried: &Tried| tried.is_published && tried.job == job;
        let others = tried.iter().enumerate().filter(|(_, tried)| of_job(tried));
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
        let counted = Store::numbers(&*self.memory).unwrap();
        let is_there = |tried: &&Tried| tried.is_published && counted.contains(&tried.number);
        for Tried { number, snapshot, files, .. } in tried.iter().filter(is_there) {
            let name = Store::name_of(*number);
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
    let histories = seeds(HISTORIES);
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
    assert!(only.is_some() || are_many, "{published} were published, in {of_two} by several runs");
}

/// The test finds them, with a history that repeats it.
#[test]
fn runs_that_do_not_know_of_each_other_are_found() {
    let name = "runs_with_one_folder_publish_one_line_of_checkpoints_whatever_fails";
    let run = |variables: &[(&str, &str)]| {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", &format!("checkpoint::store::stepped::{name}"), "--nocapture"]);
        test.envs(variables.iter().copied()).output().unwrap()
    };
    for fault in ["LooksAtNoMarks", "SaysNotWhatItBeginsWith"] {
        let planted = ("THALWEG_FAULT", fault);
        // Four times as many histories, of which the first ones find it.
        let found = run(&[planted, ("THALWEG_CHECK_SEEDS", "32")]);
        let said = String::from_utf8_lossy(&found.stderr);
        assert!(!found.status.success(), "{fault} is not found");
        let seed = said.split("THALWEG_CHECK=").nth(1).and_then(|rest| rest.split(' ').next());
        let only = ("THALWEG_CHECK", seed.unwrap_or_else(|| panic!("{said}")));
        assert!(!run(&[planted, only]).status.success(), "{only:?} does not repeat it");
        assert!(run(&[only]).status.success(), "{only:?} fails without it too");
    }
}
