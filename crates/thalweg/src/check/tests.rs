//! Tests of checks.

use super::*;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) fn complaint(check: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(check)).expect_err("the check must fail");
    *panic.downcast::<String>().expect("a message")
}

#[test]
fn equal_results_pass_in_any_order() {
    check(|env| env.iter(0..50u32).shuffle()).equals((0..50u32).rev());
    assert_eq!(check(|env| env.iter(["b", "a"]).map(str::len)).agrees(), [1, 1]);
    check(|env| env.iter(0..9u8)).ordered().equals(0..9u8);
}

#[test]
fn a_difference_is_shown_with_the_run_that_has_it() {
    let said = complaint(|| check(|env| env.iter([1u8, 2, 2])).equals([2u8, 3]));
    let expected = "gave 3 records, not the 2 expected\n  missing (1 in all):\n    3\n  \
                    unexpected (2 in all):\n    1\n    2";
    assert!(said.contains(expected), "{said}");
    assert!(said.contains("THALWEG_CHECK=0"), "{said}");
    let said = complaint(|| check(|env| env.iter([1u8, 2])).ordered().equals([2u8, 1]));
    let expected = "gave 2 records, as expected, but record 0 is 1, not 2\n  2 records are in \
                    another place, and none is missing";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_result_that_depends_on_the_number_of_tasks_is_found() {
    let said = complaint(|| {
        check(|env| env.iter(0..10u8).broadcast()).agrees();
    });
    assert!(said.contains("1 cores") || said.contains("3 cores"), "{said}");
}

#[test]
fn numbers_of_tasks_are_drawn_if_wanted() {
    let others = |draw: bool| {
        let others = Mutex::new(0);
        let job = |env: &Environment| {
            let usual = env.default_tasks();
            env.parallel_iter(move |_, tasks| std::iter::once((tasks, usual)))
        };
        let mut job = check(job);
        job.runs.draw_tasks = false;
        let job = if draw { job.any_tasks() } else { job };
        job.satisfies(|tasks| {
            *lock(&others) += u32::from(tasks[0].0 != tasks[0].1);
            Ok(())
        });
        others.into_inner().unwrap()
    };
    assert_eq!(others(false), 0);
    assert!(others(true) >= 8, "most runs have numbers of their own");
}

#[test]
fn a_record_that_does_not_survive_its_encoding_is_found() {
    #[derive(Clone, Copy, Debug)]
    struct Forgetful(u8);

    impl Data for Forgetful {
        fn encode(&self, out: &mut Vec<u8>) {
            (self.0 % 8).encode(out);
        }
        fn decode(input: &mut &[u8]) -> Result<Self, crate::data::DecodeError> {
            u8::decode(input).map(Self)
        }
        fn key_hash(&self) -> u64 {
            self.0.key_hash()
        }
        fn schema() -> crate::data::Schema {
            crate::data::Schema::U8
        }
    }

    let said = complaint(|| {
        check(|env| env.iter((0..9u8).map(Forgetful)).shuffle().map(|n| n.0)).equals(0..9u8);
    });
    assert!(said.contains("missing (1 in all):\n    8"), "{said}");
    assert!(said.contains("with encoded exchanges"), "{said}");
}

#[test]
fn errors_are_compared_too() {
    let failing = |env: &Environment| env.iter(0..9i32).map(|n| 10 / (n - 5));
    check(failing).fails_with("attempt to divide by zero");
    let said = complaint(|| check(failing).fails_with("something else"));
    assert!(said.contains("failed otherwise: map ("), "{said}");
    let said = complaint(|| check(|env| env.iter(0..9u8)).fails_with("anything"));
    assert!(said.contains("ended well, with 9 records"), "{said}");
    let said = complaint(|| check(failing).equals([1i32]));
    assert!(said.contains("failed: map ("), "{said}");
}

#[test]
fn a_job_that_must_be_restored_and_is_not_is_found() {
    check(|env| env.range(0..5000).sum(|n| n % 7)).must_restore().agrees();
    // It ends before any barrier.
    let said = complaint(|| {
        check(|env| env.iter(0..0u8)).must_restore().agrees();
    });
    assert!(said.starts_with("none of 4 runs that were interrupted"), "{said}");
    assert!(said.ends_with("\n  in 4: the job had ended before"), "{said}");
    let said = complaint(|| {
        check(|env| env.range(0..5000).sum(|n| n % 7)).seeds(0).must_restore().agrees();
    });
    assert_eq!(said, NO_SEEDS);
    // It cannot have any.
    let said = complaint(|| {
        check(|env| env.iter(0..500u16).map(|n| n % 7).map_volatile(|n| n)).must_restore().agrees();
    });
    assert!(said.contains("\n  in 4: map_volatile ("), "{said}");
    assert!(said.contains("a job with checkpoints cannot have it"), "{said}");
}

#[test]
fn jobs_with_several_sinks_are_interrupted_too() {
    let all = (Some(4999), Some(5000));
    check_sinks(|env| {
        let [numbers, others] = env.iter(0..5000u64).split();
        (numbers.max(|n| *n).collect_one(), others.count().collect_one())
    })
    .must_restore()
    .equals(all);
    // It counts outside of any state.
    let job = |env: &Environment| {
        let seen = AtomicU64::new(0);
        let [numbers, others] = env.iter(0..5000u64).split();
        let numbers = numbers.map(move |_| seen.fetch_add(1, Ordering::Relaxed));
        (numbers.max(|n| *n).collect_one(), others.count().collect_one())
    };
    let said = complaint(|| check_sinks(job).seeds(16).equals(all));
    assert!(said.contains(", interrupted at a barrier after "), "{said}");
    assert!(said.contains(", Some(5000)), not (Some(4999), Some(5000))"), "{said}");
}

#[test]
fn seeds_draw_more_than_the_order_of_tasks() {
    let configs = Runs::default().configs();
    let drawn = configs.iter().filter(|config| config.scheduler != Scheduler::WorkStealing);
    let drawn: Vec<_> =
        drawn.filter(|config| config.scheduler != Scheduler::ThreadPerTask).collect();
    assert!(drawn.len() >= 8);
    for of in [0, 1, 2] {
        let values: HashSet<String> = drawn
            .iter()
            .map(|config| match of {
                0 => config.cores.to_string(),
                1 => format!("{:?}", config.batch),
                _ => config.credit.to_string(),
            })
            .collect();
        assert!(values.len() > 2, "{values:?}");
    }
}

#[test]
fn hosts_are_unequal_and_two_or_three() {
    let clusters = Runs::default().clusters();
    let counts: HashSet<_> = clusters.iter().map(|(_, cores, _)| cores.len()).collect();
    assert_eq!(counts, HashSet::from([2, 3]));
    assert!(clusters.iter().any(|(_, cores, _)| cores.iter().any(|own| *own != cores[0])));
}

#[test]
fn several_results_may_be_right() {
    check(|env| env.iter(0..100u32).shuffle().limit(3))
        .satisfies(|records| if records.len() == 3 { Ok(()) } else { Err(format!("{records:?}")) });
}
