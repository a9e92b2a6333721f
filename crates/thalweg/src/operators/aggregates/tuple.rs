//! Tuples of aggregates, which are aggregates too.

use super::{Aggregate, AggregateRef, Combine};
use crate::data::Record;

macro_rules! together {
    ($(($($name:ident $at:tt)* | $last:ident $end:tt))*) => {$(
        /// Each member receives every value: the last the value itself, the others a reference to it.
        impl<V, $($name,)* $last> Aggregate<V> for ($($name,)* $last,)
        where
            V: Record + ?Sized,
            $($name: AggregateRef<V>,)*
            $last: Aggregate<V>,
        {
            type State = ($($name::State,)* $last::State,);
            type Output = ($($name::Output,)* $last::Output,);

            #[inline(always)]
            fn start(&self) -> Self::State {
                ($(self.$at.start(),)* self.$end.start(),)
            }

            #[inline(always)]
            fn update(&self, state: &mut Self::State, value: V::Of<'_>) {
                $(self.$at.update_ref(&mut state.$at, &value);)*
                self.$end.update(&mut state.$end, value);
            }

            #[inline(always)]
            fn finish(&self, state: Self::State) -> Self::Output {
                ($(self.$at.finish(state.$at),)* self.$end.finish(state.$end),)
            }

            fn check(&self) -> Result<(), String> {
                $(self.$at.check()?;)*
                self.$end.check()
            }

            fn name(&self) -> String {
                let names = [$(self.$at.name(),)* self.$end.name()];
                format!("({})", names.join(", "))
            }

            fn empty(&self) -> Option<Self::Output> {
                Some(($(self.$at.empty()?,)* self.$end.empty()?,))
            }
        }

        impl<V, $($name,)* $last> AggregateRef<V> for ($($name,)* $last,)
        where
            V: Record + ?Sized,
            $($name: AggregateRef<V>,)*
            $last: AggregateRef<V>,
        {
            #[inline(always)]
            fn update_ref(&self, state: &mut Self::State, value: &V::Of<'_>) {
                $(self.$at.update_ref(&mut state.$at, value);)*
                self.$end.update_ref(&mut state.$end, value);
            }
        }

        impl<V, $($name,)* $last> Combine<V> for ($($name,)* $last,)
        where
            V: Record + ?Sized,
            $($name: Combine<V> + AggregateRef<V>,)*
            $last: Combine<V>,
        {
            #[inline(always)]
            fn combine(&self, state: &mut Self::State, other: Self::State) {
                $(self.$at.combine(&mut state.$at, other.$at);)*
                self.$end.combine(&mut state.$end, other.$end);
            }

            const INVERSE: Option<fn(&Self, &mut Self::State, &Self::State)> =
                if $($name::INVERSE.is_some() &&)* $last::INVERSE.is_some() {
                    Some(|all, state, other| {
                        $(if let Some(inverse) = $name::INVERSE {
                            inverse(&all.$at, &mut state.$at, &other.$at);
                        })*
                        if let Some(inverse) = $last::INVERSE {
                            inverse(&all.$end, &mut state.$end, &other.$end);
                        }
                    })
                } else {
                    None
                };
        }
    )*};
}

together! {
    (| A 0)
    (A 0 | B 1)
    (A 0 B 1 | C 2)
    (A 0 B 1 C 2 | D 3)
    (A 0 B 1 C 2 D 3 | E 4)
    (A 0 B 1 C 2 D 3 E 4 | F 5)
    (A 0 B 1 C 2 D 3 E 4 F 5 | G 6)
    (A 0 B 1 C 2 D 3 E 4 F 5 G 6 | H 7)
}
