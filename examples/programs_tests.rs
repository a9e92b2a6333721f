//! Jobs of programs that have no file of queries, in every way that they can be run. What reads arguments and prints stays unused.

#[expect(dead_code, reason = "the command line")]
mod collatz;
#[expect(dead_code, reason = "the command line")]
mod join;
#[expect(dead_code, reason = "the command line, and what is measured elsewhere")]
#[path = "scaling.rs"]
mod measured;
#[expect(dead_code, reason = "the command line")]
mod skew;

use measured::To;
use measured::scaling::jobs;
use std::path::PathBuf;
use thalweg::check::{check, every};

#[test]
fn the_longest_collatz_sequence_is_the_first_of_equals() {
    // 18 and 19 take as many steps.
    let known: [(u64, (u64, u32)); 4] =
        [(2, (1, 0)), (20, (18, 20)), (28, (27, 111)), (1000, (871, 178))];
    for (limit, longest) in known {
        check(|env| collatz::longest(env, limit)).seeds(2).equals([longest]);
    }
}

#[test]
fn tables_are_joined_by_any_column() {
    let folder = tempfile::tempdir().unwrap();
    let table = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let orders = table("orders", "1\t7\tale\n2\t7\tbread\n3\t9\tcider\n4\t\twater\n");
    let customers = table("customers", "7\tann\n8\tbob\n");
    let known = ["7\t1\tale\tann", "7\t2\tbread\tann", "9\t3\tcider\t\\N", "\t4\twater\t\\N"];
    check(|env| {
        let orders = join::table(env, &orders, 2);
        let all = orders.join_with(join::table(env, &customers, 1)).full().unkey();
        all.map(|(key, (left, right))| join::row(key, left, right))
    })
    .seeds(2)
    .equals(known.into_iter().chain(["8\t\\N\tbob"]));
    check(|env| {
        let orders = join::table(env, &orders, 2);
        let left = orders.join_with(join::table(env, &customers, 1)).sort_merge().left().unkey();
        left.map(|(key, (left, right))| join::row(key, Some(left), right))
    })
    .seeds(2)
    .equals(known);
}

#[test]
fn roots_of_keys_of_which_some_have_more_records() {
    for (name, shares) in [skew::SPLITS[1], skew::SPLITS[3]] {
        let item = skew::items(shares);
        let expected: f64 = (0..500).map(|n| f64::from(item(n).1).sqrt()).sum();
        every(|env| {
            let sum = skew::roots(env, 500, skew::items(shares), 20)?;
            assert!((sum - expected).abs() < 1e-6, "{name}: {sum}, not {expected}");
            Ok(())
        });
    }
}

#[test]
fn what_is_measured_on_hosts_has_one_answer() {
    let sent = format!("1000:{:016x}", 2 * (0..1000).sum::<u64>());
    let rounds = format!("5:{:016x}", 5 * (0..64).sum::<u64>());
    every(|env| {
        assert_eq!(jobs::exchange::<3>(env, 1000, To::All, Some(3))?, sent);
        assert_eq!(jobs::exchange::<3>(env, 1000, To::Next, None)?, sent);
        assert_eq!(jobs::run_rounds(env, 5, None)?, rounds);
        assert_eq!(jobs::run_rounds(env, 5, Some(3))?, rounds);
        Ok(())
    });
}
