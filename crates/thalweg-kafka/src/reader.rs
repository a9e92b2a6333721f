//! Reads one partition.

use crate::ahead::Room;
use crate::client::{Client, Consumer, FoundEnds, Suspect, Verdict, error};
use crate::connections::Watch;
use crate::ends::{End, Shortfall};
use crate::fetch::{Fetcher, Queue, Taken, Trouble, named_code};
use crate::message::{Message, MessageRef};
use crate::partition::{Partition, Position, gone, hopeless, list_of, place};
use crate::protocol::TopicId;
use crate::protocol::batches::{Batches, Wrong};
use crate::rights::{Needs, code_of};
use crate::same::Another;
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
/// When to ask again where a partition ends.
const ASK_AGAIN: Duration = Duration::from_secs(2);

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
    /// While it is looked whether librdkafka has read all.
    end_of_fetch: Option<EndOfFetch>,
    /// While the partition ends before it should.
    shortfall: Shortfall,
    /// Whether a topic that was deleted is left out.
    leaves_deleted: bool,
    /// Set while it is not known whether the partition is there.
    suspected: Option<Arc<OnceLock<Verdict>>>,
    records: Records,
    client: Arc<Client>,
    waker: Arc<SplitWaker>,
    /// What the client fetches ahead of the reader. Released behind the queue.
    _memory: Reservation,
}

/// librdkafka has said that the partition ends before it should. What is not there are no records then: they were of an aborted
/// transaction, or removed by compaction. But a broker that has just begun to lead may not know yet of records that are there.
enum EndOfFetch {
    /// The answer to where it ends, once it has come, and when the request was made.
    Asked(FoundEnds, Instant),
    /// It ends where it should: the broker that said so is fetched from once more.
    Again,
}

/// What fetches.
enum Records {
    Direct { fetcher: Arc<Fetcher>, queue: Arc<Queue>, batches: Box<Batches> },
    Librdkafka(PartitionQueue<Watch>),
}

impl Reader {
    /// Has librdkafka fetch the partition.
    pub(crate) fn by_librdkafka(
        client: Arc<Client>,
        partition: &Partition,
        position: Position,
        waker: SplitWaker,
        memory: Reservation,
    ) -> Result<Self> {
        let consumer: &Arc<Consumer> = &client.consumer;
        // Before it is assigned, so that nothing goes by another queue.
        let queue = consumer.split_partition_queue(&partition.topic, partition.number);
        let mut queue = queue.ok_or_else(|| {
            Error::new(ErrorKind::Io, "there is no such partition").at(place(partition))
        })?;
        let wakes = waker.clone();
        queue.set_nonempty_callback(move || wakes.wake());
        consumer
            .incremental_assign(&list_of(partition, Offset::Offset(position.next))?)
            .map_err(|cause| error("begin to read the partition", cause).at(place(partition)))?;
        let records = Records::Librdkafka(queue);
        Ok(Self::new(records, client, partition, position, waker, memory))
    }

    /// Has the partition fetched here, within this room.
    pub(crate) fn by_fetcher(
        (fetcher, room): (Arc<Fetcher>, Room),
        client: Arc<Client>,
        partition: &Partition,
        position: Position,
        waker: SplitWaker,
        memory: Reservation,
    ) -> Self {
        let end = client.connections().ends.of(&partition.topic, partition.number);
        let wakes = waker.clone();
        let room = (room, fetcher.budget());
        let Position { next, epoch, .. } = position;
        let queue = Arc::new(Queue::new((next, epoch), room, end, move || wakes.wake()));
        fetcher.add(partition, position.topic, Arc::clone(&queue));
        let batches = Box::new(Batches::begin_at(next, epoch));
        let records = Records::Direct { fetcher, queue, batches };
        Self::new(records, client, partition, position, waker, memory)
    }

    fn new(
        records: Records,
        client: Arc<Client>,
        partition: &Partition,
        position: Position,
        waker: SplitWaker,
        memory: Reservation,
    ) -> Self {
        let of_faults = client.waked(waker);
        let Position { next, until, topic, epoch: _ } = position;
        Self {
            partition: partition.clone(),
            next,
            until,
            topic,
            lost: None,
            end: client.connections().ends.of(&partition.topic, partition.number),
            all_read_at: None,
            end_of_fetch: None,
            shortfall: Shortfall::default(),
            leaves_deleted: false,
            suspected: None,
            records,
            client,
            waker: of_faults,
            _memory: memory,
        }
    }

    /// Ends, with a warning, where the topic was deleted, in place of an error.
    pub(crate) fn leaving_out_deleted(mut self, leaves_deleted: bool) -> Self {
        self.leaves_deleted = leaves_deleted;
        self
    }

    fn is_at_end(&self) -> bool {
        self.until.is_some_and(|until| self.next >= until)
    }

    /// Nothing is left before the end, though offsets may be.
    fn end(&mut self, until: i64) -> ReadStatus {
        self.next = self.next.max(until);
        ReadStatus::End
    }

    /// Reads what was fetched here.
    #[inline(always)]
    fn read_batches(&mut self, out: &mut impl Emit<Message>) -> Result<ReadStatus> {
        let mut left = TURN;
        while left > 0 {
            if self.is_at_end() {
                return Ok(ReadStatus::End);
            }
            let Records::Direct { fetcher, queue, batches } = &mut self.records else {
                return Err(Error::new(ErrorKind::Internal, "another reader's records"));
            };
            match batches.open(&mut self.next) {
                Ok(true) => {}
                Ok(false) if self.until.is_some_and(|until| self.next >= until) => continue,
                Ok(false) => {
                    let (taken, is_waited_for) = queue.take(batches);
                    if is_waited_for {
                        fetcher.has_room();
                    }
                    match taken {
                        Taken::Records => {
                            (self.suspected, self.shortfall) = (None, Shortfall::default());
                            left -= 1;
                        }
                        Taken::Trouble(trouble) => self.trouble(trouble)?,
                        Taken::Nothing => return self.wait(),
                    }
                    continue;
                }
                Err(wrong) => return Err(self.wrong(wrong)),
            }
            for _ in 0..left.min(RUN) {
                let record = match batches.record() {
                    Ok(Some(record)) => record,
                    Ok(None) => break,
                    Err(wrong) => return Err(self.wrong(wrong)),
                };
                left -= 1;
                // A batch may begin before the offset that was asked for.
                if record.offset < self.next {
                    continue;
                }
                if let Some(until) = self.until.filter(|until| record.offset >= *until) {
                    return Ok(self.end(until));
                }
                self.next = record.offset + 1;
                out.emit(MessageRef::fetched(&self.partition, record));
            }
            if out.is_full() {
                break;
            }
        }
        Ok(ReadStatus::More)
    }

    /// Reads what librdkafka has fetched.
    fn read_queue(&mut self, out: &mut impl Emit<Message>) -> Result<ReadStatus> {
        for turn in 1..=TURN {
            if self.is_at_end() {
                return Ok(ReadStatus::End);
            }
            let Records::Librdkafka(queue) = &self.records else {
                return Err(Error::new(ErrorKind::Internal, "another reader's records"));
            };
            match queue.poll(Duration::ZERO) {
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
                    (self.suspected, self.end_of_fetch) = (None, None);
                    out.emit(MessageRef::of_librdkafka(&message));
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

    /// Goes back to a record that was emitted since [`read`](SplitReader::read) was called last, and with which that has ended.
    #[cold]
    pub(crate) fn go_back(&mut self, offset: i64) -> Result<()> {
        self.next = offset;
        match &mut self.records {
            Records::Direct { batches, .. } => {
                batches.begin_again();
                Ok(())
            }
            Records::Librdkafka(_) => {
                self.end_of_fetch = None;
                self.fetch_from_next()
            }
        }
    }

    /// What is to be done where records cannot be fetched.
    #[cold]
    fn trouble(&mut self, trouble: Trouble) -> Result<()> {
        match trouble {
            Trouble::Unknown => self.suspect(),
            Trouble::Denied => return Err(self.denied()),
            Trouble::OutOfRange => self.look_for_ends()?,
            Trouble::Another { before, now } => {
                return Err(Another { name: self.partition.topic.clone(), before, now }.error());
            }
            Trouble::Replica(replica) => {
                let what = format!(
                    "the brokers want the partition read from broker {replica}, which does not lead it: `KafkaSource::fetch_by_librdkafka` does so"
                );
                return Err(hopeless(&self.partition, self.next, &what));
            }
            Trouble::Code(code) => {
                let what = format!(
                    "cannot read the partition: the broker answers with error {}",
                    named_code(code)
                );
                return Err(gone(&self.partition, self.next, &what));
            }
            Trouble::Diverged { end, epoch, read } => return Err(self.truncated(end, epoch, read)),
            Trouble::Wrong(wrong) => return Err(self.wrong(wrong)),
        }
        Ok(())
    }

    /// The error of a log that has no longer what was read, but for what is before an offset, if that is known.
    #[cold]
    fn truncated(&self, end: Option<i64>, epoch: i32, read: i32) -> Error {
        let next = self.next;
        let (lost, has, before) = match end {
            Some(end) => (
                format!(
                    "those from offset {end} to {next} that were read, until leader epoch {read}, are"
                ),
                format!("has leader epoch {epoch} until offset {end}"),
                format!("before offset {end}"),
            ),
            None => (
                format!("the one before offset {next} that was read, of leader epoch {read}, is"),
                format!("has one of leader epoch {epoch} there"),
                "of before they were lost".to_owned(),
            ),
        };
        let what = format!(
            "the brokers have lost records: {lost} not in the partition any more, as a broker leads it that did not have all of it \
             (`unclean.leader.election.enable`), whose log {has}; begin anew (`thalweg checkpoint rm --all DIR`), or go on from a checkpoint \
             {before} (`thalweg checkpoint rm DIR --number N` removes a later one)"
        );
        hopeless(&self.partition, next, &what)
    }

    /// The error of records that make no sense.
    #[cold]
    fn wrong(&self, wrong: Wrong) -> Error {
        let what = match wrong {
            Wrong::Torn => {
                "the batch of records at this offset is corrupt: its lengths do not agree; `kafka-dump-log.sh` says whether the log is sound"
            }
            Wrong::Sum => {
                "the batch of records at this offset is corrupt: its checksum is another one; if `kafka-dump-log.sh` says that the log is sound, it \
                 was changed on its way, and the job can be run again"
            }
            Wrong::Packed => {
                "the batch of records at this offset cannot be decompressed, though its checksum is right: it was written so"
            }
            Wrong::Compression(number) => {
                let what = format!(
                    "the batch of records is compressed in an unknown way: number {number}"
                );
                return hopeless(&self.partition, self.next, &what);
            }
            Wrong::Old => {
                "the records are in a format of before Kafka 0.11: `KafkaSource::fetch_by_librdkafka` reads them"
            }
        };
        gone(&self.partition, self.next, what)
    }

    /// What is to be done where there is no record.
    fn wait(&mut self) -> Result<ReadStatus> {
        if let Some(ends) = &self.lost {
            return match ends.get() {
                None => Ok(ReadStatus::PendingFor(Duration::from_secs(1))),
                Some(ends) => Err(lost(&self.partition, self.next, *ends)),
            };
        }
        match self.suspected.as_ref().map(|verdict| verdict.get()) {
            None => self.wait_for_end(),
            Some(None) => Ok(ReadStatus::PendingFor(Duration::from_secs(1))),
            Some(Some(Verdict::There)) => {
                self.suspected = None;
                // Its answer may have come meanwhile, and woken the reader in vain.
                self.wait_for_end()
            }
            Some(Some(Verdict::Gone)) if self.leaves_deleted => {
                log::warn!(
                    "{}: {} is not there any more, as its topic was deleted; the job goes on without it",
                    self.client.connections().operator(),
                    self.partition
                );
                Ok(ReadStatus::End)
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
        let suspect = Suspect {
            topic,
            number,
            since: Instant::now(),
            asks_again: self.leaves_deleted,
            verdict: Arc::downgrade(&verdict),
        };
        let mut suspects = self.client.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        suspects.push(suspect);
        self.suspected = Some(verdict);
    }

    /// Asks where the partition begins and ends, as the next record is not there.
    fn look_for_ends(&mut self) -> Result<()> {
        if self.lost.is_none() {
            self.lost = Some(self.client.ends(&self.partition, Arc::clone(&self.waker))?);
        }
        Ok(())
    }

    /// What is to be done where all that was fetched was read.
    fn wait_for_end(&mut self) -> Result<ReadStatus> {
        if let Records::Direct { queue, .. } = &self.records {
            // Where a job goes on, the log may have been cut off since its end was decided.
            let known = self.until.zip(self.end.get()).filter(|_| queue.is_answered());
            let Some((until, end)) = known.filter(|(until, end)| end < until && *end <= self.next)
            else {
                return Ok(ReadStatus::Pending);
            };
            self.is_short(end, until);
            return Ok(ReadStatus::PendingFor(ASK_AGAIN));
        }
        let Some(EndOfFetch::Asked(ends, at)) = &self.end_of_fetch else {
            return Ok(ReadStatus::Pending);
        };
        let (ends, until) = (ends.get().copied(), self.until.unwrap_or_default());
        match ends {
            None => {}
            Some(Some((_, end))) if end >= until => self.fetch_again()?,
            Some(_) if at.elapsed() < ASK_AGAIN => {}
            Some(answer) => {
                match answer {
                    None => self.suspect(),
                    Some((_, end)) => self.is_short(end, until),
                }
                self.ask_for_end()?;
            }
        }
        Ok(ReadStatus::PendingFor(ASK_AGAIN))
    }

    /// Warns, now and then, of a partition that ends before it should.
    fn is_short(&mut self, end: i64, until: i64) {
        if self.shortfall.is_to_be_logged(Instant::now()) {
            let (reader, at) = (self.client.connections().operator(), &self.partition);
            log::warn!(
                "{reader}: {at} ends at offset {end} for now, and is to be read until {until}, which the job waits for: a transaction may be \
                 open there; if the brokers have lost records, begin anew (`thalweg checkpoint rm --all DIR`)"
            );
        }
    }

    /// Asks whether the partition ends where it should.
    fn ask_for_end(&mut self) -> Result<()> {
        let ends = self.client.ends(&self.partition, Arc::clone(&self.waker))?;
        self.end_of_fetch = Some(EndOfFetch::Asked(ends, Instant::now()));
        Ok(())
    }

    /// Has librdkafka fetch from the next record on anew: it says only once that there is none.
    fn fetch_again(&mut self) -> Result<()> {
        self.end_of_fetch = Some(EndOfFetch::Again);
        self.fetch_from_next()
    }

    fn fetch_from_next(&self) -> Result<()> {
        let failed = |cause| error("read the partition on", cause).at(place(&self.partition));
        let consumer = &self.client.consumer;
        consumer
            .incremental_unassign(&list_of(&self.partition, Offset::Invalid)?)
            .map_err(failed)?;
        let from = list_of(&self.partition, Offset::Offset(self.next))?;
        consumer.incremental_assign(&from).map_err(failed)
    }

    fn denied(&self) -> Error {
        let place = Place::Split(self.partition.to_string(), Some(self.next.to_string()));
        let cause = KafkaError::MessageConsumption(RDKafkaErrorCode::TopicAuthorizationFailed);
        let needs = Needs::topic("`Read`", &self.partition.topic);
        let denied = needs.denied("read the partition", code_of(&cause));
        denied.unwrap_or_else(|| error("read the partition", cause)).at(place)
    }

    /// What is to be done where there is no record but an error.
    #[cold]
    fn fail(&mut self, cause: KafkaError) -> Result<Option<ReadStatus>> {
        let code = cause.rdkafka_error_code();
        match (&cause, code) {
            (KafkaError::PartitionEOF(_), _) => {
                (self.suspected, self.all_read_at) = (None, Some(self.next));
                let Some(until) = self.until else { return Ok(None) };
                if matches!(self.end_of_fetch, Some(EndOfFetch::Again)) {
                    return Ok(Some(self.end(until)));
                }
                self.ask_for_end()?;
                Ok(None)
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
            (_, Some(RDKafkaErrorCode::TopicAuthorizationFailed)) => Err(self.denied()),
            (_, Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)) => {
                self.look_for_ends()?;
                Ok(None)
            }
            _ => {
                Err(gone(&self.partition, self.next, "cannot read the partition").caused_by(cause))
            }
        }
    }
}

/// Why the next record is not there, in a partition that begins and ends so, if that is known.
#[cold]
fn lost(at: &Partition, next: i64, ends: Option<(i64, i64)>) -> Error {
    let what = match ends {
        Some((first, _)) if next < first => format!(
            "the record at offset {next} is not there any more: the partition begins at {first} by now, as the topic does not keep records \
             for longer (`retention.ms`, `retention.bytes`), or they were deleted"
        ),
        Some((_, end)) if next > end => format!(
            "there is no record at offset {next}: the partition ends at {end}, as its topic was made anew, or brokers have lost records"
        ),
        // Another run may find it, or more.
        _ => {
            let what = format!(
                "the record at offset {next} was not there: it was older than the topic keeps records, the topic was made anew, or brokers have \
                 lost records"
            );
            return gone(at, next, &what);
        }
    };
    let advice = "begin anew (`thalweg checkpoint rm --all DIR`), or, where the job has no checkpoint yet, with another \
                  `KafkaSource::begin`";
    hopeless(at, next, &format!("{what}; {advice}"))
}

impl SplitReader for Reader {
    type Item = Message;
    type Position = Position;

    fn read(&mut self, out: &mut impl Emit<Message>) -> Result<ReadStatus> {
        self.client.faults.check()?;
        match self.records {
            Records::Direct { .. } => self.read_batches(out),
            Records::Librdkafka(_) => self.read_queue(out),
        }
    }

    fn position(&self) -> Position {
        let epoch = match &self.records {
            Records::Direct { batches, .. } => batches.epoch_before(self.next),
            // It does not say the epochs of records.
            Records::Librdkafka(_) => None,
        };
        Position { next: self.next, until: self.until, topic: self.topic, epoch }
    }

    fn backlog(&self) -> Option<u64> {
        if self.all_read_at == Some(self.next) {
            return Some(0);
        }
        // Where reading ends, there are records until then, which the brokers have said before.
        let end = self.until.or_else(|| self.end.get())?;
        Some(u64::try_from(end.saturating_sub(self.next)).unwrap_or(0))
    }

    fn is_caught_up(&self) -> bool {
        let is_answered = match &self.records {
            Records::Direct { queue, .. } => queue.is_answered(),
            Records::Librdkafka(_) => true,
        };
        is_answered && self.backlog() == Some(0)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Records::Direct { fetcher, queue, .. } = &self.records {
            fetcher.remove(queue);
        } else if let Ok(partition) = list_of(&self.partition, Offset::Invalid) {
            // Fails only where the client is at its end anyway.
            let _ = self.client.consumer.incremental_unassign(&partition);
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
