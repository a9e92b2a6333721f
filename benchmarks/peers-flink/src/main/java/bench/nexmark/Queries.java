package bench.nexmark;

import bench.DigestSink;
import bench.SegmentSource;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** The queries of Nexmark, whose meaning is said in {@code thalweg_workloads::nexmark::oracle}. */
public final class Queries {
    private Queries() {}

    /** Adds a query and the sink of its rows. */
    public static void add(int query, StreamExecutionEnvironment env) {
        switch (query) {
            case 0 -> events(env, WatermarkStrategy.noWatermarks()).sinkTo(new DigestSink<>(Event::feed));
            case 1 -> Bids.inEuros(events(env, WatermarkStrategy.noWatermarks()));
            case 2 -> Bids.ofSomeAuctions(events(env, WatermarkStrategy.noWatermarks()));
            case 3 -> Nearby.add(events(env, WatermarkStrategy.noWatermarks()));
            case 4 -> Averages.byCategory(Winners.of(timed(env)));
            case 5 -> HotItems.add(timed(env));
            case 6 -> Averages.bySeller(Winners.of(timed(env)));
            case 7 -> HighestBid.add(timed(env));
            case 8 -> NewUsers.add(timed(env));
            default -> throw new IllegalArgumentException("there is no query " + query + " here");
        }
    }

    private static DataStream<Event> timed(StreamExecutionEnvironment env) {
        return events(env, WatermarkStrategy.forMonotonousTimestamps());
    }

    static DataStream<Event> events(StreamExecutionEnvironment env, WatermarkStrategy<Event> watermarks) {
        // What follows the source is chained to it, so that no event is ever serialised.
        TypeInformation<Event> type = TypeInformation.of(Event.class);
        return env.fromSource(new SegmentSource<>(new Event.Finder()), watermarks, "events", type);
    }
}
