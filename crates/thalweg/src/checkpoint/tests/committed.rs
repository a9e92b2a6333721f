//! How long snapshots have what a sink has prepared at its end.

use super::*;
use crate::connector::{Prepared, Sink, SinkContext, SinkWriter};

/// Counts records. Commits fail while it is locked.
#[derive(Clone, Default)]
struct Counting {
    committed: Arc<Mutex<Vec<u64>>>,
    is_locked: Arc<AtomicBool>,
}

#[derive(Default)]
struct Count(u64);

impl Sink for Counting {
    type Item = u64;
    type Commit = u64;
    type Writer = Count;

    fn describe(&self) -> String {
        "a count".to_owned()
    }

    fn open(&self, _: &SinkContext) -> Result<Count> {
        Ok(Count::default())
    }

    fn commit(&self, count: &u64) -> Result<()> {
        if self.is_locked.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, "it is locked"));
        }
        lock(&self.committed).push(*count);
        Ok(())
    }
}

impl SinkWriter for Count {
    type Item = u64;
    type Commit = u64;

    fn write(&mut self, _: u64) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn prepare(&mut self) -> Result<Option<Prepared<u64>>> {
        let count = Some(std::mem::take(&mut self.0)).filter(|count| *count > 0);
        Ok(count.map(Prepared::new))
    }
}

#[test]
fn what_a_sink_has_prepared_at_its_end_is_in_every_snapshot_until_it_is_committed() {
    let sink = Counting::default();
    let env = environment(1, 3);
    env.range(0..100).write(sink.clone());
    // This part goes on.
    env.range(0..u64::MAX).for_each(drop);
    let all = Checkpoints::new(None, None);
    let job = env.start_with(Some(&all)).unwrap();
    let is_at_end = || {
        let slots = lock(&all.slots);
        let mut of_sink = slots.iter().filter(|slot| slot.id.name == "prepared");
        of_sink.all(|slot| lock(&slot.saved).contains_key(&Epoch::LAST))
    };
    let at_end = (0..10_000).find(|_| {
        job.drive_for(10);
        is_at_end()
    });
    assert!(at_end.is_some(), "the sink comes to its end");
    let take = || job.snapshot().unwrap().expect("it goes on");
    let commit = |taken: &Taken| taken.commits.iter().try_for_each(|commit| commit());
    let prepared = |taken: &Taken| {
        let id = taken.snapshot.ids().find(|id| id.name == "prepared").unwrap();
        let mut entries = taken.snapshot.entries(id);
        std::iter::from_fn(|| entries.next().unwrap()).count()
    };
    // The first one does not come to count.
    assert_eq!(prepared(&take()), 1);
    let taken = take();
    assert_eq!(prepared(&taken), 1);
    sink.is_locked.store(true, Ordering::Relaxed);
    assert!(commit(&taken).is_err());
    assert_eq!(prepared(&take()), 1, "it could not be committed");
    sink.is_locked.store(false, Ordering::Relaxed);
    commit(&taken).unwrap();
    for _ in 0..2 {
        let taken = take();
        assert_eq!(prepared(&taken), 0, "it is committed");
        commit(&taken).unwrap();
    }
    assert_eq!(*lock(&sink.committed), [100]);
    job.cancel();
    let _ = job.wait();
}
