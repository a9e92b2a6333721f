package bench.latency;

import bench.Digest;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple3;

/** Where sums of windows go: rows are digested, and how long after its window's end each came is counted. */
final class LatencySink implements Sink<Tuple3<Long, Integer, Long>> {
    private static final long serialVersionUID = 1;
    private static Seen all = new Seen();

    private final Load load;

    LatencySink(Load load) {
        this.load = load;
    }

    /** What tasks have seen. */
    static final class Seen {
        final Digest rows = new Digest();
        final Histogram latencies = new Histogram();
    }

    /** What all tasks have seen since it was last taken. */
    static synchronized Seen take() {
        Seen taken = all;
        all = new Seen();
        return taken;
    }

    private static synchronized void merge(Seen part) {
        all.rows.merge(part.rows);
        all.latencies.merge(part.latencies);
    }

    @Override
    public SinkWriter<Tuple3<Long, Integer, Long>> createWriter(WriterInitContext context) {
        return new Writer(load);
    }

    private static final class Writer implements SinkWriter<Tuple3<Long, Integer, Long>> {
        private final Schedule schedule = Schedule.running();
        private final Load load;
        private final long last;
        private Seen own = new Seen();

        Writer(Load load) {
            this.load = load;
            this.last = Reading.micros(load.events() - 1, load.rate());
        }

        @Override
        public void write(Tuple3<Long, Integer, Long> row, Context context) {
            long end = 1000 * (row.f0 + load.size());
            // A window that no reading ends has no moment from which to count.
            if (row.f0 >= 0 && end <= last) {
                own.latencies.record(schedule.now() - 1000 * end);
                own.rows.add(row, (sum, hash) -> {
                    hash.word(1000 * sum.f0);
                    hash.word(sum.f1);
                    hash.word(sum.f2);
                });
            }
        }

        @Override
        public void flush(boolean endOfInput) {
            merge(own);
            own = new Seen();
        }

        @Override
        public void close() {}
    }
}
