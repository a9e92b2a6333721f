//! Values against apache-avro, which shares no code with ours, and registries that misbehave.

#[cfg(feature = "avro-tls")]
mod encrypted;
mod evolution;
mod faults;
mod limits;
mod random;
mod variants;

use super::de::decode;
use super::plan::Plan;
use super::schema::Schema;
use super::ser::encode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

fn schema(text: &str) -> Schema {
    Schema::parse(text, &[]).unwrap_or_else(|fault| panic!("{fault} in {text}"))
}

fn encoded<T: Serialize>(text: &str, value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&schema(text), value, &mut out).unwrap_or_else(|fault| panic!("{fault}"));
    out
}

fn unencoded<T: Serialize>(text: &str, value: &T) -> String {
    encode(&schema(text), value, &mut Vec::new()).unwrap_err().to_string()
}

fn decoded<T: DeserializeOwned>(text: &str, bytes: &[u8]) -> Result<T, String> {
    decode(&Plan::of(&schema(text)), bytes).map_err(|fault| fault.to_string())
}

#[track_caller]
fn back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str, value: T) {
    assert_eq!(decoded::<T>(text, &encoded(text, &value)).as_ref(), Ok(&value));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Node {
    value: i32,
    next: Option<Box<Node>>,
}

const NODE: &str = r#"{"type": "record", "name": "Node", "namespace": "a.b", "fields": [
    {"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}]}"#;

#[test]
fn bytes_are_those_of_the_specification() {
    assert_eq!(encoded("\"long\"", &-64_i64), [0x7f]);
    assert_eq!(encoded("\"long\"", &64_i64), [0x80, 0x01]);
    assert_eq!(encoded("string", &"foo"), [6, b'f', b'o', b'o']);
    assert_eq!(encoded(r#"{"type": "array", "items": "long"}"#, &[3_i64, 27]), [4, 6, 54, 0]);
    assert_eq!(encoded(r#"["null", "string"]"#, &Some("a")), [2, 2, b'a']);
    assert_eq!(encoded(r#"["null", "string"]"#, &None::<&str>), [0]);
    let record = r#"{"type": "record", "name": "test", "fields": [
        {"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}"#;
    let value = BTreeMap::from([("a", "27"), ("b", "foo")]);
    assert!(unencoded(record, &value).starts_with("field `a`: text is no long"));
    #[derive(Serialize)]
    struct Test {
        b: &'static str,
        a: i64,
    }
    // In another order.
    assert_eq!(encoded(record, &Test { b: "foo", a: 27 }), [54, 6, b'f', b'o', b'o']);
}

#[test]
fn records_may_contain_themselves() {
    let last = Node { value: 2, next: None };
    back(NODE, Node { value: -1, next: Some(Box::new(last)) });
}

#[test]
fn nothing_exhausts_the_stack() {
    // Each node is `value: 0, next: 1`, without an end.
    let endless = [0, 2].repeat(100_000);
    let error = decoded::<Node>(NODE, &endless).unwrap_err();
    assert!(error.contains("nested too deeply"), "{error}");
    let error = decoded::<serde::de::IgnoredAny>(NODE, &endless).unwrap_err();
    assert!(error.contains("nested too deeply"), "{error}");
    let text =
        format!("{}\"int\"{}", "{\"type\":\"array\",\"items\":".repeat(200), "}".repeat(200));
    assert!(Schema::parse(&text, &[]).is_err());
}

#[test]
fn lists_that_are_too_long_are_refused() {
    for items in ["\"null\"", "\"int\""] {
        let text = format!(r#"{{"type": "array", "items": {items}}}"#);
        let mut bytes = Vec::new();
        super::schema::write_long(&mut bytes, i64::MAX);
        let error = decoded::<serde::de::IgnoredAny>(&text, &bytes).unwrap_err();
        assert!(error.contains("too large"), "{error}");
        let error = decoded::<Vec<Option<i32>>>(&text, &bytes).unwrap_err();
        assert!(error.contains("too large"), "{error}");
    }
    back(r#"{"type": "array", "items": "null"}"#, vec![(); 1000]);
}

#[test]
fn blocks_with_their_sizes_are_read_and_skipped() {
    // Two blocks: of two items in three bytes, and of one.
    let bytes = [3, 6, 2, 0x80, 1, 2, 4, 0];
    let text = r#"{"type": "array", "items": "long"}"#;
    assert_eq!(decoded::<Vec<i64>>(text, &bytes), Ok(vec![1, 64, 2]));
    decoded::<serde::de::IgnoredAny>(text, &bytes).unwrap();
    let error = decoded::<(i64, i64)>(text, &bytes).unwrap_err();
    assert!(error.contains("more items"), "{error}");
}

#[test]
fn whatever_is_cut_off_is_an_error() {
    let text = r#"{"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "string"}, {"name": "b", "type": "double"},
        {"name": "c", "type": {"type": "map", "values": "int"}}]}"#;
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct R {
        a: String,
        b: f64,
        c: BTreeMap<String, i32>,
    }
    let value = R { a: "text".into(), b: 0.5, c: BTreeMap::from([("k".into(), 300)]) };
    let bytes = encoded(text, &value);
    for length in 0..bytes.len() {
        assert!(decoded::<R>(text, &bytes[..length]).is_err(), "{length}");
    }
    assert_eq!(decoded::<R>(text, &bytes[..bytes.len() - 6]).unwrap_err(), {
        "field `c`: its bytes end too early"
    });
    let error = decoded::<R>(text, &[&bytes[..], &[7]].concat()).unwrap_err();
    assert_eq!(error, "1 bytes follow the value");
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Circle { radius: f64 },
    Square(Side),
    Long(i64),
    Color(Color),
    Null,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Side {
    side: f64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Color {
    Red,
    Blue,
}

#[test]
fn unions_are_rust_enums() {
    let text = r#"["null", "long",
        {"type": "enum", "name": "a.Color", "symbols": ["Blue", "Red"]},
        {"type": "record", "name": "a.Circle", "fields": [{"name": "radius", "type": "double"}]},
        {"type": "record", "name": "a.Square", "fields": [{"name": "side", "type": "double"}]}]"#;
    for shape in [
        Shape::Circle { radius: 1.5 },
        Shape::Square(Side { side: 2.0 }),
        Shape::Long(-7),
        Shape::Color(Color::Red),
        Shape::Null,
    ] {
        back(text, shape);
    }
}

#[test]
fn options_of_enums_are_enums() {
    let text = r#"["null", {"type": "enum", "name": "Color", "symbols": ["Blue", "Red"]}]"#;
    back(text, Some(Color::Red));
    back(text, None::<Color>);
    let error = decoded::<Color>(text, &[0]).unwrap_err();
    assert!(error.contains("null"), "{error}");
}

#[test]
fn decimals_are_text_or_bytes_or_numbers() {
    let bytes = r#"{"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}"#;
    let fixed = r#"{"type": "fixed", "name": "D", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}"#;
    for text in [bytes, fixed] {
        for value in ["12.50", "-0.01", "0.00", "-9999.99"] {
            back(text, value.to_owned());
        }
        assert_eq!(decoded::<f64>(text, &encoded(text, &"-2.50")), Ok(-2.5));
        assert_eq!(decoded::<String>(text, &encoded(text, &7)).as_deref(), Ok("7.00"));
        assert_eq!(decoded::<String>(text, &encoded(text, &1.5_f64)).as_deref(), Ok("1.50"));
        assert!(unencoded(text, &"1.005").contains("is no decimal of"));
    }
    assert_eq!(encoded(bytes, &"-0.01"), [2, 0xff]);
    assert_eq!(encoded(fixed, &"-0.01"), [0xff; 5]);
    assert_eq!(decoded::<Vec<u8>>(bytes, &[4, 4, 0xe2]), Ok(vec![4, 0xe2]));
    assert!(unencoded(bytes, &"12345.00").contains("is no decimal of 6 digits"));
    let whole = r#"{"type": "bytes", "logicalType": "decimal", "precision": 30}"#;
    back(whole, -(1_i128 << 80));
    back(whole, 12_u16);
}

#[test]
fn uuids_are_text() {
    let uuid = "0123e567-e89b-12d3-a456-426614174000".to_owned();
    let fixed = r#"{"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}"#;
    back(fixed, uuid.clone());
    back(r#"{"type": "string", "logicalType": "uuid"}"#, uuid.clone());
    assert_eq!(encoded(fixed, &uuid)[..3], [0x01, 0x23, 0xe5]);
    assert_eq!(decoded::<[u8; 16]>(fixed, &encoded(fixed, &uuid)).unwrap()[15], 0);
    assert!(unencoded(fixed, &"no").contains("is no UUID"));
}

#[test]
fn bytes_are_lists_of_bytes_too() {
    back("bytes", vec![0_u8, 127, 128, 255]);
    back(r#"{"type": "fixed", "name": "F", "size": 4}"#, [0_u8, 127, 128, 255]);
    assert!(unencoded("bytes", &[1, 256]).contains("bytes"));
    assert!(unencoded("bytes", &[-1]).contains("bytes"));
    assert!(
        unencoded(r#"{"type": "fixed", "name": "F", "size": 4}"#, &[0_u8; 3]).contains("3 bytes")
    );
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    assert!(unencoded("int", &(1_i64 << 31)).contains("does not fit"));
    assert!(unencoded("long", &u64::MAX).contains("does not fit"));
    assert!(unencoded("double", &((1_i64 << 53) + 1)).contains("does not fit"));
    assert!(decoded::<u32>("int", &[1]).is_err());
    assert!(decoded::<u8>("long", &encoded("long", &256)).is_err());
    assert_eq!(decoded::<u64>("long", &encoded("long", &u32::MAX)), Ok(u64::from(u32::MAX)));
    back("long", i64::MIN);
    back("long", i64::MAX);
    back("int", i32::MIN);
    let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
    assert!(decoded::<i64>("long", &too_large).unwrap_err().contains("64 bits"));
}

#[test]
fn fields_that_are_skipped_get_their_defaults() {
    let text = r#"{"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "int", "default": 5}, {"name": "b", "type": "string"},
        {"name": "c", "type": ["null", "long"], "default": null}]}"#;
    #[derive(Serialize)]
    struct R {
        #[serde(skip_serializing_if = "Option::is_none")]
        a: Option<i32>,
        b: &'static str,
    }
    assert_eq!(encoded(text, &R { a: None, b: "x" }), [10, 2, b'x', 0]);
    assert_eq!(encoded(text, &R { a: Some(1), b: "x" }), [2, 2, b'x', 0]);
    #[derive(Serialize)]
    struct Unknown {
        d: i32,
    }
    assert_eq!(unencoded(text, &Unknown { d: 1 }), "the schema's R has no field `d`");
    #[derive(Serialize)]
    struct Without {
        a: i32,
    }
    let expected = "field `b`: the value does not have it, and the schema has no default";
    assert_eq!(unencoded(text, &Without { a: 1 }), expected);
}

#[test]
fn text_is_borrowed_from_the_record() {
    #[derive(Deserialize)]
    struct R<'a> {
        a: &'a str,
        #[serde(borrow)]
        b: Option<&'a [u8]>,
    }
    let text = r#"{"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "string"}, {"name": "b", "type": ["null", "bytes"]}]}"#;
    let bytes = [2, b'x', 2, 2, 9];
    let plan = Plan::of(&schema(text));
    let value: R<'_> = decode(&plan, &bytes).unwrap();
    assert_eq!((value.a, value.b), ("x", Some(&[9][..])));
    assert!(std::ptr::eq(value.a.as_ptr(), &raw const bytes[1]));
}

#[test]
fn schemas_that_are_none_say_why() {
    for (text, expected) in [
        ("{", "it is not JSON"),
        ("\"nothing\"", "`nothing` is no type"),
        (r#"{"type": "array"}"#, "there is no `items` of the array"),
        (r#"{"name": "R"}"#, "there is no `type` in"),
        (r#"[["null"]]"#, "a union is directly within a union"),
        (r#"{"type": "record", "fields": []}"#, "has no name"),
        (
            r#"{"type": "record", "name": "R", "fields": [{"name": "f", "type": "x"}]}"#,
            "field `f`: `x`",
        ),
    ] {
        let fault = Schema::parse(text, &[]).unwrap_err().to_string();
        assert!(fault.contains(expected), "{fault}");
    }
}
