//! The benchmarks on Thalweg. Cases: `wordcount`, `keyed-count`, `exchange-u64`, `fused`, `collatz`.

mod counts;
mod loops;

use bench_protocol::{Request, Result};
use std::process::ExitCode;
use thalweg::{Environment, config::Config};

fn main() -> ExitCode {
    bench_protocol::run(|request| match request.case() {
        "wordcount" => counts::serve_wordcount(request),
        "keyed-count" => counts::serve_keyed_count(request),
        "exchange-u64" => loops::serve_exchange(request),
        "fused" => loops::serve_fused(request),
        "collatz" => loops::serve_collatz(request),
        _ => request.unknown(),
    })
}

/// An environment with as many cores as were given, and otherwise its defaults.
fn environment(request: &Request) -> Result<Environment> {
    let mut config = Config::default();
    config.cores = request.cores()?.try_into()?;
    Ok(Environment::with_config(config))
}
