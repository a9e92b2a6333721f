package bench.sql;

import bench.nexmark.Rows;
import java.util.List;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Nexmark as SQL has it: each query is that of {@code thalweg_workloads::nexmark::oracle}'s documentation, in
 * Flink's dialect. None of them shares anything with the answers computed there.
 */
public final class NexmarkSql {
    /**
     * The winning bids. A bid counts from the auction's opening, before it expires, and if it is not below the
     * reserve.
     */
    private static final String WINNERS = """
            SELECT a.id AS auction, a.seller, a.category, a.expires AS closed, MAX(b.price) AS price
            FROM auction a JOIN bid b ON a.id = b.auction
            WHERE b.date_time >= a.date_time AND b.date_time < a.expires AND b.price >= a.reserve
            GROUP BY a.id, a.seller, a.category, a.expires""";

    private static final String COUNTS = """
            SELECT window_start, auction, COUNT(*) AS bids
            FROM HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)
            GROUP BY window_start, window_end, auction""";

    private static final String TUMBLED = "SELECT * FROM TUMBLE(TABLE %s, DESCRIPTOR(ts), INTERVAL '10' SECOND)";

    private NexmarkSql() {}

    /** What a query reads: a table that it does not name would be read for nothing. */
    private static List<Rows> rows(int query) {
        return switch (query) {
            case 0 -> List.of(Rows.PERSON, Rows.AUCTION, Rows.BID);
            case 3, 8 -> List.of(Rows.PERSON, Rows.AUCTION);
            case 4, 6 -> List.of(Rows.AUCTION, Rows.BID);
            default -> List.of(Rows.BID);
        };
    }

    /** Adds a query and the sink of its rows. */
    public static void add(int query, StreamExecutionEnvironment env) {
        Tables tables = new Tables(env);
        for (Rows rows : rows(query)) {
            tables.create(rows.table(), rows.of(env));
        }
        switch (query) {
            case 0 -> {
                tables.digest("SELECT 0, id, date_time, name, email, credit_card, city, state, extra FROM person");
                tables.digest("""
                        SELECT 1, id, seller, category, initial_bid, reserve, date_time, expires,
                            item_name, description, extra FROM auction""");
                tables.digest("SELECT 2, auction, bidder, price, date_time, channel, url, extra FROM bid");
            }
            case 1 -> tables.digest("""
                    SELECT 2, auction, bidder, 908 * price / 1000, date_time, channel, url, extra FROM bid""");
            case 2 -> tables.digest("SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0");
            case 3 -> tables.digest("""
                    SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
                    WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""");
            case 4 -> {
                tables.define("winners", WINNERS);
                tables.digest("SELECT category, AVG(price) FROM winners GROUP BY category");
            }
            case 5 -> {
                tables.define("counts", COUNTS);
                tables.digest("""
                        SELECT c.window_start, c.auction, c.bids FROM counts c
                        JOIN (SELECT window_start, MAX(bids) AS most FROM counts GROUP BY window_start) m
                        ON c.window_start = m.window_start AND c.bids = m.most""");
            }
            case 6 -> {
                tables.define("winners", WINNERS);
                tables.digest("""
                        SELECT seller, auction, closed, AVG(price) OVER
                            (PARTITION BY seller ORDER BY closed, auction ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
                        FROM winners""");
            }
            case 7 -> {
                tables.define("tumbled", TUMBLED.formatted("bid"));
                tables.digest("""
                        SELECT b.window_start, b.auction, b.bidder, b.price, b.date_time FROM tumbled b
                        JOIN (SELECT window_start, MAX(price) AS most FROM tumbled GROUP BY window_start) m
                        ON b.window_start = m.window_start AND b.price = m.most""");
            }
            case 8 -> {
                tables.define("registered", TUMBLED.formatted("person"));
                tables.define("opened", TUMBLED.formatted("auction"));
                tables.digest("""
                        SELECT DISTINCT p.window_start, p.id, p.name FROM registered p
                        JOIN opened a ON p.id = a.seller AND p.window_start = a.window_start""");
            }
            default -> throw new IllegalArgumentException("there is no query " + query + " here");
        }
    }
}
