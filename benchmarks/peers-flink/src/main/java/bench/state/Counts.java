package bench.state;

import bench.DigestSink;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Counts how often each key comes, and emits the counts at the end of the input. An operator, because functions do
 * not hear of the end: a timer for each key would double the state.
 */
final class Counts extends AbstractStreamOperator<Tuple2<Long, Long>>
        implements OneInputStreamOperator<Long, Tuple2<Long, Long>>, BoundedOneInput {
    private static final long serialVersionUID = 1;

    /** A key and a number. */
    static final TypeInformation<Tuple2<Long, Long>> ROW = Types.TUPLE(Types.LONG, Types.LONG);

    private final ValueStateDescriptor<Long> descriptor =
            new ValueStateDescriptor<>("count", LongSerializer.INSTANCE);
    private transient ValueState<Long> counts;

    /** The job that counts keys in no order, and digests the counts. */
    static void add(StreamExecutionEnvironment env, long distinct, long records) {
        env.fromSource(
                        Numbers.untimed(records, number -> Numbers.mixed(number, distinct)),
                        WatermarkStrategy.noWatermarks(),
                        "keys",
                        Types.LONG)
                .keyBy(key -> key, Types.LONG)
                .transform("count", ROW, new Counts())
                .sinkTo(digests());
    }

    /** Digests rows as those of one window that begins at zero, as the other contestants do. */
    static DigestSink<Tuple2<Long, Long>> digests() {
        return new DigestSink<>((row, hash) -> {
            hash.word(0);
            hash.word(row.f0);
            hash.word(row.f1);
        });
    }

    @Override
    public void open() throws Exception {
        super.open();
        counts = getPartitionedState(descriptor);
    }

    @Override
    public void processElement(StreamRecord<Long> record) throws Exception {
        Long count = counts.value();
        counts.update(count == null ? 1L : count + 1);
    }

    @Override
    public void endInput() throws Exception {
        KeyedStateBackend<Long> backend = getKeyedStateBackend();
        backend.applyToAllKeys(
                VoidNamespace.INSTANCE,
                VoidNamespaceSerializer.INSTANCE,
                descriptor,
                (key, count) -> output.collect(new StreamRecord<>(Tuple2.of(key, count.value()))));
    }
}
