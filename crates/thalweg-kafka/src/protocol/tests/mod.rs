//! Tests of what speaks Kafka's protocol: frames and batches against its schemas, logins against their standards, and what becomes
//! of a broker's answers.

mod answer;
mod batches;
mod broker;
#[cfg(feature = "tls")]
mod scram;
mod settings;
mod tokens;
mod wire;
