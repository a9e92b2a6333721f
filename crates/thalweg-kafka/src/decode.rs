//! Topics as sources of decoded values.

use crate::letters::DeadLetter;
use crate::message::{Message, MessageRef};
use crate::partition::{Partition, Position};
use crate::reader::Reader;
use crate::source::KafkaSource;
use crate::waits::Waits;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use thalweg::connector::{
    DecodingSource, Emit, ReadStatus, SplitContext, SplitReader, SplitSource,
};
use thalweg::{Error, ErrorKind, Result};

impl KafkaSource {
    /// Emits the values of records, read as JSON. A record that is none, and a tombstone, which has no value, end the job with an
    /// error that names topic, partition and offset; with [`dead_letters`](thalweg::Stream::dead_letters) they come as [`DeadLetter`]s
    /// on a stream of their own, and the job goes on.
    ///
    /// To use timestamps, keys or headers too, or what is borrowed from the record, see [`decode`](Self::decode) and
    /// [`MessageRef::json`].
    ///
    /// ```no_run
    /// use serde::Deserialize;
    /// use thalweg::Environment;
    /// use thalweg_kafka::{DeadLetter, KafkaSink, KafkaSource};
    ///
    /// #[derive(Deserialize)]
    /// struct Order {
    ///     customer: u64,
    ///     cents: u64,
    /// }
    ///
    /// let brokers = "localhost:9092";
    /// let env = Environment::from_args()?;
    /// let source = KafkaSource::new(brokers, "orders").json::<Order>();
    /// let (orders, letters) = env.read(source).dead_letters();
    /// orders.map(|order| format!("{}: {}", order.customer, order.cents)).for_each(|line| println!("{line}"));
    /// letters.write(KafkaSink::at_least_once(brokers, "orders-dead", |letter: DeadLetter, record| {
    ///     letter.fill(record);
    ///     Ok(())
    /// }));
    /// env.run()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn json<T: DeserializeOwned + 'static>(
        self,
    ) -> Decoded<T, impl Fn(MessageRef<'_>) -> Result<T> + Send + Sync + 'static> {
        self.decode(|message| message.json::<T>())
    }

    /// Emits the values of records, decoded from Avro, as [`json`](Self::json) does. A registry that does not answer, or refuses to, ends
    /// the job also where there are dead letters: the record may be right.
    #[cfg(feature = "avro")]
    pub fn avro<T: DeserializeOwned + 'static>(
        self,
        decoder: crate::AvroDecoder,
    ) -> Decoded<T, impl Fn(MessageRef<'_>) -> Result<T> + Send + Sync + 'static> {
        self.decode(move |message| message.avro::<T>(&decoder))
    }

    /// Emits what a closure makes of records. An error of the kind [`Input`](ErrorKind::Input), such as those of [`MessageRef`]'s methods
    /// and of [`MessageRef::error`], says that the record is bad: it ends the job, or makes a [`DeadLetter`] of the record where
    /// [`dead_letters`](thalweg::Stream::dead_letters) is called on the stream. All other errors end the job.
    ///
    /// A record that has to wait for its schema ([`MessageRef::avro`]) is decoded once more when that is there, whatever the closure
    /// has returned.
    ///
    /// ```no_run
    /// use thalweg::Environment;
    /// use thalweg_kafka::KafkaSource;
    ///
    /// let env = Environment::from_args()?;
    /// let source = KafkaSource::new("localhost:9092", "readings").decode(|message| {
    ///     let celsius: f64 = message.text()?.parse().map_err(|error| message.error("no number", error))?;
    ///     Ok((message.timestamp(), celsius))
    /// });
    /// let (readings, letters) = env.read(source).dead_letters();
    /// readings.for_each(|(at, celsius)| println!("{at:?} {celsius}"));
    /// letters.for_each(|letter| eprintln!("{letter}"));
    /// env.run()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn decode<T, F>(self, decode: F) -> Decoded<T, F>
    where
        T: 'static,
        F: Fn(MessageRef<'_>) -> Result<T> + Send + Sync + 'static,
    {
        Decoded { source: Arc::new(self), decode: Arc::new(decode), of: PhantomData }
    }
}

/// A [`KafkaSource`] of decoded values: see [`KafkaSource::json`] and [`KafkaSource::decode`].
pub struct Decoded<T, F, M = Stop> {
    source: Arc<KafkaSource>,
    decode: Arc<F>,
    of: PhantomData<fn() -> (T, M)>,
}

/// Reads one partition, and decodes.
pub struct DecodedReader<T, F, M> {
    reader: Reader,
    decode: Arc<F>,
    waits: Waits,
    of: PhantomData<fn() -> (T, M)>,
}

/// What becomes of bad records.
pub trait BadRecords<T>: 'static {
    /// What is emitted.
    type Item: 'static;

    /// Of a good record.
    #[doc(hidden)]
    fn good(value: T) -> Self::Item;

    /// Of a bad one.
    #[doc(hidden)]
    fn bad(message: MessageRef<'_>, error: Error) -> Result<Self::Item>;
}

/// Bad records end the job.
#[derive(Debug)]
pub struct Stop;

/// Bad records are emitted.
#[derive(Debug)]
pub struct Divert;

impl<T: 'static> BadRecords<T> for Stop {
    type Item = T;

    #[inline(always)]
    fn good(value: T) -> T {
        value
    }

    #[cold]
    fn bad(message: MessageRef<'_>, error: Error) -> Result<T> {
        Err(placed(message, error))
    }
}

impl<T: 'static> BadRecords<T> for Divert {
    type Item = std::result::Result<T, DeadLetter>;

    #[inline(always)]
    fn good(value: T) -> Self::Item {
        Ok(value)
    }

    #[cold]
    fn bad(message: MessageRef<'_>, error: Error) -> Result<Self::Item> {
        match error.kind() {
            ErrorKind::Input => Ok(Err(DeadLetter::new(message, &error))),
            _ => Err(placed(message, error)),
        }
    }
}

fn placed(message: MessageRef<'_>, error: Error) -> Error {
    match error.place() {
        Some(_) => error,
        None => error.at(message.place()),
    }
}

impl<T, F, M> SplitSource for Decoded<T, F, M>
where
    T: 'static,
    F: Fn(MessageRef<'_>) -> Result<T> + Send + Sync + 'static,
    M: BadRecords<T>,
{
    type Item = M::Item;
    type Split = Partition;
    type Position = Position;
    type Reader = DecodedReader<T, F, M>;

    fn describe(&self) -> String {
        self.source.describe()
    }

    fn is_bounded(&self) -> bool {
        self.source.is_bounded()
    }

    fn splits(&self) -> Result<Vec<Partition>> {
        self.source.splits()
    }

    fn look_again_after(&self) -> Option<Duration> {
        SplitSource::look_again_after(&*self.source)
    }

    fn open(
        &self,
        split: &Partition,
        from: Option<Position>,
        cx: &SplitContext,
    ) -> Result<Self::Reader> {
        let reader = self.source.open(split, from, cx)?;
        let (decode, waits) = (Arc::clone(&self.decode), Waits::new(cx.waker()));
        Ok(DecodedReader { reader, decode, waits, of: PhantomData })
    }

    fn goes_on_without(&self, gone: &[Partition]) -> Result<bool> {
        self.source.goes_on_without(gone)
    }

    fn committed(&self, positions: &[(Partition, Position)]) -> Result<()> {
        self.source.committed(positions)
    }

    fn finished(&self, positions: &[(Partition, Position)]) -> Result<()> {
        self.source.finished(positions)
    }
}

impl<T, F> DecodingSource for Decoded<T, F, Stop>
where
    T: 'static,
    F: Fn(MessageRef<'_>) -> Result<T> + Send + Sync + 'static,
{
    type Value = T;
    type Bad = DeadLetter;
    type Diverting = Decoded<T, F, Divert>;

    fn diverting(self: Arc<Self>) -> Self::Diverting {
        let (source, decode) = (Arc::clone(&self.source), Arc::clone(&self.decode));
        Decoded { source, decode, of: PhantomData }
    }
}

/// Decodes records on their way from a reader.
struct Decoding<'a, T, F, M, E> {
    decode: &'a F,
    out: &'a mut E,
    waits: &'a Waits,
    /// Why no more records are decoded.
    stopped: Option<Stopped>,
    of: PhantomData<fn() -> (T, M)>,
}

/// What the first record is that has not come out, nor those behind it.
enum Stopped {
    /// It ends the job.
    Failed(Error),
    /// The one at this offset is decoded once more, when what it waits for is there.
    Waits(i64),
}

impl<T, F, M, E> Emit<Message> for Decoding<'_, T, F, M, E>
where
    F: Fn(MessageRef<'_>) -> Result<T>,
    M: BadRecords<T>,
    E: Emit<M::Item>,
{
    #[inline(always)]
    fn emit(&mut self, message: MessageRef<'_>) {
        if self.stopped.is_some() {
            return;
        }
        let decoded = (self.decode)(message.that_may_wait(self.waits));
        if self.waits.have_begun() {
            self.stopped = Some(Stopped::Waits(message.offset()));
            return;
        }
        match decoded {
            Ok(value) => self.out.emit(M::good(value)),
            Err(error) => match M::bad(message, error) {
                Ok(bad) => self.out.emit(bad),
                Err(error) => self.stopped = Some(Stopped::Failed(error)),
            },
        }
    }

    fn is_full(&mut self) -> bool {
        self.stopped.is_some() || self.out.is_full()
    }
}

impl<T, F, M> SplitReader for DecodedReader<T, F, M>
where
    T: 'static,
    F: Fn(MessageRef<'_>) -> Result<T> + Send + Sync + 'static,
    M: BadRecords<T>,
{
    type Item = M::Item;
    type Position = Position;

    fn read(&mut self, out: &mut impl Emit<M::Item>) -> Result<ReadStatus> {
        let of = PhantomData::<fn() -> (T, M)>;
        let Self { reader, decode, waits, .. } = self;
        waits.end();
        let mut decoding = Decoding { decode: &**decode, out, waits, stopped: None, of };
        let read = reader.read(&mut decoding);
        match decoding.stopped {
            None => read,
            Some(Stopped::Failed(error)) => Err(error),
            // What was found behind it is found again.
            Some(Stopped::Waits(offset)) => {
                reader.go_back(offset)?;
                Ok(ReadStatus::Pending)
            }
        }
    }

    fn position(&self) -> Position {
        self.reader.position()
    }

    fn backlog(&self) -> Option<u64> {
        self.reader.backlog()
    }

    fn is_caught_up(&self) -> bool {
        self.reader.is_caught_up()
    }
}

impl<T, F, M> fmt::Debug for Decoded<T, F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoded").field("source", &self.source).finish_non_exhaustive()
    }
}

impl<T, F, M> fmt::Debug for DecodedReader<T, F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedReader").field("reader", &self.reader).finish_non_exhaustive()
    }
}
