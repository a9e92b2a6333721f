//! Running the same work on several threads.

use std::ops::Range;

/// Runs `work(index)` on `count` threads, one of them the caller's, and returns their results in
/// order.
pub(crate) fn on_each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = (1..count).map(|index| scope.spawn(move || work(index))).collect();
        let mut results = vec![work(0)];
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

/// The `index`-th of `count` parts of `0..total`, as even as can be.
pub(crate) fn part(total: u64, index: usize, count: usize) -> Range<u64> {
    let at = |index: usize| (u128::from(total) * index as u128 / count as u128) as u64;
    at(index)..at(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_whole_once() {
        for total in [0, 1, 7, 1000] {
            for count in 1..9 {
                let all: Vec<u64> =
                    (0..count).flat_map(|index| part(total, index, count)).collect();
                assert_eq!(all, (0..total).collect::<Vec<_>>());
            }
        }
    }
}
