//! How the records of a run differ from those that are expected.

use crate::data::Data;
use std::fmt::{Debug, Write};

/// The number of differing records that are shown.
const SHOWN: usize = 5;

/// Describes how `found` differs from what was expected.
pub(super) fn compare<T: Data + Debug>(
    found: &[T],
    expected: &[T],
    ordered: bool,
) -> Result<(), String> {
    let show = |is_found: bool, at: usize| {
        let records = if is_found { found } else { expected };
        records.get(at).map_or_else(|| "nothing".to_owned(), |record| format!("{record:?}"))
    };
    compare_encoded(encoded(found), encoded(expected), ordered, &show)
}

/// As [`compare`]; `show` describes a record of those that were found, or expected, by its number. Compiled once for all records.
fn compare_encoded(
    mut found: Vec<Encoded>,
    mut expected: Vec<Encoded>,
    ordered: bool,
    show: &dyn Fn(bool, usize) -> String,
) -> Result<(), String> {
    let mut message = match (found.len(), expected.len()) {
        (records, as_many) if records == as_many => format!("gave {records} records, as expected"),
        (records, expected) => format!("gave {records} records, not the {expected} expected"),
    };
    let mut elsewhere = 0;
    if ordered {
        let differs = |at: &usize| found.get(*at).map(|x| &x.0) != expected.get(*at).map(|x| &x.0);
        let mut places = (0..found.len().max(expected.len())).filter(differs);
        let Some(first) = places.next() else { return Ok(()) };
        elsewhere = 1 + places.count();
        let (is, not) = (show(true, first), show(false, first));
        let _ = write!(message, ", but record {first} is {is}, not {not}");
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    let (missing, unexpected) = (without(&expected, &found), without(&found, &expected));
    if missing.is_empty() && unexpected.is_empty() {
        if ordered {
            let what = format!("{elsewhere} records are in another place, and none is missing");
            return Err(format!("{message}\n  {what}"));
        }
        return Ok(());
    }
    for (what, is_found, records) in [("missing", false, missing), ("unexpected", true, unexpected)]
    {
        if !records.is_empty() {
            let _ = write!(message, "\n  {what} ({} in all):", records.len());
            for &record in records.iter().take(SHOWN) {
                let _ = write!(message, "\n    {}", show(is_found, record));
            }
            if records.len() > SHOWN {
                message.push_str("\n    …");
            }
        }
    }
    Err(message)
}

/// The encoding of a record, and its number.
type Encoded = (Vec<u8>, usize);

/// Equal records have equal encodings, and encodings have an order.
fn encoded<T: Data>(records: &[T]) -> Vec<Encoded> {
    let mut all = Vec::with_capacity(records.len());
    for (at, record) in records.iter().enumerate() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        all.push((bytes, at));
    }
    all
}

/// The numbers of the records that the first of two sorted lists contains more often than the second, in order. Of equal records,
/// those with the greatest numbers count as too many.
fn without(these: &[Encoded], those: &[Encoded]) -> Vec<usize> {
    let mut those = those.iter().map(|(bytes, _)| bytes).peekable();
    let mut left = Vec::new();
    for (bytes, record) in these {
        while those.next_if(|other| *other < bytes).is_some() {}
        if those.next_if(|other| *other == bytes).is_none() {
            left.push(*record);
        }
    }
    left.sort_unstable();
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_is_too_much_is_counted_and_shown_in_order() {
        // The encodings of numbers from 256 on are in another order.
        let expected: Vec<u32> = (0..1000).collect();
        let found = [&expected[..252], &expected[260..], &[999, 7, 1000, 7]].concat();
        let said = compare(&found, &expected, false).unwrap_err();
        let lines = "gave 996 records, not the 1000 expected\n  \
                     missing (8 in all):\n    252\n    253\n    254\n    255\n    256\n    …\n  \
                     unexpected (4 in all):\n    999\n    7\n    1000\n    7";
        assert_eq!(said, lines);
        let reversed: Vec<u32> = expected.iter().rev().copied().collect();
        assert_eq!(compare(&reversed, &expected, false), Ok(()));
    }

    #[test]
    fn what_differs_in_a_list_is_the_first_place_and_what_is_missing() {
        assert_eq!(compare(&[1u8, 2], &[1, 2], true), Ok(()));
        let said = compare(&[1u8, 3, 4, 5], &[1, 2, 3, 4, 5], true).unwrap_err();
        let lines = "gave 4 records, not the 5 expected, but record 1 is 3, not 2\n  \
                     missing (1 in all):\n    2";
        assert_eq!(said, lines);
        let said = compare(&[1u8, 2, 6], &[1, 2], true).unwrap_err();
        let lines = "gave 3 records, not the 2 expected, but record 2 is 6, not nothing\n  \
                     unexpected (1 in all):\n    6";
        assert_eq!(said, lines);
        let said = compare(&[1u8, 3, 2, 4], &[1, 2, 3, 4], true).unwrap_err();
        let lines = "gave 4 records, as expected, but record 1 is 3, not 2\n  \
                     2 records are in another place, and none is missing";
        assert_eq!(said, lines);
    }
}
