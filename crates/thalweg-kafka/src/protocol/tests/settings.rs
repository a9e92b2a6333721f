//! Settings that are kept to, and those that are refused.

use crate::protocol::Coordinator;
use rdkafka::config::ClientConfig;
use thalweg::ErrorKind;

fn made(settings: &[(&str, &str)]) -> thalweg::Result<Coordinator> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", "localhost:9092");
    settings.iter().for_each(|(name, value)| _ = config.set(*name, *value));
    Coordinator::new(&config, None)
}

fn refused(settings: &[(&str, &str)], says: &str) {
    let error = made(settings).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains(says), "{settings:?}: {error}");
}

#[test]
fn brokers_are_named_as_for_librdkafka() {
    let brokers = |servers| {
        let made = made(&[("bootstrap.servers", servers)]).unwrap();
        made.settings
            .brokers
            .iter()
            .map(|(host, port)| format!("{host} {port}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(brokers("a:1, b:2,"), ["a 1", "b 2"]);
    assert_eq!(brokers("a,[::1]:3,[::1],::1"), ["a 9092", "::1 3", "::1 9092", "::1 9092"]);
    assert_eq!(brokers("PLAINTEXT://a:1/path,:4"), ["a 1", "localhost 4"]);
    refused(&[("bootstrap.servers", "a:b")], "`bootstrap.servers` has no port in `a:b`");
}

#[test]
fn settings_without_meaning_for_the_protocol_are_left_alone() {
    for protocol in ["plaintext", "PLAINTEXT"] {
        made(&[
            ("security.protocol", protocol),
            ("ssl.keystore.location", "a"),
            ("sasl.kerberos.keytab", "b"),
            ("linger.ms", "5"),
        ])
        .unwrap();
    }
}

#[test]
fn passwords_are_needed_and_not_shown() {
    let plain = ("sasl.mechanism", "PLAIN");
    let settings = [
        ("security.protocol", "SASL_PLAINTEXT"),
        plain,
        ("sasl.username", "u"),
        ("sasl.password", "p"),
    ];
    let made = made(&settings).unwrap();
    assert_eq!(format!("{made:?}"), r#"Coordinator { brokers: [("localhost", 9092)], .. }"#);
    refused(&settings[..3], "`sasl.password` is needed");
    refused(&settings[..2], "`sasl.username` is needed");
    // Kerberos, as librdkafka has it without a mechanism.
    refused(&settings[..1], "`sasl.mechanism` of `GSSAPI` is supported by librdkafka alone");
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    refused(&[("security.protocol", "quic")], "`security.protocol` cannot be `quic`");
    let sasl = ("security.protocol", "sasl_plaintext");
    refused(&[sasl, ("sasl.mechanism", "OAUTHBEARER")], "`sasl.mechanism` of `OAUTHBEARER`");
    refused(&[sasl, ("sasl.mechanisms", "GSSAPI")], "`sasl.mechanism` of `GSSAPI`");
    refused(&[sasl, ("sasl.oauthbearer.config", "a")], "the setting `sasl.oauthbearer.config`");
    refused(&[sasl, ("sasl.kerberos.keytab", "a")], "the setting `sasl.kerberos.keytab`");
}

#[cfg(not(feature = "tls"))]
#[test]
fn what_needs_a_feature_names_it() {
    refused(&[("security.protocol", "ssl")], "the feature `tls`");
    let sasl = ("security.protocol", "sasl_plaintext");
    refused(&[sasl, ("sasl.mechanism", "SCRAM-SHA-256")], "the feature `tls`");
}

#[cfg(feature = "tls")]
#[test]
fn certificates_are_read_at_once() {
    let ssl = ("security.protocol", "Ssl");
    made(&[ssl]).unwrap();
    for name in ["ssl.keystore.location", "ssl.engine.location", "ssl.crl.location"] {
        refused(&[ssl, (name, "a")], &format!("the setting `{name}`"));
    }
    for name in ["ssl.ca.location", "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"] {
        refused(&[ssl, (name, "nothing")], &format!("`{name}`"));
    }
    for name in ["ssl.certificate.location", "ssl.key.location"] {
        refused(&[ssl, (name, "/nothing")], &format!("cannot read /nothing (`{name}`)"));
    }
}
