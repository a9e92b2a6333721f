//! Hostile schemas and hostile bytes in Avro: refused with a reason or read, without a panic, an exhausted stack, and more
//! memory or time than the bytes are worth. A value is skipped as far as it is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

// By their files: the crate around them has a client in C, and what is fuzzed knows nothing of it.
#[allow(dead_code)]
#[path = "../../../crates/thalweg-kafka/src/avro/de.rs"]
mod de;
#[allow(dead_code)]
#[path = "../../../crates/thalweg-kafka/src/avro/decimal.rs"]
mod decimal;
#[allow(dead_code)]
#[path = "../../../crates/thalweg-kafka/src/avro/fault.rs"]
mod fault;
#[allow(dead_code)]
#[path = "../../../crates/thalweg-kafka/src/avro/plan.rs"]
mod plan;
#[allow(dead_code)]
#[path = "../../../crates/thalweg-kafka/src/avro/schema.rs"]
mod schema;

use de::decode;
use plan::Plan;
use schema::Schema;

/// What a program may want of a record: each kind of value is read by a way of its own.
#[derive(Deserialize)]
#[allow(dead_code)]
struct Wanted<'a> {
    #[serde(borrow)]
    text: Option<&'a str>,
    #[serde(default)]
    bytes: Vec<u8>,
    #[serde(default)]
    number: Option<u16>,
    #[serde(default)]
    float: Option<f32>,
    #[serde(default)]
    choice: Option<Choice>,
    #[serde(default)]
    list: Vec<Choice>,
    #[serde(default)]
    map: BTreeMap<String, Vec<()>>,
    #[serde(default)]
    next: Option<Box<Wanted<'a>>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
enum Choice {
    Null,
    Int(i32),
    String(String),
    Fixed([u8; 2]),
    A { a: i64 },
}

fuzz_target!(|bytes: &[u8]| {
    // A line with the writer's schema, one with the reader's, and a value.
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (Ok(writer), Ok(reader), bytes) = (str::from_utf8(part()), str::from_utf8(part()), part())
    else {
        return;
    };
    let Ok(writer) = Schema::parse(writer, &[]) else { return };
    let own = Plan::of(&writer);
    read(&own, bytes);
    if let Ok(reader) = Schema::parse(reader, &[])
        && let Ok(plan) = Plan::between(&writer, &reader)
    {
        read(&plan, bytes);
        // What can be skipped as it was written can be skipped as what the reader wants, but for what the reader has not.
        if decode::<IgnoredAny>(&plan, bytes).is_ok() {
            decode::<IgnoredAny>(&own, bytes).expect("the writer's own plan skips it");
        }
    }
});

fn read(plan: &Plan, bytes: &[u8]) {
    let _ = decode::<IgnoredAny>(plan, bytes);
    let _ = decode::<serde_json::Value>(plan, bytes);
    let _ = decode::<Wanted<'_>>(plan, bytes);
    let _ = decode::<Vec<Wanted<'_>>>(plan, bytes);
    let _ = decode::<Choice>(plan, bytes);
}
