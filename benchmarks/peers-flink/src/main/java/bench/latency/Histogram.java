package bench.latency;

/** Counts durations in buckets whose width grows with the duration, as {@code protocol/src/histogram.rs} does. */
public final class Histogram {
    private static final int STEP_BITS = 6;
    private static final int STEPS = 1 << STEP_BITS;

    private final long[] counts = new long[STEPS * (64 - STEP_BITS + 1)];
    private long max;

    public void record(long nanos) {
        long duration = Math.max(nanos, 0);
        counts[bucket(duration)]++;
        max = Math.max(max, duration);
    }

    public void merge(Histogram other) {
        for (int at = 0; at < counts.length; at++) {
            counts[at] += other.counts[at];
        }
        max = Math.max(max, other.max);
    }

    /** The duration in seconds that this share of all durations does not exceed; zero when there is none. */
    public double quantile(double share) {
        long all = 0;
        for (long count : counts) {
            all += count;
        }
        long rank = Math.max(1, (long) Math.ceil(all * share));
        long seen = 0;
        for (int at = 0; at < counts.length; at++) {
            seen += counts[at];
            if (seen >= rank) {
                return Math.min(end(at), max) / 1e9;
            }
        }
        return max / 1e9;
    }

    public double max() {
        return max / 1e9;
    }

    private static int bucket(long nanos) {
        if (nanos < STEPS) {
            return (int) nanos;
        }
        int shift = 63 - Long.numberOfLeadingZeros(nanos) - STEP_BITS;
        return STEPS * (shift + 1) + (int) (nanos >>> shift) - STEPS;
    }

    /** The largest duration of a bucket. */
    private static long end(int bucket) {
        if (bucket < STEPS) {
            return bucket;
        }
        int shift = bucket / STEPS - 1;
        return ((long) (bucket % STEPS + STEPS + 1) << shift) - 1;
    }
}
