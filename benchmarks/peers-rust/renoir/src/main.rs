//! The benchmarks on Renoir, written against its published documentation and using what that
//! recommends for jobs whose data is at hand: fixed batches, associative operators, closures that
//! the compiler can see. Cases: `wordcount` (`--form idiomatic|assoc|folded`), `keyed-count`,
//! `exchange-u64`, `exchange-strings`, `fused`, `fusion`, `collatz`, `collisions`, `join`, `latency`, `nexmark`, `ysb`,
//! `ysb-star`, `swa`, `windows`, `window-latency`, `connected`, `pagerank`, `triangles`, `closure`, `kmeans`,
//! `barrier`. Of these, `wordcount`, `exchange-u64`, `exchange-strings` and `nexmark` also run on several hosts.

mod collisions;
mod exchange;
mod graphs;
mod join;
mod keyed_count;
mod kmeans;
mod latency;
mod loops;
mod nexmark;
mod sessions;
mod streams;
mod window_latency;
mod windows;
mod wordcount;
mod ysb;

use std::process::ExitCode;
use std::sync::Arc;

use bench_protocol::{Request, Result};
use renoir::config::{ConfigBuilder, HostConfig, SSHConfig};
use renoir::prelude::*;

fn main() -> ExitCode {
    bench_protocol::run(|request| match request.case() {
        "wordcount" => wordcount::serve(request),
        "keyed-count" => keyed_count::serve(request),
        "exchange-u64" => exchange::serve_numbers(request),
        "exchange-strings" => exchange::serve_records(request),
        "fused" => loops::serve_fused(request),
        "fusion" => loops::serve_fusion(request),
        "collatz" => loops::serve_collatz(request),
        "collisions" => collisions::serve(request),
        "join" => join::serve(request),
        "latency" => latency::serve(request),
        "kmeans" => kmeans::serve(request),
        "barrier" => kmeans::serve_barrier(request),
        "nexmark" => nexmark::serve(request),
        "ysb" => ysb::serve_ysb(request),
        "ysb-star" => ysb::serve_star(request),
        "swa" => ysb::serve_swa(request),
        "window-latency" => window_latency::serve(request),
        "windows" if request.get("gap-ms").is_some() => sessions::serve(request),
        "windows" => windows::serve(request),
        "connected" => graphs::serve_connected(request),
        "pagerank" => graphs::serve_pagerank(request),
        "triangles" => graphs::serve_triangles(request),
        "closure" => graphs::serve_closure(request),
        _ => request.unknown(),
    })
}

/// The batches that Renoir's documentation recommends where latency is not critical.
fn batches() -> BatchMode {
    BatchMode::fixed(1024)
}

/// The cores of a case that runs in one process.
fn cores(request: &Request) -> Result<u64> {
    match request.hosts()? {
        1 => Ok(request.cores()? as u64),
        _ => Err(format!("{} runs in one process here", request.case()).into()),
    }
}

fn context(cores: u64) -> Result<StreamContext> {
    Ok(StreamContext::new(RuntimeConfig::local(cores).map_err(|error| error.to_string())?))
}

/// What the jobs of a case run on: the cores of this process, or those of several hosts, of which it is one.
///
/// Renoir starts other hosts over ssh. Here they have been started already, so each is given what its starter would
/// pass on: the list of hosts and its own place in that. Hosts connect anew for each job.
fn runtime(request: &Request) -> Result<Arc<RuntimeConfig>> {
    let cores = request.cores()? as u64;
    if request.hosts()? == 1 {
        return Ok(Arc::new(RuntimeConfig::local(cores)?));
    }
    let host = |address: String| {
        let (address, port) = address.rsplit_once(':')?;
        Some(HostConfig {
            address: address.to_owned(),
            base_port: port.parse().ok()?,
            num_cores: cores,
            ssh: SSHConfig::default(),
            perf_path: None,
        })
    };
    let hosts: Option<Vec<HostConfig>> = request.addresses()?.into_iter().map(host).collect();
    let hosts = hosts.ok_or("--ports are not valid")?;
    let own = request.host()? as u64;
    Ok(Arc::new(ConfigBuilder::new_remote().add_hosts(&hosts).host_id(own).build()?))
}

/// A job's context.
fn context_on(runtime: &Arc<RuntimeConfig>) -> StreamContext {
    StreamContext::new(Arc::clone(runtime))
}

/// The result of a job whose output is collected in this process.
fn collected<T>(output: StreamOutput<T>) -> Result<T> {
    output.get().ok_or_else(|| "the job gave no result".into())
}

/// The rows of a job that are collected on the first host, and on that alone.
fn rows_of<T>(runtime: &RuntimeConfig, output: StreamOutput<Vec<T>>) -> Result<Vec<T>> {
    if runtime.host_id() == Some(0) { collected(output) } else { Ok(Vec::new()) }
}

/// The `index`-th of `count` parts of `0..total`.
fn part(total: u64, index: u64, count: u64) -> std::ops::Range<u64> {
    total * index / count..total * (index + 1) / count
}
