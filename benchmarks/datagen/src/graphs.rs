//! Files of graphs: edges, each two little-endian `u32`, from and to. Every node from 0 to the number of
//! nodes has an edge in [`GraphKind::Components`] and [`GraphKind::Links`].

use std::io::{self, Write};

use crate::GraphKind;
use crate::random::Random;

/// Scatters places over ids: a prime, so that it is a bijection below every number of nodes that is not
/// a multiple of it.
const SCATTER: u64 = 2_654_435_761;

/// One node in so many has no link of its own.
const DANGLING: u64 = 100;

pub(crate) fn write(
    kind: GraphKind,
    nodes: u64,
    edges: u64,
    random: &mut Random,
    out: &mut dyn Write,
) -> io::Result<()> {
    if nodes < 2 || u32::try_from(nodes).is_err() || edges < nodes {
        let message = "a graph has 2 to 2^32 - 1 nodes, and no fewer edges than nodes";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    for at in 0..edges {
        let (from, to) = match kind {
            GraphKind::Uniform => (random.below(nodes), random.below(nodes)),
            GraphKind::Components => inside_a_component(at, nodes, random),
            GraphKind::Links => link(at, nodes, random),
        };
        out.write_all(&(from as u32).to_le_bytes())?;
        out.write_all(&(to as u32).to_le_bytes())?;
    }
    Ok(())
}

/// The component of a place: the first has half of all nodes, the second half of the rest, and so on; the
/// last has what does not halve any more. Answers where it begins and where it ends.
fn component(place: u64, nodes: u64) -> (u64, u64) {
    let (mut begin, mut size) = (0, nodes / 2);
    while place >= begin + size && size > 2 {
        begin += size;
        size = (nodes - begin) / 2;
    }
    if place < begin + size && size > 2 { (begin, begin + size) } else { (begin, nodes) }
}

/// The first edges begin at each place once, the others anywhere, all places alike; they lead to any place of
/// the same component.
fn inside_a_component(at: u64, nodes: u64, random: &mut Random) -> (u64, u64) {
    let from = if at < nodes { at } else { random.below(nodes) };
    let (begin, end) = component(from, nodes);
    let to = begin + random.below(end - begin);
    (from * SCATTER % nodes, to * SCATTER % nodes)
}

/// The first links concern each node once: from it, or to it if it has none of its own. Where links begin,
/// all nodes that have any are alike; where they lead, some are chosen far more often than others.
fn link(at: u64, nodes: u64, random: &mut Random) -> (u64, u64) {
    let dangles = |node: u64| node % DANGLING == DANGLING - 1;
    let mut source = || {
        let node = random.below(nodes);
        if dangles(node) { node - 1 } else { node }
    };
    if at < nodes && dangles(at) {
        return (source(), at);
    }
    let from = if at < nodes { at } else { source() };
    let place = random.below(nodes) + 1;
    (from, random.below(place) * SCATTER % nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(kind: GraphKind, nodes: u64, edges: u64) -> Vec<(u32, u32)> {
        let mut bytes = Vec::new();
        write(kind, nodes, edges, &mut Random::new(1), &mut bytes).unwrap();
        let word = |at: &[u8]| u32::from_le_bytes(at.try_into().unwrap());
        bytes.chunks(8).map(|edge| (word(&edge[..4]), word(&edge[4..]))).collect()
    }

    #[test]
    fn every_node_has_an_edge() {
        for kind in [GraphKind::Components, GraphKind::Links] {
            let mut seen = vec![false; 1000];
            for (from, to) in edges(kind, 1000, 1000) {
                seen[from as usize] = true;
                seen[to as usize] = true;
            }
            assert!(seen.into_iter().all(|seen| seen), "{kind}");
        }
    }

    #[test]
    fn components_halve_and_do_not_touch() {
        assert_eq!(component(0, 1000), (0, 500));
        assert_eq!(component(499, 1000), (0, 500));
        assert_eq!(component(500, 1000), (500, 750));
        let (begin, end) = component(999, 1000);
        assert!(end == 1000 && (2..=8).contains(&(end - begin)), "{begin}");
        let mut previous = 0;
        for place in 0..1000 {
            let (begin, end) = component(place, 1000);
            assert!((begin..end).contains(&place) && begin >= previous, "{place}");
            previous = begin;
        }
        let places: Vec<u64> = {
            let mut places = vec![0; 1000];
            (0..1000).for_each(|place| places[(place * SCATTER % 1000) as usize] = place);
            places
        };
        for (from, to) in edges(GraphKind::Components, 1000, 20_000) {
            let of = |node: u32| component(places[node as usize], 1000);
            assert_eq!(of(from), of(to));
        }
    }

    #[test]
    fn some_nodes_dangle_and_some_are_popular() {
        let edges = edges(GraphKind::Links, 1000, 50_000);
        assert!(edges.iter().all(|(from, _)| from % 100 != 99));
        let mut into = vec![0; 1000];
        edges.iter().for_each(|(_, to)| into[*to as usize] += 1);
        let most = into.iter().max().unwrap();
        assert!((200..600).contains(most), "{most}");
    }

    #[test]
    fn too_few_edges_are_an_error() {
        let mut out = Vec::new();
        assert!(write(GraphKind::Uniform, 10, 9, &mut Random::new(1), &mut out).is_err());
        assert!(write(GraphKind::Uniform, 1, 9, &mut Random::new(1), &mut out).is_err());
    }
}
