//! Aggregates that are known only at run time, as states of the engine's keyed table.
//!
//! A state consists of words, some of them for each aggregate:
//!
//! | aggregate | words |
//! |---|---|
//! | count | the number |
//! | sum of integers | the sum, in two |
//! | sum of floats | its bits |
//! | min, max | the value's rank; for text and bytes, the value itself, stored beside the words |
//! | average | a count, and a sum as above |

use super::keys::{Keyed, Row};
use super::ordered::{push_rank, rank};
use crate::data::{Data, Key};
use crate::dynamic::check::AggregateStep;
use crate::dynamic::columns::{Bytes, Column, Text, Type};
use crate::dynamic::operation::AggregateFunction;
use crate::error::{Error, ErrorKind, Result};
use crate::operators::aggregates::{Aggregate, Combine};

/// The words of a state of fixed size, which is moved without access to memory elsewhere.
pub(super) const WORDS: usize = 6;

/// A value of text or bytes, if there is one.
type Held = Option<Vec<u8>>;

/// The aggregates of a group, and their places in the state.
#[derive(Clone, Debug)]
pub(super) struct Program {
    parts: Vec<Accumulator>,
    /// The words of a state.
    pub(super) words: usize,
    /// The number of text and bytes values stored beside the words.
    pub(super) texts: usize,
}

#[derive(Clone, Debug)]
struct Accumulator {
    step: AggregateStep,
    /// The index of its first word; for the least or greatest text, the index of the value beside the words.
    at: usize,
}

impl Accumulator {
    fn is_text(&self) -> bool {
        matches!(self.step.of, Type::Utf8 | Type::Bytes)
    }
}

fn get_sum(words: &[u64], at: usize) -> i128 {
    (u128::from(words[at + 1]) << 64 | u128::from(words[at])) as i128
}

fn put_sum(words: &mut [u64], at: usize, sum: i128) {
    (words[at], words[at + 1]) = (sum as u64, (sum >> 64) as u64);
}

fn add_float(words: &mut [u64], at: usize, value: f64) {
    words[at] = (f64::from_bits(words[at]) + value).to_bits();
}

fn add(words: &mut [u64], at: usize, column: &Column, row: usize) {
    match column {
        // 128 bits cannot overflow with any possible number of records.
        Column::I64(values) => put_sum(words, at, get_sum(words, at) + i128::from(values[row])),
        Column::U64(values) => put_sum(words, at, get_sum(words, at) + i128::from(values[row])),
        Column::F64(values) => add_float(words, at, values[row]),
        _ => {}
    }
}

fn better(function: AggregateFunction, new: &[u8], old: &Held) -> bool {
    match old {
        None => true,
        Some(old) if function == AggregateFunction::Min => new < old.as_slice(),
        Some(old) => new > old.as_slice(),
    }
}

impl Program {
    pub(super) fn new(steps: &[AggregateStep]) -> Self {
        let mut program = Self { parts: Vec::new(), words: 0, texts: 0 };
        for step in steps {
            let part = Accumulator { step: step.clone(), at: 0 };
            let sum = if step.of == Type::F64 { 1 } else { 2 };
            let (place, size) = match step.function {
                AggregateFunction::Min | AggregateFunction::Max if part.is_text() => {
                    (&mut program.texts, 1)
                }
                AggregateFunction::Sum => (&mut program.words, sum),
                AggregateFunction::Average => (&mut program.words, sum + 1),
                _ => (&mut program.words, 1),
            };
            let at = *place;
            *place += size;
            program.parts.push(Accumulator { at, ..part });
        }
        program
    }

    /// Whether it counts rows and nothing else.
    pub(super) fn is_count(&self) -> bool {
        matches!(self.parts.as_slice(), [part] if part.step.function == AggregateFunction::Count)
    }

    /// As in `(count, sum)`.
    fn name(&self) -> String {
        let functions = self.parts.iter().map(|part| format!("{:?}", part.step.function));
        format!("({})", functions.collect::<Vec<_>>().join(", ").to_lowercase())
    }

    fn start(&self, words: &mut [u64]) {
        for part in &self.parts {
            if part.step.function == AggregateFunction::Min && !part.is_text() {
                words[part.at] = u64::MAX;
            }
        }
    }

    #[inline(always)]
    fn update<K: ?Sized>(&self, words: &mut [u64], texts: &mut [Held], row: &Row<'_, K>) {
        for Accumulator { step, at } in &self.parts {
            let at = *at;
            if step.function == AggregateFunction::Count {
                words[at] += 1;
                continue;
            }
            let column = &*row.block.columns()[step.input];
            match step.function {
                AggregateFunction::Count => {}
                AggregateFunction::Sum => add(words, at, column, row.at),
                AggregateFunction::Average => {
                    words[at] += 1;
                    add(words, at + 1, column, row.at);
                }
                AggregateFunction::Min | AggregateFunction::Max => {
                    let new = match column {
                        Column::Utf8(text) => text.get(row.at).as_bytes(),
                        Column::Bytes(bytes) => bytes.get(row.at),
                        fixed if step.function == AggregateFunction::Min => {
                            words[at] = words[at].min(rank(fixed, row.at));
                            continue;
                        }
                        fixed => {
                            words[at] = words[at].max(rank(fixed, row.at));
                            continue;
                        }
                    };
                    if better(step.function, new, &texts[at]) {
                        texts[at] = Some(new.to_vec());
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn combine(
        &self,
        words: &mut [u64],
        texts: &mut [Held],
        others: &[u64],
        other_texts: &mut [Held],
    ) {
        for part in &self.parts {
            let (at, step) = (part.at, &part.step);
            let add = |words: &mut [u64], at: usize| match step.of {
                Type::F64 => add_float(words, at, f64::from_bits(others[at])),
                _ => put_sum(words, at, get_sum(words, at) + get_sum(others, at)),
            };
            match step.function {
                AggregateFunction::Count => words[at] += others[at],
                AggregateFunction::Sum => add(words, at),
                AggregateFunction::Average => {
                    words[at] += others[at];
                    add(words, at + 1);
                }
                AggregateFunction::Min | AggregateFunction::Max if part.is_text() => {
                    if let Some(new) = other_texts[at].take()
                        && better(step.function, &new, &texts[at])
                    {
                        texts[at] = Some(new);
                    }
                }
                AggregateFunction::Min => words[at] = words[at].min(others[at]),
                AggregateFunction::Max => words[at] = words[at].max(others[at]),
            }
        }
    }

    /// The results of keys, as columns. The closure names the key of a state, for messages.
    pub(super) fn columns<S: State>(
        &self,
        states: &[S],
        key: impl Fn(usize) -> String,
    ) -> Result<Vec<Column>> {
        self.parts.iter().map(|part| part.column(states, &key)).collect()
    }
}

impl Accumulator {
    fn column<S: State>(&self, states: &[S], key: &impl Fn(usize) -> String) -> Result<Column> {
        let (at, of) = (self.at, self.step.of);
        Ok(match self.step.function {
            AggregateFunction::Count => Column::U64(states.iter().map(|s| s.words()[at]).collect()),
            AggregateFunction::Average => {
                let mean = |state: &S| {
                    let words = state.words();
                    let sum = match of {
                        Type::F64 => f64::from_bits(words[at + 1]),
                        _ => get_sum(words, at + 1) as f64,
                    };
                    sum / words[at] as f64
                };
                Column::F64(states.iter().map(mean).collect())
            }
            AggregateFunction::Sum => match of {
                Type::F64 => {
                    let sum = |state: &S| f64::from_bits(state.words()[at]);
                    Column::F64(states.iter().map(sum).collect())
                }
                Type::I64 => Column::I64(self.sums(states, key)?),
                _ => Column::U64(self.sums(states, key)?),
            },
            AggregateFunction::Min | AggregateFunction::Max => match of {
                Type::Bytes => {
                    let held = states.iter().map(|s| s.texts()[at].as_deref().unwrap_or_default());
                    Column::Bytes(held.collect::<Bytes>())
                }
                Type::Utf8 => {
                    let mut texts = Text::default();
                    for state in states {
                        let held = state.texts()[at].as_deref().unwrap_or_default();
                        let text = str::from_utf8(held).map_err(|cause| {
                            let what = "a text was kept that is none";
                            Error::new(ErrorKind::Internal, what).caused_by(cause)
                        })?;
                        texts.push(text);
                    }
                    Column::Utf8(texts)
                }
                of => {
                    let mut column = Column::new(of);
                    states.iter().for_each(|state| push_rank(&mut column, state.words()[at]));
                    column
                }
            },
        })
    }

    fn sums<S: State, T: TryFrom<i128>>(
        &self,
        states: &[S],
        key: &impl Fn(usize) -> String,
    ) -> Result<Vec<T>> {
        let sum = |(at, state): (usize, &S)| {
            let sum = get_sum(state.words(), self.at);
            T::try_from(sum).map_err(|_| {
                let (name, of, key) = (&self.step.name, self.step.of, key(at));
                let what = format!("the sum `{name}`{key} is {sum}, which is no {of}");
                Error::new(ErrorKind::Input, what)
            })
        };
        states.iter().enumerate().map(sum).collect()
    }
}

/// The state of a key, from which columns are built.
pub(super) trait State: Data {
    fn words(&self) -> &[u64];

    fn texts(&self) -> &[Held] {
        &[]
    }
}

impl State for u64 {
    fn words(&self) -> &[u64] {
        std::slice::from_ref(self)
    }
}

impl State for [u64; WORDS] {
    fn words(&self) -> &[u64] {
        self
    }
}

/// A state of any number of words, with text.
#[derive(Data)]
pub(super) struct Large {
    words: Vec<u64>,
    texts: Vec<Option<Vec<u8>>>,
}

impl State for Large {
    fn words(&self) -> &[u64] {
        &self.words
    }

    fn texts(&self) -> &[Held] {
        &self.texts
    }
}

/// A program whose state is [`WORDS`] words.
pub(super) struct InWords(pub(super) Program);

impl<K: Key + ?Sized> Aggregate<Keyed<K>> for InWords {
    type State = [u64; WORDS];
    type Output = [u64; WORDS];

    #[inline(always)]
    fn start(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        self.0.start(&mut words);
        words
    }

    #[inline(always)]
    fn update(&self, state: &mut [u64; WORDS], row: Row<'_, K>) {
        self.0.update(state, &mut [], &row);
    }

    fn finish(&self, state: [u64; WORDS]) -> [u64; WORDS] {
        state
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

impl<K: Key + ?Sized> Combine<Keyed<K>> for InWords {
    #[inline(always)]
    fn combine(&self, state: &mut [u64; WORDS], other: [u64; WORDS]) {
        self.0.combine(state, &mut [], &other, &mut []);
    }
}

/// A program whose state is [`Large`].
pub(super) struct InLarge(pub(super) Program);

impl<K: Key + ?Sized> Aggregate<Keyed<K>> for InLarge {
    type State = Large;
    type Output = Large;

    fn start(&self) -> Large {
        let mut state = Large { words: vec![0; self.0.words], texts: vec![None; self.0.texts] };
        self.0.start(&mut state.words);
        state
    }

    #[inline(always)]
    fn update(&self, state: &mut Large, row: Row<'_, K>) {
        self.0.update(&mut state.words, &mut state.texts, &row);
    }

    fn finish(&self, state: Large) -> Large {
        state
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

impl<K: Key + ?Sized> Combine<Keyed<K>> for InLarge {
    #[inline(always)]
    fn combine(&self, state: &mut Large, mut other: Large) {
        let Large { words, texts } = state;
        self.0.combine(words, texts, &other.words, &mut other.texts);
    }
}
