//! A writer that keeps records until they are committed, and makes them wait for a checkpoint.

use super::on;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::check::check;
use thalweg::config::CheckpointConfig;
use thalweg::connector::{Prepared, Sink, SinkContext, SinkWriter};
use thalweg::{Environment, Result};

const ENOUGH: usize = 20_000;
/// More than lanes have room for: behind the last record of a source no barrier comes.
const COUNT: u64 = 1_000_000;

/// The batches that were committed.
#[derive(Clone, Default)]
struct Batches(Arc<Mutex<Vec<Vec<u64>>>>);

struct Keeping(Vec<u64>);

impl Sink for Batches {
    type Item = u64;
    type Commit = Vec<u64>;
    type Writer = Keeping;

    fn describe(&self) -> String {
        "batches".to_owned()
    }

    fn open(&self, cx: &SinkContext) -> Result<Keeping> {
        let mut memory = cx.reserve();
        assert!(memory.try_resize(1 << 10) && memory.pool().used() >= 1 << 10);
        Ok(Keeping(Vec::new()))
    }

    fn commit(&self, batch: &Vec<u64>) -> Result<()> {
        self.0.lock().unwrap().push(batch.clone());
        Ok(())
    }
}

impl SinkWriter for Keeping {
    type Item = u64;
    type Commit = Vec<u64>;

    fn write(&mut self, row: u64) -> Result<()> {
        self.0.push(row);
        Ok(())
    }

    fn has_enough(&mut self) -> bool {
        self.0.len() >= ENOUGH
    }

    fn prepare(&mut self) -> Result<Option<Prepared<Vec<u64>>>> {
        let batch = std::mem::take(&mut self.0);
        Ok((!batch.is_empty()).then(|| Prepared::new(batch)))
    }
}

/// The batches of a job, each record of which waits for a lane if `shuffled`.
fn batches(cores: usize, checkpoints: Option<&Path>, shuffled: bool) -> Vec<Vec<u64>> {
    let mut config = on(cores);
    config.checkpoints = checkpoints.map(CheckpointConfig::new);
    if let Some(checkpoints) = &mut config.checkpoints {
        // Those that are taken are taken because they are wanted.
        checkpoints.interval = Duration::from_secs(3600);
    }
    let (batches, env) = (Batches::default(), Environment::with_config(config));
    let numbers = env.range(0..COUNT);
    match shuffled {
        true => numbers.shuffle().write(batches.clone()),
        false => numbers.write(batches.clone()),
    }
    env.run().unwrap();
    let batches = std::mem::take(&mut *batches.0.lock().unwrap());
    let mut all: Vec<_> = batches.iter().flatten().copied().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..COUNT));
    batches
}

#[test]
fn a_writer_that_has_enough_gets_a_checkpoint_before_its_time() {
    for cores in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let fused = batches(cores, Some(dir.path()), false);
        let largest = fused.iter().map(Vec::len).max().unwrap();
        // What is pushed between two looks comes on top.
        assert!(largest < ENOUGH + 5000 && fused.len() > 10, "{largest} in {}", fused.len());
        let dir = tempfile::tempdir().unwrap();
        let shuffled = batches(cores, Some(dir.path()), true);
        assert!(shuffled.len() > cores, "{}", shuffled.len());
        assert_eq!(batches(cores, None, true).len(), cores, "there is none to wait for");
    }
}

#[test]
fn a_writer_that_has_enough_does_not_wait_where_the_program_takes_checkpoints() {
    check(|env| {
        let [all, written] = env.range(0..60_000).split();
        written.write(Batches::default());
        all.count()
    })
    .any_tasks()
    .equals([60_000u64]);
}
