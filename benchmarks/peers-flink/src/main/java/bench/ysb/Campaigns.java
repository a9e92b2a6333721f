package bench.ysb;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.UUID;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;

/** Which campaign each advertisement belongs to. */
public final class Campaigns implements Serializable {
    private static final long serialVersionUID = 1;

    private final HashMap<UUID, Integer> table = new HashMap<>();

    private Campaigns() {}

    /** Reads lines of an advertisement and its campaign. */
    public static Campaigns load(Path path) throws IOException {
        Campaigns campaigns = new Campaigns();
        for (String line : Files.readAllLines(path)) {
            String[] columns = line.split("\t");
            campaigns.table.put(UUID.fromString(columns[0]), Integer.valueOf(columns[1]));
        }
        return campaigns;
    }

    /** The table as rows for SQL. */
    public DataStream<Row> rows(StreamExecutionEnvironment env) {
        List<Row> rows = table.entrySet().stream()
                .map(entry -> Row.of(entry.getKey().toString(), entry.getValue()))
                .toList();
        return env.fromData(Types.ROW_NAMED(new String[] {"ad", "campaign"}, Types.STRING, Types.INT),
                rows.toArray(new Row[0]));
    }

    /** The campaign, or null. */
    Integer of(UUID ad) {
        return table.get(ad);
    }
}
