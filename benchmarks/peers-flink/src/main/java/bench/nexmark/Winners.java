package bench.nexmark;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.util.Collector;

/** The winning bid of every auction, given out when the auction closes. */
final class Winners {
    private Winners() {}

    /** What of an auction goes to the task that follows its bids. */
    public static final class Open {
        public long auction;
        public long seller;
        public long category;
        public long opened;
        public long expires;
        public long reserve;
    }

    /** A thing that was sold. */
    public static final class Winner {
        public long auction;
        public long seller;
        public long category;
        public long closed;
        public long price;
    }

    /** What is known of an auction: it may have bids, as prices and times, before it is known itself. */
    public static final class Known {
        public Open open;
        public boolean sold;
        public long price;
        public long time;
        public List<Long> early = new ArrayList<>();
    }

    static DataStream<Winner> of(DataStream<Event> events) {
        DataStream<Open> auctions = events
                .filter(event -> event.kind() == Event.AUCTION)
                .map(Winners::open)
                .returns(Open.class);
        DataStream<Tuple3<Long, Long, Long>> bids = events
                .filter(Event::isBid)
                .map(bid -> Tuple3.of(
                        bid.number(Event.BID_AUCTION), bid.number(Event.PRICE), bid.number(Event.BID_TIME)))
                .returns(Types.TUPLE(Types.LONG, Types.LONG, Types.LONG));
        return auctions.connect(bids)
                .keyBy(auction -> auction.auction, bid -> bid.f0, Types.LONG)
                .process(new Selling())
                .returns(Winner.class);
    }

    private static Open open(Event auction) {
        Open open = new Open();
        open.auction = auction.number(Event.ID);
        open.seller = auction.number(Event.SELLER);
        open.category = auction.number(Event.CATEGORY);
        open.opened = auction.number(Event.OPENED);
        open.expires = auction.number(Event.EXPIRES);
        open.reserve = auction.number(Event.RESERVE);
        return open;
    }

    private static final class Selling
            extends KeyedCoProcessFunction<Long, Open, Tuple3<Long, Long, Long>, Winner> {
        private static final long serialVersionUID = 1;

        private transient ValueState<Known> state;

        @Override
        public void open(OpenContext context) {
            TypeInformation<Known> type = TypeInformation.of(Known.class);
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("auction", type));
        }

        @Override
        public void processElement1(Open open, Context context, Collector<Winner> out) throws Exception {
            Known known = state.value();
            if (known == null) {
                known = new Known();
            }
            known.open = open;
            for (int at = 0; at < known.early.size(); at += 2) {
                offer(known, known.early.get(at), known.early.get(at + 1));
            }
            known.early.clear();
            state.update(known);
            // In milliseconds: when time has passed that one, all bids before the microsecond are there.
            context.timerService().registerEventTimeTimer(open.expires / 1000);
        }

        @Override
        public void processElement2(Tuple3<Long, Long, Long> bid, Context context, Collector<Winner> out)
                throws Exception {
            Known known = state.value();
            if (known != null && known.open != null) {
                offer(known, bid.f1, bid.f2);
            } else {
                // When time has passed the bid, either the auction is known, or this bid is for none that is open.
                if (known == null) {
                    known = new Known();
                }
                known.early.add(bid.f1);
                known.early.add(bid.f2);
                context.timerService().registerEventTimeTimer(context.timestamp());
            }
            state.update(known);
        }

        /** The highest price wins, of equal ones the earliest. */
        private static void offer(Known known, long price, long time) {
            Open open = known.open;
            if (time < open.opened || time >= open.expires || price < open.reserve) {
                return;
            }
            if (!known.sold || price > known.price || price == known.price && time < known.time) {
                known.sold = true;
                known.price = price;
                known.time = time;
            }
        }

        @Override
        public void onTimer(long timestamp, OnTimerContext context, Collector<Winner> out) throws Exception {
            Known known = state.value();
            if (known == null) {
                return;
            }
            Open open = known.open;
            if (open == null) {
                // Later bids stay: the auction may open between, and another source be ahead of its own.
                List<Long> early = new ArrayList<>();
                for (int at = 0; at < known.early.size(); at += 2) {
                    if (known.early.get(at + 1) / 1000 > timestamp) {
                        early.add(known.early.get(at));
                        early.add(known.early.get(at + 1));
                    }
                }
                known.early = early;
                if (early.isEmpty()) {
                    state.clear();
                } else {
                    state.update(known);
                }
                return;
            }
            if (timestamp < open.expires / 1000) {
                return;
            }
            if (known.sold) {
                Winner winner = new Winner();
                winner.auction = open.auction;
                winner.seller = open.seller;
                winner.category = open.category;
                winner.closed = open.expires;
                winner.price = known.price;
                out.collect(winner);
            }
            state.clear();
        }
    }
}
