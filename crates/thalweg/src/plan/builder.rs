//! The builder of a plan, filled while a program describes its job.

use super::counts::{Parallelism, Rules, settle};
use super::launch::TaskContext;
use super::{
    Details, Edge, Operator, Placement, Plan, Scope, Stage, State, Strategy, Tie, TieKind,
    TimeOrigins, schema_of,
};
use crate::config::{BatchMode, TaskCounts};
use crate::data::{Portable, Schema};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{LaneSettings, TasksOf};
use crate::flow::Task;
use crate::net::{Hosts, Links};
use std::collections::{BTreeMap, HashMap};
use std::panic::Location;

/// Creates one task of a stage.
pub(crate) type Factory = Box<dyn Fn(&TaskContext<'_>) -> Result<Box<dyn Task>> + Send>;
/// Creates the lanes of an edge between these senders and receivers.
pub(crate) type Connector = Box<dyn FnOnce(LaneSettings, TasksOf<'_>, TasksOf<'_>, &Links) + Send>;

/// Called at the launch on every host, before tasks are made, also on one without tasks of the tie's operators.
pub(crate) type Opener = Box<dyn FnOnce(&Links) + Send>;

/// A plan under construction.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) plan: Plan,
    /// Indexed by stage.
    pub(crate) factories: Vec<Option<Factory>>,
    /// Stages whose output may stay unconsumed, each with the factory for that case.
    pub(crate) unconsumed: Vec<(usize, Factory)>,
    /// Indexed by edge.
    pub(crate) connectors: Vec<Connector>,
    /// The batch modes of the exchanges that end stages, where the program has set one.
    pub(crate) batch_modes: HashMap<usize, BatchMode>,
    /// The names of the sinks in which stages, or those behind them, are to end, where the program has set one.
    pub(crate) sink_names: BTreeMap<usize, String>,
    /// Open the channels of ties that concern hosts without tasks of them.
    pub(crate) openers: Vec<Opener>,
    /// The heads of the loops that have no tail yet.
    pub(crate) open_loops: Vec<usize>,
    /// Where event time begins and ends.
    pub(crate) time_origins: TimeOrigins,
    /// Whether records are blocks of rows.
    pub(crate) blocks: bool,
    /// The mistakes in the job, in the order found.
    pub(crate) errors: Vec<Error>,
    /// Which numbers of tasks may be set.
    rules: Rules,
}

/// How an exchange distributes records: a strategy and, if it is keyed, the schema of the key.
pub(crate) struct Distribution {
    pub(crate) strategy: Strategy,
    pub(crate) key: Option<Schema>,
}

impl Distribution {
    /// Each record goes to the task that owns its key, which is of this type.
    pub(crate) fn by_key<K: Portable + ?Sized>() -> Self {
        Self::by(schema_of::<K>())
    }

    /// Each record goes to the task that owns its key, which has this schema.
    pub(crate) fn by(key: Schema) -> Self {
        Self { strategy: Strategy::Keyed, key: Some(key) }
    }
}

/// A strategy without a key.
impl From<Strategy> for Distribution {
    fn from(strategy: Strategy) -> Self {
        Self { strategy, key: None }
    }
}

/// The kind of an operator, and the place in the program where it is added.
#[derive(Clone, Copy)]
pub struct Origin {
    pub(crate) kind: &'static str,
    /// The method that the program called. Operators that one method adds have it in common, each with a kind of its
    /// own.
    pub(crate) method: &'static str,
    pub(crate) place: &'static Location<'static>,
}

impl Origin {
    #[track_caller]
    pub(crate) fn here(kind: &'static str) -> Self {
        Self { kind, method: kind, place: Location::caller() }
    }

    /// The method and its place, for messages.
    pub(crate) fn label(&self) -> String {
        format!("{} ({}:{})", self.method, self.place.file(), self.place.line())
    }
}

/// A name is set for a sink, and the stream ends in none, or in one with another name.
pub(super) fn no_sink_has(name: &str) -> Error {
    let what = format!(
        "no sink has got the name `{name}`: call `sink_name` right before the sink, on the stream that ends in it"
    );
    Error::new(ErrorKind::Plan, what)
}

impl Builder {
    /// Begins a stage without inputs.
    pub(crate) fn stage(&mut self, parallelism: Parallelism, bounded: bool) -> usize {
        self.stage_after(&[], parallelism, bounded)
    }

    /// Begins a stage with these inputs. It is in a loop if one of them is.
    pub(crate) fn stage_after(
        &mut self,
        before: &[usize],
        parallelism: Parallelism,
        bounded: bool,
    ) -> usize {
        let id = self.plan.stages.len();
        let loops = before.iter().map(|&from| self.plan.stages[from].loops).max().unwrap_or(0);
        let tasks = parallelism.tasks();
        let placement = Placement::default();
        self.plan.stages.push(Stage {
            id,
            operators: Vec::new(),
            tasks,
            placement,
            bounded,
            loops,
        });
        self.factories.push(None);
        self.rules.add(id, parallelism);
        id
    }

    /// Begins a stage with this input and one task on each host.
    pub(crate) fn stage_on_each_host(&mut self, before: usize, hosts: usize) -> usize {
        let bounded = self.plan.stages[before].bounded;
        let stage = self.stage_after(&[before], Parallelism::Fixed(hosts), bounded);
        self.plan.stages[stage].placement = Placement::EachHost;
        stage
    }

    /// The last operator of a stage, if it has any yet.
    pub(crate) fn last_of(&self, stage: usize) -> Option<usize> {
        self.plan.stages[stage].operators.last().copied()
    }

    /// Appends an operator to a stage.
    pub(crate) fn operator(&mut self, stage: usize, origin: Origin, details: Details) -> usize {
        let id = self.plan.operators.len();
        self.plan.operators.push(Operator {
            id,
            kind: origin.kind.to_owned(),
            name: origin.kind.to_owned(),
            method: origin.method.to_owned(),
            place: format!("{}:{}", origin.place.file(), origin.place.line()),
            details,
            stage,
            state: None,
            loops: self.plan.stages[stage].loops,
        });
        self.plan.stages[stage].operators.push(id);
        id
    }

    /// Declares the state of an operator.
    pub(crate) fn state(&mut self, operator: usize, scope: Scope, schema: Schema) {
        let kind = &self.plan.operators[operator].kind;
        let id = format!("{kind}-{}", self.stateful_before(self.plan.operators[operator].stage));
        let is_taken = |id: &str| {
            self.plan
                .operators
                .iter()
                .any(|op| op.state.as_ref().is_some_and(|state| state.id == id))
        };
        // Branches of the same shape differ only in the order in which they are described.
        let mut twins = std::iter::once(id.clone()).chain((2..).map(|nth| format!("{id}-{nth}")));
        let id = twins.find(|id| !is_taken(id)).unwrap_or(id);
        self.plan.operators[operator].state = Some(State { id, scope, schema });
    }

    /// The stateful operators that records may pass before they leave a stage.
    fn stateful_before(&self, stage: usize) -> usize {
        let mut stages = vec![stage];
        let mut at = 0;
        while let Some(&to) = stages.get(at) {
            for edge in self.plan.edges.iter().filter(|edge| edge.to == to) {
                if !stages.contains(&edge.from) {
                    stages.push(edge.from);
                }
            }
            at += 1;
        }
        let operators = stages.iter().flat_map(|&stage| &self.plan.stages[stage].operators);
        operators.filter(|&&op| self.plan.operators[op].state.is_some()).count()
    }

    /// Sets the name of the last operator of a stage.
    pub(crate) fn name(&mut self, stage: usize, name: String) {
        let Some(&last) = self.plan.stages[stage].operators.last() else { return };
        if self.plan.operators.iter().any(|op| op.name == name && op.id != last) {
            let what = format!("two operators are named `{name}`; names must differ");
            self.errors.push(Error::new(ErrorKind::Plan, what));
        }
        let operator = &mut self.plan.operators[last];
        if let Some(state) = &mut operator.state {
            state.id.clone_from(&name);
        }
        operator.name = name;
        for part in (0..last).rev() {
            let Some(id) = self.plan.part_id(part) else { break };
            if let Some(state) = &mut self.plan.operators[part].state {
                state.id = id;
            }
        }
    }

    /// Sets the name of the sink in which a stage, or one behind it, is to end.
    pub(crate) fn set_sink_name(&mut self, stage: usize, name: String) {
        if let Some(unused) = self.sink_names.insert(stage, name) {
            let last = self.plan.stages[stage].operators.last();
            let last = last.map(|&op| self.plan.operators[op].label()).unwrap_or_default();
            self.errors.push(no_sink_has(&unused).in_operator(last));
        }
    }

    /// The sink that is to get the name set for this stage ends another one, behind it.
    pub(crate) fn pass_sink_name(&mut self, from: usize, to: usize) {
        if let Some(name) = self.sink_names.remove(&from) {
            self.sink_names.insert(to, name);
        }
    }

    /// The last operator of a stage is a sink: gives it the name that is set for it, if there is one.
    pub(crate) fn name_sink(&mut self, stage: usize) {
        if let Some(name) = self.sink_names.remove(&stage) {
            self.name(stage, name);
        }
    }

    /// Notes that the last operator of a stage needs the number of tasks that the stage has.
    pub(crate) fn fix_tasks(&mut self, stage: usize, why: &'static str) {
        if let Some(&last) = self.plan.stages[stage].operators.last() {
            self.rules.fix(stage, last, why);
        }
    }

    /// Notes whether the streams that a stage merges may have other numbers of tasks.
    pub(crate) fn set_merged(&mut self, stage: usize, merged: bool) {
        self.rules.set_merged(stage, merged);
    }

    /// The plan with these numbers of tasks.
    pub(crate) fn settled(&self, counts: &TaskCounts, hosts: &Hosts) -> Result<Plan> {
        let mut plan = self.plan.clone();
        if !counts.is_empty() {
            settle(&mut plan, &self.rules, counts, hosts)?;
        }
        Ok(plan)
    }

    /// Sets the factory of a stage's tasks.
    pub(crate) fn close(&mut self, stage: usize, factory: Factory) {
        self.factories[stage] = Some(factory);
    }

    /// Sets the factory of a stage's tasks for the case that no further operator or exchange consumes its output.
    pub(crate) fn close_if_unconsumed(&mut self, stage: usize, factory: Factory) {
        self.unconsumed.push((stage, factory));
    }

    /// Closes the stages whose output is not consumed and need not be.
    pub(crate) fn close_unconsumed(&mut self) {
        for (stage, factory) in std::mem::take(&mut self.unconsumed) {
            let open = &mut self.factories[stage];
            if open.is_none() && self.plan.stages[stage].operators.len() == 1 {
                *open = Some(factory);
            }
        }
    }

    /// Adds properties of the last operator of a stage.
    pub(crate) fn describe_end(&mut self, stage: usize, details: Details) {
        if let Some(&last) = self.plan.stages[stage].operators.last() {
            let operator = &mut self.plan.operators[last];
            operator.details = std::mem::take(&mut operator.details).with_all(details);
        }
    }

    /// Adds a tie between the tasks of these operators; returns its number.
    pub(crate) fn tie(&mut self, kind: TieKind, operators: &[usize]) -> usize {
        let id = self.plan.ties.len();
        self.plan.ties.push(Tie { id, kind, operators: operators.to_vec() });
        id
    }

    /// Adds an exchange between two stages.
    pub(crate) fn edge(&mut self, edge: Edge, connector: Connector) {
        self.plan.edges.push(edge);
        self.connectors.push(connector);
    }

    /// Notes which columns the blocks of rows have that cross the edges added since there were `edges` of them.
    pub(crate) fn name_columns(&mut self, edges: usize, columns: &Schema) {
        for edge in self.plan.edges.iter_mut().skip(edges) {
            let block = |schema: &Schema| matches!(schema, Schema::Columns(_));
            edge.schema = edge.schema.replaced(&|schema| block(schema).then(|| columns.clone()));
        }
    }

    /// Notes that the last operator of a stage needs a bounded input.
    pub(crate) fn require_bounded_end(&mut self, stage: usize, why: &str) {
        if let Some(&last) = self.plan.stages[stage].operators.last() {
            self.require_bounded(last, why);
        }
    }

    /// Notes that `operator` needs a bounded input.
    pub(crate) fn require_bounded(&mut self, operator: usize, why: &str) {
        let node = &self.plan.operators[operator];
        if !self.plan.stages[node.stage].bounded {
            let error = Error::new(
                ErrorKind::Plan,
                format!("needs an input that ends, and this one does not: {why}"),
            );
            self.errors.push(error.in_operator(node.label()));
        }
    }
}

impl Operator {
    /// The method that the program called, or the name that it gave the operator, with the place; as in messages.
    pub(crate) fn label(&self) -> String {
        let name = if self.name == self.kind { &self.method } else { &self.name };
        format!("{name} ({})", self.place)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{BatchMode, Config};
    use crate::dynamic::{Graph, col, lit};
    use crate::error::{ErrorKind, Result};
    use crate::operators::time::Watermarks;
    use crate::operators::window::{EventTimeWindow, SessionWindow};
    use crate::plan::Edge;
    use crate::time::Timestamp;
    use crate::{Chain, Environment, Stream};
    use std::num::NonZeroUsize;
    use std::time::Duration;

    fn states(env: &Environment) -> Vec<String> {
        let plan = env.plan();
        plan.operators.iter().filter_map(|op| op.state.as_ref()).map(|s| s.id.clone()).collect()
    }

    #[test]
    fn a_batch_mode_is_that_of_the_next_exchange_of_its_stream() {
        let env = Environment::new();
        let one = env.iter(0..9).batch_mode(BatchMode::Single);
        let other = env.iter(0..9);
        one.map(|n| n + 1).shuffle().forward().for_each_parallel(drop);
        other.shuffle().for_each_parallel(drop);
        let keyed = env.iter(0..9).group_by(|n| n % 3).batch_mode(BatchMode::Single);
        keyed.repartition().unkey().shuffle().for_each_parallel(drop);
        let batches: Vec<_> = env.plan().edges.into_iter().map(|edge| edge.batch).collect();
        let single: Vec<_> = batches.iter().map(|batch| *batch == BatchMode::Single).collect();
        assert_eq!(single, [true, false, false, true, false], "{batches:?}");
    }

    /// Strategy, records and key of the edges of a job, and whether they have timestamps.
    fn edges(env: &Environment) -> Vec<String> {
        let show = |edge: Edge| {
            let key = edge.key.map_or(String::new(), |key| format!(" by {key}"));
            let timed = if edge.timed { ", timed" } else { "" };
            format!("{}{key}: {}{timed}", edge.strategy, edge.schema)
        };
        env.plan().edges.into_iter().map(show).collect()
    }

    #[test]
    fn edges_have_the_schemas_of_their_records_and_keys() {
        let of = |job: fn(&Environment)| {
            let env = Environment::new();
            job(&env);
            edges(&env)
        };
        // Each exchange by key is written on its own: one might forget its key.
        let shuffled = of(|env| env.lines("a").shuffle().for_each_parallel(|_| ()));
        assert_eq!(shuffled, ["shuffle: str"]);
        let counted = of(|env| {
            env.lines("a")
                .group_by_ref(|line| *line)
                .average(|line| line.len() as u32)
                .unkey()
                .for_each(drop);
        });
        assert_eq!(counted[0], "keyed by str: (u64, str, (f64, u64))");
        let folded = of(|env| {
            env.range(0..9).group_by(|n| *n as u8).fold(0i64, |_, _| ()).unkey().for_each(drop);
        });
        assert_eq!(folded[0], "keyed by u8: (u64, (u8, u64))");
        assert_eq!(
            of(|env| env.lines("a").unique().for_each(|_| ()))[0],
            "keyed by str: (u64, str)"
        );
        let joined = of(|env| {
            let names = env.iter([(1u8, "one".to_owned())]).keyed();
            names.join(env.iter([(1u8, 'a')]).keyed()).unkey().for_each(drop);
        });
        assert_eq!(
            joined[..2],
            ["keyed by u8: (u64, (u8, str))", "keyed by u8: (u64, (u8, char))"]
        );
        let connected = of(|env| {
            let keyed = env.iter([(1u8, true)]).keyed();
            let connected = keyed.connect(env.iter(0..9u16), 0u32, |_, _| ());
            connected.stateful_map_with(0, |_, _: &mut u64, _, _| ()).unkey().for_each(drop);
        });
        assert_eq!(connected[..2], ["broadcast: u16", "keyed by u8: (u64, (u8, bool))"]);
        fn timed(env: &Environment) -> Stream<impl Chain<Item = i64, Time = Timestamp>> {
            env.iter(0..9).assign_timestamps(|n| Timestamp::from_secs(*n), Watermarks::monotonous())
        }
        const SECOND: Duration = Duration::from_secs(1);
        let windows = of(|env| {
            let windows =
                timed(env).group_by(|n| *n as u8).window(EventTimeWindow::tumbling(SECOND));
            windows.count().unkey().for_each(drop);
        });
        assert!(
            windows[0].starts_with("keyed by u8: ") && windows[0].ends_with(", timed"),
            "{windows:?}"
        );
        let sessions = of(|env| {
            let windows = timed(env).group_by(|n| *n as u8).window(SessionWindow::new(SECOND));
            windows.count().unkey().for_each(drop);
        });
        assert!(
            sessions[0].starts_with("keyed by u8: ") && sessions[0].ends_with(", timed"),
            "{sessions:?}"
        );
    }

    #[test]
    fn edges_of_graphs_name_their_columns() -> Result<()> {
        let env = Environment::new();
        let graph = Graph::new().range(0, 9).select([("a", col("n")), ("b", lit("x"))]);
        let graph = graph.shuffle().partition(["a"]).partition(["b", "a"]).limit(3).collect();
        let _attached = graph.attach(&env)?;
        let block = "columns { a: u64, b: str }";
        let hashed = format!("(u64, {block})");
        assert_eq!(
            edges(&env)[..4],
            [
                format!("shuffle: {block}"),
                format!("keyed by u64: {hashed}"),
                format!("keyed by (str, u64): {hashed}"),
                format!("gather: {block}"),
            ]
        );
        Ok(())
    }

    #[test]
    fn ids_of_state_depend_only_on_stateful_ancestors() {
        let job = |mapped: bool, beside: bool| {
            let env = Environment::new();
            if beside {
                let sums = env.range(0..9).group_by(|n| n % 2).fold(0, |sum, n| *sum += n);
                sums.unkey().for_each(drop);
            }
            let numbers = env.range(0..9);
            if mapped {
                numbers.map(|n| n + 1).shuffle().unique().map(|n| n * 2).sorted().for_each(drop);
            } else {
                numbers.unique().sorted().for_each(drop);
            }
            states(&env)
        };
        let plain = job(false, false);
        assert_eq!(plain, ["unique-0", "sorted-1"]);
        assert_eq!(job(true, false), plain);
        assert_eq!(job(true, true)[1..], plain);
    }

    #[test]
    fn operators_know_the_method_that_added_them() {
        let env = Environment::new();
        let sums = env.range(0..9).group_by(|n| n % 3).sum(|n| *n).unkey();
        sums.merge(env.iter([(1, 2)])).name("all").for_each(drop);
        let plan = env.plan();
        let of = |method: &str| {
            let added = plan.operators.iter().filter(|op| op.method == method);
            added.map(|op| &*op.kind).collect::<Vec<_>>()
        };
        assert_eq!(of("sum"), ["combine", "repartition", "receive", "sum"]);
        assert_eq!(of("merge"), ["merge", "merge", "receive"]);
        let place = |method: &str| {
            plan.operators.iter().find(|op| op.method == method).unwrap().place.clone()
        };
        let labels = |of: &str| {
            let of = plan.operators.iter().filter(|op| op.method == of);
            of.map(|op| op.label()).collect::<Vec<_>>()
        };
        assert_eq!(labels("sum"), vec![format!("sum ({})", place("sum")); 4]);
        assert_eq!(labels("merge").last(), Some(&format!("all ({})", place("merge"))));
    }

    #[test]
    fn ids_of_equal_branches_differ_and_names_take_precedence() {
        let env = Environment::new();
        env.range(0..9).unique().for_each(drop);
        env.range(0..9).unique().for_each(drop);
        env.range(0..9).unique().name("seen").for_each(drop);
        assert_eq!(states(&env), ["unique-0", "unique-0-2", "seen"]);
    }

    #[test]
    fn sinks_have_the_names_that_are_set_before_them() {
        let config = Config { cores: NonZeroUsize::MIN.saturating_add(1), ..Config::default() };
        let env = Environment::with_config(config);
        let [first, second, third] = env.range(0..9).split();
        // What gathers the records is in another stage than the sink.
        first.sink_name("file").map(|n| n.to_string()).write_lines("numbers.txt");
        second.group_by(|n| n % 2).count().sink_name("counts").unkey().for_each(drop);
        let _all = third.sink_name("all").collect::<Vec<_>>();
        let plan = env.plan();
        for (kind, name) in [("write_lines", "file"), ("for_each", "counts"), ("collect", "all")] {
            let named: Vec<_> = plan.operators.iter().filter(|op| op.name == name).collect();
            let [sink] = named[..] else { panic!("{name}: {named:?}") };
            assert_eq!((&*sink.kind, plan.state_id(sink.id)), (kind, name.to_owned()));
            let stage = &plan.stages[sink.stage];
            assert_eq!(stage.operators.last(), Some(&sink.id), "{name} is no sink");
            assert!(plan.edges.iter().all(|edge| edge.from != sink.stage), "{name} is no sink");
        }
    }

    #[test]
    fn a_name_of_a_sink_that_names_none_is_refused() {
        let env = Environment::new();
        let both: [_; 2] = env.range(0..9).sink_name("lost").split();
        both.into_iter().for_each(|numbers| numbers.for_each(drop));
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.message().starts_with("no sink has got the name `lost`"), "{error}");
        let env = Environment::new();
        let both: [_; 2] = env.range(0..9).split();
        both.into_iter().for_each(|numbers| numbers.sink_name("one").for_each(drop));
        let error = env.run().unwrap_err();
        assert_eq!(error.message(), "two operators are named `one`; names must differ");
        let env = Environment::new();
        env.range(0..9).sink_name("first").map(|n| n).sink_name("second").for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.message().starts_with("no sink has got the name `first`"), "{error}");
    }

    #[test]
    fn parts_of_an_operator_with_a_name_are_named_after_it() {
        let named = |others: usize| {
            let env = Environment::new();
            // All at the same place, and named or not.
            for _ in 0..others {
                env.range(0..9).group_by(|n| n % 3).count().unkey().for_each(drop);
            }
            for name in ["first", "second"].into_iter().skip(2 - others) {
                env.range(0..9).sum(|n| *n).name(name).for_each(drop);
            }
            env.range(0..9).group_by(|n| n % 3).count().name("counts").unkey().for_each(drop);
            env.range(0..9).sum(|n| *n).sum(|n| *n).name("total").for_each(drop);
            let plan = env.plan();
            let ids = (0..plan.operators.len()).map(|id| plan.state_id(id));
            let of_names = ["counts", "first", "second", "total"];
            let is_named = |id: &String| of_names.iter().any(|name| id.starts_with(name));
            let declared =
                plan.operators.iter().filter_map(|op| Some(op.state.as_ref()?.id.clone()));
            let declared = declared.filter(is_named).collect::<Vec<_>>();
            (ids.filter(is_named).collect::<Vec<_>>(), declared)
        };
        let counts = ["counts/combine", "counts/repartition", "counts/receive", "counts"];
        let [first, second, total] = ["first", "second", "total"]
            .map(|name| ["/sum", "/gather", "/receive", ""].map(|part| format!("{name}{part}")));
        let (ids, declared) = named(0);
        assert_eq!(ids, [&counts.map(str::to_owned)[..], &total].concat());
        assert_eq!(declared, ["counts", "total/sum", "total"]);
        // The same names whatever is beside them.
        let (ids, declared) = named(2);
        assert_eq!(ids, [&first[..], &second, &counts.map(str::to_owned), &total].concat());
        assert_eq!(declared[4..], ["counts", "total/sum", "total"]);
    }

    #[test]
    fn calls_at_one_place_with_other_settings_are_no_parts_of_one_another() {
        let env = Environment::new();
        let mut greatest = env.range(0..9).boxed();
        for n in [5, 3] {
            greatest = greatest.top(n).boxed();
        }
        greatest.name("greatest").for_each(drop);
        let plan = env.plan();
        let tops = plan.operators.iter().filter(|op| op.kind == "top");
        let ids = tops.map(|op| plan.state_id(op.id)).collect::<Vec<_>>();
        assert_eq!(ids, ["top-0", "top-1", "greatest/top", "greatest"]);
    }
}
