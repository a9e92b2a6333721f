//! Windows in checkpoints: what a task holds of them when a barrier has passed, and everything before it is emitted.

use super::counts::KeyCounts;
use super::early::{Earlies, Had};
use super::feed::Feed;
use super::open::Windows;
use crate::checkpoint::{OTHER_TASKS, Redistribution, Saving, StateHandle};
use crate::data::{Data, Key, Portable, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::PartialBatch;
use crate::flow::{CHUNK, Event, Op};
use crate::operators::window::frames::{SliceId, WindowId};
use crate::operators::window::rolling::Rolling;
use crate::operators::window::slices::Slices;
use crate::plan::TaskContext;
use crate::support::saved_keys::{restore_keys, save_key};
use std::collections::BTreeMap;

/// The states of windows in a task. Those that windows of this kind never have are empty.
pub(super) struct SavedWindows {
    task: usize,
    reached: StateHandle,
    coming: StateHandle,
    kept: StateHandle,
    entered: StateHandle,
    rolling: StateHandle,
    updates: StateHandle,
    had: StateHandle,
    changed: StateHandle,
}

/// How far a task has come.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
struct Reached {
    task: usize,
    ended: bool,
    /// The last window that was emitted, and the last that accepts no more records.
    fired: Option<WindowId>,
    over: Option<WindowId>,
    /// The last slice that is in the rolling aggregates.
    entered: Option<SliceId>,
}

impl SavedWindows {
    /// Begins with what is in the checkpoint, if the job goes on from one.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be read, or if its tasks were not at the same window and there are not as many now.
    pub(super) fn new<I: Record + ?Sized, F: Feed<I>>(
        cx: &TaskContext<'_>,
        windows: &mut Windows<I, F>,
        earlies: &mut Earlies<F::Key, F::State>,
        early: bool,
    ) -> Result<Self> {
        type Owned<K> = <K as Portable>::Owned;
        let (op, one_slice) = (windows.op.id(), windows.frames.is_one_slice());
        let by_key = Redistribution::ByKey;
        let slices = |name: &str, has: bool| match has {
            true => cx.state::<(Owned<F::Key>, (SliceId, F::State))>(op, name, by_key),
            false => StateHandle::none(),
        };
        let mut saved = Self {
            task: cx.task,
            reached: cx.state::<Reached>(op, "reached", Redistribution::United),
            coming: slices("slices", true),
            kept: slices("kept slices", windows.keeps),
            entered: slices("entered slices", !one_slice && F::INVERTIBLE),
            rolling: StateHandle::none(),
            updates: StateHandle::none(),
            had: StateHandle::none(),
            changed: StateHandle::none(),
        };
        if !one_slice {
            saved.rolling = cx.state::<(Owned<F::Key>, Rolling<F::State>)>(op, "rolling", by_key);
        }
        if windows.frames.allows_lateness() {
            saved.updates =
                cx.state::<(Owned<F::Key>, (WindowId, u32))>(op, "late results", by_key);
        }
        if early {
            saved.had = cx.state::<(Owned<F::Key>, (WindowId, Had))>(op, "early results", by_key);
            saved.changed = cx.state::<(Owned<F::Key>, Vec<SliceId>)>(op, "changed", by_key);
        }
        saved.restore(cx, windows, earlies)?;
        Ok(saved)
    }

    fn restore<I: Record + ?Sized, F: Feed<I>>(
        &self,
        cx: &TaskContext<'_>,
        windows: &mut Windows<I, F>,
        early: &mut Earlies<F::Key, F::State>,
    ) -> Result<()> {
        // First, as it also does again how keys came back that were in memory.
        windows.updates.restore(&self.updates, cx.spill)?;
        early.counts.restore(&self.had, cx.spill)?;
        let mut all = Vec::new();
        self.reached.restore(|reached: Reached| {
            all.push(reached);
            Ok(())
        })?;
        if all.is_empty() {
            return Ok(());
        }
        let least = windows.frames.forgets_what_has_ended();
        let reached = agreed(&all, self.task, cx.tasks, least)
            .map_err(|error| error.in_operator(&*windows.op.name()))?;
        (windows.fired, windows.over) = (reached.fired, reached.over);
        windows.entered_until = reached.entered;
        let Windows { weighed, coming, kept, .. } = windows;
        for (handle, slices) in [(&self.coming, coming), (&self.kept, kept)] {
            restore_keys(handle, |hash, key: &F::Key, (slice, state): (SliceId, F::State)| {
                weighed.comes(&state);
                slices.table(slice).upsert(hash, key.probe(), key, || state);
                Ok(())
            })?;
        }
        match &mut windows.on_disk {
            Some(on_disk) => self.coming.restore_files(|file| on_disk.restore(&file))?,
            None => {
                for handle in [&self.coming, &self.updates, &self.had] {
                    handle.restore_files(|_| Err(windows.kept_off_disk()))?;
                }
            }
        }
        let Windows { rolling, rolled, live, updates, .. } = windows;
        restore_keys(&self.rolling, |hash, key: &F::Key, there: Rolling<F::State>| {
            *live += 1;
            rolled.changed();
            rolling.upsert(hash, key.probe(), key, || there);
            Ok(())
        })?;
        restore_keys(&self.updates, |hash, key: &F::Key, (window, count): (WindowId, u32)| {
            updates.windows.table(window).upsert(hash, key.probe(), key, || count);
            Ok(())
        })?;
        let mut entered = BTreeMap::<SliceId, Vec<PartialBatch<F::Key, F::State>>>::new();
        restore_keys(&self.entered, |hash, key: &F::Key, (slice, state): (SliceId, F::State)| {
            let batches = entered.entry(slice).or_default();
            if batches.last().is_none_or(|batch| batch.count() >= CHUNK) {
                batches.push(PartialBatch::default());
            }
            if let Some(batch) = batches.last_mut() {
                let key = batch.store(key, key.probe());
                batch.push_slot(hash, key, state);
            }
            Ok(())
        })?;
        for (slice, batches) in entered {
            batches.into_iter().for_each(|batch| windows.has_entered(slice, batch));
        }
        restore_keys(&self.had, |hash, key: &F::Key, (window, had): (WindowId, Had)| {
            early.counts.windows.table(window).upsert(hash, key.probe(), key, || had);
            Ok(())
        })?;
        restore_keys(&self.changed, |hash, key: &F::Key, slices: Vec<SliceId>| {
            let KeyCounts { changed, heap, .. } = &mut early.counts;
            *heap += slices.capacity() * size_of::<SliceId>();
            changed.upsert(hash, key.probe(), key, || slices);
            Ok(())
        })?;
        windows.use_beside(early.bytes(), early.least());
        Ok(())
    }

    /// Saves the windows at a barrier, and at the end, when no record needs them any more.
    pub(super) fn save<I: Record + ?Sized, F: Feed<I>>(
        &self,
        event: Event,
        windows: &mut Windows<I, F>,
        early: &mut Earlies<F::Key, F::State>,
    ) {
        let ended = event == Event::End;
        self.reached.save(event, |out| {
            let Windows { fired, over, entered_until, .. } = windows;
            let (fired, over, entered) = (*fired, *over, *entered_until);
            out.add(&Reached { task: self.task, ended, fired, over, entered });
        });
        let Windows { op, coming, on_disk, updates, failed, .. } = &mut *windows;
        self.coming.save(event, |out| {
            if !ended {
                if *failed {
                    out.refuse("some of its slices could not be moved to disk");
                }
                add_slices(coming, out, |state, bytes| state.encode(bytes));
                let on_disk = on_disk.as_mut().map_or(Ok(()), |on_disk| on_disk.save(out));
                on_disk.unwrap_or_else(|error| op.fail(error));
            }
        });
        save_counts(&self.updates, event, updates, op);
        save_counts(&self.had, event, &mut early.counts, op);
        let windows = &*windows;
        self.kept.save(event, |out| {
            if !ended {
                add_slices(&windows.kept, out, |state, bytes| state.encode(bytes));
            }
        });
        self.rolling.save(event, |out| {
            windows.rolling.for_each(|key, there| {
                if !ended && !there.is_empty() {
                    save_key(key, out, |bytes| there.encode(bytes));
                }
            });
        });
        self.entered.save(event, |out| {
            for (slice, batch) in windows.entered.iter().filter(|_| !ended) {
                batch.for_each(|key, state| {
                    save_key(key, out, |bytes| {
                        slice.encode(bytes);
                        state.encode(bytes);
                    });
                });
            }
        });
        self.changed.save(event, |out| {
            early.counts.changed.for_each(|key, slices| {
                if !ended {
                    save_key(key, out, |bytes| slices.encode(bytes));
                }
            });
        });
    }
}

/// Saves the counts of keys.
fn save_counts<K: Key + ?Sized, V: Data + Copy + Default + PartialEq>(
    handle: &StateHandle,
    event: Event,
    counts: &mut KeyCounts<K, V>,
    op: &Op,
) {
    handle.save(event, |out| {
        if event != Event::End {
            add_slices(&counts.windows, out, |count, bytes| count.encode(bytes));
            counts.save(out).unwrap_or_else(|error| op.fail(error));
        }
    });
}

fn add_slices<K: Key + ?Sized, V, I: Copy + Ord + Data>(
    slices: &Slices<K, V, I>,
    out: &mut Saving,
    encode: impl Fn(&V, &mut Vec<u8>),
) {
    slices.each(|slice, table| {
        table.for_each(|key, value| {
            save_key(key, out, |bytes| {
                slice.encode(bytes);
                encode(value, bytes);
            });
        });
    });
}

/// How far this task has come: as far as all whose input had not ended. They are at the same window where an exchange is before
/// them, since barriers and watermarks come to all its tasks in the same order.
///
/// If they were not, the `least` of them may count where that makes no difference to keys of the others.
///
/// # Errors
///
/// If they were not, it may not, and the number of tasks has changed: a key's windows would be emitted twice, or not at all.
fn agreed(all: &[Reached], task: usize, tasks: usize, least: bool) -> Result<Reached> {
    let mut live = all.iter().filter(|reached| !reached.ended);
    let Some(first) = live.next() else {
        return Ok(Reached { task, ended: false, fired: None, over: None, entered: None });
    };
    let entered = live.clone().chain([first]).filter_map(|reached| reached.entered).max();
    if live.all(|other| (other.fired, other.over) == (first.fired, first.over)) {
        return Ok(Reached { entered, ..first.clone() });
    }
    if least {
        let live = || all.iter().filter(|reached| !reached.ended);
        let fired = live().map(|reached| reached.fired).min().flatten();
        let over = live().map(|reached| reached.over).min().flatten();
        return Ok(Reached { task, ended: false, fired, over, entered: None });
    }
    let own = all.iter().find(|reached| reached.task == task).filter(|_| all.len() == tasks);
    own.cloned().ok_or_else(|| {
        let what = format!(
            "{OTHER_TASKS}: the {} that it has had emitted different windows, so there must be as many, and there are \
             {tasks}; set their number by `--tasks`",
            all.len(),
        );
        Error::new(ErrorKind::Config, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_at_different_windows_are_restored_as_they_were() {
        let at = |task, fired, entered| Reached {
            task,
            ended: false,
            fired: Some(fired),
            over: Some(fired),
            entered,
        };
        let together =
            [at(0, 5, None), at(1, 5, Some(3)), Reached { ended: true, ..at(2, 99, None) }];
        for tasks in 1..5 {
            let reached = agreed(&together, 0, tasks, false).unwrap();
            assert_eq!((reached.fired, reached.entered), (Some(5), Some(3)), "{tasks}");
        }
        let apart = [at(0, 5, None), at(1, 6, None)];
        assert_eq!(agreed(&apart, 1, 2, false).unwrap().fired, Some(6));
        let refused = agreed(&apart, 1, 3, false).unwrap_err().to_string();
        // By the clock, what has ended is gone, and no record comes for it.
        assert_eq!(agreed(&apart, 1, 3, true).unwrap().fired, Some(5));
        assert!(refused.contains("there must be as many, and there are 3"), "{refused}");
    }
}
