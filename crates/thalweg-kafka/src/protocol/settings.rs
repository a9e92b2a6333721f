//! How to connect, by the names of librdkafka's settings.

use super::login::{Login, Mechanism, Proof};
#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::tokens::Tokens;
use rdkafka::config::ClientConfig;
use std::sync::Arc;
use thalweg::{Error, ErrorKind, Result};

/// Kafka's port, where a broker is named without one.
const PORT: u16 = 9092;

pub(crate) struct Settings {
    /// Hosts and ports.
    pub(super) brokers: Vec<(String, u16)>,
    /// What the client calls itself, which brokers have quotas for.
    pub(super) client: String,
    pub(super) login: Option<Arc<Login>>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Tls>,
}

/// An error of settings.
#[cold]
pub(super) fn refused(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, what)
}

/// Why a setting is refused that librdkafka takes.
const ALONE: &str = "is supported by librdkafka alone, and not on the connections that fetch records and that `KafkaSink::open_transactions` \
    commits on";

/// What the settings of login and encryption are that are kept to, beside `security.protocol`.
const LOGIN: [&str; 4] = ["sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"];
const TLS: [&str; 8] = [
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
];

impl Settings {
    /// With the settings of a client of librdkafka, and what gives it tokens, if anything does.
    pub(crate) fn new(config: &ClientConfig, tokens: Option<&Arc<Tokens>>) -> Result<Self> {
        let protocol = config.get("security.protocol").unwrap_or("plaintext").to_lowercase();
        let (has_login, has_tls) = match &*protocol {
            "plaintext" => (false, false),
            "ssl" => (false, true),
            "sasl_plaintext" => (true, false),
            "sasl_ssl" => (true, true),
            _ => return Err(refused(format!("`security.protocol` cannot be `{protocol}`"))),
        };
        if has_tls && cfg!(not(feature = "tls")) {
            let what = format!(
                "`security.protocol` of `{protocol}` needs the feature `tls` of the crate thalweg-kafka"
            );
            return Err(refused(what));
        }
        // What has no meaning for the protocol is left alone, as librdkafka does.
        let is_unknown = |name: &str| {
            (has_login && name.starts_with("sasl.") && !LOGIN.contains(&name))
                || (has_tls && name.starts_with("ssl.") && !TLS.contains(&name))
        };
        if let Some(name) = config.config_map().into_keys().find(|name| is_unknown(name)) {
            return Err(refused(format!("the setting `{name}` {ALONE}")));
        }
        let servers = config.get("bootstrap.servers");
        let servers = servers.or_else(|| config.get("metadata.broker.list")).unwrap_or_default();
        Ok(Self {
            brokers: brokers(servers)?,
            client: client(config)?,
            login: if has_login { Some(Arc::new(login(config, tokens)?)) } else { None },
            #[cfg(feature = "tls")]
            tls: if has_tls { Some(Tls::new(config)?) } else { None },
        })
    }
}

fn client(config: &ClientConfig) -> Result<String> {
    let client = config.get("client.id").unwrap_or("thalweg");
    if i16::try_from(client.len()).is_err() {
        return Err(refused("`client.id` has at most 32767 bytes"));
    }
    Ok(client.to_owned())
}

/// Hosts and ports from `host:port,[address]:port,protocol://host`.
fn brokers(servers: &str) -> Result<Vec<(String, u16)>> {
    let names = servers.split(',').map(str::trim).filter(|name| !name.is_empty());
    let of = |name: &str| {
        let rest = name.split_once("://").map_or(name, |(_, rest)| rest);
        let rest = rest.split_once('/').map_or(rest, |(rest, _)| rest);
        // More than one colon without brackets is an address alone.
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let wrong = |_| refused(format!("`bootstrap.servers` has no port in `{name}`"));
                (host, port.parse().map_err(wrong)?)
            }
            _ => (rest, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok((if host.is_empty() { "localhost" } else { host }.to_owned(), port))
    };
    names.map(of).collect()
}

fn login(config: &ClientConfig, tokens: Option<&Arc<Tokens>>) -> Result<Login> {
    let name = config.get("sasl.mechanism").or_else(|| config.get("sasl.mechanisms"));
    // As librdkafka has it.
    let name = name.unwrap_or("GSSAPI");
    if let ("OAUTHBEARER", Some(tokens)) = (name, tokens) {
        let proof = Proof::Tokens(Arc::clone(tokens));
        return Ok(Login { mechanism: Mechanism::OauthBearer, proof });
    }
    let Some(mechanism) = Mechanism::of(name) else {
        let what = match cfg!(feature = "tls") {
            false if name.starts_with("SCRAM-") => {
                "needs the feature `tls` of the crate thalweg-kafka"
            }
            _ => ALONE,
        };
        return Err(refused(format!("`sasl.mechanism` of `{name}` {what}")));
    };
    let get = |name| {
        let missing = || refused(format!("`{name}` is needed with this `sasl.mechanism`"));
        config.get(name).map(str::to_owned).ok_or_else(missing)
    };
    let (user, password) = (get("sasl.username")?, get("sasl.password")?);
    Ok(Login { mechanism, proof: Proof::Password { user, password } })
}
