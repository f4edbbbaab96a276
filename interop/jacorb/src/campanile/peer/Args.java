package campanile.peer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The command line, read the same way by every sub-command: {@code --name value}, {@code --flag}, names may repeat. */
final class Args {
    /** What the command line asks for makes no sense; ends the program with status 2. */
    static final class Usage extends RuntimeException {
        Usage(String what) {
            super(what);
        }
    }

    private final String command;
    private final Map<String, List<String>> options = new HashMap<>();

    Args(String[] words) {
        if (words.length == 0) {
            throw new Usage("a sub-command is missing");
        }
        command = words[0];
        for (int i = 1; i < words.length; ++i) {
            if (!words[i].startsWith("--")) {
                throw new Usage("not an option: " + words[i]);
            }
            List<String> values = options.computeIfAbsent(words[i].substring(2), name -> new ArrayList<>());
            // A word that does not look like an option is this one's value; without one it is a flag.
            boolean hasValue = i + 1 < words.length && !words[i + 1].startsWith("--");
            values.add(hasValue ? words[++i] : "");
        }
    }

    String command() {
        return command;
    }

    boolean has(String name) {
        return options.containsKey(name);
    }

    /** The last value given for {@code name}, or {@code otherwise}. */
    String text(String name, String otherwise) {
        List<String> values = options.get(name);
        return values == null ? otherwise : values.get(values.size() - 1);
    }

    long number(String name, long otherwise) {
        if (!has(name)) {
            return otherwise;
        }
        try {
            return Long.parseLong(text(name, ""));
        } catch (NumberFormatException wrong) {
            throw new Usage("--" + name + " wants a number");
        }
    }

    /** Every value given for {@code name}, in order. */
    List<String> all(String name) {
        return options.getOrDefault(name, List.of());
    }
}
