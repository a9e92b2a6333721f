//! Encrypted connections by OpenSSL, as librdkafka makes them.

use super::connection::{Socket, Stream};
use super::settings::refused;
use openssl::error::ErrorStack;
use openssl::pkey::PKey;
use openssl::ssl::{Ssl, SslContext, SslContextBuilder, SslMethod, SslStream, SslVerifyMode};
use openssl::x509::X509;
use rdkafka::config::ClientConfig;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use thalweg::{Error, Result};

pub(super) struct Tls {
    context: SslContext,
    /// Whether a certificate has to be for the broker's host.
    is_for_host: bool,
}

impl Stream for SslStream<Socket> {
    fn socket(&mut self) -> &mut Socket {
        self.get_mut()
    }
}

/// The error of a setting.
fn wrong(name: &str) -> impl Fn(ErrorStack) -> Error {
    move |cause| refused(format!("the setting `{name}` cannot be used")).caused_by(cause)
}

impl Tls {
    pub(super) fn new(config: &ClientConfig) -> Result<Self> {
        let failed = |cause: ErrorStack| refused("OpenSSL cannot be used").caused_by(cause);
        let mut context = SslContext::builder(SslMethod::tls_client()).map_err(failed)?;
        let get = |name| config.get(name).unwrap_or_default();
        // Anything that is not a clear no is a yes.
        let no = ["false", "f", "0"];
        let is_unverified =
            no.contains(&&*get("enable.ssl.certificate.verification").to_lowercase());
        context.set_verify(match is_unverified {
            true => SslVerifyMode::NONE,
            false => SslVerifyMode::PEER,
        });
        trust(&mut context, config)?;
        if let Some((name, pem)) = pem(config, "ssl.certificate")? {
            let all = X509::stack_from_pem(&pem).map_err(wrong(&name))?;
            let mut all = all.into_iter();
            let first = all.next().ok_or_else(|| {
                refused(format!("the setting `{name}` has no certificate in PEM"))
            })?;
            context.set_certificate(&first).map_err(wrong(&name))?;
            all.try_for_each(|more| context.add_extra_chain_cert(more)).map_err(wrong(&name))?;
        }
        if let Some((name, pem)) = pem(config, "ssl.key")? {
            // Without a password, OpenSSL would have the terminal for one.
            let password = get("ssl.key.password").as_bytes();
            let key =
                PKey::private_key_from_pem_passphrase(&pem, password).map_err(wrong(&name))?;
            context.set_private_key(&key).map_err(wrong(&name))?;
            context.check_private_key().map_err(wrong(&name))?;
        }
        let is_for_host =
            !get("ssl.endpoint.identification.algorithm").eq_ignore_ascii_case("none");
        Ok(Self { context: context.build(), is_for_host })
    }

    /// Encrypts a connection to a host; otherwise the reason.
    pub(super) fn connect(
        &self,
        host: &str,
        socket: Socket,
    ) -> std::result::Result<SslStream<Socket>, String> {
        let ssl = self.ssl(host).map_err(|cause| cause.to_string())?;
        ssl.connect(socket).map_err(|error| match error.to_string() {
            // What a broker without TLS does.
            closed if closed.ends_with("unexpected EOF") => {
                "the handshake failed: is it a PLAINTEXT broker?".to_owned()
            }
            other => other,
        })
    }

    fn ssl(&self, host: &str) -> std::result::Result<Ssl, ErrorStack> {
        let mut ssl = Ssl::new(&self.context)?;
        match host.parse::<IpAddr>() {
            Ok(address) if self.is_for_host => ssl.param_mut().set_ip(address)?,
            Ok(_) => {}
            Err(_) => {
                ssl.set_hostname(host)?;
                if self.is_for_host {
                    ssl.param_mut().set_host(host)?;
                }
            }
        }
        Ok(ssl)
    }
}

/// Trusts the authorities that are set, or those of the machine if there are none.
fn trust(context: &mut SslContextBuilder, config: &ClientConfig) -> Result<()> {
    let location = config.get("ssl.ca.location").filter(|location| *location != "probe");
    let text = config.get("ssl.ca.pem");
    if let Some(location) = location {
        let path = Path::new(location);
        let (file, folder) = if path.is_dir() { (None, Some(path)) } else { (Some(path), None) };
        let loaded = context.load_verify_locations(file, folder);
        loaded.map_err(wrong("ssl.ca.location"))?;
    }
    if let Some(text) = text {
        let wrong = wrong("ssl.ca.pem");
        let all = X509::stack_from_pem(text.as_bytes()).map_err(&wrong)?;
        if all.is_empty() {
            return Err(refused("the setting `ssl.ca.pem` has no certificate in PEM"));
        }
        let store = context.cert_store_mut();
        all.into_iter().try_for_each(|one| store.add_cert(one)).map_err(wrong)?;
    }
    if location.is_none() && text.is_none() {
        context.set_default_verify_paths().map_err(wrong("ssl.ca.location"))?;
    }
    Ok(())
}

/// A text in PEM that is a setting or in a file, and the setting's name.
fn pem(config: &ClientConfig, what: &str) -> Result<Option<(String, Vec<u8>)>> {
    let (location, text) = (format!("{what}.location"), format!("{what}.pem"));
    if let Some(path) = config.get(&location) {
        let unread = |cause: std::io::Error| {
            refused(format!("cannot read {path} (`{location}`)")).caused_by(cause)
        };
        let bytes = fs::read(path).map_err(unread)?;
        return Ok(Some((location, bytes)));
    }
    Ok(config.get(&text).map(|pem| (text, pem.as_bytes().to_vec())))
}
