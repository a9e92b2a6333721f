//! Connectors that panic.

use super::with_checkpoints;
use std::time::Duration;
use thalweg::connector::{
    Emit, Prepared, ReadStatus, Sink, SinkContext, SinkWriter, SplitContext, SplitReader,
    SplitSource,
};
use thalweg::{ErrorKind, Result};

/// A source and a sink that panic in one of their methods.
#[derive(Clone)]
struct Panics(&'static str);

impl Panics {
    fn at(&self, method: &str) {
        assert_ne!(self.0, method, "planted");
    }
}

impl SplitSource for Panics {
    type Item = u64;
    type Split = u32;
    type Position = u64;
    type Reader = PanickingReader;

    fn describe(&self) -> String {
        "what panics".to_owned()
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn splits(&self) -> Result<Vec<u32>> {
        self.at("splits");
        Ok((0..5).collect())
    }

    fn open(&self, _: &u32, _: Option<u64>, _: &SplitContext) -> Result<PanickingReader> {
        self.at("open a split");
        Ok(PanickingReader { panics: self.clone(), rests: 5 })
    }

    fn committed(&self, _: &[(u32, u64)]) -> Result<()> {
        self.at("committed");
        Ok(())
    }
}

struct PanickingReader {
    panics: Panics,
    /// How often it has nothing before it ends: long enough for some checkpoints.
    rests: u32,
}

impl SplitReader for PanickingReader {
    type Item = u64;
    type Position = u64;

    fn read(&mut self, out: &mut impl Emit<u64>) -> Result<ReadStatus> {
        self.panics.at("read");
        if self.rests == 0 {
            return Ok(ReadStatus::End);
        }
        self.rests -= 1;
        out.emit(7);
        Ok(ReadStatus::PendingFor(Duration::from_millis(7)))
    }

    fn position(&self) -> u64 {
        self.panics.at("position");
        0
    }
}

impl Sink for Panics {
    type Item = u64;
    type Commit = u64;
    type Writer = Self;

    fn describe(&self) -> String {
        "what panics".to_owned()
    }

    fn open(&self, _: &SinkContext) -> Result<Self> {
        self.at("open a writer");
        Ok(self.clone())
    }

    fn commit(&self, _: &u64) -> Result<()> {
        self.at("commit");
        Ok(())
    }
}

impl SinkWriter for Panics {
    type Item = u64;
    type Commit = u64;

    fn write(&mut self, _: u64) -> Result<()> {
        self.at("write");
        Ok(())
    }

    fn is_full(&mut self) -> bool {
        self.at("is_full");
        false
    }

    fn rest(&mut self) -> Result<()> {
        self.at("rest");
        Ok(())
    }

    fn prepare(&mut self) -> Result<Option<Prepared<u64>>> {
        self.at("prepare");
        let again = self.clone();
        Ok(Some(Prepared::new(3).after(move || {
            again.at("flush");
            Ok(())
        })))
    }
}

#[test]
fn a_panic_of_a_connector_ends_the_job_and_names_its_operator() {
    let of_source = ["splits", "open a split", "read", "position", "committed"];
    let of_sink = ["open a writer", "write", "is_full", "rest", "prepare", "flush", "commit"];
    let all = of_source.map(|method| ("read (", method)).into_iter();
    for (operator, method) in all.chain(of_sink.map(|method| ("write (", method))) {
        for cores in [1, 3] {
            let folder = tempfile::tempdir().unwrap();
            let env = with_checkpoints(&folder.path().join("checkpoints"), cores);
            env.read(Panics(method)).write(Panics(method));
            let error = env.run().expect_err(method);
            assert_eq!(error.kind(), ErrorKind::Panic, "{method}: {error}");
            let message = error.to_string();
            let names_it = error.operator().is_some_and(|name| name.contains(operator));
            assert!(names_it && message.contains("planted"), "{method}: {message}");
        }
    }
}
