//! Which operator a panic came from, at no cost to those that do not panic.

use super::Op;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static PANICKED: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// While this is there, a panic is known to be the operator's.
pub(crate) struct Armed<'a>(&'a Op);

impl Armed<'_> {
    /// What might have panicked is over.
    #[inline(always)]
    pub(crate) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Armed<'_> {
    #[cold]
    fn drop(&mut self) {
        // The innermost guard is dropped first, and its closure is the one that panicked.
        PANICKED.with_borrow_mut(|name| {
            name.get_or_insert_with(|| self.0.name());
        });
    }
}

/// Calls a closure of the user's. Should it panic, the panic is known to be `op`'s.
#[inline(always)]
pub(crate) fn guard<R>(op: &Op, closure: impl FnOnce() -> R) -> R {
    let armed = arm(op);
    let result = closure();
    armed.disarm();
    result
}

/// What [`guard`] does, where a closure would stand in the way of the compiler or of a borrow.
#[inline(always)]
pub(crate) fn arm(op: &Op) -> Armed<'_> {
    Armed(op)
}

/// The operator whose closure panicked last on this thread.
pub(crate) fn take_panicked_operator() -> Option<Arc<str>> {
    PANICKED.take()
}
