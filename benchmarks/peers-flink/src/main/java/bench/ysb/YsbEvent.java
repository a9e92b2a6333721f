package bench.ysb;

import bench.Decoder;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.UUID;

/**
 * An event of the Yahoo benchmark where it lies in its segment: 64 bytes, as
 * {@code thalweg_workloads::ysb::fixed} says. Fields are read when they are asked for.
 */
public final class YsbEvent {
    /** What a file of them begins with. */
    public static final String MAGIC = "ysb-64b\n";

    static final int VIEW = 0;
    static final int CLICK = 1;

    private static final int SIZE = 64;
    private static final VarHandle LITTLE =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle BIG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private byte[] bytes;
    private int at;

    UUID ad() {
        return new UUID((long) BIG.get(bytes, at + 32), (long) BIG.get(bytes, at + 40));
    }

    /** When, in microseconds since 1970. */
    long time() {
        return (long) LITTLE.get(bytes, at + 48);
    }

    int type() {
        return bytes[at + 61];
    }

    /** Finds events. */
    static final class Finder implements Decoder<YsbEvent> {
        private static final long serialVersionUID = 1;

        @Override
        public YsbEvent create() {
            return new YsbEvent();
        }

        @Override
        public int read(byte[] bytes, int at, YsbEvent event) {
            event.bytes = bytes;
            event.at = at;
            return at + SIZE;
        }

        @Override
        public long millis(YsbEvent event) {
            return event.time() / 1000;
        }
    }
}
