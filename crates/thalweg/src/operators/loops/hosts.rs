//! What the hosts of a loop agree on.
//!
//! At the end of a round the tails of each host meet in memory. What they have folded travels to the first host, merged
//! on the way in the order of the hosts. That host changes its state by it and decides whether there is another round.
//! The others get what was merged, and change their own copies of the state by it.
//!
//! In a job with checkpoints, all heads must send the same barriers before a round. From the beginning of a round to the decision
//! after it no head sends any, so it is enough that the decision says which come next. Before the first round, heads whose input
//! has ended send barriers while others still take theirs. So hosts agree twice ([`Gathering`]): first, that the input of all heads
//! is complete. From then on the heads of a host hold back what is requested, and the host contributes the last barrier that was
//! requested before. The latest of these is the last one before the first round, and what was held back follows later.
//!
//! A host takes part in the rounds if it has a task of the head, of the tail, or of an operator that reads the state: these
//! are the operators of the loop's tie. Records of a round may arrive on a host before the state of that round, so the tasks
//! that read it wait ([`with`](crate::Stream::with)).

use super::control::{Barriers, Control};
use crate::clock::Clock;
use crate::data::{Data, DecodeError, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Op, Signals, guard};
use crate::net::{Agree, Agreement, HostId, Links, Part};
use crate::plan::{Builder, TaskContext, Tie, TieKind};
use crate::runtime::Running;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

/// Adds the last operator of a stage, the tail of a loop, to the ties of the loop's head: in the second place.
pub(super) fn tie_tail(builder: &mut Builder, head: usize, stage: usize) {
    builder.open_loops.retain(|open| *open != head);
    let Some(&tail) = builder.plan.stages[stage].operators.last() else { return };
    let joins_tail =
        |tie: &&mut Tie| tie.kind != TieKind::Input && tie.operators.first() == Some(&head);
    for tie in builder.plan.ties.iter_mut().filter(joins_tail) {
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

    /// Changes this host's state; `decide` returns whether the condition holds, from what `until` says here. `agreed` are the
    /// barriers that come before the next round, unless this host decides that; returns which these are.
    fn end_round(
        &self,
        end: RoundEnd<D>,
        agreed: Option<Barriers>,
        decide: impl FnOnce(bool) -> bool,
    ) -> Barriers {
        let RoundEnd { counts, part } = end;
        // The closures must not wait for the job whose round they end.
        let _running = Running::call(self.op.signals());
        guard(&self.op, || {
            let change = |state: &mut S| decide((self.ending.until)(state, part));
            self.control.end_round(counts, (&self.clock, self.op.signals()), agreed, change)
        })
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

    /// Puts before what was merged whether the condition holds, and which barriers come before the next round. No head has sent
    /// any since the round began, so whatever is chosen is right if it is the same for all.
    fn conclude(&self, merged: Vec<u8>) -> Result<Vec<u8>> {
        let mut holds = false;
        let barriers = self.end_round(self.decoded(&merged)?, None, |here| {
            holds = here;
            here
        });
        let mut result = Vec::with_capacity(16 + merged.len());
        (holds, barriers).encode(&mut result);
        result.extend(merged);
        Ok(result)
    }

    fn agreed(&self, result: &[u8]) -> Result<()> {
        if self.decides {
            return Ok(());
        }
        let mut end = result;
        let read = |input: &mut &[u8]| {
            Ok::<_, DecodeError>((bool::decode(input)?, Barriers::decode(input)?))
        };
        let (holds, barriers) = read(&mut end).map_err(|error| {
            let what = format!("a torn decision about a loop: {error}");
            self.error(ErrorKind::Internal, what)
        })?;
        let mut here = holds;
        self.end_round(self.decoded(end)?, Some(barriers), |until| {
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

/// The agreement of hosts that the input of all heads is complete, and in a job with checkpoints then on the barriers that come
/// before the first round.
pub(super) struct Gathering<S> {
    control: Arc<Control<S>>,
    signals: Arc<Signals>,
    /// Whether the job has checkpoints, and the loop is in the body of no other.
    sends_barriers: bool,
}

impl<S: Clone + Send + Sync + 'static> Gathering<S> {
    /// Joins, with the first head of this host that calls it.
    pub(super) fn join(
        control: &Arc<Control<S>>,
        cx: &TaskContext<'_>,
        head: usize,
        sends_barriers: bool,
    ) -> Result<()> {
        if cx.links.hosts().count() == 1 || control.gathering.get().is_some() {
            return Ok(());
        }
        let part = cx.tie(TieKind::Input, head)?.part();
        let mut hosts = hosts_of(cx, head);
        hosts.dedup();
        let signals = Arc::clone(cx.op(head).signals());
        Self { control: Arc::clone(control), signals, sends_barriers }
            .join_at(cx.links, part, &hosts);
        Ok(())
    }

    fn join_at(self, links: &Links, part: Part, hosts: &[HostId]) {
        let control = Arc::clone(&self.control);
        let joined = Agreement::join(links, part, hosts, &[], self);
        let _ = control.gathering.set(Arc::downgrade(&joined));
    }
}

impl<S: Clone + Send + Sync + 'static> Agree for Gathering<S> {
    const MAY_BLOCK: bool = false;

    /// An empty contribution means that the input is complete. Of two barriers, the later one wins.
    fn merge(&self, earlier: Vec<u8>, later: &[u8]) -> Result<Vec<u8>> {
        if later.is_empty() {
            return Ok(earlier);
        }
        let mut merged = Vec::new();
        read_barriers(&earlier)?.max(read_barriers(later)?).encode(&mut merged);
        Ok(merged)
    }

    fn agreed(&self, result: &[u8]) -> Result<()> {
        if !self.sends_barriers {
            self.control.all_gathered();
            return Ok(());
        }
        if !result.is_empty() {
            self.control.set_barriers(read_barriers(result)?, &self.signals);
            self.control.all_gathered();
            return Ok(());
        }
        let mut held = Vec::new();
        self.control.hold_barriers(&self.signals).encode(&mut held);
        // Otherwise the job is over.
        let hosts = self.control.gathering.get().and_then(Weak::upgrade);
        hosts.map_or(Ok(()), |hosts| hosts.contribute(held))
    }
}

fn read_barriers(bytes: &[u8]) -> Result<Barriers> {
    decode_whole(bytes, Barriers::decode).map_err(|error| {
        let what = format!("the barriers before the first round cannot be decoded: {error}");
        Error::new(ErrorKind::Internal, what)
    })
}

#[cfg(test)]
mod tests {
    use super::super::control::{Needs, Verdict};
    use super::*;
    use crate::Environment;
    use crate::config::Config;
    use crate::data::splitmix64;
    use crate::flow::{Depth, Epoch, Waker};
    use crate::net::TestNetwork;
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
        let mut decision = Vec::new();
        (false, Barriers::default()).encode(&mut decision);
        decision.extend(RoundEnd { counts: [1, 0], part: 7u64 }.encoded());
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

    /// A head of each host sends what is requested until a decision is known to its host. Hosts learn late what is requested.
    #[test]
    fn the_same_barriers_come_before_the_first_round_on_all_hosts() {
        for seed in 0..200 {
            let network = Arc::new(TestNetwork::default());
            let ids = [0, 1, 2].map(HostId);
            let hosts = ids.map(|host| {
                let signals = Arc::new(Signals::default());
                let control = Control::new(0, Depth(1), 0u64, 9, Needs::Nothing);
                let control = Arc::new(control);
                control.add_head(Waker::default());
                let links = network.links(host, ids.len(), &signals);
                let gathering = Gathering {
                    control: Arc::clone(&control),
                    signals: Arc::clone(&signals),
                    sends_barriers: true,
                };
                gathering.join_at(&links, Part::Tie(0), &ids);
                (control, signals)
            });
            let mut random = seed;
            let (mut sent, mut complete) = ([Epoch::default(); 3], [false; 3]);
            let mut suspended = false;
            while !hosts.iter().all(|(control, _)| control.is_gathered(1)) {
                let drawn = splitmix64(&mut random) as usize;
                let at = drawn % hosts.len();
                let (control, signals) = &hosts[at];
                match drawn / 3 % 8 {
                    0 if !suspended => {
                        suspended = drawn.is_multiple_of(5);
                        hosts[0].1.number_barrier(suspended);
                    }
                    1 => {
                        let last = hosts[0].1.epoch();
                        signals.barrier_asked(last, hosts[0].1.is_last_barrier(last));
                    }
                    2 if !complete[at] => {
                        complete[at] = true;
                        control.gather(signals).unwrap();
                    }
                    0 | 2 => {}
                    _ => {
                        network.deliver(drawn);
                    }
                }
                for ((control, signals), sent) in hosts.iter().zip(&mut sent) {
                    if !control.is_gathered(1) {
                        *sent = control.barriers(signals).max(*sent);
                    }
                }
            }
            let last = hosts[0].0.barriers(&hosts[0].1);
            for ((control, signals), sent) in hosts.iter().zip(sent) {
                assert_eq!(control.barriers(signals), last, "seed {seed}");
                assert!(sent <= last, "seed {seed}: {sent:?} was sent, and {last:?} decided");
                let is_last = hosts[0].1.is_last_barrier(last);
                assert_eq!(signals.is_last_barrier(last), is_last, "seed {seed}");
            }
        }
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
