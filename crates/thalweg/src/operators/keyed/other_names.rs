//! Stubs under the names that other engines use for an operator, which make the compiler give the name it has here.

use crate::data::Record;
use crate::stream::{Chain, Stream};

/// A bound that no stream meets, of an operator with another name here.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`key_by` is called `group_by`",
    label = "use `group_by`",
    note = "`group_by(|order| order.day / 7)` computes a key, and `group_by_ref(|order| &order.customer)` points to one"
)]
pub trait HasKeyBy: Sized {
    /// Stands in for the method's body.
    fn never(self) -> !;
}

#[doc(hidden)]
impl<C: Chain> Stream<C> {
    pub fn key_by<K, F>(self, _key: F) -> Self
    where
        Self: HasKeyBy,
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> K,
    {
        self.never()
    }
}
