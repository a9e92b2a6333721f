package bench.state;

import bench.Cluster;
import bench.DigestSink;
import bench.Request;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** {@link ScheduledCounts} on a cluster, with a checkpoint each so many milliseconds; with none where that is zero. */
record ScheduledJob(Cluster cluster, int cores, Configuration settings, long distinct, long every) {
    /** The records, beside one of each key, with which it is found how many a second a job can do. */
    private static final long TRIAL = 5_000_000;
    /** How often that is tried: the first time, code is not compiled yet. */
    private static final int TRIALS = 3;
    /** The share of that which is the load, unless another is requested. */
    private static final long PERCENT = 25;

    /** Runs the job on so many numbers of the running {@link Trial}, to its end. */
    void run(long records) throws Exception {
        try (Folder folder = new Folder()) {
            Configuration job = new Configuration(settings);
            if (every > 0) {
                job.addAll(folder.checkpoints(every));
            }
            StreamExecutionEnvironment env = Cluster.environment(cores, job);
            ScheduledCounts.add(env, distinct, records);
            cluster.run(env);
        }
    }

    /** The records a second of the load: {@code --per-second}, or {@code --load-percent} of what is possible. */
    long perSecond(Request request) throws Exception {
        if (request.has("per-second")) {
            return request.longNumber("per-second");
        }
        long percent = request.has("load-percent") ? request.longNumber("load-percent") : PERCENT;
        long records = TRIAL + distinct;
        double most = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            Trial.begin(records, 1);
            long began = System.nanoTime();
            run(records);
            most = Math.max(most, records * 1e9 / (System.nanoTime() - began));
            DigestSink.take();
        }
        return (long) most * percent / 100;
    }
}
