//! Events of 64 bytes: the user's, the page's and the advertisement's UUID (16 bytes each, big-endian), the time (8,
//! little-endian), the address (4), the type of the advertisement and that of the event (one byte each), and two
//! zeros. Offsets are fixed, and no parsing is needed.

use super::event::{AdType, Event, EventType};
use super::make::Generator;
use crate::Recipe;
use crate::error::{DecodeError, Problem};
use crate::segments::Format;
use crate::wire::Reader;
use std::ops::Range;

/// The size of an event in bytes.
pub const SIZE: usize = 64;

/// Encodes an event.
///
/// ```
/// use thalweg_workloads::ysb::{Generator, fixed, recipe};
///
/// let event = Generator::new(recipe(9)).event(0);
/// assert_eq!(fixed::decode(&fixed::encode(&event)), Ok(event));
/// ```
#[inline]
pub fn encode(event: &Event) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..16].copy_from_slice(&event.user.to_be_bytes());
    bytes[16..32].copy_from_slice(&event.page.to_be_bytes());
    bytes[32..48].copy_from_slice(&event.ad.to_be_bytes());
    bytes[48..56].copy_from_slice(&event.time.to_le_bytes());
    bytes[56..60].copy_from_slice(&event.ip);
    bytes[60] = event.ad_type as u8;
    bytes[61] = event.event_type as u8;
    bytes
}

/// Decodes an event.
///
/// # Errors
/// If a type is unknown, or the padding is not zero.
#[inline]
pub fn decode(bytes: &[u8; SIZE]) -> Result<Event, DecodeError> {
    let wrong = |offset: usize| DecodeError { problem: Problem::Unknown(bytes[offset]), offset };
    if bytes[62..] != [0, 0] {
        return Err(DecodeError { problem: Problem::Form, offset: 62 });
    }
    Ok(Event {
        user: u128::from_be_bytes(chunk(bytes, 0)),
        page: u128::from_be_bytes(chunk(bytes, 1)),
        ad: u128::from_be_bytes(chunk(bytes, 2)),
        ad_type: AdType::from_byte(bytes[60]).ok_or_else(|| wrong(60))?,
        event_type: EventType::from_byte(bytes[61]).ok_or_else(|| wrong(61))?,
        time: i64::from_le_bytes(chunk(bytes, 6)),
        ip: chunk(bytes, 14),
    })
}

/// The chunk of this number, of chunks of `N` bytes: one load, where building an array byte by byte takes many.
#[inline(always)]
fn chunk<const N: usize>(bytes: &[u8; SIZE], number: usize) -> [u8; N] {
    let (chunks, _) = bytes.as_chunks();
    chunks[number]
}

/// The format of [`FixedSegments`](super::FixedSegments).
#[derive(Clone, Copy, Debug)]
pub struct Fixed;

impl Format for Fixed {
    const MAGIC: [u8; 8] = *b"ysb-64b\n";
    const NAME: &'static str = "fixed-size Yahoo benchmark";
    const VERSION: u32 = 1;
    type Event<'a> = Event;

    fn append(recipe: Recipe, numbers: Range<u64>, out: &mut Vec<u8>) {
        let generator = Generator::new(recipe);
        generator.events(numbers).for_each(|event| out.extend_from_slice(&encode(&event)));
    }

    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Event, DecodeError> {
        let mut reader = Reader::new(input);
        let event = decode(reader.array()?)?;
        *input = reader.rest();
        Ok(event)
    }
}
