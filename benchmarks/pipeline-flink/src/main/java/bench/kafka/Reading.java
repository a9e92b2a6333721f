package bench.kafka;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.LongAccumulator;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.types.LongValue;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic from its first record to its last, several times in one virtual machine: {@code --name value ...}. For each time it
 * prints how many records and bytes there are, and the nanoseconds from when a task has the first record until one has the last.
 */
public final class Reading {
    /** When tasks, which are all in this process, have a first record, and their last one of a partition. */
    private static final LongAccumulator BEGUN = new LongAccumulator(Math::min, Long.MAX_VALUE);
    private static final LongAccumulator ENDED = new LongAccumulator(Math::max, Long.MIN_VALUE);

    private Reading() {}

    public static void main(String[] words) throws Exception {
        Map<String, String> options = Pipeline.options(words);
        for (int times = Integer.parseInt(options.get("times")); times > 0; times--) {
            read(options);
        }
    }

    private static void read(Map<String, String> options) throws Exception {
        BEGUN.reset();
        ENDED.reset();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(
                Integer.parseInt(options.get("parallelism")));
        env.getConfig().enableObjectReuse();
        Map<TopicPartition, Long> ends = ends(options);
        KafkaSource<LongValue> source = KafkaSource.<LongValue>builder()
                .setBootstrapServers(options.get("brokers"))
                .setTopics(options.get("topic"))
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.offsets(ends))
                .setDeserializer(new Length(ends))
                .build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "records")
                .flatMap(new Sums())
                .sinkTo(new DiscardingSink<>());
        JobExecutionResult result = env.execute();
        long records = result.getAccumulatorResult("records");
        long bytes = result.getAccumulatorResult("bytes");
        System.out.println(records + " " + bytes + " " + (ENDED.get() - BEGUN.get()));
    }

    /** The offsets behind the last records. */
    private static Map<TopicPartition, Long> ends(Map<String, String> options) {
        Properties properties = new Properties();
        properties.setProperty("bootstrap.servers", options.get("brokers"));
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            var partitions = consumer.partitionsFor(options.get("topic")).stream()
                    .map(partition -> new TopicPartition(partition.topic(), partition.partition()))
                    .toList();
            return consumer.endOffsets(partitions);
        }
    }

    /** The length of a record's payload, in one object for all of them, and when they begin and end. */
    private static final class Length implements KafkaRecordDeserializationSchema<LongValue> {
        private final long[] lasts;
        private final LongValue length = new LongValue();
        private boolean hasBegun;

        Length(Map<TopicPartition, Long> ends) {
            lasts = new long[ends.size()];
            ends.forEach((partition, end) -> lasts[partition.partition()] = end - 1);
        }

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<LongValue> out) {
            if (!hasBegun) {
                hasBegun = true;
                BEGUN.accumulate(System.nanoTime());
            }
            length.setValue(record.value() == null ? 0 : record.value().length);
            out.collect(length);
            if (record.offset() == lasts[record.partition()]) {
                ENDED.accumulate(System.nanoTime());
            }
        }

        @Override
        public TypeInformation<LongValue> getProducedType() {
            return TypeInformation.of(LongValue.class);
        }
    }

    /** Counts records and bytes. */
    private static final class Sums extends RichFlatMapFunction<LongValue, LongValue> {
        private final LongCounter records = new LongCounter();
        private final LongCounter bytes = new LongCounter();

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("records", records);
            getRuntimeContext().addAccumulator("bytes", bytes);
        }

        @Override
        public void flatMap(LongValue length, Collector<LongValue> out) {
            records.add(1L);
            bytes.add(length.getValue());
        }
    }
}
