//! A sink that discards records.

use super::{Pipe, Push};
use crate::data::Record;
use crate::time::Time;

/// Drops every record.
pub struct NullSink;

impl Pipe for NullSink {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }
}

impl<I: Record + ?Sized, T: Time> Push<I, T> for NullSink {
    #[inline(always)]
    fn push(&mut self, _: I::Of<'_>, _: T) {}
}
