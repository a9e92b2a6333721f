//! The Yahoo benchmark by hand: the fields that count are read where they lie in the 64 bytes, an
//! advertisement's place in its table is a multiplication away, and nothing branches on the data.

use bench_protocol::{Request, Result};
use std::collections::BTreeMap;
use thalweg_workloads::digest::{Digest, digest};
use thalweg_workloads::segments::Segment;
use thalweg_workloads::windows::Windows;
use thalweg_workloads::ysb::fixed::{Fixed, SIZE};
use thalweg_workloads::ysb::oracle::{RowStar, RowSwa, RowYsb, STAR, SWA, YSB};
use thalweg_workloads::ysb::{
    ADS_PER_CAMPAIGN, CAMPAIGNS, Campaigns, EventType, FixedSegments, recipe,
};

use crate::streams::{SEED, answer};
use crate::threads::on_each;

pub(crate) fn serve_ysb(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let ads = Ads::new(&Campaigns::new(SEED));
    let segments = FixedSegments::generate(recipe(SEED), request.value("events")?);
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| ysb(segments.segments(), &ads, cores));
        Ok(answer(digest, segments.count(), segments.size()))
    })
}

pub(crate) fn serve_star(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let ads = Ads::new(&Campaigns::new(SEED));
    let segments = FixedSegments::generate(recipe(SEED), request.value("events")?);
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| star(segments.segments(), &ads, cores));
        Ok(answer(digest, segments.count(), segments.size()))
    })
}

pub(crate) fn serve_swa(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let segments = FixedSegments::generate(recipe(SEED), request.value("events")?);
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| swa(segments.segments(), cores));
        Ok(answer(digest, segments.count(), segments.size()))
    })
}

/// Bits of a place in the table.
const BITS: u32 = 16;

/// Where each advertisement is, with no two in one place.
struct Ads {
    factor: u64,
    places: Vec<u16>,
    ads: Vec<u128>,
}

impl Ads {
    fn new(campaigns: &Campaigns) -> Self {
        let ads = campaigns.ads().to_vec();
        let mut factor = 0x9e37_79b9_7f4a_7c15u64;
        loop {
            // Any odd factor will do; one in some thousands leaves no two in one place.
            factor = factor.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(2);
            let mut places = vec![u16::MAX; 1 << BITS];
            let free = (0..).zip(&ads).all(|(at, ad)| {
                let place = &mut places[place(*ad, factor)];
                std::mem::replace(place, at) == u16::MAX
            });
            if free {
                // An advertisement that is none has the place of one that it does not equal.
                places.iter_mut().filter(|at| **at == u16::MAX).for_each(|at| *at = 0);
                return Self { factor, places, ads };
            }
        }
    }
}

#[inline]
fn place(ad: u128, factor: u64) -> usize {
    ((ad as u64).wrapping_mul(factor) >> (u64::BITS - BITS)) as usize
}

#[inline]
fn time(event: &[u8; SIZE]) -> i64 {
    i64::from_le_bytes(std::array::from_fn(|at| event[48 + at]))
}

/// A count for each advertisement, from which those of campaigns follow.
type Counts = [u32; (CAMPAIGNS * ADS_PER_CAMPAIGN) as usize];

const NONE: Counts = [0; (CAMPAIGNS * ADS_PER_CAMPAIGN) as usize];

/// The events of each window by campaign, each of `TYPES` apart.
fn counts<const TYPES: usize>(
    segments: &[Segment<Fixed>],
    ads: &Ads,
    cores: usize,
    windows: Windows,
    types: [EventType; TYPES],
) -> BTreeMap<(i64, u32), [u64; TYPES]> {
    let parts = on_each(cores, |index| {
        let mut found = BTreeMap::<i64, Vec<Counts>>::new();
        for segment in segments.iter().skip(index).step_by(cores) {
            let (mut rest, _) = segment.bytes().as_chunks::<SIZE>();
            while let Some(first) = rest.first() {
                let start = windows.last_start(time(first));
                let counts = found.entry(start).or_insert_with(|| vec![NONE; TYPES]);
                let counts: &mut [Counts; TYPES] = counts.as_mut_slice().try_into().unwrap();
                let taken = rest.iter().position(|event| {
                    if time(event).wrapping_sub(start) as u64 >= windows.size() as u64 {
                        return true;
                    }
                    let ad = u128::from_be_bytes(std::array::from_fn(|at| event[32 + at]));
                    let at = usize::from(ads.places[place(ad, ads.factor)]);
                    for (counts, wanted) in counts.iter_mut().zip(types) {
                        let of_type = event[61] == wanted as u8;
                        counts[at] += u32::from(of_type & (ads.ads[at] == ad));
                    }
                    false
                });
                rest = &rest[taken.unwrap_or(rest.len())..];
            }
        }
        found
    });
    let mut all = BTreeMap::<(i64, u32), [u64; TYPES]>::new();
    for (start, counts) in parts.iter().flatten() {
        for (at, counts) in counts.iter().enumerate() {
            for (campaign, ads) in (0..).zip(counts.chunks(ADS_PER_CAMPAIGN as usize)) {
                let count: u64 = ads.iter().map(|count| u64::from(*count)).sum();
                all.entry((*start, campaign)).or_insert([0; TYPES])[at] += count;
            }
        }
    }
    all
}

fn ysb(segments: &[Segment<Fixed>], ads: &Ads, cores: usize) -> Digest {
    let views = counts(segments, ads, cores, YSB, [EventType::View]);
    let rows = views.into_iter().filter(|(_, [views])| *views > 0);
    digest(rows.map(|((start, campaign), [views])| RowYsb { start, campaign, views }))
}

fn star(segments: &[Segment<Fixed>], ads: &Ads, cores: usize) -> Digest {
    let both = counts(segments, ads, cores, STAR, [EventType::Click, EventType::View]);
    let rows = both.into_iter().filter(|(_, [clicks, views])| *clicks > 0 && *views > 0);
    digest(rows.map(|((start, campaign), [clicks, views])| RowStar {
        start,
        campaign,
        clicks,
        views,
    }))
}

fn swa(segments: &[Segment<Fixed>], cores: usize) -> Digest {
    let parts = on_each(cores, |index| {
        let mut windows = BTreeMap::<i64, u64>::new();
        for segment in segments.iter().skip(index).step_by(cores) {
            let (mut rest, _) = segment.bytes().as_chunks::<SIZE>();
            while let Some(first) = rest.first() {
                let start = SWA.last_start(time(first));
                let within = |event: &[u8; SIZE]| {
                    (time(event).wrapping_sub(start) as u64) < SWA.size() as u64
                };
                let taken = rest.iter().position(|event| !within(event)).unwrap_or(rest.len());
                *windows.entry(start).or_default() += taken as u64;
                rest = &rest[taken..];
            }
        }
        windows
    });
    let mut all = BTreeMap::<i64, u64>::new();
    for (start, events) in parts.into_iter().flatten() {
        *all.entry(start).or_default() += events;
    }
    digest(all.into_iter().map(|(start, events)| RowSwa { start, events }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;
    use thalweg_workloads::Recipe;
    use thalweg_workloads::ysb::oracle;

    #[test]
    fn answers_are_those_of_the_definition() {
        // Few events a second, so that there are windows enough.
        let recipe = Recipe { seed: 5, rate: NonZeroU64::new(1_000).unwrap() };
        let (segments, campaigns) = (FixedSegments::generate(recipe, 200_000), Campaigns::new(5));
        let all = segments.segments();
        assert_eq!(
            ysb(all, &Ads::new(&campaigns), 2),
            digest(oracle::ysb(segments.events(), &campaigns))
        );
        assert_eq!(
            star(all, &Ads::new(&campaigns), 2),
            digest(oracle::ysb_star(segments.events(), &campaigns, STAR))
        );
        assert_eq!(swa(all, 2), digest(oracle::swa(segments.events())));
        // No advertisement is in a campaign of another seed.
        assert_eq!(ysb(all, &Ads::new(&Campaigns::new(6)), 2), Digest::default());
    }
}
