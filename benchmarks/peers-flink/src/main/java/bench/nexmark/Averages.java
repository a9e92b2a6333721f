package bench.nexmark;

import bench.DigestSink;
import bench.nexmark.Winners.Winner;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.util.Collector;

/** Queries 4 and 6: averages of what winners pay. */
final class Averages {
    private Averages() {}

    /** The average final price of each category, over the whole stream. */
    static void byCategory(DataStream<Winner> winners) {
        winners.keyBy(winner -> winner.category, Types.LONG)
                .window(GlobalWindows.createWithEndOfStreamTrigger())
                .aggregate(
                        new Average(),
                        Types.TUPLE(Types.LONG, Types.LONG, Types.LONG),
                        Types.TUPLE(Types.LONG, Types.LONG))
                .sinkTo(new DigestSink<>((row, hash) -> {
                    hash.word(row.f0);
                    hash.word(row.f1);
                }));
    }

    /** The category, the sum of the prices, how many; then the category and the average. */
    private static final class Average
            implements AggregateFunction<Winner, Tuple3<Long, Long, Long>, Tuple2<Long, Long>> {
        private static final long serialVersionUID = 1;

        @Override
        public Tuple3<Long, Long, Long> createAccumulator() {
            return Tuple3.of(0L, 0L, 0L);
        }

        @Override
        public Tuple3<Long, Long, Long> add(Winner winner, Tuple3<Long, Long, Long> all) {
            all.f0 = winner.category;
            all.f1 += winner.price;
            all.f2++;
            return all;
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple3<Long, Long, Long> all) {
            return Tuple2.of(all.f0, all.f1 / all.f2);
        }

        @Override
        public Tuple3<Long, Long, Long> merge(Tuple3<Long, Long, Long> a, Tuple3<Long, Long, Long> b) {
            return Tuple3.of(a.f0, a.f1 + b.f1, a.f2 + b.f2);
        }
    }

    /** The average of each seller's last final prices, as of every auction that closes. */
    static void bySeller(DataStream<Winner> winners) {
        winners.keyBy(winner -> winner.seller, Types.LONG)
                .process(new LastPrices())
                .returns(Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.LONG))
                .sinkTo(new DigestSink<>((row, hash) -> {
                    hash.word(row.f0);
                    hash.word(row.f1);
                    hash.word(row.f2);
                    hash.word(row.f3);
                }));
    }

    /** The last prices, and the auctions that have closed while others may have closed before. */
    public static final class Known {
        public ArrayDeque<Long> last = new ArrayDeque<>();
        public List<Winner> closed = new ArrayList<>();
    }

    private static final class LastPrices
            extends KeyedProcessFunction<Long, Winner, Tuple4<Long, Long, Long, Long>> {
        private static final long serialVersionUID = 1;
        private static final int LAST = 10;
        private static final Comparator<Winner> ORDER =
                Comparator.<Winner>comparingLong(winner -> winner.closed).thenComparingLong(w -> w.auction);

        private transient ValueState<Known> state;

        @Override
        public void open(OpenContext context) {
            TypeInformation<Known> type = TypeInformation.of(Known.class);
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("seller", type));
        }

        @Override
        public void processElement(
                Winner winner, Context context, Collector<Tuple4<Long, Long, Long, Long>> out)
                throws Exception {
            Known known = state.value();
            if (known == null) {
                known = new Known();
            }
            known.closed.add(winner);
            state.update(known);
            context.timerService().registerEventTimeTimer(winner.closed / 1000);
        }

        @Override
        public void onTimer(
                long timestamp, OnTimerContext context, Collector<Tuple4<Long, Long, Long, Long>> out)
                throws Exception {
            Known known = state.value();
            known.closed.sort(ORDER);
            int settled = 0;
            while (settled < known.closed.size() && known.closed.get(settled).closed / 1000 <= timestamp) {
                Winner winner = known.closed.get(settled++);
                if (known.last.size() == LAST) {
                    known.last.removeFirst();
                }
                known.last.addLast(winner.price);
                long sum = 0;
                for (long price : known.last) {
                    sum += price;
                }
                long average = sum / known.last.size();
                out.collect(Tuple4.of(winner.seller, winner.auction, winner.closed, average));
            }
            known.closed.subList(0, settled).clear();
            state.update(known);
        }
    }
}
