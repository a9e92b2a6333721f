//! The benchmarks on rayon. Cases: `wordcount`, `keyed-count`, `fused`, `collatz`, `kmeans`, `connected`, `pagerank`,
//! `triangles`.

mod counts;
mod graphs;
mod kmeans;
mod loops;

use std::process::ExitCode;

use bench_protocol::{Request, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

fn main() -> ExitCode {
    bench_protocol::run(|request| match request.case() {
        "wordcount" => counts::serve_wordcount(request),
        "keyed-count" => counts::serve_keyed_count(request),
        "fused" => loops::serve_fused(request),
        "kmeans" => kmeans::serve(request),
        "collatz" => loops::serve_collatz(request),
        "connected" => graphs::serve_connected(request),
        "pagerank" => graphs::serve_pagerank(request),
        "triangles" => graphs::serve_triangles(request),
        _ => request.unknown(),
    })
}

/// A pool of as many threads as cores were given, made once and warm, as rayon's global one is.
fn pool(request: &Request) -> Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(request.cores()?).build()?)
}
