//! How many values are of a kind.

use super::{Aggregate, Combine};
use crate::data::Record;

/// How many values the closure answers `true` for.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::aggregates::count_if;
///
/// let env = Environment::new();
/// let out = env.iter(0..10).group_by(|_| ()).aggregate(count_if(|n: i32| n % 3 == 0));
/// let out = out.collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [((), 4)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn count_if<F>(which: F) -> CountIf<F> {
    CountIf { which }
}

/// How many values are of a kind: [`count_if`].
pub struct CountIf<F> {
    which: F,
}

impl<V, F> Aggregate<V> for CountIf<F>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> bool + Send + Sync + 'static,
{
    type State = u64;
    type Output = u64;

    #[inline(always)]
    fn start(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn update(&self, state: &mut u64, value: V::Of<'_>) {
        *state += u64::from((self.which)(value));
    }

    #[inline(always)]
    fn finish(&self, state: u64) -> u64 {
        state
    }
}

impl<V, F> Combine<V> for CountIf<F>
where
    V: Record + ?Sized,
    F: for<'a> Fn(V::Of<'a>) -> bool + Send + Sync + 'static,
{
    #[inline(always)]
    fn combine(&self, state: &mut u64, other: u64) {
        *state += other;
    }

    const INVERSE: Option<fn(&Self, &mut u64, &u64)> = Some(|_, state, other| *state -= other);
}
