//! Stubs of methods that only the other kind of stream has, which make the compiler name the missing call.
//!
//! A stream without keys has no `join`, and a keyed stream has no `sorted`. If such a method did not exist, the
//! compiler would suggest a method with a similar name. So it exists here, with a bound that no type meets, and the
//! error message of that bound names the missing call. Nothing in this file ever runs.

use super::{KeyBy, KeyedStream};
use crate::data::{Portable, Record};
use crate::io::{Incoming, Output};
use crate::stream::{Chain, Stream};
use std::cmp::Ordering;
use std::path::Path;

/// The bound of operators by key, which no [`Stream`] meets.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this operator works by key, and the stream has no keys",
    label = "needs a keyed stream",
    note = "say what the key is first: `group_by`, `group_by_ref`, or `keyed` for a stream of pairs",
    note = "windows over all records are made by `window_all`"
)]
pub trait HasKeys: Sized {
    /// Stands in for the method's body.
    fn never(self) -> !;
}

/// The bound of operators without keys, which no [`KeyedStream`] meets.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this operator does not work by key, and the stream has keys",
    label = "needs a stream without keys",
    note = "make it a stream of pairs of key and value first: `unkey`",
    note = "or call it before `group_by`"
)]
pub trait HasNoKeys: Sized {
    /// Stands in for the method's body.
    fn never(self) -> !;
}

/// The bound of the operators that emit the greatest or least records of all, which no [`KeyedStream`] meets.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the greatest or least of all records is taken without keys, and the stream has keys",
    label = "needs a stream without keys",
    note = "of all: make it a stream of pairs of key and value first, as in `unkey().top_by_key(n, …)`",
    note = "of each key: `aggregate(|a| a.top_by_key(n, …))`, or `bottom_by_key`, `top_of`, `top`"
)]
pub trait TopOfAll: Sized {
    /// Stands in for the method's body.
    fn never(self) -> !;
}

/// The bound of `to_vec`, which no stream meets.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a stream has no `to_vec`",
    label = "say of which records",
    note = "all records, when the job has run: `collect::<Vec<_>>()`",
    note = "the values of each key, as an aggregate: `aggregate(|a| a.to_vec())`"
)]
pub trait HasToVec: Sized {
    /// Stands in for the method's body.
    fn never(self) -> !;
}

/// The bound of aggregates that only `aggregate` computes, which no stream and no window meets.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this aggregate is computed by `aggregate`, and has no method of its own here",
    label = "needs `aggregate(|a| …)`",
    note = "one: `aggregate(|a| a.count_distinct(…))`, `aggregate(|a| a.top_by_key(n, …))`",
    note = "several in one pass: `aggregate(|a| (a.count(), a.stddev(…)))`"
)]
pub trait OnlyByAggregate: Sized {
    /// Stands in for the method's body.
    fn never(self) -> !;
}

/// The values of a keyed stream.
pub(in crate::operators) type Value<'a, C, G> =
    <<G as KeyBy<<C as Chain>::Item>>::Value as Record>::Of<'a>;
type Item<'a, C> = <<C as Chain>::Item as Record>::Of<'a>;
type Owned<C> = <<C as Chain>::Item as Portable>::Owned;

/// Defines stubs of methods that only the other kind of stream has, each with its parameters. The bounds in brackets
/// tell the compiler the parameter types of closures.
macro_rules! on_other_kind {
    ($missing:ident, $out:ty: $($name:ident $(<$($type:ident),*>)? ($($arg:ident: $of:ty),*) $([$($bound:tt)*])?;)*) => {$(
        pub fn $name $(<$($type),*>)? (self $(, $arg: $of)*) -> $out
        where
            Self: $missing,
            $($($bound)*)?
        {
            $(let _ = $arg;)*
            self.never()
        }
    )*};
}

pub(in crate::operators) use on_other_kind;

/// Stubs of the methods of keyed streams.
#[doc(hidden)]
impl<C: Chain> Stream<C> {
    on_other_kind! { HasKeys, Self:
        anti_join<D>(right: D);
        as_of_join<D, W, F>(other: D, which: W, f: F);
        as_of_left_join<D, W, F>(other: D, which: W, f: F);
        co_group<D, W, F>(other: D, window: W, f: F);
        full_join<D>(right: D);
        interval_join<D, W, F>(other: D, interval: W, f: F);
        interval_left_join<D, W, F>(other: D, interval: W, f: F);
        join<D>(right: D);
        join_with<D>(right: D);
        left_join<D>(right: D);
        process<H>(handler: H);
        repartition();
        right_join<D>(right: D);
        semi_join<D>(right: D);
        stateful_flat_map<S, F>(init: S, f: F);
        stateful_map_with<S, F>(init: S, f: F);
        unkey();
        window<W>(window: W);
        window_join<D, W, F>(other: D, window: W, f: F);
    }

    on_other_kind! { HasKeys, (Self, Self):
        process_with_side_output<H>(handler: H);
    }

    on_other_kind! { OnlyByAggregate, Self:
        approx_count_distinct<N, F>(of: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> N];
        approx_quantiles<F, Q>(of: F, shares: Q) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> f64];
        bottom_of<N, F>(n: usize, of: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> N];
        count_distinct<N, F>(of: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> N];
        count_if<F>(which: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> bool];
        first_by_key<K, F>(time: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> K];
        last_by_key<K, F>(time: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> K];
        nth_by_key<K, F>(n: usize, time: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> K];
        quantiles<N, F, Q>(of: F, shares: Q) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> N];
        stddev<F>(of: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> f64];
        top_of<N, F>(n: usize, of: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> N];
        variance<F>(of: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> f64];
    }

    on_other_kind! { HasToVec, Output<Vec<C::Item>>:
        to_vec() [C::Item: Sized];
    }
}

/// Stubs of the methods of streams without keys.
#[doc(hidden)]
impl<C: Chain, G, P> KeyedStream<C, G, P> {
    on_other_kind! { HasNoKeys, Stream<C>:
        assign_timestamps<F, W>(at: F, watermarks: W);
        broadcast();
        chunks(size: usize);
        cross<D>(other: D);
        flat_each<F>(visit: F);
        flat_each_in_pieces<F>(visit: F);
        flat_map_str<F>(f: F);
        forward();
        group_by<K, F>(key: F) [F: for<'a, 'b> Fn(&'b Item<'a, C>) -> K];
        group_by_ref<K, F>(key: F) [K: ?Sized, F: for<'a, 'b> Fn(&'b Item<'a, C>) -> &'b K];
        join_static<D, F>(table: D, key: F);
        keyed();
        left_join_static<D, F>(table: D, key: F);
        limit(n: u64);
        map_async<A, F>(calls: A, f: F);
        map_blocking<A, F>(calls: A, f: F);
        map_memo<F>(capacity: usize, f: F);
        map_memo_by<K, F>(capacity: usize, key: K, f: F);
        map_memo_by_ref<K, F>(capacity: usize, key: K, f: F);
        map_volatile<F>(f: F);
        map_with_timestamp<F>(f: F);
        parallelism(tasks: usize);
        random(seed: u64);
        repartition_by<F>(choose: F);
        route();
        scan<S, F>(init: S, f: F);
        shuffle();
        sorted();
        sorted_by<F>(compare: F) [C::Item: Portable, F: Fn(&Owned<C>, &Owned<C>) -> Ordering];
        sorted_by_key<K, F>(key: F) [C::Item: Portable, F: Fn(&Owned<C>) -> K];
        try_map<F>(f: F);
        try_map_async<A, F>(calls: A, f: F);
        try_map_blocking<A, F>(calls: A, f: F);
        unique();
        window_all<W>(window: W);
        zip<D>(other: D);
        zip_by_task<D>(other: D);
    }

    on_other_kind! { TopOfAll, Stream<C>:
        bottom(n: usize);
        bottom_by<F>(n: usize, compare: F) [C::Item: Portable, F: Fn(&Owned<C>, &Owned<C>) -> Ordering];
        bottom_by_key<K, F>(n: usize, key: F) [C::Item: Portable, F: Fn(&Owned<C>) -> K];
        top(n: usize);
        top_by<F>(n: usize, compare: F) [C::Item: Portable, F: Fn(&Owned<C>, &Owned<C>) -> Ordering];
        top_by_key<K, F>(n: usize, key: F) [C::Item: Portable, F: Fn(&Owned<C>) -> K];
    }

    on_other_kind! { OnlyByAggregate, Self:
        approx_count_distinct<N, F>(of: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        approx_quantiles<F, Q>(of: F, shares: Q) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> f64];
        bottom_of<N, F>(n: usize, of: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        count_distinct<N, F>(of: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        count_if<F>(which: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> bool];
        first_by_key<K, F>(time: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> K];
        last_by_key<K, F>(time: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> K];
        nth_by_key<K, F>(n: usize, time: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> K];
        quantiles<N, F, Q>(of: F, shares: Q) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        stddev<F>(of: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> f64];
        top_of<N, F>(n: usize, of: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        variance<F>(of: F) [G: KeyBy<C::Item>, F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> f64];
    }

    pub fn split<const N: usize>(self) -> [Stream<C>; N]
    where
        Self: HasNoKeys,
    {
        self.never()
    }

    on_other_kind! { HasNoKeys, Output<Option<C::Item>>:
        collect_one() [C::Item: Sized];
    }

    on_other_kind! { HasNoKeys, Incoming<C::Item>:
        to_channel() [C::Item: Sized];
    }

    on_other_kind! { HasToVec, Output<Vec<C::Item>>:
        to_vec() [C::Item: Sized];
    }

    on_other_kind! { HasNoKeys, (Stream<C>, Stream<C>):
        dead_letters();
        side_output<F>(f: F);
        side_output_each<V>(visitor: V);
        try_map_async_with_side_output<A, F>(calls: A, f: F);
        try_map_blocking_with_side_output<A, F>(calls: A, f: F);
    }

    on_other_kind! { HasNoKeys, ():
        for_each<F>(f: F) [F: for<'a> Fn(Item<'a, C>)];
        for_each_parallel<F>(f: F) [F: for<'a> Fn(Item<'a, C>)];
        print();
        write_csv<N>(path: N) [N: AsRef<Path>];
        write_json_lines<N>(path: N) [N: AsRef<Path>];
        write_csv_parallel<N>(path: N) [N: AsRef<Path>];
        write_json_lines_parallel<N>(path: N) [N: AsRef<Path>];
        write_lines<N>(path: N) [N: AsRef<Path>];
        write_lines_parallel<N>(path: N) [N: AsRef<Path>];
    }
}
