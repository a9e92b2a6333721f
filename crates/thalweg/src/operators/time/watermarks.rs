//! Watermark generators: estimate the progress of event time from timestamps.

use super::saved::{self, Remembers, Saves};
use crate::data::{Data, Record};
use crate::plan::Details;
use crate::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// Estimates, for one partition of a source, a timestamp below which no more records are expected.
///
/// The built-in generators are made by [`Watermarks::monotonous`], [`Watermarks::bounded_disorder`] and
/// [`Watermarks::punctuated`]. A generator is cloned for every partition. A file is read in pieces, possibly
/// several at once, and each piece has a clone. In a job with checkpoints, what a generator remembers is lost when the job goes
/// on from one, unless it is [saved](Watermarks::saved). A generator that needs only timestamps can be implemented for
/// records of any type:
///
/// ```
/// use thalweg::data::Record;
/// use thalweg::operators::time::{WatermarkGenerator, Watermarks};
/// use thalweg::time::Timestamp;
/// use thalweg::Environment;
///
/// /// Emits the timestamp of the record before the last one.
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
/// # let out = timed.count().collect_one();
/// # env.run()?;
/// # assert_eq!(out.take()?, Some(3));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` makes no watermarks from records of `{I}`",
    label = "not for these records",
    note = "implement `WatermarkGenerator<{I}>`, or use `Watermarks::bounded_disorder` and its like"
)]
pub trait WatermarkGenerator<I: Record + ?Sized>: Clone + Send + Sync + 'static {
    /// Called for each record with its timestamp.
    fn observe(&mut self, record: &I::Of<'_>, at: Timestamp);

    /// Returns the timestamp below which no later record is expected, or `None` if it is not known yet. Called
    /// between batches. A result below an earlier one is ignored, since watermarks never decrease.
    /// [`Timestamp::MAX`] counts as the timestamp before it: only the end of the input reaches the last
    /// timestamp.
    fn watermark(&self) -> Option<Timestamp>;
}

/// Returns the watermark of a generator, limited so that it never reaches the last timestamp. What is due at the
/// last timestamp, which may stand for anything beyond it, waits for the end of the input.
pub(super) fn watermark_of<I: Record + ?Sized>(
    generator: &impl WatermarkGenerator<I>,
) -> Option<Timestamp> {
    const LAST: Timestamp = Timestamp::from_micros(i64::MAX - 1);
    generator.watermark().map(|at| at.min(LAST))
}

/// Configures the watermarks of a stream; for
/// [`Stream::assign_timestamps`](crate::Stream::assign_timestamps).
#[derive(Clone, Debug)]
pub struct Watermarks<G> {
    pub(super) generator: G,
    pub(super) saves: Arc<dyn Saves<G>>,
    /// The bound of the disorder, where there is one.
    disorder: Option<Duration>,
    pub(super) interval: Option<Duration>,
    pub(super) idle_after: Option<Duration>,
    pub(super) drift: Option<Duration>,
}

impl Watermarks<Disorder> {
    /// Expects timestamps that never decrease within a partition. A record that violates this is late.
    pub fn monotonous() -> Self {
        Self::bounded_disorder(Duration::ZERO)
    }

    /// Bounds the disorder: within a partition, no record comes after one whose timestamp is more than `by`
    /// above its own. A record that violates this is late. The greater the bound, the longer windows stay open.
    pub fn bounded_disorder(by: Duration) -> Self {
        let generator = Disorder { by, greatest: None };
        let saves = saved::greatest();
        Self { disorder: Some(by), saves, ..Self::generated_by(generator) }
    }
}

impl<F> Watermarks<Punctuated<F>> {
    /// Takes watermarks from the records themselves. Where the closure returns a timestamp, no later record of
    /// the partition is expected below it. A record that violates this is late.
    ///
    /// Use this for sources with markers, such as the end of a unit of work. The watermark takes effect after
    /// the record that carries it, at the latest after sixteen batches; the greatest so far counts. As long as a
    /// partition has had no such record, it holds back the watermark of all partitions. The closure's parameter
    /// needs a type annotation.
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
        let generator = Punctuated { mark: Arc::new(mark), greatest: None };
        Self { saves: saved::greatest(), ..Self::generated_by(generator) }
    }
}

impl<G> Watermarks<G> {
    /// Uses a [`WatermarkGenerator`], which is cloned for every partition, or piece of a file.
    ///
    /// In a job that goes on from a checkpoint, it begins anew, though no watermark goes back. One whose watermarks depend on more
    /// than the last records should be [saved](Self::saved).
    pub fn generated_by(generator: G) -> Self {
        let saves = saved::nothing();
        Self { generator, saves, disorder: None, interval: None, idle_after: None, drift: None }
    }

    /// Saves a generator of the program in checkpoints, with all that it remembers, so that the job goes on with it. The
    /// generators of this type's other constructors are saved in any case.
    ///
    /// The generator of a split of a [connector](crate::connector) goes to the task that reads the split then. Other tasks begin
    /// with their own where `parallel_iter` gives each the same iterator again, and else with that whose watermark was least,
    /// as any task may get the records of any other. Pieces of files have generators that begin anew, as each piece does.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::data::Record;
    /// use thalweg::operators::time::{WatermarkGenerator, Watermarks};
    /// use thalweg::time::Timestamp;
    /// use thalweg::{Data, Environment};
    ///
    /// /// Expects as much disorder as there has been.
    /// #[derive(Clone, Default, Data)]
    /// struct Learned {
    ///     greatest: Option<Timestamp>,
    ///     disorder: Duration,
    /// }
    ///
    /// impl<I: Record + ?Sized> WatermarkGenerator<I> for Learned {
    ///     fn observe(&mut self, _: &I::Of<'_>, at: Timestamp) {
    ///         let greatest = self.greatest.map_or(at, |greatest| greatest.max(at));
    ///         self.greatest = Some(greatest);
    ///         self.disorder = self.disorder.max(greatest.since(at));
    ///     }
    ///
    ///     fn watermark(&self) -> Option<Timestamp> {
    ///         Some(self.greatest?.saturating_sub(self.disorder))
    ///     }
    /// }
    ///
    /// let env = Environment::new();
    /// let timed = env.iter([7, 3, 9]).assign_timestamps(
    ///     |second| Timestamp::from_secs(*second),
    ///     Watermarks::generated_by(Learned::default()).saved(),
    /// );
    /// # let out = timed.count().collect_one();
    /// # env.run()?;
    /// # assert_eq!(out.take()?, Some(3));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn saved(mut self) -> Self
    where
        G: Data,
    {
        self.saves = saved::whole();
        self
    }

    /// The settings, for the plan.
    pub(super) fn details(&self) -> Details {
        Details::none()
            .with_some("disorder", self.disorder)
            .with_some("at_most_every", self.interval)
            .with_some("idle_after", self.idle_after)
            .with_some("aligned", self.drift)
    }

    /// Limits each task to one watermark in each such span of processing time. Event time then advances in fewer
    /// and larger steps: windows, timers and joins have less to check, and results come later by up to the span.
    ///
    /// Without this, a watermark is emitted as soon as a task has no input, and in a busy task after 0.2 ms. A
    /// watermark that is held back is emitted when the span is over, whether or not input arrives. Two things do
    /// not wait: the watermark of a task that is [no longer idle](Self::idle_after), and the end of the input. A
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

    /// Marks a partition as idle when it has had no record for this long. An idle partition does not hold back
    /// the watermark until it has a record again, which may then be late.
    ///
    /// Without this, the watermark waits for partitions without records, however long. A partition with slow
    /// receivers is never idle, nor is a split of a connector whose records are slow to come, or whose server is away: its reader
    /// [knows](crate::connector::SplitReader::is_caught_up) that there may be some.
    pub fn idle_after(mut self, quiet: Duration) -> Self {
        self.idle_after = Some(quiet);
        self
    }

    /// Stops a partition while its watermark is more than `most` ahead of that of the last one. This bounds what
    /// windows hold open, however different the partitions' speeds.
    ///
    /// Of a [connector](crate::connector) each split is stopped by itself, while the other splits of its task are read on. Tasks
    /// that read files are aligned by the file that each reads; the files themselves advance together in any case, since the one
    /// with the least watermark is read next. A partition may get ahead by what is read between two looks, about a thousand records.
    ///
    /// All partitions wait for one that has no record yet, until it has one, ends, or is idle by
    /// [`idle_after`](Self::idle_after). A partition that waits is not idle.
    pub fn aligned(mut self, most: Duration) -> Self {
        self.drift = Some(most);
        self
    }
}

/// The greatest timestamp so far minus a bound: [`Watermarks::bounded_disorder`].
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

impl Remembers for Disorder {
    fn greatest(&self) -> Option<Timestamp> {
        self.greatest
    }

    fn that_has_seen(&self, greatest: Option<Timestamp>) -> Self {
        Self { greatest, ..self.clone() }
    }
}

/// The greatest timestamp that a closure has returned: [`Watermarks::punctuated`].
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

impl<F> Remembers for Punctuated<F> {
    fn greatest(&self) -> Option<Timestamp> {
        self.greatest
    }

    fn that_has_seen(&self, greatest: Option<Timestamp>) -> Self {
        Self { greatest, ..self.clone() }
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
