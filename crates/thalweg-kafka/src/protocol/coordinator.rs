//! Requests about transactions, which their coordinator takes: a broker, which any broker knows.

use super::connection::Connection;
use super::fault::{Fault, Refusal};
use super::settings::Settings;
use super::wire;
use crate::tokens::Tokens;
use rdkafka::config::ClientConfig;
use std::fmt;
use std::sync::Arc;
use thalweg::Data;

/// Commits transactions of producers that are gone.
pub(crate) struct Coordinator {
    pub(super) settings: Settings,
}

/// What the coordinator knows a producer by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Data)]
pub(crate) struct ProducerId {
    pub(crate) id: i64,
    /// Grows when another producer begins with the same transactional id.
    pub(crate) epoch: i16,
}

/// What the coordinator knows of a transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// The last producer that has begun with it.
    pub(crate) producer: ProducerId,
    /// Whether its transaction is neither committed nor aborted yet.
    pub(crate) is_open: bool,
}

impl Coordinator {
    /// With the settings of a client of librdkafka, and what gives it tokens. Certificates are read here.
    ///
    /// # Errors
    ///
    /// If one of them is a way to connect that this client does not have, or a certificate cannot be read: of kind
    /// [`Config`](thalweg::ErrorKind::Config).
    pub(crate) fn new(
        config: &ClientConfig,
        tokens: Option<&Arc<Tokens>>,
    ) -> thalweg::Result<Self> {
        Settings::new(config, tokens).map(|settings| Self { settings })
    }

    /// What the coordinator knows of a transactional id, if it knows it. Brokers keep an id for a week after its last use, by
    /// default.
    pub(crate) fn describe(&self, name: &str) -> Result<Option<Described>, Refusal> {
        let described = self.described(name);
        match described {
            Ok(described) => Ok(Some(described)),
            Err(Fault::Forgotten(_)) => Ok(None),
            Err(fault) => Err(fault.refusal("look for the transaction of", name)),
        }
    }

    /// Commits the open transaction of a producer. There is nothing to do, and no error, if its last one is committed.
    pub(crate) fn commit(&self, name: &str, producer: ProducerId) -> Result<(), Refusal> {
        let committed = || {
            let mut connection = self.connect(name)?;
            let body = wire::commit(name, producer.id, producer.epoch);
            let code = connection.ask(wire::END_TXN, &body, |answer| answer.end_txn())?;
            Fault::check(code)
        };
        committed().map_err(|fault: Fault| fault.refusal("commit the transaction of", name))
    }

    /// Fences whoever has begun with a transactional id, which the coordinator knows then if it did not. What is open is aborted:
    /// as long as that takes, the answer is that it is too early.
    pub(crate) fn fence(&self, name: &str) -> Result<(), Refusal> {
        let fenced = || {
            let mut connection = self.connect(name)?;
            let body = wire::init_producer_id(name);
            let code = connection
                .ask(wire::INIT_PRODUCER_ID, &body, |answer| answer.init_producer_id())?;
            Fault::check(code)
        };
        fenced().map_err(|fault: Fault| fault.refusal("begin with the transactional id", name))
    }

    fn described(&self, name: &str) -> Result<Described, Fault> {
        let mut connection = self.connect(name)?;
        let body = wire::describe_transactions(name);
        let found = connection
            .ask(wire::DESCRIBE_TRANSACTIONS, &body, |answer| answer.describe_transactions())?;
        Fault::check(found.code)?;
        if found.name != name {
            return Err(connection.not_kafka());
        }
        let is_open = !matches!(&*found.state, "Empty" | "CompleteCommit" | "CompleteAbort");
        let producer = ProducerId { id: found.id, epoch: found.epoch };
        Ok(Described { producer, is_open })
    }

    /// Connects to the coordinator of a transactional id.
    fn connect(&self, name: &str) -> Result<Connection, Fault> {
        if i16::try_from(name.len()).is_err() {
            return Err(Fault::Final("a transactional id has at most 32767 bytes".to_owned()));
        }
        let (mut refused, mut failed) = (None, None);
        for (host, port) in &self.settings.brokers {
            match self.find(name, host, *port) {
                Ok((host, port)) => return Connection::new(&self.settings, &host, port),
                Err(fault @ Fault::Later(_)) => failed = Some(fault),
                Err(fault) => refused = Some(fault),
            }
        }
        let nothing = || Fault::Final("`bootstrap.servers` names no broker".to_owned());
        // One that refuses says more than one that is not there.
        Err(refused.or(failed).unwrap_or_else(nothing))
    }

    /// Has a broker say where the coordinator is.
    fn find(&self, name: &str, host: &str, port: u16) -> Result<(String, u16), Fault> {
        let mut connection = Connection::new(&self.settings, host, port)?;
        let body = wire::find_coordinator(name);
        let found =
            connection.ask(wire::FIND_COORDINATOR, &body, |answer| answer.find_coordinator())?;
        Fault::check(found.code)?;
        let port = u16::try_from(found.port).map_err(|_| connection.not_kafka())?;
        Ok((found.host, port))
    }
}

/// Without user and password.
impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brokers = &self.settings.brokers;
        f.debug_struct("Coordinator").field("brokers", brokers).finish_non_exhaustive()
    }
}
