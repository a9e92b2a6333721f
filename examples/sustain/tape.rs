//! Events that are made once and played round and round, each stamped with the time at which it is due.
//!
//! To make an event costs more than most programs do with it, and so many as a search needs do not fit into
//! memory. A tape holds some; on every lap its events have later times and, where identifiers grow with the
//! stream, greater identifiers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use thalweg::data::Record;
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream, Visit};
use thalweg_examples::queries::nexmark::Events;
use thalweg_examples::queries::ysb::TextEvents;
use thalweg_workloads::nexmark::{self, AuctionRef, BidRef, Encoded, EventRef, PersonRef, make};
use thalweg_workloads::segments::Format;
use thalweg_workloads::ysb::fixed::Fixed;
use thalweg_workloads::ysb::variable::Variable;
use thalweg_workloads::ysb::{self, Event, TextEvent};
use thalweg_workloads::{Recipe, SECOND};

/// What is due within so short a time goes on its way together, when the last of it is due.
const TOGETHER: f64 = 200e-6;

/// Events, or words, that can be played again.
pub(crate) trait Played: Send + Sync + 'static {
    /// What is played.
    type Out: Record + ?Sized;

    /// A number of events of which a tape must hold a multiple.
    const ROUND: u64 = 1;

    /// Makes so many events, and appends their bytes.
    fn record(seed: u64, events: u64, out: &mut Vec<u8>);

    /// Takes an event off the front of `input`, as it is on this turn.
    fn play<'a>(input: &mut &'a [u8], turn: &Turn) -> <Self::Out as Record>::Of<'a>;

    /// When it happens.
    fn time(event: &<Self::Out as Record>::Of<'_>) -> i64;
}

/// What is different when an event is played again.
pub(crate) struct Turn {
    /// How often the tape has been gone through before.
    lap: u64,
    /// How many events it holds.
    events: u64,
    /// When the event is due.
    due: i64,
    /// Events a second.
    rate: f64,
}

const READABLE: &str = "what was recorded here can be read";

impl Played for Fixed {
    type Out = Event;

    fn record(seed: u64, events: u64, out: &mut Vec<u8>) {
        Self::append(ysb::recipe(seed), 0..events, out);
    }

    #[inline(always)]
    fn play(input: &mut &[u8], turn: &Turn) -> Event {
        Event { time: turn.due, ..Self::decode(input).expect(READABLE) }
    }

    #[inline(always)]
    fn time(event: &Event) -> i64 {
        event.time
    }
}

impl Played for Variable {
    type Out = TextEvents;

    fn record(seed: u64, events: u64, out: &mut Vec<u8>) {
        Self::append(ysb::recipe(seed), 0..events, out);
    }

    #[inline(always)]
    fn play<'a>(input: &mut &'a [u8], turn: &Turn) -> TextEvent<'a> {
        TextEvent { time: turn.due, ..Self::decode(input).expect(READABLE) }
    }

    #[inline(always)]
    fn time(event: &TextEvent<'_>) -> i64 {
        event.time
    }
}

impl Played for Encoded {
    type Out = Events;

    /// Hot persons and auctions are the first of every hundred: with a whole number of hundreds, the next
    /// lap begins where the generator would.
    const ROUND: u64 = 100 * make::ROUND;

    fn record(seed: u64, events: u64, out: &mut Vec<u8>) {
        // From the second lap on, so that events may name what was before the tape's beginning.
        Self::append(nexmark::recipe(seed), events..2 * events, out);
    }

    #[inline(always)]
    fn play<'a>(input: &mut &'a [u8], turn: &Turn) -> EventRef<'a> {
        let rounds = turn.lap * (turn.events / make::ROUND);
        let (persons, auctions) = (rounds * make::PERSONS, rounds * make::AUCTIONS);
        let date_time = turn.due;
        match Self::decode(input).expect(READABLE) {
            EventRef::Person(person) => {
                EventRef::Person(PersonRef { id: person.id + persons, date_time, ..person })
            }
            EventRef::Auction(auction) => {
                // As many events as at the rate at which it was made.
                let length = (auction.expires - auction.date_time) as f64;
                let length = (length * nexmark::RATE.get() as f64 / turn.rate) as i64;
                EventRef::Auction(AuctionRef {
                    id: auction.id + auctions,
                    seller: auction.seller + persons,
                    date_time,
                    expires: date_time + length.max(1),
                    ..auction
                })
            }
            EventRef::Bid(bid) => EventRef::Bid(BidRef {
                auction: bid.auction + auctions,
                bidder: bid.bidder + persons,
                date_time,
                ..bid
            }),
        }
    }

    #[inline(always)]
    fn time(event: &EventRef<'_>) -> i64 {
        event.time()
    }
}

/// Words, each with its time beside it.
pub(crate) struct Words;

/// A word and its time, borrowed from the tape.
pub(crate) struct Spoken {
    _unsized: [()],
}

impl Record for Spoken {
    type Of<'a> = (i64, &'a str);
}

/// How many different words there are.
const VOCABULARY: f64 = 20_000.0;

impl Played for Words {
    type Out = Spoken;

    /// As in texts, a word is as frequent as its rank is low.
    fn record(seed: u64, events: u64, out: &mut Vec<u8>) {
        let mut state = seed;
        for _ in 0..events {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let uniform = (state >> 11) as f64 / (1u64 << 53) as f64;
            let mut rank = VOCABULARY.powf(uniform) as u32;
            let at = out.len();
            out.push(0);
            while rank > 0 {
                out.push(b'a' + (rank % 26) as u8);
                rank /= 26;
            }
            out[at] = (out.len() - at - 1) as u8;
        }
    }

    #[inline(always)]
    fn play<'a>(input: &mut &'a [u8], turn: &Turn) -> (i64, &'a str) {
        let (length, rest) = input.split_first().expect(READABLE);
        let (word, rest) = rest.split_at(usize::from(*length));
        *input = rest;
        (turn.due, std::str::from_utf8(word).expect(READABLE))
    }

    #[inline(always)]
    fn time((time, _): &(i64, &str)) -> i64 {
        *time
    }
}

/// The word without its time.
pub(crate) struct Word;

impl Visit<Spoken> for Word {
    type Out = str;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, (_, word): (i64, &str), (): &mut (), emit: &mut impl FnMut(&str)) {
        emit(word);
    }
}

/// Events to be played round and round.
pub(crate) struct Tape<P> {
    bytes: Arc<[u8]>,
    /// Where each event begins, and where the last ends.
    starts: Arc<[usize]>,
    played: std::marker::PhantomData<P>,
}

impl<P> Clone for Tape<P> {
    fn clone(&self) -> Self {
        let (bytes, starts) = (Arc::clone(&self.bytes), Arc::clone(&self.starts));
        Self { bytes, starts, played: self.played }
    }
}

impl<P: Played> Tape<P> {
    /// Makes events, so many or a few more.
    pub(crate) fn record(seed: u64, events: u64) -> Self {
        let events = events.next_multiple_of(P::ROUND);
        let mut bytes = Vec::new();
        P::record(seed, events, &mut bytes);
        let mut rest = &bytes[..];
        let turn = Turn { lap: 0, events, due: 0, rate: 1.0 };
        let mut starts = vec![0];
        while !rest.is_empty() {
            P::play(&mut rest, &turn);
            starts.push(bytes.len() - rest.len());
        }
        Self { bytes: bytes.into(), starts: starts.into(), played: std::marker::PhantomData }
    }

    fn events(&self) -> u64 {
        self.starts.len() as u64 - 1
    }
}

/// When events are due: `rate` a second from the moment at which the source is first asked.
pub(crate) struct Schedule {
    rate: f64,
    events: u64,
    began: OnceLock<Instant>,
}

impl Schedule {
    /// Events at a rate, for so long.
    pub(crate) fn new(rate: f64, length: Duration) -> Self {
        let events = (length.as_secs_f64() * rate).ceil() as u64;
        Self { rate, events, began: OnceLock::new() }
    }

    /// How long it has been going on; nothing before it has begun.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.get().map(Instant::elapsed).unwrap_or_default()
    }

    /// When an event is due.
    #[inline(always)]
    fn due(&self, event: u64) -> i64 {
        Recipe::START + (event as f64 * (SECOND as f64 / self.rate)) as i64
    }

    /// What goes on its way as number `n`: what came due since the one before did; `None` at the end.
    fn together(&self, n: u64) -> Option<Range<u64>> {
        let before = |n: u64| ((n as f64 * TOGETHER * self.rate).ceil() as u64).min(self.events);
        let events = before(n.saturating_sub(1))..before(n);
        (n == 0 || events.start < self.events).then_some(events)
    }
}

/// A tape's events as they come due, dealt out to all tasks.
pub(crate) fn live<P: Played>(
    env: &Environment,
    tape: &Tape<P>,
    schedule: &Arc<Schedule>,
) -> Stream<impl Chain<Item = P::Out, Time = Timestamp> + use<P>> {
    let player = Player { tape: tape.clone(), schedule: Arc::clone(schedule) };
    let schedule = Arc::clone(schedule);
    env.generate(1.0 / TOGETHER, move |n| {
        schedule.began.get_or_init(Instant::now);
        schedule.together(n).map(|events| (events.start, events.end))
    })
    .shuffle()
    .flat_each(player)
    .assign_timestamps(|event| Timestamp::from_micros(P::time(event)), Watermarks::monotonous())
}

struct Player<P> {
    tape: Tape<P>,
    schedule: Arc<Schedule>,
}

impl<P: Played> Visit<(u64, u64)> for Player<P> {
    type Out = P::Out;
    type Scratch = ();

    #[inline(always)]
    fn visit(
        &self,
        (first, end): (u64, u64),
        (): &mut (),
        emit: &mut impl FnMut(<P::Out as Record>::Of<'_>),
    ) {
        let Self { tape, schedule } = self;
        let (events, rate) = (tape.events(), schedule.rate);
        let mut number = first;
        while number < end {
            let (lap, place) = (number / events, number % events);
            let mut rest = &tape.bytes[tape.starts[place as usize]..];
            let last = end.min(number + events - place);
            for number in number..last {
                let turn = Turn { lap, events, due: schedule.due(number), rate };
                emit(P::play(&mut rest, &turn));
            }
            number = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_workloads::nexmark::Generator;

    /// What is played from a schedule's beginning to its end, put into words.
    fn played<P: Played>(
        tape: &Tape<P>,
        rate: f64,
        millis: u64,
        text: fn(<P::Out as Record>::Of<'_>) -> String,
    ) -> Vec<String> {
        let schedule = Arc::new(Schedule::new(rate, Duration::from_millis(millis)));
        let player = Player { tape: tape.clone(), schedule: Arc::clone(&schedule) };
        let mut all = Vec::new();
        for events in (0..).map_while(|n| schedule.together(n)) {
            player.visit((events.start, events.end), &mut (), &mut |event| all.push(text(event)));
        }
        all
    }

    #[test]
    fn every_event_is_due_once_and_none_before_its_time() {
        for rate in [1e3, 12_345.6, 1e6, 33e6] {
            let schedule = Schedule::new(rate, Duration::from_millis(50));
            let mut next = 0;
            for (n, events) in (0u64..).map_while(|n| Some((n, schedule.together(n)?))) {
                assert_eq!(events.start, next);
                next = events.end;
                let at = Recipe::START as f64 + n as f64 * TOGETHER * 1e6;
                if let Some(last) = events.clone().last() {
                    assert!(
                        schedule.due(last) as f64 <= at
                            && schedule.due(events.start) as f64 >= at - 202.0
                    );
                }
            }
            assert_eq!(next, (rate * 0.05).ceil() as u64);
        }
    }

    #[test]
    fn a_tape_goes_on_as_the_generator_would() {
        // At the rate at which they are made, times and identifiers are those of the generator, but for the
        // events of the first lap.
        let tape = Tape::<Encoded>::record(3, 1);
        assert_eq!(tape.events(), 5000);
        let again = played::<Encoded>(&tape, 10_000.0, 1500, |event| event.to_string());
        assert_eq!(again.len(), 15_000);
        let made: Vec<_> = Generator::new(nexmark::recipe(3)).events(5000..10_000).collect();
        let lap = 5000 * SECOND / 10_000;
        for (n, event) in made.iter().enumerate() {
            let on_lap = |lap_number: i64| {
                let mut event = event.clone();
                let by = lap_number as u64;
                match &mut event {
                    nexmark::Event::Person(person) => person.id += 100 * by,
                    nexmark::Event::Auction(auction) => {
                        auction.id += 300 * by;
                        auction.seller += 100 * by;
                        auction.expires += (lap_number - 1) * lap;
                    }
                    nexmark::Event::Bid(bid) => {
                        bid.auction += 300 * by;
                        bid.bidder += 100 * by;
                    }
                }
                let moved = (lap_number - 1) * lap;
                match &mut event {
                    nexmark::Event::Person(person) => person.date_time += moved,
                    nexmark::Event::Auction(auction) => auction.date_time += moved,
                    nexmark::Event::Bid(bid) => bid.date_time += moved,
                }
                event.to_string()
            };
            for lap_number in 0..3 {
                assert_eq!(again[n + 5000 * lap_number], on_lap(lap_number as i64), "event {n}");
            }
        }
    }

    #[test]
    fn both_forms_of_the_yahoo_benchmark_play_the_same() {
        let (fixed, text) = (Tape::<Fixed>::record(7, 100), Tape::<Variable>::record(7, 100));
        let fixed = played::<Fixed>(&fixed, 5000.0, 50, |event| event.to_string());
        let text =
            played::<Variable>(&text, 5000.0, 50, |event| event.parse().unwrap().to_string());
        assert_eq!((fixed.len(), &fixed), (250, &text));
        assert!(fixed[249].contains(&(Recipe::START + 249 * 200).to_string()));
    }

    #[test]
    fn words_are_words() {
        let tape = Tape::<Words>::record(1, 1000);
        let words = played::<Words>(&tape, 1000.0, 1000, |(_, word)| word.to_owned());
        assert_eq!(words.len(), 1000);
        assert!(
            words
                .iter()
                .all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase()))
        );
        let frequent = words.iter().filter(|word| *word == "b").count();
        assert!((20..200).contains(&frequent), "{frequent}");
    }
}
