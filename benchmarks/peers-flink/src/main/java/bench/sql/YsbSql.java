package bench.sql;

import bench.ysb.Campaigns;
import bench.ysb.YsbQueries;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** The Yahoo benchmark and the count of all events as SQL has them. */
public final class YsbSql {
    private static final String TUMBLED = "TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)";

    private YsbSql() {}

    /** Events of one type by campaign and window. */
    private static final String COUNTS = """
            SELECT e.window_start, c.campaign, COUNT(*) AS n FROM %s e JOIN campaigns c ON e.ad = c.ad
            WHERE e.event_type = %d GROUP BY e.window_start, e.window_end, c.campaign""";

    /** Views by campaign and window. */
    public static void ysb(StreamExecutionEnvironment env, Campaigns campaigns) {
        tables(env, campaigns).digest("SELECT window_start, campaign, n FROM seen");
    }

    /** Clicks and views by campaign and window, joined. */
    public static void star(StreamExecutionEnvironment env, Campaigns campaigns) {
        tables(env, campaigns).digest("""
                SELECT c.window_start, c.campaign, c.n, v.n FROM followed c
                JOIN seen v ON c.window_start = v.window_start AND c.campaign = v.campaign""");
    }

    private static Tables tables(StreamExecutionEnvironment env, Campaigns campaigns) {
        Tables tables = new Tables(env);
        tables.create("events", YsbQueries.rows(env));
        tables.createPlain("campaigns", campaigns.rows(env));
        tables.define("seen", COUNTS.formatted(TUMBLED, 0));
        tables.define("followed", COUNTS.formatted(TUMBLED, 1));
        return tables;
    }

    /** Events by window. */
    public static void swa(StreamExecutionEnvironment env) {
        Tables tables = new Tables(env);
        tables.create("events", YsbQueries.rows(env));
        tables.digest("SELECT window_start, COUNT(*) FROM %s GROUP BY window_start, window_end".formatted(TUMBLED));
    }
}
