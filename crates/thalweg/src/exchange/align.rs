//! Alignment of the events of several lanes, so that operators see each event once.
//!
//! A lane is open until it has ended, or can deliver nothing but its end. The watermark is the minimum over the open
//! lanes that are not idle. Tasks that hear from the same tasks that their input has resumed do so one after the other, and each may
//! have results to send first, so lanes from such tasks are idle only if all of them are (see [`Idleness`]).
//!
//! A barrier is aligned when every open lane has delivered it or the end of a round; a lane that delivers it early is blocked
//! until then, unless the barrier [overtakes](super::overtake) the batches of the others. Heads of a loop send it between two
//! rounds; within a round it comes from outside the loop only, while that has not ended, and then it is not held back, but
//! torn: there is no checkpoint. The end is reached when every lane has ended. A round of a loop ends when every lane that has
//! not ended has delivered its end; a lane from outside the loop ends after the first round.

use crate::fault::{Fault, is_planted};
use crate::flow::{Depth, Epoch, Event};
use crate::time::Timestamp;
use std::ops::Range;
use std::sync::Arc;

/// Where the tasks that send on an edge have it from that they are idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Idleness {
    /// The stages in which the records were given their timestamps, in order. None if there is no event time.
    pub(crate) origins: Arc<[usize]>,
    /// Whether each of the tasks is idle when all tasks of `origins` are, and at no other time.
    pub(crate) together: bool,
}

impl Idleness {
    /// Whether tasks with this idleness resume when others do that have the `other`.
    fn ends_with(&self, other: &Self) -> bool {
        let is_origin = |stage| self.origins.binary_search(stage).is_ok();
        self.together && !other.origins.is_empty() && other.origins.iter().all(is_origin)
    }
}

/// The progress of the lanes of an inlet.
pub(super) struct Align {
    lanes: Vec<Progress>,
    groups: Vec<Group>,
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

/// Lanes with the same idleness.
struct Group {
    lanes: Range<usize>,
    /// The groups whose lanes are not idle only if these are not, or will not be in a moment.
    resumes_with: Vec<usize>,
    /// Whether one of the lanes is not idle.
    is_awake: bool,
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

impl Progress {
    fn is_open(&self) -> bool {
        !self.ended && !self.past_events
    }
}

impl Align {
    /// Of lanes with this idleness.
    pub(super) fn new<'a>(lanes: impl Iterator<Item = &'a Idleness>) -> Self {
        let mut kinds = Vec::<&Idleness>::new();
        let mut groups = Vec::<Group>::new();
        let mut count = 0;
        for idleness in lanes {
            match (kinds.last(), groups.last_mut()) {
                (Some(last), Some(group)) if *last == idleness => group.lanes.end += 1,
                _ => {
                    kinds.push(idleness);
                    let lanes = count..count + 1;
                    groups.push(Group { lanes, resumes_with: Vec::new(), is_awake: false });
                }
            }
            count += 1;
        }
        for (group, idleness) in groups.iter_mut().zip(&kinds) {
            group.resumes_with =
                (0..kinds.len()).filter(|other| idleness.ends_with(kinds[*other])).collect();
        }
        Self {
            lanes: vec![Progress::default(); count],
            groups,
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
    pub(super) fn before_another(lanes: usize, idleness: &Idleness) -> Self {
        Self { exact: true, ..Self::new(std::iter::repeat_n(idleness, lanes)) }
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

    /// The last barrier that was emitted.
    pub(super) fn passed(&self) -> Epoch {
        self.passed
    }

    /// The barrier that some lanes have delivered, and that was not emitted yet.
    pub(super) fn aligning(&self) -> Option<Epoch> {
        self.aligning
    }

    /// Marks the barrier that some lanes have delivered as emitted, though others have not, and unblocks the lanes. Returns for
    /// each lane whether it is still to deliver the barrier: it has not done so, and has not ended. Not within a loop.
    pub(super) fn overtake(&mut self) -> Vec<bool> {
        self.passed = self.aligning.take().unwrap_or(self.passed);
        self.undecided = true;
        let mut awaited = Vec::with_capacity(self.lanes.len());
        for lane in &mut self.lanes {
            let has_come = std::mem::take(&mut lane.at_barrier);
            awaited.push(!has_come && !lane.ended);
        }
        awaited
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

    /// The least watermark of the open lanes that are not idle, if there are any. `None` sorts below every timestamp: a lane
    /// without a watermark holds back the rest.
    fn low(&mut self) -> Option<Option<Timestamp>> {
        for group in &mut self.groups {
            let mut lanes = self.lanes[group.lanes.clone()].iter();
            group.is_awake = lanes.any(|lane| lane.is_open() && !lane.idle);
        }
        let mut low = None::<Option<Timestamp>>;
        for group in &self.groups {
            let resumes = group.resumes_with.iter().any(|other| self.groups[*other].is_awake);
            let lanes = self.lanes[group.lanes.clone()].iter();
            let holding = lanes.filter(|lane| lane.is_open() && (resumes || !lane.idle));
            low = low.into_iter().chain(holding.map(|lane| lane.watermark)).min();
        }
        low
    }

    /// What the lanes agree on of event time, if that is news.
    fn agreed_time(&mut self) -> Option<Event> {
        let any_open = self.lanes.iter().any(Progress::is_open);
        match self.low() {
            Some(low) => {
                // A lane that resumes after being idle may lag the merged watermark, which never goes back.
                let merged = if self.exact { low } else { low.max(self.watermark) };
                // One that has none yet holds back all.
                let [at, before] = [merged, self.watermark].map(|at| at.unwrap_or(Timestamp::MIN));
                if !self.idle && at == before && (merged.is_none() || self.watermark.is_some()) {
                    return None;
                }
                (self.idle, self.watermark) = (false, Some(at));
                Some(Event::Watermark(at))
            }
            None if !self.idle && any_open => {
                self.idle = true;
                Some(Event::Idle)
            }
            _ => None,
        }
    }

    /// The next event on which every lane still open agrees.
    pub(super) fn agreed(&mut self) -> Option<Event> {
        if let Some(event) = self.agreed_time() {
            return Some(event);
        }
        let open = || self.lanes.iter().filter(|lane| lane.is_open());
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

    /// Of lanes from tasks that are idle each by itself.
    fn independent(lanes: usize) -> Align {
        Align::new(std::iter::repeat_n(&Idleness::default(), lanes))
    }

    fn all(align: &mut Align) -> Vec<Event> {
        std::iter::from_fn(|| align.agreed()).collect()
    }

    #[test]
    fn events_come_once_when_every_lane_has_them() {
        let mut align = independent(2);
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
        let mut align = independent(2);
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
        let mut align = independent(2);
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
        let (mut align, round) = (independent(1), Event::Round(Depth(1)));
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
        let mut first = Align::before_another(2, &Idleness::default());
        first.note(0, Event::Idle);
        first.note(1, middle);
        assert_eq!(all(&mut first), [middle]);
        first.note(0, early);
        assert_eq!(all(&mut first), [early], "it lags the other, and what follows may be as early");
        let mut second = independent(2);
        second.note(0, middle);
        second.note(0, early);
        second.note(1, late);
        assert_eq!(all(&mut second), [early]);
        first.note(0, late);
        assert_eq!(all(&mut first), [middle]);
    }

    #[test]
    fn lanes_that_are_idle_together_resume_together() {
        let idleness = |origins: &[usize], together| Idleness { origins: origins.into(), together };
        let at = |second| Event::Watermark(Timestamp::from_secs(second));
        // Two windows behind the tasks of stage 1, those tasks, and windows behind stages 1 and 2.
        let [one, direct, both] = [(&[1][..], true), (&[1], false), (&[1, 2], true)]
            .map(|(origins, together)| idleness(origins, together));
        let new = |kinds: &[&Idleness]| {
            let mut align = Align::new(kinds.iter().copied());
            for lane in 0..kinds.len() {
                align.note(lane, at(5));
                align.note(lane, Event::Idle);
            }
            assert_eq!(all(&mut align), [Event::Idle]);
            align
        };
        let mut align = new(&[&one, &one]);
        align.note(0, at(30));
        assert_eq!(all(&mut align), [at(5)], "the other has yet to hear of it");
        align.note(1, at(30));
        assert_eq!(all(&mut align), [at(30)]);
        align.note(0, Event::Idle);
        assert_eq!(all(&mut align), []);
        align.note(1, Event::Idle);
        assert_eq!(all(&mut align), [Event::Idle]);

        for kinds in [[&one, &direct, &direct], [&one, &direct, &both]] {
            let mut align = new(&kinds);
            align.note(1, at(30));
            assert_eq!(all(&mut align), [at(5)]);
            align.note(0, at(30));
            let others = if *kinds[2] == both { vec![] } else { vec![at(30)] };
            assert_eq!(all(&mut align), others);
        }
        // What one of the tasks is says nothing of the others, and what another stage is says nothing of the first.
        let mut align = new(&[&direct, &direct, &one]);
        align.note(2, at(30));
        assert_eq!(all(&mut align), [at(30)]);
        let mut align = new(&[&one, &both]);
        align.note(1, at(30));
        assert_eq!(all(&mut align), [at(30)]);

        let mut first = Align::before_another(2, &one);
        first.note(0, Event::Idle);
        first.note(1, Event::Idle);
        assert_eq!(all(&mut first), [Event::Idle]);
        first.note(1, at(5));
        assert_eq!(all(&mut first), [Event::Watermark(Timestamp::MIN)], "one has none yet");
        first.note(0, at(7));
        assert_eq!(all(&mut first), [at(5)]);
    }

    #[test]
    fn a_round_ends_on_every_lane_of_the_loop_and_the_inner_one_first() {
        let mut align = independent(3);
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
        let mut align = independent(2);
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
        assert_eq!(all(&mut independent(0)), [Event::End]);
    }
}
