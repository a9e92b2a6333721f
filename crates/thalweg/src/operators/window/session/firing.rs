//! The operator of sessions, in the task that owns the keys: adds records to sessions, and emits those that end.

use super::super::early::{Counts, Tick};
use super::super::pane::{Pane, Timing};
use super::Gap;
use super::early::{Earlies, EarlySessions, Had};
use super::late::{Exit, Latecomers};
use super::open::{Open, Sessions, SessionsOf, Taken};
use crate::data::{Key, Portable, Record};
use crate::error::Result;
use crate::flow::{Forked, Op, Push, arm, guard};
use crate::metrics::Report;
use crate::operators::aggregates::Combine;
use crate::operators::keyed::KeyBy;
use crate::plan::TaskContext;
use crate::state::HeapEstimate;
use crate::stream::Chain;
use crate::support::keyed_timers::{
    Firing, KeyedTimers, KeysOf, Takes, TimedState, TimerClock, TimerPolicy, TimerPush,
};
use crate::time::{EventTime, Timestamp};
use std::marker::PhantomData;
use std::sync::Arc;

/// The chain that ends with the results of sessions. All records of a key must be in one task.
pub struct Sessioning<C, G, F, L, E, A> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) keys: G,
    pub(super) gap: F,
    pub(super) late: L,
    pub(super) early: E,
    pub(super) lateness: i64,
    pub(super) aggregate: Arc<A>,
}

impl<C, G, F, L, E, A> Chain for Sessioning<C, G, F, L, E, A>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    F: Gap<G::Value>,
    L: Latecomers<C::Item, G, C::Time>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
{
    type Item = (<G::Key as Portable>::Owned, Pane<A::Output>);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<TimerPush<SessionKeys<C::Item, C::Time, G, F, L::Exit, E, A, N>>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let policy = SessionKeys {
            op: cx.op(self.op),
            by: self.keys.clone(),
            gap: self.gap.clone(),
            aggregate: Arc::clone(&self.aggregate),
            emitted: 0,
            late: 0,
            earliness: self.early,
            lateness: self.lateness,
            early: Earlies::new(cx, self.early.early()),
            ends: Forked((next, self.late.exit(cx, self.op))),
            types: PhantomData,
        };
        let keys = KeyedTimers::new(cx, self.op, "the open sessions", HINT)?;
        self.prev.attach(cx, TimerPush::new(keys, policy))
    }
}

/// A hint for the error when memory is exhausted.
pub(super) const HINT: &str =
    "a shorter gap or a smaller state (as of a count, in place of a list) needs less";

/// Sessions in a running task.
pub struct SessionKeys<I: ?Sized, T, G, F, X, E, A, N> {
    op: Op,
    by: G,
    gap: F,
    aggregate: Arc<A>,
    emitted: u64,
    late: u64,
    earliness: E,
    /// For how many microseconds sessions accept records after they have ended.
    lateness: i64,
    early: Earlies,
    /// The destinations of results and of late records.
    ends: Forked<(N, X)>,
    types: PhantomData<fn(&I, T)>,
}

/// A record to be added: its time, its gap, the watermark, and the lateness for which sessions accept records
/// after they have ended.
#[derive(Clone, Copy)]
struct Arrival {
    at: i64,
    gap: i64,
    watermark: i64,
    lateness: i64,
}

/// Adds a record to the sessions of its key. Returns what became of it and, for early results, the number of
/// records in its session that were in no result.
#[inline(always)]
fn enter<V, A, E>(
    sessions: &mut SessionsOf<A::State, E::Counts>,
    aggregate: &A,
    earliness: E,
    Arrival { at, gap, watermark, lateness }: Arrival,
    update: impl FnOnce(&mut A::State),
) -> (Taken, u64)
where
    V: Record + ?Sized,
    A: Combine<V>,
    E: EarlySessions<A::State>,
{
    let (mut fresh, mut has_changed) = (0, false);
    let taken = sessions.take(
        (at, at.saturating_add(gap)),
        |until| until.saturating_add(lateness) < watermark,
        || (aggregate.start(), earliness.start()),
        |(state, had), until| {
            update(state);
            had.took();
            if let Some(late) = had.lenient() {
                late.took(until < watermark);
                has_changed = late.has_changed;
            }
            fresh = had.fresh();
        },
        |(state, had), (other, other_had)| {
            aggregate.combine(state, other);
            had.merge(other_had);
        },
    );
    if has_changed {
        // The result is due before the next batch.
        sessions.tick.set(i64::MIN);
    }
    (taken, fresh)
}

impl<I, T, G, F, X, E, A, N> SessionKeys<I, T, G, F, X, E, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    F: Gap<G::Value>,
    X: Exit<I, G, T>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
    N: Push<(<G::Key as Portable>::Owned, Pane<A::Output>), T>,
{
    /// Adds a record that may be late, or sends it to the side output.
    #[cold]
    #[inline(never)]
    fn take_behind(
        &mut self,
        keys: &mut KeysOf<Self>,
        item: I::Of<'_>,
        at: Timestamp,
        watermark: i64,
    ) {
        let Self { op, by, gap, aggregate, earliness, lateness, .. } = self;
        let (earliness, lateness) = (*earliness, *lateness);
        let armed = arm(op);
        let key = by.key(&item);
        let (hash, own) = (by.hash(&item), key.own());
        let Some(mut visit) = keys.visit(hash, key, Sessions::new) else {
            return armed.disarm();
        };
        let mut value = Some(by.value(item));
        let gap = value.as_ref().map_or(0, |value| gap.gap(value));
        let arrival = Arrival { at: at.as_micros(), gap, watermark, lateness };
        let (taken, fresh) = visit.guard(|sessions| {
            enter::<G::Value, A, E>(sessions, aggregate, earliness, arrival, |state| {
                if let Some(value) = value.take() {
                    aggregate.update(state, value);
                }
            })
        });
        armed.disarm();
        self.late += u64::from(taken == Taken::Late);
        if E::ANY && fresh > 0 && self.early.note(visit.state(), fresh) {
            visit.see(|key, sessions, _| self.give_early(key, sessions));
        }
        visit.leave(hash);
        if let Some(value) = value {
            self.ends.0.1.push_late(own, value, T::from(at));
        }
    }

    /// Gives the results that are due of the open sessions of a key.
    fn give_early(&mut self, key: &G::Key, sessions: &mut SessionsOf<A::State, E::Counts>) {
        let Self { op, aggregate, early, emitted, ends, .. } = self;
        early.each_due(sessions, |open, number| {
            let Some(pane) = pane::<G::Value, A, E>(op, aggregate, open, Timing::Early(number))
            else {
                return;
            };
            *emitted += 1;
            ends.0.0.push((key.own(), pane), T::from(Timestamp::from_micros(open.until)));
        });
    }

    /// Gives the results of the sessions of a key that late records have changed.
    fn give_late(&mut self, key: &G::Key, sessions: &mut SessionsOf<A::State, E::Counts>) {
        let Self { op, aggregate, early, emitted, ends, .. } = self;
        sessions.each_changed(|open| {
            if let Some(pane) = ended_pane::<G::Value, A, E>(op, aggregate, open) {
                *emitted += 1;
                ends.0.0.push((key.own(), pane), T::from(Timestamp::from_micros(open.until)));
            }
        });
        // Early results may have been due later.
        sessions.tick.set(if sessions.is_fresh() { early.next_tick() } else { i64::MAX });
    }

    /// Emits the results of the sessions of a key that have ended by `at`, and keeps the sessions for late
    /// records.
    fn end_leniently(
        &mut self,
        key: &G::Key,
        sessions: &mut SessionsOf<A::State, E::Counts>,
        at: i64,
        weighed: &mut HeapEstimate<A::State>,
    ) {
        let Self { op, aggregate, emitted, ends, .. } = self;
        let show = |open: &mut Open<(A::State, E::Counts)>| {
            if let Some(pane) = ended_pane::<G::Value, A, E>(op, aggregate, open) {
                *emitted += 1;
                ends.0.0.push((key.own(), pane), T::from(Timestamp::from_micros(open.until)));
            }
        };
        sessions.end_leniently(at, show, |open| weighed.leaves(&open.state.0));
    }
}

/// A result of a session that is kept.
fn pane<V, A, E>(
    op: &Op,
    aggregate: &A,
    open: &Open<(A::State, E::Counts)>,
    timing: Timing,
) -> Option<Pane<A::Output>>
where
    V: Record + ?Sized,
    A: Combine<V>,
    E: EarlySessions<A::State>,
{
    let value = guard(op, || E::copy(&open.state.0).map(|state| aggregate.finish(state)))?;
    let (start, end) = bounds(open);
    Some(Pane { start, end, timing, value })
}

/// The result of a session that has ended and is kept, or the next one due to late records.
fn ended_pane<V, A, E>(
    op: &Op,
    aggregate: &A,
    open: &mut Open<(A::State, E::Counts)>,
) -> Option<Pane<A::Output>>
where
    V: Record + ?Sized,
    A: Combine<V>,
    E: EarlySessions<A::State>,
{
    let late = open.state.1.lenient()?;
    let timing = match late.has_changed {
        true => Timing::Late(late.give()),
        false => Timing::OnTime,
    };
    late.has_ended = true;
    pane::<V, A, E>(op, aggregate, open, timing)
}

/// The last moment that a watermark completes. A record at the last timestamp of a session is on time until the
/// watermark is behind it.
pub(super) fn last_passed(watermark: Timestamp) -> Option<i64> {
    watermark.as_micros().checked_sub(1)
}

/// Removes the sessions of a key that end by `at`, and passes their results on, with their timestamps.
pub(super) fn end_sessions<V, A, H, T>(
    op: &Op,
    aggregate: &A,
    sessions: &mut SessionsOf<A::State, H>,
    at: i64,
    weighed: &mut HeapEstimate<A::State>,
    mut give: impl FnMut(Pane<A::Output>, T),
) where
    V: Record + ?Sized,
    A: Combine<V>,
    H: Had,
    T: EventTime,
{
    sessions.end(at, |open| {
        let (pane, at) = result_of(op, aggregate, open, weighed);
        give(pane, at);
    });
}

/// The result of a session that was removed, and its timestamp.
#[inline(always)]
pub(super) fn result_of<V, A, H, T>(
    op: &Op,
    aggregate: &A,
    open: Open<(A::State, H)>,
    weighed: &mut HeapEstimate<A::State>,
) -> (Pane<A::Output>, T)
where
    V: Record + ?Sized,
    A: Combine<V>,
    T: EventTime,
{
    let (start, end) = bounds(&open);
    let Open { until, state: (state, _), .. } = open;
    weighed.leaves(&state);
    let value = guard(op, || aggregate.finish(state));
    (Pane::on_time(start, end, value), T::from(Timestamp::from_micros(until)))
}

/// Reports the sessions that have ended, and when the first of the others does; `held` is when the first does of those that
/// have not been merged.
pub(super) fn report_sessions<K, S>(
    op: &Op,
    keys: &KeyedTimers<K, S>,
    held: Option<i64>,
    emitted: u64,
    report: &mut Report,
) where
    K: Key + ?Sized,
    S: TimedState,
{
    report.emitted(op.id(), emitted);
    let until = keys.first_due(TimerClock::Event).into_iter().chain(held).min();
    let end = until.map(|until| Timestamp::from_micros(until.saturating_add(1)));
    report.open_until(op.id(), end);
}

/// The first timestamp of a session, and the first after it.
fn bounds<S>(open: &Open<S>) -> (Timestamp, Timestamp) {
    let at = Timestamp::from_micros;
    (at(open.first), at(open.until.saturating_add(1)))
}

impl<I, T, G, F, X, E, A, N> Takes<I, T> for SessionKeys<I, T, G, F, X, E, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    F: Gap<G::Value>,
    X: Exit<I, G, T>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
    N: Push<(<G::Key as Portable>::Owned, Pane<A::Output>), T>,
{
    #[inline(always)]
    fn take(&mut self, keys: &mut KeysOf<Self>, item: I::Of<'_>, time: T) {
        let at: Timestamp = time.into();
        let watermark = keys.watermark().map_or(i64::MIN, Timestamp::as_micros);
        if X::OPEN && at.as_micros() < watermark {
            return self.take_behind(keys, item, at, watermark);
        }
        let Self { op, by, gap, aggregate, earliness, lateness, .. } = self;
        let (earliness, lateness) = (*earliness, *lateness);
        let armed = arm(op);
        let hash = by.hash(&item);
        let Some(mut visit) = keys.visit(hash, by.key(&item), Sessions::new) else {
            return armed.disarm();
        };
        let (taken, fresh) = visit.guard(|sessions| {
            let value = by.value(item);
            let arrival = Arrival { at: at.as_micros(), gap: gap.gap(&value), watermark, lateness };
            enter::<G::Value, A, E>(sessions, aggregate, earliness, arrival, |state| {
                aggregate.update(state, value);
            })
        });
        armed.disarm();
        self.late += u64::from(taken == Taken::Late);
        if E::ANY && fresh > 0 && self.early.note(visit.state(), fresh) {
            visit.see(|key, sessions, _| self.give_early(key, sessions));
        }
        visit.leave(hash);
    }
}

impl<I, T, G, F, X, E, A, N> TimerPolicy for SessionKeys<I, T, G, F, X, E, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    F: Gap<G::Value>,
    X: Exit<I, G, T>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
    N: Push<(<G::Key as Portable>::Owned, Pane<A::Output>), T>,
{
    type Key = G::Key;
    type State = SessionsOf<A::State, E::Counts>;
    type Next = Forked<(N, X)>;

    fn next(&mut self) -> &mut Self::Next {
        &mut self.ends
    }

    fn passed(watermark: Timestamp) -> Option<i64> {
        last_passed(watermark)
    }

    fn wake(
        &mut self,
        key: &G::Key,
        sessions: &mut Self::State,
        firing: Firing,
        weighed: &mut HeapEstimate<A::State>,
    ) {
        match firing.clock {
            TimerClock::Processing if firing.at == i64::MIN => {
                return self.give_late(key, sessions);
            }
            TimerClock::Processing => return self.give_early(key, sessions),
            TimerClock::Event if self.lateness > 0 => {
                return self.end_leniently(key, sessions, firing.until, weighed);
            }
            TimerClock::Event => {}
        }
        let Self { op, aggregate, emitted, ends, .. } = self;
        end_sessions::<G::Value, A, _, T>(
            op,
            aggregate,
            sessions,
            firing.at,
            weighed,
            |pane, at| {
                *emitted += 1;
                ends.0.0.push((key.own(), pane), at);
            },
        );
    }

    fn catch_up(&mut self, _: &mut KeysOf<Self>) -> bool {
        if E::ANY {
            self.early.look();
        }
        false
    }

    fn is_full(&mut self) -> bool {
        false
    }

    fn report(&mut self, keys: &KeysOf<Self>, report: &mut Report) {
        report_sessions(&self.op, keys, None, self.emitted, report);
        report.late(self.op.id(), self.late, if X::OPEN { 0 } else { self.late });
    }
}
