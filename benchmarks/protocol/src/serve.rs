//! The loop that turns `go` lines into rounds and rounds into lines of JSON.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use crate::digest::Digest;
use crate::hosts::{Others, Part, orders};
use crate::{Request, Result};

/// What one round came to.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The digest of the answer's rows.
    pub digest: Digest,
    /// How many input records the round went through.
    pub records: u64,
    /// How many input bytes the round went through.
    pub bytes: u64,
    /// Further numbers, by name, for instance latency percentiles.
    pub extra: Vec<(&'static str, f64)>,
    /// Further lists of numbers, by name, for instance a latency of each second.
    pub series: Vec<(&'static str, Vec<f64>)>,
}

/// Times the part of a round that counts, and takes its peak memory.
#[derive(Debug, Default)]
pub struct Stopwatch {
    elapsed: Option<Duration>,
    peak_rss: Option<u64>,
    /// The other hosts, begun when the first one's timed part begins, and waited for at its end. `None` in another host, which
    /// prints that it is done.
    others: Option<Others>,
    /// What went wrong with them.
    error: Option<Box<dyn Error + Send + Sync>>,
}

impl Stopwatch {
    /// Runs the timed part of a round. What the caller does before and after it (loading, taking
    /// the digest) does not count.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        reset_peak_rss();
        let start = Instant::now();
        self.begin();
        let result = work();
        let others = self.end();
        self.elapsed = Some(start.elapsed());
        self.peak_rss = peak_rss().map(|own| own + others);
        result
    }

    fn begin(&mut self) {
        self.error = self.others.as_mut().and_then(|others| others.go().err());
    }

    /// Returns the peak memory of other hosts.
    fn end(&mut self) -> u64 {
        let done = match &mut self.others {
            Some(others) => others.done(),
            None => say_done(),
        };
        done.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            0
        })
    }

    /// The seconds and the peak memory of a round.
    fn report(&mut self) -> Result<(f64, Option<u64>)> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let elapsed = self.elapsed.take().ok_or("the round timed nothing")?;
        Ok((elapsed.as_secs_f64(), self.peak_rss))
    }
}

/// Notifies the first host that this one is done.
fn say_done() -> Result<u64> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "done {}", peak_rss().unwrap_or(0))?;
    out.flush()?;
    Ok(0)
}

/// Serves rounds until standard input ends: prints the ready line, then one line of JSON for each
/// line `go`. With `--rounds N` it does N rounds and reads nothing, for a run by hand.
///
/// On several hosts each comes to the same answer, of which the first one's counts.
///
/// # Errors
/// The round's own error; a round that never used its stopwatch; a line that is not `go`.
pub fn serve(
    request: &Request,
    mut round: impl FnMut(&mut Stopwatch) -> Result<Answer>,
) -> Result<()> {
    serve_parts(request, |stopwatch| round(stopwatch).map(Same), |Same(answer)| answer)
}

/// The rows that a host has: digests and records are added up; the bytes are those that all go through.
impl Part for Answer {
    fn merge(&mut self, other: Self) {
        self.digest.merge(other.digest);
        self.records += other.records;
    }

    fn to_words(&self) -> Vec<u64> {
        [self.digest.to_words(), vec![self.records]].concat()
    }

    fn from_words(words: &[u64]) -> Option<Self> {
        let (digest, &[records]) = words.split_at_checked(2)? else { return None };
        Some(Self { digest: Digest::from_words(digest)?, records, ..Self::default() })
    }
}

/// An answer that every host has.
struct Same(Answer);

impl Part for Same {
    fn merge(&mut self, _: Self) {}

    fn to_words(&self) -> Vec<u64> {
        Vec::new()
    }

    fn from_words(_: &[u64]) -> Option<Self> {
        Some(Self(Answer::default()))
    }
}

/// The same for contestants of which each host has a part of the answer.
///
/// # Errors
/// As [`serve`]; another host that has ended.
pub fn serve_parts<P: Part>(
    request: &Request,
    mut round: impl FnMut(&mut Stopwatch) -> Result<P>,
    answer: impl Fn(P) -> Answer,
) -> Result<()> {
    if request.is_follower() {
        return follow(round);
    }
    let mut others = request.take_others();
    others.ready()?;
    println!("{{\"ready\":true}}");
    let mut stopwatch = Stopwatch { others: Some(others), ..Stopwatch::default() };
    let mut one = || -> Result<()> {
        let mut part = round(&mut stopwatch)?;
        let timed = stopwatch.report()?;
        stopwatch.others.iter_mut().try_for_each(|others| others.merge(&mut part))?;
        println!("{}", line(&answer(part), timed)?);
        Ok(())
    };
    if request.get("rounds").is_some() {
        for _ in 0..request.value::<usize>("rounds")? {
            one()?;
        }
        return Ok(());
    }
    for input in std::io::stdin().lock().lines() {
        match input?.trim() {
            "go" => one()?,
            other => return Err(format!("expected \"go\", found {other:?}").into()),
        }
    }
    Ok(())
}

/// Serves the first host.
fn follow<P: Part>(mut round: impl FnMut(&mut Stopwatch) -> Result<P>) -> Result<()> {
    println!("ready");
    let mut stopwatch = Stopwatch::default();
    for order in orders() {
        if order != "go" {
            return Err(format!("expected \"go\", found {order:?}").into());
        }
        let part = round(&mut stopwatch)?;
        stopwatch.report()?;
        let words: Vec<String> = part.to_words().iter().map(u64::to_string).collect();
        println!("{}", words.join(" "));
    }
    Ok(())
}

fn line(answer: &Answer, (seconds, peak): (f64, Option<u64>)) -> Result<String> {
    let peak = peak.map_or("null".to_owned(), |bytes| bytes.to_string());
    let mut line = format!(
        "{{\"seconds\":{:.9},\"digest\":\"{}\",\"records\":{},\"bytes\":{},\"peak_rss\":{peak}",
        seconds, answer.digest, answer.records, answer.bytes,
    );
    for (name, value) in &answer.extra {
        if !value.is_finite() {
            return Err(format!("{name} is {value}").into());
        }
        write!(line, ",\"{name}\":{value}")?;
    }
    for (name, values) in &answer.series {
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(format!("{name} has {value}").into());
        }
        write!(line, ",\"{name}\":{values:?}")?;
    }
    line.push('}');
    Ok(line)
}

/// Asks the kernel to count the peak anew. Where it cannot (an old kernel, another system), the
/// peak is that of the process's whole life, which is never too small.
fn reset_peak_rss() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak resident memory since [`reset_peak_rss`], in bytes; `None` where there is no `/proc`.
fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_timed_nothing_is_an_error() {
        let error = Stopwatch::default().report().unwrap_err();
        assert_eq!(error.to_string(), "the round timed nothing");
    }

    #[test]
    fn a_line_holds_the_round() {
        let answer = Answer {
            records: 3,
            bytes: 24,
            extra: vec![("p99", 0.5)],
            series: vec![("mean", vec![0.25, 1e-9])],
            ..Answer::default()
        };
        assert_eq!(
            line(&answer, (1.5, None)).unwrap(),
            "{\"seconds\":1.500000000,\"digest\":\"0:0000000000000000\",\"records\":3,\
             \"bytes\":24,\"peak_rss\":null,\"p99\":0.5,\"mean\":[0.25, 1e-9]}"
        );
    }
}
