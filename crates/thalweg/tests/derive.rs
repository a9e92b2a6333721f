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

/// Views of structs with strings.
mod views {
    use super::encoded;
    use thalweg::Data;
    use thalweg::data::{Batch, Portable, TextBatch, View, ViewOf, Viewable, Wire};

    /// All forms of fields, and names that the generated code uses itself.
    #[derive(Data, Debug, PartialEq, Clone)]
    struct Page {
        view: String,
        r#type: u64,
        out: Vec<u8>,
        each: Option<Box<Self>>,
    }

    #[derive(Data, Debug, PartialEq, Clone)]
    struct Line(u64, std::string::String);

    #[derive(Data, Debug, PartialEq, Clone)]
    struct Tagged<T, const N: usize>
    where
        T: Clone,
    {
        pub(crate) text: String,
        tags: [T; N],
    }

    /// Moving its fields out would be refused.
    #[derive(Data, Debug, PartialEq, Clone)]
    struct Dropped {
        text: String,
        number: u64,
    }

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.number = 0;
        }
    }

    #[derive(Data)]
    #[data(no_view)]
    struct WithoutView {
        text: String,
        numbers: Vec<u64>,
    }

    impl Drop for WithoutView {
        fn drop(&mut self) {
            self.numbers.clear();
        }
    }

    mod other {
        pub(super) struct Text<T>(pub(super) T);
        macro_rules! record {
            ($name:ident, $type:ty) => {
                #[derive(thalweg::Data, Debug, PartialEq, Clone)]
                pub struct $name {
                    pub text: $type,
                    pub(in crate::views::other) size: u8,
                }
            };
        }
        record!(Made, String);

        impl Text<Made> {
            pub(super) fn new(text: &str) -> Self {
                Self(Made { text: text.to_owned(), size: text.len() as u8 })
            }
        }
    }

    /// Records pass through their views, batches of columns, and both encodings.
    fn passes<T: Viewable + Clone + PartialEq + std::fmt::Debug>(records: &[T]) {
        let mut batch = <ViewOf<T> as Portable>::Batch::default();
        for round in 0..2 {
            let mut heap = 0;
            for record in records {
                record.clone().with_view(|view| {
                    let mut bytes = Vec::new();
                    <ViewOf<T> as Wire>::encode(&view, &mut bytes);
                    assert_eq!(bytes, encoded(record));
                    let decoded = <ViewOf<T> as Wire>::decode(&mut bytes.as_slice()).unwrap();
                    assert_eq!(&T::from_view(decoded), record);
                    for len in 0..bytes.len() {
                        assert!(<ViewOf<T> as Wire>::decode(&mut &bytes[..len]).is_err());
                    }
                    batch.push(view);
                });
                heap += batch.last_heap();
            }
            assert_eq!(batch.len(), records.len(), "{round}");
            assert!(heap > 0 && batch.bytes() > heap);
            let mut bytes = Vec::new();
            batch.encode_all(&mut bytes);
            let mut again = <ViewOf<T> as Portable>::Batch::default();
            let mut input = bytes.as_slice();
            again.decode_all(&mut input).unwrap();
            assert!(input.is_empty());
            for len in 0..bytes.len() {
                let mut cut = <ViewOf<T> as Portable>::Batch::default();
                assert!(cut.decode_all(&mut &bytes[..len]).is_err());
            }
            for batch in [&mut batch, &mut again] {
                let mut seen = Vec::new();
                batch.drain(|view| seen.push(<ViewOf<T> as Portable>::to_owned(view)));
                assert_eq!(seen, records);
                assert!(batch.is_empty());
            }
        }
    }

    #[test]
    fn records_pass_through_their_views() {
        let last = Page { view: "größer".into(), r#type: 3, out: vec![255, 0], each: None };
        let first =
            Page { view: String::new(), each: Some(Box::new(last.clone())), ..last.clone() };
        passes(&[first, last]);
        passes(&[Line(1, "a".into()), Line(2, String::new()), Line(3, "日本".into())]);
        passes(&[Tagged { text: "b".into(), tags: [Some(1_u8), None] }]);
        passes(&[Dropped { text: "c".into(), number: 4 }]);
        passes(&[other::Text::new("d").0, other::Text::new("").0]);
        let without = WithoutView { text: "e".into(), numbers: vec![1] };
        assert_eq!(
            <WithoutView as Data>::decode(&mut encoded(&without).as_slice()).unwrap().text,
            "e"
        );
    }

    #[test]
    fn columns_of_different_lengths_are_refused() {
        let mut ids = Vec::new();
        Batch::<u64>::encode_all(&vec![1_u64, 2], &mut ids);
        let mut texts = TextBatch::default();
        texts.push("one");
        texts.encode_all(&mut ids);
        let mut batch = <ViewOf<Line> as Portable>::Batch::default();
        let error = batch.decode_all(&mut ids.as_slice()).unwrap_err();
        assert_eq!(error.to_string(), "the bytes are not columns of one length");
    }

    #[test]
    fn a_view_of_strings_and_numbers_is_a_plain_value() {
        let line = View::<Line> { 0: 7, 1: "seven" };
        let copy = line;
        assert_eq!((line, format!("{copy:?}").as_str()), (copy, "LineView(7, \"seven\")"));
    }
}
