//! How fast Avro is decoded and encoded, beside JSON of the same records and apache-avro: `cargo bench -p thalweg-kafka --features avro
//! --bench avro`.
//!
//! Rounds alternate, on one thread. What is shown is nanoseconds a record, and the ratio to ours in the same round: median, least and
//! greatest.

use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::writer::datum::GenericDatumWriter;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Instant;
use thalweg_kafka::SchemaRegistry;

const SCHEMA: &str = r#"{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": "string"},
    {"name": "product", "type": "string"},
    {"name": "quantity", "type": "int"},
    {"name": "price", "type": "double"},
    {"name": "express", "type": "boolean"},
    {"name": "note", "type": ["null", "string"], "default": null},
    {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "address", "type": {"type": "record", "name": "Address", "fields": [
        {"name": "street", "type": "string"}, {"name": "town", "type": "string"}, {"name": "code", "type": "int"}]}},
    {"name": "tags", "type": {"type": "array", "items": "string"}}]}"#;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: i64,
    customer: String,
    product: String,
    quantity: i32,
    price: f64,
    express: bool,
    note: Option<String>,
    placed_at: i64,
    address: Address,
    tags: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Address {
    street: String,
    town: String,
    code: i32,
}

/// With text that is borrowed from the record.
#[derive(Deserialize)]
struct Borrowed<'a> {
    id: i64,
    customer: &'a str,
    product: &'a str,
}

const RECORDS: i64 = 20_000;
const ROUNDS: usize = 15;

fn main() {
    let orders: Vec<_> = (0..RECORDS).map(order).collect();
    let registry = SchemaRegistry::new([registry()]);
    let encoder = registry.encoder("orders", SCHEMA).expect("a schema");
    let (plain, resolved) = (registry.decoder(), registry.decoder_as(SCHEMA));
    let (plain, resolved) = (plain.expect("settings"), resolved.expect("a schema"));
    let schema = apache_avro::Schema::parse_str(SCHEMA).expect("a schema");
    let reader = GenericDatumReader::builder(&schema).build().expect("a schema");
    let writer = GenericDatumWriter::builder(&schema).build().expect("a schema");
    let encode = |order: &Order| {
        let mut out = Vec::new();
        encoder.encode(order, &mut out).expect("it fits");
        out
    };
    let avro: Vec<_> = orders.iter().map(encode).collect();
    let json: Vec<_> =
        orders.iter().map(|order| serde_json::to_vec(order).expect("it fits")).collect();
    let size = |all: &[Vec<u8>]| all.iter().map(Vec::len).sum::<usize>() / all.len();
    println!("{} bytes of Avro a record, {} of JSON", size(&avro), size(&json));
    let tree = |bytes: &[u8]| -> Order {
        let value = reader.read_value(&mut &bytes[5..]).expect("it is one");
        apache_avro::from_value(&value).expect("it fits")
    };
    assert_eq!(tree(&avro[7]), orders[7]);
    compare(
        "decode",
        &orders,
        &[
            ("ours", &|at| drop(black_box(plain.decode::<Order>(&avro[at]).expect("it is one")))),
            ("ours, reader's schema", &|at| {
                drop(black_box(resolved.decode::<Order>(&avro[at]).expect("it is one")))
            }),
            ("ours, three fields borrowed", &|at| {
                let order = plain.decode::<Borrowed<'_>>(&avro[at]).expect("it is one");
                black_box((order.id, order.customer, order.product));
            }),
            ("JSON", &|at| {
                drop(black_box(serde_json::from_slice::<Order>(&json[at]).expect("it is one")))
            }),
            ("apache-avro, a tree of values", &|at| drop(black_box(tree(&avro[at])))),
            ("apache-avro, serde directly", &|at| {
                drop(black_box(
                    reader.read_deser::<Order>(&mut &avro[at][5..]).expect("it is one"),
                ));
            }),
        ],
    );
    compare(
        "encode",
        &orders,
        &[
            ("ours", &|at| drop(black_box(encode(&orders[at])))),
            ("JSON", &|at| drop(black_box(serde_json::to_vec(&orders[at]).expect("it fits")))),
            ("apache-avro", &|at| {
                drop(black_box(writer.write_ser_to_vec(&orders[at]).expect("it fits")))
            }),
        ],
    );
}

type Contestant<'a> = (&'a str, &'a dyn Fn(usize));

fn compare(what: &str, orders: &[Order], contestants: &[Contestant<'_>]) {
    let mut times = vec![Vec::new(); contestants.len()];
    for round in 0..=ROUNDS {
        for turn in 0..contestants.len() {
            let turn = (turn + round) % contestants.len();
            let begun = Instant::now();
            (0..orders.len()).for_each(contestants[turn].1);
            let each = begun.elapsed().as_secs_f64() * 1e9 / orders.len() as f64;
            if round > 0 {
                times[turn].push(each);
            }
        }
    }
    for ((name, _), found) in contestants.iter().zip(&times) {
        let mut ratios: Vec<_> =
            found.iter().zip(&times[0]).map(|(one, ours)| one / ours).collect();
        ratios.sort_by(f64::total_cmp);
        let mut found = found.clone();
        found.sort_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ROUNDS - 1]);
        println!(
            "{what}, {name}: {:.0} ns, {:.2} ({least:.2} .. {most:.2})",
            found[ROUNDS / 2],
            ratios[ROUNDS / 2]
        );
    }
}

fn order(id: i64) -> Order {
    Order {
        id: id * 7_919,
        customer: format!("customer-{}", id % 1_000),
        product: format!("product {}", id % 300),
        quantity: (id % 9) as i32 + 1,
        price: (id % 10_000) as f64 / 100.0,
        express: id % 3 == 0,
        note: (id % 4 == 0).then(|| "please ring twice".to_owned()),
        placed_at: 1_700_000_000_000 + id,
        address: Address {
            street: format!("{} High Street", id % 200),
            town: "Ambleside".into(),
            code: 10_000 + (id % 5_000) as i32,
        },
        tags: (0..id % 4).map(|tag| format!("tag-{tag}")).collect(),
    }
}

/// The address of a registry that has one schema.
fn registry() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        let body = serde_json::json!({ "id": 1, "schema": SCHEMA }).to_string();
        for connection in listener.incoming() {
            let mut connection = connection.expect("a client");
            let _ = connection.read(&mut [0; 65_536]);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            connection.write_all((head + &body).as_bytes()).expect("it reads");
        }
    });
    url
}
