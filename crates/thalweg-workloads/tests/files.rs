//! Segments in a file: they are read back unchanged, and damage is reported with its offset.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use tempfile::TempDir;
use thalweg_workloads::error::{FileError, FileErrorKind};
use thalweg_workloads::nexmark::{Segments, recipe};
use thalweg_workloads::ysb::{self, FixedSegments, VariableSegments};

/// A file of 300 events in three segments, and its bytes.
fn sample(folder: &TempDir) -> (PathBuf, Segments, Vec<u8>) {
    let per_segment = NonZeroU32::new(100).unwrap();
    let segments = Segments::generate_in(recipe(1), 300, per_segment, NonZeroUsize::MIN);
    let path = folder.path().join("events");
    segments.write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (path, segments, bytes)
}

fn read(path: &PathBuf, bytes: &[u8]) -> Result<Segments, FileError> {
    std::fs::write(path, bytes).unwrap();
    Segments::read(path)
}

#[test]
fn files_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (path, segments, _) = sample(&folder);
    let again = Segments::read(&path).unwrap();
    assert_eq!(again, segments);
    assert_eq!(again.recipe(), recipe(1));
    assert!(again.events().eq(segments.events()));
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 1, "nothing is left beside the file");

    let fixed = FixedSegments::generate(ysb::recipe(2), 1_000);
    fixed.write(&path).unwrap();
    assert_eq!(FixedSegments::read(&path).unwrap(), fixed);
    let none = VariableSegments::generate(ysb::recipe(2), 0);
    none.write(&path).unwrap();
    assert_eq!(VariableSegments::read(&path).unwrap(), none);
}

#[test]
fn a_file_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, bytes) = sample(&folder);
    let error = FixedSegments::read(&path).unwrap_err();
    let expected =
        format!("{}, byte 0: this is no file of fixed-size Yahoo benchmark events", path.display());
    assert_eq!(error.to_string(), expected);

    let mut other = bytes;
    other[8] += 1;
    let error = read(&path, &other).unwrap_err();
    assert!(matches!(error.kind, FileErrorKind::Version { .. }));
    let expected = ", byte 8: the events are of version 2, not 1: make them anew";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn a_file_that_cannot_be_opened_or_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none/events");
    let error = Segments::read(&path).unwrap_err();
    assert!(matches!(error.kind, FileErrorKind::Io(_)));
    assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
    let error = Segments::generate(recipe(1), 1).write(&path).unwrap_err();
    assert!(matches!(error.kind, FileErrorKind::Io(_)));
}

#[test]
fn a_file_cut_short_anywhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, bytes) = sample(&folder);
    for length in (0..bytes.len()).filter(|length| *length < 100 || length % 997 == 0) {
        let error = read(&path, &bytes[..length]).unwrap_err();
        assert!(matches!(error.kind, FileErrorKind::Damaged(_)), "{length}: {error}");
        assert_eq!(error.offset, length as u64);
        assert!(error.to_string().contains("ends too early"), "{error}");
    }
}

#[test]
fn no_changed_byte_goes_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, segments, bytes) = sample(&folder);
    let size = bytes.len() as u64;
    for place in (0..bytes.len()).filter(|place| *place < 200 || place % 499 == 0) {
        let mut changed = bytes.clone();
        changed[place] ^= 0x10;
        let error = read(&path, &changed).unwrap_err();
        match place {
            0..8 => assert!(matches!(error.kind, FileErrorKind::Foreign { .. })),
            8..12 => assert!(matches!(error.kind, FileErrorKind::Version { .. })),
            _ => assert!(matches!(error.kind, FileErrorKind::Damaged(_)), "{place}: {error}"),
        }
        assert!(error.offset <= size, "{place}: {error}");
    }
    // The offset of the second segment: after the header, and the headers of two segments.
    let second = 48 + 16 + segments.segments()[0].bytes().len() + 16;
    let mut changed = bytes.clone();
    changed[second + 50] ^= 1;
    assert_eq!(read(&path, &changed).unwrap_err().offset, second as u64);
}

#[test]
fn bytes_after_the_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, mut bytes) = sample(&folder);
    bytes.push(0);
    let error = read(&path, &bytes).unwrap_err();
    assert_eq!(error.offset, bytes.len() as u64 - 1);
    assert!(error.to_string().contains("bytes after the last segment"), "{error}");
}
