package bench;

import java.io.Serializable;

/** Finds events among bytes. */
public interface Decoder<T> extends Serializable {
    /** An event to read into, again and again. */
    T create();

    /** Reads the event that begins here, and returns where the next one does. */
    int read(byte[] bytes, int at, T event);

    /** When it happens, in milliseconds since 1970: Flink's unit. */
    long millis(T event);
}
