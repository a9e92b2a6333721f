//! The processor time of a contestant, read from `/proc`: that of its process and of all processes that it started.

use std::collections::HashMap;
use std::fs;

/// Ticks a second in `/proc`: fixed by Linux for programs, whatever the kernel counts in.
const TICKS: f64 = 100.0;

/// What one process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// User and system time, including that of children that have ended, in ticks.
    ticks: u64,
}

impl Process {
    /// Reads a line of `/proc/PID/stat`.
    fn read(line: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, which may contain blanks and parentheses.
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let times = fields.skip(9).take(4).map(|field| field.parse::<u64>());
        let times: Vec<u64> = times.collect::<Result<_, _>>().ok()?;
        (times.len() == 4).then(|| Self { parent, ticks: times.iter().sum() })
    }
}

/// The seconds of processor time that a process and its descendants have used so far: those of all cores, user and
/// system. `None` if the system does not report it.
pub(super) fn processor_seconds(root: u32) -> Option<f64> {
    let number = |name: &str| name.parse::<u32>().ok();
    let pids =
        fs::read_dir("/proc").ok()?.filter_map(|entry| number(entry.ok()?.file_name().to_str()?));
    // A process that ends meanwhile is counted by its parent.
    let read =
        |pid| Some((pid, Process::read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
    let processes: HashMap<u32, Process> = pids.filter_map(read).collect();
    Some(ticks_of_tree(root, &processes)? as f64 / TICKS)
}

/// The ticks of a process and its descendants; `None` if there is no such process.
fn ticks_of_tree(root: u32, processes: &HashMap<u32, Process>) -> Option<u64> {
    processes.get(&root)?;
    let descends = |mut pid: u32| {
        // Bounded, because processes are not read at one moment and may seem to form a ring.
        for _ in 0..processes.len() {
            if pid == root {
                return true;
            }
            match processes.get(&pid) {
                Some(process) => pid = process.parent,
                None => return false,
            }
        }
        false
    };
    let of_tree = processes.iter().filter(|(pid, _)| descends(**pid));
    Some(of_tree.map(|(_, process)| process.ticks).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_programs_name() {
        let line = "7 (a) (b c) S 3 7 7 0 -1 4194304 90 0 1 0 10 20 300 4000 20 0 1 0 99 1 1";
        assert_eq!(Process::read(line), Some(Process { parent: 3, ticks: 4330 }));
        assert_eq!(Process::read("7 (a) S 3 7"), None);
    }

    #[test]
    fn descendants_count_and_others_do_not() {
        let processes =
            [(1, 0, 1), (2, 1, 10), (3, 2, 100), (4, 1, 1000), (5, 6, 10_000), (6, 5, 10_000)];
        let processes = processes.map(|(pid, parent, ticks)| (pid, Process { parent, ticks }));
        let processes = HashMap::from(processes);
        assert_eq!(ticks_of_tree(2, &processes), Some(110));
        assert_eq!(ticks_of_tree(1, &processes), Some(1111));
        assert_eq!(ticks_of_tree(9, &processes), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_costs_processor_time() {
        let id = std::process::id();
        let before = processor_seconds(id).unwrap();
        let worked = || {
            std::hint::black_box(
                (0..1_000_000u64).fold(0, |sum, one| sum ^ std::hint::black_box(one)),
            )
        };
        // As often as any processor needs: the test ends by processor time, not by the clock.
        let mut rounds = (0..100_000).map(|_| worked());
        assert!(rounds.any(|_| processor_seconds(id).unwrap() >= before + 0.05));
    }
}
