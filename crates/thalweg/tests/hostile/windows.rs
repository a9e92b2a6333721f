//! Windows of every kind.

use crate::job::{Records, operators, timed};
use crate::records::{Key, Record};
use std::time::Duration;
use thalweg::operators::keyed::ByRef;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::{
    CountWindow, CustomWindow, Early, EventTimeWindow, GlobalWindow, LastWindow, MakeWindows,
    ProcessingTimeWindow, SessionWindow, Transaction, TransactionWindow, WindowContext,
};
use thalweg::time::Timestamp;
use thalweg::{Boxed, KeyedStream};

type Find = fn(&Record) -> &Key;
type Keyed<T = Timestamp> = KeyedStream<Boxed<Record, T>, ByRef<Find, Key>>;

const KEY: Find = |record| {
    record.act();
    &record.key
};

fn keyed(records: Records) -> Keyed {
    timed(records).group_by_ref(KEY)
}

/// Windows of a span, by hand: a number each, and a timer for its end.
struct Spans(Duration);

impl MakeWindows<Record> for Spans {
    type Bounds = i64;
    type State = ();

    fn start(&self) {}

    fn on_value(
        &self,
        (): &mut (),
        value: &Record,
        at: Timestamp,
        cx: &mut WindowContext<'_, i64>,
    ) {
        value.act();
        let span = i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX).max(1);
        let number = at.as_micros().div_euclid(span);
        cx.add_until(number, Timestamp::from_micros(number.saturating_add(1).saturating_mul(span)));
        cx.set_timer(at.saturating_add(self.0));
    }

    fn on_timer(&self, (): &mut (), at: Timestamp, cx: &mut WindowContext<'_, i64>) {
        cx.fire(at.as_micros());
    }
}

operators! {
    "assign_timestamps" exact |job, s| job.end(timed(s));
    "assign_timestamps aligned" exact |job, s| job.end(s.assign_timestamps(
        |r| { r.act(); Timestamp::from_micros(r.at) },
        Watermarks::bounded_disorder(job.span).idle_after(job.span).aligned(job.span),
    ));
    "assign_timestamps punctuated" exact |job, s| job.end(s.assign_timestamps(
        |r| Timestamp::from_micros(r.at),
        Watermarks::punctuated(|r: &Record| { r.act(); Some(Timestamp::from_micros(r.at)) })
            .at_most_every(Duration::from_millis(1)),
    ));
    "map_with_timestamp" exact |job, s| job.end(timed(s).map_with_timestamp(|r, at| (r.number(), at)));
    "tumbling count" loose |job, s| job.end(keyed(s).window(EventTimeWindow::tumbling(job.span)).count().unkey());
    "sliding count" loose |job, s| job.end(
        keyed(s).window(EventTimeWindow::sliding(job.span, job.span / 3)).count().unkey()
    );
    "sliding max" loose |job, s| job.end(
        keyed(s).window(EventTimeWindow::sliding(job.span, job.span / 3)).max(|r| r.clone()).unkey()
    );
    "sliding offset" loose |job, s| job.end(
        keyed(s).window(EventTimeWindow::sliding(job.span, job.span / 2).offset(job.span / 5)).sum(|r| r.number()).unkey()
    );
    "allowed lateness" loose |job, s| job.end(
        keyed(s).window(EventTimeWindow::tumbling(job.span).allowed_lateness(job.span)).count().unkey()
    );
    "early window" loose |job, s| job.end(
        keyed(s).window(EventTimeWindow::tumbling(job.span).early(Early::every(3))).min(|r| r.clone()).unkey()
    );
    "window fold_assoc" loose |job, s| job.end(
        keyed(s).window(EventTimeWindow::tumbling(job.span))
            .fold_assoc(0, |sum: &mut u64, r: Record| *sum += r.number(), |sum, part| *sum += part).unkey()
    );
    "window reduce" loose |job, s| job.end(
        keyed(s).window(EventTimeWindow::tumbling(job.span))
            .reduce(|a: Record, b: Record| if a.number() < b.number() { b } else { a }).unkey()
    );
    "window average" loose |job, s| job.end(
        keyed(s).window(EventTimeWindow::tumbling(job.span)).average(|r| r.number() as f64).unkey()
    );
    "late_output" loose |job, s| {
        let (windows, late) = keyed(s).window(EventTimeWindow::tumbling(job.span)).late_output();
        job.end(windows.count().unkey());
        job.end(late);
    };
    "sessions" loose |job, s| job.end(keyed(s).window(SessionWindow::new(job.span / 20)).max(|r| r.clone()).unkey());
    "sessions with gap" loose |job, s| job.end({
        let span = job.span;
        let gap = move |r: &Record| span * (r.number() % 3) as u32;
        keyed(s).window(SessionWindow::with_gap(gap)).count().unkey()
    });
    "early sessions" loose |job, s| job.end(
        keyed(s).window(SessionWindow::new(job.span / 20).early(Early::interval(job.span))).count().unkey()
    );
    "late sessions" loose |job, s| {
        let (windows, late) = keyed(s).window(SessionWindow::new(job.span / 20)).late_output();
        job.end(windows.count().unkey());
        job.end(late);
    };
    "processing time" loose |job, s| job.end(
        s.group_by_ref(KEY).window(ProcessingTimeWindow::tumbling(job.span)).count().unkey()
    );
    "processing time sliding" loose |job, s| job.end(
        s.group_by_ref(KEY).window(ProcessingTimeWindow::sliding(job.span, job.span / 3)).max(|r| r.clone()).unkey()
    );
    "count window" loose |job, s| job.end(s.group_by_ref(KEY).window(CountWindow::tumbling(5)).max(|r| r.clone()).unkey());
    "count window partial" exact |job, s| job.end(
        s.group_by_ref(KEY).window(CountWindow::tumbling(5).keep_partial()).count().unkey()
    );
    "count window sliding" loose |job, s| job.end(
        s.group_by_ref(KEY).window(CountWindow::sliding(5, 2)).sum(|r| r.number()).unkey()
    );
    "count window large" loose |job, s| job.end(
        s.group_by_ref(KEY).window(CountWindow::sliding(u64::MAX, 1).keep_partial()).count().unkey()
    );
    "count window to_vec" loose |job, s| job.end(
        s.group_by_ref(KEY).window(CountWindow::tumbling(5)).to_vec().unkey()
    );
    "count window fold" loose |job, s| job.end(
        s.group_by_ref(KEY).window(CountWindow::sliding(5, 3)).fold(0, |sum: &mut u64, r: Record| *sum += r.number()).unkey()
    );
    "count window reduce" loose |job, s| job.end(
        s.group_by_ref(KEY).window(CountWindow::sliding(5, 3)).reduce(|a, b| if a.number() < b.number() { b } else { a }).unkey()
    );
    "last window" loose |job, s| job.end(s.group_by_ref(KEY).window(LastWindow::new(4)).max(|r| r.clone()).unkey());
    "global window" exact |job, s| job.end(s.group_by_ref(KEY).window(GlobalWindow::new()).max(|r| r.clone()).unkey());
    "transaction window" loose |job, s| job.end({
        let says = |r: &Record| match r.number() % 5 {
            0 => Transaction::Commit,
            1 => Transaction::Discard,
            _ => Transaction::Continue,
        };
        s.group_by_ref(KEY).window(TransactionWindow::new(says)).max(|r| r.clone()).unkey()
    });
    "custom window" loose |job, s| job.end(keyed(s).window(CustomWindow::new(Spans(job.span))).max(|r| r.clone()).unkey());
    "early count window" loose |job, s| job.end(
        s.group_by_ref(KEY).window(CountWindow::tumbling(5).early(Early::every(2))).max(|r| r.clone()).unkey()
    );
    "early count window sliding" loose |job, s| job.end(
        s.group_by_ref(KEY).window(CountWindow::sliding(5, 2).early(Early::interval(job.span / 100))).sum(|r| r.number()).unkey()
    );
    "early count window max" loose |job, s| job.end(
        keyed(s).window(CountWindow::sliding(50, 3).early(Early::every(4))).max(|r| r.clone()).unkey()
    );
    "early count window fold" loose |job, s| job.end(
        s.group_by_ref(KEY).window(CountWindow::sliding(5, 3).early(Early::every(2)))
            .fold(0, |sum: &mut u64, r: Record| *sum += r.number()).unkey()
    );
    "early global window" loose |job, s| job.end(
        s.group_by_ref(KEY).window(GlobalWindow::new().early(Early::interval(job.span / 100))).max(|r| r.clone()).unkey()
    );
    "early transaction window" loose |job, s| job.end({
        let says = |r: &Record| match r.number() % 5 {
            0 => Transaction::Commit,
            1 => Transaction::Discard,
            _ => Transaction::Continue,
        };
        s.group_by_ref(KEY).window(TransactionWindow::new(says).early(Early::every(1))).max(|r| r.clone()).unkey()
    });
    "early custom window" loose |job, s| job.end(
        keyed(s).window(CustomWindow::new(Spans(job.span)).early(Early::every(3))).max(|r| r.clone()).unkey()
    );
    "early custom window by clock" loose |job, s| job.end(
        keyed(s).window(CustomWindow::new(Spans(job.span)).early(Early::interval(job.span / 100))).count().unkey()
    );
    "window_all" loose |job, s| job.end(timed(s).window_all(EventTimeWindow::tumbling(job.span)).max(|r| r.clone()));
    "window_all count" loose |job, s| job.end(s.window_all(CountWindow::tumbling(5)).sum(|r| r.number()));
}
