//! The pipelines on Flink, in a program of their own (`benchmarks/pipeline-flink`).

use crate::args::{Common, Engine, Workload};
use crate::broker::{Topics, java, telling_lines};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use tempfile::TempDir;
use thalweg::{Error, ErrorKind, Place, Result};

/// A pipeline that runs, and ends with this value.
pub(crate) struct FlinkPipeline {
    child: Child,
    /// What it has on disk, with its log.
    folder: TempDir,
}

const LOG: &str = "log";

impl FlinkPipeline {
    pub(crate) fn start(
        engine: Engine,
        workload: Workload,
        common: &Common,
        brokers: &str,
        topics: &Topics,
    ) -> Result<Self> {
        let jars = Self::jars(common)?;
        let failed = |what: &str| {
            let what = format!("cannot {what}");
            move |cause| Error::new(ErrorKind::Io, what).caused_by(cause)
        };
        let folder = tempfile::tempdir().map_err(failed("make a folder for Flink"))?;
        let log =
            File::create(folder.path().join(LOG)).map_err(failed("write the log of Flink"))?;
        let mut java = java("1g", jars.join("*").as_os_str(), None);
        java.arg(format!("-Djava.io.tmpdir={}", folder.path().display()));
        // What Flink's own start scripts open of Java.
        for package in ["java.base/java.util", "java.base/java.lang", "java.base/java.time"] {
            java.arg(format!("--add-opens={package}=ALL-UNNAMED"));
        }
        java.arg("bench.kafka.Pipeline");
        for (name, value) in [
            ("brokers", brokers),
            ("from", &topics.from),
            ("to", &topics.to),
            ("workload", workload.name()),
            ("window-ms", &common.window.as_millis().to_string()),
            // As many as a job of this engine has.
            ("parallelism", &common.config().cores.to_string()),
            ("partitions", &common.partitions.to_string()),
            ("tuned", if engine == Engine::FlinkTuned { "true" } else { "false" }),
        ] {
            java.arg(format!("--{name}")).arg(value);
        }
        java.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = java.spawn().map_err(failed("start java"))?;
        Ok(Self { child, folder })
    }

    /// The folder with its jars.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(crate) fn jars(common: &Common) -> Result<&Path> {
        let wrong = |what: &str| Error::new(ErrorKind::Config, what);
        match &common.flink_jars {
            Some(jars) if jars.is_dir() => Ok(jars),
            Some(jars) => Err(wrong("this is no folder with jars").at(Place::File(jars.clone()))),
            None => Err(wrong(
                "--flink-jars names the folder with the jars of the pipelines on Flink: `mvn package` in benchmarks/pipeline-flink makes it",
            )),
        }
    }

    /// Checks that it has not ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        let Ok(Some(status)) = self.child.try_wait() else { return Ok(()) };
        let log = telling_lines(&self.folder.path().join(LOG));
        let what = format!("the pipeline on Flink has ended with {status}:\n{log}");
        Err(Error::new(ErrorKind::Io, what))
    }
}

impl Drop for FlinkPipeline {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
