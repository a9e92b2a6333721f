//! The versioned hash of keys, equal on every host and in every language.
//!
//! A folded multiplication (64 x 64 -> 128 bits, the halves xored) mixes two words into one, with
//! good bits at both ends: an exchange routes by the high bits, a table probes by the low ones.
//! The hash decides where keys go, in every build, so a change of any value below is a change of
//! [`HASH_VERSION`].
//!
//! | value | hash |
//! |---|---|
//! | integer, `bool`, `char` | [`hash_u64`] of the value widened to 64 bits |
//! | float | as `f64`: [`hash_u64`] of the bits, `-0.0` taken for `0.0`, every NaN for one |
//! | string, bytes | [`hash_bytes`] |
//! | struct, tuple | `h = 0`, then `h = mix(h, hash(field))` in order; of one field, its hash alone |
//! | enum, `Option` | `h = hash_u64(variant index)`, then `mix` as above |
//! | list, array | `h = hash_u64(length)`, then `mix` as above |
//! | map, set | `mix(hash_u64(length), sum of the entries' hashes)`, an entry being a tuple |

use super::short::short_words;

/// The version of the hash, recorded wherever hashed keys are stored.
pub const HASH_VERSION: u32 = 1;

// Odd, with about as many ones as zeros: the fractions of the square roots of 2, 3, 5 and 7.
const A: u64 = 0x6a09_e667_f3bc_c909;
const B: u64 = 0xbb67_ae85_84ca_a73b;
const C: u64 = 0x3c6e_f372_fe94_f82b;
const D: u64 = 0xa54f_f53a_5f1d_36f1;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Mixes the high half of a hash into its low half.
///
/// One multiplication maps regular keys, such as multiples of a power of two, to a lattice. Its low bits alone can be
/// so uneven that a lookup in a table passes 17 times as many slots as it should; with the high bits mixed in, they
/// behave like random bits.
#[inline]
fn spread(hash: u64) -> u64 {
    hash ^ (hash >> 32)
}

/// Combines the hash `b` of a further field with the hash `a` of those before it.
///
/// The order matters: `mix(a, b)` and `mix(b, a)` differ.
#[inline]
pub fn mix(a: u64, b: u64) -> u64 {
    fold(a ^ A, b ^ B)
}

/// The hash of an integer.
#[inline]
pub fn hash_u64(value: u64) -> u64 {
    spread(fold(value ^ A, D))
}

/// The hash of a string or of bytes.
///
/// Up to 15 bytes are hashed as the two little-endian words of their zero-padded 16-byte form,
/// whose last byte is the length; a table that keeps short keys in that form need not read them
/// as bytes again.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    if bytes.len() <= 15 {
        let (low, high) = short_words(bytes);
        hash_words(low, high)
    } else {
        hash_long(bytes)
    }
}

/// The hash of at most 15 bytes, given as the two words of their padded form.
#[inline]
pub(crate) fn hash_words(low: u64, high: u64) -> u64 {
    spread(fold(low ^ A, high ^ B))
}

fn hash_long(bytes: &[u8]) -> u64 {
    let words = |at: &[u8; 16]| {
        let value = u128::from_le_bytes(*at);
        (value as u64, (value >> 64) as u64)
    };
    let mut hash = hash_u64(bytes.len() as u64);
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk::<16>() {
        let (low, high) = words(chunk);
        hash = fold(low ^ hash ^ A, high ^ B);
        rest = after;
    }
    // The last 16 bytes, overlapping, so that no tail needs padding.
    if let (false, Some(chunk)) = (rest.is_empty(), bytes.last_chunk::<16>()) {
        let (low, high) = words(chunk);
        hash = fold(low ^ hash ^ A, high ^ B);
    }
    fold(hash ^ D, C)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys go to the same tasks in every build. A change of these values changes `HASH_VERSION` too.
    #[test]
    fn the_values_are_those_of_this_version() {
        let hashes = [
            hash_u64(0),
            hash_u64(42),
            hash_bytes(b""),
            hash_bytes(b"thalweg"),
            hash_bytes(b"fifteen bytes: "),
            hash_bytes(b"more than fifteen bytes"),
            mix(1, 2),
        ];
        assert_eq!(HASH_VERSION, 1);
        let pinned = [
            0x176e_296f_b21a_5511,
            0x594f_1119_9500_f1f2,
            0xf901_09d2_ca5e_629d,
            0x5de3_1670_8026_61e1,
            0xa6e5_9981_636a_a417,
            0xfe3b_7088_0867_5ae8,
            0x6885_857f_87e2_a593,
        ];
        assert_eq!(hashes, pinned);
    }

    #[test]
    fn both_ends_of_the_hash_spread() {
        let mut high = [0; 256];
        let mut low = [0; 256];
        for value in 0..65_536_u64 {
            let hash = hash_u64(value);
            high[(hash >> 56) as usize] += 1;
            low[(hash & 255) as usize] += 1;
        }
        // 256 are expected in each bucket, with a standard deviation of 16.
        for count in high.iter().chain(&low) {
            assert!((160..=352).contains(count), "{count}");
        }
    }

    /// One multiplication must suffice for keys that differ in few bits, whatever their position.
    #[test]
    fn regular_keys_spread_like_random_ones() {
        let check = |name: String, hashes: Vec<u64>| {
            // Linear probing at a load of one half moves a random key by half a slot on average.
            let mut taken = vec![false; 2 * hashes.len()];
            let mut moved = 0;
            for hash in &hashes {
                let mut at = *hash as usize % taken.len();
                while taken[at] {
                    at = (at + 1) % taken.len();
                    moved += 1;
                }
                taken[at] = true;
            }
            assert!(moved < hashes.len(), "{name}: moved by {moved} in {}", hashes.len());
            // The top bits route to a key group.
            let mut groups = [0; 64];
            for hash in &hashes {
                groups[(hash >> 58) as usize] += 1;
            }
            let expected = hashes.len() / 64;
            for count in groups {
                assert!((expected / 2..expected * 2).contains(&count), "{name}: {groups:?}");
            }
        };
        let numbers = 0..1_u64 << 14;
        for shift in 0..50 {
            let hashes = numbers.clone().map(|number| hash_u64(number << shift)).collect();
            check(format!("shifted by {shift}"), hashes);
        }
        for stride in [3, 5, 10, 24, 100, 1000, 1_000_000, 60_000_000] {
            let hashes = numbers.clone().map(|number| hash_u64(number * stride)).collect();
            check(format!("{stride} apart"), hashes);
        }
        type Word = (&'static str, fn(u64) -> String);
        let words: [Word; 5] = [
            ("decimal", |number| format!("{number}")),
            ("padded", |number| format!("{number:08}")),
            ("hexadecimal", |number| format!("{number:015x}")),
            ("prefixed", |number| format!("user-{number:09}")),
            ("long", |number| format!("https://example.org/page/{number}")),
        ];
        for (name, word) in words {
            let hashes = numbers.clone().map(|number| hash_bytes(word(number).as_bytes()));
            check(name.into(), hashes.collect());
        }
        let pairs =
            numbers.map(|number| mix(mix(0, hash_u64(number / 128)), hash_u64(number % 128)));
        check("pairs".into(), pairs.collect());
    }

    #[test]
    fn every_byte_and_the_length_count() {
        for len in 0..80_usize {
            let zeros = vec![0; len];
            let hash = hash_bytes(&zeros);
            assert_ne!(hash, hash_bytes(&vec![0; len + 1]));
            for at in 0..len {
                let mut other = zeros.clone();
                other[at] = 1;
                assert_ne!(hash, hash_bytes(&other), "byte {at} of {len}");
            }
        }
    }
}
