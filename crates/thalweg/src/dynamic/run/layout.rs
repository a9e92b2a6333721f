//! Layouts of the nodes of a graph that keep rows, saved with checkpoints.
//!
//! Rows are held as words and bytes, whose types do not name columns. So a checkpoint has, beside the states, the layout of
//! each node that keeps rows, and a job goes on from it only if its nodes have the same layouts. An expression may be another
//! one, as the closure of a typed program may be.

use crate::checkpoint::{Redistribution, StateHandle};
use crate::dynamic::check::{GroupStep, Step, Work};
use crate::dynamic::columns::Field;
use crate::dynamic::operation::AggregateFunction;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Event;
use crate::plan::TaskContext;
use std::sync::Arc;

/// The names and layouts of the nodes that keep rows.
#[derive(Clone)]
pub(super) struct Layouts(Arc<[(String, String)]>);

impl Layouts {
    pub(super) fn of(steps: &[Step]) -> Self {
        let layouts = steps.iter().filter_map(|step| Some((step.name.clone(), layout(step)?)));
        Self(layouts.collect())
    }

    /// The layouts as a state of a task of the source with this number.
    ///
    /// # Errors
    ///
    /// If the job goes on from a checkpoint in which a node has another layout.
    pub(super) fn saved(&self, cx: &TaskContext<'_>, op: usize) -> Result<SavedLayouts> {
        let united = Redistribution::United;
        let state = cx.state_for_any_details::<(String, String)>(op, "layouts", united);
        state.restore(|(node, was): (String, String)| match self.other_than(&node, &was) {
            None => Ok(()),
            Some(layout) => {
                let what = format!(
                    "the checkpoint is of another graph, in which node `{node}` has {was}, and not {layout}: run \
                     that graph, or {}",
                    cx.begin_anew()
                );
                Err(Error::new(ErrorKind::Plan, what))
            }
        })?;
        Ok(SavedLayouts { layouts: self.clone(), state, is_first: cx.task == 0 })
    }

    /// The layout of the node with this name, if it differs from `was`.
    fn other_than(&self, node: &str, was: &str) -> Option<&str> {
        let (_, layout) = self.0.iter().find(|(name, _)| name == node)?;
        (layout != was).then_some(layout.as_str())
    }
}

/// The layouts of a graph in a running task of a source; the first task saves them.
pub(super) struct SavedLayouts {
    layouts: Layouts,
    state: StateHandle,
    is_first: bool,
}

impl SavedLayouts {
    /// As [`StateHandle::save`].
    pub(super) fn save(&self, event: Event) {
        self.state.save(event, |out| {
            if self.is_first {
                self.layouts.0.iter().for_each(|node| out.add(node));
            }
        });
    }
}

/// The layout of the rows that a node keeps; `None` if it keeps none.
fn layout(step: &Step) -> Option<String> {
    match &step.work {
        Work::Group(group) => Some(of_group(group)),
        Work::Sort(by) | Work::Top(_, by) => {
            let by = by.iter().map(|(column, descending)| {
                let how = if *descending { " descending" } else { "" };
                format!("{}{how}", step.schema[*column].name)
            });
            let by = by.collect::<Vec<_>>().join(", ");
            Some(format!("the rows ({}) by ({by})", columns(&step.schema)))
        }
        Work::Collect => Some(format!("the rows ({})", columns(&step.schema))),
        _ => None,
    }
}

fn of_group(group: &GroupStep) -> String {
    let aggregates = group.aggregates.iter().map(|aggregate| match aggregate.function {
        AggregateFunction::Count => "count".to_owned(),
        function => format!("{function:?} of {}", aggregate.of).to_lowercase(),
    });
    let aggregates = aggregates.collect::<Vec<_>>().join(", ");
    format!("({aggregates}) for each ({})", columns(&group.keys))
}

fn columns(fields: &[Field]) -> String {
    fields.iter().map(Field::to_string).collect::<Vec<_>>().join(", ")
}
