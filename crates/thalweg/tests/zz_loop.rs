#![allow(missing_docs)]
use std::time::Duration;
use thalweg::Environment;
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;

fn main_test(env: &Environment) {
    let out = env
        .parallel_iter(|task, _| 0..if task == 0 { 10u64 } else { 100_000 })
        .replay(3, 0u64, |numbers, _| {
            numbers.assign_timestamps(
                |n| Timestamp::from_micros(*n as i64),
                Watermarks::monotonous().aligned(Duration::from_micros(10)),
            )
        })
        .fold(|n: &mut u64, _| *n += 1, |a, b| *a += b)
        .all_rounds(|all, n| *all += n)
        .collect::<Vec<_>>();
    env.run().unwrap();
    println!("{:?}", out.take().unwrap().len());
}

#[test]
fn aligned_in_a_loop() {
    let cores = 3usize.try_into().unwrap();
    let config = thalweg::config::Config { cores, ..Default::default() };
    main_test(&Environment::with_config(config));
}
