//! Splits of a source: how they are dealt out to the tasks of all hosts, and how a task reads its own.
//!
//! The first host lists them, and deals them out in turn, in the order in which they were first listed. It looks for new
//! ones on a thread of its own, since that may block; under a simulated clock, where nothing blocks, its first task does. Other
//! hosts request their share once, and again as often as the source is to be looked at.
//!
//! A split has an owner as long as the job runs. In a job that goes on from a checkpoint splits are dealt out anew, and each
//! task knows all positions that tasks have saved. Until a split is opened again, the first task goes on saving what was known
//! of it. So there may be two entries of one split: the one of which more was read counts.

use super::decoding::DecodingSource;
use super::opening::{OpenSplit, Opening, Unopened, open_now, place};
use super::progress::Progress;
use super::source::{Output, ReadStatus, SplitContext, SplitReader, SplitSource, SplitWaker};
use super::waits::Waits;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::clock::{Nanos, nanos};
use crate::data::{Data, DecodeError};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::flow::{Event, Op, PartitionEvent, Partitions, Push, Waker, WeakWaker, catch};
use crate::io::portions::{Share, Shared, Work};
use crate::memory::Reservation;
use crate::metrics::{TaskWaits, show};
use crate::net::HostId;
use crate::plan::TaskContext;
use crate::stream::{Produced, Source, SourceFactory};
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, lock, spawn};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// How often a reader is called that always has more, before the task's next split has its turn.
const TURN: usize = 16;

/// The source of [`Environment::read`](crate::Environment::read).
pub struct SplitFactory<S: SplitSource> {
    source: Arc<S>,
    /// Made for the first task of this host.
    board: Mutex<Option<Arc<Shared<Board<S>>>>>,
}

impl<S: SplitSource> SplitFactory<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source: Arc::new(source), board: Mutex::new(None) }
    }

    /// The same source, which emits bad records too.
    pub(in crate::io) fn diverting(self) -> SplitFactory<S::Diverting>
    where
        S: DecodingSource,
    {
        SplitFactory::new(S::diverting(self.source))
    }
}

/// How a split is left in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Data)]
enum Left {
    Open,
    /// As the operators behind it have had enough: some of what was read may not count.
    Cut,
    /// Read to its end.
    Ended,
}

/// A split in a checkpoint: where it goes on, if it was open, and how often its reader was called.
type SavedSplit<S> = (<S as SplitSource>::Split, Option<<S as SplitSource>::Position>, u64, Left);

/// What a checkpoint has of all splits.
type Before<S> =
    BTreeMap<<S as SplitSource>::Split, (Option<<S as SplitSource>::Position>, u64, Left)>;

/// How far the splits were read.
fn splits_read<S: SplitSource>(saved: Vec<SavedSplit<S>>) -> String {
    let mut before = Before::<S>::new();
    saved.into_iter().for_each(|saved| keep_latest::<S>(&mut before, saved));
    let ended = before.values().filter(|(.., left)| *left == Left::Ended).count();
    let [all, ended] = [before.len(), ended].map(|count| show::count(count as u64));
    format!("in {all} splits, of which {ended} were read to their end")
}

fn keep_latest<S: SplitSource>(
    before: &mut Before<S>,
    (split, position, reads, left): SavedSplit<S>,
) {
    let progress = |position: &Option<S::Position>, reads, left| (reads, left, position.is_some());
    let found = before.get(&split).map(|(position, reads, left)| progress(position, *reads, *left));
    if found.is_none_or(|found| progress(&position, reads, left) > found) {
        before.insert(split, (position, reads, left));
    }
}

/// The splits of a source, as one host knows them.
struct Board<S: SplitSource> {
    source: Arc<S>,
    progress: Arc<Progress<S>>,
    me: HostId,
    /// The host of each task.
    hosts: Vec<HostId>,
    dealt: Mutex<Dealt<S::Split>>,
    /// The splits in the checkpoint that the job began with, if it did.
    before: Option<BTreeSet<S::Split>>,
    /// Those of them that are not there any more, and without which the job goes on. Set on the first host.
    left_out: OnceLock<BTreeSet<S::Split>>,
    /// How often tasks of this host got splits, or the source has failed.
    changes: AtomicUsize,
    /// Whether it is known which splits there were at first.
    is_known: AtomicBool,
    /// Why the splits could not be listed, until a task reports it.
    failure: Mutex<Option<Error>>,
    /// The tasks of this host.
    tasks: Mutex<Vec<WeakWaker>>,
    /// Ends the thread that looks for new splits.
    looking: Arc<Looking>,
}

/// A split with its number, and whether it is new.
type Numbered<P> = (u64, P, bool);

struct Dealt<P> {
    /// On the first host.
    known: BTreeSet<P>,
    /// Those of them that were found after the job was first started.
    new: BTreeSet<P>,
    /// Those that tasks of this host have not taken, by task.
    own: BTreeMap<usize, VecDeque<Numbered<P>>>,
    /// Those that other hosts have not requested, by host.
    of_others: BTreeMap<HostId, Vec<Numbered<P>>>,
}

/// Whether the source is gone, for the thread that looks for new splits.
#[derive(Default)]
struct Looking {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Looking {
    /// Waits for so long, or less; returns whether to look.
    fn wait(&self, time: Duration) -> bool {
        let over = lock(&self.over);
        if *over {
            return false;
        }
        let waited = self.changed.wait_timeout(over, time);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl<S: SplitSource> Board<S> {
    fn new(source: &Arc<S>, cx: &TaskContext<'_>, before: Option<BTreeSet<S::Split>>) -> Self {
        Self {
            source: Arc::clone(source),
            progress: Arc::new(Progress::new(Arc::clone(source))),
            me: cx.links.hosts().me(),
            hosts: cx.hosts.to_vec(),
            dealt: Mutex::new(Dealt {
                known: BTreeSet::new(),
                new: BTreeSet::new(),
                own: BTreeMap::new(),
                of_others: BTreeMap::new(),
            }),
            before,
            left_out: OnceLock::new(),
            changes: AtomicUsize::new(0),
            is_known: AtomicBool::new(false),
            failure: Mutex::default(),
            tasks: Mutex::default(),
            looking: Arc::default(),
        }
    }

    /// On the first host: deals out those splits that were not known before.
    fn list(&self) -> Result<()> {
        let listed = self.source.splits()?;
        let is_first = !self.is_known.load(Ordering::Acquire);
        let mut dealt = lock(&self.dealt);
        let mut changed = is_first;
        for split in listed {
            let is_left_out = || self.left_out.get().is_some_and(|gone| gone.contains(&split));
            if dealt.known.contains(&split) || is_left_out() {
                continue;
            }
            let number = dealt.known.len() as u64;
            let is_new = match &self.before {
                Some(before) => !before.contains(&split),
                None => !is_first,
            };
            dealt.known.insert(split.clone());
            if is_new {
                dealt.new.insert(split.clone());
            }
            let task = self.owner(number);
            match self.hosts[task] {
                host if host == self.me => {
                    dealt.own.entry(task).or_default().push_back((number, split, is_new));
                    changed = true;
                }
                host => dealt.of_others.entry(host).or_default().push((number, split, is_new)),
            }
        }
        drop(dealt);
        self.is_known.store(true, Ordering::Release);
        if changed {
            self.change();
        }
        Ok(())
    }

    /// The task that reads the split of this number.
    fn owner(&self, number: u64) -> usize {
        (number % self.hosts.len() as u64) as usize
    }

    fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.change();
    }

    /// Tasks of this host should look at the board.
    fn change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        lock(&self.tasks).iter().for_each(WeakWaker::wake);
    }
}

impl<S: SplitSource> Drop for Board<S> {
    fn drop(&mut self) {
        *lock(&self.looking.over) = true;
        self.looking.changed.notify_all();
    }
}

/// Looks for new splits until the source is gone.
fn look_again<S: SplitSource>(board: &Weak<Shared<Board<S>>>, looking: &Looking, every: Duration) {
    while looking.wait(every) {
        let Some(board) = board.upgrade() else { return };
        if let Err(error) = catch(|| board.work.list()).and_then(|listed| listed) {
            return board.work.fail(error);
        }
    }
}

impl<S: SplitSource> Work for Board<S> {
    type Piece = Numbered<S::Split>;
    type Preamble = ();

    fn size(_: &Self::Piece) -> u64 {
        1
    }

    fn preamble(&self) {}

    fn grant(&self, to: HostId, _: Share) -> (Vec<Self::Piece>, bool) {
        let splits = lock(&self.dealt).of_others.remove(&to).unwrap_or_default();
        (splits, self.source.look_again_after().is_none())
    }

    fn accept(
        &self,
        _: Option<()>,
        splits: Vec<Self::Piece>,
    ) -> Result<Vec<Self::Piece>, DecodeError> {
        let mut dealt = lock(&self.dealt);
        let is_known = self.is_known.swap(true, Ordering::AcqRel);
        let changed = !is_known || !splits.is_empty();
        for (number, split, is_new) in splits {
            let task = self.owner(number);
            if self.hosts[task] != self.me {
                return Err(DecodeError::invalid("splits of this host's tasks"));
            }
            dealt.own.entry(task).or_default().push_back((number, split, is_new));
        }
        drop(dealt);
        if changed {
            self.change();
        }
        Ok(Vec::new())
    }
}

impl<S: SplitSource> SplitFactory<S> {
    /// The board of this host. On the first host, the first call lists the splits.
    fn board(&self, cx: &TaskContext<'_>, before: &Before<S>) -> Result<Arc<Shared<Board<S>>>> {
        let mut made = lock(&self.board);
        if let Some(board) = &*made {
            return Ok(Arc::clone(board));
        }
        let splits = cx.is_restored().then(|| before.keys().cloned().collect());
        let board = Board::new(&self.source, cx, splits);
        let hosts = cx.links.hosts();
        // Where nothing more is read, splits may be gone.
        let lists = hosts.me() == HostId::FIRST && !cx.is_trial() && !cx.is_drained();
        let listed = || board.list().and_then(|()| self.check(&board, before, cx));
        if lists && let Err(error) = listed() {
            if hosts.count() == 1 {
                return Err(error);
            }
            // The job begins all the same, so that other hosts get to know why it fails.
            board.fail(error);
        }
        let looking = Arc::clone(&board.looking);
        let board = Shared::new(cx, board)?;
        let every = self.source.look_again_after();
        if let Some(every) = every.filter(|_| lists && !cx.clock.is_simulated()) {
            let weak = Arc::downgrade(&board);
            spawn("thalweg-splits".to_owned(), move || look_again(&weak, &looking, every))?;
        }
        *made = Some(Arc::clone(&board));
        Ok(board)
    }

    /// Checks that all splits are there of which the checkpoint has read a part, or that the job goes on without them.
    fn check(&self, board: &Board<S>, before: &Before<S>, cx: &TaskContext<'_>) -> Result<()> {
        let operator = cx.op(cx.first_operator().unwrap_or_default()).name();
        let begin_anew = cx.begin_anew();
        let dealt = lock(&board.dealt);
        let is_gone = |(split, (position, _, left)): &(&S::Split, &(Option<_>, _, Left))| {
            position.is_some() && *left != Left::Ended && !dealt.known.contains(split)
        };
        let gone = before.iter().filter(is_gone);
        let gone: Vec<_> = gone.map(|(split, _)| split.clone()).collect();
        drop(dealt);
        let Some(first) = gone.first() else { return Ok(()) };
        if !catch(|| self.source.goes_on_without(&gone))?? {
            let what = format!(
                "the checkpoint has read a part of a split that is not among those that {} has now: if it is gone for good, {begin_anew}; \
                 if not, run the job again when it is there, or the program that has read it",
                self.source.describe()
            );
            return Err(
                Error::new(ErrorKind::Input, what).at(Place::Split(first.to_string(), None))
            );
        }
        let names: Vec<_> = gone.iter().map(ToString::to_string).collect();
        log::warn!(
            target: "thalweg::connector",
            "{operator}: the job goes on without what is not there any more: {}",
            names.join(", ")
        );
        let _ = board.left_out.set(gone.into_iter().collect());
        Ok(())
    }
}

impl<S: SplitSource> SourceFactory for SplitFactory<S> {
    type Source = SplitTask<S>;

    fn open(&self, cx: &TaskContext<'_>) -> Result<SplitTask<S>> {
        let state = match cx.first_operator() {
            Some(op) => {
                let state = cx.state::<SavedSplit<S>>(op, "splits", Redistribution::United);
                state.position(splits_read::<S>)
            }
            None => StateHandle::none(),
        };
        let mut before = Before::<S>::new();
        state.restore(|saved: SavedSplit<S>| {
            keep_latest::<S>(&mut before, saved);
            Ok(())
        })?;
        let board = self.board(cx, &before)?;
        lock(&board.work.tasks).push(cx.waker.downgrade());
        let every = self.source.look_again_after().map(nanos);
        let looks_itself = match board.is_first() {
            true => cx.clock.is_simulated() && cx.task == 0,
            false => true,
        };
        let now = cx.clock.now();
        Ok(SplitTask {
            source: Arc::clone(&self.source),
            board,
            task: cx.task,
            op: cx.op(cx.first_operator().unwrap_or_default()),
            memory: cx.fixed(cx.first_operator().unwrap_or_default()),
            waker: cx.waker.clone(),
            is_timed: cx.partitions.is_timed(),
            partitions: Arc::clone(cx.partitions),
            state,
            before,
            opening: Opening::new(),
            opens_itself: cx.clock.is_simulated(),
            splits: Vec::new(),
            ended: Vec::new(),
            current: 0,
            run: 0,
            entered: None,
            events: VecDeque::new(),
            seen: None,
            knows: false,
            every,
            next_look: every.filter(|_| looks_itself).map(|every| now.saturating_add(every)),
            is_without: false,
            is_cut: false,
            was_drained: cx.is_drained(),
            count: 0,
            waits: Waits::new(cx.clock),
        })
    }
}

/// The splits that one task reads.
pub struct SplitTask<S: SplitSource> {
    source: Arc<S>,
    board: Arc<Shared<Board<S>>>,
    task: usize,
    op: Op,
    /// Empty: readers have others like it.
    memory: Reservation,
    waker: Waker,
    /// Whether the stage has event time.
    is_timed: bool,
    partitions: Arc<Partitions>,
    state: StateHandle,
    /// What the checkpoint has that the job began with.
    before: Before<S>,
    opening: Opening<S>,
    /// Whether no thread opens splits.
    opens_itself: bool,
    splits: Vec<OpenSplit<S>>,
    /// Those that have been read to their end.
    ended: Vec<(S::Split, Option<S::Position>, u64)>,
    /// The index of the one that is being read, and how often it was read in a row.
    current: usize,
    run: usize,
    /// The number of the split that was named last in an event.
    entered: Option<u64>,
    /// Events to be sent before anything is read.
    events: VecDeque<PartitionEvent>,
    /// The changes of the board that the task has seen.
    seen: Option<usize>,
    /// Whether it has seen all splits that there were at first.
    knows: bool,
    every: Option<Nanos>,
    /// When the task itself looks for new splits.
    next_look: Option<Nanos>,
    /// Whether it has said that it has no split.
    is_without: bool,
    /// Whether the operators behind it have closed it, so that some of what was read may not count.
    is_cut: bool,
    /// Whether the job goes on from the end of one that was drained, and reads nothing.
    was_drained: bool,
    count: u64,
    waits: Waits,
}

impl<S: SplitSource> SplitTask<S> {
    /// Opens the splits that the task has got; returns what it waits for, if that is to know them.
    fn take_new(&mut self, now: Nanos) -> Result<Option<Produced>> {
        let board = Arc::clone(&self.board);
        let looks = self.next_look.is_some_and(|at| at <= now);
        let changes = board.work.changes.load(Ordering::Acquire);
        let is_first_time = self.seen.is_none();
        if self.seen == Some(changes) && !looks {
            return Ok((!self.knows).then_some(Produced::Pending));
        }
        self.seen = Some(changes);
        if let Some(error) = lock(&board.work.failure).take() {
            return Err(error);
        }
        if looks {
            self.next_look = self.every.map(|every| now.saturating_add(every));
        }
        if !board.is_first() && (looks || is_first_time) {
            // Sends a request. What was granted is on the board.
            let _ = board.take(self.task, &self.waker, |_| None::<()>);
        } else if looks {
            board.work.list()?;
        }
        // Before its splits are taken: what makes them known adds them first.
        self.knows = board.work.is_known.load(Ordering::Acquire);
        let own = lock(&board.work.dealt).own.remove(&self.task);
        if let Some(own) = own {
            self.open(own)?;
        }
        Ok((!self.knows).then_some(Produced::Pending))
    }

    /// Takes the splits that have been opened.
    fn take_opened(&mut self) -> Result<()> {
        while !self.opening.is_empty()
            && let Some(opened) = self.opening.next()?
        {
            self.splits.push(opened);
        }
        Ok(())
    }

    /// Begins to open splits, but for those that have been read to their end.
    fn open(&mut self, own: VecDeque<Numbered<S::Split>>) -> Result<()> {
        let mut unopened = Vec::with_capacity(own.len());
        for (number, split, is_new) in own {
            let (from, reads) = match self.before.get(&split).cloned() {
                Some((position, reads, Left::Ended)) => {
                    self.ended.push((split, position, reads));
                    continue;
                }
                Some((position, reads, _)) => (position, reads),
                None => (None, 0),
            };
            let ready = Arc::new(AtomicBool::new(true));
            let waker = SplitWaker { ready, task: self.waker.downgrade() };
            let (operator, memory) = (self.op.name(), self.memory.another());
            let context = SplitContext { operator, waker, is_new, memory };
            if self.is_timed {
                // Before it is open: it holds event time back.
                self.partitions.name_split(number as usize, split.to_string());
                self.entered = Some(number);
                self.events.push_back(PartitionEvent::Split(number as usize));
            }
            unopened.push(Unopened { number, split, from, reads, context });
            self.is_without = false;
        }
        if self.is_timed && !unopened.is_empty() {
            let named = self.events.len().saturating_sub(unopened.len());
            self.events.insert(named, PartitionEvent::Splits(unopened.len()));
        }
        if self.opens_itself {
            self.splits.extend(open_now(&*self.source, unopened)?);
        } else if !unopened.is_empty() {
            let task = self.waker.downgrade();
            self.opening.begin(&self.source, unopened, &self.op, task)?;
        }
        Ok(())
    }

    /// Chooses the split to read next: the current one, unless others have waited for long enough, or it is too far ahead of them
    /// in event time.
    fn choose(&mut self, now: Nanos, mut may_read: impl FnMut(usize) -> bool) -> Option<usize> {
        let all = self.splits.len();
        let first = usize::from(self.run >= TURN);
        let next = (first..all + first).map(|step| (self.current + step) % all);
        let is_ready = |at: &usize| {
            let OpenSplit { number, waker, again, .. } = &self.splits[*at];
            let is_due = again.is_some_and(|again| again <= now);
            (waker.ready.load(Ordering::Acquire) || is_due) && may_read(*number as usize)
        };
        let chosen = next.into_iter().find(is_ready)?;
        if chosen != self.current || self.run >= TURN {
            (self.current, self.run) = (chosen, 0);
        }
        Some(chosen)
    }

    /// Reads a split; returns whether there may be records.
    fn read<N: Push<S::Item, ()>>(&mut self, at: usize, now: Nanos, next: &mut N) -> Result<bool> {
        let before = self.count;
        let open = &mut self.splits[at];
        // Before the reader looks: what it does not see any more makes it ready again.
        open.waker.ready.swap(false, Ordering::AcqRel);
        (open.again, open.reads) = (None, open.reads + 1);
        self.run += 1;
        let status = open.reader.read(&mut Output { next, count: &mut self.count });
        let status = status.map_err(|error| place(error, &open.split))?;
        let number = open.number as usize;
        match status {
            ReadStatus::More => {
                open.waker.ready.store(true, Ordering::Release);
                return Ok(true);
            }
            ReadStatus::Pending => open.waits.nothing(&open.reader),
            ReadStatus::PendingFor(time) => {
                open.again = Some(now.saturating_add(nanos(time).max(1)));
                open.waits.nothing(&open.reader);
            }
            ReadStatus::End => {
                let OpenSplit { split, reader, reads, waits, .. } = self.splits.swap_remove(at);
                self.waits.ended(&split, &waits);
                self.ended.push((split, Some(reader.position()), reads));
                (self.current, self.run) = (0, 0);
                if self.is_timed {
                    self.events.push_back(PartitionEvent::SplitEnd(number));
                }
                return Ok(true);
            }
        }
        if self.is_timed {
            self.events.push_back(match open.reader.is_caught_up() {
                true => PartitionEvent::Quiet(number),
                false => PartitionEvent::Behind(number),
            });
        }
        Ok(self.count > before)
    }

    /// At the end of all splits, or where the job is drained: how far they were read counts if the job ends well. That of splits
    /// that were not opened counts since the checkpoint that has it.
    fn end(&self) {
        let is_whole = self.splits.is_empty() && self.opening.is_empty();
        if self.is_cut && !is_whole {
            return;
        }
        let ended = self.ended.iter().map(|(split, position, _)| (split, position.clone()));
        let open = self.splits.iter().map(|open| (&open.split, Some(open.reader.position())));
        // The job that was drained was not over.
        let counts = |left| self.was_drained && self.task == 0 && left != Left::Cut;
        let drained = self.before.iter().filter(|(_, (.., left))| counts(*left));
        let drained = drained.map(|(split, (position, ..))| (split, position.clone()));
        let all = ended.chain(open).chain(drained);
        let known = all.filter_map(|(split, position)| Some((split.clone(), position?)));
        self.board.work.progress.end(known.collect(), &self.op);
    }

    /// What there is to do while no split is ready.
    fn rest(&mut self, now: Nanos) -> Produced {
        if self.splits.is_empty() && self.ended.is_empty() && !self.opening.is_empty() {
            return Produced::Pending;
        }
        if self.splits.is_empty() && self.opening.is_empty() {
            if self.every.is_none() {
                return Produced::End;
            }
            if self.is_timed && !self.is_without {
                self.is_without = true;
                return Produced::Partition(PartitionEvent::NoSplit);
            }
        }
        let has_nothing = |open: &&mut OpenSplit<S>| !open.waker.ready.load(Ordering::Acquire);
        let waiting = self.splits.iter_mut().filter(has_nothing);
        self.waits.begin(now, waiting.map(|open| &mut open.waits));
        // What is due already is held back, and the task is woken when it may be read.
        let again = self.splits.iter().filter_map(|open| open.again).filter(|again| *again > now);
        again.chain(self.next_look).min().map_or(Produced::Nothing, Produced::NothingUntil)
    }
}

impl<S: SplitSource> Source for SplitTask<S> {
    type Item = S::Item;
    type Time = ();

    fn produce<N: Push<S::Item, ()>>(&mut self, now: Nanos, next: &mut N) -> Result<Produced> {
        self.waits.end(now, self.splits.iter_mut().map(|open| &mut open.waits));
        if self.events.is_empty()
            && let Some(waits) = self.take_new(now)?
        {
            return Ok(waits);
        }
        self.take_opened()?;
        // Each split once: a reader may always wake itself and have nothing.
        for _ in 0..=self.splits.len() {
            if let Some(event) = self.events.pop_front() {
                return Ok(Produced::Partition(event));
            }
            let is_timed = self.is_timed;
            let Some(at) = self.choose(now, |split| !is_timed || next.may_read(split)) else {
                return Ok(self.rest(now));
            };
            let number = self.splits[at].number;
            if self.is_timed && self.entered != Some(number) {
                self.entered = Some(number);
                return Ok(Produced::Partition(PartitionEvent::Split(number as usize)));
            }
            if self.read(at, now, next)? {
                return Ok(Produced::Some);
            }
        }
        Ok(Produced::Some)
    }

    fn may_save(&mut self, now: Nanos) -> Result<bool> {
        self.take_new(now)?;
        self.take_opened()?;
        Ok(self.knows && !self.opening.is_undecided())
    }

    fn save(&mut self, event: Event) {
        if event == Event::End {
            self.end();
        }
        let Self { op, is_cut, board, task, state, before, splits, ended, .. } = self;
        state.save(event, |out| {
            if *task == 0 {
                // Some of them may not be open yet, here or on another host.
                let left_out = board.work.left_out.get();
                for (split, (position, reads, left)) in before.iter() {
                    let is_left_out = left_out.is_some_and(|gone| gone.contains(split));
                    // Without a position, which would be reported to the source.
                    let (position, left) = match is_left_out {
                        true => (None, Left::Ended),
                        false => (position.clone(), *left),
                    };
                    out.add(&(split.clone(), position, *reads, left));
                }
                // Those that were listed first are not new in another run, even if no task has opened them; those that were new
                // stay so until one has. Other hosts know of none.
                let dealt = lock(&board.work.dealt);
                let listed = dealt.known.difference(&dealt.new);
                for split in listed.filter(|split| !before.contains_key(*split)) {
                    out.add(&(split.clone(), None::<S::Position>, 0u64, Left::Open));
                }
            }
            let is_cut = event == Event::End && *is_cut;
            let left = if is_cut { Left::Cut } else { Left::Open };
            let mut positions = Vec::with_capacity(splits.len() + ended.len());
            for OpenSplit { split, reader, reads, .. } in splits.iter() {
                let position = reader.position();
                out.add(&(split.clone(), Some(position.clone()), *reads, left));
                positions.push((split.clone(), position));
            }
            for (split, position, reads) in ended.iter() {
                let position = position.clone().filter(|_| !is_cut);
                out.add(&(split.clone(), position.clone(), *reads, Left::Ended));
                positions.extend(position.map(|position| (split.clone(), position)));
            }
            if is_cut {
                positions.clear();
            }
            let (progress, operator) = (Arc::clone(&board.work.progress), op.name());
            out.once_it_counts(move || {
                progress.commit(&positions).map_err(|error| error.in_operator(&*operator))
            });
        });
    }

    fn stop(&mut self) -> bool {
        self.waits.end_now(self.splits.iter_mut().map(|open| &mut open.waits));
        false
    }

    fn ends(&mut self, is_closed: bool) {
        self.is_cut = is_closed;
    }

    fn waits(&self) -> Option<TaskWaits> {
        self.waits.report(self.splits.iter().map(|open| (&open.split, &open.reader, &open.waits)))
    }

    fn records(&self) -> u64 {
        self.count
    }
}
