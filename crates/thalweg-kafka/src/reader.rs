//! Reads one partition.

use crate::client::{Consumer, Fetcher, FoundEnds, Suspect, Verdict, error};
use crate::connections::Watch;
use crate::coordinator::TopicId;
use crate::ends::End;
use crate::message::{Message, MessageRef};
use crate::rights::Needs;
use crate::source::{Partition, Position, gone, list_of, place};
use rdkafka::Message as _;
use rdkafka::consumer::Consumer as _;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg::connector::{Emit, ReadStatus, SplitReader, SplitWaker};
use thalweg::memory::Reservation;
use thalweg::{Error, ErrorKind, Place, Result};

/// Records that are emitted in a turn, and between two looks at whether there is room.
const TURN: usize = 1024;
const RUN: usize = 64;

/// Reads one partition.
pub struct Reader {
    partition: Partition,
    next: i64,
    until: Option<i64>,
    topic: Option<TopicId>,
    /// Where the partition begins and ends, once the next record is not there.
    lost: Option<FoundEnds>,
    /// Where the partition ends, as far as it is known.
    end: End,
    /// Where all was read that was there, though offsets may have been left: they were no records.
    all_read_at: Option<i64>,
    /// Set while it is not known whether the partition is there.
    suspected: Option<Arc<OnceLock<Verdict>>>,
    queue: PartitionQueue<Watch>,
    fetcher: Arc<Fetcher>,
    waker: Arc<SplitWaker>,
    /// What the client fetches ahead of the reader. Released behind the queue.
    _memory: Reservation,
}

impl Reader {
    pub(crate) fn open(
        fetcher: Arc<Fetcher>,
        partition: &Partition,
        position: Position,
        waker: SplitWaker,
        memory: Reservation,
    ) -> Result<Self> {
        let consumer: &Arc<Consumer> = &fetcher.consumer;
        // Before it is assigned, so that nothing goes by another queue.
        let queue = consumer.split_partition_queue(&partition.topic, partition.number);
        let mut queue = queue.ok_or_else(|| {
            Error::new(ErrorKind::Io, "there is no such partition").at(place(partition))
        })?;
        let of_faults = fetcher.waked(waker.clone());
        queue.set_nonempty_callback(move || waker.wake());
        consumer
            .incremental_assign(&list_of(partition, Offset::Offset(position.next))?)
            .map_err(|cause| error("begin to read the partition", cause).at(place(partition)))?;
        let Position { next, until, topic } = position;
        Ok(Self {
            partition: partition.clone(),
            next,
            until,
            topic,
            lost: None,
            end: fetcher.connections().ends.of(&partition.topic, partition.number),
            all_read_at: None,
            suspected: None,
            queue,
            fetcher,
            waker: of_faults,
            _memory: memory,
        })
    }

    fn is_at_end(&self) -> bool {
        self.until.is_some_and(|until| self.next >= until)
    }

    /// Nothing is left before the end, though offsets may be.
    fn end(&mut self, until: i64) -> ReadStatus {
        self.next = self.next.max(until);
        ReadStatus::End
    }

    /// What is to be done where there is no record.
    fn wait(&mut self) -> Result<ReadStatus> {
        if let Some(ends) = &self.lost {
            return match ends.get() {
                None => Ok(ReadStatus::PendingFor(Duration::from_secs(1))),
                Some(ends) => Err(gone(&self.partition, self.next, &lost(self.next, *ends))),
            };
        }
        match self.suspected.as_ref().map(|verdict| verdict.get()) {
            None => Ok(ReadStatus::Pending),
            Some(None) => Ok(ReadStatus::PendingFor(Duration::from_secs(1))),
            Some(Some(Verdict::There)) => {
                self.suspected = None;
                Ok(ReadStatus::Pending)
            }
            Some(Some(Verdict::Gone)) => {
                let what = "the partition is not there any more: its topic was deleted";
                Err(gone(&self.partition, self.next, what))
            }
        }
    }

    /// Has the brokers asked for the partition after a while.
    fn suspect(&mut self) {
        if self.suspected.is_some() {
            return;
        }
        let verdict = Arc::new(OnceLock::new());
        let Partition { topic, number } = self.partition.clone();
        let suspect =
            Suspect { topic, number, since: Instant::now(), verdict: Arc::downgrade(&verdict) };
        let mut suspects = self.fetcher.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        suspects.push(suspect);
        self.suspected = Some(verdict);
    }

    /// What is to be done where there is no record but an error.
    #[cold]
    fn fail(&mut self, cause: KafkaError) -> Result<Option<ReadStatus>> {
        let code = cause.rdkafka_error_code();
        match (&cause, code) {
            (KafkaError::PartitionEOF(_), _) => {
                (self.suspected, self.all_read_at) = (None, Some(self.next));
                // The end was there before. What did not come before it are no records: they were of an aborted transaction, or
                // removed by compaction.
                Ok(self.until.map(|until| self.end(until)))
            }
            (
                _,
                Some(
                    RDKafkaErrorCode::UnknownTopicOrPartition
                    | RDKafkaErrorCode::UnknownTopic
                    | RDKafkaErrorCode::UnknownPartition,
                ),
            ) => {
                self.suspect();
                Ok(None)
            }
            (_, Some(RDKafkaErrorCode::TopicAuthorizationFailed)) => {
                let place = Place::Split(self.partition.to_string(), Some(self.next.to_string()));
                let needs = Needs::topic("`Read`", &self.partition.topic);
                let denied = needs.denied("read the partition", code);
                Err(denied.unwrap_or_else(|| error("read the partition", cause)).at(place))
            }
            (_, Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)) => {
                if self.lost.is_none() {
                    let ends = self.fetcher.ends(&self.partition, Arc::clone(&self.waker))?;
                    self.lost = Some(ends);
                }
                Ok(None)
            }
            _ => {
                Err(gone(&self.partition, self.next, "cannot read the partition").caused_by(cause))
            }
        }
    }
}

/// Why the next record is not there, in a partition that begins and ends so.
#[cold]
fn lost(next: i64, ends: Option<(i64, i64)>) -> String {
    match ends {
        Some((first, _)) if next < first => format!(
            "the record at offset {next} is not there any more: the partition begins at {first} by now, as the topic does not keep records \
             for longer (`retention.ms`, `retention.bytes`), or they were deleted"
        ),
        Some((_, end)) if next > end => format!(
            "there is no record at offset {next}: the partition ends at {end}, as its topic was made anew, or brokers have lost records"
        ),
        _ => format!(
            "the record at offset {next} was not there: it was older than the topic keeps records, or the topic was made anew"
        ),
    }
}

impl SplitReader for Reader {
    type Item = Message;
    type Position = Position;

    fn read(&mut self, out: &mut impl Emit<Message>) -> Result<ReadStatus> {
        self.fetcher.faults.check()?;
        for turn in 1..=TURN {
            if self.is_at_end() {
                return Ok(ReadStatus::End);
            }
            match self.queue.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    let offset = message.offset();
                    // Never twice, also where the client begins anew by itself.
                    if offset < self.next {
                        continue;
                    }
                    if let Some(until) = self.until.filter(|until| offset >= *until) {
                        return Ok(self.end(until));
                    }
                    self.next = offset + 1;
                    self.suspected = None;
                    out.emit(MessageRef(&message));
                }
                Some(Err(cause)) => {
                    if let Some(status) = self.fail(cause)? {
                        return Ok(status);
                    }
                }
                None => return self.wait(),
            }
            if turn % RUN == 0 && out.is_full() {
                break;
            }
        }
        Ok(ReadStatus::More)
    }

    fn position(&self) -> Position {
        Position { next: self.next, until: self.until, topic: self.topic }
    }

    fn backlog(&self) -> Option<u64> {
        if self.all_read_at == Some(self.next) {
            return Some(0);
        }
        // Where reading ends, there are records until then, which the brokers have said before.
        let end = self.until.or_else(|| self.end.get())?;
        Some(u64::try_from(end.saturating_sub(self.next)).unwrap_or(0))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Ok(partition) = list_of(&self.partition, Offset::Invalid) {
            // Fails only where the client is at its end anyway.
            let _ = self.fetcher.consumer.incremental_unassign(&partition);
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("partition", &self.partition)
            .field("next", &self.next)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}
