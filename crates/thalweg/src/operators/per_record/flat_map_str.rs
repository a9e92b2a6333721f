//! The `flat_map_str` operator: any number of strings for each input record, pushed by a closure.

use super::flat_each::{FlatEach, Visit};
use crate::data::{Batch, Record, TextBatch};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};

impl<C: Chain> Stream<C> {
    /// Makes any number of strings of each record: those that the closure pushes.
    ///
    /// The strings are collected in a buffer that is reused for every record, and emitted as `&str` when the
    /// closure returns: there is no allocation per record or string. Compared to
    /// [`flat_each`](Self::flat_each), which emits parts of a record without copying them, it costs that copy.
    ///
    /// Keeps the order of the records, and of each record's strings.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env
    ///     .iter(["a=1, b=2", "c=3"])
    ///     .flat_map_str(|line, out| {
    ///         for pair in line.split(", ") {
    ///             out.push(pair.split('=').next().unwrap_or(pair));
    ///         }
    ///     })
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["a", "b", "c"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn flat_map_str<F>(self, f: F) -> Stream<FlatEach<C, Emitter<F>>>
    where
        F: for<'a, 'b> Fn(<C::Item as Record>::Of<'a>, &'b mut Texts) + Send + Sync + 'static,
    {
        let origin = Origin::here("flat_map_str");
        self.then(origin, |prev, op| FlatEach::new(prev, op, Emitter { f }))
    }
}

/// Strings made of one record. See [`Stream::flat_map_str`].
#[derive(Debug, Default)]
pub struct Texts {
    batch: TextBatch,
}

impl Texts {
    /// Appends a copy of the string.
    #[inline(always)]
    pub fn push(&mut self, text: &str) {
        self.batch.push(text);
    }
}

impl<'a> Extend<&'a str> for Texts {
    fn extend<I: IntoIterator<Item = &'a str>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.push(text));
    }
}

/// A closure that pushes strings, as a visitor.
pub struct Emitter<F> {
    f: F,
}

impl<I, F> Visit<I> for Emitter<F>
where
    I: Record + ?Sized,
    F: for<'a, 'b> Fn(I::Of<'a>, &'b mut Texts) + Send + Sync + 'static,
{
    type Out = str;
    type Scratch = Texts;

    #[inline(always)]
    fn visit(&self, item: I::Of<'_>, scratch: &mut Texts, emit: &mut impl FnMut(&str)) {
        (self.f)(item, scratch);
        scratch.batch.drain(emit);
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::check::check;

    #[test]
    fn strings_come_in_order_and_once() -> crate::Result<()> {
        let env = Environment::new();
        let out = env
            .iter(0..2000_u32)
            .flat_map_str(|n, out| out.extend(["x", "", "yz"].into_iter().take(n as usize % 4)))
            .map(|text| text.len())
            .collect::<Vec<_>>();
        env.run()?;
        let expected: Vec<usize> =
            (0..2000).flat_map(|n| [1, 0, 2].into_iter().take(n % 4)).collect();
        assert_eq!(out.take()?, expected);
        Ok(())
    }

    #[test]
    fn every_string_is_emitted_once_in_any_run() {
        let strings = |n: u64| (0..n % 4).map(move |k| format!("{n}.{k}"));
        check(|env| {
            let push = move |n, out: &mut super::Texts| strings(n).for_each(|text| out.push(&text));
            env.range(0..100).flat_map_str(push)
        })
        .seeds(2)
        .equals((0..100).flat_map(strings));
    }
}
