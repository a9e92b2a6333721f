//! Why a request was not done, by the codes of Kafka's protocol.

use crate::rights::Needs;
use rdkafka::error::RDKafkaErrorCode as Code;
use thalweg::{Error, ErrorKind};

/// Why a request was not done.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// There was no connection, no answer in time, or an error that ends by itself: worth another attempt.
    Later(String),
    /// The producer is fenced, or its transaction aborted. The name of the code.
    Gone(String),
    /// Nothing is known of the transactional id and this producer, as is so some days after the last transaction. The name of the code.
    Forgotten(String),
    /// Another attempt cannot help.
    Final(Error),
}

/// The same, before it is known what it is that was not done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Later(String),
    Gone(String),
    Forgotten(String),
    Final(String),
    /// A right is missing: of a transactional id `Write`, otherwise that of the cluster.
    Denied,
}

impl Fault {
    /// What the code of an answer means; 0 is no error.
    pub(super) fn check(code: i16) -> Result<(), Self> {
        let name = match code {
            0 => return Ok(()),
            47 => "INVALID_PRODUCER_EPOCH",
            48 => "INVALID_TXN_STATE",
            49 => return Err(Self::Forgotten("INVALID_PRODUCER_ID_MAPPING".to_owned())),
            90 => "PRODUCER_FENCED",
            105 => return Err(Self::Forgotten("TRANSACTIONAL_ID_NOT_FOUND".to_owned())),
            31 | 53 => return Err(Self::Denied),
            35 => return Err(Self::Final("UNSUPPORTED_VERSION".to_owned())),
            42 => return Err(Self::Final("INVALID_REQUEST".to_owned())),
            14 => return Err(Self::Later("COORDINATOR_LOAD_IN_PROGRESS".to_owned())),
            15 => return Err(Self::Later("COORDINATOR_NOT_AVAILABLE".to_owned())),
            16 => return Err(Self::Later("NOT_COORDINATOR".to_owned())),
            51 => return Err(Self::Later("CONCURRENT_TRANSACTIONS".to_owned())),
            // Brokers have many reasons of which most end by themselves.
            other => return Err(Self::Later(format!("the broker answers with error {other}"))),
        };
        Err(Self::Gone(name.to_owned()))
    }

    /// Says why.
    pub(crate) fn what(self) -> String {
        match self {
            Self::Later(what) | Self::Gone(what) | Self::Forgotten(what) | Self::Final(what) => {
                what
            }
            Self::Denied => "the brokers do not authorize it".to_owned(),
        }
    }

    /// The refusal of what was to be done with a transactional id.
    pub(super) fn refusal(self, doing: &str, name: &str) -> Refusal {
        let doing = format!("{doing} {name}");
        let config = |what| Refusal::Final(Error::new(ErrorKind::Config, what));
        match self {
            Self::Later(what) => Refusal::Later(what),
            Self::Gone(code) => Refusal::Gone(code),
            Self::Forgotten(code) => Refusal::Forgotten(code),
            Self::Final(what) => config(format!("cannot {doing}: {what}")),
            Self::Denied => {
                let needs = Needs { transactions: name, ..Needs::default() };
                let denied = needs.denied(&doing, Some(Code::TransactionalIdAuthorizationFailed));
                denied.map_or_else(|| config(format!("cannot {doing}")), Refusal::Final)
            }
        }
    }
}
