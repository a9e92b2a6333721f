//! Topics of Kafka as sources and sinks of [`thalweg`]'s jobs.
//!
//! A [`KafkaSource`] reads partitions: each is a split with a watermark of its own, its offset is in every checkpoint, and
//! partitions that are added while the job runs are found. A [`KafkaSink`] writes each record at least once, or exactly once
//! in transactions, one for each task and checkpoint. Both stand on [`thalweg::connector`]. A source fetches records on connections of its
//! own, and checks and decodes them where they lie; all else goes by librdkafka.
//!
//! ```no_run
//! use serde::{Deserialize, Serialize};
//! use thalweg::Environment;
//! use thalweg_kafka::{KafkaSink, KafkaSource, Message};
//!
//! #[derive(Deserialize)]
//! struct Order {
//!     customer: u64,
//!     cents: u64,
//! }
//!
//! #[derive(Serialize)]
//! struct Total {
//!     customer: u64,
//!     cents: u64,
//! }
//!
//! let env = Environment::from_args()?;
//! let orders = KafkaSource::new("localhost:9092", ["orders"]).until_now();
//! env.read(orders)
//!     .try_map(|message| message.json::<Order>())
//!     .group_by(|order| order.customer)
//!     .sum(|order: &Order| order.cents)
//!     .unkey()
//!     .map(|(customer, cents)| Total { customer, cents })
//!     .write(KafkaSink::exactly_once("localhost:9092", "totals", |total: Total, record| {
//!         record.key(total.customer.to_string()).json(&total)
//!     }));
//! env.run()?;
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! # Settings
//!
//! Every property of librdkafka is set by its name, such as `security.protocol`, with
//! [`KafkaSource::option`] and [`KafkaSink::option`]; [its list](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md)
//! says what there is. They hold for all clients that a source or sink makes. With those that only librdkafka supports it fetches the records,
//! too: see [`KafkaSource::fetch_by_librdkafka`]. What has to be so for a job to be right, such as
//! `enable.auto.commit`, cannot be changed.
//!
//! # TLS and SASL
//!
//! Encrypted connections need the feature `tls`, and so does SASL by SCRAM, or by OAUTHBEARER with [tokens](KafkaSource::tokens); SASL by PLAIN is always
//! there, and by Kerberos with the feature `gssapi`. Without the feature, such settings end the job with an error that names it.
//!
//! ```no_run
//! use thalweg_kafka::KafkaSource;
//!
//! let orders = KafkaSource::new("kafka.example:9093", "orders")
//!     .option("security.protocol", "sasl_ssl") // or `ssl`, without a password
//!     .option("ssl.ca.location", "/etc/kafka/ca.pem")
//!     .option("sasl.mechanism", "SCRAM-SHA-512")
//!     .option("sasl.username", "job")
//!     .option("sasl.password", std::env::var("KAFKA_PASSWORD").unwrap_or_default());
//! # let _ = orders;
//! ```
//!
//! Brokers that demand a certificate of the client (`ssl.client.auth=required`) get the one of `ssl.certificate.location` and
//! `ssl.key.location`, both in PEM.
//!
//! A job whose first connections are refused ends with an error of the kind [`Config`](thalweg::ErrorKind::Config) that has the
//! reason and the settings to look at; one that reaches no broker ends after 15 seconds. A job that runs ends with the same error when
//! a broker refuses its password or certificate, or the other way round: what was only lost is tried again.
//!
//! # Rights
//!
//! What the brokers' rules (ACLs) do not allow ends the job with an error of the kind [`Config`](thalweg::ErrorKind::Config) that names
//! the operation and the topic, the group or the transactional id: before the job begins where brokers say it then, and otherwise when
//! it is first refused, also in a job that runs.
//!
//! | | needs |
//! |---|---|
//! | [`KafkaSource`] | `Read` and `Describe` on the topics; `Read` on the [group](KafkaSource::group), if there is one |
//! | [`KafkaSink::at_least_once`] | `Write` and `Describe` on the topic |
//! | [`KafkaSink::exactly_once`] | `Write`, `Read` and `Describe` on the topic, which marks of transactions are offsets of; `Write` on transactional ids and `Read` on groups whose names begin with [`transactional_id_prefix`](KafkaSink::transactional_id_prefix) |
//!
//! # Avro
//!
//! With the feature `avro`, values and keys are decoded from Avro and encoded as Avro in the wire form of a schema registry: see
//! `SchemaRegistry`. Registries by https need the feature `avro-tls`.
//!
//! # Where brokers are lost
//!
//! Readers wait until a broker answers again, and writers try again for the time of `message.timeout.ms` (five minutes). What
//! librdkafka says of it goes to the facade [`log`] under the target `librdkafka`, and what is said of records that are fetched under
//! `thalweg_kafka`.

mod ahead;
#[cfg(feature = "avro")]
mod avro;
mod awaited;
mod client;
mod connections;
mod decode;
mod ends;
mod fetch;
mod kept;
mod letters;
mod message;
mod open;
mod outgoing;
mod partition;
mod protocol;
mod reader;
mod rights;
mod same;
mod sink;
#[cfg(doctest)]
mod snippets;
mod source;
mod threads;
mod tokens;
mod topics;
mod transactions;
mod waits;
mod writer;

#[cfg(feature = "avro")]
pub use avro::{AvroDecoder, AvroEncoder, SchemaRegistry, SubjectName};
pub use decode::{BadRecords, Decoded, DecodedReader, Divert, Stop};
pub use letters::DeadLetter;
pub use message::{Message, MessageRef};
pub use outgoing::Outgoing;
pub use partition::{Partition, Position};
pub use reader::Reader;
pub use sink::KafkaSink;
pub use source::{Begin, KafkaSource};
pub use tokens::Token;
pub use topics::Topics;
pub use transactions::Epoch;
pub use writer::Writer;
