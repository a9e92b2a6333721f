//! The benchmarks' work written by hand for the one task, without an engine: what the machine
//! allows. Cases: `wordcount`, `keyed-count`, `exchange-u64`, `exchange-strings`, `fused`,
//! `fusion`, `collatz`, `collisions`, `join`, `skew`, `nexmark`, `ysb`, `ysb-star`, `swa`, `windows`, `connected`,
//! `pagerank`, `triangles`, `closure`, `kmeans`.

mod auctions;
mod collatz;
mod collisions;
mod exchange;
mod graphs;
mod hosts;
mod join;
mod keyed_count;
mod kmeans;
mod loops;
mod nexmark;
mod sessions;
mod skew;
mod streams;
mod threads;
mod windows;
mod wordcount;
mod ysb;

use std::process::ExitCode;

fn main() -> ExitCode {
    bench_protocol::run(|request| match request.case() {
        "wordcount" => wordcount::serve(request),
        "keyed-count" => keyed_count::serve(request),
        "exchange-u64" => exchange::serve_numbers(request),
        "exchange-strings" => exchange::serve_records(request),
        "fused" => loops::serve_fused(request),
        "fusion" => loops::serve_fusion(request),
        "kmeans" => kmeans::serve(request),
        "collatz" => collatz::serve(request),
        "collisions" => collisions::serve(request),
        "join" => join::serve(request),
        "skew" => skew::serve(request),
        "nexmark" => nexmark::serve(request),
        "ysb" => ysb::serve_ysb(request),
        "ysb-star" => ysb::serve_star(request),
        "swa" => ysb::serve_swa(request),
        "windows" if request.get("gap-ms").is_some() => sessions::serve(request),
        "windows" => windows::serve(request),
        "connected" => graphs::serve_connected(request),
        "pagerank" => graphs::serve_pagerank(request),
        "triangles" => graphs::serve_triangles(request),
        "closure" => graphs::serve_closure(request),
        _ => request.unknown(),
    })
}
