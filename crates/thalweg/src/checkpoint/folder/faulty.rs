//! A folder whose requests fail, as drawn from a seed: for tests of stores, and of jobs ([`check`](crate)).
//!
//! A request is done; or it is refused before it acts; or it acts and its answer is lost; or it acts in part, where bytes are
//! added. It may be delayed before. There is a bound on the number of failures, so that what repeats them ends. Where time is
//! simulated, a folder may be slow ([`Faulty::slowed`]): a job goes on while a checkpoint is written.
//!
//! As in an object store, there is no lock, unless it [is kept](Faulty::with_lock): runs know each other by their marks alone.

use super::{Folder, Found, Original, TEMPORARY};
use crate::data::hash_u64;
use crate::error::{Error, Result};
use crate::state::SpillCopies;
use crate::sync::{Mutex, lock};
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What failures say.
pub(crate) const INJECTED: &str = "a failure of the storage that this test has drawn";
/// The longest delay, in steps, but for a few.
const LONGEST: u64 = 60;

/// A folder around another one.
pub(crate) struct Faulty {
    inner: Arc<dyn Folder>,
    drawn: Mutex<Drawn>,
    /// Of 256 requests, how many fail.
    rate: u64,
    /// Whether removals may be among them.
    removals: bool,
    /// Called before each request, with a number of steps for which it is delayed.
    delay: Box<dyn Fn(u64) + Send + Sync>,
    /// Lets so many steps pass, if the folder is slow.
    slow: Option<Box<dyn Fn(u64) + Send + Sync>>,
    /// Whether it is locked as the one within.
    has_lock: bool,
}

/// What is drawn.
struct Drawn {
    seed: u64,
    requests: u64,
    /// How many failures there may still be.
    failures: u64,
}

/// What becomes of a request.
#[derive(Clone, Copy)]
enum Fate {
    Done,
    Refused,
    AnswerLost,
    /// So many of 16 parts of its bytes are written.
    Torn(u64),
}

impl Faulty {
    /// Of 256 requests `rate` fail, until there were so many `failures`.
    pub(crate) fn around(inner: Arc<dyn Folder>, seed: u64, rate: u64, failures: u64) -> Self {
        let drawn = Mutex::new(Drawn { seed: hash_u64(seed), requests: 0, failures });
        let (removals, slow, has_lock) = (true, None, false);
        Self { inner, drawn, rate, removals, delay: Box::new(|_| ()), slow, has_lock }
    }

    /// With the lock of the folder within.
    pub(crate) fn with_lock(self) -> Self {
        Self { has_lock: true, ..self }
    }

    /// Calls `pass` with a number of steps in about half of the places in which time [may pass](Folder::pass_time).
    pub(crate) fn slowed(self, pass: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self { slow: Some(Box::new(pass)), ..self }
    }

    /// How many failures there may still be.
    pub(crate) fn failures_left(&self) -> u64 {
        lock(&self.drawn).failures
    }

    /// From now on, there may be so many failures.
    #[cfg(test)]
    pub(crate) fn may_fail(&self, failures: u64) {
        lock(&self.drawn).failures = failures;
    }

    /// Without failures of removals, of which most are not tried again.
    #[cfg(test)]
    pub(crate) fn but_removals(self) -> Self {
        Self { removals: false, ..self }
    }

    /// Calls `delay` before each request.
    #[cfg(test)]
    pub(in crate::checkpoint) fn delayed(
        self,
        delay: impl Fn(u64) + Send + Sync + 'static,
    ) -> Self {
        Self { delay: Box::new(delay), ..self }
    }

    fn draw(&self) -> Fate {
        let mut drawn = lock(&self.drawn);
        drawn.requests += 1;
        let [fails, how, part, waits, steps, ..] =
            hash_u64(drawn.seed ^ drawn.requests).to_le_bytes().map(u64::from);
        let fails = fails < self.rate && drawn.failures > 0;
        drawn.failures -= u64::from(fails);
        drop(drawn);
        let long = if steps < 16 { 8 } else { 1 };
        (self.delay)(if waits < 8 { long * (1 + steps % LONGEST) } else { 0 });
        match (fails, how % 3) {
            (false, _) => Fate::Done,
            (true, 0) => Fate::Refused,
            (true, 1) => Fate::AnswerLost,
            (true, _) => Fate::Torn(part % 16),
        }
    }

    /// A request that acts as a whole.
    fn request<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.draw() {
            Fate::Done => act(),
            Fate::Refused | Fate::Torn(_) => Err(failure()),
            Fate::AnswerLost => act().and_then(|_| Err(failure())),
        }
    }

    /// Leaves what a process leaves that was ended while it created a name.
    fn tear(&self, pieces: &[&[u8]], parts: u64) {
        let requests = lock(&self.drawn).requests;
        let whole = pieces.concat();
        let torn = &whole[..whole.len() * parts as usize / 16];
        let _ = self.inner.create(&format!("{TEMPORARY}-torn-{requests}"), &[torn], &mut || true);
    }
}

fn failure() -> io::Error {
    io::Error::other(INJECTED)
}

impl Debug for Faulty {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faulty").field(&self.inner).finish()
    }
}

impl SpillCopies for Faulty {
    fn append(&self, name: &str, at: u64, begun: &mut bool, source: &mut dyn Read) -> Result<u64> {
        let fate = self.draw();
        if !matches!(fate, Fate::Refused) {
            let mut bytes = Vec::new();
            let read = source.read_to_end(&mut bytes);
            read.map_err(|cause| Error::io(self.path(), "read spilled records", cause))?;
            let parts = if let Fate::Torn(parts) = fate { parts as usize } else { 16 };
            let written = &bytes[..bytes.len() * parts / 16];
            let added = self.inner.append(name, at, begun, &mut &*written);
            if matches!(fate, Fate::Done) {
                return added;
            }
        }
        let what = "copy spilled records into a checkpoint";
        Err(Error::io(&self.path().join(name), what, failure()))
    }
}

impl Folder for Faulty {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn lock(&self) -> Result<Option<File>> {
        if self.has_lock { self.inner.lock() } else { Ok(None) }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.request(|| self.inner.names())
    }

    fn look_at(&self, name: &str) -> io::Result<Option<Found>> {
        self.request(|| self.inner.look_at(name))
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.request(|| self.inner.read(name))
    }

    /// The look of `is_due` is made before the request.
    fn create(
        &self,
        name: &str,
        pieces: &[&[u8]],
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        if !is_due() {
            return Ok(false);
        }
        match self.draw() {
            Fate::Done => self.inner.create(name, pieces, &mut || true),
            Fate::Refused => Err(failure()),
            Fate::AnswerLost => {
                self.inner.create(name, pieces, &mut || true).and_then(|_| Err(failure()))
            }
            Fate::Torn(parts) => {
                self.tear(pieces, parts);
                Err(failure())
            }
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.removals {
            true => self.request(|| self.inner.remove(name)),
            false => self.inner.remove(name),
        }
    }

    fn rename(&self, name: &str, to: &str) -> io::Result<()> {
        self.request(|| self.inner.rename(name, to))
    }

    fn leftovers(&self) -> io::Result<Vec<String>> {
        self.request(|| self.inner.leftovers())
    }

    fn tidy(&self, leftovers: &[String]) -> io::Result<()> {
        self.request(|| self.inner.tidy(leftovers))
    }

    fn local(&self, name: &str, bytes: u64) -> Result<PathBuf> {
        let fetched = self.request(|| Ok(self.inner.local(name, bytes)));
        let what = "fetch spilled records of the checkpoint";
        fetched.map_err(|cause| Error::io(&self.path().join(name), what, cause))?
    }

    fn release(&self, name: &str) {
        self.inner.release(name);
    }

    fn open(&self, name: &str) -> io::Result<Original> {
        self.request(|| self.inner.open(name))
    }

    fn copy_in(
        &self,
        name: &str,
        original: Original,
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        self.request(|| self.inner.copy_in(name, original, is_due))
    }

    fn sync(&self) {
        self.inner.sync();
    }

    fn pass_time(&self) {
        let Some(pass) = &self.slow else { return };
        let mut drawn = lock(&self.drawn);
        drawn.requests += 1;
        let [waits, steps, long, ..] =
            hash_u64(drawn.seed ^ drawn.requests).to_le_bytes().map(u64::from);
        drop(drawn);
        if waits < 128 {
            pass((1 + steps % LONGEST) * if long < 32 { 8 } else { 1 });
        }
    }

    #[cfg(test)]
    fn replace(&self, name: &str, bytes: &[u8]) {
        self.inner.replace(name, bytes);
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::Memory;
    use super::*;

    #[test]
    fn requests_fail_in_every_way_and_in_the_end_in_none() {
        let memory: Arc<dyn Folder> = Arc::new(Memory::default());
        let faulty = Faulty::around(Arc::clone(&memory), 1, 128, 100);
        let (mut refused, mut lost, mut torn) = (0, 0, 0);
        let mut number = 0;
        while faulty.failures_left() > 0 {
            number += 1;
            let (name, before) = (format!("a-{number}"), memory.names().unwrap().len());
            let created = faulty.create(&name, &[b"one", b"two"], &mut || true);
            let is_there = memory.look_at(&name).unwrap().is_some();
            match (created, is_there) {
                (Ok(created), is_there) => assert!(created && is_there),
                (Err(_), true) => lost += 1,
                (Err(_), false) if memory.names().unwrap().len() > before => torn += 1,
                (Err(_), false) => refused += 1,
            }
        }
        assert!(refused > 10 && lost > 10 && torn > 10, "{refused}, {lost}, {torn}");
        assert!((0..100).all(|_| faulty.names().is_ok()));
        faulty.tidy(&faulty.leftovers().unwrap()).unwrap();
        assert!(faulty.names().unwrap().iter().all(|name| name.starts_with("a-")));
    }

    #[test]
    fn a_file_that_grows_may_end_within_what_was_added() {
        let ends = |seed: u64| {
            let memory: Arc<dyn Folder> = Arc::new(Memory::default());
            let faulty = Faulty::around(Arc::clone(&memory), seed, 256, 1);
            let (mut begun, name) = (false, "spilled-a-0.records");
            faulty.append(name, 0, &mut begun, &mut &[1; 32][..]).unwrap_err();
            let end = memory.look_at(name).unwrap().map_or(0, |(bytes, _)| bytes);
            assert_eq!(faulty.append(name, 0, &mut begun, &mut &[1; 32][..]).unwrap(), 32);
            end
        };
        let ends: std::collections::BTreeSet<_> = (0..64).map(ends).collect();
        assert!(ends.len() > 4 && ends.contains(&32), "{ends:?}");
    }
}
