//! A prefix of an object store, in place of a directory.
//!
//! | object | what it is |
//! |---|---|
//! | `NAME` | a checkpoint, a part of one, or a mark; or, of one above [`WHOLE`] bytes, where its content is |
//! | `NAME.content/TOKEN/START-END` | these bytes of the content of `NAME`, which names the token |
//! | `spilled-….records/START-END` | these bytes of a file of spilled records |
//!
//! **Names are created by a conditional put**, which fails where there is an object of that name (`If-None-Match: *` on S3). That
//! needs the content in one request, so what is larger is put before it, in objects of [`SEGMENT`] bytes whose names no other
//! process has, several at a time; the name is then created with their token. A multipart upload would be no help: the client has
//! no conditional one, and what a killed process leaves of it shows in no list.
//!
//! **An answer may be lost.** The next try then finds that there is such an object. It is read and compared: all names are
//! created with bytes of their own (a mark's token, a checkpoint's clock, the token of a content), so equal bytes are ours.
//!
//! **All other objects never change**: one with the same name has the same bytes, so that a put can be repeated, also by a request
//! that arrives late. Segments of a file of spilled records may overlap, where an attempt to write a checkpoint has failed; the
//! records of an operator's file never change, so it does not matter which of them is read.
//!
//! Requests run on a thread of the folder's own, and the threads that wait for them are those that take checkpoints or begin
//! jobs. A request is repeated for [`PATIENCE`]; then its checkpoint fails.
#![expect(clippy::disallowed_methods, reason = "a door by which checkpoints reach files")]

use super::{Folder, Found, Original, unique};
use crate::checkpoint::files::is_spilled;
use crate::checkpoint::store::is_name;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::state::{SpillCopies, SpillDir};
use crate::sync::{Mutex, lock};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ObjectStore, ObjectStoreExt as _, ObjectStoreScheme, PutMode, PutPayload,
    RetryConfig,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::runtime::Runtime;
use url::Url;

/// The most bytes of a content that is put with its name.
const WHOLE: usize = SEGMENT;
/// The bytes of a segment. One that takes longer than half a minute, the time for a request, is given up.
const SEGMENT: usize = 8 << 20;
/// How many requests are under way at a time for one content, and so how many segments are in memory.
const AT_ONCE: usize = 8;
/// How long a request is repeated that fails.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause before the first repetition, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// What an object begins with whose content is elsewhere; a token and the length follow.
const ELSEWHERE: &str = "thalweg content ";
/// What is behind a name in the names of its content.
const CONTENT: &str = ".content";

/// A prefix of an object store.
#[derive(Debug)]
pub(super) struct Objects {
    /// The address, without a slash at its end.
    url: PathBuf,
    store: Arc<dyn ObjectStore>,
    prefix: Key,
    /// Taken when this is dropped.
    runtime: Option<Runtime>,
    /// Where files of spilled records are while they are read.
    stage: SpillDir,
    /// The lengths of those that are there.
    staged: Mutex<BTreeMap<String, u64>>,
}

/// An object with the bytes from a place to another of what it is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    key: Key,
    start: u64,
    end: u64,
}

/// What is under a key.
struct Listed {
    /// The objects directly under it, with their lengths.
    objects: Vec<(Key, u64)>,
    /// The names that have objects under them.
    folders: Vec<String>,
}

/// A request that is under way.
struct Pending<T>(Receiver<object_store::Result<T>>);

impl<T> Pending<T> {
    fn wait(self) -> io::Result<T> {
        match self.0.recv() {
            Ok(answer) => answer.map_err(failure),
            Err(_) => Err(io::Error::other("the client of the object store has failed")),
        }
    }
}

/// What the client says of a request that it has given up.
fn failure(error: object_store::Error) -> io::Error {
    use object_store::Error as Cause;
    let kind = match error {
        Cause::NotFound { .. } => io::ErrorKind::NotFound,
        Cause::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

impl Objects {
    /// Prepares to use a store; no request is made.
    pub(super) fn open(url: &Path, stage: &Path) -> Result<Self> {
        let refuse =
            |what: String| Error::new(ErrorKind::Config, what).at(Place::File(url.to_owned()));
        let text = url.to_str().unwrap_or_default();
        let bad = |why: &dyn std::fmt::Display| {
            refuse(format!(
                "this is no address of checkpoints in an object store, as in s3://BUCKET/PREFIX: {why}"
            ))
        };
        let parsed = Url::parse(text).map_err(|error| bad(&error))?;
        if parsed.query().is_some() || parsed.fragment().is_some() || parsed.password().is_some() {
            return Err(bad(&"settings are read from the environment alone"));
        }
        let (scheme, prefix) = ObjectStoreScheme::parse(&parsed).map_err(|error| bad(&error))?;
        // The client has no provider of its own. Another one that the program has chosen is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (first, longest) = PAUSES;
        let backoff = BackoffConfig { init_backoff: first, max_backoff: longest, base: 2.0 };
        let retry = RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: PATIENCE };
        let built = match scheme {
            ObjectStoreScheme::AmazonS3 => AmazonS3Builder::from_env()
                .with_url(text)
                .with_retry(retry)
                .build()
                .map(|store| Arc::new(store) as Arc<dyn ObjectStore>),
            ObjectStoreScheme::GoogleCloudStorage => GoogleCloudStorageBuilder::from_env()
                .with_url(text)
                .with_retry(retry)
                .build()
                .map(|store| Arc::new(store) as _),
            ObjectStoreScheme::MicrosoftAzure => MicrosoftAzureBuilder::from_env()
                .with_url(text)
                .with_retry(retry)
                .build()
                .map(|store| Arc::new(store) as _),
            _ => return Err(bad(&"checkpoints can be in S3, Google Cloud Storage and Azure")),
        };
        let store = built.map_err(|error| {
            refuse("cannot use the object store with the settings of the environment".to_owned())
                .caused_by(error)
        })?;
        let url = Path::new(text.trim_end_matches('/'));
        Self::with(url, store, prefix, stage)
            .map_err(|cause| Error::io(url, "start the client of the object store", cause))
    }

    fn with(
        url: &Path,
        store: Arc<dyn ObjectStore>,
        prefix: Key,
        stage: &Path,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("thalweg-objects")
            .enable_all()
            .build()?;
        let (url, runtime) = (url.to_owned(), Some(runtime));
        let (stage, staged) = (SpillDir::new(stage, "checkpoint"), Mutex::default());
        Ok(Self { url, store, prefix, runtime, stage, staged })
    }

    /// One in memory, for tests of what uses it.
    #[cfg(test)]
    pub(super) fn in_memory(stage: &Path) -> Self {
        let store = Arc::new(object_store::memory::InMemory::new());
        Self::with(Path::new("s3://memory/a/b"), store, Key::from("a/b"), stage).unwrap()
    }

    fn key(&self, name: &str) -> Key {
        self.prefix.clone().join(name)
    }

    /// Begins a request.
    fn begin<T: Send + 'static, F>(
        &self,
        request: impl FnOnce(Arc<dyn ObjectStore>) -> F,
    ) -> Pending<T>
    where
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let (answer, pending) = channel();
        let request = request(Arc::clone(&self.store));
        if let Some(runtime) = &self.runtime {
            // Not `block_on`, which refuses a program that calls the engine from a runtime of its own.
            runtime.spawn(async move {
                // The folder waits for the answer, unless another request has failed.
                let _ = answer.send(request.await);
            });
        }
        Pending(pending)
    }

    fn get(&self, key: &Key) -> Pending<Vec<u8>> {
        let key = key.clone();
        self.begin(|store| async move { Ok(store.get(&key).await?.bytes().await?.into()) })
    }

    fn put(&self, key: Key, bytes: Vec<u8>) -> Pending<()> {
        self.begin(|store| async move { store.put(&key, bytes.into()).await.map(drop) })
    }

    /// Removes objects, several at a time. One that is not there is no error.
    fn delete(&self, keys: impl IntoIterator<Item = Key>) -> io::Result<()> {
        let begin = |key: Key| self.begin(|store| async move { store.delete(&key).await });
        each(keys.into_iter().map(begin), |deleted| match deleted {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }

    /// Lists what is under a key.
    fn list(&self, under: &Key) -> Pending<Listed> {
        let under = under.clone();
        self.begin(|store| async move {
            let list = store.list_with_delimiter((!under.is_root()).then_some(&under)).await?;
            let objects = list.objects.into_iter().map(|found| (found.location, found.size));
            let name = |key: &Key| key.filename().map(str::to_owned);
            let folders = list.common_prefixes.iter().filter_map(name).collect();
            Ok(Listed { objects: objects.collect(), folders })
        })
    }

    /// The segments under a key that are whole, in order.
    fn segments(&self, under: &Key) -> io::Result<Vec<Segment>> {
        Ok(in_order(self.list(under).wait()?.objects))
    }

    fn is_there(&self, key: &Key) -> io::Result<Option<Found>> {
        let key = key.clone();
        let found = self.begin(|store| async move { store.head(&key).await }).wait();
        match found {
            Ok(found) => Ok(Some((found.size, Some(found.last_modified.into())))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts bytes under a key, in segments that begin at a place; returns how many there were.
    fn put_segments(&self, under: &Key, at: u64, source: &mut dyn Read) -> io::Result<u64> {
        let (mut start, mut under_way) = (at, VecDeque::new());
        loop {
            let mut bytes = Vec::new();
            source.take(SEGMENT as u64).read_to_end(&mut bytes)?;
            let end = start + bytes.len() as u64;
            if end == start {
                break;
            }
            if under_way.len() == AT_ONCE {
                under_way.pop_front().map_or(Ok(()), Pending::wait)?;
            }
            under_way.push_back(self.put(under.clone().join(name_of(start, end)), bytes));
            start = end;
        }
        under_way.into_iter().try_for_each(Pending::wait)?;
        Ok(start - at)
    }

    /// Fetches a file of spilled records, of so many bytes at least, beside what is staged under its name. One at a time.
    fn fetch(&self, name: &str, bytes: u64) -> Result<PathBuf> {
        let from = self.url.join(name);
        let failed = |cause| Error::io(&from, "fetch spilled records of the checkpoint", cause);
        let segments = self.segments(&self.key(name)).map_err(failed)?;
        let whole = self.stage.named(&format!("{name}.new"))?;
        let unstored = |cause| Error::io(&whole, "stage spilled records of the checkpoint", cause);
        let mut file = File::create(&whole).map_err(unstored)?;
        let fetched = self.get_segments(&segments, bytes, &mut file).map_err(failed)?;
        if fetched < bytes {
            let what = "a file of spilled records of the checkpoint is incomplete";
            return Err(Error::new(ErrorKind::Input, what).at(Place::File(from)));
        }
        Ok(whole)
    }

    /// Writes the first bytes of what segments hold, as far as they are there; returns how many there are.
    fn get_segments(
        &self,
        segments: &[Segment],
        bytes: u64,
        to: &mut dyn Write,
    ) -> io::Result<u64> {
        let (mut written, wanted) = (0, needed(segments, bytes));
        let starts: Vec<_> = wanted.iter().map(|segment| segment.start).collect();
        let mut starts = starts.into_iter();
        each(wanted.iter().map(|segment| self.get(&segment.key)), |got| {
            let (got, start) = (got?, starts.next().unwrap_or(written));
            let from = usize::try_from(written - start).map_err(io::Error::other)?;
            let most = usize::try_from(bytes - written).unwrap_or(usize::MAX);
            let new = got.get(from..).unwrap_or_default();
            let new = &new[..new.len().min(most)];
            written += new.len() as u64;
            to.write_all(new)
        })?;
        Ok(written)
    }

    /// Creates an object, whose bytes no other process has.
    fn put_new(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        let (key, bytes) = (key.clone(), bytes.to_vec());
        let begun = self.begin(|store| async move {
            use object_store::Error as Cause;
            let (until, mut pause) = (tokio::time::Instant::now() + PATIENCE, PAUSES.0);
            loop {
                let payload = PutPayload::from(bytes.clone());
                let refused = match store.put_opts(&key, payload, PutMode::Create.into()).await {
                    Ok(_) => return Ok(()),
                    Err(error) => error,
                };
                match &refused {
                    // It may be ours, of a try whose answer was lost.
                    Cause::AlreadyExists { .. } => match get(&*store, &key).await {
                        Ok(there) if there == bytes => return Ok(()),
                        Ok(_) => return Err(refused),
                        // Another process was about to create it, and has not, or it is removed already.
                        Err(Cause::NotFound { .. }) => {}
                        Err(error) => return Err(error),
                    },
                    // The client does not repeat it: it does not know whether that is safe.
                    Cause::Generic { .. } => {}
                    _ => return Err(refused),
                }
                if tokio::time::Instant::now() + pause > until {
                    // An answer that did not come may have been lost, too.
                    return match get(&*store, &key).await {
                        Ok(there) if there == bytes => Ok(()),
                        // Not `AlreadyExists`: an earlier try may still be on its way.
                        _ => Err(Cause::Generic { store: "put", source: Box::new(refused) }),
                    };
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        });
        begun.wait()
    }

    fn content_of(&self, name: &str, token: &str) -> Key {
        self.key(&format!("{name}{CONTENT}")).join(token)
    }

    /// The tokens of the contents that there are for a name.
    fn tokens(&self, name: &str) -> io::Result<Vec<String>> {
        Ok(self.list(&self.key(&format!("{name}{CONTENT}"))).wait()?.folders)
    }

    /// The token in what has a name; `None` if its content is its own, or it is not there.
    fn token_in(&self, name: &str) -> io::Result<Option<String>> {
        match self.get(&self.key(name)).wait() {
            Ok(bytes) => Ok(elsewhere(&bytes).map(|(token, _)| token.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove_content(&self, name: &str, token: &str) -> io::Result<()> {
        let objects = self.list(&self.content_of(name, token)).wait()?.objects;
        self.delete(objects.into_iter().map(|(key, _)| key))
    }

    fn create_from(
        &self,
        name: &str,
        length: usize,
        content: &mut dyn Read,
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        let (mut bytes, mut token) = (Vec::new(), None);
        match length {
            0..=WHOLE => _ = content.read_to_end(&mut bytes)?,
            _ => {
                let made = unique("", 12)?;
                if let Err(error) = self.put_segments(&self.content_of(name, &made), 0, content) {
                    // What is left is removed when the job ends well, or begins again.
                    let _ = self.remove_content(name, &made);
                    return Err(error);
                }
                bytes.extend_from_slice(format!("{ELSEWHERE}{made} {length}").as_bytes());
                token = Some(made);
            }
        }
        let created = match is_due() {
            true => self.put_new(&self.key(name), &bytes).map(|()| true),
            false => Ok(false),
        };
        // After another error it may be there, or come to be.
        let is_not_ours = match &created {
            Ok(created) => !created,
            Err(error) => error.kind() == io::ErrorKind::AlreadyExists,
        };
        if let Some(token) = token.filter(|_| is_not_ours) {
            let _ = self.remove_content(name, &token);
        }
        created
    }

    /// The length of what has a name, whose object has so many bytes.
    fn length(&self, name: &str, own: u64) -> io::Result<u64> {
        // No token is longer.
        if own > ELSEWHERE.len() as u64 + 64 {
            return Ok(own);
        }
        let bytes = self.get(&self.key(name)).wait()?;
        Ok(elsewhere(&bytes).map_or(own, |(_, length)| length))
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It does not wait, which is refused in a runtime of the program's own.
            runtime.shutdown_background();
        }
    }
}

async fn get(store: &dyn ObjectStore, key: &Key) -> object_store::Result<Vec<u8>> {
    Ok(store.get(key).await?.bytes().await?.into())
}

/// Waits for each request, in order, with a number of them under way. After an error, no further one begins.
fn each<T>(
    requests: impl Iterator<Item = Pending<T>>,
    mut take: impl FnMut(io::Result<T>) -> io::Result<()>,
) -> io::Result<()> {
    let mut under_way = VecDeque::new();
    for request in requests {
        under_way.push_back(request);
        if under_way.len() >= AT_ONCE {
            under_way.pop_front().map_or(Ok(()), |request: Pending<T>| take(request.wait()))?;
        }
    }
    under_way.into_iter().try_for_each(|request| take(request.wait()))
}

/// The token and the length of a content, if these are the bytes of an object whose content is elsewhere.
fn elsewhere(bytes: &[u8]) -> Option<(&str, u64)> {
    let rest = str::from_utf8(bytes.strip_prefix(ELSEWHERE.as_bytes())?).ok()?;
    let (token, length) = rest.split_once(' ')?;
    let is_token = !token.is_empty() && token.chars().all(|c| c.is_ascii_alphanumeric());
    Some((token, length.parse().ok().filter(|_| is_token)?))
}

/// The name of a segment. The names are in the order of the starts.
fn name_of(start: u64, end: u64) -> String {
    format!("{start:020}-{end:020}")
}

/// The segments among these objects that are whole, in order.
fn in_order(objects: Vec<(Key, u64)>) -> Vec<Segment> {
    let segment = |(key, size): (Key, u64)| {
        let (start, end) = key.filename()?.split_once('-')?;
        let (start, end) = (start.parse().ok()?, end.parse::<u64>().ok()?);
        (end.checked_sub(start) == Some(size)).then_some(Segment { key, start, end })
    };
    let mut segments: Vec<_> = objects.into_iter().filter_map(segment).collect();
    segments.sort_by_key(|segment| (segment.start, segment.end));
    segments
}

/// The segments that are read for the first bytes of a file, in order: each goes on where the one before ends, or earlier.
fn needed(segments: &[Segment], bytes: u64) -> Vec<&Segment> {
    let (mut at, mut rest, mut needed) = (0, segments.iter().peekable(), Vec::new());
    while at < bytes {
        let mut longest: Option<&Segment> = None;
        while let Some(segment) = rest.next_if(|segment| segment.start <= at) {
            if longest.is_none_or(|longest| longest.end < segment.end) {
                longest = Some(segment);
            }
        }
        let Some(longest) = longest.filter(|longest| longest.end > at) else { break };
        at = longest.end;
        needed.push(longest);
    }
    needed
}

/// How many bytes of a file there are.
fn covered(segments: &[Segment]) -> u64 {
    needed(segments, u64::MAX).last().map_or(0, |last| last.end)
}

/// What there is of a file of spilled records, under whose key this was listed.
fn grown(listed: Listed) -> Option<Found> {
    let is_there = !listed.objects.is_empty();
    is_there.then(|| (covered(&in_order(listed.objects)), None))
}

impl SpillCopies for Objects {
    fn append(&self, name: &str, at: u64, begun: &mut bool, source: &mut dyn Read) -> Result<u64> {
        // No other process has the name.
        *begun = true;
        self.put_segments(&self.key(name), at, source).map_err(|cause| {
            Error::io(&self.url.join(name), "copy spilled records into a checkpoint", cause)
        })
    }
}

impl Folder for Objects {
    fn path(&self) -> &Path {
        &self.url
    }

    fn lock(&self) -> Result<Option<File>> {
        Ok(None)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let Listed { objects, folders } = self.list(&self.prefix).wait()?;
        let name = |(key, _): &(Key, u64)| key.filename().map(str::to_owned);
        let own = objects.iter().filter_map(name);
        Ok(own.chain(folders.into_iter().filter(|name| is_spilled(name))).collect())
    }

    fn look_at(&self, name: &str) -> io::Result<Option<Found>> {
        if is_spilled(name) {
            return Ok(grown(self.list(&self.key(name)).wait()?));
        }
        match self.is_there(&self.key(name))? {
            Some((own, written)) => match self.length(name, own) {
                Ok(length) => Ok(Some((length, written))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
            None => Ok(None),
        }
    }

    fn look_at_all(&self, names: &BTreeSet<&str>) -> io::Result<BTreeMap<String, Found>> {
        let mut found = BTreeMap::new();
        let (spilled, others): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| is_spilled(name));
        for name in others {
            found.extend(self.look_at(name)?.map(|there| (name.to_owned(), there)));
        }
        let mut names = spilled.iter();
        each(spilled.iter().map(|name| self.list(&self.key(name))), |listed| {
            let there = names.next().zip(grown(listed?));
            found.extend(there.map(|(name, there)| ((*name).to_owned(), there)));
            Ok(())
        })?;
        Ok(found)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let own = self.get(&self.key(name)).wait()?;
        let Some((token, length)) = elsewhere(&own) else { return Ok(own) };
        let mut content = Vec::new();
        let segments = self.segments(&self.content_of(name, token))?;
        self.get_segments(&segments, length, &mut content)?;
        Ok(content)
    }

    fn create(
        &self,
        name: &str,
        pieces: &[&[u8]],
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        self.create_from(name, length, &mut Joined { piece: &[], rest: pieces }, is_due)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let key = self.key(name);
        if is_spilled(name) {
            self.release(name);
            let objects = self.list(&key).wait()?.objects;
            return self.delete(objects.into_iter().map(|(key, _)| key));
        }
        let token = match self.tokens(name)?.is_empty() {
            true => None,
            false => self.token_in(name)?,
        };
        // First: it counts no more then.
        self.delete([key])?;
        if let Some(token) = token {
            let _ = self.remove_content(name, &token);
        }
        Ok(())
    }

    /// A content stays where it is, and is then that of no name.
    fn rename(&self, name: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.key(name), self.key(to));
        let source = from.clone();
        self.begin(|store| async move { store.copy(&source, &to).await }).wait()?;
        self.delete([from])
    }

    /// Those that are contents are as `NAME.content/TOKEN`.
    fn leftovers(&self) -> io::Result<Vec<String>> {
        let Listed { objects, folders } = self.list(&self.prefix).wait()?;
        let name = |(key, _): &(Key, u64)| key.filename().map(str::to_owned);
        let is_temporary = |name: &String| name.starts_with(super::TEMPORARY);
        let mut found: Vec<_> = objects.iter().filter_map(name).filter(is_temporary).collect();
        // Another job may have a prefix below this one, of whatever name.
        let names = folders.iter().filter_map(|folder| folder.strip_suffix(CONTENT));
        for name in names.filter(|name| is_name(name)) {
            let (own, tokens) = (self.token_in(name)?, self.tokens(name)?);
            let tokens = tokens.iter().filter(|token| own.as_ref() != Some(*token));
            found.extend(tokens.map(|token| format!("{name}{CONTENT}/{token}")));
        }
        Ok(found)
    }

    fn tidy(&self, leftovers: &[String]) -> io::Result<()> {
        for left in leftovers {
            let removed = match left.split_once(&format!("{CONTENT}/")) {
                Some((name, token)) if self.token_in(name)?.as_deref() == Some(token) => Ok(()),
                Some((name, token)) => self.remove_content(name, token),
                None => self.delete([self.key(left)]),
            };
            if removed.is_err() {
                break;
            }
        }
        Ok(())
    }

    fn local(&self, name: &str, bytes: u64) -> Result<PathBuf> {
        let path = self.stage.named(name)?;
        // One after the other: each is fetched by several requests already.
        let mut staged = lock(&self.staged);
        if staged.get(name).is_some_and(|length| *length >= bytes) {
            return Ok(path);
        }
        // A shorter one may be in use, which stays readable where it is.
        let whole = self.fetch(name, bytes)?;
        let unstored = |cause| Error::io(&path, "stage spilled records of the checkpoint", cause);
        fs::rename(&whole, &path).map_err(unstored)?;
        staged.insert(name.to_owned(), bytes);
        Ok(path)
    }

    fn release(&self, name: &str) {
        if lock(&self.staged).remove(name).is_some()
            && let Ok(path) = self.stage.named(name)
        {
            let _ = fs::remove_file(path);
        }
    }

    /// What operators have on disk is fetched first, unless it is staged: tasks read that, by its path.
    fn open(&self, name: &str) -> io::Result<Original> {
        if !is_spilled(name) {
            let modified = self.is_there(&self.key(name))?.and_then(|(_, modified)| modified);
            return Ok(Original { bytes: Box::new(io::Cursor::new(self.read(name)?)), modified });
        }
        let Some((bytes, _)) = self.look_at(name)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let staged = lock(&self.staged);
        let file = if staged.get(name).is_some_and(|length| *length >= bytes) {
            File::open(self.stage.named(name).map_err(io::Error::other)?)?
        } else {
            let whole = self.fetch(name, bytes).map_err(io::Error::other)?;
            let file = File::open(&whole)?;
            fs::remove_file(&whole)?;
            file
        };
        Ok(Original { bytes: Box::new(file), modified: None })
    }

    fn copy_in(
        &self,
        name: &str,
        mut original: Original,
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        if is_spilled(name) {
            self.put_segments(&self.key(name), 0, &mut original.bytes)?;
            return Ok(true);
        }
        let mut bytes = Vec::new();
        original.bytes.read_to_end(&mut bytes)?;
        self.create(name, &[&bytes], is_due)
    }

    fn sync(&self) {}

    #[cfg(test)]
    fn replace(&self, name: &str, bytes: &[u8]) {
        let _ = self.remove(name);
        match is_spilled(name) {
            true => _ = self.put_segments(&self.key(name), 0, &mut &*bytes).unwrap(),
            false => self.put(self.key(name), bytes.to_vec()).wait().unwrap(),
        }
    }
}

/// Reads pieces one after the other.
struct Joined<'a> {
    piece: &'a [u8],
    rest: &'a [&'a [u8]],
}

impl Read for Joined<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty()
            && let Some((next, rest)) = self.rest.split_first()
        {
            (self.piece, self.rest) = (next, rest);
        }
        self.piece.read(to)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
