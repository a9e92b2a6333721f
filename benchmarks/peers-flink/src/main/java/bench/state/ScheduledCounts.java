package bench.state;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Counts how often each key comes in the numbers of a {@link Trial}. Each key comes once in so many numbers as there
 * are keys; with its last one it is emitted, with a one if it was counted as often as it came.
 */
final class ScheduledCounts extends KeyedProcessFunction<Long, Long, Tuple2<Long, Long>> {
    private static final long serialVersionUID = 1;
    /** One number in this many is looked at: asking the clock for each would be what is measured. */
    private static final int LOOKED_AT = 64;

    private final long keys;
    private final long records;
    private transient ValueState<Long> counts;
    private transient Trial trial;
    private transient int attempt;

    private ScheduledCounts(long keys, long records) {
        this.keys = keys;
        this.records = records;
    }

    /** The job. */
    static void add(StreamExecutionEnvironment env, long keys, long records) {
        env.fromSource(Numbers.scheduled(records), WatermarkStrategy.noWatermarks(), "numbers", Types.LONG)
                .keyBy(number -> Numbers.spread(number, keys), Types.LONG)
                .process(new ScheduledCounts(keys, records))
                .returns(Counts.ROW)
                .sinkTo(Counts.digests());
    }

    @Override
    public void open(OpenContext context) {
        counts = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        trial = Trial.running();
        attempt = getRuntimeContext().getTaskInfo().getAttemptNumber();
    }

    @Override
    public void processElement(Long number, Context context, Collector<Tuple2<Long, Long>> out) throws Exception {
        Long before = counts.value();
        long count = before == null ? 1 : before + 1;
        counts.update(count);
        if (number % LOOKED_AT == 0 && trial.meets(number, attempt)) {
            throw new IllegalStateException("this task is to fail");
        }
        if (number + keys >= records) {
            long right = count == number / keys + 1 ? 1 : 0;
            out.collect(Tuple2.of(context.getCurrentKey(), right));
        }
    }
}
