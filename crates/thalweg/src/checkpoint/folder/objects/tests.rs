//! Tests of what an object store does that no directory does: lost answers, large contents, segments.

use super::*;

fn objects() -> (Objects, tempfile::TempDir) {
    let stage = tempfile::tempdir().unwrap();
    (Objects::in_memory(stage.path()), stage)
}

/// All objects, by what is behind the prefix.
fn keys(objects: &Objects) -> Vec<String> {
    let mut found = Vec::new();
    let mut under = vec![objects.prefix.clone()];
    while let Some(key) = under.pop() {
        let Listed { objects: own, folders } = objects.list(&key).wait().unwrap();
        found.extend(own.into_iter().map(|(key, _)| key.to_string()[4..].to_owned()));
        under.extend(folders.into_iter().map(|name| key.clone().join(name)));
    }
    found.sort();
    found
}

/// Bytes that differ from segment to segment.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ at >> 11 ^ at >> 19) as u8).collect()
}

#[test]
fn a_large_content_is_put_before_its_name() {
    let (objects, _stage) = objects();
    let large = bytes(2 * SEGMENT + 77);
    let (name, pieces) =
        ("part-a.state", [&large[..10], &large[10..SEGMENT + 3], &large[SEGMENT + 3..]]);
    let before = std::cell::Cell::new(0);
    let due = |is_due: bool| {
        let (objects, before) = (&objects, &before);
        move || {
            before.set(keys(objects).len());
            assert!(objects.look_at(name).unwrap().is_none(), "it has no name yet");
            is_due
        }
    };
    assert!(!objects.create(name, &pieces, &mut due(false)).unwrap());
    assert_eq!(before.get(), 3, "its content is there");
    assert!(keys(&objects).is_empty(), "it is not left");
    assert!(objects.create(name, &pieces, &mut due(true)).unwrap());
    assert_eq!(objects.look_at(name).unwrap().unwrap().0, large.len() as u64);
    assert!(objects.read(name).unwrap() == large);
    assert_eq!(objects.names().unwrap(), [name]);
    let all = keys(&objects);
    assert_eq!(all.len(), 4);

    // It is created once, and another content of its name is removed.
    let again = objects.create(name, &pieces, &mut || true).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    objects.put_segments(&objects.content_of(name, "other"), 0, &mut &*large).unwrap();
    objects.put_segments(&objects.content_of("part-gone.state", "other"), 0, &mut &*large).unwrap();
    objects.put(objects.key(".checkpointabc"), Vec::new()).wait().unwrap();
    assert_eq!(keys(&objects).len(), 11);
    objects.tidy(&objects.leftovers().unwrap()).unwrap();
    assert_eq!(keys(&objects), all);
    // Of another job, whose prefix is below this one.
    let other = objects.content_of("other job", "spilled-a-0.records");
    objects.put_segments(&other, 0, &mut &b"a"[..]).unwrap();
    objects.tidy(&objects.leftovers().unwrap()).unwrap();
    assert_eq!(keys(&objects).len(), 5);
    // One that has got its name meanwhile.
    let token = objects.token_in(name).unwrap().unwrap();
    objects.tidy(&[format!("{name}{CONTENT}/{token}")]).unwrap();
    assert_eq!(keys(&objects).len(), 5);
    objects.remove_content("other job", "spilled-a-0.records").unwrap();

    // What is torn is read as far as it is there.
    objects.delete([Key::from(format!("a/b/{}", all[2]))]).unwrap();
    assert_eq!(objects.read(name).unwrap().len(), SEGMENT);
    objects.remove(name).unwrap();
    assert!(keys(&objects).is_empty());
}

#[test]
fn large_files_of_spilled_records_are_read_back() {
    let (objects, _stage) = objects();
    let large = bytes(10 * SEGMENT + 5);
    let (name, mut begun, mut at) = ("spilled-a-0.records", false, 0);
    for end in [7, SEGMENT + 7, 2 * SEGMENT, large.len()] {
        at += objects.append(name, at as u64, &mut begun, &mut &large[at..end]).unwrap() as usize;
    }
    for length in [3, 7, SEGMENT, 9 * SEGMENT, large.len()] {
        let local = objects.local(name, length as u64).unwrap();
        assert!(fs::read(local).unwrap()[..length] == large[..length]);
    }
    let error = objects.local(name, large.len() as u64 + 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("is incomplete"), "{error}");
    objects.release(name);
    let first = objects.segments(&objects.key(name)).unwrap().remove(0);
    objects.delete([first.key]).unwrap();
    assert_eq!(objects.look_at(name).unwrap(), Some((0, None)));
}

/// A copy is made while tasks read what is staged.
#[test]
fn what_is_staged_stays_when_it_is_copied() {
    let (objects, _stage) = objects();
    let records = bytes(1000);
    let names = ["spilled-a-0.records", "spilled-b-0.records"];
    for name in names {
        objects.append(name, 0, &mut false, &mut &*records).unwrap();
    }
    let staged = objects.local(names[0], 500).unwrap();
    let copied = |name| {
        let mut copied = Vec::new();
        objects.open(name).unwrap().bytes.read_to_end(&mut copied).unwrap();
        copied
    };
    for name in names {
        assert!(copied(name) == records);
        assert!(fs::read(&staged).unwrap() == records[..500]);
    }
    let whole = objects.local(names[0], 1000).unwrap();
    assert!(copied(names[0]) == records && fs::read(whole).unwrap() == records);
    let all = fs::read_dir(staged.parent().unwrap()).unwrap();
    let names = all.map(|file| file.unwrap().file_name().into_string().unwrap());
    let spilled: Vec<_> = names.filter(|name| is_spilled(name.trim_end_matches(".new"))).collect();
    assert_eq!(spilled, ["spilled-a-0.records"]);
}

#[test]
fn segments_may_overlap_and_what_is_behind_a_gap_does_not_count() {
    let segments = |named: &[(u64, u64)]| {
        let object = |(start, end): &(u64, u64)| (Key::from(name_of(*start, *end)), end - start);
        in_order(named.iter().map(object).collect())
    };
    let spans = |named: &[(u64, u64)], bytes: u64| {
        let segments = segments(named);
        let spans = needed(&segments, bytes).into_iter().map(|it| (it.start, it.end));
        spans.collect::<Vec<_>>()
    };
    let named = [(0, 10), (10, 15), (10, 30), (20, 25), (25, 40), (50, 60)];
    assert_eq!(spans(&named, 100), [(0, 10), (10, 30), (25, 40)]);
    assert_eq!(spans(&named, 30), [(0, 10), (10, 30)]);
    assert_eq!((covered(&segments(&named)), covered(&segments(&named[1..]))), (40, 0));
    assert!(spans(&named, 0).is_empty());
    // Ends are numbers, also where there are more digits.
    let far = 10u64.pow(19);
    assert_eq!(covered(&segments(&[(0, far), (far, far + 1)])), far + 1);
    let torn = vec![(Key::from(name_of(0, 10)), 9), (Key::from("other"), 1)];
    assert!(in_order(torn).is_empty(), "it is shorter than its name says");
}

#[test]
fn an_address_is_checked_and_settings_are_those_of_the_environment() {
    let stage = tempfile::tempdir().unwrap();
    for (url, why) in [
        ("s3://", "recognise"),
        ("ftp://a/b", "ftp"),
        ("file:///a", "S3, Google Cloud Storage and Azure"),
        ("http://a/b", "S3, Google Cloud Storage and Azure"),
        ("s3://a/b?region=c", "environment alone"),
    ] {
        let error = Objects::open(Path::new(url), stage.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}");
        let said = error.to_string();
        assert!(said.contains(url) && said.contains("s3://BUCKET/PREFIX"), "{said}");
        assert!(said.contains(why), "{url}: {said}");
    }
    for url in ["s3://a/b/c", "s3://a/b/c/", "s3://a"] {
        let objects = Objects::open(Path::new(url), stage.path()).unwrap();
        assert_eq!(objects.path(), Path::new(url.trim_end_matches('/')));
        assert_eq!(objects.prefix.as_ref(), url.trim_end_matches('/').get(7..).unwrap_or_default());
    }
}

/// The object is there, as the first try has created it, and the client tries again.
#[test]
fn a_name_is_ours_if_it_has_our_bytes() {
    let (objects, _stage) = objects();
    let key = objects.key("run-0000000001");
    objects.put(key.clone(), b"our token".to_vec()).wait().unwrap();
    objects.put_new(&key, b"our token").unwrap();
    let error = objects.put_new(&key, b"another token").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(objects.read("run-0000000001").unwrap(), b"our token");
}

/// A program may have a runtime of its own.
#[test]
fn a_folder_is_used_and_dropped_within_another_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let (objects, _stage) = objects();
        objects.create("a", &[b"b"], &mut || true).unwrap();
        assert_eq!(objects.read("a").unwrap(), b"b");
    });
}
