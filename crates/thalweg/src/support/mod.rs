//! What operators are built from that is no operator itself: buffers that go beyond memory, the overflow of keyed
//! tables, keys with timers, and what measures the cost of working on a record. Knows no stream and no chain.

pub(crate) mod cost;
pub(crate) mod evict;
pub(crate) mod keyed_timers;
pub(crate) mod overflow;
pub(crate) mod queue;
pub(crate) mod repeats;
pub(crate) mod replay_buffer;
