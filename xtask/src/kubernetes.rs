//! The manifests for Kubernetes: checked by its schemas, and processes are started with the variables of their pods.

use crate::built::Build;
use crate::process::{Totals, program, root, run};
use crate::{metadata, setup};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// The manifests.
const FILES: [&str; 3] = [
    "deploy/kubernetes/job.yaml",
    "deploy/kubernetes/job-with-checkpoints.yaml",
    "deploy/kubernetes/statefulset.yaml",
];
/// The folder of the check in Python.
const FOLDER: &str = "xtask/kubernetes";

/// Runs the checks.
pub(crate) fn check(totals: &mut Totals) -> Result<()> {
    let metadata = metadata::read()?;
    let pins = root().join(FOLDER).join("requirements.txt");
    let python = setup::python(&metadata.target.join("kubernetes"), &pins)?;
    let output = program(python)
        .arg(root().join(FOLDER).join("check.py"))
        .args(FILES)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start Python")?;
    if !output.status.success() {
        bail!("a manifest is wrong: see above");
    }
    let files: Vec<Vec<BTreeMap<String, String>>> =
        serde_json::from_slice(&output.stdout).context("the check prints JSON")?;
    let wordcount = Build::Tested.build(&["--example", "wordcount"])?.join("examples/wordcount");
    let text = root().join("LICENSE-APACHE");
    let count = |limit: &str| {
        let mut command = program("timeout");
        command.args([limit]).arg(&wordcount).arg("--tsv").arg(&text);
        command
    };
    let expected = count("60").output()?.stdout;
    for (name, pods) in FILES.iter().zip(&files) {
        let printed = printed_by_pods(pods, || count("60")).with_context(|| (*name).to_owned())?;
        let silent = printed.iter().skip(1).all(Vec::is_empty);
        if expected.is_empty() || printed.first() != Some(&expected) || !silent {
            totals.failed += 1;
            bail!("{name}: its pods print something else than one process");
        }
        totals.passed += 1;
        println!("{name}: ok, {} pods", pods.len());
    }
    Ok(())
}

/// What processes print that have the variables of these pods. Only what the cluster provides is replaced: the name of
/// the first pod, the mounted secret, and the volume of checkpoints.
fn printed_by_pods(
    pods: &[BTreeMap<String, String>],
    program: impl Fn() -> Command,
) -> Result<Vec<Vec<u8>>> {
    let folder = tempfile::tempdir().context("there is no room for a temporary folder")?;
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "a secret of some seconds")?;
    run(Command::new("chmod").arg("440").arg(&secret))?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut children: Vec<Child> = Vec::new();
    for pod in pods {
        let mut command = program();
        command.envs(pod).args(["--first-host", &format!("127.0.0.1:{port}")]);
        command.arg("--secret-file").arg(&secret).args(["--connect-timeout", "30s"]);
        if pod.contains_key("THALWEG_CHECKPOINT") {
            command.arg("--checkpoint").arg(folder.path().join("saved"));
        }
        children.push(command.stdout(Stdio::piped()).spawn().context("cannot start a host")?);
    }
    // All are waited for, also if one has failed.
    let outputs: Vec<_> = children.into_iter().map(Child::wait_with_output).collect();
    outputs
        .into_iter()
        .map(|output| match output? {
            output if output.status.success() => Ok(output.stdout),
            output => bail!("a host ended with {}", output.status),
        })
        .collect()
}
