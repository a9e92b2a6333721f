//! Files of items of the `skew` bench.

use std::io::{self, Write};

use crate::ItemKind;
use crate::random::{Random, Weighted};

/// How many ids there are, as in the thesis.
const IDS: u64 = 50;

/// The weight of an id. Those of the thesis's splits are shares of a class over its ids: ids go
/// round the four classes, so that two classes have 13 ids and two have 12.
fn weight(kind: ItemKind, id: u64) -> u64 {
    let class = ((id - 1) % 4) as usize;
    let of_class = |per_mille: [u64; 4]| per_mille[class] * 156 / [13, 13, 12, 12][class];
    match kind {
        ItemKind::Uniform => 1,
        ItemKind::Skewed => {
            if id <= 25 {
                3
            } else {
                1
            }
        }
        ItemKind::ThesisUniform => of_class([246, 295, 213, 246]),
        ItemKind::ThesisSkewed => of_class([513, 197, 66, 224]),
    }
}

pub(crate) fn write(
    kind: ItemKind,
    count: u64,
    random: &mut Random,
    out: &mut dyn Write,
) -> io::Result<()> {
    let weights: Vec<u64> = (1..=IDS).map(|id| weight(kind, id)).collect();
    let ids = Weighted::new(&weights);
    for _ in 0..count {
        let id = ids.draw(random) as u32 + 1;
        let number = random.below(100) as u32 + 1;
        out.write_all(&id.to_le_bytes())?;
        out.write_all(&number.to_le_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(kind: ItemKind, class: impl Fn(u32) -> usize) -> [f64; 4] {
        let mut bytes = Vec::new();
        write(kind, 100_000, &mut Random::new(1), &mut bytes).unwrap();
        let mut shares = [0.0; 4];
        for item in bytes.chunks(8) {
            let id = u32::from_le_bytes(item[..4].try_into().unwrap());
            shares[class(id)] += 1e-5;
        }
        shares
    }

    #[test]
    fn splits_are_as_described() {
        let by_class = |id: u32| (id as usize - 1) % 4;
        for (kind, expected) in [
            (ItemKind::ThesisUniform, [0.246, 0.295, 0.213, 0.246]),
            (ItemKind::ThesisSkewed, [0.513, 0.197, 0.066, 0.224]),
        ] {
            for (share, expected) in shares(kind, by_class).into_iter().zip(expected) {
                assert!((share - expected).abs() < 0.01, "{kind}: {share} for {expected}");
            }
        }
        let low = shares(ItemKind::Skewed, |id| usize::from(id > 25))[0];
        assert!((low - 0.75).abs() < 0.01, "{low}");
    }
}
