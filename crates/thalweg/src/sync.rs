//! The only access to threads and locks: the standard library's, or loom's under `--cfg loom`.

#![expect(clippy::disallowed_methods, reason = "the door to threads")]

use crate::fault::{Fault, is_planted};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::sync::TryLockError;
use std::time::Duration;

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Locks a mutex, also if it is poisoned: the data behind our locks is changed in single steps, and a panic ends its
/// job anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks a mutex, as [`lock`] does, unless it is locked.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Locks a file, unless another process has, or its file system has no locks.
pub(crate) fn try_lock_file(file: &File) -> Result<(), fs::TryLockError> {
    match is_planted(Fault::HasNoLocks) {
        true => Err(fs::TryLockError::Error(ErrorKind::Unsupported.into())),
        false => file.try_lock(),
    }
}

/// Blocks the calling thread until it is unparked, or for so long.
pub(crate) fn park(at_most: Duration) {
    std::thread::park_timeout(at_most);
}

thread_local! {
    /// Releases the calling thread from a core that it is pinned to.
    static RELEASE: Cell<fn()> = const { Cell::new(|| ()) };
}

/// Sets what [`release`] calls on this thread.
#[cfg_attr(
    any(not(target_os = "linux"), miri, loom),
    expect(dead_code, reason = "threads are not pinned")
)]
pub(crate) fn set_release(release: fn()) {
    RELEASE.set(release);
}

/// Lets the calling thread run on every core of the process: the threads that it starts inherit its cores, and the number
/// of available cores is that of its own.
pub(crate) fn release() {
    RELEASE.get()();
}

/// Starts a named thread, which may run on every core. Loom's models start their own.
pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    body: impl FnOnce() -> T + Send + 'static,
) -> crate::Result<std::thread::JoinHandle<T>> {
    release();
    std::thread::Builder::new().name(name).spawn(body).map_err(|cause| {
        crate::Error::new(crate::ErrorKind::Io, "cannot start a thread").caused_by(cause)
    })
}

/// Lets another thread have the core of the calling one, which runs no tasks: kernels let one that computes keep it for
/// milliseconds, although another one was waked.
pub(crate) fn offer_core() {
    std::thread::yield_now();
}

/// Cuts bytes into pieces of this length, for work on a thread that runs no tasks. In front of each piece it [offers its
/// core](offer_core).
pub(crate) fn in_steps(bytes: &[u8], length: usize) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(length).inspect(|_| offer_core())
}

/// Waits until a thread has ended, unless that is the calling one, which would wait for ever.
pub(crate) fn join_other(thread: std::thread::JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        let _ = thread.join();
    }
}

/// Runs each body on a thread of its own; returns how each of them ended.
pub(crate) fn join_all<'a, T: Send>(
    bodies: Vec<Box<dyn FnOnce() -> T + Send + 'a>>,
) -> Vec<std::thread::Result<T>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = bodies.into_iter().map(|body| scope.spawn(body)).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    })
}
