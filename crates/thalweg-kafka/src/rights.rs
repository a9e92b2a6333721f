//! What the brokers' authorizer has to allow, for errors where it does not. Pure.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use thalweg::{Error, ErrorKind};

/// The operations and resources that a request stands on, by the names that Kafka's rules (ACLs) have for them. Those that a
/// request does not need are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs<'a> {
    /// The operation on the topic, and its name.
    pub(crate) topic: (&'a str, &'a str),
    pub(crate) group: &'a str,
    pub(crate) transactions: &'a str,
}

impl<'a> Needs<'a> {
    pub(crate) fn topic(operation: &'a str, name: &'a str) -> Self {
        Self { topic: (operation, name), ..Self::default() }
    }

    /// The error of a request that failed with this code, if it is one of rights: of kind [`Config`](ErrorKind::Config).
    pub(crate) fn denied(&self, doing: &str, code: Option<Code>) -> Option<Error> {
        let on = |operations: &str, kind: &str, name: &str| match name {
            "" => format!("{operations} on the {kind}"),
            name => format!("{operations} on the {kind} `{name}`"),
        };
        let what = match code? {
            Code::TopicAuthorizationFailed => on(self.topic.0, "topic", self.topic.1),
            Code::GroupAuthorizationFailed => on("`Read`", "group", self.group),
            Code::TransactionalIdAuthorizationFailed => {
                on("`Write`", "transactional id", self.transactions)
            }
            // What numbers records needs one of both.
            Code::ClusterAuthorizationFailed => match self.topic.1 {
                "" => on("`IdempotentWrite`", "cluster", ""),
                name => on("`Write`", "topic", name),
            },
            _ => return None,
        };
        let what = format!("cannot {doing}: the brokers do not authorize {what}");
        Some(Error::new(ErrorKind::Config, what))
    }
}

/// The code of an error.
pub(crate) fn code_of(error: &KafkaError) -> Option<Code> {
    match error {
        KafkaError::Transaction(error) => Some(error.code()),
        other => other.rdkafka_error_code(),
    }
}

/// Whether a right is missing.
pub(crate) fn is_denial(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let needs = Needs { topic: ("`Write`", "orders"), group: "shop", transactions: "a-0" };
        for (code, what) in [
            (Code::TopicAuthorizationFailed, "`Write` on the topic `orders`"),
            (Code::GroupAuthorizationFailed, "`Read` on the group `shop`"),
            (Code::TransactionalIdAuthorizationFailed, "`Write` on the transactional id `a-0`"),
            (Code::ClusterAuthorizationFailed, "`Write` on the topic `orders`"),
        ] {
            let error = needs.denied("write", Some(code)).unwrap();
            assert_eq!(error.kind(), ErrorKind::Config);
            let expected = format!("cannot write: the brokers do not authorize {what}");
            assert_eq!(error.message(), expected);
            assert!(is_denial(code));
        }
        assert!(needs.denied("write", Some(Code::UnknownTopic)).is_none());
        assert!(needs.denied("write", None).is_none());
    }
}
