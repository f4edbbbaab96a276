import io.campanile.EventConsumer;
import io.campanile.Publisher;
import io.campanile.EventSupplier;
import io.campanile.Unsigned;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;

/** How fast Java is: Speed supplier|consumer CHANNEL. What it is told and answers, README.md says. */
public final class Speed {
    record Wind(@Unsigned long sent_ns, double speed, float direction, String station) {}

    private static final int LATENCIES_MAX = 100_000;
    private static final Object LOCK = new Object();
    private static final long[] LATENCIES = new long[LATENCIES_MAX];
    private static long count;
    private static long wanted = Long.MAX_VALUE;
    private static long last;

    private Speed() {}

    private static void arrived(Wind wind) {
        long at = System.nanoTime();
        synchronized (LOCK) {
            if (wind.sent_ns() > 0 && count < LATENCIES_MAX) {
                LATENCIES[(int) count] = at - wind.sent_ns();
            }
            last = at;
            if (++count >= wanted) {
                LOCK.notify();
            }
        }
    }

    private static String take(long events, boolean areTimed) throws InterruptedException {
        synchronized (LOCK) {
            wanted = events;
            while (count < wanted) {
                LOCK.wait();
            }
            String latencies = areTimed ? Arrays.toString(Arrays.copyOf(LATENCIES, (int) events)) : "[]";
            count = 0;
            wanted = Long.MAX_VALUE;
            return "{\"last\":" + last + ",\"latencies\":" + latencies + "}";
        }
    }

    private static String flood(Publisher publisher, long events) {
        long began = System.nanoTime();
        for (long i = 0; i < events; i++) {
            publisher.publish(new Wind(0, 11.5, 270, "north"));
        }
        var tally = publisher.sync();
        return "{\"began\":" + began + ",\"lost\":" + (tally.published() - tally.confirmed()) + "}";
    }

    private static String pace(EventSupplier supplier, long events, long period) {
        long began = System.nanoTime();
        for (long i = 1; i <= events; i++) {
            for (long left = i * period; left > 0; left = began + i * period - System.nanoTime()) {
                LockSupport.parkNanos(began + i * period - System.nanoTime());
            }
            supplier.publish(new Wind(System.nanoTime(), 11.5, 270, "north"));
        }
        return "{\"began\":" + began + ",\"lost\":0}";
    }

    /** Begins. */
    public static void main(String[] words) throws Exception {
        boolean consumes = words[0].equals("consumer");
        try (var consumer = consumes ? EventConsumer.of(words[1]).on(Wind.class, Speed::arrived).ready() : null;
                var supplier = consumes ? null : EventSupplier.of(words[1]);
                var publisher = consumes ? null : supplier.publisher()) {
            System.out.println("answer: started");
            var orders = new BufferedReader(new InputStreamReader(System.in));
            for (String line = orders.readLine(); line != null; line = orders.readLine()) {
                String[] order = line.replace("\"", "").split(" ");
                long events = Long.parseLong(order[1]);
                long number = Long.parseLong(order[2]);
                String answer = switch (order[0]) {
                    case "take" -> take(events, number != 0);
                    case "flood" -> flood(publisher, events);
                    default -> pace(supplier, events, number);
                };
                System.out.println("answer: " + answer);
            }
        }
    }
}
