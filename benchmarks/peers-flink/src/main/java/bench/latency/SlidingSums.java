package bench.latency;

import java.util.Arrays;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Sums of keys in sliding windows. Flink's own sliding windows do to every reading what they do once for each window
 * that it is in, here a hundred of them, for which a million readings a second are too many: each task sums up its
 * readings by key and slide before they are sent, and a process function adds a slide to its key's window and takes
 * out the one that has left it.
 */
final class SlidingSums {
    /** A slide's start in milliseconds, a key, a sum. */
    private static final TypeInformation<Tuple3<Long, Integer, Long>> ROW =
            Types.TUPLE(Types.LONG, Types.INT, Types.LONG);

    /** How long a batch may wait for more, in milliseconds: the shortest time that is not a batch for each record. */
    private static final long FLUSH = 1;

    private SlidingSums() {}

    static void add(StreamExecutionEnvironment env, Load load) {
        // Watermarks follow readings, not a clock.
        env.getConfig().setAutoWatermarkInterval(0);
        env.setBufferTimeout(FLUSH);
        env.fromSource(
                        new PacedSource(load),
                        WatermarkStrategy.forGenerator(context -> new EachMilli()),
                        "readings",
                        TypeInformation.of(Reading.class))
                .flatMap(new OwnSums(load))
                .returns(ROW)
                .keyBy(sum -> sum.f1, Types.INT)
                .process(new Windows(load))
                .returns(ROW)
                .sinkTo(new LatencySink(load));
    }

    /** A watermark as soon as a reading of a later millisecond comes. */
    private static final class EachMilli implements WatermarkGenerator<Reading> {
        private long latest = Long.MIN_VALUE;

        @Override
        public void onEvent(Reading reading, long millis, WatermarkOutput output) {
            if (millis > latest) {
                latest = millis;
                output.emitWatermark(new Watermark(millis - 1));
            }
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }

    /** The sums of a task's readings by key, sent with the first reading of the next slide: before its watermark. */
    private static final class OwnSums extends RichFlatMapFunction<Reading, Tuple3<Long, Integer, Long>> {
        private static final long serialVersionUID = 1;
        private static final long NONE = -1;

        private final Load load;
        private transient long[] sums;
        private transient long now;

        OwnSums(Load load) {
            this.load = load;
        }

        @Override
        public void open(OpenContext context) {
            sums = new long[load.keys()];
            Arrays.fill(sums, NONE);
            now = 0;
        }

        @Override
        public void flatMap(Reading reading, Collector<Tuple3<Long, Integer, Long>> out) {
            long slide = reading.millis - reading.millis % load.slide();
            if (slide > now) {
                send(out);
                now = slide;
            }
            sums[reading.key] = Math.max(sums[reading.key], 0) + reading.value;
        }

        private void send(Collector<Tuple3<Long, Integer, Long>> out) {
            for (int key = 0; key < sums.length; key++) {
                if (sums[key] != NONE) {
                    out.collect(Tuple3.of(now, key, sums[key]));
                    sums[key] = NONE;
                }
            }
        }
    }

    /** The sums of a key in each window, which slides go into and out of. */
    private static final class Windows
            extends KeyedProcessFunction<Integer, Tuple3<Long, Integer, Long>, Tuple3<Long, Integer, Long>> {
        private static final long serialVersionUID = 1;

        private final Load load;
        /** By a slide's start. */
        private transient MapState<Long, Long> slides;
        /** The sum of those that are in the window, and how many they are. */
        private transient ValueState<Tuple2<Long, Integer>> within;

        Windows(Load load) {
            this.load = load;
        }

        @Override
        public void open(OpenContext context) {
            slides = getRuntimeContext().getMapState(new MapStateDescriptor<>("slides", Types.LONG, Types.LONG));
            within = getRuntimeContext()
                    .getState(new ValueStateDescriptor<>("within", Types.TUPLE(Types.LONG, Types.INT)));
        }

        @Override
        public void processElement(
                Tuple3<Long, Integer, Long> sum, Context context, Collector<Tuple3<Long, Integer, Long>> out)
                throws Exception {
            Long known = slides.get(sum.f0);
            slides.put(sum.f0, known == null ? sum.f2 : known + sum.f2);
            context.timerService().registerEventTimeTimer(sum.f0 + load.slide() - 1);
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<Tuple3<Long, Integer, Long>> out)
                throws Exception {
            long end = time + 1;
            Tuple2<Long, Integer> window = within.value();
            if (window == null) {
                window = Tuple2.of(0L, 0);
            }
            Long arrived = slides.get(end - load.slide());
            if (arrived != null) {
                window = Tuple2.of(window.f0 + arrived, window.f1 + 1);
            }
            long leaving = end - load.slide() - load.size();
            Long left = slides.get(leaving);
            if (left != null) {
                slides.remove(leaving);
                window = Tuple2.of(window.f0 - left, window.f1 - 1);
            }
            if (window.f1 == 0) {
                within.clear();
                return;
            }
            within.update(window);
            out.collect(Tuple3.of(end - load.size(), context.getCurrentKey(), window.f0));
            context.timerService().registerEventTimeTimer(time + load.slide());
        }
    }
}
