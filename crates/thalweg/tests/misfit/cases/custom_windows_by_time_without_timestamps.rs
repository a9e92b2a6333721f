//! Windows of a program's own that go by time, on a stream that has no timestamps.

//~ `Daily` does not make windows of values of `_` that carry `()` as their time
//~ needs `impl MakeWindows<_, ()>`
//~ where the time is `()`, the stream has no timestamps: `assign_timestamps` gives it some

use thalweg::Environment;
use thalweg::operators::window::{CustomWindow, MakeWindows, WindowContext};
use thalweg::time::Timestamp;

struct Daily;

impl MakeWindows<u64> for Daily {
    type Bounds = i64;
    type State = ();

    fn start(&self) {}

    fn on_value(&self, _: &mut (), _: &u64, at: Timestamp, cx: &mut WindowContext<'_, i64>) {
        let day = at.as_micros().div_euclid(86_400_000_000);
        cx.add_until(day, Timestamp::from_secs((day + 1) * 86_400));
    }
}

fn main() {
    let env = Environment::new();
    env.iter(0..9u64).window_all(CustomWindow::new(Daily)).count().for_each(drop);
}
