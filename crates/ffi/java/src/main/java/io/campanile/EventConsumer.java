package io.campanile;

import com.sun.jna.Callback;
import com.sun.jna.CallbackThreadInitializer;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import java.util.function.BiPredicate;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * Receives events as records: made, told what is wanted, and begun with {@link #ready}. Callbacks run on a thread of the library's, one at
 * a time, in the order of the channel; while one runs, the consumer's other events wait. What they throw is told as trouble, and the next
 * event comes. They may publish. When {@link #close} has returned, none runs any more.
 */
public final class EventConsumer implements AutoCloseable {
    private static final int DONE = 0;
    private static final int ENOUGH = 1;
    private static final int FAILED = 2;
    static final CallbackThreadInitializer DAEMON = new CallbackThreadInitializer(true, false, "campanile");
    /** Those that are ready and not closed, whoever has forgotten them: the library may call them. */
    private static final Set<EventConsumer> OPEN = ConcurrentHashMap.newKeySet();

    private final Handle handle;
    /** For the library: nothing else keeps them. */
    private final List<Callback> callbacks = new ArrayList<>();

    private EventConsumer(Pointer pointer) {
        handle = new Handle(pointer, Library::campanile_consumer_free);
    }

    /**
     * A consumer of a channel's events, with the settings of the environment.
     *
     * @param channel the channel's name
     * @return the consumer
     */
    public static EventConsumer of(String channel) {
        return of(channel, null);
    }

    /**
     * A consumer of a channel's events.
     *
     * @param channel the channel's name
     * @param settings where it is, and how; null for those of the environment
     * @return the consumer
     */
    public static EventConsumer of(String channel, Settings settings) {
        var made = new PointerByReference();
        Pointer with = settings == null ? null : settings.pointer;
        Library.check(Library.campanile_consumer_new(Library.text(channel, "channel"), with, made));
        return new EventConsumer(made.getValue());
    }

    /** What is done with the library's handle. */
    private interface Call {
        int with(Pointer pointer);
    }

    static Library.OnTrouble reporting(Consumer<? super Trouble> callback) {
        return (context, trouble) -> {
            try {
                callback.accept(Trouble.of(trouble));
            } catch (Throwable thrown) {
                System.getLogger("io.campanile").log(System.Logger.Level.ERROR, "the callback for trouble has thrown", thrown);
            }
        };
    }

    private EventConsumer check(Call call) {
        Pointer pointer = handle.enter();
        try {
            Library.check(call.with(pointer));
        } finally {
            handle.leave();
        }
        return this;
    }

    private <T extends Callback> T kept(T callback) {
        Native.setCallbackThreadInitializer(callback, DAEMON);
        callbacks.add(callback);
        return callback;
    }

    /**
     * Has a callback called for events of a type. Several types may be asked for. Records are made of what comes under the type's name:
     * components by name, others left out, numbers widened; what cannot be is told as trouble.
     *
     * @param <T> the record
     * @param type its class
     * @param callback what is called
     * @return this
     */
    public <T extends Record> EventConsumer on(Class<T> type, Consumer<? super T> callback) {
        return onWhile(type, event -> {
            callback.accept(event);
            return true;
        });
    }

    /**
     * As {@link #on}, with a callback that says whether it wants more; when it does not, the subscription ends.
     *
     * @param <T> the record
     * @param type its class
     * @param callback what is called
     * @return this
     */
    public <T extends Record> EventConsumer onWhile(Class<T> type, Predicate<? super T> callback) {
        return onEach(type, (event, address) -> callback.test(event));
    }

    /**
     * As {@link #on}, with the event's number, of a consumer with {@link #startFrom}; empty where the channel stores no history.
     *
     * @param <T> the record
     * @param type its class
     * @param callback what is called
     * @return this
     */
    public <T extends Record> EventConsumer onNumbered(Class<T> type, BiConsumer<? super T, Optional<EventNumber>> callback) {
        return onEach(type, (event, address) -> {
            callback.accept(event, EventNumber.of(address));
            return true;
        });
    }

    private <T extends Record> EventConsumer onEach(Class<T> type, BiPredicate<T, Pointer> callback) {
        Kind kind = Kind.of(type);
        var reader = new Reader();
        Library.OnEvent function = kept((context, event) -> answer(() -> {
            var address = new Pointer(event);
            return callback.test(type.cast(read(kind, reader, address)), address);
        }));
        return check(pointer -> Library.campanile_consumer_on(pointer, kind.pointer, function, null, null));
    }

    /**
     * Has a callback called for events of all other types.
     *
     * @param callback what is called
     * @return this
     */
    public EventConsumer onAny(Consumer<? super Dynamic> callback) {
        Library.OnEvent function = kept((context, address) -> answer(() -> {
            var event = new Pointer(address);
            var json = new PointerByReference();
            Library.check(Library.campanile_event_json(event, json));
            callback.accept(new Dynamic(text(event, 0), text(event, 16), Library.taken(json)));
            return true;
        }));
        return check(pointer -> Library.campanile_consumer_on_any(pointer, function, null, null));
    }

    /**
     * Has a callback called for all that is no event: gaps, types that do not fit, callbacks that throw or are slow. It may be called by
     * several threads at once. Default: it is logged.
     *
     * @param callback what is called
     * @return this
     */
    public EventConsumer onTrouble(Consumer<? super Trouble> callback) {
        Library.OnTrouble function = kept(reporting(callback));
        return check(pointer -> Library.campanile_consumer_on_trouble(pointer, function, null, null));
    }

    /**
     * Only events for which this holds: {@code $speed > 10}. The service sends nothing else.
     *
     * @param constraint in the Extended Trader Constraint Language
     * @return this
     */
    public EventConsumer filter(String constraint) {
        return check(pointer -> Library.campanile_consumer_filter(pointer, Library.text(constraint, "constraint")));
    }

    /**
     * Begins in the channel's history, where that stores one, and has events come with their numbers. A subscription that has to be made
     * anew goes on behind the last event that came. Not over DDS.
     *
     * @param start where
     * @return this
     */
    public EventConsumer startFrom(StartFrom start) {
        return check(pointer -> Library.campanile_consumer_start_from(pointer, Library.text(start.text(), "start")));
    }

    /**
     * How long a callback may take before that is told as trouble. Default 1 s.
     *
     * @param limit how long
     * @return this
     */
    public EventConsumer slowAfter(Duration limit) {
        return check(pointer -> Library.campanile_consumer_slow_after(pointer, (int) limit.toMillis()));
    }

    /**
     * Subscribes: events that are published from now on come.
     *
     * @return this, to be closed
     */
    public EventConsumer ready() {
        boolean isFirst = OPEN.add(this);
        try {
            return check(Library::campanile_consumer_ready);
        } catch (RuntimeException error) {
            // One that is ready already goes on.
            if (isFirst) {
                close();
            }
            throw error;
        }
    }

    /**
     * Subscribes, and gives the events of a type one after the other: {@code for (Wind wind : consumer.events(Wind.class))}. It ends when
     * the consumer is closed.
     *
     * @param <T> the record
     * @param type its class
     * @return the events
     */
    public <T extends Record> Events<T> events(Class<T> type) {
        Kind kind = Kind.of(type);
        check(pointer -> Library.campanile_consumer_on(pointer, kind.pointer, null, null, null));
        ready();
        return new Events<>(this, kind, type);
    }

    /**
     * How often the subscription has found back to a service, since that was restarted or had disconnected it.
     *
     * @return how often; 0 once it is closed
     */
    public long reconnections() {
        return handle.isClosed() ? 0 : ask(Library::campanile_consumer_reconnections);
    }

    /** Has {@link #next} end without waiting, by any thread. */
    void stop() {
        if (!handle.isClosed()) {
            check(Library::campanile_consumer_stop);
        }
    }

    private <R> R ask(Function<Pointer, R> question) {
        Pointer pointer = handle.enter();
        try {
            return question.apply(pointer);
        } finally {
            handle.leave();
        }
    }

    /** Asks the service now whether the subscription is still there, and makes it anew if not. */
    public void check() {
        check(Library::campanile_consumer_check);
    }

    /**
     * Whether it is over: closed, or a callback had enough.
     *
     * @return whether it is
     */
    public boolean hasEnded() {
        if (handle.isClosed()) {
            return true;
        }
        return ask(pointer -> Library.campanile_consumer_has_ended(pointer) != 0);
    }

    /** Ends the subscription, when a callback that runs has returned. The consumer's own callback cannot: it would wait for itself. */
    @Override
    public void close() {
        if (!handle.isClosed()) {
            check(Library::campanile_consumer_close);
            handle.close();
            OPEN.remove(this);
        }
    }

    /** What a callback does; returns whether more is wanted. */
    private interface Handling {
        boolean handle();
    }

    private static int answer(Handling handling) {
        try {
            return handling.handle() ? DONE : ENOUGH;
        } catch (Throwable thrown) {
            Library.campanile_callback_failed(thrown.toString().replace('\0', ' '));
            return FAILED;
        }
    }

    private static Object read(Kind kind, Reader reader, Pointer event) {
        reader.begin(event);
        return kind.codec.read(reader);
    }

    private static String text(Pointer event, long offset) {
        return new String(event.getPointer(offset).getByteArray(0, (int) event.getLong(offset + 8)), StandardCharsets.UTF_8);
    }

    /** The next event, when one comes within that time; null if not, or if it is closed. Its number is given to {@code number}. */
    Object next(Kind kind, Reader reader, long limitMs, Consumer<Optional<EventNumber>> number) {
        var came = new PointerByReference();
        int status;
        Pointer pointer = handle.enter();
        try {
            status = Library.campanile_consumer_next(pointer, limitMs, came);
        } finally {
            handle.leave();
        }
        if (status == Library.TIMEOUT || status == Library.CLOSED) {
            return null;
        }
        Library.check(status);
        try {
            number.accept(EventNumber.of(came.getValue()));
            return read(kind, reader, came.getValue());
        } finally {
            Library.campanile_event_free(came.getValue());
        }
    }
}
