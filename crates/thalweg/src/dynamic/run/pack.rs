//! An operator that packs single records into blocks.

use super::layout::{Layouts, SavedLayouts};
use crate::data::Record;
use crate::dynamic::columns::{Block, Column, Columnar, Text};
use crate::error::Result;
use crate::exchange::Hashed;
use crate::flow::{Event, Flow, Op, Pipe, Push};
use crate::plan::{Details, Origin, TaskContext};
use crate::stream::{Chain, Stream};
use std::marker::PhantomData;

/// Rows of a block whose size is not limited by its bytes.
pub(super) const ROWS: usize = 4096;
/// Bytes of a block's texts: small enough, with the results of operators on them, for a core's own cache.
pub(super) const BYTES: usize = 64 << 10;

/// A block that is being built from records of kind `I`.
pub(super) trait Fill<I: Record + ?Sized>: Clone + Send + 'static {
    /// Adds a record.
    fn add(&mut self, item: I::Of<'_>);
    /// Whether the block should be emitted.
    fn is_full(&self) -> bool;
    /// Whether it has no rows.
    fn is_empty(&self) -> bool;
    /// Returns the block and begins another one.
    fn take(&mut self) -> Result<Block>;
}

/// Packs the records of a stream; `origin` names the operator and its place in the program.
pub(super) fn pack<C, F>(
    stream: Stream<C>,
    origin: Origin,
    details: Details,
    fill: F,
) -> Stream<Pack<C, F>>
where
    C: Chain<Time = ()>,
    F: Fill<C::Item>,
{
    stream.then_described(origin, details, |prev, op| Pack { prev, op, fill, layouts: None })
}

/// As [`pack`], for the records of a source, which saves the layouts of the graph.
pub(super) fn pack_source<C, F>(
    stream: Stream<C>,
    origin: Origin,
    details: Details,
    (fill, layouts): (F, &Layouts),
) -> Stream<Pack<C, F>>
where
    C: Chain<Time = ()>,
    F: Fill<C::Item>,
{
    let mut packed = pack(stream, origin, details, fill);
    packed.chain.layouts = Some(layouts.clone());
    packed
}

/// The chain that ends in a packing operator.
pub(super) struct Pack<C, F> {
    prev: C,
    op: usize,
    fill: F,
    /// The layouts of the graph, where the stream begins.
    layouts: Option<Layouts>,
}

impl<C: Chain<Time = ()>, F: Fill<C::Item>> Chain for Pack<C, F> {
    type Item = Columnar;
    type Time = ();
    type Task<N: Push<Columnar, ()> + 'static> = C::Task<PackPush<C::Item, F, N>>;

    fn attach<N: Push<Columnar, ()> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Self::Task<N>> {
        let (op, fill) = (cx.op(self.op), self.fill.clone());
        let layouts = self.layouts.as_ref().map(|layouts| layouts.saved(cx, self.op));
        let (layouts, types) = (layouts.transpose()?, PhantomData);
        self.prev.attach(cx, PackPush { op, fill, layouts, failed: false, next, types })
    }
}

/// Packs records in a running task.
pub(super) struct PackPush<I: ?Sized, F, N> {
    op: Op,
    fill: F,
    layouts: Option<SavedLayouts>,
    failed: bool,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: Record + ?Sized, F: Fill<I>, N: Push<Columnar, ()>> PackPush<I, F, N> {
    #[inline(never)]
    fn hand_over(&mut self) {
        if self.failed || self.fill.is_empty() {
            return;
        }
        match self.fill.take() {
            Ok(block) => self.next.push(block, ()),
            Err(error) => {
                self.failed = true;
                self.op.fail(error);
            }
        }
    }
}

impl<I: Record + ?Sized, F: Fill<I>, N: Push<Columnar, ()>> Pipe for PackPush<I, F, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.hand_over();
        if !self.failed {
            self.layouts.iter().for_each(|layouts| layouts.save(event));
            self.next.event(event);
        }
    }

    fn resume(&mut self) -> Flow {
        if self.failed {
            return Flow::Ready;
        }
        // Emitted here, so that no rows stay in the middle of a stage between two batches.
        match self.next.resume() {
            Flow::Ready if !self.fill.is_empty() => {
                self.hand_over();
                self.next.resume()
            }
            other => other,
        }
    }

    fn is_closed(&mut self) -> bool {
        self.failed || self.next.is_closed()
    }
}

impl<I: Record + ?Sized, F: Fill<I>, N: Push<Columnar, ()>> Push<I, ()> for PackPush<I, F, N> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, (): ()) {
        self.fill.add(item);
        if self.fill.is_full() {
            self.hand_over();
        }
    }
}

/// A block of one text column that is being built.
#[derive(Clone, Default)]
pub(super) struct Texts(Text);

impl Fill<str> for Texts {
    #[inline(always)]
    fn add(&mut self, line: &str) {
        self.0.push(line);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.0.data().len() >= BYTES || self.0.len() >= ROWS
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self) -> Result<Block> {
        let empty = Text::with_capacity(self.0.len(), self.0.data().len());
        let texts = std::mem::replace(&mut self.0, empty);
        one_column(Column::Utf8(texts))
    }
}

/// A block of one number column that is being built.
#[derive(Clone, Default)]
pub(super) struct Numbers(Vec<u64>);

impl Fill<u64> for Numbers {
    #[inline(always)]
    fn add(&mut self, number: u64) {
        self.0.push(number);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.0.len() >= ROWS
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self) -> Result<Block> {
        let numbers = std::mem::replace(&mut self.0, Vec::with_capacity(ROWS));
        one_column(Column::U64(numbers))
    }
}

fn one_column(column: Column) -> Result<Block> {
    Block::new(column.len(), [column]).ok_or_else(super::kernels::mismatch)
}

/// Passes on blocks that are packed already.
#[derive(Clone, Default)]
struct Packed(Option<Block>);

impl Fill<Block> for Packed {
    fn add(&mut self, block: Block) {
        self.0 = Some(block);
    }

    fn is_full(&self) -> bool {
        true
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn take(&mut self) -> Result<Block> {
        self.0.take().ok_or_else(super::kernels::mismatch)
    }
}

impl Fill<Hashed<Columnar>> for Packed {
    fn add(&mut self, (_, block): (u64, Block)) {
        self.0 = Some(block);
    }

    fn is_full(&self) -> bool {
        true
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn take(&mut self) -> Result<Block> {
        self.0.take().ok_or_else(super::kernels::mismatch)
    }
}

/// Removes the hashes from a stream of blocks.
pub(super) fn unhashed<C: Chain<Item = Hashed<Columnar>, Time = ()>>(
    stream: Stream<C>,
    origin: Origin,
    details: Details,
) -> Stream<impl Chain<Item = Columnar, Time = ()> + use<C>> {
    pack(stream, origin, details, Packed::default())
}

/// Converts blocks from values, which sources emit, into records that count as many as their rows.
pub(super) fn unpacked<C: Chain<Item = Block, Time = ()>>(
    stream: Stream<C>,
    origin: Origin,
    details: Details,
    layouts: &Layouts,
) -> Stream<impl Chain<Item = Columnar, Time = ()> + use<C>> {
    pack_source(stream, origin, details, (Packed::default(), layouts))
}
