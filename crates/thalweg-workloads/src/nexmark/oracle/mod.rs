//! Every query of Nexmark, answered in the simplest way: one function, one thread, the standard library's maps. For
//! checking engines, not for speed: each holds its state in memory.
//!
//! An answer is a multiset of rows: the order in which a function returns them has no meaning.
//! [`digest()`](crate::digest::digest) reduces it to one number. `Display` writes a row's fields separated by tabs.
//!
//! Common to all queries:
//!
//! - Events may come in any order. Persons' and auctions' identifiers are unique.
//! - A stream that ends has all its windows and auctions closed.
//! - Windows are `[start, start + size)`, their starts multiples of the slide since 1970; partial windows at both
//!   ends of the stream count. A window without a relevant event has no row.
//! - Averages are of whole cents, rounded down.

mod q0;
mod q1;
mod q2;
mod q3;
mod q4;
mod q5;
mod q6;
mod q7;
mod q8;
#[cfg(test)]
mod tests;
mod winners;

pub use q0::q0;
pub use q1::{euros, q1};
pub use q2::{Row2, SKIP, q2};
pub use q3::{CATEGORY, Row3, STATES, q3};
pub use q4::{Row4, q4};
pub use q5::{HOT_ITEMS, Row5, q5};
pub use q6::{LAST, Row6, q6};
pub use q7::{HIGHEST_BID, Row7, q7};
pub use q8::{NEW_USERS, Row8, q8};
pub use winners::{Winner, winners};
