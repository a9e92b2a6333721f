//! Topics of Kafka as sources and sinks, with a real broker: its jars are got by Maven, and the tests start it.

use crate::process::{Totals, cargo, program, root, run, run_tests};
use crate::test::{FEATURES, compilers};
use crate::{metadata, profile, setup};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// Runs the tests.
pub(crate) fn check(totals: &mut Totals) -> Result<()> {
    let flink = profile::flink()?;
    run_tests(programs(&["broker", "leaders", "profile"])?.env("THALWEG_FLINK_JARS", flink), totals)
}

/// Kills jobs, hosts and brokers, so many times in each test, after times that follow from a seed.
pub(crate) fn kill(kills: u64, seed: u64, totals: &mut Totals) -> Result<()> {
    let mut tests = programs(&["broker"])?;
    tests.env("THALWEG_KAFKA_KILLS", kills.to_string());
    tests.env("THALWEG_KAFKA_SEED", seed.to_string());
    // A part of the names of all tests that kill.
    run_tests(tests.args(["--", "killed"]), totals)
}

/// Runs test programs that start a broker.
pub(crate) fn run_programs(names: &[&str], totals: &mut Totals) -> Result<()> {
    run_tests(&mut programs(names)?, totals)
}

/// Test programs that start a broker.
fn programs(names: &[&str]) -> Result<Command> {
    compilers()?;
    // It ends the broker with the test.
    setup::debian("setpriv", "util-linux")?;
    setup::debian("java", "default-jdk-headless")?;
    let jars = jars()?;
    // With the features of the workspace's other tests, so that nothing is compiled again.
    let mut tests = cargo(["test", "--workspace", FEATURES]);
    names.iter().for_each(|name| _ = tests.args(["--test", name]));
    tests.env("THALWEG_KAFKA_JARS", jars);
    Ok(tests)
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
