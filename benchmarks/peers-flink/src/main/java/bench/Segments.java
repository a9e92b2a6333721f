package bench;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Encoded events in memory, cut in segments, from a file of {@code thalweg_workloads::segments}. There is one
 * such in a process: tasks find it here, so that no job carries it.
 */
public final class Segments {
    private static final int VERSION = 1;
    private static Segments loaded;

    private final byte[][] segments;
    private final long count;
    private final long size;

    private Segments(byte[][] segments, long count, long size) {
        this.segments = segments;
        this.count = count;
        this.size = size;
    }

    /** Reads a file and checks that it is what was written. */
    public static Segments load(Path path, String magic) throws IOException {
        try (InputStream file = Files.newInputStream(path)) {
            DataInputStream in = new DataInputStream(file);
            byte[] head = in.readNBytes(40);
            ByteBuffer fields = little(head);
            require(head.length == 40 && hash(head) == word(in), path, "the head is not what was written");
            String found = new String(head, 0, 8, StandardCharsets.ISO_8859_1);
            require(found.equals(magic) && fields.getInt(8) == VERSION, path, "it holds other events");
            long perSegment = Integer.toUnsignedLong(fields.getInt(12));
            long count = fields.getLong(32);
            byte[][] segments = new byte[Math.toIntExact((count + perSegment - 1) / perSegment)][];
            long size = 0;
            for (int place = 0; place < segments.length; place++) {
                int length = Math.toIntExact(word(in));
                long expected = word(in);
                byte[] segment = in.readNBytes(length);
                require(segment.length == length, path, "it ends too early");
                require(hash(segment) == expected, path, "a segment is not what was written");
                segments[place] = segment;
                size += length;
            }
            loaded = new Segments(segments, count, size);
            return loaded;
        }
    }

    private static void require(boolean holds, Path path, String otherwise) throws IOException {
        if (!holds) {
            throw new IOException(path + ": " + otherwise);
        }
    }

    private static long hash(byte[] bytes) {
        RowHash hash = new RowHash();
        hash.bytes(bytes, 0, bytes.length);
        return hash.finish();
    }

    private static long word(DataInputStream in) throws IOException {
        return Long.reverseBytes(in.readLong());
    }

    private static ByteBuffer little(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** What was loaded last. */
    static Segments loaded() {
        return loaded;
    }

    /** Whole events, consecutive; null after the last. */
    byte[] segment(int place) {
        return place < segments.length ? segments[place] : null;
    }

    /** How many events. */
    public long count() {
        return count;
    }

    /** How many bytes they are. */
    public long size() {
        return size;
    }
}
