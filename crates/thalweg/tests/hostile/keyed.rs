//! Operators of streams with keys, and the aggregates that there are.

use crate::job::{Records, operators, timed};
use crate::records::{Key, Record};
use std::convert::Infallible;
use std::time::Duration;
use thalweg::operators::keyed::{ByRef, Process, ProcessContext, Timer};
use thalweg::time::Timestamp;
use thalweg::{Boxed, KeyedStream};

type Keyed = KeyedStream<Boxed<Record>, ByRef<fn(&Record) -> &Key, Key>>;

fn keyed(records: Records) -> Keyed {
    let key: fn(&Record) -> &Key = |record| {
        record.act();
        &record.key
    };
    records.group_by_ref(key)
}

/// Emits a record with the next one, and the last one some time after it.
struct Delayed(Duration);

impl Process<Key, Record> for Delayed {
    type State = Option<Record>;
    type Out = u64;
    type Side = u64;

    fn start(&self) -> Option<Record> {
        None
    }

    fn on_record(
        &self,
        _: &Key,
        last: &mut Option<Record>,
        value: Record,
        at: Timestamp,
        cx: &mut ProcessContext<'_, u64, u64>,
    ) {
        cx.emit(value.number());
        cx.set_timer(Timer::EventTime(at.saturating_add(self.0)));
        *last = Some(value);
    }

    fn on_timer(
        &self,
        key: &Key,
        last: &mut Option<Record>,
        _: Timer,
        cx: &mut ProcessContext<'_, u64, u64>,
    ) {
        cx.emit_side(key.id);
        if last.take().is_some() {
            cx.clear();
        }
    }
}

/// Emits each record, and its key when a timer comes.
struct Timed;

impl Process<Key, Record> for Timed {
    type State = u64;
    type Out = u64;
    type Side = Infallible;

    fn start(&self) -> u64 {
        0
    }

    fn on_record(
        &self,
        _: &Key,
        count: &mut u64,
        value: Record,
        at: Timestamp,
        cx: &mut ProcessContext<'_, u64, Infallible>,
    ) {
        *count += value.number();
        cx.emit(*count);
        cx.set_timer(Timer::EventTime(at));
        cx.set_timer(cx.after(Duration::from_micros(1)));
    }

    fn on_timer(
        &self,
        key: &Key,
        _: &mut u64,
        _: Timer,
        cx: &mut ProcessContext<'_, u64, Infallible>,
    ) {
        cx.emit(key.id);
    }
}

operators! {
    "group_by" exact |job, s| job.end(s.group_by(|r| { r.act(); r.key.clone() }).count().unkey());
    "keyed" exact |job, s| job.end(s.map(|r| (r.key.clone(), r)).keyed().count().unkey());
    "keyed count" exact |job, s| job.end(keyed(s).count().unkey());
    "keyed sum" exact |job, s| job.end(keyed(s).sum(|r| r.number()).unkey());
    "keyed min" exact |job, s| job.end(keyed(s).min(|r| r.clone()).unkey());
    "keyed max" exact |job, s| job.end(keyed(s).max(|r| r.clone()).unkey());
    "keyed average" exact |job, s| job.end(keyed(s).average(|r| r.number() as f64).unkey());
    "keyed fold" exact |job, s| job.end(keyed(s).fold(0, |sum: &mut u64, r: Record| *sum += r.number()).unkey());
    "keyed fold to records" exact |job, s| job.end(
        keyed(s).fold(Vec::new(), |all: &mut Vec<Record>, r| all.push(r)).unkey().map(|(k, all)| (k, all.len()))
    );
    "keyed fold_assoc" exact |job, s| job.end(
        keyed(s).fold_assoc(0, |sum: &mut u64, r: Record| *sum += r.number(), |sum, part| *sum += part).unkey()
    );
    "keyed reduce" exact |job, s| job.end(
        keyed(s).reduce(|a, b| if a.number() < b.number() { b } else { a }).unkey()
    );
    "keyed stateful_map" loose |job, s| job.end(
        keyed(s).stateful_map(None, |_, last: &mut Option<Record>, r: Record| { r.act(); last.replace(r) }).unkey()
    );
    "sorted_by_time" loose |job, s| job.end(
        timed(s).group_by(|r| r.key.clone()).sorted_by_time(|r| r.clone()).map(|_, r| r.number()).unkey()
    );
    "keyed map" exact |job, s| job.end(keyed(s).map(|key, r| key.id + r.number()).unkey());
    "keyed filter" exact |job, s| job.end(keyed(s).filter(|key, r| (key.id + r.number()) % 2 == 0).count().unkey());
    "keyed filter_map" exact |job, s| job.end(
        keyed(s).filter_map(|key, r| { r.act(); (r.number() % 2 == 0).then(|| (key.clone(), r)) }).unkey().map(|(_, pair)| pair.1)
    );
    "keyed flat_map" exact |job, s| job.end(keyed(s).flat_map(|_, r| [r.number(), r.number() + 1]).unkey());
    "keyed flatten" exact |job, s| job.end(keyed(s).map(|_, r| vec![r; 2]).flatten().count().unkey());
    "keyed inspect" exact |job, s| job.end(keyed(s).inspect(|_, r| r.act()).count().unkey());
    "keyed merge" exact |job, s| job.end(keyed(s).merge(keyed(job.records())).map(|_, r| r.number()).unkey());
    "keyed boxed" exact |job, s| job.end(keyed(s).boxed().map(|_, r| r.number()).unkey());
    "unkey" exact |job, s| job.end(keyed(s).unkey().map(|(key, r)| (key, r.number())));
    "stateful_flat_map" loose |job, s| job.end(
        keyed(s).stateful_flat_map(None, |_, last: &mut Option<Record>, r: Record| { r.act(); last.replace(r) }).unkey()
    );
    "repartition" exact |job, s| job.end(keyed(s).repartition().map(|_, r| r.number()).unkey());
    "process" loose |job, s| job.end(
        timed(s).group_by(|r| r.key.clone()).process(Timed).unkey()
    );
    "process untimed" loose |job, s| job.end(
        s.group_by(|r| r.key.clone()).process(Timed).unkey()
    );
    "process with a side output" loose |job, s| {
        let (all, ends) = timed(s).group_by(|r| r.key.clone()).process_with_side_output(Delayed(job.span));
        job.end(all.unkey());
        job.end(ends);
    };
    "aggregate" exact |job, s| job.end(keyed(s).aggregate(|a| (
        a.count(),
        a.count_if(|r| r.number().is_multiple_of(2)),
        a.min(|r| r.clone()),
        a.sum(|r| r.number()),
    )).unkey());
    "aggregate distinct" exact |job, s| job.end(keyed(s).aggregate(|a| (
        a.count_distinct(|r| r.key.clone()),
        a.top_of(3, |r| r.clone()),
        a.bottom_of(3, |r| r.number()),
    )).unkey());
    "aggregate by" loose |job, s| job.end(keyed(s).aggregate(|a| (
        a.min_by_key(|r| r.key.clone()),
        a.last_by_key(|r| r.at),
        a.top_by_key(3, |r| r.number()),
        a.nth_by_key(2, |r| r.at),
        a.max_by(|a, b| a.number().cmp(&b.number())),
        a.bottom_by(3, |a, b| a.number().cmp(&b.number())),
    )).unkey());
    "aggregate numbers" loose |job, s| job.end(keyed(s).aggregate(|a| (
        a.variance(|r| r.number() as f64),
        a.approx_quantiles(|r| r.number() as f64, [0.5, 0.9]),
        a.approx_count_distinct(|r| r.key.clone()),
    )).unkey());
    "aggregate quantiles" exact |job, s| job.end(
        keyed(s).aggregate(|a| a.quantiles(|r| r.clone(), [0.0, 0.5, 1.0])).unkey()
    );
    "to_vec" exact |job, s| job.end(
        keyed(s).aggregate(|a| a.to_vec()).unkey().map(|(key, all): (Key, Vec<Record>)| (key, all.len()))
    );
    "keyed collect" exact |_job, s| keyed(s).count().collect::<std::collections::BTreeMap<_, _>>();
}
