//! CSV read by the source, compared with the CSV library's parser on the whole file.

use super::*;
use crate::Data;
use crate::config::{Config, Scheduler};
use proptest::prelude::*;
use serde::Deserialize;
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, PartialOrd, Deserialize, Data)]
struct Row {
    name: String,
    amount: i32,
}

fn environment(cores: usize, scheduler: Scheduler) -> Environment {
    let config = Config { cores: cores.try_into().unwrap(), scheduler, ..Config::default() };
    Environment::with_config(config)
}

fn file(content: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.csv");
    fs::write(&path, content).unwrap();
    (dir, path)
}

/// Line, text and error.
type Bad = (u64, String, String);

/// All rows, and the bad ones with line, text and error.
fn read(env: &Environment, csv: Csv) -> Result<(Vec<Row>, Vec<Bad>)> {
    let (rows, bad) = env.csv::<Row>(csv).dead_letters();
    let (rows, bad) = (rows.collect::<Vec<_>>(), bad.collect::<Vec<_>>());
    env.run()?;
    let bad = bad.take()?;
    let mut bad: Vec<_> =
        bad.into_iter().map(|bad| (bad.line, bad.text().into_owned(), bad.error)).collect();
    bad.sort();
    let mut rows = rows.take()?;
    rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
    Ok((rows, bad))
}

/// The same, read by the library alone over the whole file.
fn oracle(path: &Path) -> (Vec<Row>, usize) {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let (mut rows, mut bad) = (Vec::new(), 0);
    for row in reader.deserialize() {
        match row {
            Ok(row) => rows.push(row),
            Err(_) => bad += 1,
        }
    }
    rows.sort_by(|a: &Row, b| a.partial_cmp(b).unwrap());
    (rows, bad)
}

fn rows(field: &'static str) -> impl Strategy<Value = String> {
    let row = prop_oneof![
        6 => (field, any::<i32>()).prop_map(|(name, n)| {
            format!("\"{}\",{n}", name.replace('"', "\"\""))
        }),
        1 => Just(String::new()),
        1 => Just("a,b,c".to_owned()),
        1 => Just("x,many".to_owned()),
    ];
    let end = prop_oneof![Just("\n"), Just("\r\n")];
    (prop::collection::vec(row, 0..25), end, any::<bool>()).prop_map(|(rows, end, mark)| {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}name,amount{end}{}", rows.join(end))
    })
}

proptest! {
    #[test]
    fn whole_files_as_the_crate_reads_them(
        text in rows("[a-cü\",\n\r]{0,9}"), cores in 1..3usize, seed in any::<u64>(),
    ) {
        let (_dir, path) = file(&text);
        let (expected, bad_count) = oracle(&path);
        let env = environment(cores, Scheduler::Deterministic { seed });
        let (rows, bad) = read(&env, Csv::new(&path)).unwrap();
        prop_assert_eq!(rows, expected);
        prop_assert_eq!(bad.len(), bad_count);
        for (line, text_of_row, _) in bad {
            // A row without line breaks of its own is on the line that the error names.
            let found = text.split('\n').nth(line as usize - 1).unwrap();
            prop_assert_eq!(found.trim_end_matches('\r').trim_start_matches('\u{feff}'), text_of_row);
        }
    }

    #[test]
    fn divided_files_as_the_crate_reads_them(
        text in rows("[a-cü\",]{0,9}"), cores in 1..4usize, seed in any::<u64>(), split in 1..150u64,
    ) {
        let (_dir, path) = file(&text);
        let (expected, bad_count) = oracle(&path);
        let env = environment(cores, Scheduler::Deterministic { seed });
        let csv = Csv::new(&path).one_line_rows(true).split_bytes(split);
        let (rows, bad) = read(&env, csv).unwrap();
        prop_assert_eq!(rows, expected);
        prop_assert_eq!(bad.len(), bad_count);
        for (line, text_of_row, _) in bad {
            prop_assert_eq!(text.lines().nth(line as usize - 1).unwrap(), text_of_row);
        }
    }

    #[test]
    fn any_bytes_are_as_many_rows_as_for_the_crate(
        bytes in prop::collection::vec(prop::sample::select(&b"\",\n\r1a\xff\\ "[..]), 0..60),
        trim in any::<bool>(),
    ) {
        let text = [b"name,amount\n", &bytes[..]].concat();
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(&text[..]);
        let expected = reader.byte_records().count();
        let (_dir, path) = file(&text);
        let env = environment(1, Scheduler::WorkStealing);
        let (rows, bad) = read(&env, Csv::new(&path).trim(trim)).unwrap();
        prop_assert_eq!(rows.len() + bad.len(), expected);
    }

    #[test]
    fn a_broken_promise_never_passes(
        names in prop::collection::vec("[a-c]{0,4}", 0..12), at in any::<prop::sample::Index>(),
        split in 1..100u64, tail in "[a-c]{0,3}", text in any::<bool>(),
    ) {
        let mut rows: Vec<_> = names.iter().map(|name| format!("{name},1").into_bytes()).collect();
        let at = at.index(rows.len() + 1);
        // Also if the row is bad for another reason.
        let first = if text { b'a' } else { 0xff };
        rows.insert(at, [b"\"", &[first], &b"\n"[..], tail.as_bytes(), b"\",2"].concat());
        let (_dir, path) = file([b"name,amount\n", &rows.join(&b'\n')[..], b"\n"].concat());
        let env = environment(2, Scheduler::Deterministic { seed: split });
        let csv = Csv::new(&path).one_line_rows(true).split_bytes(split);
        let error = read(&env, csv).unwrap_err();
        prop_assert_eq!(error.kind(), ErrorKind::Input);
        prop_assert!(error.to_string().contains("`one_line_rows` promised"), "{}", error);
    }
}

#[test]
fn many_files_compressed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for number in 0..7 {
        // Each file has its own order of columns.
        let mut text =
            String::from(if number % 2 == 0 { "name,amount\n" } else { "amount,name\n" });
        for amount in 0..5000 {
            let name = format!("{number}\n{amount}");
            text += &match number % 2 {
                0 => format!("\"{name}\",{amount}\n"),
                _ => format!("{amount},\"{name}\"\n"),
            };
            expected.push(Row { name, amount });
        }
        if number == 3 {
            let level = flate2::Compression::fast();
            let path = dir.path().join("3.csv.gz");
            let mut out = flate2::write::GzEncoder::new(fs::File::create(path).unwrap(), level);
            io::Write::write_all(&mut out, text.as_bytes()).unwrap();
            out.finish().unwrap();
        } else {
            fs::write(dir.path().join(format!("{number}.csv")), text).unwrap();
        }
    }
    expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
    for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
        let env = environment(3, scheduler);
        let (rows, bad) = read(&env, Csv::new(dir.path())).unwrap();
        assert!(bad.is_empty());
        assert!(rows == expected, "{} rows", rows.len());
    }
}

fn failure(csv: Csv) -> Error {
    let env = Environment::new();
    let _count = env.csv::<Row>(csv).count().collect_one();
    let error = env.run().unwrap_err();
    assert!(error.operator().unwrap().starts_with("csv ("), "{error}");
    error
}

#[test]
fn a_bad_row_stops_the_job_with_place_column_and_text() {
    let (_dir, path) = file("name,amount\r\n\r\n\"two\r\nlines\",1\r\nACME,12x\r\n");
    let error = failure(Csv::new(&path));
    assert_eq!(error.kind(), ErrorKind::Input);
    assert_eq!(error.place(), Some(&Place::Line(path, 5)));
    assert_eq!(error.message(), "column `amount`: invalid digit found in string, in `ACME,12x`");

    let (_dir, path) = file("ACME,1\nACME,12x,7\n");
    let error = failure(Csv::new(&path).has_header(false));
    assert_eq!(error.place(), Some(&Place::Line(path.clone(), 2)));
    assert_eq!(error.message(), "3 fields, not 2, in `ACME,12x,7`");
    let error = failure(Csv::new(&path).has_header(false).flexible(true));
    assert_eq!(error.message(), "column 2: invalid digit found in string, in `ACME,12x,7`");

    let (_dir, path) = file(b"name,amount\na,1\n\xff,2\n");
    let error = failure(Csv::new(&path));
    assert_eq!(error.place(), Some(&Place::Line(path, 3)));
    assert_eq!(error.message(), "column `name`: not UTF-8, in `\u{fffd},2`");
}

/// The message of a job that counts the rows of a file as this type; the place must be the header.
fn refused<T: for<'de> Deserialize<'de> + 'static>(csv: Csv) -> String {
    let env = Environment::new();
    // Bad rows are diverted: a header is not one of them.
    let (rows, bad) = env.csv::<T>(csv).dead_letters();
    rows.map(drop).for_each(drop);
    bad.for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    assert!(matches!(error.place(), Some(Place::Line(_, 1))), "{error}");
    error.message().to_owned()
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only its fields' names and types matter")]
struct Lenient {
    name: String,
    amount: Option<i32>,
    #[serde(default)]
    tags: String,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only its fields' names and types matter")]
struct Aliased {
    name: String,
    #[serde(alias = "cost", alias = "price")]
    amount: i32,
    note: Option<String>,
}

#[test]
fn a_field_without_a_column_is_told_with_the_columns_that_there_are() {
    let allows = " (`Csv::optional_columns` allows that for fields that serde can do without)";
    let (_dir, path) = file("name,amuont,tags\na,1,x\n");
    let said = "no column for `amount`; the columns are `name`, `amuont`, `tags`";
    assert_eq!(refused::<Lenient>(Csv::new(&path)), format!("{said}{allows}"));
    assert_eq!(refused::<Row>(Csv::new(&path)), format!("{said}{allows}"));
    let optional = || Csv::new(&path).optional_columns(true);
    assert_eq!(refused::<Row>(optional()), said, "serde cannot do without");
    let env = Environment::new();
    let rows = env.csv::<Lenient>(optional()).map(|row| row.amount).collect::<Vec<_>>();
    env.run().unwrap();
    assert_eq!(rows.take().unwrap(), [None]);

    let (_dir, path) = file("name,tag\na,x\n");
    let said = "no column for `amount`, `tags`; the columns are `name`, `tag`";
    assert_eq!(refused::<Lenient>(Csv::new(&path)), format!("{said}{allows}"));
    // A row that ends early is not an error of the header.
    let (_dir, path) = file("name,amount\na\n");
    let error = failure(Csv::new(&path).flexible(true));
    assert_eq!(
        (error.place(), error.message()),
        (Some(&Place::Line(path, 2)), "expected field, but got end of row, in `a`")
    );
}

#[test]
fn one_column_is_enough_for_a_field_of_several_names() {
    for (header, works) in [("name,price", true), ("amount,name", true), ("name,prize", false)] {
        let (_dir, path) = file(format!("{header}\n1,1\n"));
        let env = Environment::new();
        env.csv::<Aliased>(&path).map(drop).for_each(drop);
        assert_eq!(env.run().is_ok(), works, "{header}");
        if !works {
            let said = "no column for `amount`; the columns are `name`, `prize`";
            assert_eq!(refused::<Aliased>(Csv::new(&path)), said);
        }
    }
}

#[test]
fn a_file_without_a_header_loses_no_row_unseen() {
    let (_dir, path) = file("ann,31\nbob,29\n");
    let said = "no column for `name`, `amount`; the columns are `ann`, `31` (`Csv::without_header` reads a file whose \
                first row is a record)";
    assert_eq!(refused::<Row>(Csv::new(&path)), said);
    let (rows, bad) = read(&Environment::new(), Csv::new(&path).without_header()).unwrap();
    assert_eq!((rows.len(), bad.len()), (2, 0));

    let said = refused::<(String, u32)>(Csv::new(&path));
    assert!(
        said.starts_with("the first row reads as a record: `ann`, `31`; `Csv::without"),
        "{said}"
    );
    let count = |csv: Csv| {
        let env = Environment::new();
        let rows = env.csv::<(String, u32)>(csv).count().collect_one();
        env.run().and_then(|()| rows.take()).unwrap().unwrap()
    };
    assert_eq!(count(Csv::new(&path).has_header(true)), 1);
    assert_eq!(count(Csv::new(&path).has_header(false)), 2);
    let (_dir, path) = file("name,age\nann,31\n");
    assert_eq!(count(Csv::new(&path)), 1);
    // Any text is a valid name.
    let env = Environment::new();
    let names = env.csv::<(String, String)>(&path).count().collect_one();
    env.run().unwrap();
    assert_eq!(names.take().unwrap(), Some(1));
}

#[test]
fn a_quote_that_is_never_closed_is_found_out() {
    let text = format!("name,amount\na,1\n\"open,2\n{}", "b,3\n".repeat(100_000));
    let (_dir, path) = file(text);
    let error = failure(Csv::new(&path).max_row_bytes(1000));
    assert_eq!(error.place(), Some(&Place::Line(path, 3)));
    assert!(error.message().contains("is a quote never closed?"), "{error}");
}

#[test]
fn dialects() {
    let (_dir, path) = file("name ; amount\n 'a;''b' ; 1 \n");
    let csv = Csv::new(&path).delimiter(b';').quote(Some(b'\'')).trim(true);
    // A quote counts only at the start of a field, so the blank before it makes it text.
    let (rows, bad) = read(&Environment::new(), csv).unwrap();
    assert_eq!((rows.len(), bad[0].2.as_str()), (0, "3 fields, not 2"));

    let (_dir, path) = file("name;amount\n'a;''b';1\n");
    let csv = Csv::new(&path).delimiter(b';').quote(Some(b'\''));
    let (rows, _) = read(&Environment::new(), csv).unwrap();
    assert_eq!(rows, [Row { name: "a;'b".into(), amount: 1 }]);

    let (_dir, path) = file("name,amount\n\"a\\\"b\",1\n\"c,2\n");
    let csv = Csv::new(&path).escape(Some(b'\\'));
    let (rows, _) = read(&Environment::new(), csv).unwrap();
    assert_eq!(rows[0].name, "a\"b");
    let (rows, _) = read(&Environment::new(), Csv::new(&path).quote(None)).unwrap();
    assert_eq!(rows[0].name, "\"a\\\"b\"");
}

#[test]
fn nothing_in_nothing_out() {
    for content in ["", "\n", "name,amount", "name,amount\n"] {
        for one_line_rows in [false, true] {
            let (_dir, path) = file(content);
            let csv = Csv::new(&path).one_line_rows(one_line_rows).split_bytes(3);
            let (rows, bad) = read(&Environment::new(), csv).unwrap();
            assert!(rows.is_empty() && bad.is_empty(), "{content:?}");
        }
    }
}

/// The first row may begin in a later piece of the file than the first.
#[test]
fn empty_lines_before_the_header_are_no_rows() {
    for before in
        ["", "\n", "\n\r\n\n\n\n\n", "\u{feff}\n\n\n\n\n\n\n", "\r\r\r\r\r\r\r", "\u{feff}"]
    {
        let (_dir, path) = file(format!("{before}name,amount\n\nx,1\n"));
        for split in [1, 2, 3, 5, 100] {
            for one_line_rows in [false, true] {
                let csv = Csv::new(&path).one_line_rows(one_line_rows).split_bytes(split);
                let found = read(&Environment::new(), csv).unwrap();
                assert_eq!(found, (vec![Row { name: "x".to_owned(), amount: 1 }], vec![]));
                let csv = Csv::new(&path).one_line_rows(one_line_rows).split_bytes(split);
                let texts = Environment::new();
                let out = texts.csv::<(String, String)>(csv).collect::<Vec<_>>();
                texts.run().unwrap();
                assert_eq!(out.take().unwrap(), [("x".to_owned(), "1".to_owned())]);
            }
        }
    }
}

#[test]
fn a_quote_left_open_swallows_no_row_unseen() {
    for (text, closed) in [
        ("a,b\n1,\"x\n2,y\n", false),
        ("a,b\n1,\"x", false),
        ("a,b\n1,\"x\"\"", false),
        ("a,b\n1,\"x\"\"\"", true),
        ("a,b\n1,5\" pipe", true),
        ("a,b\n1,\"x\"", true),
        ("a,b\n\"1\",x\"", true),
    ] {
        let (_dir, path) = file(text);
        for one_line_rows in [false, true] {
            let env = Environment::new();
            let csv = Csv::new(&path).one_line_rows(one_line_rows);
            let count = env.csv::<(u32, String)>(csv).count().collect_one();
            assert_eq!(env.run().is_ok(), closed, "{text:?}");
            assert_eq!(count.take().is_ok(), closed);
        }
    }
}

#[test]
fn bad_records_need_somewhere_to_go() {
    let (_dir, path) = file("name,amount\n");
    let env = Environment::new();
    let (rows, bad) = env.csv::<Row>(&path).dead_letters();
    let _count = rows.count().collect_one();
    drop(bad);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.operator().unwrap().starts_with("dead_letters ("), "{error}");
}

#[test]
fn many_bad_rows_get_past_a_slow_receiver() {
    let text: String =
        (0..50_000).map(|n| format!("x{n},{}\n", if n % 2 == 0 { "1" } else { "?" })).collect();
    let (_dir, path) = file(text);
    for scheduler in [Scheduler::WorkStealing, Scheduler::Deterministic { seed: 4 }] {
        let config = Config { scheduler, credit: 100, ..Config::default() };
        let env = Environment::with_config(config);
        let csv = Csv::new(&path).has_header(false).one_line_rows(true).split_bytes(10_000);
        let (rows, bad) = read(&env, csv).unwrap();
        assert_eq!((rows.len(), bad.len()), (25_000, 25_000));
        assert!(bad.iter().map(|bad| bad.0).eq((1..=25_000).map(|n| 2 * n)));
    }
}

#[test]
fn a_mark_within_a_file_is_text() {
    let text = "name,amount\n\u{feff}a,1\n\u{feff},x\n\u{feff}b,2\n";
    let (_dir, path) = file(text);
    for split in 1..40 {
        let env = environment(1, Scheduler::Deterministic { seed: split });
        let csv = Csv::new(&path).one_line_rows(true).split_bytes(split);
        let (rows, bad) = read(&env, csv).unwrap();
        let names: Vec<_> = rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["\u{feff}a", "\u{feff}b"], "splits of {split}");
        assert_eq!((bad[0].0, &*bad[0].1), (3, "\u{feff},x"), "splits of {split}");
    }
}

#[test]
fn a_file_has_one_mark_and_what_follows_is_text() {
    let (_dir, path) = file("\u{feff}\u{feff}a,1\n\u{feff}b,2\n");
    for one_line_rows in [false, true] {
        let env = environment(1, Scheduler::Deterministic { seed: 0 });
        let csv = Csv::new(&path).has_header(false).one_line_rows(one_line_rows);
        let (rows, bad) = read(&env, csv).unwrap();
        let names: Vec<_> = rows.iter().map(|row| &*row.name).collect();
        assert_eq!((names, bad.len()), (vec!["\u{feff}a", "\u{feff}b"], 0), "{one_line_rows}");
    }
}

#[test]
fn the_first_row_after_a_mark_is_a_row_like_others() {
    for mark in ["", "\u{feff}"] {
        for (text, expected) in [
            ("\"a,\"\n", vec!["a,"]),
            ("\"a,\"", vec!["a,"]),
            ("\"\"", vec![""]),
            ("\"a\r\n,\"\r\n\"b\"\"\"\r\n", vec!["a\r\n,", "b\""]),
            ("a\n", vec!["a"]),
            ("", vec![]),
        ] {
            let (dir, _) = file(format!("{mark}{text}"));
            // Between files without a byte order mark.
            fs::write(dir.path().join("a.csv"), "").unwrap();
            fs::write(dir.path().join("g.csv"), "last\n").unwrap();
            let level = flate2::Compression::fast();
            let packed = fs::File::create(dir.path().join("h.csv.gz")).unwrap();
            let mut packed = flate2::write::GzEncoder::new(packed, level);
            // A gzip member for each byte: the first read does not return the whole mark.
            for byte in format!("{mark}{text}").bytes() {
                io::Write::write_all(&mut packed, &[byte]).unwrap();
                let file = packed.finish().unwrap();
                packed = flate2::write::GzEncoder::new(file, level);
            }
            packed.finish().unwrap();
            let one_line = !text.contains("\r\n,");
            for split in (1..20).filter(|_| one_line).map(Some).chain([None]) {
                let csv = Csv::new(dir.path()).has_header(false).one_line_rows(split.is_some());
                let csv = csv.split_bytes(split.unwrap_or(1));
                let env = environment(2, Scheduler::Deterministic { seed: 1 });
                let (rows, bad) = env.csv::<(String,)>(csv).dead_letters();
                let (rows, bad) = (rows.collect::<Vec<_>>(), bad.collect::<Vec<_>>());
                env.run().unwrap();
                let mut rows: Vec<_> = rows.take().unwrap().into_iter().map(|row| row.0).collect();
                rows.sort();
                let mut expected = [&expected[..], &expected[..], &["last"]].concat();
                expected.sort();
                assert_eq!(rows, expected, "{mark:?} {text:?} {split:?}");
                assert!(bad.take().unwrap().is_empty(), "{mark:?} {text:?} {split:?}");
            }
        }
        // And a header like others.
        let (_dir, path) = file(format!("{mark}\"name\",amount\n\"a,\",1"));
        for one_line_rows in [false, true] {
            let csv = Csv::new(&path).one_line_rows(one_line_rows).split_bytes(4);
            let (rows, bad) = read(&Environment::new(), csv).unwrap();
            assert_eq!((rows.len(), bad.len()), (1, 0), "{mark:?}");
        }
    }
    let (_dir, path) = file("\u{feff}\"a\",\"b");
    let env = Environment::new();
    let (_rows, bad) =
        env.csv::<(String, String)>(Csv::new(&path).has_header(false)).dead_letters();
    let (rows, bad) = (_rows.count().collect_one(), bad.collect::<Vec<_>>());
    env.run().unwrap();
    let bad = bad.take().unwrap();
    assert_eq!((rows.take().unwrap(), bad.len(), bad[0].line), (Some(0), 1, 1));
    assert_eq!(bad[0].text(), "\"a\",\"b");
}

#[test]
fn a_name_that_is_looked_for_stands_once_in_the_header() {
    use std::collections::HashMap;
    let (_dir, path) = file("name,x,amount,x\nann,1,2,3\n");
    let (rows, _) = read(&Environment::new(), Csv::new(&path)).unwrap();
    assert_eq!(rows, [Row { name: "ann".into(), amount: 2 }], "`x` is not looked up");
    let env = Environment::new();
    let rows = env.csv::<HashMap<String, String>>(&path).map(|row| row.len()).count().collect_one();
    let error = env.run().unwrap_err();
    assert_eq!(error.place(), Some(&Place::Line(path.clone(), 1)));
    assert_eq!(error.message(), "columns 2 and 4 are both named `x`");
    assert!(error.operator().unwrap().starts_with("csv ("), "{error}");
    assert!(rows.take().is_err());

    let (_dir, path) = file(" amount,name,amount\n1,ann,2\n");
    let (rows, _) = read(&Environment::new(), Csv::new(&path)).unwrap();
    assert_eq!(rows[0].amount, 2, "` amount` is another name");
    let error = failure(Csv::new(&path).trim(true).one_line_rows(true));
    assert_eq!(error.message(), "columns 1 and 3 are both named `amount`");
}

#[test]
fn columns_in_order_are_the_same_in_all_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.csv"), "name,amount,name\nann,1,x\n").unwrap();
    fs::write(dir.path().join("b.csv"), "\u{feff}name,amount,name\nbob,2,y\n").unwrap();
    let run = |csv: Csv| {
        let env = Environment::new();
        let rows = env.csv::<(String, String, String)>(csv).count().collect_one();
        env.run().and_then(|()| rows.take())
    };
    assert_eq!(run(Csv::new(dir.path())).unwrap(), Some(2));
    fs::write(dir.path().join("c.csv"), "amount,name,name\n3,eve,z\n").unwrap();
    let error = run(Csv::new(dir.path())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(matches!(error.place(), Some(Place::Line(_, 1))), "{error}");
    assert!(error.message().contains("a tuple takes them in order"), "{error}");
    assert_eq!(run(Csv::new(dir.path()).has_header(false)).unwrap(), Some(6));
}
