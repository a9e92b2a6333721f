//! Runs the test of an operator under every scheduler, on one core and on several.

use crate::config::{BatchMode, Config, Scheduler};
use crate::{Environment, Result};

/// Runs `test` in environments that must not make a difference.
pub(crate) fn on_every_schedule(test: impl Fn(&Environment) -> Result<()>) {
    let schedulers = [Scheduler::WorkStealing, Scheduler::ThreadPerTask]
        .into_iter()
        .chain((0..4).map(|seed| Scheduler::Deterministic { seed }));
    for scheduler in schedulers {
        for cores in [1, 3] {
            for batch in [BatchMode::default(), BatchMode::Fixed { size: 7 }] {
                let mut config = Config { scheduler, batch, credit: 500, ..Config::default() };
                config.cores = std::num::NonZeroUsize::new(cores).unwrap_or(config.cores);
                let name = format!("{config:?}");
                if let Err(error) = test(&Environment::with_config(config)) {
                    panic!("{error}, with {name}");
                }
            }
        }
    }
}
