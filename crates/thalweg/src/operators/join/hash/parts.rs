//! Both sides of a join on disk, partitioned by bits of the hash, where the build side outgrows memory.
//!
//! Records of a key have one hash, and so are in one part on both sides: the parts are joined one after the
//! other, each like a join of its own. A part that is too large is split further by other bits of the hash.

use super::kept::Row;
use super::probe::{Met, Sought};
use crate::data::Data;
use crate::error::Result;
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillFile, SpillReader, SpillWriter};
use crate::time::Time;

/// Bits of the hash that a split takes.
const BITS: u32 = 4;
/// How often records are split at most: after that the bits are used up.
const DEEPEST: u32 = 11;

/// Parts that are being written.
pub(super) struct Split<K: Data, B: Data, P: Data, T: Time> {
    kept: Vec<SpillWriter<Row<K, B, T>>>,
    probes: Vec<SpillWriter<Sought<K, P, T>>>,
    depth: u32,
}

impl<K: Data, B: Data, P: Data, T: Time> Split<K, B, P, T> {
    #[inline]
    fn part(&self, hash: u64) -> usize {
        // Routing has used the top bits; each depth uses its own.
        (hash >> (44 - BITS * self.depth)) as usize & ((1 << BITS) - 1)
    }

    /// Writes a row of the build side.
    pub(super) fn keep(&mut self, row: &Row<K, B, T>) -> Result<()> {
        let part = self.part(row.0);
        self.kept[part].push(row)
    }

    /// Writes a record of the probe side.
    pub(super) fn seek(&mut self, record: &Sought<K, P, T>) -> Result<()> {
        let part = self.part(record.0);
        self.probes[part].push(record)
    }

    /// Whether rows were written that records with this hash could match.
    pub(super) fn has_rows_near(&self, hash: u64) -> bool {
        self.kept[self.part(hash)].records() > 0
    }
}

/// A part of both sides.
pub(super) struct Part<K: Data, B: Data, P: Data, T: Time> {
    kept: SpillFile<Row<K, B, T>>,
    probes: SpillFile<Sought<K, P, T>>,
    depth: u32,
}

/// A part that is being joined. Where memory does not hold its build side, that is joined block by block, with
/// all records of the probe side for each block.
pub(super) struct Current<K: Data, B: Data, P: Data, T: Time> {
    pub(super) kept: SpillReader<Row<K, B, T>>,
    /// A row that has been read, and did not fit into the last block.
    pub(super) left_over: Option<Row<K, B, T>>,
    probes: SpillFile<Sought<K, P, T>>,
    /// Records of the probe side that are still to be joined with this block.
    pub(super) reader: SpillReader<Sought<K, P, T>>,
    /// The records of the probe side that met a partner in an earlier block, where there are several.
    pub(super) met: Option<Met>,
    /// Whether the block is the last.
    pub(super) last: bool,
    depth: u32,
}

impl<K: Data, B: Data, P: Data, T: Time> Current<K, B, P, T> {
    /// Whether it can be split further.
    pub(super) fn can_split(&self) -> bool {
        self.depth < DEEPEST && self.met.is_none()
    }

    /// Reads the probe side from the start, for another block.
    pub(super) fn rewind(&mut self) {
        self.reader = self.probes.read();
    }

    /// Prepares for several blocks.
    pub(super) fn expect_blocks(&mut self) {
        let records = self.probes.records();
        self.met.get_or_insert_with(|| Met::with_room(records));
    }
}

/// The parts that are still to be joined.
pub(super) struct Parts<K: Data, B: Data, P: Data, T: Time> {
    waiting: Vec<Part<K, B, P, T>>,
    spill: SpillDir,
    written: u64,
}

impl<K: Data, B: Data, P: Data, T: Time> Parts<K, B, P, T> {
    pub(super) fn new(cx: &TaskContext<'_>) -> Self {
        Self { waiting: Vec::new(), spill: cx.spill.clone(), written: 0 }
    }

    /// The bytes written to disk.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Begins to split everything, or a part.
    pub(super) fn split(&self, of: Option<&Current<K, B, P, T>>) -> Split<K, B, P, T> {
        let parts = 0..1 << BITS;
        Split {
            kept: parts.clone().map(|_| self.spill.writer()).collect(),
            probes: parts.map(|_| self.spill.writer()).collect(),
            depth: of.map_or(0, |part| part.depth),
        }
    }

    /// Adds the parts of a split that is complete.
    pub(super) fn add(&mut self, split: Split<K, B, P, T>) -> Result<()> {
        let depth = split.depth + 1;
        for (kept, probes) in split.kept.into_iter().zip(split.probes) {
            let (kept, probes) = (kept.finish()?, probes.finish()?);
            self.written += kept.bytes() + probes.bytes();
            self.waiting.push(Part { kept, probes, depth });
        }
        Ok(())
    }

    /// The next part to be joined. Skips parts that cannot have a result, given whether rows or records without
    /// a partner make one.
    pub(super) fn next(
        &mut self,
        kept_alone: bool,
        probe_alone: bool,
    ) -> Option<Current<K, B, P, T>> {
        while let Some(Part { kept, probes, depth }) = self.waiting.pop() {
            let some = (kept.records() > 0 || probe_alone) && (probes.records() > 0 || kept_alone);
            if some && kept.records() + probes.records() > 0 {
                return Some(Current {
                    kept: kept.read(),
                    left_over: None,
                    reader: probes.read(),
                    probes,
                    met: None,
                    last: false,
                    depth,
                });
            }
        }
        None
    }
}
