//! The programs that are run, over events that never end.

use crate::args::Args;
use crate::gather::Gather;
use crate::tape::{Played, Schedule, Tape, Word, Words, live};
use clap::ValueEnum;
use std::hint::black_box;
use std::sync::Arc;
use thalweg::data::Record;
use thalweg::operators::window::CountWindow;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Error, ErrorKind, Result, Stream};
use thalweg_examples::Form;
use thalweg_examples::queries::words::by_count;
use thalweg_examples::queries::{nexmark, ysb};
use thalweg_workloads::digest::{Row, RowHash};
use thalweg_workloads::nexmark::Encoded;
use thalweg_workloads::windows::Windows;
use thalweg_workloads::ysb::Campaigns;
use thalweg_workloads::ysb::fixed::Fixed;
use thalweg_workloads::ysb::variable::Variable;

/// A program whose rate is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// All events of Nexmark
    Q0,
    /// Bids in another currency
    Q1,
    /// Bids for some auctions
    Q2,
    /// Sellers nearby and what they sell: a join that remembers all of them
    Q3,
    /// Refused: average prices, which are given at the end of the stream
    Q4,
    /// The auctions with the most bids, in sliding windows
    Q5,
    /// The average of each seller's last prices
    Q6,
    /// The highest bids, in windows
    Q7,
    /// New persons who sell, in windows
    Q8,
    /// Views of each campaign's advertisements, in windows
    Ysb,
    /// Clicks and views of each campaign's advertisements, in windows, joined
    YsbStar,
    /// All events of the Yahoo benchmark, counted in windows
    Swa,
    /// Words, counted in windows of ten occurrences every five
    #[value(name = "windowed_wordcount")]
    WindowedWordcount,
}

impl Program {
    /// What it is called on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// How many windows begin in the time of one.
    pub(crate) fn overlap(self) -> u32 {
        if self == Self::Q5 { 5 } else { 1 }
    }

    /// Whether there are about as many results as events.
    pub(crate) fn has_many_results(self) -> bool {
        matches!(self, Self::Q0 | Self::Q1 | Self::WindowedWordcount)
    }

    /// Whether its events come in two forms.
    pub(crate) fn has_forms(self) -> bool {
        matches!(self, Self::Ysb | Self::YsbStar | Self::Swa)
    }
}

/// The events of a program.
pub(crate) enum Events {
    Nexmark(Tape<Encoded>),
    Fixed(Tape<Fixed>),
    Variable(Tape<Variable>),
    Words(Tape<Words>),
}

impl Events {
    /// Makes them.
    pub(crate) fn record(args: &Args) -> Self {
        let Args { seed, recorded, .. } = *args;
        match (args.program, args.form) {
            (Program::Ysb | Program::YsbStar | Program::Swa, Form::Fixed) => {
                Self::Fixed(Tape::record(seed, recorded))
            }
            (Program::Ysb | Program::YsbStar | Program::Swa, Form::Variable) => {
                Self::Variable(Tape::record(seed, recorded))
            }
            (Program::WindowedWordcount, _) => Self::Words(Tape::record(seed, recorded)),
            _ => Self::Nexmark(Tape::record(seed, recorded)),
        }
    }
}

/// A program over live events, in an environment.
pub(crate) struct Job<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) schedule: &'a Arc<Schedule>,
    pub(crate) gather: &'a Arc<Gather>,
    pub(crate) windows: Windows,
    pub(crate) seed: u64,
}

impl Job<'_> {
    /// Describes the program to the environment.
    ///
    /// # Errors
    ///
    /// When the program has no results as long as events come.
    pub(crate) fn describe(&self, program: Program, events: &Events) -> Result<()> {
        let (windows, campaigns) = (self.windows, Campaigns::new(self.seed));
        match (program, events) {
            (Program::Q0, Events::Nexmark(tape)) => self.results(nexmark::q0(self.live(tape))),
            (Program::Q1, Events::Nexmark(tape)) => self.results(nexmark::q1(self.live(tape))),
            (Program::Q2, Events::Nexmark(tape)) => self.results(nexmark::q2(self.live(tape))),
            (Program::Q3, Events::Nexmark(tape)) => self.results(nexmark::q3(self.live(tape))),
            (Program::Q5, Events::Nexmark(tape)) => {
                self.results(nexmark::q5_in(self.live(tape), windows));
            }
            (Program::Q6, Events::Nexmark(tape)) => self.results(nexmark::q6(self.live(tape))),
            (Program::Q7, Events::Nexmark(tape)) => {
                self.results(nexmark::q7_in(self.live(tape), windows));
            }
            (Program::Q8, Events::Nexmark(tape)) => {
                self.results(nexmark::q8_in(self.live(tape), windows));
            }
            (Program::Ysb, Events::Fixed(tape)) => {
                self.results(ysb::ysb_in(self.live(tape), &campaigns, windows));
            }
            (Program::Ysb, Events::Variable(tape)) => {
                self.results(ysb::ysb_in(self.live(tape), &campaigns, windows));
            }
            (Program::YsbStar, Events::Fixed(tape)) => {
                self.results(ysb::ysb_star(self.live(tape), &campaigns, windows));
            }
            (Program::YsbStar, Events::Variable(tape)) => {
                self.results(ysb::ysb_star(ysb::parsed(self.live(tape)), &campaigns, windows));
            }
            (Program::Swa, Events::Fixed(tape)) => {
                self.results(ysb::swa_in(self.live(tape), windows))
            }
            (Program::Swa, Events::Variable(tape)) => {
                self.results(ysb::swa_in(self.live(tape), windows));
            }
            (Program::WindowedWordcount, Events::Words(tape)) => {
                let words = self.live(tape).flat_each(Word);
                let counts = by_count(words, CountWindow::sliding(10, 5));
                self.results(counts.map(|(word, window)| Counted { word, first: window.first }));
            }
            _ => {
                let what = format!(
                    "{} cannot be searched for: it has no results as long as events come",
                    program.name()
                );
                return Err(Error::new(ErrorKind::Config, what));
            }
        }
        Ok(())
    }

    fn live<P: Played>(
        &self,
        tape: &Tape<P>,
    ) -> Stream<impl Chain<Item = P::Out, Time = Timestamp> + use<P>> {
        live(self.env, tape, self.schedule)
    }

    /// Takes results where they are emitted. Every field is looked at, as a consumer would.
    fn results<C>(&self, results: Stream<C>)
    where
        C: Chain<Time = Timestamp>,
        for<'a> <C::Item as Record>::Of<'a>: Row,
    {
        let gather = Arc::clone(self.gather);
        results
            .map_with_timestamp(|row, at| {
                let mut hash = RowHash::new();
                row.feed(&mut hash);
                black_box(hash.finish());
                at
            })
            .for_each_parallel(move |at| gather.note(at));
    }
}

/// A window of a word's occurrences.
struct Counted {
    word: String,
    first: u64,
}

impl Row for Counted {
    fn feed(&self, hash: &mut RowHash) {
        hash.bytes(self.word.as_bytes());
        hash.word(self.first);
    }
}
