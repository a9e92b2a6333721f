//! Which stages a setting is for, what follows from it, and what is refused.

use crate::check::on_cluster;
use crate::config::Config;
use crate::data::Data as _;
use crate::exchange::owner;
use crate::plan::{Placement, Plan, Strategy};
use crate::runtime::Cluster;
use crate::{Environment, ErrorKind, KeyedStream};
use std::collections::{BTreeMap, BTreeSet};

/// An environment of two cores with these numbers of tasks.
fn with(counts: &str) -> Environment {
    let (cores, tasks) = (2.try_into().unwrap(), counts.parse().unwrap());
    let config = Config { cores, tasks, ..Config::default() };
    Environment::with_config(config)
}

/// Describes a job.
type Describe = fn(&Environment);

/// The numbers of tasks of the stages of a job with this setting.
fn tasks(counts: &str, job: Describe) -> Vec<usize> {
    let env = with(counts);
    job(&env);
    let tasks = env.plan().stages.iter().map(|stage| stage.tasks).collect();
    env.run().unwrap();
    tasks
}

/// The message with which a job is refused, and the operator that it names.
fn refused(counts: &str, job: Describe) -> (String, Option<String>) {
    let env = with(counts);
    job(&env);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let operator = error.operator().and_then(|op| op.split(" (").next()).map(str::to_owned);
    (error.message().to_owned(), operator)
}

/// The stage of a count by key, its partial counts before it.
fn counting(env: &Environment) {
    env.range(0..100).group_by(|n| n % 10).count().name("tens").unkey().for_each_parallel(drop);
}

#[test]
fn a_stage_is_found_by_name_kind_and_number() {
    assert_eq!(tasks("other?=1", counting), [2, 8]);
    assert_eq!(tasks("tens=3", counting), [2, 3]);
    assert_eq!(tasks("1=3", counting), [2, 3]);
    assert_eq!(tasks("for_each_parallel=3", counting), [2, 3]);
    assert_eq!(tasks("range=5,tens=1", counting), [5, 1]);
    assert_eq!(tasks("tens=3,1=3", counting), [2, 3], "the same stage, as many");
    assert_eq!(tasks("tens?=3", counting), [2, 3]);
    // The name of an exchange is that of the stage behind it.
    let named = |env: &Environment| env.range(0..9).shuffle().name("mixed").for_each_parallel(drop);
    assert_eq!(tasks("mixed=7", named), [2, 7]);
    // A name is no number.
    let digit = |env: &Environment| {
        env.range(0..9).map(|n| n).name("1").shuffle().for_each_parallel(drop);
    };
    assert_eq!(tasks("1=7", digit), [7, 2]);
    let asked = |env: &Environment| env.range(0..9).name("all?").shuffle().for_each_parallel(drop);
    assert_eq!(tasks("all?=7", asked), [7, 2]);
}

#[test]
fn a_name_that_fits_no_stage_or_several_is_refused_with_those_there_are() {
    let stages =
        "stage 0 (range, group_by, combine, repartition), stage 1 (tens, for_each_parallel)";
    for unknown in ["tans", "2", "count"] {
        let (message, _) = refused(&format!("{unknown}=3"), counting);
        let start =
            format!("the number of tasks `{unknown}=3` is not possible: no stage of the job ");
        assert!(message.starts_with(&start) && message.contains(stages), "{message}");
    }
    let twice = |env: &Environment| {
        env.range(0..9).map(|n| n).shuffle().map(|n| n).for_each_parallel(drop);
    };
    let (message, _) = refused("map=3", twice);
    assert!(
        message.contains("the stages 0, 1 have an operator `map`; name one by its"),
        "{message}"
    );
    let (message, _) = refused("shuffle=3", twice);
    assert!(message.contains("`shuffle` leads from stage 0 to stage 1; name another"), "{message}");
    let (message, _) = refused("tens=3,1=4", counting);
    assert!(message.contains("`1=4` is for the same stage"), "{message}");
}

#[test]
fn stages_joined_by_forward_exchanges_have_one_number() {
    let split = |env: &Environment| {
        let [a, b] = env.range(0..100).shuffle().split();
        a.forward().name("left").zip_by_task(b).for_each_parallel(drop);
    };
    assert_eq!(tasks("left=5", split), [2, 5, 5, 5, 5, 5]);
    let (message, _) = refused("left=5,1=4", split);
    assert!(
        message.contains("is for the same stage, or for one that forward exchanges"),
        "{message}"
    );
    // A join leaves a stream where it is that is in the tasks of its keys already.
    let join = |env: &Environment| {
        let left = env.range(0..100).group_by(|n| n % 10).repartition();
        left.join(env.range(0..50).group_by(|n| n % 20)).unkey().for_each_parallel(drop);
    };
    let plan = {
        let env = with("join=5");
        join(&env);
        env.plan()
    };
    let into_join: Vec<_> =
        plan.edges.iter().map(|edge| (edge.strategy, edge.from, edge.to)).collect();
    let forward = into_join.iter().find(|edge| edge.0 == Strategy::Forward).unwrap();
    assert_eq!([forward.1, forward.2].map(|stage| plan.stages[stage].tasks), [5, 5], "{plan}");
}

#[test]
fn merged_streams_have_as_many_tasks_as_the_widest() {
    let merge = |env: &Environment| {
        let wide = env.range(0..9).name("wide");
        wide.merge(env.iter(0..9)).merge(env.range(0..9)).for_each_parallel(drop);
    };
    assert_eq!(tasks("wide=7", merge), [7, 1, 7, 2, 7]);
    assert_eq!(tasks("wide=7,for_each_parallel=3", merge), [7, 1, 7, 2, 3]);
    assert_eq!(tasks("wide=1", merge), [1, 1, 1, 2, 2]);
    // A loop that begins behind them has its own number.
    let looped = |env: &Environment| {
        let all = env.range(0..9).name("wide").merge(env.iter(0..9));
        let rounds = all.iterate(2, (), |numbers, _| numbers.map(|n| n + 1));
        rounds.all_rounds().1.for_each_parallel(drop);
    };
    assert_eq!(tasks("wide=7", looped)[..3], [7, 1, 2]);
    // Streams that are in the tasks of their keys have one number.
    let keyed = |env: &Environment| {
        let [a, b] = [10, 20].map(|most| env.range(0..most).group_by(|n| n % 7).repartition());
        KeyedStream::merge(a, b).count().name("counts").unkey().for_each_parallel(drop);
    };
    assert_eq!(tasks("counts=5", keyed), [2, 5, 2, 5, 5]);
}

#[test]
fn what_needs_its_number_of_tasks_is_named() {
    let fixed =
        "the number of tasks `all=3` is not possible: stage 1 has 1 task because of this operator";
    let jobs: [(&str, Describe); 3] = [
        ("parallelism", |env| {
            let state = env.range(0..9).parallelism(1).scan(0, |sum, n| {
                *sum += n;
                Some(*sum)
            });
            state.name("all").for_each_parallel(drop);
        }),
        ("sorted", |env| env.range(0..9).sorted().name("all").for_each_parallel(drop)),
        ("sum", |env| _ = env.range(0..9).sum(|n| *n).name("all").collect_one()),
    ];
    for (operator, job) in jobs {
        let (message, named) = refused("all=3", job);
        assert_eq!(message, fixed);
        // The operator that begins the stage may be the one that has the name.
        assert!([operator, "all"].contains(&named.as_deref().unwrap()), "{named:?}");
        assert_eq!(tasks("all=1", job)[1], 1, "as many as it has");
    }
    // Merged streams of one task each have one, and what is behind them may rely on it.
    let one = |env: &Environment| {
        let [a, b] = [10, 20].map(|most| env.range(0..most).parallelism(1));
        let all = a.merge(b).merge(env.iter(0..5)).scan(0, |count, _| {
            *count += 1;
            Some(*count)
        });
        all.name("all").for_each_parallel(drop);
    };
    assert!(refused("all=3", one).0.contains("has 1 task because of this operator"));
    let cached = |env: &Environment| _ = env.range(0..9).map(|n| n).cache();
    let (message, operator) = refused("map=3", cached);
    assert!(
        message.ends_with("stage 0 has 2 tasks, and later jobs read the cache in as many"),
        "{message}"
    );
    assert_eq!(operator.as_deref(), Some("cache"));
    let looped = |env: &Environment| {
        let rounds = env.range(0..9).iterate(2, (), |numbers, _| numbers.map(|n| n + 1));
        rounds.all_rounds().1.for_each_parallel(drop);
    };
    let (message, operator) = refused("range=3", looped);
    assert!(
        message.ends_with("has 2 tasks, and records of its loop are fed back to as many"),
        "{message}"
    );
    assert_eq!(operator.as_deref(), Some("iterate"));
    let merged = |env: &Environment| {
        let rounds = env.range(0..9).iterate(2, (), |numbers, _| {
            let [a, b] = numbers.split();
            a.merge(b).name("fed").filter(|n| *n < 5)
        });
        rounds.all_rounds().1.for_each_parallel(drop);
    };
    assert!(refused("fed=3", merged).0.ends_with("of its loop are fed back to as many"));
}

#[test]
fn numbers_that_are_not_possible_are_refused() {
    let why = |counts| refused(counts, counting).0;
    assert!(why("tens=3+1").ends_with("it has numbers for 2 hosts, and the job runs on 1"));
    assert!(why("tens=32769").ends_with("a stage has at most 32768 tasks"));
    let most = usize::MAX;
    for counts in [format!("tens={most}+2"), format!("tens=1+{most}")] {
        for refused in on_hosts(&[1, 1], &counts, tens) {
            assert!(refused.unwrap_err().ends_with("a stage has at most 32768 tasks"));
        }
    }
    let mut config = Config::default();
    config.tasks.set("tens", 0);
    let env = Environment::with_config(config);
    counting(&env);
    assert!(env.run().unwrap_err().to_string().ends_with("a stage has at least one task"));
}

/// The plan of a job and its result.
type Ran = (Plan, BTreeMap<u64, u64>);

/// The plan and the result of a job on hosts with these cores, on each of them.
fn on_hosts(
    cores: &[usize],
    counts: &str,
    job: impl Fn(&Environment) -> crate::Output<BTreeMap<u64, u64>> + Sync,
) -> Vec<Result<Ran, String>> {
    let config = Config { tasks: counts.parse().unwrap(), ..Config::default() };
    let cluster = Cluster::new(1, config.turn.get(), cores.len());
    on_cluster(&cluster, &config, cores, &|env| {
        let output = job(env);
        let plan = env.plan();
        let taken = env.run().and_then(|()| output.take());
        taken.map(|taken| (plan, taken)).map_err(|error| error.to_string())
    })
}

fn tens(env: &Environment) -> crate::Output<BTreeMap<u64, u64>> {
    env.range(0..1000).group_by(|n| n % 100).count().name("tens").collect()
}

#[test]
fn hosts_have_tasks_of_their_own_numbers_and_the_result_is_the_same() {
    let expected: BTreeMap<u64, u64> = (0..100).map(|key| (key, 10)).collect();
    let spread = |tasks: usize| (tasks, Placement::Spread);
    let on = |own: &[usize]| (own.iter().sum(), Placement::OnHosts(own.to_vec()));
    for (counts, stage) in [
        ("tens=1", spread(1)),
        ("tens=3", spread(3)),
        ("tens=17", spread(17)),
        ("tens=1+3", on(&[1, 3])),
        ("tens=1+0", on(&[1, 0])),
        ("tens=3+_", on(&[3, 4])),
        ("tens=_+7,range=1+4", on(&[8, 7])),
    ] {
        for host in on_hosts(&[2, 1], counts, tens) {
            let (plan, found) = host.unwrap();
            assert_eq!(found, expected, "{counts}");
            let tens = plan.operators.iter().find(|op| op.name == "tens").unwrap();
            let settled = &plan.stages[tens.stage];
            assert_eq!((settled.tasks, settled.placement.clone()), stage, "{counts}");
        }
    }
    let text = on_hosts(&[2, 1], "tens=1+3", tens)[0].as_ref().unwrap().0.to_string();
    assert!(text.contains("\nstage 1: 4 tasks, 1+3 on the hosts\n"), "{text}");
}

/// A task owns the key groups of its number, on whatever host it is.
#[test]
fn the_owner_of_a_key_follows_from_the_number_of_its_task() {
    let owners = |env: &Environment| {
        let host = env.host().0 as u64;
        let owned = env.range(0..100).group_by(|n| *n).repartition().map(move |_, _| host);
        owned.name("owned").unkey().collect::<BTreeMap<u64, u64>>()
    };
    let expected: BTreeMap<u64, u64> =
        (0..100u64).map(|key| (key, u64::from(owner(key.key_hash(), 4) > 0))).collect();
    assert_eq!(expected.values().collect::<BTreeSet<_>>().len(), 2);
    for host in on_hosts(&[1, 1], "owned=1+3", owners) {
        assert_eq!(host.unwrap().1, expected);
    }
}

#[test]
fn the_first_host_has_a_task_of_every_stage() {
    for host in on_hosts(&[1, 2], "tens=0+3", tens) {
        let error = host.unwrap_err();
        assert!(error.contains("the first host runs the first task of each stage"), "{error}");
    }
}
