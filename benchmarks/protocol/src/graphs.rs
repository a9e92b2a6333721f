//! Graphs: how they are read, and what the answers about them are, so that programs by any algorithm can be
//! compared. `benchmarks/README.md` says what each bench computes.

use std::path::Path;

use crate::digest::Digest;

/// An edge as it is in its file: two little-endian `u32`, from and to.
pub type Edge = (u32, u32);

/// Reads a file of edges between nodes below `nodes`.
///
/// # Errors
/// When the file cannot be read, has a partial edge at its end, or an edge to a node that is not
/// below `nodes`.
pub fn read_edges(path: &Path, nodes: u32) -> crate::Result<Vec<Edge>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (edges, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(format!("{}: not a whole number of edges", path.display()).into());
    }
    let word = |at: &[u8]| u32::from_le_bytes([at[0], at[1], at[2], at[3]]);
    let edges: Vec<Edge> = edges.iter().map(|edge| (word(&edge[..4]), word(&edge[4..]))).collect();
    if let Some(edge) = edges.iter().find(|edge| edge.0.max(edge.1) >= nodes) {
        return Err(format!("{}: {edge:?} has no place among {nodes}", path.display()).into());
    }
    Ok(edges)
}

/// Surfers of each node at the beginning, in `pagerank` by integers.
pub const SURFERS: u64 = 6_000_000;

/// Surfers that come to each node in each round, whatever it is linked from.
pub const RESET: u64 = 1_000_000;

/// Surfers that go along each of a node's links in a round, of so many there: a sixth leaves for
/// elsewhere, and what does not divide is lost.
#[inline]
pub fn pushed(surfers: u64, links: u64) -> u64 {
    5 * surfers / (6 * links)
}

/// How often a surfer follows a link, in `pagerank` by floating-point numbers.
pub const DAMPING: f64 = 0.85;

/// A rank among `nodes` as the digest of `pagerank` has it: in ten-thousandths of the mean rank,
/// rounded. The order in which ranks are summed up moves a value by less than 1e-9 of these, so that it
/// decides nothing unless a value lies as near to a half.
#[inline]
pub fn rounded(rank: f64, nodes: u32) -> u64 {
    (rank * f64::from(nodes) * 1e4).round() as u64
}

/// The digest of rows of nodes, each with a number: the smallest node of its component, the rank.
pub fn by_node(rows: impl IntoIterator<Item = (u32, u64)>) -> Digest {
    let mut digest = Digest::default();
    rows.into_iter().for_each(|(node, value)| digest.add_number(node.into(), value));
    digest
}

/// The digest of pairs of nodes: a row's key is `from * 2^32 + to`, its value 1.
pub fn of_pairs(pairs: impl IntoIterator<Item = Edge>) -> Digest {
    let mut digest = Digest::default();
    let key = |(from, to)| (u64::from(from) << 32) | u64::from(to);
    pairs.into_iter().for_each(|pair| digest.add_number(key(pair), 1));
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surfers_by_hand() {
        assert_eq!(pushed(6_000_000, 1), 5_000_000);
        assert_eq!(pushed(6_000_000, 7), 714_285);
    }

    #[test]
    fn ranks_are_rounded() {
        assert_eq!(rounded(1.0 / 3.0, 3), 10_000);
        assert_eq!(rounded(0.000_123_456, 10), 12);
    }

    #[test]
    fn pairs_have_a_direction() {
        assert_eq!(of_pairs([(1, 2), (2, 3)]), of_pairs([(2, 3), (1, 2)]));
        assert_ne!(of_pairs([(1, 2)]), of_pairs([(2, 1)]));
    }

    #[test]
    fn edges_are_read() {
        let path = std::env::temp_dir().join(format!("edges-{}.bin", std::process::id()));
        let bytes: Vec<u8> = [1u32, 2, 3, 0].into_iter().flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_edges(&path, 4).unwrap(), [(1, 2), (3, 0)]);
        assert!(read_edges(&path, 3).is_err());
        std::fs::write(&path, &bytes[1..]).unwrap();
        assert!(read_edges(&path, 4).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
