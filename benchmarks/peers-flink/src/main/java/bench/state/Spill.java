package bench.state;

import bench.Cluster;
import bench.Count;
import bench.DigestSink;
import bench.Request;
import bench.Serve;
import java.time.Duration;
import java.util.function.Consumer;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** State that exceeds the memory for it, or has enough: {@code --distinct}, {@code --records}, and where it is. */
public final class Spill {
    /** A window's start, a key, a count. */
    private static final TypeInformation<Tuple3<Long, Long, Long>> ROW =
            Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);

    private Spill() {}

    /** Counts of keys in no order. */
    public static void count(Request request, int cores) throws Exception {
        long distinct = request.longNumber("distinct");
        long records = request.longNumber("records");
        serve(request, cores, env -> Counts.add(env, distinct, records));
    }

    /** The same in windows that begin each {@code --distinct} records and are {@code --overlap} times as long. */
    public static void windows(Request request, int cores) throws Exception {
        long distinct = request.longNumber("distinct");
        long records = request.longNumber("records");
        Duration slide = Duration.ofMillis(distinct);
        Duration size = slide.multipliedBy(request.longNumber("overlap"));
        serve(request, cores, env -> env.fromSource(
                        Numbers.timed(records, number -> Numbers.spread(number, distinct)),
                        WatermarkStrategy.forMonotonousTimestamps(),
                        "keys",
                        Types.LONG)
                .keyBy(key -> key, Types.LONG)
                .window(SlidingEventTimeWindows.of(size, slide))
                .aggregate(new Count<>(), new OfKey(), Types.LONG, ROW)
                .sinkTo(new DigestSink<>((row, hash) -> {
                    hash.word(row.f0);
                    hash.word(row.f1);
                    hash.word(row.f2);
                })));
    }

    private static void serve(Request request, int cores, Consumer<StreamExecutionEnvironment> add)
            throws Exception {
        Configuration settings = Backend.of(request, cores);
        long records = request.longNumber("records");
        try (Cluster cluster = new Cluster(cores, settings)) {
            Serve.rounds(request, () -> {
                StreamExecutionEnvironment env = Cluster.environment(cores, settings);
                add.accept(env);
                cluster.run(env);
                return new Serve.Answer(DigestSink.take(), records, Long.BYTES * records, "");
            });
        }
    }

    private static final class OfKey
            implements WindowFunction<Long, Tuple3<Long, Long, Long>, Long, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void apply(
                Long key, TimeWindow window, Iterable<Long> count, Collector<Tuple3<Long, Long, Long>> out) {
            out.collect(Tuple3.of(window.getStart() * 1000, key, count.iterator().next()));
        }
    }
}
