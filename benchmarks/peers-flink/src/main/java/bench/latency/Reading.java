package bench.latency;

/** A reading, one object anew for each task: what follows the source is chained to it. */
public final class Reading {
    int key;
    long value;
    /** In milliseconds since the first reading. */
    long millis;

    /** Makes the reading of a number, as {@code bench_protocol::workload::reading} does. */
    void make(long number, double rate, long keys) {
        long bits = mix(number);
        key = (int) (((bits >>> 32) * keys) >>> 32);
        value = bits & 0xffff;
        millis = micros(number, rate) / 1000;
    }

    /** When a reading is, in microseconds since the first one. */
    static long micros(long number, double rate) {
        return (long) (number * 1e6 / rate);
    }

    /** The finaliser of SplitMix64. */
    private static long mix(long number) {
        long bits = (number ^ (number >>> 30)) * 0xbf58476d1ce4e5b9L;
        bits = (bits ^ (bits >>> 27)) * 0x94d049bb133111ebL;
        return bits ^ (bits >>> 31);
    }
}
