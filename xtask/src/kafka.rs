//! Topics of Kafka as sources and sinks, with a real broker: its jars are got by Maven, and the tests start it.

use crate::process::{Totals, cargo, program, root, run, run_tests};
use crate::test::{FEATURES, compilers};
use crate::{metadata, profile, setup};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Runs the tests.
pub(crate) fn check(totals: &mut Totals) -> Result<()> {
    run_programs(&["broker", "profile"], Some(profile::flink()?), totals)
}

/// Runs test programs that start a broker, and pipelines on Flink if they have its jars.
pub(crate) fn run_programs(
    names: &[&str],
    flink: Option<PathBuf>,
    totals: &mut Totals,
) -> Result<()> {
    compilers()?;
    // It ends the broker with the test.
    setup::debian("setpriv", "util-linux")?;
    setup::debian("java", "default-jdk-headless")?;
    let jars = jars()?;
    // With the features of the workspace's other tests, so that nothing is compiled again.
    let mut tests = cargo(["test", "--workspace", FEATURES]);
    names.iter().for_each(|name| _ = tests.args(["--test", name]));
    tests.env("THALWEG_KAFKA_JARS", jars);
    flink.map(|jars| tests.env("THALWEG_FLINK_JARS", jars));
    run_tests(&mut tests, totals)
}

/// The folder with the broker's jars, which are got unless they are there.
pub(crate) fn jars() -> Result<PathBuf> {
    let pom = root().join("crates/thalweg-kafka/tests/broker/pom.xml");
    let folder = metadata::read()?.target.join("kafka");
    let (jars, stamp) = (folder.join("jars"), folder.join("got"));
    let wanted = std::fs::read(&pom).with_context(|| format!("cannot read {}", pom.display()))?;
    // Written last, so that what was interrupted is got again.
    if std::fs::read(&stamp).is_ok_and(|got| got == wanted) {
        return Ok(jars);
    }
    setup::debian("mvn", "maven")?;
    let _ = std::fs::remove_dir_all(&jars);
    let mut maven = program("mvn");
    maven.args(["--quiet", "--batch-mode", "-Dstyle.color=never", "--file"]).arg(&pom);
    maven.arg("dependency:copy-dependencies").arg(format!("-DoutputDirectory={}", jars.display()));
    run(&mut maven)?;
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(jars)
}
