//! What operators that hold events back have passed on of event time.

use crate::flow::Event;
use crate::time::Timestamp;

/// The event time that the receivers know.
///
/// Results of records that arrive while the receivers take the stream for idle may be late there. So that it is not idle any more
/// must not wait for what the watermark waits for that says so.
#[derive(Default)]
pub(crate) struct PassedTime {
    watermark: Option<Timestamp>,
    idle: bool,
}

impl PassedTime {
    /// Notes an event that is passed on.
    pub(crate) fn pass(&mut self, event: Event) {
        match event {
            Event::Watermark(at) => *self = Self { watermark: Some(at), idle: false },
            Event::Idle => self.idle = true,
            Event::Round(_) => *self = Self::default(),
            Event::Partition(_) | Event::Barrier(_) | Event::End => {}
        }
    }

    /// What is to be passed on at once when this event is held back: after being idle, the last watermark again, or the least.
    pub(crate) fn hold(&mut self, event: Event) -> Option<Event> {
        let resumes = matches!(event, Event::Watermark(_)) && std::mem::take(&mut self.idle);
        resumes.then(|| Event::Watermark(self.watermark.unwrap_or(Timestamp::MIN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_a_stream_is_idle_no_more_does_not_wait() {
        let [early, late] = [1, 2].map(|at| Event::Watermark(Timestamp::from_micros(at)));
        let mut passed = PassedTime::default();
        assert_eq!(passed.hold(early), None);
        passed.pass(Event::Idle);
        assert_eq!(passed.hold(Event::Idle), None);
        assert_eq!(passed.hold(early), Some(Event::Watermark(Timestamp::MIN)));
        assert_eq!(passed.hold(late), None, "the receivers know");
        passed.pass(early);
        passed.pass(Event::Idle);
        assert_eq!(passed.hold(late), Some(early));
    }
}
