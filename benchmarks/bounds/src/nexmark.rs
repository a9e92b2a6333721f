//! The queries of Nexmark by hand: threads take every other segment and keep what a query needs of
//! each slide in arrays, which are put together when all is read.

use bench_protocol::{Request, Result};
use rustc_hash::FxHashMap;
use thalweg_workloads::digest::Digest;
use thalweg_workloads::nexmark::oracle::{
    CATEGORY, HIGHEST_BID, HOT_ITEMS, NEW_USERS, Row2, Row3, Row5, Row7, Row8, SKIP, STATES, euros,
};
use thalweg_workloads::nexmark::{BidRef, EventRef, Segment, Segments, recipe};

use crate::auctions;
use crate::streams::{SEED, answer, merged};
use crate::threads::{on_each, part};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let query = match request.value("query")? {
        0 => q0,
        1 => q1,
        2 => q2,
        3 => q3,
        4 => auctions::q4,
        6 => auctions::q6,
        5 => q5,
        7 => q7,
        8 => q8,
        other => return Err(format!("there is no query {other} here").into()),
    };
    let segments = Segments::generate(recipe(SEED), request.value("events")?);
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| query(segments.segments(), cores));
        Ok(answer(digest, segments.count(), segments.size()))
    })
}

/// The segments of a thread.
fn share(segments: &[Segment], index: usize, cores: usize) -> impl Iterator<Item = &Segment> {
    segments.iter().skip(index).step_by(cores)
}

/// Digests what a thread makes of each of its events.
fn each<'a>(
    segments: &'a [Segment],
    cores: usize,
    row: impl Fn(&mut Digest, EventRef<'a>) + Sync,
) -> Digest {
    merged(on_each(cores, |index| {
        let mut digest = Digest::default();
        for segment in share(segments, index, cores) {
            segment.events().for_each(|event| row(&mut digest, event));
        }
        digest
    }))
}

fn q0(segments: &[Segment], cores: usize) -> Digest {
    each(segments, cores, |digest, event| digest.add(&event))
}

fn q1(segments: &[Segment], cores: usize) -> Digest {
    each(segments, cores, |digest, event| {
        if let EventRef::Bid(bid) = event {
            digest.add(&BidRef { price: euros(bid.price), ..bid });
        }
    })
}

fn q2(segments: &[Segment], cores: usize) -> Digest {
    each(segments, cores, |digest, event| {
        if let EventRef::Bid(bid) = event
            && bid.auction % SKIP == 0
        {
            digest.add(&Row2 { auction: bid.auction, price: bid.price });
        }
    })
}

/// The wanted persons and auctions, each thread's own, then every auction looked up.
fn q3(segments: &[Segment], cores: usize) -> Digest {
    let found = on_each(cores, |index| {
        let (mut near, mut auctions) = (FxHashMap::default(), Vec::new());
        for event in share(segments, index, cores).flat_map(Segment::events) {
            match event {
                EventRef::Person(person) if STATES.contains(&person.state) => {
                    near.insert(person.id, person);
                }
                EventRef::Auction(auction) if auction.category == CATEGORY => {
                    auctions.push((auction.seller, auction.id));
                }
                _ => {}
            }
        }
        (near, auctions)
    });
    merged(on_each(cores, |index| {
        let mut digest = Digest::default();
        for &(seller, auction) in &found[index].1 {
            let Some(person) = found.iter().find_map(|(near, _)| near.get(&seller)) else {
                continue;
            };
            let [name, city, state] = [person.name, person.city, person.state].map(str::to_owned);
            digest.add(&Row3 { name, city, state, auction });
        }
        digest
    }))
}

/// Counts of identifiers that are close together.
#[derive(Default)]
struct Counts {
    base: u64,
    counts: Vec<u32>,
}

impl Counts {
    /// Identifiers that there is room for before the first one that is seen.
    const ROOM: u64 = 1024;

    #[inline]
    fn add(&mut self, id: u64) {
        if let Some(count) = self.counts.get_mut(id.wrapping_sub(self.base) as usize) {
            *count += 1;
        } else {
            self.widen(id);
            self.counts[(id - self.base) as usize] += 1;
        }
    }

    #[cold]
    fn widen(&mut self, id: u64) {
        if self.counts.is_empty() {
            self.base = id;
        }
        if id <= self.base {
            let base = id.saturating_sub(Self::ROOM);
            let more = (self.base - base) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.base = base;
        }
        let needed = (id - self.base) as usize + 1;
        if needed > self.counts.len() {
            self.counts.resize(needed + Self::ROOM as usize, 0);
        }
    }

    fn has(&self, id: u64) -> bool {
        let count = self.counts.get(id.wrapping_sub(self.base) as usize);
        count.is_some_and(|count| *count > 0)
    }

    fn add_all(&mut self, others: &Self) {
        let Some(last) = others.counts.len().checked_sub(1) else { return };
        for end in [others.base, others.base + last as u64] {
            if self.counts.get(end.wrapping_sub(self.base) as usize).is_none() {
                self.widen(end);
            }
        }
        let from = (others.base - self.base) as usize;
        let own = &mut self.counts[from..=from + last];
        own.iter_mut().zip(&others.counts).for_each(|(own, other)| *own += other);
    }
}

/// What a thread has kept of each slide. Records come in order, so that the last slide is looked up
/// again and again.
struct Slides<T> {
    slides: FxHashMap<i64, T>,
    start: i64,
    last: T,
}

impl<T: Default> Slides<T> {
    fn new() -> Self {
        Self { slides: FxHashMap::default(), start: i64::MIN, last: T::default() }
    }

    #[inline]
    fn at(&mut self, time: i64, slide: i64) -> &mut T {
        if time.wrapping_sub(self.start) as u64 >= slide as u64 {
            self.turn(time - time.rem_euclid(slide));
        }
        &mut self.last
    }

    #[cold]
    fn turn(&mut self, start: i64) {
        let next = self.slides.remove(&start).unwrap_or_default();
        let last = std::mem::replace(&mut self.last, next);
        self.slides.insert(std::mem::replace(&mut self.start, start), last);
    }

    fn all(mut self) -> FxHashMap<i64, T> {
        self.slides.insert(self.start, self.last);
        self.slides.remove(&i64::MIN);
        self.slides
    }
}

/// Reads everything into slides, on all threads.
fn slides<'a, T: Default + Send>(
    segments: &'a [Segment],
    cores: usize,
    slide: i64,
    keep: impl Fn(&mut T, EventRef<'a>) + Sync,
) -> Vec<FxHashMap<i64, T>> {
    on_each(cores, |index| {
        let mut slides = Slides::new();
        for segment in share(segments, index, cores) {
            for event in segment.events() {
                keep(slides.at(event.time(), slide), event);
            }
        }
        slides.all()
    })
}

/// Digests the rows of every window of `count` slides, on all threads: `rows` gets the window's
/// start and what is kept of its slides.
fn windows<T: Sync>(
    kept: &[FxHashMap<i64, T>],
    cores: usize,
    slide: i64,
    count: i64,
    rows: impl Fn(&mut Digest, i64, Vec<&T>) + Sync,
) -> Digest {
    let starts = || kept.iter().flat_map(|slides| slides.keys().copied());
    let (Some(first), Some(last)) = (starts().min(), starts().max()) else {
        return Digest::default();
    };
    let begin = first - (count - 1) * slide;
    let windows = ((last - begin) / slide + 1) as u64;
    merged(on_each(cores, |index| {
        let mut digest = Digest::default();
        for window in part(windows, index, cores) {
            let start = begin + window as i64 * slide;
            let slides = (0..count).map(|at| start + at * slide);
            let found = slides.flat_map(|at| kept.iter().filter_map(move |all| all.get(&at)));
            rows(&mut digest, start, found.collect());
        }
        digest
    }))
}

fn q5(segments: &[Segment], cores: usize) -> Digest {
    let slide = HOT_ITEMS.slide();
    let kept = slides(segments, cores, slide, |counts: &mut Counts, event| {
        if let EventRef::Bid(bid) = event {
            counts.add(bid.auction);
        }
    });
    windows(&kept, cores, slide, HOT_ITEMS.size() / slide, |digest, start, slides| {
        let mut all = Counts::default();
        slides.into_iter().for_each(|counts| all.add_all(counts));
        let most = all.counts.iter().copied().max().unwrap_or(0);
        if most == 0 {
            return;
        }
        for (auction, &count) in (all.base..).zip(&all.counts) {
            if count == most {
                digest.add(&Row5 { start, auction, bids: u64::from(count) });
            }
        }
    })
}

fn q7(segments: &[Segment], cores: usize) -> Digest {
    let size = HIGHEST_BID.size();
    let kept = slides(segments, cores, size, |best: &mut Vec<BidRef<'_>>, event| {
        let EventRef::Bid(bid) = event else { return };
        let so_far = best.first().map_or(0, |first| first.price);
        if bid.price >= so_far {
            if bid.price > so_far {
                best.clear();
            }
            best.push(bid);
        }
    });
    windows(&kept, cores, size, 1, |digest, start, slides| {
        let bids = || slides.iter().flat_map(|best| best.iter());
        let most = bids().map(|bid| bid.price).max();
        for &BidRef { auction, bidder, price, date_time, .. } in bids() {
            if Some(price) == most {
                digest.add(&Row7 { start, auction, bidder, price, date_time });
            }
        }
    })
}

fn q8(segments: &[Segment], cores: usize) -> Digest {
    let size = NEW_USERS.size();
    type Kept<'a> = (Vec<(u64, &'a str)>, Counts);
    let kept =
        slides(segments, cores, size, |(persons, sellers): &mut Kept<'_>, event| match event {
            EventRef::Person(person) => persons.push((person.id, person.name)),
            EventRef::Auction(auction) => sellers.add(auction.seller),
            EventRef::Bid(_) => {}
        });
    windows(&kept, cores, size, 1, |digest, start, slides| {
        for &(person, name) in slides.iter().flat_map(|(persons, _)| persons) {
            if slides.iter().any(|(_, sellers)| sellers.has(person)) {
                digest.add(&Row8 { start, person, name: name.to_owned() });
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_workloads::digest::digest;
    use thalweg_workloads::nexmark::oracle;

    #[test]
    fn answers_are_those_of_the_definition() {
        let segments = Segments::generate(recipe(7), 300_000);
        let all = segments.segments();
        let events = || segments.events();
        assert_eq!(q0(all, 3), digest(oracle::q0(events())));
        assert_eq!(q1(all, 3), digest(oracle::q1(events())));
        assert_eq!(q2(all, 3), digest(oracle::q2(events())));
        assert_eq!(q3(all, 3), digest(oracle::q3(events())));
        assert_eq!(q5(all, 3), digest(oracle::q5(events())));
        assert_eq!(q7(all, 3), digest(oracle::q7(events())));
        assert_eq!(q8(all, 3), digest(oracle::q8(events())));
    }

    #[test]
    fn counts_widen_to_both_sides() {
        let mut counts = Counts::default();
        let ids = [5000, 9000, 3, 5000];
        ids.iter().for_each(|id| counts.add(*id));
        let mut others = Counts::default();
        others.add(20_000);
        others.add_all(&counts);
        let found: Vec<(u64, u32)> =
            (others.base..).zip(others.counts).filter(|(_, count)| *count > 0).collect();
        assert_eq!(found, [(3, 1), (5000, 2), (9000, 1), (20_000, 1)]);
    }
}
