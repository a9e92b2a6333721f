//! Several aggregates at once: a tuple of them is one.

use super::{Aggregate, Combine};
use crate::data::Record;

macro_rules! together {
    ($(($($name:ident $at:tt)* | $last:ident $end:tt))*) => {$(
        /// Each takes in every value. The last takes the value itself, the others a clone, which costs
        /// nothing for values that are borrowed or `Copy`; those that keep few values clone only these.
        impl<V, $($name,)* $last> Aggregate<V> for ($($name,)* $last,)
        where
            V: Record + ?Sized,
            for<'a> V::Of<'a>: Clone,
            $($name: Aggregate<V>,)*
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
                $(self.$at.update_shared(&mut state.$at, &value);)*
                self.$end.update(&mut state.$end, value);
            }

            #[inline(always)]
            fn update_shared(&self, state: &mut Self::State, value: &V::Of<'_>) {
                $(self.$at.update_shared(&mut state.$at, value);)*
                self.$end.update_shared(&mut state.$end, value);
            }

            #[inline(always)]
            fn finish(&self, state: Self::State) -> Self::Output {
                ($(self.$at.finish(state.$at),)* self.$end.finish(state.$end),)
            }

            fn check(&self) -> Result<(), String> {
                $(self.$at.check()?;)*
                self.$end.check()
            }
        }

        impl<V, $($name,)* $last> Combine<V> for ($($name,)* $last,)
        where
            V: Record + ?Sized,
            for<'a> V::Of<'a>: Clone,
            $($name: Combine<V>,)*
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
