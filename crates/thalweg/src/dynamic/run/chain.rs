//! Streams of blocks whose type does not depend on the operators before them.

use crate::clock::Nanos;
use crate::dynamic::columns::{Block, Columnar};
use crate::error::Result;
use crate::flow::{Event, Flow, Pipe, Push, Task};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::stream::{Chain, Stream};

/// The chain of a stream of blocks, whatever its operators.
///
/// The cost is one dynamic call a block between two operators.
pub(super) struct Blocks {
    chain: Box<dyn Erased>,
}

trait Erased: Send {
    fn attach_rest(&self, cx: &TaskContext<'_>, rest: Rest) -> Result<Box<dyn Task>>;
}

impl<C: Chain<Item = Columnar, Time = ()>> Erased for C {
    fn attach_rest(&self, cx: &TaskContext<'_>, rest: Rest) -> Result<Box<dyn Task>> {
        Ok(Box::new(self.attach(cx, rest)?))
    }
}

impl Chain for Blocks {
    type Item = Columnar;
    type Time = ();
    type Task<N: Push<Columnar, ()> + 'static> = Box<dyn Task>;

    fn attach<N: Push<Columnar, ()> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Box<dyn Task>> {
        self.chain.attach_rest(cx, Rest(Box::new(next)))
    }
}

/// Hides the operators so far.
pub(super) fn erased<C: Chain<Item = Columnar, Time = ()>>(stream: Stream<C>) -> Stream<Blocks> {
    let chain = Blocks { chain: Box::new(stream.chain) };
    Stream { chain, env: stream.env, stage: stream.stage }
}

/// The operators that follow in a stage, as a trait object.
pub(super) struct Rest(Box<dyn PushBlock>);

/// `Push`, as far as it can be called on a trait object.
trait PushBlock: Pipe {
    fn push_block(&mut self, block: Block);
}

impl<N: Push<Columnar, ()>> PushBlock for N {
    fn push_block(&mut self, block: Block) {
        self.push(block, ());
    }
}

impl Push<Columnar, ()> for Rest {
    fn push(&mut self, block: Block, (): ()) {
        self.0.push_block(block);
    }
}

impl Pipe for Rest {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut *self.0)
    }

    fn event(&mut self, event: Event) {
        self.0.event(event);
    }

    fn resume(&mut self) -> Flow {
        self.0.resume()
    }

    fn is_full(&mut self) -> bool {
        self.0.is_full()
    }

    fn is_closed(&mut self) -> bool {
        self.0.is_closed()
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        self.0.idle(now)
    }

    fn tick(&mut self, now: Nanos) {
        self.0.tick(now);
    }

    fn report(&mut self, report: &mut Report) {
        self.0.report(report);
    }
}
