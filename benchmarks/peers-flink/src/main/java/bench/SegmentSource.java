package bench;

import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;

/**
 * The events that {@link Segments} holds, dealt out to the tasks a segment after the other. All events of a
 * task are one object, read anew: what follows is chained and takes from it what it needs.
 */
public final class SegmentSource<T> extends DealtSource<T> {
    private static final long serialVersionUID = 1;
    /** Events that are given out before the task looks for something else to do. */
    private static final int BATCH = 512;

    private final Decoder<T> decoder;

    public SegmentSource(Decoder<T> decoder) {
        this.decoder = decoder;
    }

    @Override
    public SourceReader<T, Part> createReader(SourceReaderContext context) {
        return new SegmentReader<>(decoder);
    }

    private static final class SegmentReader<T> extends Reader<T> {
        private final Decoder<T> decoder;
        private final T event;
        private final Segments segments = Segments.loaded();
        private Part part;
        private int next;
        private byte[] segment;
        private int at;

        SegmentReader(Decoder<T> decoder) {
            this.decoder = decoder;
            this.event = decoder.create();
        }

        @Override
        public InputStatus pollNext(ReaderOutput<T> output) {
            if (segment == null || at == segment.length) {
                if (!advance()) {
                    return isWhole() ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
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
                part = take();
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
    }
}
