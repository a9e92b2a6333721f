//! Checks a graph: converts it to executable steps, or reports what is wrong with it. A pure function.

use super::columns::{Block, Column, Field, Type, Value};
use super::expressions::{Bound, bind, find};
use super::graph::{GRAPH_VERSION, Graph};
use super::operation::{Aggregate, AggregateFunction, Operation, Order, Parts};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Details;
use std::collections::HashMap;
use std::path::PathBuf;

/// A graph whose names are resolved and whose types fit.
#[derive(Clone, Debug)]
pub struct Checked {
    pub(crate) steps: Vec<Step>,
}

/// A node that was checked, from which operators can be made.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// The details of its operator.
    pub(crate) details: Details,
    /// The step that its input comes from.
    pub(crate) input: Option<usize>,
    /// The columns it emits; for a sink, those it receives.
    pub(crate) schema: Vec<Field>,
    pub(crate) work: Work,
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    Lines(Vec<PathBuf>),
    Range(u64, u64),
    Rows(Vec<Block>),
    Select(Vec<Bound>),
    Filter(Bound),
    Explode(usize, Parts),
    Group(GroupStep),
    Sort(Vec<(usize, bool)>),
    Top(usize, Vec<(usize, bool)>),
    Limit(u64),
    Partition(Vec<usize>),
    Shuffle,
    Forward,
    Broadcast,
    Collect,
    WriteJsonLines(PathBuf),
    WriteCsv(PathBuf),
}

/// The computation of a group, after the columns `inputs`, of which the first `keys` are the key.
#[derive(Clone, Debug)]
pub(crate) struct GroupStep {
    pub(crate) keys: Vec<Field>,
    pub(crate) inputs: Vec<Bound>,
    pub(crate) aggregates: Vec<AggregateStep>,
}

/// An aggregate of the column `input`, whose values are of type `of`.
#[derive(Clone, Debug)]
pub(crate) struct AggregateStep {
    pub(crate) function: AggregateFunction,
    pub(crate) input: usize,
    pub(crate) of: Type,
    pub(crate) name: String,
}

impl Graph {
    /// Checks whether the graph can run, and computes the columns that flow between its nodes.
    ///
    /// Pure: accesses no file.
    ///
    /// # Errors
    ///
    /// [`Plan`](ErrorKind::Plan), naming the node: names that are missing or duplicated, types that do not fit, a
    /// node whose rows no other node reads, or more than one.
    ///
    /// ```
    /// use thalweg::dynamic::{Graph, col, lit};
    ///
    /// let error = Graph::new().lines("poem.txt").filter(col("line").gt(lit(1_i64))).collect().check();
    /// let message = error.unwrap_err().to_string();
    /// assert_eq!(message, "filter-1: there is no `gt` of (utf8, i64), in `gt(line, 1)`");
    /// ```
    pub fn check(&self) -> Result<Checked> {
        let plan = |message: String| Error::new(ErrorKind::Plan, message);
        if self.version != GRAPH_VERSION {
            let version = self.version;
            return Err(plan(format!("the graph is of version {version}, not {GRAPH_VERSION}")));
        }
        if self.nodes.is_empty() {
            return Err(plan("the graph has no node".to_owned()));
        }
        let mut steps: Vec<Step> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut takers: Vec<Option<String>> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let name = node.name.clone().unwrap_or_else(|| format!("{}-{at}", node.op.kind()));
            let wrong = |message: String| plan(message).in_operator(name.clone());
            let input = input(&node.op, node.input.as_deref(), at, &places).map_err(wrong)?;
            if let Some(input) = input {
                if self.nodes[input].op.is_sink() {
                    let sink = &steps[input].name;
                    return Err(wrong(format!("`{sink}` is a sink and hands nothing on")));
                }
                if let Some(other) = &takers[input] {
                    let from = &steps[input].name;
                    let what = format!("`{other}` takes the rows of `{from}` already");
                    return Err(wrong(format!("{what}; a node feeds one other")));
                }
                takers[input] = Some(name.clone());
            }
            let from = input.map_or(&[][..], |input| steps[input].schema.as_slice());
            let (work, schema, details) = step(&node.op, from).map_err(wrong)?;
            distinct(&schema).map_err(wrong)?;
            if places.insert(name.clone(), at).is_some() {
                return Err(wrong("another node has the same name".to_owned()));
            }
            steps.push(Step { name, details, input, schema, work });
            takers.push(None);
        }
        for ((step, node), taker) in steps.iter().zip(&self.nodes).zip(&takers) {
            if taker.is_none() && !node.op.is_sink() {
                let what = "nothing takes its rows: end with a sink, such as `collect`".to_owned();
                return Err(plan(what).in_operator(step.name.clone()));
            }
        }
        Ok(Checked { steps })
    }
}

impl Checked {
    /// The names of the nodes, and the columns that each emits; for a sink, those that it receives.
    ///
    /// ```
    /// use thalweg::dynamic::{Field, Graph, Type};
    ///
    /// let checked = Graph::new().range(0, 9).limit(3).named("few").collect().check()?;
    /// let (name, columns) = checked.schemas().nth(1).unwrap();
    /// assert_eq!((name, columns), ("few", &[Field::new("n", Type::U64)][..]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn schemas(&self) -> impl Iterator<Item = (&str, &[Field])> {
        self.steps.iter().map(|step| (step.name.as_str(), step.schema.as_slice()))
    }
}

/// Rows in each block of a source that the graph holds.
const BLOCK_ROWS: usize = 4096;

fn input(
    op: &Operation,
    named: Option<&str>,
    at: usize,
    places: &HashMap<String, usize>,
) -> Result<Option<usize>, String> {
    match (op.is_source(), named) {
        (true, None) => Ok(None),
        (true, Some(_)) => Err(format!("`{}` is a source and takes no input", op.kind())),
        (false, Some(name)) => match places.get(name) {
            Some(&input) => Ok(Some(input)),
            None => Err(format!("no node before it is named `{name}`")),
        },
        (false, None) if at > 0 => Ok(Some(at - 1)),
        (false, None) => Err(format!("`{}` needs an input: begin with a source", op.kind())),
    }
}

fn distinct(schema: &[Field]) -> Result<(), String> {
    for (at, field) in schema.iter().enumerate() {
        if schema[..at].iter().any(|other| other.name == field.name) {
            return Err(format!("two columns are named `{}`", field.name));
        }
    }
    Ok(())
}

type Described = (Work, Vec<Field>, Details);

fn step(op: &Operation, from: &[Field]) -> Result<Described, String> {
    let same = || from.to_vec();
    Ok(match op {
        Operation::Lines { paths } => {
            if paths.is_empty() {
                return Err("no path is given".to_owned());
            }
            // The source itself describes its paths.
            let schema = vec![Field::new("line", Type::Utf8)];
            (Work::Lines(paths.clone()), schema, Details::none())
        }
        Operation::Range { from, to } => {
            (Work::Range(*from, *to), vec![Field::new("n", Type::U64)], Details::none())
        }
        Operation::Rows { schema, rows } => {
            let details = Details::of("rows", rows.len()).with("columns", texts(schema));
            (Work::Rows(blocks(schema, rows)?), schema.clone(), details)
        }
        Operation::Select { columns } => {
            if columns.is_empty() {
                return Err("no column is selected".to_owned());
            }
            let (mut bound, mut schema) = (Vec::new(), Vec::new());
            for column in columns {
                let (expr, kind) = bind(from, &column.expr)?;
                bound.push(expr);
                schema.push(Field::new(&*column.name, kind));
            }
            let shown = columns.iter().map(|column| format!("{} = {}", column.name, column.expr));
            (Work::Select(bound), schema, Details::of("columns", texts(shown)))
        }
        Operation::Filter { keep } => match bind(from, keep)? {
            (bound, Type::Bool) => {
                (Work::Filter(bound), same(), Details::of("keep", keep.to_string()))
            }
            (_, kind) => return Err(format!("`{keep}` is {kind}, not bool")),
        },
        Operation::Explode { column, into, parts } => {
            let at = find(from, column)?;
            let mut schema = same();
            if schema[at].kind != Type::Utf8 {
                return Err(format!("`{column}` is {}, not utf8", schema[at].kind));
            }
            let name = into.as_ref().unwrap_or(column);
            schema[at].name.clone_from(name);
            let details = Details::of("column", &**column)
                .with("into", &**name)
                .with("parts", format!("{parts:?}"));
            (Work::Explode(at, *parts), schema, details)
        }
        Operation::Group { keys, aggregates } => group(from, keys, aggregates)?,
        Operation::Sort { by } => {
            (Work::Sort(order(from, by)?), same(), Details::of("by", show_order(by)))
        }
        Operation::Top { rows, by } => {
            let count = usize::try_from(*rows).map_err(|_| format!("{rows} rows are too many"))?;
            let details = Details::of("rows", *rows).with("by", show_order(by));
            (Work::Top(count, order(from, by)?), same(), details)
        }
        Operation::Limit { rows } => (Work::Limit(*rows), same(), Details::of("rows", *rows)),
        Operation::Partition { keys } => {
            if keys.is_empty() {
                return Err("no column is given to partition by".to_owned());
            }
            let places = keys.iter().map(|key| find(from, key)).collect::<Result<_, _>>()?;
            (Work::Partition(places), same(), Details::of("by", &**keys))
        }
        Operation::Shuffle => (Work::Shuffle, same(), Details::none()),
        Operation::Forward => (Work::Forward, same(), Details::none()),
        Operation::Broadcast => (Work::Broadcast, same(), Details::none()),
        Operation::Collect => (Work::Collect, same(), Details::none()),
        Operation::WriteJsonLines { path } => {
            (Work::WriteJsonLines(path.clone()), same(), Details::none())
        }
        Operation::WriteCsv { path } => (Work::WriteCsv(path.clone()), same(), Details::none()),
    })
}

fn join(parts: impl IntoIterator<Item = impl ToString>) -> String {
    texts(parts).join(", ")
}

fn texts(parts: impl IntoIterator<Item = impl ToString>) -> Vec<String> {
    parts.into_iter().map(|part| part.to_string()).collect()
}

fn show_order(by: &[Order]) -> Vec<String> {
    texts(by.iter().map(|order| {
        let how = if order.descending { " descending" } else { "" };
        format!("{}{how}", order.column)
    }))
}

fn order(from: &[Field], by: &[Order]) -> Result<Vec<(usize, bool)>, String> {
    if by.is_empty() {
        return Err("no column is given to order by".to_owned());
    }
    by.iter().map(|order| Ok((find(from, &order.column)?, order.descending))).collect()
}

fn group(from: &[Field], keys: &[String], aggregates: &[Aggregate]) -> Result<Described, String> {
    if keys.is_empty() && aggregates.is_empty() {
        return Err("there is neither a key nor an aggregate".to_owned());
    }
    let mut step = GroupStep { keys: Vec::new(), inputs: Vec::new(), aggregates: Vec::new() };
    for key in keys {
        let at = find(from, key)?;
        step.keys.push(from[at].clone());
        step.inputs.push(Bound::Column(at));
    }
    let mut schema = step.keys.clone();
    for aggregate in aggregates {
        let of = match (&aggregate.of, aggregate.function) {
            (None, AggregateFunction::Count) => Type::U64,
            (Some(_), AggregateFunction::Count) => {
                return Err(format!("`{aggregate}`: a count is of rows, not of an expression"));
            }
            (None, _) => return Err(format!("`{aggregate}`: say of what")),
            (Some(of), _) => {
                let (bound, kind) = bind(from, of)?;
                step.inputs.push(bound);
                kind
            }
        };
        let result = match aggregate.function {
            AggregateFunction::Count => Type::U64,
            AggregateFunction::Min | AggregateFunction::Max => of,
            AggregateFunction::Sum if of.is_number() => of,
            AggregateFunction::Average if of.is_number() => Type::F64,
            AggregateFunction::Sum | AggregateFunction::Average => {
                return Err(format!("`{aggregate}`: {of} is no number"));
            }
        };
        schema.push(Field::new(&*aggregate.name, result));
        step.aggregates.push(AggregateStep {
            function: aggregate.function,
            // A count reads no column; the others read the one just added.
            input: step.inputs.len().saturating_sub(1),
            of,
            name: aggregate.name.clone(),
        });
    }
    let details = Details::of("by", keys).with("aggregates", texts(aggregates));
    Ok((Work::Group(step), schema, details))
}

fn blocks(schema: &[Field], rows: &[Vec<Value>]) -> Result<Vec<Block>, String> {
    if schema.is_empty() {
        return Err("rows need a column".to_owned());
    }
    let block = |(chunk, rows): (usize, &[Vec<Value>])| {
        let mut columns: Vec<_> = schema.iter().map(|field| Column::new(field.kind)).collect();
        for (at, row) in rows.iter().enumerate() {
            let fits = row.len() == columns.len()
                && columns.iter_mut().zip(row).all(|(column, value)| column.push(value));
            if !fits {
                let at = chunk * BLOCK_ROWS + at;
                return Err(format!("row {at} is not of the columns {}", join(schema)));
            }
        }
        Block::new(rows.len(), columns).ok_or_else(|| "columns differ in length".to_owned())
    };
    rows.chunks(BLOCK_ROWS).enumerate().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamic::{asc, col, lit};

    fn wrong(graph: Graph) -> String {
        let error = graph.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        error.to_string()
    }

    fn numbers() -> Graph {
        Graph::new().range(0, 9)
    }

    #[test]
    fn errors_name_the_node() {
        assert_eq!(wrong(Graph::new()), "the graph has no node");
        assert_eq!(
            wrong(numbers()),
            "range-0: nothing takes its rows: end with a sink, such as `collect`"
        );
        assert_eq!(
            wrong(Graph::new().collect()),
            "collect-0: `collect` needs an input: begin with a source"
        );
        assert_eq!(
            wrong(numbers().filter(col("n")).named("odd").collect()),
            "odd: `n` is u64, not bool"
        );
        assert_eq!(
            wrong(numbers().explode_words("n").collect()),
            "explode-1: `n` is u64, not utf8"
        );
        assert_eq!(
            wrong(numbers().sort([asc("m")]).collect()),
            "sort-1: there is no column `m`; the columns are: n"
        );
        assert_eq!(
            wrong(numbers().collect().limit(1)),
            "limit-2: `collect-1` is a sink and hands nothing on"
        );
        assert_eq!(
            wrong(numbers().named("x").collect().named("x")),
            "x: another node has the same name"
        );
        assert_eq!(
            wrong(numbers().select([("a", col("n")), ("a", lit(1_u64))]).collect()),
            "select-1: two columns are named `a`"
        );
        let text = |of| Graph::new().lines("x").group_by(["line"]).aggregate([of]).collect();
        assert_eq!(
            wrong(text(Aggregate::sum(col("line")))),
            "group-1: `sum = sum(line)`: utf8 is no number"
        );
        let mut twice = numbers().collect().collect();
        twice.nodes[2].input = Some("range-0".to_owned());
        assert_eq!(
            wrong(twice),
            "collect-2: `collect-1` takes the rows of `range-0` already; a node feeds one other"
        );
        let rows = [vec![Value::U64(1)], vec![Value::I64(1)]];
        assert_eq!(
            wrong(Graph::new().rows([Field::new("n", Type::U64)], rows).collect()),
            "rows-0: row 1 is not of the columns n: u64"
        );
        let mut newer = numbers().collect();
        newer.version = 2;
        assert_eq!(wrong(newer), "the graph is of version 2, not 1");
    }

    #[test]
    fn constants_come_back_from_json_to_the_last_bit() {
        let bits = (1..5000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let floats: Vec<_> = bits.map(f64::from_bits).filter(|f| f.is_finite()).collect();
        let rows = floats.into_iter().map(|float| vec![Value::F64(float)]);
        let graph = Graph::new().rows([Field::new("f", Type::F64)], rows).collect();
        assert_eq!(Graph::from_json(&graph.to_json().unwrap()).unwrap(), graph);
    }

    #[test]
    fn invalid_json_is_refused_with_its_place() {
        let json = "{\"version\": 1, \"nodes\": [\n{\"op\": {\"rnge\": {}}}]}";
        let error = Graph::from_json(json).unwrap_err().to_string();
        assert!(error.starts_with("this is no graph: unknown variant `rnge`"), "{error}");
        assert!(error.contains("line 2"), "{error}");
    }
}
