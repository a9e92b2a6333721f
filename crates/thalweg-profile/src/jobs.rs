//! The pipelines as jobs of this engine, written as a user would.

use crate::args::{Common, Workload};
use crate::broker::Topics;
use crate::record::{InputRecord, RESULT, TracedRecord, now};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Data, Environment, JobHandle, Result};
use thalweg_kafka::{KafkaSink, KafkaSource, MessageRef, Outgoing};

/// Starts the job of a workload from one topic to the other.
pub(crate) fn start(
    workload: Workload,
    common: &Common,
    brokers: &str,
    topics: &Topics,
) -> Result<JobHandle> {
    let env = Environment::with_config(common.config());
    let source = KafkaSource::new(brokers, topics.from.as_str());
    let options = common.client_options.iter().chain(&common.source_options);
    let source = options.fold(source, |source, (name, value)| source.option(name, value));
    let records = env.read(source);
    match workload {
        Workload::Identity => {
            records.try_map(whole).write(sink(common, brokers, topics, leave));
        }
        Workload::Rebalance => {
            records.try_map(whole).shuffle().write(sink(common, brokers, topics, leave));
        }
        Workload::Wordcount => {
            let counts = records.try_map(traced).group_by(|traced| traced.key).stateful_map(
                0,
                |_, count: &mut u64, traced: TracedRecord| {
                    *count += 1;
                    TracedRecord { count: *count, ..traced }
                },
            );
            counts.unkey().map(|(_, traced)| traced).write(sink(common, brokers, topics, count));
        }
        Workload::Fixwindow => {
            let windows = records
                .assign_timestamps(due, Watermarks::monotonous())
                .try_map(traced)
                .group_by(|traced| traced.key)
                .window(EventTimeWindow::tumbling(common.window))
                .count();
            windows
                .unkey()
                .map(|(key, pane)| {
                    let end = pane.end.as_micros() as u64 * 1_000;
                    TracedRecord::of_window(end, key, pane.value)
                })
                .write(sink(common, brokers, topics, count));
        }
    }
    env.start()
}

/// A record with all of its bytes.
fn whole(message: MessageRef<'_>) -> Result<(TracedRecord, Vec<u8>)> {
    let fetched = now();
    let bytes = message.payload().unwrap_or_default().to_vec();
    Ok((arriving(message, fetched)?, bytes))
}

/// A record without them.
fn traced(message: MessageRef<'_>) -> Result<TracedRecord> {
    arriving(message, now())
}

fn arriving(message: MessageRef<'_>, fetched: u64) -> Result<TracedRecord> {
    let logged = message.timestamp().map(|at| at.as_micros() / 1_000);
    TracedRecord::arriving(message.payload().unwrap_or_default(), fetched, logged).ok_or_else(
        || message.error("shorter than what the profile makes", "is the topic used by others?"),
    )
}

/// When a record was due.
fn due(message: &MessageRef<'_>) -> Timestamp {
    let record = message.payload().and_then(InputRecord::read);
    record.map_or(Timestamp::MIN, |record| Timestamp::from_micros((record.due / 1_000) as i64))
}

fn leave((traced, record): (TracedRecord, Vec<u8>), out: &mut Outgoing) -> Result<()> {
    let buffer = out.buffer();
    buffer.extend_from_slice(&record);
    traced.leave(buffer);
    Ok(())
}

fn count(traced: TracedRecord, out: &mut Outgoing) -> Result<()> {
    let buffer = out.key(traced.key.to_le_bytes()).buffer();
    buffer.resize(RESULT, 0);
    traced.leave(buffer);
    Ok(())
}

/// A sink with the options of the command line.
fn sink<I: Data>(
    common: &Common,
    brokers: &str,
    topics: &Topics,
    encode: fn(I, &mut Outgoing) -> Result<()>,
) -> KafkaSink<I, impl Fn(I, &mut Outgoing) -> Result<()> + Send + Sync + 'static> {
    let sink = KafkaSink::at_least_once(brokers, topics.to.as_str(), encode);
    let options = common.client_options.iter().chain(&common.sink_options);
    options.fold(sink, |sink, (name, value)| sink.option(name, value))
}
