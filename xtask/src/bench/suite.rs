//! The benches, their cases, and the contestants of each: values only, nothing runs here.

mod state;

use super::Size;
use super::peers::Pins;

/// One case of a bench: one piece of work, done by our program and by its rivals.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) bench: &'static str,
    pub(super) name: String,
    /// The subject, whose throughput is divided by the others'.
    pub(super) ours: Contestant,
    pub(super) rivals: Vec<Contestant>,
    pub(super) metric: Metric,
}

/// The metric that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    /// Records per second.
    Throughput,
    /// The 99th percentile of the latency; the ratio is inverted so that greater is better.
    P99,
    /// Records per second of processor time, of all threads.
    Cpu,
    /// The duration of a round, whatever its records; the ratio is inverted so that greater is better.
    Seconds,
}

/// A program with its arguments.
#[derive(Clone, Debug)]
pub(super) struct Contestant {
    /// The name in the report and for `--peers`.
    pub(super) peer: &'static str,
    pub(super) program: Program,
    pub(super) dataset: Option<String>,
    /// A second table that it needs and cannot generate.
    pub(super) table: Option<String>,
    /// Whether its hosts encrypt what they send, for which they need certificates.
    pub(super) certificates: bool,
    pub(super) cores: Option<usize>,
    /// All other arguments: the protocol's case and options.
    pub(super) arguments: Vec<String>,
    /// Whether its data differs from the subject's, so that the answers cannot be equal.
    pub(super) own_answer: bool,
    /// Rounds before those that count: one, and more for a virtual machine, which compiles code that runs often.
    pub(super) warm_up: u32,
    /// Whether it takes part only when it is named, because it is large.
    pub(super) by_name: bool,
}

impl Contestant {
    /// The datasets that it is given, each with its option.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let data = self.dataset.iter().map(|set| ("--data", set));
        data.chain(self.table.iter().map(|set| ("--table", set)))
    }
}

/// The origin of a contestant's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// A package of the benchmarks' workspace whose binary has the same name.
    Package(&'static str, Build),
    /// A script of `benchmarks/peers-python`, with its requirements.
    Script(&'static str, Pins),
    /// Like `Script`, for a system that runs on Java.
    OnJava(&'static str, Pins),
    /// The Maven project `benchmarks/peers-flink`.
    Flink,
    /// The program of `benchmarks/peers-cpp` that runs on ranks of MPI, as many as cores.
    Mpi,
    /// The program of `benchmarks/peers-cpp` that runs on threads of OpenMP.
    OpenMp,
}

/// The processor that a package is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// This machine's.
    Native,
    /// Any of its architecture: the default of the compiler, and what users get.
    Portable,
}

impl Program {
    /// Whether two programs are compiled from the same source, so that neither confirms the other's answers.
    pub(super) fn same_source(self, other: Self) -> bool {
        match (self, other) {
            (Program::Package(one, _), Program::Package(other, _)) => one == other,
            _ => self == other,
        }
    }
}

const OURS: Program = Program::Package("bench-ours", Build::Native);
const OURS_PORTABLE: Program = Program::Package("bench-ours", Build::Portable);
const BOUNDS: Program = Program::Package("bench-bounds", Build::Native);
const RENOIR: Program = Program::Package("bench-renoir", Build::Native);
const TIMELY: Program = Program::Package("bench-timely", Build::Native);
const RAYON: Program = Program::Package("bench-rayon", Build::Native);
const THREADS: Program = Program::Package("bench-threads", Build::Native);
const POLARS: Program = Program::Script("polars_peer.py", PINS);
const DUCKDB: Program = Program::Script("duckdb_peer.py", PINS);
const SPARK: Program = Program::OnJava("spark_peer.py", Pins("requirements-spark.txt"));
const FLINK: Program = Program::Flink;
const MPI: Program = Program::Mpi;
const OPENMP: Program = Program::OpenMp;

const PINS: Pins = Pins("requirements.txt");

/// Rounds before those that count on a virtual machine, which compiles code that runs often: in most cases, rounds no
/// longer get faster after these.
const JAVA_WARM_UP: u32 = 8;

/// The names of all benches, in the order in which `all` runs them.
pub(super) const BENCHES: [&str; 26] = [
    "wordcount",
    "keyed-count",
    "exchange",
    "fused",
    "fusion",
    "skew",
    "collatz",
    "collisions",
    "join",
    "latency",
    "nexmark",
    "nexmark-latency",
    "ysb",
    "windows",
    "window-latency",
    "connected",
    "pagerank",
    "triangles",
    "closure",
    "kmeans",
    "barrier",
    "checkpoint",
    "recovery",
    "rescale",
    "spill",
    "hosts",
];

/// The benches whose cases are summarised by the geometric mean of their ratios.
pub(super) const AVERAGED: [&str; 1] = ["nexmark"];

/// The cases of a bench for a machine with `cores` cores; `None` when there is no such bench.
pub(super) fn cases(bench: &str, size: Size, cores: usize) -> Option<Vec<Case>> {
    let cases = match bench {
        "wordcount" => wordcount(size, cores),
        "keyed-count" => keyed_count(size),
        "exchange" => exchange(size),
        "fused" => fused(size),
        "fusion" => fusion(size),
        "skew" => skew(size, cores),
        "collatz" => collatz(size),
        "collisions" => collisions(size),
        "join" => join(size),
        "latency" => latency(size),
        "nexmark" => nexmark(size),
        "nexmark-latency" => nexmark_latency(size),
        "ysb" => ysb(size),
        "windows" => windows(size),
        "window-latency" => window_latency(size),
        "connected" => connected(size),
        "pagerank" => pagerank(size),
        "triangles" => triangles(size),
        "closure" => closure(size),
        "kmeans" => kmeans(size, cores),
        "barrier" => barrier(size, cores),
        "checkpoint" => state::checkpoint(size),
        "recovery" => state::recovery(size),
        "rescale" => state::rescale(size),
        "spill" => state::spill(size),
        "hosts" => hosts(size, cores),
        _ => return None,
    };
    Some(cases.into_iter().map(Case::beside_portable).collect())
}

/// The name of our own program as a contestant.
pub(super) const SUBJECT: &str = "thalweg";

/// The name of our own program compiled for any processor, which takes part in every case.
pub(super) const PORTABLE: &str = "thalweg-portable";

/// A contestant from `CASE --name value ...`, written as one line.
fn contestant(peer: &'static str, program: Program, arguments: &str) -> Contestant {
    Contestant {
        peer,
        program,
        dataset: None,
        table: None,
        certificates: false,
        cores: None,
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
        own_answer: false,
        warm_up: 1,
        by_name: false,
    }
}

impl Case {
    fn new(bench: &'static str, name: impl Into<String>, ours: &str) -> Self {
        let ours = contestant(SUBJECT, OURS, ours);
        Self { bench, name: name.into(), ours, rivals: Vec::new(), metric: Metric::Throughput }
    }

    fn against(mut self, peer: &'static str, program: Program, arguments: &str) -> Self {
        self.rivals.push(contestant(peer, program, arguments));
        self
    }

    /// A rival on Java, which reads the events that other contestants generate. Flink SQL takes part for its answers,
    /// not for its speed.
    fn against_java(
        mut self,
        peer: &'static str,
        program: Program,
        arguments: &str,
        events: &str,
    ) -> Self {
        let mut rival = contestant(peer, program, arguments);
        rival.dataset = Some(events.to_owned());
        rival.table = events.starts_with("events:ysb").then(|| "campaigns".to_owned());
        rival.warm_up = if peer == "flink-sql" { 1 } else { JAVA_WARM_UP };
        rival.by_name = true;
        self.rivals.push(rival);
        self
    }

    /// Adds our own program as users compile it, doing the same work.
    fn beside_portable(mut self) -> Self {
        let portable = Contestant { peer: PORTABLE, program: OURS_PORTABLE, ..self.ours.clone() };
        self.rivals.insert(0, portable);
        self
    }

    /// Our own program and its rivals.
    pub(super) fn contestants(&self) -> impl Iterator<Item = &Contestant> {
        std::iter::once(&self.ours).chain(&self.rivals)
    }

    fn everyone(&mut self) -> impl Iterator<Item = &mut Contestant> {
        std::iter::once(&mut self.ours).chain(&mut self.rivals)
    }

    /// Sets the dataset of all contestants that have none yet.
    fn on(mut self, dataset: &str) -> Self {
        for one in self.everyone().filter(|one| one.dataset.is_none()) {
            one.dataset = Some(dataset.to_owned());
        }
        self
    }

    /// Sets the number of cores of all contestants, instead of all that the run may use.
    fn on_cores(mut self, cores: usize) -> Self {
        self.everyone().for_each(|one| one.cores = Some(cores));
        self
    }
}

fn wordcount(size: Size, cores: usize) -> Vec<Case> {
    let text = format!("text:{}", size.pick(128, 1024));
    let mut cases = vec![
        Case::new("wordcount", "idiomatic", "wordcount --form idiomatic")
            .against("thalweg-assoc", OURS, "wordcount --form assoc")
            .against("renoir", RENOIR, "wordcount --form idiomatic")
            .against("timely", TIMELY, "wordcount")
            .against("polars", POLARS, "wordcount")
            .against("duckdb", DUCKDB, "wordcount")
            .against("bound", BOUNDS, "wordcount"),
        Case::new("wordcount", "assoc", "wordcount --form assoc")
            .against("renoir", RENOIR, "wordcount --form assoc")
            .against("renoir-folded", RENOIR, "wordcount --form folded")
            .against("timely", TIMELY, "wordcount")
            .against("rayon", RAYON, "wordcount")
            .against("polars", POLARS, "wordcount")
            .against("duckdb", DUCKDB, "wordcount")
            .against("bound", BOUNDS, "wordcount"),
        // The same job, from a graph known only at run time.
        Case::new("wordcount", "graph", "wordcount --form graph")
            .against("thalweg-idiomatic", OURS, "wordcount --form idiomatic")
            .against("polars", POLARS, "wordcount")
            .against("bound", BOUNDS, "wordcount"),
    ];
    // Words that a closure splits: the library has no visitor for them.
    for words in ["whitespace", "alphanumeric"] {
        let work = |form: &str| format!("wordcount --form {form} --words {words}");
        let case = Case::new("wordcount", words, &work("assoc"))
            .against("renoir", RENOIR, &work("assoc"))
            .against("renoir-folded", RENOIR, &work("folded"))
            .against("timely", TIMELY, &work("assoc"))
            .against("rayon", RAYON, &work("assoc"))
            .against("polars", POLARS, &work("assoc"))
            .against("duckdb", DUCKDB, &work("assoc"));
        cases.push(case);
    }
    for few in [1, 2].into_iter().filter(|few| *few <= cores) {
        let case = Case::new("wordcount", format!("{few}-core"), "wordcount --form assoc")
            .against("rayon", RAYON, "wordcount")
            .against("bound", BOUNDS, "wordcount");
        cases.push(case.on_cores(few));
    }
    cases.into_iter().map(|case| case.on(&text)).collect()
}

/// Cases of the keyed count: name, distribution, different keys.
const KEYS: [(&str, &str, u64); 5] = [
    ("1K", "uniform", 1_000),
    ("1M", "uniform", 1_000_000),
    ("16M", "uniform", 16_000_000),
    ("1M-zipf", "zipf", 1_000_000),
    ("1M-hot", "hot", 1_000_000),
];

fn keys(kind: &str, distinct: u64, size: Size) -> String {
    format!("keys:{kind}:{distinct}:{}", size.pick(32_000_000, 256_000_000))
}

fn keyed_count(size: Size) -> Vec<Case> {
    let case = |(name, kind, distinct): (&str, &str, u64)| {
        let work = format!("keyed-count --distinct {distinct}");
        Case::new("keyed-count", name, &work)
            .against("renoir", RENOIR, "keyed-count --form combined")
            .against("rayon", RAYON, "keyed-count")
            .against("polars", POLARS, "keyed-count")
            .against("duckdb", DUCKDB, "keyed-count")
            .against("bound", BOUNDS, &work)
            .against("bound-dense", BOUNDS, &format!("{work} --form dense"))
            .on(&keys(kind, distinct, size))
    };
    KEYS.into_iter().map(case).collect()
}

/// Our records with strings are sent as views of them.
const VIEWS: &str = " --form views";

/// The exchanges of numbers and of records with strings.
fn exchanges(size: Size) -> [String; 2] {
    [
        format!("exchange-u64 --records {}", size.pick(32_000_000_u64, 256_000_000)),
        format!("exchange-strings --records {}", size.pick(2_000_000, 16_000_000)),
    ]
}

fn exchange(size: Size) -> Vec<Case> {
    let case = |name: &str, work: &str, renoir: &str, form: &str| {
        Case::new("exchange", name, &format!("{work}{form}"))
            .against("timely", TIMELY, work)
            .against("renoir", RENOIR, &format!("{work} --by {renoir}"))
            .against("bound", BOUNDS, work)
    };
    let [numbers, strings] = exchanges(size);
    // Renoir uses whichever choice of receivers is faster for it.
    vec![
        case("u64", &numbers, "key", ""),
        case("strings", &strings, "shuffle", ""),
        case("strings-views", &strings, "shuffle", VIEWS),
        case("strings-borrowed", &strings, "shuffle", " --form borrowed"),
    ]
}

fn fused(size: Size) -> Vec<Case> {
    let work = format!("fused --records {}", size.pick(1_000_000_000u64, 8_000_000_000));
    vec![
        Case::new("fused", "map-filter-sum", &work)
            .against("renoir", RENOIR, &work)
            .against("rayon", RAYON, &work)
            .against("bound", BOUNDS, &work),
    ]
}

fn fusion(size: Size) -> Vec<Case> {
    let maps = |count: u32, level: &str, records: u64| {
        format!("fusion --maps {count} --records {records} --level {level}")
    };
    let many = size.pick(1_000_000_000, 4_000_000_000);
    let few = size.pick(4_000_000, 32_000_000);
    let plain = format!("fusion --maps 50 --records {many}");
    let mut one_map = contestant("thalweg-one-map", OURS, &maps(1, "instruction", many));
    one_map.own_answer = true;
    let mut instruction = Case::new("fusion", "instruction", &maps(50, "instruction", many))
        .against("renoir", RENOIR, &plain)
        .against("bound", BOUNDS, &plain);
    instruction.rivals.insert(0, one_map);
    let levels = Case::new("fusion", "levels", &maps(50, "instruction", few))
        .against("thalweg-invocation", OURS, &maps(50, "invocation", few))
        .against("thalweg-task", OURS, &maps(50, "task", few))
        .against("thalweg-none", OURS, &maps(50, "none", few));
    vec![instruction, levels]
}

fn skew(size: Size, cores: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let loads = [("low", 100, 1_000_000), ("medium", 500, 200_000), ("high", 1000, 100_000)];
    // Name, items, split, partitions of the classic model, partitions for stealing.
    let splits = [
        ("uniform", "uniform", "even", cores, cores),
        ("skewed", "skewed", "skewed", cores, 8),
        ("thesis-uniform", "thesis-uniform", "even", 4, 8),
        ("thesis-skewed", "thesis-skewed", "even", 4, 8),
    ];
    for (name, items, split, base, partitions) in splits {
        for (load, iterations, small) in loads {
            let work = format!("skew --split {split} --iterations {iterations} --base {base}");
            let ours = |scheduler: &str, partitions: usize| {
                format!("{work} --scheduler {scheduler} --partitions {partitions}")
            };
            let by_hand = format!("skew --split {split} --iterations {iterations}");
            let case =
                Case::new("skew", format!("{name}-{load}"), &ours("work-stealing", partitions))
                    .against("thread-per-task", OURS, &ours("thread-per-task", base))
                    .against("threads", THREADS, &format!("{by_hand} --partitions {base}"))
                    .against("bound", BOUNDS, &by_hand);
            cases.push(case.on(&format!("items:{items}:{}", size.pick(small, 10_000_000))));
        }
    }
    let work = "keyed-count --distinct 1000000";
    let mut uniform = contestant("thalweg-uniform", OURS, work);
    uniform.own_answer = true;
    uniform.dataset = Some(keys("uniform", 1_000_000, size));
    let mut hot = Case::new("skew", "hot-key", work).against("bound", BOUNDS, work);
    hot.rivals.insert(0, uniform);
    cases.push(hot.on(&keys("hot", 1_000_000, size)));
    cases
}

fn collatz(size: Size) -> Vec<Case> {
    let work = format!("collatz --limit {}", size.pick(10_000_000, 100_000_000));
    vec![
        Case::new("collatz", "longest", &work)
            .against("rayon", RAYON, &work)
            .against("renoir", RENOIR, &work)
            .against("bound", BOUNDS, &work),
    ]
}

fn collisions(size: Size) -> Vec<Case> {
    let case = Case::new("collisions", "three-questions", "collisions")
        .against("thalweg-serde", OURS, "collisions --form serde")
        .against("renoir", RENOIR, "collisions")
        .against("polars", POLARS, "collisions")
        .against("duckdb", DUCKDB, "collisions")
        .against("mpi", MPI, "collisions")
        .against("openmp", OPENMP, "collisions")
        .against("bound", BOUNDS, "collisions");
    vec![case.on(&format!("collisions:{}", size.pick(128, 1024)))]
}

fn join(size: Size) -> Vec<Case> {
    let rows: u64 = size.pick(4_000_000, 10_000_000);
    let half = rows / 2;
    // Two tables of one distribution are two files, as their keys are below different bounds. If one side is skewed,
    // each of its rows has two partners on average.
    let tables = [
        ("uniform", format!("uniform:{rows}:{rows}"), format!("uniform:{}:{rows}", rows + 1)),
        ("skewed", format!("zipf:{half}:{rows}"), format!("uniform:{half}:{rows}")),
    ];
    let case = |(name, left, right): (&'static str, String, String)| {
        let mut case = Case::new("join", name, "join")
            .against("renoir", RENOIR, "join")
            .against("polars", POLARS, "join")
            .against("duckdb", DUCKDB, "join")
            .against("bound", BOUNDS, "join")
            .on(&format!("keys:{left}"));
        case.everyone().for_each(|one| one.table = Some(format!("keys:{right}")));
        case
    };
    tables.into_iter().map(case).collect()
}

fn latency(size: Size) -> Vec<Case> {
    let every_millisecond = size.pick(2000, 20_000);
    let light = format!("latency --interval-us 1000 --records {every_millisecond}");
    let slow = format!("{light} --work-us 500");
    let heavy = format!("latency --interval-us 0 --records {}", size.pick(8_000_000, 64_000_000));
    let with = |work: &str, batch: &str| format!("{work} --batch {batch}");
    let mut calm = Case::new("latency", "light", &with(&light, "default"))
        .against("timely", TIMELY, &light)
        .against("renoir", RENOIR, &with(&light, "default"))
        .against("renoir-timed", RENOIR, &with(&light, "timed"))
        .against("renoir-single", RENOIR, &with(&light, "single"));
    // Half a millisecond of work for each record: half of a core.
    let mut slow = Case::new("latency", "slow", &with(&slow, "default"))
        .against("timely", TIMELY, &slow)
        .against("renoir-single", RENOIR, &with(&slow, "single"));
    (calm.metric, slow.metric) = (Metric::P99, Metric::P99);
    let busy = Case::new("latency", "heavy", &with(&heavy, "default"))
        .against("thalweg-fixed", OURS, &with(&heavy, "fixed"))
        .against("timely", TIMELY, &heavy)
        .against("renoir", RENOIR, &with(&heavy, "default"))
        .against("renoir-timed", RENOIR, &with(&heavy, "timed"))
        .against("renoir-fixed", RENOIR, &with(&heavy, "fixed"));
    vec![calm, slow, busy]
}

/// The queries of Nexmark.
const QUERIES: [u8; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

fn nexmark(size: Size) -> Vec<Case> {
    let case = |query: u8| {
        let events: u64 = size.pick(2_000_000, 20_000_000);
        let work = format!("nexmark --query {query} --events {events}");
        let (java, file) = (format!("--query {query}"), format!("events:nexmark:{events}"));
        Case::new("nexmark", format!("q{query}"), &work)
            .against("renoir", RENOIR, &work)
            .against("timely", TIMELY, &work)
            .against("bound", BOUNDS, &work)
            .against_java("flink", FLINK, &format!("nexmark {java}"), &file)
            .against_java("flink-sql", FLINK, &format!("nexmark-sql {java}"), &file)
    };
    QUERIES.into_iter().map(case).collect()
}

/// Queries of Nexmark under an open loop: query, and millions of events a second, about half of what the slower of
/// both sustains on two cores without a fixed rate.
const RATES: [(u8, u64); 3] = [(2, 20), (3, 16), (5, 12)];

fn nexmark_latency(size: Size) -> Vec<Case> {
    let case = |(query, millions): (u8, u64)| {
        let rate = millions * 1_000_000;
        let events = rate * size.pick(5, 60);
        let work = format!(
            "nexmark-latency --query {query} --rate {rate} --tape 2000000 --events {events}"
        );
        let mut case = Case::new("nexmark-latency", format!("q{query}"), &work)
            .against("timely", TIMELY, &work);
        case.metric = Metric::P99;
        case
    };
    RATES.into_iter().map(case).collect()
}

fn ysb(size: Size) -> Vec<Case> {
    let case = |name: &str| {
        let events: u64 = size.pick(20_000_000, 60_000_000);
        let work = format!("{name} --events {events}");
        let file = format!("events:ysb:{events}");
        Case::new("ysb", name, &work)
            .against("renoir", RENOIR, &work)
            .against("timely", TIMELY, &work)
            .against("bound", BOUNDS, &work)
            .against_java("flink", FLINK, name, &file)
            .against_java("flink-sql", FLINK, &format!("{name}-sql"), &file)
            .against_java("spark", SPARK, name, &file)
    };
    vec![case("ysb"), case("ysb-star"), case("swa")]
}

/// Cases of windows: name, aggregate, keys, size in seconds, events. The slide is a second.
const WINDOWS: [(&str, &str, u32, u32, u64); 10] = [
    ("tumbling-sum", "sum", 100, 1, 10_000_000),
    ("tumbling-max", "max", 100, 1, 10_000_000),
    ("tumbling-sum-10K", "sum", 10_000, 1, 2_000_000),
    ("tumbling-max-10K", "max", 10_000, 1, 2_000_000),
    ("sliding-sum", "sum", 100, 10, 10_000_000),
    ("sliding-max", "max", 100, 10, 10_000_000),
    ("sliding-sum-10K", "sum", 10_000, 10, 2_000_000),
    ("sliding-max-10K", "max", 10_000, 10, 2_000_000),
    ("sliding-3600-sum", "sum", 100, 3600, MANY),
    ("sliding-3600-max", "max", 100, 3600, MANY),
];

/// Enough events that the windows cut short by the end of the data are a minor part.
const MANY: u64 = 60_000_000;

fn windows(size: Size) -> Vec<Case> {
    let work = |form: &str, keys: u32, seconds: u32, events: u64| {
        format!("windows --form {form} --keys {keys} --size {seconds} --slide 1 --events {events}")
    };
    let mut cases = Vec::new();
    for (name, form, keys, seconds, events) in WINDOWS {
        let work = |events| work(form, keys, seconds, events);
        let all = work(size.pick(events, 4 * events));
        let case = Case::new("windows", name, &all);
        let mut case = if seconds == 3600 {
            // Renoir processes each event once for each of its windows: with more events, a round would take minutes.
            case.against("renoir", RENOIR, &work(size.pick(100_000, 1_000_000)))
        } else {
            case.against("renoir", RENOIR, &all)
        };
        case.everyone().skip(1).for_each(|renoir| renoir.own_answer = seconds == 3600);
        cases.push(case.against("bound", BOUNDS, &all));
    }
    // Sessions end after 55 readings on average, whatever the number of keys: a gap of four times the mean
    // time from a key's reading to its next one. Short ones have two.
    for (keys, gap, events, suffix) in [
        (100, 40, 10_000_000, ""),
        (10_000, 4000, 2_000_000, "-10K"),
        (100_000, 40_000, 8_000_000, "-100K"),
        (50_000, 4000, 2_000_000, "-short"),
    ] {
        for form in ["sum", "max"] {
            let events = size.pick(events, 4 * events);
            let work =
                format!("windows --form {form} --keys {keys} --gap-ms {gap} --events {events}");
            let case = Case::new("windows", format!("session-{form}{suffix}"), &work)
                .against("renoir", RENOIR, &work)
                .against("renoir-operator", RENOIR, &format!("{work} --by hand"))
                .against("timely", TIMELY, &work)
                .against("bound", BOUNDS, &work);
            cases.push(case);
        }
    }
    // The cost of the overlap: ours against ours, on the same events.
    for form in ["sum", "max"] {
        let events = size.pick(MANY, 4 * MANY);
        let mut case =
            Case::new("windows", format!("overlap-{form}"), &work(form, 100, 3600, events))
                .against("thalweg-tumbling", OURS, &work(form, 100, 1, events));
        case.rivals[0].own_answer = true;
        cases.push(case);
    }
    cases
}

/// A million readings a second, and results of a thousand keys a hundred times a second: eleven seconds for a million
/// results, since the first windows are not complete.
fn window_latency(size: Size) -> Vec<Case> {
    let work = format!(
        "window-latency --rate 1000000 --keys 1000 --size-ms 1000 --slide-ms 10 --events {}",
        size.pick(11_020_000, 61_020_000)
    );
    let mut case = Case::new("window-latency", "sliding", &work)
        .against("renoir", RENOIR, &format!("{work} --batch timed"))
        .against("timely", TIMELY, &work);
    let mut flink = contestant("flink", FLINK, &work);
    // A round has enough readings for the compiler of the virtual machine.
    (flink.warm_up, flink.by_name) = (2, true);
    case.rivals.push(flink);
    case.metric = Metric::P99;
    vec![case]
}

fn connected(size: Size) -> Vec<Case> {
    let (nodes, edges) = (20_000, size.pick(1_000_000, 5_000_000));
    let work = format!("connected --nodes {nodes}");
    let case = Case::new("connected", "components", &work)
        .against("thalweg-changes", OURS, &format!("{work} --form changes"))
        .against("renoir", RENOIR, &work)
        .against("timely", TIMELY, &work)
        .against("rayon", RAYON, &work)
        .against("mpi", MPI, &work)
        .against("openmp", OPENMP, &work)
        .against("bound", BOUNDS, &work)
        .against("bound-labels", BOUNDS, &format!("{work} --form labels"));
    vec![case.on(&format!("graph:components:{nodes}:{edges}"))]
}

fn pagerank(size: Size) -> Vec<Case> {
    let (nodes, links) = size.pick((16_000, 500_000), (80_000, 2_500_000));
    let case = |form: &str| {
        // The program by hand has one way to hold ranks, whatever the form of ours.
        let by_hand = if form == "join" { "state" } else { form };
        let work = |form: &str| format!("pagerank --form {form} --nodes {nodes} --iterations 10");
        let mut case = Case::new("pagerank", form, &work(form))
            .against("renoir", RENOIR, &work(form))
            .against("rayon", RAYON, &work(by_hand))
            .against("mpi", MPI, &work(by_hand))
            .against("openmp", OPENMP, &work(by_hand))
            .against("bound", BOUNDS, &work(by_hand));
        if form == "integer" {
            case = case.against("timely", TIMELY, &work(form));
        }
        case.on(&format!("graph:links:{nodes}:{links}"))
    };
    ["state", "join", "integer"].map(case).into()
}

fn triangles(size: Size) -> Vec<Case> {
    let (nodes, edges) = size.pick((500, 100_000), (1500, 900_000));
    let work = |form: &str| format!("triangles --form {form} --nodes {nodes}");
    let cases = [
        Case::new("triangles", "join", &work("join")).against("renoir", RENOIR, &work("join")),
        Case::new("triangles", "adjacency", &work("adjacency"))
            .against("renoir", RENOIR, &work("adjacency"))
            .against("rayon", RAYON, &work("adjacency"))
            .against("mpi", MPI, &work("adjacency"))
            .against("openmp", OPENMP, &work("adjacency"))
            .against("bound", BOUNDS, &work("bits"))
            .against("bound-lists", BOUNDS, &work("adjacency")),
    ];
    cases.map(|case| case.on(&format!("graph:uniform:{nodes}:{edges}"))).into()
}

fn closure(size: Size) -> Vec<Case> {
    let (nodes, edges) = size.pick((1000, 1500), (2000, 3000));
    let work = format!("closure --nodes {nodes}");
    let case = |form: &str| {
        let mut case = Case::new("closure", form, &format!("{work} --form {form}"))
            .against("renoir", RENOIR, &work)
            .against("timely", TIMELY, &work)
            .against("bound", BOUNDS, &work);
        if form == "adjacency" {
            case = case.against("mpi", MPI, &work).against("openmp", OPENMP, &work);
        }
        case.on(&format!("graph:uniform:{nodes}:{edges}"))
    };
    ["changes", "adjacency"].map(case).into()
}

/// Numbers of centroids in the cases of k-means: those of the specialists' programs, and those with which RStream's
/// authors show how it scales.
const CENTROIDS: [u32; 6] = [1, 10, 30, 100, 300, 750];

fn kmeans(size: Size, cores: usize) -> Vec<Case> {
    let case = |name: String, centroids: u32| {
        let work = format!("kmeans --centroids {centroids} --iterations 10");
        Case::new("kmeans", name, &work)
            .against("renoir", RENOIR, &work)
            .against("renoir-pieces", RENOIR, &format!("{work} --form pieces"))
            .against("rayon", RAYON, &work)
            .against("mpi", MPI, &work)
            .against("openmp", OPENMP, &work)
            .against("bound", BOUNDS, &work)
    };
    let mut cases: Vec<Case> =
        CENTROIDS.into_iter().map(|centroids| case(format!("k-{centroids}"), centroids)).collect();
    for few in [1, 2].into_iter().filter(|few| *few <= cores) {
        cases.push(case(format!("{few}-core"), 30).on_cores(few));
    }
    let points = format!("points:{}", size.pick(2_000_000, 10_000_000));
    cases.into_iter().map(|case| case.on(&points)).collect()
}

/// Empty rounds, on two cores if there are so many.
fn barrier(size: Size, cores: usize) -> Vec<Case> {
    let work = format!("barrier --count {}", size.pick(100_000, 1_000_000));
    // Renoir takes a hundred times as long for a round.
    let renoir = format!("barrier --count {}", size.pick(1_000, 10_000));
    let mut case = Case::new("barrier", "empty", &work)
        .against("renoir", RENOIR, &renoir)
        .against("timely", TIMELY, &work)
        .against("mpi", MPI, &work)
        .against("openmp", OPENMP, &work);
    case.rivals[0].own_answer = true;
    vec![case.on_cores(cores.min(2))]
}

/// Work of other benches on two processes of one core each, beside one process of ours with two cores.
fn hosts(size: Size, cores: usize) -> Vec<Case> {
    if cores < 2 {
        return Vec::new();
    }
    // Each rival with its own options.
    let case = |name: String, work: &str, rivals: &[(&'static str, Program, &str)], own: &str| {
        let on_two = format!("{work} --hosts 2");
        let mut case = Case::new("hosts", name, &format!("{on_two}{own}"));
        for (peer, program, options) in rivals {
            case = case.against(peer, *program, &format!("{on_two}{options}"));
        }
        let mut case =
            case.on_cores(1).against("thalweg-one-process", OURS, &format!("{work}{own}"));
        case.rivals
            .iter_mut()
            .filter(|rival| rival.cores.is_none())
            .for_each(|rival| rival.cores = Some(2));
        case
    };
    let exchange = |name: &str, work: &str, renoir: &str, form: &str| {
        let rivals = [
            ("thalweg-tls", OURS, form),
            ("thalweg-lz4", OURS, &format!("{form} --compression lz4")),
            ("renoir", RENOIR, renoir),
            ("timely", TIMELY, ""),
            ("bound", BOUNDS, ""),
        ];
        let mut case = case(name.to_owned(), work, &rivals, form);
        case.rivals
            .iter_mut()
            .filter(|rival| rival.peer == "thalweg-tls")
            .for_each(|rival| rival.certificates = true);
        case
    };
    let counts = [
        ("renoir", RENOIR, " --form assoc"),
        ("renoir-folded", RENOIR, " --form folded"),
        ("timely", TIMELY, ""),
    ];
    let [numbers, strings] = exchanges(size);
    let mut cases = vec![
        exchange("u64", &numbers, " --by key", ""),
        exchange("strings", &strings, " --by shuffle", ""),
        exchange("strings-views", &strings, " --by shuffle", VIEWS),
        case("wordcount".to_owned(), "wordcount", &counts, " --form assoc")
            .on(&format!("text:{}", size.pick(128, 1024))),
    ];
    cases.extend(QUERIES.map(|query| {
        let events: u64 = size.pick(2_000_000, 20_000_000);
        let work = format!("nexmark --query {query} --events {events}");
        let rivals = [("renoir", RENOIR, ""), ("timely", TIMELY, "")];
        case(format!("q{query}"), &work, &rivals, "")
    }));
    let records = size.pick(2000, 20_000);
    let light = format!("latency --interval-us 1000 --records {records}");
    let mut light = case("light".to_owned(), &light, &[], "");
    light.metric = Metric::P99;
    cases.push(light);
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_bench_has_cases_with_names_of_their_own() {
        for bench in BENCHES {
            let cases = cases(bench, Size::Small, 2).expect(bench);
            let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            assert_eq!(names.len(), cases.len(), "{bench}");
            for case in &cases {
                assert_eq!(case.bench, bench);
                let peers: BTreeSet<&str> = case.rivals.iter().map(|rival| rival.peer).collect();
                assert_eq!(peers.len(), case.rivals.len(), "{bench}/{}", case.name);
                let portable = &case.rivals[0];
                assert_eq!((portable.peer, portable.program), (PORTABLE, OURS_PORTABLE));
                assert_eq!(portable.arguments, case.ours.arguments);
            }
        }
        assert!(cases("nothing", Size::Small, 2).is_none());
    }

    #[test]
    fn a_figure_of_k_means_can_be_drawn_in_one_run() {
        let cases = kmeans(Size::Small, 2);
        let points = |case: &Case| case.ours.dataset.as_deref() == Some("points:2000000");
        let names = cases.iter().filter(|case| points(case)).map(|case| case.name.as_str());
        let names: Vec<_> = names.filter(|name| name.starts_with("k-")).collect();
        assert_eq!(names, ["k-1", "k-10", "k-30", "k-100", "k-300", "k-750"]);
        for case in &cases {
            let peers: BTreeSet<&str> = case.rivals.iter().map(|rival| rival.peer).collect();
            assert!(peers.is_superset(&BTreeSet::from(["renoir", "rayon", "mpi", "openmp"])));
        }
    }

    #[test]
    fn one_core_has_no_case_for_two() {
        let named = |cores| {
            let cases = wordcount(Size::Small, cores);
            cases.iter().any(|case| case.name == "2-core")
        };
        assert!(named(2) && !named(1));
    }
}
