//! The output of `cargo metadata` for the product's workspace.

use crate::process::cargo;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;

/// The workspace's members, examples and dependencies.
pub(crate) struct Metadata {
    /// The target directory.
    pub(crate) target: PathBuf,
    /// Names of the example programs of all members, sorted.
    pub(crate) examples: Vec<String>,
    /// Every package that may be compiled into the product or its tests.
    pub(crate) packages: Vec<Package>,
}

/// A package and its licence.
pub(crate) struct Package {
    /// Name and version.
    pub(crate) name: String,
    /// The SPDX expression, if the package gives one.
    pub(crate) licence: Option<String>,
}

/// Runs `cargo metadata`.
pub(crate) fn read() -> Result<Metadata> {
    let output = cargo(["metadata", "--format-version", "1"]).output()?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    parse(&serde_json::from_slice(&output.stdout)?).context("cargo metadata has an unknown form")
}

fn parse(metadata: &Value) -> Option<Metadata> {
    let members = metadata["workspace_members"].as_array()?;
    let packages = metadata["packages"].as_array()?;
    let mut examples = Vec::new();
    for package in packages.iter().filter(|package| members.contains(&package["id"])) {
        for target in package["targets"].as_array()? {
            if target["kind"].as_array()?.iter().any(|kind| kind == "example") {
                examples.push(target["name"].as_str()?.to_owned());
            }
        }
    }
    examples.sort();
    let package = |package: &Value| {
        Some(Package {
            name: format!("{} {}", package["name"].as_str()?, package["version"].as_str()?),
            licence: package["license"].as_str().map(str::to_owned),
        })
    };
    Some(Metadata {
        target: metadata["target_directory"].as_str()?.into(),
        examples,
        packages: packages.iter().map(package).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_come_from_members_alone() {
        let target = |name, kind| serde_json::json!({"name": name, "kind": [kind]});
        let metadata = parse(&serde_json::json!({
            "workspace_members": ["a"],
            "target_directory": "/t",
            "packages": [
                {"id": "a", "name": "a", "version": "1.0.0", "license": null,
                 "targets": [target("z", "example"), target("a", "lib"), target("b", "example")]},
                {"id": "b", "name": "b", "version": "2.0.0", "license": "MIT",
                 "targets": [target("other", "example")]},
            ],
        }))
        .unwrap();
        assert_eq!(metadata.examples, ["b", "z"]);
        assert_eq!(metadata.packages[1].name, "b 2.0.0");
        assert_eq!(metadata.packages[1].licence.as_deref(), Some("MIT"));
        assert_eq!(metadata.packages[0].licence, None);
    }
}
