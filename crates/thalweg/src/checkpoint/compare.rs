//! Compares the states of a program with those of a checkpoint.

use super::snapshot::{Saved, Snapshot, StateId};
use super::{Checkpoints, Slot};
use crate::data::{Data, DecodeError};
use crate::error::Error;
use crate::sync::lock;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// What a job would do with a checkpoint: [`Environment::compare_with`](crate::Environment::compare_with).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanComparison {
    /// The number of the checkpoint.
    pub number: u64,
    /// Every state that the checkpoint or the program has, by operator and name.
    pub states: Vec<StateComparison>,
    /// The operators without names that would go on under another id than the program would give them, each in a line.
    pub moved: Vec<String>,
    /// Why the job would be refused though its states are those of the checkpoint; each cause once.
    pub refusals: Vec<String>,
    /// Whether some states may be missing here, as tasks could not be made.
    pub lacks_states: bool,
    /// Whether the job would go on without the states that only the checkpoint has:
    /// [`Config::allow_dropped_state`](crate::config::Config::allow_dropped_state).
    pub allows_dropped: bool,
    /// Why newer checkpoints could not be read.
    pub skipped: Vec<String>,
}

/// What would become of one state of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateComparison {
    /// The operator: its name, or its kind and number.
    pub operator: String,
    /// Which of the operator's states it is.
    pub state: String,
    /// What would become of it.
    pub fate: StateFate,
    /// Of the state of a source: where it would go on.
    pub position: Option<String>,
}

/// What would become of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateFate {
    /// The job would go on with it.
    Reused {
        /// How many entries it has: keys, for most operators that have keys.
        entries: u64,
        /// The bytes of all entries.
        bytes: u64,
    },
    /// The program has a newer type of it, in which its entries have a place: the job would go on with them.
    Migrated {
        /// How many entries it has.
        entries: u64,
        /// The bytes of all entries, as the program has them.
        bytes: u64,
        /// What is different.
        changes: Vec<String>,
    },
    /// Both have it, of other types or settings: the job would be refused.
    Changed {
        /// Its type in the checkpoint, and what the operator was given.
        checkpoint: String,
        /// The same in the program.
        program: String,
        /// Why entries of the one cannot become entries of the other.
        why: String,
    },
    /// Only the program has it: the job would be refused.
    Missing,
    /// Only the checkpoint has it: the job would be refused, or go on without it if the comparison
    /// [allows](PlanComparison::allows_dropped) that.
    Dropped,
}

impl PlanComparison {
    /// Whether the job would go on from the checkpoint.
    pub fn goes_on(&self) -> bool {
        self.refusals.is_empty() && self.states.iter().all(|state| self.goes_on_with(state))
    }

    fn goes_on_with(&self, state: &StateComparison) -> bool {
        match state.fate {
            StateFate::Reused { .. } | StateFate::Migrated { .. } => true,
            StateFate::Dropped => self.allows_dropped,
            StateFate::Changed { .. } | StateFate::Missing => false,
        }
    }
}

/// A table of the states and their fates, what would have to be done again, and whether the job would go on.
impl Display for PlanComparison {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self.states.iter().map(row).collect();
        let heads = ["OPERATOR", "STATE", "WOULD BE", "ENTRIES", "SIZE"].map(str::to_owned);
        let all = || std::iter::once(&heads).chain(rows.iter().map(|(cells, _)| cells));
        let width = |at: usize| all().map(|row| row[at].chars().count()).max().unwrap_or_default();
        let widths: [usize; 5] = std::array::from_fn(width);
        let line = |cells: &[String; 5]| {
            let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        writeln!(out, "{}", line(&heads))?;
        for (cells, notes) in &rows {
            writeln!(out, "{}", line(cells))?;
            notes.iter().try_for_each(|note| writeln!(out, "    {note}"))?;
        }
        self.moved.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if self.lacks_states {
            writeln!(out, "other states are not known, as not all tasks could be made")?;
        }
        for error in &self.skipped {
            writeln!(out, "\na newer checkpoint cannot be read: {error}")?;
        }
        let number = self.number;
        let drops = self.states.iter().any(|state| state.fate == StateFate::Dropped);
        if self.goes_on() {
            let without = if drops { ", without what is dropped" } else { "" };
            return writeln!(out, "\nthe job would go on from checkpoint {number}{without}");
        }
        let others = self.states.iter().filter(|state| !self.goes_on_with(state)).count();
        let differ = match others {
            0 => None,
            1 => Some("one state is not that of the checkpoint".to_owned()),
            _ => Some(format!("{others} states are not those of the checkpoint")),
        };
        let causes: Vec<_> = differ.into_iter().chain(self.refusals.iter().cloned()).collect();
        let causes = causes.join("; ");
        writeln!(out, "\nthe job would be refused with checkpoint {number}: {causes}")?;
        if drops && !self.allows_dropped {
            writeln!(out, "`--allow-dropped-state` lets a job go on without what is dropped")?;
        }
        Ok(())
    }
}

/// The cells of a state's row, and the lines below it.
fn row(state: &StateComparison) -> ([String; 5], Vec<String>) {
    use crate::metrics::show;
    let (fate, entries, size) = match &state.fate {
        StateFate::Reused { entries, bytes } => {
            ("reused", show::count(*entries), show::bytes(*bytes))
        }
        StateFate::Migrated { entries, bytes, .. } => {
            ("migrated", show::count(*entries), show::bytes(*bytes))
        }
        StateFate::Changed { .. } => ("changed", String::new(), String::new()),
        StateFate::Missing => ("missing", String::new(), String::new()),
        StateFate::Dropped => ("dropped", String::new(), String::new()),
    };
    let mut notes = Vec::new();
    match &state.fate {
        StateFate::Changed { checkpoint, program, why } => {
            notes.push(format!("in the checkpoint: {checkpoint}"));
            notes.push(format!("in the program:    {program}"));
            notes.push(why.clone());
        }
        StateFate::Migrated { changes, .. } => notes.extend_from_slice(changes),
        StateFate::Reused { .. } | StateFate::Missing | StateFate::Dropped => {}
    }
    notes.extend(state.position.iter().map(|position| format!("goes on {position}")));
    ([state.operator.clone(), state.state.clone(), fate.to_owned(), entries, size], notes)
}

/// What is found out while tasks are made that never run.
#[derive(Default)]
pub(super) struct Trial {
    /// Why the job would be refused.
    pub(super) refusals: Vec<Error>,
    /// Whether a task could not be made, so that some of its states may be unknown.
    pub(super) lacks_states: bool,
}

/// Says where a source would go on with these entries of its state.
pub(super) type ShowPosition =
    Box<dyn Fn(&Snapshot, &StateId) -> Result<String, DecodeError> + Send + Sync>;

/// Decodes all entries of a state, and shows them.
pub(super) fn shown_by<E: Data>(show: fn(Vec<E>) -> String) -> ShowPosition {
    Box::new(move |snapshot, id| {
        let (mut all, mut entries) = (Vec::new(), snapshot.entries(id));
        while let Some(Saved { mut bytes, .. }) = entries.next()? {
            all.push(E::decode(&mut bytes)?);
        }
        Ok(show(all))
    })
}

impl Checkpoints {
    /// Compares the states of the tasks that were made with those of the snapshot that they began with.
    pub(crate) fn compare(&self, number: u64) -> PlanComparison {
        let restored = lock(&self.restored).take();
        let snapshot = restored.as_deref();
        let (slots, migrated) = (lock(&self.slots), lock(&self.migrated));
        let of_program: BTreeMap<&StateId, &Arc<Slot>> =
            slots.iter().map(|slot| (&slot.id, slot)).collect();
        let mut states = BTreeMap::new();
        for (id, slot) in &of_program {
            let migration = migrated.get(*id);
            let fate = match snapshot.and_then(|snapshot| snapshot.shape(id)) {
                None if slot.is_optional() => continue,
                None => StateFate::Missing,
                Some(shape) if *shape == slot.shape => {
                    let (entries, bytes) = snapshot.map_or((0, 0), |snapshot| sum_up(snapshot, id));
                    match migration {
                        Some(Ok(changes)) => {
                            StateFate::Migrated { entries, bytes, changes: changes.clone() }
                        }
                        _ => StateFate::Reused { entries, bytes },
                    }
                }
                Some(shape) => StateFate::Changed {
                    checkpoint: shape.to_string(),
                    program: slot.shape.to_string(),
                    why: match migration {
                        Some(Err(why)) => why.clone(),
                        _ => String::new(),
                    },
                },
            };
            let goes_on = matches!(fate, StateFate::Reused { .. } | StateFate::Migrated { .. });
            let show = slot.position.get().filter(|_| goes_on);
            let position = show.and_then(|show| show(snapshot?, id).ok());
            states.insert((*id).clone(), (fate, position));
        }
        let mut trial =
            self.trial.as_ref().map(|trial| std::mem::take(&mut *lock(trial))).unwrap_or_default();
        for id in snapshot.into_iter().flat_map(Snapshot::ids).filter(|_| !trial.lacks_states) {
            states.entry(id.clone()).or_insert((StateFate::Dropped, None));
        }
        let mut refusals: Vec<_> =
            trial.refusals.drain(..).map(|error| error.to_string()).collect();
        refusals.sort();
        refusals.dedup();
        let states = states.into_iter().map(|(StateId { operator, name }, (fate, position))| {
            StateComparison { operator, state: name, fate, position }
        });
        PlanComparison {
            number,
            states: states.collect(),
            moved: self.moved(),
            refusals,
            lacks_states: trial.lacks_states,
            allows_dropped: false,
            skipped: Vec::new(),
        }
    }
}

/// The entries of a state that can be read, the records in its files, and the bytes of both.
fn sum_up(snapshot: &Snapshot, id: &StateId) -> (u64, u64) {
    let (mut all, mut size, mut entries) = (0, 0, snapshot.entries(id));
    while let Ok(Some(Saved { bytes, .. })) = entries.next() {
        all += 1;
        size += bytes.len() as u64;
    }
    for (_, file) in snapshot.files(id) {
        all += file.records;
        size += file.bytes;
    }
    (all, size)
}
