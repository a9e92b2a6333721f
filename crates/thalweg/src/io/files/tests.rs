//! Reading from paths to lines, compared with an oracle that reads each file whole.

use std::fs;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::{ErrorKind, Place, Result};

/// The lines of a whole file, with the offset of each, by the simplest means.
fn oracle(content: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let skipped = if content.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut start = skipped;
    for (at, &byte) in content.iter().enumerate().skip(skipped) {
        if byte != b'\n' {
            line.push(byte);
            continue;
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        lines.push((start as u64, std::mem::take(&mut line)));
        start = at + 1;
    }
    if !line.is_empty() {
        lines.push((start as u64, line));
    }
    lines
}

/// All lines of all splits in order; checks every block.
fn read_bytes(
    files: &[InputFile],
    splits: &[Split],
    sizes: BlockSizes,
) -> Result<Vec<(usize, Vec<u8>)>> {
    let mut lines = Vec::new();
    let mut reader: Option<ByteBlocks> = None;
    for &split in splits {
        let file = &files[split.file];
        match &mut reader {
            Some(reader) => reader.reopen(file, split)?,
            None => reader = Some(ByteBlocks::open(file, split, sizes)?),
        }
        let blocks = reader.as_mut().expect("opened above");
        let mut before = blocks.consumed();
        assert_eq!(before, 0);
        while let Some(block) = blocks.next_block()? {
            assert!(!block.bytes.is_empty());
            assert_eq!(block.lines().count(), block.count_lines());
            lines.extend(block.lines().map(|line| (split.file, line.to_vec())));
            let consumed = blocks.consumed();
            assert!(before <= consumed && consumed <= split.bytes());
            before = consumed;
        }
        assert_eq!(blocks.consumed(), split.bytes());
        assert!(blocks.next_block()?.is_none(), "the end stays the end");
    }
    Ok(lines)
}

fn read_text(file: &InputFile, splits: &[Split], sizes: BlockSizes) -> Result<Vec<(u64, String)>> {
    let mut lines = Vec::new();
    for &split in splits {
        let mut blocks = LineBlocks::open(file, split, sizes, Utf8::Stop)?;
        while let Some(block) = blocks.next_block()? {
            assert_eq!(block.lines().count(), block.count_lines());
            let start = block.text.as_ptr() as usize;
            for line in block.lines() {
                // The line's offset follows from that of the block.
                let at = block.offset + (line.as_ptr() as usize - start) as u64;
                lines.push((at, line.to_owned()));
            }
        }
    }
    Ok(lines)
}

fn file(path: &Path) -> InputFile {
    expand_inputs([path]).unwrap().remove(0)
}

fn whole(file: &InputFile) -> Split {
    Split { file: 0, start: 0, end: file.bytes }
}

fn sizes(block_bytes: usize) -> BlockSizes {
    BlockSizes { block_bytes, ..BlockSizes::default() }
}

fn compress(content: &[u8], compression: Compression) -> Vec<u8> {
    match compression {
        Compression::None => content.to_vec(),
        Compression::Gzip => {
            let level = flate2::Compression::fast();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => {
            use ruzstd::encoding::{CompressionLevel, compress_to_vec};
            compress_to_vec(content, CompressionLevel::Fastest)
        }
    }
}

fn write(dir: &Path, number: usize, content: &[u8], compression: Compression) -> InputFile {
    let ending = match compression {
        Compression::None => "txt",
        Compression::Gzip => "gz",
        Compression::Zstd => "zst",
    };
    let path = dir.join(format!("{number}.{ending}"));
    fs::write(&path, compress(content, compression)).unwrap();
    file(&path)
}

/// Text in which difficult cases at the borders of splits are frequent.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just("\n"), 2 => Just("\r"), 2 => Just("\r\n"), 3 => Just("a"), 1 => Just("word"),
        1 => Just("ü"), 1 => Just("€"), 1 => Just("🦀"), 1 => Just("\u{feff}"),
    ];
    let long = prop_oneof![9 => Just(0usize), 1 => 0..200usize];
    (prop::collection::vec(piece, 0..60), long, any::<prop::sample::Index>()).prop_map(
        |(mut pieces, long, at)| {
            // Sometimes a line longer than any buffer.
            let at = at.index(pieces.len() + 1);
            pieces.splice(at..at, std::iter::repeat_n("x", long));
            pieces.concat()
        },
    )
}

/// Cuts `bytes` at these places.
fn cut(bytes: u64, places: &[prop::sample::Index]) -> Vec<Split> {
    let mut places: Vec<u64> =
        places.iter().map(|place| place.index(bytes as usize + 1) as u64).collect();
    places.extend([0, bytes]);
    places.sort_unstable();
    places.windows(2).map(|w| Split { file: 0, start: w[0], end: w[1] }).collect()
}

proptest! {
    #[test]
    fn every_line_once_however_it_is_split(
        text in text(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        block in 1..64usize,
        split_bytes in prop_oneof![Just(1u64), 1..100u64],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let file = write(dir.path(), 0, text.as_bytes(), Compression::None);
        let expected: Vec<_> = oracle(text.as_bytes())
            .into_iter()
            .map(|(at, line)| (at, String::from_utf8(line).unwrap()))
            .collect();
        let files = std::slice::from_ref(&file);
        for splits in [cut(file.bytes, &places), plan_splits(files, split_bytes)] {
            prop_assert_eq!(&read_text(&file, &splits, sizes(block)).unwrap(), &expected);
            let bytes = read_bytes(files, &splits, sizes(block)).unwrap();
            let plain = |(_, line): &(u64, String)| (0, line.clone().into_bytes());
            prop_assert_eq!(bytes, expected.iter().map(plain).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_line_of_every_file_once(
        contents in prop::collection::vec(
            (text(), prop::sample::select(vec![Compression::None, Compression::Gzip, Compression::Zstd])),
            1..5,
        ),
        instances in 1..6usize,
        min in 1..50u64,
        block in 1..64usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut expected = Vec::new();
        for (number, (text, compression)) in contents.iter().enumerate() {
            write(dir.path(), number, text.as_bytes(), *compression);
            expected.extend(oracle(text.as_bytes()).into_iter().map(|(_, line)| (number, line)));
        }
        let files = expand_inputs([dir.path()]).unwrap();
        let planned = plan_splits(&files, min);
        prop_assert_eq!(&read_bytes(&files, &planned, sizes(block)).unwrap(), &expected);
        // Sorted by file and offset again, since the instances read files in any order.
        let mut assigned = assign_splits(&files, instances, min).concat();
        assigned.sort_by_key(|split| (split.file, split.start));
        prop_assert_eq!(&read_bytes(&files, &assigned, sizes(block)).unwrap(), &expected);
    }

    #[test]
    fn bytes_that_are_not_text(
        content in prop::collection::vec(prop_oneof![2 => Just(b'\n'), 3 => any::<u8>()], 0..80),
        block in 1..64usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let file = write(dir.path(), 0, &content, Compression::None);
        let lines = oracle(&content);

        let mut blocks = LineBlocks::open(&file, whole(&file), sizes(block), Utf8::Replace).unwrap();
        let mut replaced = Vec::new();
        while let Some(block) = blocks.next_block().unwrap() {
            replaced.extend(block.lines().map(str::to_owned));
        }
        let lossy = |(_, line): &(u64, Vec<u8>)| String::from_utf8_lossy(line).into_owned();
        prop_assert_eq!(replaced, lines.iter().map(lossy).collect::<Vec<_>>());

        let stopped = read_text(&file, &[whole(&file)], sizes(block));
        match std::str::from_utf8(&content) {
            Ok(_) => prop_assert_eq!(stopped.unwrap().len(), lines.len()),
            Err(bad) => {
                let error = stopped.unwrap_err();
                prop_assert_eq!(error.kind(), ErrorKind::Input);
                let place = Place::Offset(file.path.clone(), bad.valid_up_to() as u64);
                prop_assert_eq!(error.place(), Some(&place));
            }
        }
    }

    #[test]
    fn line_numbers_are_counted(text in text(), at in any::<prop::sample::Index>()) {
        let dir = tempfile::tempdir().unwrap();
        let at = at.index(text.len() + 1);
        let line = 1 + text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count() as u64;
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let file = write(dir.path(), 0, text.as_bytes(), compression);
            let count = |at| line_number_at(&file.path, compression, at);
            prop_assert_eq!(count(at as u64).unwrap(), line);
            let past = count(text.len() as u64 + 1).unwrap_err();
            prop_assert_eq!(past.kind(), ErrorKind::Input);
        }
    }
}

#[test]
fn larger_than_the_buffer_with_default_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..100_000).map(|n| format!("{n} {}", "é".repeat(n % 40))).collect();
    let content = lines.join("\r\n");
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let file = write(dir.path(), 0, content.as_bytes(), compression);
        for split_bytes in [999_983, u64::MAX] {
            let splits = plan_splits(std::slice::from_ref(&file), split_bytes);
            let read = read_text(&file, &splits, BlockSizes::default()).unwrap();
            assert!(read.iter().map(|(_, line)| line).eq(&lines), "{compression:?}");
        }
    }
}

#[test]
fn a_long_line_grows_the_buffer_up_to_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    for ending in ["", "\n", "\nshort"] {
        for length in [4095usize, 4096, 4097] {
            let content = format!("first\n{}{ending}", "x".repeat(length));
            let file = write(dir.path(), 0, content.as_bytes(), Compression::None);
            let sizes = BlockSizes { block_bytes: 16, max_line_bytes: 4096 };
            for split_bytes in [1, 100, 10_000] {
                let splits = plan_splits(std::slice::from_ref(&file), split_bytes);
                let read = read_text(&file, &splits, sizes);
                if length <= 4096 {
                    assert_eq!(read.unwrap()[1], (6, "x".repeat(length)));
                    continue;
                }
                let error = read.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Input);
                assert_eq!(error.place(), Some(&Place::Offset(file.path.clone(), 6)));
                assert_eq!(error.message(), "a line that begins here is longer than 4096 bytes");
            }
        }
    }
}

#[test]
fn a_reader_within_a_long_line_needs_no_buffer_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let content = format!("{}\nlast", "x".repeat(100_000));
    let file = write(dir.path(), 0, content.as_bytes(), Compression::None);
    let sizes = BlockSizes { block_bytes: 64, max_line_bytes: 64 };
    let split = Split { file: 0, start: 1, end: file.bytes };
    assert_eq!(read_text(&file, &[split], sizes).unwrap(), [(100_001, "last".to_owned())]);
}

#[test]
fn the_buffer_keeps_its_size_on_ordinary_lines() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), 0, "ten bytes\n".repeat(1000).as_bytes(), Compression::None);
    let mut blocks = ByteBlocks::open(&file, whole(&file), sizes(64)).unwrap();
    let mut lengths = Vec::new();
    while let Some(block) = blocks.next_block().unwrap() {
        lengths.push(block.bytes.len());
    }
    lengths.pop();
    assert!(lengths.iter().all(|&bytes| bytes > 50), "full blocks but for the last: {lengths:?}");
    assert_eq!(blocks.buffer_bytes(), 64);
}

#[test]
fn little_is_read_past_the_end_of_a_split() {
    let dir = tempfile::tempdir().unwrap();
    let content = "a line of some bytes\n".repeat(100_000);
    let file = write(dir.path(), 0, content.as_bytes(), Compression::None);
    let split = Split { file: 0, start: 0, end: 1000 };
    let mut blocks = ByteBlocks::open(&file, split, BlockSizes::default()).unwrap();
    while blocks.next_block().unwrap().is_some() {}
    assert!(blocks.reader.position() <= 1000 + (4 << 10), "{}", blocks.reader.position());
}

#[test]
fn a_byte_order_mark_is_dropped_at_the_start_only() {
    let dir = tempfile::tempdir().unwrap();
    for content in
        ["\u{feff}", "\u{feff}a\nb", "\u{feff}\n\u{feff}\n", "\u{feff}\n", "a\u{feff}\nb"]
    {
        let expected: Vec<&str> =
            content.strip_prefix('\u{feff}').unwrap_or(content).lines().collect();
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let file = write(dir.path(), 0, content.as_bytes(), compression);
            let splits = plan_splits(std::slice::from_ref(&file), 1);
            let read = read_text(&file, &splits, sizes(1)).unwrap();
            assert!(read.iter().map(|(_, line)| line).eq(&expected), "{content:?} {read:?}");
        }
    }
}

#[test]
fn bad_bytes_are_named_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let said = |content: &[u8]| {
        let file = write(dir.path(), 0, content, Compression::None);
        let mut blocks = LineBlocks::open(&file, whole(&file), sizes(8), Utf8::Stop).unwrap();
        let error = loop {
            match blocks.next_block() {
                Ok(block) => assert!(block.is_some(), "no error"),
                Err(error) => break error,
            }
        };
        assert_eq!(blocks.next_block().unwrap_err().kind(), ErrorKind::Internal, "not read on");
        error.to_string().strip_prefix(file.path.to_str().unwrap()).unwrap().to_owned()
    };
    assert_eq!(said(b"good\nbetter\nb\xff\xfed\n"), " at byte 13: not UTF-8: the byte ff");
    // A character of four bytes without its last one, then one that the end of the file cuts.
    assert_eq!(said(b"a\n\xf0\x9f\xa6x\n"), " at byte 2: not UTF-8: the bytes f0 9f a6");
    assert_eq!(said(b"a\n\xf0\x9f\xa6"), " at byte 2: not UTF-8: the bytes f0 9f a6");
    let hint = said(b"\xff\xfea\0\n\0");
    assert_eq!(hint, " at byte 0: not UTF-8: the byte ff; the file seems to be UTF-16");
    assert!(said(&compress(b"packed", Compression::Gzip)).ends_with("must end in .gz"));
    assert!(said(&compress(b"packed", Compression::Zstd)).ends_with("must end in .zst"));
}

#[test]
fn a_file_cut_while_it_is_read_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let content = "some line\n".repeat(100);
    // Truncated before the first block and after it; within the split and before it.
    for (read_before, left, start) in
        [(false, 500, 0), (true, 500, 0), (false, 500, 700), (false, 0, 0)]
    {
        let file = write(dir.path(), 0, content.as_bytes(), Compression::None);
        let split = Split { file: 0, start, end: 1000 };
        let mut blocks = ByteBlocks::open(&file, split, sizes(64)).unwrap();
        if read_before {
            blocks.next_block().unwrap().unwrap();
        }
        fs::File::options().write(true).open(&file.path).unwrap().set_len(left).unwrap();
        let error = loop {
            match blocks.next_block() {
                Ok(block) => assert!(block.is_some(), "no error"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.message().contains("had 1000 bytes when it was listed"), "{error}");
    }
    // The file was removed.
    let file = write(dir.path(), 0, content.as_bytes(), Compression::None);
    fs::remove_file(&file.path).unwrap();
    let error = ByteBlocks::open(&file, whole(&file), sizes(64)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn of_what_is_appended_only_the_rest_of_the_last_line_is_read() {
    let dir = tempfile::tempdir().unwrap();
    for (before, appended, expected) in
        [("one\ntw", "o\nthree\n", &["one", "two"][..]), ("one\ntwo\n", "three\n", &["one", "two"])]
    {
        let file = write(dir.path(), 0, before.as_bytes(), Compression::None);
        let mut grown = fs::File::options().append(true).open(&file.path).unwrap();
        grown.write_all(appended.as_bytes()).unwrap();
        let read = read_text(&file, &[whole(&file)], BlockSizes::default()).unwrap();
        assert!(read.iter().map(|(_, line)| line).eq(expected), "{read:?}");
    }
}

#[test]
fn a_damaged_archive_is_an_error_after_its_good_lines() {
    let dir = tempfile::tempdir().unwrap();
    let content: String = (0..200_000).map(|n| format!("{n}\n")).collect();
    for (compression, name) in [(Compression::Gzip, "f.gz"), (Compression::Zstd, "f.zst")] {
        let mut packed = compress(content.as_bytes(), compression);
        packed.truncate(packed.len() / 2);
        let path = dir.path().join(name);
        fs::write(&path, packed).unwrap();
        let error = read_text(&file(&path), &[whole(&file(&path))], sizes(1000)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(matches!(error.place(), Some(Place::Offset(p, at)) if *p == path && *at > 0));
    }
    // An empty file is not a valid archive.
    for name in ["empty.gz", "empty.zst"] {
        let path = dir.path().join(name);
        fs::write(&path, "").unwrap();
        let files = [file(&path)];
        let error = read_bytes(&files, &plan_splits(&files, 100), sizes(10)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
    }
}

#[test]
fn a_compressed_file_that_is_cut_gives_each_line_once() {
    let dir = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..500).map(|n| format!("{n:03} of many lines")).collect();
    let text = lines.join("\n");
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let file = write(dir.path(), 0, text.as_bytes(), compression);
        let whole = plan_splits(std::slice::from_ref(&file), u64::MAX)[0];
        // Also at a line's first byte, at its end, and beyond the last line.
        for at in [1, 18, 19, 20, 5000, text.len() as u64 - 1, text.len() as u64 + 5] {
            let (first, rest) = whole.cut(&file, at);
            let mut found = Vec::new();
            for split in std::iter::once(first).chain(rest) {
                let mut blocks = ByteBlocks::open(&file, split, BlockSizes::default()).unwrap();
                while let Some(block) = blocks.next_block().unwrap() {
                    found.extend(
                        block.lines().map(|line| String::from_utf8_lossy(line).into_owned()),
                    );
                }
            }
            assert_eq!(found, lines, "{compression:?}, cut at {at}");
        }
    }
}

#[test]
fn a_split_that_is_not_one_of_the_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let plain = write(dir.path(), 0, b"some bytes", Compression::None);
    let packed = write(dir.path(), 1, b"some bytes", Compression::Gzip);
    let end = packed.bytes;
    for (file, start, end) in [(&plain, 0, 11), (&plain, 6, 5), (&packed, end, end - 1)] {
        let split = Split { file: 0, start, end };
        let error = ByteBlocks::open(file, split, BlockSizes::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}
