package bench.nexmark;

import bench.Decoder;
import bench.RowHash;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * An event of Nexmark where it lies in its segment: fields are read when they are asked for, so that none
 * costs text of its own. The bytes are those of {@code thalweg_workloads::nexmark::encoding}.
 */
public final class Event {
    /** What a file of them begins with. */
    public static final String MAGIC = "nexmark\n";

    static final int PERSON = 0;
    static final int AUCTION = 1;
    static final int BID = 2;

    private static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    /** How many numbers and texts an event of each kind has, and which number is its time. */
    private static final int[] NUMBERS = {2, 7, 4};
    private static final int[] TEXTS = {6, 3, 3};
    private static final int[] TIME = {1, 5, 3};

    // Which number of a person, an auction, a bid is what.
    static final int ID = 0;
    static final int SELLER = 1;
    static final int CATEGORY = 2;
    static final int RESERVE = 4;
    static final int OPENED = 5;
    static final int EXPIRES = 6;
    static final int BID_AUCTION = 0;
    static final int BIDDER = 1;
    static final int PRICE = 2;
    static final int BID_TIME = 3;

    // Which text of a person is what.
    static final int NAME = 0;
    static final int CITY = 3;
    static final int STATE = 4;

    private byte[] bytes;
    private int at;
    private int kind;
    private final Text[] texts = {new Text(), new Text(), new Text(), new Text(), new Text(), new Text()};

    int kind() {
        return kind;
    }

    boolean isBid() {
        return kind == BID;
    }

    long number(int place) {
        return (long) LONGS.get(bytes, at + 1 + 8 * place);
    }

    Text text(int place) {
        return texts[place];
    }

    /** When it happens, in microseconds since 1970. */
    long time() {
        return number(TIME[kind]);
    }

    /** The kind, then every field. */
    void feed(RowHash hash) {
        feed(hash, -1, 0);
    }

    /** The same, with another value for one of the numbers. */
    void feed(RowHash hash, int place, long instead) {
        hash.word(kind);
        for (int n = 0; n < NUMBERS[kind]; n++) {
            hash.word(n == place ? instead : number(n));
        }
        for (int n = 0; n < TEXTS[kind]; n++) {
            texts[n].feed(hash);
        }
    }

    private int read(byte[] from, int start) {
        bytes = from;
        at = start;
        kind = from[start];
        int place = start + 1 + 8 * NUMBERS[kind];
        int count = TEXTS[kind];
        for (int n = 0; n < count; n++) {
            // LEB128.
            int length = from[place++];
            if (length < 0) {
                length &= 0x7f;
                for (int shift = 7; ; shift += 7) {
                    byte more = from[place++];
                    length |= (more & 0x7f) << shift;
                    if (more >= 0) {
                        break;
                    }
                }
            }
            texts[n].length = length;
        }
        for (int n = 0; n < count; n++) {
            Text text = texts[n];
            text.bytes = from;
            text.start = place;
            place += text.length;
        }
        return place;
    }

    /** Finds events of Nexmark. */
    public static final class Finder implements Decoder<Event> {
        private static final long serialVersionUID = 1;

        @Override
        public Event create() {
            return new Event();
        }

        @Override
        public int read(byte[] bytes, int at, Event event) {
            return event.read(bytes, at);
        }

        @Override
        public long millis(Event event) {
            return event.time() / 1000;
        }
    }
}
