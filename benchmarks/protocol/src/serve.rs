//! The loop that turns `go` lines into rounds and rounds into lines of JSON.

use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use crate::digest::Digest;
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
}

impl Stopwatch {
    /// Runs the timed part of a round. What the caller does before and after it (loading, taking
    /// the digest) does not count.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        reset_peak_rss();
        let start = Instant::now();
        let result = work();
        self.elapsed = Some(start.elapsed());
        self.peak_rss = peak_rss();
        result
    }
}

/// Serves rounds until standard input ends: prints the ready line, then one line of JSON for each
/// line `go`. With `--rounds N` it does N rounds and reads nothing, for a run by hand.
///
/// # Errors
/// The round's own error; a round that never used its stopwatch; a line that is not `go`.
pub fn serve(
    request: &Request,
    mut round: impl FnMut(&mut Stopwatch) -> Result<Answer>,
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{{\"ready\":true}}")?;
    out.flush()?;
    let mut one = |out: &mut dyn Write| -> Result<()> {
        let mut stopwatch = Stopwatch::default();
        let answer = round(&mut stopwatch)?;
        writeln!(out, "{}", line(&answer, &stopwatch)?)?;
        Ok(out.flush()?)
    };
    if request.get("rounds").is_some() {
        for _ in 0..request.value::<usize>("rounds")? {
            one(&mut out)?;
        }
        return Ok(());
    }
    for input in std::io::stdin().lock().lines() {
        match input?.trim() {
            "go" => one(&mut out)?,
            other => return Err(format!("expected \"go\", found {other:?}").into()),
        }
    }
    Ok(())
}

fn line(answer: &Answer, stopwatch: &Stopwatch) -> Result<String> {
    let elapsed = stopwatch.elapsed.ok_or("the round timed nothing")?;
    let peak = stopwatch.peak_rss.map_or("null".to_owned(), |bytes| bytes.to_string());
    let mut line = format!(
        "{{\"seconds\":{:.9},\"digest\":\"{}\",\"records\":{},\"bytes\":{},\"peak_rss\":{peak}",
        elapsed.as_secs_f64(),
        answer.digest,
        answer.records,
        answer.bytes,
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
        let error = line(&Answer::default(), &Stopwatch::default()).unwrap_err();
        assert_eq!(error.to_string(), "the round timed nothing");
    }

    #[test]
    fn a_line_holds_the_round() {
        let mut stopwatch = Stopwatch::default();
        stopwatch.time(|| ());
        stopwatch.elapsed = Some(Duration::from_millis(1500));
        stopwatch.peak_rss = None;
        let answer = Answer {
            records: 3,
            bytes: 24,
            extra: vec![("p99", 0.5)],
            series: vec![("mean", vec![0.25, 1e-9])],
            ..Answer::default()
        };
        assert_eq!(
            line(&answer, &stopwatch).unwrap(),
            "{\"seconds\":1.500000000,\"digest\":\"0:0000000000000000\",\"records\":3,\
             \"bytes\":24,\"peak_rss\":null,\"p99\":0.5,\"mean\":[0.25, 1e-9]}"
        );
    }
}
