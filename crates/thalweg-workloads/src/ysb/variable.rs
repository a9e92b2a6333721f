//! Events as text, 136 bytes on average, which need parsing like messages of a broker.
//!
//! The first byte is the number of bytes that follow. They are the texts of the user's, the page's and the
//! advertisement's UUID (36 bytes each), the time (8 bytes, little-endian), the address (4 bytes), and the names of
//! the advertisement's type and the event's, each after a byte with its length.

use super::event::{AdType, Event, EventType, parse_uuid, uuid};
use super::make::Generator;
use crate::Recipe;
use crate::digest::{Row, RowHash};
use crate::error::{DecodeError, Problem};
use crate::segments::Format;
use crate::wire::Reader;
use std::ops::Range;

/// An event with its text as it is encoded: it is UTF-8 of the right length, and not checked any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextEvent<'a> {
    /// The user.
    pub user: &'a str,
    /// The page.
    pub page: &'a str,
    /// The advertisement.
    pub ad: &'a str,
    /// The format of the advertisement.
    pub ad_type: &'a str,
    /// The action of the user.
    pub event_type: &'a str,
    /// The time, in microseconds since 1970.
    pub time: i64,
    /// The user's address.
    pub ip: [u8; 4],
}

impl TextEvent<'_> {
    /// Parses the identifiers and names.
    ///
    /// # Errors
    /// If one of them is malformed or unknown: [`Problem::Form`], with the offset of the field.
    ///
    /// ```
    /// use thalweg_workloads::ysb::{Generator, recipe, variable};
    ///
    /// let event = Generator::new(recipe(9)).event(0);
    /// let mut bytes = Vec::new();
    /// variable::encode(&event, &mut bytes);
    /// assert_eq!(variable::decode(&mut bytes.as_slice())?.parse()?, event);
    /// # Ok::<(), thalweg_workloads::error::DecodeError>(())
    /// ```
    #[inline]
    pub fn parse(&self) -> Result<Event, DecodeError> {
        let form = |offset| DecodeError { problem: Problem::Form, offset };
        let id = |text: &str, offset| {
            text.as_bytes().as_array().and_then(parse_uuid).ok_or_else(|| form(offset))
        };
        let second = NAMES + 1 + self.ad_type.len();
        Ok(Event {
            user: id(self.user, USER)?,
            page: id(self.page, PAGE)?,
            ad: id(self.ad, AD)?,
            ad_type: AdType::from_name(self.ad_type).ok_or_else(|| form(NAMES))?,
            event_type: EventType::from_name(self.event_type).ok_or_else(|| form(second))?,
            time: self.time,
            ip: self.ip,
        })
    }
}

/// Hashes every field, text as text, the address as a big-endian number.
impl Row for TextEvent<'_> {
    #[inline]
    fn feed(&self, hash: &mut RowHash) {
        for text in [self.user, self.page, self.ad, self.ad_type, self.event_type] {
            hash.bytes(text.as_bytes());
        }
        hash.word(self.time as u64);
        hash.word(u64::from(u32::from_be_bytes(self.ip)));
    }
}

const USER: usize = 1;
const PAGE: usize = 37;
const AD: usize = 73;
const TIME: usize = 109;
const NAMES: usize = 121;

/// Appends an event.
#[inline]
pub fn encode(event: &Event, out: &mut Vec<u8>) {
    let names = [event.ad_type.name(), event.event_type.name()];
    // The length of all names is far below 256.
    let length = NAMES - USER + names.iter().map(|name| 1 + name.len()).sum::<usize>();
    out.push(length as u8);
    for id in [event.user, event.page, event.ad] {
        out.extend_from_slice(&uuid(id));
    }
    out.extend_from_slice(&event.time.to_le_bytes());
    out.extend_from_slice(&event.ip);
    for name in names {
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
    }
}

/// Decodes one event from the front of `input`, and advances `input`; its texts are borrowed.
///
/// # Errors
/// If lengths are inconsistent or text is not UTF-8; `input` is then unchanged. Never panics, whatever the bytes.
#[inline]
pub fn decode<'a>(input: &mut &'a [u8]) -> Result<TextEvent<'a>, DecodeError> {
    let mut reader = Reader::new(input);
    let length = usize::from(reader.byte()?);
    let end = USER + length;
    let ids: &[u8; TIME - USER] = reader.array()?;
    let Ok(ids) = std::str::from_utf8(ids) else { return Err(wrong(Problem::Text, USER)) };
    let (Some(user), Some(page), Some(ad)) = (ids.get(..36), ids.get(36..72), ids.get(72..)) else {
        return Err(wrong(Problem::Text, USER));
    };
    let time = i64::from_le_bytes(*reader.array()?);
    let ip = *reader.array()?;
    let ad_type = reader.text()?;
    let event_type = reader.text()?;
    if input.len() - reader.rest().len() != end {
        return Err(wrong(Problem::Length, 0));
    }
    *input = reader.rest();
    Ok(TextEvent { user, page, ad, ad_type, event_type, time, ip })
}

#[cold]
fn wrong(problem: Problem, offset: usize) -> DecodeError {
    DecodeError { problem, offset }
}

/// The format of [`VariableSegments`](super::VariableSegments).
#[derive(Clone, Copy, Debug)]
pub struct Variable;

impl Format for Variable {
    const MAGIC: [u8; 8] = *b"ysb-var\n";
    const NAME: &'static str = "variable-size Yahoo benchmark";
    const VERSION: u32 = 1;
    type Event<'a> = TextEvent<'a>;

    fn append(recipe: Recipe, numbers: Range<u64>, out: &mut Vec<u8>) {
        let generator = Generator::new(recipe);
        generator.events(numbers).for_each(|event| encode(&event, out));
    }

    #[inline]
    fn decode<'a>(input: &mut &'a [u8]) -> Result<TextEvent<'a>, DecodeError> {
        decode(input)
    }
}
