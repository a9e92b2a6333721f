//! How values that were written with one schema are read as another: Avro's rules of resolution, applied once for each pair
//! of schemas. A [`Plan`] reads bytes in the writer's order; what the reader does not know is skipped, and what the writer
//! did not have is decoded from the encoded default.

use super::fault::Fault;
use super::schema::{Enum, Field, FixedKind, Id, Record, Schema, Type, short};
use std::collections::HashMap;

/// Steps by which bytes of a writer's schema are read.
#[derive(Debug)]
pub(super) struct Plan {
    nodes: Vec<Node>,
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
    pub(super) label: Option<String>,
    pub(super) node: Id,
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
        Self { nodes: resolver.nodes, root }
    }

    /// A plan of what was written with `writer` and is read as `reader`.
    pub(super) fn between(writer: &Schema, reader: &Schema) -> Result<Self, Fault> {
        let mut resolver = Resolver::new(writer, reader);
        let root = resolver.node(writer.root, Some(reader.root));
        let plan = Self { nodes: resolver.nodes, root };
        match plan.misfit(root, &mut Vec::new()) {
            Some(fault) => Err(fault),
            None => Ok(plan),
        }
    }

    pub(super) fn get(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    /// Whether values take no bytes, as those of null do.
    pub(super) fn is_empty(&self, id: Id, depth: usize) -> bool {
        match self.get(id) {
            Node::Null | Node::Fixed(0) | Node::Decimal(Some(0), _) => true,
            Node::Chosen(branch) => self.is_empty(branch.node, depth),
            Node::Record(fields) => {
                // A record that contains itself without a union in between has no values.
                let mut written = fields.written.iter();
                depth > 8 || written.all(|(_, id)| self.is_empty(*id, depth + 1))
            }
            _ => false,
        }
    }

    /// Something that no value can do without. The branch of a union may be absent from all values.
    fn misfit(&self, id: Id, seen: &mut Vec<Id>) -> Option<Fault> {
        if seen.contains(&id) {
            return None;
        }
        seen.push(id);
        match self.get(id) {
            Node::Misfit(what) => Some(Fault::new(what)),
            Node::Array(items) | Node::Map(items) => self.misfit(*items, seen),
            Node::Record(fields) => fields.written.iter().find_map(|(name, id)| {
                let fault = self.misfit(*id, seen)?;
                Some(match name {
                    Some(name) => fault.within(name),
                    None => fault,
                })
            }),
            _ => None,
        }
    }
}

struct Resolver<'a> {
    writer: &'a Schema,
    reader: &'a Schema,
    nodes: Vec<Node>,
    /// Nodes by the writer's type and the reader's, and by whether the former is of the reader's schema: defaults.
    known: HashMap<(Id, Option<Id>, bool), Id>,
    /// Whether types of the writer are looked up in the reader's schema.
    in_default: bool,
}

impl<'a> Resolver<'a> {
    fn new(writer: &'a Schema, reader: &'a Schema) -> Self {
        Self { writer, reader, nodes: Vec::new(), known: HashMap::new(), in_default: false }
    }

    fn node(&mut self, from: Id, to: Option<Id>) -> Id {
        let pair = (from, to, self.in_default);
        if let Some(known) = self.known.get(&pair) {
            return *known;
        }
        let id = self.nodes.len();
        self.nodes.push(Node::Null);
        self.known.insert(pair, id);
        let made = match to {
            Some(to) => self.between(from, to),
            None => self.alone(from),
        };
        self.nodes[id] = made;
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
                let branch = |id: &Id| {
                    let label = Some(schema.label(*id).to_owned());
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
            let in_union = matches!(reader.get(to), Type::Union(_));
            let branch = |id: &Id| {
                let node = self.node(*id, Some(to));
                match (in_union, &self.nodes[node]) {
                    (true, Node::Chosen(Branch { label, node })) => {
                        Branch { label: label.clone(), node: *node }
                    }
                    _ => Branch { label: None, node },
                }
            };
            return Node::Union(branches.iter().map(branch).collect());
        }
        if let Type::Union(branches) = reader.get(to) {
            let levels = [Likeness::Same, Likeness::Named, Likeness::Promoted];
            let find = |level| {
                branches.iter().find(|id| alike((writer, from), (reader, **id)) == Some(level))
            };
            return match levels.into_iter().find_map(find) {
                Some(id) => {
                    let label = Some(reader.label(*id).to_owned());
                    Node::Chosen(Branch { label, node: self.node(from, Some(*id)) })
                }
                None => self.refuse(from, to),
            };
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

    fn refuse(&self, from: Id, to: Id) -> Node {
        let (from, to) = (self.writer.label(from), self.reader.label(to));
        Node::Misfit(format!("the writer's {from} cannot be read as {to}"))
    }

    fn record(&mut self, from: &Record, to: &Record) -> Node {
        let target = |written: &Field| {
            let by_name = to.fields.iter().find(|field| field.name == written.name);
            let mut rest = to.fields.iter();
            let not_written = |field: &Field| from.fields.iter().all(|of| of.name != field.name);
            by_name.or_else(|| {
                rest.find(|field| field.aliases.contains(&written.name) && not_written(field))
            })
        };
        let targets: Vec<_> = from.fields.iter().map(target).collect();
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
