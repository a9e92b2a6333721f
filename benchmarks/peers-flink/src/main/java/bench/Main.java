package bench;

import bench.latency.WindowLatency;
import bench.nexmark.Event;
import bench.nexmark.Queries;
import bench.sql.NexmarkSql;
import bench.sql.YsbSql;
import bench.state.Checkpoint;
import bench.state.CheckpointLatency;
import bench.state.Recovery;
import bench.state.Spill;
import bench.ysb.Campaigns;
import bench.ysb.YsbEvent;
import bench.ysb.YsbQueries;
import java.nio.file.Path;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * The benchmarks on Apache Flink. Cases: {@code nexmark}, {@code ysb}, {@code ysb-star}, {@code swa}, and each
 * with {@code -sql} after its name; {@code window-latency}; {@code spill-count},
 * {@code spill-windows}, {@code checkpoint}, {@code checkpoint-latency}, {@code recovery}.
 */
public final class Main {
    private Main() {}

    /** See {@code benchmarks/protocol}. */
    public static void main(String[] words) {
        try {
            serve(new Request(words));
            // Flink leaves threads behind that would keep the process.
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void serve(Request request) throws Exception {
        switch (request.name()) {
            case "nexmark" -> nexmark(request, Queries::add);
            case "nexmark-sql" -> nexmark(request, NexmarkSql::add);
            case "ysb" -> ysb(request, YsbQueries::ysb);
            case "ysb-sql" -> ysb(request, YsbSql::ysb);
            case "ysb-star" -> ysb(request, YsbQueries::star);
            case "ysb-star-sql" -> ysb(request, YsbSql::star);
            case "swa" -> serve(request, YsbEvent.MAGIC, YsbQueries::swa);
            case "window-latency" -> WindowLatency.serve(request, cores(request));
            case "spill-count" -> Spill.count(request, cores(request));
            case "spill-windows" -> Spill.windows(request, cores(request));
            case "checkpoint" -> Checkpoint.serve(request, cores(request));
            case "checkpoint-latency" -> CheckpointLatency.serve(request, cores(request));
            case "recovery" -> Recovery.serve(request, cores(request));
            case "swa-sql" -> serve(request, YsbEvent.MAGIC, YsbSql::swa);
            default -> throw new IllegalArgumentException("this program has no case " + request.name());
        }
    }

    private static void nexmark(Request request, BiConsumer<Integer, StreamExecutionEnvironment> add)
            throws Exception {
        int query = request.number("query");
        serve(request, Event.MAGIC, env -> add.accept(query, env));
    }

    private static void ysb(Request request, BiConsumer<StreamExecutionEnvironment, Campaigns> add)
            throws Exception {
        Campaigns campaigns = Campaigns.load(Path.of(request.value("table")));
        serve(request, YsbEvent.MAGIC, env -> add.accept(env, campaigns));
    }

    /** Each round is a job that is planned, submitted and run to its end. */
    private static void serve(Request request, String magic, Consumer<StreamExecutionEnvironment> add)
            throws Exception {
        Segments segments = Segments.load(Path.of(request.value("data")), magic);
        int cores = cores(request);
        try (Cluster cluster = new Cluster(cores)) {
            Serve.rounds(request, () -> {
                StreamExecutionEnvironment env = Cluster.environment(cores);
                add.accept(env);
                cluster.run(env);
                return new Serve.Answer(DigestSink.take(), segments.count(), segments.size(), "");
            });
        }
    }

    private static int cores(Request request) {
        return request.has("cores") ? request.number("cores") : Runtime.getRuntime().availableProcessors();
    }
}
