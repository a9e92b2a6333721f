//! Certificates for contestants whose hosts encrypt what they send, made with OpenSSL as the book says.

use crate::process::program;
use crate::setup;
use anyhow::{Context, Result, bail};
use std::path::Path;
use tempfile::TempDir;

/// Makes a CA and a certificate that all hosts share, in a folder that is removed when dropped.
pub(super) fn make() -> Result<TempDir> {
    setup::debian("openssl", "openssl")?;
    let folder = tempfile::tempdir().context("no folder for certificates")?;
    let ca = ["-subj", "/CN=benchmarks", "-keyout", "ca.key", "-out", "ca.crt"];
    certificate(folder.path(), &ca)?;
    let host = ["-subj", "/CN=host", "-CA", "ca.crt", "-CAkey", "ca.key"];
    let kind = ["-addext", "basicConstraints=critical,CA:FALSE"];
    let files = ["-keyout", "tls.key", "-out", "tls.crt"];
    certificate(folder.path(), &[&host[..], &kind, &files].concat())?;
    Ok(folder)
}

/// Makes a key and its certificate, valid for a month: longer than any run.
fn certificate(folder: &Path, arguments: &[&str]) -> Result<()> {
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let mut openssl = program("openssl");
    openssl.args(["req", "-x509"]).args(curve).args(["-nodes", "-days", "30"]);
    let made = openssl.args(arguments).current_dir(folder).output().context("openssl")?;
    if !made.status.success() {
        bail!("openssl cannot make certificates: {}", String::from_utf8_lossy(&made.stderr).trim());
    }
    Ok(())
}
