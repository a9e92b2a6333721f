package bench;

import java.util.HashMap;
import java.util.Map;

/** A contestant's command line: {@code CASE --name value ...}. */
public final class Request {
    private final String name;
    private final Map<String, String> options = new HashMap<>();

    Request(String[] words) {
        if (words.length == 0) {
            throw new IllegalArgumentException("usage: PROGRAM CASE [--name value]...");
        }
        name = words[0];
        for (int at = 1; at < words.length; at += 2) {
            if (!words[at].startsWith("--")) {
                throw new IllegalArgumentException("expected an option, found " + words[at]);
            }
            if (at + 1 == words.length) {
                throw new IllegalArgumentException(words[at] + " needs a value");
            }
            options.put(words[at].substring(2), words[at + 1]);
        }
    }

    /** The first word. */
    public String name() {
        return name;
    }

    /** Whether the option was given. */
    public boolean has(String option) {
        return options.containsKey(option);
    }

    /** The value of an option, which must have been given. */
    public String value(String option) {
        String value = options.get(option);
        if (value == null) {
            throw new IllegalArgumentException("--" + option + " is missing");
        }
        return value;
    }

    /** The value of an option as a number. */
    public int number(String option) {
        return Integer.parseInt(value(option));
    }

    /** The value of an option as a number that may be large. */
    public long longNumber(String option) {
        return Long.parseLong(value(option));
    }
}
