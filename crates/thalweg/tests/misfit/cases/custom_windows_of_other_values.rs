//! Windows of a program's own, of other values than it was written for.

//~ the method `count` exists for struct `Windowed<
//~ doesn't satisfy `Daily: MakeWindows<String>`

use thalweg::Environment;
use thalweg::operators::time::Watermarks;
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
    let words = env.iter(["a", "b"]).map(str::to_owned);
    let timed = words.assign_timestamps(|_| Timestamp::from_secs(0), Watermarks::monotonous());
    timed.window_all(CustomWindow::new(Daily)).count().for_each(drop);
}
