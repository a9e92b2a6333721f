//! K-means: pieces of the points in parallel, whose sums are reduced, round after round.

use bench_protocol::points::{Sums, Task, digest};
use bench_protocol::{Answer, Request, Result};
use rayon::prelude::*;

/// How many points are in a piece.
const PIECE: usize = 1 << 14;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let pool = crate::pool(request)?;
    let task = Task::read(request)?;
    let records = task.records();
    bench_protocol::serve(request, |stopwatch| {
        let centroids = stopwatch.time(|| {
            pool.install(|| {
                let mut centroids = task.start.clone();
                for _ in 0..task.iterations {
                    let none = || Sums::new(centroids.len());
                    let sums = task.points.par_chunks(PIECE).fold(none, |mut sums, points| {
                        sums.add_nearest(points, &centroids);
                        sums
                    });
                    let sums = sums.reduce(none, |mut sums, other| {
                        sums.merge(&other);
                        sums
                    });
                    sums.move_centroids(&mut centroids);
                }
                centroids
            })
        });
        let digest = digest(centroids.iter().map(|centroid| (centroid.x, centroid.y)));
        Ok(Answer { digest, records, bytes: 16 * records, ..Answer::default() })
    })
}
