//! Runs graphs: from checked steps to streams of blocks.
//!
//! Every step becomes operators of the same kind as a typed program's, in the same plan: the same sources, exchanges,
//! keyed tables and sorts, under the same schedulers. The only difference is one dynamic call a block between two
//! operators.
//!
//! The functions that build streams are `#[inline]` so that they are compiled by a crate that runs graphs, with all
//! operators that they use: in this crate, which never calls them, they would be half of its compile time.

mod accumulate;
mod apply;
mod chain;
mod group;
mod kernels;
mod keys;
mod layout;
mod limit;
mod ordered;
mod pack;
mod partition;
mod results;
mod sort;
#[cfg(test)]
mod tests;
mod views;

pub use results::{Attached, Results, Rows};

use super::check::{Step, Work};
use super::columns::{Block, Field};
use super::graph::Graph;
use crate::data::{self, Schema};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Details, Origin};
use crate::stream::{Environment, Stream};
use apply::apply;
use chain::{Blocks, erased};
use kernels::Kernel;
use layout::Layouts;
use pack::{Numbers, Texts, pack_source};
use views::Views;

impl Graph {
    /// Runs the graph as a job of its own, and returns what its `collect` nodes have gathered.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and as [`Environment::run`]: a computation without a result (an overflow, a
    /// division by zero, text that is no number) is of kind [`Input`](ErrorKind::Input), under the node's name.
    #[inline]
    #[track_caller]
    pub fn run(&self, env: &Environment) -> Result<Results> {
        let env = env.beside();
        let attached = self.attach(&env)?;
        env.run()?;
        attached.results()
    }

    /// Adds the graph to the environment's job, as a part that runs with it.
    ///
    /// Use it to look at the plan, or to run several graphs, or a graph and typed streams, as one job. Nodes of
    /// graphs in one job must have different names.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    ///
    /// ```
    /// use thalweg::{Environment, dynamic::Graph};
    ///
    /// let env = Environment::new();
    /// let attached = Graph::new().range(0, 5).limit(3).collect().named("few").attach(&env)?;
    /// let all = env.range(0..5).count().collect_one();
    /// assert!(env.plan().operators.iter().any(|operator| operator.name == "few"));
    /// env.run()?;
    /// assert_eq!(attached.results()?.take("few")?.len(), 3);
    /// assert_eq!(all.take()?, Some(5));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn attach(&self, env: &Environment) -> Result<Attached> {
        env.builder().blocks = true;
        let checked = self.check()?;
        let layouts = Layouts::of(&checked.steps);
        let mut streams: Vec<Option<Stream<Blocks>>> = Vec::new();
        let mut attached = Attached::default();
        for step in &checked.steps {
            let edges = env.builder().plan.edges.len();
            let stream = match step.input {
                None => Some(source(env, step, &layouts)),
                Some(input) => {
                    let stream = streams[input].take().ok_or_else(|| {
                        let what = "a node's rows were taken twice";
                        Error::new(ErrorKind::Internal, what).in_operator(step.name.clone())
                    })?;
                    follow(stream, step, &mut attached)
                }
            };
            env.builder().name_columns(edges, &schema(&step.schema));
            streams.push(stream);
        }
        Ok(attached)
    }
}

/// The schema of blocks with these columns.
fn schema(columns: &[Field]) -> Schema {
    let field = |column: &Field| data::Field::new(&*column.name, column.kind.schema());
    Schema::Columns(columns.iter().map(field).collect())
}

#[inline]
#[track_caller]
fn source(env: &Environment, step: &Step, layouts: &Layouts) -> Stream<Blocks> {
    let name = step.name.as_str();
    let (origin, none) = (Origin::here("pack"), Details::none());
    let blocks = match &step.work {
        Work::Range(from, to) => {
            let numbers = env.range(*from..*to).name(name);
            erased(pack_source(numbers, origin, none, (Numbers::default(), layouts)))
        }
        Work::Lines(paths) => {
            let lines = env.lines(paths).name(name);
            erased(pack_source(lines, origin, none, (Texts::default(), layouts)))
        }
        Work::Rows(blocks) => return blocks_of(env, blocks.clone(), step, layouts),
        // A step without an input is one of these, as the check has verified.
        _ => return blocks_of(env, Vec::new(), step, layouts),
    };
    // The name of its state in checkpoints.
    blocks.name(format!("{name}/blocks"))
}

/// A source of rows that the graph holds.
#[inline]
#[track_caller]
fn blocks_of(
    env: &Environment,
    blocks: Vec<Block>,
    step: &Step,
    layouts: &Layouts,
) -> Stream<Blocks> {
    let blocks = env.iter(blocks);
    let blocks = pack::unpacked(blocks, Origin::here("rows"), step.details.clone(), layouts);
    erased(blocks).name(step.name.as_str())
}

/// Adds a step to a stream; returns `None` for a sink.
#[inline]
#[track_caller]
fn follow(stream: Stream<Blocks>, step: &Step, attached: &mut Attached) -> Option<Stream<Blocks>> {
    let (name, details) = (step.name.as_str(), step.details.clone());
    // Taken here, because a closure would not see the caller.
    let origin = Origin::here("graph");
    let kernel = |kind, stream, details, kernel| {
        erased(apply(stream, Origin { kind, ..origin }, details, kernel))
    };
    let next = match &step.work {
        Work::Select(columns) => kernel("select", stream, details, Kernel::Select(columns.clone())),
        Work::Filter(keep) => kernel("filter", stream, details, Kernel::Filter(keep.clone())),
        Work::Explode(at, parts) => {
            kernel("explode", stream, details, Kernel::Explode(*at, *parts))
        }
        Work::Group(group) => {
            let inputs = Kernel::Select(group.inputs.clone());
            let stream = kernel("inputs", stream, details, inputs).name(format!("{name}/inputs"));
            group::group(stream, group, name)
        }
        Work::Sort(by) => sort::sort(stream, &step.schema, by, (name, details)),
        Work::Top(n, by) => sort::top(stream, &step.schema, (*n, by), (name, details)),
        Work::Limit(n) => erased(limit::limit(stream, Origin::here("limit"), *n)),
        Work::Partition(keys) => {
            partition::partition(stream, Origin::here("partition"), details, &step.schema, keys)
        }
        Work::Shuffle => erased(stream.shuffle()),
        Work::Forward => erased(stream.forward()),
        Work::Broadcast => erased(stream.broadcast()),
        Work::Collect => {
            let (env, stage) = (stream.env.clone(), stream.stage);
            attached.add(step, stream.collect());
            env.builder().name(stage, name.to_owned());
            return None;
        }
        Work::WriteJsonLines(path) => {
            let views = Views { schema: step.schema.clone().into(), named: true };
            stream.flat_each(views).name(name).write_json_lines(path);
            return None;
        }
        Work::WriteCsv(path) => {
            let views = Views { schema: step.schema.clone().into(), named: false };
            stream.flat_each(views).name(name).write_csv(path);
            return None;
        }
        Work::Lines(_) | Work::Range(..) | Work::Rows(_) => stream,
    };
    Some(next.name(name))
}
