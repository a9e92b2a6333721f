//! Counters and statistics of running jobs, cheap enough to be always on.
//!
//! Each task counts in plain fields of its own, and adds them to a [`Report`] between turns when statistics are
//! requested. Nothing here is shared between threads while records flow.

mod checkpoints;
mod clocks;
mod histogram;
mod hot;
mod losses;
mod rounds;
pub(crate) mod show;
mod stalls;
mod stats;
mod waits;
mod watermarks;

pub use checkpoints::{CheckpointStats, NewestCheckpoint};
pub(crate) use clocks::AcrossHosts;
pub use clocks::ClockOffset;
pub use histogram::Histogram;
pub(crate) use hot::HotKeys;
pub(crate) use losses::losses;
pub(crate) use rounds::RoundLog;
pub use rounds::{LoopStats, Rounds};
pub(crate) use stalls::{ReportedStalls, blocked, stalls};
pub use stats::{
    Awaits, EdgeStats, HotKey, Latency, Limit, OperatorStats, Records, Spread, StageStats, Stats,
    limiting_operator,
};
pub use waits::{SourceWaits, SplitWait};
pub(crate) use waits::{TaskWaits, longest};
pub(crate) use watermarks::Mark;
pub use watermarks::WatermarkStats;

use crate::data::Data;
use crate::time::Timestamp;

/// The counts of one operator in one task since the job began.
#[derive(Clone, Debug, Default, Data)]
pub(crate) struct OpCount {
    /// Records that a head received from its lanes or its input.
    pub(crate) received: u64,
    pub(crate) received_batches: u64,
    /// How long batches were in flight to a head, from a sample.
    pub(crate) under_way: Option<Histogram>,
    /// Those of them that came from other hosts.
    pub(crate) across_hosts: AcrossHosts,
    /// Records emitted; only for operators that do not emit one record for each input.
    pub(crate) emitted: Option<u64>,
    /// What was sent on exchanges.
    pub(crate) sent: Option<Sent>,
    /// Whether it is a source.
    pub(crate) source: bool,
    /// Bytes that a source has read.
    pub(crate) read_bytes: u64,
    /// The size of a source's input.
    pub(crate) total: Option<Total>,
    /// Bytes spilled to disk.
    pub(crate) spilled_bytes: u64,
    /// Records that came after all their windows had been emitted.
    pub(crate) late: u64,
    /// The late records that are in no result and no late output.
    pub(crate) late_dropped: u64,
    /// Records dropped for lack of a partner in the other stream.
    pub(crate) unpaired: u64,
    /// The progress of event time, at operators that generate watermarks.
    pub(crate) mark: Option<Mark>,
    /// The earliest end of a window that has records.
    pub(crate) open_until: Option<Timestamp>,
    /// Distinct keys in its state.
    pub(crate) keys: u64,
    /// Records kept because they may still be needed.
    pub(crate) kept: u64,
    /// Statistics of rounds, at the head of a loop.
    pub(crate) rounds: Option<LoopStats>,
    /// Records that wait for a call or whose call is in progress.
    pub(crate) in_flight: u64,
    /// Records of a checkpoint that it began with, and that were received before.
    pub(crate) began_with: u64,
    /// Records whose result was found in a memo table.
    pub(crate) remembered: u64,
    /// What it needs from the program to continue.
    pub(crate) awaits: Option<Awaits>,
    /// What a source has waited for, if it knows.
    pub(crate) waits: Option<TaskWaits>,
    /// Sampled keys, each with its count in the sample.
    pub(crate) hot: Vec<(String, u64)>,
    /// The number of records that the sample represents.
    pub(crate) sampled: u64,
}

/// The size of a source's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Data)]
pub enum Total {
    /// This many records.
    Records(u64),
    /// This many bytes.
    Bytes(u64),
}

/// The counts of what one task has sent on an exchange.
#[derive(Clone, Copy, Debug, Default, Data)]
pub(crate) struct Sent {
    pub(crate) records: u64,
    pub(crate) batches: u64,
    pub(crate) bytes: u64,
}

impl Sent {
    fn add(&mut self, other: Self) {
        self.records += other.records;
        self.batches += other.batches;
        self.bytes += other.bytes;
    }
}

/// The counts of an edge, from one task at either end of it.
#[derive(Clone, Copy, Debug, Default, Data)]
pub(crate) struct Passed {
    /// The operator that sends.
    pub(crate) op: Option<usize>,
    pub(crate) sent: Sent,
    pub(crate) received: u64,
    /// Whether the receiver has closed it, for ever or temporarily.
    pub(crate) closed: bool,
}

impl Passed {
    /// Adds the counts of another task.
    pub(crate) fn add(&mut self, other: &Self) {
        self.op = self.op.or(other.op);
        self.sent.add(other.sent);
        self.received += other.received;
        self.closed |= other.closed;
    }
}

/// The counts of the operators of one task.
#[derive(Clone, Debug, Default, Data)]
pub struct Report {
    counts: Vec<(usize, OpCount)>,
    /// By edge.
    edges: Vec<(usize, Passed)>,
}

impl Report {
    fn of(&mut self, op: usize) -> &mut OpCount {
        let at = match self.counts.iter().position(|(id, _)| *id == op) {
            Some(at) => at,
            None => {
                self.counts.push((op, OpCount::default()));
                self.counts.len() - 1
            }
        };
        &mut self.counts[at].1
    }

    pub(crate) fn received(
        &mut self,
        op: usize,
        records: u64,
        batches: u64,
        under_way: &Histogram,
        across_hosts: AcrossHosts,
    ) {
        let count = self.of(op);
        count.received = records;
        count.received_batches = batches;
        count.under_way = Some(under_way.clone());
        count.across_hosts = across_hosts;
    }

    pub(crate) fn read(&mut self, op: usize, records: u64, bytes: u64, total: Option<Total>) {
        let count = self.of(op);
        count.source = true;
        count.total = total;
        count.emitted = Some(records);
        count.read_bytes = bytes;
    }

    pub(crate) fn emitted(&mut self, op: usize, records: u64) {
        self.of(op).emitted = Some(records);
    }

    /// Called once for each edge that the operator sends on.
    pub(crate) fn sent(&mut self, op: usize, edge: usize, sent: Sent) {
        self.of(op).sent.get_or_insert_default().add(sent);
        self.passed(edge, Passed { op: Some(op), sent, ..Passed::default() });
    }

    pub(crate) fn passed(&mut self, edge: usize, passed: Passed) {
        match self.edges.iter_mut().find(|(id, _)| *id == edge) {
            Some((_, all)) => all.add(&passed),
            None => self.edges.push((edge, passed)),
        }
    }

    pub(crate) fn spilled(&mut self, op: usize, bytes: u64) {
        self.of(op).spilled_bytes = bytes;
    }

    /// Late records, and how many of them were dropped.
    pub(crate) fn late(&mut self, op: usize, records: u64, dropped: u64) {
        let count = self.of(op);
        (count.late, count.late_dropped) = (records, dropped);
    }

    pub(crate) fn unpaired(&mut self, op: usize, records: u64) {
        self.of(op).unpaired = records;
    }

    pub(crate) fn watermark(&mut self, op: usize, mark: Mark) {
        self.of(op).mark = Some(mark);
    }

    pub(crate) fn open_until(&mut self, op: usize, end: Option<Timestamp>) {
        self.of(op).open_until = end;
    }

    pub(crate) fn keys(&mut self, op: usize, keys: u64) {
        self.of(op).keys = keys;
    }

    pub(crate) fn kept(&mut self, op: usize, records: u64) {
        self.of(op).kept = records;
    }

    pub(crate) fn rounds(&mut self, op: usize, rounds: LoopStats) {
        self.of(op).rounds = Some(rounds);
    }

    /// Sets the number of records of a checkpoint that an operator began with.
    pub(crate) fn began_with(&mut self, op: usize, records: u64) {
        self.of(op).began_with = records;
    }

    pub(crate) fn in_flight(&mut self, op: usize, records: u64) {
        self.of(op).in_flight = records;
    }

    pub(crate) fn remembered(&mut self, op: usize, records: u64) {
        self.of(op).remembered = records;
    }

    pub(crate) fn awaits(&mut self, op: usize, what: Option<Awaits>) {
        self.of(op).awaits = what;
    }

    pub(crate) fn waits(&mut self, op: usize, waits: Option<TaskWaits>) {
        self.of(op).waits = waits;
    }

    pub(crate) fn hot(&mut self, op: usize, keys: &HotKeys) {
        let count = self.of(op);
        count.hot = keys.top();
        count.sampled = keys.sampled();
    }

    pub(crate) fn counts(&self) -> &[(usize, OpCount)] {
        &self.counts
    }

    pub(crate) fn edges(&self) -> &[(usize, Passed)] {
        &self.edges
    }
}
