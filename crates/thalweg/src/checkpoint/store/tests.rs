//! Tests of checkpoints in a directory and in an object store.

use super::format::MAGIC;
use super::*;
use crate::checkpoint::branches::SavedBranch;
use crate::checkpoint::folder::{Faulty, Memory, TEMPORARY, make, of_each_kind};
use crate::checkpoint::snapshot::{Entries, StateId};
use crate::checkpoint::{CheckpointDir, Shape};
use crate::data::{Schema, hash_u64};

fn shape() -> Shape {
    Shape { entries: Schema::U64, operator: String::new(), by_key: false }
}

fn snapshot(number: u64) -> Snapshot {
    let mut entries = Entries::default();
    entries.add(0, |out| number.encode(out));
    let mut snapshot = Snapshot::default();
    let id = StateId { operator: "count".to_owned(), name: "table".to_owned() };
    snapshot.add(&id, &shape(), entries, Vec::new());
    snapshot
}

#[test]
fn a_directory_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let folder = make(&dir.path().join("a/b"), dir.path()).unwrap();
    let store = Store::open(&folder).unwrap();
    assert!(store.newest().unwrap().is_none());
    assert!(dir.path().join("a/b").is_dir());
}

#[test]
fn the_newest_checkpoint_that_can_be_read_is_found() {
    of_each_kind(|folder| {
        let store = Store::open(folder).unwrap();
        assert!(store.newest().unwrap().is_none());
        for number in 1..5 {
            let bytes = store.write(number, &snapshot(number), Vec::new()).unwrap();
            assert_eq!(bytes, store.newest().unwrap().unwrap().own);
        }
        let numbers = || Store::numbers(&**folder).unwrap();
        assert_eq!(numbers(), [3, 4]);
        assert_eq!(store.newest().unwrap().unwrap().snapshot, snapshot(4));
        let taken = store.write(4, &snapshot(7), Vec::new());
        assert!(taken.is_err(), "no checkpoint is replaced");
        assert_eq!(store.newest().unwrap().unwrap().snapshot, snapshot(4));
        let [third, fourth] = [3, 4].map(Store::name_of);
        let whole = folder.read(&fourth).unwrap();
        for length in 0..whole.len() {
            folder.replace(&fourth, &whole[..length]);
            let found = store.newest().unwrap().unwrap();
            assert_eq!((found.number, found.skipped.len()), (3, 1), "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            folder.replace(&fourth, &altered);
            let found = store.newest();
            // With its lowest bit changed, the version is the one before, which has other heads.
            if (MAGIC.len() + 1..MAGIC.len() + 3 * size_of::<u32>()).contains(&at) {
                let error = found.err().expect("it may be a sound one of another version");
                assert!(error.to_string().contains("and this program has"), "{error}");
                continue;
            }
            assert_eq!(found.unwrap().unwrap().number, 3, "byte {at} is another");
        }
        let begun = store.begin().unwrap().unwrap();
        assert_eq!((begun.number, begun.skipped.len()), (3, 1));
        assert_eq!(numbers(), [3], "what cannot be read now is never read later");
        assert!(folder.look_at(&format!("{fourth}{UNREADABLE}")).unwrap().is_some());
        folder.replace(&third, b"");
        let error = store.newest().err().expect("a job must not begin anew without a word");
        assert!(error.to_string().contains("checkpoint-0000000003.state"), "{error}");
        store.clear().unwrap();
        assert!(store.newest().unwrap().is_none());
    });
}

#[test]
fn the_name_of_a_part_leads_nowhere_else() {
    of_each_kind(|folder| {
        let store = Store::open(folder).unwrap();
        let [sound, others @ ..] =
            ["part-a-1-0.state", "../part-a.state", "/part-a.state", "part-a/..", "other", ""]
                .map(|name| Part { name: name.to_owned(), digest: 7, spilled: Vec::new() });
        assert_eq!(Part::read(&sound.report()).unwrap(), sound);
        for (number, part) in (1..).zip(others) {
            assert!(Part::read(&part.report()).is_err(), "{part:?}");
            store.write(number, &snapshot(number), vec![part.clone()]).unwrap();
            let read = Store::read_file(&**folder, &Store::name_of(number));
            let error = read.unwrap_err().to_string();
            assert!(error.contains("the name of a part"), "{part:?}: {error}");
        }
    });
}

#[test]
fn a_checkpoint_counts_with_its_parts() {
    of_each_kind(|folder| {
        let parts = || {
            let is_part = |name: &String| is_part(name);
            names(&**folder).unwrap().into_iter().filter(is_part).count()
        };
        let first = Store::open_first(folder).unwrap();
        let other = Store::join(folder);
        assert!(other.write_part(HostId(1), &snapshot(9)).is_err(), "of no run");
        let point = first.restore_point(None).unwrap();
        other.restore(&point).unwrap();
        let mut elsewhere = point;
        elsewhere.proof = "not there".to_owned();
        assert!(other.restore(&elsewhere).is_err());
        for number in 1..4 {
            let part = other.write_part(HostId(1), &snapshot(10 * number)).unwrap();
            first.write(number, &snapshot(number), vec![part]).unwrap();
        }
        assert_eq!(parts(), 2, "those of an older checkpoint are removed with it");
        let mut both = snapshot(3);
        both.append(snapshot(30));
        assert_eq!(other.newest().unwrap().unwrap().snapshot, both);
        let name = Store::name_of;
        let parts_of = |number| read_part(&**folder, &name(number)).unwrap().1;
        let part = parts_of(3).remove(0);
        folder.replace(&part.name, &folder.read(&parts_of(2)[0].name).unwrap());
        let found = other.newest().unwrap().unwrap();
        assert_eq!(found.number, 2, "its part is another");
        let is_there = |number| folder.look_at(&name(number)).unwrap().is_some();
        assert!(is_there(3), "only the first host sets checkpoints aside");
        folder.remove(&part.name).unwrap();
        assert_eq!(first.newest().unwrap().unwrap().number, 2, "its part is not there");
        other.write_part(HostId(1), &snapshot(7)).unwrap();
        drop(first);
        assert_eq!(parts(), 2);
        let again = Store::open_first(folder).unwrap();
        let begun = again.begin().unwrap().unwrap();
        assert_eq!(begun.number, 2);
        assert!(!is_there(3), "it is set aside");
        assert_eq!(parts(), 1, "no checkpoint has the other");
        assert!(Store::bytes_of_others(&**folder, &name(2)) > 0);
        let point = again.restore_point(Some(&begun)).unwrap();
        let next = Store::join(folder);
        assert_eq!(next.restore(&point).unwrap(), Some(begun.snapshot));
        let part = next.write_part(HostId(1), &snapshot(40)).unwrap();
        let last = again.number_after(2) + 1;
        again.write(last, &snapshot(4), vec![part]).unwrap();
        drop(again);
        assert!(next.restore(&point).is_err(), "the first host has ended");
        let mut bytes = folder.read(&name(last)).unwrap();
        let whole = bytes.clone();
        bytes[MAGIC.len()] += 1;
        folder.replace(&name(last), &bytes);
        let again = Store::open_first(folder).unwrap();
        assert!(again.begin().is_err(), "of another version");
        folder.replace(&name(last), &whole);
        let newest = again.begin().unwrap().unwrap();
        assert_eq!(newest.number, last, "the program of that version has its parts still");
        again.clear().unwrap();
        assert_eq!((parts(), again.newest().unwrap().is_none()), (0, true));
    });
}

/// As where there are no locks: both are open.
#[test]
fn a_run_that_is_superseded_writes_no_checkpoint() {
    of_each_kind(|folder| {
        let run =
            || Store { mark: Some(Mark::next(&**folder).unwrap()), ..Store::of(folder, None) };
        let first = run();
        first.write(1, &snapshot(1), Vec::new()).unwrap();
        let second = run();
        let error = first.write(2, &snapshot(2), Vec::new()).unwrap_err().to_string();
        assert!(error.contains("another run of this job has begun"), "{error}");
        assert_eq!(Store::numbers(&**folder).unwrap(), [1]);
        second.write(2, &snapshot(3), Vec::new()).unwrap();
        assert_eq!(second.newest().unwrap().unwrap().snapshot, snapshot(3));
    });
}

/// As where there are no locks, and another run begins between two looks of the first one.
#[test]
fn a_run_that_is_superseded_removes_nothing_and_publishes_nothing() {
    of_each_kind(|folder| {
        let run =
            || Store { mark: Some(Mark::next(&**folder).unwrap()), ..Store::of(folder, None) };
        let numbers = || Store::numbers(&**folder).unwrap();
        let first = run();
        first.may_publish().unwrap();
        (1..3).for_each(|number| _ = first.write(number, &snapshot(number), Vec::new()).unwrap());
        let second = run();
        first.keep(0, u64::MAX).unwrap();
        first.clear().unwrap();
        assert_eq!(numbers(), [1, 2]);
        assert_eq!(first.may_publish().unwrap_err().kind(), ErrorKind::Config);
        second.may_publish().unwrap();
        second.write(3, &snapshot(3), Vec::new()).unwrap();
        // Of a run that has not seen the last.
        second.keep(0, 2).unwrap();
        assert_eq!(numbers(), [3]);
    });
}

#[test]
fn nothing_is_published_where_it_is_not_known_whether_another_run_has_begun() {
    let dir = tempfile::tempdir().unwrap();
    let folder = make(&dir.path().join("a"), dir.path()).unwrap();
    let mark = Some(Mark::next(&*folder).unwrap());
    let run = Store { mark, ..Store::of(&folder, None) };
    run.may_publish().unwrap();
    std::fs::remove_dir_all(dir.path().join("a")).unwrap();
    assert!(run.superseded().is_none());
    assert_eq!(run.may_publish().unwrap_err().kind(), ErrorKind::Io);
}

/// As [`snapshot`], with files of spilled records.
fn referring(number: u64, files: &[(&str, u64)]) -> Snapshot {
    let id = StateId { operator: "sorted".to_owned(), name: "value".to_owned() };
    let files = files.iter().map(|(name, bytes)| FileEntry::of(name, *bytes));
    let mut snapshot = snapshot(number);
    snapshot.add(&id, &shape(), Entries::default(), files.collect());
    snapshot
}

#[test]
fn checkpoints_that_say_they_have_endless_records_are_summed_up() {
    of_each_kind(|folder| {
        let store = Store::open(folder).unwrap();
        let name = "spilled-a.records";
        let mut hostile = referring(1, &[]);
        let id = StateId { operator: "sorted".to_owned(), name: "value".to_owned() };
        let mut entry = FileEntry::of(name, 1);
        entry.records = u64::MAX;
        hostile.add(&id, &shape(), Entries::default(), vec![entry; 2]);
        store.write(1, &hostile, Vec::new()).unwrap();
        folder.replace(name, &[0; 10]);
        let states = CheckpointDir::of(folder).read(1).unwrap();
        assert_eq!(states[1].entries, u64::MAX);
    });
}

#[test]
fn what_is_altered_is_read_once_it_is_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = make(dir.path(), dir.path()).unwrap();
    Store::open(&folder).unwrap().write(1, &snapshot(7), Vec::new()).unwrap();
    let whole = folder.read(&Store::name_of(1)).unwrap();
    assert_eq!(sealed(&whole), whole);
    let mut altered = whole.clone();
    // The last byte of the number that is the entry.
    *altered.last_mut().unwrap() = 1;
    assert!(parse(&altered).is_err());
    assert_eq!(parse(&sealed(&altered)).unwrap().0, snapshot(7 + (1 << 56)));
    for length in 0..whole.len() {
        assert!(parse(&sealed(&whole[..length])).is_err(), "{length} bytes");
    }
}

/// The content of a file of the versions before.
fn unpacked(snapshot: &Snapshot) -> (Vec<u8>, Vec<u8>) {
    let mut content = Vec::new();
    Vec::<Part>::new().encode(&mut content);
    let (head, entries) = snapshot.unpacked();
    content.extend_from_slice(&head);
    (content, entries)
}

/// A file that says it is of this version.
fn of_version(version: u32, (content, entries): (Vec<u8>, Vec<u8>)) -> Vec<u8> {
    let (mut header, _) = header(&content, content.len() + entries.len());
    header[MAGIC.len()..][..4].copy_from_slice(&version.to_le_bytes());
    [header, content, entries].concat()
}

#[test]
fn checkpoints_of_the_versions_before_are_read_too() {
    let mut noted = counts(3, 1000);
    noted.note_branch("count-0-2", &SavedBranch { branch: 9, derived: "count-0".to_owned() });
    // In the first of them, no operator had a branch.
    for (version, saved) in [(7, &snapshot(7)), (8, &snapshot(7)), (8, &noted)] {
        assert_eq!(parse(&of_version(version, unpacked(saved))).unwrap().0, *saved, "{version}");
    }
    for version in [6, 10] {
        let error = parse(&of_version(version, unpacked(&noted))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan, "{version}");
    }
    of_each_kind(|folder| {
        folder.replace(&Store::name_of(1), &of_version(8, unpacked(&noted)));
        let store = Store::join(folder);
        assert_eq!(store.newest().unwrap().unwrap().snapshot, noted);
        store.write(2, &noted, Vec::new()).unwrap();
        let newest = store.newest().unwrap().unwrap();
        assert_eq!((newest.number, newest.snapshot), (2, noted.clone()));
        // Entries are as the head says, which an altered version does not change.
        let mut altered = folder.read(&Store::name_of(2)).unwrap();
        altered[MAGIC.len()] = 8;
        for file in [altered, of_version(9, unpacked(&noted))] {
            assert_eq!(parse(&file).unwrap_err().kind(), ErrorKind::Input);
        }
    });
}

#[test]
fn files_of_the_version_before_are_as_its_programs_have_written_them() {
    let (head, entries) = unpacked(&snapshot(7));
    // The encoded number behind its key group and its length.
    assert_eq!(entries, [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0]);
    let expected: [&[u8]; 4] = [
        // No parts; a clock that is not simulated, the time, and what else is known: nothing.
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        // One state.
        &[1, 0, 0, 0, 0, 0, 0, 0],
        b"\x05count\x05table\x05\"u64\"\x00\x00",
        // Of one task: the length and the digest of its entries; no files.
        &[1, 11, 0, 0, 0, 0, 0, 0, 0, 237, 26, 154, 218, 0, 0, 0, 0, 1, 0],
    ];
    assert_eq!(head, expected.concat());
}

/// Counts of several tasks, which shrink, and texts of one, which do not.
fn counts(tasks: u64, keys: u64) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let id = |name: &str| StateId { operator: "count".to_owned(), name: name.to_owned() };
    for task in 0..tasks {
        let mut entries = Entries::default();
        for key in 0..keys {
            entries.add(hash_u64(key), |out| (key, task + key % 9).encode(out));
        }
        snapshot.add(&id("table"), &shape(), entries, Vec::new());
    }
    let mut texts = Entries::default();
    for n in 0..10 * keys as usize {
        texts.add(0, |out| out.resize(out.len() + 7 * n % 23, b'a'));
    }
    snapshot.add(&id("texts"), &shape(), texts, Vec::new());
    snapshot
}

#[test]
fn entries_are_packed_in_files_and_nowhere_else() {
    of_each_kind(|folder| {
        let store = Store::open(folder).unwrap();
        let saved = counts(3, 5000);
        for number in 1..3 {
            let own = store.write(number, &saved, Vec::new()).unwrap();
            let newest = store.newest().unwrap().unwrap();
            assert_eq!((newest.number, newest.own), (number, own));
            assert!(newest.snapshot == saved);
            let states = CheckpointDir::of(folder).read(number).unwrap();
            let (table, texts) = (&states[0], &states[1]);
            assert_eq!((table.entries, table.bytes, table.largest), (15_000, 240_000, 16));
            // Of 19 bytes those of the group, two of the key and one of the count; and heads of blocks.
            let packed = own - texts.bytes - 3 * texts.entries;
            assert!((75_000..80_000).contains(&packed), "{packed} bytes");
            let memory = store.spare.take();
            assert!((75_000..160_000).contains(&memory.capacity()), "{}", memory.capacity());
            store.spare.give(memory);
        }
    });
}

#[test]
fn files_of_spilled_records_are_there_as_long_as_a_checkpoint_refers_to_them() {
    of_each_kind(|folder| {
        let there = || {
            let mut found = names(&**folder).unwrap();
            found.retain(|name| is_spilled(name));
            found.sort();
            found
        };
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| format!("spilled-{name}.records"));
        for name in [&a, &b, &c, &d] {
            folder.replace(name, &[0; 10]);
        }
        assert!(Store::open_first(folder).unwrap().begin().unwrap().is_none());
        assert!(there().is_empty(), "no checkpoint refers to them");
        let store = begun(folder).0;
        for name in [&a, &b, &c, &d] {
            folder.replace(name, &[0; 10]);
        }
        let other = Store::join(folder);
        other.restore(&store.restore_point(None).unwrap()).unwrap();
        let part = |file: &str| other.write_part(HostId(1), &referring(7, &[(file, 10)])).unwrap();
        let first = store.number_after(0) + 1;
        store.write(first, &referring(1, &[(&a, 5), (&b, 5)]), vec![part(&c)]).unwrap();
        store.write(first + 1, &referring(2, &[(&b, 7)]), vec![part(&c)]).unwrap();
        assert_eq!(there().len(), 4);
        store.write(first + 2, &referring(3, &[(&b, 10)]), vec![part(&d)]).unwrap();
        assert_eq!(there(), [&*b, &*c, &*d], "the first checkpoint is removed");
        assert_eq!(CheckpointDir::of(folder).read(first + 2).unwrap().len(), 2);
        drop(store);
        let store = Store::open_first(folder).unwrap();
        assert_eq!(store.begin().unwrap().unwrap().number, first + 2);
        assert_eq!(there(), [&*b, &*c, &*d]);
        folder.replace(&b, &[0; 9]);
        let found = store.newest().unwrap().unwrap();
        assert_eq!(
            (found.number, found.skipped.len()),
            (first + 1, 1),
            "a file of the third is torn"
        );
        assert!(found.skipped[0].to_string().contains("is incomplete"), "{}", found.skipped[0]);
        assert!(found.bytes > 17, "{} bytes", found.bytes);
        folder.remove(&c).unwrap();
        let error = store.newest().err().expect("a file of the second is not there");
        assert!(error.to_string().contains("no older one can be read"), "{error}");
        let read = store.read(first + 1).expect_err("the same");
        assert!(read.to_string().contains("is not there"), "{read}");
        store.clear().unwrap();
        assert!(there().is_empty());
    });
}

#[test]
fn the_name_of_a_file_of_spilled_records_leads_nowhere_else() {
    of_each_kind(|folder| {
        let store = Store::open(folder).unwrap();
        for (number, name) in (1..).zip(["../spilled-a.records", "spilled-a/../b.records", "other"])
        {
            store.write(number, &referring(number, &[(name, 0)]), Vec::new()).unwrap();
            let read = Store::read_file(&**folder, &Store::name_of(number));
            let error = read.unwrap_err().to_string();
            assert!(error.contains("the name of a file of spilled records"), "{name}: {error}");
        }
    });
}

#[test]
fn one_job_uses_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let folder = make(dir.path(), dir.path()).unwrap();
    let store = Store::open(&folder).unwrap();
    let error = Store::open(&folder).err().expect("it is in use");
    assert!(error.to_string().contains("another job"), "{error}");
    drop(store);
    assert!(Store::open(&folder).is_ok());
}

/// It cannot be seen whether a job uses it.
#[cfg(feature = "object-store")]
#[test]
fn removing_checkpoints_in_an_object_store_supersedes_the_job_that_has_them() {
    of_each_kind(|folder| {
        let job = Store::open_run(folder).unwrap();
        for number in 1..3 {
            job.write(number, &snapshot(number), Vec::new()).unwrap();
        }
        let removed = CheckpointDir::of(folder).remove(1);
        match &job.lock {
            Some(_) => assert!(removed.is_err() && job.superseded().is_none(), "it holds the lock"),
            None => {
                removed.unwrap();
                assert!(job.write(3, &snapshot(3), Vec::new()).is_err());
                assert_eq!(Store::numbers(&**folder).unwrap(), [2]);
            }
        }
    });
}

/// Two checkpoints of a run, with a part each, where other runs do this just before the second one gets its name.
fn written_late(
    meanwhile: impl Fn(&Arc<dyn Folder>) + Send + Sync + 'static,
) -> (Arc<dyn Folder>, Result<()>) {
    let memory: Arc<dyn Folder> = Arc::new(Memory::default());
    let run = Store::open_first(&memory).unwrap();
    let other = Store::join(&memory);
    other.restore(&run.restore_point(None).unwrap()).unwrap();
    let part = |number: u64| other.write_part(HostId(1), &snapshot(10 * number)).unwrap();
    let before = run.number_after(0);
    run.write(before + 1, &snapshot(1), vec![part(1)]).unwrap();
    let part = part(2);
    let (inner, requests) = (Arc::clone(&memory), AtomicU64::new(0));
    let folder = Faulty::around(Arc::clone(&memory), 1, 0, 0).delayed(move |_| {
        // The first two are a look at marks.
        if requests.fetch_add(1, Ordering::Relaxed) == 2 {
            meanwhile(&inner);
        }
    });
    let run = Store { folder: Arc::new(folder), ..run };
    let written = run.write(before + 2, &snapshot(2), vec![part]).map(drop);
    (memory, written)
}

fn with_part(number: u64) -> Snapshot {
    let mut both = snapshot(number);
    both.append(snapshot(10 * number));
    both
}

/// Begins a run; returns what it goes on from, too.
fn begun(folder: &Arc<dyn Folder>) -> (Store, Option<Snapshot>) {
    let run = Store::open_first(folder).unwrap();
    let found = run.begin().unwrap();
    (run, found.map(|stored| stored.snapshot))
}

fn late_names(folder: &Arc<dyn Folder>) -> usize {
    let all = Store::all_numbers(&names(&**folder).unwrap());
    all.len() - Store::numbers(&**folder).unwrap().len()
}

#[test]
fn a_checkpoint_that_is_named_when_another_run_has_begun_does_not_count() {
    // The later run has written none.
    let (folder, written) = written_late(|folder| {
        assert_eq!(begun(folder).1, Some(with_part(1)));
    });
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(late_names(&folder), 1);
    let (third, found) = begun(&folder);
    assert_eq!((found, late_names(&folder)), (Some(with_part(1)), 0));
    third.write(third.number_after(0) + 1, &snapshot(3), Vec::new()).unwrap();
    assert_eq!(begun(&folder).1, Some(snapshot(3)));

    // It has written one.
    let (folder, written) = written_late(|folder| {
        let later = begun(folder).0;
        later.write(later.number_after(0) + 1, &snapshot(4), Vec::new()).unwrap();
    });
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!((begun(&folder).1, late_names(&folder)), (Some(snapshot(4)), 0));
}

#[test]
fn a_late_checkpoint_does_not_count_beside_those_that_the_next_run_has_found() {
    // The later run has a number above it, and dies; a third one finds both.
    let (folder, written) = written_late(|folder| {
        let later = begun(folder).0;
        later.write(later.number_after(0) + 1, &snapshot(4), Vec::new()).unwrap();
    });
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(late_names(&folder), 1);
    let third = Store::open_first(&folder).unwrap();
    let newest = third.begin().unwrap().unwrap().number;
    assert_eq!(
        Store::numbers(&*folder).unwrap().len(),
        2,
        "one is there in case the other is damaged"
    );
    assert_eq!(late_names(&folder), 0);
    // If it cannot be read, that of the first run which the second has begun with is next.
    folder.replace(&Store::name_of(newest), b"");
    assert_eq!(begun(&folder).1, Some(with_part(1)));
}

#[test]
fn a_copy_has_a_number_of_its_own_run() {
    let [from, to]: [Arc<dyn Folder>; 2] = [0; 2].map(|_| Arc::new(Memory::default()) as _);
    let source = Store::join(&from);
    let number = 7_000_000_003;
    source.write(number, &snapshot(1), Vec::new()).unwrap();
    from.replace("run-0000000007-begun", b"token");
    let copied = CheckpointDir::of(&from).copy_to(number, || Ok(Arc::clone(&to))).unwrap();
    assert_eq!(copied.number, 1_000_000_001);
    let (job, found) = begun(&to);
    assert_eq!((found, job.number_after(copied.number)), (Some(snapshot(1)), 2_000_000_000));
}

#[test]
fn all_of_a_folder_can_be_removed_also_what_does_not_count() {
    of_each_kind(|folder| {
        let store = begun(folder).0;
        let first = store.number_after(0) + 1;
        (first..first + 3)
            .for_each(|number| _ = store.write(number, &snapshot(1), Vec::new()).unwrap());
        drop(store);
        folder.replace("run-0000000009-begun", b"token");
        folder.replace("spilled-a-0.records", b"a");
        let checkpoints = CheckpointDir::of(folder);
        assert!(checkpoints.list().unwrap().is_empty() && !checkpoints.is_empty().unwrap());
        assert_eq!(checkpoints.remove_all().unwrap(), 2);
        assert!(checkpoints.is_empty().unwrap());
        assert!(begun(folder).1.is_none());
    });
}

#[test]
fn what_is_no_mark_says_nothing() {
    let memory: Arc<dyn Folder> = Arc::new(Memory::default());
    memory.replace("run-3-begun", b"token 1");
    memory.replace("run-+000000003-ended", b"token");
    memory.replace(&Store::name_of(1), b"");
    assert_eq!(Store::numbers(&*memory).unwrap(), [1]);
    memory.replace("run-0000000003-begun", b"token x");
    assert_eq!(Store::numbers(&*memory).unwrap_err().kind(), ErrorKind::Input);
    memory.replace(&format!("run-{}", u64::MAX), b"");
    assert_eq!(Store::open_run(&memory).err().unwrap().kind(), ErrorKind::Input);
}

#[test]
fn a_checkpoint_that_is_named_before_another_run_has_read_what_there_is_counts() {
    let (folder, written) = written_late(|folder| {
        // It is killed then.
        drop(Store::open_first(folder).unwrap());
    });
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(begun(&folder).1, Some(with_part(2)));
}

#[test]
fn a_checkpoint_that_is_named_when_the_job_has_ended_does_not_count() {
    let (folder, written) = written_late(|folder| begun(folder).0.clear().unwrap());
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(late_names(&folder), 1);
    assert_eq!((begun(&folder).1, late_names(&folder)), (None, 0));
}

#[test]
fn a_checkpoint_that_is_named_when_a_tool_has_changed_what_there_is_does_not_count() {
    let (folder, written) = written_late(|folder| {
        let newest = *Store::numbers(&**folder).unwrap().last().unwrap();
        CheckpointDir::of(folder).remove(newest).unwrap();
        // There is none left.
        let other: Arc<dyn Folder> = Arc::new(Memory::default());
        let source = begun(&other).0;
        source.write(source.number_after(0) + 1, &snapshot(5), Vec::new()).unwrap();
        let number = Store::numbers(&*other).unwrap()[0];
        CheckpointDir::of(&other).copy_to(number, || Ok(Arc::clone(folder))).unwrap();
    });
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(late_names(&folder), 1);
    assert_eq!((begun(&folder).1, late_names(&folder)), (Some(snapshot(5)), 0));
}

#[test]
fn a_directory_may_be_a_copy_of_what_was_in_an_object_store() {
    let dir = tempfile::tempdir().unwrap();
    let folder = make(&dir.path().join("job"), dir.path()).unwrap();
    let (first, later) = (1_000_000_001, 3_000_000_000_u64);
    folder.replace("run-0000000003-begun", format!("token {first}").as_bytes());
    let writer = Store::join(&folder);
    writer.write(first, &snapshot(1), Vec::new()).unwrap();
    writer.write_file(&Store::name_of(first + 1), &snapshot(2), &[]).unwrap();
    assert_eq!(Store::numbers(&*folder).unwrap(), [first], "the other one was late");
    let run = Store::open_run(&folder).unwrap();
    assert_eq!(run.begin().unwrap().unwrap().number, first);
    run.write(run.number_after(first) + 1, &snapshot(3), Vec::new()).unwrap();
    drop(run);
    let again = Store::open_run(&folder).unwrap();
    let found = again.begin().unwrap().unwrap();
    assert_eq!(found.snapshot, snapshot(3));
    assert!(found.number < later, "in a directory, numbers just go on");

    // Also of one in which a job has ended, where a checkpoint is copied to.
    let ended = make(&dir.path().join("ended"), dir.path()).unwrap();
    ended.replace("run-0000000003-ended", b"token");
    let copied = CheckpointDir::of(&folder).copy_to(found.number, || Ok(Arc::clone(&ended)));
    assert_eq!(copied.unwrap().number, found.number);
    assert_eq!(Store::open_run(&ended).unwrap().begin().unwrap().unwrap().number, found.number);
}

#[test]
fn a_run_that_is_superseded_does_not_begin() {
    let memory: Arc<dyn Folder> = Arc::new(Memory::default());
    let first = Store::open_first(&memory).unwrap();
    first.write(1, &snapshot(1), Vec::new()).unwrap();
    let late = Store::open_run(&memory).unwrap();
    let later = Store::open_first(&memory).unwrap();
    let there = names(&*memory).unwrap();
    assert_eq!(late.begin().err().unwrap().kind(), ErrorKind::Config);
    // Else it would remove what the later one is about to name.
    assert!(there.iter().all(|name| memory.look_at(name).unwrap().is_some()), "{there:?}");
    assert_eq!(later.begin().unwrap().unwrap().number, 1);
}

#[test]
fn what_is_left_is_removed_when_a_run_begins() {
    of_each_kind(|folder| {
        let left = ["part-a-1-0.state", "spilled-a-0.records"];
        left.iter().for_each(|name| folder.replace(name, &[0; 10]));
        folder.create(&format!("{TEMPORARY}-left"), &[b"a"], &mut || true).unwrap();
        let there = || {
            let is_left = |name: &String| left.contains(&&**name) || name.ends_with("-left");
            names(&**folder).unwrap().iter().filter(|name| is_left(name)).count()
        };
        let store = Store::open_first(folder).unwrap();
        assert_eq!(there(), 3);
        assert!(store.begin().unwrap().is_none());
        assert_eq!(there(), 0);
        Store::join(folder).restore(&store.restore_point(None).unwrap()).unwrap();
    });
}

#[test]
fn a_part_is_there_as_long_as_a_checkpoint_has_it() {
    of_each_kind(|folder| {
        let (first, other) = (Store::open_first(folder).unwrap(), Store::join(folder));
        other.restore(&first.restore_point(None).unwrap()).unwrap();
        let part = other.write_part(HostId(1), &snapshot(9)).unwrap();
        // As of attempts to write the last one that seem to fail.
        for number in 1..4 {
            first.write(number, &snapshot(number), vec![part.clone()]).unwrap();
        }
        assert_eq!(Store::numbers(&**folder).unwrap(), [2, 3]);
        assert!(Store::read_file(&**folder, &Store::name_of(3)).is_ok(), "all of it is there");
        first.clear().unwrap();
        assert!(folder.look_at(&part.name).unwrap().is_none());
    });
}

#[test]
fn numbers_that_no_run_has_given_are_an_error() {
    let memory: Arc<dyn Folder> = Arc::new(Memory::default());
    memory.replace(&Store::name_of(u64::MAX), &[]);
    let error = Store::open_run(&memory).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("no run can have given"), "{error}");
}
