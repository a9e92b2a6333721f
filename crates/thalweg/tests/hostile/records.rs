//! Records and keys that fail or lie in one of the things that the engine does with them.
//!
//! What a record does is part of it, as a [`Mood`]: so it survives being encoded, cloned and stored, and the
//! position of the hostile record in the input is that in which it was made.

use serde::{Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use thalweg::Data;
use thalweg::data::{DecodeError, Schema};

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mood {
    Calm,
    /// A closure that gets it panics.
    Closure,
    /// A closure that gets it panics, and so does the drop of what it panicked with.
    Payload,
    /// A closure that may refuse a record refuses it.
    Refused,
    ClonePanics,
    DropPanics,
    EncodePanics,
    DecodePanics,
    DecodeFails,
    EqPanics,
    /// It is not equal to itself.
    EqNever,
    OrdPanics,
    /// The order is another one at each comparison.
    OrdLies,
    HashPanics,
    /// The hash is another one at each call.
    HashLies,
    HeapPanics,
    /// It says to own more memory than there is.
    HeapHuge,
    DebugPanics,
}

const MOODS: [Mood; 18] = [
    Mood::Calm,
    Mood::Closure,
    Mood::Payload,
    Mood::Refused,
    Mood::ClonePanics,
    Mood::DropPanics,
    Mood::EncodePanics,
    Mood::DecodePanics,
    Mood::DecodeFails,
    Mood::EqPanics,
    Mood::EqNever,
    Mood::OrdPanics,
    Mood::OrdLies,
    Mood::HashPanics,
    Mood::HashLies,
    Mood::HeapPanics,
    Mood::HeapHuge,
    Mood::DebugPanics,
];

/// Whether a record, closure or iterator of the job under test has panicked or failed, in a way that its
/// result cannot be right after.
pub(crate) static SPRUNG: AtomicBool = AtomicBool::new(false);
/// Makes each lie another one.
static LIES: AtomicU64 = AtomicU64::new(0);

/// Panics, and notes that.
pub(crate) fn spring(what: &str) -> ! {
    SPRUNG.store(true, SeqCst);
    panic!("hostile: {what}");
}

/// Panics when it is dropped, unless the thread is panicking, since that would end the process.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("hostile: drop");
        }
    }
}

/// What a record does; a field of its own, so that records can be taken apart although it has a drop.
#[derive(PartialEq)]
pub(crate) struct Trap(pub(crate) Mood);

impl Trap {
    fn panics(&self, mood: Mood, what: &str) {
        if self.0 == mood {
            spring(what);
        }
    }
}

impl Clone for Trap {
    fn clone(&self) -> Self {
        self.panics(Mood::ClonePanics, "clone");
        Self(self.0)
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        if self.0 == Mood::DropPanics {
            drop(Bomb);
        }
    }
}

impl Data for Trap {
    fn encode(&self, out: &mut Vec<u8>) {
        self.panics(Mood::EncodePanics, "encode");
        out.push(self.0 as u8);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let mood = u8::decode(input)?;
        let mood = *MOODS.get(usize::from(mood)).ok_or(DecodeError::invalid("a mood"))?;
        let trap = Self(mood);
        trap.panics(Mood::DecodePanics, "decode");
        if mood == Mood::DecodeFails {
            SPRUNG.store(true, SeqCst);
            return Err(DecodeError::invalid("what they say"));
        }
        Ok(trap)
    }

    fn key_hash(&self) -> u64 {
        self.panics(Mood::HashPanics, "hash");
        match self.0 {
            Mood::HashLies => LIES.fetch_add(1, SeqCst).key_hash(),
            _ => 0,
        }
    }

    fn schema() -> Schema {
        Schema::U8
    }

    fn heap_size(&self) -> usize {
        self.panics(Mood::HeapPanics, "heap size");
        if self.0 == Mood::HeapHuge { usize::MAX / 2 } else { 0 }
    }
}

/// A key in a mood.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) id: u64,
    pub(crate) trap: Trap,
}

/// A record in a mood. Its key is in the same.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) id: u64,
    pub(crate) key: Key,
    pub(crate) at: i64,
    pub(crate) text: String,
    pub(crate) trap: Trap,
}

impl Record {
    /// What every closure of a job calls first.
    pub(crate) fn act(&self) {
        match self.trap.0 {
            Mood::Closure => spring("closure"),
            Mood::Payload => {
                SPRUNG.store(true, SeqCst);
                std::panic::panic_any(Bomb);
            }
            _ => {}
        }
    }

    /// What every closure calls first that may refuse a record.
    pub(crate) fn attempt(&self) -> Result<u64, String> {
        self.act();
        if self.trap.0 == Mood::Refused {
            return Err("refused".to_owned());
        }
        Ok(self.id)
    }

    /// What every closure calls that makes a number of a record.
    pub(crate) fn number(&self) -> u64 {
        self.act();
        self.id
    }
}

// One implementation for both, by the number that stands for the value and its trap.
macro_rules! hostile {
    ($type:ty, $number:ident) => {
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                for trap in [&self.trap, &other.trap] {
                    trap.panics(Mood::EqPanics, "eq");
                    if trap.0 == Mood::EqNever {
                        return false;
                    }
                }
                self.$number == other.$number
            }
        }

        impl Eq for $type {}

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                for trap in [&self.trap, &other.trap] {
                    trap.panics(Mood::OrdPanics, "ord");
                    if trap.0 == Mood::OrdLies {
                        let lies =
                            [Ordering::Less, Ordering::Greater, Ordering::Equal, Ordering::Greater];
                        return lies[(LIES.fetch_add(1, SeqCst) % 4) as usize];
                    }
                }
                self.$number.cmp(&other.$number)
            }
        }

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                (self.$number, self.trap.key_hash()).hash(state);
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.trap.panics(Mood::DebugPanics, "debug");
                write!(f, "{}", self.$number)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if self.trap.0 == Mood::Refused {
                    SPRUNG.store(true, SeqCst);
                    return Err(serde::ser::Error::custom("refused"));
                }
                serializer.serialize_u64(self.$number)
            }
        }
    };
}

hostile!(Key, id);
hostile!(Record, id);

impl Data for Key {
    fn encode(&self, out: &mut Vec<u8>) {
        self.id.encode(out);
        self.trap.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { id: u64::decode(input)?, trap: Trap::decode(input)? })
    }

    fn key_hash(&self) -> u64 {
        self.id.key_hash() ^ self.trap.key_hash()
    }

    fn schema() -> Schema {
        <(u64, u8)>::schema()
    }

    fn heap_size(&self) -> usize {
        self.trap.heap_size()
    }
}

impl Data for Record {
    fn encode(&self, out: &mut Vec<u8>) {
        self.id.encode(out);
        self.key.encode(out);
        self.at.encode(out);
        self.text.encode(out);
        self.trap.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            id: u64::decode(input)?,
            key: Key::decode(input)?,
            at: i64::decode(input)?,
            text: String::decode(input)?,
            trap: Trap::decode(input)?,
        })
    }

    fn key_hash(&self) -> u64 {
        self.id.key_hash() ^ self.trap.key_hash()
    }

    fn schema() -> Schema {
        <(u64, (u64, u8), i64, String, u8)>::schema()
    }

    fn heap_size(&self) -> usize {
        self.text.len().saturating_add(self.trap.heap_size())
    }
}
