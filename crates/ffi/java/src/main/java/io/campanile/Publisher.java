package io.campanile;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import java.time.Duration;
import java.util.Optional;

/**
 * Publishes without waiting for each event. What became of them is told by {@link #sync}, {@link #tally}, {@link #nextLoss} and
 * {@link #close(Duration)}. When it is closed, or the process ends, what is not confirmed is logged.
 */
public final class Publisher implements AutoCloseable {
    private static final int LOSS_OCTETS = 32;

    private final Handle handle;

    Publisher(Pointer pointer) {
        handle = new Handle(pointer, Library::campanile_publisher_free);
    }

    /**
     * Takes an event and gives its number, from 0 on. Waits only when as many are on the way as may be.
     *
     * @param event the event
     * @return its number
     */
    public long publish(Record event) {
        Kind kind = Kind.of(event.getClass());
        handle.enter();
        try {
            Writer writer = EventSupplier.written(kind, event);
            Library.check(Library.campanile_publisher_publish(
                    handle.address, kind.address, writer.address(), writer.size(), writer.number.address));
            return writer.number.octets.getLong(0);
        } finally {
            handle.leave();
        }
    }

    /** Sends what was gathered now. */
    public void flush() {
        Pointer pointer = handle.enter();
        try {
            Library.check(Library.campanile_publisher_flush(pointer));
        } finally {
            handle.leave();
        }
    }

    /**
     * Sends what was gathered and waits until the fate of all events is known.
     *
     * @return how many became what
     */
    public Tally sync() {
        var numbers = new long[Tally.FIELDS];
        Pointer pointer = handle.enter();
        try {
            Library.check(Library.campanile_publisher_sync(pointer, numbers));
        } finally {
            handle.leave();
        }
        return Tally.of(numbers);
    }

    /**
     * How many events became what, as far as is known.
     *
     * @return how many
     */
    public Tally tally() {
        var numbers = new long[Tally.FIELDS];
        Pointer pointer = handle.enter();
        try {
            Library.check(Library.campanile_publisher_tally(pointer, numbers));
        } finally {
            handle.leave();
        }
        return Tally.of(numbers);
    }

    /**
     * The next events that did not arrive, or perhaps not.
     *
     * @return them, if there are some
     */
    public Optional<Loss> nextLoss() {
        Pointer pointer = handle.enter();
        try (var loss = new Memory(LOSS_OCTETS)) {
            int status = Library.campanile_publisher_next_loss(pointer, loss);
            if (status == Library.TIMEOUT) {
                return Optional.empty();
            }
            Library.check(status);
            Pointer reason = loss.getPointer(24);
            var told = new Loss(loss.getLong(0), loss.getLong(8), Loss.Fate.values()[loss.getInt(16) - 1], reason.getString(0, "UTF-8"));
            Library.campanile_text_free(reason);
            return Optional.of(told);
        } finally {
            handle.leave();
        }
    }

    /**
     * Ends it when the fate of all events is known, or when for that long no answer has come.
     *
     * @param limit how long to wait for the next answer
     * @return how many events became what
     */
    public Tally close(Duration limit) {
        var numbers = new long[Tally.FIELDS];
        Pointer pointer = handle.enter();
        try {
            int milliseconds = (int) Math.max(0, Math.min(Integer.MAX_VALUE, limit.toMillis()));
            Library.check(Library.campanile_publisher_close(pointer, milliseconds, numbers));
        } finally {
            handle.leave();
        }
        handle.close();
        return Tally.of(numbers);
    }

    /** Ends it when the fate of all events is known, or when for 2 seconds no answer has come; what is not confirmed then is logged. */
    @Override
    public void close() {
        handle.close();
    }
}
