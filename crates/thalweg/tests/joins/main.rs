//! Joins of every kind, in every way, against a nested loop that looks at all pairs.

mod memory;
mod oracle;
mod plans;
mod time;
mod ways;
