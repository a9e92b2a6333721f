//! The input of a loop that sees the same records in each round: kept in its task, and passed on by reference.

use super::head::Input;
use crate::data::{Covariant, Data, Record};
use crate::error::Result;
use crate::flow::{CHUNK, NullSink, Push};
use crate::plan::TaskContext;
use crate::support::replay_buffer::{Cursor, ReplayBuffer, ReplayWriter};
use crate::time::Time;
use std::marker::PhantomData;

/// Records that are kept elsewhere and passed on by reference: closures see a `&T`.
pub struct ByRef<T> {
    types: PhantomData<fn(T)>,
    // Makes the type unsized, so that it does not collide with other kinds of record.
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

/// A task's input.
pub struct ReplayInput<D: Data, T: Time> {
    /// The input while it arrives.
    growing: ReplayWriter<D, T>,
    /// The input once it is complete.
    part: Option<ReplayBuffer<D, T>>,
    /// The progress of a round.
    cursor: Cursor<D, T>,
}

impl<D: Data, T: Time> ReplayInput<D, T> {
    pub(super) fn new(cx: &TaskContext<'_>, op: usize) -> Self {
        let growing = ReplayWriter::new(cx.modest(op), cx.spill);
        Self { growing, part: None, cursor: Cursor::start() }
    }
}

impl<D: Data, T: Time> Input<D, T> for ReplayInput<D, T> {
    type Out = ByRef<D>;
    type Left = NullSink;

    const AT_ONCE: bool = false;

    #[inline(always)]
    fn take<N: Push<ByRef<D>, T>>(&mut self, item: D, time: T, _: &mut N) -> Result<()> {
        self.growing.push(item, time)
    }

    fn complete(&mut self) -> Result<()> {
        let others = self.growing.another();
        let (part, _) = std::mem::replace(&mut self.growing, others).finish()?;
        self.part = Some(part);
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.cursor = Cursor::start();
        Ok(())
    }

    fn give<N: Push<ByRef<D>, T>>(&mut self, next: &mut N) -> Result<bool> {
        let Some(part) = &self.part else { return Ok(false) };
        self.cursor.show(part, CHUNK, |item, time| next.push(item, time))
    }

    fn leave(&mut self, _: &mut NullSink) -> Result<bool> {
        Ok(false)
    }

    fn restart(&mut self) {
        self.part = None;
    }
}
