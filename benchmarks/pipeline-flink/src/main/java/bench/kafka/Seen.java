package bench.kafka;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Instant;

/** A record in a pipeline, or a result that follows from several. Moments are nanoseconds since 1970. */
public final class Seen {
    /** The bytes of a result. */
    static final int RESULT = 8 * Long.BYTES;

    public long due;
    public long logged;
    public long fetched;
    public long arrived;
    public long number;
    public long key;
    public long count;
    /** All of its bytes, where they are written again. */
    public byte[] record;

    /** A record that arrives now; {@code millis} is the broker's time. */
    static Seen arriving(byte[] record, long millis) {
        long fetched = now();
        ByteBuffer words = ByteBuffer.wrap(record).order(ByteOrder.LITTLE_ENDIAN);
        Seen seen = new Seen();
        seen.fetched = fetched;
        seen.due = words.getLong();
        seen.number = words.getLong();
        seen.key = words.getLong();
        seen.logged = millis * 1_000_000 + 500_000;
        seen.arrived = now();
        seen.count = 1;
        seen.record = record;
        return seen;
    }

    /** The result of a window, which is due when the window ends. Its number is that moment. */
    static Seen ofWindow(long end, long key, long count) {
        Seen seen = new Seen();
        seen.due = end;
        seen.fetched = end;
        seen.arrived = end;
        seen.number = end;
        seen.key = key;
        seen.count = count;
        seen.record = new byte[0];
        return seen;
    }

    /** The bytes of a record that leaves now. */
    byte[] leave(boolean whole) {
        byte[] bytes = whole ? record : new byte[RESULT];
        ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        words.putLong(due).putLong(logged).putLong(fetched).putLong(arrived).putLong(now());
        words.putLong(number).putLong(key).putLong(count);
        return bytes;
    }

    private static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }
}
