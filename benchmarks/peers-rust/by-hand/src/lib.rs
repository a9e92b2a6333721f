//! State that a user of the peers writes by hand, because they have no operator for it: the same code
//! for all of them. It knows no system: each hands it records by slide of time, and says which slides
//! are complete.

pub mod auctions;
pub mod sellers;
pub mod sessions;
pub mod sliding;
