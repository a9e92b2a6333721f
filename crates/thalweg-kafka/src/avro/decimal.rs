//! Decimals: an unscaled integer, big-endian in two's complement, and a scale from the schema. As text, they are written in
//! full: `-12.50`.

use super::fault::Fault;

/// The integer that bytes stand for.
pub(super) fn integer(bytes: &[u8]) -> Result<i128, Fault> {
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let filler = if is_negative { 0xff } else { 0 };
    let begin = bytes.len().saturating_sub(16);
    let (beyond, rest) = bytes.split_at(begin);
    let mut all = [filler; 16];
    all[16 - rest.len()..].copy_from_slice(rest);
    let value = i128::from_be_bytes(all);
    if beyond.iter().any(|byte| *byte != filler) || (value < 0) != is_negative {
        return Err(Fault::new("the decimal exceeds 128 bits: read it as bytes"));
    }
    Ok(value)
}

/// The fewest bytes of an integer.
pub(super) fn bytes(value: i128) -> Vec<u8> {
    let all = value.to_be_bytes();
    let sign = if value < 0 { 0xff } else { 0 };
    let is_needless = |at: &usize| all[*at] == sign && (all[*at + 1] ^ sign) & 0x80 == 0;
    let begin = (0..15).take_while(is_needless).count();
    all[begin..].to_vec()
}

pub(super) fn text(value: i128, scale: u32) -> String {
    let scale = scale as usize;
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    match fraction {
        "" => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    }
}

/// The unscaled integer of a text; `None` if it is no number, or has digits beyond the scale that are not 0.
pub(super) fn parse(text: &str, scale: u32) -> Option<i128> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let scale = scale as usize;
    let (kept, lost) = fraction.split_at(scale.min(fraction.len()));
    if lost.bytes().any(|digit| digit != b'0') {
        return None;
    }
    let zeros = std::iter::repeat_n(b'0', scale - kept.len());
    let mut value = 0_i128;
    for digit in whole.bytes().chain(kept.bytes()).chain(zeros) {
        value = value.checked_mul(10)?.checked_sub(i128::from(digit - b'0'))?;
    }
    if is_negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_as_short_as_they_can_be() {
        for (value, expected) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0, 0x80]),
            (-1, &[0xff]),
            (-128, &[0x80]),
            (-129, &[0xff, 0x7f]),
        ] {
            assert_eq!(bytes(value), expected, "{value}");
        }
        for value in [i128::MIN, i128::MAX, i128::MIN + 1, 1 << 64, -(1 << 64)] {
            assert_eq!(integer(&bytes(value)).unwrap(), value);
        }
        assert_eq!(integer(&[]).unwrap(), 0);
        assert_eq!(integer(&[0xff; 20]).unwrap(), -1);
        let mut large = vec![0; 17];
        large[1] = 0x80;
        assert!(integer(&large).is_err());
    }

    #[test]
    fn text_has_all_digits_of_the_scale() {
        for (value, scale, expected) in
            [(1250, 2, "12.50"), (-5, 2, "-0.05"), (7, 0, "7"), (0, 3, "0.000"), (-100, 0, "-100")]
        {
            assert_eq!(text(value, scale), expected);
            assert_eq!(parse(expected, scale), Some(value));
        }
        assert_eq!(text(i128::MIN, 0), i128::MIN.to_string());
        assert_eq!(parse(&i128::MIN.to_string(), 0), Some(i128::MIN));
        assert_eq!(parse("1.5", 3), Some(1500));
        assert_eq!(parse("+1.500", 1), Some(15));
        assert_eq!(parse(".5", 1), Some(5));
        for refused in ["", "-", ".", "1.55", "1e3", "a", "1.2.3", "--1"] {
            assert_eq!(parse(refused, 1), None, "{refused}");
        }
        assert_eq!(parse(&format!("{}0", i128::MAX), 0), None);
    }
}
