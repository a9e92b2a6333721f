//! Both sides of a join on disk, partitioned by bits of the hash, where the build side outgrows memory.
//!
//! Records of a key have one hash, and so are in one part on both sides: the parts are joined one after the
//! other, each like a join of its own. A part that is too large is split further by other bits of the hash.
//!
//! Checkpoints refer to what has been written of each part before the end of the input; no barrier comes while parts are
//! joined. In a job that begins with such a checkpoint, both sides go to disk from the start, behind its files. Rows of a
//! checkpoint that have met a partner, where the kind of join needs to know, are in files of their own, and are loaded first.

use super::kept::Row;
use super::probe::{Met, Sought};
use super::saved::RowsOut;
use crate::data::Data;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillShare, SpillWriter};
use crate::support::overflow::FilesReader;
use crate::time::Time;

/// Bits of the hash that a split takes.
const BITS: u32 = 4;
const PARTS: usize = 1 << BITS;
/// How often records are split at most: after that the bits are used up.
const DEEPEST: u32 = 11;

/// What is noted of a file in a checkpoint.
#[derive(Data)]
pub(super) struct Note {
    /// The part that it belongs to; `None` of records that wait for the table to be complete.
    part: Option<u64>,
    /// Whether its rows have met a partner.
    have_met: bool,
    /// How many of its first records do not count any more.
    removed: u64,
}

impl Note {
    fn of_part(part: usize, have_met: bool) -> Self {
        Self { part: Some(part as u64), have_met, removed: 0 }
    }

    pub(super) fn of_waiting(removed: u64) -> Self {
        Self { part: None, have_met: false, removed }
    }

    /// Of records that wait: how many of the first do not count any more.
    pub(super) fn removed(&self) -> Option<u64> {
        self.part.is_none().then_some(self.removed)
    }
}

/// Parts that are being written.
pub(super) struct Split<K: Data, B: Data, P: Data, T: Time> {
    /// What the checkpoint has of each part with which the job began.
    restored: Vec<Part<K, B, P, T>>,
    kept: Vec<SpillWriter<Row<K, B, T>>>,
    /// Rows that have met a partner.
    met: Vec<SpillWriter<Row<K, B, T>>>,
    probes: Vec<SpillWriter<Sought<K, P, T>>>,
    depth: u32,
}

impl<K: Data, B: Data, P: Data, T: Time> Split<K, B, P, T> {
    #[inline]
    fn part(&self, hash: u64) -> usize {
        // Routing has used the top bits; each depth uses its own.
        (hash >> (44 - BITS * self.depth)) as usize & (PARTS - 1)
    }

    /// Writes a row of the build side, which may have met a partner.
    pub(super) fn keep(&mut self, row: &Row<K, B, T>, has_met: bool) -> Result<()> {
        let part = self.part(row.0);
        match has_met {
            true => self.met[part].push(row),
            false => self.kept[part].push(row),
        }
    }

    /// Writes a record of the probe side.
    pub(super) fn seek(&mut self, record: &Sought<K, P, T>) -> Result<()> {
        let part = self.part(record.0);
        self.probes[part].push(record)
    }

    /// Whether rows were written that records with this hash could match.
    pub(super) fn has_rows_near(&self, hash: u64) -> bool {
        let part = self.part(hash);
        self.kept[part].records() + self.met[part].records() > 0
            || self.restored.get(part).is_some_and(Part::has_rows)
    }

    /// Saves the rows.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written; then they are refused too.
    pub(super) fn save_rows(&mut self, out: &mut RowsOut<'_>) -> Result<()> {
        for (at, part) in self.restored.iter().enumerate() {
            part.kept.iter().for_each(|rows| out.add_share(rows, &Note::of_part(at, false)));
            part.met.iter().for_each(|rows| out.add_share(rows, &Note::of_part(at, true)));
        }
        for (at, (kept, met)) in self.kept.iter_mut().zip(&mut self.met).enumerate() {
            out.add_written(kept, &Note::of_part(at, false))?;
            out.add_written(met, &Note::of_part(at, true))?;
        }
        Ok(())
    }

    /// Saves the records of the probe side.
    ///
    /// # Errors
    ///
    /// As [`save_rows`](Self::save_rows).
    pub(super) fn save_probes(&mut self, out: &mut RowsOut<'_>) -> Result<()> {
        for (at, part) in self.restored.iter().enumerate() {
            part.probes.iter().for_each(|probes| out.add_share(probes, &Note::of_part(at, false)));
        }
        for (at, probes) in self.probes.iter_mut().enumerate() {
            out.add_written(probes, &Note::of_part(at, false))?;
        }
        Ok(())
    }

    /// Takes a file of rows of the checkpoint with which the job begins.
    ///
    /// # Errors
    ///
    /// If it is of a part that there is not.
    pub(super) fn restore_rows(
        &mut self,
        rows: SpillShare<Row<K, B, T>>,
        note: &Note,
    ) -> Result<()> {
        let part = self.restored_part(note)?;
        let files = if note.have_met { &mut part.met } else { &mut part.kept };
        files.push(rows);
        Ok(())
    }

    /// The same for records of the probe side.
    ///
    /// # Errors
    ///
    /// As [`restore_rows`](Self::restore_rows).
    pub(super) fn restore_probes(
        &mut self,
        probes: SpillShare<Sought<K, P, T>>,
        note: &Note,
    ) -> Result<()> {
        self.restored_part(note)?.probes.push(probes);
        Ok(())
    }

    fn restored_part(&mut self, note: &Note) -> Result<&mut Part<K, B, P, T>> {
        self.restored.resize_with(PARTS, || Part::new(self.depth + 1));
        let part = note.part.and_then(|part| usize::try_from(part).ok());
        part.and_then(|part| self.restored.get_mut(part)).ok_or_else(|| {
            let what = "the checkpoint has records on disk in more parts than there are";
            Error::new(ErrorKind::Input, what)
        })
    }
}

/// A part of both sides.
pub(super) struct Part<K: Data, B: Data, P: Data, T: Time> {
    kept: Vec<SpillShare<Row<K, B, T>>>,
    /// Rows that have met a partner.
    met: Vec<SpillShare<Row<K, B, T>>>,
    probes: Vec<SpillShare<Sought<K, P, T>>>,
    depth: u32,
}

impl<K: Data, B: Data, P: Data, T: Time> Part<K, B, P, T> {
    fn new(depth: u32) -> Self {
        Self { kept: Vec::new(), met: Vec::new(), probes: Vec::new(), depth }
    }

    fn has_rows(&self) -> bool {
        !(self.kept.is_empty() && self.met.is_empty())
    }
}

/// A row, and whether it has met a partner.
type MarkedRow<K, B, T> = (Row<K, B, T>, bool);

/// A part that is being joined. Where memory does not hold its build side, that is joined block by block, with
/// all records of the probe side for each block.
pub(super) struct Current<K: Data, B: Data, P: Data, T: Time> {
    /// Rows that have met a partner, and behind them the others.
    met_rows: FilesReader<Row<K, B, T>>,
    kept: FilesReader<Row<K, B, T>>,
    /// A row that has been read, and did not fit into the last block.
    pub(super) left_over: Option<MarkedRow<K, B, T>>,
    probes: Vec<SpillShare<Sought<K, P, T>>>,
    /// Records of the probe side that are still to be joined with this block.
    reader: FilesReader<Sought<K, P, T>>,
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

    /// The next row: first all that have met a partner.
    pub(super) fn next_row(&mut self) -> Result<Option<MarkedRow<K, B, T>>> {
        if let Some(row) = self.left_over.take() {
            return Ok(Some(row));
        }
        if let Some(row) = self.met_rows.next(|row| row.0, |row| row)? {
            return Ok(Some((row, true)));
        }
        Ok(self.kept.next(|row| row.0, |row| row)?.map(|row| (row, false)))
    }

    /// The next record of the probe side for this block.
    pub(super) fn next_probe(&mut self) -> Result<Option<Sought<K, P, T>>> {
        self.reader.next(|record| record.0, |record| record)
    }

    /// Reads the probe side from the start, for another block.
    pub(super) fn rewind(&mut self) {
        self.reader = FilesReader::of(&self.probes);
    }

    /// Prepares for several blocks.
    pub(super) fn expect_blocks(&mut self) {
        let records = self.probes.iter().map(|probes| probes.file.records()).sum();
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

    pub(super) fn spill_dir(&self) -> &SpillDir {
        &self.spill
    }

    /// Begins to split everything, or a part.
    pub(super) fn split(&self, of: Option<&Current<K, B, P, T>>) -> Split<K, B, P, T> {
        let parts = 0..PARTS;
        Split {
            restored: Vec::new(),
            kept: parts.clone().map(|_| self.spill.writer()).collect(),
            met: parts.clone().map(|_| self.spill.writer()).collect(),
            probes: parts.map(|_| self.spill.writer()).collect(),
            depth: of.map_or(0, |part| part.depth),
        }
    }

    /// Adds the parts of a split that is complete.
    pub(super) fn add(&mut self, split: Split<K, B, P, T>) -> Result<()> {
        let Split { restored, kept, met, probes, depth } = split;
        let mut restored = restored.into_iter();
        for ((kept, met), probes) in kept.into_iter().zip(met).zip(probes) {
            let (kept, met, probes) = (kept.finish()?, met.finish()?, probes.finish()?);
            self.written += kept.bytes() + met.bytes() + probes.bytes();
            let mut part = restored.next().unwrap_or_else(|| Part::new(depth + 1));
            part.kept.extend((kept.records() > 0).then(|| kept.into()));
            part.met.extend((met.records() > 0).then(|| met.into()));
            part.probes.extend((probes.records() > 0).then(|| probes.into()));
            self.waiting.push(part);
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
        while let Some(part) = self.waiting.pop() {
            let (has_rows, has_probes) = (part.has_rows(), !part.probes.is_empty());
            let some = (has_rows || probe_alone) && (has_probes || kept_alone);
            if some && (has_rows || has_probes) {
                let Part { kept, met, probes, depth } = part;
                return Some(Current {
                    met_rows: FilesReader::of(&met),
                    kept: FilesReader::of(&kept),
                    left_over: None,
                    reader: FilesReader::of(&probes),
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
