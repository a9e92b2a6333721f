package bench.state;

import bench.latency.Histogram;
import java.util.concurrent.CountDownLatch;

/**
 * A round of records that are due at a rate, come what may, in which a task may have to fail. Cluster and contestant
 * are one process and rounds come one after the other, so that there is one.
 */
final class Trial {
    /** A record that was due no longer ago than this, in nanoseconds, is one that has been waited for. */
    private static final long CAUGHT_UP = 20_000_000;
    /** How long the job runs, and takes checkpoints, before the failure, in milliseconds. */
    private static final long BEFORE = 1000;
    private static final int NONE = -1;

    private static volatile Trial running = new Trial(0, 1);

    private final long atOnce;
    private final double perNano;
    /** The first record whose latency counts: those that are due at once are late, and so are those soon after them. */
    private final long first;
    private final Histogram latencies = new Histogram();
    private final long began = System.nanoTime();
    private final CountDownLatch steady = new CountDownLatch(1);
    private boolean mustFail;
    /** The attempt whose task has failed, and when. */
    private int failed = NONE;
    private long failedAt;
    /** When a later attempt has caught up; zero before. */
    private long caughtUpAt;

    private Trial(long atOnce, double perSecond) {
        this.atOnce = atOnce;
        this.perNano = perSecond / 1e9;
        this.first = atOnce + (long) perSecond;
    }

    /** Begins a round of which so many records are due at once, and so many each second afterwards. */
    static Trial begin(long atOnce, double perSecond) {
        running = new Trial(atOnce, perSecond);
        return running;
    }

    static Trial running() {
        return running;
    }

    /** How many of so many records are due by now. */
    long due(long count) {
        return Math.min(count, atOnce + (long) ((System.nanoTime() - began) * perNano));
    }

    /** A record has met its count, in a task of this attempt. Whether the task must fail. */
    synchronized boolean meets(long number, int attempt) {
        if (attempt <= failed) {
            // It goes on until it is cancelled.
            return false;
        }
        long now = System.nanoTime();
        if (mustFail) {
            mustFail = false;
            failed = attempt;
            failedAt = now;
            return true;
        }
        if (number < atOnce) {
            return false;
        }
        long late = (long) (now - began - (number - atOnce) / perNano);
        if (number >= first) {
            latencies.record(late);
        }
        if (late < CAUGHT_UP) {
            steady.countDown();
            if (failed != NONE && caughtUpAt == 0) {
                caughtUpAt = now;
            }
        }
        return false;
    }

    /** Waits until the job keeps up with its records, and some time more, and lets a task fail. */
    void failWhenSteady() {
        try {
            steady.await();
            Thread.sleep(BEFORE);
            synchronized (this) {
                mustFail = true;
            }
        } catch (InterruptedException ignored) {
            // The job has ended before.
        }
    }

    /** How long after they were due records have met their counts. */
    synchronized Histogram latencies() {
        return latencies;
    }

    /** The seconds from the failure until the job had caught up. */
    synchronized double secondsToCatchUp() {
        if (caughtUpAt == 0) {
            String what = failed == NONE ? "no task has failed" : "the job has not caught up";
            throw new IllegalStateException(what + " before the last record: more seconds are needed");
        }
        return (caughtUpAt - failedAt) / 1e9;
    }
}
