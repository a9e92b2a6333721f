package bench;

import bench.nexmark.Event;
import bench.nexmark.Queries;
import bench.sql.NexmarkSql;
import bench.sql.YsbSql;
import bench.ysb.Campaigns;
import bench.ysb.YsbEvent;
import bench.ysb.YsbQueries;
import java.nio.file.Path;
import java.util.function.Consumer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * The benchmarks on Apache Flink. Cases: {@code nexmark}, {@code ysb}, {@code swa}; and each with {@code -sql}
 * after its name.
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
        Path data = Path.of(request.value("data"));
        switch (request.name()) {
            case "nexmark", "nexmark-sql" -> {
                Segments segments = Segments.load(data, Event.MAGIC);
                int query = request.number("query");
                boolean sql = request.name().endsWith("-sql");
                serve(request, segments, env -> {
                    if (sql) {
                        NexmarkSql.add(query, env);
                    } else {
                        Queries.add(query, env);
                    }
                });
            }
            case "ysb", "ysb-sql" -> {
                Segments segments = Segments.load(data, YsbEvent.MAGIC);
                Campaigns campaigns = Campaigns.load(Path.of(request.value("table")));
                boolean sql = request.name().endsWith("-sql");
                serve(request, segments, env -> {
                    if (sql) {
                        YsbSql.ysb(env, campaigns);
                    } else {
                        YsbQueries.ysb(env, campaigns);
                    }
                });
            }
            case "swa" -> serve(request, Segments.load(data, YsbEvent.MAGIC), YsbQueries::swa);
            case "swa-sql" -> serve(request, Segments.load(data, YsbEvent.MAGIC), YsbSql::swa);
            default -> throw new IllegalArgumentException("this program has no case " + request.name());
        }
    }

    /** Each round is a job that is planned, submitted and run to its end. */
    private static void serve(Request request, Segments segments, Consumer<StreamExecutionEnvironment> job)
            throws Exception {
        int cores = request.has("cores") ? request.number("cores") : Runtime.getRuntime().availableProcessors();
        try (Cluster cluster = new Cluster(cores)) {
            Serve.rounds(request, segments, () -> {
                StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
                env.setParallelism(cores);
                env.getConfig().enableObjectReuse();
                job.accept(env);
                cluster.run(env);
                return DigestSink.take();
            });
        }
    }
}
