//! Windows of each key, where there are no keys.

//~ this operator works by key, and the stream has no keys
//~ note: say what the key is first: `group_by`, `group_by_ref`
//~ note: windows over all records are made by `window_all`

use thalweg::Environment;
use thalweg::operators::window::CountWindow;

fn main() {
    let env = Environment::new();
    env.iter(0..9u64).window(CountWindow::tumbling(3)).count().for_each(drop);
}
