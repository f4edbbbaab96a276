package io.campanile;

/**
 * Events that did not arrive, or perhaps not.
 *
 * @param first the number of the first of them
 * @param count how many they are
 * @param fate what became of them
 * @param reason why
 */
public record Loss(long first, long count, Fate fate, String reason) {
    /** What became of events. */
    public enum Fate {
        /** The service refused them. */
        REFUSED,
        /** The connection was lost after they were sent: sent again, they may arrive twice. */
        UNKNOWN,
        /** The connection was lost before they were sent: they can be published again. */
        NOT_SENT
    }
}
