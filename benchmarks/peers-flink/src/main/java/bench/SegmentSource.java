package bench;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * The events that {@link Segments} holds, dealt out to the tasks a segment after the other. All events of a
 * task are one object, read anew: what follows is chained and takes from it what it needs.
 */
public final class SegmentSource<T> implements Source<T, SegmentSource.Part, SegmentSource.Nothing> {
    private static final long serialVersionUID = 1;
    /** Events that are given out before the task looks for something else to do. */
    private static final int BATCH = 512;

    private final Decoder<T> decoder;

    public SegmentSource(Decoder<T> decoder) {
        this.decoder = decoder;
    }

    /** The segments of one task: every so many from its first. */
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
    public SourceReader<T, Part> createReader(SourceReaderContext context) {
        return new Reader<>(decoder);
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

    private static final class Reader<T> implements SourceReader<T, Part> {
        private final Decoder<T> decoder;
        private final T event;
        private final Segments segments = Segments.loaded();
        private final CompletableFuture<Void> available = new CompletableFuture<>();
        private final Queue<Part> parts = new ArrayDeque<>();
        private Part part;
        private int next;
        private byte[] segment;
        private int at;

        Reader(Decoder<T> decoder) {
            this.decoder = decoder;
            this.event = decoder.create();
        }

        @Override
        public InputStatus pollNext(ReaderOutput<T> output) {
            if (segment == null || at == segment.length) {
                if (!advance()) {
                    return available.isDone() ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
                }
            }
            byte[] bytes = segment;
            int place = at;
            for (int n = 0; n < BATCH && place < bytes.length; n++) {
                place = decoder.read(bytes, place, event);
                output.collect(event, decoder.millis(event));
            }
            at = place;
            return InputStatus.MORE_AVAILABLE;
        }

        /** To the next segment, if there is one. */
        private boolean advance() {
            if (part == null) {
                part = parts.poll();
                if (part == null) {
                    return false;
                }
                next = part.first();
            }
            segment = segments.segment(next);
            at = 0;
            next += part.step();
            return segment != null;
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
