//! How far event time has come, judged by the timestamps seen so far.

use crate::data::Record;
use crate::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// Estimates, for one partition of a source, below which timestamp no more records are expected.
///
/// There are [`Watermarks::monotonous`], [`Watermarks::bounded_disorder`] and [`Watermarks::punctuated`]. Another
/// is a value that is cloned for every partition; a file is read in pieces, possibly several at once, and each
/// piece has a clone. One that needs timestamps only is implemented for records of any type:
///
/// ```
/// use thalweg::data::Record;
/// use thalweg::operators::time::{WatermarkGenerator, Watermarks};
/// use thalweg::time::Timestamp;
/// use thalweg::Environment;
///
/// /// As far as the record before the last one.
/// #[derive(Clone, Default)]
/// struct OneBehind([Option<Timestamp>; 2]);
///
/// impl<I: Record + ?Sized> WatermarkGenerator<I> for OneBehind {
///     fn observe(&mut self, _: &I::Of<'_>, at: Timestamp) {
///         self.0 = [self.0[1], Some(at)];
///     }
///
///     fn watermark(&self) -> Option<Timestamp> {
///         self.0[0]
///     }
/// }
///
/// let env = Environment::new();
/// let timed = env.iter([1, 3, 2]).assign_timestamps(
///     |second| Timestamp::from_secs(*second),
///     Watermarks::generated_by(OneBehind::default()),
/// );
/// # let out = timed.count();
/// # env.run()?;
/// # assert_eq!(out.take()?, 3);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` makes no watermarks from records of `{I}`",
    label = "not for these records",
    note = "the closure of `Watermarks::punctuated` takes a reference to a record of the stream, as in \
            `|event: &Event| …`, and returns an `Option<Timestamp>`"
)]
pub trait WatermarkGenerator<I: Record + ?Sized>: Clone + Send + Sync + 'static {
    /// Sees a record and its timestamp.
    fn observe(&mut self, record: &I::Of<'_>, at: Timestamp);

    /// No later record is expected to have a timestamp below this one; `None` while nothing can be
    /// said. Called between batches. A result below an earlier one changes nothing: what was promised
    /// holds. [`Timestamp::MAX`] counts as the moment before it, as only the end of the input ends time.
    fn watermark(&self) -> Option<Timestamp>;
}

/// The watermark of a generator, as it is passed on: it never reaches the last timestamp, so that what is due
/// there, which may stand for anything beyond it, waits for the end of the input.
pub(super) fn watermark_of<I: Record + ?Sized>(
    generator: &impl WatermarkGenerator<I>,
) -> Option<Timestamp> {
    const LAST: Timestamp = Timestamp::from_micros(i64::MAX - 1);
    generator.watermark().map(|at| at.min(LAST))
}

/// How the watermarks of a stream are made; for
/// [`Stream::assign_timestamps`](crate::Stream::assign_timestamps).
#[derive(Clone, Debug)]
pub struct Watermarks<G> {
    pub(super) generator: G,
    pub(super) interval: Option<Duration>,
    pub(super) idle_after: Option<Duration>,
    pub(super) drift: Option<Duration>,
}

impl Watermarks<Disorder> {
    /// Timestamps never decrease within a partition. A record that breaks this is late.
    pub fn monotonous() -> Self {
        Self::bounded_disorder(Duration::ZERO)
    }

    /// Within a partition, no record comes after another one whose timestamp is more than `by` above
    /// its own. A record that breaks this is late. The more disorder is allowed, the longer windows
    /// wait before they close.
    pub fn bounded_disorder(by: Duration) -> Self {
        Self::generated_by(Disorder { by, greatest: None })
    }
}

impl<F> Watermarks<Punctuated<F>> {
    /// Some records say how far time has come: those for which the closure returns a timestamp, below which no later
    /// record of the partition is expected. A record that breaks this is late.
    ///
    /// For sources that know, such as markers at the end of a unit of work. The watermark takes effect after the
    /// record that carries it, at the latest after sixteen batches; the greatest so far counts. As long as a
    /// partition has had no such record, it holds back the watermark of all.
    /// The closure's parameter needs its type.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::EventTimeWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// #[derive(Clone, Copy, thalweg::Data)]
    /// struct Reading {
    ///     second: i64,
    ///     /// All readings up to this one's second have been sent.
    ///     complete: bool,
    /// }
    ///
    /// let env = Environment::new();
    /// let readings = [(7, false), (2, false), (9, true), (12, false)];
    /// let counts = env
    ///     .iter(readings.map(|(second, complete)| Reading { second, complete }))
    ///     .assign_timestamps(
    ///         |reading| Timestamp::from_secs(reading.second),
    ///         Watermarks::punctuated(|reading: &Reading| {
    ///             reading.complete.then_some(Timestamp::from_secs(reading.second + 1))
    ///         }),
    ///     )
    ///     .group_by(|_| ())
    ///     .window(EventTimeWindow::tumbling(Duration::from_secs(10)))
    ///     .count();
    /// let out = counts.unkey().map(|(_, window)| window.value).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [3, 1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn punctuated(mark: F) -> Self {
        Self::generated_by(Punctuated { mark: Arc::new(mark), greatest: None })
    }
}

impl<G> Watermarks<G> {
    /// From a [`WatermarkGenerator`], of which every partition, or piece of a file, gets a clone.
    pub fn generated_by(generator: G) -> Self {
        Self { generator, interval: None, idle_after: None, drift: None }
    }

    /// Each task sends a watermark at most once in this span of processing time: fewer and larger steps of event time,
    /// so that windows, timers and joins have less to look through, and results come up to so much later.
    ///
    /// Without this, a watermark is sent as soon as a task has no input, and in a busy one after a fifth of a
    /// millisecond. A watermark that is held back is sent when the span is over, whether or not input comes. Two
    /// things do not wait: a task that is [not idle any more](Self::idle_after) says so, and the end of the input. A
    /// span of zero changes nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::operators::time::Watermarks;
    ///
    /// let watermarks = Watermarks::bounded_disorder(Duration::from_secs(5))
    ///     .at_most_every(Duration::from_millis(200));
    /// # let env = thalweg::Environment::new();
    /// # let timed = env
    /// #     .iter([1])
    /// #     .assign_timestamps(|n| thalweg::time::Timestamp::from_secs(*n), watermarks);
    /// # drop(timed.count());
    /// ```
    #[doc(alias = "auto_watermark_interval")]
    pub fn at_most_every(mut self, interval: Duration) -> Self {
        self.interval = Some(interval);
        self
    }

    /// A partition that has had no record for so long holds back no watermark until it has one
    /// again. That record may be late then.
    ///
    /// Without this, watermarks wait for partitions without records, however long. A partition whose
    /// receivers are slow is never idle.
    pub fn idle_after(mut self, quiet: Duration) -> Self {
        self.idle_after = Some(quiet);
        self
    }

    /// No partition goes on while its watermark is more than `most` ahead of that of the last one: what
    /// windows hold open is bounded, however different the partitions' speeds.
    ///
    /// Tasks that read files are kept together, each with the file that it reads; files advance together in any
    /// case, since the one with the least watermark is read next.
    ///
    /// All wait for a partition that has no record yet, unless [`idle_after`](Self::idle_after) says
    /// how long, or it ends. A partition that waits is not idle.
    pub fn aligned(mut self, most: Duration) -> Self {
        self.drift = Some(most);
        self
    }
}

/// The greatest timestamp so far, less a bound.
#[derive(Clone, Debug)]
pub struct Disorder {
    by: Duration,
    greatest: Option<Timestamp>,
}

impl<I: Record + ?Sized> WatermarkGenerator<I> for Disorder {
    #[inline(always)]
    fn observe(&mut self, _: &I::Of<'_>, at: Timestamp) {
        // Written only when it changes, so that it can stay in a register.
        if self.greatest.is_none_or(|greatest| at > greatest) {
            self.greatest = Some(at);
        }
    }

    fn watermark(&self) -> Option<Timestamp> {
        Some(self.greatest?.saturating_sub(self.by))
    }
}

/// What a closure says of some records: [`Watermarks::punctuated`].
#[derive(Debug)]
pub struct Punctuated<F> {
    mark: Arc<F>,
    greatest: Option<Timestamp>,
}

impl<F> Clone for Punctuated<F> {
    fn clone(&self) -> Self {
        Self { mark: Arc::clone(&self.mark), greatest: self.greatest }
    }
}

impl<I, F> WatermarkGenerator<I> for Punctuated<F>
where
    I: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b I::Of<'a>) -> Option<Timestamp> + Send + Sync + 'static,
{
    #[inline(always)]
    fn observe(&mut self, record: &I::Of<'_>, _: Timestamp) {
        if let Some(at) = (self.mark)(record) {
            self.greatest = self.greatest.max(Some(at));
        }
    }

    fn watermark(&self) -> Option<Timestamp> {
        self.greatest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_stay_within_time() {
        let of = |at: i64, by: Duration| {
            let mut disorder = Watermarks::bounded_disorder(by).generator;
            WatermarkGenerator::<()>::observe(&mut disorder, &(), Timestamp::from_micros(at));
            watermark_of::<()>(&disorder).map(Timestamp::as_micros)
        };
        assert_eq!(of(i64::MAX, Duration::ZERO), Some(i64::MAX - 1));
        assert_eq!(of(i64::MAX, Duration::from_micros(2)), Some(i64::MAX - 2));
        assert_eq!(of(i64::MAX, Duration::MAX), Some(i64::MIN));
        assert_eq!(of(i64::MIN, Duration::ZERO), Some(i64::MIN));
        assert_eq!(of(i64::MIN + 1, Duration::MAX), Some(i64::MIN));
        assert_eq!(watermark_of::<()>(&Watermarks::monotonous().generator), None);
    }
}
