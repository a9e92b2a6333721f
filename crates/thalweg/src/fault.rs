//! Faults that tests plant in the protocol of checkpoints, to see that checks of jobs find them. Outside of this crate's
//! own tests there are none.

/// A fault, planted in a process whose variable `THALWEG_FAULT` has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A barrier passes an exchange when the first lane has delivered it, in front of records that belong before it.
    PassesWithTheFirstLane,
    /// A source saves its position when it has read what follows the barrier.
    SavesLate,
    /// A checkpoint of several hosts lacks the part of the last of them.
    LosesAPart,
    /// A barrier that passes in front of results of calls does not save their records.
    ForgetsCalls,
}

/// Whether a fault is planted in this process.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}

#[cfg(test)]
pub(crate) fn is_planted(fault: Fault) -> bool {
    static PLANTED: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var(VARIABLE).ok());
    PLANTED.as_deref().is_some_and(|name| name == format!("{fault:?}"))
}

/// The variable that names the fault.
#[cfg(test)]
const VARIABLE: &str = "THALWEG_FAULT";

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::check::check;
    use crate::operators::calls::Calls;
    use std::future::{Future, poll_fn};
    use std::process::{Command, Output};
    use std::task::Poll;

    /// Is over when it is polled again.
    fn later() -> impl Future<Output = ()> {
        let mut is_polled = false;
        poll_fn(move |cx| {
            if std::mem::replace(&mut is_polled, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// The job in which faults are planted. Each record counts once, whatever is interrupted.
    #[test]
    fn a_job_whose_checkpoints_are_checked() {
        let job = |env: &Environment| {
            let calls = Calls::in_flight(9).unordered().saved();
            let numbers = env.range(0..3000).shuffle().map_async(calls, async |n| {
                later().await;
                n % 7
            });
            numbers.group_by(|n| *n).count()
        };
        check(job).must_restore().seeds(64).agrees();
    }

    /// Runs that test in a process of its own.
    fn run(variables: &[(&str, &str)]) -> Output {
        let mut test = Command::new(std::env::current_exe().expect("this test is a program"));
        test.args(["--exact", "fault::tests::a_job_whose_checkpoints_are_checked", "--nocapture"]);
        test.envs(variables.iter().copied()).env_remove("RUST_BACKTRACE");
        test.output().expect("the program starts")
    }

    #[test]
    fn every_planted_fault_is_found_with_a_run_that_repeats_it() {
        let all = [
            Fault::PassesWithTheFirstLane,
            Fault::SavesLate,
            Fault::LosesAPart,
            Fault::ForgetsCalls,
        ];
        for fault in all {
            let name = format!("{fault:?}");
            let found = run(&[(VARIABLE, &name)]);
            let said = String::from_utf8_lossy(&found.stderr);
            assert!(!found.status.success(), "{name} is not found");
            let number =
                said.split("THALWEG_CHECK=").nth(1).and_then(|rest| rest.split(' ').next());
            let number = number.unwrap_or_else(|| panic!("{name}: {said}"));
            let again = run(&[(VARIABLE, &name), ("THALWEG_CHECK", number)]);
            let repeated = String::from_utf8_lossy(&again.stderr);
            assert!(!again.status.success(), "{name} is not repeated by run {number}");
            assert!(repeated.contains(&format!("THALWEG_CHECK={number} ")), "{repeated}");
            let without = run(&[("THALWEG_CHECK", number)]);
            assert!(without.status.success(), "run {number} fails without {name} too");
        }
    }
}
