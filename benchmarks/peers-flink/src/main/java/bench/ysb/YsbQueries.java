package bench.ysb;

import bench.Count;
import bench.DigestSink;
import bench.SegmentSource;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.JoinFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.AllWindowFunction;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/** The Yahoo benchmark and AIR's queries on it: meanings are in {@code thalweg_workloads::ysb::oracle}. */
public final class YsbQueries {
    private static final Duration SIZE = Duration.ofSeconds(10);
    /** Keys that a window over all records is cut into, so that more than one core works on it. */
    private static final int PARTS = 16;
    /** A window's start, a campaign, a count. */
    private static final TypeInformation<Tuple3<Long, Integer, Long>> ROW =
            Types.TUPLE(Types.LONG, Types.INT, Types.LONG);

    private YsbQueries() {}

    /** Views by campaign and window. */
    public static void ysb(StreamExecutionEnvironment env, Campaigns campaigns) {
        count(events(env), YsbEvent.VIEW, campaigns).sinkTo(new DigestSink<>((row, hash) -> {
            hash.word(row.f0);
            hash.word(row.f1);
            hash.word(row.f2);
        }));
    }

    /** Clicks and views by campaign and window, counted apart and joined. */
    public static void star(StreamExecutionEnvironment env, Campaigns campaigns) {
        DataStream<YsbEvent> events = events(env);
        DataStream<Tuple3<Long, Integer, Long>> clicks = count(events, YsbEvent.CLICK, campaigns);
        DataStream<Tuple3<Long, Integer, Long>> views = count(events, YsbEvent.VIEW, campaigns);
        // A count has the last timestamp of its window.
        clicks.join(views)
                .where(row -> row.f1, Types.INT)
                .equalTo(row -> row.f1, Types.INT)
                .window(TumblingEventTimeWindows.of(SIZE))
                .apply(both(), Types.TUPLE(Types.LONG, Types.INT, Types.LONG, Types.LONG))
                .sinkTo(new DigestSink<>((row, hash) -> {
                    hash.word(row.f0);
                    hash.word(row.f1);
                    hash.word(row.f2);
                    hash.word(row.f3);
                }));
    }

    private static JoinFunction<
                    Tuple3<Long, Integer, Long>, Tuple3<Long, Integer, Long>, Tuple4<Long, Integer, Long, Long>>
            both() {
        return (clicks, views) -> Tuple4.of(clicks.f0, clicks.f1, clicks.f2, views.f2);
    }

    /** Events by window: counted in parts, and those counts added up. */
    public static void swa(StreamExecutionEnvironment env) {
        events(env)
                .map(event -> (int) (event.time() % PARTS))
                .returns(Types.INT)
                .keyBy(part -> part, Types.INT)
                .window(TumblingEventTimeWindows.of(SIZE))
                .aggregate(new Count<>())
                .windowAll(TumblingEventTimeWindows.of(SIZE))
                .reduce(Long::sum, new Whole(), Types.TUPLE(Types.LONG, Types.LONG))
                .sinkTo(new DigestSink<>((row, hash) -> {
                    hash.word(row.f0);
                    hash.word(row.f1);
                }));
    }

    /** What queries need of events, as rows for SQL. */
    public static DataStream<Row> rows(StreamExecutionEnvironment env) {
        return events(env)
                .map(event -> Row.of(event.ad().toString(), event.type(), event.time()))
                .returns(Types.ROW_NAMED(
                        new String[] {"ad", "event_type", "date_time"}, Types.STRING, Types.INT, Types.LONG));
    }

    private static DataStream<YsbEvent> events(StreamExecutionEnvironment env) {
        // What follows the source is chained to it, so that no event is ever serialised.
        return env.fromSource(
                new SegmentSource<>(new YsbEvent.Finder()),
                WatermarkStrategy.forMonotonousTimestamps(),
                "events",
                TypeInformation.of(YsbEvent.class));
    }

    /** Events of one type by campaign and window. */
    private static DataStream<Tuple3<Long, Integer, Long>> count(
            DataStream<YsbEvent> events, int type, Campaigns campaigns) {
        return events.<Integer>flatMap((event, out) -> {
                    Integer campaign = event.type() == type ? campaigns.of(event.ad()) : null;
                    if (campaign != null) {
                        out.collect(campaign);
                    }
                })
                .returns(Types.INT)
                .keyBy(campaign -> campaign, Types.INT)
                .window(TumblingEventTimeWindows.of(SIZE))
                .aggregate(new Count<>(), new OfCampaign(), Types.LONG, ROW);
    }

    private static final class OfCampaign
            implements WindowFunction<Long, Tuple3<Long, Integer, Long>, Integer, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void apply(
                Integer campaign,
                TimeWindow window,
                Iterable<Long> count,
                Collector<Tuple3<Long, Integer, Long>> out) {
            out.collect(Tuple3.of(window.getStart() * 1000, campaign, count.iterator().next()));
        }
    }

    private static final class Whole implements AllWindowFunction<Long, Tuple2<Long, Long>, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void apply(TimeWindow window, Iterable<Long> count, Collector<Tuple2<Long, Long>> out) {
            out.collect(Tuple2.of(window.getStart() * 1000, count.iterator().next()));
        }
    }
}
