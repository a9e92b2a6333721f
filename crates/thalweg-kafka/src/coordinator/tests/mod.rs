//! Tests of what commits transactions: frames against Kafka's schemas, logins against their standards, and what becomes of a
//! broker's answers.

mod broker;
#[cfg(feature = "tls")]
mod scram;
mod settings;
mod wire;
