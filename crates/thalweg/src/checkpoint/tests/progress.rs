//! What sources say of the size of their input when a job goes on.

use super::*;
use crate::io::Text;
use crate::metrics::Total;
use std::io::Write as _;

/// The records of each source, each of which is a line of some bytes if they are in files.
const RECORDS: u64 = 4000;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn a_source_that_goes_on_reads_as_much_as_it_says_is_left() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let lines: String = (0..RECORDS).map(|n| format!("{}\n", n + file)).collect();
        std::fs::write(folder.path().join(format!("{file}.txt")), &lines).unwrap();
        std::fs::write(folder.path().join(format!("{file}.gz")), gzip(lines.as_bytes())).unwrap();
    }
    let text = |name: &str| Text::new(folder.path().join(name)).block_bytes(64).split_bytes(900);
    let jobs: [&dyn Fn(&Environment); 2] =
        [&|env| env.lines(text("*.txt")).for_each(|_| ()), &|env| {
            env.lines(text("*.gz")).for_each(|_| ())
        }];
    for (number, job) in jobs.into_iter().enumerate() {
        // The share of the input of a job that begins, or goes on, and what it says is left.
        let read = |restored: Option<Snapshot>, cores, seed| {
            let env = environment(cores, seed);
            job(&env);
            let job = env.start_with(Some(&Checkpoints::new(restored, None))).unwrap();
            job.drive_for(usize::MAX);
            let tasks = job.counted();
            let counts = tasks.iter().flat_map(|task| task.report.counts());
            let (mut read, mut all) = (0, 0);
            for (_, count) in counts.filter(|(_, count)| count.source) {
                let (got, total) = match count.total.expect("its size is known") {
                    Total::Records(total) => (count.emitted.unwrap_or(0), total),
                    Total::Bytes(total) => (count.read_bytes, total),
                };
                (read, all) = (read + got, all + total);
            }
            job.wait().unwrap();
            assert_eq!(read, all, "job {number}, seed {seed}");
            all
        };
        let all = read(None, 2, 0);
        let mut less = 0;
        for seed in 0..12 {
            let taken = saved(job, 3, seed, 10 + 20 * seed as usize).unwrap();
            less += u64::from((1..all).contains(&read(Some(taken.snapshot), 2, seed)));
        }
        // A compressed file is read from its start again.
        assert!(less > 2 || number == 1, "it is interrupted within its input {less} times");
    }
}
