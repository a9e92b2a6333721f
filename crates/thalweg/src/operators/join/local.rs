//! The strategies by which a task joins the records that reach it, and which combinations are allowed.

use super::hash::HashJoined;
use super::inputs::{Delivery, Inputs};
use super::kinds::{Anti, Inner, KeepLeft, KeepRight, Kind, Left, Right, Semi, Shape};
use super::merge::MergeJoined;
use super::symmetric::SymmetricJoined;
use crate::data::{Data, Key};
use crate::operators::keyed::Partitioned;
use crate::stream::Chain;
use crate::time::Time;
use std::marker::PhantomData;

/// Each record goes to the task that owns its key.
pub enum ByKey {}
/// Every record of the left stream goes to every task of the right one.
pub enum LeftEverywhere {}
/// Every record of the right stream goes to every task of the left one.
pub enum RightEverywhere {}

/// How the records of both streams reach the tasks that join them.
pub trait Shipping: 'static {
    /// Where the records of a key are after the join, given where they are in the left stream and the right
    /// one.
    type Placed<P, Q>;
    /// The same choice, as a value.
    #[doc(hidden)]
    const DELIVERY: Delivery;
}

impl Shipping for ByKey {
    type Placed<P, Q> = Partitioned;
    const DELIVERY: Delivery = Delivery::ByKey;
}

impl Shipping for LeftEverywhere {
    type Placed<P, Q> = Q;
    const DELIVERY: Delivery = Delivery::LeftEverywhere;
}

impl Shipping for RightEverywhere {
    type Placed<P, Q> = P;
    const DELIVERY: Delivery = Delivery::RightEverywhere;
}

/// A kind of join that this shipping strategy allows.
#[diagnostic::on_unimplemented(
    message = "this kind of join does not go with a side that is sent everywhere",
    label = "of the side that every task has, no task could say what makes a result just once",
    note = "broadcast the other side, if it is small: then a task has all that its own records could meet",
    note = "or leave both sides where their keys belong: no `broadcast_left` and no `broadcast_right`"
)]
pub trait Allows<X>: Shipping {}

impl<X> Allows<X> for ByKey {}
impl Allows<Inner> for LeftEverywhere {}
impl Allows<Right> for LeftEverywhere {}
impl Allows<Inner> for RightEverywhere {}
impl Allows<Left> for RightEverywhere {}
impl Allows<Semi> for RightEverywhere {}
impl Allows<Anti> for RightEverywhere {}

/// A table of the right stream, in which the records of the left one are looked up.
pub enum TableOfRight {}
/// A table of the left stream, in which the records of the right one are looked up.
pub enum TableOfLeft {}
/// Both sides are sorted and merged.
pub enum Sorting {}
/// A table of each side, in which the records of the other are looked up.
pub enum TwoTables {}

/// A join strategy that allows a side that is broadcast.
#[diagnostic::on_unimplemented(
    message = "a symmetric join keeps tables of both sides, where their keys belong",
    label = "so neither side is sent everywhere, or sorted",
    note = "if one of the streams ends, broadcast that one, and leave out `symmetric`"
)]
pub trait OneSided {}

impl OneSided for TableOfRight {}
impl OneSided for TableOfLeft {}
impl OneSided for Sorting {}

/// Maps a join strategy to the same strategy with a given build side. Every strategy implements it, so that the
/// compiler's message names [`OneSided`] where that is missing.
pub trait Keeping: 'static {
    /// The strategy with the left side kept.
    type Left;
    /// The strategy with the right side kept.
    type Right;
}

impl Keeping for TableOfRight {
    type Left = TableOfLeft;
    type Right = TableOfRight;
}

impl Keeping for TableOfLeft {
    type Left = TableOfLeft;
    type Right = TableOfRight;
}

impl Keeping for Sorting {
    type Left = Sorting;
    type Right = Sorting;
}

impl Keeping for TwoTables {
    type Left = TwoTables;
    type Right = TwoTables;
}

/// A kind of join that this strategy supports.
#[diagnostic::on_unimplemented(
    message = "a symmetric join is an inner one",
    label = "that a record has no partner is known only when the other stream has ended",
    note = "where a stream ends, leave out `symmetric`",
    note = "on streams without an end, `window_join`, `co_group` and `interval_join` bound the time in which \
            partners meet"
)]
pub trait Makes<X> {}

impl<X> Makes<X> for TableOfRight {}
impl<X> Makes<X> for TableOfLeft {}
impl<X> Makes<X> for Sorting {}
impl Makes<Inner> for TwoTables {}

/// How a strategy makes a kind of join. Every strategy implements it for every kind, so that the compiler's
/// message names [`Makes`] where that is missing.
pub trait Local<X: Kind<L, R>, K: Data, L: Data, R: Data, T: Time>: 'static {
    /// The chain that begins the stage.
    #[doc(hidden)]
    type Chain: Chain<Item = (K, X::Out), Time = T>;
    /// The name in plans.
    #[doc(hidden)]
    const NAME: &'static str;

    /// What is wrong with the inputs, given whether the left and the right stream end.
    #[doc(hidden)]
    fn fault(left: bool, right: bool) -> Option<String>;

    /// The chain that begins the stage; `op` is the operator that joins.
    #[doc(hidden)]
    fn chain(inputs: Inputs<K, L, R, T>, op: usize) -> Self::Chain;
}

const INSTEAD: &str = "on streams without an end, `window_join`, `co_group` and `interval_join` bound the time \
                       in which partners meet";

/// What is wrong with a hash join of these inputs, given the name of each side and whether it ends.
fn fault_of_table<B: Data, P: Data, S: Shape<B, P>>(
    (kept, kept_ends): (&str, bool),
    (probe, probe_ends): (&str, bool),
    otherwise: &str,
) -> Option<String> {
    let two = || match S::PAIRS && !S::KEPT_ALONE && !S::PROBE_ALONE {
        true => format!("`join_with(…).symmetric()` keeps all records of both; {INSTEAD}"),
        false => INSTEAD.to_owned(),
    };
    match (kept_ends, probe_ends) {
        (false, false) => Some(format!(
            "needs an input that ends, and neither of these does: a table of the {kept} stream would never \
             be complete. {}",
            two()
        )),
        (false, true) => Some(format!(
            "makes a table of the {kept} stream, which does not end, while the {probe} one does: \
             {otherwise}"
        )),
        (true, false) if S::KEPT_ALONE => Some(format!(
            "emits the records of the {kept} stream that have no partner in the {probe} one, which are known only when \
             that has ended, and it does not. {INSTEAD}"
        )),
        _ => None,
    }
}

impl<X, K, L, R, T> Local<X, K, L, R, T> for TableOfRight
where
    X: Kind<L, R>,
    K: Data + Eq + Clone,
    L: Data,
    R: Data,
    T: Time,
{
    type Chain = HashJoined<K, R, L, T, KeepRight<X>>;
    const NAME: &'static str = "table of the right side";

    fn fault(left: bool, right: bool) -> Option<String> {
        let otherwise = "`join_with(…).build_left()` makes it of that one";
        fault_of_table::<R, L, KeepRight<X>>(("right", right), ("left", left), otherwise)
    }

    fn chain(inputs: Inputs<K, L, R, T>, op: usize) -> Self::Chain {
        let (ends, _) = inputs.bounded();
        HashJoined { inputs: inputs.swap(), op, ends, shape: PhantomData }
    }
}

impl<X, K, L, R, T> Local<X, K, L, R, T> for TableOfLeft
where
    X: Kind<L, R>,
    K: Data + Eq + Clone,
    L: Data,
    R: Data,
    T: Time,
{
    type Chain = HashJoined<K, L, R, T, KeepLeft<X>>;
    const NAME: &'static str = "table of the left side";

    fn fault(left: bool, right: bool) -> Option<String> {
        let otherwise = "leave out what asks for the left one";
        fault_of_table::<L, R, KeepLeft<X>>(("left", left), ("right", right), otherwise)
    }

    fn chain(inputs: Inputs<K, L, R, T>, op: usize) -> Self::Chain {
        let (_, ends) = inputs.bounded();
        HashJoined { inputs, op, ends, shape: PhantomData }
    }
}

impl<X, K, L, R, T> Local<X, K, L, R, T> for Sorting
where
    X: Kind<L, R>,
    K: Data + Eq + Clone,
    L: Data,
    R: Data,
    T: Time,
{
    type Chain = MergeJoined<K, L, R, T, X>;
    const NAME: &'static str = "sort-merge";

    fn fault(left: bool, right: bool) -> Option<String> {
        let which = match (left, right) {
            (true, true) => return None,
            (true, false) => "the right one does not",
            (false, true) => "the left one does not",
            (false, false) => "neither does",
        };
        Some(format!("sorts both streams, which have to end for that, and {which}. {INSTEAD}"))
    }

    fn chain(inputs: Inputs<K, L, R, T>, op: usize) -> Self::Chain {
        MergeJoined { inputs, op, kind: PhantomData }
    }
}

impl<X, K, L, R, T> Local<X, K, L, R, T> for TwoTables
where
    X: Kind<L, R>,
    K: Data + Key<Owned = K> + Eq + Clone,
    L: Data + Clone,
    R: Data + Clone,
    T: Time,
{
    type Chain = SymmetricJoined<K, L, R, T, X>;
    const NAME: &'static str = "tables of both sides";

    fn fault(_: bool, _: bool) -> Option<String> {
        None
    }

    fn chain(inputs: Inputs<K, L, R, T>, op: usize) -> Self::Chain {
        SymmetricJoined { inputs, op, kind: PhantomData }
    }
}
