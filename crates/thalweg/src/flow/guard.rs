//! Panics of the program's code: the only place where they are caught, and which operator each came from, at no cost
//! to those that do not panic.
//!
//! Closures are not all of the program's code that runs on the engine's threads: records, captured values,
//! results and even the values that a panic carries have destructors, and collections are built by their own
//! code. Whatever may run any of it goes through [`catch`], so that none of it ends a thread.
//!
//! An aggregate that has no result, as a sum that its type does not hold, unwinds as a panic does
//! ([`refuse`]): it knows neither its operator nor its key, and a result to be looked at for each value would
//! cost something for each. On the way up, those that know add the key and the operator; [`catch`] makes an
//! error of it.
#![expect(clippy::disallowed_methods, reason = "the door to caught panics")]

use super::Op;
use crate::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::cell::RefCell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

thread_local! {
    static UNWINDING: RefCell<Unwinding> = const {
        RefCell::new(Unwinding { operator: None, refused: false, key: None })
    };
}

/// What is known of the panic on its way up.
#[derive(Default)]
struct Unwinding {
    operator: Option<Arc<str>>,
    /// Whether it is a refusal, of which the key is to be known.
    refused: bool,
    key: Option<String>,
}

/// What a refusal unwinds with: the message.
struct Refusal(&'static str);

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
        UNWINDING.with_borrow_mut(|unwinding| {
            unwinding.operator.get_or_insert_with(|| self.0.name());
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

/// Fails the job because a value has no result: the message, and the key that it belongs to.
#[cold]
#[inline(never)]
pub(crate) fn refuse(what: &'static str) -> ! {
    UNWINDING.with_borrow_mut(|unwinding| unwinding.refused = true);
    // Not a panic of the program's code, so the panic hook is not run.
    resume_unwind(Box::new(Refusal(what)))
}

/// Calls what may [`refuse`] a value of this key.
#[inline(always)]
pub(crate) fn guard_key<K: Debug + ?Sized, R>(key: &K, closure: impl FnOnce() -> R) -> R {
    struct OfKey<'a, K: Debug + ?Sized>(&'a K);

    impl<K: Debug + ?Sized> Drop for OfKey<'_, K> {
        #[inline(always)]
        fn drop(&mut self) {
            note_key(self.0);
        }
    }

    let of_key = OfKey(key);
    let result = closure();
    std::mem::forget(of_key);
    result
}

/// Characters of a key that a message shows.
const SHOWN: usize = 200;

/// Notes the key of a value that was refused, if the unwinding in progress is a refusal.
#[cold]
#[inline(never)]
pub(crate) fn note_key<K: Debug + ?Sized>(key: &K) {
    if !UNWINDING.with_borrow(|unwinding| unwinding.refused && unwinding.key.is_none()) {
        return;
    }
    // The key's `Debug` is a user's, and a panic that leaves a destructor would end the process.
    let shown = catch_unwind(AssertUnwindSafe(|| format!("{key:?}")));
    let key = shown.unwrap_or_else(|panic| {
        // Nor may its destructor panic here.
        std::mem::forget(panic);
        "that cannot be shown".to_owned()
    });
    let key = match key.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key,
    };
    UNWINDING.with_borrow_mut(|unwinding| unwinding.key = Some(key));
}

/// The error of a refused value, with its key where that is known; `None` for any other panic.
fn refused(panic: &(dyn Any + Send), key: Option<String>) -> Option<Error> {
    let Refusal(what) = panic.downcast_ref::<Refusal>()?;
    // Where all records have one key, it says nothing.
    let key = key.filter(|key| key != "()");
    let key = key.map_or_else(String::new, |key| format!(", of key {key}"));
    Some(Error::new(ErrorKind::Input, format!("{what}{key}")))
}

/// Calls what may run code of the program's. A panic becomes an error, which names the operator where it
/// is known.
pub(crate) fn catch<R>(body: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let error = panic_error(&*payload);
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // The destructor of the payload has panicked. The payload of that panic could do the same without
            // end, so it is leaked.
            std::mem::forget(another);
        }
        error
    })
}

/// Drops each value by itself. Panics of destructors are ignored: the job that they could fail has failed or ended
/// already.
pub(crate) fn discard<T>(values: impl IntoIterator<Item = T>) {
    for value in values {
        let _ = catch(|| drop(value));
    }
}

fn panic_error(payload: &(dyn Any + Send)) -> Error {
    let Unwinding { operator, key, .. } = UNWINDING.take();
    let said = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text");
    let error = refused(payload, key)
        .unwrap_or_else(|| Error::new(ErrorKind::Panic, format!("panicked: {said}")));
    // The guard of the closure that panicked has left the operator's name.
    match operator {
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
