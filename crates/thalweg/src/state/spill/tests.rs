//! Spill files come back as they were written, or say why not.

use super::*;
use crate::data::{Batch, BytesBatch, TextBatch};

fn children(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn numbers(dir: &SpillDir, count: u64) -> SpillFile<u64> {
    let mut writer = dir.writer();
    for number in 0..count {
        writer.push(&number).unwrap();
    }
    assert_eq!(writer.records(), count);
    writer.finish().unwrap()
}

#[test]
fn records_come_back_in_order_any_number_of_times() {
    let parent = tempfile::tempdir().unwrap();
    let dir = SpillDir::new(parent.path(), "job");
    let file = numbers(&dir, 100_000);
    assert_eq!(file.records(), 100_000);
    assert_eq!(dir.written(), file.bytes());
    assert!(file.bytes() > 12 * BLOCK as u64);
    for _ in 0..2 {
        let mut reader = file.read();
        for number in 0..100_000 {
            assert_eq!(reader.remaining(), 100_000 - number);
            assert_eq!(reader.next(|n| n).unwrap(), Some(number));
        }
        assert_eq!(reader.next(|n| n).unwrap(), None);
        assert_eq!(reader.next(|n| n).unwrap(), None);
    }
}

#[test]
fn borrowed_records_fill_batches() {
    let parent = tempfile::tempdir().unwrap();
    let dir = SpillDir::new(parent.path(), "job");
    let long = "x".repeat(3 * BLOCK);
    let texts = ["", "größer", &long, "end"];
    let mut writer: SpillWriter<str> = dir.writer();
    let mut bytes: SpillWriter<[u8]> = dir.writer();
    for text in &texts {
        writer.push(text).unwrap();
        bytes.push(&text.as_bytes()).unwrap();
    }
    let mut reader = writer.finish().unwrap().read();
    let mut batch = TextBatch::default();
    assert_eq!(reader.read_batch(&mut batch, 3).unwrap(), 3);
    assert_eq!(reader.read_batch(&mut batch, 3).unwrap(), 1);
    assert_eq!(reader.read_batch(&mut batch, 3).unwrap(), 0);
    assert_eq!(batch.iter().collect::<Vec<_>>(), texts);
    let mut batch = BytesBatch::default();
    bytes.finish().unwrap().read().read_batch(&mut batch, 9).unwrap();
    assert_eq!(batch.len(), 4);
}

#[test]
fn nothing_is_created_without_records_and_all_is_removed() {
    let parent = tempfile::tempdir().unwrap();
    let below = parent.path().join("not/there/yet");
    let dir = SpillDir::new(&below, "a/../job");
    let empty = dir.writer::<u64>().finish().unwrap();
    assert_eq!(empty.read().next(|n| n).unwrap(), None);
    assert!(!below.exists());
    drop(empty);

    let file = numbers(&dir, 10);
    let [own] = &*children(&below) else { panic!("one directory was expected") };
    assert!(own.file_name().unwrap().to_str().unwrap().starts_with("thalweg-spill-a____job-"));
    assert_eq!(children(own).len(), 2, "a lock and a file");
    let mut unfinished: SpillWriter<u64> = dir.writer();
    for number in 0..BLOCK as u64 {
        unfinished.push(&number).unwrap();
    }
    assert_eq!(children(own).len(), 3);
    drop(unfinished);
    assert_eq!(children(own).len(), 2);
    let mut reader = file.read();
    drop(file);
    assert_eq!(reader.next(|n| n).unwrap(), Some(0));
    drop(dir);
    assert!(own.exists(), "the reader still needs it");
    drop(reader);
    assert_eq!(children(&below), [] as [PathBuf; 0]);
}

#[test]
fn each_job_has_a_directory_of_its_own() {
    let parent = tempfile::tempdir().unwrap();
    let dirs = [SpillDir::new(parent.path(), "job"), SpillDir::new(parent.path(), "job")];
    let files = dirs.map(|dir| numbers(&dir, 1));
    assert_eq!(children(parent.path()).len(), 2);
    drop(files);
    assert_eq!(children(parent.path()).len(), 0);
}

#[test]
fn directories_of_killed_processes_are_removed() {
    let parent = tempfile::tempdir().unwrap();
    let dead = parent.path().join("thalweg-spill-dead");
    // One process was killed before it had a lock; one while it removed its directory, the lock first.
    let young = parent.path().join("thalweg-spill-young");
    let half = parent.path().join("thalweg-spill-half");
    let other = parent.path().join("other");
    for dir in [&dead, &young, &half, &other] {
        fs::create_dir(dir).unwrap();
    }
    fs::write(half.join("records-1"), "").unwrap();
    for dir in [&dead, &other] {
        fs::write(dir.join(LOCK), "").unwrap();
    }
    let living = numbers(&SpillDir::new(parent.path(), "living"), 1);
    assert!(!dead.exists() && !young.exists() && !half.exists() && other.exists());
    let second = numbers(&SpillDir::new(parent.path(), "second"), 1);
    assert_eq!(living.read().next(|n| n).unwrap(), Some(0));
    drop((living, second));
    assert_eq!(children(parent.path()), [other]);
}

#[test]
fn a_directory_removed_by_another_process_is_created_again() {
    let parent = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for count in 1..50 {
                    let file = numbers(&SpillDir::new(parent.path(), "job"), count);
                    let mut reader = file.read();
                    (0..count).for_each(|n| assert_eq!(reader.next(|n| n).unwrap(), Some(n)));
                }
            });
        }
    });
    assert_eq!(children(parent.path()), [] as [PathBuf; 0]);
}

/// Under a parent that other programs write to as well.
#[cfg(unix)]
#[test]
fn directories_of_other_programs_are_kept() {
    let parent = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = parent.path().join("thalweg-spill-link");
    std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
    fs::write(parent.path().join("thalweg-spill-file"), "").unwrap();
    let pipe = parent.path().join("thalweg-spill-pipe");
    fs::create_dir(&pipe).unwrap();
    let made = std::process::Command::new("mkfifo").arg(pipe.join(LOCK)).status().unwrap();
    assert!(made.success());
    drop(numbers(&SpillDir::new(parent.path(), "job"), 1));
    assert_eq!(children(parent.path()).len(), 3);
    assert_eq!(children(elsewhere.path()).len(), 0);
}

#[test]
fn damage_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let dir = SpillDir::new(parent.path(), "job");
    let file = numbers(&dir, 20_000);
    let path = file.file.path().to_path_buf();
    let whole = fs::read(&path).unwrap();
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let mut reader = file.read();
        let mut count = 0;
        loop {
            match reader.next(|number| assert_eq!(number, count)) {
                Ok(Some(())) => count += 1,
                Ok(None) => return Ok(count),
                Err(error) => return Err(error),
            }
        }
    };
    assert_eq!(read(&whole).unwrap(), 20_000);
    for at in [0, 7, 8, 12, 15, 16, 1000, BLOCK + 5, BLOCK + 100, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        let error = read(&bytes).expect_err(&format!("byte {at} was changed"));
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("damaged after it was written"), "{error}");
    }
    let first = HEADER + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    for len in [0, 5, 16, 1000, first, first + 3, whole.len() - 1] {
        assert!(read(&whole[..len]).is_err(), "{len} bytes were left");
    }
    fs::remove_file(&path).unwrap();
    let error = file.read().next(|n| n).unwrap_err();
    assert!(error.to_string().contains("cannot read the spill file"), "{error}");
}

#[test]
fn a_copy_gets_what_it_lacks() {
    let (parent, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = SpillDir::new(parent.path(), "job");
    let mut writer: SpillWriter<u64> = dir.writer();
    assert!(writer.prefix().unwrap().is_none(), "nothing was written");
    let mut grow = |numbers: std::ops::Range<u64>| {
        numbers.for_each(|number| writer.push(&number).unwrap());
        writer.prefix().unwrap().unwrap()
    };
    let first = grow(0..20_000);
    let path = copies.path().join(&**first.copy_name(|| "copy".into()));
    first.copy_into(copies.path()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), first.bytes());
    // What is there already is not written again.
    let mut altered = fs::read(&path).unwrap();
    altered[100] ^= 1;
    fs::write(&path, &altered).unwrap();
    let second = grow(20_000..50_000);
    assert!(!second.is_copied());
    assert_eq!(&**second.copy_name(|| panic!("it has a name")), "copy");
    second.copy_into(copies.path()).unwrap();
    let mut copied = fs::read(&path).unwrap();
    assert_eq!((copied.len() as u64, copied[100]), (second.bytes(), altered[100]));
    assert!(check_blocks(&path, second.bytes(), second.records()).is_err());
    copied[100] ^= 1;
    // As an attempt leaves it that has failed.
    copied.extend_from_slice(&[7; 1000]);
    fs::write(&path, &copied).unwrap();
    let third = grow(50_000..50_001);
    third.copy_into(copies.path()).unwrap();
    first.copy_into(copies.path()).unwrap();
    drop((writer, second));
    for prefix in [&first, &third] {
        check_blocks(&path, prefix.bytes(), prefix.records()).unwrap();
        let stored: SpillFile<u64> = dir.stored(path.clone(), prefix.bytes(), prefix.records());
        assert!(stored.prefix().unwrap().is_copied());
        let mut reader = stored.read();
        for number in 0..prefix.records() {
            assert_eq!(reader.next(|number| number).unwrap(), Some(number));
        }
        assert_eq!(reader.next(|number| number).unwrap(), None);
    }
    assert!(check_blocks(&path, third.bytes() - 1, third.records()).is_err());
    assert!(check_blocks(&path, third.bytes(), third.records() - 1).is_err());
    drop((first, third));
    assert!(path.exists(), "a copy belongs to the checkpoints");
    // Another file of that name is left alone.
    let prefix = numbers(&dir, 3).prefix().unwrap();
    prefix.copy_name(|| "copy".into());
    assert!(prefix.copy_into(copies.path()).is_err());
}

#[test]
fn a_share_has_the_records_of_its_hashes() {
    let parent = tempfile::tempdir().unwrap();
    let dir = SpillDir::new(parent.path(), "job");
    let share = |hashes| SpillShare { file: numbers(&dir, 20_000), hashes, dealt: None };
    for (hashes, expected) in
        [(None, 0..20_000), (Some((500, 11_000)), 500..11_001), (Some((30_000, 40_000)), 0..0)]
    {
        let (share, mut found) = (share(hashes), Vec::new());
        let mut reader = share.read();
        while let Some(number) = reader.next(|number| *number, |number| number).unwrap() {
            found.push(number);
        }
        assert!(found.into_iter().eq(expected), "{hashes:?}");
    }
}

#[test]
fn the_first_records_are_left_out() {
    let parent = tempfile::tempdir().unwrap();
    let dir = SpillDir::new(parent.path(), "job");
    let share = SpillShare::from(numbers(&dir, 20_000));
    for skipped in [0, 1, 7999, 12_345, 19_999, 20_000, u64::MAX] {
        let mut reader = share.read();
        reader.skip(skipped).unwrap();
        let expected = (skipped < 20_000).then_some(skipped);
        assert_eq!(reader.next(|_| 0, |number| number).unwrap(), expected);
        assert_eq!(reader.remaining(), 20_000u64.saturating_sub(skipped.saturating_add(1)));
    }
}

#[test]
fn records_are_dealt_out_to_the_shares_of_a_file() {
    let parent = tempfile::tempdir().unwrap();
    let dir = SpillDir::new(parent.path(), "job");
    for range in [(0, u64::MAX), (1 << 40, 3 << 40)] {
        let (first, last) = range;
        let third = (last - first) / 3;
        let mut found = Vec::new();
        for hashes in
            [(first, first + third), (first + third + 1, last - third), (last - third + 1, last)]
        {
            let file = numbers(&dir, 30_000);
            let share = SpillShare { file, hashes: Some(hashes), dealt: Some(range) };
            let (mut reader, before) = (share.read(), found.len());
            while let Some(number) = reader.next(|_| 0, |number| number).unwrap() {
                found.push(number);
            }
            assert!((9000..11_000).contains(&(found.len() - before)), "{range:?}");
        }
        found.sort_unstable();
        assert!(found.into_iter().eq(0..30_000), "{range:?}");
    }
}

#[test]
fn an_error_names_the_operation_and_path() {
    let parent = tempfile::tempdir().unwrap();
    let occupied = parent.path().join("occupied");
    fs::write(&occupied, "a file").unwrap();
    let mut writer: SpillWriter<u64> = SpillDir::new(&occupied, "job").writer();
    writer.push(&1_u64).unwrap();
    let error = writer.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("occupied: cannot create the spill directory"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let dir = SpillDir::new(parent.path(), "job");
    let mut writer: SpillWriter<u64> = dir.writer();
    // A device that is always full, behind a link that can be removed.
    let link = parent.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &link).unwrap();
    let full = Location::Own(TempPath::try_from_path(link).unwrap());
    writer.file = Some(Arc::new(StoredFile::new(Some(full), &dir)));
    writer.push(&1_u64).unwrap();
    let error = writer.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let message = error.to_string();
    let expected = format!("the disk that holds {} is full", parent.path().display());
    assert!(message.contains(&expected), "{message}");
}
