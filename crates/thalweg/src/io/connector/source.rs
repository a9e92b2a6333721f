//! Sources that are made of splits.

use super::splits::SplitFactory;
use crate::data::{Data, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Push, WeakWaker};
use crate::memory::Reservation;
use crate::plan::{Details, Origin, TieKind};
use crate::stream::{Environment, Sourced, Stream};
use crate::sync::{AtomicBool, Ordering};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// A source that is made of splits, each of which is read in order. See the [module](super).
pub trait SplitSource: Send + Sync + 'static {
    /// What it emits: an owned value, or `str`, `[u8]` and other kinds that are borrowed from what the reader holds.
    type Item: Record + ?Sized;
    /// Names a split, in every run of the job: `orders/3`. It is shown in messages.
    type Split: Data + Clone + Ord + Display + Send + Sync + 'static;
    /// Where in a split to go on: an offset.
    type Position: Data + Clone + Send + Sync + 'static;
    /// Reads a split.
    type Reader: SplitReader<Item = Self::Item, Position = Self::Position>;

    /// What is read, for plans and messages: `kafka topic orders`. On several hosts, and in every run that goes on from a
    /// checkpoint, it must be the same.
    fn describe(&self) -> String;

    /// Whether every split ends, and there are no others than those that are listed first.
    fn is_bounded(&self) -> bool;

    /// Lists the splits. May block.
    ///
    /// Called on the first host: when the job starts, and then each time after
    /// [`look_again_after`](Self::look_again_after). Splits are dealt out in the order in which they are first listed, so that a list
    /// whose order is the same each time gives the tasks the same splits. Those that are missing in a later list are read on, and
    /// one that is listed twice is one.
    ///
    /// # Errors
    ///
    /// They end the job. A list that cannot be had for now is best answered with the one before.
    fn splits(&self) -> Result<Vec<Self::Split>>;

    /// How often to look for new splits; `None`, the default, if there will be none. A source that looks again does not end by
    /// itself, so a bounded one that does is refused. Splits that were read to their end stay in every checkpoint, with some
    /// tens of bytes each.
    fn look_again_after(&self) -> Option<Duration> {
        None
    }

    /// Begins to read a split: at a position, or where the source begins by itself. May block, to ask where that is: the splits
    /// of a task are opened on a thread, one after the other, while those that are open are read. No checkpoint counts before
    /// each split is open that was there when the job was first started, so that a job that goes on from it begins at the same
    /// places. A job that is cancelled does not wait for the thread, which ends with the split that it opens.
    ///
    /// A split that [`is_new`](SplitContext::is_new) was not there when the job was first started. A source that begins at the
    /// end of its splits, as a log's reader may that wants only what is new, begins such a split at its beginning.
    ///
    /// # Errors
    ///
    /// They end the job: the split is not there any more, or not what is at the position.
    fn open(
        &self,
        split: &Self::Split,
        from: Option<Self::Position>,
        cx: &SplitContext,
    ) -> Result<Self::Reader>;

    /// Whether a job goes on from a checkpoint without these splits, of which it has read a part, and which are not listed any more. By
    /// default it does not, which is an error. If it does, they count as read to their end. May block: called once, on the first host,
    /// before the job begins.
    ///
    /// # Errors
    ///
    /// They end the job.
    fn goes_on_without(&self, _gone: &[Self::Split]) -> Result<bool> {
        Ok(false)
    }

    /// A checkpoint counts that has these positions of the splits of a task: for sources that tell others how far they are
    /// read. May block, but must not wait for a job of this process. The job never needs it: its own positions are in the checkpoint.
    ///
    /// # Errors
    ///
    /// They end the job.
    fn committed(&self, _positions: &[(Self::Split, Self::Position)]) -> Result<()> {
        Ok(())
    }

    /// The job has ended well, and this is how far the splits of a host were read: to their end, or to where the job was
    /// [drained](crate::JobHandle::drain). As [`committed`](Self::committed), which is called by default, and not any more behind
    /// it. May block, and the job waits for it. What a task has read is left out if operators have closed it before it had read all, as
    /// [`limit`](crate::Stream::limit) does; what a `limit` behind an exchange drops may be among the rest.
    ///
    /// # Errors
    ///
    /// They are logged, since the job has ended.
    fn finished(&self, positions: &[(Self::Split, Self::Position)]) -> Result<()> {
        self.committed(positions)
    }
}

/// Reads one split. See the [module](super).
pub trait SplitReader: Send + 'static {
    /// As of the [source](SplitSource::Item).
    type Item: Record + ?Sized;
    /// As of the [source](SplitSource::Position).
    type Position: Data;

    /// Emits records that are there: about a thousand, or as long as the output is not [full](Emit::is_full). Does not block.
    ///
    /// # Errors
    ///
    /// They end the job; one without a place gets the name of the split.
    fn read(&mut self, out: &mut impl Emit<Self::Item>) -> Result<ReadStatus>;

    /// Where to go on behind the records that were emitted.
    fn position(&self) -> Self::Position;

    /// How many records are known to be in the split behind those that were emitted: 0 if all that is there was read, and
    /// `None`, the default, if the reader does not know.
    ///
    /// For the statistics. With it they can tell a source that waits for its records to be fetched, from a log's server say, from one
    /// that has read all there is: see [`SourceWaits`](crate::metrics::SourceWaits). It is called when a call of
    /// [`read`](Self::read) has found nothing, and when statistics are requested, so it must not block, nor ask a server: a
    /// number of a moment ago will do.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::connector::{Emit, ReadStatus, SplitContext, SplitReader, SplitSource};
    /// use thalweg::{Environment, Result};
    ///
    /// /// Ten numbers, of which a server sends one in a few milliseconds.
    /// struct Slow;
    ///
    /// struct Reader {
    ///     next: u64,
    ///     is_there: bool,
    /// }
    ///
    /// impl SplitSource for Slow {
    ///     type Item = u64;
    ///     type Split = String;
    ///     type Position = u64;
    ///     type Reader = Reader;
    /// #   fn describe(&self) -> String {
    /// #       "ten numbers".to_owned()
    /// #   }
    /// #   fn is_bounded(&self) -> bool {
    /// #       true
    /// #   }
    ///
    ///     fn splits(&self) -> Result<Vec<String>> {
    ///         Ok(vec!["numbers/0".to_owned()])
    ///     }
    ///
    ///     fn open(&self, _: &String, from: Option<u64>, _: &SplitContext) -> Result<Reader> {
    ///         Ok(Reader { next: from.unwrap_or(0), is_there: false })
    ///     }
    /// }
    ///
    /// impl SplitReader for Reader {
    ///     type Item = u64;
    ///     type Position = u64;
    ///
    ///     fn read(&mut self, out: &mut impl Emit<u64>) -> Result<ReadStatus> {
    ///         if self.next == 10 {
    ///             return Ok(ReadStatus::End);
    ///         }
    ///         self.is_there = !self.is_there;
    ///         if self.is_there {
    ///             return Ok(ReadStatus::PendingFor(Duration::from_millis(5)));
    ///         }
    ///         out.emit(self.next);
    ///         self.next += 1;
    ///         Ok(ReadStatus::More)
    ///     }
    ///
    ///     fn position(&self) -> u64 {
    ///         self.next
    ///     }
    ///
    ///     fn backlog(&self) -> Option<u64> {
    ///         Some(10 - self.next)
    ///     }
    /// }
    ///
    /// let env = Environment::new();
    /// let sum = env.read(Slow).sum(|n| *n).collect_one();
    /// let stats = env.start()?.wait()?;
    /// assert_eq!(sum.take()?, Some(45));
    /// let waits = stats.operators[0].waits.as_ref().unwrap();
    /// assert_eq!((&*waits.splits[0].split, waits.splits[0].most_behind), ("numbers/0", 10));
    /// // Ten pauses, less what the task waited for the processor within them.
    /// assert!(waits.fetching.max > Duration::from_millis(5) && waits.backlog == 0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn backlog(&self) -> Option<u64> {
        None
    }

    /// Whether all records that are in the split by now have been emitted, as far as is known: by default where no
    /// [`backlog`](Self::backlog) is known, or it is 0.
    ///
    /// Only then does the time begin after which the split is [idle](crate::operators::time::Watermarks::idle_after) and does not hold
    /// event time back any more. A reader whose server is away answers `false`, as the records that it has then are late otherwise. Called
    /// when a call of [`read`](Self::read) has found nothing, so it must not block. A reader that waits to be woken calls
    /// [`SplitWaker::wake`] also when this changes.
    fn is_caught_up(&self) -> bool {
        self.backlog().is_none_or(|records| records == 0)
    }
}

/// What a reader found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadStatus {
    /// There may be more.
    More,
    /// There is nothing for now. The reader calls [`SplitWaker::wake`] when there is.
    Pending,
    /// There is nothing for now. The reader is called again after this time, or when it has called [`SplitWaker::wake`].
    PendingFor(Duration),
    /// There is nothing more, ever.
    End,
}

/// Where a reader emits records.
pub trait Emit<I: Record + ?Sized> {
    /// Emits a record.
    fn emit(&mut self, item: I::Of<'_>);

    /// Whether the reader should return: what follows has enough for now. Checked between records that are expensive, or
    /// between runs of cheap ones.
    fn is_full(&mut self) -> bool;
}

/// What is known when a split is opened.
#[derive(Debug)]
pub struct SplitContext {
    pub(super) operator: Arc<str>,
    pub(super) waker: SplitWaker,
    pub(super) is_new: bool,
    /// An empty one, of the source's task.
    pub(super) memory: Reservation,
}

impl SplitContext {
    /// The operator that reads, as errors name it: `read (src/main.rs:9)`. For what a connector logs; the engine adds it to errors
    /// itself.
    pub fn operator(&self) -> &str {
        &self.operator
    }

    /// What makes the engine call the reader again that said it had nothing.
    pub fn waker(&self) -> SplitWaker {
        self.waker.clone()
    }

    /// Whether the split was found after the job was first started.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// An empty reservation from the job's memory, for what a reader fetches ahead; its [`pool`](Reservation::pool) says how much
    /// there is in all. A reader keeps it for as long as it holds the memory. Where it is refused, the reader does with less, or
    /// fails with [`Reservation::refused`].
    pub fn reserve(&self) -> Reservation {
        self.memory.another()
    }
}

/// Makes the engine call a reader again. Clones are of the same reader.
#[derive(Clone)]
pub struct SplitWaker {
    /// Whether there may be something to read.
    pub(super) ready: Arc<AtomicBool>,
    pub(super) task: WeakWaker,
}

impl SplitWaker {
    /// There may be something to read. Any thread may call it, at any time; it costs little if the reader is about to be called
    /// anyway.
    pub fn wake(&self) {
        // What was stored before is seen by the reader: it is called after `ready` was taken back.
        if !self.ready.swap(true, Ordering::AcqRel) {
            self.task.wake();
        }
    }
}

impl std::fmt::Debug for SplitWaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SplitWaker").finish_non_exhaustive()
    }
}

/// Pushes what a reader emits.
pub(super) struct Output<'a, N> {
    pub(super) next: &'a mut N,
    pub(super) count: &'a mut u64,
}

impl<I: Record + ?Sized, N: Push<I, ()>> Emit<I> for Output<'_, N> {
    #[inline(always)]
    fn emit(&mut self, item: I::Of<'_>) {
        *self.count += 1;
        self.next.push(item, ());
    }

    #[inline(always)]
    fn is_full(&mut self) -> bool {
        self.next.is_full()
    }
}

impl Environment {
    /// The records of a source that is made of [splits](SplitSource), in as many tasks as there are cores.
    ///
    /// Each split is read by one task, which emits its records in order. Splits are dealt out to the tasks of all hosts in turn, in
    /// the order in which they are listed; a task without splits has nothing to do. With event time, each split has a
    /// watermark of its own; see [`assign_timestamps`](Stream::assign_timestamps). A checkpoint has the position of every
    /// split, and may be restored with any number of tasks.
    ///
    /// On one whose records may fail to be [decoded](super::DecodingSource), [`dead_letters`](Stream::dead_letters) can be
    /// called.
    ///
    /// The example is that of the module [`connector`](crate::connector).
    #[doc(alias("fromSource", "addSource"))]
    #[track_caller]
    pub fn read<S: SplitSource>(&self, source: S) -> Stream<Sourced<SplitFactory<S>>> {
        let details = Details::of("source", source.describe());
        let (tasks, bounded) = (self.tasks_of_cores(), source.is_bounded());
        let contradicts = bounded && source.look_again_after().is_some();
        let factory = SplitFactory::new(source);
        let stream = self.source(Origin::here("read"), details, tasks, bounded, factory);
        if contradicts {
            let what = "the source is bounded, and looks for new splits: it would never end";
            stream.refuse(Error::new(ErrorKind::Plan, what));
        }
        stream.tied(TieKind::Splits)
    }
}
