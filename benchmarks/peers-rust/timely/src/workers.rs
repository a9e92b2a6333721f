//! The workers that a round runs on: of one process, started for it, or of several processes, which are connected once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use bench_protocol::{Request, Result};
use timely::worker::Worker;
use timely::{CommunicationConfig, Config, WorkerConfig};

/// The workers of this process.
pub(crate) enum Workers {
    /// So many, for each round anew.
    Process(usize),
    /// Those of one of several processes: each waits for what it runs in a round.
    Cluster(Vec<Sender<Job>>),
}

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

impl Workers {
    pub(crate) fn start(request: &Request) -> Result<Self> {
        let threads = request.cores()?;
        if request.hosts()? == 1 {
            return Ok(Self::Process(threads));
        }
        let communication = CommunicationConfig::Cluster {
            threads,
            process: request.host()?,
            addresses: request.addresses()?,
            report: false,
            zerocopy: false,
        };
        let (senders, jobs): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel::<Job>()).unzip();
        let jobs: Vec<Mutex<Option<Receiver<Job>>>> =
            jobs.into_iter().map(|jobs| Mutex::new(Some(jobs))).collect();
        let config = Config { communication, worker: WorkerConfig::default() };
        let guards = timely::execute(config, move |worker| {
            let mine = &jobs[worker.index() % threads];
            let mine = mine.lock().unwrap_or_else(PoisonError::into_inner).take();
            mine.into_iter().flatten().for_each(|job| job(worker));
        })?;
        // They end with the process.
        std::mem::forget(guards);
        Ok(Self::Cluster(senders))
    }

    /// Runs this on each worker; returns the results of those of this process.
    pub(crate) fn run<R: Send + 'static>(
        &self,
        work: impl Fn(&mut Worker) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>> {
        match self {
            Self::Process(threads) => {
                let guards = timely::execute(Config::process(*threads), work)?;
                guards.join().into_iter().map(|result| result.map_err(Into::into)).collect()
            }
            Self::Cluster(workers) => {
                let (work, (sender, results)) = (Arc::new(work), channel());
                for worker in workers {
                    let (work, sender) = (Arc::clone(&work), sender.clone());
                    let job: Job = Box::new(move |worker| drop(sender.send(work(worker))));
                    worker.send(job).map_err(|_| "a worker has ended")?;
                }
                drop(sender);
                let results: Vec<R> = results.iter().collect();
                if results.len() < workers.len() {
                    return Err("a worker has panicked".into());
                }
                Ok(results)
            }
        }
    }
}
