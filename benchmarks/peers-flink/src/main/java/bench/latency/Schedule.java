package bench.latency;

/**
 * When readings are due: so many a second from the moment at which the first is asked for. Cluster and contestant are
 * one process and rounds come one after the other, so that there is one.
 */
final class Schedule {
    private static volatile Schedule running = new Schedule(1);

    private final double perNano;
    private volatile long began;

    private Schedule(double rate) {
        perNano = rate / 1e9;
    }

    /** Makes that of the next round. */
    static void prepare(double rate) {
        running = new Schedule(rate);
    }

    static Schedule running() {
        return running;
    }

    /** Begins, unless it has begun already. */
    synchronized void begin() {
        if (began == 0) {
            began = System.nanoTime();
        }
    }

    /** Nanoseconds since it has begun. */
    long now() {
        return System.nanoTime() - began;
    }

    /** How many readings are due by now. */
    long dueByNow() {
        return (long) (now() * perNano) + 1;
    }
}
