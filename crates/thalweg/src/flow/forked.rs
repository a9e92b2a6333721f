//! Several outputs of a stage, behind one [`Pipe`].

use super::{Epoch, Event, Flow, Pipe};
use crate::clock::Nanos;
use crate::metrics::Report;

/// The outputs of a stage that has more than one: what its last operator returns as [`next`](Pipe::next). That
/// operator chooses the output to which it pushes a record.
pub struct Forked<E>(pub(crate) E);

/// The outputs: a pair, or any number of one type.
pub(crate) trait Ends: Send {
    /// Calls `see` with each output.
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
        // Every output is resumed, since each waits for its own credit.
        let mut all = Flow::Ready;
        self.0.each(|end| {
            all = match (all, end.resume()) {
                (Flow::Busy, _) | (_, Flow::Busy) => Flow::Busy,
                // An output that waits for something else than a receiver may have set a time to be called at.
                (Flow::Waiting, _) | (_, Flow::Waiting) => Flow::Waiting,
                (Flow::Blocked, _) | (_, Flow::Blocked) => Flow::Blocked,
                (Flow::Paused, _) | (_, Flow::Paused) => Flow::Paused,
                (Flow::Ready, Flow::Ready) => Flow::Ready,
            };
        });
        all
    }

    fn is_full(&mut self) -> bool {
        // A closed output drops what is pushed and exerts no back-pressure. Where all are full or closed, the fan-out
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

    fn may_read(&mut self, split: usize) -> bool {
        let mut all = true;
        self.0.each(|end| all &= end.may_read(split));
        all
    }

    fn tick(&mut self, now: Nanos) {
        self.0.each(|end| end.tick(now));
    }

    fn overdraw(&mut self) {
        self.0.each(|end| end.overdraw());
    }

    fn end_overdraft(&mut self) {
        self.0.each(|end| end.end_overdraft());
    }

    fn own_barrier(&mut self) -> Option<Epoch> {
        let mut least: Option<Epoch> = None;
        self.0.each(|end| {
            // One that holds something back has not passed the end on, after which all barriers have left it.
            let holds = |end: &mut dyn Pipe| end.resume() != Flow::Ready;
            let own = end.own_barrier().or_else(|| holds(end).then(Epoch::default));
            least = least.into_iter().chain(own).min();
        });
        least
    }

    fn save_part(&mut self) -> bool {
        let mut any = false;
        self.0.each(|end| any |= end.save_part());
        any
    }

    fn report(&mut self, report: &mut Report) {
        self.0.each(|end| end.report(report));
    }
}
