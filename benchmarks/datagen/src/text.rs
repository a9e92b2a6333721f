//! Text that looks like prose: a vocabulary of made-up words drawn with a Zipf distribution, in
//! sentences, on lines of 60 to 80 characters.

use std::collections::HashSet;
use std::io::{self, Write};

use crate::random::{Random, Weighted};

/// How many different words there are (before capitals, which a word count folds).
const VOCABULARY: u64 = 200_000;

const CONSONANTS: &[u8] = b"ttttnnnnsssshhhrrrrddllccmmwffgypbvkjxqz";
const VOWELS: &[u8] = b"eeeeeeaaaaooooiiiiuuy";

/// Makes one word. Frequent words are short, as in every language; one rare word in fifty is long.
fn word(rank: u64, random: &mut Random) -> String {
    let length = match rank {
        0..20 => 1 + random.below(3),
        20..200 => 2 + random.below(4),
        200..2000 => 3 + random.below(6),
        _ if random.chance(20) => 16 + random.below(15),
        _ => 4 + random.below(10),
    };
    let mut vowel = random.chance(400);
    let mut word = String::new();
    for _ in 0..length {
        let letters = if vowel { VOWELS } else { CONSONANTS };
        word.push(letters[random.below(letters.len() as u64) as usize] as char);
        vowel = if vowel { random.chance(150) } else { random.chance(800) };
    }
    word
}

fn vocabulary(random: &mut Random) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut words = Vec::with_capacity(VOCABULARY as usize);
    while (words.len() as u64) < VOCABULARY {
        let word = word(words.len() as u64, random);
        if seen.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}

pub(crate) fn write(bytes: u64, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
    let words = vocabulary(random);
    let zipf = Weighted::zipf(VOCABULARY);
    let mut written = 0;
    let mut line = String::new();
    let mut width = 60 + random.below(21) as usize;
    let mut sentence_begins = true;
    let mut token = String::new();
    while written < bytes {
        token.clear();
        if random.chance(8) {
            token.push_str(&(1 + random.below(2100)).to_string());
        } else {
            token.push_str(&words[zipf.draw(random)]);
            if random.chance(4) {
                token.make_ascii_uppercase();
            } else if sentence_begins || random.chance(25) {
                token[..1].make_ascii_uppercase();
            }
        }
        sentence_begins = false;
        match random.below(1000) {
            0..60 => token.push(','),
            60..120 => {
                token.push('.');
                sentence_begins = true;
            }
            120..128 => {
                token.push('?');
                sentence_begins = true;
            }
            128..136 => token.push(';'),
            136..144 => token.push_str("'s"),
            144..152 => {
                token.push('-');
                token.push_str(&words[zipf.draw(random)]);
            }
            152..156 => token = format!("\"{token}\""),
            // The only character outside ASCII: readers must cope with one of several bytes.
            156..159 => token.push_str(" \u{2014}"),
            _ => {}
        }
        if !line.is_empty() && line.len() + 1 + token.len() > width {
            line.push('\n');
            out.write_all(line.as_bytes())?;
            written += line.len() as u64;
            line.clear();
            width = 60 + random.below(21) as usize;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&token);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_never_change() {
        let mut text = Vec::new();
        write(100_000, &mut Random::new(1), &mut text).unwrap();
        let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(hash, 4_385_769_603_672_052_818, "a change of the generator raises VERSION");
    }

    #[test]
    fn lines_have_the_width_of_prose() {
        let mut text = Vec::new();
        write(100_000, &mut Random::new(2), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with('\n'));
        // A word longer than what is left may leave a line short, but not by much.
        let ordinary = text.lines().filter(|line| (50..=80).contains(&line.len())).count();
        assert!(ordinary * 100 > text.lines().count() * 98);
        assert!(text.lines().all(|line| line.len() <= 84));
    }
}
