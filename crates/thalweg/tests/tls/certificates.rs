//! Certificates for tests, made anew.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use thalweg::config::Tls;

/// A CA.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub struct Certificate {
    pub pem: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate, after `edit` has changed what is in it.
    pub fn issue(&self, edit: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let (mut params, key) = (params("a host"), KeyPair::generate().unwrap());
        edit(&mut params);
        let pem = params.signed_by(&key, &self.0).unwrap().pem();
        Certificate { pem, key: key.serialize_pem() }
    }

    /// What a host needs.
    pub fn host(&self) -> Tls {
        let own = self.issue(|_| ());
        Tls::from_pem(self.pem(), own.pem, own.key)
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// The last of these years in which an expired certificate was valid.
#[allow(dead_code, reason = "not all tests need one")]
pub fn expired(params: &mut CertificateParams) {
    (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
}
