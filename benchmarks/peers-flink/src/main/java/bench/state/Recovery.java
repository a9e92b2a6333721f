package bench.state;

import bench.Cluster;
import bench.DigestSink;
import bench.Request;
import bench.Serve;
import java.time.Duration;
import java.util.Locale;
import java.util.OptionalDouble;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;

/**
 * The time from a failure until a job has its state back and has caught up. A task fails, and the job begins again at
 * once, in the same process: the virtual machine stays, with all that it has compiled.
 */
public final class Recovery {
    private Recovery() {}

    /**
     * Serves {@code --distinct}, {@code --every-ms}, {@code --seconds}, what {@link Backend} has, and
     * {@code --per-second} or {@code --load-percent} of as many records a second as the job can do.
     */
    public static void serve(Request request, int cores) throws Exception {
        long distinct = request.longNumber("distinct");
        long every = request.longNumber("every-ms");
        Configuration settings = Backend.of(request, cores);
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 1);
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ZERO);
        try (Cluster cluster = new Cluster(cores, settings)) {
            ScheduledJob job = new ScheduledJob(cluster, cores, settings, distinct, every);
            long perSecond = job.perSecond(request);
            // As long as --seconds, and then until each key has come once more.
            long records = 2 * distinct + perSecond * request.longNumber("seconds");
            Serve.rounds(request, () -> {
                Trial trial = Trial.begin(distinct, perSecond);
                Thread failure = new Thread(trial::failWhenSteady, "failure");
                failure.setDaemon(true);
                failure.start();
                job.run(records);
                failure.interrupt();
                failure.join();
                String extra = String.format(Locale.ROOT, ",\"per_second\":%d", perSecond);
                OptionalDouble seconds = OptionalDouble.of(trial.secondsToCatchUp());
                return new Serve.Answer(DigestSink.take(), records, Long.BYTES * records, extra, seconds);
            });
        }
    }
}
