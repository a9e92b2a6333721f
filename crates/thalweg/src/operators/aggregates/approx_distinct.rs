//! The approximate number of distinct values, in a few kilobytes.

use super::{Aggregate, AggregateRef, Aggregates, Combine};
use crate::data::{Data, DecodeError, Record, Schema};
use datasketches::hll::{HllSketch, HllType, HllUnion};
use std::marker::PhantomData;

impl<V: Record + ?Sized> Aggregates<V> {
    /// The approximate number of distinct results of the closure over the values.
    ///
    /// A HyperLogLog sketch of 4,096 registers: the estimate's standard error is 1.6 %, and it is off by more than
    /// three times that in about one of 300 estimates. Up to a few hundred distinct ones, it is nearly always exact.
    /// The same values give the same estimate, whatever their order and however they were divided among tasks.
    /// Memory: from 32 bytes per key up to 4 KB; [`precision`](ApproxCountDistinct::precision) changes that. For an
    /// exact count see [`count_distinct`](Self::count_distinct).
    ///
    /// From Flajolet and others, "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm"
    /// (2007), as implemented in the Apache DataSketches library.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let visits = env.iter((0..100_000u64).map(|n| n % 20_000));
    /// let out = visits.aggregate(|a| a.approx_count_distinct(|visitor| *visitor)).collect_one();
    /// env.run()?;
    /// assert!(out.take()?.is_some_and(|estimate| (19_000..21_000).contains(&estimate)));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn approx_count_distinct<N, F>(self, of: F) -> ApproxCountDistinct<F, N>
    where
        N: Data,
        F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    {
        ApproxCountDistinct { of, precision: 12, types: PhantomData }
    }
}

/// The approximate number of distinct values: [`Aggregates::approx_count_distinct`].
pub struct ApproxCountDistinct<F, N> {
    of: F,
    precision: u8,
    types: PhantomData<fn() -> N>,
}

/// The precisions that are accepted.
const PRECISIONS: std::ops::RangeInclusive<u8> = 4..=16;

impl<F, N> ApproxCountDistinct<F, N> {
    /// Uses 2<sup>`precision`</sup> registers of a byte each, which makes the standard error 1.04 / 2<sup>`precision`
    /// / 2</sup>. The default is 12. A job with a precision below 4 or above 16 is refused when it starts.
    pub fn precision(self, precision: u8) -> Self {
        Self { precision, ..self }
    }
}

impl<V, F, N> Aggregate<V> for ApproxCountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data,
{
    type State = Sketch;
    type Output = u64;

    fn start(&self) -> Sketch {
        Sketch(HllUnion::new(self.precision).expect("the precision was checked"))
    }

    #[inline(always)]
    fn update(&self, state: &mut Sketch, value: V::Of<'_>) {
        AggregateRef::<V>::update_ref(self, state, &value);
    }

    fn finish(&self, state: Sketch) -> u64 {
        state.0.composite_estimate().round() as u64
    }

    fn empty(&self) -> Option<u64> {
        Some(0)
    }

    fn check(&self) -> Result<(), String> {
        if PRECISIONS.contains(&self.precision) {
            return Ok(());
        }
        Err(format!(
            "approx_count_distinct has a precision from {} to {}, not {}",
            PRECISIONS.start(),
            PRECISIONS.end(),
            self.precision
        ))
    }

    fn name(&self) -> String {
        format!("approx_count_distinct of precision {}", self.precision)
    }
}

impl<V, F, N> AggregateRef<V> for ApproxCountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data,
{
    #[inline(always)]
    fn update_ref(&self, state: &mut Sketch, value: &V::Of<'_>) {
        state.0.update_value((self.of)(value).key_hash());
    }
}

impl<V, F, N> Combine<V> for ApproxCountDistinct<F, N>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> N + Send + Sync + 'static,
    N: Data,
{
    fn combine(&self, state: &mut Sketch, other: Sketch) {
        state.0.update(&other.0.to_sketch(HllType::Hll8));
    }
}

/// A HyperLogLog sketch of the values seen.
#[derive(Clone)]
pub struct Sketch(HllUnion);

/// The content of a [`Sketch`], in a canonical form: equal for all sketches of the same content. The library's own
/// form depends on the order of the values, and the library does not detect everything that can be wrong with it when
/// it is read.
#[derive(Data)]
struct Image {
    precision: u8,
    seen: Seen,
}

#[derive(Data)]
enum Seen {
    /// The hashes of few values, each a register and its content, ascending.
    Hashes(Vec<u32>),
    /// The content of each register.
    Registers(Vec<u8>),
}

/// The library's serialised form, which is that of Apache DataSketches in all languages: offsets and values of its
/// parts.
mod layout {
    pub(super) const KIND: usize = 7;
    pub(super) const LIST: u8 = 0;
    pub(super) const TABLE: u8 = 1;
    pub(super) const LIST_HEADER: usize = 8;
    pub(super) const TABLE_HEADER: usize = 12;
    pub(super) const REGISTERS_HEADER: usize = 40;

    /// The number of values from which they are no longer stored as a list.
    pub(super) const LISTED: usize = 8;
    /// The least precision at which they are then stored as a table rather than as registers.
    pub(super) const LEAST_TABLED: u8 = 8;
    /// The capacities of the smallest and of the largest table, as powers of two; that of the largest is the
    /// precision less this.
    pub(super) const LEAST_TABLE: u8 = 5;
    pub(super) const GREATEST_TABLE: u8 = 3;
    /// The greatest content of a register.
    pub(super) const GREATEST: u8 = 63;

    /// The header of every image with registers of a byte each.
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

    /// The library's serialised form; `None` where no sketch can have this content.
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
        // They must be ascending, and none may be 0, which stands for an empty entry.
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
        // The numbers that the estimate is computed from: sums of 2^-register, one of the small registers and one of
        // the large, so that both are exact. Before them is a number that depends on the order and is not used.
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
