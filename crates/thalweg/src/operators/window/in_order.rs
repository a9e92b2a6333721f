//! Folds that add the values of a window one after the other, in the order of their arrival.

use super::windowed::{Described, Ending, Results, Value, Window, Windowed};
use crate::data::{Data, Portable};
use crate::operators::aggregates::{Aggregate, Fold, ToVec};
use crate::operators::keyed::{KeyBy, KeyedStream};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};

/// Windows that add their values in the order of arrival.
#[diagnostic::on_unimplemented(
    message = "`fold` and `to_vec` need windows that see values in order, such as `CountWindow`",
    label = "`{Self}` combines values in any order",
    note = "in any order: `fold_assoc` or `reduce` by closures, `aggregate(|a| a.to_vec())` for a list"
)]
pub trait WindowingInOrder<C, G, P, A>: Window<C::Time>
where
    C: Chain,
    G: KeyBy<C::Item>,
    A: Aggregate<G::Value>,
{
    /// The chain that ends with the windows.
    type Chain: Chain<Item = (<G::Key as Portable>::Owned, Self::Pane<A::Output>), Time = C::Time>;

    /// Adds the operator.
    #[doc(hidden)]
    fn windows_in_order(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain>;
}

/// The results of windows that go by order, whose chain is `D`.
///
/// Methods return `impl Chain` as `D`: if the return type named the chain as one of `WindowingInOrder`, the compiler
/// would find no such method on other windows, and would not show that trait's message.
type InOrder<C, G, W, E, A, D> =
    Results<C, G, W, E, <A as Aggregate<<G as KeyBy<<C as Chain>::Item>>::Value>>::Output, D>;

/// A key, and the result of one of its windows.
type Entry<C, G, W, A> = (
    <<G as KeyBy<<C as Chain>::Item>>::Key as Portable>::Owned,
    <W as Window<<C as Chain>::Time>>::Pane<
        <A as Aggregate<<G as KeyBy<<C as Chain>::Item>>::Value>>::Output,
    >,
);

impl<C, G, P, W, E> Windowed<C, G, P, W, E>
where
    C: Chain,
    G: KeyBy<C::Item>,
    W: Window<C::Time>,
    E: Ending,
{
    /// Folds the values of each window into a state, in the order of their arrival.
    ///
    /// For windows of arrivals, such as [`CountWindow`](super::CountWindow), and for
    /// [`CustomWindow`](super::CustomWindow). Windows of time and sessions combine values in any order: use
    /// [`fold_assoc`](Self::fold_assoc). Where windows overlap, every
    /// window is folded by itself, when it is complete: a value is taken in as often as there are windows that
    /// it is in. Where the state can be computed in parts, [`fold_assoc`](Self::fold_assoc) takes
    /// each value in once.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::window::CountWindow;
    ///
    /// let env = Environment::new();
    /// let digits = env.iter([1, 9, 7, 0]).window_all(CountWindow::sliding(2, 1));
    /// let numbers = digits.fold(0, |number, digit| *number = 10 * *number + digit);
    /// let out = numbers.map(|window| window.value).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [19, 97, 70]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn fold<S, F>(
        self,
        init: S,
        fold: F,
    ) -> InOrder<
        C,
        G,
        W,
        E,
        Fold<S, F>,
        impl Chain<Item = Entry<C, G, W, Fold<S, F>>, Time = C::Time>,
    >
    where
        S: Data + Clone + Sync,
        F: for<'a> Fn(&mut S, Value<'a, C, G>) + Send + Sync + 'static,
        W: WindowingInOrder<C, G, P, Fold<S, F>>,
    {
        self.in_order("fold", Origin::here(E::KIND), Fold { init, fold })
    }

    /// All values of each window, in the order of their arrival. See [`fold`](Self::fold) for how, and for which
    /// windows. Of windows of time and sessions, `aggregate(|a| a.to_vec())` lists the values in any order.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::window::LastWindow;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(['a', 'b', 'c']).window_all(LastWindow::new(2)).to_vec();
    /// let out = out.map(|window| String::from_iter(window.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["a", "ab", "bc"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn to_vec(
        self,
    ) -> InOrder<C, G, W, E, ToVec, impl Chain<Item = Entry<C, G, W, ToVec>, Time = C::Time>>
    where
        G::Value: Portable,
        W: WindowingInOrder<C, G, P, ToVec>,
    {
        self.in_order("to_vec", Origin::here(E::KIND), ToVec)
    }

    fn in_order<A>(
        self,
        what: &str,
        origin: Origin,
        aggregate: A,
    ) -> InOrder<C, G, W, E, A, W::Chain>
    where
        A: Aggregate<G::Value>,
        W: WindowingInOrder<C, G, P, A>,
    {
        let make = |window: W, keyed, plan| window.windows_in_order(keyed, plan, aggregate);
        E::end(self.make::<A::State, _>(what, origin, make))
    }
}
