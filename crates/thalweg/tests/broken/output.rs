//! Results that cannot be written.

use super::Broken;
use thalweg::{Environment, Result};

pub(super) const ALL: &[Broken] = &[
    Broken::new("disk-is-full", || write("disk/out.txt")).small_disk(),
    // One task, so that it is known which part meets the end of the disk.
    Broken::new("disk-is-full-for-parts", || write_parts("disk/out"))
        .small_disk()
        .arguments(&["--cores", "1"]),
    Broken::new("disk-is-full-for-what-outgrows-memory", spill).small_disk().arguments(&[
        "--spill-dir",
        "disk",
        "--memory",
        "64KiB",
    ]),
    Broken::new("output-is-a-device", || write("/dev/full")),
    Broken::new("standard-output-is-full", print).deaf(),
    Broken::new("folder-of-the-output-is-missing", || write("nowhere/out.txt")),
    Broken::new("output-is-a-folder", || write("folder")).files(&[("folder/file.txt", b"kept")]),
    Broken::new("spill-folder-is-a-file", spill).files(&[("file", b"")]).arguments(&[
        "--spill-dir",
        "file/folder",
        "--memory",
        "64KiB",
    ]),
];

fn write(path: &str) -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..100_000).map(|n| n.to_string()).write_lines(path);
    env.run()
}

fn write_parts(path: &str) -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..100_000).map(|n| n.to_string()).write_lines_parallel(path);
    env.run()
}

fn print() -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..100_000).print();
    env.run()
}

fn spill() -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..1_000_000).sorted().for_each(|_| ());
    env.run()
}
