//! The benchmarks on Thalweg. Cases: `wordcount`, `keyed-count`, `exchange-u64`, `exchange-strings`,
//! `fused`, `fusion`, `skew`, `collatz`, `collisions`, `join`, `latency`, `nexmark`, `nexmark-latency`, `ysb`,
//! `ysb-star`, `swa`, `windows`, `window-latency`, `connected`, `pagerank`, `triangles`, `closure`,
//! `kmeans`, `barrier`, `checkpoint`, `checkpoint-latency`, `recovery`, `rescale`, `spill-count`,
//! `spill-windows`.

mod barrier;
mod checkpoint;
mod collisions;
mod counts;
mod exchange;
mod fusion;
mod graphs;
mod join;
mod kept;
mod kmeans;
mod latency;
mod loops;
mod nexmark;
mod over_time;
mod recovery;
mod skew;
mod spill;
mod streams;
mod window_latency;
mod windows;
mod ysb;

use bench_protocol::{Request, Result};
use std::process::ExitCode;
use thalweg::Environment;
use thalweg::config::{Compression, Config, HostConfig, Secret, Tls};

fn main() -> ExitCode {
    bench_protocol::run(|request| match request.case() {
        "barrier" => barrier::serve_barrier(request),
        "checkpoint" => checkpoint::serve_checkpoint(request),
        "checkpoint-latency" => recovery::serve_latency(request),
        "recovery" => recovery::serve_recovery(request),
        "rescale" => recovery::serve_rescale(request),
        "spill-count" => spill::serve_count(request),
        "spill-windows" => spill::serve_windows(request),
        "kmeans" => kmeans::serve_kmeans(request),
        "wordcount" if request.get("form") == Some("graph") => counts::serve_graph(request),
        "wordcount" => counts::serve_wordcount(request),
        "keyed-count" => counts::serve_keyed_count(request),
        "exchange-u64" => exchange::serve_numbers(request),
        "exchange-strings" => exchange::serve_records(request),
        "fused" => loops::serve_fused(request),
        "fusion" => fusion::serve_fusion(request),
        "skew" => skew::serve_skew(request),
        "collisions" => collisions::serve_collisions(request),
        "join" => join::serve_join(request),
        "latency" => latency::serve_latency(request),
        "collatz" => loops::serve_collatz(request),
        "nexmark-latency" => over_time::serve_over_time(request),
        "window-latency" => window_latency::serve_window_latency(request),
        "nexmark" => nexmark::serve_nexmark(request),
        "ysb" => ysb::serve_ysb(request),
        "ysb-star" => ysb::serve_star(request),
        "swa" => ysb::serve_swa(request),
        "windows" if request.get("gap-ms").is_some() => windows::serve_sessions(request),
        "windows" => windows::serve_windows(request),
        "connected" => graphs::serve_connected(request),
        "pagerank" => graphs::serve_pagerank(request),
        "triangles" => graphs::serve_triangles(request),
        "closure" => graphs::serve_closure(request),
        _ => request.unknown(),
    })
}

/// An environment with as many cores as were given, on as many hosts, and otherwise its defaults. Hosts encrypt what they
/// send with the certificates in `--tls-dir`, and compress it as `--compression` says.
fn environment(request: &Request) -> Result<Environment> {
    environment_of(request, Config::default())
}

pub(crate) fn environment_of(request: &Request, mut config: Config) -> Result<Environment> {
    config.cores = request.cores()?.try_into()?;
    let hosts = request.hosts()?;
    if hosts == 1 {
        return Ok(Environment::with_config(config));
    }
    let secret = Secret::new("known to all who read this");
    let first = request.addresses()?.swap_remove(0);
    let mut host = HostConfig::new(request.host()?, hosts, first, secret);
    host.tls = request.get("tls-dir").map(Tls::read).transpose()?;
    host.compression = request.value_or("compression", Compression::default())?;
    Ok(Environment::on_hosts(config, host)?)
}
