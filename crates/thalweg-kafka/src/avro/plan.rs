//! How values that were written with one schema are read as another: Avro's rules of resolution, applied once for each pair
//! of schemas. A [`Plan`] reads bytes in the writer's order; what the reader does not know is skipped, and what the writer
//! did not have is decoded from the encoded default.

use super::fault::Fault;
use super::schema::{Enum, Field, FixedKind, Id, Record, Schema, Type, short};
use std::collections::HashMap;
use std::sync::Arc;

/// Steps by which bytes of a writer's schema are read.
#[derive(Debug)]
pub(super) struct Plan {
    nodes: Vec<Node>,
    /// Whether values of each node take no bytes.
    empty: Vec<bool>,
    pub(super) root: Id,
}

#[derive(Debug)]
pub(super) enum Node {
    Null,
    Boolean,
    /// As it is written, and as it is read.
    Number(Number, Number),
    Bytes,
    Text,
    /// Of as many bytes, or with a length before it.
    Decimal(Option<usize>, u32),
    Fixed(usize),
    Uuid,
    /// The reader's symbols, by the writer's numbers, or the symbol that the reader has not.
    Enum(Vec<Result<String, String>>),
    Array(Id),
    Map(Id),
    Record(Fields),
    /// The branches as they are written.
    Union(Vec<Branch>),
    /// A branch of the reader's union, where the writer had none.
    Chosen(Branch),
    /// The reader cannot have it.
    Misfit(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Number {
    Int,
    Long,
    Float,
    Double,
}

#[derive(Debug)]
pub(super) struct Branch {
    /// What it is called, unless the reader has no union.
    pub(super) label: Option<Label>,
    pub(super) node: Id,
}

/// What a branch is called.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub(super) name: String,
    /// The names of all branches of the union.
    pub(super) among: Arc<[String]>,
}

#[derive(Debug)]
pub(super) struct Fields {
    /// In the writer's order; those without a name are skipped.
    pub(super) written: Vec<(Option<String>, Id)>,
    /// Those that the writer did not have, with their defaults.
    pub(super) added: Vec<(String, Id, Vec<u8>)>,
}

impl Plan {
    /// A plan of what was written with `writer`, as it is.
    pub(super) fn of(writer: &Schema) -> Self {
        let mut resolver = Resolver::new(writer, writer);
        let root = resolver.node(writer.root, None);
        resolver.plan(root)
    }

    /// A plan of what was written with `writer` and is read as `reader`.
    pub(super) fn between(writer: &Schema, reader: &Schema) -> Result<Self, Fault> {
        let mut resolver = Resolver::new(writer, reader);
        let root = resolver.node(writer.root, Some(reader.root));
        let plan = resolver.plan(root);
        match plan.misfit() {
            Some(fault) => Err(fault),
            None => Ok(plan),
        }
    }

    pub(super) fn get(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    /// Whether values take no bytes, as those of null do.
    #[inline]
    pub(super) fn is_empty(&self, id: Id) -> bool {
        self.empty[id]
    }

    /// Something that no value can do without. The branch of a union may be absent from all values.
    fn misfit(&self) -> Option<Fault> {
        // Nodes with the place of the one that they are in, and their field there. Schemas may be nested as deeply as they
        // have names, so that this does not call itself.
        let mut path: Vec<(usize, Option<&str>)> = Vec::new();
        let mut seen = vec![false; self.nodes.len()];
        let mut left = vec![(self.root, 0, None)];
        while let Some((id, parent, field)) = left.pop() {
            if std::mem::replace(&mut seen[id], true) {
                continue;
            }
            let at = path.len();
            path.push((parent, field));
            match self.get(id) {
                Node::Misfit(what) => {
                    let mut fault = Fault::new(what);
                    let mut at = at;
                    loop {
                        let (parent, field) = path[at];
                        if let Some(field) = field {
                            fault = fault.within(field);
                        }
                        if at == 0 {
                            return Some(fault);
                        }
                        at = parent;
                    }
                }
                Node::Array(items) | Node::Map(items) => left.push((*items, at, None)),
                Node::Record(fields) => {
                    let fields = fields.written.iter().rev();
                    left.extend(fields.map(|(name, id)| (*id, at, name.as_deref())));
                }
                _ => {}
            }
        }
        None
    }
}

/// Which nodes take no bytes: each is looked at once, as what is in it has been settled. A record that contains itself
/// without a union in between has no values, and is none of them.
fn empty(nodes: &[Node]) -> Vec<bool> {
    let mut empty = vec![false; nodes.len()];
    // The parts of each that are not known to be empty, and what each is a part of.
    let mut unsettled = vec![0_usize; nodes.len()];
    let mut wholes = vec![Vec::new(); nodes.len()];
    let mut found = Vec::new();
    for (id, node) in nodes.iter().enumerate() {
        match node {
            Node::Null | Node::Fixed(0) | Node::Decimal(Some(0), _) => found.push(id),
            Node::Chosen(branch) => {
                unsettled[id] = 1;
                wholes[branch.node].push(id);
            }
            Node::Record(fields) => {
                unsettled[id] = fields.written.len();
                fields.written.iter().for_each(|(_, part)| wholes[*part].push(id));
                if fields.written.is_empty() {
                    found.push(id);
                }
            }
            _ => {}
        }
    }
    while let Some(id) = found.pop() {
        empty[id] = true;
        for whole in &wholes[id] {
            unsettled[*whole] -= 1;
            if unsettled[*whole] == 0 {
                found.push(*whole);
            }
        }
    }
    empty
}

struct Resolver<'a> {
    writer: &'a Schema,
    reader: &'a Schema,
    nodes: Vec<Node>,
    /// Nodes by the writer's type and the reader's, and by whether the former is of the reader's schema: defaults.
    known: HashMap<Pair, Id>,
    /// Nodes that have a place and are not made yet. Names nest schemas without a limit, so that nodes wait here in place of
    /// being made within each other.
    waiting: Vec<(Id, Pair)>,
    /// Whether types of the writer are looked up in the reader's schema.
    in_default: bool,
}

type Pair = (Id, Option<Id>, bool);

impl<'a> Resolver<'a> {
    fn new(writer: &'a Schema, reader: &'a Schema) -> Self {
        let (nodes, known, waiting) = (Vec::new(), HashMap::new(), Vec::new());
        Self { writer, reader, nodes, known, waiting, in_default: false }
    }

    /// Makes all nodes.
    fn plan(mut self, root: Id) -> Plan {
        while let Some((id, (from, to, in_default))) = self.waiting.pop() {
            self.in_default = in_default;
            self.nodes[id] = match to {
                Some(to) => self.between(from, to),
                None => self.alone(from),
            };
        }
        Plan { empty: empty(&self.nodes), nodes: self.nodes, root }
    }

    /// The place of a node.
    fn node(&mut self, from: Id, to: Option<Id>) -> Id {
        let pair = (from, to, self.in_default);
        if let Some(known) = self.known.get(&pair) {
            return *known;
        }
        let id = self.nodes.len();
        self.nodes.push(Node::Null);
        self.known.insert(pair, id);
        self.waiting.push((id, pair));
        id
    }

    fn schema(&self) -> &'a Schema {
        if self.in_default { self.reader } else { self.writer }
    }

    /// As it was written.
    fn alone(&mut self, from: Id) -> Node {
        let schema = self.schema();
        match schema.get(from) {
            Type::Null => Node::Null,
            Type::Boolean => Node::Boolean,
            Type::Int => Node::Number(Number::Int, Number::Int),
            Type::Long => Node::Number(Number::Long, Number::Long),
            Type::Float => Node::Number(Number::Float, Number::Float),
            Type::Double => Node::Number(Number::Double, Number::Double),
            Type::Bytes(None) => Node::Bytes,
            Type::Bytes(Some(decimal)) => Node::Decimal(None, decimal.scale),
            Type::String => Node::Text,
            Type::Fixed(_, size, FixedKind::Decimal(decimal)) => {
                Node::Decimal(Some(*size), decimal.scale)
            }
            Type::Fixed(_, _, FixedKind::Uuid) => Node::Uuid,
            Type::Fixed(_, size, FixedKind::Plain) => Node::Fixed(*size),
            Type::Enum(of) => Node::Enum(of.symbols.iter().cloned().map(Ok).collect()),
            Type::Array(items) => Node::Array(self.node(*items, None)),
            Type::Map(items) => Node::Map(self.node(*items, None)),
            Type::Union(branches) => {
                let among = labels(schema, branches);
                let branch = |id: &Id| {
                    let name = schema.label(*id).to_owned();
                    let label = Some(Label { name, among: Arc::clone(&among) });
                    Branch { label, node: self.node(*id, None) }
                };
                Node::Union(branches.iter().map(branch).collect())
            }
            Type::Record(of) => {
                let field = |field: &Field| (Some(field.name.clone()), self.node(field.kind, None));
                let written = of.fields.iter().map(field).collect();
                Node::Record(Fields { written, added: Vec::new() })
            }
        }
    }

    fn between(&mut self, from: Id, to: Id) -> Node {
        let (writer, reader) = (self.writer, self.reader);
        if let Type::Union(branches) = writer.get(from) {
            let Type::Union(read) = reader.get(to) else {
                let branch = |id: &Id| Branch { label: None, node: self.node(*id, Some(to)) };
                return Node::Union(branches.iter().map(branch).collect());
            };
            let among = labels(reader, read);
            let branch = |id: &Id| match self.choose(*id, read, &among) {
                Some(branch) => branch,
                None => {
                    let misfit = self.refuse(*id, to);
                    self.nodes.push(misfit);
                    Branch { label: None, node: self.nodes.len() - 1 }
                }
            };
            return Node::Union(branches.iter().map(branch).collect());
        }
        if let Type::Union(branches) = reader.get(to) {
            let chosen = self.choose(from, branches, &labels(reader, branches));
            return chosen.map_or_else(|| self.refuse(from, to), Node::Chosen);
        }
        if alike((writer, from), (reader, to)).is_none() {
            return self.refuse(from, to);
        }
        match (writer.get(from), reader.get(to)) {
            (Type::Array(from), Type::Array(to)) => Node::Array(self.node(*from, Some(*to))),
            (Type::Map(from), Type::Map(to)) => Node::Map(self.node(*from, Some(*to))),
            (Type::Record(from), Type::Record(to)) => self.record(from, to),
            (Type::Enum(from), Type::Enum(to)) => symbols(from, to),
            (Type::Bytes(_), Type::String) => Node::Text,
            (Type::String, Type::Bytes(None)) => Node::Bytes,
            (Type::String, Type::Bytes(Some(decimal))) => Node::Decimal(None, decimal.scale),
            (Type::Bytes(written), Type::Bytes(read)) => match (written, read) {
                // The number that was written.
                (Some(written), Some(_)) => Node::Decimal(None, written.scale),
                (None, Some(read)) => Node::Decimal(None, read.scale),
                (_, None) => Node::Bytes,
            },
            (Type::Fixed(_, size, written), Type::Fixed(_, _, read)) => match (written, read) {
                (FixedKind::Decimal(of), FixedKind::Decimal(_)) | (_, FixedKind::Decimal(of)) => {
                    Node::Decimal(Some(*size), of.scale)
                }
                (_, FixedKind::Uuid) => Node::Uuid,
                (_, FixedKind::Plain) => Node::Fixed(*size),
            },
            (from_type, to_type) => match (number(from_type), number(to_type)) {
                (Some(from), Some(to)) => Node::Number(from, to),
                _ => self.alone(from),
            },
        }
    }

    /// The branch of the reader's union that fits best.
    fn choose(&mut self, from: Id, branches: &[Id], among: &Arc<[String]>) -> Option<Branch> {
        let (writer, reader) = (self.writer, self.reader);
        let levels = [Likeness::Same, Likeness::Named, Likeness::Promoted];
        let find =
            |level| branches.iter().find(|id| alike((writer, from), (reader, **id)) == Some(level));
        let id = *levels.into_iter().find_map(find)?;
        let label = Label { name: reader.label(id).to_owned(), among: Arc::clone(among) };
        Some(Branch { label: Some(label), node: self.node(from, Some(id)) })
    }

    fn refuse(&self, from: Id, to: Id) -> Node {
        let (from, to) = (self.writer.label(from), self.reader.label(to));
        Node::Misfit(format!("the writer's {from} cannot be read as {to}"))
    }

    fn record(&mut self, from: &Record, to: &Record) -> Node {
        let mut targets: Vec<Option<&Field>> = Vec::with_capacity(from.fields.len());
        for written in &from.fields {
            let by_name = to.fields.iter().find(|field| field.name == written.name);
            let mut rest = to.fields.iter();
            // Each is read once: by its name, or else by the first of its aliases that was written.
            let is_free = |field: &Field| {
                from.fields.iter().all(|of| of.name != field.name)
                    && targets.iter().flatten().all(|taken| taken.name != field.name)
            };
            let by_alias =
                || rest.find(|field| field.aliases.contains(&written.name) && is_free(field));
            targets.push(by_name.or_else(by_alias));
        }
        let mut written = Vec::new();
        for (field, target) in from.fields.iter().zip(&targets) {
            let node = self.node(field.kind, target.map(|to| to.kind));
            written.push((target.map(|to| to.name.clone()), node));
        }
        let mut added = Vec::new();
        for field in &to.fields {
            if targets.iter().flatten().any(|target| target.name == field.name) {
                continue;
            }
            match &field.default {
                Some(Ok(bytes)) => {
                    let before = std::mem::replace(&mut self.in_default, true);
                    let node = self.node(field.kind, None);
                    self.in_default = before;
                    added.push((field.name.clone(), node, bytes.clone()));
                }
                Some(Err(what)) => {
                    return Node::Misfit(format!("the reader's field `{}`: {what}", field.name));
                }
                None => {
                    let what = "the writer's schema does not have it, and the reader's no default";
                    return Node::Misfit(format!("field `{}`: {what}", field.name));
                }
            }
        }
        Node::Record(Fields { written, added })
    }
}

fn labels(schema: &Schema, branches: &[Id]) -> Arc<[String]> {
    branches.iter().map(|id| schema.label(*id).to_owned()).collect()
}

fn symbols(from: &Enum, to: &Enum) -> Node {
    let of = |symbol: &String| match to.symbols.contains(symbol) {
        true => Ok(symbol.clone()),
        false => to.default.clone().ok_or_else(|| symbol.clone()),
    };
    Node::Enum(from.symbols.iter().map(of).collect())
}

fn number(kind: &Type) -> Option<Number> {
    Some(match kind {
        Type::Int => Number::Int,
        Type::Long => Number::Long,
        Type::Float => Number::Float,
        Type::Double => Number::Double,
        _ => return None,
    })
}

/// How well two types fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// The same type, with the same full name if it has one.
    Same,
    /// The same name without its namespace, or an alias.
    Named,
    /// By promotion, or by its fields alone.
    Promoted,
}

fn alike(from: (&Schema, Id), to: (&Schema, Id)) -> Option<Likeness> {
    let names = || {
        let (writer, reader) = (from.0.name_of(from.1)?, to.0.name_of(to.1)?);
        let is_alias = |alias: &String| *alias == writer.full || short(alias) == writer.short();
        if writer.full == reader.full {
            return Some(Likeness::Same);
        }
        let is_named = writer.short() == reader.short() || reader.aliases.iter().any(is_alias);
        is_named.then_some(Likeness::Named)
    };
    match (from.0.get(from.1), to.0.get(to.1)) {
        (Type::Null, Type::Null)
        | (Type::Boolean, Type::Boolean)
        | (Type::Bytes(_), Type::Bytes(_))
        | (Type::String, Type::String) => Some(Likeness::Same),
        (Type::Bytes(_), Type::String) | (Type::String, Type::Bytes(_)) => Some(Likeness::Promoted),
        (Type::Array(one), Type::Array(other)) | (Type::Map(one), Type::Map(other)) => {
            // What the items of unions are is known when they are read.
            let is_union = matches!(from.0.get(*one), Type::Union(_))
                || matches!(to.0.get(*other), Type::Union(_));
            match is_union {
                true => Some(Likeness::Same),
                false => alike((from.0, *one), (to.0, *other)),
            }
        }
        // As in Java, names of records count only where there is a choice.
        (Type::Record(_), Type::Record(_)) => names().or(Some(Likeness::Promoted)),
        (Type::Enum(_), Type::Enum(_)) => names(),
        (Type::Fixed(_, one, _), Type::Fixed(_, other, _)) if one == other => names(),
        (one, other) => {
            let (one, other) = (number(one)?, number(other)?);
            match one == other {
                true => Some(Likeness::Same),
                false => (one < other).then_some(Likeness::Promoted),
            }
        }
    }
}
