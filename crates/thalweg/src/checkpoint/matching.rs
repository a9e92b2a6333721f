//! Whether the states of a program are those of the checkpoint that it begins with, and which of these are dropped.

use super::branches::is_number;
use super::snapshot::{Snapshot, StateId};
use super::{Checkpoints, IN_FLIGHT, Shape, Slot, advice};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Checkpoints {
    /// Checks, when all tasks are made, that the job's states have different names, and are those of the snapshot that it
    /// begins with, which is then given up. `is_elsewhere` says of the name of an operator whether all of its tasks are on
    /// other hosts. States that only the snapshot has are dropped if `may_drop`; `numbered` gives the kind of an operator in the
    /// plan whose states have a number in place of a name, and might have had another one. Records in flight are never dropped.
    ///
    /// # Errors
    ///
    /// The first state that only one of them has, or has in another shape, or that might belong to another operator than the one
    /// that takes it.
    pub(crate) fn check<'p>(
        &self,
        is_elsewhere: impl Fn(&str) -> bool,
        numbered: impl Fn(usize) -> Option<&'p str>,
        may_drop: bool,
    ) -> Result<()> {
        let slots = lock(&self.slots);
        let mut named = BTreeMap::new();
        for slot in slots.iter() {
            let other = *named.entry(&slot.id).or_insert(slot.op);
            if other != slot.op {
                let what = format!("another operator has {} too; give it another name", slot.id);
                return Err(Error::new(ErrorKind::Plan, what).in_operator(&*slot.name));
            }
        }
        // That of a trial is compared later.
        let restored = match self.is_trial() {
            true => lock(&self.restored).clone().filter(|_| may_drop && !self.lacks_states()),
            false => lock(&self.restored).take(),
        };
        let Some(snapshot) = restored else { return Ok(()) };
        if !self.is_trial() {
            self.check_shapes(&slots, &snapshot)?;
        }
        let is_of_none = |id: &&StateId| {
            !slots.iter().any(|slot| slot.id == **id) && !is_elsewhere(&id.operator)
        };
        let of_none: Vec<StateId> = snapshot.ids().filter(is_of_none).cloned().collect();
        let advice = advice(self.dir());
        if let Some((id, others)) = of_none.split_first().filter(|_| !may_drop) {
            let others = match others.len() {
                0 => String::new(),
                1 => " and another one".to_owned(),
                others => format!(" and {others} others"),
            };
            let what = format!(
                "the checkpoint has {id}{others}, which this program does not have: {advice}, or drop what no operator takes \
                 with `--allow-dropped-state` (in code, `Config::allow_dropped_state`)"
            );
            return Err(Error::new(ErrorKind::Plan, what));
        }
        let what = if let Some(id) = of_none.iter().find(|id| id.name == IN_FLIGHT) {
            // They are records of all that is behind the exchange, which may still be there.
            Some(format!(
                "the checkpoint has {id}, records on their way to an exchange that this program does not have, \
                 and they cannot be dropped: {advice}; a savepoint of that program has none"
            ))
        } else {
            doubtful(&of_none, &slots, &snapshot, numbered).map(|id| {
                format!(
                    "the checkpoint has {id}, and this program has fewer such operators without names: \
                     which of them was removed is not known, so that none of their states can be \
                     dropped: {advice}"
                )
            })
        };
        if let Some(what) = what {
            let error = Error::new(ErrorKind::Plan, what);
            if !self.is_trial() {
                return Err(error);
            }
            self.refuse(error);
        }
        *lock(&self.dropped) = of_none;
        Ok(())
    }

    /// Checks that the snapshot has the states of these tasks in the same shapes.
    fn check_shapes(&self, slots: &[Arc<Slot>], snapshot: &Snapshot) -> Result<()> {
        for slot in slots {
            let what = match snapshot.shape(&slot.id) {
                Some(shape) if *shape == slot.shape => continue,
                None if slot.is_optional() => continue,
                Some(shape)
                    if shape.entries == slot.shape.entries && shape.by_key == slot.shape.by_key =>
                {
                    format!(
                        "the checkpoint has {} as that of `{}`, and this program as that of `{}`",
                        slot.id, shape.operator, slot.shape.operator
                    )
                }
                Some(shape) => {
                    let why = match lock(&self.migrated).get(&slot.id) {
                        Some(Err(why)) => format!(", and {why}"),
                        _ => String::new(),
                    };
                    format!(
                        "the checkpoint has {} as `{shape}`, and this program as `{}`{why}",
                        slot.id, slot.shape
                    )
                }
                None => {
                    format!("the checkpoint is of another program, which does not have {}", slot.id)
                }
            };
            let what = format!("{what}: {}", advice(self.dir()));
            return Err(Error::new(ErrorKind::Plan, what).in_operator(&*slot.name));
        }
        Ok(())
    }

    /// The states that were [dropped](Self::check), each in a line.
    pub(crate) fn dropped(&self) -> Vec<String> {
        let dropped = lock(&self.dropped);
        let line = |id: &StateId| format!("{id} is dropped: no operator of this program takes it");
        dropped.iter().map(line).collect()
    }
}

/// The first of the states that no operator takes which might belong to an operator that takes another one: without the first of two
/// operators without names, the second has its number, and would go on with its state.
fn doubtful<'a, 'p>(
    of_none: &'a [StateId],
    slots: &[Arc<Slot>],
    snapshot: &Snapshot,
    numbered: impl Fn(usize) -> Option<&'p str>,
) -> Option<&'a StateId> {
    let may_be_of = |id: &StateId, slot: &Slot| {
        let is_of = |kind: &str| id.operator.strip_prefix(kind).is_some_and(is_number);
        // What no operator takes is not migrated.
        let may_become =
            |shape: &Shape| *shape == slot.shape || slot.shape.migration(shape).is_ok();
        slot.id.name == id.name
            && numbered(slot.op).is_some_and(is_of)
            && snapshot.shape(id).is_some_and(may_become)
    };
    of_none.iter().find(|id| slots.iter().any(|slot| may_be_of(id, slot)))
}
