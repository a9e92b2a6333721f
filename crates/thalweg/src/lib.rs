//! A dataflow engine: typed streams over bounded and unbounded data.

// One door to time, threads, files and the network: see clippy.toml. Tests may go round it.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

// The derive macro names this crate by its path, also inside it.
extern crate self as thalweg;

pub mod check;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod data;
pub mod dynamic;
pub mod error;
pub mod memory;
pub mod metrics;
#[cfg(loom)]
#[doc(hidden)]
pub mod models {
    //! Models of threads that share something. `tests/models.rs` runs them.

    pub use crate::exchange::lane::models as lane;
    pub use crate::operators::calls::polled::models as polled;
    pub use crate::runtime::cell::models as cell;
    pub use crate::runtime::scheduler::parking::models as parking;
}
#[cfg(doctest)]
mod snippets;
pub mod time;

pub mod checkpoint;
mod clock;
mod exchange;
mod fault;
mod flow;
mod hints;
pub mod io;
mod net;
pub mod operators;
pub mod plan;
pub mod prelude;
mod runtime;
#[doc(hidden)]
pub mod state;
mod stream;
mod support;
mod sync;

pub use data::Data;
pub use error::{Error, ErrorKind, Place, Result};
#[doc(inline)]
pub use io::connector;
pub use io::{Incoming, Output};
#[doc(no_inline)]
pub use operators::keyed::{self, Keyed, KeyedStream};
#[doc(no_inline)]
pub use operators::{Number, Texts, Visit, VisitInPieces, aggregates, join, loops, text, window};
pub use stream::{Boxed, Chain, Environment, JobControl, JobHandle, Stream};
