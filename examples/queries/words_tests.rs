//! Words over windows against what each window's definition says of all lines, looked at one window after
//! the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use thalweg::check::check;
use thalweg::operators::window::{CountWindow, EventTimeWindow};
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, ErrorKind, Stream};
use thalweg_examples::queries::words::{Line, by_count, by_time, paced, rolling_top, words};

const MILLIS: i64 = 1_000;

/// Some lines of few words, so that many are as frequent: three a second, from before 1970.
fn text() -> Vec<Line> {
    let words = ["the", "a", "Stream", "of", "words", "THE", "river"];
    let line = |n: usize| {
        let picked = (0..n % 5).map(|place| words[(n * n + 3 * place) % words.len()]);
        let line = picked.collect::<Vec<_>>().join(if n.is_multiple_of(2) { " " } else { "--" });
        (Timestamp::from_millis(333 * n as i64 - 2000), line)
    };
    (0..90).map(line).collect()
}

/// Each word with its time in microseconds, found without the engine's visitors.
fn spoken() -> Vec<(i64, String)> {
    let parts = text().into_iter().flat_map(|(at, line)| {
        let words = line.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        let words = words.map(|word| (at.as_micros(), word.to_lowercase()));
        words.collect::<Vec<_>>()
    });
    parts.collect()
}

/// The lines, in several tasks.
fn said(env: &Environment) -> Stream<impl Chain<Item = Line, Time = ()> + use<>> {
    env.parallel_iter(|task, tasks| text().into_iter().skip(task).step_by(tasks))
}

/// The words of every window that has any, counted from all words for each window anew.
fn windows(size: i64, slide: i64) -> BTreeMap<i64, BTreeMap<String, u64>> {
    let spoken = spoken();
    let (first, last) = (spoken[0].0 - size, spoken[spoken.len() - 1].0);
    let starts = (first.div_euclid(slide)..=last.div_euclid(slide)).map(|n| n * slide);
    let counts = starts.map(|start| {
        let mut counts = BTreeMap::new();
        for (_, word) in spoken.iter().filter(|(at, _)| (start..start + size).contains(at)) {
            *counts.entry(word.clone()).or_default() += 1;
        }
        (start, counts)
    });
    counts.filter(|(_, counts)| !counts.is_empty()).collect()
}

fn span(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}

#[test]
fn the_most_frequent_words_of_a_sliding_window() {
    for (size, slide, most) in [(10_000, 2_000, 3), (7_000, 3_000, 100), (1_000, 1_000, 1)] {
        let (size, slide) = (size * MILLIS, slide * MILLIS);
        let mut expected = Vec::new();
        for (start, counts) in windows(size, slide) {
            let mut ranked: Vec<(String, u64)> = counts.into_iter().collect();
            ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            for (place, (word, count)) in ranked.into_iter().take(most).enumerate() {
                let seconds = start as f64 / 1e6;
                expected.push(format!("{seconds}\t{}\t{word}\t{count}", place + 1));
            }
        }
        check(|env| {
            rolling_top(words(said(env)), span(size), span(slide), most).map(|row| row.to_string())
        })
        .seeds(2)
        .equals(expected);
    }
}

#[test]
fn words_counted_in_windows_of_time() {
    let (size, slide) = (10_000 * MILLIS, 5_000 * MILLIS);
    let all = windows(size, slide).into_iter().flat_map(|(start, counts)| {
        counts.into_iter().map(move |(word, count)| (word, start, count))
    });
    check(|env| {
        by_time(words(said(env)), EventTimeWindow::sliding(span(size), span(slide)))
            .map(|(word, window)| (word, window.start.as_micros(), window.value))
    })
    .seeds(2)
    .equals(all.collect::<Vec<_>>());
}

#[test]
fn words_counted_in_windows_of_their_occurrences() {
    let mut counts = BTreeMap::<String, u64>::new();
    for (_, word) in spoken() {
        *counts.entry(word).or_default() += 1;
    }
    let full = counts.into_iter().flat_map(|(word, count)| {
        let starts = (0..count).step_by(5).take_while(move |start| start + 10 <= count);
        starts.map(move |start| (word.clone(), start, 10))
    });
    check(|env| {
        by_count(words(said(env)), CountWindow::sliding(10, 5))
            .map(|(word, window)| (word, window.first, window.value))
    })
    .seeds(2)
    .equals(full.collect::<Vec<_>>());
}

#[test]
fn text_is_read_aloud_one_file_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("more")).unwrap();
    std::fs::write(path("first"), "a\nb\n").unwrap();
    std::fs::write(path("more/2"), "d").unwrap();
    std::fs::write(path("more/1"), "c\n").unwrap();
    let lines = paced(vec![path("first"), path("more")], 4.0);
    let lines: Vec<Line> = lines.map(Result::unwrap).collect();
    let expected = ["a", "b", "c", "d"].map(str::to_owned);
    let times = (0..).map(|n| Timestamp::from_millis(250 * n));
    assert_eq!(lines, times.zip(expected).collect::<Vec<_>>());
}

#[test]
fn a_file_that_is_not_there_stops_the_job_by_its_name() {
    let env = Environment::new();
    let lines = env.iter(paced(vec![PathBuf::from("no/such/file")], 1.0)).try_map(|line| line);
    let out = rolling_top(words(lines), Duration::from_secs(1), Duration::from_secs(1), 1)
        .collect::<BTreeSet<_>>();
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("no/such/file: cannot be read"), "{error}");
    assert!(out.take().is_err());
}
