//! Operators of streams without keys, calls of what is outside, and sinks.

use crate::job::operators;
use crate::records::Record;
use std::time::Duration;
use thalweg::config::BatchMode;
use thalweg::operators::calls::Calls;
use thalweg::{Data, Visit, VisitInPieces};

/// Gives each record twice.
struct Twice;

impl Visit<Record> for Twice {
    type Out = Record;
    type Scratch = ();

    fn visit(&self, record: Record, (): &mut (), emit: &mut impl FnMut(Record)) {
        record.act();
        emit(record.clone());
        emit(record);
    }
}

struct TwiceInPieces;

impl VisitInPieces<Record> for TwiceInPieces {
    type Out = Record;
    type Cursor = bool;

    fn visit_piece(
        &self,
        record: &Record,
        first: &mut bool,
        emit: &mut impl FnMut(Record),
    ) -> bool {
        record.act();
        emit(record.clone());
        *first = !*first;
        *first
    }
}

/// A record whose view borrows a string.
#[derive(Data)]
struct Shown {
    text: String,
    record: Record,
}

fn calls() -> Calls {
    Calls::in_flight(3)
}

operators! {
    "map" exact |job, s| job.end(s.map(|r| r.number()));
    "filter" exact |job, s| job.end(s.filter(|r| r.number() % 3 > 0));
    "filter_map" exact |job, s| job.end(s.filter_map(|r| (r.number() % 3 > 0).then_some(r)));
    "flat_map" exact |job, s| job.end(s.flat_map(|r| (0..r.number() % 4).map(move |_| r.clone())));
    "flat_each" exact |job, s| job.end(s.flat_each(Twice));
    "flat_each_in_pieces" exact |job, s| job.end(s.flat_each_in_pieces(TwiceInPieces));
    "views" exact |job, s| job.end(
        s.map(|record| Shown { text: record.text.clone(), record }).views().shuffle().map(|view| view.record)
    );
    "flat_map_str" exact |job, s| job.end(
        s.flat_map_str(|r, out| out.extend([r.text.as_str(), if r.number() > 5 { "much" } else { "" }]))
            .map(str::to_owned)
    );
    "flatten" exact |job, s| job.end(s.map(|r| vec![r.number(); 2]).flatten());
    "inspect" exact |job, s| job.end(s.inspect(|r| r.act()));
    "try_map" exact |job, s| job.end(s.try_map(|r| r.attempt()));
    "map_volatile" exact |job, s| job.end(s.map_volatile(|r| r.number()));
    "scan" loose |job, s| job.end(s.scan(0, |sum: &mut u64, r| {
        *sum += r.number();
        (*sum < 1000).then_some(*sum)
    }));
    "stateful_map" loose |job, s| job.end(s.stateful_map(None, |last: &mut Option<Record>, r| {
        r.act();
        last.replace(r)
    }));
    "fold" exact |job, s| job.end(s.fold(0, |sum: &mut u64, r| *sum += r.number()));
    "fold to records" exact |job, s| job.end(s.fold(Vec::new(), |all: &mut Vec<Record>, r| {
        r.act();
        all.push(r);
    }).map(|all| all.len()));
    "fold_assoc" exact |job, s| job.end(
        s.fold_assoc(0, |sum: &mut u64, r| *sum += r.number(), |sum, part| *sum += part)
    );
    "reduce" exact |job, s| job.end(s.reduce(|a, b| if a.number() < b.number() { b } else { a }));
    "min" exact |job, s| job.end(s.min(|r| r.clone()));
    "max" exact |job, s| job.end(s.max(|r| r.clone()));
    "min_by" exact |job, s| job.end(s.min_by(|a, b| a.number().cmp(&b.number())));
    "max_by" exact |job, s| job.end(s.max_by(|a, b| a.number().cmp(&b.number())));
    "sum" exact |job, s| job.end(s.map(|r| r.number()).sum(|n| *n));
    "average" exact |job, s| job.end(s.map(|r| r.number()).average(|n| *n));
    "limit" loose |job, s| job.end(s.limit(50));
    "sorted" exact |job, s| job.end(s.sorted());
    "sorted_by" exact |job, s| job.end(s.sorted_by(|a, b| a.number().cmp(&b.number())));
    "sorted_by_key" exact |job, s| job.end(s.sorted_by_key(|r| r.key.clone()));
    "bottom" exact |job, s| job.end(s.bottom(10));
    "bottom_by" exact |job, s| job.end(s.bottom_by(10, |a, b| a.number().cmp(&b.number())));
    "bottom_by_key" exact |job, s| job.end(s.bottom_by_key(10, |r| r.number()));
    "top" exact |job, s| job.end(s.top(10));
    "top_by_key" exact |job, s| job.end(s.top_by_key(10, |r| r.number()));
    "count of all" exact |job, s| job.end(s.count());
    "aggregate of all" exact |job, s| job.end(s.aggregate(|a| (a.count(), a.max(|r| r.clone()))));
    "max_by_key" exact |job, s| job.end(s.max_by_key(|r| r.number()));
    "min_by_key" exact |job, s| job.end(s.min_by_key(|r| r.number()));
    "top_by" exact |job, s| job.end(s.top_by(10, |a, b| a.number().cmp(&b.number())));
    "unique" exact |job, s| job.end(s.unique());
    "chunks" exact |job, s| job.end(s.chunks(7).flatten());
    "shuffle" exact |job, s| job.end(s.shuffle());
    "random" exact |job, s| job.end(s.random(1));
    "forward" exact |job, s| job.end(s.forward());
    "broadcast" loose |job, s| job.end(s.broadcast());
    "repartition_by" exact |job, s| job.end(s.repartition_by(|r, tasks| r.number() as usize % tasks));
    "repartition_by far" exact |job, s| job.end(s.repartition_by(|r, _| usize::MAX - r.number() as usize));
    "parallelism" exact |job, s| job.end(s.parallelism(2).map(|r| r.number()));
    "batch_mode" exact |job, s| job.end(s.batch_mode(BatchMode::Single).shuffle().map(|r| r.number()));
    "split" exact |job, s| {
        let [one, other] = s.split();
        job.end(one.map(|r| r.number()));
        job.end(other.sorted());
    };
    "route" exact |job, s| {
        let ([some], rest) = s.route().to(|r| r.number() % 3 == 0).split();
        job.end(some);
        job.end(rest);
    };
    "side_output" exact |job, s| {
        let (most, some) = s.side_output(|r, side| {
            if r.number() % 5 == 0 {
                side.push(r);
                return None;
            }
            Some(r)
        });
        job.end(most);
        job.end(some);
    };
    "side_output_each" exact |job, s| {
        let (all, twice) = s.side_output_each(Twice);
        job.end(all);
        job.end(twice);
    };
    "map_memo" exact |job, s| job.end(s.map_memo(20, |r| r.number()));
    "map_memo_by" exact |job, s| job.end(s.map_memo_by(3, |r| r.key.clone(), |r| {
        r.act();
        r.key.id
    }));
    "map_memo_by_ref" exact |job, s| job.end(s.map_memo_by_ref(3, |r| &r.key, |r| {
        r.act();
        r.key.id
    }));
    "map_async" exact |job, s| job.end(s.map_async(calls(), |r| async move { r.number() }));
    "map_async unordered" exact |job, s| job.end(
        s.map_async(calls().unordered().timeout(job.span), |r| async move { r.number() })
    );
    "try_map_async" exact |job, s| job.end(s.try_map_async(
        calls().retry(2, Duration::ZERO),
        |r| async move { r.attempt() }
    ));
    "try_map_async_with_side_output" loose |job, s| {
        let (good, bad) = s.try_map_async_with_side_output(calls(), |r| async move { r.attempt() });
        job.end(good);
        job.end(bad);
    };
    "map_blocking" exact |job, s| job.end(s.map_blocking(calls(), |r| r.number()));
    "try_map_blocking" exact |job, s| job.end(
        s.try_map_blocking(calls().retry(2, Duration::ZERO), |r| r.attempt())
    );
    "try_map_blocking_with_side_output" loose |job, s| {
        let (good, bad) = s.try_map_blocking_with_side_output(calls().unordered(), |r| r.attempt());
        job.end(good);
        job.end(bad);
    };
    "for_each" exact |_job, s| s.for_each(|r| r.act());
    "for_each_parallel" exact |_job, s| s.for_each_parallel(|r| r.act());
    "count" exact |_job, s| s.map(|r| r.number()).count().collect_one();
    "collect" exact |_job, s| s.collect::<Vec<_>>();
    "collect a set" exact |_job, s| s.collect::<std::collections::BTreeSet<_>>();
    "collect a hash set" exact |_job, s| s.collect::<std::collections::HashSet<_>>();
    "to_channel" exact |_job, s| {
        let mut all = s.to_channel();
        // It ends when the job has.
        std::thread::spawn(move || while let Ok(Some(_)) = all.recv() {});
    };
    "write_lines" exact |job, s| s.write_lines(job.dir.join("lines"));
    "write_lines_parallel" exact |job, s| s.write_lines_parallel(job.dir.join("many"));
    "write_csv" exact |job, s| s.map(|r| (r.number(), r)).write_csv(job.dir.join("csv"));
    "write_csv_parallel" exact |job, s| s.map(|r| (r.number(), r)).write_csv_parallel(job.dir.join("rows"));
    "write_json_lines" exact |job, s| s.write_json_lines(job.dir.join("json"));
    "write_json_lines_parallel" exact |job, s| s.write_json_lines_parallel(job.dir.join("values"));
}
