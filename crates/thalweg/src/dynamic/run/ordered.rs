//! An order-preserving encoding of values, which can be decoded.
//!
//! A value is its type, in one byte, then: an integer big-endian with its sign bit inverted; a float as such an
//! integer, NaN above all others; text and bytes with every 0 followed by 255, and two zeros at the end. For
//! descending order all bytes but the type are complemented. So no encoding is a prefix of another, and rows compare
//! as their bytes do.

use crate::dynamic::columns::{Column, Type, Value};
use std::fmt::Write;

const SIGN: u64 = 1 << 63;

/// A number with the same order as the value at this index. 0 for a column of text.
#[inline(always)]
pub(super) fn rank(column: &Column, at: usize) -> u64 {
    match column {
        Column::I64(values) => values[at] as u64 ^ SIGN,
        Column::U64(values) => values[at],
        Column::F64(values) => rank_float(values[at]),
        Column::Bool(bits) => u64::from(bits.get(at)),
        Column::Utf8(_) | Column::Bytes(_) => 0,
    }
}

fn rank_float(value: f64) -> u64 {
    let bits = if value.is_nan() { f64::NAN.abs().to_bits() } else { value.to_bits() };
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Appends the value with this rank.
pub(super) fn push_rank(column: &mut Column, rank: u64) {
    match column {
        Column::I64(values) => values.push((rank ^ SIGN) as i64),
        Column::U64(values) => values.push(rank),
        Column::F64(values) => {
            let bits = if rank & SIGN == 0 { !rank } else { rank ^ SIGN };
            values.push(f64::from_bits(bits));
        }
        Column::Bool(bits) => bits.push(rank != 0),
        Column::Utf8(text) => text.push(""),
        Column::Bytes(bytes) => bytes.push(&[]),
    }
}

/// Appends the encoding of the value at this index to `out`.
pub(super) fn write(column: &Column, at: usize, descending: bool, out: &mut Vec<u8>) {
    out.push(column.kind() as u8);
    let start = out.len();
    match column {
        Column::Utf8(text) => write_bytes(text.get(at).as_bytes(), out),
        Column::Bytes(bytes) => write_bytes(bytes.get(at), out),
        fixed => out.extend_from_slice(&rank(fixed, at).to_be_bytes()),
    }
    if descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(zero) = memchr::memchr(0, rest) {
        out.extend_from_slice(&rest[..=zero]);
        out.push(255);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 0]);
}

/// Decodes a value from the front of `input` and appends it to the column; returns whether there was a value of the
/// column's type.
#[must_use]
pub(super) fn read(input: &mut &[u8], descending: bool, column: &mut Column) -> bool {
    let Some((&kind, rest)) = input.split_first() else { return false };
    if kind != column.kind() as u8 {
        return false;
    }
    *input = rest;
    let flip = if descending { 255 } else { 0 };
    match column {
        Column::Utf8(text) => match read_bytes(input, flip).map(String::from_utf8) {
            Some(Ok(value)) => text.push(&value),
            _ => return false,
        },
        Column::Bytes(bytes) => match read_bytes(input, flip) {
            Some(value) => bytes.push(&value),
            None => return false,
        },
        fixed => {
            let Some((rank, rest)) = input.split_first_chunk::<8>() else { return false };
            *input = rest;
            push_rank(fixed, u64::from_be_bytes(rank.map(|byte| byte ^ flip)));
        }
    }
    true
}

fn read_bytes(input: &mut &[u8], flip: u8) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    loop {
        let zero = memchr::memchr(flip, input)?;
        value.extend(input[..zero].iter().map(|byte| byte ^ flip));
        let after = input.get(zero + 1)? ^ flip;
        *input = &input[zero + 2..];
        match after {
            0 => return Some(value),
            _ => value.push(0),
        }
    }
}

/// Formats values in ascending order, for messages.
pub(super) fn show(mut input: &[u8]) -> String {
    let kinds = [Type::I64, Type::U64, Type::F64, Type::Bool, Type::Utf8, Type::Bytes];
    let mut shown = String::new();
    while let Some(kind) = input.first().and_then(|kind| kinds.get(usize::from(*kind))) {
        let mut column = Column::new(*kind);
        if !read(&mut input, false, &mut column) {
            break;
        }
        let comma = if shown.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        _ = match column.value(0) {
            Some(Value::Utf8(text)) => write!(shown, "{comma}{text:?}"),
            Some(value) => write!(shown, "{comma}{value}"),
            None => Ok(()),
        };
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn written(value: &Value, descending: bool) -> Vec<u8> {
        let mut out = Vec::new();
        write(&Column::repeat(value, 1), 0, descending, &mut out);
        out
    }

    fn order(a: &Value, b: &Value) -> Ordering {
        match (a, b) {
            (Value::I64(a), Value::I64(b)) => a.cmp(b),
            (Value::U64(a), Value::U64(b)) => a.cmp(b),
            (Value::F64(a), Value::F64(b)) => a.total_cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Utf8(a), Value::Utf8(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            _ => panic!("values of one type"),
        }
    }

    fn pairs() -> impl Strategy<Value = (Value, Value)> {
        let float = prop_oneof![
            Just(-0.0),
            Just(0.0),
            Just(f64::INFINITY),
            Just(-f64::INFINITY),
            Just(f64::NAN),
            -9.0..9.0
        ];
        let float = float.boxed();
        let bytes = proptest::collection::vec(prop_oneof![Just(0), Just(255), 0..4_u8], 0..5);
        prop_oneof![
            any::<(i64, i64)>().prop_map(|(a, b)| (a.into(), b.into())),
            any::<(u64, u64)>().prop_map(|(a, b)| (a.into(), b.into())),
            any::<(bool, bool)>().prop_map(|(a, b)| (a.into(), b.into())),
            (float.clone(), float).prop_map(|(a, b)| (a.into(), b.into())),
            ("[\0-\x02é]{0,4}", "[\0-\x02é]{0,4}").prop_map(|(a, b)| (a.into(), b.into())),
            (bytes.clone(), bytes).prop_map(|(a, b)| (Value::Bytes(a), Value::Bytes(b))),
        ]
    }

    proptest! {
        #[test]
        fn bytes_are_in_the_order_of_values((a, b) in pairs(), after in any::<u8>()) {
            for descending in [false, true] {
                let (mut x, y) = (written(&a, descending), written(&b, descending));
                let expected = if descending { order(&b, &a) } else { order(&a, &b) };
                prop_assert_eq!(x.cmp(&y), expected, "{:?} {:?}", a, b);
                prop_assert!(expected.is_eq() || !y.starts_with(&x));
                x.push(after);
                let (mut input, mut column) = (x.as_slice(), Column::new(a.kind()));
                prop_assert!(read(&mut input, descending, &mut column));
                prop_assert_eq!(input, &[after]);
                prop_assert!(order(&column.value(0).expect("one"), &a).is_eq());
                for end in 0..x.len() - 1 {
                    prop_assert!(!read(&mut &x[..end], descending, &mut column.clone()));
                }
            }
        }
    }

    #[test]
    fn keys_are_shown_to_people() {
        let mut out = Vec::new();
        for value in [Value::from("a\"b"), Value::from(-3_i64), Value::from(true)] {
            out.extend(written(&value, false));
        }
        assert_eq!(show(&out), r#""a\"b", -3, true"#);
    }
}
