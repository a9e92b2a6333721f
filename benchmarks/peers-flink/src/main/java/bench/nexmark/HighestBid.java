package bench.nexmark;

import bench.DigestSink;
import java.time.Duration;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/** Query 7: the bids with the highest price, window by window: the best of each part, then of those. */
final class HighestBid {
    private static final long MICROS = 10_000_000;
    private static final Duration SIZE = Duration.ofSeconds(10);
    /** Keys that a window over all records is cut into, so that more than one core works on it. */
    private static final long PARTS = 16;
    private static final TypeInformation<Tuple4<Long, Long, Long, Long>> BID =
            Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.LONG);
    private static final TypeInformation<List<Tuple4<Long, Long, Long, Long>>> BEST = Types.LIST(BID);

    private HighestBid() {}

    static void add(DataStream<Event> events) {
        events.filter(Event::isBid)
                .map(bid -> Tuple4.of(
                        bid.number(Event.BID_AUCTION),
                        bid.number(Event.BIDDER),
                        bid.number(Event.PRICE),
                        bid.number(Event.BID_TIME)))
                .returns(BID)
                .keyBy(bid -> bid.f3 % PARTS, Types.LONG)
                .window(TumblingEventTimeWindows.of(SIZE))
                .aggregate(new Greatest<>(2), BEST, BEST)
                .<Tuple4<Long, Long, Long, Long>>flatMap((best, out) -> best.forEach(out::collect))
                .returns(BID)
                .windowAll(TumblingEventTimeWindows.of(SIZE))
                .aggregate(new Greatest<>(2), BEST, BEST)
                .<Tuple4<Long, Long, Long, Long>>flatMap((best, out) -> best.forEach(out::collect))
                .returns(BID)
                .sinkTo(new DigestSink<>((bid, hash) -> {
                    hash.word(bid.f3 - bid.f3 % MICROS);
                    hash.word(bid.f0);
                    hash.word(bid.f1);
                    hash.word(bid.f2);
                    hash.word(bid.f3);
                }));
    }
}
