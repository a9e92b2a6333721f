//! The memory that this process may use: the machine's, or less in a container.
//!
//! On Linux a container's limit is that of its control group, in the file `memory.max` (version 2) or
//! `memory.limit_in_bytes` (version 1). A group cannot use more than any group that contains it. `/proc/self/cgroup`
//! names the groups of a process, and `/proc/self/mountinfo` where their files are.
#![expect(clippy::disallowed_methods, reason = "asks the system about the machine, not a file")]

use std::fs::read_to_string;
use std::path::{Component, Path, PathBuf};

/// The bytes that this process may use, if the system reveals them.
pub(super) fn memory() -> Option<u64> {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let group = group_limit(&groups, &mounts, |path| read_to_string(path).ok());
    machine.into_iter().chain(group).min()
}

/// The machine's memory in bytes, from `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// The least limit in bytes of the control groups in `groups` and of those that contain them. `read` returns the
/// text of a file, or `None` if it cannot be read, as for the root of version 2, which has no limit.
fn group_limit(groups: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        // Such as `0::/app.slice`, of version 2, or `4:cpu,memory:/docker/1f`.
        let (_, line) = line.split_once(':')?;
        let (controllers, group) = line.split_once(':')?;
        let file = match controllers {
            "" => "memory.max",
            _ if controllers.split(',').any(|name| name == "memory") => "memory.limit_in_bytes",
            _ => return None,
        };
        let Mount { root, point } =
            mounts.lines().find_map(|line| mount(line, controllers.is_empty()))?;
        // A container may see its own group alone, mounted where the machine has its root.
        let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
        let below: PathBuf =
            below.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        below.ancestors().filter_map(|group| limit(&read(&point.join(group).join(file))?)).min()
    });
    limits.min()
}

/// Where groups appear as files.
struct Mount<'a> {
    /// The group that is at the mount point.
    root: &'a Path,
    point: &'a Path,
}

/// The mount that a line of `/proc/self/mountinfo` describes, if it has the memory limits of version 2, or of version 1.
fn mount(line: &str, version_2: bool) -> Option<Mount<'_>> {
    // Such as `35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory`.
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let (name, options) = (kind.next()?, kind.nth(1)?);
    let matches = match name {
        "cgroup2" => version_2,
        "cgroup" => !version_2 && options.split(',').any(|option| option == "memory"),
        _ => false,
    };
    let mut place = place.split(' ').skip(3).map(Path::new);
    matches.then_some(Mount { root: place.next()?, point: place.next()? })
}

/// A limit in bytes: `max` is none. Version 1 has a number beyond any memory instead.
fn limit(text: &str) -> Option<u64> {
    text.trim_ascii().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
    const NONE_OF_V1: &str = "9223372036854771712\n";

    fn limited(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
        group_limit(groups, mounts, |path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_memory_of_the_machine_is_in_kib() {
        assert_eq!(total("MemTotal:        8130056 kB\nMemFree:  1 kB\n"), Some(8130056 << 10));
        assert_eq!((total("MemFree: 1 kB\n"), total("MemTotal: much\n")), (None, None));
    }

    #[test]
    fn the_least_limit_on_the_path_of_a_group_counts() {
        let group = "0::/app.slice/job.scope\n";
        let inner = ("/sys/fs/cgroup/app.slice/job.scope/memory.max", "max\n");
        let outer = ("/sys/fs/cgroup/app.slice/memory.max", "4096\n");
        let beside = ("/sys/fs/cgroup/other.slice/memory.max", "1\n");
        assert_eq!(limited(group, V2, &[inner, outer, beside]), Some(4096));
        assert_eq!(limited(group, V2, &[(inner.0, "1024\n"), outer]), Some(1024));
        assert_eq!(limited(group, V2, &[inner]), None);
        assert_eq!(limited(group, V2, &[(inner.0, "")]), None);
        // A container with a namespace of its own sees itself as the root.
        assert_eq!(limited("0::/\n", V2, &[("/sys/fs/cgroup/memory.max", "77\n")]), Some(77));
    }

    #[test]
    fn groups_of_version_1_have_a_path_for_each_controller() {
        let groups = "5:cpu:/fast\n4:memory,hugetlb:/jobs/a\n0::/\n";
        let inner = ("/sys/fs/cgroup/memory/jobs/a/memory.limit_in_bytes", "2048\n");
        let outer = ("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1000\n");
        let root = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", NONE_OF_V1);
        assert_eq!(limited(groups, V1, &[inner, root]), Some(2048));
        assert_eq!(limited(groups, V1, &[inner, outer, root]), Some(1000));
        assert_eq!(limited("5:cpu:/fast\n", V1, &[root]), None);
        // Both versions side by side: the limits of either count.
        let both = format!("{V1}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        let unified = ("/sys/fs/cgroup/unified/memory.max", "500\n");
        assert_eq!(limited(groups, &both, &[inner, unified]), Some(500));
    }

    #[test]
    fn a_mount_may_show_a_part_of_the_groups() {
        let mounts = V1.replace("0:32 / ", "0:32 /docker/1f ");
        let own = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
        let inner = ("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "100\n");
        assert_eq!(limited("4:memory:/docker/1f\n", &mounts, &[own, inner]), Some(4096));
        assert_eq!(limited("4:memory:/docker/1f/job\n", &mounts, &[own, inner]), Some(100));
        // The group of a process that was moved out of the container's namespace.
        assert_eq!(limited("4:memory:/../other\n", &mounts, &[own]), Some(4096));
    }

    #[test]
    fn what_cannot_be_understood_is_no_limit() {
        let file = ("/sys/fs/cgroup/memory.max", "77\n");
        for groups in ["", "0\n", "0:\n", "x"] {
            assert_eq!(limited(groups, V2, &[file]), None, "{groups}");
        }
        for mounts in ["", "30 23 0:26\n", "30 23 0:26 / - cgroup2 cgroup2 rw", " - cgroup2"] {
            assert_eq!(limited("0::/\n", mounts, &[file]), None, "{mounts}");
        }
    }

    #[test]
    fn this_machine_has_memory() {
        if cfg!(target_os = "linux") && !cfg!(miri) {
            assert!(memory().is_some_and(|bytes| bytes > 1 << 20));
        }
    }
}
