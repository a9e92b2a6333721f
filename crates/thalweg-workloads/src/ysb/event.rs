//! An event of the benchmark, and the names and UUIDs it is made of.

use crate::digest::{Row, RowHash, tabbed};
use std::fmt;

/// Declares an enumeration whose variants have a byte and a name.
macro_rules! names {
    ($(#[$about:meta])* $type:ident { $($(#[$variant_about:meta])* $variant:ident = $byte:literal $name:literal,)* }) => {
        $(#[$about])*
        #[cfg_attr(feature = "thalweg", derive(thalweg::Data))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $type {
            $($(#[$variant_about])* $variant = $byte,)*
        }

        impl $type {
            /// All there are, in the order of their bytes.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The one that a byte stands for, if there is one.
            #[inline]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The one of this name, if there is one.
            #[inline]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name.
            #[inline]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names! {
    /// How an advertisement looks.
    AdType {
        /// Above the page.
        Banner = 0 "banner",
        /// Over the page.
        Modal = 1 "modal",
        /// Among what was found.
        SponsoredSearch = 2 "sponsored-search",
        /// In a letter.
        Mail = 3 "mail",
        /// On a telephone.
        Mobile = 4 "mobile",
    }
}

names! {
    /// What a user does.
    EventType {
        /// Sees it.
        View = 0 "view",
        /// Follows it.
        Click = 1 "click",
        /// Buys what it is for.
        Purchase = 2 "purchase",
    }
}

/// A user meets an advertisement.
#[cfg_attr(feature = "thalweg", derive(thalweg::Data))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event {
    /// Who, as a UUID.
    pub user: u128,
    /// On which page, as a UUID.
    pub page: u128,
    /// Which advertisement, as a UUID.
    pub ad: u128,
    /// How it looks.
    pub ad_type: AdType,
    /// What the user does.
    pub event_type: EventType,
    /// When, in microseconds since 1970.
    pub time: i64,
    /// From where.
    pub ip: [u8; 4],
}

/// Every field; a UUID as the word of its first 64 bits and that of its last, the types as their
/// bytes, the address as a big-endian number.
impl Row for Event {
    #[inline]
    fn feed(&self, hash: &mut RowHash) {
        for uuid in [self.user, self.page, self.ad] {
            hash.word((uuid >> 64) as u64);
            hash.word(uuid as u64);
        }
        hash.word(self.ad_type as u64);
        hash.word(self.event_type as u64);
        hash.word(self.time as u64);
        hash.word(u64::from(u32::from_be_bytes(self.ip)));
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |id: u128| String::from_utf8_lossy(&uuid(id)).into_owned();
        let ip = std::net::Ipv4Addr::from(self.ip);
        let (user, page, ad) = (text(self.user), text(self.page), text(self.ad));
        tabbed(f, &[&user, &page, &ad, &self.ad_type, &self.event_type, &self.time, &ip])
    }
}

/// Where a UUID's text has its hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The text of a UUID, as ASCII: 32 hexadecimal digits in lower case, and four hyphens.
///
/// ```
/// use thalweg_workloads::ysb::{parse_uuid, uuid};
///
/// let text = *b"00112233-4455-6677-8899-aabbccddeeff";
/// assert_eq!(uuid(0x00112233445566778899aabbccddeeff), text);
/// assert_eq!(parse_uuid(&text), Some(0x00112233445566778899aabbccddeeff));
/// assert_eq!(parse_uuid(&text.map(|byte| byte.to_ascii_uppercase())), None);
/// ```
pub fn uuid(id: u128) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let places = (0..36).filter(|place| !HYPHENS.contains(place));
    for (digit, place) in places.enumerate() {
        text[place] = b"0123456789abcdef"[(id >> (124 - 4 * digit)) as usize & 15];
    }
    text
}

/// The UUID of a text, if it is just as [`uuid`] writes it.
#[inline]
pub fn parse_uuid(text: &[u8; 36]) -> Option<u128> {
    let mut id = 0u128;
    for (place, byte) in text.iter().enumerate() {
        let digit = match byte {
            b'-' if HYPHENS.contains(&place) => continue,
            _ if HYPHENS.contains(&place) => return None,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        id = id << 4 | u128::from(digit);
    }
    Some(id)
}
