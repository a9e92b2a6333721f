//! Readers whose schemas differ from the writer's.

use super::super::de::decode;
use super::super::plan::Plan;
use super::random::{
    Dice, Field, Kind, Tree, kinds, ours, theirs, theirs_decodes, theirs_encodes, tree, union_of,
};
use super::{encoded, schema};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeMap;

fn read<T: DeserializeOwned>(writer: &str, reader: &str, bytes: &[u8]) -> Result<T, String> {
    let plan =
        Plan::between(&schema(writer), &schema(reader)).map_err(|fault| fault.to_string())?;
    decode(&plan, bytes).map_err(|fault| fault.to_string())
}

#[test]
fn a_field_is_read_once_though_several_of_its_aliases_were_written() {
    let old = r#"{"type": "record", "name": "R", "fields": [
        {"name": "first", "type": "int"}, {"name": "second", "type": "int"}, {"name": "b", "type": "int"}]}"#;
    let bytes = encoded(old, &json!({ "first": 1, "second": 2, "b": 3 }));
    #[derive(Debug, PartialEq, Deserialize)]
    struct R {
        a: i32,
        b: i32,
    }
    let new = r#"{"type": "record", "name": "R", "fields": [
        {"name": "b", "type": "int", "aliases": ["first"]}, {"name": "a", "type": "int", "aliases": ["second", "first"]}]}"#;
    assert_eq!(read(old, new, &bytes), Ok(R { a: 1, b: 3 }));
}

const OLD: &str = r#"{"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "int"}, {"name": "note", "type": "string"}, {"name": "customer", "type": "string"}]}"#;

#[test]
fn fields_are_added_removed_renamed_and_promoted() {
    let new = r#"{"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["new"]},
        {"name": "buyer", "type": ["null", "string"], "aliases": ["customer"]},
        {"name": "id", "type": "double"},
        {"name": "prices", "type": {"type": "map", "values": "long"}, "default": {"EUR": 5}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["Open", "Done"]}, "default": "Done"},
        {"name": "address", "type": {"type": "record", "name": "Address", "fields": [
            {"name": "town", "type": "string", "default": "?"}, {"name": "digest", "type": "bytes"}]},
            "default": {"digest": "\u00ff"}}]}"#;
    #[derive(Debug, PartialEq, Deserialize)]
    struct Order {
        id: f64,
        buyer: Option<String>,
        tags: Vec<String>,
        prices: BTreeMap<String, i64>,
        state: String,
        address: Address,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Address {
        town: String,
        digest: Vec<u8>,
    }
    let expected = Order {
        id: 7.0,
        buyer: Some("Ada".into()),
        tags: vec!["new".into()],
        prices: BTreeMap::from([("EUR".into(), 5)]),
        state: "Done".into(),
        address: Address { town: "?".into(), digest: vec![0xff] },
    };
    let bytes = encoded(OLD, &json!({ "id": 7, "note": "-", "customer": "Ada" }));
    assert_eq!(read(OLD, new, &bytes), Ok(expected));
}

#[test]
fn what_does_not_fit_is_said() {
    let reader =
        |fields: &str| format!(r#"{{"type": "record", "name": "Order", "fields": [{fields}]}}"#);
    for (fields, expected) in [
        (
            r#"{"name": "id", "type": "string"}"#,
            "field `id`: the writer's int cannot be read as string",
        ),
        (
            r#"{"name": "id", "type": "long"}, {"name": "x", "type": "int"}"#,
            "field `x`: the writer's schema does not have it, and the reader's no default",
        ),
        (
            r#"{"name": "x", "type": "int", "default": "a"}"#,
            "the reader's field `x`: the default \"a\" is no int",
        ),
    ] {
        let error = Plan::between(&schema(OLD), &schema(&reader(fields))).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
    // The branch of a union is known only when it is there.
    let (writer, reader) = (r#"["int", "string"]"#, "\"int\"");
    assert_eq!(read::<i32>(writer, reader, &[0, 4]), Ok(2));
    let error = read::<i32>(writer, reader, &[2, 2, b'a']).unwrap_err();
    assert_eq!(error, "the writer's string cannot be read as int");
}

#[test]
fn symbols_that_the_reader_does_not_know_have_a_default() {
    let of = |symbols: &str| {
        format!(r#"{{"type": "enum", "name": "E", "symbols": [{symbols}], "default": "A"}}"#)
    };
    assert_eq!(read(&of("\"A\", \"B\", \"C\""), &of("\"C\", \"A\""), &[4]), Ok("C".to_owned()));
    assert_eq!(read(&of("\"A\", \"B\", \"C\""), &of("\"C\", \"A\""), &[2]), Ok("A".to_owned()));
    let without = r#"{"type": "enum", "name": "E", "symbols": ["A"]}"#;
    let error = read::<String>(&of("\"A\", \"B\""), without, &[2]).unwrap_err();
    assert!(error.contains("no symbol `B`"), "{error}");
}

#[test]
fn records_in_unions_are_found_by_their_names() {
    #[derive(Debug, PartialEq, Deserialize)]
    enum Event {
        Left { at: i64 },
        Right { at: i64 },
    }
    let of = |names: [&str; 2], kind: &str| {
        let one = |name: &str| {
            format!(
                r#"{{"type": "record", "name": "{name}", "fields": [{{"name": "at", "type": "{kind}"}}]}}"#
            )
        };
        format!("[{}, {}]", one(names[0]), one(names[1]))
    };
    let (writer, reader) = (of(["w.Left", "w.Right"], "int"), of(["r.Right", "r.Left"], "long"));
    assert_eq!(read(&writer, &reader, &[0, 2]), Ok(Event::Left { at: 1 }));
    assert_eq!(read(&writer, &reader, &[2, 2]), Ok(Event::Right { at: 1 }));
}

/// A reader's schema, of which all values of the writer's can be read.
fn evolved(kind: &Kind, dice: &mut Dice) -> Kind {
    let chance = dice.below(3);
    match kind {
        Kind::Int if chance == 0 => [Kind::Long, Kind::Float, Kind::Double][dice.below(3)].clone(),
        Kind::Long if chance == 0 => [Kind::Float, Kind::Double][dice.below(2)].clone(),
        Kind::Float if chance == 0 => Kind::Double,
        Kind::Int | Kind::Text | Kind::Double if chance == 1 => {
            union_of(vec![Kind::Null, kind.clone()])
        }
        Kind::Array(items) => Kind::Array(Box::new(evolved(items, dice))),
        Kind::Map(values) => Kind::Map(Box::new(evolved(values, dice))),
        Kind::Record(fields) => {
            let mut all: Vec<_> = fields.clone();
            for field in &mut all {
                field.kind = evolved(&field.kind, dice);
            }
            if all.len() > 1 && chance == 0 {
                all.remove(dice.below(all.len()));
            }
            if chance == 1 {
                all.reverse();
            }
            let added = [
                (Kind::Int, json!(-3)),
                (Kind::Text, json!("ü")),
                (Kind::Array(Box::new(Kind::Double)), json!([0.5, 1.0])),
                (union_of(vec![Kind::Null, Kind::Long]), json!(null)),
            ];
            let (kind, default) = added[dice.below(4)].clone();
            let at = dice.below(all.len() + 1);
            all.insert(at, Field { name: "added", kind, default: Some(default) });
            Kind::Record(all)
        }
        _ => kind.clone(),
    }
}

/// Whether names are given by places that do not move when a schema is evolved.
fn has_names(kind: &Kind) -> bool {
    match kind {
        Kind::Fixed(_) | Kind::Enum(_) => true,
        Kind::Array(items) | Kind::Map(items) => has_names(items) || is_record(items),
        Kind::Union(branches) => branches.iter().any(|kind| has_names(kind) || is_record(kind)),
        Kind::Record(fields) => {
            fields.iter().any(|field| has_names(&field.kind) || is_record(&field.kind))
        }
        _ => false,
    }
}

fn is_record(kind: &Kind) -> bool {
    matches!(kind, Kind::Record(_))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn readers_see_what_theirs_sees(kinds in prop::collection::vec(kinds(), 1..5), seed in any::<u64>()) {
        let fields = ["a", "b", "c", "d"].into_iter().zip(kinds);
        let fields = fields.map(|(name, kind)| Field { name, kind, default: None });
        let writer = Kind::Record(fields.filter(|field| !has_names(&field.kind) && !is_record(&field.kind)).collect());
        let mut dice = Dice(seed);
        let reader = evolved(&writer, &mut dice);
        let sample = dice.sample(&writer, &mut 0);
        let (from, to) = (writer.text(), reader.text());
        let bytes = theirs_encodes(&theirs(&from), &sample);
        let expected = theirs_decodes(&theirs(&from), Some(&theirs(&to)), &bytes);
        let expected = expected.map_err(|error| TestCaseError::fail(format!("theirs: {error} {from} {to}")))?;
        let plan = Plan::between(&ours(&from), &ours(&to)).map_err(|e| TestCaseError::fail(format!("{e} {from} {to}")))?;
        let found = decode::<Tree>(&plan, &bytes).map_err(|e| e.to_string());
        prop_assert_eq!(found, Ok(tree(&expected)), "{} {}", from, to);
    }
}
