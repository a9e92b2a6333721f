//! Operators of streams with keys, and the aggregates that there are.

use crate::job::{Records, operators, timed};
use crate::records::{Key, Record};
use std::convert::Infallible;
use std::time::Duration;
use thalweg::operators::aggregates as by;
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
    type Aside = u64;

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
        cx.emit_aside(key.id);
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
    type Aside = Infallible;

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
    "keyed min" exact |job, s| job.end(keyed(s).min(|r| r).unkey());
    "keyed max" exact |job, s| job.end(keyed(s).max(|r| r).unkey());
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
    "keyed map" exact |job, s| job.end(keyed(s).map(|key, r| key.id + r.number()).unkey());
    "keyed filter" exact |job, s| job.end(keyed(s).filter(|key, r| (key.id + r.number()) % 2 == 0).count().unkey());
    "partition" exact |job, s| job.end(keyed(s).partition().map(|_, r| r.number()).unkey());
    "process" loose |job, s| job.end(
        timed(s).group_by(|r| r.key.clone()).process(Timed).unkey()
    );
    "process untimed" loose |job, s| job.end(
        s.group_by(|r| r.key.clone()).process(Timed).unkey()
    );
    "process aside" loose |job, s| {
        let (all, ends) = timed(s).group_by(|r| r.key.clone()).process_aside(Delayed(job.span));
        job.end(all.unkey());
        job.end(ends);
    };
    "aggregate" exact |job, s| job.end(keyed(s).aggregate((
        by::count(),
        by::count_if(|r: Record| r.number().is_multiple_of(2)),
        by::min(|r: Record| r),
        by::sum(|r: Record| r.number()),
    )).unkey());
    "aggregate distinct" exact |job, s| job.end(keyed(s).aggregate((
        by::count_distinct(|r: Record| r.key),
        by::top(3, |r: Record| r),
        by::bottom(3, |r: Record| r.number()),
    )).unkey());
    "aggregate by" loose |job, s| job.end(keyed(s).aggregate((
        by::min_by(|r: &Record| r.key.clone()),
        by::last_by(|r: &Record| r.at),
        by::top_by(3, |r: &Record| r.number()),
        by::nth_by(2, |r: &Record| r.at),
    )).unkey());
    "aggregate numbers" loose |job, s| job.end(keyed(s).aggregate((
        by::variance(|r: Record| r.number() as f64),
        by::approx_quantiles(|r: Record| r.number() as f64, [0.5, 0.9]),
        by::approx_count_distinct(|r: Record| r.key),
    )).unkey());
    "aggregate quantiles" exact |job, s| job.end(
        keyed(s).aggregate(by::quantiles(|r: &Record| r.clone(), [0.0, 0.5, 1.0])).unkey()
    );
    "to_vec" exact |job, s| job.end(
        keyed(s).aggregate(by::to_vec()).unkey().map(|(key, all): (Key, Vec<Record>)| (key, all.len()))
    );
    "keyed collect" exact |_job, s| keyed(s).count().collect::<std::collections::BTreeMap<_, _>>();
}
