package bench.state;

import bench.Cluster;
import bench.DigestSink;
import bench.Request;
import bench.Serve;
import java.util.Locale;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.checkpoint.CompletedCheckpointStats;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Counts of keys with a checkpoint each {@code --every-ms}, or with none. */
public final class Checkpoint {
    private Checkpoint() {}

    /** Serves {@code --distinct}, {@code --records}, {@code --every-ms}, and what {@link Backend} has. */
    public static void serve(Request request, int cores) throws Exception {
        long distinct = request.longNumber("distinct");
        long records = request.longNumber("records");
        Configuration settings = Backend.of(request, cores);
        try (Cluster cluster = new Cluster(cores, settings)) {
            Serve.rounds(request, () -> {
                try (Folder folder = new Folder()) {
                    Configuration job = new Configuration(settings);
                    if (request.has("every-ms")) {
                        job.addAll(folder.checkpoints(request.longNumber("every-ms")));
                    }
                    StreamExecutionEnvironment env = Cluster.environment(cores, job);
                    Counts.add(env, distinct, records);
                    JobID id = cluster.run(env);
                    String extra = request.has("every-ms") ? taken(cluster.checkpoints(id)) : "";
                    return new Serve.Answer(DigestSink.take(), records, Long.BYTES * records, extra);
                }
            });
        }
    }

    /** How many there were, and the bytes of the last one. */
    private static String taken(CheckpointStatsSnapshot checkpoints) {
        CompletedCheckpointStats last = checkpoints.getHistory().getLatestCompletedCheckpoint();
        return String.format(
                Locale.ROOT,
                ",\"checkpoints\":%d,\"checkpoint_bytes\":%d",
                checkpoints.getCounts().getNumberOfCompletedCheckpoints(),
                last == null ? 0 : last.getStateSize());
    }
}
