//! Windows that depend only on the numbers of their records, not on their values.

/// Implements the window traits for a type with a method `spans`, which defines the records of each window.
/// (With a trait in place of a macro, the compiler would not see which windows a type is of.)
macro_rules! by_spans {
    ($window:ty) => {
        impl<C, G, P, A> $crate::operators::window::Windowing<C, G, P, A> for $window
        where
            C: $crate::Chain<Item: $crate::data::Wire>,
            G: $crate::operators::keyed::KeyBy<C::Item>,
            P: $crate::operators::keyed::Placed,
            A: $crate::operators::aggregates::Combine<G::Value, State: Clone>,
        {
            type Chain = super::arriving::ByArrival<C, G, P, super::sliced::Sliced<A>>;

            fn windows(
                self,
                keyed: $crate::KeyedStream<C, G, P>,
                plan: $crate::operators::window::windowed::Described,
                aggregate: A,
            ) -> $crate::Stream<Self::Chain> {
                let (spans, aggregate) = (self.spans(), std::sync::Arc::new(aggregate));
                super::arriving::arriving(keyed, plan, super::sliced::Sliced { spans, aggregate })
            }
        }

        impl<C, G, P, A> $crate::operators::window::WindowingInOrder<C, G, P, A> for $window
        where
            C: $crate::Chain<Item: $crate::data::Wire>,
            G: $crate::operators::keyed::KeyBy<C::Item, Value: super::stored::Kept>,
            P: $crate::operators::keyed::Placed,
            A: $crate::operators::aggregates::Aggregate<G::Value>,
        {
            type Chain = super::arriving::ByArrival<C, G, P, super::stored::Stored<A>>;

            fn windows_in_order(
                self,
                keyed: $crate::KeyedStream<C, G, P>,
                plan: $crate::operators::window::windowed::Described,
                aggregate: A,
            ) -> $crate::Stream<Self::Chain> {
                let (spans, aggregate) = (self.spans(), std::sync::Arc::new(aggregate));
                super::arriving::arriving(keyed, plan, super::stored::Stored { spans, aggregate })
            }
        }
    };
}
pub(super) use by_spans;
