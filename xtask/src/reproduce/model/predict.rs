//! The model: formulas from measured costs to the throughput of a cluster. They are those of `docs/scaling.md`, with the same
//! letters; a change here is a change there.

use super::fit::Fit;

/// Records of a full batch, unless the program says otherwise.
pub(super) const BATCH: f64 = 1024.0;
/// Records that a busy task makes in a turn: it looks for batches that have waited after as many.
const TURN: f64 = 16.0 * 1024.0;
/// Seconds that a record of a busy task may wait in a batch.
const PATIENCE: f64 = 1e-3;
/// Bytes of a frame beside its records: the header of a lane's frame, and that of the connection's.
const FRAME: f64 = 30.0;
/// Bytes of half a lane.
const HALF_LANE: f64 = 300.0;
/// Connections that a process may have with the usual limit of open files, as some are for other things.
const CONNECTIONS: f64 = 1024.0 - 64.0;
/// Seconds between two watermarks of a busy task, unless the program says otherwise.
pub(super) const WATERMARKS: f64 = 0.2e-3;

/// The hosts that report to one where hosts agree: `net/tree.rs` of the engine.
const FAN_OUT: f64 = 16.0;

/// What was measured, in seconds of processor time; terms are 1, bytes of a record, and 1 / records of a batch.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// Of a record to another task of the same host.
    pub(super) local: Fit<3>,
    /// Of a record to another host.
    pub(super) remote: Fit<3>,
    /// Of a record that comes from another host, in the thread that reads: part of `remote`.
    pub(super) reader: Fit<3>,
    /// Of an event on a lane within a host, and between hosts.
    pub(super) event_local: f64,
    pub(super) event_remote: f64,
    /// Of an event of a task for another host, however many lanes lead there.
    pub(super) event_host: f64,
    /// Of a round of a loop on one host, and of a message to another host and the wake-up there.
    pub(super) round: f64,
    pub(super) hop: f64,
}

/// A cluster, and the records that its tasks exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cluster {
    pub(super) hosts: f64,
    /// Of each host.
    pub(super) cores: f64,
    /// Receiving tasks for each core.
    pub(super) tasks: f64,
    /// Bytes of a record.
    pub(super) width: f64,
    /// Bytes a second from and to each host.
    pub(super) bandwidth: f64,
    /// Seconds from one host to another.
    pub(super) latency: f64,
}

/// What limits the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Cores,
    Reader,
    Link,
}

impl Limit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Reader => "reading thread",
            Self::Link => "network",
        }
    }
}

/// A prediction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prediction {
    /// Records in a batch.
    pub(super) batch: f64,
    /// Seconds of processor time of a record.
    pub(super) cost: f64,
    /// Records a second of the whole cluster, as far as its cores, its reading threads and its network allow.
    pub(super) by_cores: f64,
    pub(super) by_readers: f64,
    pub(super) by_links: f64,
    /// Seconds of each core for an event on every lane, such as a barrier or a watermark.
    pub(super) event: f64,
    /// Seconds of a round of a loop in which nothing happens.
    pub(super) round: f64,
    /// Connections of a host.
    pub(super) connections: f64,
    /// Bytes of a host's lanes.
    pub(super) lanes: f64,
}

impl Prediction {
    pub(super) fn throughput(&self) -> f64 {
        self.by_cores.min(self.by_readers).min(self.by_links)
    }

    pub(super) fn limit(&self) -> Limit {
        let least = self.throughput();
        if least == self.by_cores {
            Limit::Cores
        } else if least == self.by_readers {
            Limit::Reader
        } else {
            Limit::Link
        }
    }
}

impl Costs {
    pub(super) fn predict(&self, of: Cluster) -> Prediction {
        let Cluster { hosts, cores, tasks, width, bandwidth, latency } = of;
        let all_cores = hosts * cores;
        let lanes = all_cores * tasks;
        let away = 1.0 - 1.0 / hosts;
        let cost_with = |batch: f64| {
            let terms = [1.0, width, 1.0 / batch];
            (1.0 - away) * self.local.cost(&terms) + away * self.remote.cost(&terms)
        };
        // Each follows from the other: a dear record means fewer of them in a batch. They meet after a few steps.
        let (mut batch, mut cost) = (BATCH, cost_with(BATCH));
        for _ in 0..100 {
            let between_flushes = (PATIENCE / cost).max(TURN);
            batch = (between_flushes / lanes).clamp(1.0, BATCH);
            cost = (cost + cost_with(batch)) / 2.0;
        }
        let terms = [1.0, width, 1.0 / batch];
        let reader = away * self.reader.cost(&terms);
        let sent = away * (width + FRAME / batch);
        Prediction {
            batch,
            cost,
            by_cores: all_cores / cost,
            by_readers: if reader > 0.0 { hosts / reader } else { f64::INFINITY },
            by_links: if sent > 0.0 { hosts * bandwidth / sent } else { f64::INFINITY },
            event: lanes * ((1.0 - away) * self.event_local + away * self.event_remote)
                + (hosts - 1.0) * self.event_host,
            round: self.round + 2.0 * levels(hosts) * (self.hop + latency),
            connections: hosts - 1.0,
            lanes: 2.0 * cores * lanes * HALF_LANE,
        }
    }

    /// The records a second of hosts of one core each that share so many processors.
    pub(super) fn on_processors(&self, of: Cluster, processors: f64) -> f64 {
        processors.min(of.hosts) / self.predict(of).cost
    }
}

/// The messages, one after the other, from the deepest of this many hosts to the first.
fn levels(mut hosts: f64) -> f64 {
    let mut levels = 0.0;
    while hosts > 1.0 {
        // Those that report to the first stand for equal shares of the others.
        hosts = ((hosts - 1.0) / FAN_OUT).ceil();
        levels += 1.0;
    }
    levels
}

/// An assumption, and the least number of hosts with which it does not hold.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Break {
    pub(super) assumption: String,
    /// `None` if it holds up to [`MOST`].
    pub(super) hosts: Option<u32>,
}

/// The most hosts that are looked at.
pub(super) const MOST: u32 = 10_000;

/// Which assumption breaks first, the first one first. `memory` is that of a host, in bytes.
pub(super) fn breaks(costs: &Costs, cluster: Cluster, memory: f64) -> Vec<Break> {
    type Holds = Box<dyn Fn(&Prediction) -> bool>;
    let assumptions: [(&str, Holds); 8] = [
        ("one thread reads what a host's cores receive", Box::new(|p| p.by_readers >= p.by_cores)),
        ("the network carries what the cores exchange", Box::new(|p| p.by_links >= p.by_cores)),
        ("batches are at least half full", Box::new(|p| p.batch >= BATCH / 2.0)),
        ("batches have more than one record", Box::new(|p| p.batch > 1.0)),
        (
            "watermarks every 0.2 ms take less than a tenth of a core",
            Box::new(|p| p.event < WATERMARKS / 10.0),
        ),
        ("a barrier takes less than 0.1 s of a core", Box::new(|p| p.event < 0.1)),
        ("connections fit into 1,024 open files", Box::new(|p| p.connections <= CONNECTIONS)),
        ("lanes take less than a tenth of the memory", Box::new(move |p| p.lanes < memory / 10.0)),
    ];
    let first = |holds: &Holds| {
        (2..=MOST)
            .find(|hosts| !holds(&costs.predict(Cluster { hosts: f64::from(*hosts), ..cluster })))
    };
    let mut breaks: Vec<Break> = assumptions
        .iter()
        .map(|(assumption, holds)| Break {
            assumption: (*assumption).to_owned(),
            hosts: first(holds),
        })
        .collect();
    breaks.sort_by_key(|of| of.hosts.unwrap_or(u32::MAX));
    breaks
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn fit(coefficients: [f64; 3]) -> Fit<3> {
        Fit { coefficients, residuals: Vec::new() }
    }

    pub(in super::super) fn costs() -> Costs {
        Costs {
            local: fit([10e-9, 0.1e-9, 100e-9]),
            remote: fit([20e-9, 1e-9, 1000e-9]),
            reader: fit([1e-9, 0.2e-9, 300e-9]),
            event_local: 100e-9,
            event_remote: 500e-9,
            event_host: 2e-6,
            round: 5e-6,
            hop: 10e-6,
        }
    }

    pub(in super::super) const CLUSTER: Cluster = Cluster {
        hosts: 2.0,
        cores: 1.0,
        tasks: 1.0,
        width: 8.0,
        bandwidth: 1.25e9,
        latency: 50e-6,
    };

    fn near(found: f64, known: f64) {
        assert!((found / known - 1.0).abs() < 1e-6, "{found} is not {known}");
    }

    #[test]
    fn a_small_cluster_is_computed_as_on_paper() {
        let found = costs().predict(CLUSTER);
        // Half of the records stay: 10.8 ns and 0.1 ns for the batch; half leave: 28 ns and 1 ns.
        let cost = (10.8e-9 + 100e-9 / 1024.0) / 2.0 + (28e-9 + 1000e-9 / 1024.0) / 2.0;
        near(found.cost, cost);
        near(found.by_cores, 2.0 / cost);
        near(found.by_readers, 2.0 / (0.5 * (2.6e-9 + 300e-9 / 1024.0)));
        near(found.by_links, 2.0 * 1.25e9 / (0.5 * (8.0 + 30.0 / 1024.0)));
        near(found.event, 2.0 * (0.5 * 100e-9 + 0.5 * 500e-9) + 2e-6);
        near(found.round, 5e-6 + 2.0 * 60e-6);
        assert_eq!((found.batch, found.connections, found.limit()), (1024.0, 1.0, Limit::Cores));
        near(costs().on_processors(Cluster { hosts: 3.0, ..CLUSTER }, 2.0), {
            2.0 / costs().predict(Cluster { hosts: 3.0, ..CLUSTER }).cost
        });
    }

    #[test]
    fn many_receivers_empty_the_batches() {
        // 6400 lanes: a turn of 16,384 records has 2.56 for each.
        let found = costs().predict(Cluster { hosts: 100.0, cores: 64.0, ..CLUSTER });
        near(found.batch, TURN / 6400.0);
        let batch = TURN / 6400.0;
        near(found.cost, 0.01 * (10.8e-9 + 100e-9 / batch) + 0.99 * (28e-9 + 1000e-9 / batch));
        let many = costs().predict(Cluster { hosts: 1000.0, cores: 64.0, tasks: 4.0, ..CLUSTER });
        assert_eq!((many.batch, many.connections), (1.0, 999.0));
        near(many.lanes, 2.0 * 64.0 * 256_000.0 * 300.0);
        near(found.round, 5e-6 + 2.0 * 2.0 * 60e-6);
        near(many.round, 5e-6 + 2.0 * 3.0 * 60e-6);
        assert_eq!(
            [1.0, 2.0, 17.0, 18.0, 273.0, 274.0].map(levels),
            [0.0, 1.0, 1.0, 2.0, 2.0, 3.0]
        );
    }

    #[test]
    fn a_narrow_network_limits() {
        let narrow = Cluster { bandwidth: 1e6, ..CLUSTER };
        let found = costs().predict(narrow);
        assert_eq!(found.limit(), Limit::Link);
        assert!(found.throughput() < found.by_cores);
    }

    #[test]
    fn assumptions_break_in_order() {
        let cluster = Cluster { cores: 64.0, ..CLUSTER };
        let breaks = breaks(&costs(), cluster, 256e9);
        let of = |words: &str| {
            breaks.iter().find(|found| found.assumption.contains(words)).unwrap().hosts
        };
        // 64 cores need 64 times what one reading thread gives.
        assert_eq!(of("one thread reads"), Some(2));
        assert_eq!(of("open files"), Some(962));
        // A barrier takes 64 lanes of 0.5 us for each host, and 2 us.
        assert!((2900..3000).contains(&of("a barrier").unwrap()), "{breaks:?}");
        assert!(breaks.is_sorted_by_key(|of| of.hosts.unwrap_or(u32::MAX)));
    }
}
