//! How many values differ, about, in a few kilobytes.

use crate::data::{Data, DecodeError, Record, Schema, hash_bytes};
use crate::operators::keyed::{Aggregate, Combine};
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

/// A sketch of the values seen. Its encoding is that of Apache DataSketches, as a byte string; sketches
/// that stand for the same values may differ in it.
#[derive(Clone)]
pub struct Sketch(HllUnion);

impl Sketch {
    fn bytes(&self) -> Vec<u8> {
        self.0.to_sketch(HllType::Hll8).serialize()
    }
}

/// Where the header says how many registers there are, how large a table of hashes it is, and what the
/// rest is.
const REGISTERS: usize = 3;
const TABLE: usize = 4;
const KIND: usize = 7;

impl Data for Sketch {
    fn encode(&self, out: &mut Vec<u8>) {
        self.bytes().encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let invalid = || DecodeError::invalid("a sketch of distinct values");
        let bytes = Vec::<u8>::decode(input)?;
        let (&precision, &table, &kind) = bytes
            .get(REGISTERS)
            .zip(bytes.get(TABLE))
            .zip(bytes.get(KIND))
            .map(|((precision, table), kind)| (precision, table, kind))
            .ok_or_else(invalid)?;
        // A table is never kept less than a quarter full: without this, a few bytes could ask for many.
        let is_table = kind & 3 == 1;
        let sparse = is_table && (table > 16 || bytes.len() < 1 << table);
        if !PRECISIONS.contains(&precision) || sparse {
            return Err(invalid());
        }
        let sketch = HllSketch::deserialize(&bytes).map_err(|_| invalid())?;
        let mut union = HllUnion::new(precision).map_err(|_| invalid())?;
        union.update(&sketch);
        Ok(Self(union))
    }

    fn key_hash(&self) -> u64 {
        hash_bytes(&self.bytes())
    }

    fn schema() -> Schema {
        Schema::Bytes
    }

    fn heap_size(&self) -> usize {
        self.0.estimated_size()
    }
}
