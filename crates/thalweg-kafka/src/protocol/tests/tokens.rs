//! Logins with tokens, by a broker that gives the answers that a test wants.

use super::broker::{VERSIONS, broker, versions};
use crate::protocol::{Coordinator, ProducerId, Refusal, Topics};
use crate::tokens::{Token, Tokens};
use rdkafka::config::ClientConfig;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use thalweg::ErrorKind;

const LONG: Duration = Duration::from_secs(3_600);

fn config(port: u16) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", format!("127.0.0.1:{port}"));
    config.set("security.protocol", "sasl_plaintext").set("sasl.mechanism", "OAUTHBEARER");
    config
}

fn tokens(value: &'static str) -> Arc<Tokens> {
    Arc::new(Tokens::new("a:1", move || Ok::<_, Infallible>(Token::expiring_in(value, LONG))))
}

/// An answer to a step of a login: its code, message and bytes, and how long it holds.
fn step(code: i16, message: &str, bytes: &[u8], lifetime: i64) -> Vec<u8> {
    let texts = [&(message.len() as i16).to_be_bytes()[..], message.as_bytes()].concat();
    let bytes = [&(bytes.len() as i32).to_be_bytes()[..], bytes].concat();
    [&code.to_be_bytes()[..], &texts, &bytes, &lifetime.to_be_bytes()].concat()
}

/// The answer of a broker that takes this mechanism alone.
const HANDSHAKE: &[u8] = b"\0\0\0\0\0\x01\0\x0bOAUTHBEARER";

#[test]
fn a_connection_logs_in_again_before_its_login_is_over() {
    let asked = Arc::<Mutex<Vec<i16>>>::default();
    let keys = Arc::clone(&asked);
    let port = broker(move |key, body| {
        keys.lock().unwrap().push(key);
        match key {
            18 => Some(versions(&[(3, 0, 13), (17, 0, 1), (18, 0, 4), (36, 0, 2)])),
            17 => {
                assert_eq!(body, b"\0\x0bOAUTHBEARER");
                Some(HANDSHAKE.to_vec())
            }
            36 => {
                assert_eq!(body, b"\0\0\0\x15n,,\x01auth=Bearer abc\x01\x01");
                Some(step(0, "", b"", 1_200))
            }
            // No brokers and no topics.
            _ => Some(b"\0\0\0\0\x01\0\0\0\0\0\x01\0\0\0\0\0".to_vec()),
        }
    });
    let mut topics = Topics::new(&config(port), Some(&tokens("abc"))).unwrap();
    topics.ids(&["t"]).unwrap();
    topics.ids(&["t"]).unwrap();
    thread::sleep(Duration::from_millis(1_150));
    topics.ids(&["t"]).unwrap();
    // On one connection, which begins with the versions.
    assert_eq!(*asked.lock().unwrap(), [18, 17, 36, 3, 3, 17, 36, 3]);
}

fn refusal(tokens: &Arc<Tokens>, answers: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> Refusal {
    let port = broker(move |key, body| match key {
        18 => Some(versions(&VERSIONS)),
        17 => Some(HANDSHAKE.to_vec()),
        36 => Some(answers(body)),
        _ => None,
    });
    let coordinator = Coordinator::new(&config(port), Some(tokens)).unwrap();
    coordinator.commit("name", ProducerId { id: 1000, epoch: 7 }).unwrap_err()
}

/// The broker says what is wrong, and refuses the login when that is acknowledged.
#[test]
fn a_token_that_is_refused_is_final() {
    let refused = refusal(&tokens("abc"), |body| match body {
        b"\0\0\0\x01\x01" => step(58, "{\"status\":\"invalid_token\"}", b"", 0),
        _ => step(0, "", b"{\"status\":\"invalid_token\"}", 0),
    });
    let Refusal::Final(error) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), ErrorKind::Config);
    let says = "{\"status\":\"invalid_token\"}; the brokers do not accept the token";
    assert!(error.message().contains(says), "{error}");
    assert!(!error.message().contains("abc"), "{error}");
}

#[test]
fn a_closure_that_fails_is_called_again_and_one_that_panics_is_not() {
    let fails = Arc::new(Tokens::new("a:1", || Err::<Token, _>("no answer")));
    let refused = refusal(&fails, |_| panic!("there is no token"));
    let Refusal::Later(why) = refused else { panic!("{refused:?}") };
    assert_eq!(why, "there is no token for a:1: no answer");
    let panics = Arc::new(Tokens::new("a:1", || -> Result<Token, Infallible> { panic!("no") }));
    let refused = refusal(&panics, |_| panic!("there is no token"));
    let Refusal::Final(error) = refused else { panic!("{refused:?}") };
    assert!(error.message().contains("panicked: no"), "{error}");
}
