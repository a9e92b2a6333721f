//! Schemas of Avro: types in a list, parsed from JSON. Knows neither values nor the network.

use super::fault::Fault;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// A type's place in the list of a schema.
pub(super) type Id = usize;

/// How deep schemas and values may be nested: no input may exhaust the stack.
pub(super) const MAX_DEPTH: usize = 128;

/// A schema. Types refer to each other by their places, so that they may be recursive.
#[derive(Debug)]
pub(super) struct Schema {
    types: Vec<Type>,
    pub(super) root: Id,
}

#[derive(Clone, Debug)]
pub(super) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    /// With its scale and precision if it is a decimal.
    Bytes(Option<Decimal>),
    String,
    Fixed(Name, usize, FixedKind),
    Enum(Enum),
    Array(Id),
    Map(Id),
    Union(Vec<Id>),
    Record(Record),
}

/// The most digits of a decimal; more than any has. One with more is plain bytes, as other ill-formed ones are.
const MAX_PRECISION: u64 = 1000;

/// How many bytes and values all defaults of a schema may have, and one of them: defaults that refer to others could be
/// without end.
const MAX_DEFAULTS: usize = 1 << 22;
const MAX_DEFAULT: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) precision: usize,
    pub(super) scale: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FixedKind {
    Plain,
    Decimal(Decimal),
    Uuid,
}

/// The full name of a record, an enum or a fixed, and its other full names.
#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    pub(super) full: String,
    pub(super) aliases: Vec<String>,
}

impl Name {
    pub(super) fn short(&self) -> &str {
        short(&self.full)
    }
}

/// A name without its namespace.
pub(super) fn short(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, short)| short)
}

#[derive(Clone, Debug)]
pub(super) struct Enum {
    pub(super) name: Name,
    pub(super) symbols: Vec<String>,
    pub(super) default: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) name: Name,
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    pub(super) kind: Id,
    json: Option<Value>,
    /// The default as it is encoded. One that does not fit its type is an error when it is needed: schemas that older
    /// libraries accepted remain readable.
    pub(super) default: Option<Result<Vec<u8>, String>>,
}

impl Schema {
    /// Parses a schema, which may use the names that others define. Each of those may use names of the ones before it.
    pub(super) fn parse(text: &str, others: &[String]) -> Result<Self, Fault> {
        let mut parser = Parser::default();
        let json = |text: &str| {
            // A primitive type may be written without quotation marks.
            serde_json::from_str(text).or_else(|error| match PRIMITIVES.contains(&text.trim()) {
                true => Ok(Value::from(text.trim())),
                false => Err(Fault::new(format!("it is not JSON: {error}"))),
            })
        };
        for other in others {
            parser.parse(&json(other)?, "", 0)?;
        }
        let root = parser.parse(&json(text)?, "", 0)?;
        let mut schema = Self { types: parser.types, root };
        schema.encode_defaults();
        Ok(schema)
    }

    pub(super) fn get(&self, id: Id) -> &Type {
        &self.types[id]
    }

    /// The full name of the record, enum or fixed that this schema is.
    pub(super) fn name(&self) -> Option<&str> {
        self.name_of(self.root).map(|name| name.full.as_str())
    }

    pub(super) fn name_of(&self, id: Id) -> Option<&Name> {
        match self.get(id) {
            Type::Fixed(name, ..) => Some(name),
            Type::Enum(of) => Some(&of.name),
            Type::Record(of) => Some(&of.name),
            _ => None,
        }
    }

    /// What a branch of a union is called: by its full name, or its type.
    pub(super) fn label(&self, id: Id) -> &str {
        match self.get(id) {
            Type::Null => "null",
            Type::Boolean => "boolean",
            Type::Int => "int",
            Type::Long => "long",
            Type::Float => "float",
            Type::Double => "double",
            Type::Bytes(_) => "bytes",
            Type::String => "string",
            Type::Array(_) => "array",
            Type::Map(_) => "map",
            Type::Union(_) => "union",
            Type::Fixed(name, ..) => &name.full,
            Type::Enum(of) => &of.name.full,
            Type::Record(of) => &of.name.full,
        }
    }

    fn encode_defaults(&mut self) {
        let mut made = Vec::new();
        let mut left = MAX_DEFAULTS;
        for (id, kind) in self.types.iter().enumerate() {
            let Type::Record(record) = kind else { continue };
            for (index, field) in record.fields.iter().enumerate() {
                let Some(json) = &field.json else { continue };
                let mut bytes = Vec::new();
                let most = left.min(MAX_DEFAULT);
                let mut budget = most;
                let encoded = self.encode_default(field.kind, json, &mut bytes, &mut budget, 0);
                left -= most - budget;
                made.push((id, index, encoded.map(|()| bytes)));
            }
        }
        for (id, index, encoded) in made {
            if let Type::Record(record) = &mut self.types[id] {
                record.fields[index].default = Some(encoded);
            }
        }
    }

    fn encode_default(
        &self,
        id: Id,
        json: &Value,
        out: &mut Vec<u8>,
        budget: &mut usize,
        depth: usize,
    ) -> Result<(), String> {
        let misfit = || format!("the default {} is no {}", excerpt(json), self.label(id));
        let size = match json {
            Value::String(text) => text.len(),
            Value::Object(values) => values.keys().map(String::len).sum(),
            _ => 0,
        };
        // Eight bytes are the most of any other value.
        *budget = budget.saturating_sub(8 + size);
        if *budget == 0 {
            return Err("the default is too large".to_owned());
        }
        if depth > MAX_DEPTH {
            return Err("the default is nested too deeply".to_owned());
        }
        match (self.get(id), json) {
            (Type::Null, Value::Null) => {}
            (Type::Boolean, Value::Bool(value)) => out.push(u8::from(*value)),
            (Type::Int, _) => {
                let value = json.as_i64().and_then(|value| i32::try_from(value).ok());
                write_long(out, value.ok_or_else(misfit)?.into());
            }
            (Type::Long, _) => write_long(out, json.as_i64().ok_or_else(misfit)?),
            (Type::Float, _) => {
                out.extend((float(json).ok_or_else(misfit)? as f32).to_le_bytes());
            }
            (Type::Double, _) => out.extend(float(json).ok_or_else(misfit)?.to_le_bytes()),
            (Type::Bytes(_), Value::String(text)) => {
                let bytes = latin(text).ok_or_else(misfit)?;
                write_bytes(out, &bytes);
            }
            (Type::String, Value::String(text)) => write_bytes(out, text.as_bytes()),
            (Type::Fixed(_, size, _), Value::String(text)) => {
                let bytes = latin(text).filter(|bytes| bytes.len() == *size);
                out.extend(bytes.ok_or_else(misfit)?);
            }
            (Type::Enum(of), Value::String(text)) => {
                let index = of.symbols.iter().position(|symbol| symbol == text);
                write_long(out, index.ok_or_else(misfit)? as i64);
            }
            (Type::Array(items), Value::Array(values)) => {
                if !values.is_empty() {
                    write_long(out, values.len() as i64);
                }
                for value in values {
                    self.encode_default(*items, value, out, budget, depth + 1)?;
                }
                out.push(0);
            }
            (Type::Map(items), Value::Object(values)) => {
                if !values.is_empty() {
                    write_long(out, values.len() as i64);
                }
                for (key, value) in values {
                    write_bytes(out, key.as_bytes());
                    self.encode_default(*items, value, out, budget, depth + 1)?;
                }
                out.push(0);
            }
            (Type::Union(branches), _) => {
                let begin = out.len();
                for (index, branch) in branches.iter().enumerate() {
                    write_long(out, index as i64);
                    if self.encode_default(*branch, json, out, budget, depth + 1).is_ok() {
                        return Ok(());
                    }
                    out.truncate(begin);
                }
                if *budget == 0 {
                    return Err("the default is too large".to_owned());
                }
                return Err(misfit());
            }
            (Type::Record(of), Value::Object(values)) => {
                for field in &of.fields {
                    let value = values.get(&field.name).or(field.json.as_ref());
                    let value = value.ok_or_else(misfit)?;
                    self.encode_default(field.kind, value, out, budget, depth + 1)?;
                }
            }
            _ => return Err(misfit()),
        }
        Ok(())
    }
}

/// A value for an error, where a long one would hide the rest.
fn excerpt(json: &Value) -> String {
    match json {
        Value::Array(values) if !values.is_empty() => format!("of {} items", values.len()),
        Value::Object(values) if !values.is_empty() => format!("of {} fields", values.len()),
        Value::String(text) if text.len() > 100 => {
            format!("\"{}…\"", text.chars().take(100).collect::<String>())
        }
        _ => json.to_string(),
    }
}

/// Java writes floating-point numbers that JSON does not have as text.
fn float(json: &Value) -> Option<f64> {
    match json.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity" | "INF") => Some(f64::INFINITY),
        Some("-Infinity" | "-INF") => Some(f64::NEG_INFINITY),
        _ => json.as_f64(),
    }
}

/// Bytes are written in JSON as the characters of these numbers.
fn latin(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|char| u8::try_from(u32::from(char)).ok()).collect()
}

pub(super) fn write_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

const PRIMITIVES: [&str; 8] =
    ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];

#[derive(Default)]
struct Parser {
    types: Vec<Type>,
    names: HashMap<String, Id>,
}

impl Parser {
    fn add(&mut self, kind: Type) -> Id {
        self.types.push(kind);
        self.types.len() - 1
    }

    fn parse(&mut self, json: &Value, namespace: &str, depth: usize) -> Result<Id, Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::new("it is nested too deeply"));
        }
        match json {
            Value::String(name) => self.named(name, namespace),
            Value::Array(branches) => {
                let parse = |json| self.parse(json, namespace, depth + 1);
                let branches = branches.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
                self.union(branches)
            }
            Value::Object(map) => match map.get("type") {
                Some(Value::String(kind)) => self.complex(kind, map, namespace, depth),
                Some(inner) => self.parse(inner, namespace, depth + 1),
                None => Err(Fault::new(format!("there is no `type` in {json}"))),
            },
            _ => Err(Fault::new(format!("{json} is no type"))),
        }
    }

    fn union(&mut self, branches: Vec<Id>) -> Result<Id, Fault> {
        if branches.iter().any(|id| matches!(self.types[*id], Type::Union(_))) {
            return Err(Fault::new("a union is directly within a union"));
        }
        Ok(self.add(Type::Union(branches)))
    }

    /// A primitive type, or one that was defined before.
    fn named(&mut self, name: &str, namespace: &str) -> Result<Id, Fault> {
        let primitive = match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "int" => Type::Int,
            "long" => Type::Long,
            "float" => Type::Float,
            "double" => Type::Double,
            "bytes" => Type::Bytes(None),
            "string" => Type::String,
            _ => {
                let known = self.names.get(&full(name, namespace)).or_else(|| self.names.get(name));
                return known.copied().ok_or_else(|| Fault::new(format!("`{name}` is no type")));
            }
        };
        Ok(self.add(primitive))
    }

    fn complex(
        &mut self,
        kind: &str,
        map: &Map<String, Value>,
        namespace: &str,
        depth: usize,
    ) -> Result<Id, Fault> {
        let part = |name: &str| {
            map.get(name).ok_or_else(|| Fault::new(format!("there is no `{name}` of the {kind}")))
        };
        match kind {
            "array" => {
                let items = self.parse(part("items")?, namespace, depth + 1)?;
                Ok(self.add(Type::Array(items)))
            }
            "map" => {
                let values = self.parse(part("values")?, namespace, depth + 1)?;
                Ok(self.add(Type::Map(values)))
            }
            "record" | "error" => {
                let (name, inner) = name_of(map, namespace)?;
                // Its place is known before its fields, which may refer to it.
                let id = self.define(&name, Type::Null)?;
                let fields = part("fields")?.as_array();
                let fields = fields.ok_or_else(|| Fault::new("`fields` is no list"))?;
                let parse = |json| self.field(json, &inner, depth + 1);
                let fields = fields.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
                for (index, field) in fields.iter().enumerate() {
                    if fields[..index].iter().any(|other| other.name == field.name) {
                        let what = format!("`{}` has two fields `{}`", name.full, field.name);
                        return Err(Fault::new(what));
                    }
                }
                self.types[id] = Type::Record(Record { name, fields });
                Ok(id)
            }
            "enum" => {
                let (name, _) = name_of(map, namespace)?;
                let symbols = texts(part("symbols")?);
                let default = map.get("default").and_then(Value::as_str).map(str::to_owned);
                self.define(&name.clone(), Type::Enum(Enum { name, symbols, default }))
            }
            "fixed" => {
                let (name, _) = name_of(map, namespace)?;
                let size = part("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or_else(|| Fault::new("the `size` of a fixed is no size"))?;
                let kind = match map.get("logicalType").and_then(Value::as_str) {
                    Some("decimal") => {
                        decimal(map, Some(size)).map_or(FixedKind::Plain, FixedKind::Decimal)
                    }
                    Some("uuid") if size == 16 => FixedKind::Uuid,
                    _ => FixedKind::Plain,
                };
                self.define(&name.clone(), Type::Fixed(name, size, kind))
            }
            "bytes" if map.get("logicalType").and_then(Value::as_str) == Some("decimal") => {
                Ok(self.add(Type::Bytes(decimal(map, None))))
            }
            // Other logical types do not change how a value is encoded.
            _ => self.named(kind, namespace),
        }
    }

    fn define(&mut self, name: &Name, kind: Type) -> Result<Id, Fault> {
        let id = self.add(kind);
        match self.names.insert(name.full.clone(), id) {
            None => Ok(id),
            Some(_) => Err(Fault::new(format!("`{}` is defined twice", name.full))),
        }
    }

    fn field(&mut self, json: &Value, namespace: &str, depth: usize) -> Result<Field, Fault> {
        let name = json.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| Fault::new("a field has no name"))?.to_owned();
        let kind = json.get("type").ok_or_else(|| Fault::new("it has no type").within(&name))?;
        let kind = self.parse(kind, namespace, depth).map_err(|fault| fault.within(&name))?;
        let aliases = json.get("aliases").map_or_else(Vec::new, texts);
        Ok(Field { name, aliases, kind, json: json.get("default").cloned(), default: None })
    }
}

fn texts(json: &Value) -> Vec<String> {
    let texts = json.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// The decimal of a definition, in as many bytes if it is a fixed. One that contradicts itself is read as plain bytes, as the
/// specification has it.
fn decimal(map: &Map<String, Value>, size: Option<usize>) -> Option<Decimal> {
    let precision = map.get("precision")?.as_u64()?;
    let scale = map.get("scale").map_or(Some(0), Value::as_u64)?;
    let most = match size {
        // The digits of the largest number of two's complement.
        Some(size) => {
            let bits = (size as f64 * 8.0 - 1.0).max(0.0);
            ((bits * std::f64::consts::LOG10_2) as u64).min(MAX_PRECISION)
        }
        None => MAX_PRECISION,
    };
    let is_sound = (1..=most).contains(&precision) && scale <= precision;
    is_sound.then_some(Decimal { precision: precision as usize, scale: scale as u32 })
}

fn full(name: &str, namespace: &str) -> String {
    match namespace.is_empty() || name.contains('.') {
        true => name.trim_start_matches('.').to_owned(),
        false => format!("{namespace}.{name}"),
    }
}

/// The name that is defined, and the namespace of what is inside.
fn name_of(map: &Map<String, Value>, outer: &str) -> Result<(Name, String), Fault> {
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    let name = text("name").ok_or_else(|| Fault::new("a record, enum or fixed has no name"))?;
    let full_name = full(name, text("namespace").unwrap_or(outer));
    let inner = full_name.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
    let aliases = map.get("aliases").map_or_else(Vec::new, texts);
    let aliases = aliases.iter().map(|alias| full(alias, &inner)).collect();
    Ok((Name { full: full_name, aliases }, inner))
}
