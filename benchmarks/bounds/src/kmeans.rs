//! K-means by hand: threads that stay for all rounds, and meet at a barrier.

use crate::threads::{on_each, part};
use bench_protocol::points::{Sums, Task, digest};
use bench_protocol::{Answer, Request, Result};
use std::sync::{Barrier, Mutex, PoisonError, RwLock};

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

fn rounds(task: &Task, cores: usize) -> Vec<bench_protocol::points::Point> {
    let centroids = RwLock::new(task.start.clone());
    let all = Mutex::new(Sums::new(task.start.len()));
    let barrier = Barrier::new(cores);
    on_each(cores, |index| {
        let share = part(task.points.len() as u64, index, cores);
        let points = &task.points[share.start as usize..share.end as usize];
        for _ in 0..task.iterations {
            let now = centroids.read().unwrap_or_else(PoisonError::into_inner);
            let mut sums = Sums::new(now.len());
            sums.add_nearest(points, &now);
            drop(now);
            all.lock().unwrap_or_else(PoisonError::into_inner).merge(&sums);
            if barrier.wait().is_leader() {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.move_centroids(&mut centroids.write().unwrap_or_else(PoisonError::into_inner));
                *all = Sums::new(task.start.len());
            }
            barrier.wait();
        }
    });
    centroids.into_inner().unwrap_or_else(PoisonError::into_inner)
}
