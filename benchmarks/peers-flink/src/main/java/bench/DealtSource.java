package bench;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** A bounded source of which every task gets one part: every so many pieces from its first. */
public abstract class DealtSource<T> implements Source<T, DealtSource.Part, DealtSource.Nothing> {
    private static final long serialVersionUID = 1;

    /** The pieces of one task. */
    public record Part(int first, int step) implements SourceSplit, Serializable {
        @Override
        public String splitId() {
            return Integer.toString(first);
        }
    }

    /** What the enumerator has to remember. */
    public record Nothing() {}

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SplitEnumerator<Part, Nothing> createEnumerator(SplitEnumeratorContext<Part> context) {
        return new Dealer(context);
    }

    @Override
    public SplitEnumerator<Part, Nothing> restoreEnumerator(
            SplitEnumeratorContext<Part> context, Nothing nothing) {
        return new Dealer(context);
    }

    @Override
    public SimpleVersionedSerializer<Part> getSplitSerializer() {
        return new PartSerializer();
    }

    @Override
    public SimpleVersionedSerializer<Nothing> getEnumeratorCheckpointSerializer() {
        return new NothingSerializer();
    }

    /** Gives every task its part as soon as it is there. */
    private record Dealer(SplitEnumeratorContext<Part> context) implements SplitEnumerator<Part, Nothing> {
        @Override
        public void addReader(int task) {
            context.assignSplit(new Part(task, context.currentParallelism()), task);
            context.signalNoMoreSplits(task);
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int task, String host) {}

        @Override
        public void addSplitsBack(List<Part> parts, int task) {
            throw new IllegalStateException("a round that fails is not begun again");
        }

        @Override
        public Nothing snapshotState(long checkpoint) {
            return new Nothing();
        }

        @Override
        public void close() {}
    }

    /** What a reader knows of its part. */
    public abstract static class Reader<T> implements SourceReader<T, Part> {
        private final CompletableFuture<Void> available = new CompletableFuture<>();
        private final Queue<Part> parts = new ArrayDeque<>();

        /** The part, when it is there; once. */
        protected final Part take() {
            return parts.poll();
        }

        /** Whether no part will come that is not there. */
        protected final boolean isWhole() {
            return available.isDone();
        }

        @Override
        public void addSplits(List<Part> more) {
            parts.addAll(more);
        }

        @Override
        public void notifyNoMoreSplits() {
            available.complete(null);
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return available;
        }

        @Override
        public List<Part> snapshotState(long checkpoint) {
            throw new IllegalStateException("a round takes no checkpoint");
        }

        @Override
        public void start() {}

        @Override
        public void close() {}
    }

    private static final class PartSerializer implements SimpleVersionedSerializer<Part> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Part part) {
            return ByteBuffer.allocate(8).putInt(part.first).putInt(part.step).array();
        }

        @Override
        public Part deserialize(int version, byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new Part(buffer.getInt(), buffer.getInt());
        }
    }

    private static final class NothingSerializer implements SimpleVersionedSerializer<Nothing> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Nothing nothing) {
            return new byte[0];
        }

        @Override
        public Nothing deserialize(int version, byte[] bytes) {
            return new Nothing();
        }
    }
}
