//! Jobs that are interrupted, on one host and in an order drawn from a seed.

mod at_end;
mod committed;
mod gradual;
mod overtaking;
mod progress;
mod spilled;

use super::*;
use crate::config::{BatchMode, Config, Scheduler};
use crate::exchange::key_group;
use crate::prelude::*;
use std::num::NonZeroUsize;

/// An environment that runs one batch at a time, in an order drawn from a seed.
fn environment(cores: usize, seed: u64) -> Environment {
    environment_with(cores, seed, Config::default().memory)
}

fn environment_with(cores: usize, seed: u64, memory: usize) -> Environment {
    let config = Config {
        memory,
        cores: NonZeroUsize::new(cores).unwrap(),
        scheduler: Scheduler::Deterministic { seed },
        turn: NonZeroUsize::MIN,
        batch: BatchMode::Fixed { size: 8 },
        ..Config::default()
    };
    Environment::with_config(config)
}

/// What a job has saved after so many steps.
fn saved(describe: impl Fn(&Environment), cores: usize, seed: u64, steps: usize) -> Result<Taken> {
    let env = environment(cores, seed);
    describe(&env);
    let job = env.start_with(Some(&Checkpoints::new(None, None)))?;
    job.drive_for(steps);
    let taken = job.snapshot()?.expect("the job goes on");
    job.cancel();
    // It may have ended while the barrier went through it.
    let _ = job.wait();
    Ok(taken)
}

/// Why a job cannot begin with a snapshot.
fn refusal(describe: impl Fn(&Environment), snapshot: Snapshot) -> Error {
    let env = environment(2, 0);
    describe(&env);
    env.start_with(Some(&Checkpoints::new(Some(snapshot), None))).err().expect("it is refused")
}

#[test]
fn a_job_goes_on_where_it_was_whatever_its_tasks() {
    let mut begun = 0;
    for seed in 0..20 {
        let job = |env: &Environment| {
            let counts = env.iter(0..50_000u64).shuffle().group_by(|n| n % 50).count();
            counts.unkey().collect::<Vec<_>>()
        };
        let Taken { snapshot, .. } = saved(|env| drop(job(env)), 3, seed, 60).unwrap();
        let id =
            |operator: &str, name: &str| StateId { operator: operator.into(), name: name.into() };
        let mut position = snapshot.entries(&id("iter-0", "position"));
        let mut entry = position.next().unwrap().unwrap().bytes;
        let (_, _, read) = <(usize, usize, u64)>::decode(&mut entry).unwrap();
        begun += u64::from((1..50_000).contains(&read));
        let mut counted = 0;
        for id in [id("combine-0", "partials"), id("count-0", "table")] {
            let mut counts = snapshot.entries(&id);
            while let Some(Saved { group, mut bytes, .. }) = counts.next().unwrap() {
                let (key, count) = <(u64, u64)>::decode(&mut bytes).unwrap();
                assert_eq!(key_group(key.key_hash()), group);
                counted += count;
            }
        }
        // When the source has ended, the counts may have been emitted too.
        if read < 50_000 {
            assert_eq!(counted, read, "a barrier cuts all tasks at one place");
        }
        for cores in 1..4 {
            let env = environment(cores, seed);
            let counts = job(&env);
            let begun = Checkpoints::new(Some(snapshot.clone()), None);
            env.start_with(Some(&begun)).unwrap().wait().unwrap();
            let mut counts = counts.take().unwrap();
            counts.sort_unstable();
            assert_eq!(counts, (0..50).map(|key| (key, 1000)).collect::<Vec<_>>());
        }
    }
    assert!(begun > 2, "some are interrupted within their input: {begun} of 20");
}

#[test]
fn jobs_with_checkpoints_name_the_operator_that_cannot_have_them() {
    let refused = |describe: fn(&Environment)| saved(describe, 2, 0, 5).err().unwrap().to_string();
    let given = refused(|env| env.channel::<u64>(9).1.for_each(drop));
    assert!(given.starts_with("channel (") && given.contains("cannot send those again"), "{given}");
    let volatile = refused(|env| env.iter(0..9u64).map_volatile(|n| n).for_each(drop));
    let said = "cannot have it: what its closure remembers is not declared";
    assert!(volatile.starts_with("map_volatile (") && volatile.contains(said), "{volatile}");
    let kept = refused(|env| drop(env.iter(0..9u64).cache()));
    let said = "cannot have it: a cache is gone with the process";
    assert!(kept.starts_with("cache (") && kept.contains(said), "{kept}");
    let env = environment(2, 0);
    let cache = env.iter(0..9u64).cache();
    env.run().unwrap();
    cache.stream(&env).for_each(drop);
    let read = env.start_with(Some(&Checkpoints::new(None, None))).err().unwrap().to_string();
    assert!(read.starts_with("cached (") && read.contains(said), "{read}");
}

#[test]
fn a_checkpoint_of_another_program_is_refused() {
    let counts = |env: &Environment| {
        env.iter(0..9000u64).group_by(|n| n % 5).count().unkey().for_each(drop);
    };
    let snapshot = || saved(counts, 2, 1, 10).unwrap().snapshot;
    let without = refusal(|env| env.iter(0..9000u64).for_each(drop), snapshot());
    assert!(without.to_string().contains("which this program does not have"), "{without}");
    let others = |env: &Environment| {
        env.iter(0..9000u64).group_by(|n| n % 5).sum(|n| *n).unkey().for_each(drop);
    };
    let other = refusal(others, snapshot());
    assert!(other.to_string().contains("is of another program"), "{other}");
    let others = |env: &Environment| {
        env.iter(0..9000u64).group_by(|n| (n % 5) as u8).count().unkey().for_each(drop);
    };
    let other = refusal(others, snapshot());
    assert!(other.to_string().contains("and this program as"), "{other}");
}

#[test]
fn what_no_operator_takes_is_refused_by_name_or_dropped() {
    let both = |env: &Environment| {
        let [first, second] = env.iter(0..9000u64).split();
        let counts = first.group_by(|n| n % 5).count().name("kept").unkey().collect::<Vec<_>>();
        second.sum(|n| *n).name("old").for_each(drop);
        drop(counts);
    };
    let one = |env: &Environment| {
        let numbers = env.iter(0..9000u64);
        numbers.group_by(|n| n % 5).count().name("kept").unkey().collect::<Vec<_>>()
    };
    let snapshot = saved(both, 2, 1, 10).unwrap().snapshot;
    let refused = refusal(|env| drop(one(env)), snapshot.clone()).to_string();
    let parts =
        ["the checkpoint has the state `", "` of `old`", "which this program does not have"];
    for part in parts.into_iter().chain(["thalweg checkpoint rm", "`--allow-dropped-state`"]) {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let env = dropping();
    let counts = one(&env);
    let begun = Checkpoints::new(Some(snapshot), None);
    env.start_with(Some(&begun)).unwrap().wait().unwrap();
    let mut counts = counts.take().unwrap();
    counts.sort_unstable();
    assert_eq!(counts, (0..5).map(|key| (key, 1800)).collect::<Vec<_>>());
    let dropped = begun.dropped();
    assert!(!dropped.is_empty());
    assert!(dropped.iter().all(|line| line.contains("` of `old")), "{dropped:?}");
}

#[test]
fn sinks_with_names_find_what_they_had_in_any_order() {
    let (mut begun, id) = (0, |operator: &str, name: &str| StateId {
        operator: operator.to_owned(),
        name: name.to_owned(),
    });
    let job = |env: &Environment, is_swapped: bool| {
        let [first, second] = env.iter(0..10_000u64).split();
        let even = || first.filter(|n| n % 2 == 0).sink_name("even").collect::<Vec<_>>();
        let odd = || second.filter(|n| n % 2 == 1).sink_name("odd").collect::<Vec<_>>();
        match is_swapped {
            true => {
                let odd = odd();
                (even(), odd)
            }
            false => (even(), odd()),
        }
    };
    for seed in 0..4 {
        let Taken { snapshot, .. } = saved(|env| drop(job(env, false)), 2, seed, 100).unwrap();
        begun += u64::from(snapshot.entries(&id("even", "records")).next().unwrap().is_some());
        let env = environment(3, seed);
        let outputs = job(&env, true);
        let restored = Checkpoints::new(Some(snapshot), None);
        env.start_with(Some(&restored)).unwrap().wait().unwrap();
        let [mut even, mut odd] = [outputs.0.take().unwrap(), outputs.1.take().unwrap()];
        even.sort_unstable();
        odd.sort_unstable();
        assert!(even.into_iter().eq((0..10_000).step_by(2)), "seed {seed}");
        assert!(odd.into_iter().eq((1..10_000).step_by(2)), "seed {seed}");
    }
    assert!(begun > 0, "no sink had anything");
}

/// An environment whose jobs may go on without states that their operators do not take.
fn dropping() -> Environment {
    let mut config = environment(2, 0).config().clone();
    config.allow_dropped_state = true;
    Environment::with_config(config)
}

#[test]
fn nothing_is_dropped_where_it_is_not_known_which_of_two_operators_is_gone() {
    let counts = |env: &Environment, remainders: &[u64]| {
        for &by in remainders {
            let numbers = env.iter(0..9000u64);
            numbers.group_by(move |n| n % by).count().unkey().for_each(drop);
        }
    };
    let snapshot = saved(|env| counts(env, &[5, 7]), 2, 1, 10).unwrap().snapshot;
    let env = dropping();
    // It would find the states of the first.
    counts(&env, &[7]);
    let begun = Checkpoints::new(Some(snapshot), None);
    let refused = env.start_with(Some(&begun)).err().expect("it is refused").to_string();
    assert!(refused.contains("operators without names"), "{refused}");
}

/// Counts numbers by key.
fn counts_below(env: &Environment, end: u64) -> Output<Vec<(u64, u64)>> {
    env.range(0..end).group_by(|n| n % 5).count().unkey().collect::<Vec<_>>()
}

#[test]
fn branches_find_their_states_wherever_they_are_described() {
    const ENDS: [u64; 2] = [100_000, 150_000];
    let both = |env: &Environment| ENDS.iter().for_each(|end| drop(counts_below(env, *end)));
    let first = saved(both, 2, 1, 30).unwrap().snapshot;
    // The other way round, and then as before: later checkpoints have the same ids.
    let env = environment(2, 2);
    let [one, other] = ENDS;
    let outputs = [other, one].map(|end| counts_below(&env, end));
    let begun = Checkpoints::new(Some(first.clone()), None);
    let job = env.start_with(Some(&begun)).unwrap();
    let moved = begun.moved();
    for (id, kept) in [("range-0", "range-1"), ("range-1", "range-0")] {
        let line = format!("`{id}` goes on as `{kept}`, found by its branch");
        assert!(moved.contains(&line), "{moved:?}");
    }
    job.drive_for(10);
    let second = job.snapshot().unwrap().expect("it goes on").snapshot;
    job.cancel();
    let _ = job.wait();
    drop(outputs);
    let ids = |snapshot: &Snapshot| {
        let branches = snapshot.branches().iter();
        branches.map(|(id, of)| (id.clone(), of.branch)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(ids(&second), ids(&first));
    let env = environment(3, 3);
    let outputs = ENDS.map(|end| counts_below(&env, end));
    env.start_with(Some(&Checkpoints::new(Some(second.clone()), None))).unwrap().wait().unwrap();
    let expected = |end: u64| (0..5_u64).map(move |key| (key, end / 5));
    for (end, counts) in ENDS.into_iter().zip(outputs) {
        let mut counts = counts.take().unwrap();
        counts.sort_unstable();
        assert!(counts.iter().copied().eq(expected(end)), "{end}: {counts:?}");
    }
    // Without one of them, it is known which is gone.
    for (end, snapshot) in ENDS.into_iter().zip([first, second]) {
        let env = dropping();
        let counts = counts_below(&env, end);
        let begun = Checkpoints::new(Some(snapshot), None);
        env.start_with(Some(&begun)).unwrap().wait().unwrap();
        let mut counts = counts.take().unwrap();
        counts.sort_unstable();
        assert!(counts.iter().copied().eq(expected(end)), "{end}: {counts:?}");
        assert!(!begun.dropped().is_empty());
    }
}

type Seen = Arc<Mutex<Vec<(u64, u64)>>>;

/// Counts numbers by key, twice, into sinks that have names if one is given.
fn counted_twice(env: &Environment, end: u64, name: Option<&str>) -> Seen {
    let seen = Seen::default();
    let both: [_; 2] = env.range(0..end).split();
    for (nth, numbers) in both.into_iter().enumerate() {
        let all = Arc::clone(&seen);
        let counts = numbers.group_by(|n| n % 5).count().unkey();
        let counts = match name {
            Some(name) => counts.sink_name(format!("{name} {end} {nth}")),
            None => counts,
        };
        counts.for_each(move |count| lock(&all).push(count));
    }
    seen
}

#[test]
fn twins_and_branches_that_have_changed_find_what_the_last_run_had() {
    const ENDS: [u64; 2] = [60_000, 90_000];
    let both = |env: &Environment, ends: [u64; 2], name: Option<&str>| {
        ends.map(|end| (end, counted_twice(env, end, name)))
    };
    let is_whole = |counted: [(u64, Seen); 2]| {
        for (end, seen) in counted {
            let mut counts = lock(&seen).clone();
            counts.sort_unstable();
            let expected = (0..5).flat_map(|key| [(key, end / 5); 2]);
            assert!(counts.iter().copied().eq(expected), "{end}: {counts:?}");
        }
    };
    let first = saved(|env| drop(both(env, ENDS, None)), 2, 1, 30).unwrap().snapshot;
    // The other way round.
    let swapped = [ENDS[1], ENDS[0]];
    let env = environment(2, 2);
    let counted = both(&env, swapped, None);
    let job = env.start_with(Some(&Checkpoints::new(Some(first), None))).unwrap();
    job.drive_for(10);
    let second = job.snapshot().unwrap().expect("it goes on").snapshot;
    job.wait().unwrap();
    is_whole(counted);
    // No branch is as it was, and all are where they were.
    let env = environment(3, 3);
    let counted = both(&env, swapped, Some("counts"));
    env.start_with(Some(&Checkpoints::new(Some(second), None))).unwrap().wait().unwrap();
    is_whole(counted);
}

#[test]
fn a_branch_that_is_new_takes_no_state_of_another() {
    let snapshot = saved(|env| drop(counts_below(env, 100_000)), 2, 1, 10).unwrap().snapshot;
    let both = |env: &Environment| {
        let [first, second] = [50_000, 100_000].map(|end| counts_below(env, end));
        drop((first, second));
    };
    let refused = refusal(both, snapshot).to_string();
    assert!(refused.contains("which does not have the state"), "{refused}");
}

#[test]
fn nothing_is_dropped_either_where_the_type_of_such_operators_has_changed() {
    let sum = |env: &Environment, by: u64| {
        let numbers = env.iter(0..9000u64).group_by(move |n| n % by);
        numbers.fold(0u32, |sum, _| *sum += 1).unkey().for_each(drop);
    };
    let both = |env: &Environment| [5, 7].into_iter().for_each(|by| sum(env, by));
    let snapshot = saved(both, 2, 1, 10).unwrap().snapshot;
    let env = dropping();
    let numbers = env.iter(0..9000u64).group_by(|n| n % 7);
    numbers.fold(0u64, |sum, _| *sum += 1).unkey().for_each(drop);
    let begun = Checkpoints::new(Some(snapshot), None);
    let refused = env.start_with(Some(&begun)).err().expect("it is refused").to_string();
    assert!(refused.contains("of `fold-"), "{refused}");
    assert!(refused.contains("operators without names"), "{refused}");
}

#[test]
fn torn_snapshots_are_refused_wherever_they_are_torn() {
    let counts = |env: &Environment| {
        env.iter(0..9000u64).group_by(|n| n % 5).count().unkey().for_each(drop);
    };
    let snapshot = saved(counts, 2, 1, 10).unwrap().snapshot;
    let mut bytes = snapshot.encoded();
    assert_eq!(Snapshot::decode(&bytes).unwrap(), snapshot);
    for length in 0..bytes.len() {
        assert!(Snapshot::decode(&bytes[..length]).is_err(), "{length} of {}", bytes.len());
    }
    bytes.push(0);
    assert!(Snapshot::decode(&bytes).is_err());
}

#[test]
fn keys_on_disk_are_never_left_out() {
    let env = environment_with(1, 3, 100_000);
    env.iter(0..1_000_000u64).group_by(|n| *n).count().unkey().for_each(drop);
    let all = Checkpoints::new(None, None);
    let job = env.start_with(Some(&all)).unwrap();
    job.drive_for(200);
    for _ in 0..3 {
        let error = job.snapshot().err().expect("some keys are on disk");
        assert!(error.to_string().contains("are on disk"), "{error}");
        let kept = lock(&all.slots).iter().map(|slot| lock(&slot.saved).len()).max();
        assert_eq!(kept, Some(0), "what was saved in vain is not kept");
    }
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn states_have_different_names() {
    let env = environment(1, 0);
    env.iter(0..9).name("iter-1").for_each(drop);
    env.iter(0..9).for_each(drop);
    let error = env.start_with(Some(&Checkpoints::new(None, None))).err().expect("it is refused");
    assert!(error.to_string().contains("give it another name"), "{error}");
}

#[test]
fn what_is_read_must_be_the_same() {
    let numbers = |to: u64| move |env: &Environment| env.range(0..to).for_each(drop);
    let snapshot = saved(numbers(900_000), 2, 1, 10).unwrap().snapshot;
    let error = refusal(numbers(900_001), snapshot).to_string();
    for part in ["`, and this program as that of `", "900000", "900001"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Calls a closure when a job on one host ends.
struct Ends(Box<dyn Fn(Result<Taken>) + Send + Sync>);

impl Storage for Ends {
    fn store_last(
        &self,
        taken: Result<Taken>,
        _: Result<Vec<Part>>,
        _: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.0(taken);
        Ok(())
    }

    fn store_last_part(&self, _: Result<Taken>, _: &dyn Fn() -> bool) -> Result<Option<Part>> {
        Ok(None)
    }

    fn may_publish(&self) -> Result<()> {
        Ok(())
    }

    fn restore_point(&self) -> Option<RestorePoint> {
        None
    }

    fn restore(&self, _: &RestorePoint) -> Result<Option<Snapshot>> {
        Ok(None)
    }
}

#[test]
fn there_is_a_last_checkpoint_before_files_get_their_names_which_knows_of_a_drained_job() {
    for drained in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers.txt");
        let (sender, last) = std::sync::mpsc::channel();
        let seen = path.clone();
        let at_end = Ends(Box::new(move |taken| {
            let is_drained = taken.map(|taken| taken.snapshot.is_drained);
            sender.send((is_drained.ok(), seen.exists())).unwrap();
        }));
        let env = environment(2, 5);
        env.iter(0..20_000u64).map(|n| n.to_string()).write_lines(&path);
        let job = env.start_with(Some(&Checkpoints::new(None, Some(Arc::new(at_end))))).unwrap();
        job.drive_for(10);
        if drained {
            job.drain();
        }
        job.wait().unwrap();
        assert_eq!(last.try_iter().collect::<Vec<_>>(), [(Some(drained), false)]);
        assert!(path.exists());
    }
}

#[test]
fn a_checkpoint_of_one_kind_of_clock_is_refused_on_the_other() {
    use crate::clock::Clock;
    for [first, other] in
        [[Clock::system(), Clock::simulated()], [Clock::simulated(), Clock::system()]]
    {
        let saved = Checkpoints::new(None, None);
        saved.begin(&first).unwrap();
        let Taken { snapshot, .. } = saved.take_last(false).unwrap();
        let again = || Checkpoints::new(Some(snapshot.clone()), None);
        again().begin(&first).unwrap();
        let error = again().begin(&other).unwrap_err().to_string();
        assert!(error.contains("deterministic scheduler"), "{error}");
    }
}

#[test]
fn what_a_sort_had_is_in_no_checkpoint_after_all_of_it_was_emitted() {
    // Beside it, another stream goes on. With little memory, what the sort holds goes to disk, for which there is no
    // directory here.
    for (memory, spills) in [(Config::default().memory, false), (1 << 20, true)] {
        let env = environment_with(2, 3, memory);
        let sorted = env.range(0..40_000).map(|n| (n ^ 0x5555, [n; 4])).sorted();
        sorted.for_each(drop);
        env.range(0..u64::MAX).for_each(drop);
        let job = env.start_with(Some(&Checkpoints::new(None, None))).unwrap();
        let held = |snapshot: &Snapshot| {
            let ids = snapshot.ids().filter(|id| id.operator.starts_with("sorted"));
            let of_sort: Vec<_> = ids.filter(|id| id.name == "value").collect();
            let [id] = of_sort[..] else { panic!("{of_sort:?}") };
            let mut entries = snapshot.entries(id);
            std::iter::from_fn(|| entries.next().unwrap()).count()
        };
        let (mut begun, mut over) = (false, false);
        for _ in 0..2000 {
            job.drive_for(1);
            match job.snapshot() {
                Ok(taken) => {
                    let held = held(&taken.expect("it goes on").snapshot);
                    over = begun && held == 0;
                    begun |= !spills && held > 0;
                }
                Err(error) => {
                    assert!(spills && error.kind() == ErrorKind::Plan, "{error}");
                    begun = true;
                }
            }
            if over {
                break;
            }
        }
        job.cancel();
        let _ = job.wait();
        assert!(begun && over, "with {memory} bytes of memory: {begun} {over}");
    }
}
