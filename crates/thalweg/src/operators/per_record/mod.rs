//! Operators that process one record at a time, independently of all others.

pub(crate) mod filter;
mod filter_map;
mod flat_each;
mod flat_each_in_pieces;
mod flat_map;
mod flat_map_str;
mod flatten;
mod inspect;
pub(crate) mod map;
mod map_volatile;
mod map_with_timestamp;
mod memo;
mod record_fn;
mod side_output;
mod side_output_each;
pub mod text;
pub(crate) mod try_map;
mod views;

pub use flat_each::Visit;
pub use flat_each_in_pieces::VisitInPieces;
pub use flat_map_str::Texts;
pub use side_output::Side;

/// Chains that end in one of these operators.
pub mod chains {
    pub use super::filter::{Filter, Filtering};
    pub use super::filter_map::{FilterMap, FilterMapping};
    pub use super::flat_each::FlatEach;
    pub use super::flat_each_in_pieces::FlatEachInPieces;
    pub use super::flat_map::FlatMap;
    pub use super::flat_map_str::Emitter;
    pub use super::inspect::{Inspect, Inspection};
    pub use super::map::{Map, Mapping};
    pub use super::map_volatile::MapVolatile;
    pub use super::map_with_timestamp::{MapWithTimestamp, TimedMapping};
    pub use super::record_fn::{PerRecord, RecordFn};
    pub use super::side_output::SideOutput;
    pub use super::side_output_each::SideOutputEach;
    pub use super::try_map::{TryMap, TryMapping};
}
