//! Generates event `n` from a recipe and `n` alone, and the table of campaigns from the seed.

use super::event::{AdType, Event, EventType, uuid};
use crate::Recipe;
use crate::random::Random;
use std::collections::HashMap;
use std::ops::Range;

/// The number of campaigns, which are numbered from 0.
pub const CAMPAIGNS: u32 = 100;
/// The number of advertisements of each campaign.
pub const ADS_PER_CAMPAIGN: u32 = 10;

/// Separates the random choices of an advertisement from those of the event with its number.
const AD_SEED: u64 = 0x6164_7665_7274_6973;

/// The campaign of each advertisement.
///
/// ```
/// use thalweg_workloads::ysb::{Campaigns, Generator, recipe};
///
/// let campaigns = Campaigns::new(5);
/// for event in Generator::new(recipe(5)).events(0..100) {
///     assert!(campaigns.table().contains_key(&event.ad));
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Campaigns {
    ads: Vec<u128>,
    table: HashMap<u128, u32>,
}

impl Campaigns {
    /// The advertisements under `seed`.
    pub fn new(seed: u64) -> Self {
        let ads = (0..CAMPAIGNS * ADS_PER_CAMPAIGN)
            .map(|ad| random_uuid(&mut Random::new(seed ^ AD_SEED, u64::from(ad))));
        let ads: Vec<u128> = ads.collect();
        let table = (0..).zip(&ads).map(|(place, ad)| (*ad, place / ADS_PER_CAMPAIGN)).collect();
        Self { ads, table }
    }

    /// Every advertisement, grouped by campaign.
    pub fn ads(&self) -> &[u128] {
        &self.ads
    }

    /// The campaign of each advertisement.
    pub fn table(&self) -> &HashMap<u128, u32> {
        &self.table
    }

    /// The campaign of each advertisement for the variable form, with the advertisement as text.
    pub fn text_table(&self) -> HashMap<String, u32> {
        let text = |ad: u128| uuid(ad).map(char::from).iter().collect();
        self.table.iter().map(|(&ad, &campaign)| (text(ad), campaign)).collect()
    }
}

/// Generates any event of a recipe.
///
/// ```
/// use thalweg_workloads::ysb::{Event, Generator, recipe};
///
/// let generator = Generator::new(recipe(42));
/// let whole: Vec<Event> = generator.events(0..1_000).collect();
/// assert_eq!(generator.event(600), whole[600]);
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    recipe: Recipe,
    ads: Vec<u128>,
}

impl Generator {
    /// A generator of the events of `recipe`. It computes the table of campaigns: reuse it.
    pub fn new(recipe: Recipe) -> Self {
        Self { recipe, ads: Campaigns::new(recipe.seed).ads }
    }

    /// The recipe.
    pub fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// Event `number`.
    #[inline]
    pub fn event(&self, number: u64) -> Event {
        let mut random = Random::new(self.recipe.seed, number);
        Event {
            user: random_uuid(&mut random),
            page: random_uuid(&mut random),
            ad: random.of(&self.ads),
            ad_type: random.of(AdType::ALL),
            event_type: random.of(EventType::ALL),
            time: self.recipe.time(number),
            ip: (random.next() as u32).to_be_bytes(),
        }
    }

    /// The events of a range of numbers.
    pub fn events(&self, numbers: Range<u64>) -> impl Iterator<Item = Event> {
        numbers.map(|number| self.event(number))
    }
}

/// A random UUID of version 4, in which version and variant take six bits.
fn random_uuid(random: &mut Random) -> u128 {
    let bits = u128::from(random.next()) << 64 | u128::from(random.next());
    bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62
}
