package bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.OptionalDouble;
import java.util.concurrent.Callable;

/** The loop that turns {@code go} lines into rounds and rounds into lines of JSON. */
public final class Serve {
    private Serve() {}

    /**
     * What a round came to; {@code extra} is further fields of the line, each with a comma before it, and
     * {@code seconds} what counts of a round of which not all does.
     */
    public record Answer(Digest digest, long records, long bytes, String extra, OptionalDouble seconds) {
        public Answer(Digest digest, long records, long bytes, String extra) {
            this(digest, records, bytes, extra, OptionalDouble.empty());
        }
    }

    /** Serves rounds until standard input ends, or as many as {@code --rounds} says. */
    public static void rounds(Request request, Callable<Answer> round) throws Exception {
        PrintStream out = System.out;
        out.println("{\"ready\":true}");
        out.flush();
        if (request.has("rounds")) {
            for (int n = request.number("rounds"); n > 0; n--) {
                out.println(one(round));
            }
            return;
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.strip().equals("go")) {
                throw new IOException("expected \"go\", found \"" + line.strip() + "\"");
            }
            out.println(one(round));
            out.flush();
        }
    }

    private static String one(Callable<Answer> round) throws Exception {
        resetPeak();
        long start = System.nanoTime();
        Answer answer = round.call();
        double seconds = answer.seconds().orElse((System.nanoTime() - start) / 1e9);
        return String.format(
                Locale.ROOT,
                "{\"seconds\":%.9f,\"digest\":\"%s\",\"records\":%d,\"bytes\":%d,\"peak_rss\":%s%s}",
                seconds, answer.digest(), answer.records(), answer.bytes(), peak(), answer.extra());
    }

    /** Where the kernel cannot, the peak is that of the whole process, which is never too small. */
    private static void resetPeak() {
        try {
            Files.writeString(Path.of("/proc/self/clear_refs"), "5");
        } catch (IOException ignored) {
            // As said.
        }
    }

    private static String peak() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmHWM:")) {
                    String kilobytes = line.substring(6).replace("kB", "").strip();
                    return Long.toString(1024 * Long.parseLong(kilobytes));
                }
            }
        } catch (IOException ignored) {
            // There is no such file on other systems.
        }
        return "null";
    }
}
