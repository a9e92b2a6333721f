//! Which certificates of schema registries are trusted.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::path::Path;
use std::sync::Arc;
use thalweg::{Error, ErrorKind, Result};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// Trusts the authorities of a file, or else those of the system.
pub(super) fn config(authorities: Option<&Path>) -> Result<TlsConfig> {
    let certificates = match authorities {
        Some(path) => in_file(path)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let certificates: Vec<_> = certificates
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&certificates))
        .build())
}

fn in_file(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let refuse = |what: &str| Error::new(ErrorKind::Config, format!("{} {what}", path.display()));
    let text = std::fs::read(path).map_err(|cause| refuse("cannot be read").caused_by(cause))?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<std::result::Result<Vec<_>, _>>();
    let all =
        all.map_err(|cause| refuse("has no certificates in PEM").caused_by(format!("{cause:?}")))?;
    match all.is_empty() {
        true => Err(refuse("has no certificates in PEM")),
        false => Ok(all),
    }
}
