package bench.ysb;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.UUID;
import java.util.stream.Collectors;

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

    /** The table as SQL writes it, of columns {@code ad} and {@code campaign}. */
    public String values() {
        String rows = table.entrySet().stream()
                .map(entry -> "('%s', %d)".formatted(entry.getKey(), entry.getValue()))
                .collect(Collectors.joining(", "));
        return "SELECT * FROM (VALUES " + rows + ") AS t (ad, campaign)";
    }

    /** The campaign, or null. */
    Integer of(UUID ad) {
        return table.get(ad);
    }
}
