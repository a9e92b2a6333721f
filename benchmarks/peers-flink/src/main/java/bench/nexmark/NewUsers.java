package bench.nexmark;

import bench.DigestSink;
import java.time.Duration;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * Query 8: persons that sold in the window in which they registered. One stream of both sides, reduced as it
 * comes: a window join would keep every auction and give a row for each.
 */
final class NewUsers {
    private static final Duration SIZE = Duration.ofSeconds(10);
    /** A person, their name or nothing, and whether they sold; as a row, the window's start at first. */
    private static final TypeInformation<Tuple3<Long, String, Boolean>> SIDE =
            Types.TUPLE(Types.LONG, Types.STRING, Types.BOOLEAN);
    private static final TypeInformation<Tuple3<Long, Long, String>> ROW =
            Types.TUPLE(Types.LONG, Types.LONG, Types.STRING);

    private NewUsers() {}

    static void add(DataStream<Event> events) {
        events.flatMap(sides())
                .returns(SIDE)
                .keyBy(side -> side.f0, Types.LONG)
                .window(TumblingEventTimeWindows.of(SIZE))
                .reduce(both(), new Sellers(), ROW)
                .sinkTo(new DigestSink<>((row, hash) -> {
                    hash.word(row.f0);
                    hash.word(row.f1);
                    hash.text(row.f2);
                }));
    }

    private static FlatMapFunction<Event, Tuple3<Long, String, Boolean>> sides() {
        return (event, out) -> {
            if (event.kind() == Event.PERSON) {
                out.collect(Tuple3.of(event.number(Event.ID), event.text(Event.NAME).toString(), false));
            } else if (event.kind() == Event.AUCTION) {
                // Tuples take no null: a person's name is never empty.
                out.collect(Tuple3.of(event.number(Event.SELLER), "", true));
            }
        };
    }

    private static ReduceFunction<Tuple3<Long, String, Boolean>> both() {
        return (a, b) -> Tuple3.of(a.f0, a.f1.isEmpty() ? b.f1 : a.f1, a.f2 || b.f2);
    }

    private static final class Sellers
            implements WindowFunction<Tuple3<Long, String, Boolean>, Tuple3<Long, Long, String>, Long, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void apply(
                Long person,
                TimeWindow window,
                Iterable<Tuple3<Long, String, Boolean>> sides,
                Collector<Tuple3<Long, Long, String>> out) {
            Tuple3<Long, String, Boolean> found = sides.iterator().next();
            if (found.f2 && !found.f1.isEmpty()) {
                out.collect(Tuple3.of(window.getStart() * 1000, person, found.f1));
            }
        }
    }
}
