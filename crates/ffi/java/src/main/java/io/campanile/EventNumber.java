package io.campanile;

import com.sun.jna.Pointer;
import java.time.Instant;
import java.util.Optional;

/**
 * Which event of its channel one is, of a consumer with {@link EventConsumer#startFrom}.
 *
 * @param number its number: numbers rise, and some may be missing
 * @param came when it came to the service, by its clock, if that is known
 */
public record EventNumber(long number, Optional<Instant> came) {
    /** Where an event has its number, and behind it its time. */
    private static final long NUMBER = 80;

    static Optional<EventNumber> of(Pointer event) {
        long number = event.getLong(NUMBER);
        long came = event.getLong(NUMBER + 8);
        if (number == 0) {
            return Optional.empty();
        }
        return Optional.of(new EventNumber(number, came == 0 ? Optional.empty() : Optional.of(Instant.ofEpochSecond(0, came))));
    }
}
