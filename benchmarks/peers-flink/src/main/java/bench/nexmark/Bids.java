package bench.nexmark;

import bench.DigestSink;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.datastream.DataStream;

/** Queries 1 and 2: bids one by one. */
final class Bids {
    private static final long SKIP = 123;

    private Bids() {}

    /** Every bid, its price in euros: all other fields stay where they are. */
    static void inEuros(DataStream<Event> events) {
        events.filter(Event::isBid).sinkTo(new DigestSink<>((bid, hash) -> {
            long price = bid.number(Event.PRICE);
            bid.feed(hash, Event.PRICE, price / 1000 * 908 + price % 1000 * 908 / 1000);
        }));
    }

    /** The bids for every auction whose identifier is a multiple. */
    static void ofSomeAuctions(DataStream<Event> events) {
        events.filter(event -> event.isBid() && event.number(Event.BID_AUCTION) % SKIP == 0)
                .map(bid -> Tuple2.of(bid.number(Event.BID_AUCTION), bid.number(Event.PRICE)))
                .returns(Types.TUPLE(Types.LONG, Types.LONG))
                .sinkTo(new DigestSink<>((row, hash) -> {
                    hash.word(row.f0);
                    hash.word(row.f1);
                }));
    }
}
