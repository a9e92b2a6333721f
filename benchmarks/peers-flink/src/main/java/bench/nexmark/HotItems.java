package bench.nexmark;

import bench.Count;
import bench.DigestSink;
import java.time.Duration;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * Query 5: the auctions with the most bids, window by window. Bids are counted once, in windows as long as the
 * slide, and those counts added up in the windows that overlap: Flink's sliding windows do to every record
 * what they do once for each window that it is in.
 */
final class HotItems {
    private static final Duration SIZE = Duration.ofSeconds(10);
    private static final Duration SLIDE = Duration.ofSeconds(2);
    private static final TypeInformation<Tuple2<Long, Long>> COUNT = Types.TUPLE(Types.LONG, Types.LONG);
    private static final TypeInformation<Tuple3<Long, Long, Long>> ROW =
            Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);

    private HotItems() {}

    static void add(DataStream<Event> events) {
        DataStream<Tuple2<Long, Long>> slides = events
                .filter(Event::isBid)
                .map(bid -> bid.number(Event.BID_AUCTION))
                .returns(Types.LONG)
                .keyBy(auction -> auction, Types.LONG)
                .window(TumblingEventTimeWindows.of(SLIDE))
                .aggregate(new Count<>(), new OfAuction(), Types.LONG, COUNT);
        DataStream<Tuple3<Long, Long, Long>> counts = slides
                .keyBy(count -> count.f0, Types.LONG)
                .window(SlidingEventTimeWindows.of(SIZE, SLIDE))
                .reduce(sum(), new InWindow(), ROW);
        counts.keyBy(row -> row.f0, Types.LONG)
                .window(TumblingEventTimeWindows.of(SLIDE))
                .aggregate(new Greatest<>(2), Types.LIST(ROW), Types.LIST(ROW))
                .<Tuple3<Long, Long, Long>>flatMap((best, out) -> best.forEach(out::collect))
                .returns(ROW)
                .sinkTo(new DigestSink<>((row, hash) -> {
                    hash.word(row.f0);
                    hash.word(row.f1);
                    hash.word(row.f2);
                }));
    }

    private static ReduceFunction<Tuple2<Long, Long>> sum() {
        return (a, b) -> Tuple2.of(a.f0, a.f1 + b.f1);
    }

    private static final class OfAuction implements WindowFunction<Long, Tuple2<Long, Long>, Long, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void apply(
                Long auction, TimeWindow window, Iterable<Long> count, Collector<Tuple2<Long, Long>> out) {
            out.collect(Tuple2.of(auction, count.iterator().next()));
        }
    }

    private static final class InWindow
            implements WindowFunction<Tuple2<Long, Long>, Tuple3<Long, Long, Long>, Long, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void apply(
                Long auction,
                TimeWindow window,
                Iterable<Tuple2<Long, Long>> count,
                Collector<Tuple3<Long, Long, Long>> out) {
            out.collect(Tuple3.of(window.getStart() * 1000, auction, count.iterator().next().f1));
        }
    }
}
