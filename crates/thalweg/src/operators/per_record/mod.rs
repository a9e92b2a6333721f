//! Operators that see one record at a time, and know nothing of those before and after it.

pub(crate) mod filter;
mod filter_map;
mod flat_each;
mod flat_map;
mod flat_map_str;
mod flatten;
mod inspect;
pub(crate) mod map;
mod map_volatile;
mod map_with_timestamp;
mod memo;
mod record_fn;
mod side_each;
mod side_output;
pub mod text;
pub(crate) mod try_map;

pub use flat_each::Visit;
pub use flat_map_str::Texts;
pub use side_output::Side;
