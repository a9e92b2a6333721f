//! The side output of records that do not parse.

use super::bad_record::BadRecord;
use super::records::{Divert, Format, Records, Stop};
use crate::error::Result;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Forked, Op, Pipe, Push};
use crate::metrics::Report;
use crate::plan::{Details, Origin, Parallelism, Strategy, TaskContext};
use crate::stream::{Chain, Received, Sourced, Stream};

/// The side output of bad records.
type BadRecords = Stream<Received<BadRecord, ()>>;

/// Sources of records that may fail to parse, on which [`Stream::dead_letters`] can be called.
#[diagnostic::on_unimplemented(
    message = "`dead_letters` is called directly after a source whose records may fail to parse",
    label = "not such a source",
    note = "call it directly after `csv`, `json_lines` or `parse_lines`, before any other operator"
)]
pub trait Parsing: Chain + Sized {
    /// The chain of the good records.
    #[doc(hidden)]
    type Good: Chain<Item = Self::Item, Time = ()>;

    /// Splits the stream into good records and bad records.
    #[doc(hidden)]
    fn diverted(stream: Stream<Self>, origin: Origin) -> (Stream<Self::Good>, BadRecords);
}

impl<C: Chain> Stream<C> {
    /// Emits records that do not parse on a side output, instead of stopping the job at the first of them.
    ///
    /// The side output has one task, and must end in a sink like any other stream: it can be counted, written to a
    /// file, or collected. The statistics count its records under the operator's name. Call this method directly
    /// after the source.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use thalweg::Environment;
    ///
    /// #[derive(Deserialize)]
    /// struct Reading {
    ///     celsius: f64,
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("readings.csv");
    /// std::fs::write(&path, "celsius\n21.5\nbroken\n19.5\n").unwrap();
    /// let env = Environment::new();
    /// let (readings, bad) = env.csv::<Reading>(&path).dead_letters();
    /// let celsius = readings.map(|reading| reading.celsius).collect::<Vec<_>>();
    /// let bad = bad.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(celsius.take()?, [21.5, 19.5]);
    /// let bad = bad.take()?;
    /// assert_eq!((bad[0].line, &*bad[0].text()), (3, "broken"));
    /// assert_eq!(bad[0].error, "column `celsius`: invalid float literal");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn dead_letters(
        self,
    ) -> (Stream<impl Chain<Item = C::Item, Time = ()> + use<C>>, BadRecords)
    where
        C: Parsing,
    {
        C::diverted(self, Origin::here("dead_letters"))
    }
}

impl<F: Format> Parsing for Sourced<Records<F, Stop>> {
    type Good = Diverted<F>;

    fn diverted(stream: Stream<Self>, origin: Origin) -> (Stream<Diverted<F>>, BadRecords) {
        let env = stream.env.clone();
        let bounded = stream.is_bounded();
        let to = env.builder().stage_after(&[stream.stage], Parallelism::Fixed(1), bounded);
        let edge = env.link(stream.stage, to, Strategy::Gather);
        let op = env.builder().operator(to, origin, Details::of("bad_records", true));
        let chain = Received { edges: vec![edge.clone()], op };
        let bad = Stream { env: env.clone(), chain, stage: to };
        let good = Stream {
            chain: stream.chain.made_by(Records::diverting),
            env: stream.env,
            stage: stream.stage,
        };
        let good = good.then(origin, |prev, op| Diverted { prev, op, edge });
        (good, bad)
    }
}

/// The chain of a source whose bad records go to a side output.
pub struct Diverted<F: Format> {
    prev: Sourced<Records<F, Divert>>,
    op: usize,
    edge: Edge<BadRecord, ()>,
}

impl<F: Format> Chain for Diverted<F> {
    type Item = F::Record;
    type Time = ();
    type Task<N: Push<F::Record, ()> + 'static> =
        <Sourced<Records<F, Divert>> as Chain>::Task<DivertedPush<N>>;

    fn attach<N: Push<F::Record, ()> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Self::Task<N>> {
        let op = cx.op(self.op);
        let bad = self.edge.outlet(cx.task, op.clone(), RoundRobin::starting_at(0));
        self.prev.attach(cx, DivertedPush { op, good: 0, ends: Forked((next, bad)) })
    }
}

/// Separates good records from bad ones in a running task.
pub struct DivertedPush<N> {
    op: Op,
    good: u64,
    /// The outputs of good and of bad records.
    ends: Forked<(N, Outlet<BadRecord, (), RoundRobin>)>,
}

impl<N: Pipe> Pipe for DivertedPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.ends)
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.good);
        self.ends.report(report);
    }

    fn is_closed(&mut self) -> bool {
        // Bad records are emitted only of input that is read for the good ones.
        self.ends.0.0.is_closed()
    }
}

impl<T: 'static, N: Push<T, ()>> Push<Result<T, BadRecord>, ()> for DivertedPush<N> {
    #[inline(always)]
    fn push(&mut self, item: Result<T, BadRecord>, time: ()) {
        match item {
            Ok(record) => {
                self.good += 1;
                self.ends.0.0.push(record, time);
            }
            Err(bad) => self.ends.0.1.push(bad, time),
        }
    }
}
