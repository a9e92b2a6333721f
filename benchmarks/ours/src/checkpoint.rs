//! `checkpoint`: a count of keys with a checkpoint each so many milliseconds, or with none.

use crate::environment_of;
use crate::streams::answer;
use bench_protocol::{Answer, Request, Result, serve};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::metrics::Stats;
use thalweg_workloads::digest::Digest;
use thalweg_workloads::readings::RowReadings;

pub(crate) fn serve_checkpoint(request: &Request) -> Result<()> {
    let records: u64 = request.value("records")?;
    let distinct: u64 = request.value("distinct")?;
    let every: u64 = request.value_or("every-ms", 0)?;
    let mut round = 0_u64;
    serve(request, |stopwatch| {
        // A directory is that of one job.
        round += 1;
        let folder = Folder::new(round);
        let mut config = Config::default();
        if every > 0 {
            let mut checkpoints = CheckpointConfig::new(&folder.0);
            checkpoints.interval = Duration::from_millis(every);
            config.checkpoints = Some(checkpoints);
        }
        let env = environment_of(request, config)?;
        let (rows, stats) = stopwatch.time(|| -> thalweg::Result<(Vec<(u64, u64)>, Stats)> {
            let keys = env.range(0..records).map(move |n| mixed(n) % distinct);
            let rows = keys.group_by(|key| *key).count().unkey().collect();
            let stats = env.start()?.wait()?;
            Ok((rows.take()?, stats))
        })?;
        let mut digest = Digest::default();
        for (key, value) in rows {
            digest.add(&RowReadings { start: 0, key, value });
        }
        let extra = stats.checkpoints.map_or(Vec::new(), |checkpoints| {
            let bytes = checkpoints.newest.map_or(0, |newest| newest.bytes);
            vec![("checkpoints", checkpoints.taken as f64), ("checkpoint_bytes", bytes as f64)]
        });
        Ok(Answer { extra, ..answer(digest, records, records * 8) })
    })
}

/// Numbers in no order.
pub(crate) fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    n ^ (n >> 29)
}

/// A folder of its own, which is removed.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(round: u64) -> Self {
        let name = format!("thalweg-bench-{}-{round}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
