//! A limit of the number of rows.

use crate::checkpoint::{Redistribution, StateHandle};
use crate::dynamic::columns::{Block, Columnar};
use crate::error::Result;
use crate::flow::{Event, Pipe, Push, RoundScoped};
use crate::metrics::Report;
use crate::operators::per_stream::limit::Left;
use crate::plan::{Details, Origin, Scope, TaskContext};
use crate::stream::{Chain, Stream};

/// Emits the first `n` rows of all tasks together, in one task, and lets the sources end.
pub(super) fn limit<C: Chain<Item = Columnar, Time = ()>>(
    stream: Stream<C>,
    origin: Origin,
    n: u64,
) -> Stream<impl Chain<Item = Columnar, Time = ()> + use<C>> {
    let rows = Details::of("rows", n);
    let local = rows.clone().with("phase", "local");
    stream
        .then_described(origin, local, |prev, op| Limit { prev, op, n, is_global: false })
        .gather(origin)
        .then_described(origin, rows.with("phase", "global"), |prev, op| Limit {
            prev,
            op,
            n,
            is_global: true,
        })
        .with_state::<u64>(Scope::Task)
}

/// The chain that ends in a limit of rows.
struct Limit<C> {
    prev: C,
    op: usize,
    n: u64,
    /// Whether it counts the rows of all tasks. The count of a single task depends on timing, and is not saved.
    is_global: bool,
}

impl<C: Chain<Item = Columnar, Time = ()>> Chain for Limit<C> {
    type Item = Columnar;
    type Time = ();
    type Task<N: Push<Columnar, ()> + 'static> = C::Task<LimitPush<N>>;

    fn attach<N: Push<Columnar, ()> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Self::Task<N>> {
        let mut scoped = RoundScoped::new(cx.op(self.op), Left(self.n), next);
        let state = match self.is_global {
            true => cx.state::<u64>(self.op, "left", Redistribution::First),
            false => StateHandle::none(),
        };
        state.restore(|left| {
            scoped.state = Left(left);
            Ok(())
        })?;
        self.prev.attach(cx, LimitPush { emitted: 0, scoped, state })
    }
}

/// A limit of rows in a running task.
struct LimitPush<N> {
    emitted: u64,
    scoped: RoundScoped<Left, N>,
    state: StateHandle,
}

impl<N: Pipe> Pipe for LimitPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.scoped)
    }

    fn event(&mut self, event: Event) {
        self.state.save(event, |out| out.add(&self.scoped.state.0));
        self.scoped.event(event);
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.scoped.op.id(), self.emitted);
        self.scoped.report(report);
    }
}

impl<N: Push<Columnar, ()>> Push<Columnar, ()> for LimitPush<N> {
    fn push(&mut self, block: Block, (): ()) {
        let RoundScoped { state: Left(left), next, .. } = &mut self.scoped;
        if *left > 0 {
            let most = usize::try_from(*left).unwrap_or(usize::MAX);
            let block = block.head(most);
            *left -= block.rows() as u64;
            self.emitted += block.rows() as u64;
            next.push(block, ());
        }
    }
}
