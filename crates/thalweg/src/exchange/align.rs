//! Alignment of the events of several lanes, so that operators see each event once.
//!
//! A lane is open until it has ended, or can deliver nothing but its end. The watermark is the minimum over the open
//! lanes that are not idle. A barrier is aligned when every open lane has delivered it or the end of a round; a lane
//! that delivers it early is blocked until then. Heads of a loop send it between two rounds; within a round it comes from outside
//! the loop only, while that has not ended, and then it is not held back, but torn: there is no checkpoint. The end is reached when every lane has ended. A round of a loop ends
//! when every lane that has not ended has delivered its end; a lane from outside the loop ends after the first round.

use crate::fault::{Fault, is_planted};
use crate::flow::{Depth, Epoch, Event};
use crate::time::Timestamp;

/// The progress of the lanes of an inlet.
pub(super) struct Align {
    lanes: Vec<Progress>,
    watermark: Option<Timestamp>,
    /// Whether every lane is idle, and [`Event::Idle`] was emitted.
    idle: bool,
    /// The barrier that some lanes have reached and others have not.
    aligning: Option<Epoch>,
    /// The last barrier that was emitted.
    passed: Epoch,
    /// Whether it was emitted while a round had ended on some lanes and not on others.
    torn: bool,
    /// Whether an event has come since the lanes were last compared.
    undecided: bool,
    ended: bool,
    /// Whether watermarks may go back, as the least of lanes does when one resumes after being idle: where another alignment
    /// follows.
    exact: bool,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    watermark: Option<Timestamp>,
    idle: bool,
    at_barrier: bool,
    /// A round has ended on this lane, and not yet on others: the depth of its loop.
    at_round: Option<Depth>,
    /// Only [`Event::End`] can follow on this lane.
    past_events: bool,
    ended: bool,
}

impl Align {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            lanes: vec![Progress::default(); lanes],
            watermark: None,
            idle: false,
            aligning: None,
            passed: Epoch::default(),
            torn: false,
            // With no lanes, `agreed` must emit the end without any event arriving.
            undecided: true,
            ended: false,
            exact: false,
        }
    }

    /// The alignment of lanes that are one lane of another alignment: what that makes of their watermarks is the same as if it had
    /// each of the lanes.
    pub(super) fn before_another(lanes: usize) -> Self {
        Self { exact: true, ..Self::new(lanes) }
    }

    /// Records an event received on a lane.
    pub(super) fn note(&mut self, from: usize, event: Event) {
        let lane = &mut self.lanes[from];
        match event {
            Event::Watermark(at) => (lane.watermark, lane.idle) = (Some(at), false),
            Event::Idle => lane.idle = true,
            // `Event::Partition` never leaves the stage of its source.
            Event::Partition(_) => {}
            // The lane has ended its round before, and the barrier did not wait for it.
            Event::Barrier(epoch) if epoch <= self.passed => {}
            Event::Barrier(epoch) => {
                lane.at_barrier = true;
                self.aligning = Some(epoch);
            }
            Event::Round(depth) => lane.at_round = Some(depth),
            Event::End => lane.ended = true,
        }
        self.undecided = true;
    }

    /// Notes that only the end can follow on this lane, which therefore holds back no other event.
    pub(super) fn pass_events(&mut self, from: usize) {
        if !self.lanes[from].past_events {
            self.lanes[from].past_events = true;
            self.undecided = true;
        }
    }

    /// Whether a lane is blocked by alignment and must not be read for now.
    pub(super) fn is_held(&self, lane: usize) -> bool {
        self.lanes[lane].at_barrier || self.lanes[lane].at_round.is_some()
    }

    /// Whether the last barrier was emitted within a round that had ended on some lanes: what comes before it on those is not
    /// what comes before it on the others.
    pub(super) fn is_torn(&self) -> bool {
        self.torn
    }

    /// Whether [`agreed`](Self::agreed) may have an event to emit.
    pub(super) fn is_undecided(&self) -> bool {
        self.undecided
    }

    /// The round that has ended on every lane still open. Where lanes are at rounds of nested loops, the innermost
    /// one.
    fn round_over(&self) -> Option<Depth> {
        let mut deepest = None;
        for lane in self.lanes.iter().filter(|lane| !lane.ended) {
            deepest = deepest.max(Some(lane.at_round?));
        }
        deepest
    }

    /// Whether a lane has delivered all of its input for now: it has ended, or its round has.
    pub(super) fn is_complete(&self, lane: usize) -> bool {
        self.lanes[lane].ended || self.lanes[lane].at_round.is_some()
    }

    /// The next event on which every lane still open agrees.
    pub(super) fn agreed(&mut self) -> Option<Event> {
        let open = || self.lanes.iter().filter(|lane| !lane.ended && !lane.past_events);
        // `None` sorts below every timestamp: a lane without a watermark holds back the rest.
        let low = open().filter(|lane| !lane.idle).map(|lane| lane.watermark).min();
        match low {
            Some(Some(at))
                if self.idle
                    || Some(at) > self.watermark
                    || (self.exact && Some(at) != self.watermark) =>
            {
                self.idle = false;
                // A lane that resumes after being idle may lag the merged watermark, which never goes back.
                let merged = self.watermark.filter(|_| !self.exact);
                let at = merged.map_or(at, |merged| merged.max(at));
                self.watermark = Some(at);
                return Some(Event::Watermark(at));
            }
            None if !self.idle && open().next().is_some() => {
                self.idle = true;
                return Some(Event::Idle);
            }
            _ => {}
        }
        if let Some(epoch) = self.aligning
            && (open().all(|lane| lane.at_barrier || lane.at_round.is_some())
                || is_planted(Fault::PassesWithTheFirstLane))
        {
            (self.aligning, self.passed) = (None, epoch);
            self.torn = open().any(|lane| lane.at_round.is_some());
            for lane in &mut self.lanes {
                lane.at_barrier = false;
            }
            return Some(Event::Barrier(epoch));
        }
        if let Some(depth) = self.round_over() {
            for lane in self.lanes.iter_mut().filter(|lane| lane.at_round == Some(depth)) {
                *lane = Progress::default();
            }
            (self.watermark, self.idle) = (None, false);
            return Some(Event::Round(depth));
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
    fn an_idle_lane_holds_back_no_watermark() {
        let mut align = Align::new(2);
        let [early, middle, late] = [1, 2, 3].map(Timestamp::from_micros);
        align.note(0, Event::Watermark(middle));
        assert_eq!(all(&mut align), []);
        align.note(1, Event::Idle);
        assert_eq!(all(&mut align), [Event::Watermark(middle)]);
        align.note(0, Event::Idle);
        assert_eq!(all(&mut align), [Event::Idle]);
        align.note(1, Event::Watermark(early));
        assert_eq!(
            all(&mut align),
            [Event::Watermark(middle)],
            "no longer idle, and the watermark does not go back"
        );
        align.note(1, Event::Watermark(late));
        assert_eq!(all(&mut align), [Event::Watermark(late)]);
        align.note(0, Event::Barrier(Epoch(1)));
        assert_eq!(all(&mut align), [], "an idle lane holds back barriers");
        align.note(1, Event::Barrier(Epoch(1)));
        assert_eq!(all(&mut align), [Event::Barrier(Epoch(1))]);
    }

    #[test]
    fn lanes_are_idle_in_each_round_anew() {
        let (mut align, round) = (Align::new(1), Event::Round(Depth(1)));
        for _ in 0..2 {
            align.note(0, Event::Idle);
            assert_eq!(all(&mut align), [Event::Idle]);
            align.note(0, round);
            assert_eq!(all(&mut align), [round]);
        }
    }

    #[test]
    fn two_alignments_are_as_one_when_a_lane_resumes() {
        let [early, middle, late] =
            [3, 5, 10].map(|at| Event::Watermark(Timestamp::from_micros(at)));
        let mut first = Align::before_another(2);
        first.note(0, Event::Idle);
        first.note(1, middle);
        assert_eq!(all(&mut first), [middle]);
        first.note(0, early);
        assert_eq!(all(&mut first), [early], "it lags the other, and what follows may be as early");
        let mut second = Align::new(2);
        second.note(0, middle);
        second.note(0, early);
        second.note(1, late);
        assert_eq!(all(&mut second), [early]);
        first.note(0, late);
        assert_eq!(all(&mut first), [middle]);
    }

    #[test]
    fn a_round_ends_on_every_lane_of_the_loop_and_the_inner_one_first() {
        let mut align = Align::new(3);
        let [outer, inner] = [1, 2].map(|depth| Event::Round(Depth(depth)));
        align.note(0, inner);
        align.note(1, outer);
        assert_eq!(all(&mut align), [], "the third lane may still bring records of the round");
        assert!(align.is_held(0) && align.is_held(1) && !align.is_held(2));
        align.note(2, Event::End);
        assert_eq!(all(&mut align), [inner]);
        assert!(!align.is_held(0) && align.is_held(1));
        align.note(0, outer);
        assert_eq!(all(&mut align), [outer]);
        align.note(1, inner);
        align.note(0, Event::End);
        assert_eq!(all(&mut align), [inner]);
        align.note(1, Event::End);
        assert_eq!(all(&mut align), [Event::End]);
    }

    #[test]
    fn a_barrier_that_comes_within_a_round_is_torn_and_does_not_come_again() {
        let mut align = Align::new(2);
        let (round, [first, second]) =
            (Event::Round(Depth(1)), [1, 2].map(|n| Event::Barrier(Epoch(n))));
        // The second lane is from outside the loop.
        align.note(0, round);
        align.note(1, first);
        assert_eq!(all(&mut align), [first]);
        assert!(align.is_torn());
        align.note(1, Event::End);
        assert_eq!(all(&mut align), [round]);
        align.note(0, first);
        assert!(!align.is_held(0) && all(&mut align).is_empty());
        align.note(0, second);
        assert_eq!(all(&mut align), [second]);
        assert!(!align.is_torn());
    }

    #[test]
    fn without_lanes_it_is_over() {
        assert_eq!(all(&mut Align::new(0)), [Event::End]);
    }
}
