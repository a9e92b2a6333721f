package bench.nexmark;

import bench.RowHash;
import java.nio.charset.StandardCharsets;

/** Text where it lies among an event's bytes. */
public final class Text {
    byte[] bytes;
    int start;
    int length;

    void feed(RowHash hash) {
        hash.bytes(bytes, start, length);
    }

    boolean equalTo(byte[] other) {
        return java.util.Arrays.equals(bytes, start, start + length, other, 0, other.length);
    }

    @Override
    public String toString() {
        return new String(bytes, start, length, StandardCharsets.UTF_8);
    }
}
