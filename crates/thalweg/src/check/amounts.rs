//! How much the engine's own randomised tests do: a sample by default, and more where checks have more seeds, as in
//! `cargo xtask long`.

use super::{SEEDS, variable};
use proptest::prelude::ProptestConfig;

/// The seeds of a test that draws from them itself: as many as usual, or more in proportion where a check has more than eight.
pub(crate) fn seeds(usual: u64) -> u64 {
    variable::<u64>(SEEDS).map_or(usual, |seeds| usual.max(usual.saturating_mul(seeds) / 8))
}

/// The cases of a test each of which makes several runs: as many as usual, or four times as many where a check has a hundred
/// seeds.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let times = variable::<u32>(SEEDS).map_or(1, |seeds| (seeds / 25).max(1));
    ProptestConfig::with_cases(usual.saturating_mul(times))
}
