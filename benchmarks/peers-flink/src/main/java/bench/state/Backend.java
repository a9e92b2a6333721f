package bench.state;

import bench.Request;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.TaskManagerOptions;

/** Where the state of keys is. */
final class Backend {
    /** The buffers for what is written that the share of a task's memory is cut into. */
    private static final int BUFFERS = 8;

    private Backend() {}

    /**
     * The settings for {@code --backend hashmap} or {@code rocksdb}, and for {@code --memory}: the bytes that RocksDB
     * has for what it caches and what it has not written yet, of all tasks together. Checkpoints are whole, as ours.
     */
    static Configuration of(Request request, int cores) {
        Configuration settings = new Configuration();
        settings.set(StateBackendOptions.STATE_BACKEND, request.value("backend"));
        settings.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, false);
        // A job that fails is to end, and not to begin again.
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
        if (request.has("memory")) {
            long bytes = request.longNumber("memory");
            settings.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, new MemorySize(bytes));
            // With buffers of the default size, 64 MB, RocksDB would write all the time when it has less in all.
            long buffer = Math.max(1 << 20, bytes / cores / BUFFERS);
            settings.setString("state.backend.rocksdb.writebuffer.size", buffer + "b");
        }
        return settings;
    }
}
