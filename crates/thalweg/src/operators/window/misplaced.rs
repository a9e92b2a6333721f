//! Stubs of methods that are not methods of [`Windowed`] or of a window, which make the compiler name the right call.
//!
//! The same as `keyed/other_kind.rs`, for windows: nothing in this file ever runs.

use super::{EventTimeWindow, SessionWindow, windowed::Windowed};
use crate::operators::keyed::other_kind::{OnlyByAggregate, Value, on_other_kind};
use crate::operators::keyed::{KeyBy, KeyedStream};
use crate::stream::Chain;
use std::cmp::Ordering;
use std::time::Duration;

/// The bound of settings of a window, which no [`Windowed`] meets.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this is a setting of the window, and belongs inside `window(…)`",
    label = "called on the stream that is cut into windows",
    note = "as in `window(SessionWindow::new(…).early(…))`, `window(EventTimeWindow::tumbling(…).allowed_lateness(…))`",
    note = "a window without such a method has no such setting: windows by arrival, for example, have no late records"
)]
pub trait SetOnWindow: Sized {
    /// Stands in for the method's body.
    fn never(self) -> !;
}

/// The bound of `late_output`, which no window meets.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`late_output` follows `window(…)`, and is no setting of the window",
    label = "called on the window",
    note = "as in `let (windows, late) = stream.window(SessionWindow::new(…)).late_output();`"
)]
pub trait SentFromStream: Sized {
    /// Stands in for the method's body.
    fn never(self) -> !;
}

#[doc(hidden)]
impl<C: Chain, G: KeyBy<C::Item>, P, W, E> Windowed<C, G, P, W, E> {
    on_other_kind! { SetOnWindow, Self:
        allowed_lateness(lateness: Duration);
        early(early: super::Early);
        keep_partial();
        offset(offset: Duration);
    }

    on_other_kind! { OnlyByAggregate, KeyedStream<C, G, P>:
        approx_count_distinct<N, F>(of: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        approx_quantiles<F, Q>(of: F, shares: Q) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> f64];
        bottom(n: usize);
        bottom_by<F>(n: usize, compare: F) [F: for<'a, 'b, 'c> Fn(&'b Value<'a, C, G>, &'c Value<'a, C, G>) -> Ordering];
        bottom_by_key<K, F>(n: usize, key: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> K];
        bottom_of<N, F>(n: usize, of: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        count_distinct<N, F>(of: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        count_if<F>(which: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> bool];
        first_by_key<K, F>(time: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> K];
        last_by_key<K, F>(time: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> K];
        nth_by_key<K, F>(n: usize, time: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> K];
        quantiles<N, F, Q>(of: F, shares: Q) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        stddev<F>(of: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> f64];
        top(n: usize);
        top_by<F>(n: usize, compare: F) [F: for<'a, 'b, 'c> Fn(&'b Value<'a, C, G>, &'c Value<'a, C, G>) -> Ordering];
        top_by_key<K, F>(n: usize, key: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> K];
        top_of<N, F>(n: usize, of: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> N];
        variance<F>(of: F) [F: for<'a, 'b> Fn(&'b Value<'a, C, G>) -> f64];
    }
}

#[doc(hidden)]
impl<E> EventTimeWindow<E> {
    on_other_kind! { SentFromStream, Self:
        late_output();
    }
}

#[doc(hidden)]
impl<F, L, E> SessionWindow<F, L, E> {
    on_other_kind! { SentFromStream, Self:
        late_output();
    }
}
