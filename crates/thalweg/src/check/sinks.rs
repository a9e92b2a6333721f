//! Checks of jobs with several sinks, which are interrupted as those with one are.

use super::{Answer, Records, Runs, judging};
use crate::{Environment, Output, Result};
use std::fmt::Debug;

/// The sinks of a job under test: an [`Output`], or a tuple of sinks.
pub trait Sinks {
    /// What they give.
    type Records: Send + 'static;

    /// Takes it from a job that is over.
    ///
    /// # Errors
    ///
    /// As [`Output::take`].
    fn taken(self) -> Result<Self::Records>;
}

impl<R: Send + 'static> Sinks for Output<R> {
    type Records = R;

    fn taken(self) -> Result<R> {
        self.take()
    }
}

macro_rules! tuples {
    ($(($($sink:ident $at:tt),+);)*) => {$(
        impl<$($sink: Sinks),+> Sinks for ($($sink,)+) {
            type Records = ($($sink::Records,)+);

            fn taken(self) -> Result<Self::Records> {
                Ok(($(self.$at.taken()?,)+))
            }
        }
    )*};
}

tuples! {
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
}

/// Begins a check of a job with several sinks. The closure describes the job and returns its [`Output`]s, in tuples; as
/// [`check`](super::check) does, this runs the job in every way, and interrupts it where it can have checkpoints.
///
/// ```
/// use thalweg::check::check_sinks;
///
/// check_sinks(|env| {
///     let [numbers, others] = env.range(0..1000).split();
///     (numbers.count().collect_one(), others.sum(|n| *n).collect_one())
/// })
/// .equals((Some(1000), Some(499_500)));
/// ```
pub fn check_sinks<S, F>(job: F) -> CheckSinks<F>
where
    S: Sinks + 'static,
    F: Fn(&Environment) -> S + Sync,
{
    CheckSinks { job, runs: Runs::default() }
}

/// A check of a job with several sinks that has not run yet. See [`check_sinks`].
#[must_use = "a check runs nothing until it has an expectation"]
pub struct CheckSinks<F> {
    job: F,
    runs: Runs,
}

impl<S, F> CheckSinks<F>
where
    S: Sinks + 'static,
    F: Fn(&Environment) -> S + Sync,
{
    /// As [`Check::seeds`](super::Check::seeds).
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.runs.set_seeds(seeds);
        self
    }

    /// As [`Check::any_tasks`](super::Check::any_tasks).
    pub fn any_tasks(mut self) -> Self {
        self.runs.draw_tasks = true;
        self
    }

    /// As [`Check::must_restore`](super::Check::must_restore).
    pub fn must_restore(mut self) -> Self {
        self.runs.must_restore = true;
        self
    }

    /// Checks that every run gives this. The order of records in a list depends on the run, unless one task makes them all.
    ///
    /// # Panics
    ///
    /// If a run gives something else or fails.
    #[track_caller]
    pub fn equals(self, expected: S::Records)
    where
        S::Records: PartialEq + Debug,
    {
        self.satisfies(|found| match found == expected {
            true => Ok(()),
            false => Err(format!("gave {found:?}, not {expected:?}")),
        });
    }

    /// Checks that `allowed` accepts what every run gives; it describes the fault otherwise.
    ///
    /// # Panics
    ///
    /// If `allowed` refuses what a run gives, or a run fails.
    #[track_caller]
    pub fn satisfies(self, allowed: impl Fn(S::Records) -> Result<(), String>) {
        let Self { job, runs } = self;
        let job = |env: &Environment| -> Records {
            let sinks = job(env);
            Box::new(move || Ok(Box::new(sinks.taken()?) as Answer))
        };
        runs.all(&job, &mut judging(allowed));
    }
}
