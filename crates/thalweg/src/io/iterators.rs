//! Sources that read iterators.

use super::consumed::Consumed;
use super::portions::{Next, Share, Shared, Work};
use crate::checkpoint::{OTHER_TASKS, Redistribution, StateHandle};
use crate::clock::{Clock, Nanos};
use crate::data::Data;
use crate::data::DecodeError;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Event, Push, Waker, push_numbers};
use crate::metrics::{Total, show};
use crate::net::HostId;
use crate::plan::{Details, Origin, Parallelism, TaskContext, TieKind};
use crate::stream::{Chain, Environment, Produced, Source, SourceFactory, Stream};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::sync::Arc;

/// Records that an iterator source pushes at most in one call.
const RUN: usize = 4096;

impl Environment {
    /// The records of an iterator, in one task: on several hosts, those of the iterator on the first.
    ///
    /// For several tasks see [`parallel_iter`](Self::parallel_iter) and [`range`](Self::range), or add
    /// [`shuffle`](Stream::shuffle) after it. An iterator that blocks also blocks one of the engine's threads, and nothing
    /// interrupts it: a job that is cancelled or has failed ends only when the iterator has returned. Send such records through
    /// a [`channel`](Self::channel) instead.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(['a', 'b']).collect::<String>();
    /// env.run()?;
    /// assert_eq!(out.take()?, "ab");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("fromCollection", "fromElements", "stream_iter"))]
    #[track_caller]
    pub fn iter<I>(&self, items: I) -> Stream<impl Chain<Item = I::Item, Time = ()> + use<I>>
    where
        I: IntoIterator<IntoIter: Send + 'static, Item: 'static>,
    {
        let iter = Mutex::new(Some(items.into_iter()));
        // The plan has one task for this stage, so the iterator is taken once.
        let open = move |_, _| lock(&iter).take();
        self.source(
            Origin::here("iter"),
            Details::none(),
            Parallelism::Fixed(1),
            true,
            // One that waits until its stage has processed what it gave would wait for ever.
            Iterators { open, gathers: false },
        )
    }

    /// The records of as many iterators as there are cores, on all hosts together, each in a task of its own. The
    /// closure receives the index of the iterator to make, and their number; it is called on the host of the task.
    ///
    /// A task takes as many as 64 items from a fast iterator before it processes the first of them, and behind an exchange records
    /// wait in batches: an iterator that waits for what becomes of its items may wait for ever. Nothing interrupts an iterator
    /// that blocks: a job that is cancelled or has failed drops the items, and ends only when all iterators have returned. So one
    /// that waits for its items, or for another task's iterator, keeps it from ending. Send such records through a
    /// [`channel`](Self::channel).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let all = env.parallel_iter(|instance, instances| (instance..100).step_by(instances)).count().collect_one();
    /// env.run()?;
    /// assert_eq!(all.take()?, Some(100));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn parallel_iter<I, F>(
        &self,
        make: F,
    ) -> Stream<impl Chain<Item = I::Item, Time = ()> + use<I, F>>
    where
        I: IntoIterator<IntoIter: Send + 'static, Item: 'static> + 'static,
        F: Fn(usize, usize) -> I + Send + 'static,
    {
        let tasks = self.tasks_of_cores();
        let open = move |task, tasks| Some(make(task, tasks).into_iter());
        let iterators = Iterators { open, gathers: true };
        self.source(Origin::here("parallel_iter"), Details::none(), tasks, true, iterators)
    }

    /// The numbers of a range, in as many tasks as there are cores.
    ///
    /// The tasks repeatedly take short runs of numbers from the rest of the range, so that the load is balanced even
    /// if the work differs from number to number. Each task gets its numbers in increasing order.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let sum = env.range(0..1_000_000).reduce(|a, b| a + b).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(sum.take()?, [499_999_500_000]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn range(&self, range: Range<u64>) -> Stream<impl Chain<Item = u64, Time = ()> + use<>> {
        let tasks = self.tasks_of_cores();
        let details = Details::of("from", range.start).with("to", range.end);
        let ranges = Ranges { range, shared: Mutex::new(None) };
        self.source(Origin::here("range"), details, tasks, true, ranges).tied(TieKind::Splits)
    }
}

struct Iterators<F> {
    open: F,
    /// Whether items may be gathered before the first of them is pushed.
    gathers: bool,
}

struct Items<I> {
    /// The iterator that is being read, or the last that was, and what is known of it.
    iter: Option<I>,
    reading: Reading,
    /// Iterators of tasks that the job had before it was interrupted, which are read in turn with this one.
    others: VecDeque<(Option<I>, Reading)>,
    /// Those that have ended.
    ended: Vec<Reading>,
    position: StateHandle,
    count: u64,
    /// The number of records that the iterators announced at the start.
    total: Option<u64>,
    /// The number of items pushed at a time, and the time of the previous call.
    run: usize,
    since: Nanos,
    gathers: bool,
}

/// How far an iterator was read, in checkpoints.
#[derive(Data)]
struct Position {
    task: usize,
    tasks: usize,
    read: u64,
    ended: bool,
}

/// Where iterators go on.
fn items_read(positions: Vec<Position>) -> String {
    let read = positions.iter().fold(0_u64, |sum, position| sum.saturating_add(position.read));
    format!("after {} items, which are made again and dropped", show::count(read))
}

/// Where a range goes on of which these parts were read.
fn numbers_read(parts: Vec<Vec<(u64, u64)>>) -> String {
    let mut all = Consumed::default();
    parts.into_iter().for_each(|ranges| all.add_all(ranges));
    format!("after {} numbers", show::count(all.length()))
}

/// How far an iterator was read.
#[derive(Clone, Copy, Default)]
struct Reading {
    /// The task that it was made for, and the number of tasks there were.
    task: usize,
    tasks: usize,
    /// The items that it has given.
    read: u64,
    /// Of these, the ones to be dropped, since they were pushed before the checkpoint that the job began with.
    to_skip: u64,
}

/// The number of items in the first run.
const FIRST_RUN: usize = 16;
/// The limits of the duration of a run of items, in nanoseconds: long enough to make the work between runs
/// negligible, and short enough not to delay watermarks. An item may be a whole file, or a number.
const SHORT: Nanos = 50_000;
const LONG: Nanos = 200_000;
/// The largest iterator, in bytes, that is moved out for a run: that of an array holds all of its items, and might not
/// fit on the stack.
const LARGEST_MOVED: usize = 1024;

impl<I, F> SourceFactory for Iterators<F>
where
    I: Iterator<Item: 'static> + Send + 'static,
    F: Fn(usize, usize) -> Option<I> + Send + 'static,
{
    type Source = Items<I>;

    fn open(&self, cx: &TaskContext<'_>) -> Result<Items<I>> {
        let position = match cx.first_operator() {
            Some(op) => {
                cx.state::<Position>(op, "position", Redistribution::United).position(items_read)
            }
            None => StateHandle::none(),
        };
        let (mut before, mut ended) = (Vec::new(), Vec::new());
        position.restore(|position: Position| {
            let Position { task, tasks, read, .. } = position;
            let readings = if position.ended { &mut ended } else { &mut before };
            readings.push(Reading { task, tasks, read, to_skip: read });
            Ok(())
        })?;
        if before.len() > cx.tasks && cx.gets_time_in_order() {
            let what = format!(
                "{OTHER_TASKS}: with event time, its {} iterators that had not ended need as many, and there are {}. Each is in \
                 order for itself, and records of those that one task reads in turn would be late; more cores, or `--tasks`, \
                 restore it",
                before.len(),
                cx.tasks,
            );
            return Err(position.error(ErrorKind::Config, what));
        }
        if before.is_empty() && ended.is_empty() {
            before.extend((0..cx.tasks).map(|task| Reading {
                task,
                tasks: cx.tasks,
                ..Reading::default()
            }));
        }
        // The iterators are those of the first run of the job, however many tasks there are now.
        // With as many tasks, each keeps its own, since operators may remember something for each task.
        let as_many = before.iter().all(|reading| reading.tasks == cx.tasks);
        if as_many {
            cx.partitions.keep_tasks();
        }
        let (task, tasks) = (cx.task, cx.tasks);
        let is_mine = |(at, reading): &(usize, Reading)| match as_many {
            true => reading.task == task,
            false => at % tasks == task,
        };
        let mine = before.into_iter().enumerate().filter(is_mine).map(|(_, reading)| reading);
        let made = mine.filter_map(|reading| {
            let iter = (self.open)(reading.task, reading.tasks)?;
            Some((Some(iter), reading))
        });
        let mut others: VecDeque<_> = made.collect();
        let total = others.iter().try_fold(0, |sum, (iter, reading)| {
            let (least, most) = iter.as_ref().map_or((0, Some(0)), Iterator::size_hint);
            let left = (least as u64).saturating_sub(reading.read);
            if most == Some(least) { u64::checked_add(sum, left) } else { None }
        });
        let (iter, reading) = others.pop_front().unwrap_or_default();
        if cx.task > 0 {
            ended.clear();
        }
        let (run, since) = (FIRST_RUN, cx.clock.now());
        let gathers = self.gathers;
        Ok(Items { iter, reading, others, ended, position, count: 0, total, run, since, gathers })
    }
}

/// An iterator of at most [`LARGEST_MOVED`] bytes that is moved out for a run, so that its fields stay in registers. It
/// is moved back at the end of the run, by a panic too.
struct Moved<'a, I> {
    iter: Option<I>,
    home: &'a mut Option<I>,
}

impl<I> Drop for Moved<'_, I> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.home = self.iter.take();
    }
}

/// At most `left` items of an iterator.
struct Run<'a, I> {
    iter: &'a mut I,
    left: &'a mut usize,
}

impl<I: Iterator> Iterator for Run<'_, I> {
    type Item = I::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<I::Item> {
        if *self.left == 0 {
            return None;
        }
        let item = self.iter.next()?;
        *self.left -= 1;
        Some(item)
    }

    /// By the iterator's own loop, which may be simpler than repeated calls: as of a `flat_map`.
    #[inline(always)]
    fn fold<B, F: FnMut(B, I::Item) -> B>(self, start: B, mut f: F) -> B {
        let Self { iter, left } = self;
        if *left == 0 {
            return start;
        }
        let folded = iter.try_fold(start, |folded, item| {
            let folded = f(folded, item);
            *left -= 1;
            if *left == 0 { ControlFlow::Break(folded) } else { ControlFlow::Continue(folded) }
        });
        match folded {
            ControlFlow::Break(folded) | ControlFlow::Continue(folded) => folded,
        }
    }
}

/// The number of items that are gathered before the first of them is pushed.
const PIECE: usize = 64;
/// The bytes of an item, with the mark that there is one, from which on it is gathered, and up to which. Smaller ones come in
/// registers. Others come through memory, field by field, and are read at once in pieces of several fields: right behind the
/// writes, the processor would wait for these. Of large ones, a few would fill the nearest cache.
const GATHERED: RangeInclusive<usize> = 17..=256;

/// Pushes at most `most` items of an iterator; returns how many of these it did not have.
#[inline(always)]
fn push_run<I, N>(iter: &mut Option<I>, most: usize, gathers: bool, next: &mut N) -> usize
where
    I: Iterator<Item: 'static>,
    N: Push<I::Item, ()>,
{
    let mut left = most;
    let Some(iter) = iter else { return left };
    let pays = !N::IS_LOOP && GATHERED.contains(&size_of::<Option<I::Item>>());
    // The runs of a slow iterator are short.
    if !pays || !gathers || most <= PIECE {
        next.push_run(Run { iter, left: &mut left }, ());
        return left;
    }
    let mut piece = Vec::with_capacity(PIECE);
    loop {
        let wanted = PIECE.min(left);
        let mut lacks = wanted;
        Run { iter, left: &mut lacks }.for_each(|item| piece.push(item));
        left -= wanted - lacks;
        next.push_run(piece.drain(..), ());
        if lacks > 0 || left == 0 {
            return left;
        }
    }
}

/// The same for an iterator that is moved out. A function of its own: without optimisation its caller would need the
/// stack for a large iterator too.
fn push_run_moved<I, N>(home: &mut Option<I>, most: usize, gathers: bool, next: &mut N) -> usize
where
    I: Iterator<Item: 'static>,
    N: Push<I::Item, ()>,
{
    let mut moved = Moved { iter: home.take(), home };
    push_run(&mut moved.iter, most, gathers, next)
}

/// The most items that are dropped in one turn.
const SKIPPED: u64 = 1 << 20;

impl<I: Iterator> Items<I> {
    /// Drops some of the items that were pushed before.
    ///
    /// # Errors
    ///
    /// If the iterator does not have them.
    fn skip(&mut self) -> Result<()> {
        let Reading { read, to_skip, .. } = &mut self.reading;
        let most = (*to_skip).min(SKIPPED);
        *to_skip -= most;
        match self.iter.as_mut().and_then(|iter| iter.nth(most as usize - 1)) {
            Some(_) => Ok(()),
            None => {
                let read = show::count(*read);
                let what = format!(
                    "the iterator has ended before its item {read}, up to which items were processed before the checkpoint: it \
                     must give the same items again"
                );
                Err(Error::new(ErrorKind::Input, what))
            }
        }
    }

    /// Continues with another iterator, if there is one. Moves none over the stack: it may be larger.
    #[cold]
    fn go_on(&mut self, has_more: bool) -> Produced {
        let Self { iter, reading, others, ended, .. } = self;
        let Some((next, of_next)) = others.front_mut() else { return Produced::End };
        std::mem::swap(iter, next);
        std::mem::swap(reading, of_next);
        if !has_more {
            ended.push(*of_next);
        }
        others.rotate_left(1);
        if !has_more {
            others.truncate(others.len() - 1);
        }
        Produced::Some
    }
}

impl<I: Iterator<Item: 'static> + Send + 'static> Source for Items<I> {
    type Item = I::Item;
    type Time = ();

    fn produce<N: Push<I::Item, ()>>(&mut self, now: Nanos, next: &mut N) -> Result<Produced> {
        if self.reading.to_skip > 0 {
            self.skip()?;
            return Ok(Produced::Some);
        }
        match now.saturating_sub(self.since) {
            ..=SHORT => self.run = (2 * self.run).min(RUN),
            LONG.. => self.run = (self.run / 2).max(1),
            _ => {}
        }
        self.since = now;
        let left = if size_of::<I>() <= LARGEST_MOVED {
            push_run_moved(&mut self.iter, self.run, self.gathers, next)
        } else {
            push_run(&mut self.iter, self.run, self.gathers, next)
        };
        let count = self.run - left;
        self.count += count as u64;
        self.reading.read += count as u64;
        let has_more = count == self.run;
        Ok(if has_more && self.others.is_empty() { Produced::Some } else { self.go_on(has_more) })
    }

    fn save(&mut self, event: Event) {
        let Self { iter, reading, others, ended, position, .. } = self;
        position.save(event, |out| {
            let mut add = |reading: &Reading, ended: bool| {
                let Reading { task, tasks, read, .. } = *reading;
                out.add(&Position { task, tasks, read, ended });
            };
            ended.iter().for_each(|reading| add(reading, true));
            let current = iter.is_some().then_some(&*reading);
            let others = others.iter().map(|(_, reading)| reading);
            current.into_iter().chain(others).for_each(|reading| add(reading, event == Event::End));
        });
    }

    fn records(&self) -> u64 {
        self.count
    }

    fn total(&self) -> Option<Total> {
        self.total.map(Total::Records)
    }
}

struct Ranges {
    range: Range<u64>,
    /// Made for the first task of this host.
    shared: Mutex<Option<Arc<Shared<Numbers>>>>,
}

/// Numbers that no task has taken and no other host was granted.
struct Numbers {
    next: AtomicU64,
    end: u64,
}

/// The most numbers that a host is granted at a time for each of its tasks: at full speed, enough for the time of
/// several requests.
const GRANT: u64 = 256 * RUN as u64;

impl Numbers {
    fn left(&self) -> u64 {
        self.end.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Removes all before this one.
    fn begin_at(&self, from: u64) {
        self.next.fetch_max(from, Ordering::Relaxed);
    }

    /// Removes as many numbers as the closure says, which receives how many are left.
    fn take(&self, count: impl Fn(u64) -> u64) -> Range<u64> {
        let cut = |from: u64| {
            let left = self.end.saturating_sub(from);
            (left > 0).then(|| from + count(left).min(left))
        };
        match self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, cut) {
            // Unchanged since, and so is `count`.
            Ok(from) => from..cut(from).unwrap_or(from),
            Err(end) => end..end,
        }
    }
}

impl Work for Numbers {
    type Piece = (u64, u64);
    type Preamble = ();

    fn size((from, to): &(u64, u64)) -> u64 {
        to - from
    }

    fn preamble(&self) {}

    fn grant(&self, _: HostId, share: Share) -> (Vec<(u64, u64)>, bool) {
        let granted = self.take(|left| share.of(left, RUN as u64, GRANT));
        let over = granted.end >= self.end;
        let piece = (!granted.is_empty()).then_some((granted.start, granted.end));
        (piece.into_iter().collect(), over)
    }

    fn accept(
        &self,
        _: Option<()>,
        pieces: Vec<(u64, u64)>,
    ) -> Result<Vec<(u64, u64)>, DecodeError> {
        match pieces.iter().all(|(from, to)| from < to) {
            true => Ok(pieces),
            false => Err(DecodeError::invalid("ranges of numbers")),
        }
    }
}

/// Removes the next numbers from ranges of numbers, at most so many.
fn cut(ranges: &mut VecDeque<(u64, u64)>, most: u64) -> Option<Range<u64>> {
    let (from, end) = ranges.front_mut()?;
    let run = *from..from.saturating_add(most).min(*end);
    *from = run.end;
    if run.end == *end {
        ranges.pop_front();
    }
    Some(run)
}

/// Takes runs of numbers from a range that all tasks of the source share.
struct Runs {
    shared: Arc<Shared<Numbers>>,
    task: usize,
    tasks: usize,
    waker: Waker,
    /// What the task has taken of the range that is shared and not pushed yet, in a job with checkpoints.
    taken: VecDeque<(u64, u64)>,
    /// The numbers that it has pushed, in a job with checkpoints; of the first task, also those that were pushed before
    /// the checkpoint that the job began with.
    read: Consumed,
    position: StateHandle,
    count: u64,
    /// The numbers left when the task was made, for the first task; 0 for the others.
    total: u64,
    /// The most numbers pushed at a time: fewer where each takes long, so that barriers need not wait.
    run: u64,
    clock: Clock,
}

/// The most runs that a task takes at a time in a job with checkpoints, so that what it has read are few ranges.
const TAKEN: u64 = 64;

impl SourceFactory for Ranges {
    type Source = Runs;

    fn open(&self, cx: &TaskContext<'_>) -> Result<Runs> {
        let mut made = lock(&self.shared);
        let Range { start, end } = self.range;
        let shared = match &*made {
            Some(shared) => Arc::clone(shared),
            None => Shared::new(cx, Numbers { next: AtomicU64::new(start), end })?,
        };
        *made = Some(Arc::clone(&shared));
        let position = match cx.first_operator() {
            Some(op) => cx
                .state::<Vec<(u64, u64)>>(op, "read", Redistribution::United)
                .position(numbers_read),
            None => StateHandle::none(),
        };
        let mut read = Consumed::default();
        position.restore(|ranges| {
            read.add_all(ranges);
            Ok(())
        })?;
        // What is left behind the last number that was read is shared, and the gaps before it are dealt out.
        let mut left = read.left_of(start..end);
        let rest = left.pop_back_if(|(_, to)| *to == end).map_or(end, |(from, _)| from);
        shared.work.begin_at(rest);
        let gaps = left.iter().skip(cx.task).step_by(cx.tasks).copied().collect();
        let total = match cx.task {
            0 => shared.work.left() + left.iter().map(|(from, to)| to - from).sum::<u64>(),
            _ => 0,
        };
        let read = if cx.task == 0 { read } else { Consumed::default() };
        let (task, tasks, waker) = (cx.task, cx.tasks, cx.waker.clone());
        let (run, clock, count) = (RUN as u64, cx.clock.clone(), 0);
        Ok(Runs {
            shared,
            task,
            tasks,
            waker,
            taken: gaps,
            read,
            position,
            count,
            total,
            run,
            clock,
        })
    }
}

impl Runs {
    /// Takes the next run; an empty one at the end, unless it is the end of what was granted to another host.
    fn take(&mut self) -> Next<Range<u64>> {
        if self.position.is_on() {
            self.take_noted()
        } else if self.shared.is_first() {
            Next::Piece(self.shared.work.take(|_| self.run))
        } else {
            self.shared.take(self.task, &self.waker, |all| cut(all, self.run))
        }
    }

    /// As [`take`](Self::take), in a job with checkpoints.
    fn take_noted(&mut self) -> Next<Range<u64>> {
        if self.taken.is_empty() {
            let most = TAKEN * RUN as u64;
            let least = self.run;
            let part = |left: u64| (left / (4 * self.tasks as u64)).clamp(least, most);
            let taken = match self.shared.is_first() {
                true => self.shared.work.take(part),
                false => match self.shared.take(self.task, &self.waker, |all| cut(all, most)) {
                    Next::Piece(taken) => taken,
                    none => return none,
                },
            };
            if !taken.is_empty() {
                self.taken.push_back((taken.start, taken.end));
            }
        }
        let run = cut(&mut self.taken, self.run).unwrap_or_default();
        if !run.is_empty() {
            self.read.add(run.start, run.end);
        }
        Next::Piece(run)
    }
}

impl Source for Runs {
    type Item = u64;
    type Time = ();

    fn produce<N: Push<u64, ()>>(&mut self, now: Nanos, next: &mut N) -> Result<Produced> {
        let run = match self.take() {
            Next::Piece(run) if !run.is_empty() => run,
            Next::Wait => return Ok(Produced::Pending),
            Next::Piece(_) | Next::End => return Ok(Produced::End),
        };
        let count = run.end - run.start;
        self.count += count;
        push_numbers(run, next);
        match self.clock.now().saturating_sub(now) {
            ..=SHORT => self.run = (2 * self.run).min(RUN as u64),
            took @ LONG.. => self.run = (count * LONG / took).max(1),
            _ => {}
        }
        Ok(Produced::Some)
    }

    fn save(&mut self, event: Event) {
        self.position.save(event, |out| out.add(self.read.ranges()));
    }

    fn records(&self) -> u64 {
        self.count
    }

    fn total(&self) -> Option<Total> {
        Some(Total::Records(self.total))
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;

    #[test]
    fn a_panic_is_the_operators_whose_closure_it_came_from() {
        let boom = |n: u64| if n == 5000 { panic!("at {n}") } else { n };
        for (at, operator) in ["map", "filter", "fold"].into_iter().enumerate() {
            let env = Environment::new();
            let _out = env
                .range(0..10_000)
                .map(move |n| if at == 0 { boom(n) } else { n })
                .filter(move |n| at != 1 || boom(*n) < 9000)
                .fold(0, move |sum, n| *sum += if at == 2 { boom(n) } else { n })
                .collect::<Vec<_>>();
            let text = env.run().unwrap_err().to_string();
            assert!(text.starts_with(operator), "{operator}: {text}");
        }
        let env = Environment::new();
        let _out = env.iter((0..10_000).map(boom)).fold(0, |sum, n| *sum += n).collect::<Vec<_>>();
        assert!(env.run().unwrap_err().to_string().starts_with("iter"));
    }

    /// In its stage; behind an exchange, records wait in batches.
    #[test]
    fn an_item_of_iter_is_processed_before_the_next_one_is_taken() {
        let (done, processed) = std::sync::mpsc::channel();
        let env = Environment::new();
        let mut given = 0_u64;
        let items = std::iter::from_fn(move || {
            given += 1;
            if given > 1 {
                let last = processed.recv_timeout(std::time::Duration::from_secs(60));
                assert_eq!(last, Ok(given - 1));
            }
            (given <= 20_000).then_some((given, given))
        });
        let count = env.iter(items).inspect(move |(item, _)| done.send(*item).unwrap()).count();
        let count = count.collect::<Vec<_>>();
        env.run().unwrap();
        assert_eq!(count.take().unwrap(), [20_000]);
    }

    #[test]
    fn an_iterator_may_be_larger_than_a_thread_has_stack() {
        const ITEMS: usize = 500_000;
        // Making and passing on the array needs a large stack here.
        let start = || {
            let env = Environment::new();
            let sum = env.iter([1_u64; ITEMS]).reduce(|a, b| a + b).collect::<Vec<_>>();
            (env.start().unwrap(), sum)
        };
        let large = std::thread::Builder::new().stack_size(1 << 28);
        let (job, sum) = large.spawn(start).unwrap().join().unwrap();
        job.wait().unwrap();
        assert_eq!(sum.take().unwrap(), [ITEMS as u64]);
    }

    #[test]
    fn records_pushed_in_runs_are_counted_as_single_ones() {
        let records = |exchange: bool| {
            let env = Environment::new();
            let numbers = env.range(0..10_000).map(|n| n + 1);
            let evens = |n: &u64| n.is_multiple_of(2);
            let thirds = |n: u64| n.is_multiple_of(3).then_some(n);
            let out = if exchange {
                numbers.forward().filter(evens).filter_map(thirds).sum(|n| *n).collect::<Vec<_>>()
            } else {
                numbers.filter(evens).filter_map(thirds).sum(|n| *n).collect::<Vec<_>>()
            };
            let stats = env.start().unwrap().wait().unwrap();
            let of = |kind: &str| {
                let found = stats.operators.iter().find(|op| op.kind == kind);
                found.and_then(|op| op.records_out)
            };
            ([of("filter"), of("filter_map")], out.take().unwrap())
        };
        let (counts, sum) = records(true);
        assert_eq!((counts, sum), records(false));
        assert_eq!(counts, [Some(5000), Some(1666)]);
    }
}
