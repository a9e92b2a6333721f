//! Learning, against the same steps taken one point after the other.

use thalweg::check::every;
use thalweg::operators::loops::Ended;
use thalweg_queries::learning::{Point, Weights, kmeans, logistic_regression};

/// Points around some centres, and which of them each belongs to.
fn points(count: u64) -> Vec<(Point, bool)> {
    let mut state = 7u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let centres = [(0.0, 0.0), (4.0, 1.0), (-3.0, 5.0), (2.0, -6.0)];
    (0..count)
        .map(|n| {
            let (x, y) = centres[n as usize % centres.len()];
            (Point { x: x + 2.0 * next(), y: y + 2.0 * next() }, n % 4 < 2)
        })
        .collect()
}

fn close(a: Point, b: Point) -> bool {
    (a.x - b.x).abs() < 1e-9 && (a.y - b.y).abs() < 1e-9
}

#[test]
fn centroids_are_those_of_the_plain_algorithm() {
    let points: Vec<Point> = points(2000).into_iter().map(|(point, _)| point).collect();
    for (k, most) in [(1, 9), (5, 3), (7, 200)] {
        let mut plain = points[..k].to_vec();
        let mut rounds = 0;
        let ended = loop {
            let before = plain.clone();
            for (at, centroid) in plain.iter_mut().enumerate() {
                let own: Vec<_> = points.iter().filter(|p| p.nearest(&before) == at).collect();
                let mean = |of: fn(&Point) -> f64| {
                    own.iter().map(|point| of(point)).sum::<f64>() / own.len() as f64
                };
                *centroid = Point { x: mean(|point| point.x), y: mean(|point| point.y) };
            }
            rounds += 1;
            // Sums in another order differ in their last digits.
            if plain.iter().zip(&before).all(|(a, b)| close(*a, *b)) {
                break Ended::Condition;
            }
            if rounds == most {
                break Ended::Rounds;
            }
        };
        every(|env| {
            let all = points.clone();
            let out =
                kmeans(env.iter(all).shuffle(), points[..k].to_vec(), most).collect::<Vec<_>>();
            env.run()?;
            let outcome = out.take()?.pop().unwrap();
            assert_eq!(outcome.ended, ended);
            assert!(outcome.rounds.abs_diff(rounds) <= 1, "{} and {rounds}", outcome.rounds);
            assert!(outcome.state.iter().zip(&plain).all(|(a, b)| close(*a, *b)), "{outcome:?}");
            Ok(())
        });
    }
}

#[test]
fn a_centroid_without_points_stays() {
    every(|env| {
        let far = Point { x: 1e6, y: 1e6 };
        let near = [Point { x: 1.0, y: 0.0 }, Point { x: 3.0, y: 0.0 }];
        let out = kmeans(env.iter(near), vec![near[0], far], 10).collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?.pop().unwrap().state, [Point { x: 2.0, y: 0.0 }, far]);
        Ok(())
    });
}

#[test]
fn weights_are_those_of_plain_gradient_descent() {
    let points = points(1000);
    let mut plain = Weights::default();
    for _ in 0..50 {
        let mut sum = Weights::default();
        for (point, first) in &points {
            let error = f64::from(*first) - plain.likelihood(*point);
            sum.x += error * point.x;
            sum.y += error * point.y;
            sum.bias += error;
        }
        plain.x += 0.5 * sum.x / points.len() as f64;
        plain.y += 0.5 * sum.y / points.len() as f64;
        plain.bias += 0.5 * sum.bias / points.len() as f64;
    }
    every(|env| {
        let out = logistic_regression(env.iter(points.clone()).shuffle(), 50, 0.5);
        let out = out.collect::<Vec<_>>();
        env.run()?;
        let found = out.take()?.pop().unwrap().state;
        let off = [found.x - plain.x, found.y - plain.y, found.bias - plain.bias];
        assert!(off.iter().all(|off| off.abs() < 1e-9), "{found:?} {plain:?}");
        // It has learned something.
        let right =
            points.iter().filter(|(point, first)| (found.likelihood(*point) > 0.5) == *first);
        assert!(right.count() > 700);
        Ok(())
    });
}
