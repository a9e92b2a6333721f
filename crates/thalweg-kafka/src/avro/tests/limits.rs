//! Schemas and records that would take a panic, the stack, memory or hours.

use super::super::de::decode;
use super::super::plan::Plan;
use super::super::schema::{Schema, Type, write_long};
use super::{back, decoded, encoded, schema, unencoded};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[test]
fn decimals_that_contradict_themselves_are_bytes() {
    for rest in [
        r#""precision": 70001, "scale": 70000"#,
        r#""precision": 4000000000, "scale": 4000000000"#,
        r#""precision": 1001"#,
        r#""precision": 4, "scale": -1"#,
        r#""precision": 4, "scale": "2""#,
        r#""precision": 4, "scale": null"#,
        r#""precision": 4, "scale": 1.5"#,
        r#""precision": 4, "scale": 5"#,
        r#""precision": 0"#,
        r#""precision": "4""#,
        r#""scale": 2"#,
    ] {
        let text = format!(r#"{{"type": "bytes", "logicalType": "decimal", {rest}}}"#);
        let parsed = schema(&text);
        assert!(matches!(parsed.get(parsed.root), Type::Bytes(None)), "{text}");
        assert_eq!(decoded::<Vec<u8>>(&text, &[2, 7]), Ok(vec![7]));
        assert!(decoded::<String>(&text, &[2, 0xff]).is_err());
    }
    let most = r#"{"type": "bytes", "logicalType": "decimal", "precision": 1000, "scale": 1000}"#;
    assert_eq!(decoded::<String>(most, &[2, 7]).unwrap().len(), 1002);
    assert!(unencoded(most, &7).contains("is no decimal"));
}

#[test]
fn a_fixed_that_is_too_small_for_its_decimal_is_bytes() {
    let of = |size: usize, precision: usize| {
        schema(&format!(
            r#"{{"type": "fixed", "name": "F", "size": {size}, "logicalType": "decimal", "precision": {precision}}}"#
        ))
    };
    // As many digits as any number of two's complement has.
    for (size, most) in [(1, 2), (2, 4), (4, 9), (8, 18), (16, 38)] {
        let kind = |precision| format!("{:?}", of(size, precision).get(0));
        assert!(kind(most).contains("Decimal("), "{size}");
        assert!(kind(most + 1).contains("Plain"), "{size}");
    }
    assert!(format!("{:?}", of(0, 1).get(0)).contains("Plain"));
}

#[test]
fn whole_decimals_of_64_bits_are_unsigned_numbers() {
    let text = r#"{"type": "bytes", "logicalType": "decimal", "precision": 30}"#;
    for value in [0, 1 << 63, u64::MAX] {
        back(text, value);
    }
    assert!(decoded::<u64>(text, &encoded(text, &(1_i128 << 64))).is_err());
    assert!(decoded::<i64>(text, &encoded(text, &(1_i128 << 63))).is_err());
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Link {
    next: Option<Box<Link>>,
}

const LINK: &str =
    r#"{"type": "record", "name": "Link", "fields": [{"name": "next", "type": ["null", "Link"]}]}"#;

fn chain(length: usize) -> Link {
    (1..length).fold(Link::default(), |link, _| Link { next: Some(Box::new(link)) })
}

#[test]
fn the_same_depth_is_written_read_and_skipped() {
    let bytes = encoded(LINK, &chain(128));
    assert_eq!(decoded::<Link>(LINK, &bytes), Ok(chain(128)));
    decoded::<IgnoredAny>(LINK, &bytes).unwrap();
    assert!(unencoded(LINK, &chain(129)).contains("nested too deeply"));
    let deeper = [&[2][..], &bytes].concat();
    assert!(decoded::<Link>(LINK, &deeper).unwrap_err().contains("nested too deeply"));
    assert!(decoded::<IgnoredAny>(LINK, &deeper).unwrap_err().contains("nested too deeply"));
    // Far beyond, nothing exhausts the stack, and nothing is written of it.
    assert!(unencoded(LINK, &chain(5000)).contains("nested too deeply"));
}

/// Schemas of records that each have the one before as all of these fields.
fn tower(first: &str, fields: usize, height: usize) -> Vec<String> {
    let record = |at: usize, kind: &str| {
        let fields: Vec<_> =
            (0..fields).map(|f| format!(r#"{{"name": "f{f}", "type": "{kind}"}}"#)).collect();
        format!(r#"{{"type": "record", "name": "R{at}", "fields": [{}]}}"#, fields.join(","))
    };
    let rest = (1..height).map(|at| record(at, &format!("R{}", at - 1)));
    std::iter::once(record(0, first)).chain(rest).collect()
}

#[test]
fn records_that_have_others_twice_are_planned_at_once() {
    for first in ["null", "int"] {
        let others = tower(first, 2, 60);
        let text = r#"{"type": "array", "items": "R59"}"#;
        let parsed = Schema::parse(text, &others).unwrap();
        for plan in [Plan::of(&parsed), Plan::between(&parsed, &parsed).unwrap()] {
            // One item.
            let skipped = decode::<IgnoredAny>(&plan, &[2, 0]);
            assert_eq!(skipped.is_ok(), first == "null");
            assert!(decode::<serde_json::Value>(&plan, &[2, 0]).is_err());
        }
    }
}

#[test]
fn names_may_nest_schemas_without_end() {
    let height = 20_000;
    let others = tower("int", 1, height);
    let text = format!(r#""R{}""#, height - 1);
    let parsed = Schema::parse(&text, &others).unwrap();
    let plan = Plan::between(&parsed, &parsed).unwrap();
    let error = decode::<IgnoredAny>(&plan, &[0]).unwrap_err().to_string();
    assert!(error.contains("nested too deeply"), "{error}");
    let reader = Schema::parse(&text, &tower("string", 1, height)).unwrap();
    let error = Plan::between(&parsed, &reader).unwrap_err().to_string();
    assert!(error.ends_with("the writer's int cannot be read as string"));
    assert!(error.starts_with("field `f0.f0.f0."));
}

#[test]
fn values_without_bytes_are_counted_in_the_whole_record() {
    let text = r#"{"type": "array", "items": {"type": "array", "items": {"type": "array", "items": "null"}}}"#;
    let mut inner = Vec::new();
    write_long(&mut inner, 1 << 18);
    inner.push(0);
    let of = |count: i64| {
        let mut bytes = Vec::new();
        write_long(&mut bytes, 1);
        write_long(&mut bytes, count);
        bytes.extend(inner.repeat(count as usize));
        bytes.extend([0, 0]);
        bytes
    };
    decoded::<IgnoredAny>(text, &of(4)).unwrap();
    decoded::<Vec<Vec<Vec<()>>>>(text, &of(4)).unwrap();
    let error = decoded::<IgnoredAny>(text, &of(5)).unwrap_err();
    assert!(error.contains("too large"), "{error}");
    let error = decoded::<Vec<Vec<Vec<()>>>>(text, &of(5)).unwrap_err();
    assert!(error.contains("too large"), "{error}");
}

#[test]
fn branches_without_bytes_are_no_more_than_their_numbers() {
    let text =
        r#"{"type": "array", "items": ["null", {"type": "record", "name": "E", "fields": []}]}"#;
    let mut bytes = Vec::new();
    write_long(&mut bytes, 5 << 18);
    bytes.extend(std::iter::repeat_n(2, 5 << 18));
    bytes.push(0);
    decoded::<IgnoredAny>(text, &bytes).unwrap();
    assert_eq!(decoded::<Vec<BTreeMap<(), ()>>>(text, &bytes).unwrap().len(), 5 << 18);
}

#[test]
fn defaults_without_end_are_errors_only_where_they_are_needed() {
    let mut others: Vec<String> = vec![
        r#"{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int", "default": 1}]}"#
            .into(),
    ];
    for at in 1..60 {
        let fields = ["a", "b"]
            .map(|name| format!(r#"{{"name": "{name}", "type": "R{}", "default": {{}}}}"#, at - 1));
        others.push(format!(
            r#"{{"type": "record", "name": "R{at}", "fields": [{}]}}"#,
            fields.join(",")
        ));
    }
    let text = r#"{"type": "record", "name": "T", "fields": [
        {"name": "large", "type": "R59", "default": {}}, {"name": "y", "type": "int"}]}"#;
    let reader = Schema::parse(text, &others).unwrap();
    let writer =
        schema(r#"{"type": "record", "name": "T", "fields": [{"name": "y", "type": "int"}]}"#);
    let error = Plan::between(&writer, &reader).unwrap_err().to_string();
    assert!(error.contains("field `large`: the default is too large"), "{error}");
    // The other direction needs no default.
    Plan::between(&reader, &writer).unwrap();
    // One that refers to itself.
    let endless = r#"{"type": "record", "name": "E", "fields": [
        {"name": "a", "type": ["E", "null"], "default": {}}]}"#;
    schema(endless);
}

#[test]
fn large_defaults_are_cut_in_errors() {
    let json = format!("[{}1]", "1,".repeat(50_000));
    let reader = schema(&format!(
        r#"{{"type": "record", "name": "T", "fields": [{{"name": "y", "type": "int", "default": {json}}}]}}"#
    ));
    let writer = schema(r#"{"type": "record", "name": "T", "fields": []}"#);
    let error = Plan::between(&writer, &reader).unwrap_err().to_string();
    assert!(error.ends_with("the default of 50001 items is no int"), "{error}");
}

#[test]
fn fields_that_the_schema_lacks_may_be_skipped() {
    #[derive(Serialize)]
    struct R {
        a: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        b: Option<i32>,
    }
    let text = r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}"#;
    assert_eq!(encoded(text, &R { a: 1, b: None }), [2]);
    assert!(unencoded(text, &R { a: 1, b: Some(1) }).contains("has no field `b`"));
    let map = r#"{"type": "map", "values": "int"}"#;
    assert_eq!(
        decoded::<BTreeMap<String, i32>>(map, &encoded(map, &R { a: 1, b: None })),
        Ok(BTreeMap::from([("a".to_owned(), 1)]))
    );
}
