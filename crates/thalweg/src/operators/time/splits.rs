//! The watermarks of the splits that one task reads in turn, each in order for itself.

use super::WatermarkGenerator;
use super::watermarks::watermark_of;
use crate::clock::Nanos;
use crate::data::Record;
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// The splits of a task. The generator of the one that is being read is with the operator, and comes back here when another
/// one is read.
pub(super) struct Splits<G> {
    all: BTreeMap<usize, Split<G>>,
    current: Option<usize>,
    /// How many are still to be entered of those that the source has announced together.
    announced: usize,
}

struct Split<G> {
    /// `None` while the split is being read.
    generator: Option<G>,
    watermark: Option<Timestamp>,
    /// Since when there have been no records of it. `None` while there are, and while that is not known.
    quiet_since: Option<Nanos>,
    /// Whether it has been quiet for so long that it does not hold back the watermark.
    idle: bool,
}

impl<G> Splits<G> {
    /// None.
    pub(super) fn new() -> Self {
        Self { all: BTreeMap::new(), current: None, announced: 0 }
    }

    /// Whether the source has named none, or all of them have ended.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.announced == 0
    }

    /// Whether it was entered, and has not ended.
    pub(super) fn has(&self, split: usize) -> bool {
        self.all.contains_key(&split)
    }

    /// So many more are to be entered: the others may be ahead of them, as the generators of a checkpoint may be.
    pub(super) fn announce(&mut self, count: usize) {
        self.announced += count;
    }

    /// Since when none of them has had records, at the earliest since then. `None` if one may have some.
    pub(super) fn all_quiet_since(&self, earliest: Nanos) -> Option<Nanos> {
        if self.announced > 0 {
            return None;
        }
        let later = |last: Nanos, split: &Split<G>| Some(last.max(split.quiet_since?));
        self.all.values().try_fold(earliest, later)
    }

    /// Since when that one has had none which is left out next.
    pub(super) fn next_quiet_since(&self) -> Option<Nanos> {
        let waiting = self.all.values().filter(|split| !split.idle);
        waiting.filter_map(|split| split.quiet_since).min()
    }

    /// The split that is being read has records.
    pub(super) fn has_records(&mut self) {
        if let Some(current) = self.current {
            self.is_not_quiet(current);
        }
    }

    /// A split has records, which may not be read yet.
    pub(super) fn is_not_quiet(&mut self, split: usize) {
        if let Some(split) = self.all.get_mut(&split) {
            (split.quiet_since, split.idle) = (None, false);
        }
    }

    /// For so long, none of them could be read.
    pub(super) fn pass(&mut self, time: Nanos) {
        for since in self.all.values_mut().filter_map(|split| split.quiet_since.as_mut()) {
            *since = since.saturating_add(time);
        }
    }

    /// A split has no records for now.
    pub(super) fn quiet(&mut self, split: usize, now: Nanos) {
        if let Some(split) = self.all.get_mut(&split) {
            split.quiet_since.get_or_insert(now);
        }
    }

    /// A split may have records that have not come. One that is idle stays so until they have.
    pub(super) fn behind(&mut self, split: usize) {
        if let Some(split) = self.all.get_mut(&split).filter(|split| !split.idle) {
            split.quiet_since = None;
        }
    }

    /// Splits that have had no records since then do not hold back the watermark.
    pub(super) fn leave_out(&mut self, since: Nanos) {
        for split in self.all.values_mut() {
            split.idle |= split.quiet_since.is_some_and(|quiet| quiet <= since);
        }
    }

    /// The watermark of the task: the least of its splits', where `current` is that of the one that is being read. `None` if
    /// one of them has none yet or is still to be entered, or all are idle.
    pub(super) fn watermark(&self, current: Option<Timestamp>) -> Option<Timestamp> {
        if self.announced > 0 {
            return None;
        }
        let holding = self.all.iter().filter(|(_, split)| !split.idle);
        holding.map(|(number, split)| self.of(*number, split, current)).min().flatten()
    }

    /// The one that holds back the watermark of the task.
    pub(super) fn holding(&self, current: Option<Timestamp>) -> Option<usize> {
        let holding = self.all.iter().filter(|(_, split)| !split.idle);
        let with = holding.map(|(number, split)| (self.of(*number, split, current), *number));
        with.min().map(|(_, number)| number)
    }

    /// The watermark of one of them.
    pub(super) fn watermark_of(
        &self,
        split: usize,
        current: Option<Timestamp>,
    ) -> Option<Timestamp> {
        self.of(split, self.all.get(&split)?, current)
    }

    fn of(&self, number: usize, split: &Split<G>, current: Option<Timestamp>) -> Option<Timestamp> {
        match Some(number) == self.current {
            true => split.watermark.max(current),
            false => split.watermark,
        }
    }
}

impl<G: Clone> Splits<G> {
    /// The generator of each, where `current` is that of the one that is being read.
    pub(super) fn generators(&self, current: &G) -> impl Iterator<Item = (usize, G)> {
        let with = self.all.iter().map(|(number, split)| (*number, split.generator.as_ref()));
        with.map(move |(number, generator)| (number, generator.unwrap_or(current).clone()))
    }

    /// The records that follow are of this split. `generator` becomes that of the split, and `first` is the one of a split that
    /// is new. Returns whether it is.
    pub(super) fn enter<I>(&mut self, split: usize, generator: &mut G, first: &G) -> bool
    where
        I: Record + ?Sized,
        G: WatermarkGenerator<I>,
    {
        self.leave(generator);
        let new = || Split {
            generator: Some(first.clone()),
            watermark: None,
            quiet_since: None,
            idle: false,
        };
        let is_new = !self.all.contains_key(&split);
        self.announced = self.announced.saturating_sub(usize::from(is_new));
        let of = self.all.entry(split).or_insert_with(new);
        *generator = of.generator.take().unwrap_or_else(|| first.clone());
        self.current = Some(split);
        is_new
    }

    /// A split has been read to its end.
    pub(super) fn end<I>(&mut self, split: usize, generator: &mut G, first: &G)
    where
        I: Record + ?Sized,
        G: WatermarkGenerator<I>,
    {
        self.all.remove(&split);
        if self.current == Some(split) {
            self.current = None;
            *generator = first.clone();
        }
    }

    /// Another split than the current one is read next.
    fn leave<I>(&mut self, generator: &G)
    where
        I: Record + ?Sized,
        G: WatermarkGenerator<I>,
    {
        let current = self.current.take();
        if let Some(split) = current.and_then(|current| self.all.get_mut(&current)) {
            split.watermark = split.watermark.max(watermark_of::<I>(generator));
            split.generator = Some(generator.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::time::saved::Remembers;
    use crate::operators::time::{Disorder, Watermarks};

    fn at(micros: i64) -> Option<Timestamp> {
        Some(Timestamp::from_micros(micros))
    }

    #[test]
    fn every_split_holds_the_watermark_back_until_it_ends_or_is_idle() {
        let first = Watermarks::monotonous().generator;
        let mut generator = first.clone();
        let mut splits = Splits::new();
        let seen = |generator: &mut Disorder, micros| {
            WatermarkGenerator::<u64>::observe(generator, &0, Timestamp::from_micros(micros));
        };
        assert!(splits.is_empty());
        splits.announce(2);
        splits.enter::<u64>(3, &mut generator, &first);
        splits.enter::<u64>(5, &mut generator, &first);
        seen(&mut generator, 70);
        let now = |splits: &Splits<Disorder>, generator: &Disorder| {
            splits.watermark(watermark_of::<u64>(generator))
        };
        assert_eq!(now(&splits, &generator), None, "nothing is known of the other one");
        let holding = |splits: &Splits<Disorder>, generator: &Disorder| {
            splits.holding(watermark_of::<u64>(generator))
        };
        assert_eq!(holding(&splits, &generator), Some(3));
        splits.enter::<u64>(3, &mut generator, &first);
        seen(&mut generator, 20);
        let three = now(&splits, &generator);
        assert!(three.is_some() && three <= at(20), "{three:?}");
        splits.enter::<u64>(5, &mut generator, &first);
        assert_eq!(now(&splits, &generator), three, "it is remembered");
        splits.quiet(3, 100);
        splits.quiet(3, 200);
        splits.leave_out(99);
        assert_eq!(now(&splits, &generator), three, "not long enough");
        splits.leave_out(100);
        let five = now(&splits, &generator);
        assert!(five > three && five <= at(70), "{five:?}");
        assert_eq!(holding(&splits, &generator), Some(5), "the other one is idle");
        splits.enter::<u64>(3, &mut generator, &first);
        assert_eq!(now(&splits, &generator), five, "it has no records yet");
        splits.has_records();
        assert_eq!(now(&splits, &generator), three);
        // It is quiet, and cannot be read for a while; and then it has records, and waits for others.
        splits.quiet(3, 300);
        splits.pass(50);
        splits.leave_out(300);
        assert_eq!(now(&splits, &generator), three, "not long enough");
        splits.leave_out(350);
        assert_eq!(now(&splits, &generator), five);
        splits.is_not_quiet(3);
        splits.leave_out(1000);
        assert_eq!(now(&splits, &generator), three);
        // Its records have not come, so that it is not known whether it is quiet, and then it is quiet for long enough.
        splits.quiet(3, 1000);
        splits.behind(3);
        splits.leave_out(2000);
        assert_eq!(now(&splits, &generator), three);
        splits.quiet(5, 2000);
        assert_eq!((splits.all_quiet_since(7), splits.next_quiet_since()), (None, Some(2000)));
        splits.quiet(3, 1990);
        let quiet = |splits: &Splits<Disorder>| [7, 3000].map(|at| splits.all_quiet_since(at));
        assert_eq!(
            (quiet(&splits), splits.next_quiet_since()),
            ([Some(2000), Some(3000)], Some(1990))
        );
        splits.is_not_quiet(5);
        splits.leave_out(2000);
        splits.behind(3);
        assert_eq!(
            (now(&splits, &generator), splits.next_quiet_since()),
            (five, None),
            "it stays idle"
        );
        splits.end::<u64>(3, &mut generator, &first);
        assert_eq!(now(&splits, &generator), five);
        splits.announce(1);
        assert_eq!(now(&splits, &generator), None, "another one is to be entered");
        let before = generator.that_has_seen(at(90));
        splits.enter::<u64>(7, &mut generator, &before);
        assert_eq!(now(&splits, &generator), five, "it is ahead from the first");
        let all: Vec<_> = splits.generators(&generator).collect();
        let all = all.iter().map(|(number, generator)| (*number, generator.greatest()));
        assert_eq!(all.collect::<Vec<_>>(), [(5, at(70)), (7, at(90))]);
        splits.end::<u64>(7, &mut generator, &first);
        splits.end::<u64>(5, &mut generator, &first);
        assert!(splits.is_empty());
    }
}
