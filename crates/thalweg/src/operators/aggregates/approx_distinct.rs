//! How many values differ, about, in a few kilobytes.

use super::{Aggregate, Combine};
use crate::data::{Data, DecodeError, Record, Schema};
use datasketches::hll::{HllSketch, HllType, HllUnion};
use std::marker::PhantomData;

/// About how many different ones there are among what the closure makes of the values.
///
/// A HyperLogLog sketch of 4,096 registers: the estimate's standard error is 1.6 %, and it is off by more
/// than three times that once in some 300 estimates. Up to a few hundred different ones, it is nearly
/// always exact. The same values give the same estimate, whatever their order and however they were
/// divided. Memory: from 32 bytes a key up to 4 KB; [`precision`](ApproxCountDistinct::precision) changes
/// that. For an exact count see [`count_distinct`](super::count_distinct).
///
/// From Flajolet and others, "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm"
/// (2007), as the Apache DataSketches library has it.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::approx_count_distinct;
///
/// let env = Environment::new();
/// let visits = env.iter((0..100_000u64).map(|n| n % 20_000));
/// let out = visits.group_by(|_| ()).aggregate(approx_count_distinct(|visitor: u64| visitor));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// let (_, estimate) = out.take()?[0];
/// assert!((19_000..21_000).contains(&estimate));
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn approx_count_distinct<F, N>(of: F) -> ApproxCountDistinct<F, N> {
    ApproxCountDistinct { of, precision: 12, types: PhantomData }
}

/// About how many values differ: [`approx_count_distinct`].
pub struct ApproxCountDistinct<F, N> {
    of: F,
    precision: u8,
    types: PhantomData<fn() -> N>,
}

/// Precisions that can be asked for.
const PRECISIONS: std::ops::RangeInclusive<u8> = 4..=16;

impl<F, N> ApproxCountDistinct<F, N> {
    /// Uses 2<sup>`precision`</sup> registers of a byte each, which makes the standard error
    /// 1.04 / 2<sup>`precision` / 2</sup>: 12 if nothing is said. A job that asks for less than 4 or more
    /// than 16 is refused at its start.
    pub fn precision(self, precision: u8) -> Self {
        Self { precision, ..self }
    }
}

impl<V, F, N> Aggregate<V> for ApproxCountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data,
{
    type State = Sketch;
    type Output = u64;

    fn start(&self) -> Sketch {
        Sketch(HllUnion::new(self.precision).expect("the precision was checked"))
    }

    #[inline(always)]
    fn update(&self, state: &mut Sketch, value: V::Of<'_>) {
        state.0.update_value((self.of)(value).key_hash());
    }

    fn finish(&self, state: Sketch) -> u64 {
        state.0.composite_estimate().round() as u64
    }

    fn check(&self) -> Result<(), String> {
        if PRECISIONS.contains(&self.precision) {
            return Ok(());
        }
        Err(format!(
            "approx_count_distinct has a precision from {} to {}, and was asked for {}",
            PRECISIONS.start(),
            PRECISIONS.end(),
            self.precision
        ))
    }
}

impl<V, F, N> Combine<V> for ApproxCountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data,
{
    fn combine(&self, state: &mut Sketch, other: Sketch) {
        state.0.update(&other.0.to_sketch(HllType::Hll8));
    }
}

/// A sketch of the values seen.
#[derive(Clone)]
pub struct Sketch(HllUnion);

/// What a [`Sketch`] knows, in one form for all sketches that know the same. The library's own form
/// depends on the order of the values, and not all that can be wrong with it is found when it is read.
#[derive(Data)]
struct Image {
    precision: u8,
    seen: Seen,
}

#[derive(Data)]
enum Seen {
    /// The hashes of few values, as a register and what would be in it, ascending.
    Hashes(Vec<u32>),
    /// What is in each register.
    Registers(Vec<u8>),
}

/// The library's form, which is that of Apache DataSketches in all languages: where parts of it are, and
/// what they say.
mod layout {
    pub(super) const KIND: usize = 7;
    pub(super) const LIST: u8 = 0;
    pub(super) const TABLE: u8 = 1;
    pub(super) const LIST_HEADER: usize = 8;
    pub(super) const TABLE_HEADER: usize = 12;
    pub(super) const REGISTERS_HEADER: usize = 40;

    /// Values that are no longer a list.
    pub(super) const LISTED: usize = 8;
    /// The least precision at which they are a table then, rather than registers.
    pub(super) const LEAST_TABLED: u8 = 8;
    /// What the least table and the greatest have room for, as powers of two; that of the greatest is
    /// less than the precision by this.
    pub(super) const LEAST_TABLE: u8 = 5;
    pub(super) const GREATEST_TABLE: u8 = 3;
    /// The greatest content of a register.
    pub(super) const GREATEST: u8 = 63;

    /// What every image begins with, of registers of a byte each.
    pub(super) fn header(
        words: u8,
        precision: u8,
        table: u8,
        flags: u8,
        count: u8,
        kind: u8,
    ) -> Vec<u8> {
        const VERSION: u8 = 1;
        const FAMILY: u8 = 7;
        const BYTES: u8 = 2 << 2;
        vec![words, VERSION, FAMILY, precision, table, flags, count, kind | BYTES]
    }

    pub(super) const EMPTY: u8 = 4;
    pub(super) const COMPACT: u8 = 8;
    pub(super) const OUT_OF_ORDER: u8 = 16;
}

impl Image {
    fn of(sketch: &Sketch) -> Self {
        let bytes = sketch.0.to_sketch(HllType::Hll8).serialize();
        let hashes = |header: usize| {
            let words = bytes[header..].chunks_exact(4);
            let mut hashes: Vec<u32> = words
                .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                .collect();
            hashes.sort_unstable();
            Seen::Hashes(hashes)
        };
        let seen = match bytes[layout::KIND] & 3 {
            layout::LIST => hashes(layout::LIST_HEADER),
            layout::TABLE => hashes(layout::TABLE_HEADER),
            _ => Seen::Registers(bytes[layout::REGISTERS_HEADER..].to_vec()),
        };
        Self { precision: sketch.0.lg_config_k(), seen }
    }

    /// The library's form; `None` where no sketch knows this.
    fn bytes(&self) -> Option<Vec<u8>> {
        if !PRECISIONS.contains(&self.precision) {
            return None;
        }
        match &self.seen {
            Seen::Hashes(hashes) => self.bytes_of_hashes(hashes),
            Seen::Registers(registers) => self.bytes_of_registers(registers),
        }
    }

    fn bytes_of_hashes(&self, hashes: &[u32]) -> Option<Vec<u8>> {
        // Ascending, and none of them 0, which stands for none.
        if hashes.first() == Some(&0) || !hashes.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let mut bytes = if hashes.len() < layout::LISTED {
            let empty = if hashes.is_empty() { layout::EMPTY } else { 0 };
            let count = hashes.len() as u8;
            layout::header(2, self.precision, 3, layout::COMPACT | empty, count, layout::LIST)
        } else {
            let greatest = self.precision - layout::GREATEST_TABLE;
            let table = (layout::LEAST_TABLE..=greatest)
                .find(|table| 4 * hashes.len() <= 3 << table)
                .filter(|_| self.precision >= layout::LEAST_TABLED)?;
            let mut bytes =
                layout::header(3, self.precision, table, layout::COMPACT, 0, layout::TABLE);
            bytes.extend((hashes.len() as u32).to_le_bytes());
            bytes
        };
        bytes.extend(hashes.iter().flat_map(|hash| hash.to_le_bytes()));
        Some(bytes)
    }

    fn bytes_of_registers(&self, registers: &[u8]) -> Option<Vec<u8>> {
        let wrong = registers.iter().any(|&register| register > layout::GREATEST);
        if wrong || registers.len() != 1 << self.precision {
            return None;
        }
        const REGISTERS: u8 = 2;
        let mut bytes = layout::header(10, self.precision, 0, layout::OUT_OF_ORDER, 0, REGISTERS);
        // What the estimate is made of: sums of 2^-register, of the small ones and of the great ones
        // apart so that both are exact, after one that depends on the order and is not used.
        let sum_of = |great: bool| -> f64 {
            let some = registers.iter().filter(|&&register| (register >= 32) == great);
            some.map(|&register| f64::from(register).exp2().recip()).sum()
        };
        for number in [0.0, sum_of(false), sum_of(true)] {
            bytes.extend(number.to_le_bytes());
        }
        let zeros = registers.iter().filter(|&&register| register == 0).count() as u32;
        bytes.extend(zeros.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(registers);
        Some(bytes)
    }
}

impl Data for Sketch {
    fn encode(&self, out: &mut Vec<u8>) {
        Image::of(self).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let invalid = || DecodeError::invalid("a sketch of distinct values");
        let image = Image::decode(input)?;
        let bytes = image.bytes().ok_or_else(invalid)?;
        let sketch = HllSketch::deserialize(&bytes).map_err(|_| invalid())?;
        let mut union = HllUnion::new(image.precision).map_err(|_| invalid())?;
        union.update(&sketch);
        Ok(Self(union))
    }

    fn key_hash(&self) -> u64 {
        Image::of(self).key_hash()
    }

    fn schema() -> Schema {
        Image::schema()
    }

    fn heap_size(&self) -> usize {
        self.0.estimated_size()
    }
}
