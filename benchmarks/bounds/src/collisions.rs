//! The questions about collisions by hand: each thread reads ranges of the file, finds delimiters, quotes and ends of
//! rows in 64 bytes at a time, goes straight to the commas around the columns that are wanted, and counts in tables of
//! its own.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bench_protocol::collisions::{Answers, COLUMNS, monday, week};
use bench_protocol::{Answer, Request, Result};
use memchr::{memchr, memrchr};
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

/// Where the wanted columns are in a row.
struct Layout {
    /// The commas that are before or behind a wanted column, by how many there are up to them.
    commas: Vec<u32>,
    /// Of each of [`COLUMNS`], which of `commas` is before it, if it is not the first, and which is behind it. The last
    /// column has none behind it: the row's end takes that place.
    columns: [(Option<usize>, usize); 8],
}

fn layout(header: &str) -> Result<Layout> {
    let names: HashMap<&str, u32> =
        (0..).zip(header.trim_end().split(',')).map(|(at, name)| (name, at)).collect();
    let mut places = [0; 8];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        *place = *names.get(name).ok_or_else(|| format!("no column {name}"))?;
    }
    let mut commas: Vec<u32> =
        places.iter().flat_map(|at| [*at, at + 1]).filter(|at| *at > 0).collect();
    commas.sort_unstable();
    commas.dedup();
    let which = |comma: u32| commas.iter().position(|at| *at == comma);
    let columns = places.map(|at| (which(at), which(at + 1).unwrap_or(commas.len())));
    Ok(Layout { commas, columns })
}

fn count(path: &Path, bytes: u64, cores: usize) -> Result<Counts> {
    let file = File::open(path)?;
    let mut head = vec![0; bytes.min(LONGEST) as usize];
    file.read_exact_at(&mut head, 0)?;
    let begin = memchr(b'\n', &head).ok_or("no header")? + 1;
    let layout = layout(std::str::from_utf8(&head[..begin])?)?;
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
                rows(&buffer[first..end], &layout, |week, borough, killed, factors| {
                    counts.add(week, borough, killed, factors);
                });
            }
        }
    });
    let mut all = Counts::default();
    for part in parts {
        all.merge(part?);
    }
    Ok(all)
}

/// Calls `each` with week, borough, killed and factors of every row that has a date.
fn rows(text: &[u8], layout: &Layout, mut each: impl FnMut(usize, &[u8], &[u8], [&[u8]; 5])) {
    let Layout { commas, columns } = layout;
    // Where the commas of this row are, how many of them are known, and how many commas there were so far.
    let mut found = vec![0usize; commas.len() + 1];
    let (mut known, mut passed, mut begin) = (0, 0, 0);
    let mut row = |found: &mut [usize], known: usize, begin: usize, end: usize| {
        found[known..].fill(end);
        let [date, borough, killed, factors @ ..] = columns.map(|(before, behind)| {
            let from = before.map_or(begin, |before| (found[before] + 1).min(end));
            match &text[from..found[behind].max(from)] {
                [b'"', inner @ .., b'"'] => inner,
                field => field,
            }
        });
        if let Some(week) = week(date) {
            each(week as usize, borough, killed, factors);
        }
    };
    let (blocks, tail) = text.as_chunks::<64>();
    let mut last = [0; 64];
    last[..tail.len()].copy_from_slice(tail);
    let mut quoted = 0;
    for (block, base) in blocks.iter().chain([&last]).zip((0..).step_by(64)) {
        let [mut cuts, quotes, mut feeds] = marks(block);
        if quotes | quoted != 0 {
            let inside = within(quotes) ^ quoted;
            // All bits of the next block if this one ends within quotes.
            quoted = ((inside as i64) >> 63) as u64;
            cuts &= !inside;
        }
        loop {
            // The commas of this row in this block.
            let feed = feeds & feeds.wrapping_neg();
            let here = cuts & feed.wrapping_sub(1);
            let count = here.count_ones();
            while let Some(&comma) = commas.get(known)
                && comma <= passed + count
            {
                found[known] = base + nth(here, comma - passed - 1) as usize;
                known += 1;
            }
            if feed == 0 {
                passed += count;
                break;
            }
            let end = base + feed.trailing_zeros() as usize;
            row(&mut found, known, begin, end);
            (known, passed, begin) = (0, 0, end + 1);
            cuts ^= here;
            feeds ^= feed;
        }
    }
    // The file's last row need not end with a line feed.
    if begin < text.len() {
        row(&mut found, known, begin, text.len());
    }
}

/// A bit for each of 64 bytes that is a comma, a quote, a line feed.
#[inline(always)]
fn marks(block: &[u8; 64]) -> [u64; 3] {
    [b',', b'"', b'\n'].map(|byte| {
        #[cfg(all(target_arch = "x86_64", target_feature = "avx512bw"))]
        // SAFETY: the feature is enabled for the whole program, and 64 bytes are read of 64.
        unsafe {
            use std::arch::x86_64::*;
            let bytes = _mm512_loadu_si512(block.as_ptr().cast());
            _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(byte as i8))
        }
        #[cfg(not(all(target_arch = "x86_64", target_feature = "avx512bw")))]
        {
            let bits = block.iter().enumerate();
            bits.fold(0, |bits, (at, other)| bits | u64::from(*other == byte) << at)
        }
    })
}

/// From each opening quote up to its closing one: of each bit, whether there are oddly many up to it.
#[inline(always)]
fn within(quotes: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(quotes, |bits, by| bits ^ bits << by)
}

/// Where the `n`-th bit is, from 0 on, of those that are set.
#[inline(always)]
fn nth(bits: u64, n: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", target_feature = "bmi2"))]
    // SAFETY: the feature is enabled for the whole program.
    let found = unsafe { std::arch::x86_64::_pdep_u64(1 << n, bits) };
    #[cfg(not(all(target_arch = "x86_64", target_feature = "bmi2")))]
    let found = (0..n).fold(bits, |bits, _| bits & (bits - 1));
    found.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields, byte by byte.
    fn fields(line: &str) -> Vec<String> {
        let (mut fields, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                _ => fields.last_mut().unwrap().push(c),
            }
        }
        fields
    }

    #[test]
    fn wanted_fields_are_found_wherever_they_are() {
        // The date first, in the middle and last.
        for first in [0, 3, 10] {
            let mut names: Vec<String> = (0..3).map(|n| format!("OTHER {n}")).collect();
            names.extend(COLUMNS.map(str::to_owned));
            names.rotate_left(first);
            let layout = layout(&(names.join(",") + "\n")).unwrap();
            let (mut text, mut expected) = (String::new(), Vec::new());
            for n in 0..200 {
                let value = |name: &String| match name.as_str() {
                    "CRASH DATE" => format!("{:02}/{:02}/2020", n % 12 + 1, n % 28 + 1),
                    "BOROUGH" if n % 3 == 0 => String::new(),
                    _ if n % 5 == 0 => format!("\"a, b{}, c\"", "x".repeat(n % 70)),
                    name => format!("{name} {}", "y".repeat(n % 61)),
                };
                let line = names.iter().map(value).collect::<Vec<_>>().join(",");
                let found = fields(&line);
                let of = |column: &str| {
                    found[names.iter().position(|name| name == column).unwrap()].clone()
                };
                expected.push(COLUMNS.map(of)[1..].to_vec());
                text += &line;
                // The last row without a line feed.
                text += if n == 199 { "" } else { "\n" };
            }
            let mut seen = Vec::new();
            rows(text.as_bytes(), &layout, |_, borough, killed, factors| {
                let fields = [borough, killed].into_iter().chain(factors);
                seen.push(fields.map(|field| String::from_utf8(field.to_vec()).unwrap()).collect());
            });
            let seen: Vec<Vec<String>> = seen;
            assert_eq!(seen, expected, "{first}");
        }
    }
}
