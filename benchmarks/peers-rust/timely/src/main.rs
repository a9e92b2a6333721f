//! The benchmarks on timely dataflow. Cases: `exchange-u64`, `exchange-strings`, `wordcount`,
//! `nexmark`, `ysb`, `ysb-star`, `swa`, `windows`.

mod exchange;
mod nexmark;
mod streams;
mod windows;
mod wordcount;
mod ysb;

use std::process::ExitCode;

fn main() -> ExitCode {
    bench_protocol::run(|request| match request.case() {
        "exchange-u64" => exchange::serve_numbers(request),
        "exchange-strings" => exchange::serve_records(request),
        "wordcount" => wordcount::serve(request),
        "nexmark" => nexmark::serve(request),
        "ysb" => ysb::serve_ysb(request),
        "ysb-star" => ysb::serve_star(request),
        "windows" => windows::serve(request),
        "swa" => ysb::serve_swa(request),
        _ => request.unknown(),
    })
}
