//! Files of integer keys.

use std::io::{self, Write};

use crate::KeyKind;
use crate::random::{Random, Weighted};

/// Scatters ranks over keys: a prime, so that it is a bijection below every `distinct` that is not
/// a multiple of it.
const SCATTER: u64 = 2_654_435_761;

pub(crate) fn write(
    kind: KeyKind,
    distinct: u64,
    count: u64,
    random: &mut Random,
    out: &mut dyn Write,
) -> io::Result<()> {
    let zipf = (kind == KeyKind::Zipf).then(|| Weighted::zipf(distinct));
    for _ in 0..count {
        let key = match (&kind, &zipf) {
            (KeyKind::Zipf, Some(zipf)) => zipf.draw(random) as u64 * SCATTER % distinct,
            (KeyKind::Hot, _) if random.bits() >> 63 == 0 => 0,
            _ => random.below(distinct),
        };
        out.write_all(&key.to_le_bytes())?;
    }
    Ok(())
}
