//! What a task that generates watermarks saves: how far event time was, and what its generators remember.
//!
//! A task that goes on from a checkpoint must take no record for late that would not have been late otherwise. So the
//! generator of a split goes to the task that reads the split, by its name; until a task of a host reads it, the first
//! one there that a barrier reaches saves it as it was. Any other task may get the records of any task from before, and
//! begins with the generator whose watermark is least, unless the source gives each task what it read before. Of files,
//! the watermark of each is saved.

use super::WatermarkGenerator;
use super::watermarks::watermark_of;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Data, Record};
use crate::error::Result;
use crate::flow::{Epoch, Event};
use crate::plan::TaskContext;
use crate::support::saved_watermark::{Entry as Progress, least};
use crate::sync::{Mutex, lock};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// What one task saves.
pub(super) struct Saved<G> {
    pub(super) progress: Progress,
    pub(super) generators: Vec<SavedGenerator<G>>,
    /// The watermarks of files; only one task of a host has them.
    pub(super) files: Vec<(PathBuf, Timestamp)>,
}

/// A generator in a checkpoint.
pub(super) struct SavedGenerator<G> {
    /// The split that it is of; `None` where the task reads no splits.
    pub(super) split: Option<String>,
    /// Whether a task has read the split, or its own input, with it; otherwise it is as in the checkpoint before.
    pub(super) is_current: bool,
    pub(super) generator: G,
}

/// A generator that remembers nothing but the greatest timestamp that it has seen.
pub(super) trait Remembers: Clone {
    /// That timestamp.
    fn greatest(&self) -> Option<Timestamp>;
    /// The same generator, which has seen this one.
    fn that_has_seen(&self, greatest: Option<Timestamp>) -> Self;
}

/// A generator whose state is not saved. Types of the same name and fields are migrated into one another, so that a new
/// version of a program may have another kind of generator.
mod nothing {
    use crate::data::Data;
    use crate::time::Timestamp;
    use std::path::PathBuf;

    #[derive(Data)]
    pub(in crate::operators::time) struct Entry {
        pub(super) holds: bool,
        pub(super) ended: bool,
        pub(super) at: Option<Timestamp>,
        #[data(default)]
        pub(super) files: Vec<(PathBuf, Timestamp)>,
    }
}

/// One that [`Remembers`] a timestamp.
mod greatest {
    use crate::data::Data;
    use crate::time::Timestamp;
    use std::path::PathBuf;

    #[derive(Data)]
    pub(in crate::operators::time) struct Entry {
        pub(super) holds: bool,
        pub(super) ended: bool,
        pub(super) at: Option<Timestamp>,
        #[data(default)]
        pub(super) files: Vec<(PathBuf, Timestamp)>,
        /// Of each generator the split, and whether it is current.
        #[data(default)]
        pub(super) greatest: Vec<(Option<String>, bool, Option<Timestamp>)>,
    }
}

/// One that is saved as a whole.
mod whole {
    use crate::data::Data;
    use crate::time::Timestamp;
    use std::path::PathBuf;

    #[derive(Data)]
    pub(in crate::operators::time) struct Entry<S> {
        pub(super) holds: bool,
        pub(super) ended: bool,
        pub(super) at: Option<Timestamp>,
        #[data(default)]
        pub(super) files: Vec<(PathBuf, Timestamp)>,
        /// Of each generator the split, and whether it is current.
        #[data(default)]
        pub(super) generators: Vec<(Option<String>, bool, S)>,
    }
}

/// The entry of a checkpoint for generators of type `G`.
pub(super) trait Stored<G>: Data {
    fn store(saved: Saved<G>) -> Self;

    /// `first` is a generator that has seen nothing.
    fn load(self, first: &G) -> Saved<G>;
}

impl<G> Stored<G> for nothing::Entry {
    fn store(Saved { progress, files, .. }: Saved<G>) -> Self {
        let Progress { holds, ended, at } = progress;
        Self { holds, ended, at, files }
    }

    fn load(self, _: &G) -> Saved<G> {
        let Self { holds, ended, at, files } = self;
        Saved { progress: Progress { holds, ended, at }, generators: Vec::new(), files }
    }
}

impl<G: Remembers> Stored<G> for greatest::Entry {
    fn store(Saved { progress, generators, files }: Saved<G>) -> Self {
        let Progress { holds, ended, at } = progress;
        let of = |SavedGenerator { split, is_current, generator }: SavedGenerator<G>| {
            (split, is_current, generator.greatest())
        };
        Self { holds, ended, at, files, greatest: generators.into_iter().map(of).collect() }
    }

    fn load(self, first: &G) -> Saved<G> {
        let Self { holds, ended, at, files, greatest } = self;
        let of = |(split, is_current, greatest)| {
            let generator = first.that_has_seen(greatest);
            SavedGenerator { split, is_current, generator }
        };
        let generators = greatest.into_iter().map(of).collect();
        Saved { progress: Progress { holds, ended, at }, generators, files }
    }
}

impl<G: Data> Stored<G> for whole::Entry<G> {
    fn store(Saved { progress, generators, files }: Saved<G>) -> Self {
        let Progress { holds, ended, at } = progress;
        let of = |SavedGenerator { split, is_current, generator }| (split, is_current, generator);
        Self { holds, ended, at, files, generators: generators.into_iter().map(of).collect() }
    }

    fn load(self, _: &G) -> Saved<G> {
        let Self { holds, ended, at, files, generators } = self;
        let of = |(split, is_current, generator)| SavedGenerator { split, is_current, generator };
        let generators = generators.into_iter().map(of).collect();
        Saved { progress: Progress { holds, ended, at }, generators, files }
    }
}

/// What tasks have saved, with their numbers.
type SavedByTask<G> = Vec<(usize, Saved<G>)>;

/// How generators of type `G` are saved and restored.
pub(super) trait Saves<G>: fmt::Debug + Send + Sync {
    /// The handle of a task, and what each task has saved.
    fn open(
        &self,
        cx: &TaskContext<'_>,
        op: usize,
        first: &G,
    ) -> Result<(StateHandle, SavedByTask<G>)>;

    fn save(&self, handle: &StateHandle, event: Event, saved: Saved<G>);
}

/// As entries of type `E`.
struct As<E>(PhantomData<fn() -> E>);

impl<E> fmt::Debug for As<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Saves")
    }
}

impl<G, E: Stored<G>> Saves<G> for As<E> {
    fn open(
        &self,
        cx: &TaskContext<'_>,
        op: usize,
        first: &G,
    ) -> Result<(StateHandle, SavedByTask<G>)> {
        let united = Redistribution::United;
        let handle = cx.state_for_any_details::<E>(op, "watermark", united);
        let mut entries = Vec::new();
        handle.restore_by_task(|task, entry: E| {
            entries.push((task, entry.load(first)));
            Ok(())
        })?;
        Ok((handle, entries))
    }

    fn save(&self, handle: &StateHandle, event: Event, saved: Saved<G>) {
        let entry = E::store(saved);
        handle.save(event, |out| out.add(&entry));
    }
}

/// Generators are not saved.
pub(super) fn nothing<G>() -> Arc<dyn Saves<G>> {
    Arc::new(As::<nothing::Entry>(PhantomData))
}

/// The greatest timestamps that generators have seen are saved.
pub(super) fn greatest<G: Remembers>() -> Arc<dyn Saves<G>> {
    Arc::new(As::<greatest::Entry>(PhantomData))
}

/// Generators are saved as they are.
pub(super) fn whole<G: Data>() -> Arc<dyn Saves<G>> {
    Arc::new(As::<whole::Entry<G>>(PhantomData))
}

/// The state of a task that generates watermarks.
pub(super) struct SavedGenerators<G> {
    saves: Arc<dyn Saves<G>>,
    handle: StateHandle,
}

impl<G: Clone> SavedGenerators<G> {
    /// That of a task, and what it begins with.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be read.
    pub(super) fn open(
        saves: &Arc<dyn Saves<G>>,
        cx: &TaskContext<'_>,
        op: usize,
        first: &G,
    ) -> Result<(Self, Restored<G>)> {
        let (handle, entries) = saves.open(cx, op, first)?;
        let before = handle.tasks_before();
        let restored = Restored { entries, before, task: cx.task, tasks: cx.tasks };
        Ok((Self { saves: Arc::clone(saves), handle }, restored))
    }

    /// Whether this event is one at which the task saves its state, in a job with checkpoints.
    pub(super) fn is_due(&self, event: Event) -> bool {
        self.handle.is_on() && matches!(event, Event::Barrier(_) | Event::End)
    }

    pub(super) fn save(&self, event: Event, saved: Saved<G>) {
        self.saves.save(&self.handle, event, saved);
    }
}

/// The generators of splits in the checkpoint that the job began with, for all tasks of this host. Where none of these has
/// read a split and another host does, both save its generator, of which that of the other host is the current one.
pub(super) struct SplitsBefore<G>(Mutex<Carried<G>>);

struct Carried<G> {
    /// Each with whether a task of this host has entered the split, and saves its generator from then on.
    splits: BTreeMap<String, (bool, G)>,
    /// The last barrier at which the others were saved.
    saved: Epoch,
}

impl<G: Clone> SplitsBefore<G> {
    /// That of an operator, which its first task creates; `None` if there are none.
    pub(super) fn of_task(
        all: &OnceLock<Option<Arc<Self>>>,
        splits: BTreeMap<String, G>,
    ) -> Option<Arc<Self>> {
        let new = || (!splits.is_empty()).then(|| Arc::new(Self::new(splits)));
        all.get_or_init(new).clone()
    }

    fn new(splits: BTreeMap<String, G>) -> Self {
        let splits = splits.into_iter().map(|(name, generator)| (name, (false, generator)));
        Self(Mutex::new(Carried { splits: splits.collect(), saved: Epoch::default() }))
    }

    /// The generator with which a task enters a split of this name, if it is one of these.
    pub(super) fn enter(&self, name: &str) -> Option<G> {
        let mut carried = lock(&self.0);
        let (is_entered, generator) = carried.splits.get_mut(name)?;
        *is_entered = true;
        Some(generator.clone())
    }

    /// A task has read a split of this name to its end.
    pub(super) fn end(&self, name: &str) {
        lock(&self.0).splits.remove(name);
    }

    /// Those of splits that no task has entered, for the first task of this host that a barrier reaches, and none for the
    /// others: they save what they have entered until it reaches them.
    pub(super) fn at_barrier(&self, epoch: Epoch) -> Vec<SavedGenerator<G>> {
        let mut carried = lock(&self.0);
        if epoch <= carried.saved {
            return Vec::new();
        }
        carried.saved = epoch;
        let left = carried.splits.iter().filter(|(_, (is_entered, _))| !is_entered);
        let saved = left.map(|(name, (_, generator))| SavedGenerator {
            split: Some(name.clone()),
            is_current: false,
            generator: generator.clone(),
        });
        saved.collect()
    }
}

/// What tasks have saved.
pub(super) struct Restored<G> {
    /// Each with the number of the task.
    entries: SavedByTask<G>,
    /// How many tasks there were.
    before: usize,
    task: usize,
    tasks: usize,
}

impl<G> Restored<G> {
    /// The watermarks of files.
    pub(super) fn files(&mut self) -> impl Iterator<Item = (PathBuf, Timestamp)> {
        self.entries.iter_mut().flat_map(|(_, saved)| std::mem::take(&mut saved.files))
    }

    /// The generators of splits, by name. That of a task that has read the split is newer than what another one has carried on.
    /// If splits have the same name, the one whose watermark is least is that of all.
    pub(super) fn splits<I>(&mut self) -> BTreeMap<String, G>
    where
        I: Record + ?Sized,
        G: WatermarkGenerator<I>,
    {
        let mut splits = BTreeMap::<String, (bool, G)>::new();
        for (_, saved) in &mut self.entries {
            let all = std::mem::take(&mut saved.generators).into_iter();
            let (of_splits, own): (Vec<_>, Vec<_>) =
                all.partition(|generator| generator.split.is_some());
            saved.generators = own;
            for SavedGenerator { split, is_current, generator } in of_splits {
                let Some(name) = split else { continue };
                let counts = splits.get(&name).is_none_or(|(other_is_current, other)| {
                    match (is_current, *other_is_current) {
                        (true, false) => true,
                        (false, true) => false,
                        _ => watermark_of::<I>(&generator) < watermark_of::<I>(other),
                    }
                });
                if counts {
                    splits.insert(name, (is_current, generator));
                }
            }
        }
        splits.into_iter().map(|(name, (_, generator))| (name, generator)).collect()
    }

    /// The watermark that the task begins with, and its generator, unless that has seen nothing. If the source `keeps_tasks`,
    /// each task gets what it read before, if there were as many tasks.
    pub(super) fn of_task<I>(mut self, keeps_tasks: bool) -> (Option<Timestamp>, Option<G>)
    where
        I: Record + ?Sized,
        G: WatermarkGenerator<I>,
    {
        if keeps_tasks && self.before == self.tasks {
            self.entries.retain(|(saved_by, _)| *saved_by == self.task);
        }
        let progress: Vec<_> = self.entries.iter().map(|(_, saved)| saved.progress).collect();
        let any_holds = progress.iter().any(|progress| progress.holds);
        // Those whose watermarks count.
        let counting = self.entries.into_iter().filter(|(_, saved)| {
            let Progress { holds, ended, .. } = saved.progress;
            if any_holds { holds } else { !ended }
        });
        let generators = counting.flat_map(|(_, saved)| saved.generators);
        let with_watermarks =
            generators.map(|saved| (watermark_of::<I>(&saved.generator), saved.generator));
        let behind = with_watermarks.min_by_key(|(watermark, _)| *watermark);
        (least(&progress), behind.map(|(_, generator)| generator))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Disorder, Watermarks};
    use super::*;
    use std::time::Duration;

    fn at(micros: i64) -> Option<Timestamp> {
        Some(Timestamp::from_micros(micros))
    }

    /// A generator that has seen this timestamp.
    fn seen(micros: i64) -> Disorder {
        Watermarks::bounded_disorder(Duration::ZERO).generator.that_has_seen(at(micros))
    }

    fn saved(split: Option<&str>, is_current: bool, micros: i64) -> SavedGenerator<Disorder> {
        let split = split.map(str::to_owned);
        SavedGenerator { split, is_current, generator: seen(micros) }
    }

    fn restored(
        entries: Vec<(usize, Vec<SavedGenerator<Disorder>>)>,
        (task, tasks): (usize, usize),
    ) -> Restored<Disorder> {
        let before = entries.len();
        let of = |(saved_by, generators): (usize, Vec<SavedGenerator<Disorder>>)| {
            let at = generators.first().and_then(|saved| saved.generator.greatest());
            let progress = Progress { holds: true, ended: false, at };
            (saved_by, Saved { progress, generators, files: Vec::new() })
        };
        Restored { entries: entries.into_iter().map(of).collect(), before, task, tasks }
    }

    #[test]
    fn the_generator_of_a_split_is_the_newest_and_of_several_the_one_that_is_behind() {
        let (a, b, c) = (Some("a"), Some("b"), Some("c"));
        let first = vec![saved(a, false, 3), saved(b, true, 9), saved(c, false, 4)];
        let second = vec![saved(b, true, 7), saved(a, true, 8), saved(b, false, 1)];
        let mut restored = restored(vec![(0, first), (1, second)], (1, 2));
        let splits = restored.splits::<u64>();
        let greatest: Vec<_> =
            splits.iter().map(|(name, generator)| (&**name, generator.greatest())).collect();
        assert_eq!(greatest, [("a", at(8)), ("b", at(7)), ("c", at(4))]);
    }

    #[test]
    fn splits_that_no_task_has_entered_are_saved_once_at_each_barrier() {
        let all = OnceLock::new();
        let splits = || BTreeMap::from(["a", "b", "c"].map(|name| (name.to_owned(), seen(7))));
        let tasks = [0, 1].map(|_| SplitsBefore::of_task(&all, splits()).expect("there are some"));
        let at_barrier = |task: usize, epoch| {
            let saved = tasks[task].at_barrier(Epoch(epoch));
            assert!(saved.iter().all(|saved| !saved.is_current));
            saved.into_iter().filter_map(|saved| saved.split).collect::<Vec<_>>()
        };
        assert_eq!(at_barrier(1, 1), ["a", "b", "c"]);
        assert!(at_barrier(0, 1).is_empty());
        assert_eq!(tasks[0].enter("b").and_then(|generator| generator.greatest()), at(7));
        assert!(tasks[0].enter("d").is_none());
        assert_eq!(at_barrier(0, 2), ["a", "c"]);
        assert!(at_barrier(1, 2).is_empty());
        // Another split of the name.
        assert!(tasks[1].enter("b").is_some());
        tasks[0].end("b");
        assert!(tasks[1].enter("b").is_none());
        assert_eq!(at_barrier(1, 3), ["a", "c"]);
        assert!(SplitsBefore::<Disorder>::of_task(&OnceLock::new(), BTreeMap::new()).is_none());
    }

    #[test]
    fn a_task_begins_with_its_own_generator_or_the_one_that_is_behind() {
        let both = || vec![(0, vec![saved(None, true, 7)]), (1, vec![saved(None, true, 5)])];
        let of_task = |of, keeps_tasks| {
            let (watermark, generator) = restored(both(), of).of_task::<u64>(keeps_tasks);
            assert_eq!(generator.and_then(|generator| generator.greatest()), watermark);
            watermark
        };
        assert_eq!(of_task((0, 2), true), at(7));
        assert_eq!(of_task((1, 2), true), at(5));
        assert_eq!(of_task((0, 2), false), at(5));
        assert_eq!(of_task((0, 3), true), at(5));
    }
}
