//! The chains that streams are made of, as signatures name them.
//!
//! A program need not name them: `impl Chain<Item = T>` stands for any, and [`boxed`](crate::Stream::boxed) makes one
//! that can be written down. Those of windows and loops are in [`window::chains`](super::window::chains) and
//! [`loops::chains`](super::loops::chains).

pub use super::keyed::chains::*;
pub use super::multi_stream::chains::*;
pub use super::per_record::chains::*;
pub use super::per_stream::chains::*;
pub use super::side_outlet::{MaybeSideOutput, NoSideOutput, SideOutlet, ToSideOutput};
pub use super::time::Assign;
pub use crate::stream::{Received, Source, SourceFactory, Sourced};
