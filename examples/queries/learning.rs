//! Learning from points: loops that go through the same points in every round.

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
    fn distance2(self, other: Self) -> f64 {
        (self.x - other.x).powi(2) + (self.y - other.y).powi(2)
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

/// The sums of the points that are nearest to each centroid, and how many those are.
type Sums = Vec<(Point, u64)>;

fn add(sums: &mut Sums, at: usize, point: Point, count: u64) {
    if sums.len() <= at {
        sums.resize(at + 1, Default::default());
    }
    let (sum, all) = &mut sums[at];
    *sum = Point { x: sum.x + point.x, y: sum.y + point.y };
    *all += count;
}

/// Lloyd's algorithm: so many rounds, or until no centroid moves. One without points stays where it is.
pub fn kmeans<C: Chain<Item = Point>>(
    points: Stream<C>,
    start: Vec<Point>,
    iterations: u64,
) -> Stream<impl Chain<Item = Outcome<Vec<Point>>, Time = C::Time>> {
    points
        .replay(iterations, start, |points, centroids| {
            points.with(centroids).map(|(point, centroids)| (point.nearest(centroids), *point))
        })
        .fold(
            |sums: &mut Sums, (at, point)| add(sums, at, point, 1),
            |sums, others| {
                let others = others.into_iter().enumerate();
                others.for_each(|(at, (sum, count))| add(sums, at, sum, count));
            },
        )
        .until(|centroids, sums| {
            let mut moved = false;
            for (centroid, (sum, count)) in centroids.iter_mut().zip(sums) {
                if count > 0 {
                    let mean = Point { x: sum.x / count as f64, y: sum.y / count as f64 };
                    moved |= *centroid != mean;
                    *centroid = mean;
                }
            }
            !moved
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
