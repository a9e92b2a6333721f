//! Panics of the program's code: the only place where they are caught, and which operator each came from.
//!
//! Closures are not all of the program's code that runs on the engine's threads: records, captured values,
//! results and even the values that a panic carries have destructors, and collections are built by their own
//! code. Whatever may run any of it goes through [`catch`], so that none of it ends a thread.
#![expect(clippy::disallowed_methods, reason = "the door to caught panics")]

use super::Op;
use crate::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// Calls what may run code of the program's. A panic becomes an error, which names the operator where it
/// is known.
pub(crate) fn catch<R>(body: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let error = panic_error(&*payload);
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // The destructor of what the panic carried has panicked in turn. What that panic carries could
            // do the same for ever, so it is left alone.
            std::mem::forget(another);
        }
        error
    })
}

/// Drops each value by itself. Panics of destructors are of no consequence any more: what they could have
/// failed has failed or ended already.
pub(crate) fn discard<T>(values: impl IntoIterator<Item = T>) {
    for value in values {
        let _ = catch(|| drop(value));
    }
}

fn panic_error(payload: &(dyn Any + Send)) -> Error {
    let said = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text");
    let error = Error::new(ErrorKind::Panic, format!("panicked: {said}"));
    // The guard of the closure that panicked has left the operator's name.
    match PANICKED.take() {
        Some(operator) => error.in_operator(&*operator),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its destructor panics with the next one, so many times.
    struct Chain(u32);

    impl Drop for Chain {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::panic_any(Chain(self.0 - 1));
            }
        }
    }

    #[test]
    fn whatever_a_panic_carries_is_contained() {
        for links in [0, 1, 2, 100] {
            let error = catch(|| std::panic::panic_any(Chain(links))).unwrap_err();
            assert_eq!(error.message(), "panicked: a value that is not text");
        }
        let text = |body: fn()| catch(body).unwrap_err().message().to_owned();
        assert_eq!(text(|| panic!("plain")), "panicked: plain");
        assert_eq!(text(|| panic!("{}", 1)), "panicked: 1");
        assert_eq!(catch(|| 3).unwrap(), 3);
    }

    #[test]
    fn all_of_several_values_are_dropped() {
        discard((0..4).map(|_| Chain(1)));
    }
}
