//! What checkpoints have of calls: the records of those in flight.
//!
//! A barrier normally waits for the calls before it. Where records are saved it passes at once instead, in front of the results that
//! are not emitted yet, and of the watermarks among these. Their records are encoded then, in the order in which they came, whether
//! the call has not begun, runs, rests before another attempt, or has a result that waits for its turn. A task that is restored begins with these
//! records, before any input, so their calls are made again. The watermarks are sent again by what generates them.
//!
//! The barrier waits nevertheless
//! * if the job is suspended with it: otherwise the calls in flight would be made twice because of that;
//! * in a loop, where no call is in flight between two rounds;
//! * in front of an operator of the same stage that generates watermarks: a task that gets the records of several others would see
//!   them in another order than each of these has.

use crate::checkpoint::{OTHER_TASKS, Redistribution, StateHandle};
use crate::data::Data;
use crate::error::{ErrorKind, Result};
use crate::flow::{Depth, Event, Op};
use crate::plan::TaskContext;
use crate::time::Time;

/// How an operator keeps the records of calls that it makes.
pub struct Keep<D, T> {
    clone: fn(&D) -> Option<D>,
    /// Whether each record is cloned, and not only where there are several attempts or checkpoints.
    always: bool,
    codec: Option<Codec<D, T>>,
}

/// Encodes and decodes records.
struct Codec<D, T> {
    encode: fn(&D, &mut Vec<u8>),
    heap_size: fn(&D) -> usize,
    open: fn(&TaskContext<'_>, usize) -> Result<Opened<D, T>>,
}

/// The state of a task, and what all tasks have saved.
type Opened<D, T> = (StateHandle, Vec<Entry<D, T>>);

impl<D, T> Clone for Codec<D, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D, T> Copy for Codec<D, T> {}

/// A record that a task has saved.
struct Entry<D, T> {
    task: usize,
    /// The number of tasks that there were.
    tasks: usize,
    record: D,
    time: T,
}

impl<D, T> Keep<D, T> {
    /// Keeps no record.
    pub(super) fn none() -> Self {
        Self { clone: |_| None, always: false, codec: None }
    }
}

impl<D: Clone, T> Keep<D, T> {
    /// Keeps a clone for further attempts, or for the side output.
    pub(super) fn clones() -> Self {
        Self { clone: |record| Some(record.clone()), always: true, codec: None }
    }
}

impl<D: Data + Clone, T: Time> Keep<D, T> {
    /// As [`clones`](Self::clones), and saves them in checkpoints.
    pub(super) fn saved_clones() -> Self {
        let codec = Codec { encode: D::encode, heap_size: D::heap_size, open };
        Self { codec: Some(codec), ..Self::clones() }
    }

    /// Keeps a clone for further attempts, and saves it in checkpoints.
    pub(super) fn saved() -> Self {
        Self { always: false, ..Self::saved_clones() }
    }
}

fn open<D: Data, T: Time>(cx: &TaskContext<'_>, op: usize) -> Result<Opened<D, T>> {
    let united = Redistribution::United;
    let handle = cx.state_for_any_details::<(u64, D, T)>(op, "in flight", united);
    let mut entries = Vec::new();
    handle.restore_by_task(|task, (tasks, record, time): (u64, D, T)| {
        entries.push(Entry { task, tasks: tasks as usize, record, time });
        Ok(())
    })?;
    Ok((handle, entries))
}

/// The records that a task keeps, and saves.
pub(super) struct Keeping<D, T> {
    clone: Option<fn(&D) -> Option<D>>,
    handle: StateHandle,
    codec: Option<Codec<D, T>>,
    /// Whether barriers pass while calls are in flight.
    passes: bool,
    tasks: u64,
}

impl<D, T: Time> Keeping<D, T> {
    /// That of a task, and the records that it begins with. `retries` says whether calls may have several attempts.
    ///
    /// # Errors
    ///
    /// If order is kept, and there were not as many tasks: the records that follow go to other tasks than those before them.
    pub(super) fn new(
        cx: &TaskContext<'_>,
        op: &Op,
        keep: &Keep<D, T>,
        (retries, ordered): (bool, bool),
    ) -> Result<(Self, Vec<(D, T)>)> {
        let (handle, entries) = match &keep.codec {
            Some(codec) => (codec.open)(cx, op.id())?,
            None => (StateHandle::none(), Vec::new()),
        };
        let passes = handle.is_on() && op.depth() == Depth::default() && !cx.gets_time_in_order();
        let clone = (keep.always || retries || passes).then_some(keep.clone);
        let (task, tasks) = (cx.task, cx.tasks);
        let mut mine = Vec::new();
        for (at, entry) in entries.into_iter().enumerate() {
            let is_mine = match entry.tasks == tasks {
                true => entry.task == task,
                false if ordered => {
                    let what = format!(
                        "{OTHER_TASKS}: results of calls keep the order of their records, and calls were in flight in some of its \
                         {} tasks, so there must be as many, and there are {tasks}; `--tasks` sets the number, and `unordered` \
                         calls can have any",
                        entry.tasks
                    );
                    return Err(handle.error(ErrorKind::Config, what));
                }
                false => at % tasks == task,
            };
            if is_mine {
                mine.push((entry.record, entry.time));
            }
        }
        Ok((Self { clone, handle, codec: keep.codec, passes, tasks: tasks as u64 }, mine))
    }

    /// Clones a record, if it may be needed again.
    pub(super) fn clone(&self, record: &D) -> Option<D> {
        self.clone.and_then(|clone| clone(record))
    }

    /// Whether barriers pass while calls are in flight.
    pub(super) fn passes(&self) -> bool {
        self.passes
    }

    /// What a record owns on the heap, where records are saved.
    pub(super) fn heap_size(&self, record: &D) -> usize {
        self.codec.map_or(0, |codec| (codec.heap_size)(record))
    }

    /// Saves these records, if the event is a barrier or the end.
    pub(super) fn save<'a, I>(&self, event: Event, records: impl FnOnce() -> I)
    where
        D: 'a,
        I: IntoIterator<Item = (&'a D, T)>,
    {
        let Some(Codec { encode, .. }) = self.codec else { return };
        self.handle.save(event, |out| {
            for (record, time) in records() {
                out.add_by_key(0, |out| {
                    self.tasks.encode(out);
                    encode(record, out);
                    time.encode(out);
                });
            }
        });
    }
}
