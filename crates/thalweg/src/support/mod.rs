//! Building blocks of operators: buffers and queues that continue on disk, the overflow of keyed tables, keyed
//! timers, and the measurement of costs per record. Nothing here uses streams or chains.

pub(crate) mod cost;
pub(crate) mod evict;
pub(crate) mod gradual_save;
pub(crate) mod keyed_timers;
pub(crate) mod overflow;
pub(crate) mod owned_heap;
pub(crate) mod passed_time;
pub(crate) mod queue;
pub(crate) mod repeats;
pub(crate) mod replay_buffer;
pub(crate) mod saved_keys;
pub(crate) mod saved_watermark;
