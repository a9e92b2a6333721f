//! The side output of records that do not parse.

use super::bad_record::BadRecord;
use super::connector::{DecodingSource, SplitFactory};
use super::records::{Divert, Format, Records, Stop};
use crate::data::Data;
use crate::error::Result;
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Forked, Op, Pipe, Push};
use crate::metrics::Report;
use crate::plan::{Details, Origin, Parallelism, Strategy, TaskContext};
use crate::stream::{Chain, Received, Sourced, Stream};

/// The side output of bad records.
type BadRecords<B> = Stream<Received<B, ()>>;

/// Sources of records that may fail to parse, on which [`Stream::dead_letters`] can be called.
#[diagnostic::on_unimplemented(
    message = "`dead_letters` is called directly after a source whose records may fail to parse",
    label = "not such a source",
    note = "call it directly after `csv`, `json_lines`, `parse_lines` or a connector that decodes records, before any other operator"
)]
pub trait Parsing: Chain + Sized {
    /// The chain of the good records.
    #[doc(hidden)]
    type Good: Chain<Item = Self::Item, Time = ()>;
    /// A record that does not parse: a [`BadRecord`] of a file, or what a [connector](DecodingSource::Bad) makes of it.
    type Bad: Data;

    /// Splits the stream into good records and bad records.
    #[doc(hidden)]
    fn diverted(
        stream: Stream<Self>,
        origin: Origin,
    ) -> (Stream<Self::Good>, BadRecords<Self::Bad>);
}

impl<C: Chain> Stream<C> {
    /// Emits records that do not parse on a side output, instead of stopping the job at the first of them.
    ///
    /// The side output has one task, and must end in a sink like any other stream: it can be counted, written to a
    /// file, or collected. The statistics count its records under the operator's name. Call this method directly
    /// after the source: [`csv`](crate::Environment::csv) and others of files, or [`read`](crate::Environment::read) of a
    /// [connector](DecodingSource) that decodes records.
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
    pub fn dead_letters<B: Data>(
        self,
    ) -> (Stream<impl Chain<Item = C::Item, Time = ()> + use<C, B>>, BadRecords<B>)
    where
        // Not as `C::Bad` above, which would hide why a stream is none of these.
        C: Parsing<Bad = B>,
    {
        C::diverted(self, Origin::here("dead_letters"))
    }
}

impl<F: Format> Parsing for Sourced<Records<F, Stop>> {
    type Good = Diverted<Sourced<Records<F, Divert>>, BadRecord>;
    type Bad = BadRecord;

    fn diverted(
        stream: Stream<Self>,
        origin: Origin,
    ) -> (Stream<Self::Good>, BadRecords<BadRecord>) {
        divert(stream, origin, Records::diverting)
    }
}

impl<S: DecodingSource> Parsing for Sourced<SplitFactory<S>> {
    type Good = Diverted<Sourced<SplitFactory<S::Diverting>>, S::Bad>;
    type Bad = S::Bad;

    fn diverted(stream: Stream<Self>, origin: Origin) -> (Stream<Self::Good>, BadRecords<S::Bad>) {
        divert(stream, origin, SplitFactory::diverting)
    }
}

/// Links a side output to a source, changed so that it emits bad records too.
fn divert<F, G, B: Data>(
    stream: Stream<Sourced<F>>,
    origin: Origin,
    diverting: impl FnOnce(F) -> G,
) -> (Stream<Diverted<Sourced<G>, B>>, BadRecords<B>)
where
    Sourced<F>: Chain,
    Sourced<G>: Chain,
    Diverted<Sourced<G>, B>: Chain,
{
    let env = stream.env.clone();
    let bounded = stream.is_bounded();
    let to = env.builder().stage_after(&[stream.stage], Parallelism::Fixed(1), bounded);
    let edge = env.link(stream.stage, to, Strategy::Gather);
    let op = env.builder().operator(to, origin, Details::of("bad_records", true));
    let chain = Received { edges: vec![edge.clone()], op };
    let bad = Stream { env: env.clone(), chain, stage: to };
    let chain = stream.chain.made_by(diverting);
    let good = Stream { chain, env: stream.env, stage: stream.stage };
    let good = good.then(origin, |prev, op| Diverted { prev, op, edge });
    (good, bad)
}

/// The chain of a source whose bad records go to a side output.
pub struct Diverted<C, B: Data> {
    prev: C,
    op: usize,
    edge: Edge<B, ()>,
}

impl<C, R, B> Chain for Diverted<C, B>
where
    C: Chain<Item = Result<R, B>, Time = ()>,
    R: 'static,
    B: Data,
{
    type Item = R;
    type Time = ();
    type Task<N: Push<R, ()> + 'static> = C::Task<DivertedPush<N, B>>;

    fn attach<N: Push<R, ()> + 'static>(
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
pub struct DivertedPush<N, B: Data> {
    op: Op,
    good: u64,
    /// The outputs of good and of bad records.
    ends: Forked<(N, Outlet<B, (), RoundRobin>)>,
}

impl<N: Pipe, B: Data> Pipe for DivertedPush<N, B> {
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

impl<R: 'static, N: Push<R, ()>, B: Data> Push<Result<R, B>, ()> for DivertedPush<N, B> {
    #[inline(always)]
    fn push(&mut self, item: Result<R, B>, time: ()) {
        match item {
            Ok(record) => {
                self.good += 1;
                self.ends.0.0.push(record, time);
            }
            Err(bad) => self.ends.0.1.push(bad, time),
        }
    }
}
