//! What processes of one start have in common on a machine: the process that started them, and its cores.
#![expect(clippy::disallowed_methods, reason = "asks the system about processes, not a file")]

use std::num::NonZeroUsize;

/// How many processes there may be between this one and its launcher.
const DEEPEST: usize = 64;

/// The process that has started this one and its siblings: the nearest ancestor that lacks the variable `rank`. So it
/// is the same for all of them if a shell script is in between. `None` if the system does not say.
pub(super) fn launcher(rank: &str) -> Option<u32> {
    let mut process = parent(std::process::id())?;
    for _ in 0..DEEPEST {
        // One that this user may not look at is none of its own.
        match std::fs::read(format!("/proc/{process}/environ")) {
            Ok(variables) if has(&variables, rank) => process = parent(process)?,
            _ => return Some(process),
        }
    }
    None
}

/// Whether the environment of a process, as Linux shows it, has a variable.
fn has(environment: &[u8], name: &str) -> bool {
    let named = |variable: &[u8]| {
        variable.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
    };
    environment.split(|byte| *byte == 0).any(named)
}

fn parent(process: u32) -> Option<u32> {
    parent_in(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The parent of a process in its `stat`, such as `17 (a (b) c) S 5 …`.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The cores for each of `local` processes on this machine, where none are set. `this` is the number of this process
/// among them, if it is known.
pub(super) fn share(local: usize, this: Option<usize>, launcher: Option<u32>) -> NonZeroUsize {
    let available = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let own = affinity(None).unwrap_or(available.get());
    let of_all = launcher.and_then(|process| affinity(Some(process))).unwrap_or(own);
    share_of(available, own, of_all, local, this)
}

/// The least of what this process may use, and its share of what all may. `own` are the cores of its affinity, which a
/// launcher may have restricted, `of_all` those of the launcher; `available` is less than `own` where a container has a
/// quota, which all processes share. The first processes get a core more if the cores cannot be divided evenly.
fn share_of(
    available: NonZeroUsize,
    own: usize,
    of_all: usize,
    local: usize,
    this: Option<usize>,
) -> NonZeroUsize {
    let all = if available.get() < own { available.get().min(of_all) } else { of_all };
    let local = local.max(1);
    let more = usize::from(this.is_some_and(|this| this < all % local));
    let share = NonZeroUsize::new(all / local + more).unwrap_or(NonZeroUsize::MIN);
    available.min(share)
}

#[cfg(target_os = "linux")]
fn affinity(process: Option<u32>) -> Option<usize> {
    use rustix::thread::{Pid, sched_getaffinity};
    let process = match process {
        None => None,
        Some(id) => Some(Pid::from_raw(id.try_into().ok()?)?),
    };
    sched_getaffinity(process).ok().map(|cores| cores.count() as usize)
}

#[cfg(not(target_os = "linux"))]
fn affinity(_: Option<u32>) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(available: usize, own: usize, of_all: usize, local: usize) -> usize {
        let available = NonZeroUsize::new(available).unwrap();
        share_of(available, own, of_all, local, None).get()
    }

    #[test]
    fn processes_share_the_cores_of_a_machine() {
        // No affinity was set.
        assert_eq!(share(64, 64, 64, 4), 16);
        assert_eq!(share(2, 2, 2, 3), 1);
        // Bound to one core, to eight, and to a socket that two processes share.
        assert_eq!(share(1, 1, 64, 4), 1);
        assert_eq!(share(8, 8, 64, 2), 8);
        assert_eq!(share(32, 32, 64, 4), 16);
        // A container with a quota of four.
        assert_eq!(share(4, 64, 64, 4), 1);
        assert_eq!(share(4, 64, 64, 1), 4);
        // Their numbers are known.
        let eight = NonZeroUsize::new(8).unwrap();
        let numbered = |this| share_of(eight, 8, 8, 3, Some(this)).get();
        assert_eq!([0, 1, 2].map(numbered), [3, 3, 2]);
    }

    #[test]
    fn a_parent_is_read_after_the_name() {
        assert_eq!(parent_in("17 (a (b) c) S 5 17 17 0"), Some(5));
        assert_eq!(parent_in("17 (a"), None);
    }

    #[test]
    fn variables_are_named_whole() {
        let environment = b"PMI_RANKS=3\0PMI_RANK=1\0";
        assert!(has(environment, "PMI_RANK"));
        assert!(!has(environment, "PMI"));
        assert!(!has(b"", "PMI_RANK"));
    }

    #[test]
    fn the_parent_is_found_where_there_is_no_such_variable() {
        if cfg!(target_os = "linux") && !cfg!(miri) {
            let parent = std::os::unix::process::parent_id();
            assert_eq!(launcher("THALWEG_NO_SUCH_VARIABLE"), Some(parent));
            assert!(affinity(Some(parent)).is_some_and(|cores| cores > 0));
        }
    }
}
