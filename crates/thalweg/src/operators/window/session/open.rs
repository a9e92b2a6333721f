//! The open sessions of one key: how records extend them, and how two of them become one.
//!
//! A session is the span from its first record to the last moment at which another one may still join,
//! which is the latest of its records' times plus their gaps. Both ends belong to it. Two sessions that
//! have a moment in common are one, so those of a key are always apart.

/// One session.
#[derive(Debug)]
pub(super) struct Open<S> {
    /// The time of its first record.
    pub(super) first: i64,
    /// The last moment at which a record may join.
    pub(super) until: i64,
    pub(super) state: S,
}

/// The sessions of a key. Nearly always there is one at most, which lies in place.
pub(super) struct Sessions<S> {
    /// Tells the key from others when its timer comes, which may have come too late for one before it.
    pub(super) number: u64,
    /// When the timer comes that counts; those for other times do not.
    armed: Option<i64>,
    latest: Option<Open<S>>,
    /// Those before it, in order.
    earlier: Vec<Open<S>>,
}

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is in a session.
    In,
    /// Likewise, and a timer is to be set.
    Arm(i64),
    /// The session that it would have been in has ended.
    Late,
}

impl<S> Sessions<S> {
    pub(super) fn new(number: u64) -> Self {
        Self { number, armed: None, latest: None, earlier: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.latest.is_none()
    }

    /// The bytes beside this.
    pub(super) fn heap(&self) -> usize {
        self.earlier.capacity() * size_of::<Open<S>>()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Open<S>> {
        self.earlier.iter().chain(&self.latest)
    }

    /// Takes in a record of the span from `at` to `until`. `ended` says which moments are past: sessions
    /// that end there have been given out.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        (at, until): (i64, i64),
        ended: impl Fn(i64) -> bool,
        start: impl FnOnce() -> S,
        update: impl FnOnce(&mut S),
        combine: impl FnMut(&mut S, S),
    ) -> Taken {
        if let Some(open) = &mut self.latest
            && at <= open.until
            && open.first <= until
            && self.earlier.last().is_none_or(|earlier| earlier.until < at)
        {
            open.first = open.first.min(at);
            open.until = open.until.max(until);
            update(&mut open.state);
            return Taken::In;
        }
        let Some(open) = self.join((at, until), combine) else {
            if ended(until) {
                return Taken::Late;
            }
            let mut state = start();
            update(&mut state);
            self.add(Open { first: at, until, state });
            // A later one is found when the timer of an earlier one comes.
            if self.armed.is_some_and(|armed| armed <= until) {
                return Taken::In;
            }
            self.armed = Some(until);
            return Taken::Arm(until);
        };
        update(&mut open.state);
        Taken::In
    }

    /// Makes one session of all that have a moment in common with the span, and of the span.
    #[inline(never)]
    fn join(
        &mut self,
        (at, until): (i64, i64),
        mut combine: impl FnMut(&mut S, S),
    ) -> Option<&mut Open<S>> {
        let touched = self.earlier.partition_point(|open| open.until < at)
            ..self.earlier.partition_point(|open| open.first <= until);
        let in_latest = |open: &Open<S>| at <= open.until && open.first <= until;
        if touched.len() == 1 && !self.latest.as_ref().is_some_and(in_latest) {
            // What comes out of order is nearly always in one session, which must not be moved for it.
            let open = &mut self.earlier[touched.start];
            open.first = open.first.min(at);
            open.until = open.until.max(until);
            return Some(open);
        }
        let latest = self.latest.take_if(|open| in_latest(open));
        let into_latest = latest.is_some();
        let place = touched.start;
        let joined = self.earlier.drain(touched).chain(latest).reduce(|mut one, other| {
            one.until = other.until;
            combine(&mut one.state, other.state);
            one
        });
        let mut joined = joined?;
        joined.first = joined.first.min(at);
        joined.until = joined.until.max(until);
        if into_latest {
            return Some(self.latest.insert(joined));
        }
        self.earlier.insert(place, joined);
        Some(&mut self.earlier[place])
    }

    /// Shows all of them, in order.
    pub(super) fn each_open(&mut self, each: impl FnMut(&mut Open<S>)) {
        self.earlier.iter_mut().chain(&mut self.latest).for_each(each);
    }

    /// Adds a session that has no moment in common with another.
    fn add(&mut self, open: Open<S>) {
        match &mut self.latest {
            Some(latest) if latest.first < open.first => {
                self.earlier.push(std::mem::replace(latest, open));
            }
            Some(_) => {
                let place = self.earlier.partition_point(|other| other.first < open.first);
                self.earlier.insert(place, open);
            }
            None => self.latest = Some(open),
        }
    }

    /// The timer of this time has come: gives out the sessions that ended by then, and answers when the
    /// next timer is to come.
    pub(super) fn end(&mut self, at: i64, mut give: impl FnMut(Open<S>)) -> Option<i64> {
        if self.armed != Some(at) {
            return None;
        }
        let ended = self.earlier.partition_point(|open| open.until <= at);
        self.earlier.drain(..ended).for_each(&mut give);
        if self.earlier.is_empty() {
            self.earlier = Vec::new();
            if let Some(open) = self.latest.take_if(|open| open.until <= at) {
                give(open);
            }
        }
        self.armed = self.earlier.first().or(self.latest.as_ref()).map(|open| open.until);
        self.armed
    }
}
