//! The Yahoo streaming benchmark: users see, click and buy through advertisements, each of which
//! belongs to a campaign.
//!
//! As in the benchmark of 2015 there are 100 campaigns of 10 advertisements; users, pages and
//! advertisements are UUIDs; advertisement, its type and the event's type are uniform. An event has two
//! forms: [`fixed`], 64 bytes, and [`variable`], text of 136 bytes on average, the size that the AIR paper
//! reports (Venugopal and others, *AIR: a light-weight yet high-performance dataflow engine based on
//! asynchronous iterative routing*, 2020). The [`oracle`] has the queries.

mod event;
pub mod fixed;
mod make;
pub mod oracle;
pub mod variable;

pub use event::{AdType, Event, EventType, parse_uuid, uuid};
pub use make::{ADS_PER_CAMPAIGN, CAMPAIGNS, Campaigns, Generator};
pub use variable::TextEvent;

use crate::Recipe;
use std::num::NonZeroU64;

/// The number of events per second of event time: each has a microsecond of its own, and a campaign has some 33,000
/// views in a window of 10 s.
pub const RATE: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();

/// The benchmark's events under `seed`.
pub const fn recipe(seed: u64) -> Recipe {
    Recipe { seed, rate: RATE }
}

/// Events of 64 bytes each.
pub type FixedSegments = crate::segments::Segments<fixed::Fixed>;

/// Events as text.
pub type VariableSegments = crate::segments::Segments<variable::Variable>;
