package bench.latency;

import bench.Cluster;
import bench.Request;
import bench.Serve;
import java.util.Locale;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** How long after a window's end its results are there: sums of keys, from readings that come on a schedule. */
public final class WindowLatency {
    /** Bytes of a reading, as the other contestants count them. */
    private static final long BYTES = 24;

    private WindowLatency() {}

    /** Serves {@code --rate}, {@code --keys}, {@code --size-ms}, {@code --slide-ms}, {@code --events}. */
    public static void serve(Request request, int cores) throws Exception {
        Load load = new Load(
                request.number("rate"),
                request.number("events"),
                request.number("keys"),
                request.number("size-ms"),
                request.number("slide-ms"));
        try (Cluster cluster = new Cluster(cores)) {
            Serve.rounds(request, () -> {
                Idle idle = new Idle();
                Schedule.prepare(load.rate());
                StreamExecutionEnvironment env = Cluster.environment(cores);
                SlidingSums.add(env, load);
                cluster.run(env);
                LatencySink.Seen seen = LatencySink.take();
                String extra = percentiles("", seen.latencies) + percentiles("idle_", idle.stop());
                return new Serve.Answer(seen.rows, load.events(), BYTES * load.events(), extra);
            });
        }
    }

    /** The fields of a round's report, each with this before its name. */
    public static String percentiles(String prefix, Histogram histogram) {
        return String.format(
                Locale.ROOT,
                ",\"%1$sp50\":%2$.9f,\"%1$sp99\":%3$.9f,\"%1$sp999\":%4$.9f,\"%1$sp9999\":%5$.9f,\"%1$smax\":%6$.9f",
                prefix,
                histogram.quantile(0.5),
                histogram.quantile(0.99),
                histogram.quantile(0.999),
                histogram.quantile(0.9999),
                histogram.max());
    }
}
