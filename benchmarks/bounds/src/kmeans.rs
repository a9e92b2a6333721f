//! K-means by hand: threads that stay for all rounds, take pieces of the points as they are free, and have sums of
//! their own.

use crate::threads::{Meeting, Pieces, on_each};
use bench_protocol::points::{Point, Sums, Task, digest};
use bench_protocol::{Answer, Request, Result};
use std::sync::{Mutex, PoisonError, RwLock};

/// How many points are taken at a time: 256 KB of them.
const PIECE: usize = 1 << 14;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let task = Task::read(request)?;
    let records = task.records();
    bench_protocol::serve(request, |stopwatch| {
        let centroids = stopwatch.time(|| rounds(&task, cores));
        let digest = digest(centroids.iter().map(|centroid| (centroid.x, centroid.y)));
        Ok(Answer { digest, records, bytes: 16 * records, ..Answer::default() })
    })
}

fn rounds(task: &Task, cores: usize) -> Vec<Point> {
    let count = task.start.len();
    let centroids = RwLock::new(task.start.clone());
    let sums: Vec<_> = (0..cores).map(|_| Mutex::new(Sums::new(count))).collect();
    let pieces = Pieces::new(task.points.len(), PIECE);
    let meeting = Meeting::new(cores);
    on_each(cores, |index| {
        for _ in 0..task.iterations {
            let now = centroids.read().unwrap_or_else(PoisonError::into_inner);
            let mut own = sums[index].lock().unwrap_or_else(PoisonError::into_inner);
            while let Some(piece) = pieces.take() {
                own.add_nearest(&task.points[piece], &now);
            }
            drop((now, own));
            meeting.wait_after(|| {
                let mut all = Sums::new(count);
                for own in &sums {
                    let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
                    all.merge(&own);
                    own.0.fill(Default::default());
                }
                all.move_centroids(&mut centroids.write().unwrap_or_else(PoisonError::into_inner));
                pieces.again();
            });
        }
    });
    centroids.into_inner().unwrap_or_else(PoisonError::into_inner)
}
