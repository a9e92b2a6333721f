//! Seeded generators of the benchmarks' input data: the same dataset has the same bytes on every
//! machine and for ever. All arithmetic is on integers, the random numbers are our own
//! ([`random`]), and a change of a generator raises [`VERSION`], which makes old files stale.
//!
//! | dataset | file | contents |
//! |---|---|---|
//! | [`Dataset::Text`] | `text-NMB.txt` | lines of 60 to 80 characters of words with a Zipf distribution |
//! | [`Dataset::Keys`] | `keys-KIND-K-N.u64` | N little-endian `u64` keys |
//! | [`Dataset::Points`] | `points-N.f64` | N points, two little-endian `f64` each, which are whole numbers |
//! | [`Dataset::Items`] | `items-KIND-N.bin` | N items of the `skew` bench, two little-endian `u32` each |
//! | [`Dataset::Graph`] | `graph-KIND-N-M.bin` | M edges between N nodes, two little-endian `u32` each |
//! | [`Dataset::Events`] | `events-KIND-N.bin` | N encoded events of Nexmark or the Yahoo benchmark |
//! | [`Dataset::Campaigns`] | `campaigns.tsv` | the Yahoo benchmark's table of campaigns |
//! | [`Dataset::Collisions`] | `collisions-NMB.csv` | accidents in the shape of New York's public file |

mod collisions;
mod dataset;
mod events;
mod graphs;
mod items;
mod keys;
mod points;
pub mod random;
mod store;
mod text;

pub use dataset::{Dataset, EventKind, GraphKind, ItemKind, KeyKind};
pub use store::{Made, ensure};

/// The version of the generators, part of every sidecar.
pub const VERSION: u32 = 1;
