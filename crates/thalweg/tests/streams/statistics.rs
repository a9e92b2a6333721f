//! The statistics of a job against counts taken by its own closures: on one host, since a closure sees only records of its host.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg::check::every_on_one_host;
use thalweg::metrics::{OperatorStats, Stats};
use thalweg::operators::calls::Calls;
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{EventTimeWindow, SessionWindow};
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Result, Stream};

/// Counters in a job, each with the name of the `inspect` that counts.
#[derive(Default)]
struct Counters(Vec<(String, Arc<AtomicU64>)>);

impl Counters {
    /// Counts what comes by, between operators that do not count by themselves.
    fn add<C: Chain>(
        &mut self,
        name: &str,
        stream: Stream<C>,
    ) -> Stream<impl Chain<Item = C::Item, Time = C::Time> + use<C>> {
        let counter = Arc::new(AtomicU64::new(0));
        self.0.push((name.to_owned(), Arc::clone(&counter)));
        let before = stream.inspect(|_| ()).name(format!("before {name}"));
        let counts =
            before.inspect(move |_| _ = counter.fetch_add(1, Ordering::Relaxed)).name(name);
        counts.inspect(|_| ()).name(format!("after {name}"))
    }

    /// What has come by there.
    fn of(&self, name: &str) -> u64 {
        let counter = self.0.iter().find(|(of, _)| of == name);
        counter.map(|(_, counter)| counter.load(Ordering::Relaxed)).unwrap()
    }

    /// Runs the job; every counter must have seen what the statistics say of its operator and of its neighbours.
    fn run(&self, env: &Environment) -> Result<Stats> {
        let stats = env.start()?.wait()?;
        for (name, _) in &self.0 {
            let counted = Some(self.of(name));
            for name in [name.clone(), format!("before {name}"), format!("after {name}")] {
                let op = operator(&stats, |op| op.name == name);
                assert_eq!((op.records_in, op.records_out), (counted, counted), "{name}\n{stats}");
            }
        }
        Ok(stats)
    }
}

fn operator(stats: &Stats, is: impl Fn(&OperatorStats) -> bool) -> &OperatorStats {
    stats.operators.iter().find(|op| is(op)).unwrap()
}

/// An operator's records: in, out, and to side outputs.
fn passed(stats: &Stats, kind: &str) -> (Option<u64>, Option<u64>, u64) {
    let op = operator(stats, |op| op.kind == kind);
    (op.records_in, op.records_out, op.side_output_records)
}

/// Takes a stream to its end.
fn end<C: Chain>(stream: Stream<C>) {
    stream.for_each_parallel(|_| ());
}

/// Has an operator make two streams of one, and looks at the counts on all three.
macro_rules! both {
    ($env:ident, $kind:literal, $from:expr, |$input:ident| $op:expr) => {{
        let mut counters = Counters::default();
        let $input = counters.add("input", $from);
        let (first, second) = $op;
        end(counters.add("first", first).filter(|_| true));
        end(counters.add("second", second));
        let stats = counters.run($env)?;
        let [input, first, second] = ["input", "first", "second"].map(|name| counters.of(name));
        assert_eq!(passed(&stats, $kind), (Some(input), Some(first), second), "{stats}");
        (input, first, second)
    }};
}

/// Passes even numbers on, and odd ones aside.
struct Odds;

impl Process<u64, u64> for Odds {
    type State = ();
    type Out = u64;
    type Side = u64;

    fn start(&self) {}

    fn on_record(
        &self,
        _: &u64,
        (): &mut (),
        n: u64,
        _: Timestamp,
        cx: &mut ProcessContext<'_, u64, u64>,
    ) {
        if n.is_multiple_of(3) { cx.emit_side(n) } else { cx.emit(n) }
    }

    fn on_timer(&self, _: &u64, (): &mut (), _: Timer, _: &mut ProcessContext<'_, u64, u64>) {}
}

#[test]
fn second_streams_have_counts_of_their_own() {
    every_on_one_host(|env| {
        let passed = both!(env, "side_output", env.range(0..1000), |n| n.side_output(|n, side| {
            (0..n % 3).for_each(|_| side.push(n));
            (n % 10 == 9).then_some(n)
        }));
        assert_eq!(passed, (1000, 100, 999));
        let texts = env.range(0..1000).flat_map_str(|n, out| out.push(&format!("{n} and more")));
        let passed = both!(env, "side_output_each", texts, |texts| texts
            .side_output_each(thalweg::text::Words));
        assert_eq!(passed, (1000, 1000, 2000));
        Ok(())
    });
}

#[test]
fn calls_that_fail_are_counted_aside() {
    every_on_one_host(|env| {
        let odd = |n: u64| if n.is_multiple_of(4) { Err("no") } else { Ok(n) };
        let passed = both!(env, "try_map_async", env.range(0..400), |n| {
            n.try_map_async_with_side_output(Calls::in_flight(9), move |n| async move { odd(n) })
        });
        assert_eq!(passed, (400, 300, 100));
        let passed = both!(env, "try_map_blocking", env.range(0..40), |n| {
            n.try_map_blocking_with_side_output(Calls::in_flight(2), odd)
        });
        assert_eq!(passed, (40, 30, 10));
        Ok(())
    });
}

#[test]
fn lines_that_are_no_records_are_counted_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.csv");
    let lines = (0..500).map(|n| if n % 5 == 0 { "x\n".to_owned() } else { format!("{n}\n") });
    std::fs::write(&path, format!("n\n{}", lines.collect::<String>())).unwrap();
    every_on_one_host(|env| {
        let mut counters = Counters::default();
        let (good, bad) = env.csv::<(u64,)>(&path).dead_letters();
        end(counters.add("good", good));
        end(counters.add("bad", bad));
        let stats = counters.run(env)?;
        assert_eq!((counters.of("good"), counters.of("bad")), (400, 100));
        let op = operator(&stats, |op| op.kind == "dead_letters" && op.side_output_records > 0);
        assert_eq!((op.records_out, op.side_output_records), (Some(400), 100), "{stats}");
        Ok(())
    });
}

#[test]
fn late_records_are_counted_aside() {
    every_on_one_host(|env| {
        for sessions in [false, true] {
            let mut counters = Counters::default();
            let numbers = env.iter((0..2000i64).map(|n| if n % 10 == 9 { n - 700 } else { n }));
            let at = |n: &i64| Timestamp::from_millis(*n);
            let timed = numbers.assign_timestamps(at, Watermarks::monotonous());
            let timed = counters.add("input", timed).group_by(|n| n % 2);
            let late = if sessions {
                let window = timed.window(SessionWindow::new(Duration::from_millis(50)));
                let (windows, late) = window.late_output();
                end(counters.add("results", windows.count().unkey()));
                late.map(|(_, n)| n).boxed()
            } else {
                let window = timed.window(EventTimeWindow::tumbling(Duration::from_millis(50)));
                let (windows, late) = window.late_output();
                end(counters.add("results", windows.count().unkey()));
                late.map(|(_, n)| n).boxed()
            };
            end(counters.add("late", late));
            let stats = counters.run(env)?;
            let late = counters.of("late");
            let op = operator(&stats, |op| op.side_output_records > 0 || late == 0);
            assert_eq!(op.side_output_records, late, "{stats}");
            if !sessions && late > 0 {
                assert_eq!(op.records_out, op.records_in.map(|input| input - late), "{stats}");
            }
        }
        Ok(())
    });
}

#[test]
fn side_outputs_of_process_are_counted_apart() {
    every_on_one_host(|env| {
        let at = |n: &u64| Timestamp::from_millis(*n as i64);
        let timed = env.range(0..900).assign_timestamps(at, Watermarks::monotonous());
        let mut counters = Counters::default();
        let (first, second) = timed.group_by(|n| n % 7).process_with_side_output(Odds);
        end(counters.add("first", first.unkey()));
        end(counters.add("second", second));
        let stats = counters.run(env)?;
        assert_eq!(passed(&stats, "process"), (Some(900), Some(600), 300), "{stats}");
        assert_eq!((counters.of("first"), counters.of("second")), (600, 300));
        Ok(())
    });
}

/// Operators that end a stage in several edges: what they hand on is what they send on all of them.
#[test]
fn branches_have_the_counts_of_their_edges() {
    every_on_one_host(|env| {
        let mut counters = Counters::default();
        let input = counters.add("input", env.range(0..600));
        let ([evens, thirds], rest) = input.route().to(|n| n % 2 == 0).to(|n| n % 3 == 0).split();
        let [a, b] = counters.add("rest", rest).split();
        end(counters.add("evens", evens));
        end(counters.add("thirds", thirds));
        end(counters.add("a", a));
        end(counters.add("b", b.broadcast().try_map(Ok::<_, Infallible>)));
        let stats = counters.run(env)?;
        let names = ["evens", "thirds", "rest", "a"];
        assert_eq!(names.map(|name| counters.of(name)), [300, 100, 200, 200]);
        assert_eq!(passed(&stats, "route"), (Some(600), Some(600), 0));
        assert_eq!(passed(&stats, "split"), (Some(200), Some(400), 0));
        let route = operator(&stats, |op| op.kind == "route").id;
        let edges = stats.edges.iter().filter(|edge| edge.operator == route);
        let edges: Vec<_> = edges.map(|edge| (edge.sent, edge.received, edge.closed)).collect();
        assert_eq!(edges, [(300, 300, false), (100, 100, false), (200, 200, false)]);
        Ok(())
    });
}

/// A loop gives its body the same records in each round, and has an outcome and what is left beside.
#[test]
fn loops_count_what_their_bodies_get() {
    every_on_one_host(|env| {
        let mut counters = Counters::default();
        let input = counters.add("input", env.range(0..100));
        let outcome = input
            .replay(4, 0, |n, _| {
                let body = counters.add("body", n.map(|n| *n));
                counters.add("behind", body.shuffle().filter(|n| n % 2 == 0))
            })
            .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
            .all_rounds(|sum, part| *sum += part);
        end(counters.add("outcome", outcome));
        let (_, left) = env
            .range(0..50)
            .iterate(3, (), |n, _| counters.add("fed", n.map(|n| n + 1)))
            .all_rounds();
        end(counters.add("left", left));
        let stats = counters.run(env)?;
        let names = ["input", "body", "behind", "outcome", "fed", "left"];
        assert_eq!(names.map(|name| counters.of(name)), [100, 400, 200, 1, 150, 50]);
        assert_eq!(passed(&stats, "replay"), (Some(100), Some(400), 1), "{stats}");
        assert_eq!(passed(&stats, "iterate"), (Some(50), Some(150), 51), "{stats}");
        Ok(())
    });
}
