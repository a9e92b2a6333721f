//! Queries against inputs small enough to be worked by hand.
