package bench.state;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;

/** The folder of a round's checkpoints, which is removed. */
final class Folder implements AutoCloseable {
    private final Path path;

    Folder() throws IOException {
        path = Files.createTempDirectory("bench-flink-");
    }

    /** A checkpoint each so many milliseconds: from the end of one to the beginning of the next, as ours are. */
    Configuration checkpoints(long every) {
        Configuration settings = new Configuration();
        settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(every));
        settings.set(CheckpointingOptions.MIN_PAUSE_BETWEEN_CHECKPOINTS, Duration.ofMillis(every));
        settings.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, path.toUri().toString());
        return settings;
    }

    @Override
    public void close() {
        try (Stream<Path> all = Files.walk(path)) {
            List<Path> contents = all.sorted(Comparator.reverseOrder()).toList();
            for (Path each : contents) {
                Files.deleteIfExists(each);
            }
        } catch (IOException | UncheckedIOException ignored) {
            // Flink removes checkpoints at the same time, on threads of its own.
        }
    }
}
