//! What a record has to wait for that is being decoded, without blocking the engine's thread.

use std::cell::Cell;
use thalweg::connector::SplitWaker;

/// Of one reader: the record that it decodes may have to wait for what another thread fetches. It is decoded once more then.
#[derive(Debug)]
pub(crate) struct Waits {
    #[cfg_attr(not(feature = "avro"), expect(dead_code, reason = "only Avro has schemas"))]
    waker: SplitWaker,
    has_begun: Cell<bool>,
}

impl Waits {
    pub(crate) fn new(waker: SplitWaker) -> Self {
        Self { waker, has_begun: Cell::new(false) }
    }

    /// The record waits; returns what is waked when it can be decoded.
    #[cfg(feature = "avro")]
    pub(crate) fn begin(&self) -> SplitWaker {
        self.has_begun.set(true);
        self.waker.clone()
    }

    /// Whether the record that was decoded last waits, whatever the closure has made of that.
    #[inline(always)]
    pub(crate) fn have_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// Before the record is decoded once more.
    pub(crate) fn end(&self) {
        self.has_begun.set(false);
    }
}
