package bench.latency;

import bench.DealtSource;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;

/** Readings when they are due, whatever the job does; the tasks have them in turn. */
final class PacedSource extends DealtSource<Reading> {
    private static final long serialVersionUID = 1;
    /** Readings that are given out before the task looks for something else to do. */
    private static final int BATCH = 512;
    /** How long a task waits when nothing is due, in nanoseconds. */
    private static final long NAP = 50_000;

    private final Load load;

    PacedSource(Load load) {
        this.load = load;
    }

    @Override
    public SourceReader<Reading, Part> createReader(SourceReaderContext context) {
        return new PacedReader(load);
    }

    private static final class PacedReader extends Reader<Reading> {
        private final Load load;
        private final Schedule schedule = Schedule.running();
        private final Reading reading = new Reading();
        private Part part;
        private long next;

        PacedReader(Load load) {
            this.load = load;
        }

        @Override
        public InputStatus pollNext(ReaderOutput<Reading> output) {
            if (part == null) {
                part = take();
                if (part == null) {
                    return isWhole() ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
                }
                next = part.first();
                schedule.begin();
            }
            long due = Math.min(schedule.dueByNow(), load.events());
            if (next >= due) {
                if (next >= load.events()) {
                    return InputStatus.END_OF_INPUT;
                }
                LockSupport.parkNanos(NAP);
                return InputStatus.MORE_AVAILABLE;
            }
            for (int n = 0; n < BATCH && next < due; n++) {
                reading.make(next, load.rate(), load.keys());
                output.collect(reading, reading.millis);
                next += part.step();
            }
            return InputStatus.MORE_AVAILABLE;
        }
    }
}
