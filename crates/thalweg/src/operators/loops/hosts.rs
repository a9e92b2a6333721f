//! What the hosts of a loop agree on.
//!
//! At the end of a round the tails of each host meet in memory. What they have folded travels to the first host, merged
//! on the way in the order of the hosts. That host changes its state by it and decides whether there is another round.
//! The others get what was merged, and change their own copies of the state by it.
//!
//! A host takes part if it has a task of the head, of the tail, or of an operator that reads the state: these are the
//! operators of the loop's tie. Records of a round may arrive on a host before the state of that round, so the tasks
//! that read it wait ([`with`](crate::Stream::with)).

use super::control::Control;
use crate::clock::Clock;
use crate::data::{Data, DecodeError, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Op, guard};
use crate::net::{Agree, Agreement, HostId, Part};
use crate::plan::{Builder, TaskContext, Tie, TieKind};
use crate::runtime::Running;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

/// Adds the last operator of a stage, the tail of a loop, to the ties of the loop's head: in the second place.
pub(super) fn tie_tail(builder: &mut Builder, head: usize, stage: usize) {
    builder.open_loops.retain(|open| *open != head);
    let Some(&tail) = builder.plan.stages[stage].operators.last() else { return };
    for tie in builder.plan.ties.iter_mut().filter(|tie| tie.operators.first() == Some(&head)) {
        tie.operators.insert(1, tail);
    }
}

/// Adds the last operator of a stage, which reads the state of a loop, to the tie by which it changes.
pub(super) fn tie_reader(builder: &mut Builder, head: usize, stage: usize) {
    let Some(&reader) = builder.plan.stages[stage].operators.last() else { return };
    let is_rounds =
        |tie: &&mut Tie| tie.kind == TieKind::Rounds && tie.operators.first() == Some(&head);
    if let Some(tie) = builder.plan.ties.iter_mut().find(is_rounds) {
        tie.operators.push(reader);
    }
}

/// The tie of a loop that an operator belongs to, with the loop's head and tail.
pub(super) struct Tied<'a> {
    pub(super) tie: &'a Tie,
    pub(super) head: usize,
    pub(super) tail: usize,
}

impl<'a> Tied<'a> {
    pub(super) fn of(cx: &TaskContext<'a>, kind: TieKind, op: usize) -> Result<Self> {
        let tie = cx.tie(kind, op)?;
        match tie.operators[..] {
            [head, tail, ..] => Ok(Self { tie, head, tail }),
            _ => {
                let what = "a part of a loop does not belong to one";
                Err(Error::new(ErrorKind::Internal, what).in_operator(&*cx.op(op).name()))
            }
        }
    }

    pub(super) fn part(&self) -> Part {
        self.tie.part()
    }
}

/// The host of each task of an operator, in their order, which is also that of the hosts.
pub(super) fn hosts_of(cx: &TaskContext<'_>, op: usize) -> Vec<HostId> {
    let stage = cx.plan.operators[op].stage;
    cx.plan.stages[stage].hosts(cx.links.hosts())
}

/// How the end of a round changes the state.
pub(super) struct Ending<S, D> {
    /// Merges one partial state into another.
    pub(super) global: Box<dyn Fn(&mut D, D) + Send + Sync>,
    /// Changes the state by the merged partial states, and returns whether the loop is to end.
    pub(super) until: Box<dyn Fn(&mut S, D) -> bool + Send + Sync>,
    /// Where hosts meet, if there are several. The job's channels own it.
    pub(super) rounds: OnceLock<Weak<Agreement<Rounds<S, D>>>>,
}

impl<S, D> Ending<S, D>
where
    S: Clone + Send + Sync + 'static,
    D: Data,
{
    pub(super) fn new(
        global: impl Fn(&mut D, D) + Send + Sync + 'static,
        until: impl Fn(&mut S, D) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { global: Box::new(global), until: Box::new(until), rounds: OnceLock::new() }
    }

    /// Joins the agreement on the end of rounds, with the first task of this host that calls it. `op` is an operator of
    /// the loop.
    pub(super) fn join(
        self: &Arc<Self>,
        control: &Arc<Control<S>>,
        cx: &TaskContext<'_>,
        op: usize,
    ) -> Result<()> {
        if self.rounds.get().is_some() {
            return Ok(());
        }
        let tied = Tied::of(cx, TieKind::Rounds, op)?;
        let mut contributors = hosts_of(cx, tied.tail);
        contributors.dedup();
        let all = tied.tie.operators.iter().flat_map(|&op| hosts_of(cx, op));
        let listeners: Vec<_> = BTreeSet::from_iter(all).into_iter().collect();
        let rounds = Rounds {
            control: Arc::clone(control),
            ending: Arc::clone(self),
            op: cx.op(tied.tail),
            clock: cx.clock.clone(),
            decides: contributors.first() == Some(&cx.links.hosts().me()),
        };
        let joined = Agreement::join(cx.links, tied.part(), &contributors, &listeners, rounds);
        let _ = self.rounds.set(Arc::downgrade(&joined));
        Ok(())
    }
}

/// What a host, or several, bring to the end of a round.
pub(super) struct RoundEnd<D> {
    /// How many records the tails received, and fed back.
    pub(super) counts: [u64; 2],
    pub(super) part: D,
}

impl<D: Data> RoundEnd<D> {
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.counts.encode(&mut bytes);
        self.part.encode(&mut bytes);
        bytes
    }

    fn decode(input: &[u8]) -> Result<Self, DecodeError> {
        let read =
            |input: &mut &[u8]| Ok(Self { counts: Data::decode(input)?, part: D::decode(input)? });
        decode_whole(input, read)
    }
}

/// The agreement of hosts on the end of a round.
pub(super) struct Rounds<S, D> {
    control: Arc<Control<S>>,
    ending: Arc<Ending<S, D>>,
    /// The tail.
    op: Op,
    clock: Clock,
    /// Whether this host decides if there is another round.
    decides: bool,
}

impl<S, D> Rounds<S, D>
where
    S: Clone + Send + Sync + 'static,
    D: Data,
{
    fn decoded(&self, input: &[u8]) -> Result<RoundEnd<D>> {
        guard(&self.op, || RoundEnd::decode(input)).map_err(|error| {
            let what = format!(
                "what the rounds of a loop come to on another host cannot be decoded: {error}"
            );
            self.error(ErrorKind::Internal, what)
        })
    }

    fn error(&self, kind: ErrorKind, what: impl Into<String>) -> Error {
        Error::new(kind, what).in_operator(&*self.op.name())
    }

    /// Changes this host's state; `decide` returns whether the condition holds, from what `until` says here.
    fn end_round(&self, end: RoundEnd<D>, decide: impl FnOnce(bool) -> bool) {
        let RoundEnd { counts, part } = end;
        // The closures must not wait for the job whose round they end.
        let _running = Running::call(self.op.signals());
        guard(&self.op, || {
            let change = |state: &mut S| decide((self.ending.until)(state, part));
            self.control.end_round(counts, (&self.clock, self.op.signals()), change);
        });
    }
}

impl<S, D> Agree for Rounds<S, D>
where
    S: Clone + Send + Sync + 'static,
    D: Data,
{
    const MAY_BLOCK: bool = true;

    fn merge(&self, earlier: Vec<u8>, later: &[u8]) -> Result<Vec<u8>> {
        let (mut all, later) = (self.decoded(&earlier)?, self.decoded(later)?);
        for (count, later) in all.counts.iter_mut().zip(later.counts) {
            *count = count.saturating_add(later);
        }
        let _running = Running::call(self.op.signals());
        Ok(guard(&self.op, || {
            (self.ending.global)(&mut all.part, later.part);
            all.encoded()
        }))
    }

    /// Puts before what was merged whether the condition holds.
    fn conclude(&self, merged: Vec<u8>) -> Result<Vec<u8>> {
        let mut holds = false;
        self.end_round(self.decoded(&merged)?, |here| {
            holds = here;
            here
        });
        let mut result = Vec::with_capacity(1 + merged.len());
        result.push(u8::from(holds));
        result.extend(merged);
        Ok(result)
    }

    fn agreed(&self, result: &[u8]) -> Result<()> {
        if self.decides {
            return Ok(());
        }
        let (holds, end) = match result {
            [holds @ 0..=1, end @ ..] => (*holds == 1, self.decoded(end)?),
            _ => return Err(self.error(ErrorKind::Internal, "a torn decision about a loop")),
        };
        let mut here = holds;
        self.end_round(end, |until| {
            here = until;
            holds
        });
        if here == holds {
            return Ok(());
        }
        let what = format!(
            "the closure that ends a loop has returned {here} on this host and {holds} on the first: on all hosts it \
             must do the same with the same state"
        );
        Err(self.error(ErrorKind::Plan, what))
    }
}

/// The agreement of hosts that the input of all heads is complete.
pub(super) struct Gathering<S>(Arc<Control<S>>);

impl<S: Clone + Send + Sync + 'static> Gathering<S> {
    /// Joins, with the first head of this host that calls it. `kind` is the tie of the loop whose channel is used.
    pub(super) fn join(
        control: &Arc<Control<S>>,
        cx: &TaskContext<'_>,
        kind: TieKind,
        head: usize,
    ) -> Result<()> {
        if cx.links.hosts().count() == 1 || control.gathering.get().is_some() {
            return Ok(());
        }
        let tied = Tied::of(cx, kind, head)?;
        let mut hosts = hosts_of(cx, head);
        hosts.dedup();
        let all = Self(Arc::clone(control));
        let joined = Agreement::join(cx.links, tied.part(), &hosts, &[], all);
        let _ = control.gathering.set(Arc::downgrade(&joined));
        Ok(())
    }
}

impl<S: Clone + Send + Sync + 'static> Agree for Gathering<S> {
    const MAY_BLOCK: bool = false;

    fn merge(&self, earlier: Vec<u8>, _: &[u8]) -> Result<Vec<u8>> {
        Ok(earlier)
    }

    fn agreed(&self, _: &[u8]) -> Result<()> {
        self.0.all_gathered();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::{Needs, Verdict};
    use super::*;
    use crate::Environment;
    use crate::config::Config;
    use crate::flow::Depth;
    use crate::runtime::Cluster;

    /// A host of a loop that adds up, and ends above 5.
    fn host(decides: bool) -> Rounds<u64, u64> {
        let until = |state: &mut u64, part| {
            *state += part;
            *state > 5
        };
        Rounds {
            control: Arc::new(Control::new(0, Depth(1), 0, 9, Needs::Nothing)),
            ending: Arc::new(Ending::new(|all, part| *all += part, until)),
            op: Op::new(0, "replay".into(), Depth(1), Arc::default()),
            clock: Clock::simulated(),
            decides,
        }
    }

    #[test]
    fn hosts_that_differ_on_the_end_of_a_loop_fail() {
        let (first, other) = (host(true), host(false));
        let end = |part: u64| RoundEnd { counts: [1, 0], part }.encoded();
        let result = first.conclude(first.merge(end(1), &end(2)).unwrap()).unwrap();
        for host in [&first, &other] {
            host.agreed(&result).unwrap();
            assert_eq!((*host.control.state(), host.control.rounds()), (3, 1));
        }
        // With 3 more, the condition holds.
        let error = other.agreed(&result).unwrap_err();
        assert!(error.to_string().contains("returned true on this host and false"), "{error}");
        assert_eq!((error.kind(), error.operator()), (ErrorKind::Plan, Some("replay")));
        assert_eq!(other.control.verdict(2), Some(Verdict::Another));
    }

    #[test]
    fn what_is_no_decision_is_refused() {
        let decision = [&[0][..], &RoundEnd { counts: [1, 0], part: 7u64 }.encoded()].concat();
        let other = host(false);
        for torn in
            [&[][..], &[2], &decision[..decision.len() - 1], &[&decision[..], &[0]].concat()]
        {
            let error = other.agreed(torn).unwrap_err();
            assert_eq!((error.kind(), error.operator()), (ErrorKind::Internal, Some("replay")));
        }
        other.agreed(&decision).unwrap_err();
        assert!(other.merge(decision, &[]).is_err());
    }

    #[test]
    fn a_state_cannot_be_read_behind_its_loop() {
        let cluster = Cluster::new(0, 1, 2);
        let env = Environment::on_host(Config::default(), &cluster, HostId(0), &[1, 1]);
        let mut kept = None;
        let (outcome, left) = env
            .iter(0..9u64)
            .iterate(3, 0u64, |numbers, state| {
                kept = Some(state.clone());
                numbers
            })
            .all_rounds();
        outcome.for_each(drop);
        left.with(&kept.unwrap()).map(|(n, sum)| n + sum).for_each(drop);
        let error = env.run().unwrap_err();
        assert!(error.to_string().contains("only be read in the loop's body"), "{error}");
        assert!(error.operator().unwrap_or_default().starts_with("with ("), "{error}");
    }
}
