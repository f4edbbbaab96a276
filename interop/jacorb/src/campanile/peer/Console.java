package campanile.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Standard input and output, a line at a time. */
final class Console {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Console() {}

    /** Prints one line and flushes it. Lines of different threads do not mix. */
    static void say(String line) {
        synchronized (OUT) {
            OUT.print(line + "\n");
            OUT.flush();
        }
    }

    /** The next line, or {@code null} at the end. */
    static String hear() {
        try {
            return IN.readLine();
        } catch (IOException broken) {
            return null;
        }
    }

    /** Waits for the end of input, or for {@code quit}. */
    static void untilQuit() {
        String line = hear();
        while (line != null && !line.equals("quit")) {
            line = hear();
        }
    }
}
