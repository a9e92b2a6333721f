//! The `views` operator: records with strings, as views that borrow them.

use super::flat_each::{FlatEach, Visit};
use crate::data::{View, ViewOf, Viewable};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};

impl<C: Chain<Item: Viewable>> Stream<C> {
    /// Emits each record as a [view](ViewOf), a struct with the same fields that borrows its strings.
    ///
    /// Before an exchange this saves most of its cost: strings are copied into the batch, one after the other, and
    /// released in the task that allocated them; the receiver allocates nothing. Where the receiver keeps most records as
    /// they are, send the records themselves: they are moved. A [visitor](crate::Visit) that emits views does not even make
    /// the strings.
    ///
    /// `map(Viewable::from_view)` makes records that own their strings again. Keeps order and tasks.
    ///
    /// ```
    /// use thalweg::{Data, Environment};
    ///
    /// #[derive(Data)]
    /// struct Order {
    ///     customer: String,
    ///     amount: u64,
    /// }
    ///
    /// let env = Environment::new();
    /// let orders = env.iter([("anna", 5), ("bert", 1), ("anna", 2)]);
    /// let orders = orders.map(|(customer, amount)| Order { customer: customer.to_owned(), amount });
    /// let large = orders.views().shuffle().filter(|order| order.amount > 1);
    /// let customers = large.group_by_ref(|order| order.customer).count().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(customers.take()?, [("anna".to_owned(), 2)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn views(self) -> Stream<impl Chain<Item = ViewOf<C::Item>, Time = C::Time>> {
        self.then(Origin::here("views"), |prev, op| FlatEach::new(prev, op, Viewing))
    }
}

/// Emits the view of each record.
struct Viewing;

impl<T: Viewable> Visit<T> for Viewing {
    type Out = ViewOf<T>;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, record: T, (): &mut (), emit: &mut impl FnMut(View<'_, T>)) {
        record.with_view(emit);
    }
}

#[cfg(test)]
mod tests {
    use crate::check::every;
    use crate::data::Viewable;
    use crate::{Data, Environment};

    #[derive(Data, Debug, Clone, PartialEq)]
    struct Page {
        url: String,
        raw: Vec<u8>,
        visits: u64,
        tags: Vec<String>,
    }

    fn page(number: u64) -> Page {
        let raw = vec![number as u8; number as usize % 5];
        let tags = (0..number % 3).map(|tag| tag.to_string()).collect();
        Page { url: format!("/{}", number % 17), raw, visits: number, tags }
    }

    #[test]
    fn views_cross_exchanges_as_their_records_do() {
        every(|env| {
            let pages = || env.range(0..5000).map(page);
            let sent = pages().views().shuffle().filter(|page| !page.raw.is_empty());
            let sent = sent.map(Page::from_view).shuffle().collect::<Vec<_>>();
            let views = pages().views().forward().collect::<Vec<_>>();
            let visits = pages().views().group_by_ref(|page| page.url);
            let visits = visits.sum(|page| page.visits).collect::<Vec<_>>();
            env.run()?;
            let sorted = |mut pages: Vec<Page>| {
                pages.sort_by_key(|page| page.visits);
                pages
            };
            let whole: Vec<Page> = (0..5000).map(page).collect();
            assert_eq!(sorted(views.take()?), whole);
            assert!(
                sorted(sent.take()?).iter().eq(whole.iter().filter(|page| !page.raw.is_empty()))
            );
            let mut visits = visits.take()?;
            visits.sort();
            let mut expected: Vec<_> = (0..17)
                .map(|site| (format!("/{site}"), (0..5000).filter(|n| n % 17 == site).sum::<u64>()))
                .collect();
            expected.sort();
            assert_eq!(visits, expected);
            Ok(())
        });
    }

    #[test]
    fn batches_of_large_views_are_sent_early() {
        let env = Environment::new();
        let pages = env.range(0..1000).map(|_| Page { url: "/".repeat(10_000), ..page(0) });
        let out = pages.views().shuffle().count().collect_one();
        let stats = env.start().unwrap().wait().unwrap();
        assert_eq!(out.take().unwrap(), Some(1000));
        let batches: u64 = stats.edges.iter().map(|edge| edge.batches).sum();
        assert!(batches >= 1000 * 10_000 / env.config().credit as u64, "{batches}");
    }
}
