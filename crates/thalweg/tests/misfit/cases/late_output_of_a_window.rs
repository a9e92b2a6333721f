//! A side output for late records, requested of the window like its other settings.

//~ `late_output` follows `window(…)`, and is no setting of the window
//~ called on the window
//~ let (windows, late) = stream.window(SessionWindow::new(…)).late_output();

use std::time::Duration;
use thalweg::prelude::*;

fn main() {
    let env = Environment::new();
    let visits = env
        .iter([(1, 'a'), (2, 'b')])
        .assign_timestamps(|visit| Timestamp::from_secs(visit.0), Watermarks::monotonous())
        .group_by(|visit| visit.1);
    let sessions = SessionWindow::new(Duration::from_secs(10)).late_output();
    visits.window(sessions).count().unkey().for_each(drop);
}
