//! Several ways out of a stage, as one.

use super::{Event, Flow, Pipe};
use crate::clock::Nanos;
use crate::metrics::Report;

/// The ends of a stage that records leave by several ways: what an operator with more than one returns as
/// its [`next`](Pipe::next). Which of them a record is pushed to is the operator's business.
pub struct Forked<E>(pub(crate) E);

/// The ends: a pair, or as many as there are.
pub(crate) trait Ends: Send {
    /// Shows each of them.
    fn each(&mut self, see: impl FnMut(&mut dyn Pipe));
}

impl<A: Pipe, B: Pipe> Ends for (A, B) {
    fn each(&mut self, mut see: impl FnMut(&mut dyn Pipe)) {
        see(&mut self.0);
        see(&mut self.1);
    }
}

impl<P: Pipe> Ends for Vec<P> {
    fn each(&mut self, mut see: impl FnMut(&mut dyn Pipe)) {
        self.iter_mut().for_each(|end| see(end));
    }
}

impl<E: Ends> Pipe for Forked<E> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        self.0.each(|end| end.event(event));
    }

    fn resume(&mut self) -> Flow {
        // Each is asked, since each waits for credit of its own.
        let mut all = Flow::Ready;
        self.0.each(|end| {
            all = match (all, end.resume()) {
                (Flow::Busy, _) | (_, Flow::Busy) => Flow::Busy,
                // Who waits for something else may have a time to come back at.
                (Flow::Waiting, _) | (_, Flow::Waiting) => Flow::Waiting,
                (Flow::Blocked, _) | (_, Flow::Blocked) => Flow::Blocked,
                (Flow::Ready, Flow::Ready) => Flow::Ready,
            };
        });
        all
    }

    fn is_full(&mut self) -> bool {
        // A closed end drops what is pushed and exerts no back-pressure. Where all are full or closed, the fan-out
        // pauses.
        let (mut any, mut all) = (false, true);
        self.0.each(|end| {
            let full = end.is_full();
            any |= full && !end.is_closed();
            all &= full;
        });
        any || all
    }

    fn is_closed(&mut self) -> bool {
        let mut all = true;
        self.0.each(|end| all &= end.is_closed());
        all
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let mut first: Option<Nanos> = None;
        self.0.each(|end| first = first.into_iter().chain(end.idle(now)).min());
        first
    }

    fn tick(&mut self, now: Nanos) {
        self.0.each(|end| end.tick(now));
    }

    fn report(&mut self, report: &mut Report) {
        self.0.each(|end| end.report(report));
    }
}
