//! Groups: puts rows into the engine's keyed tables, and packs the results into blocks.

use super::accumulate::{InLarge, InWords, Program, State, WORDS};
use super::chain::{Blocks, erased};
use super::kernels::mismatch;
use super::keys::{ByI64, ByRow, ByText, ByU64, KeyKind, KeyRows, Keyed, key_of};
use super::pack::{Fill, ROWS, pack};
use crate::data::Portable;
use crate::dynamic::check::GroupStep;
use crate::dynamic::columns::{Block, Field, Type};
use crate::error::Result;
use crate::operators::aggregates::{Combine, Count};
use crate::plan::{Details, Origin};
use crate::stream::Stream;
use std::sync::Arc;

/// Groups the rows of a stream whose columns are the group's inputs.
///
/// Each case is compiled separately, whether a program uses it or not. So there are few cases: keys of one common
/// column with states of fixed size, and a general case for all others.
#[inline]
#[track_caller]
pub(super) fn group(stream: Stream<Blocks>, step: &GroupStep, name: &str) -> Stream<Blocks> {
    let program = Program::new(&step.aggregates);
    let small = program.texts == 0 && program.words <= WORDS;
    match step.keys.as_slice() {
        [Field { kind: Type::U64, .. }] if small => by::<ByU64>(stream, step, program, name),
        [Field { kind: Type::I64, .. }] if small => by::<ByI64>(stream, step, program, name),
        [Field { kind: Type::Utf8, .. }] if small => by::<ByText>(stream, step, program, name),
        _ if small => {
            let states = InWords(program.clone());
            aggregate::<ByRow, _>(stream, step, program, states, name)
        }
        _ => {
            let states = InLarge(program.clone());
            aggregate::<ByRow, _>(stream, step, program, states, name)
        }
    }
}

#[track_caller]
fn by<X: KeyKind>(
    stream: Stream<Blocks>,
    step: &GroupStep,
    program: Program,
    name: &str,
) -> Stream<Blocks> {
    if program.is_count() {
        aggregate::<X, _>(stream, step, program, Count, name)
    } else {
        let states = InWords(program.clone());
        aggregate::<X, _>(stream, step, program, states, name)
    }
}

#[track_caller]
fn aggregate<X, A>(
    stream: Stream<Blocks>,
    step: &GroupStep,
    program: Program,
    aggregate: A,
    name: &str,
) -> Stream<Blocks>
where
    X: KeyKind,
    A: Combine<Keyed<X::Key>, Output: State>,
{
    let rows = Rows::<X, A::Output> {
        fields: step.keys.clone().into(),
        program: Arc::new(program),
        keys: Vec::new(),
        states: Vec::new(),
    };
    let table = stream
        .flat_each(KeyRows::<X>::new(step.keys.len()))
        .name(format!("{name}/keys"))
        .group_by_ref(key_of::<X::Key>)
        .aggregate(|_| aggregate)
        .name(format!("{name}/table"))
        .unkey();
    erased(pack(table, Origin::here("group"), Details::none(), rows))
}

/// Keys and their results, to be packed into a block.
struct Rows<X: KeyKind, S> {
    fields: Arc<[Field]>,
    program: Arc<Program>,
    keys: Vec<<X::Key as Portable>::Owned>,
    states: Vec<S>,
}

impl<X: KeyKind, S> Clone for Rows<X, S> {
    /// Each task begins with an empty clone.
    fn clone(&self) -> Self {
        Self {
            fields: Arc::clone(&self.fields),
            program: Arc::clone(&self.program),
            keys: Vec::new(),
            states: Vec::new(),
        }
    }
}

impl<X: KeyKind, S: State> Fill<(<X::Key as Portable>::Owned, S)> for Rows<X, S> {
    fn add(&mut self, (key, state): (<X::Key as Portable>::Owned, S)) {
        self.keys.push(key);
        self.states.push(state);
    }

    fn is_full(&self) -> bool {
        self.keys.len() >= ROWS
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn take(&mut self) -> Result<Block> {
        let rows = self.keys.len();
        let keys = std::mem::take(&mut self.keys);
        let mut columns = X::columns(&self.fields, keys).ok_or_else(mismatch)?;
        let key = |at: usize| {
            let values = columns.iter().filter_map(|column| column.value(at));
            let key = values.map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
            if key.is_empty() { key } else { format!(" of key {key}") }
        };
        let results = self.program.columns(&self.states, key)?;
        columns.extend(results);
        self.states.clear();
        Block::new(rows, columns).ok_or_else(mismatch)
    }
}
