//! An edge: all lanes between two stages.

use super::far::{Ends, Far, Frame};
use super::lane::Lane;
use super::outlet::{Lanes, Outlet};
use super::record_batch::RecordBatch;
use super::{BatchMode, route::Route};
use crate::clock::Clock;
use crate::data::Portable;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Op, Waker};
use crate::memory::MemoryPool;
use crate::net::{HostId, Links, Part, Receive};
use crate::time::Time;
use std::sync::{Arc, OnceLock};

/// How much of the usual credit a lane between hosts has: what it returns is under way for a while, and until the receiver
/// looks at what has arrived, the sender has nothing to do.
pub(crate) const FAR_CREDIT: usize = 2;

/// Settings that all lanes of an edge share.
#[derive(Clone, Debug)]
pub(crate) struct LaneSettings {
    pub(crate) batch: BatchMode,
    /// The bytes that a sender may have in flight on one lane within a host, of [`FAR_CREDIT`] such between hosts.
    pub(crate) credit: usize,
    /// The same as it is configured, if the memory budget is large enough for it: what other hosts assume.
    pub(crate) usual_credit: usize,
    /// Counts what is in flight.
    pub(crate) memory: MemoryPool,
    /// The bytes from which frames to other hosts are compressed, if they are.
    pub(crate) compress_from: Option<usize>,
    /// Whether batches are encoded and decoded again, as between hosts.
    pub(crate) encode: bool,
    /// Measures how long batches are in flight.
    pub(crate) clock: Clock,
}

/// The tasks of a stage: what wakes each of them, and its host. Nothing wakes a task of another host.
#[derive(Clone, Copy)]
pub(crate) struct TasksOf<'a> {
    pub(crate) wakers: &'a [Waker],
    pub(crate) hosts: &'a [HostId],
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

/// The credit of a lane between hosts.
fn far_credit(credit: usize) -> usize {
    credit.saturating_mul(FAR_CREDIT)
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

    /// Creates the lanes, one for each pair of a sender and a receiver that are `linked`, as far as one of them is on
    /// this host.
    pub(crate) fn connect(
        &self,
        settings: LaneSettings,
        senders: TasksOf<'_>,
        receivers: TasksOf<'_>,
        links: &Links,
        linked: impl Fn(usize, usize) -> bool,
    ) {
        let (me, part) = (links.hosts().me(), Part::Edge(self.id));
        let lane = |from: usize, to: usize| {
            let (sender, receiver) = (senders.wakers[from].clone(), receivers.wakers[to].clone());
            let [sends, receives] = [senders.hosts[from], receivers.hosts[to]];
            let ends = || Ends { from: from as u32, to: to as u32 };
            let LaneSettings { credit, usual_credit, memory, .. } = &settings;
            let lane =
                |credit| Lane::new(self.id, credit, memory, sender.clone(), receiver.clone());
            let half = |far: HostId| {
                let far = Far { link: links.to(far, part), ends: ends(), sends: sends == me };
                lane(far_credit(*credit)).into_half(far, far_credit(*usual_credit))
            };
            match (sends == me, receives == me) {
                (true, true) => Some(lane(*credit)),
                (true, false) => Some(half(receives)),
                (false, true) => Some(half(sends)),
                (false, false) => None,
            }
        };
        let lanes: Vec<Vec<_>> = (0..senders.wakers.len())
            .map(|from| {
                let to = 0..receivers.wakers.len();
                to.map(|to| linked(from, to).then(|| lane(from, to)).flatten().map(Arc::new))
                    .collect()
            })
            .collect();
        // An edge belongs to one job, which is launched once.
        let _ = self.lanes.set(Matrix { settings, lanes });
        links.open(part, Arc::new(self.clone()));
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

impl<I: Portable + ?Sized, T: Time> Receive for Edge<I, T> {
    fn receive(&self, host: HostId, frame: &[u8]) -> Result<()> {
        let wrong = |what: String| {
            let what = format!("host {} has sent {what} on edge {}", host.0, self.id);
            Error::new(ErrorKind::Internal, what)
        };
        let (Ends { from, to }, frame) = Frame::decode(frame)
            .map_err(|error| wrong(format!("a frame that is torn ({error})")))?;
        let lanes = self.lanes.get().map_or(&[][..], |matrix| &matrix.lanes);
        let lane = lanes.get(from as usize).and_then(|from| from.get(to as usize)?.as_ref());
        // From whom a frame for a lane may come follows from the plan.
        let may_send = |far: &&Far| far.link.to() == host && far.sends != frame.is_of_sender();
        let far = lane.and_then(|lane| lane.far()).filter(may_send);
        let (Some(lane), Some(far)) = (lane, far) else {
            return Err(wrong(format!("a frame for a lane that is not its own ({from} to {to})")));
        };
        lane.take_frame(far, frame);
        Ok(())
    }
}
