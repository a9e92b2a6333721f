//! An edge: all lanes between two stages.

use super::lane::Lane;
use super::outlet::{Lanes, Outlet};
use super::record_batch::RecordBatch;
use super::{BatchMode, route::Route};
use crate::clock::Clock;
use crate::data::Portable;
use crate::flow::{Op, Waker};
use crate::time::Time;
use std::sync::{Arc, OnceLock};

/// Settings that all lanes of an edge share.
#[derive(Clone, Debug)]
pub(crate) struct LaneSettings {
    pub(crate) batch: BatchMode,
    /// The bytes that a sender may have in flight on one lane.
    pub(crate) credit: usize,
    /// Whether batches are encoded and decoded again, as between hosts.
    pub(crate) encode: bool,
    /// Measures how long batches are in flight.
    pub(crate) clock: Clock,
}

/// An edge of the plan. Its lanes are created at launch, when the numbers of tasks at both ends are known.
pub(crate) struct Edge<I: Portable + ?Sized, T: Time> {
    /// Its number in the plan.
    id: usize,
    lanes: Arc<OnceLock<Matrix<I, T>>>,
}

/// A lane, shared by its sender and its receiver.
pub(crate) type SharedLane<I, T> = Arc<Lane<RecordBatch<I, T>>>;

struct Matrix<I: Portable + ?Sized, T: Time> {
    settings: LaneSettings,
    /// Indexed by sender, then receiver. `None` where the strategy never sends.
    lanes: Vec<Vec<Option<SharedLane<I, T>>>>,
}

impl<I: Portable + ?Sized, T: Time> Clone for Edge<I, T> {
    fn clone(&self) -> Self {
        Self { id: self.id, lanes: Arc::clone(&self.lanes) }
    }
}

impl<I: Portable + ?Sized, T: Time> Edge<I, T> {
    /// The edge with this number in the plan.
    pub(crate) fn new(id: usize) -> Self {
        Self { id, lanes: Arc::new(OnceLock::new()) }
    }

    /// Creates the lanes. `linked` decides which sender may send to which receiver.
    pub(crate) fn connect(
        &self,
        settings: LaneSettings,
        senders: &[Waker],
        receivers: &[Waker],
        linked: impl Fn(usize, usize) -> bool,
    ) {
        let lanes = senders
            .iter()
            .enumerate()
            .map(|(from, sender)| {
                let to = receivers.iter().enumerate();
                to.map(|(to, receiver)| {
                    linked(from, to).then(|| {
                        let (sender, receiver) = (sender.clone(), receiver.clone());
                        Arc::new(Lane::new(self.id, settings.credit, sender, receiver))
                    })
                })
                .collect()
            })
            .collect();
        // An edge belongs to one job, which is launched once.
        let _ = self.lanes.set(Matrix { settings, lanes });
    }

    fn matrix(&self) -> &Matrix<I, T> {
        self.lanes.get().expect("a job connects its edges before it makes its tasks")
    }

    /// The sending ends of the lanes of one task of the upstream stage.
    pub(crate) fn lanes_from(&self, task: usize, op: Op) -> Lanes<I, T> {
        let matrix = self.matrix();
        Lanes::new(
            op,
            self.id,
            matrix.settings.clone(),
            matrix.lanes[task].iter().flatten().cloned(),
        )
    }

    /// The outlet of one task of the upstream stage.
    pub(crate) fn outlet<R: Route<I>>(&self, task: usize, op: Op, route: R) -> Outlet<I, T, R> {
        Outlet::new(self.lanes_from(task, op), route)
    }

    /// The receiving ends of the lanes of one task of the downstream stage.
    pub(crate) fn lanes_to(&self, task: usize) -> Vec<SharedLane<I, T>> {
        self.matrix().lanes.iter().filter_map(|from| from[task].clone()).collect()
    }
}
