//! K-means and rounds in which nothing happens, by `replay`. Points are records of their own, as in Renoir's
//! published example; with `--form pieces` pieces of them are, whose points are gone through many at once.

use std::sync::Arc;

use bench_protocol::points::{Point, Sums, Task, digest};
use bench_protocol::workload::single_row;
use bench_protocol::{Answer, Request, Result};
use serde::{Deserialize, Serialize};

use crate::{batches, collected, context, cores, part};

/// How many points are in a piece.
const PIECE: u64 = 1 << 14;

type Plain = (f64, f64);
/// A centroid's points: their sum, and how many they are.
type Parts = Vec<(f64, f64, u64)>;

/// What a round begins with, and what it has come to so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    centroids: Vec<Plain>,
    sums: Parts,
}

impl State {
    fn new(start: &[Point]) -> Self {
        let centroids = start.iter().map(|point| (point.x, point.y)).collect();
        Self { centroids, sums: vec![Default::default(); start.len()] }
    }

    fn nearest(&self, (x, y): Plain) -> usize {
        let mut best = (0, f64::INFINITY);
        for (at, centroid) in self.centroids.iter().enumerate() {
            let (dx, dy) = (x - centroid.0, y - centroid.1);
            let distance = if cfg!(target_feature = "fma") {
                dx.mul_add(dx, dy * dy)
            } else {
                dx * dx + dy * dy
            };
            if distance < best.1 {
                best = (at, distance);
            }
        }
        best.0
    }

    /// All replicas' parts are in: centroids move.
    fn advance(&mut self) -> bool {
        for (centroid, sum) in self.centroids.iter_mut().zip(&mut self.sums) {
            let (x, y, count) = std::mem::take(sum);
            if count > 0 {
                *centroid = (x / count as f64, y / count as f64);
            }
        }
        true
    }
}

fn add(sums: &mut Parts, at: usize, (x, y, count): (f64, f64, u64)) {
    if sums.len() <= at {
        sums.resize(at + 1, Default::default());
    }
    let sum = &mut sums[at];
    *sum = (sum.0 + x, sum.1 + y, sum.2 + count);
}

fn add_all(sums: &mut Parts, others: Parts) {
    others.into_iter().enumerate().for_each(|(at, other)| add(sums, at, other));
}

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let run = match request.get("form").unwrap_or("points") {
        "points" => by_points,
        "pieces" => by_pieces,
        other => return Err(format!("there is no form {other:?}: points, pieces").into()),
    };
    let task = Arc::new(Task::read(request)?);
    let records = task.records();
    bench_protocol::serve(request, |stopwatch| {
        let state = stopwatch.time(|| run(&task, cores))?;
        let digest = digest(state.centroids);
        Ok(Answer { digest, records, bytes: 16 * records, ..Answer::default() })
    })
}

fn by_points(task: &Arc<Task>, cores: u64) -> Result<State> {
    let context = context(cores)?;
    let points = Arc::clone(task);
    let source = context.stream_par_iter(move |index, count| {
        let range = part(points.points.len() as u64, index, count);
        let points = Arc::clone(&points);
        range.map(move |at| (0, points.points[at as usize].x, points.points[at as usize].y))
    });
    let last = source
        .batch_mode(batches())
        .replay(
            task.iterations as usize,
            State::new(&task.start),
            // What comes out of a body is of the kind that went in: the number says nothing before.
            |points, state| points.map(move |(_, x, y)| (state.get().nearest((x, y)), x, y)),
            |sums: &mut Parts, (at, x, y)| add(sums, at, (x, y, 1)),
            |state, sums| add_all(&mut state.sums, sums),
            State::advance,
        )
        .collect_vec();
    context.execute_blocking();
    collected(last)?.pop().ok_or_else(|| "the loop gave no state".into())
}

fn by_pieces(task: &Arc<Task>, cores: u64) -> Result<State> {
    let context = context(cores)?;
    let all = task.points.len() as u64;
    let points = Arc::clone(task);
    let last = context
        .stream_par_iter(move |index, count| {
            part(all.div_ceil(PIECE), index, count).map(|piece| (piece, Parts::new()))
        })
        .batch_mode(batches())
        .replay(
            task.iterations as usize,
            State::new(&task.start),
            move |pieces, state| {
                pieces.map(move |(piece, _)| {
                    let range = (piece * PIECE) as usize..all.min((piece + 1) * PIECE) as usize;
                    let point = |&(x, y): &Plain| Point { x, y };
                    let centroids: Vec<Point> = state.get().centroids.iter().map(point).collect();
                    let mut sums = Sums::new(centroids.len());
                    sums.add_nearest(&points.points[range], &centroids);
                    let plain = |(sum, count): (Point, u64)| (sum.x, sum.y, count);
                    (piece, sums.0.into_iter().map(plain).collect())
                })
            },
            |sums, (_, others)| add_all(sums, others),
            |state, sums| add_all(&mut state.sums, sums),
            State::advance,
        )
        .collect_vec();
    context.execute_blocking();
    collected(last)?.pop().ok_or_else(|| "the loop gave no state".into())
}

pub(crate) fn serve_barrier(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let count: u64 = request.value("count")?;
    bench_protocol::serve(request, |stopwatch| {
        let rounds = stopwatch.time(|| -> Result<u64> {
            let context = context(cores)?;
            let last = context
                .stream_par_iter(move |index, _| index..index + 1)
                .batch_mode(batches())
                .replay(
                    count as usize,
                    0u64,
                    |numbers, _| numbers.map(|number| number),
                    |(): &mut (), _| {},
                    |_, ()| {},
                    |rounds| {
                        *rounds += 1;
                        true
                    },
                )
                .collect_vec();
            context.execute_blocking();
            collected(last)?.pop().ok_or_else(|| "the loop gave no state".into())
        })?;
        Ok(Answer { digest: single_row(count, rounds), records: count, ..Answer::default() })
    })
}
