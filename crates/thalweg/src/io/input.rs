//! The files of a source, and their division among its tasks.
//!
//! In a stage with event time, each file is a partition (see [`Partitions`]): its pieces are read in order, and the
//! next file to read is the one whose event time is furthest behind.
//!
//! Of several hosts, the first lists the files and plans the splits. The others request portions of them (see
//! [`Shared`]). In event time each file belongs to one host, which gets all of its files with the first answer: every
//! file must be begun before there is a watermark, so nothing could be gained by waiting. A task of a host that has
//! not got its files sends no watermark and does not end, so these files hold back the watermark of the job.

use super::begun::{Begun, SavedFile, position};
use super::consumed::Consumed;
use super::files::{
    Compression, FileVersion, InputFile, Split, assign_files, largest_first, plan_splits,
};
use super::portions::{Next, Share, Shared, Work};
use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::DecodeError;
use crate::error::{Error, Result};
use crate::flow::{Event, PartitionEvent, Partitions, Waker};
use crate::memory::Reservation;
use crate::metrics::Total;
use crate::net::HostId;
use crate::plan::TaskContext;
use crate::stream::Produced;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// One or several inputs: each a file, a directory or a glob.
///
/// A directory stands for every file below it that is not hidden, a glob (`*`, `?`, `[a-z]`, `**`) for its matches;
/// see [`expand_inputs`](super::files::expand_inputs) for the rules. Strings, paths, and vectors, arrays and slices of them are `Paths`.
pub trait Paths {
    /// The inputs as a list.
    fn into_paths(self) -> Vec<PathBuf>;
}

macro_rules! one_path {
    ($($type:ty),*) => {
        $(impl Paths for $type {
            fn into_paths(self) -> Vec<PathBuf> {
                vec![self.into()]
            }
        })*
    };
}

one_path!(&str, String, &String, &Path, PathBuf, &PathBuf, &OsStr, OsString);

impl<P: AsRef<Path>> Paths for Vec<P> {
    fn into_paths(self) -> Vec<PathBuf> {
        self.as_slice().into_paths()
    }
}

impl<P: AsRef<Path>> Paths for &Vec<P> {
    fn into_paths(self) -> Vec<PathBuf> {
        self.as_slice().into_paths()
    }
}

impl<P: AsRef<Path>> Paths for &[P] {
    fn into_paths(self) -> Vec<PathBuf> {
        self.iter().map(|path| path.as_ref().to_owned()).collect()
    }
}

impl<P: AsRef<Path>, const N: usize> Paths for [P; N] {
    fn into_paths(self) -> Vec<PathBuf> {
        self.as_slice().into_paths()
    }
}

impl<P: AsRef<Path>, const N: usize> Paths for &[P; N] {
    fn into_paths(self) -> Vec<PathBuf> {
        self.as_slice().into_paths()
    }
}

/// The division of a source's files among tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Division {
    /// Into ranges of about this many bytes; `None` derives the size from the amount of input.
    Ranges(Option<u64>),
    /// Into whole files.
    Files,
}

/// A source's inputs. The file system is not accessed before the first task is made.
pub struct Inputs {
    paths: Vec<PathBuf>,
    division: Division,
    shared: Mutex<Option<Arc<Shared<SplitQueue>>>>,
}

/// The queue from which the tasks of a source take splits, as one of them sees it.
pub struct Splits {
    shared: Arc<Shared<SplitQueue>>,
    task: usize,
    waker: Waker,
    position: StateHandle,
    /// What the task has read, by file, in a job with checkpoints; of the first task, also what was read before the
    /// checkpoint that the job began with.
    read: BTreeMap<usize, Consumed>,
    /// Of the first task, which saves all files of the source: those that were read to their end before.
    done: Option<Vec<SavedFile>>,
}

/// The splits that no task has taken and no other host was granted.
struct SplitQueue {
    /// All files of the source. Another host than the first knows them from the first answer.
    files: OnceLock<Vec<InputFile>>,
    /// The version of each file, in a job with checkpoints; on another host, from the first answer.
    versions: OnceLock<Vec<FileVersion>>,
    /// Where the files of this host begin that were read in part before the checkpoint that the job began with.
    begins: OnceLock<BTreeMap<usize, u64>>,
    order: Order,
    /// Why the files could not be listed, on the first of several hosts, until a task reports it.
    failure: Mutex<Option<Error>>,
}

/// The order in which splits are read.
enum Order {
    /// The order of the list.
    Listed { splits: Vec<Split>, next: AtomicUsize },
    /// In order within a file; between files, the one that is furthest behind in event time first.
    Timed {
        /// The splits of this host's files, by file.
        pieces: Mutex<Vec<VecDeque<Split>>>,
        partitions: Arc<Partitions>,
        /// The splits of each other host, until it requests them.
        of_others: Mutex<Vec<Vec<Split>>>,
        /// Whether the beginning of each file is a piece of its own.
        cut: bool,
    },
}

/// The smallest and the largest range in bytes, unless the program sets the size. Opening one costs some
/// microseconds; reading the largest takes a few milliseconds.
const RANGE: (u64, u64) = (256 << 10, 8 << 20);
/// With event time and several files, the bytes at the beginning of each file that are read before all else.
const BEGINNING: u64 = 16 << 10;
/// Ranges per task, so that the tasks end at about the same time.
const RANGES_PER_TASK: u64 = 8;

impl Inputs {
    pub(super) fn new(paths: Vec<PathBuf>, division: Division) -> Self {
        Self { paths, division, shared: Mutex::new(None) }
    }

    /// The queue, shared by the source's tasks. On the first host, the first call lists the files.
    ///
    /// # Errors
    ///
    /// If the files cannot be listed and this is the only host. The first of several hosts begins the job all the
    /// same, so that the others get to know why it fails.
    pub(super) fn open(&self, cx: &TaskContext<'_>) -> Result<Splits> {
        let position = match cx.first_operator() {
            Some(op) => {
                cx.state::<SavedFile>(op, "files", Redistribution::United).position(position)
            }
            None => StateHandle::none(),
        };
        let mut made = lock(&self.shared);
        let mut begun = Begun::default();
        // One task lists the files, and the first one carries what was read.
        if made.is_none() || cx.task == 0 {
            position.restore(|file: SavedFile| {
                begun.add(file);
                Ok(())
            })?;
        }
        let shared = match &*made {
            Some(shared) => Arc::clone(shared),
            None => {
                let mut queue = self.queue(cx, &begun)?;
                if cx.links.hosts().me() == HostId::FIRST {
                    if position.is_on() {
                        let versions = queue.files().iter().map(FileVersion::of);
                        queue.versions = OnceLock::from(versions.collect::<Result<Vec<_>>>()?);
                    }
                    queue.skip(&queue.read_before(&begun, cx)?);
                    queue.open_partitions();
                }
                Shared::new(cx, queue)?
            }
        };
        *made = Some(Arc::clone(&shared));
        let (mut read, mut done) = (BTreeMap::new(), None);
        if cx.task == 0 && shared.is_first() && position.is_on() {
            read = shared.work.read_before(&begun, cx)?;
            done = Some(begun.done().collect());
        }
        Ok(Splits { shared, task: cx.task, waker: cx.waker.clone(), position, read, done })
    }

    fn queue(&self, cx: &TaskContext<'_>, begun: &Begun) -> Result<SplitQueue> {
        let hosts = cx.links.hosts();
        // Where nothing more is read, files may have been written since, or be gone.
        if hosts.me() != HostId::FIRST || cx.is_drained() {
            return Ok(SplitQueue::new(cx.partitions));
        }
        let listed = begun.list(&self.paths, &cx.begin_anew());
        let planned = listed.map(|(files, new)| {
            warn_of(&new, cx);
            self.plan(files, cx.hosts, cx.partitions)
        });
        planned.or_else(|error| {
            if hosts.count() == 1 {
                return Err(error);
            }
            let failure = Mutex::new(Some(error));
            Ok(SplitQueue { failure, ..SplitQueue::new(cx.partitions) })
        })
    }

    /// Plans the division of files among tasks, of which the hosts are known.
    fn plan(
        &self,
        files: Vec<InputFile>,
        hosts: &[HostId],
        partitions: &Arc<Partitions>,
    ) -> SplitQueue {
        let tasks = hosts.len();
        let split_bytes = match self.division {
            Division::Files => u64::MAX,
            Division::Ranges(Some(bytes)) => bytes,
            Division::Ranges(None) => {
                let all: u64 = files.iter().map(|file| file.bytes).sum();
                (all / (tasks as u64 * RANGES_PER_TASK)).clamp(RANGE.0, RANGE.1)
            }
        };
        let mut splits = plan_splits(&files, split_bytes);
        let order = if partitions.is_timed() {
            let cut = files.len() > 1 && self.division != Division::Files;
            let mut pieces = by_file(&files, splits, cut);
            let count = hosts.iter().map(|host| host.0 + 1).max().unwrap_or(1);
            let tasks_of = |host| hosts.iter().filter(|of| of.0 == host).count();
            let weights: Vec<_> = (0..count).map(tasks_of).collect();
            let mut of_others = vec![Vec::new(); count];
            for (pieces, host) in pieces.iter_mut().zip(assign_files(&files, &weights)) {
                if host > 0 {
                    of_others[host].extend(pieces.drain(..));
                }
            }
            let (pieces, of_others) = (Mutex::new(pieces), Mutex::new(of_others));
            Order::Timed { pieces, partitions: Arc::clone(partitions), of_others, cut }
        } else {
            if tasks > 1 {
                largest_first(&files, &mut splits);
            }
            Order::Listed { splits, next: AtomicUsize::new(0) }
        };
        SplitQueue { files: OnceLock::from(files), ..SplitQueue::in_order(order) }
    }
}

/// Says that files are left out, as the job did not begin with them.
fn warn_of(new: &[PathBuf], cx: &TaskContext<'_>) {
    let Some(first) = new.first() else { return };
    let s = if new.len() == 1 { "" } else { "s" };
    log::warn!(
        target: "thalweg::files",
        "{}: {} file{s} not read, as the job goes on with the files that it began with: `{}`{}",
        cx.op(cx.first_operator().unwrap_or_default()).name(),
        new.len(),
        first.display(),
        if new.len() == 1 { "" } else { ", …" },
    );
}

/// What is left of files, piece by piece, where that of each file begins with a small piece too, if beginnings are `cut`: all
/// soon have a watermark then.
fn with_beginnings<C: Default + Extend<Split>>(left: impl Iterator<Item = Split>, cut: bool) -> C {
    let (mut all, mut of) = (C::default(), None);
    for split in left {
        let middle = split.start.saturating_add(BEGINNING);
        if cut && of != Some(split.file) && split.start > 0 && middle < split.end {
            all.extend([Split { end: middle, ..split }, Split { start: middle, ..split }]);
        } else {
            all.extend([split]);
        }
        of = Some(split.file);
    }
    all
}

impl SplitQueue {
    /// A queue without splits.
    fn new(partitions: &Arc<Partitions>) -> Self {
        let order = match partitions.is_timed() {
            false => Order::Listed { splits: Vec::new(), next: AtomicUsize::new(0) },
            true => Order::Timed {
                pieces: Mutex::new(Vec::new()),
                partitions: Arc::clone(partitions),
                of_others: Mutex::new(Vec::new()),
                cut: false,
            },
        };
        Self::in_order(order)
    }

    fn in_order(order: Order) -> Self {
        Self {
            files: OnceLock::new(),
            versions: OnceLock::new(),
            begins: OnceLock::new(),
            order,
            failure: Mutex::new(None),
        }
    }

    /// What was read of its files before the checkpoint, by file.
    fn read_before(
        &self,
        begun: &Begun,
        cx: &TaskContext<'_>,
    ) -> Result<BTreeMap<usize, Consumed>> {
        begun.read_of(self.files(), self.versions(), &cx.begin_anew())
    }

    /// Leaves out what was read before.
    fn skip(&mut self, read: &BTreeMap<usize, Consumed>) {
        let files = self.files.get().map_or(&[][..], Vec::as_slice);
        let left = |split: &Split| {
            let Some(read) = read.get(&split.file) else { return vec![*split] };
            let left = read.left_of(split.start..split.text_end(&files[split.file]));
            left.into_iter().map(|(start, end)| Split { file: split.file, start, end }).collect()
        };
        match &mut self.order {
            Order::Listed { splits, .. } => *splits = splits.iter().flat_map(left).collect(),
            Order::Timed { pieces, of_others, cut, .. } => {
                for pieces in &mut *lock(pieces) {
                    *pieces = with_beginnings(pieces.iter().flat_map(left), *cut);
                }
                for splits in &mut *lock(of_others) {
                    *splits = with_beginnings(splits.iter().flat_map(left), *cut);
                }
            }
        }
    }

    /// The pieces that this host is going to read in event time are known: says how many there are of each partition.
    fn open_partitions(&self) {
        if let Order::Timed { pieces, partitions, .. } = &self.order {
            let pieces = lock(pieces);
            let firsts = pieces.iter().filter_map(VecDeque::front);
            let _ = self.begins.set(firsts.map(|first| (first.file, first.start)).collect());
            let files = self.files().iter().zip(&*pieces);
            partitions.open(files.map(|(file, pieces)| (file.path.clone(), pieces.len())));
        }
    }

    fn files(&self) -> &[InputFile] {
        self.files.get().map_or(&[], Vec::as_slice)
    }

    fn versions(&self) -> &[FileVersion] {
        self.versions.get().map_or(&[], Vec::as_slice)
    }

    /// Removes the next split for a task of this host.
    fn take(&self, task: usize) -> Option<Split> {
        match &self.order {
            Order::Listed { splits, next } => {
                splits.get(next.fetch_add(1, Ordering::Relaxed)).copied()
            }
            Order::Timed { pieces, partitions, .. } => {
                // Under one lock, so that pieces of a file are begun in order.
                let mut pieces = lock(pieces);
                pieces.get_mut(partitions.begin(task)?)?.pop_front()
            }
        }
    }

    /// A task's share of the total bytes to read: all of them for the first task, since it is not known beforehand
    /// which task reads what. What was read before the checkpoint that the job began with does not count, as in the bytes
    /// that its tasks report. `None` if no file reports its size.
    fn total(&self, task: usize) -> Option<Total> {
        let all: u64 = self.files().iter().map(|file| file.bytes).sum();
        (all > 0).then(|| Total::Bytes(if task == 0 { self.left() } else { 0 }))
    }

    /// The bytes to read, of compressed files compressed: these are decompressed from their start, however much of them is
    /// left.
    fn left(&self) -> u64 {
        let (mut left, mut compressed) = (0, BTreeSet::new());
        let mut add = |split: &Split| match self.files().get(split.file) {
            Some(file) if file.compression.is_splittable() => left += split.bytes(),
            _ => drop(compressed.insert(split.file)),
        };
        match &self.order {
            Order::Listed { splits, .. } => splits.iter().for_each(&mut add),
            Order::Timed { pieces, of_others, .. } => {
                lock(pieces).iter().flatten().for_each(&mut add);
                lock(of_others).iter().flatten().for_each(&mut add);
            }
        }
        let whole = compressed.iter().filter_map(|file| self.files().get(*file));
        left + whole.map(|file| file.bytes).sum::<u64>()
    }
}

impl Work for SplitQueue {
    /// The file, the start and the end of a split.
    type Piece = (usize, u64, u64);
    /// The path and the size of each file, and the versions of all in a job with checkpoints.
    type Preamble = (Vec<(PathBuf, u64)>, Vec<FileVersion>);

    fn size(_: &Self::Piece) -> u64 {
        1
    }

    fn preamble(&self) -> Self::Preamble {
        let files = self.files().iter().map(|file| (file.path.clone(), file.bytes)).collect();
        (files, self.versions().to_vec())
    }

    fn grant(&self, to: HostId, share: Share) -> (Vec<Self::Piece>, bool) {
        let encoded = |split: &Split| (split.file, split.start, split.end);
        match &self.order {
            Order::Listed { splits, next } => {
                let count = |from: usize| {
                    let left = splits.len().saturating_sub(from);
                    usize::try_from(share.of(left as u64, 1, 1)).unwrap_or(left)
                };
                let cut = |from: usize| (from < splits.len()).then(|| from + count(from));
                let taken = match next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, cut) {
                    Ok(from) => from..from + count(from),
                    Err(_) => splits.len()..splits.len(),
                };
                let over = taken.end >= splits.len();
                (splits.get(taken).unwrap_or_default().iter().map(encoded).collect(), over)
            }
            Order::Timed { of_others, .. } => {
                let splits = lock(of_others).get_mut(to.0).map(std::mem::take).unwrap_or_default();
                (splits.iter().map(encoded).collect(), true)
            }
        }
    }

    fn accept(
        &self,
        preamble: Option<Self::Preamble>,
        pieces: Vec<Self::Piece>,
    ) -> Result<Vec<Self::Piece>, DecodeError> {
        let listed = |(path, bytes): (PathBuf, u64)| InputFile {
            compression: Compression::of(&path),
            path,
            bytes,
        };
        if let Some((files, versions)) = preamble {
            let _ = self.versions.set(versions);
            if self.files.set(files.into_iter().map(listed).collect()).is_err() {
                return Err(DecodeError::invalid("the files of a source, which are known"));
            }
        }
        let files = self.files();
        if !pieces.iter().all(|(file, start, end)| *file < files.len() && start <= end) {
            return Err(DecodeError::invalid("splits of the source's files"));
        }
        let Order::Timed { pieces: by_file, .. } = &self.order else {
            return Ok(pieces);
        };
        let mut all = vec![VecDeque::new(); files.len()];
        for (file, start, end) in pieces {
            all[file].push_back(Split { file, start, end });
        }
        *lock(by_file) = all;
        self.open_partitions();
        Ok(Vec::new())
    }
}

impl Splits {
    /// All files of the source, on the host that they are listed on, and on others from the first split on.
    pub(super) fn files(&self) -> &[InputFile] {
        self.shared.work.files()
    }

    /// This task's share of the total bytes to read.
    pub(super) fn total(&self) -> Option<Total> {
        self.shared.work.total(self.task)
    }

    /// The next piece of work for the task.
    ///
    /// # Errors
    ///
    /// If the files could not be listed.
    pub(super) fn take(&self) -> Result<Next<(&InputFile, Split)>> {
        let queue = &self.shared.work;
        if let Some(error) = lock(&queue.failure).take() {
            return Err(error);
        }
        let granted = match self.shared.is_first() {
            true => Next::End,
            false => self.shared.take(self.task, &self.waker, VecDeque::pop_front),
        };
        let split = match granted {
            Next::Piece((file, start, end)) => Some(Split { file, start, end }),
            Next::Wait => return Ok(Next::Wait),
            Next::End => queue.take(self.task),
        };
        let found = split.and_then(|split| Some((queue.files().get(split.file)?, split)));
        Ok(found.map_or(Next::End, Next::Piece))
    }

    /// Notes that the task has read this split up to this byte, decompressed; all of it if `None`.
    pub(super) fn has_read(&mut self, split: Split, to: Option<u64>) {
        if !self.position.is_on() {
            return;
        }
        let Some(file) = self.files().get(split.file) else { return };
        let end = split.text_end(file);
        let to = to.map_or(end, |to| to.min(end));
        if split.start < to {
            self.read.entry(split.file).or_default().add(split.start, to);
        }
    }

    /// Saves what the task has read: all that was [noted](Self::has_read), and of the split that it reads the part before a
    /// byte; or refuses to, if the split cannot be divided there.
    pub(super) fn save(
        &mut self,
        event: Event,
        reading: Result<Option<(Split, u64)>, &'static str>,
    ) {
        let Self { shared, read, done, position, .. } = self;
        let versions = shared.work.versions();
        position.save(event, |out| {
            let mut read = read.clone();
            let reading = reading.unwrap_or_else(|why| {
                // At the end of a job that is drained: nothing goes on from there.
                if event != Event::End {
                    out.refuse(why);
                }
                None
            });
            if let Some((split, to)) = reading.filter(|(split, to)| split.start < *to) {
                read.entry(split.file).or_default().add(split.start, to);
            }
            let files = shared.work.files().iter().zip(versions).enumerate();
            for (file, (InputFile { path, .. }, version)) in files {
                let read = read.remove(&file);
                if read.is_some() || done.is_some() {
                    let ranges = read.unwrap_or_default().into_ranges();
                    out.add(&(path.clone(), version.clone(), ranges));
                }
            }
            done.iter().flatten().for_each(|file| out.add(file));
        });
    }

    /// What `Source::produce` returns after taking a split, before it pushes records.
    pub(super) fn entered(&self, split: Split) -> Produced {
        match self.shared.work.order {
            Order::Listed { .. } => Produced::Some,
            Order::Timed { .. } => Produced::Partition(PartitionEvent::Piece(split.file)),
        }
    }

    /// What `Source::produce` returns at the end of a split, without having pushed records.
    pub(super) fn left(&self) -> Produced {
        match self.shared.work.order {
            Order::Listed { .. } => Produced::Some,
            Order::Timed { .. } => Produced::Partition(PartitionEvent::PieceEnd),
        }
    }

    /// Whether a task that has read the beginning of a file, which is a single split, should [put
    /// back](Self::put_back) the rest.
    pub(super) fn beginning_is_enough(&self, split: Split) -> bool {
        let queue = &self.shared.work;
        let begin = queue.begins.get().and_then(|begins| begins.get(&split.file)).copied();
        let begin = begin.unwrap_or(0);
        matches!(queue.order, Order::Timed { .. })
            && queue.files().len() > 1
            && split.start == begin
    }

    /// Puts back the rest of a split that a task stops reading.
    pub(super) fn put_back(&self, rest: Split) {
        if let Order::Timed { pieces, partitions, .. } = &self.shared.work.order {
            let mut pieces = lock(pieces);
            if let Some(pieces) = pieces.get_mut(rest.file) {
                pieces.push_front(rest);
                partitions.put_back(rest.file);
            }
        }
    }
}

/// The splits of each file. If they are cut, the beginning of each file is a split of its own where possible.
fn by_file(files: &[InputFile], splits: Vec<Split>, cut: bool) -> Vec<VecDeque<Split>> {
    let mut pieces = vec![VecDeque::new(); files.len()];
    for split in splits {
        pieces[split.file].push_back(split);
    }
    if cut {
        for (file, pieces) in files.iter().zip(&mut pieces) {
            // A compressed file that is cut must not look like one that is not.
            let cut = file.bytes > BEGINNING;
            let Some(first) = cut.then(|| pieces.pop_front()).flatten() else { continue };
            let (beginning, rest) = first.cut(file, BEGINNING);
            rest.into_iter().for_each(|rest| pieces.push_front(rest));
            pieces.push_front(beginning);
        }
    }
    pieces
}

/// Reserves the memory of a reader's buffers.
pub(super) fn hold(reservation: &mut Reservation, bytes: usize) -> Result<()> {
    if reservation.bytes() == bytes || reservation.try_resize(bytes) {
        return Ok(());
    }
    let limit = reservation.pool().limit();
    let what = format!(
        "a read buffer of {bytes} bytes does not fit into the memory budget of {limit}; on \
         fewer cores there are fewer"
    );
    Err(reservation.refused(what))
}

#[cfg(test)]
mod tests {
    use super::super::files::expand_inputs;
    use super::*;

    #[test]
    fn the_tasks_together_know_how_much_there_is() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, bytes) in [("a.txt", 10), ("b.txt", 0), ("c.txt", 32)] {
            std::fs::write(folder.path().join(name), vec![b'x'; bytes]).expect("a file");
        }
        let inputs = Inputs::new(folder.path().into_paths(), Division::Files);
        let untimed = Arc::default();
        let plan = |inputs: &Inputs, hosts: &[HostId], partitions: &Arc<Partitions>| {
            Ok::<_, Error>(inputs.plan(expand_inputs(&inputs.paths)?, hosts, partitions))
        };
        let queue = plan(&inputs, &[HostId(0); 3], &untimed)?;
        let totals: Vec<_> = (0..3).map(|task| queue.total(task)).collect();
        assert_eq!(totals, [42, 0, 0].map(|bytes| Some(Total::Bytes(bytes))));
        let timed = || {
            let partitions = Partitions::default();
            partitions.expect_watermarks();
            Arc::new(partitions)
        };
        let read = |ranges| {
            [(0, ranges), (2, vec![(8, 16)])].map(|(file, ranges)| {
                let mut read = Consumed::default();
                read.add_all(ranges);
                (file, read)
            })
        };
        for division in [Division::Files, Division::Ranges(Some(5))] {
            for timed in [Arc::<Partitions>::default(), timed()] {
                let inputs = Inputs::new(folder.path().into_paths(), division);
                let mut queue = plan(&inputs, &[HostId(0), HostId(1)], &timed)?;
                queue.skip(&read(vec![(0, 3)]).into());
                assert_eq!(queue.total(0), Some(Total::Bytes(42 - 3 - 8)), "{division:?}");
                queue.skip(&read(vec![(0, 3), (3, 10)]).into());
                assert_eq!(queue.total(0), Some(Total::Bytes(42 - 10 - 8)), "{division:?}");
            }
        }
        let nothing = Inputs::new(folder.path().join("b.txt").into_paths(), Division::Files);
        assert_eq!(plan(&nothing, &[HostId(0)], &untimed)?.total(0), None);
        Ok(())
    }
}
