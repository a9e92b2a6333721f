//! Graphs compared with typed programs and with loops over rows.

use crate::check::every;
use crate::checkpoint::{Checkpoints, Snapshot};
use crate::config::{Config, Scheduler};
use crate::dynamic::{
    Aggregate, Attached, Expr, Field, Graph, Parts, Rows, Type, Value, asc, col, desc, lit,
};
use crate::error::ErrorKind;
use crate::{Environment, JobHandle, Result, text};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;

fn sorted(rows: &Rows) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(Value::to_string).collect()).collect();
    rows.sort();
    rows
}

/// Text with words of every length, lines without one, and no line end last.
fn poem() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("poem.txt");
    let mut text = String::new();
    for line in 0..3000_usize {
        for word in 0..line % 7 {
            let length = 1 + (line * word) % 23;
            text.push_str(&"LineOfFastestFlowThalweg"[..length]);
            text.push_str(if word % 2 == 0 { ", " } else { " größer-" });
        }
        text.push_str(if line % 3 == 0 { "\r\n" } else { "\n" });
    }
    text.push_str("end");
    fs::write(&path, text).unwrap();
    (dir, path)
}

#[test]
fn words_are_counted_as_by_a_typed_program() {
    let (_dir, path) = poem();
    let graph = Graph::new().lines(&path).explode_words("line").group_by(["word"]).count();
    let graph = Graph::from_json(&graph.collect().to_json().unwrap()).unwrap();
    every(|env| {
        let words = env.lines(&path).flat_each(text::LowercaseWords).group_by_ref(|word| *word);
        let typed = words.count().collect::<BTreeMap<_, _>>();
        let attached = graph.attach(env)?;
        env.run()?;
        let typed: Vec<_> =
            typed.take()?.into_iter().map(|(word, n)| vec![word, n.to_string()]).collect();
        assert!(typed.len() > 20);
        assert_eq!(sorted(&attached.results()?.only()?), typed);
        Ok(())
    });
}

type Person = (u64, i64, String, bool, f64);

fn people(rows: &[Person]) -> Graph {
    let schema = [
        Field::new("id", Type::U64),
        Field::new("debt", Type::I64),
        Field::new("name", Type::Utf8),
        Field::new("here", Type::Bool),
        Field::new("size", Type::F64),
    ];
    let row = |(id, debt, name, here, size): &Person| {
        vec![(*id).into(), (*debt).into(), name.clone().into(), (*here).into(), (*size).into()]
    };
    Graph::new().rows(schema, rows.iter().map(row))
}

/// The rows of a graph under the deterministic scheduler with little credit; the seed also sets the cores.
fn run(graph: Graph, seed: u64) -> Result<Rows> {
    let scheduler = crate::config::Scheduler::Deterministic { seed };
    let mut config = crate::config::Config { scheduler, credit: 500, ..Default::default() };
    config.cores = (1 + seed as usize % 3).try_into().unwrap();
    graph.run(&Environment::with_config(config))?.only()
}

fn any_people() -> impl Strategy<Value = Vec<Person>> {
    // Eighths have exact sums, in any order.
    let size = (-40..40_i32).prop_map(|n| f64::from(n) / 8.0);
    proptest::collection::vec((0..5_u64, -9..9_i64, "[ab\0]{0,2}", any::<bool>(), size), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn aggregates_equal_those_of_a_loop(people_ in any_people(), seed in 0..100_u64, keys in 0..5_usize) {
        let names = [&["id"][..], &["debt"], &["name"], &["here", "name"], &[]][keys];
        let group = people(&people_).shuffle().group_by(names.iter().copied());
        let rows = run(
            group
                .aggregate([
                    Aggregate::count(),
                    Aggregate::sum(col("debt")),
                    Aggregate::min(col("name")).named("first"),
                    Aggregate::max(col("size")),
                    Aggregate::min(col("debt").neg()).named("least"),
                    Aggregate::average(col("size")),
                ])
                .collect(),
            seed,
        ).unwrap();
        let mut expected: BTreeMap<Vec<String>, Vec<&Person>> = BTreeMap::new();
        for person in &people_ {
            let key = names.iter().map(|name| match *name {
                "id" => person.0.to_string(),
                "debt" => person.1.to_string(),
                "here" => person.3.to_string(),
                _ => person.2.clone(),
            });
            expected.entry(key.collect()).or_default().push(person);
        }
        let mut expected: Vec<Vec<String>> = expected.into_iter().map(|(mut row, of)| {
            row.push(of.len().to_string());
            row.push(of.iter().map(|p| p.1).sum::<i64>().to_string());
            row.push(of.iter().map(|p| p.2.clone()).min().unwrap());
            row.push(of.iter().map(|p| p.4).fold(f64::NEG_INFINITY, f64::max).to_string());
            row.push((-of.iter().map(|p| p.1).max().unwrap()).to_string());
            row.push((of.iter().map(|p| p.4).sum::<f64>() / of.len() as f64).to_string());
            row
        }).collect();
        expected.sort();
        prop_assert_eq!(sorted(&rows), expected);
    }

    #[test]
    fn few_aggregates_equal_those_of_a_loop(people_ in any_people(), seed in 0..100_u64) {
        let rows = run(
            people(&people_)
                .group_by(["debt"])
                .aggregate([
                    Aggregate::sum(col("id")),
                    Aggregate::max(col("debt").mul(col("debt"))),
                    Aggregate::sum(col("size")).named("sizes"),
                    Aggregate::min(col("here")),
                ])
                .collect(),
            seed,
        ).unwrap();
        let mut expected: BTreeMap<i64, (u64, f64, bool)> = BTreeMap::new();
        for (id, debt, _, here, size) in &people_ {
            let sums = expected.entry(*debt).or_insert((0, 0.0, true));
            *sums = (sums.0 + id, sums.1 + size, sums.2 & here);
        }
        let mut expected: Vec<Vec<String>> = expected.into_iter().map(|(debt, (id, size, here))| {
            let square = (debt * debt).to_string();
            vec![debt.to_string(), id.to_string(), square, size.to_string(), here.to_string()]
        }).collect();
        expected.sort();
        prop_assert_eq!(sorted(&rows), expected);
    }

    #[test]
    fn orders_and_filters_equal_those_of_a_loop(people_ in any_people(), seed in 0..100_u64, n in 0..20_u64) {
        let keep = col("debt").lt(lit(5_i64)).and(col("name").contains(lit("a")).not());
        let graph = || people(&people_).shuffle().filter(keep.clone());
        let by = || [desc("name"), asc("size")];
        let rows = run(graph().sort(by()).collect(), seed).unwrap();
        let mut expected: Vec<&Person> =
            people_.iter().filter(|p| p.1 < 5 && !p.2.contains('a')).collect();
        expected.sort_by(|a, b| {
            let rest = (a.0, a.1, a.3).cmp(&(b.0, b.1, b.3));
            b.2.cmp(&a.2).then_with(|| a.4.total_cmp(&b.4)).then(rest)
        });
        let shown = |(id, debt, name, here, size): &Person| -> Vec<Value> {
            vec![(*id).into(), (*debt).into(), name.clone().into(), (*here).into(), (*size).into()]
        };
        let expected: Vec<Vec<Value>> = expected.into_iter().map(shown).collect();
        prop_assert_eq!(rows.iter().collect::<Vec<_>>(), expected.clone());
        let top = run(graph().top(n, by()).collect(), seed).unwrap();
        let first = &expected[..expected.len().min(n as usize)];
        prop_assert_eq!(top.iter().collect::<Vec<_>>(), first);
        let some = run(graph().limit(n).collect(), seed).unwrap();
        prop_assert_eq!(some.len(), first.len());
        let distinct = run(graph().group_by(["name"]).distinct().collect(), seed).unwrap();
        let mut names: Vec<Vec<String>> =
            expected.iter().map(|row| vec![row[2].to_string()]).collect();
        names.sort();
        names.dedup();
        prop_assert_eq!(sorted(&distinct), names);
    }
}

#[test]
fn exchanges_lose_and_double_nothing() {
    every(|env| {
        let numbers = || Graph::new().range(0, 20_000);
        let dealt = numbers()
            .shuffle()
            .partition(["n"])
            .forward()
            .select([("m", col("n").mul(lit(3_u64)))]);
        let dealt = dealt.group_by([""; 0]).aggregate([Aggregate::sum(col("m"))]).collect();
        let dealt = dealt.attach(env)?;
        let copied = numbers().named("all").filter(col("n").lt(lit(10_u64))).named("few");
        let copied = copied.broadcast().collect().named("copies").attach(env)?;
        env.run()?;
        let sum: u64 = (0..20_000).map(|n| n * 3).sum();
        assert_eq!(sorted(&dealt.results()?.only()?), [[sum.to_string()]]);
        let copies = copied.results()?.take("copies")?;
        assert_eq!(copies.len(), 10 * env.default_tasks());
        Ok(())
    });
}

#[test]
fn rows_and_bytes_are_counted_not_blocks() {
    let env = Environment::new();
    let graph = Graph::new().range(0, 100_000).named("numbers").shuffle().named("dealt").collect();
    let attached = graph.attach(&env).unwrap();
    let stats = env.start().unwrap().wait().unwrap();
    let dealt = stats.operators.iter().find(|operator| operator.name == "dealt").unwrap();
    let sent = stats.operators.iter().find(|operator| operator.kind == "shuffle").unwrap();
    assert_eq!((dealt.records_in, sent.records_out), (Some(100_000), Some(100_000)));
    assert_eq!(attached.results().unwrap().only().unwrap().len(), 100_000);
}

#[test]
fn texts_are_taken_apart_beside_the_other_columns() {
    let schema =
        [Field::new("a", Type::U64), Field::new("t", Type::Utf8), Field::new("b", Type::Bool)];
    let rows = [("x,y,", true), ("", false), ("z", true)];
    let rows = (1_u64..).zip(rows).map(|(a, (t, b))| vec![a.into(), t.into(), b.into()]);
    let graph = Graph::new().rows(schema, rows).explode("t", Parts::Split(','), "part").collect();
    let rows = run(graph, 0).unwrap();
    assert_eq!(rows.names(), ["a", "part", "b"]);
    let expected = [
        ["1", "", "true"],
        ["1", "x", "true"],
        ["1", "y", "true"],
        ["2", "", "false"],
        ["3", "z", "true"],
    ];
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn floats_that_are_equal_are_one_key() {
    let schema = [Field::new("f", Type::F64)];
    let floats = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5].map(|f| vec![Value::F64(f)]);
    let graph = Graph::new().rows(schema, floats).shuffle().group_by(["f"]).count().collect();
    assert_eq!(sorted(&run(graph, 3).unwrap()), [["0", "2"], ["1.5", "1"], ["NaN", "2"]]);
}

#[test]
fn a_failure_names_its_node() {
    let numbers = || Graph::new().range(0, 100_000);
    let fails = |graph: Graph| {
        let error = graph.run(&Environment::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        let place = format!("({}:", file!());
        assert!(error.operator().unwrap().contains(&place), "{error}");
        error.to_string()
    };
    let ten = || lit(10_u64);
    let error = fails(
        numbers().select([("x", lit(5_u64).div(col("n").rem(ten())))]).named("share").collect(),
    );
    assert!(
        error.starts_with("share (") && error.ends_with("division of 5 by zero, in `div`"),
        "{error}"
    );
    let error = fails(numbers().filter(col("n").sub(lit(7_u64)).lt(ten())).collect());
    assert!(error.starts_with("filter-1 ("), "{error}");
    assert!(error.ends_with("`sub` of 0 and 7 does not fit into u64"), "{error}");
    let sum = Aggregate::sum(col("n").mul(lit(u64::MAX / 100_000))).named("total");
    let error = fails(numbers().group_by([""; 0]).aggregate([sum]).named("sums").collect());
    assert!(error.starts_with("sums (") && error.contains(": the sum `total` is "), "{error}");
    assert!(error.ends_with("which is no u64"), "{error}");
    let sum = || Aggregate::sum(col("n").mul(lit(u64::MAX / 3))).named("total");
    let odd = || ("odd", col("n").rem(lit(2_u64)));
    let pairs = || Graph::new().range(0, 4).select([odd(), ("n", col("n"))]);
    let error = fails(pairs().group_by(["odd"]).aggregate([sum()]).named("sums").collect());
    assert!(error.contains(": the sum `total` of key 1 is "), "{error}");
    let texts = pairs().select([("a", col("odd").to_utf8()), ("b", col("odd")), ("n", col("n"))]);
    let error = fails(texts.group_by(["a", "b"]).aggregate([sum()]).named("sums").collect());
    assert!(error.contains(": the sum `total` of key 1, 1 is "), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.txt");
    fs::write(&bad, b"fine\nna\xefve\n").unwrap();
    let error = fails(Graph::new().lines(&bad).named("text").collect());
    assert!(error.starts_with("text (") && error.contains("at byte 7"), "{error}");
}

#[test]
fn files_are_written_with_names_and_without() {
    let dir = tempfile::tempdir().unwrap();
    let (json, csv) = (dir.path().join("rows.jsonl"), dir.path().join("rows.csv"));
    let rows = || {
        let rows = [vec!["a,b\"".into(), 1_i64.into()], vec!["c".into(), Value::I64(-2)]];
        Graph::new().rows([Field::new("s", Type::Utf8), Field::new("n", Type::I64)], rows)
    };
    rows().write_json_lines(&json).run(&Environment::new()).unwrap();
    rows().write_csv(&csv).run(&Environment::new()).unwrap();
    let lines = "{\"s\":\"a,b\\\"\",\"n\":1}\n{\"s\":\"c\",\"n\":-2}\n";
    assert_eq!(fs::read_to_string(&json).unwrap(), lines);
    assert_eq!(fs::read_to_string(&csv).unwrap(), "\"a,b\"\"\",1\nc,-2\n");
}

#[test]
fn tables_and_sorts_go_to_disk_within_the_budget() {
    let config = crate::config::Config { memory: 3 << 20, ..Default::default() };
    let env = Environment::with_config(config);
    let graph = Graph::new()
        .range(0, 300_000)
        .select([("k", col("n").to_utf8()), ("n", col("n"))])
        .group_by(["k"])
        .aggregate([Aggregate::max(col("n"))])
        .sort([desc("max")])
        .limit(300_000)
        .collect();
    let rows = graph.run(&env).unwrap().only().unwrap();
    assert_eq!(rows.len(), 300_000);
    let first = rows.iter().next().unwrap();
    assert_eq!(first, [Value::from("299999"), Value::U64(299_999)]);
}

/// Begins the job of a graph from a snapshot; it runs one batch at a time, in an order drawn from a seed.
fn begin(
    graph: &Graph,
    (cores, seed): (usize, u64),
    saved: Option<Snapshot>,
) -> Result<(JobHandle, Attached)> {
    let scheduler = Scheduler::Deterministic { seed };
    let mut config =
        Config { scheduler, turn: NonZeroUsize::MIN, credit: 500, ..Default::default() };
    config.cores = cores.try_into().unwrap();
    let env = Environment::with_config(config);
    let attached = graph.attach(&env)?;
    assert!(env.plan().without_checkpoints().is_empty());
    Ok((env.start_with(Some(&Checkpoints::new(saved, None)))?, attached))
}

/// The snapshot of such a job after this many steps, if the job has not ended.
fn saved_after(graph: &Graph, (cores, seed): (usize, u64), steps: usize) -> Option<Snapshot> {
    let (job, _) = begin(graph, (cores, seed), None).unwrap();
    job.drive_for(steps);
    let taken = job.snapshot().unwrap();
    job.cancel();
    // The job may have ended before the barrier passed all tasks.
    let _ = job.wait();
    taken.map(|taken| taken.snapshot)
}

#[test]
fn graphs_go_on_where_they_were_whatever_their_tasks() {
    let keys = col("n").rem(lit(50_u64)).to_utf8();
    let schema = [Field::new("name", Type::Utf8), Field::new("size", Type::F64)];
    let row =
        |n: u32| -> Vec<Value> { vec![n.to_string().into(), (f64::from(n % 77) / 8.0).into()] };
    let graph = Graph::new()
        .range(0, 20_000)
        .select([("key", keys), ("n", col("n"))])
        .group_by(["key"])
        .aggregate([Aggregate::count(), Aggregate::sum(col("n")), Aggregate::min(col("key"))])
        .sort([desc("sum")])
        .collect()
        .named("sums")
        .range(0, 9000)
        .shuffle()
        .limit(700)
        .collect()
        .named("few")
        .rows(schema, (0..9000).map(row))
        .top(5, [desc("size"), asc("name")])
        .collect()
        .named("greatest");
    let results = |attached: Attached| {
        let mut results = attached.results().unwrap();
        let few = results.take("few").unwrap();
        let whole = ["sums", "greatest"].map(|name| results.take(name).unwrap());
        (few.len(), whole.map(|rows| rows.iter().collect::<Vec<_>>()))
    };
    let (job, attached) = begin(&graph, (2, 0), None).unwrap();
    job.wait().unwrap();
    let expected = results(attached);
    assert_eq!((expected.0, expected.1[0].len(), expected.1[1].len()), (700, 50, 5));
    let mut interrupted = 0;
    for seed in 0..12 {
        let cores = [1 + seed as usize % 3, 1 + seed as usize / 3 % 3];
        let steps = [5, 20, 80, 200][seed as usize % 4];
        let Some(saved) = saved_after(&graph, (cores[0], seed), steps) else { continue };
        interrupted += 1;
        let (job, attached) = begin(&graph, (cores[1], seed), Some(saved)).unwrap();
        job.wait().unwrap();
        assert_eq!(results(attached), expected, "seed {seed}, {cores:?} cores");
    }
    assert!(interrupted > 3, "{interrupted} of 12 are interrupted");
}

#[test]
fn a_graph_with_other_columns_does_not_go_on() {
    let sums = |of: Expr, by: &str| {
        let rows = Graph::new().range(0, 20_000).select([("a", col("n")), ("b", of)]);
        let sums = rows.group_by(["a"]).aggregate([Aggregate::sum(col("b"))]).named("sums");
        sums.sort([asc(by)]).named("order").collect()
    };
    let saved = saved_after(&sums(col("n"), "a"), (2, 1), 8).unwrap();
    let refusal = |graph: &Graph| {
        let error = begin(graph, (2, 1), Some(saved.clone())).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Plan);
        error.to_string()
    };
    let other = refusal(&sums(col("n").to_i64(), "a"));
    let said =
        "node `sums` has (sum of u64) for each (a: u64), and not (sum of i64) for each (a: u64)";
    assert!(other.starts_with("range-0/blocks (") && other.contains(said), "{other}");
    let other = refusal(&sums(col("n"), "sum"));
    assert!(
        other.contains("node `order` has the rows (a: u64, sum: u64) by (a), and not"),
        "{other}"
    );
    // An expression may be another one.
    let (job, _) = begin(&sums(col("n").add(lit(1_u64)), "a"), (3, 1), Some(saved)).unwrap();
    job.wait().unwrap();
}
