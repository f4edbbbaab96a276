package io.campanile;

import java.util.concurrent.Flow;

/** Events for one subscriber of {@link Flow}, on a thread of its own, no more of them than it asked for. */
final class Flowing<T extends Record> implements Flow.Subscription, Runnable {
    private final Events<T> events;
    private final Flow.Subscriber<? super T> subscriber;
    private long asked;
    private boolean isCancelled;
    private IllegalArgumentException mistake;

    Flowing(Events<T> events, Flow.Subscriber<? super T> subscriber) {
        this.events = events;
        this.subscriber = subscriber;
    }

    void start() {
        var thread = new Thread(this, "campanile-flow");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public synchronized void request(long count) {
        if (count <= 0) {
            mistake = new IllegalArgumentException("so many events were asked for: " + count);
            isCancelled = true;
            events.stop();
        } else {
            asked = asked + count < 0 ? Long.MAX_VALUE : asked + count;
        }
        notifyAll();
    }

    @Override
    public synchronized void cancel() {
        isCancelled = true;
        notifyAll();
        events.stop();
    }

    /** Waits until one is asked for; says whether the subscriber still wants any. */
    private synchronized boolean isWanted() throws InterruptedException {
        while (asked == 0 && !isCancelled && !events.haveEnded()) {
            wait(LOOK_EVERY_MS);
        }
        asked--;
        return !isCancelled;
    }

    /** How often a thread without demand looks whether the consumer was closed. */
    private static final long LOOK_EVERY_MS = 100;

    private synchronized boolean isCancelled() {
        return isCancelled;
    }

    @Override
    public void run() {
        try {
            subscriber.onSubscribe(this);
            T event;
            while (isWanted() && (event = events.take()) != null && !isCancelled()) {
                subscriber.onNext(event);
            }
            if (mistake != null) {
                subscriber.onError(mistake);
            } else if (!isCancelled()) {
                subscriber.onComplete();
            }
        } catch (Throwable thrown) {
            events.stop();
            subscriber.onError(thrown);
        }
    }
}
