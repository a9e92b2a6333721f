//! K-means: the points, what a round of Lloyd's algorithm does with them, and the answer's digest.
//!
//! Coordinates of points are whole numbers, so that sums of them do not depend on their order. Centroids begin as the
//! first points; one without points stays where it is.

use crate::digest::Digest;
use crate::{Request, Result};
use std::path::Path;

/// A point, or the middle of some.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// From left to right.
    pub x: f64,
    /// From below to above.
    pub y: f64,
}

impl Point {
    #[inline(always)]
    fn distance2(self, other: Self) -> f64 {
        let (x, y) = (self.x - other.x, self.y - other.y);
        // As compilers of C++ do it: one instruction where the processor has it.
        if cfg!(target_feature = "fma") { x.mul_add(x, y * y) } else { x * x + y * y }
    }

    /// Which of these is nearest; of several, the first.
    pub fn nearest(self, centroids: &[Self]) -> usize {
        let mut best = (0, f64::INFINITY);
        for (at, &centroid) in centroids.iter().enumerate() {
            let distance = self.distance2(centroid);
            if distance < best.1 {
                best = (at, distance);
            }
        }
        best.0
    }
}

/// Points that look for what is nearest together, each in its lane: vector instructions do all lanes at once.
struct Lanes {
    x: [f64; 8],
    y: [f64; 8],
    best: [f64; 8],
    nearest: [usize; 8],
}

impl Lanes {
    #[inline(always)]
    fn new(points: &[Point; 8]) -> Self {
        let (x, y) = (points.map(|point| point.x), points.map(|point| point.y));
        Self { x, y, best: [f64::INFINITY; 8], nearest: [0; 8] }
    }

    #[inline(always)]
    fn see(&mut self, at: usize, centroid: Point) {
        for lane in 0..8 {
            let distance = Point { x: self.x[lane], y: self.y[lane] }.distance2(centroid);
            // No branches: a lane has none of its own.
            let nearer = distance < self.best[lane];
            self.best[lane] = if nearer { distance } else { self.best[lane] };
            self.nearest[lane] = if nearer { at } else { self.nearest[lane] };
        }
    }
}

/// The sums of the points that are nearest to each centroid, and how many those are.
#[derive(Debug, Clone, Default)]
pub struct Sums(pub Vec<(Point, u64)>);

impl Sums {
    /// Of nothing, for so many centroids.
    pub fn new(centroids: usize) -> Self {
        Self(vec![Default::default(); centroids])
    }

    /// Adds each point to its nearest centroid's.
    pub fn add_nearest(&mut self, points: &[Point], centroids: &[Point]) {
        let (eights, _) = points.as_chunks::<8>();
        let (groups, _) = eights.as_chunks::<4>();
        for group in groups {
            // Four times eight lanes are as much as processors have registers for.
            let [mut a, mut b, mut c, mut d] = group.each_ref().map(Lanes::new);
            for (at, &centroid) in centroids.iter().enumerate() {
                a.see(at, centroid);
                b.see(at, centroid);
                c.see(at, centroid);
                d.see(at, centroid);
            }
            for (lanes, points) in [a, b, c, d].iter().zip(group) {
                lanes.nearest.iter().zip(points).for_each(|(&at, point)| self.add(at, *point, 1));
            }
        }
        let rest = &points[groups.len() * 32..];
        rest.iter().for_each(|point| self.add(point.nearest(centroids), *point, 1));
    }

    /// Adds a sum of so many points to a centroid's.
    #[inline(always)]
    pub fn add(&mut self, at: usize, sum: Point, count: u64) {
        let (all, points) = &mut self.0[at];
        *all = Point { x: all.x + sum.x, y: all.y + sum.y };
        *points += count;
    }

    /// Adds another's sums.
    pub fn merge(&mut self, other: &Self) {
        for (at, (sum, count)) in other.0.iter().enumerate() {
            self.add(at, *sum, *count);
        }
    }

    /// Moves centroids to the means of their points.
    pub fn move_centroids(&self, centroids: &mut [Point]) {
        for (centroid, (sum, count)) in centroids.iter_mut().zip(&self.0) {
            if *count > 0 {
                *centroid = Point { x: sum.x / *count as f64, y: sum.y / *count as f64 };
            }
        }
    }
}

/// What a contestant is asked: points, where centroids begin, and how many rounds.
#[derive(Debug, Clone)]
pub struct Task {
    /// All points.
    pub points: Vec<Point>,
    /// The first of them.
    pub start: Vec<Point>,
    /// Rounds, of which none is left out.
    pub iterations: u64,
}

impl Task {
    /// Reads `--data`, `--centroids` and `--iterations`.
    ///
    /// # Errors
    /// When one of them is missing or cannot be read, or there are fewer points than centroids.
    pub fn read(request: &Request) -> Result<Self> {
        let points = read(request.data()?)?;
        let start = points.get(..request.value("centroids")?).ok_or("too few points")?.to_vec();
        Ok(Self { points, start, iterations: request.value("iterations")? })
    }

    /// How many points all rounds go through.
    pub fn records(&self) -> u64 {
        self.points.len() as u64 * self.iterations
    }
}

/// Reads a file of points: two little-endian `f64` each.
///
/// # Errors
/// When the file cannot be read or has a partial point at its end.
pub fn read(path: &Path) -> Result<Vec<Point>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (points, rest) = bytes.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(format!("{}: not a whole number of points", path.display()).into());
    }
    let number = |at: &[u8]| f64::from_le_bytes(at.try_into().expect("eight bytes"));
    Ok(points.iter().map(|at| Point { x: number(&at[..8]), y: number(&at[8..]) }).collect())
}

/// The digest of centroids: two rows for each, its number doubled, and one more, with the bits of x and of y.
pub fn digest(centroids: impl IntoIterator<Item = (f64, f64)>) -> Digest {
    let mut digest = Digest::default();
    for (at, (x, y)) in (0..).zip(centroids) {
        digest.add_number(2 * at, x.to_bits());
        digest.add_number(2 * at + 1, y.to_bits());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_counts_for_the_nearest_and_on_ties_for_the_first() {
        let at = |x: i32| Point { x: x.into(), y: 0.0 };
        let points: Vec<Point> = (0..11).map(at).collect();
        let mut centroids = [at(0), at(10), at(100)];
        let mut sums = Sums::new(3);
        sums.add_nearest(&points, &centroids);
        assert_eq!(sums.0, [(at(15), 6), (at(40), 5), (at(0), 0)]);
        sums.move_centroids(&mut centroids);
        assert_eq!(centroids, [at(5).scaled(0.5), at(8), at(100)]);
    }

    impl Point {
        fn scaled(self, by: f64) -> Self {
            Self { x: self.x * by, y: self.y * by }
        }
    }
}
