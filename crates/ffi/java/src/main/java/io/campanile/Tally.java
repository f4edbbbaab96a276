package io.campanile;

/**
 * How many events became what.
 *
 * @param published events that the publisher took, and gave numbers from 0 on
 * @param confirmed of these, those of which it is known that the service has them
 * @param refused those that the service refused
 * @param unknown those of which it is not known whether the service has them: the connection was lost meanwhile
 * @param notSent those that the service certainly does not have
 * @param reconnections how often the connection had to be made anew
 */
public record Tally(long published, long confirmed, long refused, long unknown, long notSent, long reconnections) {
    static final int FIELDS = 6;

    static Tally of(long[] numbers) {
        return new Tally(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]);
    }
}
