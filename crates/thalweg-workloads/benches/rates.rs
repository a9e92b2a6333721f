//! The rate at which events are generated and decoded on one core: `cargo bench -p thalweg-workloads`. A single run
//! without a comparison, for a rough figure.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;
use thalweg_workloads::digest::digest;
use thalweg_workloads::segments::{Format, SEGMENT, Segments};
use thalweg_workloads::{Recipe, nexmark, ysb};

fn measure<F: Format>(recipe: Recipe) -> Segments<F> {
    const EVENTS: u64 = 2_000_000;
    let start = Instant::now();
    let segments = Segments::<F>::generate_in(recipe, EVENTS, SEGMENT, NonZeroUsize::MIN);
    let made = start.elapsed();
    let start = Instant::now();
    segments.events().for_each(|event| drop(black_box(event)));
    let decoded = start.elapsed();
    let rate = |time: std::time::Duration| EVENTS as f64 / time.as_secs_f64() / 1e6;
    let bytes = segments.size() as f64 / EVENTS as f64;
    let (made, decoded) = (rate(made), rate(decoded));
    println!("{}: {bytes:.2} bytes, made {made:.1} M/s, decoded {decoded:.1} M/s", F::NAME);
    segments
}

fn main() {
    let segments = measure::<nexmark::Encoded>(nexmark::recipe(1));
    let start = Instant::now();
    let digest = digest(segments.events());
    let rate = segments.count() as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("decoded and every field hashed: {rate:.1} M/s, {digest}");
    measure::<ysb::fixed::Fixed>(ysb::recipe(1));
    measure::<ysb::variable::Variable>(ysb::recipe(1));
}
