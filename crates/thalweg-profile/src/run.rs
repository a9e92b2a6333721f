//! One measurement.

use crate::args::{Common, Engine, Network, RunArgs, Workload};
use crate::broker::{Broker, PATIENCE, Topics};
use crate::by_hand::ByHand;
use crate::collect::{Collected, Expected, ResultConsumer, Shared};
use crate::flink::FlinkPipeline;
use crate::generate::{Generation, Generator, Load};
use crate::link::Link;
use crate::record::now;
use crate::report::{Measured, Progress, Report};
use crate::{interrupt, jobs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use thalweg::{Error, ErrorKind, JobHandle, Result};

/// How long a pipeline may take to begin: a virtual machine compiles its classes meanwhile.
const START: Duration = Duration::from_secs(60);
/// From when all is ready until the first record is due.
const LEAD: u64 = 10_000_000;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) engine: Engine,
    pub(crate) workload: Workload,
    pub(crate) rate: f64,
    pub(crate) size: usize,
    pub(crate) network: Network,
}

/// The cluster that the command line names, or a broker that is started.
pub(crate) enum Cluster {
    Theirs(String),
    /// With the link before it, if there is one. The broker goes first.
    Ours(Broker, Option<Link>),
}

impl Cluster {
    pub(crate) fn of(common: &Common, network: Network) -> Result<Self> {
        let bits = network.bits(common.network_scale);
        match (&common.brokers, &common.jars) {
            (Some(brokers), _) => Ok(Self::Theirs(brokers.clone())),
            (None, Some(jars)) => {
                let link = bits.map(|_| Link::make()).transpose()?;
                let broker = Broker::start(jars, link.as_ref())?;
                let cluster = Self::Ours(broker, link);
                cluster.set_network(network, common)?;
                Ok(cluster)
            }
            (None, None) => Err(Error::new(ErrorKind::Config, "there are no brokers")),
        }
    }

    /// Makes the link before the broker as wide as this network.
    pub(crate) fn set_network(&self, network: Network, common: &Common) -> Result<()> {
        match (self, network.bits(common.network_scale)) {
            (Self::Ours(_, Some(link)), Some(bits)) => link.set_rate(bits),
            _ => Ok(()),
        }
    }

    /// Uses a broker of our own for a while, as a measurement will.
    pub(crate) fn warm_up(&self, point: &Point, common: &Common) -> Result<()> {
        match self {
            Self::Theirs(_) => Ok(()),
            Self::Ours(..) => {
                let common = Common {
                    warm_up: common.broker_warm_up,
                    time: Duration::from_secs(1),
                    ..common.clone()
                };
                let progress = Progress::warming_up();
                // With a pipeline that reads and writes, whichever is measured.
                let workload = Workload::Rebalance;
                let point = Point { engine: Engine::Thalweg, workload, ..*point };
                measure(&point, &common, self, &progress)?;
                progress.clear();
                Ok(())
            }
        }
    }

    fn brokers(&self) -> String {
        match self {
            Self::Theirs(brokers) => brokers.clone(),
            Self::Ours(broker, _) => broker.address(),
        }
    }
}

/// Measures one pipeline at one rate.
///
/// # Errors
///
/// When it cannot be measured.
pub(crate) fn command(args: &RunArgs) -> Result<()> {
    let common = &args.common;
    common.check(args.workload, args.rate)?;
    let mut report = Report::begin(None, common)?;
    let cluster = Cluster::of(common, args.network)?;
    for (number, engine) in common.engines.iter().enumerate() {
        let RunArgs { workload, rate, size, network, .. } = *args;
        let point = Point { engine: *engine, workload, rate, size, network };
        if number == 0 {
            cluster.warm_up(&point, common)?;
        }
        let progress = Progress::new(&point, common);
        let measured = measure(&point, common, &cluster, &progress)?;
        progress.table(&measured, common)?;
        report.add(measured, common)?;
    }
    Ok(())
}

/// A pipeline that runs.
enum Pipeline {
    Nothing,
    ByHand(ByHand),
    Job(JobHandle),
    Flink(FlinkPipeline),
}

impl Pipeline {
    fn start(point: &Point, common: &Common, brokers: &str, topics: &Topics) -> Result<Self> {
        let Point { engine, workload, .. } = *point;
        match engine {
            Engine::Consumer => Ok(Self::Nothing),
            Engine::ByHand => ByHand::start(workload, common, brokers, topics).map(Self::ByHand),
            Engine::Thalweg => jobs::start(workload, common, brokers, topics).map(Self::Job),
            Engine::Flink | Engine::FlinkTuned => {
                FlinkPipeline::start(engine, workload, common, brokers, topics).map(Self::Flink)
            }
        }
    }

    /// Checks that it goes on.
    fn check(&mut self) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Flink(flink) => flink.check(),
            Self::Job(job) if !job.is_over() => Ok(()),
            Self::ByHand(by_hand) if !by_hand.is_over() => Ok(()),
            Self::Job(_) | Self::ByHand(_) => {
                match std::mem::replace(self, Self::Nothing) {
                    Self::Job(job) => job.wait().map(drop)?,
                    other => other.end()?,
                }
                Err(Error::new(ErrorKind::Internal, "the pipeline has ended by itself"))
            }
        }
    }

    fn end(self) -> Result<()> {
        match self {
            Self::Job(job) => {
                job.drain();
                job.wait().map(drop)
            }
            Self::ByHand(by_hand) => by_hand.end(),
            Self::Nothing | Self::Flink(_) => Ok(()),
        }
    }
}

/// Says that nothing is expected any more, however the one ends that has made the records.
struct OverAtEnd<'a>(&'a Shared);

impl Drop for OverAtEnd<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

/// What the thread that makes records has to wait for.
struct Watched<'a> {
    pipeline: Pipeline,
    shared: &'a Shared,
    collecting: ScopedJoinHandle<'a, Result<Collected>>,
}

impl Watched<'_> {
    /// Whether everything goes on; `false` if the results have been collected, or cannot be.
    fn goes_on(&mut self) -> Result<bool> {
        interrupt::check()?;
        self.pipeline.check()?;
        Ok(!self.collecting.is_finished())
    }
}

/// Measures what one engine does.
pub(crate) fn measure(
    point: &Point,
    common: &Common,
    cluster: &Cluster,
    progress: &Progress,
) -> Result<Measured> {
    static TOPICS: AtomicU64 = AtomicU64::new(0);
    let brokers = cluster.brokers();
    let number = TOPICS.fetch_add(1, Ordering::Relaxed);
    let name = format!("thalweg-profile-{}-{number}", now());
    let topics = Topics::make(&brokers, &common.client_options, &name, common.partitions)?;
    let is_window = point.workload == Workload::Fixwindow;
    let load = Load {
        brokers: brokers.clone(),
        topic: topics.from.clone(),
        partitions: common.partitions,
        rate: point.rate,
        size: point.size,
        keys: common.keys,
        options: common.options_with(&common.producer_options),
        window: if is_window { common.window } else { Duration::ZERO },
        warm_up: common.warm_up,
        time: common.time,
    };
    let expected = match (point.engine, point.workload) {
        (Engine::Consumer, _) => Expected::Read,
        (_, Workload::Fixwindow) => Expected::WindowCounts(common.window.as_nanos() as u64),
        (_, Workload::Wordcount) => Expected::RunningCounts,
        (_, Workload::Identity | Workload::Rebalance) => Expected::Each,
    };
    let (topic, options) = match expected {
        Expected::Read => (topics.from.clone(), &common.source_options[..]),
        _ => (topics.to.clone(), &[][..]),
    };
    let options = common.options_with(options);
    let results = ResultConsumer {
        brokers: brokers.clone(),
        topic,
        partitions: common.partitions,
        keys: common.keys,
        expected,
        options,
    };
    let shared = Shared::default();
    let pipeline = Pipeline::start(point, common, &brokers, &topics)?;
    thread::scope(|scope| {
        let over = OverAtEnd(&shared);
        let collecting = scope.spawn(|| results.collect(&shared));
        let mut watched = Watched { pipeline, shared: &shared, collecting };
        let made = generate(load, &mut watched, progress);
        let made = made.and_then(|made| wait(&mut watched).map(|()| made));
        drop(over);
        let collected = match watched.collecting.join() {
            Ok(collected) => collected,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // If the results cannot be read, the generator has ended without an error.
        let made = made?;
        let collected = collected?;
        let Some((generation, end)) = made else {
            let what = "all results have come out before all records were made";
            return Err(Error::new(ErrorKind::Internal, what));
        };
        watched.pipeline.end()?;
        Ok(Measured::new(point, common, &generation, &collected, end))
    })
}

/// Makes all records, when the pipeline has begun. Returns when the last one was due, too; `None` if the results were read to
/// an end before.
fn generate(
    load: Load,
    watched: &mut Watched<'_>,
    progress: &Progress,
) -> Result<Option<(Generation, u64)>> {
    let mut generator = Generator::new(load.clone())?;
    progress.waits();
    let mut is_cut = false;
    // An error of its own, which is not seen: what has ended the results says why.
    let mut cut = |goes_on: bool| match goes_on {
        true => Ok(()),
        false => {
            is_cut = true;
            Err(Error::new(ErrorKind::Cancelled, "the results have ended"))
        }
    };
    let is_up = &watched.shared.is_up;
    let probed = generator.probe(START + load.window, is_up, || cut(watched.goes_on()?));
    let made = probed.and_then(|()| {
        let schedule = load.schedule(now() + LEAD);
        let _ = watched.shared.schedule.set(schedule);
        let mut looked = Instant::now();
        let made = generator.make(&schedule, |made| {
            if looked.elapsed() > Duration::from_millis(50) {
                looked = Instant::now();
                progress.show(made as f64 / schedule.records as f64);
                // All may have come out already when the last ones are sent.
                if made < schedule.records {
                    return cut(watched.goes_on()?);
                }
            }
            Ok(())
        })?;
        Ok((made, schedule.end))
    });
    if is_cut { Ok(None) } else { made.map(Some) }
}

/// Waits until all has come out, as long as something does.
fn wait(watched: &mut Watched<'_>) -> Result<()> {
    let (mut out, mut since) = (0, Instant::now());
    while watched.goes_on()? && since.elapsed() < PATIENCE {
        let now = watched.shared.out.load(Ordering::Relaxed);
        if now != out {
            (out, since) = (now, Instant::now());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
