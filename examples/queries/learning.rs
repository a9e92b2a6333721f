//! Learning from points: loops that go through the same points in every round.

use multiversion::{multiversion, target::target_cfg_f};
use std::ops::Deref;
use thalweg::operators::loops::Outcome;
use thalweg::{Chain, Data, Stream};

/// A point, or the middle of some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Data)]
pub struct Point {
    /// From left to right.
    pub x: f64,
    /// From below to above.
    pub y: f64,
}

impl Point {
    /// The square of the distance. With `FUSED`, a product and a sum are one instruction: of processors that have none,
    /// a library would be called.
    #[inline(always)]
    fn distance2<const FUSED: bool>(self, other: Self) -> f64 {
        let (x, y) = (self.x - other.x, self.y - other.y);
        if FUSED { x.mul_add(x, y * y) } else { x * x + y * y }
    }

    /// Which of these is nearest; of several, the first.
    pub fn nearest(self, centroids: &[Self]) -> usize {
        self.nearest_of::<false>(centroids)
    }

    #[inline(always)]
    fn nearest_of<const FUSED: bool>(self, centroids: &[Self]) -> usize {
        let mut best = (0, f64::INFINITY);
        for (at, &centroid) in centroids.iter().enumerate() {
            let distance = self.distance2::<FUSED>(centroid);
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
    fn see<const FUSED: bool>(&mut self, at: usize, centroid: Point) {
        for lane in 0..8 {
            let point = Point { x: self.x[lane], y: self.y[lane] };
            let distance = point.distance2::<FUSED>(centroid);
            // No branches: a lane has none of its own.
            let nearer = distance < self.best[lane];
            self.best[lane] = if nearer { distance } else { self.best[lane] };
            self.nearest[lane] = if nearer { at } else { self.nearest[lane] };
        }
    }
}

/// The sums of the points that are nearest to each centroid, and how many those are.
#[derive(Default, Data)]
struct Sums(Vec<(Point, u64)>);

/// Adds each point to the sums of its nearest centroid. Compiled for several processors, of which the one that the
/// program runs on is found out at run time: vectors are twice or four times as long there as on any x86-64 processor.
/// To choose costs a call, so it is done for a piece and not for a point.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
fn add_nearest(sums: &mut Sums, points: &[Point], centroids: &[Point]) {
    if target_cfg_f!(target_feature = "fma") {
        sums.add_nearest::<true>(points, centroids);
    } else {
        sums.add_nearest::<false>(points, centroids);
    }
}

impl Sums {
    /// Inlined, so that the caller's instructions are used.
    #[inline(always)]
    fn add_nearest<const FUSED: bool>(&mut self, points: &[Point], centroids: &[Point]) {
        self.0.resize(centroids.len(), Default::default());
        let (eights, _) = points.as_chunks::<8>();
        let (groups, _) = eights.as_chunks::<4>();
        for group in groups {
            // Four times eight lanes are as much as processors have registers for.
            let [mut a, mut b, mut c, mut d] = group.each_ref().map(Lanes::new);
            for (at, &centroid) in centroids.iter().enumerate() {
                a.see::<FUSED>(at, centroid);
                b.see::<FUSED>(at, centroid);
                c.see::<FUSED>(at, centroid);
                d.see::<FUSED>(at, centroid);
            }
            for (lanes, points) in [a, b, c, d].iter().zip(group) {
                lanes.nearest.iter().zip(points).for_each(|(&at, point)| self.add(at, *point, 1));
            }
        }
        let rest = &points[groups.len() * 32..];
        rest.iter().for_each(|point| self.add(point.nearest_of::<FUSED>(centroids), *point, 1));
    }

    #[inline(always)]
    fn add(&mut self, at: usize, point: Point, count: u64) {
        if let Some((sum, all)) = self.0.get_mut(at) {
            *sum = Point { x: sum.x + point.x, y: sum.y + point.y };
            *all += count;
        }
    }

    fn merge(&mut self, others: Self) {
        self.0.resize(self.0.len().max(others.0.len()), Default::default());
        others.0.into_iter().enumerate().for_each(|(at, (sum, count))| self.add(at, sum, count));
    }

    /// Moves each centroid to the mean of its points; one without points stays where it is.
    fn means(self, centroids: &mut [Point]) {
        for (centroid, (sum, count)) in centroids.iter_mut().zip(self.0) {
            if count > 0 {
                *centroid = Point { x: sum.x / count as f64, y: sum.y / count as f64 };
            }
        }
    }
}

/// Lloyd's algorithm: so many rounds, or until no centroid moves. One without points stays where it is.
pub fn kmeans<C: Chain<Item = Point>>(
    points: Stream<C>,
    start: Vec<Point>,
    iterations: u64,
) -> Stream<impl Chain<Item = Outcome<Vec<Point>>, Time = C::Time>> {
    kmeans_of_pieces(points.chunks(1024), start, iterations, |before, after| before == after)
}

/// Lloyd's algorithm on pieces of the points, until `still` says of the centroids before and after a round that
/// they have moved little enough.
pub fn kmeans_of_pieces<C, P>(
    pieces: Stream<C>,
    start: Vec<Point>,
    iterations: u64,
    still: impl Fn(&[Point], &[Point]) -> bool + Send + Sync + 'static,
) -> Stream<impl Chain<Item = Outcome<Vec<Point>>, Time = C::Time>>
where
    C: Chain<Item = P>,
    P: Data + Deref<Target: AsRef<[Point]>>,
{
    pieces
        .replay(iterations, start, |pieces, centroids| pieces.with(centroids))
        .fold(
            |sums: &mut Sums, (piece, centroids)| add_nearest(sums, (**piece).as_ref(), centroids),
            Sums::merge,
        )
        .until(move |centroids, sums| {
            let before = centroids.clone();
            sums.means(centroids);
            still(&before, centroids)
        })
}

/// What a point belongs to, by a line between both kinds: weights of x and y, and what is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Data)]
pub struct Weights {
    /// Of x.
    pub x: f64,
    /// Of y.
    pub y: f64,
    /// Added.
    pub bias: f64,
}

impl Weights {
    /// How likely a point is of the first kind.
    pub fn likelihood(&self, point: Point) -> f64 {
        1.0 / (1.0 + (-(self.x * point.x + self.y * point.y + self.bias)).exp())
    }

    fn add(&mut self, other: &Self, times: f64) {
        self.x += other.x * times;
        self.y += other.y * times;
        self.bias += other.bias * times;
    }
}

/// Logistic regression by gradient descent over all points, so many rounds with steps of this rate.
pub fn logistic_regression<C: Chain<Item = (Point, bool)>>(
    points: Stream<C>,
    iterations: u64,
    rate: f64,
) -> Stream<impl Chain<Item = Outcome<Weights>, Time = C::Time>> {
    points
        .replay(iterations, Weights::default(), |points, weights| {
            points.with(weights).map(|((point, first), weights)| {
                let error = f64::from(*first) - weights.likelihood(*point);
                Weights { x: error * point.x, y: error * point.y, bias: error }
            })
        })
        .fold(
            |(sum, count): &mut (Weights, u64), gradient| {
                sum.add(&gradient, 1.0);
                *count += 1;
            },
            |(sum, count), (other, others)| {
                sum.add(&other, 1.0);
                *count += others;
            },
        )
        .all_rounds(move |weights, (sum, count)| weights.add(&sum, rate / count.max(1) as f64))
}
