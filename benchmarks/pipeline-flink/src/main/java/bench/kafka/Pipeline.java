package bench.kafka;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A pipeline between two topics: {@code --name value ...}. It runs until it is ended. */
public final class Pipeline {
    private Pipeline() {}

    public static void main(String[] words) throws Exception {
        Map<String, String> options = options(words);
        boolean tuned = Boolean.parseBoolean(options.get("tuned"));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(
                Integer.parseInt(options.get("parallelism")));
        if (tuned) {
            env.setBufferTimeout(1);
            env.getConfig().enableObjectReuse();
            env.getConfig().setAutoWatermarkInterval(1);
        }
        KafkaSource<Seen> source = KafkaSource.<Seen>builder()
                .setBootstrapServers(options.get("brokers"))
                .setTopics(options.get("from"))
                .setGroupId("pipeline-flink")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setDeserializer(new Arriving())
                .build();
        String workload = options.get("workload");
        WatermarkStrategy<Seen> time = workload.equals("fixwindow")
                ? WatermarkStrategy.<Seen>forMonotonousTimestamps()
                        .withTimestampAssigner((seen, before) -> seen.due / 1_000_000)
                : WatermarkStrategy.noWatermarks();
        // A task without a partition would hold event time back.
        int parallelism = Math.min(env.getParallelism(), Integer.parseInt(options.get("partitions")));
        DataStream<Seen> records = env.fromSource(source, time, "records").setParallelism(parallelism);
        boolean whole = workload.equals("identity") || workload.equals("rebalance");
        DataStream<Seen> results = switch (workload) {
            case "identity" -> records;
            case "rebalance" -> records.rebalance();
            case "wordcount" -> records.map(Pipeline::withoutBytes).keyBy(seen -> seen.key).map(new Counting());
            case "fixwindow" -> records.map(Pipeline::withoutBytes)
                    .keyBy(seen -> seen.key)
                    .window(TumblingEventTimeWindows.of(
                            Duration.ofMillis(Long.parseLong(options.get("window-ms")))))
                    .aggregate(new Count(), new Ended());
            default -> throw new IllegalArgumentException("there is no workload " + workload);
        };
        var sink = KafkaSink.<Seen>builder()
                .setBootstrapServers(options.get("brokers"))
                .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                .setRecordSerializer(new Leaving(options.get("to"), whole));
        if (tuned) {
            sink.setProperty("linger.ms", "1");
        }
        results.sinkTo(sink.build());
        env.execute();
    }

    /** What stands behind {@code --name} on the command line. */
    static Map<String, String> options(String[] words) {
        Map<String, String> options = new HashMap<>();
        for (int at = 0; at + 1 < words.length; at += 2) {
            options.put(words[at].substring(2), words[at + 1]);
        }
        return options;
    }

    private static Seen withoutBytes(Seen seen) {
        seen.record = new byte[0];
        return seen;
    }

    /** Reads records, and stamps them. */
    private static final class Arriving implements KafkaRecordDeserializationSchema<Seen> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Seen> out) {
            out.collect(Seen.arriving(record.value(), record.timestamp()));
        }

        @Override
        public TypeInformation<Seen> getProducedType() {
            return TypeInformation.of(Seen.class);
        }
    }

    /** Stamps records, and writes them. */
    private static final class Leaving implements KafkaRecordSerializationSchema<Seen> {
        private final String topic;
        private final boolean whole;

        Leaving(String topic, boolean whole) {
            this.topic = topic;
            this.whole = whole;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(Seen seen, KafkaSinkContext context, Long timestamp) {
            byte[] key = whole ? null
                    : ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(seen.key).array();
            return new ProducerRecord<>(topic, key, seen.leave(whole));
        }
    }

    /** Counts the records of a key. */
    private static final class Counting extends RichMapFunction<Seen, Seen> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Long.class));
        }

        @Override
        public Seen map(Seen seen) throws Exception {
            Long before = count.value();
            seen.count = before == null ? 1 : before + 1;
            count.update(seen.count);
            return seen;
        }
    }

    /** Counts records. */
    private static final class Count implements AggregateFunction<Seen, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Seen seen, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long one, Long other) {
            return one + other;
        }
    }

    /** A result is due when its window ends. */
    private static final class Ended extends ProcessWindowFunction<Long, Seen, Long, TimeWindow> {
        @Override
        public void process(Long key, Context context, Iterable<Long> counts, Collector<Seen> out) {
            out.collect(Seen.ofWindow(context.window().getEnd() * 1_000_000, key, counts.iterator().next()));
        }
    }
}
