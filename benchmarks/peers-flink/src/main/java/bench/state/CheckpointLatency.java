package bench.state;

import bench.Cluster;
import bench.DigestSink;
import bench.Request;
import bench.Serve;
import bench.latency.WindowLatency;
import java.util.Locale;
import org.apache.flink.configuration.Configuration;

/** How long after they were due records meet their counts, with a checkpoint each {@code --every-ms} or with none. */
public final class CheckpointLatency {
    private CheckpointLatency() {}

    /** Serves what {@link Recovery} does. */
    public static void serve(Request request, int cores) throws Exception {
        long distinct = request.longNumber("distinct");
        long every = request.has("every-ms") ? request.longNumber("every-ms") : 0;
        Configuration settings = Backend.of(request, cores);
        try (Cluster cluster = new Cluster(cores, settings)) {
            // The load of a job without checkpoints, also where there are some: it is to be the same.
            long perSecond = new ScheduledJob(cluster, cores, settings, distinct, 0).perSecond(request);
            long records = 2 * distinct + perSecond * request.longNumber("seconds");
            ScheduledJob job = new ScheduledJob(cluster, cores, settings, distinct, every);
            Serve.rounds(request, () -> {
                Trial trial = Trial.begin(distinct, perSecond);
                job.run(records);
                String extra = WindowLatency.percentiles("", trial.latencies())
                        + String.format(Locale.ROOT, ",\"per_second\":%d", perSecond);
                return new Serve.Answer(DigestSink.take(), records, Long.BYTES * records, extra);
            });
        }
    }
}
