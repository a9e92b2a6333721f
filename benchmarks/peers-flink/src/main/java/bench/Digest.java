package bench;

import java.io.Serializable;

/** The digest of an answer: how many rows, and the sum of their hashes. */
public final class Digest {
    /** Feeds the fields of a row, in order. */
    @FunctionalInterface
    public interface Fields<T> extends Serializable {
        void feed(T row, RowHash hash);
    }

    private long rows;
    private long sum;
    private final RowHash hash = new RowHash();

    public <T> void add(T row, Fields<T> fields) {
        hash.start();
        fields.feed(row, hash);
        rows++;
        sum += hash.finish();
    }

    public void merge(Digest other) {
        rows += other.rows;
        sum += other.sum;
    }

    @Override
    public String toString() {
        return String.format("%d:%016x", rows, sum);
    }
}
