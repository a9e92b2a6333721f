//! `kmeans`: the query function of the example program, on pieces of points that are there beforehand.

use crate::environment;
use bench_protocol::points::{Task, digest};
use bench_protocol::{Answer, Request, Result, serve};
use std::sync::Arc;
use thalweg_queries::learning::{Point, kmeans_of_pieces};

/// How many points are in a piece.
const PIECE: usize = 1 << 14;

pub(crate) fn serve_kmeans(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let task = Task::read(request)?;
    let (records, iterations) = (task.records(), task.iterations);
    let bytes = 16 * records;
    let own = |points: &[bench_protocol::points::Point]| -> Vec<Point> {
        points.iter().map(|point| Point { x: point.x, y: point.y }).collect()
    };
    let start = own(&task.start);
    let pieces: Arc<Vec<Arc<Vec<Point>>>> =
        Arc::new(task.points.chunks(PIECE).map(|piece| Arc::new(own(piece))).collect());
    drop(task);
    serve(request, |stopwatch| {
        let centroids = stopwatch.time(|| -> thalweg::Result<Vec<Point>> {
            let pieces = Arc::clone(&pieces);
            let share = move |task: usize, tasks: usize| {
                let (from, to) = (pieces.len() * task / tasks, pieces.len() * (task + 1) / tasks);
                let pieces = Arc::clone(&pieces);
                (from..to).map(move |at| Arc::clone(&pieces[at]))
            };
            let pieces = env.parallel_iter(share);
            let outcome = kmeans_of_pieces(pieces, start.clone(), iterations, |_, _| false);
            let outcome = outcome.collect::<Vec<_>>();
            env.run()?;
            Ok(outcome.take()?.into_iter().flat_map(|outcome| outcome.state).collect())
        })?;
        let digest = digest(centroids.iter().map(|centroid| (centroid.x, centroid.y)));
        Ok(Answer { digest, records, bytes, ..Answer::default() })
    })
}
