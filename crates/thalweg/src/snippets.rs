//! The Rust snippets of the README and the book, as documentation tests: a snippet that no longer
//! compiles or runs fails here. `cargo xtask tidy` says so when a file with Rust in it is missing.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/book/src/getting-started.md")]
struct GettingStarted;

#[doc = include_str!("../../../docs/book/src/streams.md")]
struct Streams;

#[doc = include_str!("../../../docs/book/src/reading-and-writing.md")]
struct ReadingAndWriting;

#[doc = include_str!("../../../docs/book/src/connectors.md")]
struct Connectors;

#[doc = include_str!("../../../docs/book/src/keys.md")]
struct Keys;

#[doc = include_str!("../../../docs/book/src/time.md")]
struct Time;

#[doc = include_str!("../../../docs/book/src/windows.md")]
struct Windows;

#[doc = include_str!("../../../docs/book/src/joins.md")]
struct Joins;

#[doc = include_str!("../../../docs/book/src/loops.md")]
struct Loops;

#[doc = include_str!("../../../docs/book/src/calls.md")]
struct Calls;

#[doc = include_str!("../../../docs/book/src/errors.md")]
struct Errors;

#[doc = include_str!("../../../docs/book/src/memory.md")]
struct Memory;

#[doc = include_str!("../../../docs/book/src/testing.md")]
struct Testing;

#[doc = include_str!("../../../docs/book/src/performance.md")]
struct Performance;

#[doc = include_str!("../../../docs/book/src/running.md")]
struct Running;

#[doc = include_str!("../../../docs/book/src/checkpoints.md")]
struct SavedJobs;

#[doc = include_str!("../../../docs/book/src/hosts.md")]
struct ManyHosts;

#[doc = include_str!("../../../docs/book/src/names.md")]
struct Names;
