package io.campanile;

import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * The events of a type, one after the other. One thread at a time uses it. Up to 256 events wait here for being asked for; beyond that
 * they wait at the service.
 *
 * @param <T> the record
 */
public final class Events<T extends Record> implements Iterable<T> {
    private final Consumer consumer;
    private final Kind kind;
    private final Class<T> type;
    private final Reader reader = new Reader();

    Events(Consumer consumer, Kind kind, Class<T> type) {
        this.consumer = consumer;
        this.kind = kind;
        this.type = type;
    }

    /**
     * The next event, if one comes within that time.
     *
     * @param limit how long to wait
     * @return the event, if one came
     */
    public Optional<T> next(Duration limit) {
        return Optional.ofNullable(type.cast(consumer.next(kind, reader, Math.max(0, limit.toMillis()))));
    }

    /** Waits for the next event, and ends when the consumer is closed. */
    @Override
    public Iterator<T> iterator() {
        return new Iterator<>() {
            private T next;

            @Override
            public boolean hasNext() {
                if (next == null) {
                    next = type.cast(consumer.next(kind, reader, -1));
                }
                return next != null;
            }

            @Override
            public T next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                T event = next;
                next = null;
                return event;
            }
        };
    }
}
