//! Jobs that are interrupted at a barrier, and begin again with what was saved there: `check` runs every job so.

use thalweg::check::check;

#[test]
fn what_is_saved_is_restored_in_every_operator_that_saves() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let lines: String = (0..2000).map(|n| format!("{} {}\n", n % 7, file * 2000 + n)).collect();
        std::fs::write(folder.path().join(format!("{file}.txt")), lines).unwrap();
    }
    let files = || thalweg::io::Text::new(folder.path()).split_bytes(5000).block_bytes(100);
    let parsed = |line: &str| line.split_once(' ').unwrap().1.parse::<u64>().unwrap();
    check(|env| env.lines(files()).map(parsed)).any_tasks().equals(0..6000u64);
    check(|env| env.lines(files()).map(parsed).sum(|n| *n)).equals([5999u64 * 3000]);
    check(|env| env.range(0..300_000).filter(|n| n % 1000 == 7))
        .equals((0..300u64).map(|n| n * 1000 + 7));
    check(|env| env.range(0..3000).shuffle().fold(0, |sum, n| *sum += n)).equals([2999u64 * 1500]);
    check(|env| env.range(0..3000).fold_assoc(0, |sum, n| *sum += n, |sum, n| *sum += n))
        .equals([2999u64 * 1500]);
    check(|env| env.range(0..3000).reduce(|a, b| a.max(b))).equals([2999u64]);
    check(|env| env.range(0..3000).top(7)).equals(2993..3000u64);
    check(|env| env.range(0..0).fold(7u64, |sum, n| *sum += n).merge(env.iter(0..500u64))).agrees();
    check(|env| env.iter(0..3000u64).map(|n| n % 300).unique()).any_tasks().equals(0..300u64);
    check(|env| env.iter(0..3000u64).shuffle().limit(700).count()).equals([700u64]);
    check(|env| env.iter(0..3000u64).group_by(|n| n % 9).max(|n| *n).unkey().map(|(_, n)| n))
        .any_tasks()
        .equals(2991..3000u64);
    check(|env| {
        let running = env.iter(0..900u64).group_by(|n| n % 3);
        running
            .stateful_map(0, |_, seen: &mut u64, n| {
                *seen += 1;
                n / 3 + 1 - *seen
            })
            .unkey()
            .map(|(_, n)| n)
    })
    .equals(std::iter::repeat_n(0u64, 900));
}
