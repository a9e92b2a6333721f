//! The questions about collisions by hand: each thread reads ranges of the file, looks for delimiters and quotes
//! only up to the last column that is wanted, and counts in tables of its own.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bench_protocol::collisions::{Answers, COLUMNS, monday, week};
use bench_protocol::{Answer, Request, Result};
use memchr::{memchr, memchr2_iter, memrchr};
use rustc_hash::FxHashMap;

use crate::threads::on_each;

/// Bytes read at a time, and what a row may be longer than a range.
const RANGE: u64 = 256 << 10;
const LONGEST: u64 = 8 << 10;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let path = request.data()?.to_owned();
    let bytes = path.metadata()?.len();
    bench_protocol::serve(request, |stopwatch| {
        let counts = stopwatch.time(|| count(&path, bytes, cores))?;
        let records = counts.accidents;
        Ok(Answer { digest: counts.answers().digest, records, bytes, ..Answer::default() })
    })
}

/// Accidents, and the lethal ones of them.
type Tally = (u64, u64);

#[derive(Default)]
struct Counts {
    accidents: u64,
    /// By week: lethal accidents.
    weeks: Vec<u64>,
    factors: FxHashMap<Box<[u8]>, Tally>,
    boroughs: FxHashMap<Box<[u8]>, Vec<Tally>>,
}

fn at<T: Default + Clone>(list: &mut Vec<T>, place: usize) -> &mut T {
    if place >= list.len() {
        list.resize(place + 1, T::default());
    }
    &mut list[place]
}

fn tally(of: &mut Tally, other: Tally) {
    *of = (of.0 + other.0, of.1 + other.1);
}

impl Counts {
    fn add(&mut self, week: usize, borough: &[u8], killed: &[u8], factors: [&[u8]; 5]) {
        let lethal = u64::from(!matches!(killed, b"" | b"0"));
        self.accidents += 1;
        if lethal > 0 {
            *at(&mut self.weeks, week) += 1;
        }
        for (place, factor) in factors.into_iter().enumerate() {
            if factor.is_empty() || factors[..place].contains(&factor) {
                continue;
            }
            match self.factors.get_mut(factor) {
                Some(known) => tally(known, (1, lethal)),
                None => _ = self.factors.insert(factor.into(), (1, lethal)),
            }
        }
        if !borough.is_empty() {
            let weeks = match self.boroughs.get_mut(borough) {
                Some(weeks) => weeks,
                None => self.boroughs.entry(borough.into()).or_default(),
            };
            tally(at(weeks, week), (1, lethal));
        }
    }

    fn merge(&mut self, other: Self) {
        self.accidents += other.accidents;
        for (week, lethal) in other.weeks.into_iter().enumerate() {
            *at(&mut self.weeks, week) += lethal;
        }
        for (factor, counted) in other.factors {
            tally(self.factors.entry(factor).or_default(), counted);
        }
        for (borough, weeks) in other.boroughs {
            let all = self.boroughs.entry(borough).or_default();
            for (week, counted) in weeks.into_iter().enumerate() {
                tally(at(all, week), counted);
            }
        }
    }

    fn answers(&self) -> Answers {
        let mut answers = Answers::default();
        for (week, &lethal) in (0..).zip(&self.weeks).filter(|(_, lethal)| **lethal > 0) {
            answers.week(&monday(week), lethal);
        }
        for (factor, &(accidents, lethal)) in &self.factors {
            let share = lethal as f64 / accidents as f64;
            answers.factor(&String::from_utf8_lossy(factor), accidents, share);
        }
        for (borough, weeks) in &self.boroughs {
            let weeks: Vec<_> = (0..).zip(weeks).filter(|(_, tally)| tally.0 > 0).collect();
            let lethal: u64 = weeks.iter().map(|(_, tally)| tally.1).sum();
            let mean = lethal as f64 / weeks.len() as f64;
            for (week, tally) in weeks {
                answers.borough(&String::from_utf8_lossy(borough), &monday(week), tally.0, mean);
            }
        }
        answers
    }
}

/// Where the columns are, in their order in the file: the column's number, and which of [`COLUMNS`] it is.
fn layout(header: &str) -> Result<Vec<(usize, usize)>> {
    let names: HashMap<&str, usize> =
        header.trim_end().split(',').enumerate().map(|(at, name)| (name, at)).collect();
    let found = COLUMNS.iter().enumerate().map(|(which, name)| {
        names.get(name).map(|&at| (at, which)).ok_or_else(|| format!("no column {name}").into())
    });
    let mut places = found.collect::<Result<Vec<_>>>()?;
    places.sort_unstable();
    Ok(places)
}

fn count(path: &Path, bytes: u64, cores: usize) -> Result<Counts> {
    let file = File::open(path)?;
    let mut head = vec![0; bytes.min(LONGEST) as usize];
    file.read_exact_at(&mut head, 0)?;
    let begin = memchr(b'\n', &head).ok_or("no header")? + 1;
    let places = layout(std::str::from_utf8(&head[..begin])?)?;
    let next = AtomicU64::new(0);
    let parts = on_each(cores, |_| -> io::Result<Counts> {
        let mut counts = Counts::default();
        let mut buffer = vec![0; (RANGE + LONGEST) as usize];
        loop {
            let from = next.fetch_add(1, Ordering::Relaxed) * RANGE;
            if from >= bytes {
                return Ok(counts);
            }
            // A row belongs to the range that has the line feed before it.
            let length = (bytes - from).min(RANGE + LONGEST) as usize;
            let buffer = &mut buffer[..length];
            file.read_exact_at(buffer, from)?;
            let first = match from {
                0 => begin,
                _ => memchr(b'\n', buffer).map_or(length, |at| at + 1),
            };
            let end = match length as u64 > RANGE {
                true => {
                    let past = memchr(b'\n', &buffer[RANGE as usize..]);
                    past.map_or(length, |at| RANGE as usize + at + 1)
                }
                false => memrchr(b'\n', buffer).map_or(length, |_| length),
            };
            if first < end {
                rows(&buffer[first..end], &places, &mut counts);
            }
        }
    });
    let mut all = Counts::default();
    for part in parts {
        all.merge(part?);
    }
    Ok(all)
}

fn rows(mut text: &[u8], places: &[(usize, usize)], counts: &mut Counts) {
    while !text.is_empty() {
        let mut fields: [&[u8]; 8] = [b""; 8];
        let mut wanted = places.iter().copied();
        let (mut number, mut from, mut quoted) = (0, 0, false);
        let mut want = wanted.next();
        for at in memchr2_iter(b',', b'"', text) {
            if text[at] == b'"' {
                quoted = !quoted;
            } else if !quoted {
                if let Some((place, which)) = want
                    && place == number
                {
                    let field = &text[from..at];
                    fields[which] = match field {
                        [b'"', inner @ .., b'"'] => inner,
                        _ => field,
                    };
                    want = wanted.next();
                    if want.is_none() {
                        from = at;
                        break;
                    }
                }
                (number, from) = (number + 1, at + 1);
            }
        }
        let [date, borough, killed, factors @ ..] = fields;
        if let Some(week) = week(date) {
            counts.add(week as usize, borough, killed, factors);
        }
        let end = memchr(b'\n', &text[from..]).map_or(text.len(), |at| from + at + 1);
        text = &text[end..];
    }
}
