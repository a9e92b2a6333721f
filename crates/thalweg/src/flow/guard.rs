//! Which operator a panic came from, at no cost to those that do not panic.

use super::Op;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static PANICKED: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

struct OnUnwind<'a>(&'a Op);

impl Drop for OnUnwind<'_> {
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
    let armed = OnUnwind(op);
    let result = closure();
    std::mem::forget(armed);
    result
}

/// The operator whose closure panicked last on this thread.
pub(crate) fn take_panicked_operator() -> Option<Arc<str>> {
    PANICKED.take()
}
