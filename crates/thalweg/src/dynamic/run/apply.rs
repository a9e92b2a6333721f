//! An operator that emits at most one block for each input block.

use super::kernels::Kernel;
use crate::dynamic::columns::{Block, Columnar};
use crate::error::Result;
use crate::flow::{Event, Flow, Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::{Details, Origin, TaskContext};
use crate::stream::{Chain, Stream};
use std::sync::Arc;

/// Adds a kernel to a stream.
pub(super) fn apply<C: Chain<Item = Columnar, Time = ()>>(
    stream: Stream<C>,
    origin: Origin,
    details: Details,
    kernel: Kernel,
) -> Stream<Apply<C>> {
    let kernel = Arc::new(kernel);
    stream.then_described(origin, details, |prev, op| Apply { prev, op, kernel })
}

/// The chain that ends in a kernel.
pub(super) struct Apply<C> {
    prev: C,
    op: usize,
    kernel: Arc<Kernel>,
}

impl<C: Chain<Item = Columnar, Time = ()>> Chain for Apply<C> {
    type Item = Columnar;
    type Time = ();
    type Task<N: Push<Columnar, ()> + 'static> = C::Task<ApplyPush<N>>;

    fn attach<N: Push<Columnar, ()> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Self::Task<N>> {
        let (op, kernel) = (cx.op(self.op), Arc::clone(&self.kernel));
        self.prev.attach(cx, ApplyPush { op, kernel, rows: 0, failed: false, next })
    }
}

/// A kernel in a running task.
pub(super) struct ApplyPush<N> {
    op: Op,
    kernel: Arc<Kernel>,
    rows: u64,
    failed: bool,
    next: N,
}

impl<N: Pipe> Pipe for ApplyPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if !self.failed {
            self.next.event(event);
        }
    }

    fn resume(&mut self) -> Flow {
        // The job stops after this turn.
        if self.failed { Flow::Ready } else { self.next.resume() }
    }

    fn is_closed(&mut self) -> bool {
        self.failed || self.next.is_closed()
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.rows);
        self.next.report(report);
    }
}

impl<N: Push<Columnar, ()>> Push<Columnar, ()> for ApplyPush<N> {
    fn push(&mut self, block: Block, (): ()) {
        if self.failed {
            return;
        }
        match guard(&self.op, || self.kernel.apply(block)) {
            Ok(block) if block.rows() == 0 => {}
            Ok(block) => {
                self.rows += block.rows() as u64;
                self.next.push(block, ());
            }
            Err(error) => {
                self.failed = true;
                self.op.fail(error);
            }
        }
    }
}
