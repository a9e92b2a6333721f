package bench.nexmark;

import bench.DigestSink;
import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.util.Collector;

/** Query 3: who sells in a category and lives nearby, whichever comes first. */
final class Nearby {
    private static final long CATEGORY = 10;
    private static final byte[][] STATES = {ascii("OR"), ascii("ID"), ascii("CA")};
    private static final TypeInformation<Tuple4<Long, String, String, String>> PERSON =
            Types.TUPLE(Types.LONG, Types.STRING, Types.STRING, Types.STRING);

    private Nearby() {}

    static void add(DataStream<Event> events) {
        DataStream<Tuple4<Long, String, String, String>> persons = events
                .filter(event -> event.kind() == Event.PERSON && near(event.text(Event.STATE)))
                .map(person -> Tuple4.of(
                        person.number(Event.ID),
                        person.text(Event.NAME).toString(),
                        person.text(Event.CITY).toString(),
                        person.text(Event.STATE).toString()))
                .returns(PERSON);
        DataStream<Tuple2<Long, Long>> auctions = events
                .filter(event -> event.kind() == Event.AUCTION && event.number(Event.CATEGORY) == CATEGORY)
                .map(auction -> Tuple2.of(auction.number(Event.SELLER), auction.number(Event.ID)))
                .returns(Types.TUPLE(Types.LONG, Types.LONG));
        persons.connect(auctions)
                .keyBy(person -> person.f0, auction -> auction.f0, Types.LONG)
                .process(new Join())
                .returns(PERSON)
                .sinkTo(new DigestSink<>((row, hash) -> {
                    hash.text(row.f1);
                    hash.text(row.f2);
                    hash.text(row.f3);
                    hash.word(row.f0);
                }));
    }

    private static boolean near(Text state) {
        for (byte[] one : STATES) {
            if (state.equalTo(one)) {
                return true;
            }
        }
        return false;
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /** Keeps the person, and the auctions that came before. Gives the auction, then name, city and state. */
    private static final class Join
            extends KeyedCoProcessFunction<
                    Long,
                    Tuple4<Long, String, String, String>,
                    Tuple2<Long, Long>,
                    Tuple4<Long, String, String, String>> {
        private static final long serialVersionUID = 1;

        private transient ValueState<Tuple4<Long, String, String, String>> seller;
        private transient ListState<Long> waiting;

        @Override
        public void open(OpenContext context) {
            seller = getRuntimeContext().getState(new ValueStateDescriptor<>("seller", PERSON));
            waiting = getRuntimeContext().getListState(new ListStateDescriptor<>("waiting", Types.LONG));
        }

        @Override
        public void processElement1(
                Tuple4<Long, String, String, String> person,
                Context context,
                Collector<Tuple4<Long, String, String, String>> out)
                throws Exception {
            seller.update(person);
            for (Long auction : waiting.get()) {
                out.collect(Tuple4.of(auction, person.f1, person.f2, person.f3));
            }
            waiting.clear();
        }

        @Override
        public void processElement2(
                Tuple2<Long, Long> auction, Context context, Collector<Tuple4<Long, String, String, String>> out)
                throws Exception {
            Tuple4<Long, String, String, String> person = seller.value();
            if (person == null) {
                waiting.add(auction.f1);
            } else {
                out.collect(Tuple4.of(auction.f1, person.f1, person.f2, person.f3));
            }
        }
    }
}
