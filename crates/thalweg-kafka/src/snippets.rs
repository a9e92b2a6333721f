//! The Rust snippets of the book's page, as documentation tests.

#[doc = include_str!("../../../docs/book/src/kafka.md")]
mod kafka {}
