package bench.latency;

import java.io.Serializable;

/** What is asked for: readings a second, how many in all, of how many keys; windows in milliseconds. */
public record Load(double rate, long events, int keys, long size, long slide) implements Serializable {}
