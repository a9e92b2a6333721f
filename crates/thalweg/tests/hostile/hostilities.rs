//! What is done to an operator.

use crate::job::{Hostile, Records, Sink};
use crate::records::{Bomb, Key, Mood, Record, Trap, spring};
use std::num::NonZeroUsize;
use std::time::Duration;
use thalweg::Environment;
use thalweg::config::{BatchMode, Config};

/// Records of an input, where nothing else is said.
const RECORDS: u64 = 150;

/// One thing that is done. All else is as in [`CALM`].
#[derive(Clone)]
pub(crate) struct Hostility {
    pub(crate) name: &'static str,
    /// What is wrong with one of the records, and with which.
    pub(crate) mood: Mood,
    pub(crate) place: Place,
    pub(crate) input: Input,
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    pub(crate) meddling: Meddling,
    pub(crate) span: Duration,
    pub(crate) set: fn(&mut Config),
    /// Whether the job must end well.
    pub(crate) harmless: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Place {
    First,
    Middle,
    Last,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Input {
    Usual,
    Empty,
    One,
    OneKey,
    NewKeys,
    HugeRecords,
    /// All at the first moment there is, or at the last.
    AllAt(i64),
    /// From the first moment to the last.
    BothEnds,
    /// From the last moment to the first.
    Backwards,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Source {
    Iterator,
    Hint(usize, Option<usize>),
    NextPanics(usize),
    DropPanics,
    FactoryPanics,
    /// A closure holds something whose drop panics.
    CapturedDropPanics,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Meddling {
    None,
    /// So many microseconds after the start.
    Cancel(u64),
    Drain(u64),
    /// The handle is dropped, and the job left alone.
    Forget,
}

pub(crate) const CALM: Hostility = Hostility {
    name: "calm",
    mood: Mood::Calm,
    place: Place::Middle,
    input: Input::Usual,
    source: Source::Iterator,
    sink: Sink::Collect,
    meddling: Meddling::None,
    span: Duration::from_secs(10),
    set: |_| {},
    harmless: true,
};

const HARM: Hostility = Hostility { harmless: false, ..CALM };

const fn mood(name: &'static str, mood: Mood, place: Place) -> Hostility {
    Hostility { name, mood, place, ..HARM }
}

const fn input(name: &'static str, input: Input) -> Hostility {
    Hostility { name, input, ..CALM }
}

const fn source(name: &'static str, source: Source) -> Hostility {
    Hostility { name, source, ..HARM }
}

const fn meddling(name: &'static str, meddling: Meddling) -> Hostility {
    Hostility { name, meddling, ..HARM }
}

const fn set(name: &'static str, set: fn(&mut Config), harmless: bool) -> Hostility {
    Hostility { name, set, harmless, ..CALM }
}

/// All of them.
pub(crate) const HOSTILITIES: &[Hostility] = &[
    CALM,
    mood("closure panics at the first record", Mood::Closure, Place::First),
    mood("closure panics in the middle", Mood::Closure, Place::Middle),
    mood("closure panics at the last record", Mood::Closure, Place::Last),
    mood("payload panics when dropped", Mood::Payload, Place::Middle),
    mood("closure refuses a record", Mood::Refused, Place::Middle),
    mood("clone panics", Mood::ClonePanics, Place::Middle),
    mood("drop panics at the first record", Mood::DropPanics, Place::First),
    mood("drop panics", Mood::DropPanics, Place::Middle),
    mood("encode panics", Mood::EncodePanics, Place::Middle),
    mood("decode panics", Mood::DecodePanics, Place::Middle),
    mood("decode fails", Mood::DecodeFails, Place::Middle),
    mood("eq panics", Mood::EqPanics, Place::Middle),
    mood("never equal", Mood::EqNever, Place::Middle),
    mood("ord panics", Mood::OrdPanics, Place::Middle),
    mood("ord lies", Mood::OrdLies, Place::Middle),
    mood("hash panics", Mood::HashPanics, Place::Middle),
    mood("hash lies", Mood::HashLies, Place::Middle),
    mood("heap size panics", Mood::HeapPanics, Place::Middle),
    mood("heap size is huge", Mood::HeapHuge, Place::Middle),
    mood("debug panics", Mood::DebugPanics, Place::Middle),
    input("empty", Input::Empty),
    input("one record", Input::One),
    input("one key", Input::OneKey),
    input("every key new", Input::NewKeys),
    input("huge records", Input::HugeRecords),
    input("all at the first time", Input::AllAt(i64::MIN)),
    input("all at the last time", Input::AllAt(i64::MAX)),
    input("at both ends of time", Input::BothEnds),
    input("from the last time to the first", Input::Backwards),
    Hostility { name: "endless spans", span: Duration::MAX, ..HARM },
    Hostility { name: "spans of nothing", span: Duration::ZERO, ..HARM },
    Hostility { name: "tiny spans", span: Duration::from_micros(3), ..HARM },
    Hostility {
        name: "endless spans at the last time",
        span: Duration::MAX,
        input: Input::AllAt(i64::MAX - 1),
        ..HARM
    },
    source("hint says too much", Source::Hint(usize::MAX, None)),
    source("hint says too little", Source::Hint(0, Some(0))),
    source("hint contradicts itself", Source::Hint(7, Some(3))),
    source("next panics at once", Source::NextPanics(0)),
    source("next panics", Source::NextPanics(70)),
    source("iterator panics when dropped", Source::DropPanics),
    source("factory panics", Source::FactoryPanics),
    source("captured state panics when dropped", Source::CapturedDropPanics),
    Hostility { name: "collection panics", sink: Sink::PanickingCollection, ..HARM },
    Hostility { name: "receiver dropped", sink: Sink::DroppedReceiver, ..HARM },
    meddling("cancelled at once", Meddling::Cancel(0)),
    meddling("cancelled", Meddling::Cancel(300)),
    meddling("drained at once", Meddling::Drain(0)),
    meddling("drained", Meddling::Drain(300)),
    meddling("forgotten", Meddling::Forget),
    set("no memory", |config| config.memory = 0, false),
    set("little memory", |config| config.memory = 20_000, false),
    set("least credit", |config| config.credit = 1, true),
    set("no credit", |config| config.credit = 0, true),
    set("encoded", |config| config.encode_exchanges = true, true),
    set("single", |config| config.batch = BatchMode::Single, true),
    set("shortest turn", |config| config.turn = NonZeroUsize::MIN, true),
    Hostility {
        name: "clone panics without memory",
        mood: Mood::ClonePanics,
        set: |config| config.memory = 20_000,
        ..HARM
    },
    Hostility {
        name: "decode fails when encoded",
        mood: Mood::DecodeFails,
        set: |config| config.encode_exchanges = true,
        ..HARM
    },
    Hostility {
        name: "decode panics without memory",
        mood: Mood::DecodePanics,
        set: |config| config.memory = 20_000,
        ..HARM
    },
    Hostility {
        name: "drop panics when cancelled",
        mood: Mood::DropPanics,
        meddling: Meddling::Cancel(100),
        ..HARM
    },
];

impl Hostility {
    /// Whether a result is what the operator gives where nothing is wrong, if there is a result.
    pub(crate) fn is_comparable(&self) -> bool {
        let whole = matches!(self.source, Source::Iterator | Source::Hint(..));
        let calm = self.mood == Mood::Calm && self.span == CALM.span;
        calm && whole && self.sink == Sink::Collect && self.meddling == Meddling::None
    }

    /// Begins a stream.
    pub(crate) fn source(&self, env: &Environment) -> Records {
        let (mood, place, input) = (self.mood, self.place, self.input);
        let records = move || {
            let len = input.len();
            let at = match place {
                Place::First => 0,
                Place::Middle => len / 2,
                Place::Last => len.saturating_sub(1),
            };
            (0..len).map(move |n| input.record(n, if n == at { mood } else { Mood::Calm }))
        };
        let hostile = Hostile { records: records(), hint: None, left: usize::MAX, _bomb: None };
        match self.source {
            Source::Iterator => env.iter(records()).boxed(),
            Source::Hint(least, most) => {
                env.iter(Hostile { hint: Some((least, most)), ..hostile }).boxed()
            }
            Source::NextPanics(left) => env.iter(Hostile { left, ..hostile }).boxed(),
            Source::DropPanics => env.iter(Hostile { _bomb: Some(Bomb), ..hostile }).boxed(),
            Source::FactoryPanics => {
                let make = move |task: usize, tasks: usize| {
                    if task + 1 == tasks {
                        spring("factory");
                    }
                    records()
                };
                env.parallel_iter(make).boxed()
            }
            Source::CapturedDropPanics => {
                let bomb = Bomb;
                let hold = move |record| {
                    let _ = &bomb;
                    record
                };
                env.iter(records()).map(hold).boxed()
            }
        }
    }
}

impl Input {
    fn len(self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::One => 1,
            Self::HugeRecords => 12,
            _ => RECORDS,
        }
    }

    fn record(self, id: u64, mood: Mood) -> Record {
        let key = match self {
            Self::OneKey => 0,
            Self::NewKeys => id,
            _ => id % 7,
        };
        let second = 1_000_000;
        let at = match self {
            Self::AllAt(at) => at,
            Self::BothEnds => match id % 10 {
                0 => i64::MIN,
                9 => i64::MAX,
                n => n as i64 * second,
            },
            Self::Backwards => i64::MAX - (id as i64) * (i64::MAX / RECORDS as i64),
            _ => id as i64 * second / 4,
        };
        let text = match self {
            Self::HugeRecords => "x".repeat(300_000),
            _ => format!("text {}", id % 5),
        };
        Record { id, key: Key { id: key, trap: Trap(mood) }, at, text, trap: Trap(mood) }
    }
}
