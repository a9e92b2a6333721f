//! When a job is killed, which of its processes are, and on which processes it is started again: all follow from a seed.

use crate::inputs::Numbers;
use std::time::Duration;

/// When a job is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// This long after the job has this many more checkpoints than at its start.
    Checkpoints { more: u64, then: Duration },
    /// This long after its start: also while hosts connect, and when the job has nearly ended.
    After(Duration),
}

impl Moment {
    /// The first moment of a job waits for a checkpoint, so the next start has one to go on from, on a slow machine too.
    pub(super) fn draw(random: &mut Numbers, is_first: bool) -> Self {
        let millis = |random: &mut Numbers, below| Duration::from_millis(random.below(below));
        if is_first || random.below(4) > 0 {
            return Self::Checkpoints { more: 1 + random.below(4), then: millis(random, 40) };
        }
        Self::After(millis(random, 1500))
    }
}

/// The victims of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    /// The process with this number, modulo the number of processes.
    One(usize),
    /// All of its processes, one right after the other.
    All,
    /// The launcher, with which its processes end.
    Launcher,
}

impl Victim {
    pub(super) fn draw(random: &mut Numbers) -> Self {
        match random.below(6) {
            0 => Self::Launcher,
            1 => Self::All,
            _ => Self::One(random.below(60) as usize),
        }
    }

    /// The killed processes among those of a job; none if the launcher is killed.
    pub(super) fn of(self, hosts: &[u32]) -> Vec<u32> {
        match self {
            Self::One(number) if !hosts.is_empty() => vec![hosts[number % hosts.len()]],
            Self::All => hosts.to_vec(),
            _ => Vec::new(),
        }
    }
}

/// The processes of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) processes: u64,
    /// The cores of each process.
    pub(super) cores: u64,
}

impl Shape {
    const fn new(processes: u64, cores: u64) -> Self {
        Self { processes, cores }
    }

    /// For a job that begins.
    pub(super) const FIRST: Self = Self::new(2, 1);
    /// For an undisturbed run.
    pub(super) const UNDISTURBED: Self = Self::new(1, 2);
    /// For jobs that go on. The last one has fewer cores in all than a job that begins.
    const ONWARD: [Self; 6] = [
        Self::new(2, 1),
        Self::new(1, 2),
        Self::new(3, 1),
        Self::new(2, 2),
        Self::new(1, 3),
        Self::new(1, 1),
    ];

    /// For a job that goes on, with fewer cores than it began with only if it may have fewer.
    pub(super) fn draw(random: &mut Numbers, may_shrink: bool) -> Self {
        let all = &Self::ONWARD[..];
        let among = if may_shrink { all } else { &all[..all.len() - 1] };
        among[random.below(among.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn<T>(seed: u64, draw: impl Fn(&mut Numbers) -> T) -> Vec<T> {
        let mut random = Numbers::new(seed);
        (0..400).map(|_| draw(&mut random)).collect()
    }

    #[test]
    fn moments_follow_from_the_seed_and_are_of_both_kinds() {
        let of = |seed| drawn(seed, |random| Moment::draw(random, false));
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        let after = of(7).iter().filter(|moment| matches!(moment, Moment::After(_))).count();
        assert!((50..200).contains(&after), "{after}");
    }

    #[test]
    fn the_first_moment_waits_for_a_checkpoint() {
        for moment in drawn(7, |random| Moment::draw(random, true)) {
            assert!(matches!(moment, Moment::Checkpoints { more: 1..=4, .. }), "{moment:?}");
        }
    }

    #[test]
    fn each_kind_of_victim_is_drawn() {
        let victims = drawn(7, Victim::draw);
        let killed: Vec<_> = victims.iter().map(|victim| victim.of(&[3, 5])).collect();
        for expected in [vec![], vec![3], vec![5], vec![3, 5]] {
            assert!(killed.contains(&expected), "{expected:?}");
        }
        assert!(victims.iter().all(|victim| victim.of(&[]).is_empty()));
    }

    #[test]
    fn jobs_go_on_with_other_numbers_of_processes() {
        let of = |may_shrink| drawn(7, |random| Shape::draw(random, may_shrink));
        for shape in Shape::ONWARD {
            assert!(of(true).contains(&shape), "{shape:?}");
        }
        let first = Shape::FIRST.processes * Shape::FIRST.cores;
        assert!(of(false).iter().all(|shape| shape.processes * shape.cores >= first));
        assert!(of(true).iter().any(|shape| shape.processes * shape.cores < first));
    }
}
