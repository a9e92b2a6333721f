//! Calls that may be tried again, for records that there is only one of.

//~ calls for records of `Order` cannot be tried again
//~ each attempt needs a copy of the record
//~ records must be `Clone` where `Calls::retry` is used: derive it, or wrap them in an `Arc`
//~ where `Calls::saved` is used they must be `Data` too: add `#[derive(thalweg::Data)]`

use std::time::Duration;
use thalweg::{Environment, operators::calls::Calls};

struct Order(u32);

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let calls = Calls::in_flight(8).retry(3, Duration::from_millis(100));
    env.iter(0..9).map(Order).map_async(calls, async |order| order.0).for_each(drop);
    env.run()
}
