//! The benches of state: what checkpoints cost, how soon a job goes on from one, and state that exceeds memory.

use super::{Case, FLINK, Metric, OURS, contestant};
use crate::bench::Size;

impl Case {
    /// A rival on Flink that makes its records itself. One round warms it up, which is long enough for the compiler of
    /// the virtual machine.
    fn against_flink(mut self, peer: &'static str, arguments: &str) -> Self {
        let mut flink = contestant(peer, FLINK, arguments);
        flink.by_name = true;
        self.rivals.push(flink);
        self
    }
}

/// A count of keys with checkpoints, beside the same without, and beside Flink's with and without: as fast as it goes, and at a
/// quarter of that.
pub(super) fn checkpoint(size: Size) -> Vec<Case> {
    let work = format!(
        "checkpoint --distinct 1000000 --records {}",
        size.pick(200_000_000u64, 2_000_000_000)
    );
    let case = |(name, every): (&str, u64)| {
        let with = format!("{work} --every-ms {every}");
        let mut case = Case::new("checkpoint", name, &with)
            .against("none", OURS, &work)
            .against_flink("flink", &format!("{with} --backend hashmap"))
            .against_flink("flink-none", &format!("{work} --backend hashmap"))
            .against_flink("flink-rocksdb", &format!("{with} --backend rocksdb"))
            .against_flink("flink-rocksdb-none", &format!("{work} --backend rocksdb"));
        case.metric = Metric::Cpu;
        case
    };
    let work = format!(
        "checkpoint-latency --distinct 1000000 --load-percent 25 --seconds {}",
        size.pick(10, 30)
    );
    let latency = |(name, every): (&str, u64)| {
        let with = format!("{work} --every-ms {every}");
        let mut case = Case::new("checkpoint", name, &with)
            .against("none", OURS, &work)
            .against_flink("flink", &format!("{with} --backend hashmap"))
            .against_flink("flink-none", &format!("{work} --backend hashmap"));
        case.metric = Metric::P99;
        case
    };
    let throughput = [("1s", 1000), ("100ms", 100)].map(case);
    let latency = [("1s-latency", 1000), ("100ms-latency", 100)].map(latency);
    throughput.into_iter().chain(latency).collect()
}

/// From the death of a job to the moment when it has caught up, beside a first start that has nothing to restore, and beside
/// Flink, one of whose tasks fails. Each has a quarter of the load that it can do, or all have the same.
pub(super) fn recovery(size: Size) -> Vec<Case> {
    let case = |name: &'static str, distinct: u64, load: &str| {
        let work = format!("recovery --distinct {distinct} --every-ms 200 {load}");
        let ours = format!("{work} --seconds {}", size.pick(4, 10));
        // It takes longer to go on, and has to before the last records come.
        let flink = format!("{work} --seconds {}", size.pick(15, 30));
        let mut case = Case::new("recovery", name, &ours)
            .against("start", OURS, &format!("{ours} --after nothing"))
            .against_flink("flink", &format!("{flink} --backend hashmap"));
        case.metric = Metric::Seconds;
        case
    };
    let rocksdb = |case: Case| {
        let work = "recovery --distinct 1000000 --every-ms 200 --load-percent 25";
        let work = format!("{work} --seconds {} --backend rocksdb", size.pick(15, 30));
        case.against_flink("flink-rocksdb", &work)
    };
    vec![
        rocksdb(case("1M", 1_000_000, "--load-percent 25")),
        case("10M", 10_000_000, "--load-percent 25"),
        case("1M-same-load", 1_000_000, "--per-second 500000"),
    ]
}

/// From the start of a job on a checkpoint to the first record with its state, beside as many tasks as before.
pub(super) fn rescale(size: Size) -> Vec<Case> {
    let case = |(name, distinct): (&str, u64)| {
        let records = size.pick(5_u64, 50) * distinct.max(10_000_000);
        let work = format!("rescale --distinct {distinct} --records {records} --from 2");
        let mut case = Case::new("rescale", name, &format!("{work} --to 4")).against(
            "same",
            OURS,
            &format!("{work} --to 2"),
        );
        case.metric = Metric::Seconds;
        case
    };
    [("1M", 1_000_000), ("10M", 10_000_000)].into_iter().map(case).collect()
}

/// The bytes of an entry of state, a key and a count, without what a table or a store adds.
const ENTRY: u64 = 16;
/// How many times the memory budget a state is.
const TIMES: u64 = 4;

/// Counts of many keys in a quarter of the memory that they take, beside the same in as much as they need.
pub(super) fn spill(size: Size) -> Vec<Case> {
    // Entries are those of one key at a time, and passes are how often each key comes.
    let case = |name: &'static str, keys: u64, entries: u64, passes: u64, options: &str| {
        let work = format!("spill-{name} --distinct {keys} --records {}{options}", passes * keys);
        let short = format!("{work} --memory {}", keys * entries * ENTRY / TIMES);
        Case::new("spill", name, &short)
            .against("memory", OURS, &work)
            .against_flink("flink-rocksdb", &format!("{short} --backend rocksdb"))
            .against_flink("flink", &format!("{work} --backend hashmap"))
    };
    vec![
        case("count", size.pick(8_000_000, 32_000_000), 1, 4, ""),
        // Four slides are in a window, each with an entry for each key.
        case("windows", size.pick(2_000_000, 8_000_000), 4, 6, " --overlap 4"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of an option of a contestant: of ours, or of a rival.
    fn option(case: &Case, peer: &str, name: &str) -> Option<u64> {
        let one = case.contestants().find(|one| one.peer == peer).expect(peer);
        let at = one.arguments.iter().position(|argument| argument == name)?;
        one.arguments.get(at + 1)?.parse().ok()
    }

    #[test]
    fn all_that_recover_have_a_load_of_the_same_kind() {
        for case in recovery(Size::Small) {
            for load in ["--load-percent", "--per-second", "--distinct", "--every-ms"] {
                let of = |peer| option(&case, peer, load);
                for rival in &case.rivals {
                    assert_eq!(of(rival.peer), of("thalweg"), "{} {load}", case.name);
                }
            }
            let loads =
                ["--load-percent", "--per-second"].map(|load| option(&case, "thalweg", load));
            assert_eq!(loads.iter().flatten().count(), 1, "{}", case.name);
        }
    }

    #[test]
    fn a_quarter_of_the_state_is_the_memory_of_all_that_spill() {
        for size in [Size::Small, Size::Full] {
            for case in spill(size) {
                let keys = option(&case, "thalweg", "--distinct").expect("all have keys");
                let entries = option(&case, "thalweg", "--overlap").unwrap_or(1);
                let budget = Some(keys * entries * 4);
                assert_eq!(option(&case, "thalweg", "--memory"), budget);
                assert_eq!(option(&case, "flink-rocksdb", "--memory"), budget);
                assert_eq!(option(&case, "memory", "--memory"), None);
                assert_eq!(option(&case, "flink", "--memory"), None);
            }
        }
    }
}
