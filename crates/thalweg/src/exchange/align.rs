//! Brings together the events of several lanes, so that operators see each once.
//!
//! A watermark is the least of all lanes', a barrier has come when it came on every lane (a lane where
//! it came early is held meanwhile), the end when every lane has ended.

use crate::flow::{Epoch, Event};
use crate::time::Timestamp;

/// How far the lanes of an inlet are.
pub(super) struct Align {
    lanes: Vec<Progress>,
    watermark: Option<Timestamp>,
    /// The barrier that some lanes have reached and others have not.
    aligning: Option<Epoch>,
    /// Whether an event has come since the lanes were last compared.
    undecided: bool,
    ended: bool,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    watermark: Option<Timestamp>,
    at_barrier: bool,
    /// No event will come but the end.
    past_events: bool,
    ended: bool,
}

impl Align {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            lanes: vec![Progress::default(); lanes],
            watermark: None,
            aligning: None,
            // A task that no lane leads to ends at once.
            undecided: true,
            ended: false,
        }
    }

    /// Takes down an event that came on a lane.
    pub(super) fn note(&mut self, from: usize, event: Event) {
        let lane = &mut self.lanes[from];
        match event {
            Event::Watermark(at) => lane.watermark = Some(at),
            Event::Barrier(epoch) => {
                lane.at_barrier = true;
                self.aligning = Some(epoch);
            }
            Event::End => lane.ended = true,
        }
        self.undecided = true;
    }

    /// On this lane no event will come but the end: it holds back no other's.
    pub(super) fn pass_events(&mut self, from: usize) {
        if !self.lanes[from].past_events {
            self.lanes[from].past_events = true;
            self.undecided = true;
        }
    }

    /// Whether a lane must not be read for now.
    pub(super) fn is_held(&self, lane: usize) -> bool {
        self.lanes[lane].at_barrier
    }

    /// Whether nothing more will come on a lane.
    pub(super) fn has_ended(&self, lane: usize) -> bool {
        self.lanes[lane].ended
    }

    /// Whether [`agreed`](Self::agreed) may have something to say.
    pub(super) fn is_undecided(&self) -> bool {
        self.undecided
    }

    /// The next event that every lane still open agrees on.
    pub(super) fn agreed(&mut self) -> Option<Event> {
        let open = || self.lanes.iter().filter(|lane| !lane.ended && !lane.past_events);
        // None is below every timestamp: a lane without a watermark holds back the rest.
        let low = open().map(|lane| lane.watermark).min().flatten();
        if let Some(at) = low
            && low > self.watermark
        {
            self.watermark = low;
            return Some(Event::Watermark(at));
        }
        if let Some(epoch) = self.aligning
            && open().all(|lane| lane.at_barrier)
        {
            self.aligning = None;
            for lane in &mut self.lanes {
                lane.at_barrier = false;
            }
            return Some(Event::Barrier(epoch));
        }
        if self.lanes.iter().all(|lane| lane.ended) && !self.ended {
            self.ended = true;
            return Some(Event::End);
        }
        self.undecided = false;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(align: &mut Align) -> Vec<Event> {
        std::iter::from_fn(|| align.agreed()).collect()
    }

    #[test]
    fn events_come_once_when_every_lane_has_them() {
        let mut align = Align::new(2);
        let [early, late] = [1, 2].map(Timestamp::from_micros);
        align.note(0, Event::Watermark(late));
        assert_eq!(all(&mut align), []);
        align.note(1, Event::Watermark(early));
        assert_eq!(all(&mut align), [Event::Watermark(early)]);
        align.note(0, Event::Barrier(Epoch(1)));
        assert!(align.is_held(0) && all(&mut align).is_empty());
        align.note(1, Event::End);
        let rest = [Event::Watermark(late), Event::Barrier(Epoch(1))];
        assert_eq!(all(&mut align), rest);
        assert!(!align.is_held(0));
        align.note(0, Event::End);
        assert_eq!(all(&mut align), [Event::End]);
        assert!(!align.is_undecided());
    }

    #[test]
    fn a_lane_past_its_events_holds_back_none_but_the_end() {
        let mut align = Align::new(2);
        align.note(0, Event::Barrier(Epoch(3)));
        assert_eq!(all(&mut align), []);
        align.pass_events(1);
        assert_eq!(all(&mut align), [Event::Barrier(Epoch(3))]);
        align.note(0, Event::End);
        assert_eq!(all(&mut align), []);
        align.note(1, Event::End);
        assert_eq!(all(&mut align), [Event::End]);
    }

    #[test]
    fn without_lanes_it_is_over() {
        assert_eq!(all(&mut Align::new(0)), [Event::End]);
    }
}
