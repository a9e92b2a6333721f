//! Renderings of a plan: text, Graphviz, and JSON.

use super::{
    Detail, Details, Edge, Operator, PLAN_VERSION, Placement, Plan, Scope, Stage, Strategy, Value,
};
use crate::config::BatchMode;
use crate::data::Schema;
use crate::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::fmt::{self, Write as _};
use std::time::Duration;

/// The operator that an exchange adds at the head of the receiving stage.
const RECEIVE: &str = "receive";

/// The plan as text: a paragraph for each stage, with its operators in the order in which records pass them, their
/// places in the program, their state, and the stages that follow.
///
/// ```
/// use thalweg::Environment;
///
/// let env = Environment::new();
/// env.iter(0..9).map(|n| n + 1).shuffle().for_each_parallel(drop);
/// let text = env.plan().to_string();
/// assert!(text.starts_with("2 stages, "), "{text}");
/// assert!(text.contains("shuffle ─▶ stage 1"), "{text}");
/// ```
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.stages.iter().map(|stage| stage.tasks).sum();
        let (stages, exchanges) = (self.stages.len(), self.edges.len());
        writeln!(
            f,
            "{}, {}, {}",
            counted(stages, "stage"),
            counted(tasks, "task"),
            counted(exchanges, "exchange")
        )?;
        let shown = self.operators.iter().filter(|op| op.is_shown());
        let names = shown.clone().map(|op| titled(op).chars().count()).max().unwrap_or(0);
        let places = shown.map(|op| op.place.chars().count()).max().unwrap_or(0);
        for stage in &self.stages {
            let ends = if stage.bounded { "" } else { ", input does not end" };
            writeln!(f, "\nstage {}: {}{ends}", stage.id, tasks_of(stage))?;
            for edge in self.edges.iter().filter(|edge| edge.to == stage.id) {
                writeln!(f, "  ┌─ from stage {}", edge.from)?;
            }
            for op in self.operators_of(stage).filter(|op| op.is_shown()) {
                let (title, place) = (titled(op), &op.place);
                let line = format!("    {title:names$}  {place:places$}  {}", noted(op));
                writeln!(f, "{}", line.trim_end())?;
            }
            for edge in self.edges.iter().filter(|edge| edge.from == stage.id) {
                let (to, batch) = (edge.to, batches(edge.batch));
                writeln!(
                    f,
                    "  └─ {} ─▶ stage {to}, {}, batches {batch}",
                    sent(edge),
                    crossing(edge)
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Keyed => "keyed",
            Self::Shuffle => "shuffle",
            Self::Random => "random",
            Self::Broadcast => "broadcast",
            Self::Custom => "custom",
            Self::Gather => "gather",
        })
    }
}

impl Plan {
    /// The plan as a Graphviz graph: a box a stage, an arrow an exchange. `dot -Tsvg` draws it.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let _ = env.iter(0..9).shuffle().count().collect_one();
    /// assert!(env.plan().to_dot().starts_with("digraph job {"));
    /// ```
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph job {\n  rankdir=LR;\n  node [shape=box];\n");
        // Writing to a string cannot fail.
        let _ = self.write_dot(&mut dot);
        dot.push_str("}\n");
        dot
    }

    fn write_dot(&self, dot: &mut String) -> fmt::Result {
        for stage in &self.stages {
            let tasks = tasks_of(stage);
            writeln!(dot, "  subgraph cluster_{} {{", stage.id)?;
            writeln!(dot, "    label=\"stage {}, {tasks}\";", stage.id)?;
            for op in self.operators_of(stage) {
                let mut label = format!("{}\n{}", titled(op), op.place);
                let noted = noted(op);
                if !noted.is_empty() {
                    label = format!("{label}\n{noted}");
                }
                writeln!(dot, "    op{} [label={}];", op.id, quoted(&label))?;
            }
            for pair in stage.operators.windows(2) {
                writeln!(dot, "    op{} -> op{};", pair[0], pair[1])?;
            }
            dot.push_str("  }\n");
        }
        for (at, edge) in self.edges.iter().enumerate() {
            // The heads of a stage are in the order of its incoming edges.
            let before = self.edges[..at].iter().filter(|other| other.to == edge.to).count();
            let Some(to) = self.stages.get(edge.to) else { continue };
            let mut heads = self.operators_of(to).filter(|op| op.kind == RECEIVE);
            let head = heads.nth(before).map(|op| op.id).or(to.operators.first().copied());
            let last = self.stages.get(edge.from).and_then(|from| from.operators.last());
            if let (Some(last), Some(head)) = (last, head) {
                let label = quoted(&[sent(edge), crossing(edge), batches(edge.batch)].join("\n"));
                writeln!(dot, "  op{last} -> op{head} [label={label}, penwidth=2];")?;
            }
        }
        Ok(())
    }

    /// The plan as JSON, for [`from_json`](Self::from_json) or other programs.
    pub fn to_json(&self) -> String {
        // Every value in a plan can be represented in JSON, and writing to a string cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads a plan from JSON.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Plan`] when the text is not JSON, is not a plan, is of another version than [`PLAN_VERSION`], or
    /// refers to an operator or a stage that it does not contain.
    ///
    /// ```
    /// use thalweg::{Environment, plan::Plan};
    ///
    /// let env = Environment::new();
    /// let _ = env.iter(0..9).shuffle().count().collect_one();
    /// let plan = env.plan();
    /// assert_eq!(Plan::from_json(&plan.to_json())?, plan);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    // Inlined to be compiled only where it is called: few programs read plans.
    #[inline]
    pub fn from_json(json: &str) -> Result<Self> {
        // Read first: the rest may have another form in another version.
        #[derive(Deserialize)]
        struct Header {
            version: u32,
        }
        let no_plan = |cause: serde_json::Error| {
            Error::new(ErrorKind::Plan, "this is not a plan").caused_by(cause)
        };
        let Header { version } = serde_json::from_str(json).map_err(no_plan)?;
        if version != PLAN_VERSION {
            let what =
                format!("the plan is of version {version}, and this program reads {PLAN_VERSION}");
            return Err(Error::new(ErrorKind::Plan, what));
        }
        let plan: Self = serde_json::from_str(json).map_err(no_plan)?;
        plan.check_references()?;
        Ok(plan)
    }

    fn check_references(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Plan, what));
        for (at, operator) in self.operators.iter().enumerate() {
            if operator.id != at || operator.stage >= self.stages.len() {
                return wrong(format!("operator {at} of the plan has a wrong number or stage"));
            }
        }
        for (at, stage) in self.stages.iter().enumerate() {
            if stage.id != at || stage.operators.iter().any(|&op| op >= self.operators.len()) {
                return wrong(format!("stage {at} of the plan has a wrong number or operator"));
            }
        }
        let stages = self.stages.len();
        if self.edges.iter().any(|edge| edge.from >= stages || edge.to >= stages) {
            return wrong("an edge of the plan leads to a stage that it does not have".to_owned());
        }
        Ok(())
    }

    fn operators_of<'a>(&'a self, stage: &'a Stage) -> impl Iterator<Item = &'a Operator> {
        stage.operators.iter().filter_map(|&id| self.operators.get(id))
    }
}

impl Operator {
    /// Whether it is the end of an exchange in the stage that receives.
    pub(super) fn is_received(&self) -> bool {
        self.kind == RECEIVE
    }

    /// Whether texts show it: not if it only receives, unless the program has named it.
    pub(super) fn is_shown(&self) -> bool {
        !self.is_received() || self.name != self.kind
    }
}

/// The number of tasks of a stage, and those of each host if they were set.
fn tasks_of(stage: &Stage) -> String {
    let tasks = counted(stage.tasks, "task");
    match &stage.placement {
        Placement::OnHosts(own) => {
            let own: Vec<_> = own.iter().map(ToString::to_string).collect();
            format!("{tasks}, {} on the hosts", own.join("+"))
        }
        _ => tasks,
    }
}

/// The operator's name, followed by its kind if they differ.
fn titled(op: &Operator) -> String {
    if op.name == op.kind { op.name.clone() } else { format!("{} ({})", op.name, op.kind) }
}

/// The details of an operator.
fn noted(op: &Operator) -> String {
    let state = op.state.as_ref().map(|state| {
        let owner = match &state.scope {
            Scope::Key(key) => format!("key of {}", short(key)),
            Scope::Task => "task".to_owned(),
        };
        format!("state `{}` a {owner}: {}", state.id, state.schema)
    });
    let details = Some(op.details.to_string()).filter(|details| !details.is_empty());
    [details, state].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// How an edge sends.
fn sent(edge: &Edge) -> String {
    match &edge.key {
        Some(key) => format!("{} by {}", edge.strategy, short(key)),
        None => edge.strategy.to_string(),
    }
}

/// What crosses an edge.
fn crossing(edge: &Edge) -> String {
    let timed = if edge.timed { "timed " } else { "" };
    format!("{timed}records {}", short(&edge.schema))
}

/// A schema in which types of the program are named without their fields.
fn short(schema: &Schema) -> Schema {
    schema.replaced(&|part| match part {
        Schema::Struct { name, .. } | Schema::Enum { name, .. } => {
            Some(Schema::Recursive(name.clone()))
        }
        _ => None,
    })
}

fn batches(mode: BatchMode) -> String {
    match mode {
        BatchMode::Adaptive { size } => format!("adaptive, up to {size}"),
        BatchMode::Fixed { size } => format!("fixed, {size}"),
        BatchMode::Timed { size, delay } => format!("up to {size} or {delay:?}"),
        BatchMode::Single => "single".to_owned(),
    }
}

/// The properties in words, such as `sum, tumbling, 10s`.
impl fmt::Display for Details {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.iter().map(phrase).collect();
        f.write_str(&parts.join(", "))
    }
}

/// The value alone; a list with commas.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
            Self::Duration(value) => write!(f, "{value:?}"),
            Self::Offset(micros) => {
                let sign = if *micros < 0 { '-' } else { '+' };
                write!(f, "{sign}{:?}", Duration::from_micros(micros.unsigned_abs()))
            }
            Self::List(values) => {
                let values: Vec<_> = values.iter().map(Self::to_string).collect();
                f.write_str(&values.join(", "))
            }
        }
    }
}

/// A property in words: its name and its value, where no other words are usual.
fn phrase(detail: &Detail) -> String {
    let Detail { name, value } = detail;
    match (&**name, value) {
        ("paths" | "path" | "aggregate" | "windows" | "join" | "method" | "phase", _)
        | ("results" | "keep" | "filled_by", _) => value.to_string(),
        ("size" | "records", Value::Integer(1)) => "1 record".to_owned(),
        ("size" | "records", Value::Integer(_)) => format!("{value} records"),
        ("size", _) => value.to_string(),
        ("slide", _) => format!("every {value}"),
        ("early", Value::Integer(_)) => format!("early every {value} records"),
        ("early", _) => format!("early every {value}"),
        ("tolerance" | "aligned", _) => format!("within {value}"),
        ("disorder", Value::Duration(Duration::ZERO)) => "in order".to_owned(),
        ("disorder", _) => format!("disorder up to {value}"),
        ("rate", _) => format!("{value} a second"),
        ("rounds", _) => format!("at most {value} rounds"),
        ("tail", _) => "the end of a round".to_owned(),
        ("ways", _) => format!("{value} ways and a rest"),
        ("in_flight", _) => format!("at most {value} at once"),
        ("attempts", _) => format!("up to {value} attempts"),
        (_, Value::Bool(true)) => name.replace('_', " "),
        _ => format!("{} {value}", name.replace('_', " ")),
    }
}

fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::data::Field;
    use crate::plan::State;

    /// A word count, with a name, a state and a quotation mark in a detail.
    pub(in crate::plan) fn word_count() -> Plan {
        let op = |id: usize, kind: &str, name: &str, details, stage, state| Operator {
            id,
            kind: kind.to_owned(),
            name: name.to_owned(),
            method: kind.to_owned(),
            place: format!("src/main.rs:{}", id + 8),
            details,
            stage,
            state,
            loops: 0,
        };
        let word = Schema::Struct {
            name: "Word".into(),
            fields: vec![Field::new("text", Schema::Str)],
            evolution: Default::default(),
        };
        let scope = Scope::Key(word.clone());
        let state = State { id: "count-0".into(), scope, schema: Schema::U64 };
        let files = Details::of("paths", vec!["\"a\\b\".txt".to_owned()]);
        let none = Details::none;
        Plan {
            operators: vec![
                op(0, "files", "files", files, 0, None),
                op(1, "flat_each", "words", none(), 0, None),
                op(2, "group_by", "group_by", none(), 0, None),
                op(3, "receive", "receive", none(), 1, None),
                op(4, "count", "count", none(), 1, Some(state)),
                op(5, "for_each", "for_each", none(), 1, None),
            ],
            stages: vec![
                Stage {
                    id: 0,
                    operators: vec![0, 1, 2],
                    tasks: 1,
                    placement: Placement::Spread,
                    bounded: true,
                    loops: 0,
                },
                Stage {
                    id: 1,
                    operators: vec![3, 4, 5],
                    tasks: 8,
                    placement: Placement::Spread,
                    bounded: false,
                    loops: 0,
                },
            ],
            edges: vec![Edge {
                from: 0,
                to: 1,
                strategy: Strategy::Keyed,
                schema: Schema::Tuple(vec![Schema::U64, word.clone()]),
                key: Some(word),
                timed: false,
                batch: BatchMode::Adaptive { size: 1024 },
            }],
            ..Plan::default()
        }
    }

    #[test]
    fn as_text() {
        let expected = r#"
2 stages, 9 tasks, 1 exchange

stage 0: 1 task
    files              src/main.rs:8   "a\b".txt
    words (flat_each)  src/main.rs:9
    group_by           src/main.rs:10
  └─ keyed by Word ─▶ stage 1, records (u64, Word), batches adaptive, up to 1024

stage 1: 8 tasks, input does not end
  ┌─ from stage 0
    count              src/main.rs:12  state `count-0` a key of Word: u64
    for_each           src/main.rs:13
"#;
        assert_eq!(word_count().to_string(), expected.trim_start());
    }

    #[test]
    fn as_a_graph() {
        let expected = r#"
digraph job {
  rankdir=LR;
  node [shape=box];
  subgraph cluster_0 {
    label="stage 0, 1 task";
    op0 [label="files\nsrc/main.rs:8\n\"a\\b\".txt"];
    op1 [label="words (flat_each)\nsrc/main.rs:9"];
    op2 [label="group_by\nsrc/main.rs:10"];
    op0 -> op1;
    op1 -> op2;
  }
  subgraph cluster_1 {
    label="stage 1, 8 tasks";
    op3 [label="receive\nsrc/main.rs:11"];
    op4 [label="count\nsrc/main.rs:12\nstate `count-0` a key of Word: u64"];
    op5 [label="for_each\nsrc/main.rs:13"];
    op3 -> op4;
    op4 -> op5;
  }
  op2 -> op3 [label="keyed by Word\nrecords (u64, Word)\nadaptive, up to 1024", penwidth=2];
}
"#;
        assert_eq!(word_count().to_dot(), expected.trim_start());
    }

    #[test]
    fn as_json_and_back() {
        let plan = word_count();
        let json = plan.to_json();
        assert!(json.contains("\"strategy\": \"keyed\""), "{json}");
        assert_eq!(Plan::from_json(&json).unwrap(), plan);
    }

    #[test]
    fn plans_of_other_versions_are_refused() {
        let mut plan = word_count();
        plan.version += 1;
        let error = Plan::from_json(&plan.to_json()).unwrap_err();
        let version = PLAN_VERSION + 1;
        assert_eq!(
            error.to_string(),
            format!("the plan is of version {version}, and this program reads {PLAN_VERSION}")
        );
        // Whatever else has changed in it.
        let error = Plan::from_json("{\"version\": 99, \"nodes\": {}}").unwrap_err();
        assert!(error.to_string().starts_with("the plan is of version 99"), "{error}");
    }

    #[test]
    fn invalid_plans_are_refused() {
        for (from, to) in [("\"to\": 1", "\"to\": 2"), ("\"stage\": 1", "\"stage\": 7"), ("{", "")]
        {
            let json = word_count().to_json().replacen(from, to, 1);
            let error = Plan::from_json(&json).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Plan, "{error}");
        }
        let mut plan = word_count();
        plan.stages[1].operators.push(6);
        assert!(Plan::from_json(&plan.to_json()).is_err());
    }
}
