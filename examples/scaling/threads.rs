//! How long the threads of this process have run, as Linux counts it.

use std::fs;

/// The seconds of processor time of the thread that reads from other hosts; 0 if there is none, or where the system does not
/// say.
pub(crate) fn network_seconds() -> f64 {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return 0.0 };
    let of_network = threads.flatten().filter(|thread| {
        let name = fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name.trim() == "thalweg-net")
    });
    let nanoseconds = of_network.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 * 1e-9
}
