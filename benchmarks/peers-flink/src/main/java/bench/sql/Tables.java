package bench.sql;

import bench.Digest;
import bench.DigestSink;
import bench.RowHash;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/**
 * A job in Flink SQL, run as a batch: every query then has one answer, also those whose results a stream would
 * correct for ever. The answer is what matters here, and not its speed.
 */
final class Tables {
    private final StreamTableEnvironment tables;

    Tables(StreamExecutionEnvironment env) {
        env.setRuntimeMode(RuntimeExecutionMode.BATCH);
        tables = StreamTableEnvironment.create(env);
        tables.getConfig().setLocalTimeZone(ZoneOffset.UTC);
        // Joins that are chosen while the job runs need another way to submit it.
        tables.getConfig().set("table.optimizer.adaptive-broadcast-join.strategy", "none");
        tables.getConfig().set("table.optimizer.skewed-join-optimization.strategy", "none");
    }

    /** A table of rows whose {@code date_time} is in microseconds: {@code ts} is the same for SQL's windows. */
    void create(String name, DataStream<Row> rows) {
        Schema schema = Schema.newBuilder()
                .columnByExpression("ts", "CAST(TO_TIMESTAMP_LTZ(date_time / 1000, 3) AS TIMESTAMP(3))")
                .build();
        tables.createTemporaryView(name, rows, schema);
    }

    /** A table of rows without a time. */
    void createPlain(String name, DataStream<Row> rows) {
        tables.createTemporaryView(name, rows);
    }

    /** A name for a query, to be used in others. */
    void define(String name, String query) {
        tables.createTemporaryView(name, tables.sqlQuery(query));
    }

    /** The rows of a query, digested as the oracle's are: numbers, times as microseconds, texts. */
    void digest(String query) {
        tables.toDataStream(tables.sqlQuery(query)).sinkTo(new DigestSink<>(fields()));
    }

    private static Digest.Fields<Row> fields() {
        return (row, hash) -> {
            for (int place = 0; place < row.getArity(); place++) {
                feed(row.getField(place), hash);
            }
        };
    }

    private static void feed(Object field, RowHash hash) {
        if (field instanceof Number number) {
            hash.word(number.longValue());
        } else if (field instanceof LocalDateTime time) {
            hash.word(ChronoUnit.MICROS.between(LocalDateTime.ofEpochSecond(0, 0, ZoneOffset.UTC), time));
        } else {
            hash.text((String) field);
        }
    }
}
