//! The benchmarks on timely dataflow. Cases: `exchange-u64`, `exchange-strings`, `wordcount`.

mod exchange;
mod wordcount;

use std::process::ExitCode;

fn main() -> ExitCode {
    bench_protocol::run(|request| match request.case() {
        "exchange-u64" => exchange::serve_numbers(request),
        "exchange-strings" => exchange::serve_records(request),
        "wordcount" => wordcount::serve(request),
        _ => request.unknown(),
    })
}
