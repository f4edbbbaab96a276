package io.campanile;

import java.time.Duration;
import java.time.Instant;

/** Where a consumer begins in its channel's history. */
public final class StartFrom {
    private final String text;

    private StartFrom(String text) {
        this.text = text;
    }

    String text() {
        return text;
    }

    /**
     * With the first event that is stored.
     *
     * @return the place
     */
    public static StartFrom first() {
        return new StartFrom("first");
    }

    /**
     * With the event of this number.
     *
     * @param number the number
     * @return the place
     */
    public static StartFrom number(long number) {
        return new StartFrom("number:" + Long.toUnsignedString(number));
    }

    /**
     * Behind the event of this number: where a program goes on that handled it.
     *
     * @param number the number
     * @return the place
     */
    public static StartFrom after(long number) {
        return new StartFrom("after:" + Long.toUnsignedString(number));
    }

    /**
     * With so many events.
     *
     * @param count how many
     * @return the place
     */
    public static StartFrom last(long count) {
        return new StartFrom("last:" + count);
    }

    /**
     * With the events of so long.
     *
     * @param length how long
     * @return the place
     */
    public static StartFrom since(Duration length) {
        return new StartFrom("since:" + length.toMillis() + "ms");
    }

    /**
     * With the first event that came to the service then or later.
     *
     * @param time when
     * @return the place
     */
    public static StartFrom time(Instant time) {
        return new StartFrom("unix:" + time.getEpochSecond() + "." + String.format("%09d", time.getNano()));
    }

    /**
     * With the last event of each type.
     *
     * @return the place
     */
    public static StartFrom lastOfEachType() {
        return new StartFrom("last-of-each-type");
    }

    /**
     * With the last event of each value of a component.
     *
     * @param component its name
     * @return the place
     */
    public static StartFrom lastOfEach(String component) {
        return new StartFrom("last-of-each:" + component);
    }
}
