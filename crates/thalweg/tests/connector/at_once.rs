//! Commits of a checkpoint that wait for one another.

use super::with_checkpoints;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use thalweg::connector::{Prepared, Sink, SinkContext, SinkWriter};
use thalweg::{Error, ErrorKind, Result};

/// A sink in which no task's first commit is over before that of every other task has begun.
#[derive(Clone)]
struct Meeting {
    tasks: usize,
    /// How many tasks have begun their first commit.
    begun: Arc<(Mutex<Vec<bool>>, Condvar)>,
}

struct MeetingWriter(u64);

impl Sink for Meeting {
    type Item = u64;
    type Commit = u64;
    type Writer = MeetingWriter;

    fn describe(&self) -> String {
        "a meeting".to_owned()
    }

    fn open(&self, cx: &SinkContext) -> Result<MeetingWriter> {
        assert_eq!(cx.tasks(), self.tasks);
        Ok(MeetingWriter(cx.task() as u64))
    }

    fn commit(&self, task: &u64) -> Result<()> {
        let (begun, more) = &*self.begun;
        let mut begun = begun.lock().unwrap();
        begun[*task as usize] = true;
        more.notify_all();
        let minute = Duration::from_secs(60);
        let waits = |begun: &mut Vec<bool>| begun.contains(&false);
        if more.wait_timeout_while(begun, minute, waits).unwrap().1.timed_out() {
            return Err(Error::new(ErrorKind::Io, "the others have not come"));
        }
        Ok(())
    }
}

impl SinkWriter for MeetingWriter {
    type Item = u64;
    type Commit = u64;

    fn write(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn prepare(&mut self) -> Result<Option<Prepared<u64>>> {
        Ok(Some(Prepared::new(self.0)))
    }
}

/// A task whose commit waits long holds up no other.
#[test]
fn commits_of_several_tasks_are_made_at_the_same_time() {
    for tasks in [2, 5] {
        let dir = tempfile::tempdir().unwrap();
        let env = with_checkpoints(dir.path(), tasks);
        let begun = Arc::new((Mutex::new(vec![false; tasks]), Condvar::new()));
        env.parallel_iter(|_, _| 0u64..).write(Meeting { tasks, begun: Arc::clone(&begun) });
        let job = env.start().unwrap();
        let (all, more) = &*begun;
        let waits = |begun: &mut Vec<bool>| begun.contains(&false);
        // Longer than a commit waits, which then fails the job.
        let long = Duration::from_secs(120);
        drop(more.wait_timeout_while(all.lock().unwrap(), long, waits).unwrap());
        job.suspend().unwrap();
        assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Suspended);
    }
}
