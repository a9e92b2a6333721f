package bench.nexmark;

import java.util.List;
import java.util.Locale;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;

/** Events of one kind as rows, for SQL: first the numbers, then the texts, as they are encoded. */
public enum Rows {
    PERSON(
            List.of("id", "date_time"),
            List.of("name", "email", "credit_card", "city", "state", "extra")),
    AUCTION(
            List.of("id", "seller", "category", "initial_bid", "reserve", "date_time", "expires"),
            List.of("item_name", "description", "extra")),
    BID(List.of("auction", "bidder", "price", "date_time"), List.of("channel", "url", "extra"));

    private final List<String> numbers;
    private final List<String> texts;

    Rows(List<String> numbers, List<String> texts) {
        this.numbers = numbers;
        this.texts = texts;
    }

    /** The name of their table. */
    public String table() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** The rows of all events of this kind. */
    public DataStream<Row> of(StreamExecutionEnvironment env) {
        int kind = ordinal();
        int width = numbers.size();
        int all = width + texts.size();
        return Queries.events(env, WatermarkStrategy.noWatermarks())
                .filter(event -> event.kind() == kind)
                .map(event -> {
                    Row row = new Row(all);
                    for (int place = 0; place < all; place++) {
                        boolean number = place < width;
                        row.setField(place, number ? event.number(place) : event.text(place - width).toString());
                    }
                    return row;
                })
                .returns(type());
    }

    private TypeInformation<Row> type() {
        TypeInformation<?>[] types = new TypeInformation<?>[numbers.size() + texts.size()];
        String[] names = new String[types.length];
        for (int place = 0; place < types.length; place++) {
            boolean number = place < numbers.size();
            types[place] = number ? Types.LONG : Types.STRING;
            names[place] = number ? numbers.get(place) : texts.get(place - numbers.size());
        }
        return Types.ROW_NAMED(names, types);
    }
}
