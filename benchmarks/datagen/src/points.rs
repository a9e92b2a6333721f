//! Files of points in clusters. Coordinates are whole numbers below 2^21, so that sums of them are exact in
//! whatever order they are added up.

use std::io::{self, Write};

use crate::random::Random;

/// How many clusters there are.
const CLUSTERS: usize = 100;
/// Their middles are within a square of this side.
const SIDE: u64 = 1 << 20;
/// A coordinate is off its cluster's middle by the sum of four numbers below this.
const SPREAD: u64 = 1 << 14;

pub(crate) fn write(count: u64, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
    let middles: Vec<[u64; 2]> =
        (0..CLUSTERS).map(|_| [random.below(SIDE), random.below(SIDE)]).collect();
    for _ in 0..count {
        for middle in middles[random.below(CLUSTERS as u64) as usize] {
            let off: u64 = (0..4).map(|_| random.below(SPREAD)).sum();
            out.write_all(&((middle + off) as f64).to_le_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_whole_and_spread() {
        let mut bytes = Vec::new();
        write(10_000, &mut Random::new(1), &mut bytes).unwrap();
        let (words, rest) = bytes.as_chunks::<8>();
        assert!(rest.is_empty() && words.len() == 20_000);
        let coordinates: Vec<f64> = words.iter().map(|word| f64::from_le_bytes(*word)).collect();
        assert!(coordinates.iter().all(|at| at.fract() == 0.0 && (0.0..2_097_152.0).contains(at)));
        let mean = coordinates.iter().sum::<f64>() / coordinates.len() as f64;
        let middle = (SIDE / 2 + 2 * SPREAD) as f64;
        assert!((mean / middle - 1.0).abs() < 0.2, "{mean}");
    }
}
