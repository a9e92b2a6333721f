//! A sink that prints records as lines on standard output.

use crate::clock::Nanos;
use crate::data::{Portable, Record};
use crate::error::{Error, ErrorKind};
use crate::flow::{Event, Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::{Details, Origin};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::marker::PhantomData;

/// The number of buffered bytes at which lines are written.
const FULL: usize = 64 << 10;

impl<C: Chain> Stream<C> {
    /// Prints every record on standard output, a line each, in one task: of several hosts, on the first.
    ///
    /// Under load, many lines are written at a time; when the input runs out, lines are written at once. Lines before
    /// a failure have been printed. A job that goes on from a [checkpoint](crate::config::CheckpointConfig) prints the
    /// records since the checkpoint again.
    ///
    /// # Errors
    ///
    /// If standard output can no longer be written to, the job stops. If its reader has closed it, the message says
    /// so.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// env.iter(["one", "two"]).map(|word| format!("{word}: {}", word.len())).print();
    /// env.run()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("show"))]
    #[track_caller]
    pub fn print(self)
    where
        C::Item: Portable,
        for<'a> <C::Item as Record>::Of<'a>: Display,
    {
        let origin = Origin::here("print");
        self.gather(origin).close_in_sink(origin, Details::none(), |cx, op| {
            Ok(PrintPush::<C::Item, _>::new(cx.op(op), io::stdout))
        });
    }
}

struct PrintPush<I: ?Sized, F> {
    op: Op,
    lines: String,
    count: u64,
    failed: bool,
    /// Opens the output, which is then locked once for many lines.
    open: F,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, W: Write, F: Fn() -> W> PrintPush<I, F> {
    fn new(op: Op, open: F) -> Self {
        Self { op, lines: String::new(), count: 0, failed: false, open, types: PhantomData }
    }

    #[cold]
    fn write(&mut self) {
        if !self.failed && !self.lines.is_empty() {
            let mut output = (self.open)();
            let written = output.write_all(self.lines.as_bytes()).and_then(|()| output.flush());
            if let Err(cause) = written {
                self.fail(refused(cause));
            }
        }
        self.lines.clear();
    }

    fn fail(&mut self, error: Error) {
        self.failed = true;
        self.op.fail(error);
    }
}

fn refused(cause: io::Error) -> Error {
    let what = match cause.kind() {
        io::ErrorKind::BrokenPipe => "the standard output has no reader any more",
        _ => "cannot write to the standard output",
    };
    Error::new(ErrorKind::Io, what).caused_by(cause)
}

impl<I: Record + ?Sized, W: Write, F: Fn() -> W + Send> Pipe for PrintPush<I, F> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, _: Event) {
        self.write();
    }

    fn idle(&mut self, _: Nanos) -> Option<Nanos> {
        self.write();
        None
    }

    fn tick(&mut self, _: Nanos) {
        self.write();
    }

    fn is_closed(&mut self) -> bool {
        self.failed
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.count);
    }
}

impl<I, T, W, F> Push<I, T> for PrintPush<I, F>
where
    I: Record + ?Sized,
    T: Time,
    W: Write,
    F: Fn() -> W + Send,
    for<'a> I::Of<'a>: Display,
{
    #[inline]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        self.count += 1;
        let Self { op, lines, .. } = self;
        if guard(op, || writeln!(lines, "{item}")).is_err() {
            let what = "a record could not be displayed: its `Display` gave an error";
            self.fail(Error::new(ErrorKind::Input, what));
        }
        if self.lines.len() >= FULL {
            self.write();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Epoch;
    use crate::sync::{Mutex, lock};
    use crate::{Environment, Result};
    use std::sync::Arc;

    /// A shared buffer that several writers fill; after a number of bytes the pipe breaks.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = lock(&self.0);
            if written.len() + bytes.len() > self.1 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            written.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn print(paper: &Paper, records: std::ops::Range<u32>) -> Result<()> {
        let env = Environment::new();
        let open = paper.clone();
        let origin = Origin::here("print");
        env.iter(records).gather(origin).close(origin, Details::none(), move |cx, op| {
            let open = open.clone();
            Ok(PrintPush::<u32, _>::new(cx.op(op), move || open.clone()))
        });
        env.run()
    }

    #[test]
    fn every_record_is_a_line() -> Result<()> {
        let paper = Paper(Arc::default(), usize::MAX);
        print(&paper, 0..50_000)?;
        let expected: String = (0..50_000).map(|n| format!("{n}\n")).collect();
        assert!(*lock(&paper.0) == expected.as_bytes());
        Ok(())
    }

    #[test]
    fn lines_are_printed_before_a_barrier_has_passed() -> Result<()> {
        let paper = Paper(Arc::default(), usize::MAX);
        let env = Environment::new();
        let origin = Origin::here("print");
        let printed = paper.clone();
        env.iter(0..0u32).gather(origin).close(origin, Details::none(), move |cx, op| {
            let paper = printed.clone();
            let mut print = PrintPush::<u32, _>::new(cx.op(op), move || paper.clone());
            Push::<u32, ()>::push(&mut print, 7, ());
            assert!(lock(&printed.0).is_empty(), "one line is not worth a system call");
            print.event(Event::Barrier(Epoch(1)));
            assert_eq!(*lock(&printed.0), b"7\n");
            Ok(print)
        });
        env.run()?;
        assert_eq!(*lock(&paper.0), b"7\n", "it was there");
        Ok(())
    }

    #[test]
    fn a_broken_pipe_is_said_in_words() {
        let paper = Paper(Arc::default(), 100_000);
        let error = print(&paper, 0..1_000_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.message(), "the standard output has no reader any more");
        assert!(error.operator().unwrap_or_default().starts_with("print ("), "{error}");
    }

    #[test]
    fn a_record_that_cannot_be_displayed_stops_the_job() {
        #[derive(crate::Data)]
        struct Shy(u8);
        impl Display for Shy {
            fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if self.0 == 0 { Err(std::fmt::Error) } else { Ok(()) }
            }
        }
        let env = Environment::new();
        env.iter([0]).map(Shy).print();
        assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Input);
    }
}
