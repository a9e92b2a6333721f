//! Every interleaving of small models of threads that share something, run by loom. Without `--cfg loom` there is nothing.

#![cfg(loom)]

/// A test of each of these models of a module.
macro_rules! run {
    ($module:ident: $($model:ident)+) => {
        mod $module {
            $(
                #[test]
                fn $model() {
                    thalweg::models::$module::$model();
                }
            )+
        }
    };
}

run! { lane: neither_end_sleeps_through_what_the_other_did a_sender_that_waits_learns_that_the_lane_is_closed }
run! { cell: work_added_at_any_moment_is_done_once }
run! { polled: a_call_woken_during_a_poll_is_polled_again }
run! {
    parking:
    a_thread_misses_no_wake_up
    two_threads_miss_no_wake_up
    work_added_together_is_done_concurrently
    no_deferred_work_is_missed
    deferred_work_is_done_concurrently
}
