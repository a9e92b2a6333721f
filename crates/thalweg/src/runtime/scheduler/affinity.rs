//! Core affinity: each thread of a pool wakes up on a core of its own.
//!
//! By default, the kernel may place a woken thread behind another one on the same core for milliseconds, while the
//! next core is idle: its view of the load of cores is some milliseconds old. So a thread pins itself to its core
//! before it parks, and removes the pin when it has been awake for a while. The kernel may then move it, so that no work
//! is stuck on a core that other processes keep busy. A thread that often wakes up for a few microseconds stays pinned,
//! which saves it two system calls each time.
//!
//! A thread that a pinned one starts inherits the pin, for its whole life. So the engine's threads are started by
//! [`sync::spawn`](crate::sync::spawn), which releases the calling thread before.
//!
//! Where the number of threads differs from the number of the process's cores, threads are not pinned: several such
//! processes may share a machine, and would all choose the same cores. The cores are read once, when the pool is
//! created.

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
pub(super) use linux::Affinity;

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
pub(super) use fallback::Affinity;

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod linux {
    use crate::sync;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::cell::Cell;

    thread_local! {
        /// While the thread is pinned: the cores that it may use otherwise.
        static PINNED: Cell<Option<CpuSet>> = const { Cell::new(None) };
    }

    fn release() {
        if let Some(all) = PINNED.take() {
            let _ = sched_setaffinity(None, &all);
        }
    }

    /// The core of each thread; empty where threads are not pinned.
    pub(in super::super) struct Affinity {
        all: CpuSet,
        cores: Vec<usize>,
    }

    impl Affinity {
        /// The cores for this many threads.
        pub(in super::super) fn new(threads: usize) -> Self {
            let all = sched_getaffinity(None).unwrap_or_default();
            let mut cores = Vec::new();
            if all.count() as usize == threads && threads > 1 {
                cores.extend((0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)));
            }
            Self { all, cores }
        }

        /// Pins the calling thread to its core; called before it parks. Returns whether threads are pinned at all.
        pub(in super::super) fn pin(&self, me: usize) -> bool {
            let Some(&core) = self.cores.get(me) else { return false };
            let mut home = CpuSet::new();
            home.set(core);
            // Pinning is an optimisation: if it fails, nothing else changes.
            let _ = sched_setaffinity(None, &home);
            PINNED.set(Some(self.all));
            sync::set_release(release);
            true
        }

        /// Lets the kernel move the calling thread.
        pub(in super::super) fn unpin(&self) {
            release();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn allowed() -> Vec<usize> {
            let set = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
        }

        #[test]
        fn threads_are_pinned_and_released() {
            let all = allowed();
            let affinity = Affinity::new(all.len());
            for (me, &core) in all.iter().enumerate() {
                affinity.pin(me);
                // A machine with one core has no affinity to choose.
                assert_eq!(allowed(), if all.len() > 1 { vec![core] } else { all.clone() });
                let of_started = sync::spawn("test".to_owned(), allowed).unwrap().join().unwrap();
                assert_eq!(of_started, all, "a thread that it starts is free");
                affinity.pin(me);
                affinity.unpin();
                assert_eq!(allowed(), all);
            }
        }

        #[test]
        fn other_numbers_of_threads_than_cores_are_not_pinned() {
            let all = allowed();
            for threads in [all.len() + 1, all.len() - 1] {
                Affinity::new(threads).pin(0);
                assert_eq!(allowed(), all);
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
mod fallback {
    /// No affinity: the operating system decides.
    pub(in super::super) struct Affinity;

    impl Affinity {
        pub(in super::super) fn new(_threads: usize) -> Self {
            Self
        }

        pub(in super::super) fn pin(&self, _me: usize) -> bool {
            false
        }

        pub(in super::super) fn unpin(&self) {}
    }
}
