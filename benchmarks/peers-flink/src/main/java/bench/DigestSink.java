package bench;

import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/**
 * Where the rows of a job go: each task digests its own, and adds that to the others' at the end of its
 * input. Cluster and contestant are one process and rounds come one after the other, so that the sum can be
 * kept here.
 */
public final class DigestSink<T> implements Sink<T> {
    private static final long serialVersionUID = 1;
    private static Digest all = new Digest();

    private final Digest.Fields<T> fields;

    public DigestSink(Digest.Fields<T> fields) {
        this.fields = fields;
    }

    /** The digest of all rows since it was last taken. */
    public static synchronized Digest take() {
        Digest taken = all;
        all = new Digest();
        return taken;
    }

    private static synchronized void merge(Digest part) {
        all.merge(part);
    }

    @Override
    public SinkWriter<T> createWriter(WriterInitContext context) {
        return new Writer<>(fields);
    }

    private static final class Writer<T> implements SinkWriter<T> {
        private final Digest.Fields<T> fields;
        private Digest own = new Digest();

        Writer(Digest.Fields<T> fields) {
            this.fields = fields;
        }

        @Override
        public void write(T row, Context context) {
            own.add(row, fields);
        }

        @Override
        public void flush(boolean endOfInput) {
            merge(own);
            own = new Digest();
        }

        @Override
        public void close() {}
    }
}
