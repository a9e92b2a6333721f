//! A source that generates records at a fixed rate.

use crate::checkpoint::{Redistribution, StateHandle};
use crate::clock::Nanos;
use crate::data::Data;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Event, Push};
use crate::metrics::show;
use crate::plan::{Details, Origin, Parallelism, TaskContext};
use crate::stream::{Chain, Environment, Produced, Source, SourceFactory, Stream};
use std::sync::Arc;

/// Records generated in one call of the source.
const RUN: u64 = 4096;

/// Records that are due within this time of each other, in nanoseconds, are generated together: waking the task for
/// each of them would dominate the cost.
const LEAST_WAIT: Nanos = 50_000;

impl Environment {
    /// Generates records at a fixed rate, in one task, until the closure returns `None`.
    ///
    /// The closure receives the number of the record, counted from 0. Record `i` is due `i / rate_per_second` seconds
    /// after the first, by the engine's clock, independently of the records before: the source never drifts, and
    /// after back-pressure from the job it catches up as fast as it can. This is an open-loop load, which shows the
    /// latency that users of a slow job would see. Rates from one record in hours to tens of millions a second are
    /// supported; above 20 000 a second, records due within 50 us are generated together. With an infinite rate, the
    /// source is as fast as the job. On several hosts, the first generates the records. A job that goes on from a
    /// [checkpoint](crate::config::CheckpointConfig) generates at once what was due since.
    ///
    /// For the plan the stream is unbounded, so an operator that needs a bounded stream (`collect`, `count`) is
    /// refused. For records without a rate see [`iter`](Self::iter).
    ///
    /// # Errors
    ///
    /// A rate that is not above 0 is refused at the job's start.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let ticks = env.generate(1000.0, |i| (i <= 20).then_some(i)).to_channel();
    /// let started = Instant::now();
    /// let job = env.start()?;
    /// assert_eq!(ticks.last().transpose()?, Some(20));
    /// assert!(started.elapsed() >= Duration::from_millis(20));
    /// job.wait()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn generate<T, F>(
        &self,
        rate_per_second: f64,
        make: F,
    ) -> Stream<impl Chain<Item = T, Time = ()> + use<T, F>>
    where
        T: 'static,
        F: Fn(u64) -> Option<T> + Send + Sync + 'static,
    {
        let details = Details::of("rate", rate_per_second);
        let factory = Generate { period: 1e9 / rate_per_second, make: Arc::new(make) };
        let stream =
            self.source(Origin::here("generate"), details, Parallelism::Fixed(1), false, factory);
        if rate_per_second.is_nan() || rate_per_second <= 0.0 {
            let what = format!("a rate of {rate_per_second} records a second is not above 0");
            stream.refuse(Error::new(ErrorKind::Plan, what));
        }
        stream
    }
}

struct Generate<F> {
    /// Nanoseconds from one record to the next.
    period: f64,
    make: Arc<F>,
}

impl<T: 'static, F: Fn(u64) -> Option<T> + Send + Sync + 'static> SourceFactory for Generate<F> {
    type Source = Generated<F>;

    fn open(&self, cx: &TaskContext<'_>) -> Result<Generated<F>> {
        let saved = match cx.first_operator() {
            Some(op) => cx.state::<Progress>(op, "next", Redistribution::First).position(generated),
            None => StateHandle::none(),
        };
        let mut progress = Progress { first: None, next: 0, ended: false };
        saved.restore(|before| {
            progress = before;
            Ok(())
        })?;
        let Progress { first, next, ended } = progress;
        let schedule = Schedule { period: self.period, first };
        let make = Arc::clone(&self.make);
        Ok(Generated { schedule, make, next, before: next, again: 0, ended, saved })
    }
}

/// How far the source is, in a checkpoint.
#[derive(Data)]
struct Progress {
    first: Option<Nanos>,
    next: u64,
    ended: bool,
}

/// Where the source goes on.
fn generated(progress: Vec<Progress>) -> String {
    let next = progress.iter().map(|progress| progress.next).max().unwrap_or_default();
    format!("after {} records", show::count(next))
}

struct Generated<F> {
    schedule: Schedule,
    make: Arc<F>,
    /// The number of the next record.
    next: u64,
    /// The records generated before the checkpoint that the job began with.
    before: u64,
    /// When there are records again. At a high rate some are due whenever the source is called, so it must not ask the
    /// schedule before: its task would never sleep.
    again: Nanos,
    ended: bool,
    saved: StateHandle,
}

/// Computes when each record is due.
struct Schedule {
    period: f64,
    /// When the first record was due: at the first call of the source.
    first: Option<Nanos>,
}

impl Schedule {
    /// The number of records that are due by now, in all.
    fn due(&mut self, now: Nanos) -> u64 {
        let since = now.saturating_sub(*self.first.get_or_insert(now));
        if self.period == 0.0 {
            return u64::MAX;
        }
        // Exact enough for centuries: a double is exact up to 2^53. The cast saturates.
        ((since as f64 / self.period) as u64).saturating_add(1)
    }

    /// When to generate records again: when this one, which is not due yet, is due, together with those that follow
    /// within [`LEAST_WAIT`].
    fn again(&self, record: u64, now: Nanos) -> Nanos {
        let at = self.at(record, now);
        if self.period < LEAST_WAIT as f64 { at.max(now + LEAST_WAIT) } else { at }
    }

    /// When this record, which is not due yet, will be due.
    fn at(&self, record: u64, now: Nanos) -> Nanos {
        let after = (record as f64 * self.period).ceil() as Nanos;
        let at = self.first.unwrap_or(now).saturating_add(after);
        // Rounding must not make it due now, since it is not due yet.
        at.max(now + 1)
    }
}

impl<T: 'static, F: Fn(u64) -> Option<T> + Send + Sync + 'static> Source for Generated<F> {
    type Item = T;
    type Time = ();

    fn produce<N: Push<T, ()>>(&mut self, now: Nanos, next: &mut N) -> Result<Produced> {
        if self.ended {
            return Ok(Produced::End);
        }
        if now < self.again {
            return Ok(Produced::NothingUntil(self.again));
        }
        let due = self.schedule.due(now);
        if due <= self.next {
            self.again = self.schedule.again(self.next, now);
            return Ok(Produced::NothingUntil(self.again));
        }
        let until = due.min(self.next + RUN);
        while self.next < until {
            let Some(record) = (self.make)(self.next) else {
                self.ended = true;
                return Ok(Produced::End);
            };
            next.push(record, ());
            self.next += 1;
        }
        if until == due {
            self.again = self.schedule.again(due, now);
        }
        Ok(Produced::Some)
    }

    fn save(&mut self, event: Event) {
        let Self { schedule, next, ended, saved, .. } = self;
        saved.save(event, |out| {
            out.add(&Progress { first: schedule.first, next: *next, ended: *ended });
        });
    }

    fn records(&self) -> u64 {
        self.next - self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Scheduler};
    use crate::flow::NullSink;
    use std::time::{Duration, Instant};

    #[test]
    fn records_are_due_by_the_schedule_and_by_nothing_else() {
        for rate in [0.1, 1.0, 3.0, 999.0, 1e6, 5e7, 1e9] {
            let mut schedule = Schedule { period: 1e9 / rate, first: None };
            let start = 12_345;
            assert_eq!(schedule.due(start), 1, "the first is due at once");
            // Ten hours later as well as at the beginning.
            for since in [0u64, 1, 999, 1_000_000, 36_000_000_000_000] {
                let due = schedule.due(start + since);
                let exact = since as f64 * rate / 1e9;
                assert!((due as f64 - 1.0 - exact).abs() <= 1.0, "{rate}: {due}, not {exact}");
                let at = schedule.at(due, start + since);
                assert!(at > start + since);
                assert!(schedule.due(at + 1) > due, "{rate}: what is due at a time is due then");
            }
        }
    }

    #[test]
    fn a_source_with_a_high_rate_waits_between_its_batches() {
        let millisecond = 1_000_000;
        for (rate, most) in [(1e6, 20), (2e4, 20), (1000.0, 1), (1.0, 1)] {
            let schedule = Schedule { period: 1e9 / rate, first: None };
            let mut source = Generated {
                schedule,
                make: Arc::new(Some),
                next: 0,
                before: 0,
                again: 0,
                ended: false,
                saved: StateHandle::none(),
            };
            let (mut now, mut waits) = (0, 0);
            // A call takes a microsecond, in which a record becomes due.
            while now < millisecond {
                match source.produce(now, &mut NullSink).unwrap() {
                    Produced::NothingUntil(at) => {
                        assert!(at > now, "{rate}");
                        (now, waits) = (at, waits + 1);
                    }
                    _ => now += 1000,
                }
            }
            assert!((1..=most).contains(&waits), "{rate}: {waits} waits");
            source.produce(now, &mut NullSink).unwrap();
            assert!(source.next >= (rate / 1000.0) as u64, "{rate}: {} records", source.next);
        }
    }

    /// The records of a job with this rate, under the virtual clock.
    fn until(rate: f64, records: u64) -> Vec<u64> {
        let config = Config {
            scheduler: Scheduler::Deterministic { seed: 1 },
            credit: 1 << 20,
            ..Config::default()
        };
        let env = Environment::with_config(config);
        let incoming = env.generate(rate, move |i| (i < records).then_some(i)).to_channel();
        env.run().unwrap();
        incoming.collect::<Result<_>>().unwrap()
    }

    #[test]
    fn every_rate_makes_every_record_once() {
        for rate in [1e-4, 0.1, 7.0, 12_345.6, 19_999.0, 20_001.0, 1e6, 5e7, f64::INFINITY] {
            assert!(until(rate, 20_000).into_iter().eq(0..20_000), "{rate}");
        }
    }

    #[test]
    fn a_rate_is_kept_by_the_wall_clock_and_made_up_for_after_a_delay() {
        let env = Environment::new();
        let held_up = |i: u64| {
            if i == 10 {
                std::thread::sleep(Duration::from_millis(50));
            }
            i
        };
        let incoming = env.generate(2000.0, |i| (i <= 200).then_some(i)).map(held_up).to_channel();
        let started = Instant::now();
        let job = env.start().unwrap();
        assert_eq!(incoming.filter(Result::is_ok).count(), 201);
        // 200 periods of half a millisecond: never sooner, and the 50 ms are not added to them.
        assert!(started.elapsed() >= Duration::from_millis(100));
        job.wait().unwrap();
    }

    #[test]
    fn a_rate_that_is_none_is_refused() {
        for rate in [0.0, -1.0, f64::NAN] {
            let env = Environment::new();
            let _out = env.generate(rate, Some).to_channel();
            let error = env.run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Plan);
            let text = error.to_string();
            assert!(text.starts_with("generate (") && text.contains("is not above 0"), "{text}");
        }
    }

    #[test]
    fn a_panic_names_the_source() {
        let env = Environment::new();
        let _out =
            env.generate(1e6, |i| if i == 9 { panic!("nine") } else { Some(i) }).to_channel();
        let text = env.run().unwrap_err().to_string();
        assert!(text.starts_with("generate (") && text.ends_with("panicked: nine"), "{text}");
    }
}
