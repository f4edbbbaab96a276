package io.campanile;

import com.sun.jna.Callback;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Publishes records into a channel, of one type or several. Any number of threads may use one at once. It finds back by itself when the
 * service was restarted; while there is none, it waits for one, for {@code wait_for_restart_ms} (30 s), and then throws what
 * {@link CampanileException#wasNotCarriedOut} says more of.
 */
public final class EventSupplier implements AutoCloseable {
    private static final ThreadLocal<Writer> WRITER = ThreadLocal.withInitial(Writer::new);

    /** Those with callbacks that are not closed, whoever has forgotten them: the library may call them. */
    private static final Set<EventSupplier> OPEN = ConcurrentHashMap.newKeySet();

    private final Handle handle;
    /** For the library: nothing else keeps them. */
    private final Set<Callback> callbacks = ConcurrentHashMap.newKeySet();
    /** Of {@link #publishAsync}: there while there is something to do. */
    private final Executor thread = new ThreadPoolExecutor(0, 1, 1, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), task -> {
        var made = new Thread(task, "campanile-publish");
        made.setDaemon(true);
        return made;
    });

    private EventSupplier(Pointer pointer) {
        handle = new Handle(pointer, Library::campanile_supplier_free, Library::campanile_supplier_stop_waiting);
    }

    /**
     * Connects to a channel, which is made if there is none, with the settings of the environment.
     *
     * @param channel the channel's name
     * @return the supplier
     */
    public static EventSupplier of(String channel) {
        return of(channel, null);
    }

    /**
     * Connects to a channel, which is made if there is none.
     *
     * @param channel the channel's name
     * @param settings where it is, and how; null for those of the environment
     * @return the supplier
     */
    public static EventSupplier of(String channel, Settings settings) {
        var made = new PointerByReference();
        Pointer with = settings == null ? null : settings.pointer;
        Library.check(Library.campanile_supplier_new(Library.text(channel, "channel"), with, made));
        return new EventSupplier(made.getValue());
    }

    /**
     * Publishes an event and waits until the service has taken it.
     *
     * @param event the event
     */
    public void publish(Record event) {
        Kind kind = Kind.of(event.getClass());
        handle.enter();
        try {
            Writer writer = written(kind, event);
            Library.check(Library.campanile_supplier_publish(handle.address, kind.address, writer.address(), writer.size()));
        } finally {
            handle.leave();
        }
    }

    /**
     * Publishes an event on a thread of the supplier's, in the order in which this is called.
     *
     * @param event the event
     * @return done when the service has taken the event, or failed by what {@link #publish} throws
     */
    public CompletableFuture<Void> publishAsync(Record event) {
        return CompletableFuture.runAsync(() -> publish(event), thread);
    }

    static Writer written(Kind kind, Record event) {
        Writer writer = WRITER.get();
        writer.clear();
        kind.codec.write(writer, event);
        return writer;
    }

    /**
     * Publishes without waiting for each event: for many of them.
     *
     * @return the publisher
     */
    public Publisher publisher() {
        return publisher(0, 0, 0);
    }

    /**
     * Publishes without waiting for each event.
     *
     * @param gatherEventsMax events that are gathered before they are sent together; 0 for 64
     * @param gatherTimeMaxUs longest time in microseconds that an event waits for others; 0 for 1000
     * @param unansweredMax events that may be on the way without an answer, then publishing waits; 0 for 4096
     * @return the publisher
     */
    public Publisher publisher(int gatherEventsMax, int gatherTimeMaxUs, int unansweredMax) {
        var made = new PointerByReference();
        Pointer pointer = handle.enter();
        try {
            Library.check(Library.campanile_publisher_new(pointer, new int[] {gatherEventsMax, gatherTimeMaxUs, unansweredMax}, made));
        } finally {
            handle.leave();
        }
        return new Publisher(made.getValue());
    }

    /**
     * Has a callback called for what {@link #publish} does not throw: over DDS, readers that do not match. Default: it is logged. It runs on
     * threads of the library's, and no more when {@link #close} has returned.
     *
     * @param callback what is called
     */
    public void onTrouble(Consumer<? super Trouble> callback) {
        Library.OnTrouble function = EventConsumer.reporting(callback);
        Native.setCallbackThreadInitializer(function, EventConsumer.DAEMON);
        Pointer pointer = handle.enter();
        try {
            callbacks.add(function);
            OPEN.add(this);
            Library.check(Library.campanile_supplier_on_trouble(pointer, function, null, null));
        } finally {
            handle.leave();
        }
    }

    /**
     * How often it has had to find its way back to a service that was restarted.
     *
     * @return how often
     */
    public long reconnections() {
        Pointer pointer = handle.enter();
        try {
            return Library.campanile_supplier_reconnections(pointer);
        } finally {
            handle.leave();
        }
    }

    /**
     * How many threads wait in {@link #publish} until the service is there again.
     *
     * @return how many
     */
    public int waiting() {
        Pointer pointer = handle.enter();
        try {
            return Library.campanile_supplier_waiting(pointer);
        } finally {
            handle.leave();
        }
    }

    /** Takes leave of the service. Threads that wait for it in {@link #publish} wait no longer, and are told what they wait about. */
    @Override
    public void close() {
        handle.close();
        OPEN.remove(this);
    }
}
