package bench.sql;

import bench.ysb.Campaigns;
import bench.ysb.YsbQueries;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** The Yahoo benchmark and the count of all events as SQL has them. */
public final class YsbSql {
    private static final String TUMBLED = "TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)";

    private YsbSql() {}

    /** Views by campaign and window. */
    public static void ysb(StreamExecutionEnvironment env, Campaigns campaigns) {
        Tables tables = new Tables(env);
        tables.create("events", YsbQueries.rows(env));
        tables.define("campaigns", campaigns.values());
        tables.digest("""
                SELECT e.window_start, c.campaign, COUNT(*) FROM %s e JOIN campaigns c ON e.ad = c.ad
                WHERE e.event_type = 0 GROUP BY e.window_start, e.window_end, c.campaign""".formatted(TUMBLED));
    }

    /** Events by window. */
    public static void swa(StreamExecutionEnvironment env) {
        Tables tables = new Tables(env);
        tables.create("events", YsbQueries.rows(env));
        tables.digest("SELECT window_start, COUNT(*) FROM %s GROUP BY window_start, window_end".formatted(TUMBLED));
    }
}
