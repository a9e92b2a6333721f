//! What a stream can do: one operator, one file, with the method that a program calls, its
//! documentation, the operator itself, and its tests.

mod absorb;
pub mod aggregates;
pub mod cache;
pub mod calls;
mod chunks;
pub mod connect;
mod filter;
mod filter_map;
mod flat_each;
mod flat_map;
mod flat_map_str;
mod flatten;
mod fold;
mod inspect;
pub mod join;
mod kept;
pub mod keyed;
pub(crate) mod limit;
pub mod loops;
mod map;
mod map_volatile;
mod map_with_timestamp;
mod memo;
mod merge;
#[cfg(all(test, not(loom)))]
mod protocol;
mod reduce;
mod repartition;
mod route;
mod scan;
mod side_each;
mod side_output;
mod sorted;
mod split;
mod sum;
pub mod text;
pub mod time;
mod top;
mod try_map;
mod waiting;
pub mod window;
mod zip;

pub use flat_each::Visit;
pub use flat_map_str::Texts;
pub use keyed::Summand;
pub use route::Route;
pub use side_output::Side;
pub use sum::Number;
