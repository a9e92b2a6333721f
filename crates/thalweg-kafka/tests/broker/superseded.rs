//! A job that is taken for dead and started again, while its process is only held up: it wakes when the new run has written behind
//! it. This program starts itself as both.
//!
//! The directory of checkpoints is on a file system with locks, which keep the new run away as long as the old process is there.
//! The file that is locked is removed here, as if there were none.

use crate::Test;
use crate::broker::{Broker, PATIENCE};
use crate::killed::{Pipeline, append, each_once, end_of, expect, set, signal};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::Result;
use thalweg::connector::{Prepared, Sink, SinkContext, SinkWriter};
use thalweg::data::Record;

pub const TESTS: &[Test] = &[
    ("each_record_counts_once_in_open_transactions_when_an_old_run_wakes", |broker| {
        old_runs_wake(broker, "open-wakes", "open", &["commit", "write", "prepare"])
    }),
    ("each_record_counts_once_when_an_old_run_wakes", |broker| {
        old_runs_wake(broker, "wakes", "exactly once", &["commit", "prepare"])
    }),
];

/// A sink that waits while there is a file beside the checkpoints: of the name `write` before each record, `prepare` at a barrier,
/// and `commit` when a checkpoint counts, before what it has is committed.
pub struct Held<S>(pub S);

/// The writer of such a sink.
pub struct HeldWriter<W> {
    writer: W,
    folder: PathBuf,
}

fn folder() -> PathBuf {
    PathBuf::from(set("TEST_FOLDER"))
}

/// Waits as long as there is a file with this name. That it does is in another file.
fn hold(folder: &Path, moment: &str) {
    let asked = folder.join(moment);
    while asked.exists() {
        File::create(asked.with_extension("held")).expect("the folder is ours");
        thread::sleep(Duration::from_millis(5));
    }
}

impl<S: Sink> Sink for Held<S> {
    type Item = S::Item;
    type Commit = S::Commit;
    type Writer = HeldWriter<S::Writer>;

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn open(&self, cx: &SinkContext) -> Result<Self::Writer> {
        Ok(HeldWriter { writer: self.0.open(cx)?, folder: folder() })
    }

    fn commit(&self, commit: &S::Commit) -> Result<()> {
        hold(&folder(), "commit");
        self.0.commit(commit)
    }
}

impl<W: SinkWriter> SinkWriter for HeldWriter<W> {
    type Item = W::Item;
    type Commit = W::Commit;

    fn write(&mut self, item: <Self::Item as Record>::Of<'_>) -> Result<()> {
        hold(&self.folder, "write");
        self.writer.write(item)
    }

    fn is_full(&mut self) -> bool {
        self.writer.is_full()
    }

    fn has_enough(&mut self) -> bool {
        self.writer.has_enough()
    }

    fn rest(&mut self) -> Result<()> {
        self.writer.rest()
    }

    fn prepare(&mut self) -> Result<Option<Prepared<W::Commit>>> {
        let Some(prepared) = self.writer.prepare()? else { return Ok(None) };
        hold(&self.folder, "prepare");
        Ok(Some(prepared))
    }
}

/// Has the run that is there wait at a moment, and stops its process then.
pub fn stop_at(moment: &str, pipeline: &Pipeline, append: impl FnOnce()) {
    let folder = pipeline.folder.path();
    let (asked, held) = (folder.join(moment), folder.join(moment).with_extension("held"));
    File::create(&asked).unwrap();
    append();
    let begun = Instant::now();
    while !held.exists() {
        assert!(begun.elapsed() < PATIENCE, "the job does not come to {moment}");
        thread::sleep(Duration::from_millis(5));
    }
    signal(&pipeline.child, "STOP");
    fs::remove_file(asked).unwrap();
    fs::remove_file(held).unwrap();
}

/// What an old run says: the checkpoints are another one's, or the transactions.
const REASONS: [&str; 3] = [
    "another run of this job has begun with the checkpoints",
    "another process has begun with this transactional id, such as a later run of this job",
    "a later run of this job, or another one, has written transactions",
];

/// Each run has another number of cores: 2, 3, 1, 2. So the second one has tasks that the third has not.
fn old_runs_wake(broker: &mut Broker, name: &str, delivery: &'static str, moments: &[&str]) {
    let mut pipeline = Pipeline::start(broker, name, delivery);
    let mut written = 0;
    let mut more = |pipeline: &Pipeline| {
        append(broker, &pipeline.from, written, 1_000);
        written += 1_000;
        written
    };
    for moment in moments {
        let count = more(&pipeline);
        expect(broker, &mut pipeline, count);
        stop_at(moment, &pipeline, || _ = more(&pipeline));
        fs::remove_file(pipeline.folder.path().join("lock")).unwrap();
        let mut old = pipeline.replace(broker);
        let count = more(&pipeline);
        expect(broker, &mut pipeline, count);
        signal(&old, "CONT");
        let error = end_of(&mut old, pipeline.folder.path()).unwrap_err();
        assert!(REASONS.iter().any(|reason| error.contains(reason)), "at {moment}: {error}");
    }
    let count = more(&pipeline);
    expect(broker, &mut pipeline, count);
    pipeline.kill();
    each_once(broker, &pipeline, count);
}
