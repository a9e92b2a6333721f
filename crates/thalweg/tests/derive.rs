//! The derive macro over every form of type.

use std::marker::PhantomData;

use thalweg::Data;
use thalweg::data::{hash_u64, mix};

fn encoded<T: Data>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

#[track_caller]
fn golden<T: Data + PartialEq + std::fmt::Debug>(value: T, bytes: &[u8]) {
    assert_eq!(encoded(&value), bytes);
    let mut rest = bytes;
    assert_eq!(T::decode(&mut rest).unwrap(), value);
    assert!(rest.is_empty());
    for len in 0..bytes.len() {
        assert!(T::decode(&mut &bytes[..len]).is_err(), "{len} of {} bytes suffice", bytes.len());
    }
}

#[derive(Data, Debug, PartialEq)]
struct Named {
    // Names that the generated code uses itself.
    out: u8,
    input: String,
    r#type: Option<bool>,
    hash: u16,
}

#[derive(Data, Debug, PartialEq)]
struct Pair(u8, u16);

#[derive(Data, Debug, PartialEq)]
struct Id(u32);

#[derive(Data, Debug, PartialEq)]
struct Nothing;

#[derive(Data, Debug, PartialEq)]
struct Empty {}

#[derive(Data, Debug, PartialEq)]
struct Generic<T, U: Clone, const N: usize>
where
    U: PartialEq,
{
    one: T,
    many: Vec<U>,
    fixed: [T; N],
    phantom: PhantomData<U>,
}

#[derive(Data, Debug, PartialEq)]
enum Shape {
    Point,
    Circle(f32),
    Box { width: u8, height: u8 },
    Path(Vec<u8>, bool),
    Unit(),
}

#[derive(Data, Debug, PartialEq)]
enum Never {}

#[derive(Data, Debug, PartialEq)]
enum Tree {
    Leaf(u8),
    Node(Box<Tree>, Vec<Tree>),
}

#[test]
fn structs() {
    let value = Named { out: 1, input: "ab".into(), r#type: Some(true), hash: 258 };
    assert_eq!(value.heap_size(), value.input.heap_size());
    golden(value, &[1, 2, b'a', b'b', 1, 1, 2, 1]);
    golden(Pair(1, 2), &[1, 2, 0]);
    golden(Id(7), &[7, 0, 0, 0]);
    golden(Nothing, &[]);
    golden(Empty {}, &[]);
    let many = vec![String::from("x")];
    golden(
        Generic { one: 5_u8, many, fixed: [6, 7], phantom: PhantomData },
        &[5, 1, 1, b'x', 6, 7],
    );
}

#[test]
fn enums() {
    golden(Shape::Point, &[0]);
    golden(Shape::Circle(1.0), &[1, 0, 0, 128, 63]);
    golden(Shape::Box { width: 3, height: 4 }, &[2, 3, 4]);
    golden(Shape::Path(vec![9], false), &[3, 1, 9, 0]);
    golden(Shape::Unit(), &[4]);
    let error = Shape::decode(&mut [5].as_slice()).unwrap_err();
    assert_eq!(error.to_string(), "Shape has no variant 5");
    assert!(Never::decode(&mut [0].as_slice()).is_err());
    golden(Tree::Node(Box::new(Tree::Leaf(1)), vec![Tree::Leaf(2)]), &[1, 0, 1, 1, 0, 2]);
}

#[test]
fn hostile_depth_is_an_error() {
    let error = Tree::decode(&mut vec![1; 1 << 20].as_slice()).unwrap_err();
    assert_eq!(error.to_string(), "the value is nested more than 256 deep");
    // The levels are left again.
    assert!(Tree::decode(&mut [0, 1].as_slice()).is_ok());
}

#[test]
fn hashes_follow_the_structure() {
    assert_eq!(Id(7).key_hash(), 7_u64.key_hash());
    assert_eq!(Pair(1, 2).key_hash(), (1_u64, 2_u64).key_hash());
    assert_eq!(Pair(1, 2).key_hash(), mix(mix(0, hash_u64(1)), hash_u64(2)));
    assert_eq!(Shape::Point.key_hash(), hash_u64(0));
    assert_eq!(
        Shape::Box { width: 3, height: 4 }.key_hash(),
        mix(mix(hash_u64(2), hash_u64(3)), hash_u64(4))
    );
}

#[test]
fn schemas_name_what_is_held() {
    assert_eq!(
        Named::schema().to_string(),
        "Named { out: u8, input: str, type: bool?, hash: u16 }"
    );
    assert_eq!(Pair::schema().to_string(), "Pair { 0: u8, 1: u16 }");
    assert_eq!(Nothing::schema().to_string(), "Nothing");
    assert_eq!(
        Shape::schema().to_string(),
        "Shape <Point | Circle(f32) | Box { width: u8, height: u8 } | Path(bytes, bool) | Unit()>"
    );
    assert_eq!(Tree::schema().to_string(), "Tree <Leaf(u8) | Node(Tree, [Tree])>");
    // The name is only left out inside itself.
    assert_eq!(<(Tree, Tree)>::schema().to_string().matches("Tree <Leaf").count(), 2);
}
