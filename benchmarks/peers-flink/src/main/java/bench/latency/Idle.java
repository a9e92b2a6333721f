package bench.latency;

import java.util.concurrent.locks.LockSupport;

/** A thread that does nothing but wake up at set times, and how late it is: the noise floor of this run. */
final class Idle {
    private static final long TICK = 500_000;

    private final Histogram late = new Histogram();
    private final Thread thread = new Thread(this::run, "idle");
    private volatile boolean stopped;

    Idle() {
        thread.start();
    }

    private void run() {
        long began = System.nanoTime();
        for (long due = TICK; !stopped; due += TICK) {
            // A waking that was slept through counts as well, or a long delay would count once.
            for (long early = due - (System.nanoTime() - began); early > 0; ) {
                LockSupport.parkNanos(early);
                early = due - (System.nanoTime() - began);
            }
            late.record(System.nanoTime() - began - due);
        }
    }

    /** Ends the thread, and says how late it was. */
    Histogram stop() throws InterruptedException {
        stopped = true;
        thread.join();
        return late;
    }
}
