//! The event of the benchmark, and the names and UUIDs of its fields.

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
            /// All variants, in the order of their bytes.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The variant of a byte, if there is one.
            #[inline]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The variant of this name, if there is one.
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
    /// The format of an advertisement.
    AdType {
        /// Above the page.
        Banner = 0 "banner",
        /// Over the page.
        Modal = 1 "modal",
        /// Among search results.
        SponsoredSearch = 2 "sponsored-search",
        /// In an e-mail.
        Mail = 3 "mail",
        /// On a mobile phone.
        Mobile = 4 "mobile",
    }
}

names! {
    /// The action of a user.
    EventType {
        /// The user sees it.
        View = 0 "view",
        /// The user follows its link.
        Click = 1 "click",
        /// The user buys the product.
        Purchase = 2 "purchase",
    }
}

/// An event: a user sees, clicks or buys through an advertisement.
#[cfg_attr(feature = "thalweg", derive(thalweg::Data))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Event {
    /// The user, as a UUID.
    pub user: u128,
    /// The page, as a UUID.
    pub page: u128,
    /// The advertisement, as a UUID.
    pub ad: u128,
    /// Its format.
    pub ad_type: AdType,
    /// The action of the user.
    pub event_type: EventType,
    /// The time, in microseconds since 1970.
    pub time: i64,
    /// The user's address.
    pub ip: [u8; 4],
}

/// Hashes every field: a UUID as the word of its first 64 bits and that of its last, the types as their bytes, the
/// address as a big-endian number.
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

/// The positions of the hyphens in a UUID's text.
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

/// Parses a UUID in exactly the form that [`uuid`] writes.
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
