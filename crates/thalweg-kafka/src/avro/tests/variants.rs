//! Rust enums that are read of text and of Avro's enums, in unions whose branches are called like variants.

use super::super::de::decode;
use super::super::plan::Plan;
use super::{back, decoded, encoded, schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum ColumnType {
    Int,
    String,
    Bytes,
    Null,
}

const ALL: [ColumnType; 4] =
    [ColumnType::Int, ColumnType::String, ColumnType::Bytes, ColumnType::Null];

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Value {
    Null,
    String(String),
    Int(i32),
}

fn read<T: DeserializeOwned>(writer: &str, reader: &str, bytes: &[u8]) -> T {
    let plan = Plan::between(&schema(writer), &schema(reader)).unwrap();
    decode(&plan, bytes).unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn text_that_is_a_variant_counts_before_the_branch() {
    let optional = r#"["null", "string"]"#;
    let bytes = b"\x02\x06Int";
    assert_eq!(decoded::<Option<ColumnType>>(optional, bytes), Ok(Some(ColumnType::Int)));
    for value in ALL {
        back("string", value);
        back(r#"["string"]"#, value);
        back(r#"["null", "string", "long"]"#, value);
        if value != ColumnType::Null {
            back(optional, value);
            back(optional, Some(value));
            // A union of the reader alone, and of both.
            let written = encoded("string", &value);
            assert_eq!(read::<Option<ColumnType>>("string", optional, &written), Some(value));
            let written = encoded(optional, &value);
            assert_eq!(read::<Option<ColumnType>>(optional, optional, &written), Some(value));
        }
    }
}

#[test]
fn symbols_that_are_variants_count_before_the_branch() {
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    enum Paint {
        Color,
        Red,
        Null,
    }
    let of = r#"{"type": "enum", "name": "a.Color", "symbols": ["Red", "Null", "Color"]}"#;
    let optional = format!(r#"["null", {of}]"#);
    for value in [Paint::Red, Paint::Color, Paint::Null] {
        back(of, value);
        back(&optional, Some(value));
        back(&optional, value);
        let written = encoded(of, &value);
        assert_eq!(read::<Option<Paint>>(of, &optional, &written), Some(value));
    }
}

#[test]
fn text_in_a_branch_may_be_called_like_a_variant() {
    for text in ["String", "Int", "Null", "other"] {
        back(r#"["null", "string", "int"]"#, Value::String(text.to_owned()));
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Optional {
        Null,
        String(String),
    }
    for text in ["String", "Null", "other"] {
        back(r#"["null", "string"]"#, Optional::String(text.to_owned()));
    }
    back(r#"["null", "string"]"#, Optional::Null);
}

#[test]
fn what_cannot_be_told_apart_is_an_error() {
    // Written as text, and all branches are called like variants.
    let text = r#"["null", "string", "int"]"#;
    let error = decoded::<ColumnType>(text, &encoded(text, &ColumnType::Bytes)).unwrap_err();
    assert!(error.contains("`Bytes` may be a variant, or text"), "{error}");
    assert_eq!(decoded::<ColumnType>(text, &encoded(text, &ColumnType::String)), {
        Ok(ColumnType::String)
    });
}
