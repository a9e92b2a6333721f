//! The Rust snippets of the README and the book, as documentation tests: a snippet that no longer
//! compiles or runs fails here. `cargo xtask tidy` says so when a file with Rust in it is missing.

#[doc = include_str!("../../../README.md")]
struct Readme;
