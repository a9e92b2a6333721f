//! Plans built at run time: graphs of operators over columns, which no compiler has seen.
//!
//! A [`Graph`] is data. It is built by the methods that add its nodes or read from JSON, checked
//! as a whole, and run: on the sources, exchanges, keyed tables, sorts and schedulers that typed
//! programs have. What flows is a [`Block`] of rows held by column, and each operator is one
//! dynamic call a block. Keys have the hash that they have in a typed program.
//!
//! Take it when the job is known only at run time: read from a file, written by another program,
//! made of what a user typed. A job that is known beforehand is shorter, faster and checked by the
//! compiler as a [`Stream`](crate::Stream).
//!
//! ```
//! use thalweg::{Environment, dynamic::{Graph, Value, desc}};
//!
//! let graph = Graph::new()
//!     .lines("../../docs/decisions")
//!     .explode_words("line")
//!     .group_by(["word"])
//!     .count()
//!     .top(3, [desc("count")])
//!     .collect();
//! let rows = graph.run(&Environment::new())?.only()?;
//! assert_eq!(rows.names(), ["word", "count"]);
//! assert!(rows.iter().any(|row| row[0] == Value::from("the")));
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! What is not there yet: joins and unions, windows, missing values, sources that do not end.
//!
//! This module describes jobs as programs do, by the methods of streams; it never schedules,
//! routes or holds state itself.

mod check;
mod columns;
mod expressions;
mod graph;
mod operation;
mod run;

pub use check::Checked;
pub use columns::{Bits, Block, Bytes, Column, Field, Text, Type, Value};
pub use expressions::{Expr, Function, col, lit};
pub use graph::{GRAPH_VERSION, Graph, Grouping, Node};
pub use operation::{Aggregate, AggregateFunction, Named, Operation, Order, Parts, asc, desc};
pub use run::{Attached, Results, Rows};
