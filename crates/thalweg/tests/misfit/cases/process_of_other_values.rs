//! A handler is called with the keys and values that it was written for.

//~ error[E0277]: `Echo` does not process values of `u64` with keys of `u64`
//~ needs `impl Process<u64, u64>`
//~ implement `thalweg::operators::keyed::Process` for a type of your own, for these keys and values

use std::convert::Infallible;
use thalweg::Environment;
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;

struct Echo;

impl Process<u64, String> for Echo {
    type State = ();
    type Out = String;
    type Side = Infallible;

    fn start(&self) {}

    fn on_record(
        &self,
        _: &u64,
        _: &mut (),
        value: String,
        _: Timestamp,
        cx: &mut ProcessContext<'_, String, Infallible>,
    ) {
        cx.emit(value);
    }

    fn on_timer(&self, _: &u64, _: &mut (), _: Timer, _: &mut ProcessContext<'_, String, Infallible>) {}
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let numbers = env.iter(0..10_u64);
    let timed = numbers.assign_timestamps(|n| Timestamp::from_secs(*n as i64), Watermarks::monotonous());
    timed.group_by(|n| n % 3).process(Echo).unkey().for_each(drop);
    env.run()
}
