//! Where the threads of a pool wake up: each on a core of its own.
//!
//! Left to itself, the system may put a thread that is woken behind another one on the same core, for
//! milliseconds, while a core beside it is idle: what it knows of cores is some milliseconds old. So a thread that
//! goes to sleep says on which core it is to wake up. While it is awake, the system may move it as it likes: a core
//! that others keep busy is then no place where work gets stuck.
//!
//! Where there are fewer threads than the process has cores, or more, the system decides, since several such
//! processes may share a machine and would all choose the same cores. Which cores those are is asked once, when the
//! pool is made.

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
pub(super) use linux::Homes;

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
pub(super) use elsewhere::Homes;

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod linux {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// The cores of the threads; none where the system decides.
    pub(in super::super) struct Homes {
        all: CpuSet,
        cores: Vec<usize>,
    }

    impl Homes {
        /// Of so many threads.
        pub(in super::super) fn new(threads: usize) -> Self {
            let all = sched_getaffinity(None).unwrap_or_default();
            let mut cores = Vec::new();
            if all.count() as usize == threads && threads > 1 {
                cores.extend((0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)));
            }
            Self { all, cores }
        }

        /// The calling thread goes to sleep, and is to wake up at home.
        pub(in super::super) fn go_home(&self, me: usize) {
            if let Some(&core) = self.cores.get(me) {
                let mut home = CpuSet::new();
                home.set(core);
                // Whatever cannot be had is a wish that is not granted: nothing depends on it.
                let _ = sched_setaffinity(None, &home);
            }
        }

        /// The calling thread is awake, and may be moved.
        pub(in super::super) fn leave_home(&self, me: usize) {
            if me < self.cores.len() {
                let _ = sched_setaffinity(None, &self.all);
            }
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
        fn threads_go_home_and_leave_it() {
            let all = allowed();
            let homes = Homes::new(all.len());
            for (me, &core) in all.iter().enumerate() {
                homes.go_home(me);
                // A machine with one core has nothing to choose from.
                assert_eq!(allowed(), if all.len() > 1 { vec![core] } else { all.clone() });
                homes.leave_home(me);
                assert_eq!(allowed(), all);
            }
        }

        #[test]
        fn more_threads_than_cores_or_fewer_have_no_home() {
            let all = allowed();
            for threads in [all.len() + 1, all.len() - 1] {
                Homes::new(threads).go_home(0);
                assert_eq!(allowed(), all);
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
mod elsewhere {
    /// The system decides.
    pub(in super::super) struct Homes;

    impl Homes {
        pub(in super::super) fn new(_threads: usize) -> Self {
            Self
        }

        pub(in super::super) fn go_home(&self, _me: usize) {}

        pub(in super::super) fn leave_home(&self, _me: usize) {}
    }
}
