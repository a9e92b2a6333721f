//! The channels of a host: the receiver of each, and the frames that wait for their channel to be opened.
//!
//! One thread at a time, the one that reads, gives frames to receivers, so those of a channel arrive in order, and the ones that have
//! waited before all others.

use crate::error::Error;
use crate::flow::discard;
use crate::memory::{InFlight, MemoryPool};
use crate::net::{Channel, HostId, Part, Receiver};
use crate::sync::{Mutex, lock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The channels of a host.
#[derive(Default)]
pub(super) struct Channels(Mutex<State>);

#[derive(Default)]
struct State {
    channels: BTreeMap<Channel, Slot>,
    /// The channels that were opened while frames waited for them.
    opened: Vec<Channel>,
    /// The jobs that are over on this host.
    over: Jobs,
    /// The jobs that are over on other hosts, which are not needed for them any more.
    over_there: BTreeMap<HostId, Jobs>,
    /// The hosts that are lost, and how.
    lost: BTreeMap<HostId, Arc<str>>,
    /// Counts the frames that wait.
    memory: Option<MemoryPool>,
}

#[derive(Default)]
struct Slot {
    receiver: Option<Receiver>,
    /// Frames and their senders. Once it is empty in an open channel, it stays so.
    waiting: Vec<(HostId, Vec<u8>)>,
    /// Counts the frames that wait.
    held: Option<InFlight>,
}

impl Slot {
    fn wait(&mut self, from: HostId, frame: &[u8], memory: Option<&MemoryPool>) {
        self.waiting.push((from, frame.to_vec()));
        let held = self.held.take().or_else(|| memory.map(|memory| memory.carry(0)));
        self.held = held.map(|mut held| {
            held.resize(held.bytes() + frame.len());
            held
        });
    }
}

impl Channels {
    /// Counts the frames that wait in a pool, from now on.
    pub(super) fn count_in(&self, memory: &MemoryPool) {
        lock(&self.0).memory = Some(memory.clone());
    }

    /// Called by the thread that reads: a frame has arrived.
    pub(super) fn take(&self, from: HostId, channel: Channel, frame: &[u8]) {
        let mut state = lock(&self.0);
        if state.over.contains(channel.job) {
            return;
        }
        let State { channels, memory, .. } = &mut *state;
        let slot = channels.entry(channel).or_default();
        match &slot.receiver {
            Some(receiver) if slot.waiting.is_empty() => {
                let receiver = receiver.clone();
                drop(state);
                receiver.take(from, frame);
                discard([receiver]);
            }
            _ => slot.wait(from, frame, memory.as_ref()),
        }
    }

    /// Called by the thread that reads: gives channels that were opened the frames that have waited.
    pub(super) fn deliver_waiting(&self) {
        loop {
            let mut state = lock(&self.0);
            let Some(channel) = state.opened.pop() else { return };
            let Some(slot) = state.channels.get_mut(&channel) else { continue };
            let (waiting, _held) = (std::mem::take(&mut slot.waiting), slot.held.take());
            let Some(receiver) = slot.receiver.clone() else { continue };
            drop(state);
            waiting.iter().for_each(|(from, frame)| receiver.take(*from, frame));
            discard([receiver]);
        }
    }

    /// Sets the receiver of a channel. Returns whether frames wait for it, which the thread that reads has to
    /// [deliver](Self::deliver_waiting).
    pub(super) fn open(&self, channel: Channel, receiver: Receiver) -> bool {
        let mut state = lock(&self.0);
        let slot = state.channels.entry(channel).or_default();
        let waiting = !slot.waiting.is_empty();
        slot.receiver = Some(receiver.clone());
        if waiting {
            state.opened.push(channel);
        }
        let lost: Vec<_> = state.lost_to(channel.job).collect();
        drop(state);
        lost.into_iter().for_each(|(host, how)| receiver.lost(host, &how));
        discard([receiver]);
        waiting
    }

    /// A job is over on this host.
    pub(super) fn close(&self, job: u64) {
        let mut state = lock(&self.0);
        state.over.insert(job);
        let first = |job| Channel { job, part: Part::Job };
        let mut closed = state.channels.split_off(&first(job));
        if let Some(next) = job.checked_add(1) {
            let mut later = closed.split_off(&first(next));
            state.channels.append(&mut later);
        }
        drop(state);
        // With values of the program, such as what its closures own: their destructors may panic.
        discard(closed.into_values());
    }

    /// A job is over on another host.
    pub(super) fn over_on(&self, host: HostId, job: u64) {
        lock(&self.0).over_there.entry(host).or_default().insert(job);
    }

    /// A host is lost: fails the jobs that need it.
    pub(super) fn lose(&self, host: HostId, how: &str) {
        let mut state = lock(&self.0);
        state.lost.entry(host).or_insert_with(|| how.into());
        let receivers: Vec<_> = state
            .channels
            .iter()
            .filter(|(channel, _)| state.needs(host, channel.job))
            .filter_map(|(_, slot)| slot.receiver.clone())
            .collect();
        drop(state);
        receivers.iter().for_each(|receiver| receiver.lost(host, how));
        discard(receivers);
    }

    /// Fails the job of a channel, if that is open.
    pub(super) fn fail(&self, channel: Channel, error: Error) {
        let state = lock(&self.0);
        let receiver = state.channels.get(&channel).and_then(|slot| slot.receiver.clone());
        drop(state);
        if let Some(receiver) = receiver {
            receiver.fail(error);
            discard([receiver]);
        }
    }
}

impl State {
    /// Whether a job may need another host.
    fn needs(&self, host: HostId, job: u64) -> bool {
        self.over_there.get(&host).is_none_or(|over| !over.contains(job))
    }

    /// The hosts that are lost to a job.
    fn lost_to(&self, job: u64) -> impl Iterator<Item = (HostId, Arc<str>)> + '_ {
        let needed = self.lost.iter().filter(move |(host, _)| self.needs(**host, job));
        needed.map(|(host, how)| (*host, Arc::clone(how)))
    }
}

/// A set of jobs, as ranges of numbers: those of jobs that are over are at most as many as environments and jobs that run.
#[derive(Debug, Default)]
struct Jobs {
    /// The first of each range, and the last.
    ranges: BTreeMap<u64, u64>,
}

impl Jobs {
    fn contains(&self, job: u64) -> bool {
        self.ranges.range(..=job).next_back().is_some_and(|(_, last)| job <= *last)
    }

    fn insert(&mut self, job: u64) {
        if self.contains(job) {
            return;
        }
        let last = match job.checked_add(1).and_then(|next| self.ranges.remove(&next)) {
            Some(last) => last,
            None => job,
        };
        match self.ranges.range_mut(..job).next_back() {
            Some((_, before)) if before.checked_add(1) == Some(job) => *before = last,
            _ => {
                self.ranges.insert(job, last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::splitmix64;
    use crate::error::Result;
    use crate::flow::Signals;
    use crate::net::Receive;
    use std::collections::BTreeSet;

    /// Keeps what it is given.
    #[derive(Default)]
    struct Keep {
        frames: Mutex<Vec<(usize, u8)>>,
        lost: Mutex<Vec<(usize, String)>>,
    }

    impl Receive for Keep {
        fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
            lock(&self.frames).push((from.0, frame[0]));
            Ok(())
        }

        fn lost(&self, host: HostId, how: &str) {
            lock(&self.lost).push((host.0, how.to_owned()));
        }
    }

    fn open(channels: &Channels, channel: Channel) -> (Arc<Keep>, bool) {
        let keep = Arc::new(Keep::default());
        let signals = Arc::new(Signals::default());
        let waiting = channels.open(channel, Receiver::new(Arc::clone(&keep) as _, signals));
        (keep, waiting)
    }

    fn tie(job: u64) -> Channel {
        Channel { job, part: Part::Tie(1) }
    }

    #[test]
    fn frames_wait_until_their_channel_is_open_and_stay_in_order() {
        let channels = Channels::default();
        channels.take(HostId(1), tie(0), &[1]);
        channels.take(HostId(2), tie(0), &[2]);
        let (keep, waiting) = open(&channels, tie(0));
        assert!(waiting);
        // Before the thread that reads has delivered what waits.
        channels.take(HostId(1), tie(0), &[3]);
        assert!(lock(&keep.frames).is_empty());
        channels.deliver_waiting();
        channels.take(HostId(1), tie(0), &[4]);
        assert_eq!(*lock(&keep.frames), [(1, 1), (2, 2), (1, 3), (1, 4)]);
    }

    #[test]
    fn jobs_that_are_over_keep_and_get_nothing() {
        let channels = Channels::default();
        let ((first, _), (second, _)) = (open(&channels, tie(7)), open(&channels, tie(8)));
        channels.take(HostId(1), Channel { job: 7, part: Part::Edge(0) }, &[0]);
        channels.close(7);
        assert_eq!(Arc::strong_count(&first), 1, "the receiver is dropped");
        channels.take(HostId(1), tie(7), &[1]);
        channels.take(HostId(1), tie(8), &[2]);
        assert_eq!((lock(&first.frames).len(), lock(&second.frames).len()), (0, 1));
        assert_eq!(lock(&channels.0).channels.len(), 1, "nothing waits for a job that is over");
        channels.close(8);
        channels.close(u64::MAX);
        assert!(lock(&channels.0).channels.is_empty());
    }

    #[test]
    fn a_host_is_lost_to_the_jobs_that_need_it() {
        let channels = Channels::default();
        let ((first, _), (second, _)) = (open(&channels, tie(0)), open(&channels, tie(1)));
        channels.over_on(HostId(2), 0);
        channels.lose(HostId(2), "it has left");
        assert!(lock(&first.lost).is_empty(), "its job is over there");
        let left = vec![(2, "it has left".to_owned())];
        assert_eq!(*lock(&second.lost), left);
        let (late, _) = open(&channels, tie(2));
        assert_eq!(*lock(&late.lost), left);
        let (late, _) = open(&channels, Channel { job: 0, part: Part::Edge(0) });
        assert!(lock(&late.lost).is_empty());
    }

    #[test]
    fn a_set_of_jobs_is_a_few_ranges() {
        let (mut jobs, mut expected) = (Jobs::default(), BTreeSet::new());
        let mut seed = 1;
        for _ in 0..500 {
            let job = splitmix64(&mut seed) % 300;
            jobs.insert(job);
            expected.insert(job);
            for job in 0..301 {
                assert_eq!(jobs.contains(job), expected.contains(&job));
            }
        }
        // All but one.
        let mut jobs = Jobs::default();
        (0..1000).filter(|job| *job != 10).for_each(|job| jobs.insert(job));
        assert_eq!(jobs.ranges, BTreeMap::from([(0, 9), (11, 999)]));
        jobs.insert(u64::MAX);
        jobs.insert(u64::MAX);
        assert!(jobs.contains(u64::MAX) && !jobs.contains(u64::MAX - 1));
    }
}
