//! Random schemas and values: what ours encodes apache-avro decodes, and the other way round.

use super::super::de::decode;
use super::super::plan::Plan;
use super::super::schema::Schema;
use super::super::ser::encode;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use proptest::prelude::*;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap as _, SerializeSeq as _, SerializeStruct as _, Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A type. Names of records and others are the places where they are in the tree.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum(usize),
    Array(Box<Kind>),
    Map(Box<Kind>),
    /// Branches have different kinds, or names.
    Union(Vec<Kind>),
    Record(Vec<Field>),
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: Option<serde_json::Value>,
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
pub(super) const SYMBOLS: [&str; 5] = ["A", "B", "C", "D", "E"];
/// Names of what is defined in a tree, for labels that must be static.
const DEFINED: [&str; 64] = {
    let mut names = [""; 64];
    let all = "n00n01n02n03n04n05n06n07n08n09n10n11n12n13n14n15n16n17n18n19n20n21n22n23n24n25n26n27n28n29n30n31n32n33n34n35n36n37n38n39n40n41n42n43n44n45n46n47n48n49n50n51n52n53n54n55n56n57n58n59n60n61n62n63";
    let mut at = 0;
    while at < 64 {
        names[at] = all.split_at(3 * at).1.split_at(3).0;
        at += 1;
    }
    names
};

pub(super) fn kinds() -> impl Strategy<Value = Kind> {
    let leaf = prop_oneof![
        Just(Kind::Null),
        Just(Kind::Boolean),
        Just(Kind::Int),
        Just(Kind::Long),
        Just(Kind::Float),
        Just(Kind::Double),
        Just(Kind::Bytes),
        Just(Kind::Text),
        (1..9_usize).prop_map(Kind::Fixed),
        (1..5_usize).prop_map(Kind::Enum),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            inner.clone().prop_map(|kind| Kind::Array(Box::new(kind))),
            inner.clone().prop_map(|kind| Kind::Map(Box::new(kind))),
            prop::collection::vec(inner.clone(), 1..5).prop_map(union_of),
            prop::collection::vec(inner, 1..6).prop_map(|kinds| {
                let field = |(name, kind)| Field { name, kind, default: None };
                Kind::Record(NAMES.into_iter().zip(kinds).map(field).collect())
            }),
        ]
    })
}

pub(super) fn union_of(kinds: Vec<Kind>) -> Kind {
    let mut branches = Vec::<Kind>::new();
    for kind in kinds {
        let is_named = matches!(kind, Kind::Fixed(_) | Kind::Enum(_) | Kind::Record(_));
        let is_there =
            |other: &Kind| std::mem::discriminant(other) == std::mem::discriminant(&kind);
        if !matches!(kind, Kind::Union(_)) && (is_named || !branches.iter().any(is_there)) {
            branches.push(kind);
        }
    }
    if branches.is_empty() {
        branches.push(Kind::Null);
    }
    Kind::Union(branches)
}

impl Kind {
    /// The schema. `next` counts names.
    pub(super) fn json(&self, next: &mut usize) -> serde_json::Value {
        use serde_json::json;
        let mut name = || {
            *next += 1;
            DEFINED[*next - 1]
        };
        match self {
            Self::Null => json!("null"),
            Self::Boolean => json!("boolean"),
            Self::Int => json!("int"),
            Self::Long => json!({ "type": "long" }),
            Self::Float => json!("float"),
            Self::Double => json!("double"),
            Self::Bytes => json!("bytes"),
            Self::Text => json!("string"),
            Self::Fixed(size) => json!({ "type": "fixed", "name": name(), "size": size }),
            Self::Enum(symbols) => {
                json!({ "type": "enum", "name": name(), "symbols": SYMBOLS[..*symbols] })
            }
            Self::Array(items) => json!({ "type": "array", "items": items.json(next) }),
            Self::Map(values) => json!({ "type": "map", "values": values.json(next) }),
            Self::Union(branches) => branches.iter().map(|branch| branch.json(next)).collect(),
            Self::Record(fields) => {
                let name = name();
                let field = |field: &Field| {
                    let mut json = json!({ "name": field.name, "type": field.kind.json(next) });
                    if let Some(default) = &field.default {
                        json["default"] = default.clone();
                    }
                    json
                };
                let fields: Vec<_> = fields.iter().map(field).collect();
                json!({ "type": "record", "name": name, "fields": fields })
            }
        }
    }

    pub(super) fn text(&self) -> String {
        self.json(&mut 0).to_string()
    }

    /// How many names it defines.
    fn names(&self) -> usize {
        let mut next = 0;
        self.json(&mut next);
        next
    }
}

/// A source of numbers.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn text(&mut self) -> String {
        (0..self.below(6)).map(|_| ['a', 'ü', '0', '日', ' '][self.below(5)]).collect()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// A value, and what a branch of a union is called in ours.
    pub(super) fn sample(&mut self, kind: &Kind, name: &mut usize) -> Sample {
        let shift = self.below(64);
        match kind {
            Kind::Null => Sample::Null,
            Kind::Boolean => Sample::Boolean(self.next() & 1 == 1),
            Kind::Int => Sample::Int((self.next() as i32) >> (shift % 32)),
            Kind::Long => Sample::Long((self.next() as i64) >> shift),
            Kind::Float => Sample::Float(self.next() as i32 as f32 / 256.0),
            Kind::Double => Sample::Double(self.next() as i64 as f64 / 65536.0),
            Kind::Bytes => {
                let length = self.below(200);
                Sample::Bytes(self.bytes(length))
            }
            Kind::Text => Sample::Text(self.text()),
            Kind::Fixed(size) => {
                *name += 1;
                Sample::Fixed(self.bytes(*size))
            }
            Kind::Enum(symbols) => {
                *name += 1;
                Sample::Symbol(self.below(*symbols))
            }
            Kind::Array(items) => {
                let first = *name;
                let mut item = || {
                    *name = first;
                    self.sample(items, name)
                };
                let mut all = vec![item()];
                // The first counts the names.
                match self.below(4) {
                    0 => all.clear(),
                    more => all.extend((1..more).map(|_| self.sample(items, &mut { first }))),
                }
                Sample::Array(all)
            }
            Kind::Map(values) => {
                let first = *name;
                let value = self.sample(values, name);
                let mut all = BTreeMap::from([(self.text(), value)]);
                for _ in 0..self.below(3) {
                    all.insert(self.text(), self.sample(values, &mut { first }));
                }
                Sample::Map(all)
            }
            Kind::Union(branches) => {
                let chosen = self.below(branches.len());
                let mut made = None;
                for (index, branch) in branches.iter().enumerate() {
                    let label = match branch {
                        Kind::Null => "null",
                        Kind::Boolean => "boolean",
                        Kind::Int => "Int",
                        Kind::Long => "long",
                        Kind::Float => "Float",
                        Kind::Double => "double",
                        Kind::Bytes => "Bytes",
                        Kind::Text => "String",
                        Kind::Array(_) => "array",
                        Kind::Map(_) => "Map",
                        _ => DEFINED[*name],
                    };
                    let sample = self.sample(branch, name);
                    if index == chosen {
                        made = Some(Sample::Union(index, label, Box::new(sample)));
                    }
                }
                made.expect("one is chosen")
            }
            Kind::Record(fields) => {
                *name += 1;
                let mut field = |field: &Field| (field.name, self.sample(&field.kind, name));
                Sample::Record(fields.iter().map(&mut field).collect())
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Sample {
    Null,
    Boolean(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Bytes(Vec<u8>),
    Text(String),
    Fixed(Vec<u8>),
    Symbol(usize),
    Array(Vec<Sample>),
    Map(BTreeMap<String, Sample>),
    Union(usize, &'static str, Box<Sample>),
    Record(Vec<(&'static str, Sample)>),
}

impl Sample {
    fn value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Boolean(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Long(value) => Value::Long(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Bytes(value) => Value::Bytes(value.clone()),
            Self::Text(value) => Value::String(value.clone()),
            Self::Fixed(value) => Value::Fixed(value.len(), value.clone()),
            Self::Symbol(index) => Value::Enum(*index as u32, SYMBOLS[*index].to_owned()),
            Self::Array(all) => Value::Array(all.iter().map(Self::value).collect()),
            Self::Map(all) => {
                Value::Map(all.iter().map(|(key, value)| (key.clone(), value.value())).collect())
            }
            Self::Union(index, _, value) => Value::Union(*index as u32, Box::new(value.value())),
            Self::Record(fields) => {
                let field = |(name, value): &(&str, Self)| ((*name).to_owned(), value.value());
                Value::Record(fields.iter().map(field).collect())
            }
        }
    }
}

impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Boolean(value) => to.serialize_bool(*value),
            Self::Int(value) => to.serialize_i32(*value),
            Self::Long(value) => to.serialize_i64(*value),
            Self::Float(value) => to.serialize_f32(*value),
            Self::Double(value) => to.serialize_f64(*value),
            Self::Bytes(value) | Self::Fixed(value) => to.serialize_bytes(value),
            Self::Text(value) => to.serialize_str(value),
            Self::Symbol(index) => to.serialize_str(SYMBOLS[*index]),
            Self::Array(all) => {
                // Of a length that is known, or not.
                let length = (all.len() % 2 == 0).then_some(all.len());
                let mut list = to.serialize_seq(length)?;
                all.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Map(all) => {
                let mut map = to.serialize_map(None)?;
                all.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
            Self::Union(_, label, value) => to.serialize_newtype_variant("U", 0, label, &**value),
            Self::Record(fields) => {
                let mut record = to.serialize_struct("R", fields.len())?;
                // From behind, or in order.
                let mut order: Vec<_> = fields.iter().collect();
                if fields.len() % 2 == 0 {
                    order.reverse();
                }
                for (name, value) in order {
                    record.serialize_field(name, value)?;
                }
                record.end()
            }
        }
    }
}

/// What a value looks like to serde, without unions.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Null,
    Boolean(bool),
    Int(i64),
    Float(u32),
    Double(u64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Tree>),
    Map(BTreeMap<String, Tree>),
}

pub(super) fn tree(value: &Value) -> Tree {
    match value {
        Value::Null => Tree::Null,
        Value::Boolean(value) => Tree::Boolean(*value),
        Value::Int(value) => Tree::Int((*value).into()),
        Value::Long(value) => Tree::Int(*value),
        Value::Float(value) => Tree::Float(value.to_bits()),
        Value::Double(value) => Tree::Double(value.to_bits()),
        Value::Bytes(value) | Value::Fixed(_, value) => Tree::Bytes(value.clone()),
        Value::String(value) | Value::Enum(_, value) => Tree::Text(value.clone()),
        Value::Array(all) => Tree::List(all.iter().map(tree).collect()),
        Value::Map(all) => {
            Tree::Map(all.iter().map(|(key, value)| (key.clone(), tree(value))).collect())
        }
        Value::Union(_, value) => tree(value),
        Value::Record(all) => {
            Tree::Map(all.iter().map(|(key, value)| (key.clone(), tree(value))).collect())
        }
        other => panic!("{other:?} is not made here"),
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Boolean(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Int(value))
            }

            fn visit_f32<E>(self, value: f32) -> Result<Tree, E> {
                Ok(Tree::Float(value.to_bits()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Double(value.to_bits()))
            }

            fn visit_bytes<E>(self, value: &[u8]) -> Result<Tree, E> {
                Ok(Tree::Bytes(value.to_vec()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
                Ok(Tree::Text(value.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = from.next_element()? {
                    all.push(item);
                }
                Ok(Tree::List(all))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((key, value)) = from.next_entry()? {
                    all.insert(key, value);
                }
                Ok(Tree::Map(all))
            }
        }
        from.deserialize_any(Any)
    }
}

pub(super) fn theirs(text: &str) -> apache_avro::Schema {
    apache_avro::Schema::parse_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

pub(super) fn theirs_encodes(schema: &apache_avro::Schema, sample: &Sample) -> Vec<u8> {
    let writer = GenericDatumWriter::builder(schema).build().expect("the schema is whole");
    writer.write_value_to_vec(sample.value()).expect("the sample is of the schema")
}

pub(super) fn theirs_decodes(
    schema: &apache_avro::Schema,
    reader: Option<&apache_avro::Schema>,
    mut bytes: &[u8],
) -> Result<Value, apache_avro::Error> {
    let of = GenericDatumReader::builder(schema).maybe_reader_schema(reader).build()?;
    of.read_value(&mut bytes)
}

pub(super) fn ours(text: &str) -> Schema {
    Schema::parse(text, &[]).unwrap_or_else(|fault| panic!("{fault} in {text}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_read_what_the_other_writes(kind in kinds(), seed in any::<u64>()) {
        prop_assume!(kind.names() < DEFINED.len());
        let text = kind.text();
        let (ours, theirs) = (ours(&text), theirs(&text));
        let sample = Dice(seed).sample(&kind, &mut 0);
        let expected = tree(&sample.value());
        let bytes = theirs_encodes(&theirs, &sample);
        let plan = Plan::of(&ours);
        prop_assert_eq!(decode::<Tree>(&plan, &bytes).map_err(|e| e.to_string()), Ok(expected.clone()), "{}", text);
        decode::<serde::de::IgnoredAny>(&plan, &bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let mut written = Vec::new();
        encode(&ours, &sample, &mut written).map_err(|e| TestCaseError::fail(format!("{e} {text}")))?;
        let read = theirs_decodes(&theirs, None, &written).unwrap();
        prop_assert_eq!(tree(&read), expected);
    }

    /// Any bytes: an error or a value, and no panic.
    #[test]
    fn bytes_of_something_else_are_survived(kind in kinds(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let plan = Plan::of(&ours(&kind.text()));
        let read = decode::<Tree>(&plan, &bytes);
        let skipped = decode::<serde::de::IgnoredAny>(&plan, &bytes);
        // What is read can be skipped; text that is no UTF-8 can be skipped as well.
        prop_assert!(read.is_err() || skipped.is_ok());
    }
}
