package bench.state;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
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
 * The numbers from 0, which the tasks have in turn, as records that stand for them. How far a task has come is in
 * checkpoints; a job that goes on from one must have as many tasks.
 */
final class Numbers implements Source<Long, Numbers.Rest, byte[]> {
    private static final long serialVersionUID = 1;
    /** Records that are emitted before the task looks for something else to do. */
    private static final int BATCH = 512;
    /** How long a task waits when nothing is due, in nanoseconds. */
    private static final long NAP = 50_000;

    private final long count;
    private final Recipe recipe;
    /** Whether number {@code n} is of millisecond {@code n}, or of no time. */
    private final boolean timed;
    /** Whether numbers come when they are due, or as fast as they are read. */
    private final boolean scheduled;

    private Numbers(long count, Recipe recipe, boolean timed, boolean scheduled) {
        this.count = count;
        this.recipe = recipe;
        this.timed = timed;
        this.scheduled = scheduled;
    }

    /** So many numbers, without time. */
    static Numbers untimed(long count, Recipe recipe) {
        return new Numbers(count, recipe, false, false);
    }

    /** So many numbers, a millisecond of event time apart. */
    static Numbers timed(long count, Recipe recipe) {
        return new Numbers(count, recipe, true, false);
    }

    /** So many numbers themselves, when they are due in the running {@link Trial}. */
    static Numbers scheduled(long count) {
        return new Numbers(count, number -> number, false, true);
    }

    /** Makes the record that stands for a number. */
    @FunctionalInterface
    interface Recipe extends Serializable {
        long of(long number);
    }

    /** What a task has not read yet: every so many numbers from the next one. */
    record Rest(long next, int step) implements SourceSplit {
        @Override
        public String splitId() {
            return Long.toString(next % step);
        }
    }

    /** A number in no order, as {@code mixed} of the other contestants: below a limit. */
    static long mixed(long number, long limit) {
        long bits = (number ^ (number >>> 32)) * 0x9e3779b97f4a7c15L;
        return Long.remainderUnsigned(bits ^ (bits >>> 29), limit);
    }

    /** A key for a number, so that each of so many keys comes once in as many numbers. */
    static long spread(long number, long keys) {
        return number * 618_033 % keys;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SplitEnumerator<Rest, byte[]> createEnumerator(SplitEnumeratorContext<Rest> context) {
        return new Dealer(context, new BitSet());
    }

    @Override
    public SplitEnumerator<Rest, byte[]> restoreEnumerator(SplitEnumeratorContext<Rest> context, byte[] dealt) {
        return new Dealer(context, BitSet.valueOf(dealt));
    }

    @Override
    public SourceReader<Long, Rest> createReader(SourceReaderContext context) {
        return new Reader();
    }

    @Override
    public SimpleVersionedSerializer<Rest> getSplitSerializer() {
        return new RestSerializer();
    }

    @Override
    public SimpleVersionedSerializer<byte[]> getEnumeratorCheckpointSerializer() {
        return new BytesSerializer();
    }

    /** Gives every task its numbers as soon as it is there, unless it has them from a checkpoint. */
    private static final class Dealer implements SplitEnumerator<Rest, byte[]> {
        private final SplitEnumeratorContext<Rest> context;
        /** The tasks that have got theirs. */
        private final BitSet dealt;
        /** What tasks had that failed before it was in a checkpoint. */
        private final Map<Integer, Rest> returned = new HashMap<>();

        Dealer(SplitEnumeratorContext<Rest> context, BitSet dealt) {
            this.context = context;
            this.dealt = dealt;
        }

        @Override
        public void addReader(int task) {
            Rest rest = returned.remove(task);
            if (rest == null && !dealt.get(task)) {
                rest = new Rest(task, context.currentParallelism());
            }
            if (rest != null) {
                dealt.set(task);
                context.assignSplit(rest, task);
            }
            context.signalNoMoreSplits(task);
        }

        @Override
        public void addSplitsBack(List<Rest> rests, int task) {
            rests.forEach(rest -> returned.put(task, rest));
        }

        @Override
        public byte[] snapshotState(long checkpoint) {
            return dealt.toByteArray();
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int task, String host) {}

        @Override
        public void close() {}
    }

    /** Reads the numbers of a task. */
    private final class Reader implements SourceReader<Long, Rest> {
        private final CompletableFuture<Void> available = new CompletableFuture<>();
        private long next;
        /** Zero until the task has its numbers. */
        private int step;

        @Override
        public InputStatus pollNext(ReaderOutput<Long> output) {
            if (step == 0) {
                return InputStatus.NOTHING_AVAILABLE;
            }
            long due = scheduled ? Trial.running().due(count) : count;
            if (next >= due && next < count) {
                LockSupport.parkNanos(NAP);
            }
            for (int n = 0; n < BATCH && next < due; n++) {
                if (timed) {
                    output.collect(recipe.of(next), next);
                } else {
                    output.collect(recipe.of(next));
                }
                next += step;
            }
            return next < count ? InputStatus.MORE_AVAILABLE : InputStatus.END_OF_INPUT;
        }

        @Override
        public void addSplits(List<Rest> rests) {
            for (Rest rest : rests) {
                next = rest.next();
                step = rest.step();
            }
            available.complete(null);
        }

        @Override
        public List<Rest> snapshotState(long checkpoint) {
            return step == 0 ? List.of() : List.of(new Rest(next, step));
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return available;
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void start() {}

        @Override
        public void close() {}
    }

    private static final class RestSerializer implements SimpleVersionedSerializer<Rest> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Rest rest) {
            return ByteBuffer.allocate(12).putLong(rest.next).putInt(rest.step).array();
        }

        @Override
        public Rest deserialize(int version, byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new Rest(buffer.getLong(), buffer.getInt());
        }
    }

    private static final class BytesSerializer implements SimpleVersionedSerializer<byte[]> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(byte[] bytes) {
            return bytes;
        }

        @Override
        public byte[] deserialize(int version, byte[] bytes) {
            return bytes;
        }
    }
}
