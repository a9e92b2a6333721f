//! Catching panics in the program's code. The only module that does so; it attributes each panic to its operator, at
//! no cost where there is no panic.
//!
//! Closures are not the only code of the program that runs on the engine's threads: records, captured values, results
//! and even panic payloads have destructors, and collections are built by their own code. Whatever may run any of it
//! goes through [`catch`], so that no panic ends a thread.
//!
//! An aggregate without a result, such as a sum that overflows its type, unwinds like a panic ([`refuse`]): it knows
//! neither its operator nor its key, and a `Result` to check for each value would cost time for each. While the stack
//! unwinds, the code that knows the key and the operator adds them; [`catch`] makes an error of it.
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

/// What is known about the unwinding in progress.
#[derive(Default)]
struct Unwinding {
    operator: Option<Arc<str>>,
    /// Whether it was started by [`refuse`], so that the key is to be added.
    refused: bool,
    key: Option<String>,
}

/// The panic payload of [`refuse`]: the message.
struct Refusal(&'static str);

/// While this value exists, a panic is attributed to the operator.
pub(crate) struct Armed<'a>(&'a Op);

impl Armed<'_> {
    /// The code that might have panicked has returned.
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

/// Calls a closure of the program's. A panic in it is attributed to `op`.
#[inline(always)]
pub(crate) fn guard<R>(op: &Op, closure: impl FnOnce() -> R) -> R {
    let armed = arm(op);
    let result = closure();
    armed.disarm();
    result
}

/// The same as [`guard`], where a closure would prevent an optimisation or a borrow.
#[inline(always)]
pub(crate) fn arm(op: &Op) -> Armed<'_> {
    Armed(op)
}

/// Fails the job because an aggregate has no result: unwinds with a message, to which the key is added.
#[cold]
#[inline(never)]
pub(crate) fn refuse(what: &'static str) -> ! {
    UNWINDING.with_borrow_mut(|unwinding| unwinding.refused = true);
    // Not a panic of the program's code, so the panic hook is not run.
    resume_unwind(Box::new(Refusal(what)))
}

/// Calls code that may [`refuse`] a value of this key.
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

/// The number of characters of a key that an error message shows.
const SHOWN: usize = 200;

/// Adds the key to the unwinding in progress, if that was started by [`refuse`].
#[cold]
#[inline(never)]
pub(crate) fn note_key<K: Debug + ?Sized>(key: &K) {
    if !UNWINDING.with_borrow(|unwinding| unwinding.refused && unwinding.key.is_none()) {
        return;
    }
    // The key's `Debug` is the program's code, and a panic that leaves a destructor would abort the process.
    let shown = catch_unwind(AssertUnwindSafe(|| format!("{key:?}")));
    let key = shown.unwrap_or_else(|panic| {
        // The destructor of the payload must not panic here either.
        std::mem::forget(panic);
        "that cannot be shown".to_owned()
    });
    let key = match key.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key,
    };
    UNWINDING.with_borrow_mut(|unwinding| unwinding.key = Some(key));
}

/// The error for a panic that [`refuse`] started, with its key if known; `None` for any other panic.
fn refused(panic: &(dyn Any + Send), key: Option<String>) -> Option<Error> {
    let Refusal(what) = panic.downcast_ref::<Refusal>()?;
    // A key of `()` means that there are no keys.
    let key = key.filter(|key| key != "()");
    let key = key.map_or_else(String::new, |key| format!(", of key {key}"));
    Some(Error::new(ErrorKind::Input, format!("{what}{key}")))
}

/// Calls code that may run the program's code. A panic becomes an error, which names the operator where it is known.
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

/// Drops each value separately. Panics of destructors are ignored: the job that they could fail has failed or ended
/// already.
pub(crate) fn discard<T>(values: impl IntoIterator<Item = T>) {
    for value in values {
        let _ = catch(|| drop(value));
    }
}

fn panic_error(payload: &(dyn Any + Send)) -> Error {
    let Unwinding { operator, key, .. } = UNWINDING.take();
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text");
    let error = refused(payload, key)
        .unwrap_or_else(|| Error::new(ErrorKind::Panic, format!("panicked: {message}")));
    // The guard of the closure that panicked has left the operator's name.
    match operator {
        Some(operator) => error.in_operator(&*operator),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its destructor panics with the next of so many values.
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
