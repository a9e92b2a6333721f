//! Files on disk: made once, found again.
//!
//! Beside each file lies a sidecar `FILE.made` with the generators' version, the file's name and
//! its length. A file whose sidecar says what would be written now is taken as it is; anything
//! else is made anew. The file appears by a rename before its sidecar does, so that a generator
//! that was stopped half-way leaves nothing that looks complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::{Dataset, VERSION, collisions, events, graphs, items, keys, points, text};

/// A file that [`ensure`] found or made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Where it is.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it was there already.
    pub found: bool,
}

/// Finds or makes a dataset's file under `folder`, showing progress on standard error.
///
/// # Errors
/// When the folder or a file in it cannot be written.
pub fn ensure(dataset: &Dataset, folder: &Path) -> io::Result<Made> {
    let path = folder.join(dataset.file_name());
    let sidecar = folder.join(format!("{}.made", dataset.file_name()));
    if let Ok(found) = fs::metadata(&path)
        && fs::read_to_string(&sidecar).is_ok_and(|text| text == describe(dataset, found.len()))
    {
        return Ok(Made { path, bytes: found.len(), found: true });
    }
    fs::create_dir_all(folder)?;
    let partial = folder.join(format!("{}.partial", dataset.file_name()));
    let mut out = Progress::new(dataset.file_name(), BufWriter::new(File::create(&partial)?));
    generate(dataset, &mut out)?;
    let bytes = out.finish()?;
    fs::rename(&partial, &path)?;
    fs::write(&sidecar, describe(dataset, bytes))?;
    Ok(Made { path, bytes, found: false })
}

fn describe(dataset: &Dataset, bytes: u64) -> String {
    format!("version {VERSION}\nfile {}\nbytes {bytes}\n", dataset.file_name())
}

/// Each dataset has a seed of its own, taken from its name, so that no two share random numbers.
fn seed(dataset: &Dataset) -> u64 {
    dataset
        .file_name()
        .bytes()
        .fold(0x7468_616c_7765_6701, |seed, byte| Random::new(seed ^ u64::from(byte)).bits())
}

fn generate(dataset: &Dataset, out: &mut dyn Write) -> io::Result<()> {
    let random = &mut Random::new(seed(dataset));
    match *dataset {
        Dataset::Text { megabytes } => text::write(megabytes * 1_000_000, random, out),
        Dataset::Keys { kind, distinct, count } => keys::write(kind, distinct, count, random, out),
        Dataset::Points { count } => points::write(count, random, out),
        Dataset::Items { kind, count } => items::write(kind, count, random, out),
        Dataset::Graph { kind, nodes, edges } => graphs::write(kind, nodes, edges, random, out),
        Dataset::Events { kind, count } => events::write(kind, count, out),
        Dataset::Campaigns => events::write_campaigns(out),
        Dataset::Collisions { megabytes } => collisions::write(megabytes * 1_000_000, random, out),
    }
}

/// Counts what is written and says so from time to time.
struct Progress<W> {
    name: String,
    out: W,
    bytes: u64,
    said: Instant,
}

impl<W: Write> Progress<W> {
    fn new(name: String, out: W) -> Self {
        Self { name, out, bytes: 0, said: Instant::now() }
    }

    fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        let clear = if io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
        eprintln!("{clear}made {} ({} MB)", self.name, self.bytes / 1_000_000);
        Ok(self.bytes)
    }
}

impl<W: Write> Write for Progress<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.out.write(data)?;
        let before = self.bytes;
        self.bytes += written as u64;
        // The clock is asked once a megabyte only.
        if before >> 20 != self.bytes >> 20
            && io::stderr().is_terminal()
            && self.said.elapsed() > Duration::from_millis(200)
        {
            self.said = Instant::now();
            eprint!("\r\x1b[Kmaking {}: {} MB", self.name, self.bytes / 1_000_000);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("datagen-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_file_is_made_once() {
        let folder = folder("once");
        let dataset: Dataset = "keys:uniform:10:1000".parse().unwrap();
        let made = ensure(&dataset, &folder).unwrap();
        assert_eq!((made.bytes, made.found), (8000, false));
        assert!(ensure(&dataset, &folder).unwrap().found);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_file_is_made_anew() {
        let folder = folder("damaged");
        let dataset: Dataset = "items:skewed:100".parse().unwrap();
        let made = ensure(&dataset, &folder).unwrap();
        let good = fs::read(&made.path).unwrap();
        fs::write(&made.path, &good[..good.len() - 1]).unwrap();
        assert!(!ensure(&dataset, &folder).unwrap().found);
        assert_eq!(fs::read(&made.path).unwrap(), good);
        fs::remove_dir_all(folder).unwrap();
    }
}
