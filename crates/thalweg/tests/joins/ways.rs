//! Every kind in every way, with few records.

use crate::oracle::{Kind, join};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg::check::check;
use thalweg::operators::join::StaticTable;
use thalweg::{Environment, Error, ErrorKind};

/// Shows each way to join to `$test`: its name, its kind, and a closure that makes a stream of rows of two keyed
/// streams. Every one is of a type of its own.
macro_rules! each_way {
    ($test:ident) => {
        each_way!($test, Inner, inner, |(l, r)| (Some(l), Some(r)));
        each_way!($test, Left, left, |(l, r)| (Some(l), r));
        each_way!($test, Right, right, |(l, r)| (l, Some(r)));
        each_way!($test, Full, full, |both| both);
        each_way!($test, Semi, semi, |l| (Some(l), None));
        each_way!($test, Anti, anti, |l| (Some(l), None));
        each_way!($test, Inner, inner, |(l, r)| (Some(l), Some(r)), broadcast_right());
        each_way!($test, Left, left, |(l, r)| (Some(l), r), broadcast_right());
        each_way!($test, Semi, semi, |l| (Some(l), None), broadcast_right());
        each_way!($test, Anti, anti, |l| (Some(l), None), broadcast_right());
        each_way!($test, Inner, inner, |(l, r)| (Some(l), Some(r)), broadcast_left());
        each_way!($test, Right, right, |(l, r)| (l, Some(r)), broadcast_left());
        each_way!($test, Inner, inner, |(l, r)| (Some(l), Some(r)), build_left());
        each_way!($test, Left, left, |(l, r)| (Some(l), r), build_left());
        each_way!($test, Right, right, |(l, r)| (l, Some(r)), build_left());
        each_way!($test, Full, full, |both| both, build_left());
        each_way!($test, Semi, semi, |l| (Some(l), None), build_left());
        each_way!($test, Anti, anti, |l| (Some(l), None), build_left());
        each_way!($test, Inner, inner, |(l, r)| (Some(l), Some(r)), sort_merge());
        each_way!($test, Left, left, |(l, r)| (Some(l), r), sort_merge());
        each_way!($test, Right, right, |(l, r)| (l, Some(r)), sort_merge());
        each_way!($test, Full, full, |both| both, sort_merge());
        each_way!($test, Semi, semi, |l| (Some(l), None), sort_merge());
        each_way!($test, Anti, anti, |l| (Some(l), None), sort_merge());
        each_way!($test, Inner, inner, |(l, r)| (Some(l), Some(r)), broadcast_right().sort_merge());
        each_way!($test, Left, left, |(l, r)| (Some(l), r), sort_merge().broadcast_right());
        each_way!($test, Semi, semi, |l| (Some(l), None), broadcast_right().sort_merge());
        each_way!($test, Anti, anti, |l| (Some(l), None), broadcast_right().sort_merge());
        each_way!($test, Inner, inner, |(l, r)| (Some(l), Some(r)), broadcast_left().sort_merge());
        each_way!($test, Right, right, |(l, r)| (l, Some(r)), sort_merge().broadcast_left());
        each_way!($test, Inner, inner, |(l, r)| (Some(l), Some(r)), symmetric());
    };
    ($test:ident, $kind:ident, $method:ident, $row:expr $(, $($how:ident()).+)?) => {
        $test!(
            concat!(stringify!($kind) $(, $(" ", stringify!($how)),+)?),
            $crate::oracle::Kind::$kind,
            |left, right| left.join_with(right)$($(.$how())+)?.$method().map(|_, made| $row(made))
        )
    };
}
pub(crate) use each_way;

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, ..ProptestConfig::default() })]

    #[test]
    fn every_way_is_a_nested_loop(
        left in prop::collection::vec((0..12u8, 0..1000u16), 0..60),
        right in prop::collection::vec((0..12u8, 0..1000i64), 0..60),
    ) {
        macro_rules! test {
            ($name:expr, $kind:expr, |$l:ident, $r:ident| $join:expr) => {{
                println!("{}", $name);
                check(|env| {
                    // Several tasks send, so that none of them has all records of a key.
                    let $l = env.iter(left.clone()).shuffle().keyed();
                    let $r = env.iter(right.clone()).shuffle().keyed();
                    $join
                })
                .seeds(3)
                .equals(join($kind, &left, &right));
            }};
        }
        each_way!(test);
    }
}

#[test]
fn a_side_without_records_and_one_with_many() {
    let many: Vec<(u32, u32)> = (0..3000).map(|n| (n % 300, n)).collect();
    let few = [(7u32, 'a'), (7, 'b'), (1000, 'c')];
    macro_rules! test {
        ($name:expr, $kind:expr, |$l:ident, $r:ident| $join:expr) => {{
            println!("{}", $name);
            check(|env| {
                let ($l, $r) = (env.iter(many.clone()).keyed(), env.iter(few).keyed());
                $join
            })
            .seeds(1)
            .equals(join($kind, &many, &few));
            check(|env| {
                let ($l, $r) = (env.iter(few).keyed(), env.iter(many.clone()).keyed());
                $join
            })
            .seeds(1)
            .equals(join($kind, &few, &many));
            let none: [(u32, char); 0] = [];
            check(|env| {
                let ($l, $r) = (env.iter(few).keyed(), env.iter(none).keyed());
                $join
            })
            .seeds(1)
            .equals(join($kind, &few, &none));
            check(|env| {
                let ($l, $r) = (env.iter(none).keyed(), env.iter(few).keyed());
                $join
            })
            .seeds(1)
            .equals(join($kind, &none, &few));
        }};
    }
    each_way!(test);
}

#[test]
fn keys_that_are_none_are_equal() {
    let left = [(None, 1), (Some("a".to_owned()), 2), (None, 3), (Some(String::new()), 4)];
    let right = [(None, 'x'), (Some("a".to_owned()), 'y'), (Some("b".to_owned()), 'z')];
    macro_rules! test {
        ($name:expr, $kind:expr, |$l:ident, $r:ident| $join:expr) => {{
            check(|env| {
                let ($l, $r) = (env.iter(left.clone()).keyed(), env.iter(right.clone()).keyed());
                $join
            })
            .seeds(1)
            .equals(join($kind, &left, &right));
        }};
    }
    each_way!(test);
}

#[test]
fn keys_by_reference_meet_owned_ones() {
    check(|env| {
        let words = env.iter(["a b", "c a"]).flat_map_str(|line, out| {
            line.split(' ').for_each(|word| out.push(word));
        });
        let lengths = env.iter([("a".to_owned(), 1), ("c".to_owned(), 3)]).keyed();
        words.group_by_ref(|word| *word).join(lengths)
    })
    .equals([("a", 1), ("a", 1), ("c", 3)].map(|(w, n)| (w.to_owned(), (w.to_owned(), n))));
}

#[test]
fn halves_of_one_stream_meet_again() {
    let all: Vec<_> = (0..2000u64).map(|n| (n % 500, n)).collect();
    let some: Vec<_> = (0..2000u64).filter(|n| n % 3 == 0).map(|n| (n / 4, n)).collect();
    macro_rules! test {
        ($name:expr, $kind:expr, |$l:ident, $r:ident| $join:expr) => {{
            println!("{}", $name);
            check(|env| {
                let [left, right] = env.range(0..2000).split();
                let $l = left.map(|n| (n % 500, n)).keyed();
                let $r = right.filter(|n| n % 3 == 0).map(|n| (n / 4, n)).keyed();
                $join
            })
            .seeds(1)
            .equals(join($kind, &all, &some));
        }};
    }
    each_way!(test);
}

#[test]
fn every_pair_of_two_streams() {
    let expected = (0..70u64).flat_map(|a| (0..30u16).map(move |b| (a, b)));
    check(|env| env.range(0..70).cross(env.iter(0..30u16))).equals(expected);
    check(|env| env.range(0..70).cross(env.iter([0u8; 0]))).equals([(0u64, 0u8); 0]);
    check(|env| {
        let words = env.iter(["a b"]).flat_map_str(|line, out| {
            line.split(' ').for_each(|word| out.push(word));
        });
        words.cross(env.iter([1, 2]))
    })
    .equals([("a", 1), ("a", 2), ("b", 1), ("b", 2)].map(|(word, n)| (word.to_owned(), n)));
}

#[test]
fn a_table_of_the_whole_process() {
    let left: Vec<_> = (0..600u32).map(|n| (n % 30, n)).collect();
    let right: Vec<_> = (0..40u64).map(|n| ((n % 20) as u32 * 2, n)).collect();
    let table = StaticTable::new(right.clone());
    assert_eq!((table.len(), table.get(&1), table.get(&2)), (40, None, Some(&1)));
    assert_eq!(table.all(&2).copied().collect::<Vec<_>>(), [1, 21]);
    check(|env| {
        let left = env.iter(left.clone()).shuffle();
        left.join_static(&table, |l| l.0, |l, r| (l.0, (Some(l.1), Some(*r))))
    })
    .equals(join(Kind::Inner, &left, &right));
    check(|env| {
        let left = env.iter(left.clone()).shuffle();
        left.left_join_static(&table, |l| l.0, |l, r| (l.0, (Some(l.1), r.copied())))
    })
    .equals(join(Kind::Left, &left, &right));
}

#[test]
fn a_table_is_read_once_when_a_job_begins() {
    let reads = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&reads);
    let table = StaticTable::load(move || match counted.fetch_add(1, Ordering::Relaxed) {
        0 => Err(Error::new(ErrorKind::Io, "not yet")),
        _ => Ok((0..10u64).map(|n| (n, n * n)).collect()),
    });
    assert_eq!(reads.load(Ordering::Relaxed), 0);
    let job = || {
        let env = Environment::new();
        let squares = env.range(0..10).shuffle().join_static(&table, |n| *n, |_, square| *square);
        let sum = squares.sum(|n| *n).collect::<Vec<_>>();
        env.run()?;
        sum.take()
    };
    let error = job().unwrap_err();
    assert!(error.to_string().contains("not yet"), "{error}");
    assert!(error.operator().unwrap().starts_with("join_static ("), "{error}");
    assert_eq!((job().unwrap(), job().unwrap()), (vec![285], vec![285]));
    assert_eq!(reads.load(Ordering::Relaxed), 2);
}
