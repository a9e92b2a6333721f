package bench;

import java.time.Duration;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.ResourceManagerOptions;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Flink in this process: one task manager with a slot for each core, which stays for all rounds. To start it
 * is not the work that is measured.
 */
public final class Cluster implements AutoCloseable {
    private final MiniCluster cluster;

    public Cluster(int cores) throws Exception {
        this(cores, new Configuration());
    }

    /** With other settings, which take the place of those here. */
    public Cluster(int cores, Configuration others) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set(RestOptions.BIND_PORT, "0");
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(256));
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(256));
        configuration.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(512));
        // Rounds are short: nothing is gained by waiting for more requests before slots are given.
        configuration.set(ResourceManagerOptions.REQUIREMENTS_CHECK_DELAY, Duration.ZERO);
        configuration.set(ResourceManagerOptions.DECLARE_NEEDED_RESOURCE_DELAY, Duration.ZERO);
        configuration.set(JobManagerOptions.SLOT_REQUEST_MAX_INTERVAL, Duration.ofMillis(1));
        configuration.addAll(others);
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(cores)
                .build());
        cluster.start();
    }

    /** The environment of a job. */
    public static StreamExecutionEnvironment environment(int cores) {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(cores);
        env.getConfig().enableObjectReuse();
        return env;
    }

    /** The same, with settings of the job. */
    public static StreamExecutionEnvironment environment(int cores, Configuration settings) {
        StreamExecutionEnvironment env = environment(cores);
        env.configure(settings);
        return env;
    }

    /** Runs the job that an environment was told, to its end, and returns what it is known by. */
    public JobID run(StreamExecutionEnvironment env) throws Exception {
        return cluster.executeJobBlocking(env.getStreamGraph().getJobGraph()).getJobID();
    }

    /** What is known of the checkpoints of a job that has run. */
    public CheckpointStatsSnapshot checkpoints(JobID job) throws Exception {
        return cluster.getExecutionGraph(job).get().getCheckpointStatsSnapshot();
    }

    @Override
    public void close() throws Exception {
        cluster.close();
    }
}
