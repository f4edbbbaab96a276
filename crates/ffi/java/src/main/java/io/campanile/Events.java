package io.campanile;

import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.Flow;

/**
 * The events of a type, one after the other. One thread at a time uses it. Up to 256 events wait here for being asked for; beyond that
 * they wait at the service.
 *
 * @param <T> the record
 */
public final class Events<T extends Record> implements Iterable<T>, Flow.Publisher<T> {
    private final EventConsumer consumer;
    private final Kind kind;
    private final Class<T> type;
    private final Reader reader = new Reader();
    private volatile Optional<EventNumber> number = Optional.empty();
    private boolean isSubscribed;

    Events(EventConsumer consumer, Kind kind, Class<T> type) {
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
        return Optional.ofNullable(next(Math.max(0, limit.toMillis())));
    }

    private T next(long limitMs) {
        return type.cast(consumer.next(kind, reader, limitMs, came -> number = came));
    }

    /** The next event, or null when there will be none any more. */
    T take() {
        return next(-1);
    }

    void stop() {
        consumer.stop();
    }

    boolean haveEnded() {
        return consumer.hasEnded();
    }

    /**
     * The number of the event that came last, of a consumer with {@link EventConsumer#startFrom}.
     *
     * @return the number; empty where the channel stores no history
     */
    public Optional<EventNumber> number() {
        return number;
    }

    /**
     * Gives the events to a subscriber, on a thread of its own, as many as it asks for; others wait at the service. There is one subscriber;
     * when it cancels, the subscription ends, and when the consumer is closed, the events are complete.
     *
     * @param subscriber the subscriber
     */
    @Override
    public void subscribe(Flow.Subscriber<? super T> subscriber) {
        synchronized (this) {
            if (isSubscribed) {
                throw new IllegalStateException("these events have a subscriber; another one takes events of a consumer of its own");
            }
            isSubscribed = true;
        }
        new Flowing<>(this, subscriber).start();
    }

    /** Waits for the next event, and ends when the consumer is closed. */
    @Override
    public Iterator<T> iterator() {
        return new Iterator<>() {
            private T next;

            @Override
            public boolean hasNext() {
                if (next == null) {
                    next = take();
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
