//! The engine in its smallest uses.
use thalweg::config::{BatchMode, Config, Scheduler};
use thalweg::{Environment, Result};

fn configs() -> Vec<Config> {
    let mut all = Vec::new();
    for cores in [1, 3] {
        for scheduler in [
            Scheduler::WorkStealing,
            Scheduler::ThreadPerTask,
            Scheduler::Deterministic { seed: 1 },
            Scheduler::Deterministic { seed: 2 },
        ] {
            for batch in [
                BatchMode::default(),
                BatchMode::Single,
                BatchMode::Fixed { size: 3 },
                BatchMode::Timed { size: 7, delay: std::time::Duration::from_millis(1) },
            ] {
                let mut config = Config::default();
                config.cores = cores.try_into().unwrap();
                config.scheduler = scheduler;
                config.batch = batch;
                config.credit = 100;
                all.push(config);
            }
        }
    }
    all
}

#[test]
fn map_filter_shuffle_collect() -> Result<()> {
    for config in configs() {
        eprintln!("{config:?}");
        let env = Environment::with_config(config);
        let out = env
            .iter(0..2_000u64)
            .shuffle()
            .map(|n| n * 2)
            .filter(|n| n % 3 == 0)
            .shuffle()
            .flat_map(|n| [n, n + 1])
            .forward()
            .boxed()
            .broadcast()
            .partition_by(|n, _| *n as usize)
            .random(3)
            .collect::<Vec<_>>();
        let cores = env.config().cores.get();
        env.run()?;
        let mut got = out.take()?;
        got.sort();
        let mut want: Vec<u64> = (0..2_000u64)
            .map(|n| n * 2)
            .filter(|n| n % 3 == 0)
            .flat_map(|n| [n, n + 1])
            .flat_map(|n| vec![n; cores])
            .collect();
        want.sort();
        assert_eq!(got, want);
    }
    Ok(())
}

#[test]
fn panics_become_errors() {
    let env = Environment::new();
    let out = env
        .iter(0..2_000u64)
        .shuffle()
        .map(|n| if n == 1500 { panic!("no {n}") } else { n })
        .count();
    let error = env.run().unwrap_err();
    assert!(
        error.to_string().contains("map (") && error.to_string().contains("panicked: no 1500"),
        "{error}"
    );
    assert!(out.take().is_err());
}

#[test]
fn keyed() -> Result<()> {
    for mut config in configs() {
        config.memory = 64 << 10;
        eprintln!("{config:?}");
        let env = Environment::with_config(config);
        let counts = env
            .parallel_iter(|i, n| (i as u64..6_000).step_by(n))
            .group_by(|n| n % 900)
            .count()
            .collect::<Vec<_>>();
        let sums = env
            .iter(0..6_000u64)
            .shuffle()
            .map(|n| format!("{}", n % 901))
            .group_by_ref(|s| s.as_str())
            .fold(0u64, |n, s| *n += s.len() as u64)
            .collect::<Vec<_>>();
        env.run()?;
        let mut got = counts.take()?;
        got.sort();
        let want: Vec<(u64, u64)> =
            (0..900).map(|k| (k, (0..6_000).filter(|n| n % 900 == k).count() as u64)).collect();
        assert_eq!(got, want);
        let mut got = sums.take()?;
        got.sort();
        let mut want: std::collections::BTreeMap<String, u64> = Default::default();
        for n in 0..6_000u64 {
            let s = format!("{}", n % 901);
            *want.entry(s.clone()).or_default() += s.len() as u64;
        }
        assert_eq!(got, want.into_iter().collect::<Vec<_>>());
    }
    Ok(())
}
