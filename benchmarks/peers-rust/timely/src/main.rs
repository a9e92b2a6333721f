//! The benchmarks on timely dataflow. Cases: `exchange-u64`, `exchange-strings`, `wordcount`, `latency`,
//! `nexmark`, `nexmark-latency`, `ysb`, `ysb-star`, `swa`, `windows`, `window-latency`, `barrier`, and on
//! differential dataflow `connected`, `pagerank`, `closure`.

mod barrier;
mod exchange;
mod graphs;
mod latency;
mod nexmark;
mod open_loop;
mod streams;
mod windows;
mod wordcount;
mod workers;
mod ysb;

use std::process::ExitCode;

fn main() -> ExitCode {
    bench_protocol::run(|request| match request.case() {
        "exchange-u64" => exchange::serve_numbers(request),
        "exchange-strings" => exchange::serve_records(request),
        "latency" => latency::serve(request),
        "barrier" => barrier::serve(request),
        "wordcount" => wordcount::serve(request),
        "nexmark-latency" => open_loop::serve_over_time(request),
        "window-latency" => open_loop::serve_window_latency(request),
        "nexmark" => nexmark::serve(request),
        "ysb" => ysb::serve_ysb(request),
        "ysb-star" => ysb::serve_star(request),
        "windows" => windows::serve(request),
        "swa" => ysb::serve_swa(request),
        "connected" => graphs::serve_connected(request),
        "pagerank" => graphs::serve_pagerank(request),
        "closure" => graphs::serve_closure(request),
        _ => request.unknown(),
    })
}
