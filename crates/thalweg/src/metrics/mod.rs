//! What tasks count while they run, cheaply enough that it is always on.
//!
//! Each task counts in plain fields of its own and writes them down in a [`Report`] now and then,
//! between turns. Nothing here is shared between threads while records flow.

mod histogram;
mod hot;
mod losses;
mod rounds;
pub(crate) mod show;
mod stalls;
mod stats;
mod watermarks;

pub use histogram::Histogram;
pub(crate) use hot::HotKeys;
pub(crate) use losses::losses;
pub(crate) use rounds::RoundLog;
pub use rounds::{LoopStats, Rounds};
pub(crate) use stalls::{Told, blocked, stalls};
pub use stats::{
    Awaits, EdgeStats, HotKey, Latency, Limit, OperatorStats, Records, Spread, StageStats, Stats,
    limiting_operator,
};
pub(crate) use watermarks::Mark;
pub use watermarks::WatermarkStats;

use crate::time::Timestamp;

/// What one operator of one task has counted since the job began.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpCount {
    /// Records taken in by a head from its lanes or its input.
    pub(crate) received: u64,
    pub(crate) received_batches: u64,
    /// How long batches were under way to a head, from a sample.
    pub(crate) under_way: Option<Histogram>,
    /// Records handed on by an operator that does not hand on each record once.
    pub(crate) emitted: Option<u64>,
    /// What it has sent on exchanges.
    pub(crate) sent: Option<Sent>,
    /// Whether it takes its records from outside.
    pub(crate) source: bool,
    /// Bytes read from outside.
    pub(crate) read_bytes: u64,
    /// What a source has to read in all.
    pub(crate) total: Option<Total>,
    /// Bytes written to disk because memory was short.
    pub(crate) spilled_bytes: u64,
    /// Records that came after all their windows had been given out.
    pub(crate) late: u64,
    /// Those of them that are in no result and no late output.
    pub(crate) late_dropped: u64,
    /// Records that found no partner, where each has one.
    pub(crate) unpaired: u64,
    /// How far event time has come, said by who makes watermarks.
    pub(crate) mark: Option<Mark>,
    /// The earliest end of a window that has records.
    pub(crate) open_until: Option<Timestamp>,
    /// Distinct keys held.
    pub(crate) keys: u64,
    /// Records held for what may still come.
    pub(crate) kept: u64,
    /// How the rounds of the loop went that it is the head of.
    pub(crate) rounds: Option<LoopStats>,
    /// Records that wait for a call, or whose call is under way.
    pub(crate) in_flight: u64,
    /// Records whose result was remembered.
    pub(crate) remembered: u64,
    /// What it waits for that the program must do.
    pub(crate) awaits: Option<Awaits>,
    /// Sampled keys and how often each was seen in the sample.
    pub(crate) hot: Vec<(String, u64)>,
    /// How many records the sample for `hot` held.
    pub(crate) sampled: u64,
}

/// What a source has to read before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// This many records.
    Records(u64),
    /// This many bytes.
    Bytes(u64),
}

/// What one task has sent on an exchange.
#[derive(Clone, Copy, Debug, Default)]
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

/// What has passed an edge of the plan, as one task at either end of it has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// The operator that has sent.
    pub(crate) op: Option<usize>,
    pub(crate) sent: Sent,
    pub(crate) received: u64,
    /// Whether the receiver has wanted no more, at the end or for a while.
    pub(crate) closed: bool,
}

impl Passed {
    /// Adds what another task has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.op = self.op.or(other.op);
        self.sent.add(other.sent);
        self.received += other.received;
        self.closed |= other.closed;
    }
}

/// What the operators of one task write their counts into.
#[derive(Clone, Debug, Default)]
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
    ) {
        let count = self.of(op);
        count.received = records;
        count.received_batches = batches;
        count.under_way = Some(under_way.clone());
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

    /// An operator may send on several edges.
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

    pub(crate) fn in_flight(&mut self, op: usize, records: u64) {
        self.of(op).in_flight = records;
    }

    pub(crate) fn remembered(&mut self, op: usize, records: u64) {
        self.of(op).remembered = records;
    }

    pub(crate) fn awaits(&mut self, op: usize, what: Option<Awaits>) {
        self.of(op).awaits = what;
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
