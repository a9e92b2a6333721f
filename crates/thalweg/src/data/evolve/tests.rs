//! Tests of migrations: types of two versions of a program, and their schemas alone.

mod model;
mod random;

use super::*;
use crate::Data;
use crate::check::cases;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;

fn encoded<T: Data>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

/// The value as one of another type, and what has changed.
#[track_caller]
fn migrated<A: Data, B: Data>(value: &A) -> (B, Vec<String>) {
    let migration = Migration::find(&A::schema(), &B::schema(), false).unwrap();
    let (bytes, mut out) = (encoded(value), Vec::new());
    let mut rest = &*bytes;
    migration.apply(&mut rest, &mut out).unwrap();
    assert!(rest.is_empty());
    // Cut off anywhere, or at some hundred places of a long value.
    for length in (0..bytes.len()).step_by(1 + bytes.len() / 100) {
        assert!(migration.apply(&mut &bytes[..length], &mut Vec::new()).is_err(), "{length} bytes");
    }
    let mut out = &*out;
    let value = B::decode(&mut out).unwrap();
    assert!(out.is_empty());
    (value, migration.changes().to_vec())
}

#[track_caller]
fn becomes<A: Data, B: Data + PartialEq + Debug>(value: A, expected: B, changes: &[&str]) {
    let (found, noted) = migrated::<A, B>(&value);
    assert_eq!(found, expected);
    assert_eq!(noted, changes);
}

#[track_caller]
fn refused<A: Data, B: Data>(why: &str) {
    let error = Migration::find(&A::schema(), &B::schema(), false).unwrap_err();
    assert!(error.contains(why), "{error}");
}

/// The types of a program and those of its next version have the same names.
mod old {
    use super::*;

    #[derive(Data)]
    pub struct Count {
        pub word: String,
        pub times: u32,
        pub seen: bool,
        pub at: (u8, f32),
    }

    #[derive(Data)]
    pub enum Event {
        Click { page: String },
        Tick(u16),
        Reset,
    }

    #[derive(Data)]
    pub struct Tree {
        pub value: u16,
        pub children: Vec<Tree>,
    }
}

mod new {
    use super::*;

    #[derive(Data, Debug, PartialEq)]
    pub struct Count {
        pub at: (i16, f64),
        #[data(default = 7)]
        pub first: i64,
        #[data(alias = "word")]
        pub text: String,
        pub times: u64,
        #[data(default)]
        pub tags: Vec<String>,
    }

    #[derive(Data, Debug, PartialEq)]
    pub enum Event {
        #[data(alias = "Reset")]
        Cleared,
        Touch,
        Click {
            page: String,
            #[data(default)]
            shown: Option<u8>,
        },
        Tick(u32),
    }

    #[derive(Data, Debug, PartialEq)]
    pub struct Tree {
        pub children: Vec<Tree>,
        pub value: Option<u32>,
    }
}

#[test]
fn fields_are_added_dropped_moved_renamed_and_widened() {
    let old = old::Count { word: "river".to_owned(), times: 3, seen: true, at: (200, 0.5) };
    let new =
        new::Count { at: (200, 0.5), first: 7, text: "river".to_owned(), times: 3, tags: vec![] };
    let changes = [
        "`Count.times` becomes a u64, from u32",
        "`Count.seen` is dropped",
        "`Count.at` becomes a i16, from u8",
        "`Count.at` becomes a f64, from f32",
        "`Count.first` is added, with its default",
        "`Count.text` was called `word`",
        "`Count.tags` is added, with its default",
        "`Count` has its fields in another order",
    ];
    becomes(old, new, &changes);
}

#[test]
fn variants_are_added_moved_and_renamed() {
    let changes = [
        "`Event` has a new variant `Touch`",
        "`Event` has its variant `Click` in another place",
        "`Event.Click.shown` is added, with its default",
        "`Event` has its variant `Tick` in another place",
        "`Event.Tick` becomes a u32, from u16",
        "`Event` has a variant `Cleared`, formerly `Reset`",
        "`Event` has its variant `Cleared` in another place",
    ];
    let page = || "a".to_owned();
    becomes(
        old::Event::Click { page: page() },
        new::Event::Click { page: page(), shown: None },
        &changes,
    );
    becomes(old::Event::Tick(9), new::Event::Tick(9), &changes);
    becomes(old::Event::Reset, new::Event::Cleared, &changes);
    refused::<new::Event, old::Event>("`Event` has no variant");
}

#[test]
fn types_that_contain_themselves_change_at_every_depth() {
    let leaf = |value| old::Tree { value, children: vec![] };
    let tree = old::Tree {
        value: 1,
        children: vec![leaf(2), old::Tree { value: 3, children: vec![leaf(4)] }],
    };
    let leaf = |value| new::Tree { value: Some(value), children: vec![] };
    let children = vec![leaf(2), new::Tree { value: Some(3), children: vec![leaf(4)] }];
    let changes = [
        "`Tree.value` becomes optional",
        "`Tree.value` becomes a u32, from u16",
        "`Tree` has its fields in another order",
    ];
    becomes(tree, new::Tree { value: Some(1), children }, &changes);
}

#[test]
fn collections_change_with_their_items() {
    becomes(vec![1_u8 as i8, -1], vec![1_i64, -1], &["the value becomes a i64, from i8"]);
    becomes(
        BTreeMap::from([(-5_i16, 1_u8), (3, 2)]),
        BTreeMap::from([(-5_i32, 1_u16), (3, 2)]),
        &["the value becomes a i32, from i16", "the value becomes a u16, from u8"],
    );
    becomes(
        BTreeSet::from([1_u8, 255]),
        BTreeSet::from([1_u32, 255]),
        &["the value becomes a u32, from u8"],
    );
    becomes([1_u8, 2], [1_u64, 2], &["the value becomes a u64, from u8"]);
    becomes(Some(i8::MIN), Some(i128::from(i8::MIN)), &["the value becomes a i128, from i8"]);
    becomes(u8::MAX, i16::from(u8::MAX), &["the value becomes a i16, from u8"]);
}

#[test]
fn what_would_lose_something_is_refused_with_its_place() {
    refused::<u64, u32>("the value was `u64`, which is not always a `u32`");
    refused::<i8, u64>("which is not always");
    refused::<u64, i64>("which is not always");
    refused::<Option<u8>, u8>("was `u8?`, and is `u8`");
    refused::<String, Vec<u8>>("was `str`, and is `bytes`");
    refused::<[u8; 2], [u8; 3]>("and is");
    refused::<(u8, u8), (u8,)>("and is");
    refused::<new::Count, old::Count>("`Count.at` was `i16`, which is not always a `u8`");

    #[derive(Data)]
    struct Lacking {
        other: u8,
    }
    mod later {
        #[derive(crate::Data)]
        pub struct Lacking {
            pub fresh: u8,
        }
        #[derive(crate::Data)]
        pub struct Other {
            pub other: u8,
        }
        #[derive(crate::Data, Debug, PartialEq)]
        #[data(alias = "Lacking")]
        pub struct Renamed {
            pub other: u8,
        }
    }
    refused::<Lacking, later::Lacking>("`Lacking.fresh` is new, and has no default");
    refused::<Lacking, later::Other>("was a `Lacking`, and is a `Other`");
    let changes = ["the value is a `Renamed`, formerly `Lacking`"];
    becomes(Lacking { other: 3 }, later::Renamed { other: 3 }, &changes);
}

#[test]
fn aliases_that_compete_are_refused() {
    #[derive(Data)]
    struct Totals {
        total: u64,
        cents: u64,
    }
    mod onto_another {
        #[derive(crate::Data)]
        pub struct Totals {
            #[data(alias = "cents")]
            pub total: u64,
        }
    }
    mod chain {
        #[derive(crate::Data)]
        pub struct Totals {
            #[data(alias = "total")]
            pub cents: u64,
            #[data(alias = "cents", default)]
            pub all: u64,
        }
    }
    mod again {
        #[derive(crate::Data)]
        pub struct Totals {
            #[data(alias = "total", default)]
            pub sum: u64,
            pub total: u64,
        }
    }
    mod both {
        #[derive(crate::Data)]
        pub struct Totals {
            #[data(alias = "total", alias = "cents")]
            pub all: u64,
        }
    }
    refused::<Totals, onto_another::Totals>("had both `cents` and `total`");
    refused::<Totals, chain::Totals>("had both `total` and `cents`");
    refused::<Totals, again::Totals>("has both `total` and `sum` with the alias `total`");
    refused::<Totals, both::Totals>("had both `total` and `cents`");
}

#[test]
fn maps_and_sets_are_in_the_order_of_their_new_encodings() {
    mod first {
        #[derive(crate::Data, PartialEq, Eq, Hash)]
        pub struct Host {
            pub name: String,
            pub port: u16,
        }
        #[derive(crate::Data, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            One,
            Other(u8),
        }
    }
    mod later {
        #[derive(crate::Data, PartialEq, Eq, Hash, Debug)]
        pub struct Host {
            pub port: u16,
            pub name: String,
        }
        #[derive(crate::Data, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Kind {
            Other(u8),
            One,
        }
        #[derive(crate::Data, PartialEq, Eq, Hash, Debug)]
        pub struct Less {
            pub port: u16,
        }
    }
    let pairs = || (0..50_u16).map(|n| (format!("{}", n * 19 % 50), 1000 - n * 13));
    let old: HashMap<_, _> =
        pairs().map(|(name, port)| (first::Host { name, port }, port)).collect();
    let new: HashMap<_, _> =
        pairs().map(|(name, port)| (later::Host { port, name }, u32::from(port))).collect();
    let changes = ["`Host` has its fields in another order", "the value becomes a u32, from u16"];
    becomes(old, new, &changes);
    let old = BTreeSet::from([first::Kind::One, first::Kind::Other(0), first::Kind::Other(7)]);
    let new = BTreeSet::from([later::Kind::One, later::Kind::Other(0), later::Kind::Other(7)]);
    assert_eq!(migrated::<_, BTreeSet<later::Kind>>(&old).0, new);
    // Two hosts may have one port.
    let less = Schema::Set(Box::new(later::Less::schema().replaced(&|_| None)));
    let Schema::Struct { fields, .. } = later::Less::schema() else { panic!("it is a struct") };
    let named = Schema::Struct { name: "Host".to_owned(), fields, evolution: Evolution::default() };
    let error =
        Migration::find(&HashSet::<first::Host>::schema(), &Schema::Set(Box::new(named)), false);
    assert!(error.unwrap_err().contains("could become one"));
    assert!(Migration::find(&HashSet::<first::Host>::schema(), &less, false).is_err());
}

#[test]
fn values_may_be_as_deep_as_they_are_decoded() {
    #[derive(Data, Debug, PartialEq)]
    enum Chain {
        End,
        Link { value: (u8, Option<u8>), next: Box<Chain> },
    }
    let deep = |depth: u8| {
        (0..depth).fold(Chain::End, |next, at| Chain::Link {
            value: (at, Some(at)),
            next: Box::new(next),
        })
    };
    becomes(deep(250), deep(250), &[]);
    let bytes = encoded(&deep(255));
    let is_decoded = Chain::decode(&mut &*bytes).is_ok();
    let same = Migration::find(&Chain::schema(), &Chain::schema(), false).unwrap();
    assert!(!is_decoded || same.apply(&mut &*bytes, &mut Vec::new()).is_ok());
    // Showing them needs more of the stack, and has a limit of its own.
    assert!(crate::data::to_json(&Chain::schema(), &mut &*bytes).is_err());
    assert!(crate::data::to_json(&Chain::schema(), &mut &*encoded(&deep(60))).is_ok());
}

#[test]
fn recursive_types_are_dropped_renamed_and_made_optional() {
    mod later {
        #[derive(crate::Data, Debug, PartialEq)]
        #[data(alias = "Tree")]
        pub struct Leaf {
            pub value: u16,
        }
        #[derive(crate::Data, Debug, PartialEq)]
        pub struct Pair {
            pub left: Option<Box<Pair>>,
            pub right: Vec<Pair>,
        }
    }
    #[derive(Data)]
    struct Pair {
        left: Vec<Pair>,
        right: Vec<Pair>,
    }
    let leaf = |value| old::Tree { value, children: vec![] };
    let tree = old::Tree { value: 1, children: vec![leaf(2), leaf(3)] };
    let changes = ["the value is a `Leaf`, formerly `Tree`", "`Leaf.children` is dropped"];
    becomes(tree, later::Leaf { value: 1 }, &changes);
    refused::<Pair, later::Pair>("`Pair.left` was");
}

#[test]
fn defaults_are_expressions_of_any_kind() {
    mod later {
        #[derive(crate::Data, Debug, PartialEq)]
        pub struct Settings {
            pub size: u8,
            #[data(default = 60 * 60)]
            pub seconds: u64,
            #[data(default = u64::from(3_u8) as usize)]
            pub count: usize,
            #[data(default = 1 == 1)]
            pub on: bool,
        }
    }
    #[derive(Data)]
    struct Settings {
        size: u8,
    }
    let new = later::Settings { size: 7, seconds: 3600, count: 3, on: true };
    assert_eq!(migrated::<_, later::Settings>(&Settings { size: 7 }).0, new);
}

#[test]
fn lists_without_bytes_are_bounded() {
    #[derive(Data)]
    struct Nothing {}
    let schema = Vec::<Nothing>::schema();
    let mut bytes = Vec::new();
    crate::data::derive_support::write_varint(1 << 60, &mut bytes);
    let migration = |to| Migration::find(&schema, &to, false).unwrap();
    let mut out = Vec::new();
    migration(Vec::<Nothing>::schema()).apply(&mut &*bytes, &mut out).unwrap();
    assert_eq!(out, bytes);
    assert!(migration(Vec::<Option<Nothing>>::schema()).apply(&mut &*bytes, &mut out).is_err());
    let shown = crate::data::to_json(&schema, &mut &*bytes).unwrap();
    assert_eq!(shown, "1152921504606846976 elements without bytes");
}

#[test]
fn types_that_are_their_own_keys_drop_nothing() {
    mod later {
        #[derive(crate::Data, PartialEq, Eq, PartialOrd, Ord)]
        pub struct Node {
            pub peers: std::collections::BTreeSet<Node>,
        }
    }
    #[derive(Data, PartialEq, Eq, PartialOrd, Ord)]
    struct Node {
        peers: BTreeSet<Node>,
        name: u8,
    }
    refused::<Node, later::Node>("`Node.name` is dropped, and two keys");
}

/// What is in them grows with their numbers multiplied, and not with the bytes.
#[test]
fn lists_of_lists_without_bytes_are_bounded() {
    let array = |of| Schema::Array(Box::new(of), 60_000);
    let of = |item: Schema| array(array(array(array(item))));
    let find = |to: &Schema| Migration::find(&of(Schema::Unit), to, false).unwrap();
    let mut out = Vec::new();
    find(&of(Schema::Unit)).apply(&mut &[][..], &mut out).unwrap();
    assert!(out.is_empty());
    let optional = of(Schema::Option(Box::new(Schema::Unit)));
    assert!(find(&optional).apply(&mut &[][..], &mut out).is_err());
    let shown = crate::data::to_json(&of(Schema::Unit), &mut &[][..]).unwrap().to_string();
    assert!(shown.contains("60000 elements without bytes") && shown.len() < 1 << 20);
    // Each of a hundred thousand takes a few bytes.
    let inner = encoded(&vec![(); 60_000]);
    let mut bytes = Vec::new();
    crate::data::derive_support::write_varint(100_000, &mut bytes);
    bytes.extend(inner.repeat(100_000));
    let schema = Vec::<Vec<()>>::schema();
    let shown = crate::data::to_json(&schema, &mut &*bytes).unwrap();
    assert_eq!(shown[99_999], "60000 elements without bytes");
    // So do those of a hundred thousand entries, in all together.
    let migration = Migration::find(&schema, &Vec::<Vec<Option<()>>>::schema(), false).unwrap();
    let (mut grown, inner) = (0, encoded(&vec![vec![(); 60_000]]));
    let refused = (0..100_000).find(|_| {
        let mut out = Vec::new();
        let applied = migration.apply(&mut &*inner, &mut out);
        grown += out.len();
        applied.is_err()
    });
    assert!(refused.is_some() && grown < 1 << 29, "{grown}");
    // What elements consist of that have no bytes is not without end either.
    let parts = Schema::Tuple(vec![Schema::Unit; 1000]);
    let bytes = encoded(&vec![(); 60_000]);
    assert!(crate::data::to_json(&Schema::List(Box::new(parts)), &mut &*bytes).is_err());
    // Parts without bytes beside others are no such elements.
    let pairs = encoded(&vec![((), 7_u8); 70_000]);
    let shown = crate::data::to_json(&Vec::<((), u8)>::schema(), &mut &*pairs).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), 70_000);
    assert_eq!(shown[69_999].to_string(), "[null,7]");
}

#[test]
fn lists_of_elements_without_bytes_get_their_new_bytes() {
    becomes(vec![(), (), ()], vec![Some(()); 3], &["the value becomes optional"]);
    becomes(vec![(); 100_000], vec![Some(()); 100_000], &["the value becomes optional"]);
    becomes([(), ()], [Some(()); 2], &["the value becomes optional"]);
}

#[test]
fn two_fields_cannot_have_been_the_same() {
    #[derive(Data)]
    struct Pair {
        old: u32,
    }
    mod later {
        #[derive(crate::Data)]
        pub struct Pair {
            #[data(alias = "old")]
            pub one: u64,
            #[data(alias = "old")]
            pub other: u32,
        }
    }
    refused::<Pair, later::Pair>("`Pair` has `one` and `other`, which were both `old`");
}

#[test]
fn keys_keep_their_hash() {
    let by_key = |from: &Schema, to: &Schema| Migration::find(from, to, true);
    let find = |from, to| {
        by_key(&Schema::Tuple(vec![from, Schema::U8]), &Schema::Tuple(vec![to, Schema::U64]))
    };
    assert_eq!(find(Schema::U8, Schema::I64).unwrap().changes().len(), 2);
    assert_eq!(7_u8.key_hash(), 7_i64.key_hash());
    let error = find(<u8>::schema(), <Option<u8>>::schema()).unwrap_err();
    assert!(error.contains("would then be another one"), "{error}");
    let error = find(old::Count::schema(), new::Count::schema()).unwrap_err();
    assert!(error.contains("belongs to a key"), "{error}");
    assert!(find(<[u8; 2]>::schema(), <[u16; 2]>::schema()).is_err());
    assert_ne!(u64::MAX.key_hash(), i128::from(u64::MAX).key_hash());
    assert!(find(Schema::U64, Schema::I128).is_err());
    assert!(find(Schema::U64, Schema::U128).is_ok());
    assert!(find(old::Event::schema(), new::Event::schema()).is_err());
    assert!(find(old::Tree::schema(), old::Tree::schema()).is_ok());
}

proptest! {
    #![proptest_config(cases(64))]

    /// The same schema on both sides: the bytes are read to their end, and are the same.
    #[test]
    fn a_migration_to_the_same_type_changes_nothing(
        value in any::<(Vec<(u8, Option<String>)>, [i32; 3], BTreeMap<String, Vec<u8>>, Result<bool, char>, ())>(),
    ) {
        type Value = (Vec<(u8, Option<String>)>, [i32; 3], BTreeMap<String, Vec<u8>>, Result<bool, char>, ());
        let migration = Migration::find(&Value::schema(), &Value::schema(), true).unwrap();
        prop_assert!(migration.changes().is_empty());
        let (bytes, mut out) = (encoded(&value), Vec::new());
        migration.apply(&mut &*bytes, &mut out).unwrap();
        prop_assert_eq!(out, bytes);
    }

    #[test]
    fn widened_numbers_are_the_same_numbers(values in any::<Vec<(i8, u16, i32, f32, u64)>>()) {
        type Wide = Vec<(i64, u32, i128, f64, i128)>;
        let (found, _) = migrated::<_, Wide>(&values);
        for ((a, b, c, d, e), wide) in values.into_iter().zip(found) {
            prop_assert_eq!((a.into(), b.into(), c.into(), e.into()), (wide.0, wide.1, wide.2, wide.4));
            prop_assert_eq!(f64::from(d).to_bits(), wide.3.to_bits());
            prop_assert_eq!(a.key_hash(), wide.0.key_hash());
        }
    }
}
