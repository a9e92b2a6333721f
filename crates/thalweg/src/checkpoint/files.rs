//! What operators have on disk, in checkpoints: files of spilled records beside those of checkpoints.
//!
//! An operator refers to what its spill files hold at a barrier ([`Saving::add_file`]), and the checkpoint has the names and
//! lengths of their copies in its head. Copying is done beside the records' way, by the thread that takes checkpoints, and
//! adds to each copy only what it lacks. So a checkpoint costs what was spilled since the one before it, and any number of
//! checkpoints share a file.
//!
//! A job that begins with a checkpoint reads the copies in place, or what it has fetched of them from an object store, up to the
//! length that the checkpoint says, and never appends to them: what was appended after the checkpoint was written counts for nothing. As long as it needs them, its own
//! checkpoints refer to the same files.

use super::Saving;
use super::folder::{Folder, unique};
use crate::data::{Data, DecodeError, Portable, Wire, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::state::{HashRange, SpillDir, SpillFile, SpillPrefix, SpillShare, SpillWriter};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How the names of these files begin and end.
const SPILLED: &str = "spilled-";
const SUFFIX: &str = ".records";

/// All hashes.
pub(super) const ALL: HashRange = (0, u64::MAX);

/// The folder in which a job's spill files are copied.
pub(super) struct SavedFiles {
    pub(super) folder: Arc<dyn Folder>,
    /// What makes the names of this run on this host unlike those of others.
    run: String,
    named: AtomicU64,
    /// The names to which no checkpoint may refer yet. Each is shared with all that may still give it to one.
    unsaved: Mutex<Vec<Arc<str>>>,
}

/// A file to which a state refers that is being saved.
pub(super) struct Spilled {
    pub(super) entry: FileEntry,
    /// What is to be copied, until that is done.
    pub(super) prefix: Option<SpillPrefix>,
    _name: Arc<str>,
}

/// A file to which a state of one task refers.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub(super) struct FileEntry {
    pub(super) name: String,
    /// Its length, and the number of records in it, when it was saved. Later there may be more.
    pub(super) bytes: u64,
    pub(super) records: u64,
    /// The type of its records.
    schema: String,
    /// The hashes of keys that the entry is for.
    hashes: (u64, u64),
    /// Whether there are records of other hashes too.
    is_shared: bool,
    /// What the operator must know of it.
    note: Vec<u8>,
}

/// A file that a task begins with.
pub(crate) struct SavedFile<'a> {
    pub(super) entry: &'a FileEntry,
    pub(super) folder: &'a dyn Folder,
    /// The hashes of keys that are this task's.
    pub(super) hashes: HashRange,
}

impl SavedFiles {
    pub(super) fn new(folder: &Arc<dyn Folder>) -> Self {
        // So many letters that no other run has the same.
        // One that is not unique is not created, where another one is there.
        let run = unique("", 12).unwrap_or_default();
        let (folder, named) = (Arc::clone(folder), AtomicU64::new(0));
        Self { folder, run, named, unsaved: Mutex::default() }
    }

    fn new_name(&self) -> Arc<str> {
        let number = self.named.fetch_add(1, Ordering::Relaxed);
        let name: Arc<str> = format!("{SPILLED}{}-{number}{SUFFIX}", self.run).into();
        lock(&self.unsaved).push(Arc::clone(&name));
        name
    }

    /// After a checkpoint was written, or could not be: removes copies to which no checkpoint refers, nor will, since the operator
    /// has that file no more. `is_saved` says whether one may refer to a name, which is then the store's to remove.
    pub(super) fn remove_unsaved(&self, is_saved: impl Fn(&str) -> bool) {
        let mut unsaved = std::mem::take(&mut *lock(&self.unsaved));
        unsaved.retain(|name| !is_saved(name));
        let is_unneeded = |name: &mut Arc<str>| Arc::strong_count(name) == 1;
        let mut unneeded: Vec<_> = unsaved.extract_if(.., is_unneeded).collect();
        while let Some(name) = unneeded.pop() {
            let removed = self.folder.remove(&name);
            // It is tried again after the next checkpoint.
            if removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                unneeded.push(name);
                break;
            }
        }
        unsaved.append(&mut unneeded);
        lock(&self.unsaved).append(&mut unsaved);
    }

    pub(super) fn has_named(&self, name: &str) -> bool {
        let rest = name.strip_prefix(SPILLED).and_then(|rest| rest.strip_prefix(&*self.run));
        rest.is_some_and(|rest| rest.starts_with('-'))
    }
}

/// Whether a file in a directory of checkpoints is one of these.
pub(super) fn is_spilled(name: &str) -> bool {
    name.starts_with(SPILLED) && name.ends_with(SUFFIX)
}

impl FileEntry {
    /// Checks that the name is that of such a file, and leads out of no directory.
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        let is_name = Path::new(&self.name).file_name().is_some_and(|name| *name == *self.name);
        match is_name && is_spilled(&self.name) {
            true => Ok(()),
            false => Err(DecodeError::invalid("the name of a file of spilled records")),
        }
    }

    /// One that is whole, for tests of what stores it.
    #[cfg(test)]
    pub(super) fn of(name: &str, bytes: u64) -> Self {
        let (name, schema, note) = (name.to_owned(), String::new(), Vec::new());
        Self { name, bytes, records: 1, schema, hashes: ALL, is_shared: false, note }
    }

    /// The file, as a task begins with it whose keys have these hashes; `None` if none of the keys are in it.
    pub(super) fn for_hashes<'a>(
        &'a self,
        (first, last): HashRange,
        folder: &'a dyn Folder,
    ) -> Option<SavedFile<'a>> {
        let hashes = (first.max(self.hashes.0), last.min(self.hashes.1));
        (hashes.0 <= hashes.1).then_some(SavedFile { entry: self, folder, hashes })
    }
}

impl Saving {
    /// Adds what a spill file holds, and what the operator has to know of it. `of` are the hashes of keys that count, if not
    /// all of the file does.
    pub(crate) fn add_file<I: Wire + ?Sized>(
        &mut self,
        prefix: SpillPrefix,
        of: Option<HashRange>,
        note: &impl Data,
    ) {
        self.add_file_with::<I>(prefix, of, |out| note.encode(out));
    }

    fn add_file_with<I: Wire + ?Sized>(
        &mut self,
        prefix: SpillPrefix,
        of: Option<HashRange>,
        note: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(files) = &self.files else {
            return self
                .refuse("some of its records are on disk, and there is no directory for them");
        };
        let mut encoded = Vec::new();
        note(&mut encoded);
        let name = Arc::clone(prefix.copy_name(|| files.new_name()));
        let entry = FileEntry {
            name: (*name).to_owned(),
            bytes: prefix.bytes(),
            records: prefix.records(),
            schema: schema_of::<I>(),
            hashes: of.unwrap_or(self.hashes),
            is_shared: of.is_some(),
            note: encoded,
        };
        self.spilled.push(Spilled { entry, prefix: Some(prefix), _name: name });
    }

    /// As [`add_share`](Self::add_share), of records that any task may have, whatever their keys.
    pub(crate) fn add_dealt<I: Wire + ?Sized>(&mut self, share: &SpillShare<I>, note: &impl Data) {
        let Some(prefix) = share.file.prefix() else { return };
        // A task may own no keys, where there are more tasks than key groups.
        let is_none = self.hashes.0 > self.hashes.1;
        let own = if is_none { ALL } else { self.hashes };
        let range = share.dealt.unwrap_or(own);
        // No record of a share that is whole is dealt to a task outside its range, which is perhaps less than this task's.
        let of = share.hashes.or(share.dealt).or(is_none.then_some(ALL));
        self.add_file_with::<I>(prefix, of, |out| {
            range.encode(out);
            note.encode(out);
        });
    }

    /// Adds a spill file, or the share of it that counts.
    pub(crate) fn add_share<I: Wire + ?Sized>(&mut self, share: &SpillShare<I>, note: &impl Data) {
        if let Some(prefix) = share.file.prefix() {
            self.add_file::<I>(prefix, share.hashes, note);
        }
    }

    /// What has been written of a file, to be added.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written; then the state is refused too.
    pub(crate) fn written<I: Wire + ?Sized>(
        &mut self,
        writer: &mut SpillWriter<I>,
    ) -> Result<SpillShare<I>> {
        let written = writer.file_so_far().inspect_err(|_| self.refuse("its disk is full"))?;
        Ok(written.into())
    }
}

fn schema_of<I: Portable + ?Sized>() -> String {
    I::Owned::schema().to_string()
}

/// Checks that spilled records of a checkpoint have the type that this program's have.
///
/// # Errors
///
/// Of kind `Plan`, if they do not.
pub(crate) fn check_spilled(saved: &str, own: &str) -> Result<()> {
    if saved == own {
        return Ok(());
    }
    let what =
        format!("the checkpoint has spilled records as `{saved}`, and this program as `{own}`");
    Err(Error::new(ErrorKind::Plan, what))
}

impl SavedFile<'_> {
    /// What the operator has noted of it.
    ///
    /// # Errors
    ///
    /// If that cannot be read.
    pub(crate) fn note<N: Data>(&self) -> Result<N> {
        self.read_note(N::decode)
    }

    fn read_note<N>(&self, decode: impl FnOnce(&mut &[u8]) -> Result<N, DecodeError>) -> Result<N> {
        decode_whole(&self.entry.note, decode).map_err(|error| {
            let what = format!("a file of spilled records of the checkpoint is unknown: {error}");
            Error::new(ErrorKind::Input, what)
        })
    }

    /// The file, and the hashes that count if not all do.
    ///
    /// # Errors
    ///
    /// If its records are of another type, or are in an object store and cannot be fetched.
    pub(crate) fn open<I: Wire + ?Sized>(&self, spill: &SpillDir) -> Result<SpillShare<I>> {
        let FileEntry { name, bytes, records, schema, hashes, is_shared, .. } = self.entry;
        check_spilled(schema, &schema_of::<I>())?;
        let local = self.folder.local(name, *bytes)?;
        let file: SpillFile<I> = spill.stored(local, *bytes, *records);
        let is_whole = !is_shared && self.hashes == *hashes;
        Ok(SpillShare { file, hashes: (!is_whole).then_some(self.hashes), dealt: None })
    }

    /// As [`open`](Self::open), of a file that was [added so](Saving::add_dealt); and what the operator has noted of it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if the note cannot be read.
    pub(crate) fn open_dealt<I: Wire + ?Sized, N: Data>(
        &self,
        spill: &SpillDir,
    ) -> Result<(SpillShare<I>, N)> {
        let share = self.open::<I>(spill)?;
        let (range, note) = self.read_note(|input| {
            let range = match input.is_empty() {
                true if self.entry.is_shared => {
                    let what = "records that several tasks of an earlier version share";
                    return Err(DecodeError::invalid(what));
                }
                // An earlier version noted nothing. The file was of one task then.
                true => self.entry.hashes,
                false => <HashRange as Data>::decode(input)?,
            };
            match range.0 <= range.1 {
                true => Ok((range, N::decode(input)?)),
                false => Err(DecodeError::invalid("a range of hashes")),
            }
        })?;
        Ok((SpillShare { dealt: Some(range), ..share }, note))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::folder::Directory;
    use super::*;

    /// A file as a task saves it whose keys have these hashes: `add` adds it.
    fn saved(
        folder: &Arc<dyn Folder>,
        hashes: HashRange,
        add: impl FnOnce(&mut Saving),
    ) -> FileEntry {
        let files = Some(Arc::new(SavedFiles::new(folder)));
        let mut saving = Saving { files, hashes, ..Saving::default() };
        add(&mut saving);
        saving.spilled.pop().expect("a file is added").entry
    }

    fn number(spill: &SpillDir) -> SpillShare<u64> {
        let mut writer = spill.writer::<u64>();
        writer.push(&1_u64).unwrap();
        writer.finish().unwrap().into()
    }

    #[test]
    fn records_dealt_out_are_read_by_the_tasks_alone_that_have_some() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, spill) = (Directory::at(dir.path()), SpillDir::new(dir.path(), "job"));
        let share = number(&spill);
        let first = saved(&folder, (0, 99), |saving| saving.add_dealt(&share, &()));
        // A task with more keys has all of it, and saves it again.
        let file = first.for_hashes((0, 199), &*folder).expect("it is this task's");
        let (share, ()) = file.open_dealt::<u64, ()>(&spill).unwrap();
        assert_eq!((share.hashes, share.dealt), (None, Some((0, 99))));
        let second = saved(&folder, (0, 199), |saving| saving.add_dealt(&share, &()));
        assert!(second.for_hashes((100, 199), &*folder).is_none());
        let file = second.for_hashes((50, 149), &*folder).expect("half of it is this task's");
        let (share, ()) = file.open_dealt::<u64, ()>(&spill).unwrap();
        assert_eq!((share.hashes, share.dealt), (Some((50, 99)), Some((0, 99))));
    }

    #[test]
    fn records_of_an_earlier_version_are_refused_where_tasks_share_them() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, spill) = (Directory::at(dir.path()), SpillDir::new(dir.path(), "job"));
        let of_earlier = |of| {
            let prefix = number(&spill).file.prefix().expect("it has a record");
            let entry = saved(&folder, (0, 99), |saving| saving.add_file::<u64>(prefix, of, &()));
            let file = entry.for_hashes((0, 99), &*folder).expect("it is this task's");
            file.open_dealt::<u64, ()>(&spill).map(|(share, ())| share.dealt)
        };
        assert_eq!(of_earlier(None).unwrap(), Some((0, 99)));
        let error = of_earlier(Some((0, 49))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains("several tasks of an earlier version"), "{error}");
    }
}
