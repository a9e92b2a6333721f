//! An exchange that splits blocks and sends each row to the task that owns its key group.

use super::chain::{Blocks, erased};
use super::keys::hashes;
use super::pack::unhashed;
use crate::data::Schema;
use crate::dynamic::columns::{Block, Columnar, Field};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{ByHash, Hashed, owner};
use crate::flow::{Op, Pipe, Push};
use crate::metrics::Report;
use crate::plan::{Details, Distribution, Origin, Parallelism, Strategy, TaskContext};
use crate::stream::{Chain, Stream};
use std::sync::Arc;

/// Sends all rows with the same values in these columns to one task.
#[inline]
pub(super) fn partition(
    stream: Stream<Blocks>,
    origin: Origin,
    details: Details,
    schema: &[Field],
    keys: &[usize],
) -> Stream<Blocks> {
    let key = keys.iter().map(|&at| schema[at].kind.schema()).collect::<Vec<_>>();
    // A key of one column is that value, not a tuple of it.
    let key = match <[_; 1]>::try_from(key) {
        Ok([single]) => single,
        Err(several) => Schema::Tuple(several),
    };
    let (parallelism, keys) = (Parallelism::Free(stream.env.keyed_tasks()), keys.into());
    let split = Origin { kind: "split", ..origin };
    let parts = stream.then(split, |prev, op| Split { prev, op, keys });
    let parts = parts.exchange(origin, Distribution::by(key), parallelism, |cx, op, edge| {
        edge.outlet(cx.task, cx.op(op), ByHash)
    });
    erased(unhashed(parts, origin, details))
}

/// Splits a block by the task that owns each row. Each part has the hash of one of its rows, since all of them have
/// the same owner.
fn split(block: &Block, keys: &[usize], tasks: usize) -> Vec<(u64, Block)> {
    let mut parts = vec![(0, Vec::new()); tasks];
    for (at, hash) in hashes(block, keys).into_iter().enumerate() {
        let (of, places): &mut (u64, Vec<usize>) = &mut parts[owner(hash, tasks)];
        *of = hash;
        places.push(at);
    }
    let parts = parts.into_iter().filter(|(_, places)| !places.is_empty());
    parts.map(|(hash, places)| (hash, block.take(&places))).collect()
}

/// The chain that ends in a split of blocks.
struct Split<C> {
    prev: C,
    op: usize,
    keys: Arc<[usize]>,
}

impl<C: Chain<Item = Columnar, Time = ()>> Chain for Split<C> {
    type Item = Hashed<Columnar>;
    type Time = ();
    type Task<N: Push<Self::Item, ()> + 'static> = C::Task<SplitPush<N>>;

    fn attach<N: Push<Self::Item, ()> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Self::Task<N>> {
        let (op, keys) = (cx.op(self.op), Arc::clone(&self.keys));
        // The stage ends in the exchange that sends the parts.
        let mut edges = cx.plan.edges.iter().filter(|edge| edge.from == cx.stage);
        let Some(edge) = edges.find(|edge| edge.strategy == Strategy::Keyed) else {
            let what = "a split by keys has no exchange";
            return Err(Error::new(ErrorKind::Internal, what).in_operator(&*op.name()));
        };
        let tasks = cx.plan.stages[edge.to].tasks;
        self.prev.attach(cx, SplitPush { op, keys, tasks, rows: 0, next })
    }
}

/// Splits blocks in a running task.
struct SplitPush<N> {
    op: Op,
    keys: Arc<[usize]>,
    tasks: usize,
    rows: u64,
    next: N,
}

impl<N: Pipe> Pipe for SplitPush<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.rows);
        self.next.report(report);
    }
}

impl<N: Push<Hashed<Columnar>, ()>> Push<Columnar, ()> for SplitPush<N> {
    fn push(&mut self, block: Block, (): ()) {
        self.rows += block.rows() as u64;
        for part in split(&block, &self.keys, self.tasks) {
            self.next.push(part, ());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;
    use crate::dynamic::columns::{Column, Value};

    #[test]
    fn a_row_goes_where_a_typed_record_of_its_key_goes() {
        let column = Column::U64((0..1000).map(|n| n % 77).collect());
        let block = Block::new(1000, [Column::U64((0..1000).collect()), column]).unwrap();
        for tasks in [1, 3, 8] {
            let parts = split(&block, &[1], tasks);
            assert_eq!(parts.iter().map(|(_, part)| part.rows()).sum::<usize>(), 1000);
            for (hash, part) in parts {
                for at in 0..part.rows() {
                    let Some(Value::U64(key)) = part.columns()[1].value(at) else { panic!() };
                    assert_eq!(owner(key.key_hash(), tasks), owner(hash, tasks));
                }
            }
        }
    }
}
