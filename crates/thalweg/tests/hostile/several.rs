//! Operators of several streams, caches, and loops.

use crate::job::{Records, operators, timed};
use crate::records::{Key, Record};
use thalweg::operators::join::{AsOf, Interval, StaticTable};
use thalweg::operators::keyed::{ByRef, FirstOf};
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Boxed, KeyedStream};

type Find = fn(&Record) -> &Key;

const KEY: Find = |record| {
    record.act();
    &record.key
};

fn keyed(records: Records) -> KeyedStream<Boxed<Record>, ByRef<Find, Key>> {
    records.group_by_ref(KEY)
}

/// A few records of each key, so that joins do not grow beyond bounds.
fn few(records: Records) -> KeyedStream<Boxed<Record>, ByRef<Find, Key>> {
    records.filter(|r| r.number() % 10 == 0).boxed().group_by_ref(KEY)
}

fn at(records: Records) -> KeyedStream<Boxed<Record, Timestamp>, ByRef<Find, Key>> {
    timed(records).group_by_ref(KEY)
}

fn pairs(records: Records) -> KeyedStream<Boxed<(Key, u64)>, FirstOf> {
    records.map(|r| (r.key.clone(), r.number())).boxed().keyed()
}

operators! {
    "merge" exact |job, s| job.end(s.merge(job.records()));
    "merge_all" exact |job, s| job.end(job.env.merge_all([s, job.records(), job.records()]));
    "zip" loose |job, s| job.end(s.zip(job.records()));
    "zip_by_task" loose |job, s| job.end(s.zip_by_task(job.records()));
    "zip of one" loose |job, s| job.end({
        let [one, other] = s.split();
        one.zip(other.filter(|r| r.number() % 2 == 0))
    });
    "cross" exact |job, s| job.end(s.limit(20).map(|_| 1).cross(job.records()));
    "cross both" exact |job, s| job.end(s.cross(job.records().filter(|r| r.number() % 10 == 0)));
    "join" exact |job, s| job.end(keyed(s).join(few(job.records())).unkey());
    "left_join" exact |job, s| job.end(keyed(s).left_join(few(job.records())).unkey());
    "right_join" exact |job, s| job.end(keyed(s).right_join(few(job.records())).unkey());
    "full_join" exact |job, s| job.end(keyed(s).full_join(few(job.records())).unkey());
    "semi_join" exact |job, s| job.end(keyed(s).semi_join(few(job.records())).unkey());
    "anti_join" exact |job, s| job.end(keyed(s).anti_join(few(job.records())).unkey());
    "join of one" exact |job, s| job.end({
        let [one, other] = s.split();
        keyed(one.boxed()).join(few(other.boxed())).unkey()
    });
    "broadcast_left" exact |job, s| job.end(few(s).join_with(keyed(job.records())).broadcast_left().inner().unkey());
    "broadcast_right" exact |job, s| job.end(keyed(s).join_with(few(job.records())).broadcast_right().left().unkey());
    "build_left" exact |job, s| job.end(few(s).join_with(keyed(job.records())).build_left().full().unkey());
    "symmetric" exact |job, s| job.end(keyed(s).join_with(few(job.records())).symmetric().inner().unkey());
    "sort_merge" exact |job, s| job.end(keyed(s).join_with(few(job.records())).sort_merge().full().unkey());
    "join_static" exact |job, s| job.end({
        let table = StaticTable::new((0..5u64).map(|n| (n, n)));
        s.join_static(&table, |r| r.number() % 7, |r, n| r.id + n)
    });
    "left_join_static" exact |job, s| job.end({
        let table = StaticTable::load(|| Ok((0..5u64).map(|n| (n, n)).collect()));
        s.left_join_static(&table, |r| r.number() % 7, |r, n| (r.id, n.copied()))
    });
    "interval_join" loose |job, s| job.end(
        at(s).interval_join(at(job.records()), Interval::within(job.span / 10), |_, a, b| (a.number(), b.number())).unkey()
    );
    "interval_left_join" loose |job, s| job.end(
        at(s).interval_left_join(
            at(job.records()),
            Interval::following(job.span / 10, job.span / 5),
            |_, a, b| (a.number(), b.map(Record::number)),
        ).unkey()
    );
    "as_of_join" loose |job, s| job.end(
        at(s).as_of_join(at(job.records()), AsOf::latest(), |_, a, b| (a.number(), b.number())).unkey()
    );
    "as_of_left_join" loose |job, s| job.end(
        at(s).as_of_left_join(
            at(job.records()),
            AsOf::next().within(job.span),
            |_, a, b| (a.number(), b.map(Record::number)),
        ).unkey()
    );
    "window_join" loose |job, s| job.end(
        at(s).window_join(at(job.records()), EventTimeWindow::tumbling(job.span / 10), |_, a, b| (a.number(), b.number())).unkey()
    );
    "co_group" loose |job, s| job.end(
        at(s).co_group(at(job.records()), EventTimeWindow::tumbling(job.span), |_, a, b| (a.len(), b.len())).unkey()
    );
    "connect" loose |job, s| job.end(
        s.connect(job.records(), 0, |sum: &mut u64, r| *sum += r.number()).map(|(r, sum)| r.number() + sum)
    );
    "connect_after" exact |job, s| job.end(
        s.connect_after(job.records(), 0, |sum: &mut u64, r| *sum += r.number()).map(|(r, sum)| r.number() + sum)
    );
    "connect_after of one" exact |job, s| job.end({
        let [one, other] = s.split();
        one.connect_after(other, 0, |sum: &mut u64, r| *sum += r.number()).map(|(r, sum)| r.number() + sum)
    });
    "keyed connect" loose |job, s| job.end(
        keyed(s).connect(job.records(), 0, |sum: &mut u64, r| *sum += r.number()).map(|_, (r, sum)| r.number() + sum).unkey()
    );
    "keyed connect_after" exact |job, s| job.end(
        keyed(s).connect_after(job.records(), 0, |sum: &mut u64, r| *sum += r.number()).map(|_, (r, sum)| r.number() + sum).unkey()
    );
    "stateful_map_with" loose |job, s| job.end(
        keyed(s).connect_after(job.records(), 0, |sum: &mut u64, r| *sum += r.number())
            .stateful_map_with(None, |_, last: &mut Option<Record>, r: Record, sum| {
                (last.replace(r).map(|last| last.number()), *sum)
            }).unkey()
    );
    "cache" exact |_job, s| s.map(|r| { r.act(); r }).cache();
    "keyed cache" exact |_job, s| keyed(s).cache();
    "replay" exact |job, s| job.end(
        s.replay(3, 0u64, |records, sum| records.with(sum).map(|(r, sum)| r.number() + sum))
            .fold(|part: &mut u64, n| *part = part.wrapping_add(n), |part, other| *part = part.wrapping_add(other))
            .all_rounds(|sum, part| *sum = part)
    );
    "replay grouped" exact |job, s| job.end(
        s.replay(3, 0u64, |records, _| records.map(|r| (r.key.clone(), r.number())).keyed().sum(|n| *n).unkey())
            .fold(|part: &mut u64, (_, n)| *part += n, |part, other| *part += other)
            .until(|sum, part| {
                *sum += part;
                *sum > 100_000
            })
    );
    "iterate" exact |job, s| {
        let (outcome, left) = s
            .iterate(5, 0u64, |records, _| records.filter(|r| r.number() % 2 == 0).map(|mut r| { r.id /= 2; r }))
            .fold(|part: &mut u64, r| *part += r.number(), |part, other| *part += other)
            .all_rounds(|sum, part| *sum += part);
        job.end(outcome);
        job.end(left);
    };
    "delta_iterate" exact |job, s| {
        let smaller = |least: &mut u64, n: u64| n < std::mem::replace(least, n.min(*least));
        let edges = job.records();
        let (outcome, solution) = pairs(s)
            .delta_iterate(5, (), smaller, |changed, _| changed.join(few(edges)).unkey()
                .map(|(key, (least, r))| (key, (least / 2).min(r.number()))).keyed())
            .all_rounds();
        job.end(outcome);
        job.end(solution.unkey());
    };
}
