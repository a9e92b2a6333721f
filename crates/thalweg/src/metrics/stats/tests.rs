//! Tests of what statistics say.

use super::*;
use crate::metrics::SplitWait;

fn spread(millis: &[u64]) -> Spread {
    Spread::over(millis.iter().map(|&n| Duration::from_millis(n)))
}

/// source (1 task) → keyed (4 tasks) → sink (1 task), one second on two cores.
fn pipeline(busy: [&[u64]; 3]) -> Stats {
    let stage = |id: usize, name: &str| {
        let kind = if id == 0 { "iter" } else { name };
        OperatorStats {
            id,
            name: name.into(),
            kind: kind.into(),
            stage: id,
            records_in: (id > 0).then_some(1000),
            records_out: (id < 2).then_some(1000),
            ..OperatorStats::default()
        }
    };
    let stages = busy.iter().enumerate().map(|(id, busy)| StageStats {
        id,
        operators: vec![id],
        inputs: if id > 0 { vec![id - 1] } else { Vec::new() },
        tasks: busy.len(),
        keyed: id == 1,
        busy: spread(busy),
        records: Records::over(busy.iter().copied()),
        ..StageStats::default()
    });
    Stats {
        wall: Duration::from_secs(1),
        cores: 2,
        memory_peak: 0,
        operators: vec![stage(0, "iter"), stage(1, "fold"), stage(2, "count")],
        stages: stages.collect(),
        edges: Vec::new(),
        clocks: Vec::new(),
        checkpoints: None,
    }
}

#[test]
fn the_stage_with_the_highest_load_limits() {
    // The keyed stage is busy for longer, but the source has the higher load on the one core that it can use.
    let mut stats = pipeline([&[950], &[300, 300, 300, 300], &[10]]);
    stats.stages[1].idle = spread(&[700, 700, 700, 700]);
    let limit = limiting_operator(&stats).unwrap();
    assert_eq!((limit.stage, &*limit.operators), (0, "iter"));
    assert_eq!(
        limit.why,
        "its one task was busy 95% of the time that it could use; what receives from it \
         waited for input 70%"
    );
}

#[test]
fn stages_before_the_bottleneck_are_held_back() {
    let mut stats = pipeline([&[200], &[450, 450, 450, 450], &[10]]);
    stats.stages[0].back_pressured = spread(&[750]);
    stats.stages[2].idle = spread(&[990]);
    let limit = limiting_operator(&stats).unwrap();
    assert_eq!(limit.stage, 1);
    assert!((limit.share - 0.9).abs() < 1e-9);
    assert!(limit.why.contains("held back 75%"), "{}", limit.why);
    assert!(limit.why.contains("waited for input 99%"), "{}", limit.why);
}

#[test]
fn one_busy_task_of_many_limits() {
    let mut stats = pipeline([&[200], &[980, 20, 20, 20], &[10]]);
    stats.stages[1].records = Records::over([9800, 200, 200, 200].into_iter());
    let limit = limiting_operator(&stats).unwrap();
    assert_eq!(limit.stage, 1);
    assert!(limit.why.contains("one of them 98% and the mean one 26%"), "{}", limit.why);
    assert!((stats.stages[1].skew() - 3.77).abs() < 0.01);
    assert!(stats.to_string().contains("is skewed: its fullest task got 3.8 times the mean"));
}

#[test]
fn a_job_that_waits_has_no_bottleneck() {
    let stats = pipeline([&[20], &[10, 10, 10, 10], &[0]]);
    assert_eq!(limiting_operator(&stats), None);
    assert!(stats.to_string().contains("waited for what they read\n"), "{stats}");
    let mut stats = stats;
    stats.stages[0].idle = spread(&[930]);
    stats.stages[1].idle = spread(&[990, 990, 990, 990]);
    stats.operators[0].method = "read".to_owned();
    stats.operators[0].place = "src/main.rs:7:9".to_owned();
    let said = "what they read; read (src/main.rs:7:9) had nothing to give for 93% of the time\n";
    assert!(stats.to_string().contains(said), "{stats}");
    stats.stages[0].back_pressured = spread(&[940]);
    assert!(!stats.to_string().contains("nothing to give"), "{stats}");
    assert_eq!(limiting_operator(&Stats::default()), None);
}

#[test]
fn a_source_says_what_it_waits_for() {
    let millis = Duration::from_millis;
    let waits = |fetching: u64, nothing_new: u64| SourceWaits {
        fetching: spread(&[fetching]),
        nothing_new: spread(&[nothing_new]),
        splits: vec![SplitWait::new("orders/3".to_owned(), millis(fetching), 12_000)],
        ..SourceWaits::default()
    };
    let mut stats = pipeline([&[20], &[10, 10, 10, 10], &[0]]);
    stats.stages[0].idle = spread(&[930]);
    stats.operators[0].method = "read".to_owned();
    stats.operators[0].place = "src/main.rs:7:9".to_owned();
    let said = |stats: &Stats| {
        let shown = stats.to_string();
        let (_, findings) = shown.split_once("the job: ").unwrap();
        findings.split_once("; ").map(|(_, said)| said.to_owned()).unwrap_or_default()
    };
    stats.operators[0].waits = Some(waits(900, 30));
    let fetch = "read (src/main.rs:7:9) waited for the fetch of orders/3 (at most 12,000 records behind) for 90% of the time\n";
    assert_eq!(said(&stats), fetch);
    stats.operators[0].waits = Some(waits(30, 900));
    let all = "read (src/main.rs:7:9) had read all that was there for 90% of the time\n";
    assert_eq!(said(&stats), all);
    // Neither was most of it.
    stats.operators[0].waits = Some(waits(100, 300));
    let neither = "read (src/main.rs:7:9) had nothing to give for 93% of the time\n";
    assert_eq!(said(&stats), neither);
    // While a job runs, the wait that its source is in is not idle time yet.
    stats.stages[0].idle = spread(&[0]);
    stats.operators[0].waits = Some(waits(900, 30));
    assert_eq!(said(&stats), fetch);
    // Of two sources, the one that waits for a fetch is named.
    stats.stages[1].inputs.clear();
    stats.stages[1].idle = spread(&[990, 990, 990, 990]);
    assert_eq!(said(&stats), fetch);
    // Also where an operator limits the job.
    let limited = |fetching| {
        let mut stats = pipeline([&[40], &[450, 450, 450, 450], &[10]]);
        stats.stages[0].idle = spread(&[930]);
        stats.operators[0].method = "read".to_owned();
        stats.operators[0].place = "src/main.rs:7:9".to_owned();
        stats.operators[0].waits = Some(waits(fetching, 100));
        stats.to_string()
    };
    let shown = limited(250);
    assert!(shown.contains("stage 1 (fold) limited the job: "), "{shown}");
    let fetch = "\nread (src/main.rs:7:9) waited for the fetch of orders/3 (at most 12,000 records behind) for 25% of the time\n";
    assert!(shown.ends_with(fetch), "{shown}");
    assert!(!limited(150).contains("\nread ("), "that is less than a fifth of the time");
    stats.stages[0].back_pressured = spread(&[940]);
    stats.stages[1].back_pressured = spread(&[995]);
    assert_eq!(said(&stats), "");
    stats.operators[0].waits = Some(SourceWaits { backlog: 12_000, ..waits(1, 1) });
    assert!(stats.to_string().contains("  12,000 not read yet\n"), "{stats}");
    let json = serde_json::to_string(&stats).unwrap();
    assert!(json.contains("\"split\":\"orders/3\",\"fetching\":0.001"), "{json}");
    assert_eq!(serde_json::from_str::<Stats>(&json).unwrap(), stats);
}

#[test]
fn hot_keys_are_printed() {
    let mut stats = pipeline([&[500], &[1, 1, 1, 1], &[1]]);
    let key = |key: &str, share| HotKey { key: key.into(), share };
    let rest = (0..62).map(|n| key(&n.to_string(), 0.001));
    let hot = [key("\"the\"", 0.5), key("\"of\"", 0.04)];
    stats.operators[1].hot_keys = hot.into_iter().chain(rest).collect();
    stats.operators[2].hot_keys = vec![key("even", 0.5), key("odd", 0.5)];
    assert_eq!(stats.hot_keys(0.05).count(), 3);
    let shown = stats.to_string();
    assert!(shown.contains("hot key of fold: \"the\" has 50% of the records"), "{shown}");
    assert!(!shown.contains("\"of\"") && !shown.contains("even"), "{shown}");
}

#[test]
fn the_table() {
    let mut stats = pipeline([&[950], &[300, 300], &[10]]);
    stats.operators[0].records_out = Some(1_234_567);
    stats.operators[0].bytes = 5 << 20;
    stats.operators[0].batches = 12;
    stats.operators[1].keys = 1000;
    stats.memory_peak = 2048;
    stats.stages.truncate(2);
    stats.stages[1].under_way =
        Latency { count: 3, p50: Duration::from_micros(12), ..Latency::default() };
    let expected = "\
the job took 1.00 s on 2 cores; it held 2.0 KiB at most

stage 0, 1 task: busy 95%, idle 0%, back-pressured 0%, queued 0%
  0 turns, p50 0 ns, p99 0 ns, longest 0 ns
  operator      records in     records out
  iter                   -       1,234,567  sent 5.0 MiB in 12 batches

stage 1, 2 tasks: busy 30%, idle 0%, back-pressured 0%, queued 0%
  0 turns, p50 0 ns, p99 0 ns, longest 0 ns
  batches under way to it: p50 12.0 us, p99 0 ns
  operator      records in     records out
  fold               1,000           1,000  1,000 keys

stage 0 (iter) limited the job: its one task was busy 95% of the time that it could use
";
    assert_eq!(stats.to_string(), expected);
    stats.checkpoints = Some(CheckpointStats::default());
    let with = expected.replacen('\n', "\nno checkpoint yet\n", 1);
    assert_eq!(stats.to_string(), with);
}

#[test]
fn clocks_are_printed_where_times_between_hosts_were_measured() {
    let mut stats = pipeline([&[950], &[300, 300], &[10]]);
    let clock = |host: usize, nanos| ClockOffset::new(host, nanos, Duration::from_micros(31));
    stats.clocks = vec![clock(1, 1_204_000), clock(2, -500)];
    let stage = &mut stats.stages[1];
    stage.under_way = Latency { count: 1500, ..Latency::default() };
    assert!(!stats.to_string().contains("clock"), "nothing was measured between hosts");
    let stage = &mut stats.stages[1];
    stage.under_way_across_hosts = 1000;
    stage.under_way_uncertainty = Duration::from_micros(45);
    let shown = stats.to_string();
    let expected = "; 1,000 of 1,500 measured between hosts, ± 45.0 us\n";
    assert!(shown.contains(expected), "{shown}");
    let expected = "\nclock offset to host 1: +1.204 ms ± 0.031 ms\nclock offset to host 2: -0.001 ms ± 0.031 ms\n";
    assert!(shown.ends_with(expected), "{shown}");
    stats.clocks = (1..20).map(|host| clock(host, -(host as i64) * 1_000_000)).collect();
    let shown = stats.to_string();
    let listed: Vec<_> = shown.lines().filter(|line| line.starts_with("clock")).collect();
    assert!(listed[0].starts_with("clock offset to host 12: -12.000 ms"), "{shown}");
    assert_eq!((listed.len(), listed[8]), (9, "clock offsets to 11 other hosts are less"));
}

#[test]
fn json_and_back() {
    let mut stats = pipeline([&[950], &[300, 300], &[10]]);
    stats.clocks = vec![ClockOffset::new(1, i64::MIN, Duration::from_micros(31))];
    stats.stages[1].under_way_uncertainty = Duration::from_micros(45);
    let json = serde_json::to_string(&stats).unwrap();
    assert!(json.contains("\"wall\":1.0"), "{json}");
    assert_eq!(serde_json::from_str::<Stats>(&json).unwrap(), stats);
}
