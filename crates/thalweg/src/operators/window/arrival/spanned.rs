//! Windows that depend only on the numbers of their records, not on their values.

/// Implements the window traits for a type with the methods `spans`, which defines the records of each window, and
/// `earliness`; its parameter, if it has one, is the type of the latter. (With a trait in place of a macro, the
/// compiler would not see which windows a type is of.)
macro_rules! by_spans {
    ($window:ident<$early:ident>) => {
        by_spans!($window<$early>, $early, $early: $crate::operators::window::early::EarlyStates<A::State>,);
    };
    ($window:ident) => {
        by_spans!($window, $crate::operators::window::event_time::AtEnd,);
    };
    ($window:ty, $early:ty, $($param:ident: $bound:path,)?) => {
        impl<C, G, P, A $(, $param)?> $crate::operators::window::Windowing<C, G, P, A> for $window
        where
            C: $crate::Chain<Item: $crate::data::Wire>,
            G: $crate::operators::keyed::KeyBy<C::Item>,
            P: $crate::operators::keyed::Placed,
            A: $crate::operators::aggregates::Combine<G::Value, State: Clone>,
            $($param: $bound,)?
        {
            type Chain = super::arriving::ByArrival<C, G, P, super::sliced::Sliced<A, $early>>;

            fn windows(
                self,
                keyed: $crate::KeyedStream<C, G, P>,
                plan: $crate::operators::window::windowed::Described,
                aggregate: A,
            ) -> $crate::Stream<Self::Chain> {
                let (spans, early) = (self.spans(), self.earliness());
                let aggregate = std::sync::Arc::new(aggregate);
                let windows = super::sliced::Sliced { spans, aggregate, early };
                super::arriving::arriving(keyed, plan, windows)
            }
        }

        impl<C, G, P, A $(, $param)?> $crate::operators::window::WindowingInOrder<C, G, P, A>
            for $window
        where
            C: $crate::Chain<Item: $crate::data::Wire>,
            G: $crate::operators::keyed::KeyBy<C::Item, Value: super::stored::StoredValue>,
            P: $crate::operators::keyed::Placed,
            A: $crate::operators::aggregates::Aggregate<G::Value>,
            $($param: $bound,)?
        {
            type Chain = super::arriving::ByArrival<C, G, P, super::stored::Stored<A, $early>>;

            fn windows_in_order(
                self,
                keyed: $crate::KeyedStream<C, G, P>,
                plan: $crate::operators::window::windowed::Described,
                aggregate: A,
            ) -> $crate::Stream<Self::Chain> {
                let (spans, early) = (self.spans(), self.earliness());
                let aggregate = std::sync::Arc::new(aggregate);
                let windows = super::stored::Stored { spans, aggregate, early };
                super::arriving::arriving(keyed, plan, windows)
            }
        }
    };
}
pub(super) use by_spans;
