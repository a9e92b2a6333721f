//! The benchmarks on timely dataflow. Cases: `exchange-u64`, `exchange-strings`, `wordcount`,
//! `nexmark`, `ysb`, `swa`.

mod exchange;
mod nexmark;
mod streams;
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
        "swa" => ysb::serve_swa(request),
        _ => request.unknown(),
    })
}
