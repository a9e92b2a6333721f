//! What most programs name: `use thalweg::prelude::*;`.
//!
//! ```
//! use thalweg::prelude::*;
//!
//! let env = Environment::new();
//! let counts = env.iter(0..10u64).group_by(|n| n % 3).window(CountWindow::tumbling(2)).count();
//! let out = counts.unkey().count().collect_one();
//! env.run()?;
//! assert_eq!(out.take()?, Some(4));
//! # Ok::<(), thalweg::Error>(())
//! ```

pub use crate::data::Data;
pub use crate::io::Output;
pub use crate::operators::keyed::{FirstOf, Keyed, KeyedStream, Partitioned, Scattered};
pub use crate::operators::time::Watermarks;
pub use crate::operators::window::{
    CountWindow, CustomWindow, Early, EventTimeWindow, GlobalWindow, LastWindow,
    ProcessingTimeWindow, SessionWindow, TransactionWindow,
};
pub use crate::operators::{aggregates, text};
pub use crate::stream::{Boxed, Chain, Environment, Stream};
pub use crate::time::Timestamp;
