//! Which operator a panic came from, at no cost to those that do not panic.
//!
//! An aggregate that has no result, as a sum that its type does not hold, unwinds as a panic does
//! ([`refuse`]): it knows neither its operator nor its key, and a result to be looked at for each value would
//! cost something for each. On the way up, those that know add the key and the operator; the task makes an
//! error of it.

use super::Op;
use crate::error::{Error, ErrorKind};
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
    // No panic of anybody's code: the hook has nothing to say about it.
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

/// What unwinds came of this key, if it is a refusal.
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

/// The error that a panic is if it is a refusal, on the thread on which it came up.
pub(crate) fn refused(panic: &(dyn Any + Send)) -> Option<Error> {
    let Refusal(what) = panic.downcast_ref::<Refusal>()?;
    let key = UNWINDING.with_borrow_mut(|unwinding| unwinding.key.take());
    // Where all records have one key, it says nothing.
    let key = key.filter(|key| key != "()");
    let key = key.map_or_else(String::new, |key| format!(", of key {key}"));
    Some(Error::new(ErrorKind::Input, format!("{what}{key}")))
}

/// The operator whose closure panicked last on this thread.
pub(crate) fn take_panicked_operator() -> Option<Arc<str>> {
    UNWINDING.take().operator
}
