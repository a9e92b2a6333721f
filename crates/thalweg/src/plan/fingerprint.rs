//! Fingerprints: whether two processes describe the same job.

use super::{Detail, Plan, Value};
use crate::config::BatchMode;
use crate::data::{Data, hash_bytes};
use crate::runtime::DescribedPart;
use serde::Serialize;
use std::fmt;

/// The details that do not count: two that bound what an operator uses and cannot change a result, and one that names a
/// place in the program.
pub(super) const IGNORED: [&str; 3] = ["capacity", "in_flight", "filled_by"];

/// A value that identifies a job: equal for two plans whose tasks understand each other's messages and do the same with
/// them. See [`Plan::fingerprint`].
///
/// It detects mistakes (another version of the program, other arguments), not forgery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub struct Fingerprint(u128);

/// As 32 hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Fingerprint {
    pub(crate) fn value(self) -> u128 {
        self.0
    }
}

impl Plan {
    /// The fingerprint of the job, for hosts to compare before they exchange records.
    ///
    /// It depends on all that the plan says, except for
    ///
    /// - the places of operators in the program, so that it outlives an edit that only moves lines,
    /// - batch modes, the capacity of channels and memoised maps, and the number of calls in flight, which do not
    ///   change results and may differ from host to host.
    ///
    /// So it depends on kinds, names, methods and details of operators, on what is connected to what and how, on the
    /// numbers of tasks, on the schemas of records, keys and states, and on [`version`](Self::version),
    /// [`hash_version`](Self::hash_version) and [`key_groups`](Self::key_groups). What closures do and hold is not in
    /// a plan.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let fingerprint = |limit| {
    ///     let env = Environment::new();
    ///     let _ = env.range(0..9).limit(limit).collect::<Vec<_>>();
    ///     env.plan().fingerprint()
    /// };
    /// assert_eq!(fingerprint(3), fingerprint(3));
    /// assert_ne!(fingerprint(3), fingerprint(4));
    /// assert_eq!(fingerprint(3).to_string().len(), 32);
    /// ```
    pub fn fingerprint(&self) -> Fingerprint {
        let plan = self.compared();
        // Whatever is added to plans counts. Fields are written in the order of their declaration.
        let mut bytes = plan.to_json().into_bytes();
        let low = hash_bytes(&bytes);
        // A byte more changes the words that are hashed, all of them.
        bytes.insert(0, 0);
        let high = hash_bytes(&bytes);
        Fingerprint(u128::from(high) << 64 | u128::from(low))
    }

    /// The plan without what does not count.
    fn compared(&self) -> Self {
        let mut plan = self.clone();
        for operator in &mut plan.operators {
            operator.place.clear();
            operator.details.retain(|detail| !IGNORED.contains(&&*detail.name));
        }
        for edge in &mut plan.edges {
            edge.batch = BatchMode::Single;
        }
        plan
    }

    /// What counts, part by part, for two hosts to find out in what their jobs differ.
    pub(crate) fn described_parts(&self) -> Vec<DescribedPart> {
        let plan = self.compared();
        let operators = plan.operators.iter().zip(&self.operators);
        let operators = operators.map(|(operator, labelled)| {
            let mut fields = fields(operator);
            fields.retain(|(name, _)| name != "details");
            let detail = |detail: &Detail| (detail.name.clone(), shown(&detail.value));
            fields.extend(operator.details.iter().map(detail));
            (format!("operator {}, {}", operator.id, labelled.label()), fields)
        });
        let stages = plan.stages.iter().map(|stage| (format!("stage {}", stage.id), fields(stage)));
        let edges = plan.edges.iter().enumerate();
        let edges = edges.map(|(id, edge)| (format!("edge {id}"), fields(edge)));
        let ties = plan.ties.iter().map(|tie| (format!("tie {}", tie.id), fields(tie)));
        let versions = [
            ("version", plan.version),
            ("hash_version", plan.hash_version),
            ("key_groups", plan.key_groups),
        ];
        let versions = versions.map(|(name, version)| (name.to_owned(), version.to_string()));
        let versions = ("the plan".to_owned(), versions.to_vec());
        operators.chain(stages).chain(edges).chain(ties).chain([versions]).collect()
    }
}

/// The fields of a part of a plan.
fn fields(part: &impl Serialize) -> Vec<(String, String)> {
    // Every value in a plan can be represented in JSON, and every part of one is an object.
    match serde_json::to_value(part) {
        Ok(serde_json::Value::Object(fields)) => {
            fields.into_iter().map(|(name, value)| (name, value.to_string())).collect()
        }
        _ => Vec::new(),
    }
}

/// The value of a detail: as in an explained plan, but texts are in quotes, and lists in brackets.
fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{text:?}"),
        Value::List(values) => {
            format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::operators::time::{Disorder, Watermarks};
    use crate::operators::window::{CountWindow, EventTimeWindow, SessionWindow};
    use crate::plan::explain::tests::word_count;
    use crate::plan::{Details, Placement, Scope, Strategy, Tie, TieKind};
    use crate::time::Timestamp;
    use crate::{Environment, data::Schema};
    use std::collections::HashMap;
    use std::time::Duration;

    /// Hosts and checkpoints compare fingerprints of several builds. A change of this value breaks that: it is due to
    /// a change of the hash, of the format of plans, or of this plan.
    #[test]
    fn the_fingerprint_of_a_plan_is_the_same_in_every_process() {
        let expected = "a2e6f0f9ef151e48d637df040447f90b";
        assert_eq!(word_count().fingerprint().to_string(), expected);
    }

    fn plan_on(cores: usize, job: fn(&Environment)) -> Plan {
        let config = Config { cores: cores.try_into().unwrap(), ..Config::default() };
        let env = Environment::with_config(config);
        job(&env);
        env.plan()
    }

    fn plan(job: fn(&Environment)) -> Plan {
        plan_on(2, job)
    }

    #[test]
    fn the_same_program_at_other_lines_is_the_same_job() {
        // The plan of a job that reads a cache says where the cache is filled.
        let here = plan(|env| {
            let numbers = env.range(0..9).cache();
            numbers.stream(env).group_by(|n| n % 3).count().unkey().for_each(drop);
        });
        let there = plan(|env| {
            let numbers = env.range(0..9).cache();
            numbers.stream(env).group_by(|n| n % 3).count().unkey().for_each(drop);
        });
        assert_ne!(here, there);
        assert_eq!(here.fingerprint(), there.fingerprint());
        assert_eq!(Plan::from_json(&here.to_json()).unwrap().fingerprint(), here.fingerprint());
    }

    #[test]
    fn settings_that_change_no_result_do_not_count() {
        let pairs: [[fn(&Environment); 2]; 3] = [
            [
                |env| env.range(0..9).shuffle().for_each(drop),
                |env| env.range(0..9).batch_mode(BatchMode::Single).shuffle().for_each(drop),
            ],
            [
                |env| env.channel::<u64>(1).1.for_each(drop),
                |env| env.channel::<u64>(2).1.for_each(drop),
            ],
            [
                |env| env.range(0..9).map_memo(1, |n| n).for_each(drop),
                |env| env.range(0..9).map_memo(2, |n| n).for_each(drop),
            ],
        ];
        for [one, other] in pairs {
            assert_eq!(plan(one).fingerprint(), plan(other).fingerprint(), "{}", plan(one));
        }
    }

    #[test]
    fn every_other_change_of_a_program_is_another_job() {
        fn timed(
            env: &Environment,
        ) -> crate::Stream<impl crate::Chain<Item = i64, Time = Timestamp>> {
            env.iter(0..9).assign_timestamps(|n| Timestamp::from_secs(*n), Watermarks::monotonous())
        }
        fn with_watermarks(env: &Environment, watermarks: Watermarks<Disorder>) {
            env.iter(0..9)
                .assign_timestamps(|n| Timestamp::from_secs(*n), watermarks)
                .for_each(drop);
        }
        const SECOND: Duration = Duration::from_secs(1);
        let jobs: &[fn(&Environment)] = &[
            |env| env.range(0..9).for_each(drop),
            |env| env.range(0..8).for_each(drop),
            |env| env.range(1..9).for_each(drop),
            |env| env.iter(0..9u64).for_each(drop),
            // Kind, method, name and order of operators.
            |env| env.range(0..9).map(|n| n).for_each(drop),
            |env| env.range(0..9).filter(|_| true).for_each(drop),
            |env| env.range(0..9).map(|n| n).name("n").for_each(drop),
            |env| env.range(0..9).map(|n| n).name("m").for_each(drop),
            |env| env.range(0..9).map(|n| n).filter(|_| true).for_each(drop),
            |env| env.range(0..9).filter(|_| true).map(|n| n).for_each(drop),
            |env| _ = env.range(0..9).min(|n| *n).collect_one(),
            |env| _ = env.range(0..9).max(|n| *n).collect_one(),
            // Details.
            |env| env.range(0..9).limit(3).for_each(drop),
            |env| env.range(0..9).limit(4).for_each(drop),
            |env| env.generate(1.5, Some).for_each(drop),
            |env| env.generate(2.5, Some).for_each(drop),
            |env| env.lines("a.txt").for_each(|_| ()),
            |env| env.lines("b.txt").for_each(|_| ()),
            // Exchanges, tasks and types.
            |env| env.range(0..9).shuffle().for_each_parallel(drop),
            |env| env.range(0..9).random(1).for_each_parallel(drop),
            |env| env.range(0..9).random(2).for_each_parallel(drop),
            |env| env.range(0..9).broadcast().for_each_parallel(drop),
            |env| env.range(0..9).parallelism(3).for_each_parallel(drop),
            |env| env.range(0..9).parallelism(4).for_each_parallel(drop),
            |env| env.range(0..9).map(|n| n as u32).shuffle().for_each_parallel(drop),
            |env| env.range(0..9).map(|n| (n, n)).shuffle().for_each_parallel(drop),
            // Keys and states.
            |env| env.range(0..9).group_by(|n| *n).count().unkey().for_each(drop),
            |env| env.range(0..9).group_by(|n| *n as u8).count().unkey().for_each(drop),
            |env| env.range(0..9).group_by(|n| *n).sum(|n| *n).unkey().for_each(drop),
            |env| env.range(0..9).group_by(|n| *n).sum(|n| *n as u32).unkey().for_each(drop),
            |env| env.range(0..9).unique().for_each(drop),
            |env| env.range(0..9).unique().name("seen").for_each(drop),
            // Event time.
            |env| with_watermarks(env, Watermarks::bounded_disorder(SECOND)),
            |env| with_watermarks(env, Watermarks::bounded_disorder(2 * SECOND)),
            |env| with_watermarks(env, Watermarks::monotonous().at_most_every(SECOND)),
            |env| with_watermarks(env, Watermarks::monotonous().idle_after(SECOND)),
            |env| with_watermarks(env, Watermarks::monotonous().aligned(SECOND)),
            |env| with_watermarks(env, Watermarks::monotonous().aligned(2 * SECOND)),
            // Windows.
            |env| timed(env).shuffle().for_each_parallel(drop),
            |env| timed(env).window_all(EventTimeWindow::tumbling(SECOND)).count().for_each(drop),
            |env| {
                timed(env).window_all(EventTimeWindow::tumbling(2 * SECOND)).count().for_each(drop)
            },
            |env| {
                let window = EventTimeWindow::tumbling(2 * SECOND).offset(SECOND);
                timed(env).window_all(window).count().for_each(drop);
            },
            |env| {
                let window = EventTimeWindow::sliding(2 * SECOND, SECOND);
                timed(env).window_all(window).count().for_each(drop);
            },
            |env| timed(env).window_all(SessionWindow::new(SECOND)).count().for_each(drop),
            |env| timed(env).window_all(CountWindow::tumbling(3)).count().for_each(drop),
            |env| {
                timed(env)
                    .window_all(CountWindow::tumbling(3).keep_partial())
                    .count()
                    .for_each(drop);
            },
        ];
        let mut seen = HashMap::new();
        for (at, &job) in jobs.iter().enumerate() {
            let plan = plan(job);
            if let Some(other) = seen.insert(plan.fingerprint(), at) {
                panic!("jobs {other} and {at} have one fingerprint:\n{plan}");
            }
        }
        let on = |cores| plan_on(cores, jobs[0]).fingerprint();
        assert_ne!(on(2), on(3));
    }

    fn tie(kind: TieKind, operators: &[usize]) -> Tie {
        Tie { id: 0, kind, operators: operators.to_vec() }
    }

    #[test]
    fn details_are_described_one_by_one() {
        let parts = plan(|env| env.lines("a.txt").for_each(|_| ())).described_parts();
        let (name, fields) = &parts[0];
        assert!(name.starts_with("operator 0, lines ("), "{name}");
        assert!(fields.contains(&("paths".into(), "[\"a.txt\"]".into())), "{fields:?}");
    }

    /// Each edit alone changes the fingerprint, whether a program could make it or not.
    #[test]
    fn every_field_of_a_plan_counts() {
        let edits: &[fn(&mut Plan)] = &[
            |plan| plan.version += 1,
            |plan| plan.hash_version += 1,
            |plan| plan.key_groups *= 2,
            |plan| plan.operators[1].kind.push('s'),
            |plan| plan.operators[1].name.push('s'),
            |plan| plan.operators[1].method.push('s'),
            |plan| plan.operators[1].details = Details::of("volatile", true),
            |plan| plan.operators[1].details = Details::of("volatile", false),
            |plan| plan.operators[1].loops += 1,
            |plan| plan.operators[1].state = plan.operators[4].state.clone(),
            |plan| plan.operators[4].state = None,
            |plan| plan.operators[4].state.as_mut().unwrap().id.push('s'),
            |plan| plan.operators[4].state.as_mut().unwrap().scope = Scope::Task,
            |plan| plan.operators[4].state.as_mut().unwrap().schema = Schema::I64,
            |plan| _ = plan.operators.pop(),
            |plan| plan.stages[0].tasks += 1,
            |plan| plan.stages[0].bounded = false,
            |plan| plan.stages[0].loops += 1,
            |plan| plan.stages[0].placement = Placement::EachHost,
            |plan| plan.ties = vec![tie(TieKind::Splits, &[0])],
            |plan| plan.ties = vec![tie(TieKind::Program, &[0])],
            |plan| plan.ties = vec![tie(TieKind::Splits, &[0, 1])],
            |plan| _ = plan.stages[1].operators.pop(),
            |plan| plan.edges[0].to = 0,
            |plan| plan.edges[0].strategy = Strategy::Shuffle,
            |plan| plan.edges[0].schema = Schema::Str,
            |plan| plan.edges[0].key = Some(Schema::Str),
            |plan| plan.edges[0].timed = true,
            |plan| _ = plan.edges.pop(),
        ];
        let mut seen = HashMap::from([(word_count().fingerprint(), usize::MAX)]);
        for (at, edit) in edits.iter().enumerate() {
            let mut plan = word_count();
            edit(&mut plan);
            let other = seen.insert(plan.fingerprint(), at);
            assert_eq!(other, None, "edit {at}");
            assert_ne!(plan.described_parts(), word_count().described_parts(), "edit {at}");
        }
    }
}
