//! Writes the records of one task.

use crate::client::Faults;
use crate::outgoing::{Limits, Outgoing, unsent};
use crate::transactions::Epoch;
use rdkafka::client::ClientContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::{DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::util::Timeout;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thalweg::connector::{Prepared, SinkWaker, SinkWriter};
use thalweg::data::Record;
use thalweg::{Error, ErrorKind, Result};

/// Bytes that may be on their way before writers are full.
const MOST: usize = 64 << 20;
/// What a record counts for at least, so that the client's queue has room for all that fit into [`MOST`].
const LEAST: usize = 256;

/// What a producer says of records that it has sent.
#[derive(Default)]
pub(crate) struct Deliveries {
    faults: Faults,
    /// Bytes on their way.
    pending: AtomicUsize,
    /// Whether a writer waits until there is room.
    is_full: AtomicBool,
    writers: Mutex<Vec<SinkWaker>>,
}

impl ClientContext for Deliveries {
    fn error(&self, error: KafkaError, reason: &str) {
        log::warn!(target: "librdkafka", "{error}: {reason}");
    }
}

impl ProducerContext for Deliveries {
    /// The bytes that it counts for.
    type DeliveryOpaque = usize;

    fn delivery(&self, delivered: &DeliveryResult<'_>, bytes: usize) {
        if let Err((cause, _)) = delivered {
            let cause = cause.clone();
            self.faults.add(move || unsent(cause.clone()));
        }
        let left = self.pending.fetch_sub(bytes, Ordering::AcqRel) - bytes;
        if left < MOST / 2 && self.is_full.swap(false, Ordering::AcqRel) {
            let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
            writers.iter().for_each(SinkWaker::wake);
        }
    }
}

impl Deliveries {
    fn is_full(&self) -> bool {
        if self.pending.load(Ordering::Acquire) < MOST {
            return false;
        }
        self.is_full.store(true, Ordering::SeqCst);
        // What was delivered before that has waked nobody.
        self.pending.load(Ordering::SeqCst) >= MOST / 2
    }
}

/// Writes the records of one task.
pub struct Writer<I: Record + ?Sized, F> {
    encode: Arc<F>,
    record: Outgoing,
    limits: Limits,
    way: Way,
    items: PhantomData<fn(&I)>,
}

enum Way {
    /// Sends each record as it comes.
    AtOnce { topic: String, producer: Arc<ThreadedProducer<Deliveries>> },
    /// Keeps records for a transaction.
    InEpochs {
        name: String,
        /// The number of the last epoch that was prepared.
        last: u64,
        records: Vec<u8>,
        most: usize,
    },
}

impl<I: Record + ?Sized, F> Writer<I, F> {
    pub(crate) fn at_once(
        encode: Arc<F>,
        topic: String,
        limits: Limits,
        producer: Arc<ThreadedProducer<Deliveries>>,
        waker: SinkWaker,
    ) -> Self {
        let context = producer.client().context();
        context.writers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
        Self::new(encode, limits, Way::AtOnce { topic, producer })
    }

    pub(crate) fn in_epochs(
        encode: Arc<F>,
        limits: Limits,
        most: usize,
        name: String,
        last: u64,
    ) -> Self {
        Self::new(encode, limits, Way::InEpochs { name, last, records: Vec::new(), most })
    }

    fn new(encode: Arc<F>, limits: Limits, way: Way) -> Self {
        Self { encode, record: Outgoing::default(), limits, way, items: PhantomData }
    }
}

impl<I, F> SinkWriter for Writer<I, F>
where
    I: Record + ?Sized,
    F: for<'a> Fn(I::Of<'a>, &mut Outgoing) -> Result<()> + Send + Sync + 'static,
{
    type Item = I;
    type Commit = Epoch;

    fn write(&mut self, item: I::Of<'_>) -> Result<()> {
        let Self { encode, record, limits, way, .. } = self;
        record.clear();
        encode(item, record)?;
        record.check(*limits)?;
        match way {
            Way::AtOnce { topic, producer } => {
                let context = producer.client().context();
                context.faults.check()?;
                let bytes = record.size().max(LEAST);
                context.pending.fetch_add(bytes, Ordering::AcqRel);
                producer.send(record.as_record(topic, bytes)).map_err(|(cause, _)| {
                    context.pending.fetch_sub(bytes, Ordering::AcqRel);
                    unsent(cause)
                })
            }
            Way::InEpochs { records, most, .. } => {
                record.save(records);
                if records.len() > *most {
                    return Err(too_much(*most));
                }
                Ok(())
            }
        }
    }

    fn is_full(&mut self) -> bool {
        match &self.way {
            Way::AtOnce { producer, .. } => producer.client().context().is_full(),
            Way::InEpochs { .. } => false,
        }
    }

    fn prepare(&mut self) -> Result<Option<Prepared<Epoch>>> {
        match &mut self.way {
            Way::AtOnce { producer, .. } => {
                let producer = Arc::clone(producer);
                let flush = move || {
                    // Each record is delivered or given up after `message.timeout.ms`.
                    producer.flush(Timeout::Never).map_err(unsent)?;
                    producer.client().context().faults.check()
                };
                Ok(Some(Prepared::new(Epoch::nothing()).after(flush)))
            }
            Way::InEpochs { records, .. } if records.is_empty() => Ok(None),
            Way::InEpochs { name, last, records, .. } => {
                *last += 1;
                // The next epoch is likely to be about as large.
                let next = Vec::with_capacity(records.len());
                let records = std::mem::replace(records, next);
                Ok(Some(Prepared::new(Epoch::new(name.clone(), *last, records))))
            }
        }
    }
}

#[cold]
fn too_much(most: usize) -> Error {
    let what = format!(
        "more than {most} bytes wait for a transaction: checkpoints more often (`--checkpoint-interval`) need less, \
         and `KafkaSink::max_epoch` allows more"
    );
    Error::new(ErrorKind::Memory, what)
}

impl<I: Record + ?Sized, F> fmt::Debug for Writer<I, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("limits", &self.limits).finish_non_exhaustive()
    }
}
