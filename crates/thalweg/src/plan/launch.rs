//! Turns a plan into running tasks.

use super::builder::{Factory, no_sink_has};
use super::conserve::conserved;
use super::measure::measure;
use super::{Builder, Edge, Operator, Plan, Stage, Strategy, Tie, TieKind};
use crate::checkpoint::{
    Checkpoints, IN_FLIGHT, OperatorIds, PlanComparison, Redistribution, Shape, StateHandle,
    StateId,
};
use crate::config::StateBackend;
use crate::data::{Data, Field, Schema, hash_bytes, mix};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{FAR_CREDIT, LaneSettings, TasksOf};
use crate::flow::{Depth, Op, Partitions, Signals, Task, Waker, catch};
use crate::memory::{Claim, MemoryPool, Reservation};
use crate::metrics::Stats;
use crate::net::{HostId, Links};
use crate::runtime::{Cell, Description, Job, JobNumbers, Runtime, TaskCounts};
use crate::state::SpillDir;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// With the state backend `Disk`, the tasks of an operator together have at most one part in this many of the memory budget for
/// their keys.
const CACHED: usize = 16;

/// What is known when a task is created.
pub struct TaskContext<'a> {
    /// The task's index in its stage, and the number of tasks of the stage.
    pub(crate) task: usize,
    pub(crate) tasks: usize,
    /// The number of the stage.
    pub(crate) stage: usize,
    pub(crate) memory: &'a MemoryPool,
    pub(crate) state_backend: StateBackend,
    pub(crate) spill: &'a SpillDir,
    pub(crate) clock: &'a crate::clock::Clock,
    /// Wakes the task that is being created.
    pub(crate) waker: &'a Waker,
    /// The partitions of the stage's source, shared by its tasks.
    pub(crate) partitions: &'a Arc<Partitions>,
    /// The channels of the job, to its other hosts.
    pub(crate) links: &'a Links,
    /// The host of each task of the stage.
    pub(crate) hosts: &'a [HostId],
    ops: &'a [Op],
    /// The ids of operators in checkpoints, if the job has any.
    ids: &'a OperatorIds,
    pub(crate) plan: &'a Plan,
    /// What the job's tasks save, if it has checkpoints.
    checkpoints: Option<&'a Arc<Checkpoints>>,
}

impl<'a> TaskContext<'a> {
    /// The operator with this number in the plan.
    pub(crate) fn op(&self, id: usize) -> Op {
        self.ops[id].clone()
    }

    /// A reservation for state that has to stay in memory.
    pub(crate) fn fixed(&self, id: usize) -> Reservation {
        self.memory.named(Claim::Fixed, self.ops[id].name(), None)
    }

    /// A reservation for state that goes to disk only as long as it grows; what is in memory stays there.
    pub(crate) fn modest(&self, id: usize) -> Reservation {
        self.memory.named(Claim::Modest, self.ops[id].name(), None)
    }

    /// A reservation for state that can be moved to disk at any time: between batches the operator checks whether the
    /// pool is over its budget.
    pub(crate) fn spillable(&self, id: usize) -> Reservation {
        let waker = self.waker.clone();
        let wake = Arc::new(move || waker.wake());
        self.memory.named(Claim::Spillable, self.ops[id].name(), Some(wake))
    }

    /// A reservation for keys and their states, which can be moved to disk at any time unless the state backend is `Memory`.
    pub(crate) fn keyed(&self, id: usize) -> Reservation {
        match self.state_backend {
            StateBackend::MemoryThenDisk => self.spillable(id),
            StateBackend::Memory => self.fixed(id),
            StateBackend::Disk => self.spillable(id).at_most(self.most_cached()),
        }
    }

    /// As [`keyed`](Self::keyed), for one of so many parts of an operator's keys.
    pub(crate) fn keyed_part(&self, id: usize, parts: usize) -> Reservation {
        match self.state_backend {
            StateBackend::Disk => self.keyed(id).at_most(self.most_cached() / parts),
            _ => self.keyed(id),
        }
    }

    /// The most bytes of an operator's keys that a task of this stage keeps in memory with the state backend `Disk`.
    pub(crate) fn most_cached(&self) -> usize {
        self.memory.limit() / CACHED / self.tasks.max(1)
    }

    /// The handle of a state of the operator with this number, of entries of type `E`: what it must remember across a
    /// failure.
    pub(crate) fn state<E: Data>(
        &self,
        id: usize,
        name: &str,
        redistribution: Redistribution,
    ) -> StateHandle {
        self.state_of_entries(id, name, redistribution, E::schema)
    }

    /// As [`state`](Self::state), of entries that are whole batches, of records of type `E` and their times.
    pub(crate) fn state_of_batches<E: Data, T: Data>(
        &self,
        id: usize,
        name: &str,
        redistribution: Redistribution,
    ) -> StateHandle {
        self.state_of_entries(id, name, redistribution, batches_of::<E, T>)
    }

    /// The handle of batches on their way to the stage, received by the operator with this number, of records of type `E` and
    /// their times. A program with other exchanges cannot restore them. Each task gets the entries of all tasks.
    pub(crate) fn state_in_flight<E: Data, T: Data>(&self, id: usize) -> StateHandle {
        if self.checkpoints.is_none() {
            return StateHandle::none();
        }
        let shape = (batches_of::<E, T>(), self.plan.exchanges_to(self.stage));
        self.state_of_operator(id, IN_FLIGHT, Redistribution::United, shape).if_any()
    }

    fn state_of_entries(
        &self,
        id: usize,
        name: &str,
        redistribution: Redistribution,
        entries: fn() -> Schema,
    ) -> StateHandle {
        if self.checkpoints.is_none() {
            return StateHandle::none();
        }
        self.state_of_operator(id, name, redistribution, (entries(), self.given(id)))
    }

    /// The kind of an operator, and what it was given: what it reads or writes, and how many, must be as before too.
    fn given(&self, id: usize) -> String {
        let op = &self.plan.operators[id];
        let details = op.details.to_string();
        match details.is_empty() {
            true => op.kind.clone(),
            false => format!("{} ({details})", op.kind),
        }
    }

    /// The handle by which a task reads a [state](Self::state) that the tasks of another operator save, perhaps on other hosts.
    /// All of it is restored.
    pub(crate) fn state_of_others<E: Data>(&self, id: usize, name: &str) -> StateHandle {
        let Some(all) = self.checkpoints else { return StateHandle::none() };
        let shape = Shape { entries: E::schema(), operator: self.given(id), by_key: false };
        let state = StateId { operator: self.ids.of(id).to_owned(), name: name.to_owned() };
        all.reader((self.op(id), state, shape), (self.task, self.tasks), Redistribution::United)
    }

    /// As [`state`](Self::state), of an operator that can go on with it whatever it is given.
    pub(crate) fn state_for_any_details<E: Data>(
        &self,
        id: usize,
        name: &str,
        redistribution: Redistribution,
    ) -> StateHandle {
        self.state_of_operator(id, name, redistribution, (E::schema(), String::new()))
    }

    fn state_of_operator(
        &self,
        id: usize,
        name: &str,
        redistribution: Redistribution,
        (entries, operator): (Schema, String),
    ) -> StateHandle {
        let Some(all) = self.checkpoints else { return StateHandle::none() };
        let shape = Shape { entries, operator, by_key: redistribution == Redistribution::ByKey };
        let state = StateId { operator: self.ids.of(id).to_owned(), name: name.to_owned() };
        all.handle((self.op(id), state, shape), (self.task, self.tasks), redistribution)
    }

    /// A hash of the directory of the job's checkpoints, if it has one.
    pub(crate) fn checkpoint_dir(&self) -> Option<u64> {
        self.checkpoints?.dir_hash()
    }

    /// A number that an operator has in every run of the job with the same directory of checkpoints, and no other operator has.
    /// `None` if the job has no checkpoints.
    pub(crate) fn checkpointed_id(&self, op: usize) -> Option<u64> {
        let dir = self.checkpoints?.dir_hash().unwrap_or_default();
        Some(mix(dir, hash_bytes(self.ids.of(op).as_bytes())))
    }

    /// Whether records get event time in the order in which a task of this stage emits them: behind the operator that is made, in the
    /// stage itself, or behind edges that keep that order.
    pub(crate) fn gets_time_in_order(&self) -> bool {
        // Operators are made from the last to the first.
        if self.partitions.is_timed() {
            return true;
        }
        let assigns =
            |stage: usize| move |op: &Operator| op.stage == stage && op.kind == "assign_timestamps";
        let (mut stages, mut at) = (vec![self.stage], 0);
        while let Some(&stage) = stages.get(at) {
            if at > 0 && self.plan.operators.iter().any(assigns(stage)) {
                return true;
            }
            for edge in &self.plan.edges {
                let keeps_order = edge.from == stage && edge.strategy == Strategy::Forward;
                if keeps_order && !stages.contains(&edge.to) {
                    stages.push(edge.to);
                }
            }
            at += 1;
        }
        false
    }

    /// Whether the job has checkpoints.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.checkpoints.is_some()
    }

    /// Whether the task is made only to be compared with a checkpoint: it never runs, and must not touch what a running job
    /// writes.
    pub(crate) fn is_trial(&self) -> bool {
        self.checkpoints.is_some_and(|checkpoints| checkpoints.is_trial())
    }

    /// Whether the job goes on from a checkpoint.
    pub(crate) fn is_restored(&self) -> bool {
        self.checkpoints.is_some_and(|checkpoints| checkpoints.is_restored())
    }

    /// What a person does who does not go on from the job's checkpoints.
    pub(crate) fn begin_anew(&self) -> String {
        self.checkpoints.map(|checkpoints| checkpoints.begin_anew()).unwrap_or_default()
    }

    /// Whether the job goes on from the end of one that was drained: sources read nothing.
    pub(crate) fn is_drained(&self) -> bool {
        self.checkpoints.is_some_and(|checkpoints| checkpoints.is_drained())
    }

    /// The operator that the stage begins with.
    pub(crate) fn first_operator(&self) -> Option<usize> {
        self.plan.stages[self.stage].operators.first().copied()
    }

    /// The tie of this kind that joins the tasks of an operator.
    pub(crate) fn tie(&self, kind: TieKind, op: usize) -> Result<&'a Tie> {
        let joins = |tie: &&Tie| tie.kind == kind && tie.operators.contains(&op);
        self.plan.ties.iter().find(joins).ok_or_else(|| {
            let what = format!("the tie {kind:?} of this operator was not declared");
            Error::new(ErrorKind::Internal, what).in_operator(&*self.ops[op].name())
        })
    }

    /// How many loops the operator is nested in.
    pub(crate) fn depth(&self, id: usize) -> Depth {
        self.ops[id].depth()
    }

    /// Whether the input of stage `to` from stage `from` recurs in each round of the loop that `to` is in, rather
    /// than coming once from outside the loop.
    pub(crate) fn comes_again(&self, from: usize, to: usize) -> bool {
        let loops = |stage: usize| self.plan.stages[stage].loops;
        loops(to) > 0 && loops(from) >= loops(to)
    }
}

/// The schema of entries that are batches.
fn batches_of<E: Data, T: Data>() -> Schema {
    let columns = [("record", E::schema()), ("time", T::schema())];
    Schema::Columns(columns.map(|(name, schema)| Field::new(name, schema)).into())
}

/// A running job and its plan.
pub(crate) struct Launched {
    pub(crate) job: Arc<Job>,
    pub(crate) plan: Plan,
    /// The stage of each task of this host.
    pub(crate) stage_of: Vec<usize>,
    /// The stage of each task of each host.
    stages_on_hosts: Vec<Vec<usize>>,
    pub(crate) started: crate::clock::Nanos,
    /// Whether records are blocks of rows.
    blocks: bool,
    /// What its tasks save, if it has checkpoints.
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
}

impl Launched {
    /// The statistics of the job, so far or in all. Those of a job that runs are of this host's tasks only.
    pub(crate) fn stats(&self, runtime: &Runtime) -> Stats {
        // Read before the counts: if the job ends in between, the counts are complete.
        let over = self.job.is_over();
        let (stage_of, counted) = self.counted();
        self.measured(&stage_of, &counted, over, runtime)
    }

    /// The stage and the counts of each task: of all hosts, if the job has ended well and no host was lost meanwhile.
    fn counted(&self) -> (Vec<usize>, Vec<TaskCounts>) {
        match self.job.counted_on_hosts() {
            None => (self.stage_of.clone(), self.job.counted()),
            Some(hosts) => self
                .stages_on_hosts
                .iter()
                .zip(hosts)
                .flat_map(|(stages, counted)| stages.iter().copied().zip(counted))
                .unzip(),
        }
    }

    /// As [`stats`](Self::stats), but waits for each task for about `at_most` to end its turn.
    ///
    /// # Errors
    ///
    /// The names of the operators of the first task whose turn does not end in that time.
    pub(crate) fn stats_within(
        &self,
        runtime: &Runtime,
        at_most: Duration,
    ) -> Result<Stats, Arc<str>> {
        let over = self.job.is_over();
        let counted = self.job.counted_within(at_most)?;
        Ok(self.measured(&self.stage_of, &counted, over, runtime))
    }

    fn measured(
        &self,
        stage_of: &[usize],
        counted: &[TaskCounts],
        over: bool,
        runtime: &Runtime,
    ) -> Stats {
        let last = counted.iter().map(|task| task.times.until).max().unwrap_or_default();
        let wall = if over { last } else { runtime.clock.now().saturating_sub(self.started) };
        let (cores, peak) = (runtime.hosts.all_cores(), runtime.memory.peak() as u64);
        let measured = measure(&self.plan, stage_of, counted, wall, cores, peak, self.job.clocks());
        let checkpoints = self.checkpoints.as_ref();
        let checkpoints = checkpoints.and_then(|all| all.stats(self.started.saturating_add(wall)));
        Stats { checkpoints, ..measured }
    }

    /// Where a barrier waits that has not left these tasks of this host, and some of these other hosts: those hosts, and here the
    /// operators of the stages before which it has left all. What waits here may do so for another host.
    pub(crate) fn where_a_barrier_waits(&self, behind: &[usize], hosts: &[HostId]) -> String {
        let stages: BTreeSet<usize> = behind.iter().map(|task| self.stage_of[*task]).collect();
        let follows = |stage: &usize| {
            self.plan.edges.iter().any(|edge| edge.to == *stage && stages.contains(&edge.from))
        };
        let first = stages.iter().filter(|stage| !follows(stage));
        let operators = first.map(|stage| operators_of(&self.plan.stages[*stage], &self.plan));
        let elsewhere = hosts.iter().map(|HostId(host)| format!("host {host}"));
        elsewhere.map(Arc::from).chain(operators).collect::<Vec<_>>().join("; ")
    }

    /// Checks the counts of a job that has succeeded for consistency, if those of all hosts have arrived.
    pub(crate) fn conserved(&self) -> Result<()> {
        if self.stages_on_hosts.len() > 1 && self.job.counted_on_hosts().is_none() {
            return Ok(());
        }
        let (stage_of, counted) = self.counted();
        conserved(&self.plan, &stage_of, &counted, self.blocks)
            .map_err(|what| Error::new(ErrorKind::Internal, format!("wrong statistics: {what}")))
    }
}

/// Creates a job's lanes and tasks, and starts them.
pub(crate) fn launch(
    mut builder: Builder,
    runtime: &Runtime,
    numbers: &JobNumbers,
    checkpoints: Result<Option<Arc<Checkpoints>>>,
) -> Result<Launched> {
    check(&mut builder)?;
    let several = runtime.hosts.count() > 1;
    let signals: Arc<Signals> = Arc::default();
    let links = Arc::new(runtime.links(numbers, &signals)?);
    // It hears of the other hosts from now on.
    let job = Job::new(Arc::clone(&signals), 0, Arc::clone(&links));
    let made = catch(|| {
        let checkpoints = checkpoints?;
        if let Some(checkpoints) = &checkpoints {
            if several {
                restore(&builder, runtime, &job, checkpoints)?;
            }
            checkpoints.begin(&runtime.clock)?;
            if checkpoints.is_drained() {
                signals.drain_here();
            }
        }
        let made = make(builder, runtime, &signals, &links, checkpoints.as_ref())?;
        signals.made();
        // What they make visible when the job ends well must be known to another run if this one dies meanwhile.
        let publishes = |op: &Operator| op.kind == "write" || op.kind.starts_with("write_");
        let publishes = made.plan.operators.iter().any(publishes);
        if let Some(checkpoints) = checkpoints.as_ref().filter(|_| publishes) {
            signals.at_end(Arc::clone(checkpoints) as _);
        }
        Ok((made, checkpoints))
    });
    let (made, checkpoints) = match made.and_then(|made| made) {
        Err(error) if several => {
            // The other hosts have begun the job, or will: they must end with the same error.
            if runtime.may_wait().is_err() {
                job.fail(error.for_others());
                return Err(error);
            }
            job.fail(error);
            runtime.start(&job, &[])?;
            runtime.wait(&job)?;
            let what = "a job that could not be started has ended well";
            return Err(job.outcome().err().unwrap_or(Error::new(ErrorKind::Internal, what)));
        }
        made => made?,
    };
    let Made { plan, tasks, stage_of, stages_on_hosts, operators, blocks } = made;
    job.set_tasks(tasks.len());
    // Before the first task runs: a sink would not wait for the checkpoint that it needs.
    job.may_wait_for_checkpoints(runtime.config.checkpoints.is_some());
    let started = runtime.clock.now();
    let cells: Vec<_> = tasks
        .into_iter()
        .enumerate()
        .map(|(index, (task, waker))| {
            let operators = Arc::clone(&operators[stage_of[index]]);
            let scheduler = runtime.scheduler();
            let cell = Cell::new(index, task, Arc::clone(&job), scheduler, operators, started);
            waker.set(Arc::clone(&cell) as _);
            cell
        })
        .collect();
    if several {
        runtime.start_on_hosts(&job, cells, describe(&plan, checkpoints.as_ref()));
    } else {
        runtime.start(&job, &cells)?;
    }
    Ok(Launched { job, plan, stage_of, stages_on_hosts, started, blocks, checkpoints })
}

/// Makes a job's tasks, and compares their states with a checkpoint, whose number is `number`. The tasks do not run.
pub(crate) fn compare(
    mut builder: Builder,
    runtime: &Runtime,
    numbers: &JobNumbers,
    checkpoints: &Arc<Checkpoints>,
    number: u64,
) -> Result<PlanComparison> {
    check(&mut builder)?;
    let signals: Arc<Signals> = Arc::default();
    let links = runtime.links(numbers, &signals)?;
    if let Err(error) = checkpoints.begin(&runtime.clock) {
        checkpoints.refuse(error);
    }
    let made = catch(|| make(builder, runtime, &signals, &links, Some(checkpoints)).map(drop));
    if let Err(error) = made.and_then(|made| made) {
        checkpoints.refuse_task(error);
    }
    let mut comparison = checkpoints.compare(number);
    comparison.allows_dropped = runtime.config.allow_dropped_state;
    Ok(comparison)
}

/// Before a job on several hosts goes on from a checkpoint: the first host decides from which, and the others read that one. No
/// host may make its tasks before all have it, since sinks commit what is in it then, and remove what is not.
fn restore(
    builder: &Builder,
    runtime: &Runtime,
    job: &Job,
    checkpoints: &Arc<Checkpoints>,
) -> Result<()> {
    let Some(storage) = checkpoints.storage() else { return Ok(()) };
    let plan = builder.settled(&runtime.config.tasks, &runtime.hosts)?;
    let mut described = describe(&plan, Some(checkpoints));
    described.point = storage.restore_point();
    let point = runtime.agree(job, described)?;
    if let Some(point) = point.filter(|_| runtime.hosts.me() != HostId::FIRST) {
        checkpoints.restore(storage.restore(&point)?);
        if let Some(newest) = point.newest() {
            checkpoints.began_with(newest);
        }
    }
    let mut described = describe(&plan, Some(checkpoints));
    let storage = Arc::clone(storage);
    // That may have taken long.
    described.may_go_on = Arc::new(move || storage.may_publish());
    runtime.agree(job, described).map(drop)
}

/// Describes the job to the other hosts.
fn describe(plan: &Plan, checkpoints: Option<&Arc<Checkpoints>>) -> Description {
    let has_checkpoints = checkpoints.is_some();
    let of_checkpoints = hash_bytes(&[u8::from(has_checkpoints)]);
    let fingerprint = plan.fingerprint().value() ^ u128::from(of_checkpoints);
    let plan = plan.clone();
    Description::of(fingerprint, move || {
        let dir = has_checkpoints.then(|| ("a directory".to_owned(), "set".to_owned()));
        let checkpoints = ("checkpoints".to_owned(), dir.into_iter().collect());
        std::iter::once(checkpoints).chain(plan.described_parts()).collect()
    })
}

/// The tasks of a job on this host, and what is known of all of them.
struct Made {
    plan: Plan,
    tasks: Vec<(Box<dyn Task>, Waker)>,
    stage_of: Vec<usize>,
    stages_on_hosts: Vec<Vec<usize>>,
    /// The names of the operators of each stage.
    operators: Vec<Arc<str>>,
    blocks: bool,
}

/// Creates the lanes and tasks of this host.
fn make(
    builder: Builder,
    runtime: &Runtime,
    signals: &Arc<Signals>,
    links: &Links,
    checkpoints: Option<&Arc<Checkpoints>>,
) -> Result<Made> {
    let plan = builder.settled(&runtime.config.tasks, links.hosts())?;
    let Builder { factories, unconsumed, connectors, openers, time_origins, blocks, .. } = builder;
    let ops: Vec<Op> = plan
        .operators
        .iter()
        .map(|op| Op::new(op.id, op.label().into(), Depth(op.loops), Arc::clone(signals)))
        .collect();

    let wakers: Vec<Vec<Waker>> = plan
        .stages
        .iter()
        .map(|stage| (0..stage.tasks).map(|_| Waker::default()).collect())
        .collect();
    let hosts: Vec<Vec<HostId>> =
        plan.stages.iter().map(|stage| stage.hosts(links.hosts())).collect();
    let tasks_of = |stage: usize| TasksOf { wakers: &wakers[stage], hosts: &hosts[stage] };
    let usual_credit = runtime.config.credit;
    let is_bundled = |edge: &Edge| {
        let lanes = hosts[edge.from].len().saturating_mul(hosts[edge.to].len());
        // The others have few lanes, or need them apart.
        let many = !matches!(edge.strategy, Strategy::Forward | Strategy::Gather);
        many && links.hosts().bundles(lanes)
    };
    let idleness = time_origins.idleness(&plan);
    let credits = credits_on_a_host(&plan, &hosts, is_bundled);
    let credit = runtime.memory.credit(usual_credit, credits);
    for ((edge, connector), idleness) in plan.edges.iter().zip(connectors).zip(idleness) {
        let settings = LaneSettings {
            batch: edge.batch,
            credit,
            usual_credit,
            memory: runtime.memory.clone(),
            compress_from: links.hosts().compress_from(),
            encode: runtime.config.encode_exchanges,
            bundled: is_bundled(edge),
            idleness,
            clock: runtime.clock.clone(),
        };
        connector(settings, tasks_of(edge.from), tasks_of(edge.to), links);
    }

    for open in openers {
        open(links);
    }

    let ids = checkpoints.map(|all| all.identify(&plan.described())).unwrap_or_default();
    let spill = SpillDir::new(&runtime.config.spill_dir, job_name(&plan));
    let mut tasks = Vec::new();
    let mut stage_of = Vec::new();
    for (stage, factory) in plan.stages.iter().zip(&factories) {
        let partitions = Arc::default();
        let here = |task: &usize| hosts[stage.id][*task] == links.hosts().me();
        for task in (0..stage.tasks).filter(here) {
            let waker = &wakers[stage.id][task];
            let context = TaskContext {
                task,
                tasks: stage.tasks,
                stage: stage.id,
                memory: &runtime.memory,
                state_backend: runtime.config.state_backend,
                spill: &spill,
                clock: &runtime.clock,
                waker,
                partitions: &partitions,
                links,
                hosts: &hosts[stage.id],
                ops: &ops,
                ids: &ids,
                plan: &plan,
                checkpoints,
            };
            if let Some(factory) = factory {
                match (factory(&context), checkpoints) {
                    (Ok(made), _) => {
                        tasks.push((made, waker.clone()));
                        stage_of.push(stage.id);
                    }
                    // What else would be refused is found out too.
                    (Err(error), Some(trial)) if trial.is_trial() => trial.refuse_task(error),
                    (Err(error), _) => return Err(error),
                }
            }
        }
    }

    if let Some(checkpoints) = checkpoints {
        let me = links.hosts().me();
        let is_here = |stage: usize| hosts[stage].contains(&me);
        match plan.check_saved(checkpoints, is_here) {
            Err(error) if checkpoints.is_trial() => checkpoints.refuse(error),
            checked => checked?,
        }
        // What merges the records of an operator has a state of it, in the stage behind it.
        let is_all_here = |stage: usize| {
            let mut behind = plan.edges.iter().filter(|edge| edge.from == stage);
            is_here(stage) && behind.all(|edge| is_here(edge.to))
        };
        let is_elsewhere = |operator: &str| {
            let of_it = |op: &&super::Operator| ids.of(op.id) == operator;
            plan.operators.iter().filter(of_it).any(|op| !is_all_here(op.stage))
        };
        let numbered = |op: usize| plan.numbered(op).filter(|_| !ids.is_found(op));
        checkpoints.check(is_elsewhere, numbered, runtime.config.allow_dropped_state)?;
    }

    let operators: Vec<Arc<str>> =
        plan.stages.iter().map(|stage| operators_of(stage, &plan)).collect();
    let factories =
        factories.into_iter().enumerate().filter_map(|(stage, made)| Some((stage, made?)));
    drop_all(factories.chain(unconsumed), &operators)?;
    let all_hosts = (0..links.hosts().count()).map(HostId);
    let stages_on_hosts = all_hosts.map(|host| stages_on(host, &hosts)).collect();
    Ok(Made { plan, tasks, stage_of, stages_on_hosts, operators, blocks })
}

/// Drops the factories of stages before anything runs: the destructors of captured values may panic.
fn drop_all(
    factories: impl Iterator<Item = (usize, Factory)>,
    operators: &[Arc<str>],
) -> Result<()> {
    for (stage, factory) in factories {
        catch(|| drop(factory)).map_err(|panic| panic.in_operator(&*operators[stage]))?;
    }
    Ok(())
}

/// The stage of each task of a host, in the order in which its tasks are made. `hosts` are those of the tasks of each
/// stage.
fn stages_on(host: HostId, hosts: &[Vec<HostId>]) -> Vec<usize> {
    let of_stage = |tasks: &[HostId]| tasks.iter().filter(|of| **of == host).count();
    let repeated =
        |(stage, tasks): (usize, &Vec<HostId>)| std::iter::repeat_n(stage, of_stage(tasks));
    hosts.iter().enumerate().flat_map(repeated).collect()
}

/// The operators of a stage, by name and place.
fn operators_of(stage: &Stage, plan: &Plan) -> Arc<str> {
    let mut labels: Vec<_> = stage.operators.iter().map(|&op| plan.operators[op].label()).collect();
    // One method may have added several in a row.
    labels.dedup();
    labels.join(", ").into()
}

/// The name of a job in spill directories and the like: the place where the program begins it, such as
/// `wordcount.rs:31`, since one process may run several.
fn job_name(plan: &Plan) -> &str {
    let place = plan.operators.first().map_or("job", |first| &*first.place);
    place.rsplit(['/', '\\']).next().unwrap_or(place)
}

/// Fails if the job cannot run as described.
pub(crate) fn check(builder: &mut Builder) -> Result<()> {
    if !builder.errors.is_empty() {
        return Err(builder.errors.swap_remove(0));
    }
    builder.close_unconsumed();
    let plan = &builder.plan;
    for (stage, factory) in plan.stages.iter().zip(&builder.factories) {
        let last = stage.operators.last().map(|&op| plan.operators[op].label());
        if factory.is_none() {
            let what = "a stream that this operator returns has no sink: add one, such as `collect`, or \
                        `for_each(drop)` if its records are not needed";
            return Err(Error::new(ErrorKind::Plan, what).in_operator(last.unwrap_or_default()));
        }
    }
    if let Some((stage, name)) = builder.sink_names.first_key_value() {
        let last = plan.stages[*stage].operators.last().map(|&op| plan.operators[op].label());
        return Err(no_sink_has(name).in_operator(last.unwrap_or_default()));
    }
    // Without a tail, its head would wait for the end of the first round for ever. The last stream of its body may be one
    // that needs no sink.
    if let Some(&head) = builder.open_loops.first() {
        let what = "its rounds have no end: add `all_rounds` or `until`";
        let head = plan.operators[head].label();
        return Err(Error::new(ErrorKind::Plan, what).in_operator(head));
    }
    Ok(())
}

/// The lanes of a job that begin or end at a host, at the one that has the most; those between hosts count as many times as
/// they have the usual credit, and a bundle of lanes as one. `hosts` are those of the tasks of each stage.
fn credits_on_a_host(
    plan: &Plan,
    hosts: &[Vec<HostId>],
    is_bundled: impl Fn(&Edge) -> bool,
) -> usize {
    let count = |stage: usize| {
        let mut tasks = BTreeMap::<HostId, usize>::new();
        hosts[stage].iter().for_each(|host| *tasks.entry(*host).or_default() += 1);
        tasks
    };
    let tasks: Vec<_> = (0..hosts.len()).map(count).collect();
    let of_edge = |edge: &Edge| {
        let (senders, receivers) = (hosts[edge.from].len(), hosts[edge.to].len());
        if edge.strategy == Strategy::Forward {
            return senders.max(receivers);
        }
        let [from, to] = [&tasks[edge.from], &tasks[edge.to]];
        let bundled = is_bundled(edge);
        let on = |host: &HostId| {
            let [sends, receives] = [from, to].map(|tasks| tasks.get(host).copied().unwrap_or(0));
            let far = if bundled {
                let receives_here = usize::from(receives > 0);
                sends * (to.len() - receives_here) + (senders - sends) * receives_here
            } else {
                sends * (receivers - receives) + (senders - sends) * receives
            };
            sends * receives + FAR_CREDIT * far
        };
        from.keys().chain(to.keys()).map(on).max().unwrap_or(0)
    };
    plan.edges.iter().map(of_edge).sum()
}

/// Whether a task may send to another with this strategy.
pub(crate) fn linked(
    strategy: Strategy,
    senders: usize,
    receivers: usize,
) -> impl Fn(usize, usize) -> bool {
    move |from, to| match strategy {
        Strategy::Forward if senders >= receivers => from * receivers / senders == to,
        Strategy::Forward => to * senders / receivers == from,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Details, Origin, Parallelism};

    #[test]
    fn a_job_is_named_after_the_place_where_it_begins() {
        let mut builder = Builder::default();
        assert_eq!(job_name(&builder.plan), "job");
        let stage = builder.stage(Parallelism::Fixed(1), true);
        let line = line!() + 1;
        builder.operator(stage, Origin::here("range"), Details::none());
        builder.operator(stage, Origin::here("count"), Details::none());
        assert_eq!(job_name(&builder.plan), format!("launch.rs:{line}"));
    }
}
