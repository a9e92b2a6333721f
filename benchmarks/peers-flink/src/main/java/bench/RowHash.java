package bench;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * The hash of one row, field by field: as {@code thalweg_workloads::digest} defines it. That the two are one
 * is seen at every start, since the file of events carries hashes of its bytes.
 */
public final class RowHash {
    private static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INTS =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    private static final long START = 0x2545f4914f6cdd1dL;
    private static final long A = 0xd6e8feb86659fd93L;
    private static final long B = 0xa5b9e3d7c6f18b95L;

    private long hash = START;

    /** Begins the next row. */
    void start() {
        hash = START;
    }

    /** An integer, widened to 64 bits. */
    public void word(long word) {
        hash = fold(hash ^ word, A);
    }

    /** Text as UTF-8. */
    public void text(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        bytes(bytes, 0, bytes.length);
    }

    /** Text that lies among other bytes. */
    public void bytes(byte[] bytes, int start, int length) {
        word(length);
        int at = start;
        int end = start + length;
        for (; at + 16 <= end; at += 16) {
            pair((long) LONGS.get(bytes, at), (long) LONGS.get(bytes, at + 8));
        }
        int rest = end - at;
        if (rest == 0) {
            return;
        }
        if (length >= 16) {
            pair((long) LONGS.get(bytes, end - 16), (long) LONGS.get(bytes, end - 8));
        } else if (rest > 8) {
            // Two loads that overlap; the second one without what the first has.
            long last = (long) LONGS.get(bytes, end - 8) >>> (8 * (16 - rest));
            pair((long) LONGS.get(bytes, at), last);
        } else if (rest == 8) {
            pair((long) LONGS.get(bytes, at), 0);
        } else if (rest >= 4) {
            long last = Integer.toUnsignedLong((int) INTS.get(bytes, end - 4)) << (8 * (rest - 4));
            pair(last | Integer.toUnsignedLong((int) INTS.get(bytes, at)), 0);
        } else {
            long word = 0;
            for (int place = rest - 1; place >= 0; place--) {
                word = word << 8 | bytes[at + place] & 0xff;
            }
            pair(word, 0);
        }
    }

    private void pair(long first, long second) {
        hash = fold(hash ^ first, second ^ B);
    }

    /** The hash of the fields so far. */
    long finish() {
        return fold(hash ^ A, B);
    }

    /** The two halves of the product of 128 bits, one xor the other. */
    private static long fold(long a, long b) {
        long high = Math.multiplyHigh(a, b) + ((a >> 63) & b) + ((b >> 63) & a);
        return high ^ a * b;
    }
}
