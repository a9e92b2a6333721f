//! The order in which results of calls, and events between them, are emitted: pure bookkeeping without calls or
//! clocks.
//!
//! No event is emitted before the results of all calls that began before it. Where results are unordered,
//! nothing else holds; where order is kept, a result also waits for those of earlier calls. Unordered, a call
//! that began after a watermark may be emitted before it, which makes no record late.

use crate::flow::Event;
use std::collections::VecDeque;

/// The position of a call in the line. Calls that began earlier have no greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Calls in flight with the events between them, and the results `R` of those that have ended.
pub(super) struct Line<R> {
    order: Order<R>,
    /// Calls that have begun and whose results have not been taken.
    calls: usize,
}

enum Order<R> {
    Kept(InOrder<R>),
    Free(AsTheyCome<R>),
}

impl<R> Line<R> {
    pub(super) fn new(ordered: bool) -> Self {
        let order = match ordered {
            true => Order::Kept(InOrder { first: 0, places: VecDeque::new() }),
            false => Order::Free(AsTheyCome {
                first: 0,
                spans: VecDeque::from([Span::default()]),
                done: VecDeque::new(),
            }),
        };
        Self { order, calls: 0 }
    }

    /// Calls whose results have not been taken.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// Adds a call that begins.
    pub(super) fn begin(&mut self) -> Ticket {
        self.calls += 1;
        match &mut self.order {
            Order::Kept(line) => line.begin(),
            Order::Free(line) => line.begin(),
        }
    }

    /// Sets the result of a call that has ended.
    pub(super) fn end(&mut self, ticket: Ticket, result: R) {
        match &mut self.order {
            Order::Kept(line) => line.end(ticket, result),
            Order::Free(line) => line.done.push_back((ticket, result)),
        }
    }

    /// Adds an event, behind all calls that have begun.
    pub(super) fn event(&mut self, event: Event) {
        match &mut self.order {
            Order::Kept(line) => line.event(event),
            Order::Free(line) => line.event(event),
        }
    }

    /// The next result that may be emitted.
    pub(super) fn take_result(&mut self) -> Option<R> {
        let result = match &mut self.order {
            Order::Kept(line) => line.take_result(),
            Order::Free(line) => line.take_result(),
        }?;
        self.calls -= 1;
        Some(result)
    }

    /// The next event that may be emitted, when no result may.
    pub(super) fn take_event(&mut self) -> Option<Event> {
        match &mut self.order {
            Order::Kept(line) => line.take_event(),
            Order::Free(line) => line.take_event(),
        }
    }

    /// Whether a watermark is among the events.
    pub(super) fn has_watermark(&self) -> bool {
        let is_one = |event: &Event| matches!(event, Event::Watermark(_));
        match &self.order {
            Order::Kept(line) => line
                .places
                .iter()
                .any(|place| matches!(place, Entry::Event(event) if is_one(event))),
            Order::Free(line) => {
                line.spans.iter().any(|span| span.event.as_ref().is_some_and(is_one))
            }
        }
    }

    /// The results that have not been taken.
    pub(super) fn ended(&self) -> impl Iterator<Item = (Ticket, &R)> {
        let (kept, free) = match &self.order {
            Order::Kept(line) => (Some(line), None),
            Order::Free(line) => (None, Some(line)),
        };
        let kept = kept.into_iter().flat_map(|line| {
            let places = (line.first..).zip(&line.places);
            places.filter_map(|(ticket, place)| match place {
                Entry::Done(result) => Some((Ticket(ticket), result)),
                Entry::UnderWay | Entry::Event(_) => None,
            })
        });
        let free = free.into_iter().flat_map(|line| &line.done);
        kept.chain(free.map(|(ticket, result)| (*ticket, result)))
    }

    /// Drops all calls and their results; events stay.
    pub(super) fn forget_calls(&mut self) {
        self.calls = 0;
        match &mut self.order {
            Order::Kept(line) => line.places.retain(|place| matches!(place, Entry::Event(_))),
            Order::Free(line) => {
                line.done.clear();
                line.spans.iter_mut().for_each(|span| span.open = 0);
            }
        }
    }
}

/// Whether an event is superseded by a later watermark.
fn is_passing(event: Event) -> bool {
    matches!(event, Event::Watermark(_) | Event::Idle)
}

/// Keeps order: each result waits for those of earlier calls.
struct InOrder<R> {
    /// The ticket of the first place.
    first: u64,
    places: VecDeque<Entry<R>>,
}

enum Entry<R> {
    UnderWay,
    Done(R),
    Event(Event),
}

impl<R> InOrder<R> {
    fn begin(&mut self) -> Ticket {
        let ticket = self.first + self.places.len() as u64;
        self.places.push_back(Entry::UnderWay);
        Ticket(ticket)
    }

    fn end(&mut self, Ticket(ticket): Ticket, result: R) {
        let place = ticket.checked_sub(self.first).and_then(|at| self.places.get_mut(at as usize));
        if let Some(place) = place {
            *place = Entry::Done(result);
        }
    }

    fn event(&mut self, event: Event) {
        while is_passing(event)
            && matches!(self.places.back(), Some(Entry::Event(last)) if replaces(event, *last))
        {
            self.places.pop_back();
        }
        self.places.push_back(Entry::Event(event));
    }

    fn take_result(&mut self) -> Option<R> {
        if !matches!(self.places.front(), Some(Entry::Done(_))) {
            return None;
        }
        self.first += 1;
        match self.places.pop_front() {
            Some(Entry::Done(result)) => Some(result),
            _ => None,
        }
    }

    fn take_event(&mut self) -> Option<Event> {
        let Some(Entry::Event(event)) = self.places.front() else { return None };
        let event = *event;
        self.places.pop_front();
        self.first += 1;
        Some(event)
    }
}

/// Whether the later of two consecutive events makes the earlier one redundant.
fn replaces(later: Event, earlier: Event) -> bool {
    match later {
        Event::Watermark(_) => is_passing(earlier),
        Event::Idle => earlier == Event::Idle,
        _ => false,
    }
}

/// Without order: results are emitted as calls end, and an event when all calls of its span have.
struct AsTheyCome<R> {
    /// The number of the first span, which is the ticket of its calls.
    first: u64,
    /// The calls between two events. There is always at least one span: the last, which no event has ended yet.
    spans: VecDeque<Span>,
    done: VecDeque<(Ticket, R)>,
}

#[derive(Default)]
struct Span {
    /// Calls whose results have not been taken.
    open: usize,
    /// The event that ends the span.
    event: Option<Event>,
}

impl<R> AsTheyCome<R> {
    fn begin(&mut self) -> Ticket {
        if let Some(last) = self.spans.back_mut() {
            last.open += 1;
        }
        Ticket(self.first + self.spans.len() as u64 - 1)
    }

    fn event(&mut self, event: Event) {
        while let Some(before) = self.spans.len().checked_sub(2)
            && self.spans[before + 1].open == 0
            && self.spans[before].event.is_some_and(|last| replaces(event, last))
        {
            self.spans.pop_back();
            self.spans[before].event = None;
        }
        if let Some(last) = self.spans.back_mut() {
            last.event = Some(event);
        }
        self.spans.push_back(Span::default());
    }

    fn take_result(&mut self) -> Option<R> {
        let (Ticket(span), result) = self.done.pop_front()?;
        let span = span.checked_sub(self.first).and_then(|at| self.spans.get_mut(at as usize));
        if let Some(span) = span {
            span.open = span.open.saturating_sub(1);
        }
        Some(result)
    }

    fn take_event(&mut self) -> Option<Event> {
        let event = self.spans.front().filter(|span| span.open == 0)?.event?;
        self.spans.pop_front();
        self.first += 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Epoch;
    use crate::time::Timestamp;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin,
        /// One of the calls in flight ends.
        End(prop::sample::Index),
        Watermark,
        Idle,
        Barrier,
        /// Emits everything that may be emitted.
        Drain,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Begin),
            4 => any::<prop::sample::Index>().prop_map(Step::End),
            2 => Just(Step::Watermark),
            1 => Just(Step::Idle),
            1 => Just(Step::Barrier),
            2 => Just(Step::Drain),
        ];
        prop::collection::vec(step, 0..200)
    }

    #[derive(Debug, PartialEq)]
    enum Out {
        Call(usize),
        Event(Event),
    }

    fn drain(line: &mut Line<usize>, out: &mut Vec<Out>) {
        loop {
            if let Some(call) = line.take_result() {
                out.push(Out::Call(call));
            } else if let Some(event) = line.take_event() {
                out.push(Out::Event(event));
            } else {
                return;
            }
        }
    }

    /// Runs the steps and ends all calls; returns what came in, and what came out.
    fn play(ordered: bool, steps: &[Step]) -> (Vec<Out>, Vec<Out>) {
        let mut line = Line::new(ordered);
        let (mut given, mut out, mut open) = (Vec::new(), Vec::new(), Vec::new());
        let mut calls = 0;
        for (number, step) in steps.iter().enumerate() {
            let event = match step {
                Step::Begin => {
                    open.push((line.begin(), calls));
                    given.push(Out::Call(calls));
                    calls += 1;
                    continue;
                }
                Step::End(which) => {
                    if !open.is_empty() {
                        let (ticket, call) = open.swap_remove(which.index(open.len()));
                        line.end(ticket, call);
                    }
                    continue;
                }
                Step::Drain => {
                    drain(&mut line, &mut out);
                    continue;
                }
                Step::Watermark => Event::Watermark(Timestamp::from_micros(number as i64)),
                Step::Idle => Event::Idle,
                Step::Barrier => Event::Barrier(Epoch(number as u64)),
            };
            line.event(event);
            given.push(Out::Event(event));
        }
        for (ticket, call) in open {
            line.end(ticket, call);
        }
        drain(&mut line, &mut out);
        assert_eq!(line.calls(), 0);
        (given, out)
    }

    proptest! {
        #[test]
        fn every_call_goes_on_once_and_no_event_before_those_before_it(
            ordered: bool,
            steps in steps(),
        ) {
            let (given, out) = play(ordered, &steps);
            let calls = |of: &[Out]| -> Vec<usize> {
                of.iter().filter_map(|o| if let Out::Call(n) = o { Some(*n) } else { None }).collect()
            };
            let mut sorted = calls(&out);
            if ordered {
                prop_assert_eq!(&sorted, &calls(&given));
            }
            sorted.sort_unstable();
            prop_assert_eq!(&sorted, &calls(&given));

            let mut last = 0;
            for (at, event) in out.iter().enumerate() {
                let Out::Event(event) = event else { continue };
                // `Idle` occurs more than once: any occurrence behind the last event will do.
                let from = given[last..].iter().position(|o| *o == Out::Event(*event));
                let from = last + from.expect("an event that was given, in its order");
                last = from + 1;
                let gone = calls(&out[..at]);
                prop_assert!(calls(&given[..from]).iter().all(|call| gone.contains(call)));
            }
            // An event that was dropped is followed by one that supersedes it.
            let events = |of: &[Out]| -> Vec<Event> {
                of.iter().filter_map(|o| if let Out::Event(e) = o { Some(*e) } else { None }).collect()
            };
            let strict = |event: &Event| !is_passing(*event);
            prop_assert_eq!(
                events(&out).into_iter().filter(strict).collect::<Vec<_>>(),
                events(&given).into_iter().filter(strict).collect::<Vec<_>>()
            );
            prop_assert_eq!(events(&out).pop(), events(&given).pop());
        }
    }

    #[test]
    fn events_do_not_pile_up_behind_a_slow_call() {
        for ordered in [true, false] {
            let mut line = Line::new(ordered);
            let slow = line.begin();
            for at in 0..1000 {
                line.event(Event::Watermark(Timestamp::from_micros(at)));
                line.event(Event::Idle);
                line.event(Event::Idle);
            }
            line.end(slow, 7);
            let mut out = Vec::new();
            drain(&mut line, &mut out);
            let last = Event::Watermark(Timestamp::from_micros(999));
            assert_eq!(out, [Out::Call(7), Out::Event(last), Out::Event(Event::Idle)]);
        }
    }
}
