//! An independent model of encodings: values as trees, their bytes, their hash and how they are shown.

use crate::data::{Field, Schema, hash_bytes, hash_u64, mix, splitmix64};
use serde_json::{Number, Value as Json};

/// A value of a schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Signed(i128),
    Unsigned(u128),
    F32(f32),
    F64(f64),
    Char(char),
    Str(String),
    Bytes(Vec<u8>),
    Unit,
    Option(Option<Box<Value>>),
    /// Of a list or an array.
    List(Vec<Value>),
    /// Of a map, or of a set with units as values; in any order.
    Entries(Vec<(Value, Value)>),
    /// Of a tuple or a struct.
    Parts(Vec<Value>),
    Variant(usize, Box<Value>),
}

/// The bytes of a number, and whether it has a sign.
pub(super) fn integer(schema: &Schema) -> Option<(usize, bool)> {
    let name = schema.to_string();
    let (sign, bits) = name.split_at(1);
    let bits: usize = bits.parse().ok().filter(|_| matches!(sign, "i" | "u"))?;
    Some((bits / 8, sign == "i"))
}

/// The types that enclose a place in a schema.
#[derive(Clone, Default)]
pub(super) struct Scope<'s>(Vec<(&'s str, &'s Schema)>);

impl<'s> Scope<'s> {
    /// The type itself where it is named, and what is within it.
    fn resolve(&self, schema: &'s Schema) -> (&'s Schema, Self) {
        let mut scope = self.clone();
        let schema = match schema {
            Schema::Recursive(name) => {
                let at = scope.0.iter().position(|(of, _)| of == name).expect("a known type");
                let found = scope.0[at].1;
                scope.0.truncate(at);
                found
            }
            other => other,
        };
        if let Schema::Struct { name, .. } | Schema::Enum { name, .. } = schema {
            scope.0.push((name, schema));
        }
        (schema, scope)
    }

    pub(super) fn bytes(&self, schema: &'s Schema, value: &Value) -> Vec<u8> {
        let (schema, scope) = self.resolve(schema);
        let all = |parts: Vec<(&'s Schema, &Value)>| {
            parts.into_iter().flat_map(|(of, value)| scope.bytes(of, value)).collect()
        };
        let behind = |number: usize, rest: Vec<u8>| [leb128(number), rest].concat();
        match (schema, value) {
            (_, Value::Bool(value)) => vec![u8::from(*value)],
            (_, Value::Signed(number)) => {
                number.to_le_bytes()[..integer(schema).expect("a number").0].to_vec()
            }
            (_, Value::Unsigned(number)) => {
                number.to_le_bytes()[..integer(schema).expect("a number").0].to_vec()
            }
            (_, Value::F32(number)) => number.to_le_bytes().to_vec(),
            (_, Value::F64(number)) => number.to_le_bytes().to_vec(),
            (_, Value::Char(char)) => u32::from(*char).to_le_bytes().to_vec(),
            (_, Value::Str(text)) => behind(text.len(), text.as_bytes().to_vec()),
            (_, Value::Bytes(bytes)) => behind(bytes.len(), bytes.clone()),
            (_, Value::Unit) => Vec::new(),
            (_, Value::Option(None)) => vec![0],
            (Schema::Option(of), Value::Option(Some(value))) => behind(1, scope.bytes(of, value)),
            (Schema::List(of), Value::List(items)) => {
                behind(items.len(), all(items.iter().map(|item| (&**of, item)).collect()))
            }
            (Schema::Array(of, _), Value::List(items)) => {
                all(items.iter().map(|item| (&**of, item)).collect())
            }
            (_, Value::Entries(entries)) => {
                let sorted = scope.sorted(schema, entries);
                behind(entries.len(), sorted.into_iter().flat_map(|(bytes, _)| bytes).collect())
            }
            (_, Value::Parts(parts)) => all(schemas(schema).into_iter().zip(parts).collect()),
            (Schema::Enum { variants, .. }, Value::Variant(at, content)) => {
                behind(*at, scope.bytes_of_content(&variants[*at].schema, content))
            }
            _ => panic!("{value:?} is no {schema}"),
        }
    }

    /// The content of a variant is called as the variant, and is no type.
    fn bytes_of_content(&self, schema: &'s Schema, content: &Value) -> Vec<u8> {
        match content {
            Value::Parts(parts) => {
                let parts = schemas(schema).into_iter().zip(parts);
                parts.flat_map(|(of, value)| self.bytes(of, value)).collect()
            }
            other => self.bytes(schema, other),
        }
    }

    /// Entries of a map or a set with their bytes, in the order of those of the keys.
    fn sorted<'v>(
        &self,
        schema: &'s Schema,
        entries: &'v [(Value, Value)],
    ) -> Vec<(Vec<u8>, &'v (Value, Value))> {
        let (key, value) = key_and_value(schema);
        let mut all: Vec<_> =
            entries.iter().map(|entry| (self.bytes(key, &entry.0), entry)).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (bytes, entry) in &mut all {
            bytes.extend(self.bytes(value, &entry.1));
        }
        all
    }

    pub(super) fn json(&self, schema: &'s Schema, value: &Value) -> Json {
        let (schema, scope) = self.resolve(schema);
        let float = |number: f64, text: String| match number.is_finite() {
            true => {
                Json::Number(Number::from_f64(text.parse().expect("a number")).expect("finite"))
            }
            false => Json::String(text),
        };
        let content = |of: &'s Schema, content: &Value| scope.json_of_content(of, content);
        match (schema, value) {
            (_, Value::Bool(value)) => Json::Bool(*value),
            (Schema::I128 | Schema::U128, Value::Signed(number)) => number.to_string().into(),
            (Schema::I128 | Schema::U128, Value::Unsigned(number)) => number.to_string().into(),
            (_, Value::Signed(number)) => i64::try_from(*number).expect("64 bits").into(),
            (_, Value::Unsigned(number)) => u64::try_from(*number).expect("64 bits").into(),
            (_, Value::F32(number)) => float(f64::from(*number), number.to_string()),
            (_, Value::F64(number)) => float(*number, number.to_string()),
            (_, Value::Char(char)) => char.to_string().into(),
            (_, Value::Str(text)) => text.clone().into(),
            (_, Value::Bytes(bytes)) => {
                let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                format!("0x{digits}").into()
            }
            (_, Value::Unit | Value::Option(None)) => Json::Null,
            (Schema::Option(of), Value::Option(Some(value))) => scope.json(of, value),
            (Schema::List(of) | Schema::Array(of, _), Value::List(items)) => {
                items.iter().map(|item| scope.json(of, item)).collect()
            }
            (Schema::Set(of), Value::Entries(entries)) => {
                let sorted = scope.sorted(schema, entries);
                sorted.iter().map(|(_, entry)| scope.json(of, &entry.0)).collect()
            }
            (Schema::Map(key, of), Value::Entries(entries)) => {
                let sorted = scope.sorted(schema, entries);
                let pairs =
                    sorted.iter().map(|(_, e)| (scope.json(key, &e.0), scope.json(of, &e.1)));
                match **key {
                    Schema::Str | Schema::Char => pairs
                        .map(|(key, value)| (key.as_str().expect("text").to_owned(), value))
                        .collect(),
                    _ => pairs.map(|(key, value)| Json::Array(vec![key, value])).collect(),
                }
            }
            (Schema::Tuple(_) | Schema::Struct { .. }, value) => content(schema, value),
            (Schema::Enum { variants, .. }, Value::Variant(at, value)) => {
                let Field { name, schema, .. } = &variants[*at];
                let shown = match (schema, &**value) {
                    (Schema::Unit, _) => return name.clone().into(),
                    (Schema::Tuple(of), Value::Parts(parts)) if of.len() == 1 => {
                        scope.json(&of[0], &parts[0])
                    }
                    (of, value) => content(of, value),
                };
                Json::Object([(name.clone(), shown)].into_iter().collect())
            }
            _ => panic!("{value:?} is no {schema}"),
        }
    }

    fn json_of_content(&self, schema: &'s Schema, value: &Value) -> Json {
        let Value::Parts(parts) = value else { panic!("{value:?} has no parts") };
        let all: Vec<_> = schemas(schema)
            .into_iter()
            .zip(parts)
            .map(|(of, value)| self.json(of, value))
            .collect();
        match schema {
            Schema::Struct { fields, .. } if fields.first().is_none_or(|of| of.name != "0") => {
                let names = fields.iter().map(|field| field.name.clone());
                Json::Object(names.zip(all).collect())
            }
            Schema::Struct { fields, .. } if fields.len() == 1 => all[0].clone(),
            _ => Json::Array(all),
        }
    }

    /// The hash of a key, as documented at `Data::key_hash`: of what a value is made of, whatever the width of its numbers.
    pub(super) fn hash(&self, schema: &'s Schema, value: &Value) -> u64 {
        let (schema, scope) = self.resolve(schema);
        let list = |of: &'s Schema, items: &[Value]| {
            let start = hash_u64(items.len() as u64);
            items.iter().fold(start, |hash, item| mix(hash, scope.hash(of, item)))
        };
        let wide = |low: u64, high: u64| mix(hash_u64(low), hash_u64(high));
        match (schema, value) {
            (_, Value::Bool(value)) => hash_u64(u64::from(*value)),
            (_, Value::Signed(number)) => match i64::try_from(*number) {
                Ok(narrow) => hash_u64(narrow as u64),
                Err(_) => wide(*number as u64, (number >> 64) as u64),
            },
            (_, Value::Unsigned(number)) => match u64::try_from(*number) {
                Ok(narrow) => hash_u64(narrow),
                Err(_) => wide(*number as u64, (number >> 64) as u64),
            },
            (_, Value::F32(number)) => hash_float(f64::from(*number)),
            (_, Value::F64(number)) => hash_float(*number),
            (_, Value::Char(char)) => hash_u64(u64::from(*char)),
            (_, Value::Str(text)) => hash_bytes(text.as_bytes()),
            (_, Value::Bytes(bytes)) => hash_bytes(bytes),
            (_, Value::Unit) => 0,
            (_, Value::Option(None)) => hash_u64(0),
            (Schema::Option(of), Value::Option(Some(value))) => {
                mix(hash_u64(1), scope.hash(of, value))
            }
            // The bytes of such a list are hashed at once.
            (Schema::Array(of, _), Value::List(items)) if **of == Schema::U8 => {
                let bytes = items.iter().map(|item| scope.bytes(of, item)[0]);
                hash_bytes(&bytes.collect::<Vec<_>>())
            }
            (Schema::List(of) | Schema::Array(of, _), Value::List(items)) => list(of, items),
            (_, Value::Entries(entries)) => {
                let (key, of) = key_and_value(schema);
                let entry = |(k, v): &(Value, Value)| match schema {
                    Schema::Set(_) => scope.hash(key, k),
                    _ => mix(mix(0, scope.hash(key, k)), scope.hash(of, v)),
                };
                let sum = entries.iter().map(entry).fold(0, u64::wrapping_add);
                mix(hash_u64(entries.len() as u64), sum)
            }
            (Schema::Struct { fields, .. }, Value::Parts(parts)) if parts.len() == 1 => {
                scope.hash(&fields[0].schema, &parts[0])
            }
            (_, Value::Parts(_)) => scope.hash_of_content(0, schema, value),
            (Schema::Enum { variants, .. }, Value::Variant(at, content)) => {
                scope.hash_of_content(hash_u64(*at as u64), &variants[*at].schema, content)
            }
            _ => panic!("{value:?} is no {schema}"),
        }
    }

    fn hash_of_content(&self, start: u64, schema: &'s Schema, content: &Value) -> u64 {
        let Value::Parts(parts) = content else { return start };
        let parts = schemas(schema).into_iter().zip(parts);
        parts.fold(start, |hash, (of, value)| mix(hash, self.hash(of, value)))
    }
}

fn hash_float(value: f64) -> u64 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    hash_u64(value.to_bits())
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Of the parts of a tuple or a struct.
fn schemas(schema: &Schema) -> Vec<&Schema> {
    match schema {
        Schema::Tuple(parts) => parts.iter().collect(),
        Schema::Struct { fields, .. } => fields.iter().map(|field| &field.schema).collect(),
        other => panic!("{other} has no parts"),
    }
}

fn key_and_value(schema: &Schema) -> (&Schema, &Schema) {
    match schema {
        Schema::Map(key, value) => (key, value),
        Schema::Set(key) => (key, &Schema::Unit),
        other => panic!("{other} has no entries"),
    }
}

/// Random numbers, schemas and values.
pub(super) struct Dice {
    state: u64,
    /// How many names there are.
    names: usize,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed, names: 0 }
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (splitmix64(&mut self.state) % end as u64) as usize
    }

    /// A name that nothing else has.
    pub(super) fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    pub(super) fn schema(&mut self, depth: usize) -> Schema {
        self.schema_within(depth, &mut Vec::new())
    }

    fn schema_within(&mut self, depth: usize, open: &mut Vec<String>) -> Schema {
        use Schema as S;
        if depth == 0 || self.below(4) == 0 {
            let leaves = [
                S::Bool,
                S::I8,
                S::I16,
                S::I32,
                S::I64,
                S::I128,
                S::U8,
                S::U16,
                S::U32,
                S::U64,
                S::U128,
                S::F32,
                S::F64,
                S::Char,
                S::Str,
                S::Bytes,
                S::Unit,
            ];
            return leaves[self.below(leaves.len())].clone();
        }
        if !open.is_empty() && self.below(6) == 0 {
            let again = Box::new(S::Recursive(open[self.below(open.len())].clone()));
            return if self.below(2) == 0 { S::Option(again) } else { S::List(again) };
        }
        let mut inner = |dice: &mut Self| dice.schema_within(depth - 1, open);
        match self.below(10) {
            0 => S::Option(Box::new(inner(self))),
            1 => S::List(Box::new(inner(self))),
            2 => S::Set(Box::new(inner(self))),
            3 => S::Array(Box::new(inner(self)), self.below(4)),
            4 => S::Map(Box::new(inner(self)), Box::new(inner(self))),
            5 => S::Tuple((0..self.below(4)).map(|_| inner(self)).collect()),
            6 | 7 => {
                let name = self.name();
                open.push(name.clone());
                let schema = self.structure(name, depth, open);
                open.pop();
                schema
            }
            _ => {
                let name = self.name();
                open.push(name.clone());
                let variants = (0..=self.below(3)).map(|_| self.variant(depth, open)).collect();
                open.pop();
                S::Enum { name, variants, evolution: Default::default() }
            }
        }
    }

    fn structure(&mut self, name: String, depth: usize, open: &mut Vec<String>) -> Schema {
        let (length, by_place) = (self.below(5), self.below(5) == 0);
        let field = |at: usize| {
            let name = if by_place { at.to_string() } else { self.name() };
            Field::new(name, self.schema_within(depth - 1, open))
        };
        let fields = (0..length).map(field).collect();
        Schema::Struct { name, fields, evolution: Default::default() }
    }

    fn variant(&mut self, depth: usize, open: &mut Vec<String>) -> Field {
        let name = self.name();
        let content = match self.below(3) {
            0 => Schema::Unit,
            1 => Schema::Tuple(
                (0..=self.below(2)).map(|_| self.schema_within(depth - 1, open)).collect(),
            ),
            _ => {
                let names: Vec<_> = (0..=self.below(3)).map(|_| self.name()).collect();
                let field = |name| Field::new(name, self.schema_within(depth - 1, open));
                let fields = names.into_iter().map(field).collect();
                Schema::Struct { name: name.clone(), fields, evolution: Default::default() }
            }
        };
        Field::new(name, content)
    }

    /// A value. Types that contain themselves do so `fuel` times at most.
    pub(super) fn value<'s>(
        &mut self,
        scope: &Scope<'s>,
        schema: &'s Schema,
        fuel: usize,
    ) -> Value {
        let (schema, scope) = scope.resolve(schema);
        let less = fuel.saturating_sub(1);
        let length = if fuel == 0 { 0 } else { self.below(4) };
        if let Some((width, signed)) = integer(schema) {
            return self.integer(width, signed);
        }
        match schema {
            Schema::Bool => Value::Bool(self.below(2) == 0),
            Schema::F32 => Value::F32(
                [0.0, -0.0, 0.1, 1e38, f32::INFINITY, f32::NAN, -7.25, f32::MIN_POSITIVE / 3.0]
                    [self.below(8)],
            ),
            Schema::F64 => Value::F64(
                [0.0, -0.0, 0.1, 1e300, f64::NEG_INFINITY, f64::NAN, 1.0 / 3.0][self.below(7)],
            ),
            Schema::Char => Value::Char(['a', 'ß', '日', '🜁', '\0'][self.below(5)]),
            Schema::Str => Value::Str(self.text()),
            Schema::Bytes => Value::Bytes(self.text().into_bytes()),
            Schema::Unit => Value::Unit,
            Schema::Option(_) if length == 0 => Value::Option(None),
            Schema::Option(of) => Value::Option(Some(Box::new(self.value(&scope, of, less)))),
            Schema::List(of) => {
                Value::List((0..length).map(|_| self.value(&scope, of, less)).collect())
            }
            Schema::Array(of, length) => {
                Value::List((0..*length).map(|_| self.value(&scope, of, less)).collect())
            }
            Schema::Set(_) | Schema::Map(..) => {
                let (key, value) = key_and_value(schema);
                let mut entries: Vec<(Vec<u8>, _)> = Vec::new();
                for _ in 0..length {
                    let entry = (self.value(&scope, key, less), self.value(&scope, value, less));
                    let bytes = scope.bytes(key, &entry.0);
                    if entries.iter().all(|(other, _)| *other != bytes) {
                        entries.push((bytes, entry));
                    }
                }
                Value::Entries(entries.into_iter().map(|(_, entry)| entry).collect())
            }
            Schema::Tuple(_) | Schema::Struct { .. } => self.content(&scope, schema, less),
            Schema::Enum { variants, .. } => {
                let at = self.below(variants.len());
                Value::Variant(at, Box::new(self.content(&scope, &variants[at].schema, less)))
            }
            other => panic!("{other} is not made here"),
        }
    }

    fn content<'s>(&mut self, scope: &Scope<'s>, schema: &'s Schema, fuel: usize) -> Value {
        match schema {
            Schema::Unit => Value::Unit,
            _ => {
                let parts = schemas(schema).into_iter();
                Value::Parts(parts.map(|of| self.value(scope, of, fuel)).collect())
            }
        }
    }

    fn text(&mut self) -> String {
        let length = if self.below(20) == 0 { 130 } else { self.below(5) };
        (0..length).map(|_| ['a', 'ü', '0', '日'][self.below(4)]).collect()
    }

    /// Of any size that fits.
    fn integer(&mut self, width: usize, signed: bool) -> Value {
        let (high, low) = (splitmix64(&mut self.state), splitmix64(&mut self.state));
        let (bits, shift) = (u128::from(high) << 64 | u128::from(low), 128 - 8 * width);
        let small = self.below(8 * width);
        match signed {
            true => Value::Signed(bits as i128 >> shift >> small),
            false => Value::Unsigned(bits >> shift >> small),
        }
    }
}
