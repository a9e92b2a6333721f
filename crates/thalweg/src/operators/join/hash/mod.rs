//! Hash joins: a table of one side, the build side, in which the records of the other, the probe side, are
//! looked up.
//!
//! The build side is read to its end first:
//!
//! ```text
//!   building ──> linking ──> looking ──> alone ──> over
//!      │ no memory              │ end                ^
//!      v                        v                    │
//!   splitting both sides ──> loading a part ──> linking ──> looking ──> alone ──> the next part
//!                              │      ^
//!                              v      │
//!                           splitting the part
//! ```
//!
//! * Building: rows are gathered. Records of the probe side wait in their lanes, unless that could block the
//!   build side, and otherwise in a [queue](Waiting).
//! * Looking: records are looked up, a batch at a time, one result after the other.
//! * Alone: rows that have met no partner are emitted, if the kind of join includes them.
//! * Where rows outgrow memory, both sides go to disk in [parts](parts). Of a part that cannot be split
//!   further, because most of it is one key, as many rows are loaded as memory has room for, and all its
//!   records of the probe side are looked up in them; then the next block of rows is loaded. So nothing but the
//!   number of results is ever the product of two sides.

mod kept;
mod parts;
mod probe;
mod saved;

use super::inputs::Inputs;
use super::kinds::Shape;
use crate::data::Data;
use crate::error::{Error, Result};
use crate::exchange::{Hashed, PairInlet};
use crate::flow::{CHUNK, Depth, Event, Flow, Op, Pipe, Push, PushTwo, guard, pump};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::stream::Chain;
use crate::support::passed_time::PassedTime;
use crate::support::queue::Waiting;
use crate::time::Time;
use parts::{Current, Note, Parts, Split};
use std::marker::PhantomData;

pub(super) use kept::{BuildTable, Row};
pub(super) use probe::{Probes, Sought};
pub(super) use saved::{RowsOut, SavedRows};

/// Rows that are linked in one step, before other work has its turn.
const LINKED: usize = 64 << 10;

/// The first chain of a stage in which records of one input, the second, are looked up in a table of the first.
pub struct HashJoined<K: Data, B: Data, P: Data, T: Time, S> {
    pub(super) inputs: Inputs<K, B, P, T>,
    pub(super) op: usize,
    /// Whether the probe side ends.
    pub(super) ends: bool,
    pub(super) shape: PhantomData<fn() -> S>,
}

impl<K, B, P, T, S> Chain for HashJoined<K, B, P, T, S>
where
    K: Data + Eq + Clone,
    B: Data,
    P: Data,
    T: Time,
    S: Shape<B, P>,
{
    type Item = (K, S::Out);
    type Time = T;
    type Task<N: Push<Self::Item, T> + 'static> =
        PairInlet<Hashed<(K, B)>, Hashed<(K, P)>, T, HashJoinPush<K, B, P, T, S, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, T> + 'static,
    {
        let early = self.inputs.hang_together(cx);
        let rows = SavedRows::new(cx, self.op, "rows", self.inputs.everywhere().0);
        let waiting = SavedRows::new(cx, self.op, "waiting", false);
        let waiting = waiting.anywhere(self.inputs.anywhere().1);
        let mut core = Core {
            op: cx.op(self.op),
            kept: BuildTable::new(match self.ends && cx.depth(self.op) == Depth(0) {
                true => cx.modest(self.op),
                false => cx.fixed(self.op),
            }),
            probes: Probes::new(),
            phase: Phase::Building,
            buffer: Waiting::new(cx, self.op).hashed_by(|record: &Sought<K, P, T>| record.0),
            buffers: early,
            early,
            splitting: None,
            parts: Parts::new(cx),
            current: None,
            ends: self.ends,
            closing: None,
            again: false,
            looped: cx.depth(self.op) > Depth(0),
            failed: false,
            rows: 0,
            met_before: Vec::new(),
            shape: PhantomData,
        };
        core.restore(&rows, &waiting)?;
        let push =
            HashJoinPush { core, saved: (rows, waiting), held: Held::default(), emitted: 0, next };
        Ok(self.inputs.inlet(cx, push))
    }
}

/// A hash join in a running task.
pub struct HashJoinPush<K: Data, B: Data, P: Data, T: Time, S, N> {
    core: Core<K, B, P, T, S>,
    /// The rows of the table, and the records that wait for it, in checkpoints.
    saved: (SavedRows<K, B, T>, SavedRows<K, P, T>),
    held: Held,
    emitted: u64,
    next: N,
}

/// The last watermark and idle event, held back while results that they would overtake are still to be emitted.
#[derive(Default)]
struct Held {
    passed: PassedTime,
    events: [Option<Event>; 2],
}

enum Phase {
    /// Rows of the build side arrive.
    Building,
    Linking,
    /// Records are looked up.
    Looking,
    /// Rows that have met no partner are emitted, from this one on.
    Alone(usize),
    /// A part's rows are read.
    Loading,
    /// A part is split: first its rows in memory, then the rest.
    Splitting,
    /// The end has been passed on, or the job has failed.
    Over,
}

struct Core<K: Data, B: Data, P: Data, T: Time, S> {
    op: Op,
    kept: BuildTable<K, B, T>,
    probes: Probes<K, P, T>,
    phase: Phase,
    /// Records that arrived before the table was complete.
    buffer: Waiting<Sought<K, P, T>>,
    /// Whether the probe side is read before the table is complete, or such records still wait in `buffer`.
    buffers: bool,
    /// Whether the probe side may be read that early, as records that wait in its lanes could block the build
    /// side.
    early: bool,
    /// Set when memory is short: the files that both sides, or a part of them, are written to.
    splitting: Option<Split<K, B, P, T>>,
    parts: Parts<K, B, P, T>,
    /// The part being joined.
    current: Option<Current<K, B, P, T>>,
    ends: bool,
    /// The event that says that all input of the stream or the round has arrived; passed on when all results
    /// are emitted.
    closing: Option<Event>,
    /// Whether the build side is sent again in the next round; else the table stays.
    again: bool,
    /// Whether the join is within a loop.
    looped: bool,
    failed: bool,
    /// Rows kept so far.
    rows: u64,
    /// Of the first rows, whether they have met a partner already, until they are linked: of those that the job began with, or
    /// of a part that has some of these.
    met_before: Vec<bool>,
    shape: PhantomData<fn() -> S>,
}

impl<K, B, P, T, S> Core<K, B, P, T, S>
where
    K: Data + Eq + Clone,
    B: Data,
    P: Data,
    T: Time,
    S: Shape<B, P>,
{
    const MARKS: bool = S::KEPT_ALONE || S::KEPT_MET;

    /// Begins with what is in the checkpoint, if the job goes on from one. What the table was built of has ended, or goes
    /// on: so the rows are linked later, as others are.
    fn restore(&mut self, rows: &SavedRows<K, B, T>, waiting: &SavedRows<K, P, T>) -> Result<()> {
        let spill = self.parts.spill_dir().clone();
        rows.restore_files(&spill, |file, note: Note| {
            self.rows += file.file.records();
            self.split()?.restore_rows(file, &note)
        })?;
        let mut files = Vec::new();
        waiting.restore_files(&spill, |file, note: Note| match note.removed() {
            None => self.split()?.restore_probes(file, &note),
            Some(removed) => {
                files.push((file, removed));
                Ok(())
            }
        })?;
        let mut any_met = false;
        rows.restore(|row, has_met| {
            self.rows += 1;
            let has_met = has_met && Self::MARKS;
            if let Some(split) = &mut self.splitting {
                return split.keep(&row, has_met);
            }
            match self.kept.push(row) {
                Err(row) => self.split()?.keep(&row, has_met),
                Ok(()) => {
                    if Self::MARKS {
                        self.met_before.push(has_met);
                    }
                    any_met |= has_met;
                    Ok(())
                }
            }
        })?;
        if any_met {
            self.kept.rows.keep_places();
        }
        waiting.restore(|record, _| {
            self.buffers = true;
            self.buffer.push(record)
        })?;
        self.buffers |= !files.is_empty();
        files.into_iter().try_for_each(|(file, removed)| self.buffer.restore_file(file, removed))
    }

    /// Saves the rows of the table and the records that wait for it, or for the parts on disk. While these are joined, no
    /// barrier comes.
    fn save(&mut self, event: Event, (rows, waiting): &(SavedRows<K, B, T>, SavedRows<K, P, T>)) {
        let Self { kept, met_before, splitting, buffer, .. } = self;
        let saved = rows.try_save(event, |out| {
            kept.save(out, met_before);
            splitting.as_mut().map_or(Ok(()), |split| split.save_rows(out))
        });
        let saved = saved.and_then(|()| {
            waiting.try_save(event, |out| {
                out.add_waiting(buffer)?;
                splitting.as_mut().map_or(Ok(()), |split| split.save_probes(out))
            })
        });
        self.check(saved);
    }

    #[inline(always)]
    fn keep(&mut self, row: Row<K, B, T>) -> Result<()> {
        self.rows += 1;
        if let Some(split) = &mut self.splitting {
            return split.keep(&row, false);
        }
        match self.kept.push(row) {
            Ok(()) => Ok(()),
            Err(row) => self.outgrow(&row),
        }
    }

    /// Memory is short: both sides go to disk.
    #[cold]
    fn outgrow(&mut self, row: &Row<K, B, T>) -> Result<()> {
        self.split()?.keep(row, false)
    }

    /// The files that both sides are written to, from now on.
    #[cold]
    fn split(&mut self) -> Result<&mut Split<K, B, P, T>> {
        if self.looped {
            let what = format!(
                "the {} records of its table are more than the memory budget of {} bytes holds, and within a \
                 loop it is needed again in each round, so that it does not go to disk; the smaller stream on the right needs \
                 less",
                self.rows,
                self.kept.limit(),
            );
            return Err(self.kept.refused(what));
        }
        if !self.ends {
            let what = format!(
                "the {} records of its table are more than the memory budget of {} bytes holds, and those \
                 that are looked up in it never end, so that none can wait on disk; the smaller stream on the right, `window_join` or `interval_join` need less",
                self.rows,
                self.kept.limit(),
            );
            return Err(self.kept.refused(what));
        }
        let Self { splitting, parts, .. } = self;
        Ok(splitting.get_or_insert_with(|| parts.split(None)))
    }

    /// Accepts a record that can be looked up.
    #[inline(always)]
    fn seek(&mut self, record: Sought<K, P, T>) -> Result<()> {
        match &mut self.splitting {
            Some(split) if split.has_rows_near(record.0) => split.seek(&record),
            _ => {
                self.probes.push(record);
                Ok(())
            }
        }
    }

    /// The next result of what is in memory.
    #[inline(always)]
    fn result(&mut self) -> Option<((K, S::Out), T)> {
        if let Phase::Alone(row) = &mut self.phase {
            if !S::KEPT_ALONE {
                return None;
            }
            while let Some(&met) = self.kept.met.get(*row) {
                let at = *row;
                *row += 1;
                if met {
                    continue;
                }
                let (kept, time) = self.kept.rows.value(at);
                let made = guard(&self.op, || {
                    Some((self.kept.rows.key(at).clone(), S::row(Some(kept), None)?))
                });
                if let Some(made) = made {
                    return Some((made, *time));
                }
            }
            return None;
        }
        let (met, last) = match &mut self.current {
            Some(part) => (part.met.as_mut(), part.last),
            None => (None, true),
        };
        self.probes.next::<B, S>(&mut self.kept, &self.op, met, last)
    }

    /// Does the next step of work that needs no input, when no result is left; returns whether there is more of
    /// it.
    fn advance(&mut self) -> Result<bool> {
        match &mut self.phase {
            Phase::Over => return Ok(false),
            Phase::Building => return self.move_rows(),
            Phase::Linking => {
                if !self.kept.rows.link(LINKED) {
                    if Self::MARKS {
                        self.kept.forget_met();
                        let before = std::mem::take(&mut self.met_before);
                        self.kept
                            .met
                            .iter_mut()
                            .zip(before)
                            .for_each(|(met, before)| *met = before);
                    }
                    self.phase = Phase::Looking;
                }
            }
            Phase::Looking => return self.look(),
            Phase::Alone(_) => match &mut self.current {
                Some(part) if !part.last => {
                    self.kept.reset();
                    self.phase = Phase::Loading;
                }
                _ => self.next_part(),
            },
            Phase::Loading => self.load()?,
            Phase::Splitting => self.split_part()?,
        }
        Ok(true)
    }

    /// Moves rows from memory to disk, if the join is splitting.
    fn move_rows(&mut self) -> Result<bool> {
        let Some(split) = &mut self.splitting else { return Ok(false) };
        for _ in 0..CHUNK {
            let Some((hash, key, (value, time))) = self.kept.rows.pop() else {
                self.kept.reset();
                self.met_before = Vec::new();
                return Ok(false);
            };
            let has_met = self.met_before.get(self.kept.rows.len()).is_some_and(|met| *met);
            split.keep(&(hash, key, value, time), has_met)?;
        }
        Ok(true)
    }

    /// Takes the next records to be looked up from the buffer or from disk.
    fn look(&mut self) -> Result<bool> {
        if let Some(part) = &mut self.current {
            for _ in 0..CHUNK {
                match part.next_probe()? {
                    Some(record) => self.probes.push(record),
                    None => break,
                }
            }
            if self.probes.is_empty() {
                self.phase = Phase::Alone(0);
            }
            return Ok(true);
        }
        for _ in 0..CHUNK {
            if !self.buffers {
                break;
            }
            match self.buffer.pop()? {
                Some(record) => self.seek(record)?,
                None => self.buffers = false,
            }
        }
        if self.buffers || !self.probes.is_empty() {
            return Ok(true);
        }
        if self.closing.is_some() {
            match self.splitting.take() {
                Some(split) => {
                    self.parts.add(split)?;
                    self.next_part();
                }
                None => self.phase = Phase::Alone(0),
            }
        }
        Ok(self.closing.is_some())
    }

    fn next_part(&mut self) {
        if self.current.is_some() || self.closing == Some(Event::End) {
            self.kept.reset();
        }
        self.current = self.parts.next(S::KEPT_ALONE, S::PROBE_ALONE);
        self.phase = if self.current.is_some() { Phase::Loading } else { Phase::Over };
    }

    /// Reads rows of a part, until it ends or memory is full.
    fn load(&mut self) -> Result<()> {
        let Some(part) = &mut self.current else { return Ok(()) };
        for _ in 0..CHUNK {
            let Some((row, has_met)) = part.next_row()? else {
                part.last = true;
                part.rewind();
                self.probes.restart();
                self.phase = Phase::Linking;
                return Ok(());
            };
            if let Err(row) = self.kept.push(row) {
                part.left_over = Some((row, has_met));
                if part.can_split() && !self.kept.rows.is_mostly_one() {
                    self.splitting = Some(self.parts.split(Some(part)));
                    self.phase = Phase::Splitting;
                } else {
                    part.expect_blocks();
                    part.rewind();
                    self.probes.restart();
                    self.phase = Phase::Linking;
                }
                return Ok(());
            }
            if has_met {
                self.kept.rows.keep_places();
                self.met_before.push(true);
            }
        }
        Ok(())
    }

    /// Splits a part further: the rows in memory, the other rows, then the probe side.
    fn split_part(&mut self) -> Result<()> {
        if self.move_rows()? {
            return Ok(());
        }
        let (Some(part), Some(split)) = (&mut self.current, &mut self.splitting) else {
            return Ok(());
        };
        for _ in 0..CHUNK {
            if let Some((row, has_met)) = part.next_row()? {
                split.keep(&row, has_met)?;
            } else if let Some(record) = part.next_probe()? {
                split.seek(&record)?;
            } else {
                if let Some(split) = self.splitting.take() {
                    self.parts.add(split)?;
                }
                self.next_part();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether a watermark may be passed on: every result that it could overtake has been emitted.
    fn is_level(&self) -> bool {
        matches!(self.phase, Phase::Looking)
            && !self.buffers
            && self.splitting.is_none()
            && !Self::MARKS
    }

    /// Whether an event ends the input; in a loop, whether it ends a round of this loop, and not one of an outer loop, nor the
    /// loop itself.
    fn is_end(&self, event: Event) -> bool {
        match event {
            Event::Round(depth) => depth == self.op.depth(),
            _ => !self.looped,
        }
    }

    /// Another round of a loop begins.
    fn begin_round(&mut self) {
        if self.again {
            self.kept.reset();
            self.rows = 0;
        }
        // Records that are left were not needed: the stage was closed.
        self.probes = Probes::new();
        self.buffer.clear();
        // The rows that stay may not have been linked, where the stage was closed throughout the round.
        self.phase = if self.again { Phase::Building } else { Phase::Linking };
        self.buffers = self.again && self.early;
    }

    fn check(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.fail(error);
        }
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.failed = true;
        self.phase = Phase::Over;
        self.op.fail(error);
    }
}

impl<K, B, P, T, S, N> Pipe for HashJoinPush<K, B, P, T, S, N>
where
    K: Data + Eq + Clone,
    B: Data,
    P: Data,
    T: Time,
    S: Shape<B, P>,
    N: Push<(K, S::Out), T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        match event {
            // Held back until all results are emitted. The rows are all there now, and what is saved counts later.
            event if event.completes() => {
                self.core.save(event, &self.saved);
                self.core.closing = Some(event);
                // The rounds of this loop have ended before: no row has arrived since, so none is emitted again.
                if !self.core.is_end(event) {
                    self.core.phase = Phase::Over;
                }
            }
            Event::Watermark(_) | Event::Idle if !self.core.is_level() => {
                self.held.hold(event, &mut self.next);
            }
            other => {
                self.core.save(other, &self.saved);
                self.held.passed.pass(other);
                self.next.event(other);
            }
        }
    }

    fn resume(&mut self) -> Flow {
        let Self { core, held, emitted, next, .. } = self;
        let flow = pump(next, |next| match core.result() {
            Some((made, time)) => {
                *emitted += 1;
                next.push(made, time);
                true
            }
            None => false,
        });
        if flow != Flow::Ready {
            return flow;
        }
        if next.is_closed() {
            if core.closing.is_some() {
                core.phase = Phase::Over;
            }
        } else {
            match core.advance() {
                Ok(true) => return Flow::Busy,
                Ok(false) => {}
                Err(error) => core.fail(error),
            }
        }
        if core.failed {
            // A job that has failed is stopped; its end must not look like a regular one.
            return next.resume();
        }
        if matches!(core.phase, Phase::Over) {
            if let Some(event) = core.closing.take() {
                held.events = [None, None];
                held.passed.pass(event);
                next.event(event);
                if event != Event::End {
                    core.begin_round();
                }
            }
        } else if core.is_level() && held.release(next) {
            return Flow::Busy;
        }
        next.resume()
    }

    fn is_closed(&mut self) -> bool {
        let core = &self.core;
        // The table of all tasks is read to its end by the one that saves it, though it may not need it.
        if matches!(core.phase, Phase::Building) && self.saved.0.are_of_all_tasks() {
            return false;
        }
        let fruitless = matches!(core.phase, Phase::Looking) && core.rows == 0 && !S::PROBE_ALONE;
        fruitless || self.next.is_closed()
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.core.op.id();
        report.emitted(op, self.emitted);
        report.spilled(op, self.core.parts.written() + self.core.buffer.written());
        self.next.report(report);
    }
}

impl Held {
    fn hold<N: Pipe>(&mut self, event: Event, next: &mut N) {
        if let Some(resumes) = self.passed.hold(event) {
            next.event(resumes);
        }
        match event {
            Event::Watermark(_) => self.events = [Some(event), None],
            other => self.events[1] = Some(other),
        }
    }

    /// Passes one of them on, if there is one.
    fn release<N: Pipe>(&mut self, next: &mut N) -> bool {
        let Some(event) = self.events.iter_mut().find_map(Option::take) else { return false };
        self.passed.pass(event);
        next.event(event);
        true
    }
}

impl<K, B, P, T, S, N> PushTwo<Hashed<(K, B)>, Hashed<(K, P)>, T> for HashJoinPush<K, B, P, T, S, N>
where
    K: Data + Eq + Clone,
    B: Data,
    P: Data,
    T: Time,
    S: Shape<B, P>,
    N: Push<(K, S::Out), T>,
{
    #[inline(always)]
    fn push_first(&mut self, (hash, (key, value)): (u64, (K, B)), time: T) {
        let kept = self.core.keep((hash, key, value, time));
        self.core.check(kept);
    }

    #[inline(always)]
    fn push_second(&mut self, (hash, (key, value)): (u64, (K, P)), time: T) {
        let record = (hash, key, value, time);
        let taken = match self.core.phase {
            Phase::Looking => self.core.seek(record),
            Phase::Over => Ok(()),
            _ => {
                self.core.buffers = true;
                self.core.buffer.push(record)
            }
        };
        self.core.check(taken);
    }

    fn first_ended(&mut self) {
        if matches!(self.core.phase, Phase::Building) {
            // If the rows were split to disk, there is nothing to link.
            self.core.phase = Phase::Linking;
        }
    }

    fn round_ends(&mut self, first_comes_again: bool) {
        self.core.again = first_comes_again;
    }

    fn wants_second(&self) -> bool {
        self.core.early
    }
}
