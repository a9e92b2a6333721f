//! The fusion bench: maps that add one, then a sum, at the four levels of the Arcon thesis.

use crate::environment;
use bench_protocol::workload::{number, single_row};
use bench_protocol::{Answer, Request, Result, serve};
use thalweg::Environment;

/// A chain of as many calls of a macro as the count says.
macro_rules! times {
    (1, $map:ident, $stream:expr) => {
        $map!($stream)
    };
    (10, $map:ident, $stream:expr) => {
        $map!($map!($map!($map!($map!($map!($map!($map!($map!($map!($stream))))))))))
    };
    (50, $map:ident, $stream:expr) => {
        times!(
            10,
            $map,
            times!(10, $map, times!(10, $map, times!(10, $map, times!(10, $map, $stream))))
        )
    };
}

/// All in one function, and there in one addition.
macro_rules! instruction {
    ($stream:expr) => {
        $stream.map(add_one)
    };
}

/// A call for each map and record.
macro_rules! invocation {
    ($stream:expr) => {
        $stream.map(call_add_one)
    };
}

/// In one task, which hands batches from one map to the next.
macro_rules! task {
    ($stream:expr) => {
        $stream.map(add_one).boxed()
    };
}

/// Each map in tasks of its own.
macro_rules! none {
    ($stream:expr) => {
        $stream.forward().map(add_one)
    };
}

// A function rather than a closure: tasks that do the same are compiled once.
#[inline]
fn add_one(x: u64) -> u64 {
    x.wrapping_add(1)
}

#[inline(never)]
fn call_add_one(x: u64) -> u64 {
    add_one(x)
}

macro_rules! sum {
    ($count:tt, $level:ident) => {
        |env, records| {
            let source = env.range(0..records).map(number);
            let sum = times!($count, $level, source)
                .fold_assoc(
                    0_u64,
                    |sum, n| *sum = sum.wrapping_add(n),
                    |sum, n| *sum = sum.wrapping_add(n),
                )
                .collect::<Vec<_>>();
            env.run()?;
            Ok(sum.take()?.into_iter().fold(0, u64::wrapping_add))
        }
    };
}

type Sum = fn(&Environment, u64) -> thalweg::Result<u64>;

pub(crate) fn serve_fusion(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let records: u64 = request.value("records")?;
    let maps: u32 = request.value("maps")?;
    let level: String = request.value("level")?;
    // The number of maps is part of a program's type.
    let sum: Sum = match (maps, level.as_str()) {
        (1, "instruction") => sum!(1, instruction),
        (50, "instruction") => sum!(50, instruction),
        (1, "invocation") => sum!(1, invocation),
        (50, "invocation") => sum!(50, invocation),
        (1, "task") => sum!(1, task),
        (50, "task") => sum!(50, task),
        (1, "none") => sum!(1, none),
        (50, "none") => sum!(50, none),
        (1 | 50, level) => return Err(format!("there is no level {level:?}").into()),
        (maps, _) => return Err(format!("there are programs of 1 and 50 maps, not {maps}").into()),
    };
    serve(request, |stopwatch| {
        let sum = stopwatch.time(|| sum(&env, records))?;
        let digest = single_row(records, sum);
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}
