//! Joins by sorting both sides and merging them.
//!
//! Both sides are sorted by the hash of their keys, and keys of one hash by their encodings, so that keys need
//! no order of their own. The right records of a key are its group; the left records are joined with it block
//! by block, a block being what memory has room for beside the group. A group that does not fit goes to disk
//! but for what memory holds, and is read once per block.

use super::hash::{RowsOut, SavedRows};
use super::inputs::Inputs;
use super::kinds::Kind;
use crate::data::Data;
use crate::error::Result;
use crate::exchange::{Hashed, PairInlet};
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, PushTwo, guard, pump};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::state::{Sorted, Sorter, SpillDir, SpillFile, SpillReader, SpillWriter};
use crate::stream::Chain;
use crate::time::Time;
use std::cmp::Ordering;
use std::marker::PhantomData;

/// Bytes that may be used even if the budget is exhausted.
const ALWAYS: usize = 64 << 10;

/// A record as it is sorted.
type Row<K, V, T> = (u64, K, V, T);
type Compare<K, V, T> = fn(&Row<K, V, T>, &Row<K, V, T>) -> Ordering;

/// The first chain of a stage in which two sides are sorted and joined.
pub struct MergeJoined<K: Data, L: Data, R: Data, T: Time, X> {
    pub(super) inputs: Inputs<K, L, R, T>,
    pub(super) op: usize,
    pub(super) kind: PhantomData<fn() -> X>,
}

impl<K, L, R, T, X> Chain for MergeJoined<K, L, R, T, X>
where
    K: Data + Eq + Clone,
    L: Data,
    R: Data,
    T: Time,
    X: Kind<L, R>,
{
    type Item = (K, X::Out);
    type Time = T;
    type Task<N: Push<Self::Item, T> + 'static> =
        PairInlet<Hashed<(K, L)>, Hashed<(K, R)>, T, MergeJoinPush<K, L, R, T, X, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, T> + 'static,
    {
        self.inputs.refuse_in_loops(cx, self.op)?;
        let (left_everywhere, right_everywhere) = self.inputs.everywhere();
        let (left_anywhere, right_anywhere) = self.inputs.anywhere();
        let saved = (
            SavedRows::new(cx, self.op, "left rows", left_everywhere).anywhere(left_anywhere),
            SavedRows::new(cx, self.op, "right rows", right_everywhere).anywhere(right_anywhere),
        );
        let mut left = MergeInput::new(cx, self.op);
        let mut right = MergeInput::new(cx, self.op);
        left.restore(&saved.0)?;
        right.restore(&saved.1)?;
        let core = Core {
            op: cx.op(self.op),
            left,
            right,
            phase: Phase::Taking,
            group: Group::new(cx, self.op),
            spilled: 0,
            kind: PhantomData,
        };
        let push = MergeJoinPush { core, saved, ended: false, emitted: 0, next };
        Ok(self.inputs.inlet(cx, push))
    }
}

/// A sort-merge join in a running task.
pub struct MergeJoinPush<K: Data, L: Data, R: Data, T: Time, X, N> {
    core: Core<K, L, R, T, X>,
    saved: (SavedRows<K, L, T>, SavedRows<K, R, T>),
    ended: bool,
    emitted: u64,
    next: N,
}

struct Core<K: Data, L: Data, R: Data, T: Time, X> {
    op: Op,
    left: MergeInput<K, L, T>,
    right: MergeInput<K, R, T>,
    phase: Phase,
    group: Group<K, L, R, T>,
    spilled: u64,
    kind: PhantomData<fn() -> X>,
}

enum Phase {
    /// Records arrive.
    Taking,
    /// The next records of both sides are to be compared.
    Comparing,
    /// The right records of a key are gathered.
    Gathering,
    /// The next left records of that key are gathered.
    Filling,
    /// Each pair of both is emitted.
    Pairing,
    /// All results are emitted, or the job has failed.
    Over,
}

/// One of the two inputs.
struct MergeInput<K: Data, V: Data, T: Time> {
    taking: Option<Sorter<Row<K, V, T>, Compare<K, V, T>>>,
    sorted: Option<Sorted<Row<K, V, T>, Compare<K, V, T>>>,
    /// The next record.
    head: Option<Row<K, V, T>>,
}

/// The records of a key.
struct Group<K, L, R: Data, T: Time> {
    key: Option<(u64, K)>,
    rights: Vec<(R, T)>,
    writer: Option<SpillWriter<(R, T)>>,
    /// The right records that memory had no room for.
    file: Option<SpillFile<(R, T)>>,
    reader: Option<SpillReader<(R, T)>>,
    lefts: Vec<(L, T)>,
    /// The right record that is being paired: one of those in memory, or the one just read.
    right: usize,
    read: Option<(R, T)>,
    /// The left record that it is to be paired with next.
    left: usize,
    memory: [Room; 2],
    spill: SpillDir,
}

/// The memory of one list.
struct Room {
    bytes: usize,
    reservation: Reservation,
}

impl Room {
    /// Takes so many more bytes; returns whether the budget has room for them.
    fn take(&mut self, bytes: usize) -> bool {
        let wanted = self.bytes + bytes;
        let has = wanted <= ALWAYS.max(self.reservation.bytes())
            || self.reservation.try_resize(2 * wanted)
            || self.reservation.try_resize(wanted + wanted / 4);
        self.bytes += if has { bytes } else { 0 };
        has
    }

    fn reset(&mut self) {
        self.bytes = 0;
        let _ = self.reservation.try_resize(0);
    }
}

fn order<K: Data + Eq>(a: (u64, &K), b: (u64, &K)) -> Ordering {
    a.0.cmp(&b.0).then_with(|| {
        if a.1 == b.1 {
            return Ordering::Equal;
        }
        let encoded = |key: &K| {
            let mut bytes = Vec::new();
            key.encode(&mut bytes);
            bytes
        };
        encoded(a.1).cmp(&encoded(b.1))
    })
}

fn rows_in_order<K: Data + Eq, V, T>(a: &Row<K, V, T>, b: &Row<K, V, T>) -> Ordering {
    order((a.0, &a.1), (b.0, &b.1))
}

impl<K: Data + Eq, V: Data, T: Time> MergeInput<K, V, T> {
    fn new(cx: &TaskContext<'_>, op: usize) -> Self {
        let compare: Compare<K, V, T> = rows_in_order;
        let sorter = Sorter::new(compare, cx.spillable(op), cx.spill.clone());
        let sorter = sorter.hashed_by(|(hash, ..)| *hash);
        Self { taking: Some(sorter), sorted: None, head: None }
    }

    #[inline]
    fn take(&mut self, row: Row<K, V, T>) -> Result<()> {
        match &mut self.taking {
            Some(sorter) => sorter.push(row),
            None => Ok(()),
        }
    }

    /// Ends the input.
    fn end(&mut self) -> Result<()> {
        let Some(sorter) = self.taking.take() else { return Ok(()) };
        self.sorted = Some(sorter.finish()?);
        self.step()?;
        Ok(())
    }

    fn save(&self, out: &mut RowsOut<'_>) {
        let Some(sorter) = &self.taking else { return };
        let (runs, rows) = sorter.parts();
        runs.iter().for_each(|run| out.add_share(run, &()));
        rows.iter().for_each(|(_, key, value, time)| out.add(key, value, *time, false));
    }

    fn restore(&mut self, saved: &SavedRows<K, V, T>) -> Result<()> {
        if let Some(sorter) = &mut self.taking {
            let spill = sorter.spill_dir().clone();
            saved.restore_files(&spill, |run, ()| {
                sorter.add_run(run);
                Ok(())
            })?;
        }
        saved.restore(|row, _| self.take(row))
    }

    /// Spills and releases memory where the pool is over its budget.
    fn give_way(&mut self) -> Result<()> {
        match (&mut self.taking, &mut self.sorted) {
            (Some(sorter), _) => sorter.give_way(),
            (None, Some(sorted)) => sorted.give_way(),
            (None, None) => Ok(()),
        }
    }

    /// The bytes on disk.
    fn spilled(&self) -> u64 {
        let taking = self.taking.as_ref().map_or(0, Sorter::spilled);
        taking + self.sorted.as_ref().map_or(0, Sorted::spilled)
    }

    /// Returns the next record, and reads the one behind it.
    fn step(&mut self) -> Result<Option<Row<K, V, T>>> {
        let next = match &mut self.sorted {
            Some(sorted) => sorted.next()?,
            None => None,
        };
        Ok(std::mem::replace(&mut self.head, next))
    }

    /// Whether the next record has this key.
    fn has(&self, key: &Option<(u64, K)>) -> bool {
        match (&self.head, key) {
            (Some(head), Some(key)) => head.0 == key.0 && head.1 == key.1,
            _ => false,
        }
    }
}

impl<K, L: Data, R: Data, T: Time> Group<K, L, R, T> {
    fn new(cx: &TaskContext<'_>, op: usize) -> Self {
        Self {
            key: None,
            rights: Vec::new(),
            writer: None,
            file: None,
            reader: None,
            lefts: Vec::new(),
            right: 0,
            read: None,
            left: 0,
            memory: [0, 1].map(|_| Room { bytes: 0, reservation: cx.modest(op) }),
            spill: cx.spill.clone(),
        }
    }

    fn gather(&mut self, right: (R, T)) -> Result<()> {
        if self.writer.is_none() {
            if self.memory[0].take(size_of::<(R, T)>() + right.0.heap_size()) {
                self.rights.push(right);
                return Ok(());
            }
            self.writer = Some(self.spill.writer());
        }
        match &mut self.writer {
            Some(writer) => writer.push(&right),
            None => Ok(()),
        }
    }

    /// Called when all right records of the key are gathered; returns how many bytes of them are on disk.
    fn gathered(&mut self) -> Result<u64> {
        if let Some(writer) = self.writer.take() {
            self.file = Some(writer.finish()?);
        }
        Ok(self.file.as_ref().map_or(0, SpillFile::bytes))
    }

    /// Whether a left record may be taken into the block.
    fn has_room(&mut self, left: &L) -> bool {
        // Where the group is in memory, another pass over it costs nothing.
        (self.file.is_some() || self.lefts.len() < CHUNK)
            && (self.memory[1].take(size_of::<(L, T)>() + left.heap_size())
                || self.lefts.is_empty())
    }

    /// Begins to pair a block.
    fn rewind(&mut self) {
        (self.left, self.right) = (0, 0);
        self.read = None;
        self.reader = self.file.as_ref().map(SpillFile::read);
    }

    /// The right record that is being paired; `None` when the block is done.
    fn right(&mut self) -> Result<Option<&(R, T)>> {
        if self.right < self.rights.len() {
            return Ok(self.rights.get(self.right));
        }
        if self.read.is_none()
            && let Some(reader) = &mut self.reader
        {
            self.read = reader.next(|right| right)?;
        }
        Ok(self.read.as_ref())
    }

    fn clear_block(&mut self) {
        self.lefts.clear();
        self.memory[1].reset();
    }

    fn clear(&mut self) {
        self.clear_block();
        self.rights = Vec::new();
        (self.file, self.reader, self.read, self.key) = (None, None, None, None);
        self.memory[0].reset();
    }
}

impl<K, L, R, T, X> Core<K, L, R, T, X>
where
    K: Data + Eq + Clone,
    L: Data,
    R: Data,
    T: Time,
    X: Kind<L, R>,
{
    /// The next result, or `None` where other work has to be done first.
    #[inline]
    fn result(&mut self) -> Result<Option<((K, X::Out), T)>> {
        if !matches!(self.phase, Phase::Pairing) {
            return Ok(None);
        }
        loop {
            if self.group.left >= self.group.lefts.len() {
                // The next right record, with the whole block.
                self.group.left = 0;
                if self.group.right < self.group.rights.len() {
                    self.group.right += 1;
                } else {
                    self.group.read = None;
                }
            }
            if self.group.right()?.is_none() {
                return Ok(None);
            }
            let at = self.group.left;
            self.group.left += 1;
            let group = &self.group;
            let right = group.rights.get(group.right).or(group.read.as_ref());
            let (Some((left, left_at)), Some((right, right_at)), Some((_, key))) =
                (group.lefts.get(at), right, &group.key)
            else {
                return Ok(None);
            };
            let made =
                guard(&self.op, || X::row(Some(left), Some(right)).map(|made| (key.clone(), made)));
            if let Some(made) = made {
                return Ok(Some((made, *left_at.max(right_at))));
            }
        }
    }

    /// Does the next step of work, when there is no result; passes records without a partner to `emit`. Returns
    /// whether there is more work.
    fn advance(&mut self, mut emit: impl FnMut((K, X::Out), T)) -> Result<bool> {
        let Self { op, left, right, phase, group, spilled, .. } = self;
        match phase {
            Phase::Taking | Phase::Over => return Ok(false),
            Phase::Comparing => {
                for _ in 0..CHUNK {
                    let order = match (&left.head, &right.head) {
                        (None, None) => None,
                        (None, Some(_)) if X::RIGHT_ALONE => Some(Ordering::Greater),
                        (Some(_), None) if X::LEFT_ALONE => Some(Ordering::Less),
                        (None, _) | (_, None) => None,
                        (Some(a), Some(b)) => Some(guard(op, || order((a.0, &a.1), (b.0, &b.1)))),
                    };
                    match order {
                        None => {
                            *phase = Phase::Over;
                            return Ok(true);
                        }
                        Some(Ordering::Equal) if X::PAIRS => {
                            let head = left.head.as_ref();
                            group.key = guard(op, || head.map(|head| (head.0, head.1.clone())));
                            *phase = Phase::Gathering;
                            return Ok(true);
                        }
                        Some(Ordering::Greater) => {
                            if let Some((_, key, value, time)) = right.step()?
                                && X::RIGHT_ALONE
                                && let Some(made) = guard(op, || X::row(None, Some(&value)))
                            {
                                emit((key, made), time);
                                return Ok(true);
                            }
                        }
                        Some(met) => {
                            let wanted = if met.is_eq() { X::LEFT_MET } else { X::LEFT_ALONE };
                            if let Some((_, key, value, time)) = left.step()?
                                && wanted
                                && let Some(made) = guard(op, || X::row(Some(&value), None))
                            {
                                emit((key, made), time);
                                return Ok(true);
                            }
                        }
                    }
                }
            }
            Phase::Gathering => {
                for _ in 0..CHUNK {
                    if !guard(op, || right.has(&group.key)) {
                        *spilled += group.gathered()?;
                        *phase = Phase::Filling;
                        break;
                    }
                    if let Some((_, _, value, time)) = right.step()? {
                        group.gather((value, time))?;
                    }
                }
            }
            Phase::Filling => {
                for _ in 0..CHUNK {
                    let fits = guard(op, || left.has(&group.key))
                        && left.head.as_ref().is_some_and(|head| group.has_room(&head.2));
                    if !fits {
                        group.rewind();
                        *phase = Phase::Pairing;
                        break;
                    }
                    if let Some((_, _, value, time)) = left.step()? {
                        group.lefts.push((value, time));
                    }
                }
            }
            Phase::Pairing => {
                group.clear_block();
                if guard(op, || left.has(&group.key)) {
                    *phase = Phase::Filling;
                } else {
                    group.clear();
                    *phase = Phase::Comparing;
                }
            }
        }
        Ok(true)
    }

    fn end(&mut self) -> Result<()> {
        let Self { op, left, right, .. } = self;
        guard(op, || left.end())?;
        guard(op, || right.end())?;
        self.phase = Phase::Comparing;
        Ok(())
    }

    fn give_way(&mut self) -> Result<()> {
        let Self { op, left, right, .. } = self;
        guard(op, || left.give_way())?;
        guard(op, || right.give_way())
    }

    fn check(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.phase = Phase::Over;
            self.op.fail(error);
        }
    }
}

impl<K, L, R, T, X, N> Pipe for MergeJoinPush<K, L, R, T, X, N>
where
    K: Data + Eq + Clone,
    L: Data,
    R: Data,
    T: Time,
    X: Kind<L, R>,
    N: Push<(K, X::Out), T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.saved.0.save(event, |out| self.core.left.save(out));
        self.saved.1.save(event, |out| self.core.right.save(out));
        match event {
            Event::End => {
                self.ended = true;
                let ended = self.core.end();
                self.core.check(ended);
            }
            // Every result is still to come, so these are dropped.
            Event::Watermark(_) | Event::Idle | Event::Partition(_) => {}
            Event::Barrier(_) | Event::Round(_) => self.next.event(event),
        }
    }

    fn resume(&mut self) -> Flow {
        let given = self.core.give_way();
        self.core.check(given);
        let Self { core, ended, emitted, next, .. } = self;
        let mut failure = None;
        let flow = pump(next, |next| {
            match core.result() {
                Ok(Some((made, time))) => {
                    *emitted += 1;
                    next.push(made, time);
                    return true;
                }
                Ok(None) => {}
                Err(error) => {
                    failure = Some(error);
                    return false;
                }
            }
            let advanced = core.advance(|made, time| {
                *emitted += 1;
                next.push(made, time);
            });
            advanced.unwrap_or_else(|error| {
                failure = Some(error);
                false
            })
        });
        if let Some(error) = failure {
            core.check(Err(error));
            *ended = false;
        }
        if flow == Flow::Ready && std::mem::take(ended) && !core.op.signals().stopped() {
            next.event(Event::End);
            return next.resume();
        }
        flow
    }

    fn is_closed(&mut self) -> bool {
        let (left, right) = &self.saved;
        // The rows of all tasks are read to their end by the one that saves them, though it may not need them.
        if self.core.left.taking.is_some() && (left.are_of_all_tasks() || right.are_of_all_tasks())
        {
            return false;
        }
        self.next.is_closed()
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.core.op.id();
        report.emitted(op, self.emitted);
        report
            .spilled(op, self.core.spilled + self.core.left.spilled() + self.core.right.spilled());
        self.next.report(report);
    }
}

impl<K, L, R, T, X, N> PushTwo<Hashed<(K, L)>, Hashed<(K, R)>, T>
    for MergeJoinPush<K, L, R, T, X, N>
where
    K: Data + Eq + Clone,
    L: Data,
    R: Data,
    T: Time,
    X: Kind<L, R>,
    N: Push<(K, X::Out), T>,
{
    #[inline]
    fn push_first(&mut self, (hash, (key, value)): (u64, (K, L)), time: T) {
        let taken = guard(&self.core.op, || self.core.left.take((hash, key, value, time)));
        self.core.check(taken);
    }

    #[inline]
    fn push_second(&mut self, (hash, (key, value)): (u64, (K, R)), time: T) {
        let taken = guard(&self.core.op, || self.core.right.take((hash, key, value, time)));
        self.core.check(taken);
    }

    fn wants_second(&self) -> bool {
        true
    }
}
