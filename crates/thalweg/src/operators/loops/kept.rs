//! The input of a loop that sees the same in each round: kept where it is, and shown by reference.

use super::head::Input;
use crate::data::{Covariant, Data, Record};
use crate::error::Result;
use crate::flow::{CHUNK, Nowhere, Push};
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillFile, SpillReader, SpillWriter};
use crate::time::Time;
use std::marker::PhantomData;

/// Records that are kept elsewhere and handed on by reference: what closures see is a `&T`.
pub struct ByRef<T> {
    types: PhantomData<fn(T)>,
    // Makes the type unsized, and so a kind of record of its own.
    _unsized: [()],
}

impl<T: 'static> Record for ByRef<T> {
    type Of<'a> = &'a T;
}

impl<T: 'static> Covariant for ByRef<T> {
    #[inline(always)]
    fn shorten<'short, 'long: 'short>(item: &'long T) -> &'short T {
        item
    }
}

/// Records in a run that is not moved when more come.
const RUN: usize = 1 << 14;

/// A task's input, in memory as far as that goes, and the rest on disk.
pub struct Kept<D: Data, T: Time> {
    runs: Vec<Vec<(D, T)>>,
    heap: usize,
    reservation: Reservation,
    spill: SpillDir,
    writer: Option<SpillWriter<(D, T)>>,
    file: Option<SpillFile<(D, T)>>,
    /// The run and the record in it that come next.
    next: (usize, usize),
    reader: Option<SpillReader<(D, T)>>,
}

impl<D: Data, T: Time> Kept<D, T> {
    pub(super) fn new(cx: &TaskContext<'_>) -> Self {
        Self {
            runs: Vec::new(),
            heap: 0,
            reservation: cx.memory.reserve(),
            spill: cx.spill.clone(),
            writer: None,
            file: None,
            next: (0, 0),
            reader: None,
        }
    }

    #[inline(always)]
    fn keep(&mut self, item: D, time: T) -> Result<()> {
        match self.runs.last_mut() {
            Some(run) if run.len() < run.capacity() && self.writer.is_none() => {
                self.heap += item.heap_size();
                run.push((item, time));
                Ok(())
            }
            _ => self.keep_more(item, time),
        }
    }

    #[inline(never)]
    fn keep_more(&mut self, item: D, time: T) -> Result<()> {
        if self.writer.is_none() {
            let bytes = (self.runs.len() + 1) * RUN * size_of::<(D, T)>() + self.heap;
            if self.reservation.try_resize(bytes) {
                self.runs.push(Vec::with_capacity(RUN));
                return self.keep(item, time);
            }
        }
        self.writer.get_or_insert_with(|| self.spill.writer()).push(&(item, time))
    }

    /// All of the input has come.
    fn finish(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.file = Some(writer.finish()?);
        }
        Ok(())
    }

    /// Goes back to the first record.
    fn rewind(&mut self) {
        self.next = (0, 0);
        self.reader = self.file.as_ref().map(SpillFile::read);
    }

    /// Shows some of the records; answers whether there were any.
    #[inline]
    fn show(&mut self, mut each: impl FnMut(&D, T)) -> Result<bool> {
        let (run, from) = self.next;
        if let Some(records) = self.runs.get(run) {
            let to = records.len().min(from + CHUNK);
            for (item, time) in &records[from..to] {
                each(item, *time);
            }
            self.next = if to == records.len() { (run + 1, 0) } else { (run, to) };
            return Ok(true);
        }
        let Some(reader) = &mut self.reader else { return Ok(false) };
        for _ in 0..CHUNK {
            if reader.next(|(item, time)| each(&item, time))?.is_none() {
                self.reader = None;
                break;
            }
        }
        Ok(true)
    }

    /// Forgets everything: another input comes.
    fn clear(&mut self) {
        self.runs.clear();
        (self.heap, self.file, self.reader) = (0, None, None);
        let _ = self.reservation.try_resize(0);
    }
}

impl<D: Data, T: Time> Input<D, T> for Kept<D, T> {
    type Out = ByRef<D>;
    type Left = Nowhere;

    const AT_ONCE: bool = false;

    #[inline(always)]
    fn take<N: Push<ByRef<D>, T>>(&mut self, item: D, time: T, _: &mut N) -> Result<()> {
        self.keep(item, time)
    }

    fn complete(&mut self) -> Result<()> {
        self.finish()
    }

    fn begin(&mut self) {
        self.rewind();
    }

    fn give<N: Push<ByRef<D>, T>>(&mut self, next: &mut N) -> Result<bool> {
        self.show(|item, time| next.push(item, time))
    }

    fn leave(&mut self, _: &mut Nowhere) -> Result<bool> {
        Ok(false)
    }

    fn restart(&mut self) {
        self.clear();
    }
}
