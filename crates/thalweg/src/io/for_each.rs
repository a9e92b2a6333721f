//! Sinks that call a closure with each record.

use crate::data::{Portable, Record};
use crate::flow::{Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::{Details, Origin};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Calls the closure with every record, one after the other, in one task: of several hosts, on the first.
    ///
    /// Records of one preceding task keep their order. For work that can run in parallel,
    /// [`for_each_parallel`](Self::for_each_parallel) is faster. If the job fails, the closure has been called for
    /// the records before the failure; to write output as a whole or not at all, use the sinks that write files.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let list = Arc::clone(&seen);
    /// env.iter(0..3).for_each(move |n| list.lock().unwrap().push(n));
    /// env.run()?;
    /// assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("foreach", "addSink", "sinkTo"))]
    #[track_caller]
    pub fn for_each<F>(self, f: F)
    where
        C::Item: Portable,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        let origin = Origin::here("for_each");
        self.gather(origin).call_each(origin, f);
    }

    /// Calls the closure with every record in the task that has the record: several tasks call it concurrently. On several
    /// hosts, each calls its own closure for the records of its tasks.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let sum = Arc::new(AtomicU64::new(0));
    /// let total = Arc::clone(&sum);
    /// env.range(0..1000).for_each_parallel(move |n| _ = total.fetch_add(n, Ordering::Relaxed));
    /// env.run()?;
    /// assert_eq!(sum.load(Ordering::Relaxed), 499_500);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn for_each_parallel<F>(self, f: F)
    where
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        self.call_each(Origin::here("for_each_parallel"), f);
    }

    fn call_each<F>(self, origin: Origin, f: F)
    where
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        let f = Arc::new(f);
        self.close_in_sink(origin, Details::none(), move |cx, op| {
            let (op, f) = (cx.op(op), Arc::clone(&f));
            Ok(ForEachPush { op, f, count: 0, types: PhantomData::<fn(&C::Item)> })
        });
    }
}

struct ForEachPush<I: ?Sized, F> {
    op: Op,
    f: Arc<F>,
    count: u64,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, F: Send + Sync> Pipe for ForEachPush<I, F> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.count);
    }
}

impl<I, T, F> Push<I, T> for ForEachPush<I, F>
where
    I: Record + ?Sized,
    T: Time,
    F: for<'a> Fn(I::Of<'a>) + Send + Sync,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        self.count += 1;
        guard(&self.op, || (self.f)(item));
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::check::every_on_one_host;
    use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
    use std::sync::Arc;

    #[test]
    fn one_place_means_one_at_a_time() {
        // The closure runs on the first host only.
        every_on_one_host(|env| {
            let (inside, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
            let list = Arc::clone(&seen);
            env.range(0..500).for_each(move |n| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                lock(&list).push(n);
                inside.fetch_sub(1, Ordering::SeqCst);
            });
            env.run()?;
            let mut seen = std::mem::take(&mut *lock(&seen));
            seen.sort();
            assert_eq!(seen, (0..500).collect::<Vec<_>>());
            Ok(())
        });
    }

    #[test]
    fn a_panic_names_the_sink() {
        let env = Environment::new();
        env.iter(0..10).for_each_parallel(|n| assert!(n < 5, "too many"));
        let error = env.run().unwrap_err().to_string();
        let (name, message) = ("for_each_parallel (", "panicked: too many");
        assert!(error.starts_with(name) && error.ends_with(message), "{error}");
    }
}
